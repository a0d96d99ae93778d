//! `LLMem`: Kim and others, IJCAI '24, arXiv 2404.10933. Its formulas for Colossal-AI's Gemini: one GPU, data
//! parallelism that divides parameters, tensor parallelism, and both.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::config::Ranks;
use crate::estimate::LayerKind;
use crate::tensor::numel;

pub(super) struct LlMem;

/// SIZE: the unit of all its parts.
const PAGE: Bytes = Bytes(2 << 20);

/// COUNT: parameters of a chunk of Gemini. It searches the size; this is the least that it tries.
const CHUNK: u64 = 16 << 20;

/// Why there is no estimate of a stage.
pub(super) const NO_PIPELINE: &str = "it does not know pipelines";

impl Estimator for LlMem {
    fn about(&self) -> &'static About {
        &About {
            id: "llmem",
            name: "LLMem",
            source: "Kim et al., IJCAI 2024, arXiv 2404.10933",
            needs: Needs::Layers,
            means: Means::Process,
            counts: "parameters in two precisions, state of Adam, one hidden state per block, logits, in pages of \
                     2 MiB, and a measured base",
            leaves_out: "activations inside of blocks, which it assumes are run again, and the allocator",
        }
    }

    fn knows_ranks(&self) -> bool {
        true
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let decoder = Decoder::of(evidence)?;
        let ranks = evidence.ranks_or_one();
        if ranks.pipeline > 1 {
            return Err(NO_PIPELINE);
        }
        let Decoder { vocabulary, width, blocks, tokens, length, embeddings, .. } = decoder;
        let weights = |kind: LayerKind| {
            let layers = evidence.run.layers.iter().filter(move |layer| layer.kind == kind);
            layers.flat_map(|layer| &layer.parameters).map(|dims| numel(dims))
        };
        let tables: u64 = weights(LayerKind::Embedding).sum();
        let others = evidence.parameter_count().saturating_sub(tables);
        let others = others.checked_next_multiple_of(CHUNK).unwrap_or(others);
        let parameters = tables.saturating_add(others);
        let trained = weights(LayerKind::Embedding).chain(weights(LayerKind::Linear));
        let state: Bytes = trained.map(|count| in_pages(count.saturating_mul(8))).sum();
        let states = embeddings.saturating_add(blocks).saturating_mul(tokens);
        let hidden = in_pages(states.saturating_mul(width).saturating_mul(2));
        let samples = tokens.checked_div(length).unwrap_or(0);
        let logits = |tokens: u64| in_pages(tokens.saturating_mul(vocabulary).saturating_mul(2));
        let shifted = logits(tokens.saturating_sub(samples));
        let head = in_pages(vocabulary.saturating_mul(width).saturating_mul(2));
        let loss = logits(tokens) + shifted + shifted + head;
        let base = evidence.run.measured_context;
        let held = model_states(ranks, parameters, state);
        // In backward, what the other ranks have of the inputs of divided blocks is gathered.
        let others = ranks.tensor.saturating_sub(1);
        let inputs = blocks.saturating_mul(tokens).saturating_mul(width).saturating_mul(2);
        let gathered = inputs.saturating_mul(others).checked_div(ranks.tensor).unwrap_or(0);
        Ok((base + held + hidden + loss + in_pages(gathered)).into())
    }
}

/// SIZE: of a GPU's parameters in both precisions, and of its state of the optimizer, which is this much in all.
fn model_states(ranks: Ranks, parameters: u64, state: Bytes) -> Bytes {
    let half = Bytes(parameters).times(2);
    let single = Bytes(parameters).times(4);
    let all = ranks.all();
    let share = |bytes: Bytes, parts: u64| {
        in_pages(bytes.0.checked_div(all).unwrap_or(0).saturating_mul(parts))
    };
    match (all, ranks.tensor) {
        (1, _) => in_pages((half + single).0) + state,
        // Gathered whole, also those that a rank has no share of.
        (_, 1) => in_pages(half.0) + share(single + state, 1),
        (all, tensor) if all == tensor => share(half + single + state, 1),
        (all, tensor) => share(half, all.saturating_sub(tensor)) + share(single + state, 1),
    }
}

/// SIZE: in whole pages.
fn in_pages(bytes: u64) -> Bytes {
    Bytes(bytes).round_up(PAGE)
}
