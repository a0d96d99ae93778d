//! A memory snapshot that PyTorch recorded: `torch.cuda.memory._dump_snapshot`.
//!
//! [`open`] reads the pickle as data, without executing it, into tables: entries of the trace, segments, blocks,
//! and frames that many of them share. [`Recorded::of`] makes a history of them: the blocks alive when the trace
//! begins (its ring buffer drops old entries), and the life of every later block. The history gives the peaks, the
//! blocks alive there, and their addresses. Our allocator can replay the same calls under other settings
//! ([`Recorded::replay`]). [`Recorded::report`] returns everything in the form of an estimate.
//!
//! Names are those of `torch/csrc/cuda/memory_snapshot.cpp`, PyTorch 2.15; fields that older versions do not write
//! are optional.

mod answer;
mod history;
mod machine;
mod opcodes;
mod replay;

use std::ops::Range;

pub use self::history::{Live, Moment, Origin, Recorded, Sample};
pub use self::replay::{Calls, Replayed, WhatIf};
use crate::bytes::Bytes;
use crate::error::Error;
use crate::report::Reading;
use crate::source::Source;
use crate::trace::Category;

/// What a snapshot says, as tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// Entries of each device: ranges of `entries`.
    pub traces: Vec<Range<usize>>,
    /// Entries of all devices, each device's in their order.
    pub entries: Vec<Entry>,
    /// Segments at the end, of all devices.
    pub segments: Vec<Segment>,
    /// Blocks of all segments.
    pub blocks: Vec<SnapshotBlock>,
    /// Stacks, innermost frame first: positions in `frames`. The first has none.
    pub stacks: Vec<Vec<usize>>,
    /// Frames.
    pub frames: Vec<Frame>,
    /// Texts that frames refer to.
    pub texts: Vec<String>,
    /// Value of `PYTORCH_CUDA_ALLOC_CONF`, where the file has the settings.
    pub alloc_conf: Option<String>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A block is handed out.
    Alloc,
    /// Its tensor is gone.
    FreeRequested,
    /// It can be used again; later than requested where another stream had to come to its end.
    FreeCompleted,
    /// Memory comes from the driver.
    SegmentAlloc,
    /// Memory goes back to the driver.
    SegmentFree,
    /// An expandable segment grows.
    SegmentMap,
    /// An expandable segment shrinks.
    SegmentUnmap,
    /// Memory ran out.
    OutOfMemory,
    /// Anything else.
    Other,
}

impl Action {
    fn named(name: &str) -> Self {
        match name {
            "alloc" => Self::Alloc,
            "free_requested" => Self::FreeRequested,
            "free_completed" => Self::FreeCompleted,
            "segment_alloc" => Self::SegmentAlloc,
            "segment_free" => Self::SegmentFree,
            "segment_map" => Self::SegmentMap,
            "segment_unmap" => Self::SegmentUnmap,
            "oom" => Self::OutOfMemory,
            _ => Self::Other,
        }
    }
}

/// One entry of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// What it was for, where the file says so, as snapshots from a profiler do, and ours.
    pub category: Option<Category>,
    /// Where; what the driver had free, where memory ran out.
    pub address: u64,
    /// SIZE: requested, of a block; of the memory, where it is the driver's.
    pub size: Bytes,
    /// The stream.
    pub stream: u64,
    /// Who called: a position in [`MemorySnapshot::stacks`].
    pub stack: usize,
}

impl Entry {
    /// Whether it says that memory ran out.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self.action, Action::OutOfMemory)
    }
}

/// One segment at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its device.
    pub device: u64,
    /// Where it begins.
    pub address: u64,
    /// SIZE: of the segment.
    pub size: Bytes,
    /// The stream whose requests it serves.
    pub stream: u64,
    /// Whether it belongs to the small pool.
    pub small: bool,
    /// Whether it can grow.
    pub expandable: bool,
    /// Its blocks in the order of their addresses, without gaps: a range of [`MemorySnapshot::blocks`].
    pub blocks: Range<usize>,
}

/// One block at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotBlock {
    /// SIZE: of the block.
    pub size: Bytes,
    /// SIZE: what was asked for; what it last was, where the block is free.
    pub requested: Bytes,
    /// Whether it is handed out, or still awaits another stream.
    pub allocated: bool,
    /// Who allocated it: a position in [`MemorySnapshot::stacks`].
    pub stack: usize,
}

/// One frame of a stack: positions in [`MemorySnapshot::texts`], and a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// Name of the file.
    pub file: usize,
    /// Line in it.
    pub line: u64,
    /// Name of the function.
    pub name: usize,
}

/// Whether a file begins as a pickle does; only a whole one may be a snapshot.
pub fn begins(source: &mut dyn Source) -> bool {
    let mut head = [0; 2];
    source.len() > 2 && source.read_at(0, &mut head).is_ok() && matches!(head, [0x80, 2..=5])
}

/// Reads a snapshot.
///
/// # Errors
/// When the file is no pickle, is cut, asks to execute something, or is no snapshot; the message has
/// the offset.
pub fn open(source: &mut dyn Source) -> Result<MemorySnapshot, Error> {
    machine::read(source)
}

/// The histories of all GPUs that the file says something of.
pub fn readings(snapshot: &MemorySnapshot) -> Vec<Reading> {
    let devices = 0..snapshot.devices();
    let recorded = devices.filter_map(|device| Recorded::of(snapshot, Some(device)).ok());
    let readings = recorded.map(|recorded| recorded.reading());
    readings.filter(|reading| reading.reserved > Bytes::ZERO).collect()
}

impl MemorySnapshot {
    /// A stack as people read it, innermost frame first: `module.py:1521 _call_impl`.
    pub fn stack(&self, stack: usize) -> impl Iterator<Item = String> + '_ {
        let text = |text: usize| self.texts.get(text).map_or("", String::as_str);
        let frames = self.stacks.get(stack).map(Vec::as_slice).unwrap_or_default();
        frames.iter().filter_map(|&frame| self.frames.get(frame)).map(move |frame| {
            let file = text(frame.file).rsplit(['/', '\\']).next().unwrap_or_default();
            format!("{file}:{} {}", frame.line, text(frame.name))
        })
    }

    /// COUNT: devices that the file says something of.
    pub fn devices(&self) -> usize {
        let held = self.segments.iter().map(|segment| segment.device);
        let held = held.filter_map(|device| usize::try_from(device).ok()).max();
        self.traces.len().max(held.map_or(0, |device| device.saturating_add(1)))
    }
}
