//! Stochastic gradient descent (`torch/optim/sgd.py`).

use super::frame::Frame;
use super::rule::{Rule, Slot, TORCH, passes};

/// `SGD(lr)`.
pub(super) const PLAIN: Rule = Rule {
    class: "SGD",
    state: &[],
    foreach: Some(decay_all),
    for_loop: decay_one,
    fused: Some(&[]),
    passes: &[passes(2, 1)],
    ..TORCH
};

/// `SGD(lr, momentum)`: the buffer is a clone of the first gradient.
pub(super) const MOMENTUM: Rule = Rule {
    arguments: ", momentum=0.9",
    foreach: Some(|frame| {
        decay_all(frame);
        frame.keep("aten::clone");
    }),
    for_loop: |frame| {
        decay_one(frame);
        frame.keep("aten::clone");
    },
    fused: Some(&[Slot::Like("aten::empty_like")]),
    passes: &[passes(1, 1), passes(2, 1), passes(2, 1)],
    ..PLAIN
};

/// `SGD(lr, momentum, nesterov=True)`: the list of gradients is changed in place, a single one is not.
pub(super) const NESTEROV: Rule = Rule {
    arguments: ", momentum=0.9, nesterov=True",
    for_loop: |frame| {
        decay_one(frame);
        frame.keep("aten::clone");
        frame.assign("grad", "aten::add");
    },
    passes: &[passes(1, 1), passes(2, 1), passes(2, 1), passes(2, 1)],
    ..MOMENTUM
};

fn decay_all(frame: &mut Frame<'_>) {
    if frame.decays {
        frame.assign("grads", "aten::_foreach_add");
    }
}

fn decay_one(frame: &mut Frame<'_>) {
    frame.del("grad");
    if frame.decays {
        frame.assign("grad", "aten::add");
    }
}
