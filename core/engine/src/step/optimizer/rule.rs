//! The description of one optimizer: its class, its state, and one update for each implementation of the loop over
//! parameters.

use super::frame::Frame;
use crate::config::Implementation;
use crate::eager::Tensor;
use crate::eager::launch::Passes;

/// One optimizer, or one setting of it that changes memory.
#[derive(Debug)]
pub(super) struct Rule {
    /// The module of the class.
    pub(super) module: &'static str,
    /// The class, as its users write it and as profilers name it.
    pub(super) class: &'static str,
    /// What the class is given besides parameters and learning rate: `, momentum=0.9`.
    pub(super) arguments: &'static str,
    /// Which parameters it is given.
    pub(super) takes: fn(&Tensor) -> bool,
    /// Whether it has a weight decay.
    pub(super) has_decay: bool,
    /// State made for each parameter, in the order of `_init_group`.
    pub(super) state: &'static [Slot],
    /// Whether the constructor makes it; else the first step does.
    pub(super) in_constructor: bool,
    /// What the class takes by itself on CUDA.
    pub(super) usual: Implementation,
    /// `foreach=True`: an update of all parameters of a type at a time.
    pub(super) foreach: Option<Update>,
    /// `foreach=False`: an update of one parameter.
    pub(super) for_loop: Update,
    /// `fused=True`: the state that takes the place of `state`. The kernels themselves take nothing.
    pub(super) fused: Option<&'static [Slot]>,
    /// What each operator of an update reads and writes, of one parameter: empty where that is not written down, so
    /// that one operator over parameter, gradient and state is assumed.
    pub(super) passes: &'static [Passes],
    /// The operator that a weight decay adds.
    pub(super) decay: Passes,
    /// What is assumed of it, for the user; may be empty.
    pub(super) assumed: &'static str,
    /// What is assumed of it where it walks over single parameters; may be empty.
    pub(super) assumed_of_loop: &'static str,
}

/// What classes of `torch.optim` have in common.
pub(super) const TORCH: Rule = Rule {
    module: "torch.optim",
    class: "",
    arguments: "",
    takes: |_| true,
    has_decay: true,
    state: &[],
    in_constructor: false,
    usual: Implementation::Foreach,
    foreach: None,
    for_loop: |_| {},
    fused: None,
    passes: &[],
    decay: passes(2, 1),
    assumed: "",
    assumed_of_loop: "",
};

/// An operator that reads and writes these counts of tensors, each as large as a parameter.
pub(super) const fn passes(reads: u64, writes: u64) -> Passes {
    Passes { reads, writes }
}

impl Rule {
    /// One kernel for the whole update: parameter, gradient and state, of which the gradient is not written.
    pub(super) fn whole(&self) -> Passes {
        let copies = u64::try_from(self.copies()).unwrap_or_default();
        passes(copies.saturating_add(2), copies.saturating_add(1))
    }

    /// COUNT: copies of a parameter that it keeps, of which a gradient's clone is one.
    pub(super) fn copies(&self) -> usize {
        let copies = |slots: &[Slot]| slots.iter().filter(|it| matches!(it, Slot::Like(_))).count();
        copies(self.state).max(self.fused.map_or(0, copies))
    }
}

/// The body of an update, statement by statement.
pub(super) type Update = fn(&mut Frame<'_>);

/// A tensor of state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// As large as the parameter and of its type; the operator that makes it.
    Like(&'static str),
    /// A number on the device, in 32 bits.
    Number(&'static str),
    /// What a function makes of one parameter.
    By(Update),
}

/// `torch.zeros_like(parameter)`.
pub(super) const ZEROS: Slot = Slot::Like("aten::zeros_like");

/// `state["step"]` on the device, as fused kernels want it; elsewhere it stays on the host.
pub(super) const STEP: Slot = Slot::Number("aten::zeros");
