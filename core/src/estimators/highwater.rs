//! Highwater itself, for comparison.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};

pub(super) struct Highwater;

impl Estimator for Highwater {
    fn about(&self) -> &'static About {
        &About {
            id: "highwater",
            name: "Highwater",
            source: "this program",
            needs: Needs::Graph,
            means: Means::Process,
            counts: "every allocation of three steps, in PyTorch's caching allocator, and the CUDA context",
            leaves_out: "what a script allocates outside of the step",
        }
    }

    fn knows_ranks(&self) -> bool {
        true
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let bytes = evidence.run.reserved + evidence.run.context;
        Ok(Estimate { bytes, from: None, tensors: Some(evidence.run.allocated) })
    }

    /// The allocator may free its cache at the limit, and the run goes on.
    fn survives(&self, evidence: &Evidence<'_>, _: Estimate) -> bool {
        evidence.run.survives
    }
}
