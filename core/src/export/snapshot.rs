//! The run as a memory snapshot of PyTorch's: what `torch.cuda.memory._dump_snapshot` writes, for the
//! viewer at <https://pytorch.org/memory_viz> and for `python -m torch.cuda._memory_viz`.
//!
//! Keys are those of `torch/csrc/cuda/memory_snapshot.cpp`, PyTorch 2.15. A stack, innermost frame
//! first, is the tensor, the operator, the modules and the phase. Time is counted in
//! calls to the allocator, a microsecond each, since what a run does between them is not simulated.

use crate::order::IntoOrdered as _;
use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pickle::{Memo, Pickle, Value};
use crate::allocator::{Allocator, BlockId, OutOfMemory, Pool, SegmentView, Settings};
use crate::bytes::Bytes;
use crate::estimate::Simulation;
use crate::trace::{Event, LabelId, Phase, StorageId, Stream, Trace};

/// Where the first segment lies: somewhere where drivers put them, far below 2⁵³, from where on
/// JavaScript would round addresses.
const FIRST_ADDRESS: Bytes = Bytes(0x7f00_0000_0000);

/// What a snapshot is written from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Played<'a> {
    trace: Cow<'a, Trace>,
    settings: Settings,
    /// As it was written.
    alloc_conf: Cow<'a, str>,
    /// SIZE: what the allocator may reserve.
    limit: Bytes,
    /// SIZE: what the driver calls free before the allocator has reserved anything.
    free: Bytes,
}

impl<'a> Played<'a> {
    /// A run on its device.
    pub fn of(simulation: &'a Simulation) -> Self {
        let room = simulation.room();
        Self {
            trace: Cow::Borrowed(simulation.trace()),
            settings: *simulation.settings(),
            alloc_conf: Cow::Borrowed(&simulation.config().alloc_conf),
            limit: room.limit(),
            free: room.left(),
        }
    }
}

/// The pickle: events of the run on its device up to its end, or to where it runs out of memory,
/// then the state at that moment.
pub fn snapshot(played: &Played<'_>) -> Vec<u8> {
    let recording = Recording::of(played);
    let trace = &*played.trace;
    let mut stacks = Stacks { trace, frames: BTreeMap::new(), known: BTreeMap::new() };
    let mut pickle = Pickle::new();
    pickle.open();
    pickle.text("device_traces");
    // One device.
    pickle.list([&recording.entries], |pickle, entries| {
        pickle.list(entries, |pickle, entry| write_event(pickle, &mut stacks, entry));
    });
    pickle.text("segments");
    let owners = recording.owners();
    pickle.list(recording.allocator.segments(), |pickle, segment| {
        write_segment(pickle, &mut stacks, &recording, &owners, &segment);
    });
    pickle.text("external_annotations");
    write_phases(&mut pickle, trace, recording.events);
    pickle.text("allocator_settings");
    write_settings(&mut pickle, played);
    pickle.close();
    pickle.finish()
}

/// One entry of a device's trace.
#[derive(Clone, Copy, Debug)]
struct Entry {
    action: &'static str,
    address: Bytes,
    size: Bytes,
    /// Index in [`Trace::events`].
    event: usize,
    stream: Stream,
    /// Whose block it is, where it is a block.
    storage: Option<StorageId>,
}

/// Where a stretch of addresses begins, its SIZE, and the stream that it serves.
type Stretch = (Bytes, Bytes, Stream);

/// The run, seen from the driver and from the tensors.
#[derive(Debug)]
struct Recording {
    entries: Vec<Entry>,
    allocator: Allocator,
    /// Parallel to [`Trace::storages`].
    blocks: Vec<BlockId>,
    /// The event that allocated each storage: parallel to [`Trace::storages`].
    born: Vec<usize>,
    /// Stretches of addresses that are held, in their order.
    held: Vec<Stretch>,
    /// The event that obtained what begins at an address.
    obtained: BTreeMap<Bytes, usize>,
    /// Whether memory is mapped into wide segments piece by piece.
    is_expandable: bool,
    /// COUNT: events that were replayed.
    events: usize,
}

impl Recording {
    fn of(played: &Played<'_>) -> Self {
        let trace = &*played.trace;
        let mut recording = Self {
            entries: Vec::new(),
            allocator: Allocator::new(played.settings, Some(played.limit)),
            blocks: vec![BlockId::NULL; trace.storages.len()],
            born: vec![0; trace.storages.len()],
            held: Vec::new(),
            obtained: BTreeMap::new(),
            is_expandable: played.settings.expandable_segments,
            events: 0,
        };
        for &call in &trace.events {
            let outcome = match call {
                Event::Alloc(storage) => recording.alloc(trace, storage),
                Event::Free(storage) => {
                    recording.free(trace, storage);
                    Ok(())
                }
            };
            if let Err(error) = outcome {
                let size = played.settings.round_size(error.request);
                let stream = trace.storage(call).map_or(Stream::DEFAULT, |storage| storage.stream);
                recording.push("oom", (played.free - error.reserved, size, stream), None);
            }
            recording.events = recording.events.saturating_add(1);
            if outcome.is_err() {
                break;
            }
        }
        recording.push("snapshot", (Bytes::ZERO, Bytes::ZERO, Stream::DEFAULT), None);
        recording
    }

    fn alloc(&mut self, trace: &Trace, id: StorageId) -> Result<(), OutOfMemory> {
        let Some(storage) = trace.storages.get(id.index()) else { return Ok(()) };
        let before = self.driver_calls();
        let outcome = self.allocator.malloc_on(storage.stream, storage.requested);
        if self.driver_calls() != before {
            self.follow_driver();
        }
        let block = outcome?;
        let Some(view) = self.allocator.block(block) else { return Ok(()) };
        let address = FIRST_ADDRESS + view.address;
        self.push("alloc", (address, storage.requested, storage.stream), Some(id));
        let slots = (self.blocks.get_mut(id.index()), self.born.get_mut(id.index()));
        if let (Some(slot), Some(born)) = slots {
            (*slot, *born) = (block, self.events);
        }
        Ok(())
    }

    fn free(&mut self, trace: &Trace, id: StorageId) {
        let storage = trace.storages.get(id.index());
        let block =
            self.blocks.get_mut(id.index()).map(|slot| std::mem::replace(slot, BlockId::NULL));
        let view = block.and_then(|block| self.allocator.block(block));
        if let (Some(storage), Some(view)) = (storage, view) {
            let block = (FIRST_ADDRESS + view.address, storage.requested, storage.stream);
            // Where another stream had to be waited for, this is when that was over.
            self.push("free_requested", block, Some(id));
            self.push("free_completed", block, Some(id));
            self.allocator.free(view.id);
        }
    }

    /// Whose each allocated block is, by its address.
    fn owners(&self) -> BTreeMap<Bytes, StorageId> {
        let alive = self.blocks.iter().enumerate().filter_map(|(id, &block)| {
            let view = self.allocator.block(block)?;
            Some((view.address, StorageId::new(id)))
        });
        alive.into_map()
    }

    fn push(
        &mut self,
        action: &'static str,
        (address, size, stream): Stretch,
        storage: Option<StorageId>,
    ) {
        let event = self.events;
        self.entries.push(Entry { action, address, size, event, stream, storage });
    }

    /// What changes whenever the driver gives or takes.
    fn driver_calls(&self) -> (Bytes, u64, u64) {
        let statistics = self.allocator.statistics();
        (self.allocator.reserved(), statistics.num_device_alloc, statistics.num_device_free)
    }

    /// Tells what is held now and was not, and the reverse.
    fn follow_driver(&mut self) {
        let segments = self.allocator.segments();
        let stretch =
            |segment: SegmentView<'_>| (segment.address(), segment.size(), segment.stream());
        let now: Vec<Stretch> = segments.map(stretch).collect();
        let before = std::mem::replace(&mut self.held, now.clone());
        let (obtains, gives_back) = if self.is_expandable {
            ("segment_map", "segment_unmap")
        } else {
            ("segment_alloc", "segment_free")
        };
        for (address, size, stream) in without(&before, &now) {
            self.obtained.remove(&address);
            self.push(gives_back, (FIRST_ADDRESS + address, size, stream), None);
        }
        for (address, size, stream) in without(&now, &before) {
            self.obtained.insert(address, self.events);
            self.push(obtains, (FIRST_ADDRESS + address, size, stream), None);
        }
    }
}

/// What of some stretches lies in none of the others; all in the order of their addresses.
fn without(stretches: &[Stretch], others: &[Stretch]) -> Vec<Stretch> {
    let mut left = Vec::new();
    let mut others = others.iter().copied().peekable();
    for &(mut begin, size, stream) in stretches {
        let end = begin + size;
        while let Some(&(other, size, _)) = others.peek().filter(|(other, ..)| *other < end) {
            if other > begin {
                left.push((begin, other - begin, stream));
            }
            begin = begin.max((other + size).min(end));
            // One that reaches further may take from the next stretch as well.
            if other + size > end {
                break;
            }
            others.next();
        }
        if begin < end {
            left.push((begin, end - begin, stream));
        }
    }
    left
}

fn write_event(pickle: &mut Pickle, stacks: &mut Stacks<'_>, entry: &Entry) {
    let &Entry { action, address, size, event, stream, storage } = entry;
    let owner = storage.and_then(|id| stacks.trace.storages.get(id.index()));
    let kind = owner.and_then(|owner| stacks.trace.tensor(owner));
    pickle.open();
    pickle.entries(&[
        ("action", Value::Text(action)),
        // As PyTorch does: what is free has the place of the address.
        (if action == "oom" { "device_free" } else { "addr" }, Value::Number(address.0)),
        ("size", Value::Number(size.0)),
        ("stream", Value::Number(stream.0.into())),
        ("time_us", Value::Number(u64::try_from(event).unwrap_or(u64::MAX))),
        ("compile_context", Value::Text("N/A")),
        ("user_metadata", Value::Text(&kind.map(ToString::to_string).unwrap_or_default())),
        ("pool_id", Value::ZeroPair),
    ]);
    match (action, owner) {
        ("alloc", Some(owner)) => {
            pickle.entries(&[("category", Value::Text(owner.category.name()))]);
        }
        // The viewer stumbles over a file that has categories and not this one.
        ("snapshot", _) => pickle.entries(&[("category", Value::Text("unknown"))]),
        _ => {}
    }
    stacks.write(pickle, event, storage);
    pickle.close();
}

fn write_segment(
    pickle: &mut Pickle,
    stacks: &mut Stacks<'_>,
    recording: &Recording,
    owners: &BTreeMap<Bytes, StorageId>,
    segment: &SegmentView<'_>,
) {
    let address = segment.address();
    let obtained = recording.obtained.range(..=address).next_back();
    let event = obtained.map_or(0, |(_, &event)| event);
    let allocated = segment.blocks().filter(|block| block.allocated).map(|block| block.size).sum();
    let requested = segment.blocks().map(|block| block.requested).sum();
    let Bytes(allocated): Bytes = allocated;
    let Bytes(requested): Bytes = requested;
    pickle.open();
    pickle.entries(&[
        ("device", Value::Number(0)),
        ("address", Value::Number((FIRST_ADDRESS + address).0)),
        ("total_size", Value::Number(segment.size().0)),
        ("allocated_size", Value::Number(allocated)),
        ("active_size", Value::Number(allocated)),
        ("requested_size", Value::Number(requested)),
        ("stream", Value::Number(segment.stream().0.into())),
        (
            "segment_type",
            Value::Text(match segment.pool() {
                Pool::Small => "small",
                Pool::Large => "large",
            }),
        ),
        ("segment_pool_id", Value::ZeroPair),
        ("is_expandable", Value::Flag(recording.is_expandable)),
    ]);
    stacks.write(pickle, event, None);
    pickle.text("blocks");
    pickle.list(segment.blocks(), |pickle, block| {
        let state = if block.allocated { "active_allocated" } else { "inactive" };
        pickle.open();
        pickle.entries(&[
            ("address", Value::Number((FIRST_ADDRESS + block.address).0)),
            ("size", Value::Number(block.size.0)),
            ("requested_size", Value::Number(block.requested.0)),
            ("state", Value::Text(state)),
        ]);
        if let Some(&id) = owners.get(&block.address) {
            let born = recording.born.get(id.index()).copied().unwrap_or(0);
            stacks.write(pickle, born, Some(id));
        } else {
            pickle.text("frames");
            pickle.list([(); 0], |_, ()| {});
        }
        pickle.close();
    });
    pickle.close();
}

/// Begin and end of every phase, as PyTorch notes them of its optimizers.
fn write_phases(pickle: &mut Pickle, trace: &Trace, events: usize) {
    let begun = trace.phases.iter().take_while(|mark| mark.event < events);
    let ends = trace.phases.iter().skip(1).map(|mark| mark.event.min(events)).chain([events]);
    let sides =
        begun.zip(ends).flat_map(|(mark, end)| [("START", mark, mark.event), ("END", mark, end)]);
    pickle.list(sides, |pickle, (stage, mark, event)| {
        pickle.dict(&[
            ("stage", Value::Text(stage)),
            ("name", Value::Text(&format!("{}, iteration {}", mark.phase.name(), mark.iteration))),
            ("device", Value::Number(0)),
            ("time_us", Value::Number(u64::try_from(event).unwrap_or(u64::MAX))),
        ]);
    });
}

/// What is modelled, under PyTorch's names.
fn write_settings(pickle: &mut Pickle, played: &Played<'_>) {
    let settings = &played.settings;
    let limit = settings.max_split_size.map_or(Value::Unlimited, |size| Value::Number(size.0));
    pickle.open();
    pickle.entries(&[
        ("PYTORCH_CUDA_ALLOC_CONF", Value::Text(&played.alloc_conf)),
        ("max_split_size", limit),
        ("expandable_segments", Value::Flag(settings.expandable_segments)),
    ]);
    if settings.collect_above.is_none() {
        pickle.entries(&[("garbage_collection_threshold", Value::ZeroReal)]);
    }
    pickle.text("roundup_power2_divisions");
    pickle.open();
    for (octave, &divisions) in (0_u32..).zip(&settings.roundup_power2_divisions) {
        let from = 1_u64.checked_shl(octave).unwrap_or(0).to_string();
        pickle.entries(&[(&from, Value::Number(divisions))]);
    }
    pickle.close();
    pickle.close();
}

/// What tells stacks apart: a tensor's name, operator, module, iteration and phase.
type StackKey = (Option<LabelId>, Option<LabelId>, Option<LabelId>, Option<(usize, Phase)>);

/// Stacks and frames that were written already.
struct Stacks<'a> {
    trace: &'a Trace,
    /// By the three parts of a frame.
    frames: BTreeMap<(&'static str, usize, &'a str), Memo>,
    known: BTreeMap<StackKey, Memo>,
}

impl Stacks<'_> {
    /// Where an event happens, under the key `frames`; innermost first.
    fn write(&mut self, pickle: &mut Pickle, event: usize, storage: Option<StorageId>) {
        let trace = self.trace;
        let said = |label: LabelId| Some(label).filter(|&label| !trace.label(label).is_empty());
        let at = |labels: &[LabelId]| labels.get(event).copied().and_then(said);
        let place = (
            storage.and_then(|id| said(trace.storages.get(id.index())?.name)),
            at(&trace.operators),
            at(&trace.modules),
            trace.phase_at(event).map(|mark| (mark.iteration, mark.phase)),
        );
        pickle.text("frames");
        if let Some(&known) = self.known.get(&place) {
            return pickle.recall(known);
        }
        let (name, operator, module, phase) = place;
        let mut frames = Vec::new();
        frames.extend(name.map(|name| ("tensor", 0, trace.label(name))));
        frames.extend(operator.map(|operator| ("operator", 0, trace.label(operator))));
        // Each module is called by the one around it.
        let mut path = module.map(|module| trace.label(module));
        while let Some(inner) = path {
            frames.push(("module", 0, inner));
            path = inner.rsplit_once('.').map(|(around, _)| around);
        }
        frames.extend(phase.map(|(iteration, phase)| ("iteration", iteration, phase.name())));
        pickle.list(frames, |pickle, frame| self.frame(pickle, frame));
        let memo = pickle.memoize();
        self.known.insert(place, memo);
    }
}

impl<'a> Stacks<'a> {
    fn frame(&mut self, pickle: &mut Pickle, frame: (&'static str, usize, &'a str)) {
        if let Some(&known) = self.frames.get(&frame) {
            return pickle.recall(known);
        }
        let (kind, line, name) = frame;
        pickle.dict(&[
            ("filename", Value::Text(kind)),
            ("line", Value::Number(u64::try_from(line).unwrap_or(u64::MAX))),
            ("name", Value::Text(name)),
        ]);
        let memo = pickle.memoize();
        self.frames.insert(frame, memo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_lies_in_nothing_that_was_there() {
        let check = |stretches: &[(u64, u64)], others: &[(u64, u64)], expected: &[(u64, u64)]| {
            let bytes = |pairs: &[(u64, u64)]| -> Vec<Stretch> {
                let stretch = |&(begin, size)| (Bytes(begin), Bytes(size), Stream::DEFAULT);
                pairs.iter().map(stretch).collect()
            };
            assert_eq!(without(&bytes(stretches), &bytes(others)), bytes(expected));
        };
        check(&[(0, 20)], &[], &[(0, 20)]);
        check(&[(0, 20), (20, 20)], &[(0, 20)], &[(20, 20)]);
        check(&[(0, 60)], &[(0, 20), (40, 10)], &[(20, 20), (50, 10)]);
        check(&[(0, 20), (40, 20)], &[(10, 40)], &[(0, 10), (50, 10)]);
        check(&[(0, 20)], &[(0, 40)], &[]);
        check(&[(40, 20)], &[(0, 10), (20, 10)], &[(40, 20)]);
    }
}
