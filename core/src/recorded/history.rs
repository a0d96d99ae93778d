//! The history of a snapshot: its trace, and the parts that the trace no longer has.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::{Action, Entry, MemorySnapshot, Segment, SnapshotBlock};
use crate::allocator::{Conf, MIN_BLOCK_SIZE, Pool, SMALL_BUFFER, Settings};
use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::report::{self, Fragmentation};
use crate::sentence::Sentence;
use crate::trace::Category;

/// What a stack tells of why there was an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Within a step of an optimizer.
    Optimizer,
    /// Within a backward pass.
    Backward,
    /// Within the forward of a module.
    Forward,
    /// Moved to the device: `.to()`, `.cuda()`.
    Moved,
    /// The stack does not tell, or there is none.
    Unknown,
}

impl Origin {
    /// All, in the order in which they are looked for: what is recomputed in backward is of backward.
    pub const ALL: [Self; 5] =
        [Self::Optimizer, Self::Backward, Self::Forward, Self::Moved, Self::Unknown];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Backward => "backward",
            Self::Forward => "forward",
            Self::Moved => "moved",
            Self::Unknown => "unknown",
        }
    }

    /// What a category stands for in a report that knows origins only
    /// ([`RecordedRun::by_origin`](report::RecordedRun::by_origin)).
    pub const fn behind(category: Category) -> Self {
        match category {
            Category::OptimizerState => Self::Optimizer,
            Category::Gradient => Self::Backward,
            Category::Activation => Self::Forward,
            Category::Parameter => Self::Moved,
            _ => Self::Unknown,
        }
    }

    /// By one frame: ours name the phase; PyTorch's are known by file and function.
    fn of_frame(file: &str, name: &str) -> Self {
        let is = |part: &str| file.contains(part);
        match name {
            "optimizer" | "zero_grad" if file == "iteration" => Self::Optimizer,
            "backward" if file == "iteration" => Self::Backward,
            "forward" if file == "iteration" => Self::Forward,
            "setup" if file == "iteration" => Self::Moved,
            "step" if is("torch/optim/") => Self::Optimizer,
            "backward" if is("torch/_tensor.py") || is("torch/autograd/") => Self::Backward,
            "_engine_run_backward" => Self::Backward,
            _ if name.starts_with("torch::autograd::Engine::") => Self::Backward,
            "_call_impl" | "_wrapped_call_impl" if is("torch/nn/modules/module.py") => {
                Self::Forward
            }
            "_apply" | "cuda" | "to" if is("torch/nn/modules/module.py") => Self::Moved,
            _ => Self::Unknown,
        }
    }
}

/// A block that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Where it lies.
    pub address: u64,
    /// SIZE: what was asked for.
    pub requested: Bytes,
    /// SIZE: of the block.
    pub size: Bytes,
    /// Who allocated it: a position in [`MemorySnapshot::stacks`].
    pub stack: usize,
    /// What its stack tells.
    pub origin: Origin,
    /// What it was for, where the file says so.
    pub category: Option<Category>,
    /// The entry that allocated it, counted from the beginning of its trace; `None`: it was there before.
    pub born: Option<usize>,
}

/// One moment of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The entry after which it is so, counted from the beginning of the trace.
    pub entry: usize,
    /// SUM: asked for.
    pub requested: Bytes,
    /// SUM: of the blocks handed out.
    pub allocated: Bytes,
    /// SUM: of the segments.
    pub reserved: Bytes,
    /// What is alive, largest first.
    pub live: Vec<Live>,
    /// Where it lies: segments by address; [`report::SegmentBlock::tensor`] is a position in `live`.
    pub segments: Vec<report::Segment>,
}

impl Moment {
    /// What of it is reserved and not allocated.
    pub fn fragmentation(&self) -> Fragmentation {
        Fragmentation::of(&self.segments)
    }

    /// SUM: requested bytes of each origin, largest first.
    pub fn origins(&self) -> Vec<(Origin, Bytes)> {
        let sum = |origin| {
            let of = self.live.iter().filter(|live| live.origin == origin);
            (origin, of.map(|live| live.requested).sum::<Bytes>())
        };
        let mut sums: Vec<_> = Origin::ALL.into_iter().map(sum).collect();
        sums.retain(|(_, bytes)| *bytes > Bytes::ZERO);
        sums.order_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        sums
    }
}

/// The history of one device.
#[derive(Clone, Debug)]
pub struct Recorded<'s> {
    /// The tables it is made of.
    pub snapshot: Cow<'s, MemorySnapshot>,
    /// Number of the device.
    pub device: usize,
    /// Its entries: a range of [`MemorySnapshot::entries`].
    range: Range<usize>,
    /// Blocks that were alive before the first entry, by address.
    pub before: Vec<Live>,
    /// The most that was reserved, and the entry that reached it first.
    pub reserved_peak: (Bytes, usize),
    /// What it needs: the most that was reserved; where memory ran out, with what was asked for then.
    pub needed: Bytes,
    /// Where the most was allocated.
    pub peak: Moment,
    /// How it ends.
    pub end: Moment,
    /// What was assumed, and what the file does not say.
    pub diagnostics: Vec<Diagnostic>,
    pub(super) origins: Vec<Origin>,
    rules: Rules,
    /// Before the first entry.
    start: State,
}

/// Sums after one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The entry, counted from the beginning of the trace.
    pub entry: usize,
    /// SUM: asked for.
    pub requested: Bytes,
    /// SUM: of the blocks handed out.
    pub allocated: Bytes,
    /// SUM: of the segments.
    pub reserved: Bytes,
}

/// How the allocator of the file was set.
#[derive(Clone, Copy, Debug)]
struct Rules {
    settings: Settings,
    /// Whether its segments can grow; then every rest is split off.
    expandable: bool,
}

impl Rules {
    fn of(snapshot: &MemorySnapshot) -> Self {
        let conf = snapshot.alloc_conf.as_deref().map(Conf::read);
        let settings = conf.and_then(Result::ok).unwrap_or_default().on(None, None);
        Self { settings, expandable: snapshot.segments.iter().any(|segment| segment.expandable) }
    }
}

/// Blocks and memory of the driver at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) blocks: BTreeMap<u64, Live>,
    pub(super) requested: Bytes,
    pub(super) allocated: Bytes,
    /// Memory of the driver: SIZE, by its address.
    segments: BTreeMap<u64, Bytes>,
    pub(super) reserved: Bytes,
    /// COUNT: entries that contradict those before them.
    contradictions: usize,
}

impl State {
    fn add(&mut self, live: Live) {
        self.requested += live.requested;
        self.allocated += live.size;
        if let Some(old) = self.blocks.insert(live.address, live) {
            self.requested -= old.requested;
            self.allocated -= old.size;
            self.contradictions = self.contradictions.saturating_add(1);
        }
    }

    /// SIZE: of a block that is handed out now. Entries tell what was asked for; how much more the block
    /// has follows from what lies behind it.
    fn size_at(&self, address: u64, requested: Bytes, rules: &Rules) -> Bytes {
        let rounded = rules.settings.round_size(requested);
        let segment = self.segments.range(..=address).next_back();
        let end = segment.map(|(&start, &size)| start.saturating_add(size.0));
        let Some(end) = end.filter(|&end| end > address) else { return rounded };
        let behind = self.blocks.range(address.saturating_add(1)..end).next();
        let room = behind.map_or(end, |(&next, _)| next).saturating_sub(address);
        let remaining = Bytes(room).saturating_sub(rounded);
        let pool = Pool::of(rounded);
        let splits = rules.expandable || rules.settings.should_split(pool, rounded, remaining);
        if splits || Bytes(room) < rounded { rounded } else { Bytes(room) }
    }

    fn remove(&mut self, address: u64) -> bool {
        let Some(old) = self.blocks.remove(&address) else { return false };
        self.requested -= old.requested;
        self.allocated -= old.size;
        true
    }

    /// The driver's memory grows by a piece; one of an expandable segment joins its neighbours.
    fn map(&mut self, mut address: u64, mut size: Bytes, joins: bool) {
        self.reserved += size;
        if joins {
            let next = address.saturating_add(size.0);
            if let Some(more) = self.segments.remove(&next) {
                size += more;
            }
            let before = self.segments.range(..address).next_back();
            if let Some((&start, &less)) = before
                && start.saturating_add(less.0) == address
            {
                address = start;
                size += less;
            }
        }
        self.segments.insert(address, size);
    }

    /// The driver's memory shrinks by a piece, which may lie in the middle of a segment.
    fn unmap(&mut self, address: u64, size: Bytes) {
        let around =
            self.segments.range(..=address).next_back().map(|(&start, &size)| (start, size));
        let end = address.saturating_add(size.0);
        let found = around.filter(|(start, whole)| start.saturating_add(whole.0) >= end);
        let Some((start, whole)) = found else {
            self.contradictions = self.contradictions.saturating_add(1);
            return;
        };
        self.reserved -= size;
        self.segments.remove(&start);
        if start < address {
            self.segments.insert(start, Bytes(address.saturating_sub(start)));
        }
        let rest = start.saturating_add(whole.0).saturating_sub(end);
        if rest > 0 {
            self.segments.insert(end, Bytes(rest));
        }
    }
}

impl<'s> Recorded<'s> {
    /// The history of one device; where none is named, of the one with the longest trace.
    ///
    /// # Errors
    /// When the file says nothing of that device.
    pub fn of(snapshot: &'s MemorySnapshot, device: Option<usize>) -> Result<Self, Error> {
        Self::new(Cow::Borrowed(snapshot), device)
    }

    /// The same, and the tables are its own.
    ///
    /// # Errors
    /// As [`Recorded::of`].
    pub fn owning(
        snapshot: MemorySnapshot,
        device: Option<usize>,
    ) -> Result<Recorded<'static>, Error> {
        Recorded::new(Cow::Owned(snapshot), device)
    }

    fn new(tables: Cow<'s, MemorySnapshot>, device: Option<usize>) -> Result<Self, Error> {
        let snapshot = &*tables;
        let device = device.unwrap_or_else(|| longest(snapshot));
        let is_silent = snapshot.entries.is_empty() && snapshot.segments.is_empty();
        if device >= snapshot.devices() || is_silent {
            let message = match snapshot.devices() {
                _ if is_silent => {
                    say!(
                        "the snapshot has neither segments nor entries: record a history first, with \
                      torch.cuda.memory._record_memory_history()"
                    )
                }
                count => {
                    say!("there is no GPU {device} in this snapshot of {count}", device, count)
                }
            };
            return Err(Error::new(ErrorKind::BadConfig, message));
        }
        let range = snapshot.traces.get(device).cloned().unwrap_or_default();
        let entries = snapshot.entries.get(range.clone()).unwrap_or_default();
        let origins = origins(snapshot);
        let (end, last) = ending(snapshot, device, &origins, entries.len());
        let before = before(&last, entries);
        let segments = beginning(&last, entries);
        let reserved = segments.values().copied().sum();
        let mut start = State { segments, reserved, ..State::default() };
        for &live in &before {
            start.add(live);
        }
        let rules = Rules::of(snapshot);
        let mut recorded = Self {
            snapshot: tables,
            device,
            range,
            before,
            reserved_peak: (reserved, 0),
            needed: reserved,
            peak: end.clone(),
            end,
            diagnostics: Vec::new(),
            origins,
            rules,
            start,
        };
        let contradictions = recorded.find_peaks();
        recorded.diagnose(contradictions);
        Ok(recorded)
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        self.snapshot.entries.get(self.range.clone()).unwrap_or_default()
    }

    /// Whether memory ran out in it.
    pub fn runs_out(&self) -> bool {
        self.entries().iter().any(Entry::is_refusal)
    }

    /// The moment after an entry; one behind the last is the last.
    pub fn at(&self, entry: usize) -> Moment {
        let last = self.entries().len().saturating_sub(1);
        let mut walk = self.walk();
        for at in 0..=entry.min(last) {
            walk.step(at);
        }
        moment(&walk.state, entry.min(last), &self.snapshot, self.device)
    }

    /// Sums over time, thinned to a limit: of neighbours, the one with the most allocated.
    pub fn timeline(&self, most: usize) -> Vec<Sample> {
        let stride = self.entries().len().div_ceil(most.max(1)).max(1);
        let mut walk = self.walk();
        let mut samples: Vec<Sample> = Vec::new();
        let mut highest = Sample::default();
        for entry in 0..self.entries().len() {
            walk.step(entry);
            let State { requested, allocated, reserved, .. } = walk.state;
            if entry.is_multiple_of(stride) || allocated >= highest.allocated {
                highest = Sample { entry, requested, allocated, reserved };
            }
            let next = entry.saturating_add(1);
            if next.is_multiple_of(stride) || next == self.entries().len() {
                samples.push(highest);
            }
        }
        samples
    }

    pub(super) fn walk(&self) -> Walk<'_> {
        Walk {
            entries: self.entries(),
            origins: &self.origins,
            rules: self.rules,
            state: self.start.clone(),
        }
    }

    /// Sets the peaks; COUNT: entries that contradict those before them.
    fn find_peaks(&mut self) -> usize {
        let mut walk = self.walk();
        let mut reserved = (walk.state.reserved, 0);
        let mut allocated = (walk.state.allocated, 0);
        let mut needed = Bytes::ZERO;
        for at in 0..self.entries().len() {
            walk.step(at);
            if walk.state.allocated > allocated.0 {
                allocated = (walk.state.allocated, at);
            }
            if walk.state.reserved > reserved.0 {
                reserved = (walk.state.reserved, at);
            }
            if let Some(refused) = self.entries().get(at).filter(|entry| entry.is_refusal()) {
                needed = needed.max(walk.state.reserved + refused.size);
            }
        }
        let contradictions = walk.state.contradictions;
        self.reserved_peak = reserved;
        self.needed = needed.max(reserved.0);
        if !self.entries().is_empty() {
            self.peak = self.at(allocated.1);
        }
        contradictions
    }

    fn diagnose(&mut self, contradictions: usize) {
        let mut notes = Vec::new();
        let mut note = |severity, code: &str, message: Sentence| {
            notes.push(Diagnostic::new(severity, code, message));
        };
        if self.entries().is_empty() {
            let message = say!(
                "no history was recorded, so that only the end is known: call \
                           torch.cuda.memory._record_memory_history() before the training loop"
            );
            note(Severity::Warning, "no-history", message);
        } else if !self.before.is_empty() {
            let bytes: Bytes = self.before.iter().map(|live| live.requested).sum();
            let message = say!(
                "{n} blocks of {bytes} were there before the first entry, either because recording began \
                 later or because its ring buffer forgot their allocation: what came before is unknown; \
                 a larger max_entries keeps more",
                n = self.before.len(),
                bytes
            );
            note(Severity::Info, "begins-late", message);
        }
        let is_block = |entry: &&Entry| entry.action == Action::Alloc;
        let streams = self.entries().iter().filter(is_block).map(|entry| entry.stream).into_set();
        if streams.len() > 1 {
            let message = say!(
                "{n} streams allocate: memory that one has freed is not used by another",
                n = streams.len()
            );
            note(Severity::Info, "several-streams", message);
        }
        let others = self.snapshot.devices().saturating_sub(1);
        if others > 0 {
            let message = say!(
                "this is GPU {device} of {count}, counted from 0: `highwater replay --gpu` shows another",
                device = self.device,
                count = others.saturating_add(1)
            );
            note(Severity::Info, "several-devices", message);
        }
        if contradictions > 0 {
            let message = say!(
                "{contradictions} entries contradict those before them, as when actions were left out of \
                 the recording: sums may be wrong",
                contradictions
            );
            note(Severity::Warning, "contradictions", message);
        }
        if self.runs_out() {
            let message = say!(
                "memory ran out in this run, which needs {needed} or more of reserved memory",
                needed = self.needed
            );
            note(Severity::Warning, "out-of-memory", message);
        }
        self.diagnostics = notes;
    }
}

/// The device with the most entries, the first of equals.
fn longest(snapshot: &MemorySnapshot) -> usize {
    let lengths = snapshot.traces.iter().map(ExactSizeIterator::len).enumerate();
    let longest = lengths.max_by_key(|&(device, length)| (length, std::cmp::Reverse(device)));
    match longest {
        Some((device, length)) if length > 0 => device,
        _ => snapshot
            .segments
            .first()
            .and_then(|segment| usize::try_from(segment.device).ok())
            .unwrap_or(0),
    }
}

/// What each stack tells: of all its frames, the first of [`Origin::ALL`].
fn origins(snapshot: &MemorySnapshot) -> Vec<Origin> {
    let text = |text: usize| snapshot.texts.get(text).map_or("", String::as_str);
    let frame = |frame: &super::Frame| Origin::of_frame(text(frame.file), text(frame.name));
    let frames: Vec<Origin> = snapshot.frames.iter().map(frame).collect();
    let of_stack = |stack: &Vec<usize>| {
        let told = stack.iter().filter_map(|&frame| frames.get(frame).copied());
        told.min().unwrap_or(Origin::Unknown)
    };
    snapshot.stacks.iter().map(of_stack).collect()
}

/// Goes through a trace.
pub(super) struct Walk<'a> {
    entries: &'a [Entry],
    origins: &'a [Origin],
    rules: Rules,
    pub(super) state: State,
}

impl Walk<'_> {
    pub(super) fn step(&mut self, at: usize) {
        let Some(&entry) = self.entries.get(at) else { return };
        let Entry { action, address, size, stack, category, .. } = entry;
        match action {
            Action::Alloc => {
                let origin = self.origins.get(stack).copied().unwrap_or(Origin::Unknown);
                self.state.add(Live {
                    address,
                    requested: size,
                    size: self.state.size_at(address, size, &self.rules),
                    stack,
                    origin,
                    category,
                    born: Some(at),
                });
            }
            Action::FreeCompleted => {
                if !self.state.remove(address) {
                    self.state.contradictions = self.state.contradictions.saturating_add(1);
                }
            }
            Action::SegmentAlloc => self.state.map(address, size, false),
            Action::SegmentMap => self.state.map(address, size, true),
            Action::SegmentFree | Action::SegmentUnmap => self.state.unmap(address, size),
            Action::FreeRequested | Action::OutOfMemory | Action::Other => {}
        }
    }
}

/// The end, as the file states it: for people, and to go back from.
fn ending(
    snapshot: &MemorySnapshot,
    device: usize,
    origins: &[Origin],
    entries: usize,
) -> (Moment, State) {
    let mut state = State::default();
    let mut allocated = Bytes::ZERO;
    let segments = segments_of(snapshot, device);
    for segment in &segments {
        state.segments.insert(segment.address, segment.size);
        state.reserved += segment.size;
        for (address, block) in blocks_of(snapshot, segment).filter(|(_, block)| block.allocated) {
            let &SnapshotBlock { size, requested, stack, .. } = block;
            let origin = origins.get(stack).copied().unwrap_or(Origin::Unknown);
            allocated += size;
            let (category, born) = (None, None);
            state.add(Live { address, requested, size, stack, origin, category, born });
        }
    }
    let live = largest_first(&state);
    let owners = live.iter().enumerate().map(|(at, live)| (live.address, at)).into_map();
    let segments = segments.into_iter().map(|segment| {
        let blocks = blocks_of(snapshot, segment).map(|(address, block)| report::SegmentBlock {
            size: block.size,
            tensor: owners.get(&address).copied().filter(|_| block.allocated),
        });
        report::Segment {
            pool: if segment.small { Pool::Small } else { Pool::Large },
            size: segment.size,
            blocks: blocks.collect(),
        }
    });
    let moment = Moment {
        entry: entries.saturating_sub(1),
        requested: state.requested,
        allocated,
        reserved: state.reserved,
        segments: segments.collect(),
        live,
    };
    (moment, state)
}

/// Segments of a device by address.
fn segments_of(snapshot: &MemorySnapshot, device: usize) -> Vec<&Segment> {
    let is_here = |segment: &&Segment| usize::try_from(segment.device) == Ok(device);
    let mut segments: Vec<_> = snapshot.segments.iter().filter(is_here).collect();
    segments.order_by_key(|segment| segment.address);
    segments
}

/// Blocks of a segment with their addresses.
fn blocks_of<'s>(
    snapshot: &'s MemorySnapshot,
    segment: &Segment,
) -> impl Iterator<Item = (u64, &'s SnapshotBlock)> + use<'s> {
    let blocks = snapshot.blocks.get(segment.blocks.clone()).unwrap_or_default();
    let mut next = segment.address;
    blocks.iter().map(move |block| {
        let address = next;
        next = next.saturating_add(block.size.0);
        (address, block)
    })
}

/// The driver's memory before the first entry: from the end backwards.
fn beginning(end: &State, entries: &[Entry]) -> BTreeMap<u64, Bytes> {
    let mut state = end.clone();
    for entry in entries.iter().rev() {
        match entry.action {
            Action::SegmentAlloc | Action::SegmentMap => state.unmap(entry.address, entry.size),
            Action::SegmentFree => state.map(entry.address, entry.size, false),
            Action::SegmentUnmap => state.map(entry.address, entry.size, true),
            _ => {}
        }
    }
    state.segments
}

/// Blocks that were alive before the first entry: what is freed and was never allocated, and
/// what is there at the end and never was either.
fn before(end: &State, entries: &[Entry]) -> Vec<Live> {
    let mut born: BTreeMap<u64, usize> = BTreeMap::new();
    let mut before = BTreeMap::new();
    for entry in entries {
        match entry.action {
            Action::Alloc => {
                born.insert(entry.address, 0);
            }
            Action::FreeCompleted if born.remove(&entry.address).is_none() => {
                let live = Live {
                    address: entry.address,
                    requested: entry.size,
                    size: entry.size.round_up(MIN_BLOCK_SIZE),
                    stack: 0,
                    origin: Origin::Unknown,
                    category: None,
                    born: None,
                };
                before.entry(entry.address).or_insert(live);
            }
            _ => {}
        }
    }
    for (address, live) in &end.blocks {
        if !born.contains_key(address) {
            before.entry(*address).or_insert(*live);
        }
    }
    before.into_values().collect()
}

fn largest_first(state: &State) -> Vec<Live> {
    let mut live: Vec<_> = state.blocks.values().copied().collect();
    live.order_by_key(|live| (std::cmp::Reverse(live.requested), live.address));
    live
}

/// A moment in the middle.
fn moment(state: &State, entry: usize, snapshot: &MemorySnapshot, device: usize) -> Moment {
    let live = largest_first(state);
    let owners = live.iter().enumerate().map(|(at, live)| (live.address, at)).into_map();
    let known = segments_of(snapshot, device);
    let segments = state.segments.iter().map(|(&start, &size)| {
        let after = known.partition_point(|segment| segment.address <= start);
        let around = after.checked_sub(1).and_then(|at| known.get(at));
        let around =
            around.filter(|segment| segment.address.saturating_add(segment.size.0) > start);
        let is_small = around.map_or(size == SMALL_BUFFER, |segment| segment.small);
        let end = start.saturating_add(size.0);
        let mut blocks = Vec::new();
        let mut at = start;
        for (&address, live) in state.blocks.range(start..end) {
            push_hole(&mut blocks, at, address);
            let tensor = owners.get(&address).copied();
            blocks.push(report::SegmentBlock { size: live.size, tensor });
            at = address.saturating_add(live.size.0);
        }
        push_hole(&mut blocks, at, end);
        report::Segment { pool: if is_small { Pool::Small } else { Pool::Large }, size, blocks }
    });
    Moment {
        entry,
        requested: state.requested,
        allocated: state.allocated,
        reserved: state.reserved,
        segments: segments.collect(),
        live,
    }
}

fn push_hole(blocks: &mut Vec<report::SegmentBlock>, from: u64, to: u64) {
    let size = Bytes(to.saturating_sub(from));
    if size > Bytes::ZERO {
        blocks.push(report::SegmentBlock { size, tensor: None });
    }
}
