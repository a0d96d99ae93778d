//! Elementwise functions of one tensor: the output has the type of the input.
//!
//! <https://onnx.ai/onnx/operators/onnx__Relu.html>, `onnx__Gelu.html`, `onnx__Sigmoid.html`,
//! `onnx__Erf.html` and so on. `IsNaN`, `IsInf` and `Not` give booleans. Sign, rounding and roots
//! are folded, because sizes come of them.

use super::fold::{self, float};
use super::shape_math::like_first;
use super::{Inference, OpError, Operator, op};
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    op("Abs", 1..=1, |i| folded(i, i64::checked_abs, |x| Some(x.abs()))),
    op("Acos", 1..=1, like_first),
    op("Acosh", 1..=1, like_first),
    op("Asin", 1..=1, like_first),
    op("Asinh", 1..=1, like_first),
    op("Atan", 1..=1, like_first),
    op("Atanh", 1..=1, like_first),
    op("BitwiseNot", 1..=1, |i| folded(i, |n| Some(!n), |_| None)),
    op("Ceil", 1..=1, |i| folded(i, Some, |x| Some(x.ceil()))),
    op("Celu", 1..=1, like_first),
    op("Cos", 1..=1, like_first),
    op("Cosh", 1..=1, like_first),
    op("Elu", 1..=1, like_first),
    op("Erf", 1..=1, like_first),
    op("Exp", 1..=1, like_first),
    op("Floor", 1..=1, |i| folded(i, Some, |x| Some(x.floor()))),
    op("Gelu", 1..=1, like_first),
    op("HardSigmoid", 1..=1, like_first),
    op("HardSwish", 1..=1, like_first),
    op("IsInf", 1..=1, boolean),
    op("IsNaN", 1..=1, boolean),
    op("LeakyRelu", 1..=1, like_first),
    op("Log", 1..=1, like_first),
    op("Mish", 1..=1, like_first),
    op("Neg", 1..=1, |i| folded(i, i64::checked_neg, |x| Some(float::neg(x)))),
    op("Not", 1..=1, |i| folded(i, |n| Some(i64::from(n == 0)), |_| None)),
    op("Reciprocal", 1..=1, |i| folded(i, |_| None, |x| Some(float::div(1.0, x)))),
    op("Relu", 1..=1, |i| folded(i, |n| Some(n.max(0)), |x| Some(x.max(0.0)))),
    op("Round", 1..=1, |i| folded(i, Some, |x| Some(x.round_ties_even()))),
    op("Selu", 1..=1, like_first),
    op("Shrink", 1..=1, like_first),
    op("Sigmoid", 1..=1, like_first),
    op("Sign", 1..=1, |i| folded(i, |n| Some(n.signum()), |_| None)),
    op("Sin", 1..=1, like_first),
    op("Sinh", 1..=1, like_first),
    op("Softplus", 1..=1, like_first),
    op("Softsign", 1..=1, like_first),
    op("Sqrt", 1..=1, |i| folded(i, |_| None, |x| Some(x.sqrt()))),
    op("Swish", 1..=1, like_first),
    op("Tan", 1..=1, like_first),
    op("Tanh", 1..=1, like_first),
    op("ThresholdedRelu", 1..=1, like_first),
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
