//! Points of the step at which extensions may act: sharding, buckets of gradients, adapters.
//!
//! A hook has access to the runtime and may allocate and free; its allocations are part of the trace. The step
//! itself knows none of its hooks.

use std::cell::{Cell, RefCell};

use super::Parameter;
use crate::eager::autograd::{Leaf, Observer};
use crate::eager::checkpoint::Region;
use crate::eager::{Runtime, Tensor};
use crate::trace::{Category, LabelId};

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
    /// A parameter or buffer has been put on the device; the answer takes its place in the model.
    ///
    /// The answer must have the same type. A parameter that is sharded has no memory of its own
    /// ([`Runtime::without_memory`]): the hook keeps the shard, and gathers the whole around modules.
    fn load(&self, _rt: &Runtime, _name: &str, _category: Category, tensor: Tensor) -> Tensor {
        tensor
    }

    /// All trained parameters are there. The answer is what the optimizer is given in their place, such
    /// as shards of them, whose gradients the hook sets before the optimizer's step.
    fn loaded(&self, _rt: &Runtime, _parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        None
    }

    /// Whether modules are followed, which takes time at each of them.
    fn follows_modules(&self) -> bool {
        true
    }

    /// A module begins; the path of the whole model is empty.
    fn before_module(&self, _rt: &Runtime, _path: &str, _direction: Direction) {}

    /// A module ends.
    fn after_module(&self, _rt: &Runtime, _path: &str, _direction: Direction) {}

    /// A backward has added to a parameter's `.grad`. What came in is still held, as it is by
    /// PyTorch's post hooks.
    fn after_accumulation(&self, _rt: &Runtime, _leaf: &Leaf) {}

    /// The gradients of a step are complete.
    fn before_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {}

    /// The optimizer has stepped.
    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {}
}

/// Nothing is added to the step.
impl Hooks for () {
    fn follows_modules(&self) -> bool {
        false
    }
}

/// Follows a run through the tree of modules, and calls the hooks where it enters and leaves one.
pub(super) struct Modules<'a> {
    rt: &'a Runtime,
    hooks: &'a dyn Hooks,
    direction: Direction,
    /// The module whose part is run, which stays entered; `None` for the whole model.
    within: Option<&'a str>,
    label: Cell<LabelId>,
    /// The innermost module.
    path: RefCell<String>,
}

impl<'a> Modules<'a> {
    /// The whole model begins.
    pub(super) fn begin(rt: &'a Runtime, hooks: &'a dyn Hooks, direction: Direction) -> Self {
        rt.aside(|| hooks.before_module(rt, "", direction));
        Self {
            rt,
            hooks,
            direction,
            within: None,
            label: Cell::new(LabelId::default()),
            path: RefCell::default(),
        }
    }

    /// Part of a module begins.
    pub(super) fn resume(rt: &'a Runtime, hooks: &'a dyn Hooks, within: &'a str) -> Self {
        let (label, path) = (Cell::new(LabelId::default()), RefCell::new(within.to_owned()));
        Self { rt, hooks, direction: Direction::Forward, within: Some(within), label, path }
    }

    /// The run goes on in this module.
    pub(super) fn enter(&self, label: LabelId) {
        if self.label.replace(label) == label || !self.hooks.follows_modules() {
            return;
        }
        self.go_to(&self.rt.label_text(label));
    }

    fn go_to(&self, path: &str) {
        let before = self.path.replace(path.to_owned());
        let shared = ancestors(&before).zip(ancestors(path)).take_while(|(a, b)| a == b).count();
        for module in ancestors(&before).skip(shared).collect::<Vec<_>>().into_iter().rev() {
            self.rt.aside(|| self.hooks.after_module(self.rt, module, self.direction));
        }
        for module in ancestors(path).skip(shared) {
            self.rt.aside(|| self.hooks.before_module(self.rt, module, self.direction));
        }
    }

    /// What was begun ends.
    pub(super) fn end(&self) {
        self.go_to(self.within.unwrap_or_default());
        if self.within.is_none() {
            self.rt.aside(|| self.hooks.after_module(self.rt, "", self.direction));
        }
    }
}

/// A module and those around it, from the outermost: `h`, `h.0`, `h.0.attn`.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end)).filter(|path| !path.is_empty())
}

/// The hooks as the engine of autograd calls them.
pub(super) struct InBackward<'a, F> {
    pub(super) modules: Modules<'a>,
    /// What stands where a module's name does and is none: the loss.
    pub(super) loss: LabelId,
    /// Runs a checkpointed region again.
    pub(super) recompute: F,
}

impl<F: Fn(&Region)> Observer for InBackward<'_, F> {
    fn recompute(&self, region: &Region) {
        (self.recompute)(region);
    }

    fn enter_module(&self, module: LabelId) {
        if module != self.loss {
            self.modules.enter(module);
        }
    }

    fn after_accumulation(&self, leaf: &Leaf) {
        let Modules { rt, hooks, .. } = self.modules;
        rt.aside(|| hooks.after_accumulation(rt, leaf));
    }
}
