//! `embedding`: only the indices are saved; the gradient is dense (`native/cuda/Embedding.cu`).

use super::{cub, view};
use crate::bytes::Bytes;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: indices up to which one simple kernel makes the gradient.
const SIMPLE_LIMIT: u64 = 3072;
/// COUNT: indices for each row of the table from which rows are taken to be few.
const CROWDED: u64 = 30;

/// `aten::embedding`: rows of `weight [V, D]` picked by `indices […]`, to `[…, D]`. Saved: the indices.
pub fn embedding(rt: &Runtime, weight: &Tensor, indices: &Tensor) -> Tensor {
    let flat = rt.no_grad(|| view::contiguous(rt, indices));
    rt.enter_operator("aten::embedding");
    let mut sizes = indices.sizes().to_vec();
    sizes.extend(weight.sizes().iter().skip(1));
    let y = rt.empty(weight.dtype(), &sizes);
    drop(flat);
    let table = weight.sizes().to_vec();
    rt.differentiable("EmbeddingBackward0", y, &[weight], &[indices], move |pass| {
        let (Some(grad), Some(indices)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        pass.rt.enter_operator("aten::embedding_dense_backward");
        vec![Some(gradient(pass.rt, grad, indices, &table))]
    })
}

fn gradient(rt: &Runtime, grad: &Tensor, indices: &Tensor, table: &[u64]) -> Tensor {
    let count = indices.numel();
    let indices_copy = rt.no_grad(|| view::contiguous(rt, indices));
    let grad_copy = (!grad.is_contiguous()).then(|| rt.empty(grad.dtype(), grad.sizes()));
    if count <= SIMPLE_LIMIT {
        let result = rt.empty(grad.dtype(), table);
        drop((grad_copy, indices_copy));
        return result;
    }
    let rows = table.first().copied().unwrap_or(1);
    let width = table.iter().skip(1).product::<u64>();
    let per_index = Bytes(8).times(count);
    // Indices are sorted first, then segments of equal ones are told, and parts of segments.
    let sorted = rt.scratch(per_index);
    let original = rt.scratch(per_index);
    let range = rt.scratch(per_index);
    rt.workspace(cub::sort(count, rows));
    drop(range);
    let result = rt.empty(grad.dtype(), table);
    let segments = count.min(rows);
    let offsets = rt.scratch(per_index);
    let number = rt.scratch(Bytes(8));
    let keys = rt.scratch(per_index);
    rt.workspace(cub::unique_by_key(count));
    drop(keys);
    let parts = rt.scratch(Bytes(8).times(segments));
    let parts_before = rt.scratch(Bytes(8).times(segments));
    rt.workspace(cub::running_sum(segments));
    let number_of_parts = rt.scratch(Bytes(8));
    let most = count.div_euclid(10).saturating_add(segments);
    let part_offsets = rt.scratch(Bytes(8).times(most));
    // Few rows that many indices name are summed up at once, others part by part, in single precision.
    let is_crowded = segments.saturating_mul(CROWDED) < count
        && segments < rt.hardware.multiprocessors.saturating_mul(4);
    let sum = if is_crowded { Bytes(8) } else { Bytes(4).times(width) };
    let sums = rt.scratch(sum.times(most));
    let is_low = grad.dtype().size() < DType::Float32.size();
    let whole =
        if is_crowded && is_low { rt.scratch(Bytes(4).times(width).times(rows)) } else { None };
    drop((whole, sums, part_offsets, number_of_parts, parts_before, parts, number, offsets));
    drop((original, sorted));
    drop((grad_copy, indices_copy));
    result
}
