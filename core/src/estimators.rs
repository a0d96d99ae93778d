//! Published estimators, each asked about the open model: what others would say of the same run.
//!
//! A system is a file with an [`Estimator`], and a row of [`ALL`]. All look at the same [`Evidence`], which is made
//! once. [`scores`] compares them with measured runs; `docs/scoreboard.md` has the result.

mod accelerate;
mod decoder;
mod dnnmem;
mod eleuther;
mod evidence;
mod fake_tensor;
mod highwater;
mod horus;
mod learned;
mod llmem;
mod measured;
mod megatron;
mod mem_tracker;
pub mod scores;
mod veritas;
mod xmem;
mod zero;

use serde::{Deserialize, Serialize};

pub use self::evidence::{Evidence, Run};
pub use self::learned::{Domain, Features, Seen};
pub use self::measured::Measured;
use crate::bytes::Bytes;

/// Who estimates.
pub trait Estimator: Sync {
    /// What there is to know of it.
    fn about(&self) -> &'static About;

    /// Its figure for a run, where it knows as many GPUs; of several, for one of them.
    ///
    /// # Errors
    /// When the model is none that it estimates: why, as a sentence without its full stop.
    fn figure(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str>;

    /// Whether [`Estimator::figure`] takes [`Evidence::ranks`] into account.
    fn knows_ranks(&self) -> bool {
        false
    }

    /// What it says of a run.
    ///
    /// # Errors
    /// As [`Estimator::figure`], and where it does not know several GPUs.
    fn estimate(&self, evidence: &Evidence<'_>) -> Result<Estimate, &'static str> {
        if evidence.ranks().is_some() && !self.knows_ranks() {
            return Err(ONE_GPU);
        }
        self.figure(evidence)
    }

    /// Whether the run survives on its device: by default, if the figure is at most what the process may use. Methods
    /// with an allocator ask [`Evidence::survives`], because an allocator frees its cache before it fails.
    fn survives(&self, evidence: &Evidence<'_>, estimate: Estimate) -> bool {
        estimate.bytes <= evidence.run.usable
    }
}

/// What an estimator says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Its figure; of a class or a range, the upper end.
    pub bytes: Bytes,
    /// The lower end of a class or a range.
    pub from: Option<Bytes>,
    /// What of it tensors have at once, where it tells them from the rest of a process.
    pub tensors: Option<Bytes>,
}

impl From<Bytes> for Estimate {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, from: None, tensors: None }
    }
}

/// What there is to know of an estimator. All texts are for people, without a full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// Stable name: `horus`.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Who published it, where and when.
    pub source: &'static str,
    /// What it must be given.
    pub needs: Needs,
    /// What its figure is to be compared with.
    pub means: Means,
    /// What it counts.
    pub counts: &'static str,
    /// What it leaves out.
    pub leaves_out: &'static str,
}

/// What an estimator must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Sizes of a configuration, or the number of parameters.
    Sizes,
    /// The layers of the model.
    Layers,
    /// The operators of the model.
    Graph,
    /// A recording of a few steps of the training, without a GPU.
    Trace,
    /// Weights that were trained with measured runs, and the layers of the model.
    Weights,
}

impl Needs {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::Layers => "layers",
            Self::Graph => "graph",
            Self::Trace => "trace",
            Self::Weights => "trained weights",
        }
    }
}

/// What a figure is to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// What the process has in use on the GPU.
    Process,
    /// The most that tensors have at once.
    Tensors,
}

/// All estimators: ours first, then those that follow a run, then formulas, then those that learned.
pub const ALL: &[&dyn Estimator] = &[
    &highwater::Highwater,
    &xmem::Xmem,
    &veritas::VeritasEst,
    &dnnmem::DnnMem,
    &mem_tracker::MemTracker,
    &fake_tensor::FakeTensor,
    &llmem::LlMem,
    &horus::HORUS,
    &horus::HORUS_FLAT,
    &accelerate::Accelerate,
    &eleuther::Eleuther,
    &megatron::Megatron,
    &zero::ZERO_2,
    &zero::ZERO_2_OFFLOAD,
    &zero::ZERO_3,
    &zero::ZERO_3_OPTIMIZER_OFFLOAD,
    &zero::ZERO_3_OFFLOAD,
    &learned::SchedTune,
    &learned::PERCEPTRONS,
    &learned::TRANSFORMERS,
    &learned::DnnPerf,
];

/// Why most have no figure for a rank of several.
const ONE_GPU: &str = "it answers for one GPU only";

/// All reasons for which one has no figure.
pub const WHY_NOT: [&str; 9] = [
    ONE_GPU,
    zero::DATA_ALONE,
    llmem::NO_PIPELINE,
    decoder::NONE,
    megatron::TWO_STACKS,
    veritas::NO_CONVOLUTION,
    learned::NOT_LOADED,
    learned::LANGUAGE,
    learned::NO_LAYERS,
];

#[cfg(test)]
mod tests;
