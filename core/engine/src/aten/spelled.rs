//! Functions that libraries spell out in Python: the ATen calls they make, and the tensors that their variables
//! keep alive.
//!
//! Sources: transformers 4 and 5, `modeling_llama.py` and those that copy it, `modeling_t5.py`,
//! `modeling_gemma.py`, `modeling_bloom.py`.

use super::elementwise::{self, Unary};
use super::reduce;
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

const RSQRT: Unary = Unary::saves_output("aten::rsqrt").node("RsqrtBackward0").temporaries(2);

const TANH: Unary = Unary::saves_output("aten::tanh").node("TanhBackward0");

/// Whose root-mean-square normalisation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmsNorm {
    /// `LlamaRMSNorm`: `weight * x.to(input_dtype)`.
    Llama,
    /// `T5LayerNorm`: multiplies the input itself, not what was cast.
    T5,
    /// `GemmaRMSNorm`: the factor is `1.0 + weight`, and the product is cast back.
    Gemma,
}

/// `weight * (x * rsqrt(mean(x²) + ε))`, computed in `dtype`; `weight_first` where the factor is the
/// product's first operand.
pub fn rms_norm(
    rt: &Runtime,
    x: &Tensor,
    weight: &Tensor,
    (family, dtype): (RmsNorm, DType),
    weight_first: bool,
) -> Tensor {
    let multiply = |normed: &Tensor, factor: &Tensor| {
        let operands = if weight_first { (factor, normed) } else { (normed, factor) };
        elementwise::mul(rt, operands.0, operands.1)
    };
    let wide = kernels::cast(rt, x, dtype);
    let squares = elementwise::pow_scalar(rt, &wide);
    let base = if family == RmsNorm::T5 { x.clone() } else { wide.clone() };
    drop(wide);
    let mut gone = vec![false; x.rank()];
    if let Some(last) = gone.last_mut() {
        *last = true;
    }
    // `variance` is a name, which goes when the module returns; Gemma's is none.
    let mean = reduce::mean(rt, &squares, &gone, true);
    drop(squares);
    let shifted = elementwise::shift(rt, "aten::add", &mean);
    let variance = Some(mean).filter(|_| family != RmsNorm::Gemma);
    let scale = elementwise::unary(rt, RSQRT, &shifted);
    drop(shifted);
    let normed = elementwise::mul(rt, &base, &scale);
    drop((scale, base));
    let y = match family {
        RmsNorm::Llama => {
            let lower = kernels::cast(rt, &normed, x.dtype());
            let y = multiply(&lower, weight);
            drop((lower, normed));
            y
        }
        RmsNorm::T5 => {
            // `if self.weight.dtype in [torch.float16, torch.bfloat16]`
            let is_half = weight.dtype().size() < DType::Float32.size();
            let dtype = if is_half { weight.dtype() } else { normed.dtype() };
            let lower = kernels::cast(rt, &normed, dtype);
            drop(normed);
            multiply(&lower, weight)
        }
        RmsNorm::Gemma => {
            let factor = kernels::cast(rt, weight, dtype);
            let factor = elementwise::shift(rt, "aten::add", &factor);
            let y = multiply(&normed, &factor);
            drop((factor, normed));
            kernels::cast(rt, &y, x.dtype())
        }
    };
    drop(variance);
    y
}

/// What T5's blocks do in fp16 alone, against infinities:
/// `limit = torch.where(torch.isinf(x).any(), …, …)`, `x = torch.clamp(x, min=-limit, max=limit)`.
pub fn clamp_in_fp16(rt: &Runtime, x: &Tensor) -> Tensor {
    if x.dtype() != DType::Float16 {
        return x.clone();
    }
    let size = rt.no_grad(|| elementwise::opaque(rt, "aten::isinf", x.dtype(), &[x]));
    let is_infinite = elementwise::compare(rt, "aten::isinf", &[&size]);
    drop(size);
    rt.enter_operator("aten::any");
    let any = kernels::reduce(rt, &is_infinite, &vec![true; x.rank()], DType::Bool);
    drop(is_infinite);
    rt.enter_operator("aten::where");
    let numbers = [(); 2].map(|()| rt.empty(DType::Float32, &[]));
    let limit = rt.empty(DType::Float32, &[]);
    drop((numbers, any));
    rt.enter_operator("aten::neg");
    let negative = rt.empty(DType::Float32, &[]);
    elementwise::clamp_between(rt, x, [&negative, &limit])
}

/// Bloom's `GeLUFunction`, a custom `torch.autograd.Function` that saves its input and nothing else.
pub fn bloom_gelu(rt: &Runtime, x: &Tensor) -> Tensor {
    // x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
    let y = rt.no_grad(|| {
        let half = scaled(rt, x);
        let curve = tanh_of_cubic(rt, x);
        let shifted = elementwise::shift(rt, "aten::add", &curve);
        drop(curve);
        elementwise::mul(rt, &half, &shifted)
    });
    rt.differentiable("GeLUFunctionBackward", y, &[x], &[x], |pass| {
        let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        let slope = bloom_gelu_slope(pass.rt, x);
        vec![Some(elementwise::mul(pass.rt, &slope, grad))]
    })
}

/// `ff` of `bloom_gelu_back`; `tanh_out` is a name.
fn bloom_gelu_slope(rt: &Runtime, x: &Tensor) -> Tensor {
    let add = |x: &Tensor| elementwise::shift(rt, "aten::add", x);
    let curve = tanh_of_cubic(rt, x);
    // 0.5 * x * ((1 - tanh_out * tanh_out) * (0.79788456 + 0.1070322243 * x * x))
    let half = scaled(rt, x);
    let square = elementwise::mul(rt, &curve, &curve);
    let rest = elementwise::negate(rt, "aten::rsub", &square);
    drop(square);
    let inner = add(&scaled_square(rt, x));
    let product = elementwise::mul(rt, &rest, &inner);
    drop((rest, inner));
    let first = elementwise::mul(rt, &half, &product);
    drop((half, product));
    // … + 0.5 * (1 + tanh_out)
    let second = scaled(rt, &add(&curve));
    let slope = elementwise::add(rt, &first, &second);
    drop((first, second));
    drop(curve);
    slope
}

/// `tanh(0.79788456 * x * (1 + 0.044715 * x * x))`.
fn tanh_of_cubic(rt: &Runtime, x: &Tensor) -> Tensor {
    let low = scaled(rt, x);
    let shifted = elementwise::shift(rt, "aten::add", &scaled_square(rt, x));
    let cubic = elementwise::mul(rt, &low, &shifted);
    drop((low, shifted));
    elementwise::unary(rt, TANH, &cubic)
}

/// `c * x * x`.
fn scaled_square(rt: &Runtime, x: &Tensor) -> Tensor {
    let low = scaled(rt, x);
    elementwise::mul(rt, &low, x)
}

fn scaled(rt: &Runtime, x: &Tensor) -> Tensor {
    elementwise::scale(rt, "aten::mul", x)
}
