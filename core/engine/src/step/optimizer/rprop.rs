//! Resilient backpropagation (`torch/optim/rprop.py`): signs are compared, so masks come and go.

use super::frame::{Frame, release};
use super::rule::{Rule, Slot, TORCH, ZEROS};
use crate::eager::Tensor;
use crate::tensor::DType;

/// `Rprop(lr)`.
pub(super) const RPROP: Rule = Rule {
    class: "Rprop",
    has_decay: false,
    state: &[ZEROS, Slot::Like("aten::full_like")],
    foreach: Some(all),
    for_loop: one,
    ..TORCH
};

fn all(frame: &mut Frame<'_>) {
    let signs = frame.like("aten::_foreach_mul");
    for sign in &signs {
        for comparison in ["aten::gt", "aten::lt", "aten::eq"] {
            drop(mask(frame, sign, comparison));
        }
    }
    for sign in &signs {
        // torch.where(sign.eq(etaminus), 0, grad): the zero is a tensor while the kernel runs.
        let is_negative = mask(frame, sign, "aten::eq");
        frame.rt.enter_operator("aten::where");
        let zero = frame.rt.empty(sign.dtype(), &[]);
        let chosen = frame.rt.empty_like(sign);
        drop(zero);
        drop(is_negative);
        drop(chosen);
    }
    // The loop's name still holds the last sign when the list goes.
    frame.bind("sign", signs.last().cloned().into_iter().collect());
    release(signs);
    frame.assign("grad_signs", "aten::sign");
}

fn one(frame: &mut Frame<'_>) {
    frame.del("grad");
    frame.temporary("aten::mul");
    frame.assign("sign", "aten::sign");
    let Some(parameter) = frame.parameters.first().cloned() else { return };
    for comparison in ["aten::gt", "aten::lt", "aten::eq"] {
        drop(mask(frame, &parameter, comparison));
    }
    frame.assign("grad", "aten::clone");
    drop(mask(frame, &parameter, "aten::eq"));
    frame.expression("aten::sign");
}

fn mask(frame: &Frame<'_>, of: &Tensor, comparison: &'static str) -> Tensor {
    frame.rt.enter_operator(comparison);
    frame.rt.empty(DType::Bool, of.sizes())
}
