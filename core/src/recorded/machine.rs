//! The pickle's stack machine. It keeps only the parts of a snapshot that a [`MemorySnapshot`] has.
//!
//! A dictionary is recognised by its keys: an entry of the trace has an `action`, a frame a `filename`, a block a
//! `state`, a segment `blocks`. It becomes a row of a table as soon as a list or another dictionary
//! takes it, so that memory grows with rows and not with the pickle's objects. Until then it is
//! *open*; an open container may be recalled once it is complete, as frames are that several rows
//! share.

use std::collections::BTreeMap;
use std::ops::Range;

use super::opcodes::{Scanner, Step};
use super::{Action, Entry, Frame, MemorySnapshot, Segment, SnapshotBlock};
use crate::bytes::Bytes;
use crate::error::Error;
use crate::source::Source;
use crate::trace::Category;

/// COUNT: GPUs that a snapshot may be of: PyTorch's `DeviceIndex` has eight bits (`c10/core/Device.h`). Each is
/// walked through, so a number from the file must not decide how often.
const DEVICES_MAX: usize = 128;
/// COUNT: values on the stack; `CPython` writes batches of a thousand.
const STACK_MAX: usize = 1 << 20;
/// COUNT: marks, each a container inside another.
const DEPTH_MAX: usize = 64;
/// COUNT: numbers that may be left out in the memo.
const GAP_MAX: usize = 1024;

/// What the stack and the memo hold; large things lie in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Other,
    Number(u64),
    Flag(bool),
    /// Position in [`MemorySnapshot::texts`].
    Text(usize),
    Frame(usize),
    /// A list of frames.
    Stack(usize),
    /// A list without items.
    Empty,
    Entry(usize),
    Block(usize),
    Segment(usize),
    /// A list of rows, or of lists of entries: position in [`Machine::lists`].
    List(usize),
    /// The allocator's settings: the text of the variable.
    Settings(usize),
    /// Position in [`Machine::open`].
    Open(usize),
}

/// A container on the stack, and where it is remembered.
#[derive(Debug)]
struct Slot {
    container: Open,
    /// Position in [`Machine::memo`].
    memo: Option<usize>,
}

/// A container that may still get items.
#[derive(Debug)]
enum Open {
    Dict(Box<Draft>),
    List(Items),
    /// Recalled, and what it became: it gets no more.
    Closed(Value),
}

/// What a list holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Items {
    None,
    Frames(Vec<usize>),
    Entries(Range<usize>),
    Blocks(Range<usize>),
    Segments(Range<usize>),
    /// A list for each device.
    Traces(Vec<Range<usize>>),
    /// Anything else.
    Mixed,
}

/// Keys that mean something, and what stands behind them.
macro_rules! keys {
    ($($key:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug)]
        #[expect(non_camel_case_types, reason = "as they are spelled")]
        enum Key { $($key),* }

        impl Key {
            fn of(text: &str) -> Option<Self> {
                match text {
                    $($name => Some(Self::$key),)*
                    _ => None,
                }
            }
        }

        /// A dictionary, as far as it means something.
        #[derive(Clone, Debug)]
        struct Draft { $($key: Option<Value>),* }

        impl Draft {
            const EMPTY: Self = Self { $($key: None),* };

            fn set(&mut self, key: Key, value: Value) {
                match key { $(Key::$key => self.$key = Some(value)),* }
            }
        }
    };
}

keys! {
    action = "action",
    addr = "addr",
    address = "address",
    allocator_settings = "allocator_settings",
    blocks = "blocks",
    category = "category",
    device = "device",
    device_free = "device_free",
    device_traces = "device_traces",
    filename = "filename",
    frames = "frames",
    is_expandable = "is_expandable",
    line = "line",
    name = "name",
    requested_size = "requested_size",
    segment_type = "segment_type",
    segments = "segments",
    size = "size",
    state = "state",
    stream = "stream",
    total_size = "total_size",
    variable = "PYTORCH_CUDA_ALLOC_CONF",
}

/// Everything that is known in the middle of a file.
struct Machine<'s> {
    scanner: Scanner<'s>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Value>,
    open: Vec<Slot>,
    /// Slots of `open` to use again.
    vacant: Vec<usize>,
    lists: Vec<Items>,
    read: MemorySnapshot,
    /// What each text means as a key: parallel to [`MemorySnapshot::texts`].
    keys: Vec<Option<Key>>,
    texts: BTreeMap<String, usize>,
    frames: BTreeMap<Frame, usize>,
    stacks: BTreeMap<Vec<usize>, usize>,
}

/// Reads a whole pickle.
pub(super) fn read(source: &mut dyn Source) -> Result<MemorySnapshot, Error> {
    let mut machine = Machine {
        scanner: Scanner::new(source)?,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        open: Vec::new(),
        vacant: Vec::new(),
        lists: Vec::new(),
        read: MemorySnapshot::default(),
        keys: Vec::new(),
        texts: BTreeMap::new(),
        frames: BTreeMap::new(),
        stacks: BTreeMap::new(),
    };
    machine.stack_of(Vec::new());
    loop {
        match machine.scanner.next()? {
            Step::Stop => return machine.finish(),
            step => machine.step(step)?,
        }
    }
}

impl Machine<'_> {
    fn step(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Number(number) => self.push(Value::Number(number)),
            Step::Flag(flag) => self.push(Value::Flag(flag)),
            Step::Other => self.push(Value::Other),
            Step::Text => {
                let text = self.intern();
                self.push(Value::Text(text))
            }
            Step::EmptyDict => self.push_open(Open::Dict(Box::new(Draft::EMPTY))),
            Step::EmptyList => self.push_open(Open::List(Items::None)),
            Step::Mark => {
                if self.marks.len() >= DEPTH_MAX {
                    return Err(self
                        .scanner
                        .refuse(&say!("more than 64 containers in each other")));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            Step::List => {
                let items = self.above_mark()?;
                self.push_open(Open::List(Items::None))?;
                self.append(items)
            }
            Step::Dict => {
                let items = self.above_mark()?;
                self.push_open(Open::Dict(Box::new(Draft::EMPTY)))?;
                self.set(&items)
            }
            Step::Tuple => {
                let items = self.above_mark()?;
                self.tuple(items)
            }
            Step::TupleOf(count) => {
                let items = self.last(count)?;
                self.tuple(items)
            }
            Step::Append => {
                let items = self.last(1)?;
                self.append(items)
            }
            Step::Appends => {
                let items = self.above_mark()?;
                self.append(items)
            }
            Step::SetItem => {
                let items = self.last(2)?;
                self.set(&items)
            }
            Step::SetItems => {
                let items = self.above_mark()?;
                self.set(&items)
            }
            Step::Remember(place) => self.remember(place),
            Step::Recall(place) => self.recall(place),
            Step::Skip | Step::Stop => Ok(()),
        }
    }

    fn finish(mut self) -> Result<MemorySnapshot, Error> {
        let root = self.last(1)?.pop().unwrap_or(Value::Other);
        let root = match root {
            Value::Open(slot) => self.open.get(slot).map(|slot| &slot.container),
            _ => None,
        };
        // Older versions dumped the segments alone.
        let (segments, traces, settings) = match root {
            Some(Open::Dict(draft)) => {
                (draft.segments, draft.device_traces, draft.allocator_settings)
            }
            _ => (None, None, None),
        };
        let Some(segments) = segments else {
            return Err(self
                .scanner
                .refuse(&say!("this pickle has no `segments`, so that it is no snapshot")));
        };
        let rows = |value: Option<Value>| match value {
            Some(Value::List(list)) => self.lists.get(list),
            _ => None,
        };
        match (segments, rows(Some(segments))) {
            (Value::Empty, _) | (_, Some(Items::Segments(_))) => {}
            _ => return Err(self.scanner.refuse(&say!("`segments` is not a list of segments"))),
        }
        self.read.traces = match (traces, rows(traces)) {
            (None | Some(Value::Empty), _) => Vec::new(),
            (_, Some(Items::Traces(traces))) => traces.clone(),
            _ => return Err(self.scanner.refuse(&say!("`device_traces` is not a list of traces"))),
        };
        if self.read.devices() > DEVICES_MAX {
            return Err(self
                .scanner
                .refuse(&say!("a segment or a trace is of a GPU whose number is over 127")));
        }
        if let Some(Value::Settings(text)) = settings {
            self.read.alloc_conf = self.read.texts.get(text).cloned();
        }
        Ok(self.read)
    }

    fn push(&mut self, value: Value) -> Result<(), Error> {
        if self.stack.len() >= STACK_MAX {
            return Err(self
                .scanner
                .refuse(&say!("more than a million values that nothing takes")));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_open(&mut self, container: Open) -> Result<(), Error> {
        let slot = self.vacant.pop().unwrap_or(self.open.len());
        let container = Slot { container, memo: None };
        match self.open.get_mut(slot) {
            Some(place) => *place = container,
            None => self.open.push(container),
        }
        self.push(Value::Open(slot))
    }

    fn above_mark(&mut self) -> Result<Vec<Value>, Error> {
        let Some(mark) = self.marks.pop().filter(|&mark| mark <= self.stack.len()) else {
            return Err(self.scanner.refuse(&say!("there is no mark")));
        };
        Ok(self.stack.split_off(mark))
    }

    fn last(&mut self, count: usize) -> Result<Vec<Value>, Error> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count).filter(|&from| from >= bottom) {
            Some(from) => Ok(self.stack.split_off(from)),
            None => Err(self.scanner.refuse(&say!("the stack is empty"))),
        }
    }

    /// Tuples mean nothing here, but what is in them is released.
    fn tuple(&mut self, items: Vec<Value>) -> Result<(), Error> {
        for item in items {
            self.take(item)?;
        }
        self.push(Value::Other)
    }

    fn remember(&mut self, place: Option<usize>) -> Result<(), Error> {
        let Some(&top) = self.stack.last() else {
            return Err(self.scanner.refuse(&say!("the stack is empty")));
        };
        let place = place.unwrap_or(self.memo.len());
        if let Value::Open(slot) = top
            && let Some(slot) = self.open.get_mut(slot)
            && slot.memo.replace(place).is_some()
        {
            return Err(self.scanner.refuse(&say!("a container is remembered twice")));
        }
        if place > self.memo.len().saturating_add(GAP_MAX) {
            return Err(self.scanner.refuse(&say!("the memo has a gap")));
        }
        if place >= self.memo.len() {
            self.memo.resize(place.saturating_add(1), Value::Other);
        }
        if let Some(slot) = self.memo.get_mut(place) {
            *slot = top;
        }
        Ok(())
    }

    fn recall(&mut self, place: usize) -> Result<(), Error> {
        let Some(&value) = self.memo.get(place) else {
            return Err(self.scanner.refuse(&say!("nothing is remembered there")));
        };
        let value = match value {
            Value::Open(slot) => {
                let value = self.close(slot)?;
                if let Some(slot) = self.open.get_mut(slot) {
                    slot.container = Open::Closed(value);
                }
                if let Some(known) = self.memo.get_mut(place) {
                    *known = value;
                }
                value
            }
            value => value,
        };
        self.push(value)
    }

    /// A value that leaves the stack: what is open becomes what it is.
    fn take(&mut self, value: Value) -> Result<Value, Error> {
        let Value::Open(slot) = value else { return Ok(value) };
        let value = self.close(slot)?;
        let memo = self.open.get_mut(slot).and_then(|slot| slot.memo.take());
        if let Some(known) = memo.and_then(|memo| self.memo.get_mut(memo)) {
            *known = value;
        }
        self.vacant.push(slot);
        Ok(value)
    }

    /// What an open container is, now that it is complete.
    fn close(&mut self, slot: usize) -> Result<Value, Error> {
        let Some(slot) = self.open.get_mut(slot) else { return Ok(Value::Other) };
        match std::mem::replace(&mut slot.container, Open::Closed(Value::Other)) {
            Open::Closed(value) => Ok(value),
            Open::Dict(draft) => self.row(&draft),
            Open::List(Items::None) => Ok(Value::Empty),
            Open::List(Items::Mixed) => Ok(Value::Other),
            Open::List(Items::Frames(frames)) => Ok(self.stack_of(frames)),
            Open::List(items) => {
                self.lists.push(items);
                Ok(Value::List(self.lists.len().saturating_sub(1)))
            }
        }
    }

    fn append(&mut self, items: Vec<Value>) -> Result<(), Error> {
        let mut taken = Vec::with_capacity(items.len());
        for item in items {
            taken.push(self.take(item)?);
        }
        let Some(Open::List(list)) = container(&mut self.open, &self.stack) else {
            return Err(self.scanner.refuse(&say!("what gets items is no list, or holds itself")));
        };
        for item in taken {
            let traces = match item {
                Value::Empty => Some(0..0),
                Value::List(place) => match self.lists.get(place) {
                    Some(Items::Entries(range)) => Some(range.clone()),
                    _ => None,
                },
                _ => None,
            };
            list.push(item, traces);
        }
        Ok(())
    }

    fn set(&mut self, items: &[Value]) -> Result<(), Error> {
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.scanner.refuse(&say!("a key has no value")));
        };
        for &[key, value] in pairs {
            let value = self.take(value)?;
            let key = match self.take(key)? {
                Value::Text(text) => self.keys.get(text).copied().flatten(),
                _ => None,
            };
            let Some(Open::Dict(draft)) = container(&mut self.open, &self.stack) else {
                return Err(self
                    .scanner
                    .refuse(&say!("what gets keys is no dictionary, or holds itself")));
            };
            if let Some(key) = key {
                draft.set(key, value);
            }
        }
        Ok(())
    }
}

/// The container on top of the stack.
fn container<'o>(open: &'o mut [Slot], stack: &[Value]) -> Option<&'o mut Open> {
    match stack.last() {
        Some(&Value::Open(slot)) => open.get_mut(slot).map(|slot| &mut slot.container),
        _ => None,
    }
}

impl Items {
    /// Adds an item; `trace` are the entries of one that is a list of them.
    fn push(&mut self, item: Value, trace: Option<Range<usize>>) {
        if *self == Self::None {
            *self = match item {
                Value::Frame(_) => Self::Frames(Vec::new()),
                Value::Entry(first) => Self::Entries(first..first),
                Value::Block(first) => Self::Blocks(first..first),
                Value::Segment(first) => Self::Segments(first..first),
                _ if trace.is_some() => Self::Traces(Vec::new()),
                _ => Self::Mixed,
            };
        }
        match (&mut *self, item, trace) {
            (Self::Frames(frames), Value::Frame(frame), _) => frames.push(frame),
            (Self::Traces(traces), _, Some(trace)) => traces.push(trace),
            (Self::Entries(range), Value::Entry(row), _)
            | (Self::Blocks(range), Value::Block(row), _)
            | (Self::Segments(range), Value::Segment(row), _)
                if range.end == row =>
            {
                range.end = row.saturating_add(1);
            }
            _ => *self = Self::Mixed,
        }
    }
}

impl Machine<'_> {
    /// The row that a dictionary is, by its keys.
    fn row(&mut self, draft: &Draft) -> Result<Value, Error> {
        if let (Some(Value::Text(file)), Some(Value::Text(name))) = (draft.filename, draft.name) {
            let line = number(draft.line).unwrap_or(0);
            return Ok(self.frame(Frame { file, line, name }));
        }
        if let Some(Value::Text(action)) = draft.action {
            return self.entry(action, draft);
        }
        if draft.blocks.is_some() {
            return self.segment(draft);
        }
        if let Some(Value::Text(state)) = draft.state {
            return self.block(state, draft);
        }
        Ok(match draft.variable {
            Some(Value::Text(text)) => Value::Settings(text),
            _ => Value::Other,
        })
    }

    fn entry(&mut self, action: usize, draft: &Draft) -> Result<Value, Error> {
        let text = |text: usize| self.read.texts.get(text).map_or("", String::as_str);
        let action = Action::named(text(action));
        let category = match draft.category {
            Some(Value::Text(name)) => Category::ALL.into_iter().find(|it| it.name() == text(name)),
            _ => None,
        };
        let address = number(draft.addr).or_else(|| number(draft.device_free));
        let is_about_memory = action != Action::Other;
        if is_about_memory && (address.is_none() || number(draft.size).is_none()) {
            return Err(self
                .scanner
                .refuse(&say!("an entry of the trace has no `addr` or no `size`")));
        }
        self.read.entries.push(Entry {
            action,
            category,
            address: address.unwrap_or(0),
            size: Bytes(number(draft.size).unwrap_or(0)),
            stream: number(draft.stream).unwrap_or(0),
            stack: stack(draft.frames),
        });
        Ok(Value::Entry(self.read.entries.len().saturating_sub(1)))
    }

    fn segment(&mut self, draft: &Draft) -> Result<Value, Error> {
        let blocks = match draft.blocks {
            Some(Value::Empty) => Some(0..0),
            Some(Value::List(list)) => match self.lists.get(list) {
                Some(Items::Blocks(range)) => Some(range.clone()),
                _ => None,
            },
            _ => None,
        };
        let (Some(address), Some(size), Some(blocks)) =
            (number(draft.address), number(draft.total_size), blocks)
        else {
            let why = say!("a segment has no `address`, no `total_size` or no list of `blocks`");
            return Err(self.scanner.refuse(&why));
        };
        let kind = match draft.segment_type {
            Some(Value::Text(kind)) => self.read.texts.get(kind).map(String::as_str),
            _ => None,
        };
        self.read.segments.push(Segment {
            device: number(draft.device).unwrap_or(0),
            address,
            size: Bytes(size),
            stream: number(draft.stream).unwrap_or(0),
            small: kind == Some("small"),
            expandable: draft.is_expandable == Some(Value::Flag(true)),
            blocks,
        });
        Ok(Value::Segment(self.read.segments.len().saturating_sub(1)))
    }

    fn block(&mut self, state: usize, draft: &Draft) -> Result<Value, Error> {
        let Some(size) = number(draft.size) else {
            return Err(self.scanner.refuse(&say!("a block has no `size`")));
        };
        let state = self.read.texts.get(state).map_or("", String::as_str);
        self.read.blocks.push(SnapshotBlock {
            size: Bytes(size),
            requested: Bytes(number(draft.requested_size).unwrap_or(size)),
            allocated: state != "inactive",
            stack: stack(draft.frames),
        });
        Ok(Value::Block(self.read.blocks.len().saturating_sub(1)))
    }

    fn frame(&mut self, frame: Frame) -> Value {
        let next = self.read.frames.len();
        let place = *self.frames.entry(frame).or_insert(next);
        if place == next {
            self.read.frames.push(frame);
        }
        Value::Frame(place)
    }

    fn stack_of(&mut self, frames: Vec<usize>) -> Value {
        if let Some(&known) = self.stacks.get(&frames) {
            return Value::Stack(known);
        }
        let place = self.read.stacks.len();
        self.read.stacks.push(frames.clone());
        self.stacks.insert(frames, place);
        Value::Stack(place)
    }

    fn intern(&mut self) -> usize {
        let text = self.scanner.text();
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let place = self.read.texts.len();
        self.keys.push(Key::of(text));
        self.read.texts.push(text.to_owned());
        self.texts.insert(text.to_owned(), place);
        place
    }
}

const fn number(value: Option<Value>) -> Option<u64> {
    match value {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// The list of frames, or the one without any, which is the first.
const fn stack(value: Option<Value>) -> usize {
    match value {
        Some(Value::Stack(stack)) => stack,
        _ => 0,
    }
}
