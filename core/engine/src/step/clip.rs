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
/// in place.
///
/// All gradients are taken to be of one type. Those that are spread over ranks have a norm apart, as in
/// transformers' Trainer, and then there is one of both.
pub fn grad_norm(rt: &Runtime, parameters: &[Parameter]) {
    let is_first_spread = parameters.first().is_some_and(|first| first.leaf.is_spread());
    let groups = [is_first_spread, !is_first_spread].map(|is_spread| {
        let group = parameters.iter().filter(|one| one.leaf.is_spread() == is_spread);
        (is_spread, group.filter_map(|parameter| parameter.leaf.grad()).collect::<Vec<Tensor>>())
    });
    let groups: Vec<_> = groups.into_iter().filter(|(_, group)| !group.is_empty()).collect();
    let each = groups.iter().filter_map(|(is_spread, group)| total(rt, group, *is_spread));
    let mut totals: Vec<Tensor> = each.collect();
    if totals.len() > 1 {
        let of_all = norm(rt, &totals, false);
        totals.clear();
        totals.extend(of_all);
    }
    for (_, gradients) in &groups {
        scale(rt, gradients);
    }
    drop(totals);
}

/// The norm of a group's gradients.
fn total(rt: &Runtime, gradients: &[Tensor], is_spread: bool) -> Option<Tensor> {
    let mut norms = norms(rt, gradients);
    let total = norm(rt, &norms, is_spread);
    while norms.pop().is_some() {}
    total
}

/// The norm of norms; of those of parts, powers of all ranks are added first.
fn norm(rt: &Runtime, norms: &[Tensor], is_spread: bool) -> Option<Tensor> {
    let dtype = norms.first()?.dtype();
    let count = u64::try_from(norms.len()).unwrap_or(u64::MAX);
    let list = |operator| {
        rt.enter_operator(operator);
        rt.empty(dtype, &[count])
    };
    let stacked = list("aten::stack");
    let of_ranks = is_spread.then(|| {
        let powers = list("aten::pow");
        let sums = list("_c10d_functional::all_reduce");
        let roots = list("aten::pow");
        drop(powers);
        drop(sums);
        roots
    });
    rt.enter_operator("aten::linalg_vector_norm");
    let total = reduce(rt, of_ranks.as_ref().unwrap_or(&stacked), &[true], dtype);
    drop(of_ranks);
    drop(stacked);
    Some(total)
}

/// Gradients times `max_norm / (total_norm + 1e-6)`, which is no more than one.
fn scale(rt: &Runtime, gradients: &[Tensor]) {
    let Some(dtype) = gradients.first().map(Tensor::dtype) else { return };
    let number = |operator| {
        rt.enter_operator(operator);
        rt.empty(dtype, &[])
    };
    let sum = number("aten::add");
    let reciprocal = number("aten::reciprocal");
    let coefficient = number("aten::mul");
    drop(reciprocal);
    drop(sum);
    let clamped = number("aten::clamp");
    drop(coefficient);
    rt.launch_foreach(gradients, Passes { reads: 1, writes: 1 });
    drop(clamped);
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
