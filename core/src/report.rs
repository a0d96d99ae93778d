//! The answer: peaks, what was alive, the timeline, verdicts. Plain data for the page and scripts.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::tensor::TensorType;
use crate::trace::{Category, Phase, PhaseMark};

pub use crate::allocator::IterationPeaks;
pub use crate::device::Verdict;

/// One estimate, for one configuration on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The model that was read.
    pub model: ModelSummary,
    /// Every setting used; dimensions that got a default are filled in.
    pub config: Config,
    /// The high-water mark.
    pub peak: Peak,
    /// Peaks of each of the three iterations.
    pub iterations: Vec<IterationPeaks>,
    /// Requested bytes alive at the peak of `allocated`, by category. Sums to the requested bytes there.
    pub at_peak: ByCategory,
    /// The same bytes by module path, largest first.
    pub modules_at_peak: Vec<ModuleBytes>,
    /// Tensors alive at the peak, largest first.
    pub live_at_peak: Vec<LiveTensor>,
    /// Memory over time.
    pub timeline: Timeline,
    /// How the run ends on the configured device.
    pub verdict: DeviceVerdict,
    /// Whether parts of the model could not be estimated, so that the truth can only be higher.
    pub lower_bound: bool,
    /// Every assumption, recovery and gap.
    pub diagnostics: Vec<Diagnostic>,
}

/// What the model is, before any training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Name of the file or of the graph.
    pub name: String,
    /// Program that wrote the file; may be empty.
    pub producer: String,
    /// COUNT: trained elements.
    pub parameters: u64,
    /// SIZE: of the trained tensors.
    pub parameter_bytes: Bytes,
    /// SIZE: of running statistics and other untrained state.
    pub buffer_bytes: Bytes,
    /// COUNT: operators in the graph.
    pub operators: usize,
}

/// The largest values over the run, and where `allocated` reached its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes asked for, at the moment of the allocated peak.
    pub requested: Bytes,
    /// `torch.cuda.max_memory_allocated()`.
    pub allocated: Bytes,
    /// `torch.cuda.max_memory_reserved()`.
    pub reserved: Bytes,
    /// Reserved and the CUDA context: about what `nvidia-smi` shows.
    pub process: Bytes,
    /// Phase of the allocated peak.
    pub phase: Phase,
    /// Iteration of the allocated peak, from 1.
    pub iteration: usize,
    /// Operator of the allocated peak.
    pub operator: String,
    /// Module of the allocated peak; may be empty.
    pub module: String,
    /// Index of its event in the trace, and so on the timeline's axis.
    pub event: usize,
}

/// Bytes in each [`Category`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCategory {
    /// [`Category::Parameter`].
    pub parameter: Bytes,
    /// [`Category::Buffer`].
    pub buffer: Bytes,
    /// [`Category::Input`].
    pub input: Bytes,
    /// [`Category::Activation`].
    pub activation: Bytes,
    /// [`Category::Temporary`].
    pub temporary: Bytes,
    /// [`Category::Workspace`].
    pub workspace: Bytes,
    /// [`Category::Gradient`].
    pub gradient: Bytes,
    /// [`Category::OptimizerState`].
    pub optimizer_state: Bytes,
}

impl ByCategory {
    /// Bytes of one category.
    pub const fn get(&self, category: Category) -> Bytes {
        match category {
            Category::Parameter => self.parameter,
            Category::Buffer => self.buffer,
            Category::Input => self.input,
            Category::Activation => self.activation,
            Category::Temporary => self.temporary,
            Category::Workspace => self.workspace,
            Category::Gradient => self.gradient,
            Category::OptimizerState => self.optimizer_state,
        }
    }

    /// Bytes of one category, to change.
    pub const fn get_mut(&mut self, category: Category) -> &mut Bytes {
        match category {
            Category::Parameter => &mut self.parameter,
            Category::Buffer => &mut self.buffer,
            Category::Input => &mut self.input,
            Category::Activation => &mut self.activation,
            Category::Temporary => &mut self.temporary,
            Category::Workspace => &mut self.workspace,
            Category::Gradient => &mut self.gradient,
            Category::OptimizerState => &mut self.optimizer_state,
        }
    }

    /// Bytes in all.
    pub fn total(&self) -> Bytes {
        Category::ALL.iter().map(|&category| self.get(category)).sum()
    }
}

/// Bytes of one module at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleBytes {
    /// Module path; empty for what belongs to none.
    pub module: String,
    /// Requested bytes alive at the peak.
    pub bytes: Bytes,
}

/// One tensor that was alive at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTensor {
    /// Requested bytes.
    pub bytes: Bytes,
    /// What it is for.
    pub category: Category,
    /// Operator that made it.
    pub operator: String,
    /// Module it belongs to; may be empty.
    pub module: String,
    /// Name of a parameter or buffer; may be empty.
    pub name: String,
    /// Its type; `None` for workspaces.
    pub tensor: Option<TensorType>,
    /// Event that allocated it.
    pub born: usize,
    /// Event that frees it; `None` if it outlives the run.
    pub dies: Option<usize>,
}

/// Memory over time, one sample per event, thinned for long runs.
///
/// Thinning keeps, of each run of neighbouring events, the one with the most allocated, so that
/// peaks survive. All vectors are parallel to `event`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Index of the sampled event in the trace.
    pub event: Vec<usize>,
    /// Requested bytes per category after the event.
    pub categories: Vec<ByCategory>,
    /// Allocated bytes after the event.
    pub allocated: Vec<Bytes>,
    /// Reserved bytes after the event.
    pub reserved: Vec<Bytes>,
    /// Where phases begin, in events.
    pub phases: Vec<PhaseMark>,
    /// COUNT: events in the whole trace.
    pub events: usize,
}

/// How the run ends on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceVerdict {
    /// Stable id, `a100-80gb`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Usable bytes, as PyTorch sees them.
    pub capacity: Bytes,
    /// Process peak with unlimited memory and this device's kernels: what the run asks for.
    pub need: Bytes,
    /// The CUDA context and libraries, part of `need`.
    pub context: Bytes,
    /// How it ends.
    pub verdict: Verdict,
    /// Where it ends, if it does.
    pub out_of_memory: Option<OutOfMemory>,
}

/// The allocation that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// Iteration, from 1; 0 while the model itself is loaded.
    pub iteration: usize,
    /// Phase.
    pub phase: Phase,
    /// Operator.
    pub operator: String,
    /// Module; may be empty.
    pub module: String,
    /// What PyTorch would print.
    pub message: String,
}
