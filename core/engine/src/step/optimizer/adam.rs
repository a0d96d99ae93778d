//! Adam, AdamW and AMSGrad (`torch/optim/adam.py`).
//!
//! The root of the second moment is a temporary; AMSGrad takes that of the running maximum, which is
//! kept. AdamW decays the parameters in place. Before PyTorch 2.1 the root with its shift is another list.

use super::frame::Frame;
use super::rule::{Rule, STEP, TORCH, ZEROS, passes};
use crate::eager::launch::Passes;

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
    passes: &UPDATE,
    ..TORCH
};

/// `Adam(lr, amsgrad=True)`.
pub(super) const ADAM_AMSGRAD: Rule = Rule {
    arguments: ", amsgrad=True",
    state: &[ZEROS, ZEROS, ZEROS],
    fused: Some(&[STEP, ZEROS, ZEROS, ZEROS]),
    passes: &UPDATE_OF_MAXIMUM,
    ..ADAM
};

/// `AdamW(lr)`.
pub(super) const ADAMW: Rule = Rule {
    class: "AdamW",
    foreach: Some(roots),
    for_loop: denominator,
    passes: &DECAYED_UPDATE,
    // Its own decay is there in any case.
    decay: passes(0, 0),
    ..ADAM
};

/// `AdamW(lr, amsgrad=True)`.
pub(super) const ADAMW_AMSGRAD: Rule = Rule {
    class: ADAMW.class,
    foreach: ADAMW.foreach,
    for_loop: ADAMW.for_loop,
    passes: &DECAYED_UPDATE_OF_MAXIMUM,
    decay: ADAMW.decay,
    ..ADAM_AMSGRAD
};

/// `lerp_`, `mul_`, `addcmul_`, `sqrt`, `div_`, `add_`, `addcdiv_`.
const UPDATE: [Passes; 7] = [
    passes(2, 1),
    passes(1, 1),
    passes(2, 1),
    passes(1, 1),
    passes(1, 1),
    passes(1, 1),
    passes(3, 1),
];
/// The same, and `maximum_` before the root.
const UPDATE_OF_MAXIMUM: [Passes; 8] = {
    let [mean, decay, square, root, correct, shift, update] = UPDATE;
    [mean, decay, square, passes(2, 1), root, correct, shift, update]
};
/// `mul_` of the parameters, and the update.
const DECAYED_UPDATE: [Passes; 8] = {
    let [mean, decay, square, root, correct, shift, update] = UPDATE;
    [passes(1, 1), mean, decay, square, root, correct, shift, update]
};
/// The same with `maximum_`.
const DECAYED_UPDATE_OF_MAXIMUM: [Passes; 9] = {
    let [mean, decay, square, most, root, correct, shift, update] = UPDATE_OF_MAXIMUM;
    [passes(1, 1), mean, decay, square, most, root, correct, shift, update]
};

fn roots(frame: &mut Frame<'_>) {
    frame.assign("exp_avg_sq_sqrt", "aten::_foreach_sqrt");
    if frame.is_out_of_place() {
        frame.assign("denom", "aten::_foreach_add");
    }
}

/// `denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)`
fn denominator(frame: &mut Frame<'_>) {
    frame.temporary("aten::sqrt");
    frame.assign("denom", "aten::div");
}
