//! `LLMem`: Kim and others, IJCAI '24, arXiv 2404.10933. Its formula for one GPU under Colossal-AI's Gemini.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::estimate::LayerKind;
use crate::tensor::numel;

pub(super) struct LlMem;

/// SIZE: the unit of all its parts.
const PAGE: Bytes = Bytes(2 << 20);

/// COUNT: parameters of a chunk of Gemini. It searches the size; this is the least that it tries.
const CHUNK: u64 = 16 << 20;

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

    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let decoder = Decoder::of(evidence)?;
        let Decoder { vocabulary, width, blocks, tokens, length, embeddings, .. } = decoder;
        let in_pages = |bytes: u64| Bytes(bytes).round_up(PAGE);
        let weights = |kind: LayerKind| {
            let layers = evidence.run.layers.iter().filter(move |layer| layer.kind == kind);
            layers.flat_map(|layer| &layer.parameters).map(|dims| numel(dims))
        };
        let tables: u64 = weights(LayerKind::Embedding).sum();
        let others = evidence.parameter_count().saturating_sub(tables);
        let others = others.checked_next_multiple_of(CHUNK).unwrap_or(others);
        let parameters = in_pages(tables.saturating_add(others).saturating_mul(2 + 4));
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
        Ok((base + parameters + state + hidden + loss).into())
    }
}
