//! Elementwise functions of one tensor: the output has the type of the input.
//!
//! <https://onnx.ai/onnx/operators/onnx__Relu.html>, `onnx__Gelu.html`, `onnx__Sigmoid.html`, `onnx__Erf.html` and
//! so on. `IsNaN`, `IsInf` and `Not` give booleans. Sign, rounding and roots are folded, because sizes depend on
//! them.

use super::Call;
use super::fold::{self, float};
use super::formula::spelled;
use super::run::without_gradient;
use super::shape_math::like_first;
use super::torch;
use super::{Inference, OpError, Operator, Shaped, op};
use crate::aten::elementwise::{Unary, unary, unary_in_place};
use crate::aten::view;
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    torch("Deg2rad", 1..=1).runs(|c| pointwise(c, Unary::saves_nothing("aten::deg2rad"))),
    torch("Digamma", 1..=1)
        .runs(|c| pointwise(c, Unary::saves_input("aten::digamma").temporaries(1))),
    torch("Erfinv", 1..=1)
        .runs(|c| pointwise(c, Unary::saves_input("aten::erfinv").temporaries(4))),
    torch("Exp2", 1..=1).runs(|c| pointwise(c, Unary::saves_output("aten::exp2").temporaries(1))),
    torch("Expm1", 1..=1).runs(|c| pointwise(c, Unary::saves_output("aten::expm1").temporaries(1))),
    torch("Log10", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::log10").temporaries(1))),
    torch("Log1p", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::log1p").temporaries(1))),
    torch("Log2", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::log2").temporaries(1))),
    torch("LogSigmoid", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::log_sigmoid"))),
    torch("Logit", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::logit"))),
    torch("Gelu", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::gelu"))),
    Shaped { infer: halved, ..torch("Glu", 1..=1) }.runs(glu_rule),
    torch("Rsqrt", 1..=1).runs(|c| pointwise(c, Unary::saves_output("aten::rsqrt").temporaries(2))),
    torch("Silu", 1..=1).runs(|c| pointwise(c, Unary::saves_input("aten::silu"))),
    op("Abs", 1..=1, |i| folded(i, i64::checked_abs, |x| Some(x.abs())))
        .runs(|c| pointwise(c, Unary::saves_input("aten::abs").temporaries(1))),
    op("Acos", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::acos").temporaries(5))),
    op("Acosh", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::acosh").temporaries(3))),
    op("Asin", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::asin").temporaries(4))),
    op("Asinh", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::asinh").temporaries(3))),
    op("Atan", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::atan").temporaries(2))),
    op("Atanh", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::atanh").temporaries(3))),
    op("BitwiseNot", 1..=1, |i| folded(i, |n| Some(!n), |_| None))
        .runs(|c| without_gradient(c, "aten::bitwise_not")),
    op("Ceil", 1..=1, |i| folded(i, Some, |x| Some(x.ceil())))
        .runs(|c| pointwise(c, Unary::saves_nothing("aten::ceil"))),
    op("Celu", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::celu").reads_result_in_place())),
    op("Cos", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::cos").temporaries(2))),
    op("Cosh", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::cosh").temporaries(1))),
    op("Elu", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::elu").reads_result_in_place())),
    op("Erf", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::erf").temporaries(4))),
    // Of Keras' exports; ONNX has none.
    op("Erfc", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::erfc").temporaries(4))),
    op("Exp", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_output("aten::exp"))),
    op("Floor", 1..=1, |i| folded(i, Some, |x| Some(x.floor())))
        .runs(|c| pointwise(c, Unary::saves_nothing("aten::floor"))),
    op("Gelu", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::gelu"))),
    op("HardSigmoid", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::hardsigmoid"))),
    op("HardSwish", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::hardswish"))),
    op("IsInf", 1..=1, boolean).runs(|c| without_gradient(c, "aten::isinf")),
    op("IsNaN", 1..=1, boolean).runs(|c| without_gradient(c, "aten::isnan")),
    op("LeakyRelu", 1..=1, like_first).runs(|c| {
        pointwise(c, Unary::saves_input("aten::leaky_relu").saved_leads().reads_result_in_place())
    }),
    op("Log", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::log"))),
    op("Mish", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::mish"))),
    op("Neg", 1..=1, |i| folded(i, i64::checked_neg, |x| Some(float::neg(x))))
        .runs(|c| pointwise(c, Unary::saves_nothing("aten::neg"))),
    op("Not", 1..=1, |i| folded(i, |n| Some(i64::from(n == 0)), |_| None))
        .runs(|c| without_gradient(c, "aten::logical_not")),
    op("Reciprocal", 1..=1, |i| folded(i, |_| None, |x| Some(float::div(1.0, x))))
        .runs(|c| pointwise(c, Unary::saves_output("aten::reciprocal").temporaries(2))),
    op("Relu", 1..=1, |i| folded(i, |n| Some(n.max(0)), |x| Some(x.max(0.0))))
        .runs(|c| pointwise(c, Unary::saves_output("aten::relu").saved_leads())),
    op("Round", 1..=1, |i| folded(i, Some, |x| Some(x.round_ties_even())))
        .runs(|c| pointwise(c, Unary::saves_nothing("aten::round"))),
    op("Selu", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::elu").reads_result_in_place())),
    op("Shrink", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::hardshrink"))),
    op("Sigmoid", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_output("aten::sigmoid"))),
    op("Sign", 1..=1, |i| folded(i, |n| Some(n.signum()), |_| None))
        .runs(|c| pointwise(c, Unary::saves_nothing("aten::sign"))),
    op("Sin", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::sin").temporaries(1))),
    op("Sinh", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::sinh").temporaries(1))),
    op("Softplus", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::softplus"))),
    op("Softsign", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::div").temporaries(2))),
    op("Sqrt", 1..=1, |i| folded(i, |_| None, |x| Some(x.sqrt())))
        .runs(|c| pointwise(c, Unary::saves_output("aten::sqrt").temporaries(1))),
    op("SwiGLU", 2..=2, like_first).runs(spelled),
    op("Swish", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_input("aten::silu"))),
    op("Tan", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_output("aten::tan").temporaries(2))),
    op("Tanh", 1..=1, like_first).runs(|c| pointwise(c, Unary::saves_output("aten::tanh"))),
    op("ThresholdedRelu", 1..=1, like_first)
        .runs(|c| pointwise(c, Unary::saves_input("aten::threshold").saved_leads())),
];

/// One half of the input; recovered where the sizes are known.
fn halved(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let mut ty = inference.input(0)?.clone();
    if let Some(size) = ty.dims.iter_mut().last() {
        *size = size.div_euclid(2);
    }
    inference.set(0, ty);
    Ok(())
}

/// `aten::glu`, which keeps its input.
fn glu_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let y = view::keeping_input(call.rt, "aten::glu", &x, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

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
fn pointwise(call: &mut Call<'_>, op: Unary) -> Result<(), OpError> {
    let x = call.need(0)?;
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
