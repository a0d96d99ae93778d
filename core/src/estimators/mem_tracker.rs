//! PyTorch's own `MemTracker`, which counts the tensors of two iterations without running them.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;
use crate::trace::{Category, Phase};

pub(super) struct MemTracker;

/// SIZE: what it rounds tensors to on a GPU.
const BLOCK: Bytes = Bytes(512);

impl Estimator for MemTracker {
    fn about(&self) -> &'static About {
        &About {
            id: "mem-tracker",
            name: "PyTorch MemTracker",
            source: "torch.distributed._tools.mem_tracker, PyTorch 2.5 and later",
            needs: Needs::Trace,
            means: Means::Tensors,
            counts: "all tensors of two iterations, each rounded to 512 bytes",
            leaves_out: "segments and fragments of the allocator, workspaces, and the CUDA context",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let events = evidence.until_end_of(2, Phase::Optimizer);
        Ok(evidence
            .peak_of_tensors(events, Some(BLOCK), |storage, _| {
                storage.category != Category::Workspace
            })
            .into())
    }
}
