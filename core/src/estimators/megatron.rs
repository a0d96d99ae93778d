//! Megatron-LM's report of theoretical memory, without parallelism.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;

pub(super) struct Megatron;

/// Why there is no estimate of a model like T5.
pub(super) const TWO_STACKS: &str =
    "it is made for one stack of blocks, not for an encoder and a decoder";

impl Estimator for Megatron {
    fn about(&self) -> &'static About {
        &About {
            id: "megatron",
            name: "Megatron-LM",
            source: "NVIDIA/Megatron-LM, theoretical_memory_usage.py, after arXiv 2205.05198",
            needs: Needs::Sizes,
            means: Means::Process,
            counts: "18 bytes per parameter, activations of a block, embeddings, logits",
            leaves_out: "scores of attention, other optimizers and precisions, the allocator, and the CUDA context",
        }
    }

    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let decoder = Decoder::of(evidence)?;
        if decoder.is_followed {
            return Err(TWO_STACKS);
        }
        let Decoder { vocabulary, width, inner, blocks, tokens, .. } = decoder;
        let parameters = 18 * u128::from(evidence.parameter_count());
        let of_block = 18 * u128::from(width) + 4 * u128::from(inner);
        let of_head = 4 * (u128::from(width) + u128::from(vocabulary));
        let of_token = of_block * u128::from(blocks) + 8 + u128::from(width) + of_head;
        let bytes = parameters + u128::from(tokens) * of_token;
        Ok(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).into())
    }
}
