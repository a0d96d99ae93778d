//! PyTorch's `FakeTensorMode` as the studies of 2025 and 2026 use it: the tensors of one forward pass, and of the
//! backward pass of the sum of its results.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::step;
use crate::trace::{Category, Phase};

pub(super) struct FakeTensor;

impl Estimator for FakeTensor {
    fn about(&self) -> &'static About {
        &About {
            id: "fake-tensor",
            name: "FakeTensor",
            source: "torch._subclasses.FakeTensorMode, hooked as in itu-rad/GPUMemNet, 2025",
            needs: Needs::Trace,
            means: Means::Tensors,
            counts: "tensors of one forward and backward pass",
            leaves_out: "loss, optimizer, workspaces, the allocator, and the CUDA context",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let events = evidence.until_end_of(1, Phase::Backward);
        let trace = evidence.trace();
        Ok(evidence
            .peak_of_tensors(events, None, |storage, _| {
                storage.category != Category::Workspace && trace.label(storage.module) != step::LOSS
            })
            .into())
    }
}
