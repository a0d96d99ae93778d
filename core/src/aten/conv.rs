//! Convolutions. `derivatives.yaml`: input and weight are always saved.
//!
//! cuDNN takes a workspace for the duration of each call; PyTorch's own depthwise kernels take
//! none. Sources: `native/Convolution.cpp`, `native/cudnn/Conv_v8.cpp`.

use super::view;
use crate::eager::kernels;
use crate::eager::layout::{contiguous_strides, strides_in_order};
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

pub mod workspace;

use workspace::{Direction, Layer};

/// What the operator's attributes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Dimensions of the output `[N, M, …]`.
    pub output: Vec<u64>,
    /// Step per spatial dimension.
    pub stride: Vec<u64>,
    /// Spacing of the kernel's taps per spatial dimension.
    pub dilation: Vec<u64>,
    /// Channel groups.
    pub groups: u64,
    /// `ConvTranspose`.
    pub transposed: bool,
}

/// `aten::convolution`.
pub fn convolution(
    rt: &Runtime,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Convolution,
) -> Tensor {
    let bias = bias.map(|bias| {
        let [bias] = rt.for_operator("aten::convolution", [bias]);
        bias
    });
    let [x, weight] = &rt.for_operator("aten::convolution", [x, weight]);
    let channels_last = prefers_channels_last(x) || prefers_channels_last(weight);
    let native =
        is_depthwise(x, weight, spec) && !channels_last && !is_depthwise_for_cudnn(x, weight, spec);
    let layer = Layer { native, ..Layer::new(x, weight, spec, channels_last) };
    // The kernel works on a copy where strides ask for one; what is saved is the input itself.
    let copy = rt.no_grad(|| in_format(rt, x, channels_last));
    rt.enter_operator("aten::convolution");
    let y = rt.empty_strided(x.dtype(), &spec.output, format_strides(&spec.output, channels_last));
    rt.workspace(workspace::size(&rt.hardware, &layer, Direction::Forward));
    drop(copy);
    let mut inputs = vec![x, weight];
    inputs.extend(&bias);
    let has_bias = bias.is_some();
    rt.differentiable("ConvolutionBackward0", y, &inputs, &[x, weight], move |pass| {
        gradients(pass, &layer, has_bias)
    })
}

/// Gradient of the input, then of the weight, each with its workspace, then the bias's sum.
fn gradients(pass: &Pass<'_>, layer: &Layer, has_bias: bool) -> Gradients {
    let channels_last = layer.channels_last;
    let (Some(grad), Some(x), Some(weight)) = (pass.grad(), pass.saved(0), pass.saved(1)) else {
        return Vec::new();
    };
    let rt = pass.rt;
    let grad_copy = in_format(rt, grad, channels_last);
    let copy = in_format(rt, x, channels_last);
    let call = |like: &Tensor, direction| {
        rt.enter_operator("aten::convolution_backward");
        let strides = format_strides(like.sizes(), channels_last);
        let result = rt.empty_strided(grad_copy.dtype(), like.sizes(), strides);
        rt.workspace(workspace::size(&rt.hardware, layer, direction));
        result
    };
    let input = || pass.needs(0).then(|| call(x, Direction::BackwardData));
    let filter = || pass.needs(1).then(|| call(weight, Direction::BackwardFilter));
    // PyTorch's own depthwise kernels make the weight's gradient first.
    let (for_input, for_weight) = if layer.native {
        let for_weight = filter();
        (input(), for_weight)
    } else {
        let for_input = input();
        (for_input, filter())
    };
    drop((copy, grad_copy));
    // The bias's sum reads the gradient as it came.
    let for_bias = (has_bias && pass.needs(2)).then(|| {
        let sizes: Vec<u64> =
            (0..grad.rank()).map(|dim| if dim == 1 { grad.size(1) } else { 1 }).collect();
        kernels::sum_to(rt, grad, &sizes).alias_sole(vec![grad.size(1)], vec![1])
    });
    vec![for_input, for_weight, for_bias]
}

/// `ConvParams::is_depthwise`.
fn is_depthwise(x: &Tensor, weight: &Tensor, spec: &Convolution) -> bool {
    !spec.transposed
        && spec.groups > 1
        && x.size(1) == spec.groups
        && weight.size(0).is_multiple_of(x.size(1).max(1))
        && matches!(x.rank(), 4 | 5)
}

/// `use_cudnn_depthwise` for contiguous tensors, `check_cudnn_depthwise_workload_with_filter`:
/// float16 alone, where cuDNN was found to be faster. The same for every device; PyTorch 2.15
/// answers so for each of 5440 layers that `_select_conv_backend` was asked about on an A100.
fn is_depthwise_for_cudnn(x: &Tensor, weight: &Tensor, spec: &Convolution) -> bool {
    let (batch, channels) = (x.size(0), x.size(1));
    let (&[_, _, height, width], &[_, _, taps, across]) = (x.sizes(), weight.sizes()) else {
        return false;
    };
    let &[down, stride] = spec.stride.as_slice() else { return false };
    let suits = x.dtype() == DType::Float16
        && channels >= 32
        && spec.dilation.iter().all(|&spacing| spacing == 1)
        && (down == stride || height == 1);
    if !suits || height == 1 && stride == 1 {
        return suits;
    }
    if taps != across || !matches!(taps, 1 | 3 | 5) || width < 7 {
        return false;
    }
    match (stride, batch, taps) {
        (2, 1, 1) => width <= 28,
        (1, _, _) | (2, 1, _) => true,
        (2, _, 1) => batch <= 16 && channels >= 128 && width <= 7,
        (2, _, _) => channels >= 512 || channels >= 256 && width >= 28,
        _ => false,
    }
}

/// Whether strides, not only sizes, say channels last (`suggest_memory_format`).
fn prefers_channels_last(x: &Tensor) -> bool {
    if !matches!(x.rank(), 4 | 5) || x.is_contiguous() {
        return false;
    }
    let sizes = x.sizes();
    let strides = format_strides(sizes, true);
    sizes.iter().zip(x.strides()).zip(&strides).all(|((&n, a), b)| n == 1 || a == b)
}

fn format_strides(sizes: &[u64], channels_last: bool) -> Vec<u64> {
    if !channels_last || sizes.len() < 3 {
        return contiguous_strides(sizes);
    }
    let order: Vec<usize> = std::iter::once(0).chain(2..sizes.len()).chain([1]).collect();
    strides_in_order(sizes, &order)
}

fn in_format(rt: &Runtime, x: &Tensor, channels_last: bool) -> Tensor {
    if !channels_last {
        return view::contiguous(rt, x);
    }
    if prefers_channels_last(x) {
        return x.clone();
    }
    rt.enter_operator("aten::contiguous");
    let y = rt.empty_strided(x.dtype(), x.sizes(), format_strides(x.sizes(), true));
    rt.differentiable("CloneBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}
