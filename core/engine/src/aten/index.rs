//! Gathering and scattering by index: the indices are saved, the gradient is the whole input.

use super::cub;
use super::view::into_zeros;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// `aten::index`, `index_select`: elements of `x` at `indices`, to `output`. Saved: the indices.
pub fn pick(rt: &Runtime, x: &Tensor, indices: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator("aten::index");
    let y = rt.empty(x.dtype(), output);
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("IndexBackward0", y, &[x], &[indices], move |pass| {
        vec![pass.grad().map(|grad| into_zeros(pass.rt, grad, dtype, &sizes))]
    })
}

/// `aten::index` in the first dimensions of what is trained: the gradient is put where the rows came
/// from, by sorted indices (`index_put_with_sort_kernel`, `native/cuda/Indexing.cu`).
pub fn indexed(rt: &Runtime, x: &Tensor, indices: &[&Tensor], output: &[u64]) -> Tensor {
    rt.enter_operator("aten::index");
    let y = rt.empty(x.dtype(), output);
    let whole = x.sizes().to_vec();
    rt.differentiable("IndexBackward0", y, &[x], indices, move |pass| {
        let (Some(grad), Some(first)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        let rt = pass.rt;
        rt.enter_operator("aten::_index_put_impl_");
        let result = rt.empty(grad.dtype(), &whole);
        let like_indices = || rt.empty(DType::Int64, first.sizes());
        // Each index is wrapped and scaled; the second and later ones are added to the first.
        let scaled = || {
            let wrapped = like_indices();
            let scaled = like_indices();
            drop(wrapped);
            scaled
        };
        let linear = scaled();
        for _ in pass.saved.iter().skip(1) {
            drop(scaled());
        }
        let values = (!grad.is_contiguous()).then(|| rt.empty(grad.dtype(), grad.sizes()));
        let (sorted, original) = (like_indices(), like_indices());
        let range = like_indices();
        let places = whole.iter().take(pass.saved.len()).product::<u64>();
        let largest = places.saturating_sub(1);
        let sorting = move |counts: &[u64]| cub::sort(counts.iter().sum(), largest);
        drop(rt.scratch_of(&[first.numel()], sorting));
        drop((range, original, sorted, values, linear));
        vec![Some(result)]
    })
}

/// `aten::index` by a list of one place, which becomes a tensor.
pub fn place(rt: &Runtime, x: &Tensor, output: &[u64]) -> Tensor {
    let index = rt.empty(DType::Int64, &[1]);
    indexed(rt, x, &[&index], output)
}

/// `scores[arange(N), last]` (transformers 5.23, `modeling_layers.py`): `last` is found by comparing
/// tokens with that of padding, and both indices are saved.
pub fn last_tokens(rt: &Runtime, scores: &Tensor, tokens: &Tensor) -> Tensor {
    let batch = scores.size(0);
    rt.enter_operator("aten::argmax");
    let differs = rt.empty(DType::Bool, tokens.sizes());
    let mask = rt.empty(DType::Int32, tokens.sizes());
    drop(differs);
    let range = rt.empty(DType::Int32, &[tokens.size(1)]);
    let product = rt.empty(DType::Int32, tokens.sizes());
    let last = rt.empty(DType::Int64, &[batch]);
    drop(product);
    let samples = rt.empty(DType::Int64, &[batch]);
    drop((mask, range));
    indexed(rt, scores, &[&samples, &last], &[batch, scores.size(2)])
}

/// `aten::gather`: the gradient's formula reads the input, if only for its sizes, so that it is saved.
pub fn gather(rt: &Runtime, x: &Tensor, indices: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator("aten::gather");
    let y = rt.empty(x.dtype(), output);
    rt.differentiable("GatherBackward0", y, &[x], &[indices, x], |pass| {
        let like = pass.saved(1).filter(|_| pass.grad().is_some());
        vec![like.map(|x| pass.rt.empty(x.dtype(), x.sizes()))]
    })
}

/// `aten::scatter`, `index_put`: a copy of the input, written to.
pub fn scatter(rt: &Runtime, x: &Tensor, indices: &Tensor, source: &Tensor) -> Tensor {
    rt.enter_operator("aten::scatter");
    let y = rt.empty_like(x);
    let source_sizes = source.sizes().to_vec();
    rt.differentiable("ScatterBackward0", y, &[x, source], &[indices], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        let for_x = pass.needs(0).then(|| pass.rt.empty_like(grad));
        let for_source = pass.needs(1).then(|| pass.rt.empty(grad.dtype(), &source_sizes));
        vec![for_x, for_source]
    })
}

/// `aten::topk`, `sort`, `max(dim)`: values and indices; the indices are saved.
pub fn values_and_indices(
    rt: &Runtime,
    name: &'static str,
    x: &Tensor,
    output: &[u64],
) -> (Tensor, Tensor) {
    rt.enter_operator(name);
    let values = rt.empty(x.dtype(), output);
    let indices = rt.empty(DType::Int64, output);
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    let values =
        rt.differentiable("ValueSelectingBackward0", values, &[x], &[&indices], move |pass| {
            vec![pass.grad().map(|grad| into_zeros(pass.rt, grad, dtype, &sizes))]
        });
    (values, indices)
}
