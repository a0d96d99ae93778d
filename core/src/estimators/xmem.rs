//! xMem: Shi, Pezaros and Elkhatib, Middleware '25, doi 10.1145/3721462.3770773.
//!
//! xMem reads a profiler's trace of the training on a CPU, and corrects the lives of its blocks. `highwater replay` does
//! that with such a trace. Here the trace is the one that the graph would give: our own steps without what only a GPU
//! allocates, filtered by xMem's rules. The framework's share, which xMem measures on the card, is the context of our
//! table.

use crate::order::IntoOrdered as _;

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::trace::{Category, Phase, Trace};

pub(super) struct Xmem;

/// COUNT: steps that xMem simulates.
const STEPS: usize = 2;

impl Estimator for Xmem {
    fn about(&self) -> &'static About {
        &About {
            id: "xmem",
            name: "xMem",
            source: "Shi, Pezaros, Elkhatib, Middleware 2025, doi 10.1145/3721462.3770773",
            needs: Needs::Trace,
            means: Means::Process,
            counts: "blocks of a CPU's trace whose life is corrected, in PyTorch's caching allocator, and a measured \
                     context",
            leaves_out: "workspaces of cuDNN and cuBLAS, temporaries of the optimizer that are no parameter's size",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        Ok(evidence.process(&blocks(evidence)))
    }

    fn survives(&self, evidence: &Evidence<'_>, _: Estimate) -> bool {
        evidence.survives(&blocks(evidence))
    }
}

/// The blocks that it keeps of a run.
fn blocks(evidence: &Evidence<'_>) -> Trace {
    let sizes = evidence.parameter_sizes().into_set();
    let events = evidence.until_end_of(STEPS, Phase::Optimizer);
    evidence.part(events, |storage, life| match (storage.category, life.phase) {
        (Category::Workspace, _) => false,
        (_, Phase::Optimizer) => sizes.contains(&storage.requested),
        (Category::Parameter | Category::Buffer | Category::Input, _) => true,
        _ => !life.is_scratch,
    })
}
