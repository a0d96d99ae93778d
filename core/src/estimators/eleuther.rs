//! The calculator of `EleutherAI`, `calc_transformer_mem.py`.

use super::decoder::Decoder;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::config::{Checkpoint, Optimizer};

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
                     Muon), activations of a block by table 2 of arXiv 2205.05198",
            leaves_out: "gated feed-forward layers, logits and loss, the allocator, and the CUDA context",
        }
    }

    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
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
        let each = if is_half { 2 } else { 4 } + 4 + optimizer;
        let of_block = 34 * width;
        let scores = 5 * u128::from(heads) * u128::from(length);
        let runs_again = evidence.config().checkpoint != Checkpoint::None;
        let kept = if runs_again { of_block } else { of_block + scores };
        let bytes = parameters * each + u128::from(tokens) * blocks * kept;
        Ok(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).into())
    }
}
