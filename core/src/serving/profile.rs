//! The profile run of vLLM: the largest batch is computed once with random tokens, then every request of it is sampled.
//! The allocator's peak above the weights is kept free for good.
//!
//! The lists below are the allocations that are alive at each peak, from `vllm/v1/sample` and `vllm/model_executor`.
//! The sampler's were recorded from PyTorch's own allocator, with the real scratch of its sorts.

use crate::allocator::{MIN_LARGE_ALLOC, Pool, Settings};
use crate::bytes::Bytes;
use crate::config::choice;

use super::model::Served;

choice! {
    /// How vLLM restricts a sample to the most likely tokens.
    pub enum Sampler ("sampler") {
        /// By sorting all logits.
        Sort = "sort", "sort", "sorts all logits",
        /// By a kernel of Triton, from 0.17 on.
        Triton = "triton", "Triton", "a kernel of Triton, from 0.17 on",
        /// By kernels of `FlashInfer`, where that is installed and chosen.
        FlashInfer = "flashinfer", "FlashInfer", "kernels of FlashInfer, where that is installed and chosen",
    }
}

impl Sampler {
    /// COUNT: rows from which Triton's kernel is chosen.
    const TRITON_ROWS: u64 = 8;
    /// COUNT: rows from which PyTorch sorts each by itself.
    const SEGMENTS: u64 = 128;

    /// SIZE: what is alive at the peak of sampling `rows` requests, on a GPU with this number of multiprocessors.
    pub(super) fn peak(self, rows: u64, vocabulary: u64, multiprocessors: u64) -> Bytes {
        let single = Bytes(4).times(rows).times(vocabulary);
        let half = Bytes(2).times(rows).times(vocabulary);
        // The logits, and the same as 32-bit floats.
        let logits = half + single;
        let (values, positions) = (single, single.times(2));
        match self {
            Self::Triton if rows >= Self::TRITON_ROWS => {
                let programs = multiprocessors.min(rows);
                let buffer = Bytes(4).times(programs).times(vocabulary);
                // Probabilities, and a random number for each.
                logits + single.times(2) + buffer
            }
            Self::FlashInfer => logits + single.times(2),
            // Sorted values and positions, a list of positions, and the scratch of the sort.
            Self::Sort | Self::Triton if rows >= Self::SEGMENTS => {
                logits + (values + positions) + positions + (values + positions)
            }
            // All rows are sorted at once by value, and then by row.
            Self::Sort | Self::Triton => {
                let scratch = values + positions + Bytes(values.0.div_euclid(12));
                logits + (values + positions) + positions.times(2) + values + scratch
            }
        }
    }
}

/// What decides the peak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// COUNT: tokens.
    pub(super) tokens: u64,
    /// COUNT: requests.
    pub(super) rows: u64,
    /// COUNT: GPUs that share each layer.
    pub(super) tp: u64,
    /// Whether buffers of experts are kept from one layer to the next.
    pub(super) keeps_expert_buffers: bool,
}

/// SIZE: the peak above the weights: that of the layers or that of the sampler, and cuBLAS' workspace.
pub(super) fn peak(
    model: &Served,
    batch: Batch,
    sampler: Sampler,
    multiprocessors: u64,
    workspace: Bytes,
) -> Bytes {
    let Batch { tokens, rows, tp, keeps_expert_buffers } = batch;
    let of_tokens = |width: u64| Bytes(2).times(tokens).times(width);
    let hidden = of_tokens(model.hidden);
    let experts = model.experts.map(|experts| {
        let chosen = tokens.saturating_mul(experts.chosen);
        let width = experts.intermediate.div_ceil(tp.max(1));
        let buffer = |width: u64| Bytes(2).times(chosen).times(width);
        let gate_up = width.saturating_mul(2).max(model.hidden);
        let other = if keeps_expert_buffers { width.max(model.hidden) } else { width };
        buffer(gate_up) + buffer(other)
    });
    let experts = experts.unwrap_or(Bytes::ZERO);
    let kept = if keeps_expert_buffers { experts } else { Bytes::ZERO };
    // The result of the layers, the rows of it that are sampled, and random numbers in their place.
    let sampled = Bytes(2).times(rows).times(model.hidden).times(2);
    let sampling = hidden + sampled + sampler.peak(rows, model.vocabulary, multiprocessors);
    let layers = layers(model, tokens, tp).max(experts + hidden.times(3));
    let layers = if keeps_expert_buffers { layers.saturating_sub(experts) } else { layers };
    workspace + kept + sampling.max(layers)
}

/// SIZE: the larger of attention and the feed-forward network of a layer.
fn layers(model: &Served, tokens: u64, tp: u64) -> Bytes {
    let of_tokens = |width: u64| Bytes(2).times(tokens).times(width);
    let of_rank = |width: u64| of_tokens(width.div_ceil(tp.max(1)));
    let hidden = of_tokens(model.hidden);
    // What attention gave, and the residual before and after it.
    let feed_forward = of_rank(model.intermediate.saturating_mul(model.gates)) // gate and up, fused
        + of_rank(model.intermediate)
        + hidden.times(3);
    // Queries, keys and values, fused; turned queries and keys; the result; the residual.
    let queries = model.heads.saturating_mul(model.head_dim);
    let keys = model.cache.heads.saturating_mul(model.head_dim);
    let projected = queries.saturating_add(keys.saturating_mul(2));
    let attention = of_rank(projected) + of_rank(queries.saturating_add(keys)) + of_rank(queries);
    let dense = if model.has_dense_layers { feed_forward } else { Bytes::ZERO };
    dense.max(attention + hidden.times(2))
}

/// SIZE: a tensor as the caching allocator counts it. Where it gets a segment of its own, the rest of that belongs to it
/// unless the rest is split off for others.
pub(super) fn block(size: Bytes) -> Bytes {
    let settings = Settings::default();
    let rounded = settings.round_size(size);
    if rounded < MIN_LARGE_ALLOC {
        return rounded;
    }
    let segment = settings.allocation_size(rounded);
    let rest = segment.saturating_sub(rounded);
    if settings.should_split(Pool::Large, rounded, rest) { rounded } else { segment }
}

/// SIZE: what these tensors take together.
pub(super) fn blocks(sizes: impl Iterator<Item = Bytes>) -> Bytes {
    sizes.map(block).sum()
}

#[cfg(test)]
mod tests {
    use super::{Sampler, block};
    use crate::bytes::Bytes;

    /// Peaks that PyTorch's allocator recorded: rows, vocabulary, bytes.
    #[test]
    fn sampling_allocates_what_pytorch_does() {
        for (rows, vocabulary, recorded) in [
            (1024, 151_936, 5_915_300_864_u64),
            (256, 151_936, 1_478_956_544),
            (64, 32_000, 104_765_440),
            (16, 151_936, 122_371_072),
        ] {
            let ours = Sampler::Sort.peak(rows, vocabulary, 108).0;
            let off = ours.abs_diff(recorded) * 1000;
            assert!(off <= 17 * recorded, "{rows} × {vocabulary}: {ours}, recorded {recorded}");
        }
    }

    /// Qwen2's weights: 259 MiB stay a segment of 260, 24.5 MiB are split.
    #[test]
    fn blocks_are_rounded_as_the_allocator_rounds() {
        assert_eq!(block(Bytes::mib(259)), Bytes::mib(260));
        assert_eq!(block(Bytes::kib(24_576 + 512)), Bytes::kib(24_576 + 512));
        assert_eq!(block(Bytes(1)), Bytes(512));
    }
}
