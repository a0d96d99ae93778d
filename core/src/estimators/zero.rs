//! `DeepSpeed`'s estimators of ZeRO-2 and ZeRO-3 for one GPU.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;

/// A stage, and what of it lies on the host.
pub(super) struct Zero {
    about: &'static About,
    /// SIZE: on the GPU for each parameter.
    each: u64,
    /// Whether the parameters of the largest module are there besides.
    has_largest: bool,
}

const STAGE_2: About = About {
    id: "zero-2",
    name: "DeepSpeed ZeRO-2",
    source: "deepspeed.runtime.zero.stage_1_and_2, estimate_zero2_model_states_mem_needs",
    needs: Needs::Sizes,
    means: Means::Process,
    counts: "20 bytes per parameter: 2 and 18",
    leaves_out: "activations, the allocator, and the CUDA context",
};

const STAGE_3: About = About {
    id: "zero-3",
    name: "DeepSpeed ZeRO-3",
    source: "deepspeed.runtime.zero.stage3, estimate_zero3_model_states_mem_needs",
    counts: "18 bytes per parameter, and 4 for each of the largest module",
    ..STAGE_2
};

pub(super) const ZERO_2: Zero = Zero { about: &STAGE_2, each: 20, has_largest: false };

pub(super) const ZERO_2_OFFLOAD: Zero = Zero {
    about: &About {
        id: "zero-2-offload",
        name: "DeepSpeed ZeRO-2, optimizer on the host",
        counts: "2 bytes per parameter",
        ..STAGE_2
    },
    each: 2,
    has_largest: false,
};

pub(super) const ZERO_3: Zero = Zero { about: &STAGE_3, each: 18, has_largest: true };

pub(super) const ZERO_3_OPTIMIZER_OFFLOAD: Zero = Zero {
    about: &About {
        id: "zero-3-offload-optimizer",
        name: "DeepSpeed ZeRO-3, optimizer on the host",
        counts: "2 bytes per parameter, and 4 for each of the largest module",
        ..STAGE_3
    },
    each: 2,
    has_largest: true,
};

pub(super) const ZERO_3_OFFLOAD: Zero = Zero {
    about: &About {
        id: "zero-3-offload",
        name: "DeepSpeed ZeRO-3, all on the host",
        counts: "4 bytes for each parameter of the largest module",
        ..STAGE_3
    },
    each: 0,
    has_largest: true,
};

impl Estimator for Zero {
    fn about(&self) -> &'static About {
        self.about
    }

    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let all = Bytes(evidence.parameter_count()).times(self.each);
        let largest = if self.has_largest { evidence.largest_module() } else { 0 };
        Ok((all + Bytes(largest).times(4)).into())
    }
}
