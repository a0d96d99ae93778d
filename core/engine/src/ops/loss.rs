//! Losses: `scores [N, C, d…]` and `labels [N, d…]` to a scalar, or to `[N, d…]` unreduced.
//!
//! <https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html>,
//! `onnx__NegativeLogLikelihoodLoss.html`.

use super::{Call, Inference, OpError, Operator, op};
use crate::aten::{loss as aten, softmax};
use crate::eager::Tensor;
use crate::tensor::Dims;

pub(super) const TABLE: &[Operator] = &[
    op("NegativeLogLikelihoodLoss", 2..=3, loss).runs(nll_rule),
    op("SoftmaxCrossEntropyLoss", 2..=3, loss).runs(cross_entropy_rule),
];

/// The second output of `SoftmaxCrossEntropyLoss` holds the log-probabilities.
fn loss(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (scores, labels) = (inference.input(0)?, inference.input(1)?);
    let reduced = inference.node.string("reduction").unwrap_or("mean") != "none";
    let mut dims = if reduced { Dims::new() } else { labels.dims.clone() };
    // A probability for each class.
    if labels.dtype.is_floating() && dims.len() > 1 {
        dims.remove(1);
    }
    inference.set_dims(0, scores.dtype, dims);
    inference.set(1, scores.clone());
    Ok(())
}

/// `F.nll_loss`.
fn nll_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let log_probabilities = call.need(0)?;
    of_labels(call, &log_probabilities)
}

/// `F.cross_entropy`.
fn cross_entropy_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    if call.node.attributes.contains_key("may_chunk") {
        call.is_unproven_as("linear_cross_entropy");
    }
    let labels = call.node.string("labels").unwrap_or("hard");
    let (scores, target) = (call.need(0)?, call.need(1)?);
    if labels == "soft" || target.dtype().is_floating() {
        let reduction = call.node.string("reduction").unwrap_or("mean");
        let weight = call.tensor(2);
        let loss =
            aten::soft_cross_entropies(call.rt, &scores, &target, weight.as_ref(), reduction);
        call.set(0, loss);
        return Ok(());
    }
    if labels != "hard" {
        let loss = aten::smoothed_cross_entropy(call.rt, &scores, &target);
        call.set(0, loss);
        return Ok(());
    }
    let log_probabilities = softmax::log_softmax_in_its_type(call.rt, &call.need(0)?);
    of_labels(call, &log_probabilities)?;
    call.set(1, log_probabilities);
    Ok(())
}

fn of_labels(call: &mut Call<'_>, log_probabilities: &Tensor) -> Result<(), OpError> {
    let labels = call.need(1)?;
    let sizes = &call.output_type(0)?.dims;
    let loss = aten::nll_losses(call.rt, log_probabilities, &labels, sizes);
    call.set(0, loss);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("SoftmaxCrossEntropyLoss float32[8,10] int64[8]", "float32[] float32[8,10]"),
            ("SoftmaxCrossEntropyLoss float32[8,10] int64[8] reduction=none", "float32[8]"),
            ("NegativeLogLikelihoodLoss float32[8,10,4] int64[8,4]", "float32[]"),
        ] {
            check(call, expected);
        }
    }
}
