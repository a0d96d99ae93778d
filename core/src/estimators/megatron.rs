//! Megatron-LM's report of theoretical memory, with sequence parallelism where layers are divided.
//! The optimizer is the distributed one where the run divides its state.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::config::DataParallel;

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
            counts: "18 bytes per parameter (12 of them shared where the optimizer is divided), activations of a block, \
                     embeddings, logits",
            leaves_out: "scores of attention, other optimizers and precisions, the allocator, and the CUDA context",
        }
    }

    fn knows_ranks(&self) -> bool {
        true
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let decoder = Decoder::of(evidence)?;
        if decoder.is_followed {
            return Err(TWO_STACKS);
        }
        let Decoder { vocabulary, width, inner, blocks, tokens, .. } = decoder;
        let ranks = evidence.ranks_or_one();
        let copies = u128::from(ranks.replicate) * u128::from(ranks.data);
        let [tensor, stages] = [ranks.tensor, ranks.pipeline].map(u128::from);
        let micro_batches = u128::from(evidence.config().micro_batches());
        // The first stage has most: blocks, a table of vectors, and as many batches as there are stages.
        let table = u128::from(vocabulary) * u128::from(width);
        let mut parameters = u128::from(evidence.parameter_count());
        if stages > 1 {
            let tables = if evidence.parameters_of(&[vocabulary, width]) > 1 { 2 } else { 1 };
            let of_blocks = parameters.saturating_sub(tables * table);
            parameters = of_blocks.div_ceil(stages) + table;
        }
        let is_divided = match evidence.config().data_parallel {
            DataParallel::Zero1 | DataParallel::Fsdp | DataParallel::Fsdp1 => true,
            DataParallel::Auto | DataParallel::Ddp => false,
        };
        let state = if is_divided { (12 * parameters).div_ceil(copies) } else { 12 * parameters };
        let of_block = 18 * u128::from(width) + 4 * u128::from(inner);
        let mut of_token = of_block * u128::from(blocks) + stages * (8 + u128::from(width));
        if stages > 1 {
            of_token = (of_token * micro_batches.min(stages)).div_ceil(stages);
        } else {
            of_token += 4 * (u128::from(width) + u128::from(vocabulary));
        }
        let activations = (u128::from(tokens) * of_token).div_ceil(micro_batches);
        let bytes = (6 * parameters + state + activations).div_ceil(tensor);
        Ok(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).into())
    }
}
