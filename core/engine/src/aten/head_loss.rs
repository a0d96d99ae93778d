//! Losses of language models that never hold all logits: the output head and cross-entropy in one.
//!
//! `hidden […, H]`, `weight [V, H]` and `labels [B, S]` int64 to a number. All tokens count: what a batch masks (prompts,
//! padding) would only need less.
//!
//! Sources: liger-kernel 0.8.5 `ops/fused_linear_cross_entropy.py`; TRL 1.10 `sft_trainer.py`
//! (`_chunked_cross_entropy_loss`) and 1.16 `kernels/chunked_logprob.py`; cut-cross-entropy 25.1.1 `cce.py`;
//! torchtune 0.6.1 `modules/loss/ce_chunked_output_loss.py`.

use super::elementwise::{self, add, compare, div, opaque, scale};
use super::index::indexed;
use super::loss::{count_of, cross_entropy, flat};
use super::matmul::{WeightLayout, linear};
use super::reduce::{mean, sum};
use super::view::{contiguous, resample, reshape, slice, split};
use crate::eager::kernels::cast;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// What a loss of the output head reads.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// What the head would read: `[B, S, H]`.
    pub hidden: &'a Tensor,
    /// The head's weights: `[V, H]`.
    pub weight: &'a Tensor,
    /// Its bias: `[V]`.
    pub bias: Option<&'a Tensor>,
    /// Labels: `[B, S]` int64.
    pub labels: &'a Tensor,
}

impl Head<'_> {
    /// COUNT: words, and the width of a token.
    fn sizes(&self) -> (u64, u64) {
        (self.weight.size(0), self.weight.size(1))
    }

    fn inputs(&self, hidden: &Tensor) -> Vec<Tensor> {
        [Some(hidden), Some(self.weight), self.bias].into_iter().flatten().cloned().collect()
    }
}

/// Labels `[B, S]`, shifted by one and padded, as `[B·S]`.
fn shifted(rt: &Runtime, labels: &Tensor) -> Tensor {
    let (batch, length) = (labels.size(0), labels.size(1));
    let padded = resample(rt, "aten::constant_pad_nd", labels, &[batch, length.saturating_add(1)]);
    let window = padded.view_of(vec![batch, length], padded.strides());
    let shifted = contiguous(rt, &window);
    reshape(rt, &shifted, &[shifted.numel()])
}

/// `a @ b` written into what is there already.
fn product_into(rt: &Runtime, out: &Tensor, inner: u64) {
    rt.enter_operator("aten::mm");
    rt.cublas();
    rt.launch_products(out, inner);
}

/// Whether two types are both half precision, and the same.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::BFloat16)
}

/// `LigerFusedLinearCrossEntropyLoss`: the forward computes the gradients of what it reads, over chunks of tokens whose
/// logits take about as much as `hidden`.
pub fn liger(rt: &Runtime, head: Head<'_>) -> Tensor {
    let labels = shifted(rt, head.labels);
    let hidden = flat(rt, head.hidden);
    let (words, width) = head.sizes();
    let tokens = hidden.size(0);
    let share = words.div_ceil(width.max(1)).max(1);
    let chunk = tokens.div_ceil(share).checked_next_power_of_two().unwrap_or(tokens).min(tokens);
    let is_trained = head.weight.requires_grad();
    let (loss, for_hidden, for_weight, for_bias) = rt.no_grad(|| {
        rt.enter_operator("aten::zeros_like");
        let for_hidden = rt.empty_like(&hidden);
        let for_weight = is_trained.then(|| rt.empty_like(head.weight));
        let for_bias = head.bias.map(|bias| rt.empty_like(bias));
        let losses = rt.empty(DType::Float32, &[tokens]);
        let mask = compare(rt, "aten::ne", &[&labels]);
        drop(count_of(rt, &mask));
        let low = rt.autocast_type().unwrap_or_else(|| hidden.dtype());
        let in_place = hidden.dtype() == head.weight.dtype() && hidden.dtype() == low;
        let buffer = in_place.then(|| rt.empty(hidden.dtype(), &[chunk, words]));
        let mut start = 0;
        while start < tokens {
            let rows = chunk.min(tokens.saturating_sub(start));
            liger_chunk(rt, (head, &hidden), rows, low, buffer.as_ref(), for_weight.as_ref());
            start = start.saturating_add(chunk.max(1));
        }
        drop(buffer);
        let loss = sum(rt, &losses, &[true], false);
        drop((mask, losses));
        (loss, for_hidden, for_weight, for_bias)
    });
    let inputs = head.inputs(&hidden);
    let saved: Vec<&Tensor> =
        [Some(&for_hidden), for_weight.as_ref(), for_bias.as_ref()].into_iter().flatten().collect();
    let trains = [true, is_trained, for_bias.is_some()];
    let node = "LigerFusedLinearCrossEntropyFunctionBackward";
    rt.differentiable(node, loss, &inputs.iter().collect::<Vec<_>>(), &saved, move |pass| {
        // `torch.equal(grad_output, torch.tensor(1.0))`
        pass.rt.enter_operator("aten::equal");
        drop((pass.rt.empty(DType::Float32, &[]), pass.rt.empty(DType::Bool, &[])));
        let mut saved = pass.saved.iter();
        trains.iter().map(|is_trained| saved.next().filter(|_| *is_trained).cloned()).collect()
    })
}

fn liger_chunk(
    rt: &Runtime,
    (head, hidden): (Head<'_>, &Tensor),
    rows: u64,
    low: DType,
    buffer: Option<&Tensor>,
    for_weight: Option<&Tensor>,
) {
    let (words, width) = head.sizes();
    let piece = hidden.view_of(vec![rows, width], hidden.strides());
    let logits = if let Some(buffer) = buffer {
        let logits = buffer.view_of(vec![rows, words], buffer.strides());
        product_into(rt, &logits, width);
        logits
    } else {
        // The transposed weights are no leaf, so that autocast casts them each time.
        rt.enter_operator("aten::to");
        let weight = (head.weight.dtype() != low).then(|| rt.empty(low, &[words, width]));
        let lower = (hidden.dtype() != low).then(|| rt.empty(low, &[rows, width]));
        let logits = rt.empty(low, &[rows, words]);
        product_into(rt, &logits, width);
        drop((lower, weight));
        head.bias.map(|bias| add(rt, &logits, bias)).unwrap_or(logits)
    };
    if buffer.is_some() {
        product_into(rt, &piece, words);
    } else {
        let weight = rt.cached_cast(head.weight, low);
        let result = rt.empty(low, &[rows, width]);
        product_into(rt, &result, words);
        drop((result, weight));
    }
    if let Some(gradient) = for_weight {
        let lower = || (hidden.dtype() != low).then(|| rt.empty(low, &[rows, width]));
        let in_place = is_half(logits.dtype())
            && (gradient.dtype() == logits.dtype() || gradient.dtype() == DType::Float32);
        if in_place {
            let lower = lower();
            rt.enter_operator("aten::addmm");
            rt.cublas();
            rt.launch_products(gradient, rows);
            drop(lower);
        } else {
            rt.enter_operator("aten::mm");
            let product = rt.empty(logits.dtype(), gradient.sizes());
            rt.cublas();
            rt.launch_products(&product, rows);
            let single = cast(rt, &product, DType::Float32);
            drop((product, single));
        }
    }
    if head.bias.is_some() {
        drop(sum(rt, &logits, &[true, false], false));
    }
}

/// COUNT, COUNT: tokens and words of a tile.
const TILE: (u64, u64) = (4096, 32_768);

/// The logits, tile by tile.
#[derive(Clone, Copy)]
struct Tiles {
    tokens: u64,
    words: u64,
    width: u64,
    compute: DType,
}

impl Tiles {
    /// Makes each tile of what the head reads and of its weights, and then calls `each` with its rows and columns.
    /// Returns the memory that all tiles take in turn.
    fn run(
        self,
        rt: &Runtime,
        (of_hidden, weight): (DType, &Tensor),
        each: impl Fn(u64, u64),
    ) -> Tensor {
        let Self { tokens, words, width, compute } = self;
        let parts = |whole: u64, part: u64| {
            let size = move |at: u64| part.min(whole.saturating_sub(at.saturating_mul(part)));
            (0..whole.div_ceil(part)).map(size)
        };
        rt.enter_operator("aten::empty");
        let buffer = rt.empty(compute, &[tokens.min(TILE.0), TILE.1]);
        let mut read = None;
        for rows in parts(tokens, TILE.0) {
            if of_hidden != compute {
                read = Some(rt.empty(compute, &[rows, width]));
            }
            for columns in parts(words, TILE.1) {
                let lower =
                    (weight.dtype() != compute).then(|| rt.empty(compute, &[columns, width]));
                product_into(rt, &buffer.view_of(vec![rows, columns], buffer.strides()), width);
                each(rows, columns);
                drop(lower);
            }
        }
        drop(read);
        buffer
    }

    /// Each gradient is summed in single precision over all tiles.
    fn gradients(self, pass: &Pass<'_>, of_bias: Option<DType>) -> Gradients {
        let Self { tokens, words, width, .. } = self;
        let rt = pass.rt;
        let (Some(hidden), Some(weight)) = (pass.saved(0), pass.saved(1)) else {
            return Vec::new();
        };
        rt.enter_operator("aten::zeros");
        let zeros =
            |is_needed: bool, sizes: &[u64]| is_needed.then(|| rt.empty(DType::Float32, sizes));
        let for_hidden = zeros(pass.needs(0), &[tokens, width]);
        let for_weight = zeros(pass.needs(1), &[words, width]);
        let for_bias = of_bias.and_then(|_| zeros(pass.needs(2), &[words]));
        let sums = [for_hidden.as_ref(), for_weight.as_ref()];
        let buffer = self.run(rt, (hidden.dtype(), weight), |rows, columns| {
            for (sum, inner) in sums.into_iter().zip([columns, rows]) {
                let Some(sum) = sum else { continue };
                rt.enter_operator("aten::addmm");
                rt.cublas();
                rt.launch_products(sum, inner);
            }
        });
        // Sums and tiles stay until the function returns.
        let results = vec![
            for_hidden.as_ref().map(|sum| cast(rt, sum, hidden.dtype())),
            for_weight.as_ref().map(|sum| cast(rt, sum, weight.dtype())),
            for_bias.as_ref().zip(of_bias).map(|(sum, dtype)| cast(rt, sum, dtype)),
        ];
        drop((for_hidden, for_weight, for_bias, buffer));
        results
    }
}

/// TRL's fused head (from 1.15 on): tiles of logits, whose maximum and sum are carried along; backward makes the tiles
/// again and sums gradients in single precision.
pub fn fused(rt: &Runtime, head: Head<'_>) -> Tensor {
    let (batch, length) = (head.labels.size(0), head.labels.size(1).saturating_sub(1));
    let tokens = batch.saturating_mul(length);
    let before = slice(rt, head.hidden, 1, length, 1);
    let labels = head.labels.view_of(vec![batch, length], head.labels.strides());
    let mask = compare(rt, "aten::ne", &[&labels]);
    rt.enter_operator("aten::nonzero");
    let [row, column] = [(); 2].map(|()| rt.empty(DType::Int64, &[tokens]));
    let hidden = indexed(rt, &before, &[&row, &column], &[tokens, head.sizes().1]);
    drop((row, column, before));
    let target = rt.empty(DType::Int64, &[tokens]);
    let scores = log_probabilities(rt, head, &hidden, &target);
    drop((hidden, target));
    // `new_zeros(mask.shape).masked_scatter(mask, scores)`
    rt.enter_operator("aten::masked_scatter");
    let zeros = rt.empty(DType::Float32, &[batch, length]);
    let scattered = rt.empty(DType::Float32, &[batch, length]);
    drop(zeros);
    let node = "MaskedScatterBackward0";
    let scattered = rt.differentiable(node, scattered, &[&scores], &[&mask], move |pass| {
        vec![pass.grad().map(|_| pass.rt.empty(DType::Float32, &[tokens]))]
    });
    drop((mask, scores));
    let losses = elementwise::negate(rt, "aten::neg", &scattered);
    let total = sum(rt, &losses, &[true, true], false);
    drop(losses);
    scale(rt, "aten::div", &total)
}

/// `ChunkedLogProbFunction`: `hidden [N, H]` and `target [N]` to log-probabilities `[N]`.
fn log_probabilities(rt: &Runtime, head: Head<'_>, hidden: &Tensor, target: &Tensor) -> Tensor {
    let (words, width) = head.sizes();
    let tokens = hidden.size(0);
    let compute = rt.autocast_type().unwrap_or_else(|| hidden.dtype());
    let tiles = Tiles { tokens, words, width, compute };
    let (scores, normaliser) = rt.no_grad(|| {
        rt.enter_operator("aten::full");
        let vector = || rt.empty(DType::Float32, &[tokens]);
        let statistics: Vec<Tensor> = (0..7).map(|_| vector()).collect();
        let buffer = tiles.run(rt, (hidden.dtype(), head.weight), |_, _| {});
        let logarithm = vector();
        let normaliser = vector();
        drop(logarithm);
        let scores = vector();
        let ratio = vector();
        let entropy = vector();
        drop(ratio);
        drop((statistics, entropy, buffer));
        (scores, normaliser)
    });
    let inputs = head.inputs(hidden);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let saved = [hidden, head.weight, target, &normaliser];
    let of_bias = head.bias.map(Tensor::dtype);
    let node = "ChunkedLogProbFunctionBackward";
    rt.differentiable(node, scores, &inputs, &saved, move |pass| tiles.gradients(pass, of_bias))
}

/// TRL's `chunked_nll` (1.4 to 1.14): `chunk` tokens at a time, each chunk checkpointed. Head and tokens are raised to
/// single precision for it.
pub fn chunked(rt: &Runtime, head: Head<'_>, chunk: u64) -> Tensor {
    let (batch, length) = (head.labels.size(0), head.labels.size(1).saturating_sub(1));
    let (_, width) = head.sizes();
    let tokens = batch.saturating_mul(length);
    let before = slice(rt, head.hidden, 1, length, 1);
    let rows = reshape(rt, &before, &[tokens, width]);
    drop(before);
    let labels = {
        let window = head.labels.view_of(vec![batch, length], head.labels.strides());
        reshape(rt, &window, &[tokens])
    };
    let valid = compare(rt, "aten::ne", &[&labels]);
    let count = count_of(rt, &valid);
    let order = {
        rt.enter_operator("aten::argsort");
        let bytes = rt.empty(DType::Int8, &[tokens]);
        let (values, order) = (rt.empty(DType::Int8, &[tokens]), rt.empty(DType::Int64, &[tokens]));
        drop((values, bytes));
        order
    };
    let hidden = indexed(rt, &rows, &[&order], &[tokens, width]);
    drop(rows);
    let picked = rt.empty(DType::Int64, &[tokens]);
    let labels = {
        drop(labels);
        picked
    };
    let mut loss = rt.empty(DType::Float32, &[]);
    let mut start = 0;
    while start < tokens {
        let length = chunk.min(tokens.saturating_sub(start));
        let piece = slice(rt, &hidden, 0, length, 1);
        let part = chunk_loss(rt, &piece, head, &labels);
        loss = add(rt, &loss, &part);
        start = start.saturating_add(chunk);
    }
    drop((order, valid));
    div(rt, &loss, &count)
}

/// What a chunk's product reads, raised to single precision and lowered by autocast.
#[derive(Clone, Copy)]
struct Chunk {
    tokens: u64,
    words: u64,
    width: u64,
    of_hidden: DType,
    of_weight: DType,
    low: Option<DType>,
    is_trained: bool,
}

impl Chunk {
    /// The logits, their log-probabilities, and what the product keeps where it is recorded.
    fn scores(self, rt: &Runtime, is_recorded: bool) -> (Tensor, Tensor, Vec<Tensor>) {
        let Self { tokens, words, width, low, .. } = self;
        rt.enter_operator("aten::to");
        let raised = |dtype: DType, sizes: &[u64]| {
            (dtype != DType::Float32).then(|| rt.empty(DType::Float32, sizes))
        };
        let mut hidden = raised(self.of_hidden, &[tokens, width]);
        let mut weight = raised(self.of_weight, &[words, width]);
        let lowered_weight = low.map(|low| rt.empty(low, &[words, width]));
        let lowered_hidden = low.map(|low| rt.empty(low, &[tokens, width]));
        let logits = rt.empty(low.unwrap_or(DType::Float32), &[tokens, words]);
        product_into(rt, &logits, width);
        let mut kept = Vec::new();
        if is_recorded {
            let (read, weights) = if low.is_some() {
                (lowered_hidden, lowered_weight)
            } else {
                (hidden.take(), weight.take())
            };
            kept.extend(read.filter(|_| self.is_trained));
            kept.extend(weights);
        }
        drop((hidden, weight));
        let single = low.map(|_| rt.empty(DType::Float32, &[tokens, words]));
        rt.enter_operator("aten::_log_softmax");
        let log = rt.empty(DType::Float32, &[tokens, words]);
        drop(single);
        (logits, log, kept)
    }

    /// `-(log.exp() * log).sum(-1)`, which is only reported.
    fn entropy(self, rt: &Runtime) -> [Tensor; 2] {
        rt.enter_operator("aten::mul");
        [(); 2].map(|()| rt.empty(DType::Float32, &[self.tokens, self.words]))
    }
}

/// The loss of one chunk, which keeps what it reads and runs again in backward.
fn chunk_loss(rt: &Runtime, piece: &Tensor, head: Head<'_>, labels: &Tensor) -> Tensor {
    let (words, width) = head.sizes();
    let chunk = Chunk {
        tokens: piece.size(0),
        words,
        width,
        of_hidden: piece.dtype(),
        of_weight: head.weight.dtype(),
        low: rt.autocast_type(),
        is_trained: head.weight.requires_grad(),
    };
    let loss = rt.no_grad(|| {
        let (logits, log, kept) = chunk.scores(rt, false);
        rt.enter_operator("aten::nll_loss_nd");
        let loss = rt.empty(DType::Float32, &[]);
        drop((chunk.entropy(rt), log, logits, kept));
        loss
    });
    let inputs = head.inputs(piece);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let saved = [piece, head.weight, labels];
    rt.differentiable("CheckpointBackward", loss, &inputs, &saved, move |pass| {
        let rt = pass.rt;
        let (logits, log, kept) = chunk.scores(rt, true);
        drop((chunk.entropy(rt), logits));
        let sizes = [chunk.tokens, words];
        rt.enter_operator("aten::nll_loss_backward");
        let of_log = rt.empty(DType::Float32, &sizes);
        rt.enter_operator("aten::_log_softmax_backward_data");
        let of_single = rt.empty(DType::Float32, &sizes);
        drop((of_log, log));
        let of_logits = match chunk.low {
            Some(low) => cast(rt, &of_single, low),
            None => of_single.clone(),
        };
        drop(of_single);
        rt.enter_operator("aten::mm");
        let product = |is_needed: bool, sizes: [u64; 2], inner: u64| {
            is_needed.then(|| {
                let result = rt.empty(of_logits.dtype(), &sizes);
                product_into(rt, &result, inner);
                result
            })
        };
        let for_weight = product(pass.needs(1), [words, width], chunk.tokens);
        let for_hidden = product(pass.needs(0), [chunk.tokens, width], words);
        drop((kept, of_logits));
        // Back through both casts.
        let lower = |gradient: Tensor, dtype: DType| {
            let single = cast(rt, &gradient, DType::Float32);
            drop(gradient);
            cast(rt, &single, dtype)
        };
        let for_weight = for_weight.map(|gradient| lower(gradient, chunk.of_weight));
        let for_hidden = for_hidden.map(|gradient| lower(gradient, chunk.of_hidden));
        vec![for_hidden, for_weight, None]
    })
}

/// `cut_cross_entropy.linear_cross_entropy(…, shift=True)`: no logits in either direction; gradients in the type of
/// `hidden`.
pub fn cut(rt: &Runtime, head: Head<'_>) -> Tensor {
    /// COUNT: rows that share a lock.
    const ROWS_OF_LOCK: u64 = 128;
    /// COUNT: columns that share one.
    const COLUMNS_OF_LOCK: u64 = 64;
    let (batch, length) = (head.labels.size(0), head.labels.size(1).saturating_sub(1));
    let (words, width) = head.sizes();
    let tokens = batch.saturating_mul(length);
    let hidden = flat(rt, head.hidden);
    let targets = reshape(rt, head.labels, &[head.labels.numel()]);
    let window = head.labels.view_of(vec![batch, length], head.labels.strides());
    let valids = {
        let mask = compare(rt, "aten::ne", &[&window]);
        rt.enter_operator("aten::nonzero");
        let places = rt.empty(DType::Int64, &[2, tokens]);
        let narrow = opaque(rt, "aten::to", DType::Int32, &[&places]);
        drop((places, mask));
        rt.enter_operator("aten::sum");
        let sums = rt.empty(DType::Int64, &[tokens]);
        let wide = rt.empty(DType::Int64, &[2, tokens]);
        drop((wide, narrow));
        sums
    };
    let (loss, normaliser, average) = rt.no_grad(|| {
        rt.enter_operator("aten::new_full");
        let normaliser = rt.empty(DType::Float32, &[tokens]);
        let locks = rt.empty(DType::Int32, &[tokens.div_ceil(ROWS_OF_LOCK)]);
        let average = rt.empty(DType::Float32, &[words]);
        drop(locks);
        let losses = rt.empty(DType::Float32, &[tokens]);
        let loss = mean(rt, &losses, &[true], false);
        (loss, normaliser, average)
    });
    let inputs = head.inputs(&hidden);
    let saved = [&hidden, head.weight, &normaliser, &targets, &valids, &average];
    let node = "LinearCrossEntropyFunctionBackward";
    rt.differentiable(node, loss, &inputs.iter().collect::<Vec<_>>(), &saved, move |pass| {
        let rt = pass.rt;
        let (Some(hidden), Some(weight)) = (pass.saved(0), pass.saved(1)) else {
            return Vec::new();
        };
        rt.enter_operator("aten::argsort");
        let order = {
            let (values, order) =
                (rt.empty(DType::Float32, &[words]), rt.empty(DType::Int64, &[words]));
            drop(values);
            let narrow = rt.empty(DType::Int32, &[words]);
            drop(order);
            narrow
        };
        rt.enter_operator("aten::zeros_like");
        let for_hidden = rt.empty_like(hidden);
        let for_weight = pass.needs(1).then(|| rt.empty(hidden.dtype(), weight.sizes()));
        let locks = width.div_ceil(COLUMNS_OF_LOCK).max(1);
        let of_rows = rt.empty(DType::Int32, &[tokens.div_ceil(locks), locks]);
        let of_words = rt.empty(DType::Int32, &[words.div_ceil(locks), locks]);
        drop((of_words, of_rows, order));
        let for_weight = for_weight.map(|gradient| cast(rt, &gradient, weight.dtype()));
        vec![Some(for_hidden), for_weight, None]
    })
}

/// torchtune's `CEWithChunkedOutputLoss`: the head runs over eight parts of each sequence, whose results are all there,
/// and cross-entropy raises one part at a time.
pub fn output_chunks(rt: &Runtime, head: Head<'_>) -> Tensor {
    /// COUNT: `num_output_chunks`.
    const PARTS: u64 = 8;
    let length = head.hidden.size(1);
    let part = length.div_ceil(PARTS).max(1);
    let lengths: Vec<u64> = (0..PARTS)
        .map(|at| part.min(length.saturating_sub(at.saturating_mul(part))))
        .filter(|length| *length > 0)
        .collect();
    let pieces = split(rt, head.hidden, 1, &lengths);
    let logits: Vec<Tensor> = pieces
        .iter()
        .map(|piece| linear(rt, piece, head.weight, head.bias, WeightLayout::OutIn))
        .collect();
    drop(pieces);
    let labels = shifted(rt, head.labels);
    let mask = compare(rt, "aten::ne", &[&labels]);
    let total = count_of(rt, &mask);
    drop(mask);
    let mut loss: Option<Tensor> = None;
    for logits in &logits {
        let rows = flat(rt, logits);
        let targets = rt.empty(DType::Int64, &[rows.size(0)]);
        let single = cast(rt, &rows, DType::Float32);
        let part = cross_entropy(rt, &single, &targets);
        drop(single);
        loss = Some(loss.map_or_else(|| part.clone(), |loss| add(rt, &loss, &part)));
    }
    let loss = loss.unwrap_or_else(|| rt.empty(DType::Float32, &[]));
    drop(logits);
    div(rt, &loss, &total)
}
