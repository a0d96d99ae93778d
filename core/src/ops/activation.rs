//! Elementwise functions of one tensor: the output has the type of the input.
//!
//! <https://onnx.ai/onnx/operators/onnx__Relu.html>, `onnx__Gelu.html`, `onnx__Sigmoid.html`,
//! `onnx__Erf.html` and so on. `IsNaN`, `IsInf` and `Not` give booleans. Sign, rounding and roots
//! are folded, because sizes come of them.

use super::Call;
use super::fold::{self, float};
use super::run::without_gradient;
use super::shape_math::like_first;
use super::torch;
use super::{Inference, OpError, Operator, op};
use crate::aten::elementwise::{Reads, Unary, unary, unary_in_place};
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    torch("Gelu", 1..=1).runs(|c| pointwise(c, "aten::gelu", Reads::Input, 0)),
    torch("Rsqrt", 1..=1).runs(|c| pointwise(c, "aten::rsqrt", Reads::Output, 2)),
    torch("Silu", 1..=1).runs(|c| pointwise(c, "aten::silu", Reads::Input, 0)),
    op("Abs", 1..=1, |i| folded(i, i64::checked_abs, |x| Some(x.abs())))
        .runs(|c| pointwise(c, "aten::abs", Reads::Input, 1)),
    op("Acos", 1..=1, like_first).runs(|c| pointwise(c, "aten::acos", Reads::Input, 3)),
    op("Acosh", 1..=1, like_first).runs(|c| pointwise(c, "aten::acosh", Reads::Input, 3)),
    op("Asin", 1..=1, like_first).runs(|c| pointwise(c, "aten::asin", Reads::Input, 3)),
    op("Asinh", 1..=1, like_first).runs(|c| pointwise(c, "aten::asinh", Reads::Input, 3)),
    op("Atan", 1..=1, like_first).runs(|c| pointwise(c, "aten::atan", Reads::Input, 2)),
    op("Atanh", 1..=1, like_first).runs(|c| pointwise(c, "aten::atanh", Reads::Input, 2)),
    op("BitwiseNot", 1..=1, |i| folded(i, |n| Some(!n), |_| None))
        .runs(|c| without_gradient(c, "aten::bitwise_not")),
    op("Ceil", 1..=1, |i| folded(i, Some, |x| Some(x.ceil())))
        .runs(|c| pointwise(c, "aten::ceil", Reads::Nothing, 0)),
    op("Celu", 1..=1, like_first).runs(|c| pointwise(c, "aten::celu", Reads::Input, 0)),
    op("Cos", 1..=1, like_first).runs(|c| pointwise(c, "aten::cos", Reads::Input, 2)),
    op("Cosh", 1..=1, like_first).runs(|c| pointwise(c, "aten::cosh", Reads::Input, 1)),
    op("Elu", 1..=1, like_first).runs(|c| pointwise(c, "aten::elu", Reads::Input, 0)),
    op("Erf", 1..=1, like_first).runs(|c| pointwise(c, "aten::erf", Reads::Input, 3)),
    op("Exp", 1..=1, like_first).runs(|c| pointwise(c, "aten::exp", Reads::Output, 0)),
    op("Floor", 1..=1, |i| folded(i, Some, |x| Some(x.floor())))
        .runs(|c| pointwise(c, "aten::floor", Reads::Nothing, 0)),
    op("Gelu", 1..=1, like_first).runs(|c| pointwise(c, "aten::gelu", Reads::Input, 0)),
    op("HardSigmoid", 1..=1, like_first)
        .runs(|c| pointwise(c, "aten::hardsigmoid", Reads::Input, 0)),
    op("HardSwish", 1..=1, like_first).runs(|c| pointwise(c, "aten::hardswish", Reads::Input, 0)),
    op("IsInf", 1..=1, boolean).runs(|c| without_gradient(c, "aten::isinf")),
    op("IsNaN", 1..=1, boolean).runs(|c| without_gradient(c, "aten::isnan")),
    op("LeakyRelu", 1..=1, like_first).runs(|c| pointwise(c, "aten::leaky_relu", Reads::Input, 0)),
    op("Log", 1..=1, like_first).runs(|c| pointwise(c, "aten::log", Reads::Input, 0)),
    op("Mish", 1..=1, like_first).runs(|c| pointwise(c, "aten::mish", Reads::Input, 0)),
    op("Neg", 1..=1, |i| folded(i, i64::checked_neg, |x| Some(float::neg(x))))
        .runs(|c| pointwise(c, "aten::neg", Reads::Nothing, 0)),
    op("Not", 1..=1, |i| folded(i, |n| Some(i64::from(n == 0)), |_| None))
        .runs(|c| without_gradient(c, "aten::logical_not")),
    op("Reciprocal", 1..=1, |i| folded(i, |_| None, |x| Some(float::div(1.0, x))))
        .runs(|c| pointwise(c, "aten::reciprocal", Reads::Output, 2)),
    op("Relu", 1..=1, |i| folded(i, |n| Some(n.max(0)), |x| Some(x.max(0.0))))
        .runs(|c| pointwise(c, "aten::relu", Reads::Output, 0)),
    op("Round", 1..=1, |i| folded(i, Some, |x| Some(x.round_ties_even())))
        .runs(|c| pointwise(c, "aten::round", Reads::Nothing, 0)),
    op("Selu", 1..=1, like_first).runs(|c| pointwise(c, "aten::elu", Reads::Input, 0)),
    op("Shrink", 1..=1, like_first).runs(|c| pointwise(c, "aten::hardshrink", Reads::Input, 0)),
    op("Sigmoid", 1..=1, like_first).runs(|c| pointwise(c, "aten::sigmoid", Reads::Output, 0)),
    op("Sign", 1..=1, |i| folded(i, |n| Some(n.signum()), |_| None))
        .runs(|c| pointwise(c, "aten::sign", Reads::Nothing, 0)),
    op("Sin", 1..=1, like_first).runs(|c| pointwise(c, "aten::sin", Reads::Input, 1)),
    op("Sinh", 1..=1, like_first).runs(|c| pointwise(c, "aten::sinh", Reads::Input, 1)),
    op("Softplus", 1..=1, like_first).runs(|c| pointwise(c, "aten::softplus", Reads::Input, 0)),
    op("Softsign", 1..=1, like_first).runs(|c| pointwise(c, "aten::div", Reads::Input, 2)),
    op("Sqrt", 1..=1, |i| folded(i, |_| None, |x| Some(x.sqrt())))
        .runs(|c| pointwise(c, "aten::sqrt", Reads::Output, 1)),
    op("Swish", 1..=1, like_first).runs(|c| pointwise(c, "aten::silu", Reads::Input, 0)),
    op("Tan", 1..=1, like_first).runs(|c| pointwise(c, "aten::tan", Reads::Output, 2)),
    op("Tanh", 1..=1, like_first).runs(|c| pointwise(c, "aten::tanh", Reads::Output, 0)),
    op("ThresholdedRelu", 1..=1, like_first)
        .runs(|c| pointwise(c, "aten::threshold", Reads::Input, 0)),
];

fn boolean(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = inference.input(0)?.dims.clone();
    inference.set(0, TensorType::new(DType::Bool, dims));
    Ok(())
}

fn folded(
    inference: &mut Inference<'_>,
    on_ints: fn(i64) -> Option<i64>,
    on_floats: fn(f64) -> Option<f64>,
) -> Result<(), OpError> {
    like_first(inference)?;
    fold::unary(inference, on_ints, on_floats)
}

/// One kernel forward, one backward.
fn pointwise(
    call: &mut Call<'_>,
    name: &'static str,
    reads: Reads,
    temporaries: usize,
) -> Result<(), OpError> {
    let x = call.need(0)?;
    let op = Unary { name, node: name, reads, temporaries };
    let y =
        if call.overwrites() { unary_in_place(call.rt, op, &x) } else { unary(call.rt, op, &x) };
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Relu float32[2,3]", "float32[2,3]"),
            ("Relu int64[2]:-1,4", "int64[2]:0,4"),
            ("Gelu float16[]", "float16[]"),
            ("IsNaN float32[2,3]", "bool[2,3]"),
            ("Not bool[2]:0,1", "bool[2]:1,0"),
            ("Neg int64[1]:7", "int64[1]:-7"),
            ("Neg int64[1]:-9223372036854775808", "int64[1]"),
            ("Sqrt float32[]:16", "float32[]:4"),
            ("Floor float32[2]:1.5,-1.5", "float32[2]:1,-2"),
            ("Round float32[2]:0.5,1.5", "float32[2]:0,2"),
            ("Reciprocal float64[]:4", "float64[]:0.25"),
        ] {
            check(call, expected);
        }
    }
}
