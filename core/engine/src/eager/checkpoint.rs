//! Activation checkpointing (`torch/utils/checkpoint.py`).
//!
//! Without reentry (`use_reentrant=False`):
//!
//! Tensors that operators of a region save are not kept. The first of the region's nodes that needs its saved
//! tensors runs the region's forward once more. The second run gives its saved tensors to the nodes of the first
//! run, and each node releases its own after it has run. A node of the first run that is gone by then (the graph of a
//! result that was detached) gets nothing: the second run frees its tensors as the first did. The region holds its
//! arguments until its last node has run. The second run stops at the last saved tensor: before the operator, if that
//! tensor is one of its inputs.
//!
//! With reentry (`use_reentrant=True`) the first run records nothing, so that functions written in Python hold nothing by
//! themselves either. The second run goes to the end of the region, and its results and its graph stay until the
//! region's gradients are there.
//!
//! Checkpoints on the host (`CPU_Offloaded_Gradient_Checkpointer` of axolotl and unsloth): the hidden state that a region
//! was given is copied to the host; the second run begins with a copy of it on the device.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::autograd::{Edge, Observer};
use super::{Mode, Runtime, Tensor};
use crate::tensor::TensorType;

/// A part of the forward that is run again in backward.
#[derive(Debug)]
pub struct Region {
    /// Which part: the caller's number.
    pub id: usize,
    /// What it was given from outside, with the caller's numbers.
    pub arguments: Vec<(usize, Argument)>,
    /// Nodes that saved something, while they are there (PyTorch's `weak_holders`).
    nodes: RefCell<Vec<Weak<Place>>>,
    step: Cell<Step>,
    last: Cell<Step>,
    /// What the second run saved, by node.
    restored: RefCell<Option<Vec<Option<Vec<Tensor>>>>>,
    /// What the second run returned, with reentry.
    results: RefCell<Vec<Tensor>>,
}

/// What a region was given.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor that it holds.
    Held(Tensor),
    /// A tensor that waits on the host, and comes back for the second run.
    OnHost(TensorType, Edge),
}

impl Argument {
    /// A tensor that waits on the host if it is a hidden state, which alone has a gradient.
    pub fn on_host(tensor: Tensor) -> Self {
        match tensor.edge() {
            Some(edge) => {
                Self::OnHost(TensorType::new(tensor.dtype(), tensor.sizes()), edge.clone())
            }
            None => Self::Held(tensor),
        }
    }

    /// The tensor for the second run.
    pub fn bring(&self, rt: &Runtime) -> Tensor {
        match self {
            Self::Held(tensor) => tensor.clone(),
            Self::OnHost(ty, edge) => {
                rt.enter_operator("aten::to");
                rt.empty(ty.dtype, &ty.dims).with_edge(edge.clone())
            }
        }
    }
}

/// A step of the caller's, and what was there before it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    number: usize,
    /// COUNT: storages made before it.
    storages: usize,
    /// Whether something it made itself is saved.
    saves_own: bool,
}

impl Region {
    /// The last step of its second run, and whether that step still allocates: where only its inputs
    /// are saved, the run stops before its kernel.
    pub fn last_step(&self) -> (usize, bool) {
        let last = self.last.get();
        (last.number, last.saves_own)
    }

    /// Keeps what its second run returned until the region goes.
    pub fn keep_results(&self, results: Vec<Tensor>) {
        self.results.replace(results);
    }

    fn note(&self, saved: &[Tensor]) -> Rc<Place> {
        let mut step = self.step.get();
        step.saves_own |= saved.iter().any(|tensor| tensor.storage_id().index() >= step.storages);
        self.step.set(step);
        self.last.set(step);
        let mut nodes = self.nodes.borrow_mut();
        let place = Rc::new(Place(nodes.len()));
        nodes.push(Rc::downgrade(&place));
        place
    }

    /// Whether the node of the first run that has this number is still there.
    fn has_node(&self, node: usize) -> bool {
        self.nodes.borrow().get(node).is_some_and(|place| place.strong_count() > 0)
    }

    /// What the second run saved for a node; `None` before it.
    fn restored(&self, node: usize) -> Option<Vec<Tensor>> {
        let mut restored = self.restored.borrow_mut();
        let list = restored.as_mut()?;
        Some(list.get_mut(node).and_then(Option::take).unwrap_or_default())
    }

    fn restore(&self, saved: Vec<Vec<Tensor>>) {
        self.restored.replace(Some(saved.into_iter().map(Some).collect()));
    }
}

/// The number of a node in its region.
#[derive(Debug)]
pub(super) struct Place(usize);

/// A run of a region in backward, and what it has saved so far, by node.
#[derive(Debug)]
struct SecondRun {
    region: Rc<Region>,
    saved: Vec<Vec<Tensor>>,
}

/// What a node holds of what it saved.
#[derive(Debug)]
pub(super) enum Saved {
    /// The tensors.
    Held(Vec<Tensor>),
    /// A place in a region that will run again.
    Packed(Rc<Region>, Rc<Place>),
}

/// The region that runs, and the second run of one.
#[derive(Debug, Default)]
pub(super) struct State {
    region: RefCell<Option<Rc<Region>>>,
    second_run: RefCell<Option<SecondRun>>,
    reenters: Cell<bool>,
}

impl Runtime {
    /// Checkpointing is with reentry from here on, or without.
    pub fn set_reentry(&self, reenters: bool) {
        self.checkpoint.reenters.set(reenters);
    }

    /// Whether checkpointing is with reentry.
    pub const fn reenters(&self) -> bool {
        self.checkpoint.reenters.get()
    }

    /// Whether what runs is not recorded by autograd, for which it runs a second time.
    pub(crate) fn runs_unrecorded(&self) -> bool {
        let is_first = self.checkpoint.second_run.borrow().is_none();
        self.reenters() && is_first && self.checkpoint.region.borrow().is_some()
    }

    /// A region begins.
    pub fn enter_region(&self, id: usize, arguments: Vec<(usize, Argument)>) {
        let region = Region {
            id,
            arguments,
            nodes: RefCell::default(),
            step: Cell::default(),
            last: Cell::default(),
            restored: RefCell::default(),
            results: RefCell::default(),
        };
        self.checkpoint.region.replace(Some(Rc::new(region)));
    }

    /// The region ends.
    pub fn leave_region(&self) {
        let region = self.checkpoint.region.take();
        drop(region);
    }

    /// A step of the region begins.
    pub fn enter_region_step(&self, number: usize) {
        if let Some(region) = &*self.checkpoint.region.borrow() {
            let storages = self.recorder.borrow().trace.storages.len();
            region.step.set(Step { number, storages, saves_own: false });
        }
    }

    /// Hands over what an operator saves.
    pub(super) fn keep(&self, saved: Vec<Tensor>) -> Saved {
        if saved.is_empty() {
            return Saved::Held(saved);
        }
        if let Some(second_run) = &mut *self.checkpoint.second_run.borrow_mut() {
            let is_read = second_run.region.has_node(second_run.saved.len());
            let (kept, own) = if is_read { (saved, Vec::new()) } else { (Vec::new(), saved) };
            second_run.saved.push(kept);
            return Saved::Held(own);
        }
        match &*self.checkpoint.region.borrow() {
            Some(region) => Saved::Packed(Rc::clone(region), region.note(&saved)),
            None => Saved::Held(saved),
        }
    }

    /// Takes tensors out of a node; a region that has not run again does so now.
    ///
    /// The region, which holds its arguments, comes along: it goes after the tensors.
    pub(super) fn unpack(
        &self,
        saved: Saved,
        observer: &dyn Observer,
    ) -> (Vec<Tensor>, Option<Rc<Region>>) {
        let (region, place) = match saved {
            Saved::Held(tensors) => return (tensors, None),
            Saved::Packed(region, place) => (region, place),
        };
        let node = place.0;
        let tensors = region.restored(node).unwrap_or_else(|| {
            let run = SecondRun { region: Rc::clone(&region), saved: Vec::new() };
            self.checkpoint.second_run.replace(Some(run));
            self.in_mode(Mode::TRAINING, || observer.recompute(&region));
            let run = self.checkpoint.second_run.take();
            region.restore(run.map(|run| run.saved).unwrap_or_default());
            region.restored(node).unwrap_or_default()
        });
        (tensors, Some(region))
    }

    /// Runs `body` without its allocations: what it returns takes no memory.
    pub fn without_memory<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.recorder.borrow_mut().set_muted(true);
        let result = body();
        self.recorder.borrow_mut().set_muted(before);
        result
    }
}
