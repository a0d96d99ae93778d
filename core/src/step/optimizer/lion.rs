//! Lion, which `torch.optim` has not: as timm implements it (`timm/optim/lion.py`).

use super::rule::{Rule, ZEROS};
use crate::config::Implementation;

/// `Lion(lr)`. Weight decay is in place.
pub(super) const LION: Rule = Rule {
    class: "Lion",
    state: &[ZEROS],
    in_constructor: false,
    usual: Implementation::Foreach,
    foreach: Some(|frame| frame.assign("updates", "aten::_foreach_lerp")),
    for_loop: |frame| frame.assign("update", "aten::lerp"),
    fused: None,
};
