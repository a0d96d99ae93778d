//! Lion as timm implements it (`timm/optim/lion.py`); `torch.optim` does not have it.

use super::rule::{Rule, TORCH, ZEROS};

/// `Lion(lr)`. Weight decay is in place.
pub(super) const LION: Rule = Rule {
    module: "timm.optim",
    class: "Lion",
    state: &[ZEROS],
    foreach: Some(|frame| frame.assign("updates", "aten::_foreach_lerp")),
    for_loop: |frame| frame.assign("update", "aten::lerp"),
    assumed: "Lion is no optimizer of torch.optim: it is assumed to be timm's; others make a temporary more or \
              fewer",
    ..TORCH
};
