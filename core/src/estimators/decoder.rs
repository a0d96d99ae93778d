//! The sizes of a transformer that formulas ask for.

use super::Evidence;
use crate::estimate::LayerKind;

/// Sizes of a transformer that reads words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoder {
    /// COUNT: words.
    pub(super) vocabulary: u64,
    /// COUNT: numbers of a hidden state.
    pub(super) width: u64,
    /// COUNT: numbers between the two linear layers of a block.
    pub(super) inner: u64,
    /// COUNT: blocks.
    pub(super) blocks: u64,
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
        let tables = of_kind(LayerKind::Embedding).filter_map(|layer| layer.parameters.first());
        let words = tables.max_by_key(|dims| dims.first().copied()).ok_or(NONE)?;
        let &[vocabulary, width] = words.as_slice() else { return Err(NONE) };
        let attention = of_kind(LayerKind::Attention).next().ok_or(NONE)?;
        let &[samples, heads, length, _] = attention.dims.as_slice() else { return Err(NONE) };
        let last = of_kind(LayerKind::Linear).filter_map(|layer| layer.dims.last().copied());
        let inner = last.filter(|width| *width != vocabulary).max().unwrap_or(width);
        let count = |kind| u64::try_from(of_kind(kind).count()).unwrap_or(u64::MAX);
        Ok(Self {
            vocabulary,
            width,
            inner,
            blocks: count(LayerKind::Attention),
            heads,
            tokens: samples.saturating_mul(length),
            length,
            embeddings: count(LayerKind::Embedding),
        })
    }
}
