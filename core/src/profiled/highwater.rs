//! Our rules: a tensor lives as long on the GPU as on the CPU, and operators that differ are run again.
//!
//! - The model and the batch are on the device from the start. The script's annotations describe them. Without
//!   annotations, parameters have the sizes of the gradients, and the loader's tensors are the batch.
//! - A block that is allocated and freed within one operator of the CPU is its kernel's scratch, and left out.
//! - Kernels that allocate differently on the GPU are run on the runtime of [`crate::eager`] ([`super::kernels`]):
//!   workspaces, partial sums, masks of one byte.
//! - The optimizer's step is that of [`crate::step::optimizer`], since PyTorch takes another
//!   implementation on a GPU, where temporaries are lists as long as the parameters.
//! - Attention is one kernel on the GPU, which keeps its operands for backward and writes its output as the next
//!   layer reads it. The CPU spells attention out if it has dropout, so blocks of backward's nodes with the
//!   sequence numbers of its parts are replaced too.
//! - Everything else is the same code on both devices and used as recorded: the order of backward, sums of
//!   gradients, `zero_grad`, and the tensors that Python's variables keep alive.

use crate::order::InOrder as _;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::history::{self, History, Occurrence, TracedBlock};
use super::kernels::{self, Call};
use super::modules::{Modules, OPTIMIZER};
use super::optimizer::chosen;
use super::{AnnotatedRole, Annotation, Time};
use crate::bytes::Bytes;
use crate::config::PyTorch;
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::recorder::Storage;
use crate::eager::{Hardware, Runtime, Tensor};
use crate::sentence::Sentence;
use crate::step::Parameter;
use crate::step::optimizer::State;
use crate::tensor::{DType, TensorType};
use crate::trace::{Category, Phase, Trace};

pub(super) fn trace(
    history: &History<'_>,
    hardware: Hardware,
    pytorch: PyTorch,
) -> (Trace, Vec<Diagnostic>) {
    let mut run = Run::new(history, hardware, Runtime::new(hardware, pytorch));
    run.set_up();
    run.all();
    let Run { rt, held, parameters, model, attended, diagnostics, .. } = run;
    let mut trace = rt.into_trace();
    // What is alive at the end stays: only now does it go.
    drop((held, parameters, model, attended));
    forget_types(&mut trace);
    (trace, diagnostics)
}

/// A trace gives only a block's size in bytes, so [`Run::place_as`] treats it as a one-dimensional tensor of bytes.
fn forget_types(trace: &mut Trace) {
    let Trace { storages, labels, types, .. } = trace;
    for storage in storages {
        let is_block =
            labels.get(storage.operator.index()).is_some_and(|operator| !operator.is_empty());
        let tensor = storage.tensor.and_then(|id| types.get(id.index()));
        if is_block && tensor.is_some_and(|tensor| tensor.dtype == DType::UInt8) {
            storage.tensor = None;
        }
    }
}

/// Attention as one kernel of the CPU's.
const ATTENTION_ON_CPU: &str = "aten::_scaled_dot_product_flash_attention_for_cpu";

/// What a occurrence brings besides what blocks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Step(usize),
    ZeroGrad,
    Optimizer,
}

/// An operator that is run again.
struct Again {
    what: What,
    /// What its CPU kernel has made.
    blocks: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A position in [`super::Profile::operators`].
    Operator(usize),
    /// Backward of attention: a position in [`Run::attended`].
    Attention(usize),
}

/// Attention that was run again, until its backward.
struct Attended {
    /// Its operator.
    operator: usize,
    /// Sequence numbers of its parts; the last once it is known.
    first: u64,
    last: Option<u64>,
    /// What the kernel keeps for backward: its operands, its output, sums.
    kept: Vec<Tensor>,
    /// Its output until the first block after it, which may be a copy in another order.
    output: Option<(Tensor, Bytes)>,
    /// Whether the CPU's output lies otherwise than the GPU's, in which samples come before steps.
    differs: bool,
    /// The copy of its output that is made on the GPU only, and the operator that it is for.
    copy: Option<(u64, Tensor)>,
}

struct Run<'h> {
    history: &'h History<'h>,
    hardware: Hardware,
    rt: Runtime,
    /// What stands for a block.
    held: BTreeMap<usize, Vec<Tensor>>,
    model: Vec<Tensor>,
    parameters: Vec<Parameter>,
    optimizer: Option<State>,
    again: Option<Again>,
    attended: Vec<Attended>,
    /// Position in the steps, and the phase.
    now: (usize, Phase),
    modules: Modules<'h>,
    diagnostics: Vec<Diagnostic>,
}

impl<'h> Run<'h> {
    fn new(history: &'h History<'h>, hardware: Hardware, rt: Runtime) -> Self {
        Self {
            history,
            hardware,
            rt,
            held: BTreeMap::new(),
            model: Vec::new(),
            parameters: Vec::new(),
            optimizer: None,
            again: None,
            attended: Vec::new(),
            now: (0, Phase::Setup),
            modules: Modules::new(history.profile),
            diagnostics: Vec::new(),
        }
    }

    fn note(&mut self, severity: Severity, code: &str, message: Sentence) {
        self.diagnostics.push(Diagnostic::new(severity, code, message));
    }

    /// The model, the batch and the optimizer.
    fn set_up(&mut self) {
        self.rt.enter_phase(0, Phase::Setup);
        let annotations = match self.history.profile.annotations.as_slice() {
            [] => self.stand_ins(),
            annotations => annotations.to_vec(),
        };
        for Annotation { kind, tensor } in &annotations {
            let placed = self.rt.place(tensor, kind.category(), "");
            if *kind == AnnotatedRole::Parameter {
                let (tensor, leaf) = self.rt.parameter(&placed, "");
                self.parameters.push(Parameter { tensor, leaf });
            }
            self.model.push(placed);
        }
        let all: Bytes = self.parameters.iter().map(|p| size_of(&p.tensor)).sum();
        match chosen(self.history, all) {
            Ok(config) => self.optimizer = State::new(&config).ok(),
            Err(why) => self.note(Severity::Warning, "optimizer-as-on-cpu", why),
        }
        if let Some(optimizer) = &mut self.optimizer {
            optimizer.construct(&self.rt, &self.parameters);
        }
        self.compare_gradients(all);
        self.warn();
    }

    /// Whether the trained parameters of the annotation agree with the gradients.
    fn compare_gradients(&mut self, trained: Bytes) {
        let seen: Bytes = self.history.gradients(0).iter().map(|block| block.bytes).sum();
        let quarter = trained.0.div_euclid(4);
        if self.history.profile.annotations.is_empty() || seen.0.abs_diff(trained.0) <= quarter {
            return;
        }
        let message = say!(
            "the annotation lists {trained} of trained parameters, and the first step leaves \
             {seen} of gradients: say `frozen:` of what is not trained, and tell all that is; where \
             gradients are dropped before the optimizer has stepped, this is nothing",
            trained,
            seen
        );
        self.note(Severity::Warning, "mark-contradicted", message);
    }

    /// What runs otherwise on a GPU and is taken as it was seen.
    fn warn(&mut self) {
        let profile = self.history.profile;
        let is_half = |inputs: &super::Inputs| {
            let mut types = inputs.types.iter();
            types.any(|name| matches!(name.as_str(), "c10::BFloat16" | "c10::Half"))
        };
        let mut parameters = profile
            .annotations
            .iter()
            .filter(|annotation| annotation.kind == AnnotatedRole::Parameter);
        let is_single = parameters.all(|annotation| annotation.tensor.dtype == DType::Float32);
        if is_single && profile.given.iter().any(is_half) {
            let message = say!(
                "autocast runs other operators in single precision on a GPU than on a CPU \
                           (softmax, normalizations, losses): their types are as on the CPU, and the \
                           peak may be off by a tenth or more"
            );
            self.note(Severity::Warning, "autocast-as-on-cpu", message);
        }
        let has_none = |inputs: &super::Inputs| inputs.dims.iter().all(Vec::is_empty);
        if !profile.given.is_empty() && profile.given.iter().all(has_none) {
            let message = say!(
                "the trace has no shapes (record_shapes=True was missing), so that no kernel is \
                           run again: workspaces are missing, and scratch is as on the CPU"
            );
            self.note(Severity::Warning, "no-shapes", message);
        }
        let recurrent = ["aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"];
        let mut names = profile.names.iter();
        if let Some(name) = names.find(|name| recurrent.contains(&name.as_str())) {
            let message = say!(
                "{name} is one call of cuDNN on a GPU: what it keeps is as on the CPU, which runs each \
                 step by itself",
                name
            );
            self.note(Severity::Warning, "recurrent-as-on-cpu", message);
        }
    }

    /// Where the script tells nothing: a parameter for each gradient, the last made first.
    fn stand_ins(&mut self) -> Vec<Annotation> {
        let message = say!(
            "the trace does not tell the model's tensors: gradients stand in for parameters, so \
                       that buffers and frozen parameters are missing, as is a batch that was there before; \
                       set the mark that docs/profiles.md shows"
        );
        self.note(Severity::Warning, "model-not-recorded", message);
        let gradients = self.history.gradients(0).into_iter().rev();
        let tensor = |block: &TracedBlock| TensorType::new(DType::UInt8, [block.bytes.0]);
        gradients
            .map(|block| Annotation { kind: AnnotatedRole::Parameter, tensor: tensor(block) })
            .collect()
    }

    fn all(&mut self) {
        let history = self.history;
        let turns = turns(history);
        let mut turns = turns.iter().peekable();
        let end = history.steps.last().map_or(0, |step| step.end);
        for occurrence in &history.occurrences {
            let at = time(history, occurrence);
            if at > end {
                break;
            }
            while let Some((_, turn)) = turns.next_if(|(start, _)| *start <= at) {
                self.turn(*turn);
            }
            match *occurrence {
                Occurrence::Enter(operator) => self.enter(operator),
                Occurrence::Leave(operator) => self.leave(operator),
                Occurrence::Alloc(block) => self.alloc(block),
                Occurrence::Free(block) => self.free(block),
            }
        }
        for (_, turn) in turns {
            self.turn(*turn);
        }
    }

    fn phase(&mut self, step: usize, phase: Phase) {
        if self.now != (step, phase) {
            self.now = (step, phase);
            self.rt.enter_phase(step.saturating_add(1), phase);
        }
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Step(step) => self.phase(step, Phase::ZeroGrad),
            Turn::ZeroGrad => self.phase(self.now.0, Phase::ZeroGrad),
            Turn::Optimizer => {
                self.end_backward(None);
                // What no backward came for is not kept longer than its step.
                self.attended.clear();
                self.phase(self.now.0, Phase::Optimizer);
                self.optimize();
            }
        }
    }

    /// Gradients are those of the trace; the optimizer only asks whether there are any.
    fn optimize(&mut self) {
        let Some(optimizer) = &mut self.optimizer else { return };
        self.rt.enter_module(self.rt.label(OPTIMIZER));
        for Parameter { tensor, leaf } in &self.parameters {
            leaf.set(self.rt.without_memory(|| self.rt.empty_like(tensor)));
        }
        optimizer.step(&self.rt, &self.parameters);
        self.parameters.iter().for_each(|parameter| parameter.leaf.clear());
    }

    fn enter(&mut self, at: usize) {
        let profile = self.history.profile;
        let Some(operator) = profile.operators.get(at) else { return };
        let name = profile.operator(at);
        if let Some(sequence) = operator.sequence {
            if history::is_node(name) {
                self.end_backward(Some(sequence));
                self.begin_backward(sequence);
            } else {
                self.modules.remember(sequence, operator.span.start);
                if self.again.is_none()
                    && let Some(attended) = self.attended.last_mut()
                    && attended.last.is_none()
                {
                    attended.last = Some(sequence.saturating_sub(1).max(attended.first));
                }
            }
        }
        if self.again.is_some() || !kernels::plays(name) {
            return;
        }
        if name == kernels::ATTENTION {
            // Without a number nothing is kept for backward.
            let first = operator.sequence.unwrap_or(u64::MAX);
            let kept = operator.sequence.and_then(|_| self.operands(at)).unwrap_or_default();
            let (last, output, copy) = (None, None, None);
            let attended =
                Attended { operator: at, first, last, kept, output, differs: true, copy };
            self.attended.push(attended);
        }
        self.again = Some(Again { what: What::Operator(at), blocks: Vec::new() });
    }

    /// The nodes of attention's parts begin to run.
    fn begin_backward(&mut self, sequence: u64) {
        for attended in &mut self.attended {
            // Whatever read the copy has run.
            attended.copy.take_if(|(user, _)| sequence < *user);
        }
        let holds = |attended: &Attended| {
            let last = attended.last.unwrap_or(attended.first);
            (attended.first..=last).contains(&sequence) && !attended.kept.is_empty()
        };
        if self.again.is_none()
            && let Some(at) = self.attended.iter().rposition(holds)
        {
            self.again = Some(Again { what: What::Attention(at), blocks: Vec::new() });
        }
    }

    /// They are over when another node runs, or none.
    fn end_backward(&mut self, next: Option<u64>) {
        let Some(What::Attention(at)) = self.again.as_ref().map(|again| again.what) else { return };
        let Some(attended) = self.attended.get_mut(at) else { return };
        let last = attended.last.unwrap_or(attended.first);
        if next.is_some_and(|next| (attended.first..=last).contains(&next)) {
            return;
        }
        let operator = attended.operator;
        let kept = std::mem::take(&mut attended.kept);
        if let Some(again) = self.again.take() {
            self.play(operator, kernels::ATTENTION_BACKWARD, &again.blocks);
        }
        drop(kept);
    }

    /// What attention reads: the blocks of that size that were made last, or one for queries, keys and
    /// values.
    fn operands(&self, operator: usize) -> Option<Vec<Tensor>> {
        let runtime = (self.hardware, self.rt.pytorch);
        let mut wanted = kernels::operands(runtime, self.inputs(operator)?)?;
        let all: Bytes = wanted.iter().take(3).copied().sum();
        let count = wanted.len();
        let mut found = Vec::new();
        for (&at, tensors) in self.held.iter().rev() {
            let Some(block) = self.block(at).filter(|block| block.phase == Phase::Forward) else {
                break;
            };
            if wanted.is_empty() {
                break;
            }
            if wanted.len() == count && block.bytes == all {
                wanted = wanted.into_iter().skip(3).collect();
                found.extend(tensors.iter().cloned());
            } else if let Some(position) = wanted.iter().position(|size| *size == block.bytes) {
                wanted.remove(position);
                found.extend(tensors.iter().cloned());
            }
        }
        Some(found)
    }

    fn inputs(&self, operator: usize) -> Option<&'h super::Inputs> {
        let profile = self.history.profile;
        profile.given.get(*profile.inputs.get(&profile.operators.get(operator)?.number)?)
    }

    fn leave(&mut self, operator: usize) {
        let is_it = |again: &mut Again| again.what == What::Operator(operator);
        let Some(again) = self.again.take_if(is_it) else { return };
        self.play(operator, self.history.profile.operator(operator), &again.blocks);
        if let Some(attended) = self.attended.last_mut().filter(|a| a.first == u64::MAX) {
            attended.kept.clear();
        }
    }

    /// Makes the calls of a GPU's kernel; what it leaves behind lives as long as the CPU's blocks.
    fn play(&mut self, operator: usize, name: &str, blocks: &[usize]) {
        let sizes: Vec<Bytes> =
            blocks.iter().filter_map(|&at| self.block(at)).map(|block| block.bytes).collect();
        let runtime = (self.hardware, self.rt.pytorch);
        let calls =
            self.inputs(operator).and_then(|inputs| kernels::calls(runtime, name, inputs, &sizes));
        let is_attention = matches!(name, kernels::ATTENTION | kernels::ATTENTION_BACKWARD);
        let drops_rest = is_attention && calls.is_some();
        let differs = !self.is_one_kernel(blocks)
            || self.inputs(operator).is_some_and(kernels::is_steps_first);
        if let Some(attended) = self.attended.last_mut().filter(|_| name == kernels::ATTENTION) {
            attended.differs = differs;
        }
        let calls = calls.unwrap_or_default();
        if let Some(block) = blocks.first().and_then(|&at| self.block(at)) {
            self.enter_module(block);
        }
        let replaced = |at: usize| {
            calls
                .iter()
                .any(|call| matches!(call, Call::Output { instead_of, .. } if *instead_of == at))
        };
        for (at, &block) in blocks.iter().enumerate() {
            if !drops_rest && !replaced(at) {
                self.place(block);
            }
        }
        let mut scratch: BTreeMap<usize, Option<Rc<Storage>>> = BTreeMap::new();
        for call in calls {
            match call {
                Call::Output { bytes, instead_of } => {
                    let block = blocks.get(instead_of).copied();
                    self.output(name, block, bytes);
                }
                Call::Scratch { bytes, number } => {
                    self.rt.enter_unknown_operator(name);
                    scratch.insert(number, self.rt.scratch(bytes));
                }
                Call::Free { number } => drop(scratch.remove(&number)),
            }
        }
    }

    /// Whether the CPU ran attention as one kernel, whose output lies as its queries do.
    fn is_one_kernel(&self, blocks: &[usize]) -> bool {
        let operators = blocks.iter().filter_map(|&at| self.block(at)?.operator);
        operators.into_iter().any(|at| self.history.profile.operator(at) == ATTENTION_ON_CPU)
    }

    /// What a kernel leaves behind; attention keeps all of it.
    fn output(&mut self, name: &str, block: Option<usize>, bytes: Bytes) {
        let tensor = if let Some(block) = block {
            self.place_as(block, bytes)
        } else {
            self.rt.enter_unknown_operator(name);
            let ty = TensorType::new(DType::UInt8, [bytes.0]);
            Some(self.rt.place(&ty, Category::Activation, ""))
        };
        if name == kernels::ATTENTION
            && let (Some(tensor), Some(attended)) = (tensor, self.attended.last_mut())
        {
            if block.is_some() && attended.differs {
                attended.output = Some((tensor.clone(), bytes));
            }
            attended.kept.push(tensor);
        }
    }

    /// Whether a block is the copy of attention's output that brings its rows together: on the GPU they
    /// are. Where steps come before samples it is a copy there too, and the CPU may have made none.
    fn is_copy(&mut self, at: usize, block: &TracedBlock) -> Option<Tensor> {
        let attended = self.attended.last_mut()?;
        let (tensor, bytes) = attended.output.take()?;
        let attention = attended.operator;
        let operator = block.operator?;
        let copies = kernels::COPIES.contains(&self.history.profile.operator(operator));
        let dims = |operator: usize| self.inputs(operator)?.dims.first().map(Vec::as_slice);
        let is_by_row = match (dims(operator), dims(attention)) {
            (Some(&[a, b, c, _]), Some(&[batch, heads, rows, _])) => {
                [a, b, c] == [batch, rows, heads]
            }
            _ => true,
        };
        if copies && bytes == block.bytes {
            return is_by_row.then_some(tensor);
        }
        self.copy_by_steps(attention, at, bytes);
        None
    }

    /// The copy of attention's output that the CPU, whose kernel writes it by steps, has no need of.
    fn copy_by_steps(&mut self, attention: usize, at: usize, bytes: Bytes) {
        let profile = self.history.profile;
        let user =
            self.block(at).and_then(|block| profile.operators.get(block.outermost?)?.sequence);
        if let Some(user) =
            user.filter(|_| self.inputs(attention).is_some_and(kernels::is_steps_first))
        {
            self.rt.enter_unknown_operator("aten::contiguous");
            let ty = TensorType::new(DType::UInt8, [bytes.0]);
            let copy = self.rt.place(&ty, Category::Activation, "");
            if let Some(attended) = self.attended.last_mut() {
                attended.copy = Some((user, copy));
            }
        }
    }

    fn block(&self, block: usize) -> Option<&'h TracedBlock> {
        self.history.blocks.get(block)
    }

    fn alloc(&mut self, at: usize) {
        let Some(block) = self.block(at) else { return };
        let is_annotated = !self.history.profile.annotations.is_empty();
        let loader = self.history.loader(block.born);
        let is_loaders =
            loader.is_some_and(|end| is_annotated || block.freed.is_some_and(|f| f <= end));
        let is_optimizers = block.phase == Phase::Optimizer && self.optimizer.is_some();
        let is_before = block.step.is_none() && is_annotated;
        let is_elsewhere = self.history.is_scratch(block) || block.is_number();
        if is_loaders || is_optimizers || is_before || is_elsewhere {
            return;
        }
        if let (Some(step), Phase::Forward | Phase::Backward) = (block.step, block.phase) {
            self.phase(step, block.phase);
        }
        if let Some(output) = self.is_copy(at, block) {
            self.held.insert(at, vec![output]);
        } else if let Some(again) = &mut self.again {
            again.blocks.push(at);
        } else {
            self.place(at);
        }
    }

    fn free(&mut self, at: usize) {
        if let Some(again) = &mut self.again {
            again.blocks.retain(|block| *block != at);
        }
        drop(self.held.remove(&at));
    }

    fn place(&mut self, at: usize) {
        if let Some(block) = self.block(at) {
            self.place_as(at, block.bytes);
        }
    }

    /// What is made from now on belongs to the module of a block.
    fn enter_module(&mut self, block: &TracedBlock) {
        let module = self.rt.label(self.modules.of(block));
        self.rt.enter_module(module);
    }

    /// A tensor that lives as long as a block.
    fn place_as(&mut self, at: usize, bytes: Bytes) -> Option<Tensor> {
        let block = self.block(at)?;
        let profile = self.history.profile;
        self.rt.enter_unknown_operator(block.operator.map_or("", |at| profile.operator(at)));
        self.enter_module(block);
        let category = category(self.history, block);
        let tensor = self.rt.place(&TensorType::new(DType::UInt8, [bytes.0]), category, "");
        self.held.entry(at).or_default().push(tensor.clone());
        Some(tensor)
    }
}

fn size_of(tensor: &Tensor) -> Bytes {
    tensor.dtype().size().times(tensor.numel())
}

/// What a block is for, by its phase and by how long it lives.
fn category(history: &History<'_>, block: &TracedBlock) -> Category {
    let leaves =
        |end: Option<Time>| end.is_none_or(|end| block.freed.is_none_or(|freed| freed > end));
    let step = block.step.and_then(|step| history.steps.get(step));
    let used = block.step.and_then(|step| history.first_optimizer(step)).map(|mark| mark.end);
    match block.phase {
        Phase::Optimizer if leaves(step.map(|step| step.end)) => Category::OptimizerState,
        Phase::Backward if leaves(used) => Category::Gradient,
        Phase::Forward => Category::Activation,
        _ => Category::Temporary,
    }
}

fn turns(history: &History<'_>) -> Vec<(Time, Turn)> {
    let profile = history.profile;
    let mut turns: Vec<(Time, Turn)> = history
        .steps
        .iter()
        .enumerate()
        .map(|(step, span)| (span.start, Turn::Step(step)))
        .collect();
    for mark in &profile.marks {
        if profile.is_step(mark) {
            turns.push((mark.start, Turn::Optimizer));
        } else if profile.is_zero_grad(mark) {
            turns.push((mark.start, Turn::ZeroGrad));
        }
    }
    turns.order_by_key(|(at, _)| *at);
    turns
}

fn time(history: &History<'_>, occurrence: &Occurrence) -> Time {
    let span = |at: usize| history.profile.operators.get(at).map(|operator| operator.span);
    let block = |at: usize| history.blocks.get(at);
    match *occurrence {
        Occurrence::Enter(at) => span(at).map(|span| span.start),
        Occurrence::Leave(at) => span(at).map(|span| span.end),
        Occurrence::Alloc(at) => block(at).map(|block| block.born),
        Occurrence::Free(at) => block(at).and_then(|block| block.freed),
    }
    .unwrap_or_default()
}
