//! `embedding`: only the indices are saved; the gradient is dense (`native/cuda/Embedding.cu`).

use std::rc::Rc;

use super::{cub, view};
use crate::bytes::Bytes;
use crate::eager::recorder::Storage;
use crate::eager::{Kernel, Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: indices up to which one simple kernel makes the gradient.
const SIMPLE_LIMIT: u64 = 3072;

/// `aten::embedding`: rows of `weight [V, D]` picked by `indices […]`, to `[…, D]`. Saved: the indices.
pub fn embedding(rt: &Runtime, weight: &Tensor, indices: &Tensor) -> Tensor {
    let y = rows(rt, weight, indices);
    of_rows(rt, y, (weight, weight.sizes()), indices)
}

/// The rows that are picked.
pub(super) fn rows(rt: &Runtime, weight: &Tensor, indices: &Tensor) -> Tensor {
    let flat = rt.no_grad(|| view::contiguous(rt, indices));
    rt.enter_operator("aten::embedding");
    let mut sizes = indices.sizes().to_vec();
    sizes.extend(weight.sizes().iter().skip(1));
    let y = rt.empty(weight.dtype(), &sizes);
    let (rows, width) = (indices.numel(), weight.sizes().iter().skip(1).product());
    rt.launch(&[&y], Kernel::Embedding { rows, width, backward: false }, y.dtype());
    drop(flat);
    y
}

/// What became of the rows of a table, with the gradient of the table, which is as large as this.
pub(super) fn of_rows(
    rt: &Runtime,
    y: Tensor,
    (weight, table): (&Tensor, &[u64]),
    indices: &Tensor,
) -> Tensor {
    let table = table.to_vec();
    rt.differentiable("EmbeddingBackward0", y, &[weight], &[indices], move |pass| {
        let (Some(grad), Some(indices)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        pass.rt.enter_operator("aten::embedding_dense_backward");
        let result = gradient(pass.rt, grad, indices, &table);
        // The table's gradient begins as zeros, to which those of the rows are added.
        pass.rt.launch_elementwise(&[], &[&result]);
        let (rows, width) = (indices.numel(), table.iter().skip(1).product());
        pass.rt.launch(&[], Kernel::Embedding { rows, width, backward: true }, grad.dtype());
        vec![Some(result)]
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
    // Indices are sorted first; segments are then summed through single-precision partial sums.
    let sorted = rt.scratch(per_index);
    let original = rt.scratch(per_index);
    let range = rt.scratch(per_index);
    drop(scratch_of(rt, count, move |count| cub::sort(count, rows)));
    drop(range);
    let result = rt.empty(grad.dtype(), table);
    let segments = count.min(rows);
    let offsets = rt.scratch(per_index);
    let found = rt.scratch(Bytes(8));
    let unique = rt.scratch(per_index);
    drop(scratch_of(rt, count, cub::unique_by_key));
    drop(unique);
    let of_segments = move |count: u64| Bytes(8).times(count.min(rows));
    let partials = scratch_of(rt, count, of_segments);
    let partial_sums = scratch_of(rt, count, of_segments);
    drop(scratch_of(rt, count, move |count| cub::running_sum(count.min(rows))));
    let found_partials = rt.scratch(Bytes(8));
    let most_of = move |count: u64| count.div_euclid(10).saturating_add(count.min(rows));
    let most = most_of(count);
    let of_most = move |count: u64| Bytes(8).times(most_of(count));
    let partial_offsets = scratch_of(rt, count, of_most);
    let warps = width.next_multiple_of(WARP);
    let blocks = segments.saturating_mul(warps).div_ceil(warps.clamp(1, BLOCK));
    let is_fused = most > blocks.saturating_mul(4)
        && rt.ask(move |hardware| blocks < hardware.multiprocessors.saturating_mul(BLOCKS));
    let sums = if is_fused {
        // Added up in the result itself, or in one of single precision.
        let of_partials = scratch_of(rt, count, of_most);
        let is_half = grad.dtype().size() == Bytes(2);
        (of_partials, is_half.then(|| rt.empty(DType::Float32, table)))
    } else {
        let sums = rt.empty(DType::Float32, &[most, width]);
        let row = DType::Float32.size().times(width);
        rt.follows(&sums, &[count], move |counts| row.times(most_of(counts.iter().sum())));
        (None, Some(sums))
    };
    drop((sums, partial_offsets, found_partials, partial_sums, partials, found, offsets));
    drop((original, sorted));
    drop((grad_copy, indices_copy));
    result
}

/// Scratch that grows with the number of indices.
fn scratch_of(
    rt: &Runtime,
    count: u64,
    size: impl Fn(u64) -> Bytes + 'static,
) -> Option<Rc<Storage>> {
    rt.scratch_of(&[count], move |counts| size(counts.iter().sum()))
}

/// COUNT: threads of a warp, and of a block at most; blocks for each multiprocessor up to which partial sums
/// are added up at once (`EmbeddingBackwardKernel.cu`).
const WARP: u64 = 32;
const BLOCK: u64 = 1024;
const BLOCKS: u64 = 4;
