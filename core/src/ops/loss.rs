//! Losses: `scores [N, C, d…]` and `labels [N, d…]` to a scalar, or to `[N, d…]` unreduced.
//!
//! <https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html>,
//! `onnx__NegativeLogLikelihoodLoss.html`.

use super::{Inference, OpError, Operator, op};

pub(super) const TABLE: &[Operator] = &[
    op("NegativeLogLikelihoodLoss", 2..=3, loss).unmodelled(),
    op("SoftmaxCrossEntropyLoss", 2..=3, loss).unmodelled(),
];

/// The second output of `SoftmaxCrossEntropyLoss` holds the log-probabilities.
fn loss(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (scores, labels) = (inference.input(0)?, inference.input(1)?);
    let reduced = inference.node.string("reduction").unwrap_or("mean") != "none";
    let dims = if reduced { Vec::new() } else { labels.dims.clone() };
    inference.set_dims(0, scores.dtype, dims);
    inference.set(1, scores.clone());
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
