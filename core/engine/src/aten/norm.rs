//! Normalisations: they save the input and a pair of statistics per row, channel or group.
//!
//! Sources: `native/cudnn/BatchNorm.cpp`, `native/cuda/layer_norm_kernel.cu`,
//! `native/cuda/group_norm_kernel.cu`.

use super::elementwise::{self, Unary};
use super::{reduce, view};
use crate::bytes::Bytes;
use crate::config::MemoryFormat;
use crate::eager::{Gradients, Kernel, Pass, Runtime, Tensor, kernels};
use crate::tensor::{DType, Dims};

/// How a batch is normalised.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    /// Whether there are running statistics, which evaluation takes; without them it takes those of the batch.
    pub is_tracked: bool,
    /// Whether the native kernels run, whatever cuDNN can do (`aten::native_batch_norm`).
    pub is_native: bool,
}

/// `aten::batch_norm`: `x [N, C, …]`, `weight [C]`, `bias [C]`.
///
/// Saved in training: the input, mean and inverse deviation per channel. cuDNN and the native kernels keep the same
/// set. cuDNN's workspace and reserve are zero for contiguous tensors; for channels last they are unknown, and assumed
/// to be zero too.
pub fn batch_norm(
    rt: &Runtime,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    kind: BatchNorm,
) -> Tensor {
    let y = batch_norm_with(rt, x, weight, bias, &[], kind);
    if rt.is_training() {
        count_batch(rt);
    }
    y
}

/// The kernel of `num_batches_tracked.add_(1)`, which the module runs in training.
fn count_batch(rt: &Runtime) {
    let kernel = Kernel::Elementwise { read: Bytes(8), written: Bytes(8) };
    rt.launch(&[], kernel, DType::Int64);
}

/// The same with statistics of its own, which are saved.
fn batch_norm_with(
    rt: &Runtime,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    statistics: &[Tensor],
    kind: BatchNorm,
) -> Tensor {
    let x = &view::contiguous_in(rt, x, x.suggested_format());
    rt.enter_operator("aten::batch_norm");
    let y = rt.empty_like(x);
    let channels = x.size(1);
    let of_batch = rt.is_training() || !kind.is_tracked;
    let is_cudnn = !kind.is_native && uses_cudnn(x, weight, bias, of_batch);
    // In evaluation the native kernels copy the running statistics, and cuDNN reads them.
    let own = if of_batch || !is_cudnn { 2 } else { 0 };
    let own: Vec<Tensor> = (0..own).map(|_| rt.empty(DType::Float32, &[channels])).collect();
    if rt.is_launching() {
        let writes: Vec<&Tensor> = std::iter::once(&y).chain(&own).collect();
        rt.launch(&writes, channels_of(x, false), x.dtype());
    }
    let saved: Vec<&Tensor> = std::iter::once(x).chain(&own).chain(statistics).collect();
    let saved = saved.as_slice();
    let parameters = (weight, bias);
    if is_cudnn {
        return affine(rt, "CudnnBatchNormBackward0", y, saved, parameters, move |pass, own| {
            channel_gradients(pass, own, of_batch)
        });
    }
    let node = "NativeBatchNormBackward0";
    if !is_channels_last(x) {
        return affine(rt, node, y, saved, parameters, move |pass, own| {
            channel_gradients(pass, own, false)
        });
    }
    if of_batch {
        channels_last_sums(rt, x, 4);
    }
    affine(rt, node, y, saved, parameters, channels_last_gradients)
}

/// `batch_norm_use_channels_last_kernels`.
fn is_channels_last(x: &Tensor) -> bool {
    x.strides().get(1) == Some(&1)
}

/// `aten::instance_norm`: `x [N, C, …]` as one image of `N · C` channels, whose affine part and running
/// statistics are repeated for each image (`native/Normalization.cpp`).
pub fn instance_norm(
    rt: &Runtime,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    statistics: Option<&Tensor>,
) -> Tensor {
    let (batch, channels) = (x.size(0), x.size(1));
    let all = [batch.saturating_mul(channels)];
    let repeated = |tensor: &Tensor| view::resample(rt, "aten::repeat", tensor, &all);
    let (weight, bias) = (weight.map(repeated), bias.map(repeated));
    rt.enter_operator("aten::repeat");
    let repeat = |like: &Tensor| [(); 2].map(|()| rt.empty(like.dtype(), &all));
    let repeated = statistics.map(repeat).into_iter().flatten().collect::<Vec<_>>();
    let dense = view::contiguous(rt, x);
    let sizes: Dims = [1].into_iter().chain(all).chain(x.sizes().iter().skip(2).copied()).collect();
    let whole = view::reshape(rt, &dense, &sizes);
    drop(dense);
    let kind = BatchNorm { is_tracked: statistics.is_some(), is_native: false };
    let y = batch_norm_with(rt, &whole, weight.as_ref(), bias.as_ref(), &repeated, kind);
    if let Some(like) = statistics {
        rt.enter_operator("aten::mean");
        drop(rt.empty(like.dtype(), &[channels]));
        drop(rt.empty(like.dtype(), &[channels]));
    }
    drop((whole, weight, bias, repeated));
    view::reshape(rt, &y, x.sizes())
}

/// `_select_batch_norm_backend`, whose statistics are those of the batch or running ones.
fn uses_cudnn(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, of_batch: bool) -> bool {
    let (Some(weight), Some(_)) = (weight, bias) else { return false };
    let suits = match x.dtype() {
        DType::BFloat16 => false,
        DType::Float16 => weight.dtype() == DType::Float32,
        _ => true,
    };
    let most = if of_batch { 880_801 } else { 65_535 };
    suits && x.rank() >= 3 && x.size(0) <= most
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

/// `batch_norm_backward_cuda` for channels last: two sums per channel, then the gradient from them. A gradient
/// that lies otherwise goes through general kernels, which have no staging and want a weight.
fn channels_last_gradients(pass: &Pass<'_>, own: &Parameters) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let rt = pass.rt;
    rt.enter_operator("aten::native_batch_norm_backward");
    let channels = x.size(1);
    let sums = [(); 2].map(|()| rt.empty(DType::Float32, &[channels]));
    let parameters = own.gradients(pass, false);
    let is_turned = !is_channels_last(grad);
    if !is_turned {
        channels_last_sums(rt, x, 2);
    }
    let one = (is_turned && own.0.is_empty()).then(|| rt.empty(DType::Float32, &[]));
    let for_x = pass.needs(0).then(|| rt.empty_like(x));
    if rt.is_launching() {
        let writes: Vec<&Tensor> =
            sums.iter().chain(&for_x).chain(parameters.iter().flatten()).collect();
        rt.launch(&writes, channels_of(x, true), x.dtype());
    }
    drop(one);
    sums.into_iter().rev().for_each(drop);
    std::iter::once(for_x).chain(parameters).collect()
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
    rt.launch(&[&y, &mean, &deviation], rows_of(x, rows, 1), x.dtype());
    drop(dense);
    let inputs: Vec<&Tensor> = std::iter::once(x).chain(weight).chain(bias).collect();
    let saved: Vec<&Tensor> =
        [x, &mean, &deviation].into_iter().chain(weight).chain(bias).collect();
    let own = Parameters::of([weight, bias]);
    rt.differentiable("NativeLayerNormBackward0", y, &inputs, &saved, move |pass| {
        row_gradients(pass, &own)
    })
}

/// The kernel over this many rows of `x`, or channels, that reads `inputs` tensors of its size.
fn rows_of(x: &Tensor, rows: u64, inputs: u64) -> Kernel {
    let width = x.numel().checked_div(rows).unwrap_or_default();
    Kernel::Norm { rows, width, inputs }
}

/// The kernel over the channels of `x`, or that of its gradients.
fn channels_of(x: &Tensor, backward: bool) -> Kernel {
    let channels = x.size(1);
    let width = x.numel().checked_div(channels).unwrap_or_default();
    Kernel::BatchNorm { channels, width, backward, channels_last: is_channels_last(x) }
}

/// `aten::rms_norm`: `x [rows…, width…]`, weight `[width…]`, in one kernel; until PyTorch 2.8 a composite.
///
/// Saved: the input and one statistic per row.
pub fn rms_norm(rt: &Runtime, x: &Tensor, width: u64, weight: Option<&Tensor>) -> Tensor {
    // Channels last is not for the kernel.
    let is_composite = x.rank() >= 4 && x.suggested_format() != MemoryFormat::Contiguous;
    if !rt.pytorch.fuses_rms_norm() || is_composite {
        return composite_rms_norm(rt, x, width, weight);
    }
    let [x] = &rt.for_operator("aten::rms_norm", [x]);
    let dense = rt.no_grad(|| view::contiguous(rt, x));
    rt.enter_operator("aten::_fused_rms_norm");
    let y = rt.empty(x.dtype(), x.sizes());
    let rows = x.numel().checked_div(width).unwrap_or(0);
    let deviation = rt.empty(DType::Float32, &[rows]);
    rt.launch(&[&y, &deviation], rows_of(x, rows, 1), x.dtype());
    drop(dense);
    let inputs: Vec<&Tensor> = std::iter::once(x).chain(weight).collect();
    let saved: Vec<&Tensor> = [x, &deviation].into_iter().chain(weight).collect();
    let own = Parameters::of([weight, None]);
    rt.differentiable("FusedRmsNormBackward0", y, &inputs, &saved, move |pass| {
        row_gradients(pass, &own)
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
    let rsqrt = Unary::saves_output("aten::rsqrt").node("RsqrtBackward0").temporaries(2);
    let scale = elementwise::unary(rt, rsqrt, &mean);
    drop((squares, mean));
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
    let accumulated = if x.dtype().size() < Bytes(4) { 2 } else { 0 };
    let mut scratch = vec![[batch, groups]; accumulated];
    // One number per channel is scaled at once.
    let is_pointwise = x.numel() == batch.saturating_mul(channels);
    if !is_pointwise && (weight.is_some() || bias.is_some()) {
        scratch.extend([[batch, channels]; 2]);
    }
    let scratch: Vec<_> = scratch.iter().map(|sizes| rt.empty(DType::Float32, sizes)).collect();
    if rt.is_launching() {
        let writes: Vec<&Tensor> = [&y, &mean, &deviation].into_iter().chain(&scratch).collect();
        rt.launch(&writes, rows_of(&x, batch.saturating_mul(groups), 1), x.dtype());
    }
    drop(scratch);
    let has_weight = weight.is_some();
    affine(
        rt,
        "NativeGroupNormBackward0",
        y,
        &[&x, &mean, &deviation],
        (weight, bias),
        move |pass, own| {
            let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
            let format = x.suggested_format();
            let grad_copy = view::contiguous_in(pass.rt, grad, format);
            pass.rt.enter_operator("aten::native_group_norm_backward");
            let for_x = pass.needs(0).then(|| pass.rt.empty_like(x));
            let parameters = own.gradients(pass, false);
            let mut sums = vec![channels; if is_pointwise { 0 } else { 2 }];
            if for_x.is_some() {
                sums.extend([groups; 2]);
                if !is_pointwise && has_weight && format == MemoryFormat::Contiguous {
                    sums.push(channels);
                }
            }
            let scratch: Vec<_> =
                sums.iter().map(|&n| pass.rt.empty(DType::Float32, &[batch, n])).collect();
            if pass.rt.is_launching() {
                let writes: Vec<&Tensor> =
                    for_x.iter().chain(parameters.iter().flatten()).chain(&scratch).collect();
                let rows = batch.saturating_mul(groups);
                pass.rt.launch(&writes, rows_of(x, rows, 2), x.dtype());
            }
            drop((scratch, grad_copy));
            std::iter::once(for_x).chain(parameters).collect()
        },
    )
}

/// Weight and bias of a normalisation: type and sizes of those that there are.
struct Parameters(Vec<(DType, Vec<u64>)>);

impl Parameters {
    fn of(parameters: [Option<&Tensor>; 2]) -> Self {
        let there = parameters.into_iter().flatten();
        Self(there.map(|tensor| (tensor.dtype(), tensor.sizes().to_vec())).collect())
    }

    /// Gradients of those that need one, or of all.
    fn gradients(&self, pass: &Pass<'_>, all: bool) -> Gradients {
        let fresh = |(at, (dtype, sizes)): (usize, &(DType, Vec<u64>))| {
            (all || pass.needs(at.saturating_add(1))).then(|| pass.rt.empty(*dtype, sizes))
        };
        self.0.iter().enumerate().map(fresh).collect()
    }
}

/// A normalisation with an affine part: input, weight and bias get gradients, the weight is saved.
fn affine(
    rt: &Runtime,
    node: &'static str,
    y: Tensor,
    saved: &[&Tensor],
    (weight, bias): (Option<&Tensor>, Option<&Tensor>),
    gradients: impl Fn(&Pass<'_>, &Parameters) -> Gradients + 'static,
) -> Tensor {
    let own = Parameters::of([weight, bias]);
    let inputs: Vec<&Tensor> = saved.iter().copied().take(1).chain(weight).chain(bias).collect();
    let saved: Vec<&Tensor> = saved.iter().copied().chain(weight).collect();
    rt.differentiable(node, y, &inputs, &saved, move |pass| gradients(pass, &own))
}

/// Gradients of `X [N, C, …]`, and of weight and bias `[C]`: they follow the input's layout.
/// cuDNN computes `all`, whichever are needed.
fn channel_gradients(pass: &Pass<'_>, own: &Parameters, all: bool) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let grad_copy = view::contiguous_in(pass.rt, grad, x.suggested_format());
    let for_x = (all || pass.needs(0)).then(|| pass.rt.empty_like(x));
    let parameters = own.gradients(pass, all);
    if pass.rt.is_launching() {
        let writes: Vec<&Tensor> = for_x.iter().chain(parameters.iter().flatten()).collect();
        pass.rt.launch(&writes, channels_of(x, true), x.dtype());
    }
    drop(grad_copy);
    std::iter::once(for_x).chain(parameters).collect()
}

/// Gradients of `X [rows…, width…]`, and of weight and bias `[width…]`: the kernel works on rows, and the
/// gradient is copied last.
fn row_gradients(pass: &Pass<'_>, own: &Parameters) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let dense = |tensor: &Tensor| pass.rt.empty(tensor.dtype(), tensor.sizes());
    let x_copy = (!x.is_contiguous()).then(|| dense(x));
    let for_x = pass.needs(0).then(|| dense(x));
    let parameters = own.gradients(pass, false);
    let grad_copy = (!grad.is_contiguous()).then(|| dense(grad));
    if let Some(for_x) = &for_x {
        let rows = pass.saved(1).map_or(1, Tensor::numel);
        pass.rt.launch(&[for_x], rows_of(x, rows, 2), x.dtype());
    }
    let written: Vec<&Tensor> = parameters.iter().flatten().collect();
    if !written.is_empty() {
        pass.rt.launch_reduction(&[grad, x], &written);
    }
    drop(grad_copy);
    drop(x_copy);
    std::iter::once(for_x).chain(parameters).collect()
}
