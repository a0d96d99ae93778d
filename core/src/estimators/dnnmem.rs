//! `DNNMem`: Gao and others, ESEC/FSE '20, doi 10.1145/3368089.3417050.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::trace::{Phase, Trace};

pub(super) struct DnnMem;

impl Estimator for DnnMem {
    fn about(&self) -> &'static About {
        &About {
            id: "dnnmem",
            name: "DNNMem",
            source: "Gao et al., ESEC/FSE 2020, doi 10.1145/3368089.3417050",
            needs: Needs::Graph,
            means: Means::Process,
            counts: "weights, their gradients, inputs and results of operators by liveness, workspaces, in a caching \
                     allocator, and a resident context",
            leaves_out: "the optimizer: neither its state nor its temporaries",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        Ok(evidence.process(&without_optimizer(evidence)))
    }

    fn survives(&self, evidence: &Evidence<'_>, _: Estimate) -> bool {
        evidence.survives(&without_optimizer(evidence))
    }
}

/// One forward and backward pass.
fn without_optimizer(evidence: &Evidence<'_>) -> Trace {
    let events = evidence.until_end_of(1, Phase::Backward);
    evidence.part(events, |_, life| life.phase != Phase::Optimizer)
}
