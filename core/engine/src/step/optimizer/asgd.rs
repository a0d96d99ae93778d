//! Averaged SGD (`torch/optim/asgd.py`): `step`, `eta` and `mu` are numbers on the device.

use super::frame::{Frame, List};
use super::rule::{Rule, Slot, TORCH, ZEROS};
use crate::tensor::DType;

/// `ASGD(lr)`.
pub(super) const ASGD: Rule = Rule {
    class: "ASGD",
    state: &[
        Slot::Number("aten::zeros"),
        Slot::By(cloned_number),
        Slot::Number("aten::ones"),
        ZEROS,
    ],
    foreach: Some(all),
    // Until `t0`, a million steps, the average is a copy of the parameter.
    for_loop: |frame| {
        frame.del("grad");
        if frame.decays {
            frame.assign("grad", "aten::add");
        }
    },
    ..TORCH
};

/// `torch.as_tensor(lr, device=…).clone()`
fn cloned_number(frame: &mut Frame<'_>) {
    let sent = frame.number("aten::to");
    frame.keep_typed("aten::clone", DType::Float32, &[]);
    drop(sent);
}

fn all(frame: &mut Frame<'_>) {
    if frame.is_out_of_place() {
        // Averages are written one at a time, and until `t0` copied.
        if frame.decays {
            frame.assign("grouped_grads", "aten::_foreach_add");
        }
        return;
    }
    frame.expression("aten::_foreach_add");
    frame.expression("aten::_foreach_sub");
    frame.mention(&["new_mus", "new_etas"]);
    let eta = |frame: &Frame<'_>| {
        // lr / ((1 + lambd * lr * step) ** alpha)
        let product = frame.number("aten::mul");
        let sum = frame.number("aten::add");
        drop(product);
        let power = frame.number("aten::pow");
        drop(sum);
        let reciprocal = frame.number("aten::reciprocal");
        let eta = frame.number("aten::mul");
        drop(reciprocal);
        drop(power);
        eta
    };
    let etas: List = frame.parameters.iter().map(|_| eta(frame)).collect();
    frame.bind("new_etas", etas);
    let mus = frame.parameters.iter().map(|_| frame.number("aten::to")).collect();
    frame.bind("new_mus", mus);
}
