//! Predicts the memory of training on a GPU from a trace of `torch.profiler` on the CPU.
//!
//! [`open`] reads the trace as a stream: every allocation and free, the operators around them, and the
//! annotations of steps and of the optimizer. [`History::of`] pairs allocations with frees, and finds the
//! operator and the phase of each. [`predict`] turns it into the calls of the same training to the CUDA
//! allocator, by one of two sets of [`Rules`], and replays them.
//!
//! The names of events and arguments are those of `torch/csrc/profiler/collection.cpp` and of Kineto's
//! `output_json.cpp`, PyTorch 2.15.

mod annotations;
mod answer;
mod highwater;
mod history;
mod kernels;
mod modules;
mod optimizer;
mod read;
mod xmem;

use std::collections::BTreeMap;
use std::io::Read as _;

pub use self::annotations::{AnnotatedRole, Annotation};
pub use self::answer::{Traced, verdict};
pub use self::history::{History, TracedBlock};
use crate::allocator::{Conf, Replay, replay};
use crate::config::{Cudnn, PyTorch};
use crate::device;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::source::Source;
use crate::trace::{ByCategory, Trace};
use crate::unpack::Stream;

/// Nanoseconds since some beginning.
pub type Time = u64;

/// What a trace says, of the events that matter to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Operators by the time at which they begin, outer ones first.
    pub operators: Vec<Operator>,
    /// Allocations and frees in their order.
    pub changes: Vec<Change>,
    /// Marks that Python set: `ProfilerStep#1`, `Optimizer.step#AdamW.step`.
    pub marks: Vec<Span>,
    /// Calls of modules, `nn.Module: Linear_3`.
    pub modules: Vec<Span>,
    /// Texts that the rest refers to.
    pub names: Vec<String>,
    /// What operators were given, of those whose kernels need to know: positions in
    /// [`Profile::given`].
    pub inputs: BTreeMap<usize, usize>,
    /// Each once, since all steps are alike.
    pub given: Vec<Inputs>,
    /// The model's tensors and the batch's, where the script annotates them.
    pub annotations: Vec<Annotation>,
}

/// A named stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// A position in [`Profile::names`].
    pub name: usize,
    /// Where it begins.
    pub start: Time,
    /// Where it ends.
    pub end: Time,
}

/// One call of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    /// What and when.
    pub span: Span,
    /// The thread it ran on.
    pub thread: u64,
    /// The number that it shares with its backward.
    pub sequence: Option<u64>,
    /// Its number in the file: the key of [`Profile::inputs`].
    pub number: usize,
}

/// One allocation or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// Where.
    pub address: u64,
    /// SIZE: bytes; negative where they are freed.
    pub bytes: i64,
    /// The thread.
    pub thread: u64,
}

/// What an operator was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inputs {
    /// Dimensions of each input; none of what is no tensor.
    pub dims: Vec<Vec<u64>>,
    /// Strides of each input, where the trace has them.
    pub strides: Vec<Vec<u64>>,
    /// The type of each: `float`, `long int`.
    pub types: Vec<String>,
    /// The value of each that is no tensor: `[1, 1]`, `False`.
    pub values: Vec<String>,
}

impl Profile {
    /// The text behind a position.
    pub fn name(&self, name: usize) -> &str {
        self.names.get(name).map_or("", String::as_str)
    }
}

/// How lifetimes on the CPU become lifetimes on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rules {
    /// As xMem's analyzer and orchestrator are described (Middleware '25, doi 10.1145/3721462.3770773).
    Xmem,
    /// Lifetimes as they were seen; kernels, workspaces and the optimizer as they are on the GPU.
    Highwater,
}

impl Rules {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Xmem, Self::Highwater];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xmem => "xmem",
            Self::Highwater => "highwater",
        }
    }
}

/// Where the training would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Id of a device: it chooses kernels and sizes of workspaces.
    pub device: String,
    /// Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
}

impl Default for Target {
    fn default() -> Self {
        Self { device: "a100-80gb".to_owned(), alloc_conf: String::new() }
    }
}

/// What a set of rules answers.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Which rules.
    pub rules: Rules,
    /// Allocations and frees on the GPU.
    pub trace: Trace,
    /// What they come to in the allocator.
    pub replay: Replay,
    /// What was assumed.
    pub diagnostics: Vec<Diagnostic>,
}

impl Prediction {
    /// SUM: requested bytes of each category where the most is allocated.
    pub fn at_peak(&self) -> ByCategory {
        let mut sums = ByCategory::default();
        let until = self.replay.allocated.event;
        for &event in self.trace.events.iter().take(until.saturating_add(1)) {
            sums.apply(&self.trace, event);
        }
        sums
    }
}

/// Reads a trace, plain or packed with gzip.
///
/// # Errors
/// When the file is no trace, is cut, or was recorded in such a way that memory cannot be known; the
/// message says what to do.
pub fn open(source: &mut dyn Source) -> Result<Profile, Error> {
    read::profile(source)
}

/// Whether a file can be a trace rather than a pickle: JSON, packed with gzip or not.
///
/// # Errors
/// When it cannot be read.
pub fn is_trace(source: &mut dyn Source) -> Result<bool, Error> {
    let mut first = [0];
    // What is packed badly is neither: whoever reads it says so.
    let read = Stream::of(source)?.read(&mut first);
    Ok(read.is_ok_and(|count| count == 1) && matches!(first, [b'{' | b' ' | b'\n' | b'\r' | b'\t']))
}

/// What the training takes on a GPU.
///
/// # Errors
/// When the device is not known, or the allocator's settings are none or not modelled.
pub fn predict(history: &History<'_>, rules: Rules, target: &Target) -> Result<Prediction, Error> {
    let device = device::find(&target.device)?;
    let conf = Conf::read(&target.alloc_conf)?;
    if !conf.not_modelled.is_empty() {
        let message =
            say!("not simulated: {not_modelled}", not_modelled = conf.not_modelled.join(", "));
        return Err(Error::new(ErrorKind::BadConfig, message));
    }
    let pytorch = PyTorch::LATEST;
    let hardware = device.hardware(pytorch, Cudnn::V9);
    let (trace, mut diagnostics) = match rules {
        Rules::Xmem => xmem::trace(history),
        Rules::Highwater => highwater::trace(history, hardware, pytorch),
    };
    let kernels = match rules {
        Rules::Xmem => say!("as are sizes"),
        Rules::Highwater => say!("and kernels those of PyTorch 2.15 on {name}", name = device.name),
    };
    let message = say!(
        "lifetimes are those that were seen on the CPU in {n} steps, {kernels}: what the script does \
         only on a GPU is not seen",
        n = history.steps.len(),
        kernels
    );
    diagnostics.push(Diagnostic::new(Severity::Info, "seen-on-cpu", message));
    let replay = replay(&trace, &conf.on(None, None), None);
    Ok(Prediction { rules, trace, replay, diagnostics })
}
