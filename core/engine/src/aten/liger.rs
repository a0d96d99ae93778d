//! Liger's layers (liger-kernel 0.8.5, `ops/{rms_norm,swiglu,rope}.py`): one kernel each, which save what they read and
//! compute gradients in the place of what came in.

use super::view::{contiguous, transpose};
use crate::eager::kernels::cast;
use crate::eager::{Hardware, Runtime, Tensor};
use crate::tensor::DType;

/// `LigerRMSNormFunction`: `x […, H]` and `weight [H]`. Saved: both, and a number for each row.
pub fn rms_norm(rt: &Runtime, x: &Tensor, weight: &Tensor) -> Tensor {
    let x = contiguous(rt, x);
    rt.enter_operator("aten::empty");
    let y = rt.empty(x.dtype(), x.sizes());
    let width = weight.numel().max(1);
    let rows = x.numel().div_euclid(width);
    let deviations = rt.empty(DType::Float32, &[rows]);
    rt.launch_elementwise(&[&x, weight], &[&y]);
    let saved = [&x, weight, &deviations];
    rt.differentiable("LigerRMSNormFunctionBackward", y, &[&x, weight], &saved, move |pass| {
        let (Some(grad), Some(weight)) = (pass.grad(), pass.saved(1)) else { return Vec::new() };
        let rt = pass.rt;
        let grad = contiguous(rt, grad);
        rt.enter_operator("aten::empty");
        // One row of sums for each multiprocessor.
        let of_each = move |hardware: &Hardware, numbers: &[u64]| {
            let width = numbers.iter().copied().sum();
            Some(DType::Float32.size().times(hardware.multiprocessors).times(width))
        };
        let parts = pass.needs(1).then(|| rt.scratch_by(&[width], of_each));
        rt.launch_elementwise(&[&grad], &[&grad]);
        let for_weight = pass.needs(1).then(|| {
            rt.enter_operator("aten::sum");
            let total = rt.empty(DType::Float32, &[width]);
            cast(rt, &total, weight.dtype())
        });
        drop(parts);
        vec![Some(grad), for_weight]
    })
}

/// `LigerSiLUMulFunction`, `LigerGELUMulFunction`: a gate and what it lets through. Saved: both, in whose place their
/// gradients are written.
pub fn gated(rt: &Runtime, gate: &Tensor, up: &Tensor) -> Tensor {
    let (gate, up) = (contiguous(rt, gate), contiguous(rt, up));
    rt.enter_operator("aten::empty_like");
    let y = rt.empty_like(&gate);
    rt.launch_elementwise(&[&gate, &up], &[&y]);
    let inputs = [&gate, &up];
    rt.differentiable("LigerSiLUMulFunctionBackward", y, &inputs, &inputs, |pass| {
        if let Some(grad) = pass.grad() {
            drop(contiguous(pass.rt, grad));
            pass.rt.launch_elementwise(&[grad], &[]);
        }
        vec![pass.saved(0).cloned(), pass.saved(1).cloned()]
    })
}

/// `LigerRopeFunction`: queries and keys `[B, heads, S, D]` are turned in place. Saved: the tables.
pub fn rotary(rt: &Runtime, [q, k]: [&Tensor; 2], [cos, sin]: [&Tensor; 2]) -> Vec<Tensor> {
    let physical = |rt: &Runtime, x: &Tensor| {
        let rows = transpose(rt, x, 1, 2);
        contiguous(rt, &rows)
    };
    let turned = rt.no_grad(|| [q, k].map(|x| transpose(rt, &physical(rt, x), 1, 2)));
    let (cos, sin) = rt.no_grad(|| (contiguous(rt, cos), contiguous(rt, sin)));
    rt.launch_elementwise(&[q, k], &[]);
    let outputs = turned.into_iter().map(|x| x.detach()).collect();
    rt.differentiable_many(
        "LigerRopeFunctionBackward",
        outputs,
        &[q, k],
        &[&cos, &sin],
        move |pass| {
            let turn = |grad: &Option<Tensor>| {
                let grad = grad.as_ref()?;
                Some(transpose(pass.rt, &physical(pass.rt, grad), 1, 2))
            };
            pass.grads.iter().map(turn).collect()
        },
    )
}
