//! Rectified Adam (`torch/optim/radam.py`).
//!
//! The variance is rectified from the sixth step on (with the usual `beta2`); the loop over single
//! parameters makes four temporaries more from then on, which is after the iterations that are run.

use super::rule::{Rule, ZEROS};
use crate::config::Implementation;

/// `RAdam(lr)`.
pub(super) const RADAM: Rule = Rule {
    class: "RAdam",
    state: &[ZEROS, ZEROS],
    in_constructor: false,
    usual: Implementation::Foreach,
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("grouped_grads", "aten::_foreach_add");
            frame.del("grouped_grads");
        }
        frame.assign("buffer", "aten::_foreach_sqrt");
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.assign("bias_corrected_exp_avg", "aten::div");
        frame.expression("aten::mul");
    },
    fused: None,
};
