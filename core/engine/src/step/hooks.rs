//! Points of the step at which extensions may act: sharding, buckets of gradients, adapters.
//!
//! A hook has access to the runtime and may allocate and free; its allocations are part of the trace. The step
//! itself knows none of its hooks.

use std::cell::Cell;

use super::Parameter;
use super::loss::Target;
use super::modules::{ModuleId, Modules};
use crate::eager::autograd::{Edge, Leaf, Observer};
use crate::eager::checkpoint::Region;
use crate::eager::{Runtime, Tensor};
use crate::graph::ValueId;
use crate::recover::Program;
use crate::tensor::DType;
use crate::trace::{Category, LabelId};

use super::script::Script;

/// Which way a module is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Its forward, the first time or run again for a checkpoint.
    Forward,
    /// The part of backward that its operators left behind.
    Backward,
}

/// What is called during the step. Every method does nothing unless it is implemented.
///
/// Hooks take `&self`, since they are called while others are under way: keep state in cells.
pub trait Hooks {
    /// The program that runs in place of the whole model's: one stage of it.
    fn program(&self) -> Option<&Program> {
        None
    }

    /// The script that runs in place of the configuration's. Its [`Line::Schedule`](super::script::Line) is
    /// [`Hooks::play`].
    fn script(&self) -> Option<Script> {
        None
    }

    /// Runs forwards and backwards in an order of its own; round 0 is the setup.
    fn play(&self, _rt: &Runtime, _player: &dyn Player, _round: usize) {}

    /// The type in which a parameter or buffer comes to the device, of the type that operators read; `None` for one
    /// that waits on the host.
    fn stored(&self, _category: Category, dtype: DType) -> Option<DType> {
        Some(dtype)
    }

    /// A parameter or buffer has been put on the device; the answer takes its place in the model.
    ///
    /// The answer must have the type that operators read. A parameter that is sharded has no memory of its own
    /// ([`Runtime::without_memory`]): the hook keeps the shard, and gathers the whole around modules.
    fn load(&self, _rt: &Runtime, _name: &str, _category: Category, tensor: Tensor) -> Tensor {
        tensor
    }

    /// The model is on the device: `parameters` are those that are trained, `state` all parameters and buffers, both in
    /// the order of `named_parameters`.
    fn placed(&self, _rt: &Runtime, _parameters: &[Parameter], _state: &[Tensor]) {}

    /// The optimizer is made. The answer is what the optimizer is given in their place, such
    /// as shards of them, whose gradients the hook sets before the optimizer's step.
    fn loaded(&self, _rt: &Runtime, _parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        None
    }

    /// Whether modules are followed, which takes time at each of them.
    fn follows_modules(&self) -> bool {
        true
    }

    /// A module begins; the first is the whole model. `modules` knows its path and what is around it.
    fn before_module(
        &self,
        _rt: &Runtime,
        _modules: &Modules,
        _module: ModuleId,
        _direction: Direction,
    ) {
    }

    /// A module ends.
    fn after_module(
        &self,
        _rt: &Runtime,
        _modules: &Modules,
        _module: ModuleId,
        _direction: Direction,
    ) {
    }

    /// The model has returned these, a loss of its own first; the answer takes their place.
    fn returned(&self, _rt: &Runtime, outputs: Vec<Tensor>) -> Vec<Tensor> {
        outputs
    }

    /// A backward has added to a parameter's `.grad`. What came in is still held, as it is by
    /// PyTorch's post hooks.
    fn after_accumulation(&self, _rt: &Runtime, _leaf: &Leaf) {}

    /// The gradients of a step are complete.
    fn before_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {}

    /// The optimizer has stepped.
    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {}
}

/// A process whose forwards and backwards others order.
pub trait Player {
    /// What the program makes of these inputs, in a training step: the loss where it is the last
    /// stage, and its outputs.
    fn forward(
        &self,
        inputs: Vec<(ValueId, Tensor)>,
        is_last: bool,
        labels: Option<&Tensor>,
    ) -> (Option<Tensor>, Vec<Tensor>);

    /// `loss.backward()`.
    fn backward(&self, loss: &Tensor);

    /// Backward from where an output's gradient goes, with that gradient.
    fn backward_along(&self, root: Edge, gradient: &Tensor);

    /// What the outputs are compared with.
    fn target(&self) -> &Target;
}

/// Nothing is added to the step.
impl Hooks for () {
    fn follows_modules(&self) -> bool {
        false
    }
}

/// Follows a run through the tree of modules, and calls the hooks where it enters and leaves one.
pub(super) struct Walk<'a> {
    rt: &'a Runtime,
    hooks: &'a dyn Hooks,
    modules: &'a Modules,
    direction: Direction,
    /// The module whose part is run, which stays entered.
    within: ModuleId,
    label: Cell<LabelId>,
    /// The innermost module.
    at: Cell<ModuleId>,
}

impl<'a> Walk<'a> {
    /// Through the whole model, which [`Walk::begin`] enters and [`Walk::finish`] leaves.
    pub(super) fn of_model(
        rt: &'a Runtime,
        hooks: &'a dyn Hooks,
        modules: &'a Modules,
        direction: Direction,
    ) -> Self {
        let (label, at) = (Cell::default(), Cell::new(ModuleId::MODEL));
        Self { rt, hooks, modules, direction, within: ModuleId::MODEL, label, at }
    }

    /// The whole model begins.
    pub(super) fn begin(&self) {
        let Self { rt, hooks, modules, direction, .. } = *self;
        rt.aside(|| hooks.before_module(rt, modules, ModuleId::MODEL, direction));
    }

    /// The whole model ends.
    pub(super) fn finish(&self) {
        self.end();
        let Self { rt, hooks, modules, direction, .. } = *self;
        rt.aside(|| hooks.after_module(rt, modules, ModuleId::MODEL, direction));
    }

    /// Part of a module begins.
    pub(super) fn resume(
        rt: &'a Runtime,
        hooks: &'a dyn Hooks,
        modules: &'a Modules,
        within: ModuleId,
    ) -> Self {
        let (label, at, direction) = (Cell::default(), Cell::new(within), Direction::Forward);
        Self { rt, hooks, modules, direction, within, label, at }
    }

    /// The run goes on in this module; a label of none, such as the loss, changes nothing.
    pub(super) fn enter(&self, label: LabelId) {
        if self.label.replace(label) == label || !self.hooks.follows_modules() {
            return;
        }
        if let Some(module) = self.modules.of_label(label) {
            self.go_to(module);
        }
    }

    fn go_to(&self, module: ModuleId) {
        let Self { rt, hooks, modules, direction, .. } = *self;
        let before = self.at.replace(module);
        let shared = modules.shared(before, module);
        for left in modules.within(before, shared) {
            rt.aside(|| hooks.after_module(rt, modules, left, direction));
        }
        for entered in modules.within(module, shared).rev() {
            rt.aside(|| hooks.before_module(rt, modules, entered, direction));
        }
    }

    /// The modules inside of the one whose part was run end.
    pub(super) fn end(&self) {
        self.go_to(self.within);
    }
}

/// The hooks as the engine of autograd calls them.
pub(super) struct InBackward<'a, F, G> {
    pub(super) walk: Walk<'a>,
    /// Runs a checkpointed region again.
    pub(super) recompute: F,
    /// Follows the hooks where a gradient is there.
    pub(super) after_accumulation: G,
}

impl<F: Fn(&Region), G: Fn(&Leaf)> Observer for InBackward<'_, F, G> {
    fn recompute(&self, region: &Region) {
        (self.recompute)(region);
    }

    fn begin(&self) {
        self.walk.begin();
    }

    fn enter_module(&self, module: LabelId) {
        self.walk.enter(module);
    }

    fn finish(&self) {
        self.walk.finish();
    }

    fn after_accumulation(&self, leaf: &Leaf) {
        let Walk { rt, hooks, .. } = self.walk;
        rt.aside(|| hooks.after_accumulation(rt, leaf));
        (self.after_accumulation)(leaf);
    }
}
