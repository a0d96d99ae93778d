//! Softmax and its relatives: the output has the type of the input.
//!
//! <https://onnx.ai/onnx/operators/onnx__Softmax.html> (before operator set 13 over all
//! dimensions from `axis` on, since then along it), `onnx__LogSoftmax.html`, `onnx__Hardmax.html`.

use super::run::fresh;
use super::shape_math::like_first;
use super::{Call, Inference, OpError, Operator, Shaped, op, torch};
use crate::aten::softmax as aten;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: in_single, ..torch("SoftmaxInSingle", 1..=1) }.runs(softmax_in_single_rule),
    op("Hardmax", 1..=1, like_first).runs(fresh).unproven(),
    op("LogSoftmax", 1..=1, like_first).runs(log_softmax_rule),
    op("Softmax", 1..=1, like_first).runs(softmax_rule),
];

/// `softmax(…, dtype=torch.float32)`.
fn in_single(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = inference.input(0)?.dims.clone();
    inference.set_dims(0, DType::Float32, dims);
    Ok(())
}

fn softmax_in_single_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::softmax_in_single(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn softmax_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::softmax(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn log_softmax_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::log_softmax(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events};

    #[test]
    fn the_result_is_saved() {
        // Softmax multiplies the gradient by it first; log-softmax needs no tensor other than its result.
        expect![[r"
            aten::_softmax: +a 32
            aten::ones_like: +b 4
            gradient: +c 32
            SoftmaxBackward0: +d 32 +e 32 -d -c -a
            AccumulateGrad: -b
        "]]
        .assert_eq(&events("Softmax float32[2,4] axis=-1"));
        expect![[r"
            aten::_log_softmax: +a 16
            aten::ones_like: +b 4
            gradient: +c 16
            LogSoftmaxBackward0: +d 16 -c -a
            AccumulateGrad: -b
        "]]
        .assert_eq(&events("LogSoftmax float16[2,4]"));
    }

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Softmax float32[2,12,64,64] axis=-1", "float32[2,12,64,64]"),
            ("LogSoftmax float16[8,10]", "float16[8,10]"),
        ] {
            check(call, expected);
        }
    }
}
