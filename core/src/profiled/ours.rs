//! Our rules: what lived on the CPU lives as long on the GPU, and what differs is run again.
//!
//! - The model and the batch lie there from the start: as the script tells, or else the gradients stand
//!   in for the parameters, and what the loader made is the batch.
//! - What is born and dies within one operator of the CPU is its kernel's scratch, and left out.
//! - Kernels that take something else on the GPU are run on the runtime of [`crate::eager`]
//!   ([`super::kernels`]): workspaces, partial sums, masks of one byte.
//! - The optimizer's step is that of [`crate::step::optimizer`], since PyTorch takes another
//!   implementation on a GPU, where temporaries are lists as long as the parameters.
//! - Attention is one kernel on the GPU, which keeps its operands for backward and writes its output as
//!   the next layer reads it; the CPU spells it out where it drops anything, so that blocks of backward's
//!   nodes with the sequence numbers of its parts are replaced too.
//! - Everything else, the order of backward, sums of gradients, `zero_grad` and what Python's names
//!   hold, is the same code on both, and taken as it was seen.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::history::{self, Block, History, Moment};
use super::kernels::{self, Call};
use super::{Kind, Time, Told};
use crate::bytes::Bytes;
use crate::config::{Config, Implementation, Optimizer, PyTorch};
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::recorder::Storage;
use crate::eager::{Hardware, Runtime, Tensor};
use crate::sorted;
use crate::step::Parameter;
use crate::step::optimizer::State;
use crate::tensor::{DType, TensorType};
use crate::trace::{Category, Phase, Trace};

pub(super) fn trace(
    history: &History<'_>,
    hardware: Hardware,
    pytorch: PyTorch,
) -> (Trace, Vec<Diagnostic>) {
    let mut run = Run::new(history, Runtime::new(hardware, pytorch));
    run.set_up();
    run.all();
    let Run { rt, held, parameters, model, attended, diagnostics, .. } = run;
    let trace = rt.into_trace();
    // What is alive at the end stays: only now does it go.
    drop((held, parameters, model, attended));
    (trace, diagnostics)
}

/// What a moment brings besides what blocks do.
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
}

struct Run<'h> {
    history: &'h History<'h>,
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
    diagnostics: Vec<Diagnostic>,
}

impl<'h> Run<'h> {
    fn new(history: &'h History<'h>, rt: Runtime) -> Self {
        Self {
            history,
            rt,
            held: BTreeMap::new(),
            model: Vec::new(),
            parameters: Vec::new(),
            optimizer: None,
            again: None,
            attended: Vec::new(),
            now: (0, Phase::Setup),
            diagnostics: Vec::new(),
        }
    }

    fn note(&mut self, severity: Severity, code: &str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(severity, code, message));
    }

    /// The model, the batch and the optimizer.
    fn set_up(&mut self) {
        self.rt.enter_phase(0, Phase::Setup);
        let told = match self.history.profile.told.as_slice() {
            [] => self.stand_ins(),
            told => told.to_vec(),
        };
        for Told { kind, tensor } in &told {
            let placed = self.rt.place(tensor, kind.category(), "");
            if *kind == Kind::Parameter {
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
    }

    /// Where the script tells nothing: a parameter for each gradient, the last made first.
    fn stand_ins(&mut self) -> Vec<Told> {
        let message = "the trace does not tell the model's tensors: gradients stand in for parameters, so \
                       that buffers and frozen parameters are missing, as is a batch that was there before; \
                       set the mark that docs/profiles.md shows";
        self.note(Severity::Warning, "model-not-told", message);
        let gradients = self.history.gradients(0).into_iter().rev();
        let tensor = |block: &Block| TensorType::new(DType::UInt8, [block.bytes.0]);
        gradients.map(|block| Told { kind: Kind::Parameter, tensor: tensor(block) }).collect()
    }

    fn all(&mut self) {
        let history = self.history;
        let turns = turns(history);
        let mut turns = turns.iter().peekable();
        let end = history.steps.last().map_or(0, |step| step.end);
        for moment in &history.moments {
            let at = time(history, moment);
            if at > end {
                break;
            }
            while let Some((_, turn)) = turns.next_if(|(start, _)| *start <= at) {
                self.turn(*turn);
            }
            match *moment {
                Moment::Enter(operator) => self.enter(operator),
                Moment::Leave(operator) => self.leave(operator),
                Moment::Alloc(block) => self.alloc(block),
                Moment::Free(block) => self.free(block),
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
            } else if self.again.is_none()
                && let Some(attended) = self.attended.last_mut()
                && attended.last.is_none()
            {
                attended.last = Some(sequence.saturating_sub(1).max(attended.first));
            }
        }
        if self.again.is_some() || !kernels::reads(name) {
            return;
        }
        if name == kernels::ATTENTION {
            // Without a number nothing is kept for backward.
            let Some((first, kept)) = operator.sequence.zip(self.operands(at)) else { return };
            self.attended.push(Attended { operator: at, first, last: None, kept, output: None });
        }
        self.again = Some(Again { what: What::Operator(at), blocks: Vec::new() });
    }

    /// The nodes of attention's parts begin to run.
    fn begin_backward(&mut self, sequence: u64) {
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

    /// What attention reads: the blocks of that size that were made last, or one for all three.
    fn operands(&self, operator: usize) -> Option<Vec<Tensor>> {
        let runtime = (self.rt.hardware, self.rt.pytorch);
        let mut wanted = Vec::from(kernels::operands(runtime, self.inputs(operator)?)?);
        let all: Bytes = wanted.iter().copied().sum();
        let mut found = Vec::new();
        for (&at, tensors) in self.held.iter().rev() {
            let Some(block) = self.block(at).filter(|block| block.phase == Phase::Forward) else {
                break;
            };
            if wanted.is_empty() {
                break;
            }
            if wanted.len() == 3 && block.bytes == all {
                wanted.clear();
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
        profile.inputs.get(&profile.operators.get(operator)?.number)
    }

    fn leave(&mut self, operator: usize) {
        let is_it = |again: &mut Again| again.what == What::Operator(operator);
        let Some(again) = self.again.take_if(is_it) else { return };
        self.play(operator, self.history.profile.operator(operator), &again.blocks);
    }

    /// Makes the calls of a GPU's kernel; what it leaves behind lives as long as the CPU's blocks.
    fn play(&mut self, operator: usize, name: &str, blocks: &[usize]) {
        let sizes: Vec<Bytes> =
            blocks.iter().filter_map(|&at| self.block(at)).map(|block| block.bytes).collect();
        let runtime = (self.rt.hardware, self.rt.pytorch);
        let calls =
            self.inputs(operator).and_then(|inputs| kernels::calls(runtime, name, inputs, &sizes));
        let is_attention = matches!(name, kernels::ATTENTION | kernels::ATTENTION_BACKWARD);
        let drops_rest = is_attention && calls.is_some();
        let calls = calls.unwrap_or_default();
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
            if block.is_some() {
                attended.output = Some((tensor.clone(), bytes));
            }
            attended.kept.push(tensor);
        }
    }

    /// Whether a block is the copy of attention's output that brings its rows together: on the GPU they are.
    fn is_copy(&mut self, block: &Block) -> Option<Tensor> {
        let (tensor, bytes) = self.attended.last_mut()?.output.take()?;
        let name = block.operator.map(|at| self.history.profile.operator(at))?;
        let copies = matches!(name, "aten::contiguous" | "aten::clone" | "aten::reshape");
        (copies && bytes == block.bytes).then_some(tensor)
    }

    fn block(&self, block: usize) -> Option<&'h Block> {
        self.history.blocks.get(block)
    }

    fn alloc(&mut self, at: usize) {
        let Some(block) = self.block(at) else { return };
        let is_told = !self.history.profile.told.is_empty();
        let loader = self.history.loader(block.born);
        let is_loaders = loader.is_some_and(|end| is_told || block.freed.is_some_and(|f| f <= end));
        let is_optimizers = block.phase == Phase::Optimizer && self.optimizer.is_some();
        let is_before = block.step.is_none() && is_told;
        if is_loaders || is_optimizers || is_before || self.history.is_scratch(block) {
            return;
        }
        if let (Some(step), Phase::Forward | Phase::Backward) = (block.step, block.phase) {
            self.phase(step, block.phase);
        }
        if let Some(again) = &mut self.again {
            again.blocks.push(at);
        } else if let Some(output) = self.is_copy(block) {
            self.held.insert(at, vec![output]);
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

    /// A tensor that lives as long as a block.
    fn place_as(&mut self, at: usize, bytes: Bytes) -> Option<Tensor> {
        let block = self.block(at)?;
        let profile = self.history.profile;
        self.rt.enter_unknown_operator(block.operator.map_or("", |at| profile.operator(at)));
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
fn category(history: &History<'_>, block: &Block) -> Category {
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
    sorted::by_key(&mut turns, |(at, _)| *at);
    turns
}

fn time(history: &History<'_>, moment: &Moment) -> Time {
    let span = |at: usize| history.profile.operators.get(at).map(|operator| operator.span);
    let block = |at: usize| history.blocks.get(at);
    match *moment {
        Moment::Enter(at) => span(at).map(|span| span.start),
        Moment::Leave(at) => span(at).map(|span| span.end),
        Moment::Alloc(at) => block(at).map(|block| block.born),
        Moment::Free(at) => block(at).and_then(|block| block.freed),
    }
    .unwrap_or_default()
}

/// The optimizer that the marks name, with as much state as the first step left behind.
fn chosen(history: &History<'_>, parameters: Bytes) -> Result<Config, String> {
    let profile = history.profile;
    let names = profile.marks.iter().filter(|mark| profile.is_step(mark));
    let names = sorted::set(names.map(|mark| profile.name(mark.name)));
    let mut names = names.into_iter();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(
            "not one optimizer steps in the trace: what its step allocated on the CPU is kept"
                .to_owned(),
        );
    };
    let class = name.trim_start_matches("Optimizer.step#").trim_end_matches(".step");
    let optimizer = named(class, copies(history, parameters)).ok_or_else(|| {
        format!("the optimizer {class} is not known: what its step allocated on the CPU is kept")
    })?;
    let runs = |part: &str| {
        let within = profile.operators.iter().map(|operator| profile.name(operator.span.name));
        within.into_iter().any(|name| name.starts_with(part))
    };
    let optimizer_impl =
        if runs("aten::_fused_") { Implementation::Fused } else { Implementation::Auto };
    Ok(Config { optimizer, optimizer_impl, ..Config::default() })
}

/// COUNT: copies of the parameters that the first step leaves behind, to the nearest.
fn copies(history: &History<'_>, parameters: Bytes) -> u64 {
    let is_state = |block: &&Block| {
        block.phase == Phase::Optimizer && block.step == Some(0) && block.freed.is_none()
    };
    let state: Bytes = history.blocks.iter().filter(is_state).map(|block| block.bytes).sum();
    let half = parameters.0.div_euclid(2);
    state.0.saturating_add(half).checked_div(parameters.0).unwrap_or_default()
}

/// A class of `torch.optim`, by its state.
fn named(class: &str, copies: u64) -> Option<Optimizer> {
    Some(match (class, copies) {
        ("SGD", 0) => Optimizer::Sgd,
        ("SGD", _) => Optimizer::SgdMomentum,
        ("Adam", ..=2) => Optimizer::Adam,
        ("Adam", _) => Optimizer::AdamAmsgrad,
        ("AdamW", ..=2) => Optimizer::AdamW,
        ("AdamW", _) => Optimizer::AdamWAmsgrad,
        ("NAdam", _) => Optimizer::NAdam,
        ("RAdam", _) => Optimizer::RAdam,
        ("Adamax", _) => Optimizer::Adamax,
        ("RMSprop", ..=1) => Optimizer::RmsProp,
        ("RMSprop", _) => Optimizer::RmsPropMomentum,
        ("Adagrad", _) => Optimizer::Adagrad,
        ("Adadelta", _) => Optimizer::Adadelta,
        ("Rprop", _) => Optimizer::Rprop,
        ("ASGD", _) => Optimizer::Asgd,
        ("Adafactor", _) => Optimizer::Adafactor,
        ("Lion", _) => Optimizer::Lion,
        _ => return None,
    })
}
