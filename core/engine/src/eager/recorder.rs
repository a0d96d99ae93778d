//! Storages, and the record of their allocations and frees.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::hardware::Asked;
use super::launch::Launch;
use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::tensor::TensorType;
use crate::trace::{
    self, Category, Event, LabelId, Phase, PhaseMark, ReasonId, StorageId, Stream, Trace, TypeId,
};

/// Memory that tensors share; freed when the last of them goes.
#[derive(Debug)]
pub struct Storage {
    id: StorageId,
    /// Nothing is asked of the allocator for zero bytes, nor while the recorder is muted.
    is_empty: bool,
    /// Whether its size follows from the device, so that it may have bytes on another one.
    is_by_device: bool,
    recorder: Rc<RefCell<Recorder>>,
}

impl Storage {
    /// Its place in the trace.
    pub(super) const fn id(&self) -> StorageId {
        self.id
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if !self.is_empty {
            self.recorder.borrow_mut().release(self.id);
        } else if self.is_by_device {
            self.recorder.borrow_mut().skip(Event::Free(self.id));
        }
    }
}

/// Where in the program something runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) operator: LabelId,
    pub(super) module: LabelId,
    pub(super) reason: Option<ReasonId>,
}

/// Writes the trace.
#[derive(Debug)]
pub struct Recorder {
    pub(super) trace: Trace,
    pub(super) asked: Asked,
    /// Kernels, where they are recorded.
    pub(super) launches: Option<Vec<Launch>>,
    /// The iteration from which on they are.
    pub(super) launching_from: Option<usize>,
    /// Labels by a key of their text; the next key is taken where two texts have the same.
    ids: BTreeMap<u64, LabelId>,
    /// Labels of operators by the address of their names, which is quicker to compare.
    operators: BTreeMap<usize, LabelId>,
    /// Types that were seen lately, each at a place that follows from its numbers.
    types: Vec<TypeId>,
    place: Place,
    name: LabelId,
    born: Vec<(usize, Phase)>,
    muted: bool,
    pub(super) stream: Stream,
    /// Streams besides its own that use a storage.
    users: BTreeMap<StorageId, BTreeSet<Stream>>,
    /// Storages that nobody holds and that other streams still use.
    awaiting: Vec<(StorageId, BTreeSet<Stream>)>,
    pub(super) iteration: usize,
    phase: Phase,
}

impl Default for Recorder {
    fn default() -> Self {
        let nothing = LabelId::default();
        Self {
            trace: Trace { labels: vec![String::new()], ..Trace::default() },
            asked: Asked::default(),
            launches: None,
            launching_from: None,
            ids: BTreeMap::new(),
            operators: BTreeMap::new(),
            types: vec![TypeId::default(); Self::TYPES],
            place: Place { operator: nothing, module: nothing, reason: None },
            name: nothing,
            born: Vec::new(),
            muted: false,
            stream: Stream::DEFAULT,
            users: BTreeMap::new(),
            awaiting: Vec::new(),
            iteration: 0,
            phase: Phase::Setup,
        }
    }
}

impl Recorder {
    /// COUNT: types that are remembered.
    const TYPES: usize = 512;

    /// Allocates; without a category, the phase tells it.
    pub(super) fn allocate(
        this: &Rc<RefCell<Self>>,
        requested: Bytes,
        tensor: Option<&TensorType>,
        category: Option<Category>,
    ) -> Rc<Storage> {
        let (id, is_empty) = this.borrow_mut().enter(requested, tensor, category);
        Rc::new(Storage { id, is_empty, is_by_device: false, recorder: Rc::clone(this) })
    }

    /// Allocates scratch whose size follows from the device, even if it is none.
    pub(super) fn allocate_by(this: &Rc<RefCell<Self>>, requested: Bytes) -> Rc<Storage> {
        let mut recorder = this.borrow_mut();
        let (id, is_empty) = recorder.enter(requested, None, Some(Category::Workspace));
        let is_by_device = !recorder.muted;
        if is_empty && is_by_device {
            recorder.skip(Event::Alloc(id));
        }
        Rc::new(Storage { id, is_empty, is_by_device, recorder: Rc::clone(this) })
    }

    /// Notes a storage; returns its place in the trace, and whether nothing is asked of the allocator.
    fn enter(
        &mut self,
        requested: Bytes,
        tensor: Option<&TensorType>,
        category: Option<Category>,
    ) -> (StorageId, bool) {
        let id = StorageId::new(self.trace.storages.len());
        let by_phase = match self.phase {
            Phase::Forward | Phase::Prefill | Phase::Decode => Category::Activation,
            _ => Category::Temporary,
        };
        let tensor_id = tensor.map(|tensor| self.type_id(tensor));
        self.trace.storages.push(trace::Storage {
            requested,
            category: category.unwrap_or(by_phase),
            stream: self.stream,
            operator: self.place.operator,
            module: self.place.module,
            name: self.name,
            tensor: tensor_id,
            reason: self.place.reason,
        });
        self.born.push((self.iteration, self.phase));
        let is_empty = requested == Bytes::ZERO || self.muted;
        if !is_empty {
            self.push(Event::Alloc(id));
            if let (Some(tensor), None) = (tensor, category) {
                self.assume_launch(id, tensor.dtype, requested);
            }
        }
        (id, is_empty)
    }

    /// Notes what would be an event if it took bytes.
    fn skip(&mut self, event: Event) {
        let before = self.trace.events.len();
        self.asked.skip(before, event);
    }

    pub(super) fn reserve(&mut self, events: usize) {
        let storages = events.div_euclid(2);
        self.trace.events.reserve(events);
        self.trace.operators.reserve(events);
        self.trace.modules.reserve(events);
        self.trace.storages.reserve(storages);
        self.born.reserve(storages);
    }

    /// The last holder let go.
    fn release(&mut self, id: StorageId) {
        match self.users.remove(&id) {
            Some(users) => self.awaiting.push((id, users)),
            None => self.free(id),
        }
    }

    /// Another stream uses a storage.
    pub(super) fn record_stream(&mut self, id: StorageId, stream: Stream) {
        if self.trace.storages.get(id.index()).is_some_and(|storage| storage.stream != stream) {
            self.users.entry(id).or_default().insert(stream);
        }
    }

    /// What a stream has been given to do is done.
    pub(super) fn synchronize(&mut self, stream: Stream) {
        self.users.retain(|_, users| {
            users.remove(&stream);
            !users.is_empty()
        });
        let awaiting = std::mem::take(&mut self.awaiting);
        for (id, mut users) in awaiting {
            users.remove(&stream);
            if users.is_empty() {
                self.free(id);
            } else {
                self.awaiting.push((id, users));
            }
        }
    }

    /// Allocations from here on are on this stream; returns that of before.
    pub(super) const fn set_stream(&mut self, stream: Stream) -> Stream {
        std::mem::replace(&mut self.stream, stream)
    }

    fn free(&mut self, id: StorageId) {
        // An activation is what outlives the forward that made it; the rest was temporary.
        let same_phase = self.born.get(id.index()) == Some(&(self.iteration, self.phase));
        if let Some(storage) = self.trace.storages.get_mut(id.index())
            && storage.category == Category::Activation
            && same_phase
        {
            storage.category = Category::Temporary;
        }
        self.push(Event::Free(id));
    }

    pub(super) fn recategorise(&mut self, id: StorageId, category: Category, name: &str) {
        let name = self.label(name);
        if let Some(storage) = self.trace.storages.get_mut(id.index()) {
            storage.category = category;
            storage.name = name;
            // As large as the parameter, whatever computed it.
            storage.reason = None;
        }
    }

    pub(super) fn set_operator(&mut self, operator: &'static str) {
        let address = operator.as_ptr().addr();
        if let Some(&id) = self.operators.get(&address)
            && self.trace.label(id).len() == operator.len()
        {
            self.place.operator = id;
            return;
        }
        self.place.operator = self.label(operator);
        self.operators.insert(address, self.place.operator);
    }

    pub(super) fn set_unknown_operator(&mut self, operator: &str) {
        self.place.operator = self.label(operator);
    }

    /// While muted, storages take no memory; returns whether that was so before.
    pub(super) const fn set_muted(&mut self, muted: bool) -> bool {
        std::mem::replace(&mut self.muted, muted)
    }

    pub(super) const fn set_module(&mut self, module: LabelId) {
        self.place.module = module;
    }

    /// Whether storages take no memory.
    pub(super) const fn is_muted(&self) -> bool {
        self.muted
    }

    /// The part of the iteration.
    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// What runs.
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    pub(super) const fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// Why what runs from here on is not simply proven; returns why before.
    pub(super) const fn set_reason(&mut self, reason: Option<ReasonId>) -> Option<ReasonId> {
        std::mem::replace(&mut self.place.reason, reason)
    }

    pub(super) fn reason(&mut self, reason: &Reason) -> ReasonId {
        let known = self.trace.reasons.iter().position(|known| known == reason);
        ReasonId::new(known.unwrap_or_else(|| {
            self.trace.reasons.push(reason.clone());
            self.trace.reasons.len() - 1
        }))
    }

    pub(super) fn set_name(&mut self, name: &str) {
        self.name = self.label(name);
    }

    pub(super) fn set_phase(&mut self, iteration: usize, phase: Phase) {
        (self.iteration, self.phase) = (iteration, phase);
        if self.launching_from == Some(iteration) {
            self.launches.get_or_insert_default();
        }
        let event = self.trace.events.len();
        self.trace.phases.push(PhaseMark { event, iteration, phase });
    }

    fn push(&mut self, event: Event) {
        self.trace.events.push(event);
        self.trace.operators.push(self.place.operator);
        self.trace.modules.push(self.place.module);
    }

    /// The place of a type in the trace: a new one where it has not been seen lately.
    fn type_id(&mut self, tensor: &TensorType) -> TypeId {
        let mix = |key: u64, &dim: &u64| (key ^ dim).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        let key = tensor.dims.iter().fold(tensor.dtype.size().0, mix);
        let place = usize::try_from(key >> 32).unwrap_or_default() % Self::TYPES;
        let Some(known) = self.types.get_mut(place) else { return TypeId::default() };
        if self.trace.types.get(known.index()) != Some(tensor) {
            *known = TypeId::new(self.trace.types.len());
            self.trace.types.push(tensor.clone());
        }
        *known
    }

    /// A label of its own, whatever others have the same text.
    pub(super) fn label_apart(&mut self, text: &str) -> LabelId {
        let id = LabelId::new(self.trace.labels.len());
        self.trace.labels.push(text.to_owned());
        id
    }

    pub(super) fn label(&mut self, text: &str) -> LabelId {
        if text.is_empty() {
            return LabelId::default();
        }
        let mut key = key_of(text);
        while let Some(&id) = self.ids.get(&key) {
            if self.trace.label(id) == text {
                return id;
            }
            key = key.wrapping_add(1);
        }
        let id = LabelId::new(self.trace.labels.len());
        self.trace.labels.push(text.to_owned());
        self.ids.insert(key, id);
        id
    }
}

/// A number that few texts share (FNV-1a), which is quicker to compare than they are.
fn key_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |key, byte| {
        (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
