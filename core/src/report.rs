//! The answer: peaks, tensors alive, the timeline, verdicts. It is plain data for the page and scripts; the
//! modules below compute it.

mod alive;
mod certainty;
mod compute;
mod depth;
pub mod difference;
mod fragmentation;
mod owners;

use serde::{Deserialize, Serialize};

use crate::allocator::Pool;
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{Interval, Provenance};
use crate::diagnostic::Diagnostic;
use crate::formats::Recognised;
use crate::tensor::TensorType;
use crate::trace::{Category, Phase, PhaseMark};

pub use crate::allocator::IterationPeaks;
pub use crate::device::Verdict;
pub use crate::trace::ByCategory;
pub use certainty::{Certainty, Part};
pub use depth::Depth;
pub use fragmentation::{Class, Fragmentation, Holes};
pub use owners::Owner;

pub(crate) use compute::EventContext;

/// COUNT: iterations of a run.
pub const ITERATIONS: usize = crate::step::script::ROUNDS;

/// One estimate, for one configuration on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The model that was read.
    pub model: ModelSummary,
    /// Every setting used; dimensions that got a default are filled in.
    pub config: Config,
    /// The peak.
    pub peak: Peak,
    /// Peaks of each of the [`ITERATIONS`].
    pub iterations: Vec<IterationPeaks>,
    /// The peaks if no convolution took a workspace; `None` where none takes any. The peaks above
    /// are the upper end of this band: with what cuDNN 9.26 asks for. Older versions ask for less.
    pub without_workspaces: Option<Band>,
    /// Requested bytes alive at the peak of `allocated`, by category. Sums to the requested bytes there.
    pub at_peak: ByCategory,
    /// The same bytes by module path, largest first.
    pub modules_at_peak: Vec<ModuleBytes>,
    /// Tensors alive at the peak, largest first.
    pub live_at_peak: Vec<LiveTensor>,
    /// What the bytes alive at the peak rest on; `None` of a run that was not simulated.
    pub certainty: Option<Certainty>,
    /// Memory over time.
    pub timeline: Timeline,
    /// How the run ends on the configured device.
    pub verdict: DeviceVerdict,
    /// Whether parts of the model could not be estimated, so that the truth can only be higher.
    pub lower_bound: bool,
    /// Whether the truth may also be lower, because an assumption or a stand-in decides: then it is no bound.
    pub uncertain: bool,
    /// Every assumption, recovery and gap.
    pub diagnostics: Vec<Diagnostic>,
    /// What else is known of a run that was not simulated but recorded; of such a run there is no
    /// model, and the settings say nothing but which device it is judged on.
    pub recorded: Option<RecordedRun>,
}

impl Report {
    /// Whether the answer does not prove that a run fits: a lower bound, or uncertain.
    pub const fn is_open(&self) -> bool {
        self.lower_bound || self.uncertain
    }
}

/// A run that was recorded: on a GPU by the allocator, or on a CPU by a profiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// What the file can be read as; one or more.
    pub readings: Vec<Reading>,
    /// Which of them this is: a position in `readings`.
    pub shown: usize,
    /// Whether the file does not state what blocks were for. Categories then are the place where a block was
    /// asked for: activations for forward, gradients for backward, optimizer state for the
    /// optimizer's step, parameters for what was moved to the device, workspace for what is not known.
    pub by_origin: bool,
    /// Why it may need more than is shown.
    pub gap: Option<Gap>,
    /// Value of `PYTORCH_CUDA_ALLOC_CONF`; `None` where the file does not say.
    pub alloc_conf: Option<String>,
}

/// Why a recorded run may need more than its file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Memory ran out in it.
    RunsOut,
    /// Blocks were there before the first entry, so that a higher peak may lie before it.
    BeginsLate,
    /// No history was recorded: only the end is known.
    OnlyEnd,
}

impl RecordedRun {
    /// Whether what was recorded is on a CPU, and this is what follows from it for a GPU.
    pub fn is_prediction(&self) -> bool {
        let shown = self.readings.get(self.shown);
        shown.is_some_and(|reading| !matches!(reading.by, By::Gpu(_)))
    }
}

/// One of the runs that a file can be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Which.
    pub by: By,
    /// `max_memory_allocated`.
    pub allocated: Bytes,
    /// `max_memory_reserved`.
    pub reserved: Bytes,
}

/// What tells the readings of one file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A memory snapshot has the histories of several GPUs: the number of one.
    Gpu(usize),
    /// A profiler trace, by our rules.
    Highwater,
    /// The same, by the rules that xMem's authors describe.
    Xmem,
}

/// The lower end of what is likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// `max_memory_allocated`.
    pub allocated: Bytes,
    /// `max_memory_reserved`.
    pub reserved: Bytes,
}

/// What the model is, before any training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Name of the file or of the graph.
    pub name: String,
    /// Program that wrote the file; may be empty.
    pub producer: String,
    /// What the input was recognised as.
    pub recognised: Recognised,
    /// COUNT: elements of all parameters, frozen ones and adapters included; quantised weights as before packing.
    pub parameters: u64,
    /// SIZE: of the parameters on the device, packed where they are quantised.
    pub parameter_bytes: Bytes,
    /// SIZE: of running statistics and other untrained state, such as what restores quantised weights.
    pub buffer_bytes: Bytes,
    /// COUNT: operators in the graph.
    pub operators: usize,
    /// Name of the dimension that counts the samples of a batch, if the user may choose one.
    pub batch: Option<String>,
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
    /// Event that allocated it; `usize::MAX` for what was there before the first, in a run that was recorded.
    pub born: usize,
    /// Event that frees it; `None` if it outlives the run.
    pub dies: Option<usize>,
}

/// One moment of a run: what is alive, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Index of the event in the trace, after which this is so.
    pub event: usize,
    /// Iteration, from 1; 0 while the model itself is loaded.
    pub iteration: usize,
    /// Phase.
    pub phase: Phase,
    /// Operator that ran.
    pub operator: String,
    /// Module that ran; may be empty.
    pub module: String,
    /// Allocated bytes.
    pub allocated: Bytes,
    /// Reserved bytes.
    pub reserved: Bytes,
    /// Requested bytes alive, by category.
    pub categories: ByCategory,
    /// The same bytes by module path, largest first.
    pub modules: Vec<ModuleBytes>,
    /// Tensors alive, largest first.
    pub live: Vec<LiveTensor>,
    /// Segments, oldest first.
    pub segments: Vec<Segment>,
}

/// Memory that the allocator has from the driver, in one piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Which requests it serves.
    pub pool: Pool,
    /// SIZE: of the segment; that of its blocks together.
    pub size: Bytes,
    /// Its blocks in the order of their addresses, without gaps.
    pub blocks: Vec<SegmentBlock>,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentBlock {
    /// SIZE: of the block.
    pub size: Bytes,
    /// Whose it is: a position in [`Snapshot::live`]; `None` for a hole.
    pub tensor: Option<usize>,
}

/// Memory over time, one sample per event, thinned for long runs.
///
/// Thinning keeps, of each run of neighbouring events, the one with the most allocated, so that
/// peaks survive. Vectors of samples are parallel to `event`.
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
    /// Operator that ran at the event: a position in `labels`.
    pub operator: Vec<usize>,
    /// Module that ran at the event: a position in `labels`.
    pub module: Vec<usize>,
    /// Texts that `operator` and `module` refer to.
    pub labels: Vec<String>,
    /// The modules with the most at the peak, in the order in which they come first; the rest of
    /// `categories` belongs to others.
    pub owners: Vec<Owner>,
    /// Activations by the modules that made them, from the first that run to the last: at most six
    /// bands, which add up to the category; empty where there would be one, and in recorded runs.
    pub depths: Vec<Depth>,
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
    /// Where the capacity comes from.
    pub capacity_from: Provenance,
    /// The CUDA context and libraries, part of `need`.
    pub context: Bytes,
    /// What the context is at most on one machine in ten, where it is a guess.
    pub context_high: Option<Bytes>,
    /// Where the context comes from.
    pub context_from: Provenance,
    /// What other processes hold of the capacity.
    pub other_processes: Bytes,
    /// What the process may reserve, where it is limited to a fraction.
    pub allowed: Option<Bytes>,
    /// What nine runs in ten like this one need; `None` where the answer may be far off.
    pub interval: Option<Interval>,
    /// Percent: the chance that it fits; `None` likewise, and where it fits only after a flush.
    pub chance: Option<u64>,
    /// How it ends.
    pub verdict: Verdict,
    /// Where it ends, if it does.
    pub out_of_memory: Option<OutOfMemory>,
}

impl DeviceVerdict {
    /// What of the capacity is this process's to use, its context included: all that other
    /// processes do not hold, or what a fraction allows.
    pub fn usable(&self) -> Bytes {
        let left = self.capacity - self.other_processes;
        self.allowed.map_or(left, |allowed| left.min(allowed + self.context))
    }

    /// Percent: the chance that a device must give for a run to pass there, unless somebody asks for another.
    pub const PASSES: u64 = 90;

    /// Whether somebody may rely on it that the run fits: with this chance in percent, or a higher one. A run that
    /// survives only because the cache is flushed does not pass, and no run of which not all is known.
    pub fn passes(&self, percent: u64) -> bool {
        let fits = matches!(self.verdict, Verdict::Fits | Verdict::LikelyFits);
        fits && self.chance.is_some_and(|chance| chance >= percent)
    }

    /// A high context with which a run that is expected to fit does not fit.
    pub fn decisive_context(&self) -> Option<Bytes> {
        let with = |context: Bytes| self.need - self.context + context + self.other_processes;
        let is_expected_to_fit = self.need <= self.usable();
        self.context_high.filter(|&high| is_expected_to_fit && with(high) > self.capacity)
    }

    /// It is of a lower bound or an uncertain answer: how far the truth may be is not known.
    pub(crate) const fn forget_interval(&mut self) {
        (self.interval, self.chance, self.context_high) = (None, None, None);
    }
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
