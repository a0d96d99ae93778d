//! Adadelta (`torch/optim/adadelta.py`).

use super::rule::{Rule, TORCH, ZEROS};

/// `Adadelta(lr)`: roots of both averages live beside each other.
pub(super) const ADADELTA: Rule = Rule {
    class: "Adadelta",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("device_grads", "aten::_foreach_add");
        }
        frame.assign("std", "aten::_foreach_add");
        frame.assign("deltas", "aten::_foreach_add");
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.assign("std", "aten::add");
        frame.assign("delta", "aten::add");
    },
    ..TORCH
};
