//! Normalisations: what is saved is the input and a pair of statistics per row, channel or group.
//!
//! Sources: `native/cudnn/BatchNorm.cpp`, `native/cuda/layer_norm_kernel.cu`,
//! `native/cuda/group_norm_kernel.cu`.

use super::elementwise::{self, Unary};
use super::{reduce, view};
use crate::bytes::Bytes;
use crate::config::PyTorch;
use crate::eager::{Gradients, Pass, Runtime, Tensor, kernels};
use crate::tensor::{DType, numel};

/// `aten::batch_norm` in training: `x [N, C, …]`, `weight [C]`, `bias [C]`.
///
/// Saved: the input, mean and inverse deviation per channel.
///
/// cuDNN and the native kernels keep the same set. cuDNN's workspace and reserve are zero for
/// contiguous tensors; for channels last they are not known, and taken to be zero too.
pub fn batch_norm(
    rt: &Runtime,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Tensor {
    let x = &view::contiguous_in(rt, x, x.suggested_format());
    rt.enter_operator("aten::batch_norm");
    let y = rt.empty_like(x);
    let channels = x.size(1);
    let mean = rt.empty(DType::Float32, &[channels]);
    let deviation = rt.empty(DType::Float32, &[channels]);
    let saved = [x, &mean, &deviation];
    if uses_cudnn(x, weight, bias) || x.strides().get(1) != Some(&1) {
        let node = "CudnnBatchNormBackward0";
        return affine(rt, node, y, saved, (weight, bias), channel_gradients);
    }
    channels_last_sums(rt, x, 4);
    let mut inputs = vec![x];
    inputs.extend(weight);
    inputs.extend(bias);
    let dtype = weight.map_or(DType::Float32, Tensor::dtype);
    rt.differentiable("NativeBatchNormBackward0", y, &inputs, &saved, move |pass| {
        channels_last_gradients(pass, dtype)
    })
}

/// `_select_batch_norm_backend`, where the statistics are those of the batch.
fn uses_cudnn(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> bool {
    let (Some(weight), Some(_)) = (weight, bias) else { return false };
    let suits = match x.dtype() {
        DType::BFloat16 => false,
        DType::Float16 => weight.dtype() == DType::Float32,
        _ => true,
    };
    suits && x.rank() >= 3 && x.size(0) <= 880_801
}

/// Staging buffer and semaphores of the native kernels for channels last, with this many sums for
/// each channel (`flexible_launch_configs`, `native/cuda/Normalization.cuh`): where there are rows
/// enough for eight blocks or more, which are added up at the end.
fn channels_last_sums(rt: &Runtime, x: &Tensor, sums: u64) {
    const TILE: u64 = 32;
    const ROWS_PER_THREAD: u64 = 16;
    const THREADS: u64 = 512;
    let channels = x.size(1).max(1);
    let rows = x.numel().div_euclid(channels);
    let power = |n: u64| 1 << n.max(1).ilog2();
    let mut width: u64 = power(channels).min(TILE);
    let height = power(rows.div_ceil(ROWS_PER_THREAD)).min(THREADS.div_euclid(width));
    if width.saturating_mul(height) != THREADS {
        width = power(channels).min(THREADS.div_euclid(height));
    }
    let blocks = rows.div_ceil(height.saturating_mul(ROWS_PER_THREAD)).min(128);
    if blocks < 8 {
        return;
    }
    let staging = rt.scratch(Bytes(4).times(sums).times(channels).times(blocks));
    let semaphores = rt.scratch(Bytes(4).times(channels.div_ceil(width)));
    drop(semaphores);
    drop(staging);
}

/// `batch_norm_backward_cuda` for channels last: two sums per channel, then the gradient from them.
fn channels_last_gradients(pass: &Pass<'_>, dtype: DType) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let rt = pass.rt;
    let grad_copy = view::contiguous_in(rt, grad, x.suggested_format());
    rt.enter_operator("aten::native_batch_norm_backward");
    let channels = x.size(1);
    let sums = [(); 2].map(|()| rt.empty(DType::Float32, &[channels]));
    let parameters: Gradients = (1..pass.needs.len())
        .map(|input| pass.needs(input).then(|| rt.empty(dtype, &[channels])))
        .collect();
    channels_last_sums(rt, x, 2);
    let for_x = rt.empty_like(x);
    drop(grad_copy);
    sums.into_iter().rev().for_each(drop);
    std::iter::once(Some(for_x)).chain(parameters).collect()
}

/// `aten::native_layer_norm`: `x [rows…, width…]`, weight and bias `[width…]`.
///
/// The output is contiguous. Saved: the input, mean and inverse deviation per row.
pub fn layer_norm(
    rt: &Runtime,
    x: &Tensor,
    width: u64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Tensor {
    let [x] = &rt.for_operator("aten::layer_norm", [x]);
    let dense = rt.no_grad(|| view::contiguous(rt, x));
    rt.enter_operator("aten::native_layer_norm");
    let y = rt.empty(x.dtype(), x.sizes());
    let rows = x.numel().checked_div(width).unwrap_or(0);
    let mean = rt.empty(DType::Float32, &[rows]);
    let deviation = rt.empty(DType::Float32, &[rows]);
    drop(dense);
    let saved = [x, &mean, &deviation];
    affine(rt, "NativeLayerNormBackward0", y, saved, (weight, bias), row_gradients)
}

/// `aten::rms_norm`: `x [rows…, width…]`, weight `[width…]`, in one kernel; until PyTorch 2.8 a composite.
///
/// Saved: the input and one statistic per row.
pub fn rms_norm(rt: &Runtime, x: &Tensor, width: u64, weight: Option<&Tensor>) -> Tensor {
    if rt.pytorch == PyTorch::V2_8 {
        return composite_rms_norm(rt, x, width, weight);
    }
    let [x] = &rt.for_operator("aten::rms_norm", [x]);
    let dense = rt.no_grad(|| view::contiguous(rt, x));
    rt.enter_operator("aten::_fused_rms_norm");
    let y = rt.empty(x.dtype(), x.sizes());
    let rows = x.numel().checked_div(width).unwrap_or(0);
    let deviation = rt.empty(DType::Float32, &[rows]);
    drop(dense);
    let mut inputs = vec![x];
    inputs.extend(weight);
    let dtype = weight.map_or(DType::Float32, Tensor::dtype);
    rt.differentiable("FusedRmsNormBackward0", y, &inputs, &[x, &deviation], move |pass| {
        row_gradients(pass, dtype)
    })
}

/// `rms_norm_composite`: `x * rsqrt(mean(x²) + ε)` in single precision, then the weight.
fn composite_rms_norm(rt: &Runtime, x: &Tensor, width: u64, weight: Option<&Tensor>) -> Tensor {
    let single = kernels::cast(rt, x, DType::Float32);
    let mut covered = 1;
    let mut gone = vec![false; x.rank()];
    for (dim, gone) in gone.iter_mut().enumerate().rev() {
        *gone = covered < width;
        covered *= x.size(dim);
    }
    let squares = elementwise::pow_scalar(rt, &single);
    let mean = reduce::mean(rt, &squares, &gone, true);
    drop(squares);
    let rsqrt = Unary::saves_output("aten::rsqrt").node("RsqrtBackward0").temporaries(2);
    let scale = elementwise::unary(rt, rsqrt, &mean);
    drop(mean);
    let scaled = elementwise::mul(rt, &single, &scale);
    drop((single, scale));
    let normed = kernels::cast(rt, &scaled, x.dtype());
    drop(scaled);
    match weight {
        Some(weight) => elementwise::mul(rt, &normed, weight),
        None => normed,
    }
}

/// `aten::native_group_norm`: `x [N, C, …]`, `weight [C]`, `bias [C]`.
///
/// Saved: the input, mean and inverse deviation `[N, groups]`.
pub fn group_norm(
    rt: &Runtime,
    x: &Tensor,
    groups: u64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Tensor {
    let [x] = &rt.for_operator("aten::group_norm", [x]);
    let x = view::contiguous_in(rt, x, x.suggested_format());
    rt.enter_operator("aten::native_group_norm");
    let y = rt.empty_like(&x);
    let (batch, channels) = (x.size(0), x.size(1));
    let mean = rt.empty(x.dtype(), &[batch, groups]);
    let deviation = rt.empty(x.dtype(), &[batch, groups]);
    let scale = rt.empty(DType::Float32, &[batch, channels]);
    let shift = rt.empty(DType::Float32, &[batch, channels]);
    drop((scale, shift));
    let mut inputs = vec![&x];
    inputs.extend(weight);
    inputs.extend(bias);
    let dtype = weight.map_or(DType::Float32, Tensor::dtype);
    rt.differentiable(
        "NativeGroupNormBackward0",
        y,
        &inputs,
        &[&x, &mean, &deviation],
        move |pass| {
            let results = channel_gradients(pass, dtype);
            let sums = [channels, channels, groups, groups, channels];
            let scratch: Vec<_> =
                sums.iter().map(|&n| pass.rt.empty(DType::Float32, &[batch, n])).collect();
            drop(scratch);
            results
        },
    )
}

/// A normalisation with an affine part: input, weight and bias get gradients.
fn affine(
    rt: &Runtime,
    node: &'static str,
    y: Tensor,
    saved: [&Tensor; 3],
    (weight, bias): (Option<&Tensor>, Option<&Tensor>),
    gradients: fn(&Pass<'_>, DType) -> Gradients,
) -> Tensor {
    let mut inputs = vec![saved[0]];
    inputs.extend(weight);
    inputs.extend(bias);
    let dtype = weight.map_or(DType::Float32, Tensor::dtype);
    rt.differentiable(node, y, &inputs, &saved, move |pass| gradients(pass, dtype))
}

/// Gradients of `X [N, C, …]`, and of weight and bias `[C]`: they follow the input's layout.
fn channel_gradients(pass: &Pass<'_>, dtype: DType) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let grad_copy = view::contiguous_in(pass.rt, grad, x.suggested_format());
    let for_x = pass.rt.empty_like(x);
    let results = with_parameters(pass, for_x, dtype, x.size(1));
    drop(grad_copy);
    results
}

/// Gradients of `X [rows…, width…]`, and of weight and bias `[width…]`: the kernel works on rows, and the
/// gradient is copied last.
fn row_gradients(pass: &Pass<'_>, dtype: DType) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let dense = |tensor: &Tensor| pass.rt.empty(tensor.dtype(), tensor.sizes());
    let x_copy = (!x.is_contiguous()).then(|| dense(x));
    let for_x = dense(x);
    let rows = pass.saved(1).map_or(1, Tensor::numel).max(1);
    let results = with_parameters(pass, for_x, dtype, numel(x.sizes()).div_euclid(rows));
    let grad_copy = (!grad.is_contiguous()).then(|| dense(grad));
    drop(grad_copy);
    drop(x_copy);
    results
}

/// The input's gradient, then those of the parameters that need one.
fn with_parameters(pass: &Pass<'_>, for_x: Tensor, dtype: DType, size: u64) -> Gradients {
    let parameters =
        (1..pass.needs.len()).map(|at| pass.needs(at).then(|| pass.rt.empty(dtype, &[size])));
    std::iter::once(Some(for_x)).chain(parameters).collect()
}
