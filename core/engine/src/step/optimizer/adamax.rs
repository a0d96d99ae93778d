//! Adam with the infinity norm (`torch/optim/adamax.py`).

use super::rule::{Rule, TORCH, ZEROS};

/// `Adamax(lr)`: the absolute values of the gradients, in place where decay has made a copy.
pub(super) const ADAMAX: Rule = Rule {
    class: "Adamax",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| {
        let operator = if frame.decays { "aten::_foreach_add" } else { "aten::_foreach_abs" };
        frame.assign("grouped_grads", operator);
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.expression("aten::abs");
    },
    ..TORCH
};
