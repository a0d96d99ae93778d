//! `VeritasEst`: Shi and others, the predecessor of xMem, for convolutional networks.

use super::xmem::Xmem;
use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::estimate::LayerKind;

pub(super) struct VeritasEst;

/// Why there is no estimate of a model without convolutions.
pub(super) const NO_CONVOLUTION: &str = "it is made for convolutional networks";

impl Estimator for VeritasEst {
    fn about(&self) -> &'static About {
        &About {
            id: "veritas-est",
            name: "VeritasEst",
            source: "Shi et al., arXiv 2505.12379",
            needs: Needs::Trace,
            means: Means::Process,
            counts: "as xMem, which continues it",
            leaves_out: "workspaces of cuDNN and cuBLAS, and models other than convolutional networks",
        }
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let layers = &evidence.run.layers;
        let is_convolutional = layers.iter().any(|layer| layer.kind == LayerKind::Convolution)
            && layers.iter().all(|layer| layer.kind != LayerKind::Attention);
        if is_convolutional { Xmem.estimate(evidence) } else { Err(NO_CONVOLUTION) }
    }

    fn survives(&self, evidence: &Evidence<'_>, estimate: Estimate) -> bool {
        Xmem.survives(evidence, estimate)
    }
}
