//! `accelerate estimate-memory`, in the precision of the run.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;

pub(super) struct Accelerate;

impl Estimator for Accelerate {
    fn about(&self) -> &'static About {
        &About {
            id: "accelerate",
            name: "accelerate estimate-memory",
            source: "huggingface/accelerate, commands/estimate.py",
            needs: Needs::Sizes,
            means: Means::Process,
            counts: "four times the parameters, or the state of Adam alone in half precision",
            leaves_out: "activations, the batch, the allocator, and the CUDA context",
        }
    }

    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let single = Bytes(evidence.parameter_count()).times(4);
        // Under half precision it states the largest of its parts, which is that of the optimizer.
        Ok(single.times(if evidence.config().precision.is_half() { 2 } else { 4 }).into())
    }
}
