//! [`Hardware`]: the facts about a device that decide over kernels and their scratch, and the facts that a run
//! read.
//!
//! Two devices differ for a run in only two ways: its next operation ([`Runtime::ask`]), and the size of some
//! scratch ([`Runtime::scratch_by`]). So the run on one device predicts that on another: if the other would do the
//! same, only the sizes of that scratch change.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::recorder::{Recorder, Storage};
use super::tracer::Request;
use super::{Runtime, Tensor};
use crate::bytes::Bytes;
use crate::config::Cudnn;
use crate::tensor::Dims;
use crate::trace::{Event, PhaseMark, StorageId, Trace};

/// Properties of a device that decide which kernels run and what scratch they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hardware {
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// COUNT: streaming multiprocessors.
    pub multiprocessors: u64,
    /// COUNT: resident threads per multiprocessor, at most.
    pub threads_per_multiprocessor: u64,
    /// SIZE: workspace of a cuBLAS call.
    pub cublas_workspace: Bytes,
    /// Which chooses workspaces of convolutions.
    pub cudnn: Cudnn,
}

/// Whether a device gives the answer that the run's own device gave.
type Question = Box<dyn Fn(&Hardware) -> bool>;

/// SIZE: scratch on a device, from some numbers; `None` where what tells it cannot be had.
pub(crate) type Size = Rc<dyn Fn(&Hardware, &[u64]) -> Option<Bytes>>;

/// An allocation whose size follows from the device, or from numbers but not along a line.
pub struct Scratch {
    /// Its storage.
    pub id: StorageId,
    /// What else it follows from, as far as a batch changes that: sizes of operands.
    pub numbers: Dims,
    size: Size,
}

/// What a run asked of its device.
#[derive(Default)]
pub struct Asked {
    questions: Vec<Question>,
    scratch: Vec<Scratch>,
    /// Allocations and frees of scratch that took no bytes, with the event before which each would be.
    skipped: Vec<(usize, Event)>,
}

/// What a run is on another device.
#[derive(Debug)]
pub enum Elsewhere {
    /// The same to the byte.
    Same,
    /// The same but for the sizes of some scratch.
    Resized(Box<Trace>),
    /// Another one, which has to be recorded.
    Different,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} questions, {} sizes", self.questions.len(), self.scratch.len())
    }
}

impl Asked {
    /// On any other device, the run is another one.
    pub fn forget(&mut self) {
        self.questions.push(Box::new(|_| false));
    }

    /// Whether another device has the same operators run, whatever scratch they take.
    pub fn chooses_alike(&self, other: &Hardware) -> bool {
        self.questions.iter().all(|is_alike| is_alike(other))
    }

    pub(super) fn skip(&mut self, before: usize, event: Event) {
        self.skipped.push((before, event));
    }

    /// What the run is on another device.
    pub fn on(&self, trace: &Trace, other: &Hardware) -> Elsewhere {
        if !self.questions.iter().all(|is_alike| is_alike(other)) {
            return Elsewhere::Different;
        }
        let requested =
            |id: StorageId| trace.storages.get(id.index()).map(|storage| storage.requested);
        let mut changed = BTreeMap::new();
        for scratch in &self.scratch {
            let Some(size) = scratch.size(other, &scratch.numbers) else {
                return Elsewhere::Different;
            };
            if requested(scratch.id) != Some(size) {
                changed.insert(scratch.id, size);
            }
        }
        if changed.is_empty() {
            return Elsewhere::Same;
        }
        Elsewhere::Resized(Box::new(self.resized(trace, &changed)))
    }

    /// Scratch of which each device decides the size.
    pub fn scratch(&self) -> &[Scratch] {
        &self.scratch
    }

    /// The calls of the run, among them those for scratch that takes no bytes on its device.
    pub fn calls(&self, trace: &Trace) -> Vec<Event> {
        let mut skipped = self.skipped.iter().peekable();
        let mut calls = Vec::with_capacity(trace.events.len().saturating_add(self.skipped.len()));
        for (index, &event) in trace.events.iter().enumerate() {
            while let Some((_, event)) = skipped.next_if(|(before, _)| *before <= index) {
                calls.push(*event);
            }
            calls.push(event);
        }
        calls.extend(skipped.map(|(_, event)| *event));
        calls
    }

    /// Where an event of the run is among [`Asked::calls`], behind what was skipped before it.
    pub fn place_in_calls(&self, event: usize) -> usize {
        let before = self.skipped.partition_point(|(before, _)| *before < event);
        event.saturating_add(before)
    }

    /// The same run with other sizes of some scratch.
    fn resized(&self, trace: &Trace, changed: &BTreeMap<StorageId, Bytes>) -> Trace {
        let mut run = Trace {
            events: Vec::new(),
            operators: Vec::new(),
            modules: Vec::new(),
            held: Vec::new(),
            ..trace.clone()
        };
        for (id, &size) in changed {
            run.storages
                .get_mut(id.index())
                .into_iter()
                .for_each(|storage| storage.requested = size);
        }
        let takes_bytes = |storages: &[crate::trace::Storage], event: &Event| {
            storages
                .get(event.storage().index())
                .is_some_and(|storage| storage.requested > Bytes::ZERO)
        };
        run.phases.clear();
        let mut marks = trace.phases.iter().peekable();
        let mut skipped = self.skipped.iter().peekable();
        let mut held = trace.held.iter().peekable();
        for index in 0..=trace.events.len() {
            while let Some((id, _)) = held.next_if(|(_, from)| *from <= index) {
                run.held.push((*id, run.events.len()));
            }
            while let Some((_, event)) = skipped.next_if(|(before, _)| *before <= index) {
                if takes_bytes(&run.storages, event) {
                    let place = run.storage(*event).map(|made| (made.operator, made.module));
                    run.events.push(*event);
                    run.operators.extend(place.map(|(operator, _)| operator));
                    run.modules.extend(place.map(|(_, module)| module));
                }
            }
            while let Some(mark) = marks.next_if(|mark| mark.event <= index) {
                run.phases.push(PhaseMark { event: run.events.len(), ..*mark });
            }
            if let Some(event) =
                trace.events.get(index).filter(|event| takes_bytes(&run.storages, event))
            {
                run.events.push(*event);
                run.operators.extend(trace.operators.get(index));
                run.modules.extend(trace.modules.get(index));
            }
        }
        run
    }
}

impl Scratch {
    /// SIZE: what it takes on a device, with numbers that may be others; `None` where that cannot be told.
    pub fn size(&self, hardware: &Hardware, numbers: &[u64]) -> Option<Bytes> {
        (self.size)(hardware, numbers)
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?}", self.id, self.numbers)
    }
}

impl Runtime {
    /// What follows from the device for what the run does next.
    pub fn ask<T: PartialEq + Copy + 'static>(
        &self,
        question: impl Fn(&Hardware) -> T + 'static,
    ) -> T {
        let answer = question(&self.hardware);
        let is_alike = move |other: &Hardware| question(other) == answer;
        self.recorder.borrow_mut().asked.questions.push(Box::new(is_alike));
        answer
    }

    /// Scratch of one kernel whose size follows from the device and from numbers, which are all that a batch changes
    /// of what decides; held until the caller drops it. `None` where what tells the size cannot be had.
    pub fn scratch_by(
        &self,
        numbers: &[u64],
        size: impl Fn(&Hardware, &[u64]) -> Option<Bytes> + 'static,
    ) -> Option<Rc<Storage>> {
        let size: Size = Rc::new(size);
        self.scratch_as(&Dims::from_slice(numbers), &size)
    }

    /// The same by a rule that others share.
    pub(crate) fn scratch_as(&self, numbers: &Dims, size: &Size) -> Option<Rc<Storage>> {
        let (numbers, size) = (numbers.clone(), Rc::clone(size));
        let Some(answer) = size(&self.hardware, &numbers) else {
            // Another device may have the size: there the run is another one.
            let is_alike = move |other: &Hardware| size(other, &numbers).is_none();
            self.recorder.borrow_mut().asked.questions.push(Box::new(is_alike));
            return None;
        };
        let scratch = Recorder::allocate_by(&self.recorder, answer);
        if !self.trace_scratch(|| Request::By(numbers.clone(), Rc::clone(&size))) {
            let asked = &mut self.recorder.borrow_mut().asked;
            asked.scratch.push(Scratch { id: scratch.id(), numbers, size });
        }
        Some(scratch)
    }

    /// Scratch whose size follows from numbers that a batch changes, not along a line.
    pub fn scratch_of(
        &self,
        numbers: &[u64],
        size: impl Fn(&[u64]) -> Bytes + 'static,
    ) -> Option<Rc<Storage>> {
        self.scratch_by(numbers, move |_, numbers| Some(size(numbers)))
    }

    /// A tensor that was just made has a size that follows so.
    pub fn follows(
        &self,
        tensor: &Tensor,
        numbers: &[u64],
        size: impl Fn(&[u64]) -> Bytes + 'static,
    ) {
        if self.is_tracing() {
            return;
        }
        let (id, numbers) = (tensor.storage_id(), Dims::from_slice(numbers));
        let size: Size = Rc::new(move |_, numbers| Some(size(numbers)));
        self.recorder.borrow_mut().asked.scratch.push(Scratch { id, numbers, size });
    }

    /// Such scratch, allocated and freed at once; returns whether its size could be told.
    pub fn workspace_by(
        &self,
        numbers: &[u64],
        size: impl Fn(&Hardware, &[u64]) -> Option<Bytes> + 'static,
    ) -> bool {
        self.scratch_by(numbers, size).is_some()
    }
}
