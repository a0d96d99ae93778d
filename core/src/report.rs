//! The answer: peaks, what was alive, the timeline, verdicts. Plain data for the page and scripts.

pub mod difference;
mod fragmentation;
mod owners;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::{
    self, Allocator, BlockId, DeviceMemory, Failure, Pool, Replay, SegmentView, Series, Settings,
};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{Device, Provenance, Room};
use crate::diagnostic::Diagnostic;
use crate::formats::Recognised;
use crate::graph::Graph;
use crate::sorted;
use crate::tensor::TensorType;
use crate::trace::{Category, Event, LabelId, Phase, PhaseMark, Storage, StorageId, Trace};

pub use crate::allocator::IterationPeaks;
pub use crate::device::Verdict;
pub use fragmentation::{Class, Fragmentation, Holes};
pub use owners::Owner;

use owners::{Ledger, Sizes};

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
    /// The peaks if no convolution took a workspace; `None` where none takes any. The peaks above
    /// are the upper end of this band: with what cuDNN 9.26 asks for. Older versions ask for less.
    pub without_workspaces: Option<Band>,
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
    /// What else is known of a run that was not simulated but recorded; of such a run there is no
    /// model, and the settings say nothing but which device it is judged on.
    pub recorded: Option<RecordedRun>,
}

/// A run that was recorded: on a GPU by the allocator, or on a CPU by a profiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// What the file can be read as; one or more.
    pub readings: Vec<Reading>,
    /// Which of them this is: a position in `readings`.
    pub shown: usize,
    /// Whether the file does not say what blocks were for. Categories then stand for where a block was
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
    Ours,
    /// The same, by the rules that xMem's authors describe.
    Published,
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
    pub blocks: Vec<Block>,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
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
    /// Where the context comes from.
    pub context_from: Provenance,
    /// What other processes hold of the capacity.
    pub other_processes: Bytes,
    /// What the process may reserve, where it is limited to a fraction.
    pub allowed: Option<Bytes>,
    /// How it ends.
    pub verdict: Verdict,
    /// Where it ends, if it does.
    pub out_of_memory: Option<OutOfMemory>,
}

impl DeviceVerdict {
    /// How a run that reserves so much ends where there is room enough, and that it does not fit
    /// anywhere else.
    pub(crate) fn by_peak(reserved: Bytes, device: &Device, room: &Room) -> Self {
        Self {
            id: device.id.to_owned(),
            name: room.named(device),
            capacity: room.capacity,
            capacity_from: room.capacity_from,
            need: reserved + room.context,
            context: room.context,
            context_from: room.context_from,
            other_processes: room.other_processes,
            allowed: room.allowed,
            verdict: room.verdict(reserved).unwrap_or(Verdict::DoesNotFit),
            out_of_memory: None,
        }
    }

    /// How a run ends: by its peaks where memory had no limit, if they stay below the capacity,
    /// else by what happens at the limit.
    pub(crate) fn of(
        trace: &Trace,
        settings: &Settings,
        unlimited: &Replay,
        (device, room): (&Device, &Room),
    ) -> Self {
        let mut verdict = Self::by_peak(unlimited.reserved.bytes, device, room);
        if verdict.verdict == Verdict::DoesNotFit {
            let limited = allocator::replay(trace, settings, Some(room.left()));
            verdict.verdict = Verdict::under_limit(&limited);
            verdict.out_of_memory =
                limited.out_of_memory.map(|failure| OutOfMemory::of(trace, &failure, room));
        }
        verdict
    }

    /// What of the capacity is this process's to use, its context included: all that other
    /// processes do not hold, or what a fraction allows.
    pub fn usable(&self) -> Bytes {
        let left = self.capacity - self.other_processes;
        self.allowed.map_or(left, |allowed| left.min(allowed + self.context))
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

impl ModelSummary {
    /// Summarises a model from what set-up put on the device.
    pub fn of(name: &str, recognised: &Recognised, graph: &Graph, trace: &Trace) -> Self {
        Self {
            name: if name.is_empty() { graph.name.clone() } else { name.to_owned() },
            producer: graph.producer.clone(),
            recognised: recognised.clone(),
            operators: graph.nodes.len(),
            ..Self::placed(trace)
        }
    }

    /// Summarises only what set-up put on the device.
    pub(crate) fn placed(trace: &Trace) -> Self {
        let placed = |category| {
            trace.storages.iter().filter(move |storage| {
                storage.category == category && trace.label(storage.operator).is_empty()
            })
        };
        let elements = |storage: &Storage| storage.tensor.as_ref().map_or(0, TensorType::numel);
        Self {
            parameters: placed(Category::Parameter).map(elements).sum(),
            parameter_bytes: placed(Category::Parameter).map(|s| s.requested).sum(),
            buffer_bytes: placed(Category::Buffer).map(|s| s.requested).sum(),
            ..Self::default()
        }
    }
}

impl Report {
    /// The answer as far as one replay tells it; the model and the settings are the caller's.
    pub(crate) fn of(
        trace: &Trace,
        replay: &Replay,
        series: &Series,
        verdict: DeviceVerdict,
    ) -> Self {
        let event = replay.allocated.event;
        let alive = alive_at(trace, event);
        let modules_at_peak = by_module(trace, &alive);
        let timeline = Timeline::of(trace, series, Ledger::new(trace, &modules_at_peak));
        let Moment { iteration, phase, operator, module } = Moment::of(trace, event);
        Self {
            model: ModelSummary::default(),
            config: Config::default(),
            without_workspaces: None,
            peak: Peak {
                requested: replay.requested_at_peak,
                allocated: replay.allocated.bytes,
                reserved: replay.reserved.bytes,
                process: replay.reserved.bytes + verdict.context,
                phase,
                iteration,
                operator,
                module,
                event,
            },
            iterations: replay.iterations.clone(),
            at_peak: by_category(trace, &alive),
            modules_at_peak,
            live_at_peak: live_tensors(trace, alive).into_iter().map(|(_, live)| live).collect(),
            timeline,
            verdict,
            lower_bound: false,
            diagnostics: Vec::new(),
            recorded: None,
        }
    }
}

impl Snapshot {
    /// One moment of a trace, with the allocator as it is then and the block of each storage.
    pub(crate) fn of(
        trace: &Trace,
        event: usize,
        allocator: &Allocator,
        blocks: &[BlockId],
    ) -> Self {
        let Moment { iteration, phase, operator, module } = Moment::of(trace, event);
        let alive = alive_at(trace, event);
        let (categories, modules) = (by_category(trace, &alive), by_module(trace, &alive));
        let (ids, live): (Vec<_>, Vec<_>) = live_tensors(trace, alive).into_iter().unzip();
        let owners = ids.iter().enumerate().filter_map(|(place, id)| {
            let block = allocator.block(*blocks.get(id.0)?)?;
            Some(((block.segment, block.offset), place))
        });
        let owners = sorted::map(owners);
        let segment = |segment: SegmentView<'_>| Segment {
            pool: segment.pool(),
            size: segment.size(),
            blocks: segment
                .blocks()
                .map(|block| Block {
                    size: block.size,
                    tensor: owners.get(&(block.segment, block.offset)).copied(),
                })
                .collect(),
        };
        Self {
            event,
            iteration,
            phase,
            operator,
            module,
            allocated: allocator.allocated(),
            reserved: allocator.reserved(),
            categories,
            modules,
            live,
            segments: allocator.segments().map(segment).collect(),
        }
    }
}

impl OutOfMemory {
    /// The failing allocation of a replay, told as PyTorch would.
    pub(crate) fn of(trace: &Trace, failure: &Failure, room: &Room) -> Self {
        let Moment { iteration, phase, operator, module } = Moment::of(trace, failure.event);
        let memory = DeviceMemory {
            index: 0,
            capacity: room.capacity,
            context: room.context,
            other_processes: room.other_processes,
            allowed: room.allowed,
        };
        Self { iteration, phase, operator, module, message: failure.error.message(&memory) }
    }
}

/// When and where an event happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// From 1; 0 while the model itself is loaded.
    pub(crate) iteration: usize,
    pub(crate) phase: Phase,
    pub(crate) operator: String,
    pub(crate) module: String,
}

impl Moment {
    pub(crate) fn of(trace: &Trace, event: usize) -> Self {
        let mark = trace.phase_at(event);
        let label = |ids: &[LabelId]| {
            ids.get(event).map_or_else(String::new, |&id| trace.label(id).to_owned())
        };
        Self {
            iteration: mark.map_or(0, |mark| mark.iteration),
            phase: mark.map_or(Phase::Setup, |mark| mark.phase),
            operator: label(&trace.operators),
            module: label(&trace.modules),
        }
    }
}

impl Timeline {
    /// COUNT: samples beyond which neighbouring events are thinned.
    const SAMPLES_MAX: usize = 20_000;

    fn of(trace: &Trace, series: &Series, mut ledger: Ledger) -> Self {
        let events = series.allocated.len();
        let stride = events.div_ceil(Self::SAMPLES_MAX).max(1);
        let mut timeline = Self { phases: trace.phases.clone(), events, ..Self::default() };
        let mut places: BTreeMap<LabelId, usize> = BTreeMap::new();
        let mut running = ByCategory::default();
        let mut best: Option<(usize, ByCategory, Sizes)> = None;
        for (index, event) in trace.events.iter().enumerate().take(events) {
            apply(trace, *event, &mut running);
            ledger.apply(trace, *event);
            let allocated = |at: usize| series.allocated.get(at).copied().unwrap_or_default();
            if best.is_none_or(|(at, ..)| allocated(index) >= allocated(at)) {
                best = Some((index, running, ledger.now()));
            }
            if ((index + 1).is_multiple_of(stride) || index + 1 == events)
                && let Some((at, categories, sizes)) = best.take()
            {
                ledger.write(timeline.event.len(), &sizes);
                timeline.event.push(at);
                timeline.categories.push(categories);
                timeline.allocated.push(allocated(at));
                timeline.reserved.push(series.reserved.get(at).copied().unwrap_or_default());
                let mut place = |ids: &[LabelId]| {
                    let Some(&id) = ids.get(at) else { return 0 };
                    *places.entry(id).or_insert_with(|| {
                        timeline.labels.push(trace.label(id).to_owned());
                        timeline.labels.len() - 1
                    })
                };
                timeline.operator.push(place(&trace.operators));
                timeline.module.push(place(&trace.modules));
            }
        }
        timeline.owners = ledger.close();
        timeline
    }
}

fn apply(trace: &Trace, event: Event, running: &mut ByCategory) {
    let (Event::Alloc(id) | Event::Free(id)) = event;
    let Some(storage) = trace.storages.get(id.0) else { return };
    let bytes = running.get_mut(storage.category);
    match event {
        Event::Alloc(_) => *bytes += storage.requested,
        Event::Free(_) => *bytes -= storage.requested,
    }
}

/// Storages alive after an event, with the event that made them.
fn alive_at(trace: &Trace, event: usize) -> Vec<(StorageId, usize)> {
    let mut born: Vec<Option<usize>> = vec![None; trace.storages.len()];
    for (index, call) in trace.events.iter().enumerate().take(event.saturating_add(1)) {
        let (id, state) = match call {
            Event::Alloc(id) => (id, Some(index)),
            Event::Free(id) => (id, None),
        };
        if let Some(slot) = born.get_mut(id.0) {
            *slot = state;
        }
    }
    let alive = born.into_iter().enumerate();
    alive.filter_map(|(id, born)| Some((StorageId(id), born?))).collect()
}

fn by_category(trace: &Trace, alive: &[(StorageId, usize)]) -> ByCategory {
    let mut sums = ByCategory::default();
    for storage in alive.iter().filter_map(|(id, _)| trace.storages.get(id.0)) {
        *sums.get_mut(storage.category) += storage.requested;
    }
    sums
}

fn by_module(trace: &Trace, alive: &[(StorageId, usize)]) -> Vec<ModuleBytes> {
    let mut sums: BTreeMap<String, Bytes> = BTreeMap::new();
    for storage in alive.iter().filter_map(|(id, _)| trace.storages.get(id.0)) {
        *sums.entry(module_of(trace, storage).to_owned()).or_default() += storage.requested;
    }
    let mut modules: Vec<_> =
        sums.into_iter().map(|(module, bytes)| ModuleBytes { module, bytes }).collect();
    sorted::by_key(&mut modules, |module| std::cmp::Reverse(module.bytes));
    modules
}

/// The module that ran, or for parameters and their like the one that owns them by name.
fn module_of<'a>(trace: &'a Trace, storage: &Storage) -> &'a str {
    let name = trace.label(storage.name);
    name.rsplit_once('.').map_or_else(|| trace.label(storage.module), |(module, _)| module)
}

/// Storages that are alive, largest first, each with what the user is told of it.
fn live_tensors(trace: &Trace, alive: Vec<(StorageId, usize)>) -> Vec<(StorageId, LiveTensor)> {
    let mut deaths: Vec<Option<usize>> = vec![None; trace.storages.len()];
    for (index, event) in trace.events.iter().enumerate() {
        if let Event::Free(id) = event
            && let Some(death) = deaths.get_mut(id.0)
        {
            *death = Some(index);
        }
    }
    let mut tensors: Vec<_> = alive
        .into_iter()
        .filter_map(|(id, born)| {
            let storage = trace.storages.get(id.0)?;
            let live = LiveTensor {
                bytes: storage.requested,
                category: storage.category,
                operator: trace.label(storage.operator).to_owned(),
                module: module_of(trace, storage).to_owned(),
                name: trace.label(storage.name).to_owned(),
                tensor: storage.tensor.clone(),
                born,
                dies: deaths.get(id.0).copied().flatten(),
            };
            Some((id, live))
        })
        .collect();
    sorted::by_key(&mut tensors, |(_, tensor)| (std::cmp::Reverse(tensor.bytes), tensor.born));
    tensors
}
