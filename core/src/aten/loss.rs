//! Losses (`native/LossNLL.cpp`, `native/cuda/Loss.cu`).

use super::softmax::log_softmax_in_its_type;
use super::view::{contiguous, pad, reshape};
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

/// `F.cross_entropy(logits, target)` with class indices, reduced to a mean.
///
/// The log-probabilities are kept once for both nodes; backward makes two more tensors of their
/// size, the first of which dies when the second is there.
pub fn cross_entropy(rt: &Runtime, logits: &Tensor, target: &Tensor) -> Tensor {
    // The type is asked for, so that autocast leaves it; the loss itself runs in single precision.
    let log_probabilities = log_softmax_in_its_type(rt, logits);
    let [log_probabilities] = rt.for_operator("aten::nll_loss", [&log_probabilities]);
    rt.enter_operator("aten::nll_loss_forward");
    let loss = rt.empty(log_probabilities.dtype(), &[]);
    let total_weight = rt.empty(log_probabilities.dtype(), &[]);
    let saved = [&log_probabilities, target, &total_weight];
    rt.differentiable("NllLossBackward0", loss, &[&log_probabilities], &saved, |pass| {
        pass.rt.enter_operator("aten::nll_loss_backward");
        vec![pass.saved(0).map(|x| pass.rt.empty(x.dtype(), x.sizes()))]
    })
}

/// Next-token loss as `transformers` computes it: labels padded by one and shifted, all positions.
///
/// `logits [B, S, V]`, `labels [B, S]` int64.
pub fn causal_language_model(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let logits = &kernels::cast(rt, logits, DType::Float32);
    let (batch, length) = (labels.size(0), labels.size(1));
    let padded = pad(rt, labels, &[batch, length.saturating_add(1)]);
    let window = padded.view_of(vec![batch, length], padded.strides().to_vec());
    let shifted = contiguous(rt, &window);
    drop(window);
    token_loss(rt, logits, &shifted)
}

/// Cross-entropy over all positions, in single precision: `logits [B, S, V]`, `labels [B, S]` int64.
pub fn token_loss(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let (rows, classes) = super::view::rows_and_width(logits.sizes());
    let logits = &kernels::cast(rt, logits, DType::Float32);
    let logits = reshape(rt, logits, &[rows, classes]);
    let labels = reshape(rt, labels, &[labels.numel()]);
    cross_entropy(rt, &logits, &labels)
}

/// `output.sum()`: for graphs whose loss nobody knows.
pub fn sum_of(rt: &Runtime, output: &Tensor) -> Tensor {
    let reduced = vec![true; output.rank()];
    super::reduce::sum(rt, output, &reduced, false)
}
