//! RMSprop (`torch/optim/rmsprop.py`).

use super::frame::Frame;
use super::rule::{Rule, TORCH, ZEROS};

/// `RMSprop(lr)`.
pub(super) const PLAIN: Rule = Rule {
    class: "RMSprop",
    state: &[ZEROS],
    foreach: Some(|frame| all(frame, "aten::_foreach_sqrt")),
    for_loop: |frame| one(frame, "aten::sqrt"),
    ..TORCH
};

/// `RMSprop(lr, momentum=0.9)`.
pub(super) const MOMENTUM: Rule =
    Rule { arguments: ", momentum=0.9", state: &[ZEROS, ZEROS], ..PLAIN };

/// `RMSprop(lr, centered=True)`: `square_avg - grad_avg²` takes the place of `square_avg`.
pub(super) const CENTERED: Rule = Rule {
    arguments: ", centered=True",
    state: &[ZEROS, ZEROS],
    foreach: Some(|frame| all(frame, "aten::_foreach_addcmul")),
    for_loop: |frame| one(frame, "aten::addcmul"),
    ..PLAIN
};

fn all(frame: &mut Frame<'_>, average: &'static str) {
    if frame.decays {
        frame.assign("grouped_grads", "aten::_foreach_add");
    }
    frame.assign("avg", average);
}

fn one(frame: &mut Frame<'_>, average: &'static str) {
    frame.del("grad");
    if frame.decays {
        frame.assign("grad", "aten::add");
    }
    frame.assign("avg", average);
}
