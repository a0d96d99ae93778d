//! Sums, means and other reductions; their staging buffers are those of [`kernels`].

use super::view;
use crate::eager::kernels::{self, kept_sizes, reduce};
use crate::eager::{Runtime, Tensor};
use crate::tensor::{DType, Dims};

/// `aten::sum`: the gradient is expanded, a view.
pub fn sum(rt: &Runtime, x: &Tensor, reduced: &[bool], keepdim: bool) -> Tensor {
    rt.enter_operator("aten::sum");
    let single =
        rt.autocast_type().is_some() && x.dtype().is_floating() && x.dtype() != DType::Float64;
    let dtype = if single { DType::Float32 } else { x.dtype() };
    let y = shaped(reduce(rt, x, reduced, dtype), x, reduced, keepdim);
    let (sizes, kept) = (x.sizes().to_vec(), kept_sizes(x, reduced));
    rt.differentiable("SumBackward1", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| {
            let wide = view::reshape(pass.rt, grad, &kept);
            view::expand(pass.rt, &wide, &sizes)
        })]
    })
}

/// `aten::mean`: the gradient is expanded and divided, one full tensor.
pub fn mean(rt: &Runtime, x: &Tensor, reduced: &[bool], keepdim: bool) -> Tensor {
    rt.enter_operator("aten::mean");
    let y = shaped(reduce(rt, x, reduced, x.dtype()), x, reduced, keepdim);
    let (sizes, kept) = (x.sizes().to_vec(), kept_sizes(x, reduced));
    rt.differentiable("MeanBackward1", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| {
            let wide = view::reshape(pass.rt, grad, &kept);
            let wide = view::expand(pass.rt, &wide, &sizes);
            kernels::pointwise(pass.rt, grad.dtype(), &[&wide])
        })]
    })
}

/// Other reductions (`amax`, `prod`, `norm`, `logsumexp`): input and result are saved.
pub fn saving(
    rt: &Runtime,
    name: &'static str,
    x: &Tensor,
    reduced: &[bool],
    keepdim: bool,
) -> Tensor {
    rt.enter_operator(name);
    let y = shaped(reduce(rt, x, reduced, x.dtype()), x, reduced, keepdim);
    let saved = y.clone();
    rt.differentiable("ReduceBackward0", y, &[x], &[x, &saved], |pass| {
        vec![pass.saved(0).map(|x| pass.rt.empty_like(x))]
    })
}

/// A reduction's result without the dimensions that are gone.
pub(super) fn shaped(result: Tensor, x: &Tensor, reduced: &[bool], keepdim: bool) -> Tensor {
    if keepdim {
        return result;
    }
    let pairs = x.sizes().iter().zip(reduced);
    let sizes: Dims = pairs.filter(|(_, gone)| !**gone).map(|(&n, _)| n).collect();
    let strides = crate::eager::layout::contiguous_strides(&sizes);
    result.alias_sole(sizes, strides)
}
