//! Replays a [`Trace`] through the allocator: the peaks, their events, and whether the run survives.

use super::{Allocator, BlockId, OutOfMemory, Settings};
use crate::bytes::Bytes;
use crate::trace::{Event, Trace};
use serde::{Deserialize, Serialize};

/// What a run asks of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// `torch.cuda.max_memory_allocated()`, and the first event that reaches it.
    pub allocated: Mark,
    /// `torch.cuda.max_memory_reserved()`, and the first event that reaches it.
    pub reserved: Mark,
    /// SUM: requested bytes at the event of the allocated peak.
    pub requested_at_peak: Bytes,
    /// Peaks of each iteration that began, set-up not counted.
    pub iterations: Vec<IterationPeaks>,
    /// COUNT: segments at the end.
    pub segments: usize,
    /// COUNT: how often cached segments had to be given back to go on.
    pub num_alloc_retries: u64,
    /// Where memory ran out; nothing after that event was replayed.
    pub out_of_memory: Option<Failure>,
}

/// A largest value and where it was first reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// SUM: the value.
    pub bytes: Bytes,
    /// Index of the event in [`Trace::events`].
    pub event: usize,
}

/// Peaks within one iteration, counted as by `reset_peak_memory_stats` at its start: what was
/// alive when it began belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationPeaks {
    /// Largest number of bytes asked for.
    pub requested: Bytes,
    /// Largest `memory_allocated`.
    pub allocated: Bytes,
    /// Largest `memory_reserved`.
    pub reserved: Bytes,
}

/// The event that could not be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the event in [`Trace::events`].
    pub event: usize,
    /// The allocation that failed.
    pub error: OutOfMemory,
}

/// Bytes after each event that was replayed. All vectors are parallel to [`Trace::events`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Requested bytes.
    pub requested: Vec<Bytes>,
    /// Allocated bytes.
    pub allocated: Vec<Bytes>,
    /// Reserved bytes.
    pub reserved: Vec<Bytes>,
}

/// Replays a trace on an allocator that gets up to `limit` from the driver, and keeps the peaks
/// only. Where there is no limit, what the process may reserve is none either.
pub fn replay(trace: &Trace, settings: &Settings, limit: Option<Bytes>) -> Replay {
    run(trace, settings, limit, |_| {}, |_| {})
}

/// SIZE, after each event: what is reserved where the cache is emptied after each iteration and memory has no limit.
pub fn reserved_if_emptied(trace: &Trace, settings: &Settings) -> Vec<Bytes> {
    let mut reserved = Vec::with_capacity(trace.events.len());
    run(trace, settings, None, Allocator::empty_cache, |allocator| {
        reserved.push(allocator.reserved());
    });
    reserved
}

/// Replays a trace as [`replay`] does, and keeps the bytes after every event as well.
pub fn replay_series(trace: &Trace, settings: &Settings, limit: Option<Bytes>) -> (Replay, Series) {
    let mut series = Series::default();
    for bytes in [&mut series.requested, &mut series.allocated, &mut series.reserved] {
        bytes.reserve(trace.events.len());
    }
    let replay = run(
        trace,
        settings,
        limit,
        |_| {},
        |allocator| {
            series.requested.push(allocator.requested());
            series.allocated.push(allocator.allocated());
            series.reserved.push(allocator.reserved());
        },
    );
    (replay, series)
}

/// The allocator as an event leaves it, where memory has no limit, and the block of each storage:
/// parallel to [`Trace::storages`], [`BlockId::NULL`] for those that are not alive.
pub fn state_after(trace: &Trace, settings: &Settings, event: usize) -> (Allocator, Vec<BlockId>) {
    let mut allocator = Allocator::new(settings.without_limits(), None);
    let mut blocks = vec![BlockId::NULL; trace.storages.len()];
    for &call in trace.events.iter().take(event.saturating_add(1)) {
        if apply(call, trace, &mut blocks, &mut allocator).is_err() {
            break;
        }
    }
    (allocator, blocks)
}

impl Replay {
    /// Takes note of what an allocation reaches for the first time.
    pub(super) fn raise(&mut self, allocator: &Allocator, event: usize) {
        let (allocated, reserved) = (allocator.allocated(), allocator.reserved());
        if allocated > self.allocated.bytes {
            self.allocated = Mark { bytes: allocated, event };
            self.requested_at_peak = allocator.requested();
        }
        if reserved > self.reserved.bytes {
            self.reserved = Mark { bytes: reserved, event };
        }
    }
}

/// Replays a trace and shows the allocator before every iteration and after every event.
fn run(
    trace: &Trace,
    settings: &Settings,
    limit: Option<Bytes>,
    before_iteration: impl Fn(&mut Allocator),
    mut after_event: impl FnMut(&Allocator),
) -> Replay {
    let unlimited = settings.without_limits();
    let settings = if limit.is_none() { &unlimited } else { settings };
    let mut allocator = Allocator::new(*settings, limit);
    let mut blocks = vec![BlockId::NULL; trace.storages.len()];
    let mut replay = Replay::default();
    for (iteration, range) in iterations(trace) {
        before_iteration(&mut allocator);
        allocator.reset_peaks();
        let mut event = range.start;
        for &call in trace.events.get(range).unwrap_or_default() {
            if let Err(error) = apply(call, trace, &mut blocks, &mut allocator) {
                replay.out_of_memory = Some(Failure { event, error });
                break;
            }
            // No free makes a new peak.
            if matches!(call, Event::Alloc(_)) {
                replay.raise(&allocator, event);
            }
            after_event(&allocator);
            event = event.saturating_add(1);
        }
        if iteration > 0 {
            replay.iterations.push(allocator.peaks());
        }
        if replay.out_of_memory.is_some() {
            break;
        }
    }
    replay.segments = allocator.segments().count();
    replay.num_alloc_retries = allocator.num_alloc_retries();
    replay
}

/// One call to the allocator. A storage that the trace does not have is ignored, and one without bytes asks for none.
pub(super) fn apply(
    call: Event,
    trace: &Trace,
    blocks: &mut [BlockId],
    allocator: &mut Allocator,
) -> Result<(), OutOfMemory> {
    match call {
        Event::Alloc(id) => {
            if let (Some(storage), Some(block)) =
                (trace.storages.get(id.index()), blocks.get_mut(id.index()))
                && storage.requested > Bytes::ZERO
            {
                *block = allocator.malloc_on(storage.stream, storage.requested)?;
            }
        }
        Event::Free(id) => {
            if let Some(block) = blocks.get_mut(id.index()) {
                allocator.free(std::mem::replace(block, BlockId::NULL));
            }
        }
    }
    Ok(())
}

/// The iterations and their events, set-up first: an iteration begins at its first phase.
pub fn iterations(trace: &Trace) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut starts = vec![(0, 0)];
    for mark in &trace.phases {
        if starts.last().is_some_and(|&(iteration, _)| iteration != mark.iteration) {
            starts.push((mark.iteration, mark.event));
        }
    }
    let ends = starts.iter().skip(1).map(|&(_, start)| start).chain([trace.events.len()]);
    starts.iter().zip(ends).map(|(&(iteration, start), end)| (iteration, start..end)).collect()
}
