//! Horus: Yeung and others, TPDS 2021, doi 10.1109/TPDS.2021.3079202, as the comparison of 2026 evaluates it.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;

/// The formula, with a sum for CUDA and its libraries or without.
pub(super) struct Horus {
    about: &'static About,
    flat: Bytes,
}

const AS_PUBLISHED: About = About {
    id: "horus",
    name: "Horus",
    source: "Yeung et al., TPDS 2021, doi 10.1109/TPDS.2021.3079202",
    needs: Needs::Layers,
    means: Means::Process,
    counts: "results of layers for each sample, parameters, and gradients for each sample",
    leaves_out: "optimizer, allocator and context; and it counts gradients once for each sample",
};

pub(super) const HORUS: Horus = Horus { about: &AS_PUBLISHED, flat: Bytes::ZERO };

pub(super) const HORUS_FLAT: Horus = Horus {
    about: &About {
        id: "horus-flat",
        name: "Horus + 1,000 MB",
        counts: "as Horus, and 1,000 MB for CUDA and its libraries",
        leaves_out: "optimizer and allocator; and it counts gradients once for each sample",
        ..AS_PUBLISHED
    },
    flat: Bytes(1_000_000_000),
};

impl Estimator for Horus {
    fn about(&self) -> &'static About {
        self.about
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let bytes = horus(evidence.activations(), evidence.parameter_count(), evidence.run.batch);
        Ok((bytes + self.flat).into())
    }
}

/// 4 bytes × (activations × batch + parameters + batch × gradients), with as many gradients as parameters.
pub(super) fn horus(activations: u64, parameters: u64, batch: u64) -> Bytes {
    let of_batch = activations.saturating_add(parameters).saturating_mul(batch);
    Bytes(of_batch.saturating_add(parameters).saturating_mul(4))
}
