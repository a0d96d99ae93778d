//! Losses (`native/LossNLL.cpp`, `native/Loss.cpp`, `native/cuda/{NLLLoss2d,Loss}.cu`).

use super::elementwise::{add, compare, div, mul, negate, opaque, scale};
use super::reduce::sum;
use super::softmax::log_softmax_in_its_type;
use super::view::{contiguous, resample, reshape, rows_and_width, slice};
use crate::eager::kernels::{self, reduce_into_place};
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// `F.cross_entropy(logits, target)` with class indices, reduced to a mean.
///
/// `logits [N, C]`, `target [N]`, or `logits [N, C, d…]`, `target [N, d…]`. The log-probabilities are
/// kept once for both nodes; backward makes two more tensors of their size, the first of which dies
/// when the second is there.
pub fn cross_entropy(rt: &Runtime, logits: &Tensor, target: &Tensor) -> Tensor {
    // The type is asked for, so that autocast leaves it; the loss itself runs in single precision.
    let log_probabilities = log_softmax_in_its_type(rt, logits);
    nll_loss(rt, &log_probabilities, target)
}

/// `F.nll_loss(log_probabilities, target)`, reduced to a mean.
pub fn nll_loss(rt: &Runtime, log_probabilities: &Tensor, target: &Tensor) -> Tensor {
    nll_losses(rt, log_probabilities, target, &[])
}

/// `F.nll_loss(log_probabilities, target, reduction)` with a result of these sizes: none, or those of
/// `target` where nothing is reduced.
pub fn nll_losses(
    rt: &Runtime,
    log_probabilities: &Tensor,
    target: &Tensor,
    sizes: &[u64],
) -> Tensor {
    let [log_probabilities] = rt.for_operator("aten::nll_loss", [log_probabilities]);
    // Seen as three dimensions, if that many are more.
    let seen = (log_probabilities.rank() > 4).then(|| rt.no_grad(|| contiguous(rt, target)));
    let target = seen.as_ref().unwrap_or(target);
    rt.enter_operator("aten::nll_loss_nd");
    let empty = |sizes| rt.empty(log_probabilities.dtype(), sizes);
    let (loss, total_weight, node) = if log_probabilities.rank() > 2 {
        let total_weight = empty(&[]);
        (empty(sizes), total_weight, "NllLoss2DBackward0")
    } else {
        (empty(sizes), empty(&[]), "NllLossBackward0")
    };
    // One number of each row is read.
    rt.launch_reduction(&[target], &[&loss, &total_weight]);
    let saved = [&log_probabilities, target, &total_weight];
    rt.differentiable(node, loss, &[&log_probabilities], &saved, |pass| {
        let Some(x) = pass.saved(0) else { return vec![None] };
        let result = pass.rt.empty(x.dtype(), x.sizes());
        // Zeros, and one number in each row.
        pass.rt.launch_elementwise(&[], &[&result]);
        if pass.rt.is_launching() {
            let target: Vec<&Tensor> = pass.saved(1).into_iter().collect();
            pass.rt.launch_reduction(&target, &[]);
        }
        vec![Some(result)]
    })
}

/// `F.cross_entropy(logits, target, label_smoothing=…)`: the loss of the labels, and the mean over all
/// classes, which takes the log-probabilities a second time.
pub fn smoothed_cross_entropy(rt: &Runtime, logits: &Tensor, target: &Tensor) -> Tensor {
    let log_probabilities = log_softmax_in_its_type(rt, logits);
    let of_labels = nll_loss(rt, &log_probabilities, target);
    let classes: Vec<bool> = (0..logits.rank()).map(|dim| dim == 1).collect();
    let summed = sum(rt, &log_probabilities, &classes, false);
    let negated = negate(rt, "aten::neg", &summed);
    drop(summed);
    let ignored = compare(rt, "aten::eq", &[target]);
    let smooth = masked_fill_in_place(rt, &negated, &ignored);
    drop((negated, ignored));
    let counted = opaque(rt, "aten::bitwise_not", DType::Bool, &[target]);
    let count = count_of(rt, &counted);
    let total = sum(rt, &smooth, &vec![true; smooth.rank()], false);
    let mean = div(rt, &total, &count);
    drop(count);
    drop(total);
    drop(counted);
    let of_classes = scale(rt, "aten::mul", &mean);
    let of_labels_scaled = scale(rt, "aten::mul", &of_labels);
    let loss = add(rt, &of_labels_scaled, &of_classes);
    drop(of_labels_scaled);
    drop(of_classes);
    drop(mean);
    drop(smooth);
    drop(of_labels);
    loss
}

/// `F.cross_entropy(logits, target)` with a probability for each class: `target` as large as `logits`.
pub fn soft_cross_entropy(rt: &Runtime, logits: &Tensor, target: &Tensor) -> Tensor {
    soft_cross_entropies(rt, logits, target, None, "mean")
}

/// The same with a weight for each class, and any reduction.
pub fn soft_cross_entropies(
    rt: &Runtime,
    logits: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: &str,
) -> Tensor {
    let log_probabilities = log_softmax_in_its_type(rt, logits);
    let products = mul(rt, &log_probabilities, target);
    let weighted = weight.map(|weight| {
        let sizes = (0..products.rank()).map(|dim| if dim == 1 { weight.numel() } else { 1 });
        // It is no parameter.
        let weight = rt.no_grad(|| reshape(rt, weight, &sizes.collect::<Vec<_>>()));
        mul(rt, &products, &weight)
    });
    let gone: Vec<bool> = (0..products.rank()).map(|dim| reduction != "none" || dim == 1).collect();
    let total = sum(rt, weighted.as_ref().unwrap_or(&products), &gone, false);
    let negated = negate(rt, "aten::neg", &total);
    let loss = match reduction {
        "mean" => {
            let loss = scale(rt, "aten::div", &negated);
            drop(negated);
            loss
        }
        _ => negated,
    };
    drop(total);
    drop(weighted);
    drop(products);
    loss
}

/// Next-token loss as `transformers` computes it (`ForCausalLMLoss`): in single precision, labels padded
/// by one and shifted, all positions.
///
/// `logits [B, S, V]`, `labels [B, S]` int64.
pub fn causal_language_model(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let single = kernels::cast(rt, logits, DType::Float32);
    let (batch, length) = (labels.size(0), labels.size(1));
    let padded = resample(rt, "aten::constant_pad_nd", labels, &[batch, length.saturating_add(1)]);
    let window = padded.view_of(vec![batch, length], padded.strides());
    let shifted = contiguous(rt, &window);
    drop(window);
    let loss = token_loss(rt, &single, &shifted);
    drop(single);
    drop(padded);
    loss
}

/// The same before transformers 4.55: the last position of each text is cut off, into a copy of the logits in single
/// precision.
pub fn shifted_language_model(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let single = kernels::cast(rt, logits, DType::Float32);
    let (batch, length) = (labels.size(0), labels.size(1).saturating_sub(1));
    let before = slice(rt, &single, 1, length, 1);
    let before = contiguous(rt, &before);
    let window = labels.view_of(vec![batch, length], labels.strides());
    let shifted = rt.no_grad(|| contiguous(rt, &window));
    token_loss(rt, &before, &shifted)
}

/// Cross-entropy over all positions: `logits [B, S, V]`, `labels [B, S]` int64.
pub fn token_loss(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let (logits, labels) = (flat(rt, logits), reshape(rt, labels, &[labels.numel()]));
    cross_entropy(rt, &logits, &labels)
}

/// `logits.view(-1, V)`.
pub fn flat(rt: &Runtime, logits: &Tensor) -> Tensor {
    let (rows, classes) = rows_and_width(logits.sizes());
    reshape(rt, logits, &[rows, classes])
}

/// `F.mse_loss(output, target)`, reduced to a mean.
///
/// The result is made in the size of the squares and then shrunk to a number: it keeps their memory.
pub fn mse_loss(rt: &Runtime, output: &Tensor, target: &Tensor) -> Tensor {
    let [output, target] = rt.for_operator("aten::mse_loss", [output, target]);
    rt.enter_operator("aten::mse_loss");
    let loss = kernels::pointwise(rt, output.dtype(), &[&output, &target]);
    let squares = rt.empty_like(&loss);
    reduce_into_place(rt, &squares, &vec![true; squares.rank()]);
    rt.launch_elementwise(&[&output, &target], &[&squares]);
    rt.launch_reduction(&[&squares], &[]);
    drop(squares);
    let loss = loss.alias_sole(Vec::new(), Vec::new());
    rt.differentiable("MseLossBackward0", loss, &[&output, &target], &[&output, &target], |pass| {
        vec![pass.saved(0).map(|output| pass.rt.empty_like(output)), None]
    })
}

/// `F.binary_cross_entropy_with_logits(output, target)`, reduced to a mean.
pub fn binary_cross_entropy_with_logits(rt: &Runtime, output: &Tensor, target: &Tensor) -> Tensor {
    let name = "aten::binary_cross_entropy_with_logits";
    let [output, target] = rt.for_operator(name, [output, target]);
    rt.enter_operator(name);
    let log_sigmoid = rt.empty_like(&output);
    let losses = rt.empty_like(&output);
    let loss = kernels::reduce(rt, &losses, &vec![true; losses.rank()], losses.dtype());
    let loss = loss.alias_sole(Vec::new(), Vec::new());
    drop(losses);
    drop(log_sigmoid);
    let node = "BinaryCrossEntropyWithLogitsBackward0";
    rt.differentiable(node, loss, &[&output, &target], &[&output, &target], |pass| {
        vec![pass.saved(0).map(|output| pass.rt.empty_like(output)), None]
    })
}

/// `output.sum()`: for graphs whose loss nobody knows.
pub fn sum_of(rt: &Runtime, output: &Tensor) -> Tensor {
    sum(rt, output, &vec![true; output.rank()], false)
}

/// `x.masked_fill_(mask, 0)`.
fn masked_fill_in_place(rt: &Runtime, x: &Tensor, mask: &Tensor) -> Tensor {
    rt.enter_operator("aten::masked_fill_");
    rt.differentiable("MaskedFillBackward0", rt.overwritten(x), &[x], &[mask], |pass| {
        vec![pass.grad().map(|grad| pass.rt.empty(grad.dtype(), grad.sizes()))]
    })
}

/// `mask.sum()`: an integer, summed over a copy in integers.
pub(super) fn count_of(rt: &Runtime, mask: &Tensor) -> Tensor {
    rt.enter_operator("aten::sum");
    let count = rt.empty(DType::Int64, &[]);
    let ones = rt.empty(DType::Int64, mask.sizes());
    reduce_into_place(rt, &ones, &vec![true; ones.rank()]);
    rt.launch_reduction(&[&ones], &[&count]);
    drop(ones);
    count
}
