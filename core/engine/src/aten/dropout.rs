//! `native_dropout`: a mask of one byte per element, made first and saved (`native/cuda/Dropout.cu`).

use crate::eager::layout::like_strides;
use crate::eager::{Pass, Runtime, Tensor};
use crate::tensor::DType;

/// `aten::native_dropout` in training, with a probability above zero: `x` of any shape. Saved: a mask of booleans.
pub fn dropout(rt: &Runtime, x: &Tensor) -> Tensor {
    rt.enter_operator("aten::native_dropout");
    let mask = rt.empty_strided(DType::Bool, x.sizes(), like_strides(x));
    let y = rt.empty_like(x);
    rt.launch_elementwise(&[x], &[&y, &mask]);
    rt.differentiable("NativeDropoutBackward0", y, &[x], &[&mask], |pass| {
        pass.rt.enter_operator("aten::native_dropout_backward");
        vec![masked(pass)]
    })
}

/// `aten::dropout_`: no kernel of its own (`native/Dropout.cpp`): noise of the input's type, which is
/// saved, then `mul_`.
pub fn dropout_in_place(rt: &Runtime, x: &Tensor) -> Tensor {
    rt.enter_operator("aten::dropout_");
    let noise = rt.empty_like(x);
    rt.launch_elementwise(&[], &[&noise]);
    rt.launch_in_place(&[], &noise);
    rt.launch_in_place(&[&noise], x);
    rt.differentiable("MulBackward0", rt.overwritten(x), &[x], &[&noise], |pass| vec![masked(pass)])
}

/// The gradient times what was saved.
fn masked(pass: &Pass<'_>) -> Option<Tensor> {
    let grad = pass.grad()?;
    let result = pass.rt.empty_like(grad);
    if pass.rt.is_launching() {
        let reads: Vec<&Tensor> = pass.saved(0).into_iter().chain([grad]).collect();
        pass.rt.launch_elementwise(&reads, &[&result]);
    }
    Some(result)
}

/// Random numbers without a gradient: `rand_like`, `bernoulli_`.
pub fn random(rt: &Runtime, dtype: DType, sizes: &[u64]) -> Tensor {
    rt.enter_operator("aten::rand");
    let noise = rt.empty(dtype, sizes);
    rt.launch_elementwise(&[], &[&noise]);
    noise
}
