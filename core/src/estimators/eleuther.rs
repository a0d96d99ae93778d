//! The calculator of `EleutherAI`, `calc_transformer_mem.py`.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::config::{Checkpoint, DataParallel, Optimizer};

pub(super) struct Eleuther;

impl Estimator for Eleuther {
    fn about(&self) -> &'static About {
        &About {
            id: "eleuther",
            name: "EleutherAI calculator",
            source: "EleutherAI/cookbook, calc_transformer_mem.py",
            needs: Needs::Sizes,
            means: Means::Process,
            counts: "parameters, gradients in single precision, 12 bytes of optimizer per parameter (8 with SGD or \
                     Muon), activations of a block by table 2 of arXiv 2205.05198, and ZeRO's buffers",
            leaves_out: "gated feed-forward layers, logits and loss, the allocator, and the CUDA context",
        }
    }

    fn knows_ranks(&self) -> bool {
        true
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let decoder = Decoder::of(evidence)?;
        let Decoder { vocabulary, width, inner, blocks, heads, tokens, length, .. } = decoder;
        // It counts parameters itself, from these sizes.
        let words = 2 * u128::from(vocabulary) * u128::from(width);
        let (width, blocks) = (u128::from(width), u128::from(blocks));
        let norms = 8 * width * blocks + 2 * width;
        let products = blocks * width * (4 * width + 2 * u128::from(inner));
        let parameters = words + width * u128::from(length) + norms + products;
        let is_half = evidence.config().precision.is_half();
        let optimizer = match evidence.config().optimizer {
            Optimizer::Sgd | Optimizer::SgdMomentum | Optimizer::Muon => 8,
            _ => 12,
        };
        let weight = if is_half { 2 } else { 4 };
        let states = states(evidence, parameters, [weight, 4, optimizer]);
        let of_block = 34 * width;
        let scores = 5 * u128::from(heads) * u128::from(length);
        let runs_again = evidence.config().checkpoint != Checkpoint::None;
        let kept = if runs_again { of_block } else { of_block + scores };
        // Its batch is that of one pass.
        let passes = u128::from(evidence.config().micro_batches());
        let bytes = states + (u128::from(tokens) * blocks * kept).div_ceil(passes);
        Ok(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).into())
    }
}

/// SIZE: what a GPU has of weights, gradients and state of the optimizer, which need so many bytes for a parameter, and
/// of buffers. A stage of `ZeRO` divides by all GPUs; parallel layers and blocks divide weights alone.
fn states(evidence: &Evidence<'_>, parameters: u128, each: [u128; 3]) -> u128 {
    /// COUNT: parameters in a bucket of `ZeRO`, and those that stage 3 keeps whole.
    const BUCKET: u128 = 500_000_000;
    const LIVE: u128 = 1_000_000_000;
    let [weight, gradient, optimizer] = each.map(|bytes| bytes * parameters);
    let [of_a_weight, ..] = each;
    let Some(ranks) = evidence.ranks() else { return weight + gradient + optimizer };
    let gpus = u128::from(ranks.all());
    let weight = weight.div_ceil(u128::from(ranks.tensor) * u128::from(ranks.pipeline));
    match evidence.config().data_parallel {
        DataParallel::Auto | DataParallel::Ddp => weight + gradient + optimizer,
        DataParallel::Zero1 => weight + gradient + optimizer.div_ceil(gpus) + BUCKET * of_a_weight,
        DataParallel::Fsdp | DataParallel::Fsdp1 => {
            (weight + gradient + optimizer).div_ceil(gpus) + (BUCKET + LIVE) * of_a_weight
        }
    }
}
