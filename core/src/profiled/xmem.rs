//! xMem's rules: its analyzer and orchestrator, as their authors describe them and their
//! artefact shows (Shi, Pezaros and Elkhatib, Middleware '25, doi 10.1145/3721462.3770773).
//!
//! - The activity of the second step is used for both of two steps; of the first step only the state that its
//!   optimizer leaves.
//! - Layers are the leaf modules. In forward a block counts if it outlives its module's call. In backward it
//!   counts if it outlives the last operator that shares a sequence number with the module's operators. Modules
//!   with "loss" or "cross" in their names keep everything. An operator outside of all modules is a layer by
//!   itself; the description does not cover this case.
//! - The model's tensors are there from the start, each list reversed; if the trace does not contain them,
//!   parameters have the sizes of the gradients.
//! - The batch is alive from the step's beginning to its end.
//! - Gradients without a free are freed by the next `zero_grad`.
//! - Blocks of the optimizer's step count if they have the size of a parameter. They stay if the first step made
//!   them and did not free them. The text could also mean that temporaries stay, but that would double the state.
//! - Allocations that only a GPU makes are not included.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::collections::{BTreeMap, BTreeSet};

use super::history::{History, TracedBlock};
use super::{AnnotatedRole, Span, Time};
use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::trace::{Category, Event, LabelId, Phase, PhaseMark, Storage, StorageId, Stream, Trace};

/// Position of the step whose activity is taken.
const TARGET: usize = 1;

pub(super) fn trace(history: &History<'_>) -> (Trace, Vec<Diagnostic>) {
    let Some(&window) = history.steps.get(TARGET) else { return Default::default() };
    let model = model(history);
    let mut lives: Vec<Life> = model
        .iter()
        .map(|&(bytes, category)| Life {
            bytes,
            category,
            phase: Phase::Setup,
            born: 0,
            freed: None,
        })
        .collect();
    let steps = Steps {
        history,
        window,
        layers: Layers::of(history, window),
        sizes: model.iter().map(|(bytes, _)| *bytes).into_set(),
    };
    let (at, first) = steps.optimizers();
    // Both steps are as long as either needs.
    let rest = first.end.saturating_sub(first.start);
    let length = at.saturating_add(rest).max(window.end).saturating_sub(window.start);
    let length = length.saturating_add(2);
    steps.activity(&mut lives, 1, true);
    steps.first_optimizer(&mut lives);
    steps.activity(&mut lives, length.saturating_add(1), false);
    let mut diagnostics = Vec::new();
    if history.profile.annotations.is_empty() {
        let message = say!("gradients stand in for parameters; buffers are not counted");
        diagnostics.push(Diagnostic::new(Severity::Warning, "model-not-recorded", message));
    }
    (written(&lives, length), diagnostics)
}

/// Two steps, made of the second one and the first one's optimizer.
struct Steps<'h> {
    history: &'h History<'h>,
    window: Span,
    layers: Layers,
    /// Sizes of the model's tensors.
    sizes: BTreeSet<Bytes>,
}

impl Steps<'_> {
    /// Where the optimizer of the target step begins, and that of the first step.
    fn optimizers(&self) -> (Time, Span) {
        let end = Span { start: self.window.end, ..self.window };
        let target = self.history.first_optimizer(TARGET).unwrap_or(end);
        (target.start, self.history.first_optimizer(0).unwrap_or(target))
    }

    /// The target step's blocks, its window beginning at a time.
    fn activity(&self, lives: &mut Vec<Life>, start: Time, is_first: bool) {
        let moved = |at: Time| at.saturating_sub(self.window.start).saturating_add(start);
        for (bytes, category) in batch(self.history) {
            let freed = is_first.then(|| moved(self.window.end));
            let (phase, born) = (Phase::Forward, moved(self.window.start));
            lives.push(Life { bytes, category, phase, born, freed });
        }
        for block in self.history.blocks.iter().filter(|block| block.step == Some(TARGET)) {
            let is_kept = match block.phase {
                Phase::Optimizer => !is_first && self.sizes.contains(&block.bytes),
                _ => self.layers.keeps(self.history, block),
            };
            if is_kept {
                let freed = freed(self.history, block, self.window).map(moved);
                let category = category(block, self.window);
                let TracedBlock { bytes, phase, .. } = *block;
                lives.push(Life { bytes, category, phase, born: moved(block.born), freed });
            }
        }
    }

    /// What the first step's optimizer allocates, where the target step's stands.
    fn first_optimizer(&self, lives: &mut Vec<Life>) {
        let (at, first) = self.optimizers();
        let start = at.saturating_sub(self.window.start).saturating_add(1);
        let moved = |time: Time| time.saturating_sub(first.start).saturating_add(start);
        let counts = |block: &&TracedBlock| {
            block.step == Some(0)
                && block.phase == Phase::Optimizer
                && self.sizes.contains(&block.bytes)
        };
        for block in self.history.blocks.iter().filter(counts) {
            let category = match block.freed {
                Some(_) => Category::Temporary,
                None => Category::OptimizerState,
            };
            let (born, freed) = (moved(block.born), block.freed.map(moved));
            let TracedBlock { bytes, phase, .. } = *block;
            lives.push(Life { bytes, category, phase, born, freed });
        }
    }
}

/// A block on the GPU; times begin with the first of two steps, at 1.
struct Life {
    bytes: Bytes,
    category: Category,
    phase: Phase,
    born: Time,
    freed: Option<Time>,
}

fn model(history: &History<'_>) -> Vec<(Bytes, Category)> {
    let of = |kinds: &[AnnotatedRole]| -> Vec<(Bytes, Category)> {
        let annotated = history
            .profile
            .annotations
            .iter()
            .filter(|annotation| kinds.contains(&annotation.kind));
        annotated
            .rev()
            .map(|annotation| (annotation.tensor.size(), annotation.kind.category()))
            .collect()
    };
    let annotated =
        [of(&[AnnotatedRole::Parameter, AnnotatedRole::Frozen]), of(&[AnnotatedRole::Buffer])]
            .concat();
    if !annotated.is_empty() {
        return annotated;
    }
    let gradients = history.gradients(TARGET).into_iter().rev();
    gradients.map(|block| (block.bytes, Category::Parameter)).collect()
}

fn batch(history: &History<'_>) -> Vec<(Bytes, Category)> {
    let annotated = history
        .profile
        .annotations
        .iter()
        .filter(|annotation| annotation.kind == AnnotatedRole::Batch);
    annotated.map(|annotation| (annotation.tensor.size(), Category::Input)).collect()
}

/// When a block of the target step is freed: gradients at the latest by the next `zero_grad`.
fn freed(history: &History<'_>, block: &TracedBlock, window: Span) -> Option<Time> {
    let profile = history.profile;
    let is_open = block.freed.is_none_or(|freed| freed > window.end);
    if block.phase == Phase::Backward && is_open {
        let mut marks = profile.marks.iter().filter(|mark| profile.is_zero_grad(mark));
        let mut later = marks.clone().filter(|mark| mark.start > block.born);
        // The trace may end with this step: the next one would begin as it did.
        let again = marks
            .find(|mark| window.holds(mark))
            .map(|mark| mark.start.saturating_sub(window.start).saturating_add(window.end));
        return later.next().map(|mark| mark.start).or(again);
    }
    block.freed
}

fn category(block: &TracedBlock, window: Span) -> Category {
    match block.phase {
        Phase::Backward if block.freed.is_none_or(|freed| freed > window.end) => Category::Gradient,
        Phase::Forward => Category::Activation,
        _ => Category::Temporary,
    }
}

/// Leaf modules of the target step.
struct Layers {
    modules: Vec<Module>,
    /// By sequence number of a forward operator: its module.
    by_sequence: BTreeMap<u64, usize>,
    /// By module: when its last operator of backward ends.
    backward_ends: BTreeMap<usize, Time>,
}

#[derive(Clone, Copy)]
struct Module {
    span: Span,
    keeps_all: bool,
}

impl Layers {
    fn of(history: &History<'_>, window: Span) -> Self {
        let profile = history.profile;
        let within: Vec<&Span> =
            profile.modules.iter().filter(|module| window.holds(module)).collect();
        let mut modules = Vec::new();
        for (at, module) in within.iter().enumerate() {
            // Sorted by their beginnings, the first that a module holds comes right behind it.
            let is_parent = within.get(at.saturating_add(1)).is_some_and(|next| module.holds(next));
            if !is_parent {
                let name = profile.name(module.name).to_ascii_lowercase();
                let keeps_all = name.contains("loss") || name.contains("cross");
                modules.push(Module { span: **module, keeps_all });
            }
        }
        let mut layers =
            Self { modules, by_sequence: BTreeMap::new(), backward_ends: BTreeMap::new() };
        let of_window = profile.operators.iter().filter(|operator| window.holds(&operator.span));
        for operator in of_window {
            let Some(sequence) = operator.sequence else { continue };
            if let Some(module) = layers.around(operator.span.start) {
                layers.by_sequence.insert(sequence, module);
            } else if let Some(&module) = layers.by_sequence.get(&sequence) {
                let end = layers.backward_ends.entry(module).or_default();
                *end = (*end).max(operator.span.end);
            }
        }
        layers
    }

    /// The leaf module that runs at a time.
    fn around(&self, at: Time) -> Option<usize> {
        let before =
            self.modules.partition_point(|module| module.span.start <= at).checked_sub(1)?;
        self.modules.get(before).filter(|module| at <= module.span.end).map(|_| before)
    }

    /// Whether a block of forward or backward counts.
    fn keeps(&self, history: &History<'_>, block: &TracedBlock) -> bool {
        let profile = history.profile;
        let outermost = block.outermost.and_then(|at| profile.operators.get(at));
        let module = match block.phase {
            Phase::Backward => {
                outermost.and_then(|operator| self.by_sequence.get(&operator.sequence?)).copied()
            }
            _ => self.around(block.born),
        };
        let end = match (module, block.phase) {
            (Some(module), Phase::Backward) => self.backward_ends.get(&module).copied(),
            (Some(module), _) => self.modules.get(module).map(|module| module.span.end),
            (None, _) => outermost.map(|operator| operator.span.end),
        };
        let keeps_all = module.and_then(|at| self.modules.get(at)).is_some_and(|m| m.keeps_all);
        keeps_all || block.freed.is_none_or(|freed| end.is_none_or(|end| freed > end))
    }
}

/// Everything by time; what is freed goes before what is allocated.
fn written(lives: &[Life], length: Time) -> Trace {
    let mut calls: Vec<(Time, bool, usize)> = Vec::new();
    for (at, life) in lives.iter().enumerate() {
        calls.push((life.born, true, at));
        calls.extend(life.freed.map(|freed| (freed.max(life.born.saturating_add(1)), false, at)));
    }
    calls.order_by_key(|&(at, is_alloc, life)| (at, is_alloc, life));
    let none = LabelId::default();
    let mut trace = Trace { labels: vec![String::new()], ..Trace::default() };
    trace.storages = lives
        .iter()
        .map(|life| Storage {
            reason: None,
            requested: life.bytes,
            category: life.category,
            stream: Stream::DEFAULT,
            operator: none,
            module: none,
            name: none,
            tensor: None,
        })
        .collect();
    let begins =
        |at: Time| usize::try_from(at.saturating_sub(1).div_euclid(length)).unwrap_or(usize::MAX);
    let mut before = (0, Phase::Setup);
    trace.phases.push(PhaseMark { event: 0, iteration: 0, phase: Phase::Setup });
    for (at, is_alloc, life) in calls {
        let iteration = if at == 0 { 0 } else { begins(at).min(1).saturating_add(1) };
        // What is freed says nothing of what runs, but for when the second step begins.
        let born = lives.get(life).map(|life| life.phase).filter(|_| is_alloc);
        let phase = match born {
            Some(phase) => phase,
            None if iteration > before.0 => Phase::Forward,
            None => before.1,
        };
        if (iteration, phase) != before {
            before = (iteration, phase);
            trace.phases.push(PhaseMark { event: trace.events.len(), iteration, phase });
        }
        let id = StorageId::new(life);
        trace.events.push(if is_alloc { Event::Alloc(id) } else { Event::Free(id) });
        trace.operators.push(none);
        trace.modules.push(none);
    }
    trace
}
