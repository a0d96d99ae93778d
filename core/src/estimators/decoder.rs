//! The sizes of a transformer that formulas ask for.

use super::Evidence;
use crate::estimate::{Layer, LayerKind};
use crate::tensor::numel;

/// Sizes of a transformer that reads words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoder {
    /// COUNT: words.
    pub(super) vocabulary: u64,
    /// COUNT: numbers of a hidden state.
    pub(super) width: u64,
    /// COUNT: numbers between the two linear layers of a block.
    pub(super) inner: u64,
    /// COUNT: blocks; where a decoder follows an encoder, those of one of them, as configurations state it.
    pub(super) blocks: u64,
    /// Whether these are an encoder's, and a decoder follows that attends to itself and to it.
    pub(super) is_followed: bool,
    /// COUNT: heads of an attention.
    pub(super) heads: u64,
    /// COUNT: tokens of a batch, padding included.
    pub(super) tokens: u64,
    /// COUNT: tokens of a sample.
    pub(super) length: u64,
    /// COUNT: tables of vectors.
    pub(super) embeddings: u64,
}

/// Why there is none.
pub(super) const NONE: &str = "it is made for transformers that read words";

impl Decoder {
    /// The sizes of a model.
    ///
    /// # Errors
    /// When it is no transformer that reads words.
    pub(super) fn of(evidence: &Evidence<'_>) -> Result<Self, &'static str> {
        let of_kind = |kind| evidence.run.layers.iter().filter(move |layer| layer.kind == kind);
        let tables = of_kind(LayerKind::Embedding).filter(|layer| layer.reads_words);
        let tables = tables.filter_map(|layer| layer.parameters.first());
        let words = tables.max_by_key(|dims| dims.first().copied()).ok_or(NONE)?;
        let &[vocabulary, width] = words.as_slice() else { return Err(NONE) };
        let attention = of_kind(LayerKind::Attention).next().ok_or(NONE)?;
        let &[samples, heads, length, _] = attention.dims.as_slice() else { return Err(NONE) };
        // What a linear layer reads that leads back to hidden states: fused layers make more than they read.
        let back = of_kind(LayerKind::Linear).filter(|layer| layer.dims.last() == Some(&width));
        let read = |layer: &Layer| numel(layer.parameters.first()?).checked_div(width);
        let inner = back.filter_map(read).filter(|size| *size != vocabulary).max().unwrap_or(width);
        let count = |kind| u64::try_from(of_kind(kind).count()).unwrap_or(u64::MAX);
        let attentions = count(LayerKind::Attention);
        let blocks = evidence.blocks().filter(|blocks| *blocks <= attentions);
        let blocks = blocks.unwrap_or(attentions);
        Ok(Self {
            vocabulary,
            width,
            inner,
            blocks,
            is_followed: attentions >= blocks.saturating_mul(3),
            heads,
            tokens: samples.saturating_mul(length),
            length,
            embeddings: count(LayerKind::Embedding),
        })
    }
}
