//! `DeepSpeed`'s estimators of ZeRO-2 and ZeRO-3.

use super::{About, Estimate, Estimator, Evidence, Means, Needs};
use crate::bytes::Bytes;

/// A stage, and what of it lies on the host.
pub(super) struct Zero {
    about: &'static About,
    /// SIZE: on each GPU for each parameter.
    each: u64,
    /// SIZE: for each parameter, divided between the GPUs.
    shared: u64,
    /// Whether the parameters of the largest module are there besides.
    has_largest: bool,
}

const STAGE_2: About = About {
    id: "zero-2",
    name: "DeepSpeed ZeRO-2",
    source: "deepspeed.runtime.zero.stage_1_and_2, estimate_zero2_model_states_mem_needs",
    needs: Needs::Sizes,
    means: Means::Process,
    counts: "2 bytes per parameter, and 18 that GPUs share",
    leaves_out: "activations, the allocator, and the CUDA context",
};

const STAGE_3: About = About {
    id: "zero-3",
    name: "DeepSpeed ZeRO-3",
    source: "deepspeed.runtime.zero.stage3, estimate_zero3_model_states_mem_needs",
    counts: "18 bytes per parameter that GPUs share, and 4 for each of the largest module",
    ..STAGE_2
};

pub(super) const ZERO_2: Zero = Zero { about: &STAGE_2, each: 2, shared: 18, has_largest: false };

pub(super) const ZERO_2_OFFLOAD: Zero = Zero {
    about: &About {
        id: "zero-2-offload",
        name: "DeepSpeed ZeRO-2, optimizer on the host",
        counts: "2 bytes per parameter",
        ..STAGE_2
    },
    each: 2,
    shared: 0,
    has_largest: false,
};

pub(super) const ZERO_3: Zero = Zero { about: &STAGE_3, each: 0, shared: 18, has_largest: true };

pub(super) const ZERO_3_OPTIMIZER_OFFLOAD: Zero = Zero {
    about: &About {
        id: "zero-3-offload-optimizer",
        name: "DeepSpeed ZeRO-3, optimizer on the host",
        counts: "2 bytes per parameter that GPUs share, and 4 for each of the largest module",
        ..STAGE_3
    },
    each: 0,
    shared: 2,
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
    shared: 0,
    has_largest: true,
};

/// Why there is no estimate where layers or blocks are divided.
pub(super) const DATA_ALONE: &str =
    "it knows data parallelism only, neither tensor parallelism nor pipelines";

impl Estimator for Zero {
    fn about(&self) -> &'static About {
        self.about
    }

    fn knows_ranks(&self) -> bool {
        true
    }

    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        let ranks = evidence.ranks_or_one();
        if ranks.tensor.max(ranks.pipeline) > 1 {
            return Err(DATA_ALONE);
        }
        let count = Bytes(evidence.parameter_count());
        let shared = count.times(self.shared).0;
        let all = count.times(self.each) + Bytes(shared.checked_div(ranks.all()).unwrap_or(shared));
        let largest = if self.has_largest { evidence.largest_module() } else { 0 };
        Ok((all + Bytes(largest).times(4)).into())
    }
}
