//! Adam, AdamW and AMSGrad (`torch/optim/adam.py`).
//!
//! The root of the second moment is a temporary; AMSGrad takes that of the running maximum, which is
//! kept. AdamW decays the parameters in place.

use super::frame::Frame;
use super::rule::{Rule, STEP, TORCH, ZEROS};

/// `Adam(lr)`.
pub(super) const ADAM: Rule = Rule {
    class: "Adam",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| {
        if frame.decays {
            frame.assign("device_grads", "aten::_foreach_add");
            frame.del("device_grads");
        }
        roots(frame);
    }),
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
        denominator(frame);
    },
    fused: Some(&[STEP, ZEROS, ZEROS]),
    ..TORCH
};

/// `Adam(lr, amsgrad=True)`.
pub(super) const ADAM_AMSGRAD: Rule = Rule {
    arguments: ", amsgrad=True",
    state: &[ZEROS, ZEROS, ZEROS],
    fused: Some(&[STEP, ZEROS, ZEROS, ZEROS]),
    ..ADAM
};

/// `AdamW(lr)`.
pub(super) const ADAMW: Rule =
    Rule { class: "AdamW", foreach: Some(roots), for_loop: denominator, ..ADAM };

/// `AdamW(lr, amsgrad=True)`.
pub(super) const ADAMW_AMSGRAD: Rule =
    Rule { class: ADAMW.class, foreach: ADAMW.foreach, for_loop: ADAMW.for_loop, ..ADAM_AMSGRAD };

fn roots(frame: &mut Frame<'_>) {
    frame.assign("exp_avg_sq_sqrt", "aten::_foreach_sqrt");
}

/// `denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)`
fn denominator(frame: &mut Frame<'_>) {
    frame.temporary("aten::sqrt");
    frame.assign("denom", "aten::div");
}
