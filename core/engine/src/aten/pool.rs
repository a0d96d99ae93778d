//! Pooling (`native/cuda/DilatedMaxPool2d.cu`, `AveragePool2d.cu`, `AdaptiveAveragePooling.cu`).
//!
//! Kernels read and write the format that the input's strides suggest.

use super::{reduce, view};
use crate::config::MemoryFormat;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// `aten::max_pool2d_with_indices`: `x [N, C, H, W]` to `output`.
///
/// Saved: the input, and as many indices as the output has elements, eight bytes each, the second result.
pub fn max_pool(rt: &Runtime, x: &Tensor, output: &[u64]) -> (Tensor, Tensor) {
    rt.enter_operator("aten::max_pool2d_with_indices");
    let format = x.suggested_format();
    let y = rt.empty_in(x.dtype(), output, format);
    let indices = rt.empty_in(DType::Int64, output, format);
    drop(rt.no_grad(|| view::contiguous_in(rt, x, format)));
    rt.launch_elementwise(&[x], &[&y, &indices]);
    let saved = [x, &indices];
    let y = rt.differentiable("MaxPool2DWithIndicesBackward0", y, &[x], &saved, input_gradient);
    (y, indices)
}

/// `aten::avg_pool2d`, and adaptive pooling to more than one element: `x [N, C, H, W]` to `output`.
///
/// Saved: the input. The adaptive kernels read a gradient of any strides.
pub fn average_pool(rt: &Runtime, x: &Tensor, output: &[u64], adaptive: bool) -> Tensor {
    rt.enter_operator(if adaptive { "aten::adaptive_avg_pool2d" } else { "aten::avg_pool2d" });
    let format = x.suggested_format();
    let y = rt.empty_in(x.dtype(), output, format);
    drop(rt.no_grad(|| view::contiguous_in(rt, x, format)));
    rt.launch_elementwise(&[x], &[&y]);
    if adaptive {
        return rt.differentiable("AdaptiveAvgPool2DBackward0", y, &[x], &[x], |pass| {
            let like = |x: &Tensor| pass.rt.empty_in(x.dtype(), x.sizes(), x.suggested_format());
            vec![pass.saved(0).map(like)]
        });
    }
    rt.differentiable("AvgPool2DBackward0", y, &[x], &[x], input_gradient)
}

/// The input's gradient in the format that the input suggests, then copies of what is not in it.
fn input_gradient(pass: &Pass<'_>) -> Gradients {
    let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return Vec::new() };
    let format = x.suggested_format();
    let result = pass.rt.empty_in(x.dtype(), x.sizes(), format);
    let grad_copy = view::contiguous_in(pass.rt, grad, format);
    let copy = view::contiguous_in(pass.rt, x, format);
    if pass.rt.is_launching() {
        let reads: Vec<&Tensor> = [grad].into_iter().chain(pass.saved(1)).collect();
        pass.rt.launch_elementwise(&reads, &[&result]);
    }
    drop((copy, grad_copy));
    vec![Some(result)]
}

/// `aten::adaptive_avg_pool2d` of `x [N, C, d…]` to `[N, C, 1…]`: a mean over each channel.
///
/// In channels last the mean is seen again with strides that say so, by `as_strided`, whose gradient
/// is a tensor of its own.
pub fn global_average_pool(rt: &Runtime, x: &Tensor) -> Tensor {
    let spatial: Vec<bool> = (0..x.rank()).map(|dim| dim >= 2).collect();
    let y = reduce::mean(rt, x, &spatial, true);
    if x.rank() != 4 || x.suggested_format() == MemoryFormat::Contiguous {
        return y;
    }
    view::in_format(rt, &y, MemoryFormat::ChannelsLast)
}
