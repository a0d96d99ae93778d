//! A mixture of experts: tokens sorted by expert, and one product for each group of them.
//!
//! Sources: `native/cuda/Sort.cpp`, `ScanKernels.cpp`, `native/cuda/GroupedBlas.cpp`; PyTorch 2.15.

use super::cub;
use crate::bytes::Bytes;
use crate::eager::{Kernel, Runtime, Tensor};
use crate::tensor::{DType, numel};

/// COUNT: numbers that are sorted in place, without a workspace (`should_use_small_sort`).
const SMALL_SORT: u64 = 4096;

/// SIZE: scratch of a running sum that one block of threads computes (`cub::DeviceScan`).
const SCAN_WORKSPACE: Bytes = Bytes(1023);

/// `aten::sort` of a vector: the sorted numbers, and where each was.
pub fn sort(rt: &Runtime, x: &Tensor) -> (Tensor, Tensor) {
    rt.enter_operator("aten::sort");
    let sorted = rt.empty(x.dtype(), x.sizes());
    let places = rt.empty(DType::Int64, x.sizes());
    let range = rt.empty(DType::Int64, x.sizes());
    if x.numel() > SMALL_SORT {
        drop(rt.scratch_of(&[x.numel()], |counts| cub::sort(counts.iter().sum(), u64::MAX)));
    }
    drop(range);
    (sorted, places)
}

/// Where the tokens of each expert end: their numbers as `int32`, a histogram of those, its running
/// sums.
pub fn group_ends(rt: &Runtime, experts: &Tensor, count: u64) -> [Tensor; 3] {
    rt.enter_operator("aten::histc");
    let numbers = rt.empty(DType::Int32, experts.sizes());
    let histogram = rt.empty(DType::Int32, &[count]);
    rt.enter_operator("aten::cumsum");
    let ends = rt.empty(DType::Int32, &[count]);
    rt.workspace(SCAN_WORKSPACE);
    [numbers, histogram, ends]
}

/// `inverse = empty_like(order); inverse[order] = arange(n)`.
pub fn inverse(rt: &Runtime, order: &Tensor) -> Tensor {
    rt.enter_operator("aten::index_put_");
    let inverse = rt.empty(DType::Int64, order.sizes());
    drop(rt.empty(DType::Int64, order.sizes()));
    inverse
}

/// `aten::_grouped_mm` of rows `x [S, K]`, sorted by group, with `weight [G, N, K]`, transposed.
///
/// In single precision it is a cuBLAS product for each group that has rows, one after another. The
/// sizes of groups make no difference to anything that is allocated.
pub fn grouped_mm(rt: &Runtime, x: &Tensor, weight: &Tensor, ends: &Tensor) -> Tensor {
    rt.enter_operator("aten::_grouped_mm");
    let y = product(rt, x, &[x.size(0), weight.size(1)], weight.sizes());
    let (x_sizes, weight_sizes) = (x.sizes().to_vec(), weight.sizes().to_vec());
    // `mat2`, `offs`, `self`.
    let saved = [weight, ends, x];
    rt.differentiable("GroupedMmBackward0", y, &[x, weight], &saved, move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        pass.rt.enter_operator("aten::_grouped_mm");
        let for_weight =
            pass.needs(1).then(|| product(pass.rt, grad, &weight_sizes, &weight_sizes));
        let for_x = pass.needs(0).then(|| product(pass.rt, grad, &x_sizes, &weight_sizes));
        vec![for_x, for_weight]
    })
}

/// The output of all groups' products, and the workspace of one of them.
fn product(rt: &Runtime, like: &Tensor, sizes: &[u64], weight: &[u64]) -> Tensor {
    let y = rt.empty(like.dtype(), sizes);
    if like.dtype() == DType::Float32 && numel(sizes) > 0 {
        rt.cublas();
    }
    if let &[groups, columns, inner] = weight {
        // Rows are assumed to be shared out evenly.
        let rows = like.size(0).checked_div(groups).unwrap_or_default().max(1);
        let kernel = Kernel::Gemm { batch: groups, rows, inner, columns, batched: true };
        rt.launch(&[&y], kernel, y.dtype());
    }
    y
}
