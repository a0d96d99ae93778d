//! Adam with Nesterov momentum (`torch/optim/nadam.py`). `mu_product` stays on the host.

use super::rule::{Rule, TORCH, ZEROS};

/// `NAdam(lr)`.
pub(super) const NADAM: Rule = Rule {
    class: "NAdam",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("grouped_grads", "aten::_foreach_add");
        }
        frame.assign("exp_avg_sq_sqrt", "aten::_foreach_sqrt");
        if frame.is_out_of_place() {
            frame.assign("denom", "aten::_foreach_add");
        }
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.temporary("aten::div");
        frame.assign("denom", "aten::sqrt");
    },
    ..TORCH
};
