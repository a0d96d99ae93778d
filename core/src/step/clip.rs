//! Gradient clipping (`torch/nn/utils/clip_grad.py`).

use super::Parameter;
use crate::bytes::Bytes;
use crate::eager::kernels::reduce;
use crate::eager::launch::Passes;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: elements of a gradient that one block of `_foreach_norm` sums (`kChunkSize`).
const CHUNK: u64 = 65_536;

/// `clip_grad_norm_(parameters, max_norm)`: a norm per gradient, the norm of those, and gradients scaled
/// in place. All gradients are taken to be of one type.
pub fn grad_norm(rt: &Runtime, parameters: &[Parameter]) {
    let gradients = parameters.iter().filter_map(|parameter| parameter.leaf.grad());
    let gradients: Vec<Tensor> = gradients.collect();
    let Some(dtype) = gradients.first().map(Tensor::dtype) else { return };
    let number = |operator| {
        rt.enter_operator(operator);
        rt.empty(dtype, &[])
    };
    let mut norms = norms(rt, &gradients);
    rt.enter_operator("aten::stack");
    let stacked = rt.empty(dtype, &[u64::try_from(norms.len()).unwrap_or(u64::MAX)]);
    rt.enter_operator("aten::linalg_vector_norm");
    let total = reduce(rt, &stacked, &[true], dtype);
    drop(stacked);
    while norms.pop().is_some() {}
    // max_norm / (total_norm + 1e-6), no more than one.
    let sum = number("aten::add");
    let reciprocal = number("aten::reciprocal");
    let coefficient = number("aten::mul");
    drop(reciprocal);
    drop(sum);
    let clamped = number("aten::clamp");
    drop(coefficient);
    rt.launch_foreach(&gradients, Passes { reads: 1, writes: 1 });
    drop(clamped);
    drop(total);
}

/// `aten::_foreach_norm` (`native/cuda/ForeachReduceOp.cu`): where each gradient's partial sums begin,
/// the sums, and a number per gradient.
fn norms(rt: &Runtime, gradients: &[Tensor]) -> Vec<Tensor> {
    rt.enter_operator("aten::_foreach_norm");
    let count = u64::try_from(gradients.len()).unwrap_or(u64::MAX);
    let chunks = gradients.iter().map(|gradient| gradient.numel().div_ceil(CHUNK)).sum();
    let offsets = rt.scratch(DType::Int64.size().times(count.saturating_add(1)));
    let partial_sums = rt.scratch(Bytes(4).times(chunks));
    let numbers = || gradients.iter().map(|gradient| rt.empty(gradient.dtype(), &[])).collect();
    let norms = rt.without_launches(numbers);
    rt.launch_foreach(gradients, Passes { reads: 1, writes: 0 });
    drop(partial_sums);
    drop(offsets);
    norms
}
