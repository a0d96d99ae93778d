//! Adagrad (`torch/optim/adagrad.py`): the constructor makes the state, for every parameter.

use super::rule::{Rule, STEP, Slot, TORCH};

const SUM: Slot = Slot::Like("aten::full_like");

/// `Adagrad(lr)`.
pub(super) const ADAGRAD: Rule = Rule {
    class: "Adagrad",
    state: &[SUM],
    in_constructor: true,
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("device_grads", "aten::_foreach_add");
        }
        if frame.is_out_of_place() {
            frame.temporary("aten::_foreach_sqrt");
            frame.assign("std", "aten::_foreach_add");
            frame.temporary("aten::_foreach_mul");
            frame.assign("toAdd", "aten::_foreach_div");
            return;
        }
        frame.assign("std", "aten::_foreach_sqrt");
        if frame.decays {
            frame.rename("device_grads", "numerator");
        } else {
            frame.assign("numerator", "aten::_foreach_mul");
        }
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.assign("std", "aten::sqrt");
    },
    fused: Some(&[STEP, SUM]),
    ..TORCH
};
