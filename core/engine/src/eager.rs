//! The abstract eager runtime: PyTorch with the arithmetic left out.
//!
//! Policy
//! - A [`Tensor`] is a type, strides and a share of a storage; there are no elements.
//! - Rust's ownership replaces PyTorch's reference counts. Each reference there (a Python variable, autograd's
//!   saved tensors, the engine's input buffers, `.grad`, optimizer state) is a [`Tensor`] here, and a storage is
//!   freed when its last reference is dropped. Lifetimes are therefore an observation, not a second analysis to
//!   keep in step.
//! - Allocations happen in the order in which ATen's host code makes them, since the caching
//!   allocator's answer depends on it.
//! - Autograd (see [`autograd`]) is written once: order, accumulation, stealing, release.
//!
//! The rules of single operators are in [`crate::aten`]. Source of all of it: PyTorch 2.15.

pub mod autocast;
pub mod autograd;
pub mod checkpoint;
pub mod cublas;
pub mod exchange;
pub mod hardware;
pub mod kernels;
pub mod launch;
pub mod layout;
pub mod recorder;
pub mod tensor;
pub(crate) mod tracer;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

pub use autograd::{Edge, GradNode, Gradients, Pass};
pub use hardware::{Asked, Elsewhere, Hardware};
pub use launch::{Kernel, Launch, Launches};
pub use tensor::Tensor;

use self::recorder::{Place, Recorder, Storage};
use self::tracer::Tracer;
use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::config::{MemoryFormat, PyTorch};
use crate::tensor::{DType, Dims, TensorType};
use crate::trace::{Category, LabelId, Phase, ReasonId, Stream, Trace};

/// What the script has set for the code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mode {
    /// `model.training`: dropout drops, and batch norm takes the statistics of the batch.
    pub training: bool,
    /// Whether autograd records.
    pub gradients: bool,
}

impl Mode {
    /// `model.train()`, with gradients.
    pub const TRAINING: Self = Self { training: true, gradients: true };

    /// `model.eval()` under `torch.no_grad()`.
    pub const EVALUATION: Self = Self { training: false, gradients: false };
}

/// One process with one CUDA device.
#[derive(Debug)]
pub struct Runtime {
    /// The version to simulate.
    pub pytorch: PyTorch,
    hardware: Hardware,
    recorder: Rc<RefCell<Recorder>>,
    mode: Cell<Mode>,
    nodes_made: Cell<usize>,
    autocast: autocast::State,
    checkpoint: checkpoint::State,
    cublas: cublas::State,
    /// What traces the region that is compiled, while it runs without memory.
    tracer: RefCell<Option<Box<dyn Tracer>>>,
    /// States of cuDNN's random numbers, once they are made.
    dropout_states: RefCell<Option<Rc<Storage>>>,
    /// Operators whose gradient was not known when backward came to them.
    lacking: RefCell<BTreeSet<&'static str>>,
    /// COUNT: rules that are under way inside each other.
    levels: Cell<usize>,
    /// Whether a convolution ran whose workspace could not be told.
    lacks_workspaces: Cell<bool>,
}

/// A rule under way.
#[derive(Debug)]
pub struct Level<'a>(&'a Cell<usize>);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Runtime {
    /// A fresh process on this device.
    pub fn new(hardware: Hardware, pytorch: PyTorch) -> Self {
        Self {
            pytorch,
            hardware,
            recorder: Rc::default(),
            mode: Cell::new(Mode::TRAINING),
            nodes_made: Cell::new(0),
            autocast: autocast::State::default(),
            checkpoint: checkpoint::State::default(),
            cublas: cublas::State::default(),
            tracer: RefCell::default(),
            dropout_states: RefCell::default(),
            lacking: RefCell::default(),
            levels: Cell::new(0),
            lacks_workspaces: Cell::new(false),
        }
    }

    /// A contiguous tensor of this type (`at::empty`).
    pub fn empty(&self, dtype: DType, sizes: &[u64]) -> Tensor {
        let strides = layout::contiguous_strides(sizes);
        self.empty_strided(dtype, sizes, strides)
    }

    /// A dense tensor with these strides (`at::empty_strided`).
    pub fn empty_strided(&self, dtype: DType, sizes: &[u64], strides: Dims) -> Tensor {
        self.empty_as(dtype, sizes, strides, None)
    }

    /// A dense tensor in a memory format.
    pub fn empty_in(&self, dtype: DType, sizes: &[u64], format: MemoryFormat) -> Tensor {
        self.empty_strided(dtype, sizes, layout::format_strides(sizes, format))
    }

    /// A tensor of `like`'s type and, where that is dense, strides (`at::empty_like`).
    pub fn empty_like(&self, like: &Tensor) -> Tensor {
        self.empty_strided(like.dtype(), like.sizes(), layout::like_strides(like))
    }

    /// A tensor that set-up code puts on the device for a stated purpose.
    pub fn place(&self, ty: &TensorType, category: Category, name: &str) -> Tensor {
        self.place_in(ty, MemoryFormat::Contiguous, category, name)
    }

    /// The same, in a memory format.
    pub fn place_in(
        &self,
        ty: &TensorType,
        format: MemoryFormat,
        category: Category,
        name: &str,
    ) -> Tensor {
        let strides = layout::format_strides(&ty.dims, format);
        self.recorder.borrow_mut().set_name(name);
        let tensor = self.empty_as(ty.dtype, &ty.dims, strides, Some(category));
        self.recorder.borrow_mut().set_name("");
        tensor
    }

    /// A contiguous tensor of a stated purpose that an operator makes.
    pub fn empty_for(&self, category: Category, dtype: DType, sizes: &[u64]) -> Tensor {
        self.empty_as(dtype, sizes, layout::contiguous_strides(sizes), Some(category))
    }

    /// State that an optimizer keeps beside a parameter, with the parameter's layout.
    pub fn optimizer_state(&self, parameter: &Tensor) -> Tensor {
        self.optimizer_state_in(parameter, parameter.dtype(), "")
    }

    /// The same in a type of its own, and named.
    pub fn optimizer_state_in(&self, parameter: &Tensor, dtype: DType, name: &str) -> Tensor {
        let strides = layout::like_strides(parameter);
        let category = Some(Category::OptimizerState);
        self.recorder.borrow_mut().set_name(name);
        let state = self.empty_as(dtype, parameter.sizes(), strides, category);
        self.recorder.borrow_mut().set_name("");
        state
    }

    /// Scratch of one kernel, allocated and freed at once; nothing for zero bytes.
    pub fn workspace(&self, size: Bytes) {
        drop(self.scratch(size));
    }

    /// Workspace of one kernel, held until the caller drops it; `None` for zero bytes.
    pub fn scratch(&self, size: Bytes) -> Option<Rc<Storage>> {
        let category = Some(Category::Workspace);
        (size > Bytes::ZERO).then(|| Recorder::allocate(&self.recorder, size, None, category))
    }

    /// States of cuDNN's random numbers, which the first call makes and the process keeps
    /// (`get_dropout_state`, `native/cudnn/RNN.cpp`).
    pub fn dropout_states(&self, size: Bytes) {
        if self.dropout_states.borrow().is_none() {
            self.workspace(DType::Int64.size());
            let made = self.scratch(size);
            self.dropout_states.replace(made);
        }
    }

    /// Names the operator that runs from here on: `aten::convolution`.
    pub fn enter_operator(&self, operator: &'static str) {
        self.recorder.borrow_mut().set_operator(operator);
    }

    /// Names an operator that only the file knows.
    pub fn enter_unknown_operator(&self, operator: &str) {
        self.recorder.borrow_mut().set_unknown_operator(operator);
    }

    /// A name for [`Runtime::enter_module`].
    pub fn label(&self, text: &str) -> LabelId {
        self.recorder.borrow_mut().label(text)
    }

    /// Notes that nothing but an assumed variable of Python holds a tensor from here on.
    pub fn note_held(&self, tensor: &Tensor) {
        if tensor.owns_storage_alone() && !self.is_tracing() {
            let trace = &mut self.recorder.borrow_mut().trace;
            trace.held.push((tensor.storage_id(), trace.events.len()));
        }
    }

    /// A name for [`Runtime::enter_module`] that no other has, whatever its text.
    pub fn label_apart(&self, text: &str) -> LabelId {
        self.recorder.borrow_mut().label_apart(text)
    }

    /// Says which module runs from here on.
    pub fn enter_module(&self, module: LabelId) {
        self.recorder.borrow_mut().set_module(module);
    }

    /// The text behind a name.
    pub fn label_text(&self, label: LabelId) -> String {
        self.recorder.borrow().trace.label(label).to_owned()
    }

    /// A name for [`Runtime::enter_reason`].
    pub fn reason(&self, reason: &Reason) -> ReasonId {
        self.recorder.borrow_mut().reason(reason)
    }

    /// Says why what runs from here on, and its backward, is not simply proven.
    pub fn enter_reason(&self, reason: Option<ReasonId>) {
        self.recorder.borrow_mut().set_reason(reason);
    }

    /// Runs `body`, whose memory rests on an assumption.
    pub fn assuming<T>(&self, reason: &Reason, body: impl FnOnce() -> T) -> T {
        let reason = self.reason(reason);
        let before = self.recorder.borrow_mut().set_reason(Some(reason));
        let result = body();
        self.recorder.borrow_mut().set_reason(before);
        result
    }

    /// Runs `body`, after which the operator and the module are those of before.
    pub fn aside<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.recorder.borrow().place();
        let result = body();
        self.recorder.borrow_mut().set_place(before);
        result
    }

    /// What runs now.
    pub(crate) fn whereabouts(&self) -> Place {
        self.recorder.borrow().place()
    }

    /// Says what runs from here on, as [`Runtime::whereabouts`] had it.
    pub(crate) fn enter_place(&self, place: Place) {
        self.recorder.borrow_mut().set_place(place);
    }

    /// A phase of an iteration begins.
    pub fn enter_phase(&self, iteration: usize, phase: Phase) {
        self.recorder.borrow_mut().set_phase(iteration, phase);
    }

    /// Says that a tensor has become a `.grad`, whatever it was made for.
    pub(crate) fn becomes_gradient(&self, tensor: &Tensor, parameter: &str) {
        self.recorder.borrow_mut().recategorise(tensor.storage_id(), Category::Gradient, parameter);
    }

    /// Runs `body` as under `torch.no_grad()`.
    pub fn no_grad<T>(&self, body: impl FnOnce() -> T) -> T {
        self.in_mode(Mode { gradients: false, ..self.mode.get() }, body)
    }

    /// Runs `body` in this mode, after which the mode is that of before.
    pub fn in_mode<T>(&self, mode: Mode, body: impl FnOnce() -> T) -> T {
        let before = self.mode.replace(mode);
        let result = body();
        self.mode.set(before);
        result
    }

    /// What the script has set.
    pub const fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// `model.training`, which modules such as dropout and batch norm read.
    pub const fn is_training(&self) -> bool {
        self.mode.get().training
    }

    /// Runs `body` as under `torch.cuda.stream(stream)`.
    pub fn on_stream<T>(&self, stream: Stream, body: impl FnOnce() -> T) -> T {
        let before = self.recorder.borrow_mut().set_stream(stream);
        let result = body();
        self.recorder.borrow_mut().set_stream(before);
        result
    }

    /// `tensor.record_stream(stream)`: the memory is not free before the stream is done with it, which
    /// [`Runtime::synchronize`] says.
    pub fn record_stream(&self, tensor: &Tensor, stream: Stream) {
        self.recorder.borrow_mut().record_stream(tensor.storage_id(), stream);
    }

    /// `stream.synchronize()`: the stream is done with everything that it was given.
    pub fn synchronize(&self, stream: Stream) {
        self.recorder.borrow_mut().synchronize(stream);
    }

    /// A level of rules that call each other; `None` below a depth that could overflow the stack.
    pub fn deeper(&self) -> Option<Level<'_>> {
        const LEVELS_MAX: usize = 64;
        let levels = self.levels.get().saturating_add(1);
        (levels <= LEVELS_MAX).then(|| {
            self.levels.set(levels);
            Level(&self.levels)
        })
    }

    /// Whether a convolution ran whose workspace could not be told, because the table for it cannot be had.
    pub const fn lacks_workspaces(&self) -> bool {
        self.lacks_workspaces.get()
    }

    /// Says so.
    pub fn set_lacks_workspaces(&self) {
        self.lacks_workspaces.set(true);
    }

    /// Says that an operator's gradient is not known for the arguments that it had.
    pub fn lacks_gradient(&self, operator: &'static str) {
        self.lacking.borrow_mut().insert(operator);
    }

    /// Operators of which [`Runtime::lacks_gradient`] was said.
    pub fn lacking_gradients(&self) -> Vec<&'static str> {
        self.lacking.borrow().iter().copied().collect()
    }

    /// Makes room for what a run of this many operators records, as far as that is little.
    pub(crate) fn expect_operators(&self, operators: usize) {
        const EVENTS_EACH: usize = 24;
        const EVENTS_MAX: usize = 1 << 20;
        let events = operators.saturating_mul(EVENTS_EACH).min(EVENTS_MAX);
        self.recorder.borrow_mut().reserve(events);
    }

    /// COUNT: storages so far.
    pub(crate) fn storages(&self) -> usize {
        self.recorder.borrow().trace.storages.len()
    }

    /// COUNT: allocator calls so far.
    pub fn events(&self) -> usize {
        self.recorder.borrow().trace.events.len()
    }

    /// What has happened, once all tensors are gone or meant to stay.
    pub fn into_trace(self) -> Trace {
        self.into_parts().0
    }

    /// The same, and what of it depends on the device.
    pub fn into_parts(self) -> (Trace, Asked) {
        let mut recorder = self.recorder.borrow_mut();
        (std::mem::take(&mut recorder.trace), std::mem::take(&mut recorder.asked))
    }

    fn empty_as(
        &self,
        dtype: DType,
        sizes: &[u64],
        strides: Dims,
        category: Option<Category>,
    ) -> Tensor {
        let ty = TensorType::new(dtype, sizes);
        let storage = Recorder::allocate(&self.recorder, ty.size(), Some(&ty), category);
        Tensor::new(storage, dtype, ty.dims, strides)
    }
}
