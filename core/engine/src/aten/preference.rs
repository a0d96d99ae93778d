//! Training on pairs of texts as TRL's `DPOTrainer` computes it of logits, before it fused the loss with the head
//! (TRL 1.10 `dpo_trainer.py`, `trainer/utils.py`).

use super::elementwise::{Unary, mul, sub, unary};
use super::index::{gather, indexed};
use super::reduce::{mean, saving, sum};
use super::softmax::log_softmax_in_its_type;
use super::view::{cat, reshape, slice, unbind};
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: rows of logits whose entropy is computed at a time.
const ENTROPY_ROWS: u64 = 128;

/// The sum of the log-probabilities of all next tokens, which stands for the loss: what follows is numbers per text.
///
/// `logits [2·B, S, V]`, `labels [2·B, S]` int64. Of fp32 logits by `logsumexp`, else by the log-softmax of each text.
pub fn of_next_tokens(rt: &Runtime, logits: &Tensor, labels: &Tensor) -> Tensor {
    let (texts, length) = (labels.size(0), labels.size(1).saturating_sub(1));
    let before = slice(rt, logits, 1, length, 1);
    let index = labels.view_of(vec![texts, length, 1], [labels.size(1), 1, 1]);
    let picked = if logits.dtype() == DType::Float32 {
        let selected = gather(rt, &before, &index, index.sizes());
        let rows = unbind(rt, &before, 0);
        let sums: Vec<Tensor> = rows.iter().map(|row| log_sum_exp(rt, row)).collect();
        drop(rows);
        let joined = cat(rt, &sums.iter().collect::<Vec<_>>(), 0);
        drop(sums);
        let joined = reshape(rt, &joined, &[texts, length, 1]);
        sub(rt, &selected, &joined)
    } else {
        let rows = unbind(rt, &before, 0);
        let place = index.view_of(vec![length, 1], [1, 1]);
        let of_row = |row: &Tensor| {
            let scores = log_softmax_in_its_type(rt, row);
            gather(rt, &scores, &place, &[length, 1])
        };
        let picked: Vec<Tensor> = rows.iter().map(of_row).collect();
        drop(rows);
        cat(rt, &picked.iter().collect::<Vec<_>>(), 0)
    };
    sum(rt, &picked, &vec![true; picked.rank()], false)
}

/// `torch.logsumexp(row, -1)` of `[S, V]`.
fn log_sum_exp(rt: &Runtime, row: &Tensor) -> Tensor {
    // What is larger than the row's maximum is never there at a time with the result.
    rt.enter_operator("aten::logsumexp");
    let largest = rt.empty(row.dtype(), &[row.size(0), 1]);
    let powers = rt.empty(row.dtype(), row.sizes());
    drop((powers, largest));
    saving(rt, "aten::logsumexp", row, &[false, true], false)
}

/// What it reports of the logits `[2·B, S, V]`: their entropy, and means over the chosen and the rejected texts, each of
/// which is copied.
pub fn report(rt: &Runtime, logits: &Tensor) {
    rt.no_grad(|| {
        let logits = logits.detach();
        let (texts, length, words) =
            (logits.size(0), logits.size(1).saturating_sub(1), logits.size(2));
        let before = slice(rt, &logits, 1, length, 1);
        let flat = reshape(rt, &before, &[texts.saturating_mul(length), words]);
        let mut left = flat.size(0);
        let mut entropies = Vec::new();
        while left > 0 {
            let rows = ENTROPY_ROWS.min(left);
            let chunk = flat.view_of(vec![rows, words], flat.strides());
            let scores = log_softmax_in_its_type(rt, &chunk);
            let powers = unary(rt, Unary::saves_output("aten::exp"), &scores);
            let products = mul(rt, &powers, &scores);
            drop(powers);
            entropies.push(sum(rt, &products, &[false, true], false));
            left = left.saturating_sub(rows);
        }
        drop((entropies, flat));
        let half = texts.div_euclid(2).saturating_mul(length);
        let place = rt.empty(DType::Int64, &[half]);
        for _ in 0..2 {
            let of_half = indexed(rt, &before, &[&place, &place], &[half, words]);
            drop(mean(rt, &of_half, &[false, true], false));
        }
    });
}
