//! Pooling (`native/cuda/DilatedMaxPool2d.cu`, `AveragePool2d.cu`, `AdaptiveAveragePooling.cu`).

use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// `aten::max_pool2d_with_indices`: the indices, eight bytes each, are saved beside the input.
pub fn max_pool(rt: &Runtime, x: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator("aten::max_pool2d_with_indices");
    let y = rt.empty(x.dtype(), output);
    let indices = rt.empty(DType::Int64, output);
    rt.differentiable("MaxPool2DWithIndicesBackward0", y, &[x], &[x, &indices], |pass| {
        vec![pass.saved(0).map(|x| pass.rt.empty_like(x))]
    })
}

/// `aten::avg_pool2d` and adaptive pooling to more than one element: the input is saved.
pub fn average_pool(rt: &Runtime, name: &'static str, x: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator(name);
    let y = rt.empty(x.dtype(), output);
    rt.differentiable("AvgPool2DBackward0", y, &[x], &[x], |pass| {
        vec![pass.saved(0).map(|x| pass.rt.empty_like(x))]
    })
}
