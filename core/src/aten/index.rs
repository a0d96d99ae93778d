//! Gathering and scattering by index: the indices are saved, the gradient is the whole input.

use super::embedding;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// `aten::index`, `index_select` of a tensor by another.
pub fn pick(rt: &Runtime, x: &Tensor, indices: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator("aten::index");
    let y = rt.empty(x.dtype(), output);
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("IndexBackward0", y, &[x], &[indices], move |pass| {
        vec![pass.grad().map(|_| pass.rt.empty(dtype, &sizes))]
    })
}

/// `aten::index` of a trained table by rows.
pub fn rows(rt: &Runtime, table: &Tensor, indices: &Tensor) -> Tensor {
    let mut sizes = indices.sizes().to_vec();
    sizes.extend(table.sizes().iter().skip(1));
    put_back_later(rt, table, indices, &sizes)
}

/// `aten::index` by a list of one place, which becomes a tensor.
pub fn place(rt: &Runtime, x: &Tensor, output: &[u64]) -> Tensor {
    let index = rt.empty(DType::Int64, &[1]);
    put_back_later(rt, x, &index, output)
}

/// `aten::index` whose gradient is put where the elements came from, by sorted indices
/// (`index_put_with_sort_kernel`, `native/cuda/Indexing.cu`).
fn put_back_later(rt: &Runtime, table: &Tensor, indices: &Tensor, sizes: &[u64]) -> Tensor {
    rt.enter_operator("aten::index");
    let y = rt.empty(table.dtype(), sizes);
    let whole = table.sizes().to_vec();
    rt.differentiable("IndexBackward0", y, &[table], &[indices], move |pass| {
        let (Some(grad), Some(indices)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        let rt = pass.rt;
        rt.enter_operator("aten::_index_put_impl_");
        let result = rt.empty(grad.dtype(), &whole);
        let like_indices = || rt.empty(DType::Int64, indices.sizes());
        let wrapped = like_indices();
        let linear = like_indices();
        drop(wrapped);
        let values = (!grad.is_contiguous()).then(|| rt.empty(grad.dtype(), grad.sizes()));
        let (sorted, original) = (like_indices(), like_indices());
        let range = like_indices();
        rt.workspace(embedding::sort_workspace(indices.numel()));
        drop((range, original, sorted, values, linear));
        vec![Some(result)]
    })
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
    rt.enter_operator("aten::index");
    let y = rt.empty(scores.dtype(), &[batch, scores.size(2)]);
    drop((mask, range));
    let sizes = scores.sizes().to_vec();
    rt.differentiable("IndexBackward0", y, &[scores], &[&samples, &last], move |pass| {
        let Some(grad) = pass.grad() else { return vec![None] };
        let rt = pass.rt;
        rt.enter_operator("aten::_index_put_impl_");
        let result = rt.empty(grad.dtype(), &sizes);
        let each = || rt.empty(DType::Int64, &[batch]);
        let linear = [(); 2].map(|()| {
            let wrapped = each();
            let linear = each();
            drop(wrapped);
            linear
        });
        drop(linear);
        let (sorted, original, range) = (each(), each(), each());
        rt.workspace(embedding::sort_workspace(batch));
        drop((range, original, sorted));
        vec![Some(result)]
    })
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
            vec![pass.grad().map(|_| pass.rt.empty(dtype, &sizes))]
        });
    (values, indices)
}
