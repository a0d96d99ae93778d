//! What is said of one optimizer: its state, and one update for each way of walking over parameters.

use super::frame::Frame;
use crate::config::Implementation;

/// One optimizer, or one setting of it that changes memory.
#[derive(Debug)]
pub(super) struct Rule {
    /// The class, as its users write it.
    pub(super) class: &'static str,
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
