//! Launches: the kernels that a step runs on the device, in order, next to its allocations.
//!
//! Off by default; [`Runtime::record_launches`] asks for it. It reads what the rules of operators do, and changes no
//! event.
//!
//! A rule states its kernel by [`Runtime::launch`] or one of its short forms, with the tensors that the kernel
//! writes. A tensor that no rule claims is assumed to be written by an elementwise kernel of its own that reads as
//! many bytes.

use std::collections::BTreeSet;

use super::exchange::Collective;
use super::recorder::Recorder;
use super::{Runtime, Tensor};
use crate::bytes::Bytes;
use crate::tensor::{DType, numel};
use crate::trace::{LabelId, Phase, StorageId, Stream};

/// One kernel, or several that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The iteration, from 1.
    pub iteration: usize,
    /// The part of the iteration.
    pub phase: Phase,
    /// Operator that launches it, in [`Launches::labels`].
    pub operator: LabelId,
    /// Path of the module that runs, in [`Launches::labels`].
    pub module: LabelId,
    /// COUNT: allocator events of the run before it.
    pub event: usize,
    /// The stream that it runs on.
    pub stream: Stream,
    /// What it computes.
    pub kernel: Kernel,
    /// Type of the elements that it works on.
    pub dtype: DType,
    /// COUNT: how often it runs; more than once where one trip of a loop stands for several.
    pub times: u64,
    /// The tensor for which it is assumed, as long as no rule claims that.
    assumed_for: Option<StorageId>,
}

impl Launch {
    /// COUNT: multiplications followed by an addition, of a single run.
    pub fn multiply_adds(&self) -> u64 {
        self.kernel.multiply_adds()
    }

    /// SIZE: what a single run reads and writes, each operand once.
    pub fn bytes(&self) -> Bytes {
        self.kernel.bytes(self.dtype.size())
    }

    /// The same wherever it is among the events of the run, and whether it is assumed.
    fn anywhere(&self) -> (Self, bool) {
        (Self { event: 0, assumed_for: None, ..self.clone() }, self.is_assumed())
    }

    /// Whether no rule states this kernel: it is assumed from the tensor that the operator allocates.
    pub const fn is_assumed(&self) -> bool {
        self.assumed_for.is_some()
    }
}

/// The kernels of iterations.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// In the order in which the host launches them.
    pub list: Vec<Launch>,
    /// Texts that launches refer to.
    pub labels: Vec<String>,
    /// The iteration, from 1, that stands for all later ones.
    pub steady: usize,
    /// Forward passes of one token each, in their order; empty where none is written.
    pub passes: Vec<DecodePass>,
}

/// A forward pass that reads the last token of each text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodePass {
    /// COUNT: such passes before it, those included that are not simulated.
    pub number: u64,
    /// Where its kernels begin in [`Launches::list`]; they go to the next pass.
    pub from: usize,
}

impl Launches {
    /// Those of a steady iteration.
    pub fn of_steady(&self) -> impl Iterator<Item = &Launch> {
        self.list.iter().filter(|launch| launch.iteration == self.steady)
    }

    /// Those of a steady step with so many micro-batches, of which `recorded` ran: the last has the number of all that
    /// did not run. `None` where the last two do not launch the same.
    pub fn with_batches(&self, recorded: u64, batches: u64) -> Option<Self> {
        let again = batches.checked_sub(recorded)?;
        let mut list: Vec<Launch> = self.of_steady().cloned().collect();
        let end = list.iter().position(|launch| launch.phase == Phase::Optimizer)?;
        let phases = list.iter().take(end).map(|launch| launch.phase);
        let before = std::iter::once(Phase::ZeroGrad).chain(phases.clone());
        let begins = |(_, (phase, before)): &(usize, (Phase, Phase))| {
            *phase == Phase::Forward && *before != Phase::Forward
        };
        let starts = phases.zip(before).enumerate().filter(begins).map(|(at, _)| at);
        let starts: Vec<usize> = starts.collect();
        let [.., one, other] = *starts else { return None };
        let is_recorded = u64::try_from(starts.len()) == Ok(recorded);
        let (earlier, later) = (list.get(one..other)?, list.get(other..end)?);
        if !is_recorded
            || !earlier.iter().map(Launch::anywhere).eq(later.iter().map(Launch::anywhere))
        {
            return None;
        }
        for launch in list.get_mut(other..end)? {
            launch.times = launch.times.saturating_mul(again.saturating_add(1));
        }
        Some(Self { list, labels: self.labels.clone(), steady: self.steady, passes: Vec::new() })
    }

    /// The kernels that read the prompts and choose the first token.
    pub fn of_prefill(&self) -> &[Launch] {
        let end = self.passes.first().map_or(self.list.len(), |pass| pass.from);
        self.list.get(..end).unwrap_or_default()
    }

    /// The kernels of a pass, by its place among [`Launches::passes`].
    pub fn of_pass(&self, at: usize) -> &[Launch] {
        let Some(pass) = self.passes.get(at) else { return &[] };
        let end = self.passes.get(at.saturating_add(1)).map_or(self.list.len(), |next| next.from);
        self.list.get(pass.from..end).unwrap_or_default()
    }

    /// The text behind an id.
    pub fn label(&self, id: LabelId) -> &str {
        self.labels.get(id.index()).map_or("", String::as_str)
    }
}

/// Which of a convolution's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// The output.
    Forward,
    /// The input's gradient.
    Data,
    /// The weight's gradient.
    Filter,
}

/// A convolution. One that is transposed has the sizes of the one whose gradient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Which of its products.
    pub product: Product,
    /// COUNT: samples.
    pub batch: u64,
    /// COUNT: groups of channels.
    pub groups: u64,
    /// COUNT: channels of the input, of all groups.
    pub inputs: u64,
    /// COUNT: channels of the output, of all groups.
    pub outputs: u64,
    /// COUNT: positions of the input.
    pub input_positions: u64,
    /// COUNT: positions of the output.
    pub positions: u64,
    /// COUNT: taps of the kernel.
    pub taps: u64,
    /// Whether the tensors have their channels innermost, as kernels for tensor cores want them.
    pub channels_last: bool,
}

impl Convolution {
    /// Whether each input channel has filters of its own.
    pub const fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.inputs
    }

    /// COUNT: multiplications followed by an addition.
    pub fn multiply_adds(&self) -> u64 {
        let each = self.inputs.div_euclid(self.groups.max(1));
        times(&[self.batch, self.positions, self.outputs, each, self.taps])
    }
}

/// What a kernel computes. Sizes are elements, except in fields named `read` and `written`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// `batch` products of `rows × inner` with `inner × columns`.
    Gemm {
        /// COUNT: products.
        batch: u64,
        /// COUNT: rows of the result.
        rows: u64,
        /// COUNT: elements that are summed for each element of the result.
        inner: u64,
        /// COUNT: columns of the result.
        columns: u64,
        /// Whether the operator is one for many products (`bmm`), also where the batch is 1.
        batched: bool,
    },
    /// One product of a convolution.
    Convolution(Convolution),
    /// A kernel that reads and writes each element once: arithmetic, copies, dropout, fills.
    Elementwise {
        /// SIZE: all operands.
        read: Bytes,
        /// SIZE: all results.
        written: Bytes,
    },
    /// A sum or another reduction.
    Reduction {
        /// SIZE: the operand.
        read: Bytes,
        /// SIZE: the result.
        written: Bytes,
    },
    /// Softmax or its logarithm over rows; its gradient has two inputs.
    Softmax {
        /// COUNT: rows.
        rows: u64,
        /// COUNT: elements of a row.
        width: u64,
        /// COUNT: tensors that are read.
        inputs: u64,
    },
    /// A normalisation over rows; its gradient has two inputs.
    Norm {
        /// COUNT: rows.
        rows: u64,
        /// COUNT: elements of a row.
        width: u64,
        /// COUNT: tensors that are read.
        inputs: u64,
    },
    /// Batch norm with the statistics of the batch, or its gradient.
    BatchNorm {
        /// COUNT: channels.
        channels: u64,
        /// COUNT: elements of a channel.
        width: u64,
        /// Whether it computes the gradients.
        backward: bool,
        /// Whether the tensors have their channels innermost.
        channels_last: bool,
    },
    /// Rows of a table, picked by indices, or their gradients added to the table's.
    Embedding {
        /// COUNT: indices.
        rows: u64,
        /// COUNT: elements of a row.
        width: u64,
        /// Whether gradients are added.
        backward: bool,
    },
    /// Attention in one kernel.
    Attention {
        /// COUNT: samples.
        batch: u64,
        /// COUNT: heads of the query.
        heads: u64,
        /// COUNT: heads of keys and values, fewer where queries share them.
        key_heads: u64,
        /// COUNT: queries of a head.
        queries: u64,
        /// COUNT: keys of a head.
        keys: u64,
        /// COUNT: elements of a query.
        width: u64,
        /// Whether a query sees only the keys up to its own place.
        causal: bool,
        /// Whether it computes the gradients.
        backward: bool,
    },
    /// One operator over a list of tensors, as optimizers call it.
    Foreach {
        /// SIZE: all operands.
        read: Bytes,
        /// SIZE: all results.
        written: Bytes,
        /// COUNT: kernels that it takes.
        kernels: u64,
        /// COUNT: tensors of each list.
        tensors: u64,
        /// COUNT: blocks of threads of all its kernels.
        blocks: u64,
    },
    /// An exchange with other ranks.
    Collective(Collective),
    /// No kernel: what follows on its stream waits for all that was launched on this one.
    Wait(Stream),
}

/// A product that stops at the largest number.
fn times(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

impl Kernel {
    /// COUNT: multiplications followed by an addition, in products; other kernels count as none.
    pub fn multiply_adds(&self) -> u64 {
        match *self {
            Self::Gemm { batch, rows, inner, columns, .. } => times(&[batch, rows, inner, columns]),
            Self::Convolution(convolution) => convolution.multiply_adds(),
            Self::Attention { batch, heads, queries, keys, width, causal, backward, .. } => {
                // The scores and the result; the gradients take five products.
                let products = if backward { 5 } else { 2 };
                let all = times(&[products, batch, heads, queries, keys, width]);
                if causal { all.div_euclid(2) } else { all }
            }
            _ => 0,
        }
    }

    /// SIZE: what it reads and writes, each operand as often as the kernel has to, where elements are this large.
    pub fn bytes(&self, element: Bytes) -> Bytes {
        let elements = match *self {
            Self::Elementwise { read, written }
            | Self::Reduction { read, written }
            | Self::Foreach { read, written, .. } => return read + written,
            Self::Collective(collective) => return collective.whole,
            Self::Wait(_) => return Bytes::ZERO,
            Self::Gemm { batch, rows, inner, columns, .. } => {
                let sides =
                    [times(&[rows, inner]), times(&[inner, columns]), times(&[rows, columns])];
                times(&[batch, sides.into_iter().fold(0, u64::saturating_add)])
            }
            Self::Convolution(Convolution {
                batch,
                groups,
                inputs,
                outputs,
                input_positions,
                positions,
                taps,
                ..
            }) => {
                let weight = times(&[outputs, inputs.div_euclid(groups.max(1)), taps]);
                times(&[batch, inputs, input_positions])
                    .saturating_add(times(&[batch, outputs, positions]))
                    .saturating_add(weight)
            }
            Self::Softmax { rows, width, inputs } | Self::Norm { rows, width, inputs } => {
                times(&[rows, width, inputs.saturating_add(1)])
            }
            // Statistics first, then the result: the operands are read twice.
            Self::BatchNorm { channels, width, backward, .. } => {
                times(&[channels, width, if backward { 5 } else { 3 }])
            }
            Self::Embedding { rows, width, backward } => {
                times(&[rows, width, if backward { 3 } else { 2 }])
            }
            Self::Attention { batch, heads, key_heads, queries, keys, width, backward, .. } => {
                let rows = times(&[2, heads, queries]).saturating_add(times(&[2, key_heads, keys]));
                times(&[batch, rows, width, if backward { 2 } else { 1 }])
            }
        };
        element.times(elements)
    }

    /// The key of its class: `gemm`.
    pub const fn class(&self) -> Class {
        match self {
            Self::Gemm { .. } => Class::Gemm,
            Self::Convolution(_) => Class::Convolution,
            Self::Elementwise { .. } => Class::Elementwise,
            Self::Reduction { .. } => Class::Reduction,
            Self::Softmax { .. } => Class::Softmax,
            Self::Norm { .. } | Self::BatchNorm { .. } => Class::Norm,
            Self::Embedding { .. } => Class::Embedding,
            Self::Attention { .. } => Class::Attention,
            Self::Foreach { .. } => Class::Foreach,
            Self::Collective(_) | Self::Wait(_) => Class::Collective,
        }
    }

    /// COUNT: kernels that it stands for.
    pub const fn kernels(&self) -> u64 {
        match self {
            Self::Foreach { kernels, .. } => *kernels,
            Self::Wait(_) => 0,
            _ => 1,
        }
    }
}

/// Classes of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// [`Kernel::Gemm`].
    Gemm,
    /// [`Kernel::Convolution`].
    Convolution,
    /// [`Kernel::Attention`].
    Attention,
    /// [`Kernel::Elementwise`].
    Elementwise,
    /// [`Kernel::Reduction`].
    Reduction,
    /// [`Kernel::Softmax`].
    Softmax,
    /// [`Kernel::Norm`] and [`Kernel::BatchNorm`].
    Norm,
    /// [`Kernel::Embedding`].
    Embedding,
    /// [`Kernel::Foreach`].
    Foreach,
    /// [`Kernel::Collective`], and what waits for it.
    Collective,
}

impl Class {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::Gemm,
        Self::Convolution,
        Self::Attention,
        Self::Elementwise,
        Self::Reduction,
        Self::Softmax,
        Self::Norm,
        Self::Embedding,
        Self::Foreach,
        Self::Collective,
    ];

    /// The name in JSON: `gemm`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Convolution => "convolution",
            Self::Attention => "attention",
            Self::Elementwise => "elementwise",
            Self::Reduction => "reduction",
            Self::Softmax => "softmax",
            Self::Norm => "norm",
            Self::Embedding => "embedding",
            Self::Foreach => "foreach",
            Self::Collective => "collective",
        }
    }
}

/// SIZE: elements of a tensor that a kernel touches: those of stretched dimensions once.
fn touched(tensor: &Tensor) -> Bytes {
    let pairs = tensor.sizes().iter().zip(tensor.strides());
    let apart: Vec<u64> = pairs.filter(|(_, stride)| **stride > 0).map(|(size, _)| *size).collect();
    let is_empty = tensor.numel() == 0;
    tensor.dtype().size().times(if is_empty { 0 } else { numel(&apart) })
}

/// SIZE: tensors that a kernel touches; one that is named twice counts once.
fn all_touched(tensors: &[&Tensor]) -> Bytes {
    let mut known = BTreeSet::new();
    let apart = tensors.iter().filter(|tensor| {
        known.insert((tensor.storage_id(), tensor.sizes().to_vec(), tensor.strides().to_vec()))
    });
    apart.map(|tensor| touched(tensor)).sum()
}

impl Recorder {
    /// A launch at this point.
    fn launched(&self, kernel: Kernel, dtype: DType, assumed_for: Option<StorageId>) -> Launch {
        let place = self.place();
        Launch {
            iteration: self.iteration,
            phase: self.phase(),
            operator: place.operator,
            module: place.module,
            event: self.trace.events.len(),
            stream: self.stream,
            kernel,
            dtype,
            times: 1,
            assumed_for,
        }
    }

    /// Notes the kernel that a new tensor of an operator is assumed to come from.
    pub(super) fn assume_launch(&mut self, storage: StorageId, dtype: DType, size: Bytes) {
        if self.launches.is_some() {
            let kernel = Kernel::Elementwise { read: size, written: size };
            let launch = self.launched(kernel, dtype, Some(storage));
            self.launches.iter_mut().for_each(|list| list.push(launch.clone()));
        }
    }

    /// Notes a kernel, in the place of those that were assumed for what it writes.
    fn launch(&mut self, writes: &[StorageId], kernel: Kernel, dtype: DType) {
        /// COUNT: launches back from the last one, among which those that were assumed are looked for.
        const NEAR: usize = 64;
        let launch = self.launched(kernel, dtype, None);
        let Some(list) = &mut self.launches else { return };
        for storage in writes {
            let assumed = |launch: &Launch| launch.assumed_for == Some(*storage);
            let found = list.iter().rev().take(NEAR).position(assumed);
            if let Some(at) = found.and_then(|back| list.len().checked_sub(back + 1)) {
                list.remove(at);
            }
        }
        list.push(launch);
    }
}

impl Runtime {
    /// Records launches from this iteration on.
    pub fn record_launches(&self, iteration: usize) {
        self.recorder.borrow_mut().launching_from = Some(iteration);
    }

    /// Launches since [`Runtime::record_launches`], which end here.
    pub fn take_launches(&self) -> Vec<Launch> {
        self.recorder.borrow_mut().launches.take().unwrap_or_default()
    }

    /// COUNT: launches that were recorded.
    pub fn launches(&self) -> usize {
        self.recorder.borrow().launches.as_ref().map_or(0, Vec::len)
    }

    /// Whether kernels that would run here are recorded.
    pub fn is_launching(&self) -> bool {
        let recorder = self.recorder.borrow();
        recorder.launches.is_some() && !recorder.is_muted() || self.is_tracing()
    }

    /// Runs `body`, whose launches do not count: the caller states them.
    pub fn without_launches<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.recorder.borrow_mut().launches.take();
        let result = body();
        self.recorder.borrow_mut().launches = before;
        result
    }

    /// A kernel of elements of this type that writes new tensors.
    pub fn launch(&self, writes: &[&Tensor], kernel: Kernel, dtype: DType) {
        if self.is_tracing() {
            self.trace_kernel(kernel, dtype);
        } else if self.is_launching() {
            let storages: Vec<StorageId> =
                writes.iter().map(|tensor| tensor.storage_id()).collect();
            self.recorder.borrow_mut().launch(&storages, kernel, dtype);
        }
    }

    /// An elementwise kernel that writes new tensors.
    pub fn launch_elementwise(&self, reads: &[&Tensor], writes: &[&Tensor]) {
        if self.is_launching()
            && let Some(first) = writes.first()
        {
            let (read, written) = (all_touched(reads), all_touched(writes));
            self.launch(writes, Kernel::Elementwise { read, written }, first.dtype());
        }
    }

    /// An elementwise kernel that changes a tensor, which it reads too.
    pub fn launch_in_place(&self, reads: &[&Tensor], changes: &Tensor) {
        if self.is_launching() {
            let written = touched(changes);
            let read = all_touched(reads) + written;
            self.launch(&[], Kernel::Elementwise { read, written }, changes.dtype());
        }
    }

    /// A copy into a tensor that is there.
    pub fn launch_copy(&self, from: &Tensor, to: &Tensor) {
        if self.is_launching() {
            let kernel = Kernel::Elementwise { read: touched(from), written: touched(to) };
            self.launch(&[], kernel, to.dtype());
        }
    }

    /// Zeros, and a kernel that copies `piece` into a part of them.
    pub fn launch_into_zeros(&self, piece: &Tensor, whole: &Tensor) {
        if self.is_launching() {
            self.launch_elementwise(&[], &[whole]);
            let part = touched(piece);
            self.launch(&[], Kernel::Elementwise { read: part, written: part }, whole.dtype());
        }
    }

    /// A reduction of `x` to new tensors.
    pub fn launch_reduction(&self, reads: &[&Tensor], writes: &[&Tensor]) {
        if self.is_launching()
            && let Some(first) = reads.first()
        {
            let (read, written) = (all_touched(reads), all_touched(writes));
            self.launch(writes, Kernel::Reduction { read, written }, first.dtype());
        }
    }

    /// Products into `y [rows, columns]` or `[batch, rows, columns]` that sum over `inner`.
    pub fn launch_products(&self, y: &Tensor, inner: u64) {
        if !self.is_launching() {
            return;
        }
        let (batch, rows, columns, batched) = match *y.sizes() {
            [batch, rows, columns] => (batch, rows, columns, true),
            [rows, columns] => (1, rows, columns, false),
            [rows] => (1, rows, 1, false),
            _ => (1, y.numel(), 1, false),
        };
        self.launch(&[y], Kernel::Gemm { batch, rows, inner, columns, batched }, y.dtype());
    }

    /// An operator over lists of tensors like these (`_foreach_…`).
    pub fn launch_foreach(&self, tensors: &[Tensor], passes: Passes) {
        if let Some(first) = tensors.first().filter(|_| self.is_launching()) {
            let size = tensors.iter().map(touched).sum::<Bytes>();
            let (read, written) = (size.times(passes.reads), size.times(passes.writes));
            let blocks = chunks(tensors);
            let kernels = passes.kernels(tensors, blocks);
            let tensors = u64::try_from(tensors.len()).unwrap_or(u64::MAX);
            let kernel = Kernel::Foreach { read, written, kernels, tensors, blocks };
            self.launch(&[], kernel, first.dtype());
        }
    }
}

/// COUNT: blocks of threads for a list of tensors, each for a piece of one tensor.
fn chunks(tensors: &[Tensor]) -> u64 {
    const CHUNK: u64 = 65_536;
    tensors.iter().map(|tensor| tensor.numel().div_ceil(CHUNK)).sum()
}

/// How often an operator reads and writes tensors of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// COUNT: tensors that are read.
    pub reads: u64,
    /// COUNT: tensors that are written.
    pub writes: u64,
}

impl Passes {
    /// COUNT: kernels for lists of such tensors (`multi_tensor_apply`, `native/cuda/MultiTensorApply.cuh`).
    fn kernels(self, tensors: &[Tensor], chunks: u64) -> u64 {
        const BLOCKS: u64 = 320;
        let most: u64 = match self.reads {
            0 | 1 => 110,
            2 => 64,
            3 => 48,
            4 => 36,
            _ => 30,
        };
        let count = u64::try_from(tensors.len()).unwrap_or(u64::MAX);
        count.div_ceil(most).max(chunks.div_ceil(BLOCKS))
    }
}
