//! Rectified Adam (`torch/optim/radam.py`).
//!
//! The variance is rectified from the sixth step on (with the usual `beta2`); the loop over single parameters
//! makes five more temporaries from then on. The third simulated step represents those.

use super::frame::{Frame, release};
use super::rule::{Rule, TORCH, ZEROS};

/// `RAdam(lr)`.
pub(super) const RADAM: Rule = Rule {
    class: "RAdam",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("grouped_grads", "aten::_foreach_add");
            frame.del("grouped_grads");
        }
        frame.assign("buffer", "aten::_foreach_sqrt");
        if frame.is_out_of_place() {
            frame.assign("denom", "aten::_foreach_div");
            frame.assign("denom", "aten::ones_like");
        }
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        frame.assign("bias_corrected_exp_avg", "aten::div");
        if frame.is_late() {
            rectified(frame);
        } else {
            frame.expression("aten::mul");
        }
    },
    assumed_of_loop: "RAdam rectifies from its sixth step on, which takes its loop over single parameters five \
                      temporaries more: the third iteration is run as if it were the sixth",
    ..TORCH
};

/// `bias_corrected_exp_avg * lr * _compute_adaptive_lr() * _compute_rect()`.
fn rectified(frame: &Frame<'_>) {
    let scaled = frame.like("aten::mul");
    let root = frame.like("aten::sqrt");
    let reciprocal = frame.like("aten::reciprocal");
    let adaptive = frame.like("aten::mul");
    release(reciprocal);
    release(root);
    let product = frame.like("aten::mul");
    release(scaled);
    release(adaptive);
    let rectified = frame.like("aten::mul");
    release(product);
    release(rectified);
}
