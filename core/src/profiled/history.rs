//! Blocks of a trace: when each was allocated and freed, by which operator and in which phase.

use std::collections::BTreeMap;

use super::{Operator, Profile, Span, Time};
use crate::bytes::Bytes;
use crate::error::{Error, ErrorKind};
use crate::trace::Phase;

/// COUNT: steps that a trace must have: the first has no optimizer state yet.
const STEPS_LEAST: usize = 2;

/// Operators that only make, fill or copy tensors for the one that called them.
const MAKERS: [&str; 20] = [
    "aten::_to_copy",
    "aten::clone",
    "aten::contiguous",
    "aten::copy_",
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::fill_",
    "aten::full",
    "aten::full_like",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::new_zeros",
    "aten::ones",
    "aten::ones_like",
    "aten::resize_",
    "aten::scalar_tensor",
    "aten::to",
    "aten::zeros",
    "aten::zeros_like",
];
/// SIZE: the largest number, complex in double precision.
const NUMBER: Bytes = Bytes(16);
/// COUNT: marks that are looked at to find one around a time.
const NEAR: usize = 8;
/// What the engine calls a node of the graph.
const NODE: &str = "autograd::engine::evaluate_function: ";

/// One block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedBlock {
    /// SIZE: of the block.
    pub bytes: Bytes,
    /// When it was allocated.
    pub born: Time,
    /// When it was freed; `None`: never.
    pub freed: Option<Time>,
    /// The operator that asked for it: a position in [`Profile::operators`].
    pub operator: Option<usize>,
    /// The outermost operator then: a node of the engine, in backward.
    pub outermost: Option<usize>,
    /// Whether it is the copy of an operand that lies in another order than the operator wants.
    pub(super) is_copy: bool,
    /// The part of the step.
    pub phase: Phase,
    /// Position in [`History::steps`]; `None`: outside of all.
    pub step: Option<usize>,
}

impl TracedBlock {
    /// Whether it is a number that Python made a tensor of, outside of all operators: it stays on the CPU.
    pub(super) fn is_number(&self) -> bool {
        self.operator.is_none() && self.bytes <= NUMBER
    }
}

/// What happens, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrence {
    /// An operator begins: a position in [`Profile::operators`].
    Enter(usize),
    /// It ends.
    Leave(usize),
    /// A block is allocated: a position in [`History::blocks`].
    Alloc(usize),
    /// It is freed.
    Free(usize),
}

/// A trace, understood.
#[derive(Clone, Debug)]
pub struct History<'p> {
    /// What it is made of.
    pub profile: &'p Profile,
    /// All blocks, in the order of their allocation.
    pub blocks: Vec<TracedBlock>,
    /// Steps of training.
    pub steps: Vec<Span>,
    /// COUNT: frees of what was there before the trace begins.
    pub freed_unseen: usize,
    pub(super) occurrences: Vec<Occurrence>,
}

impl<'p> History<'p> {
    /// Pairs allocations with frees by their addresses.
    ///
    /// # Errors
    /// When there are fewer than two steps, or nothing happens in them.
    pub fn of(profile: &'p Profile) -> Result<Self, Error> {
        let steps = steps(profile);
        if steps.len() < STEPS_LEAST {
            let message = say!(
                "the trace has {steps} of training: two or more are needed, since the first has no \
                 optimizer state yet. Give the profiler schedule(wait=0, warmup=0, active=3, repeat=1) \
                 and call its step() after each step of training",
                steps = if steps.is_empty() { say!("no step") } else { say!("one step") }
            );
            return Err(Error::new(ErrorKind::NoGraph, message));
        }
        let mut history =
            Self { profile, blocks: Vec::new(), steps, freed_unseen: 0, occurrences: Vec::new() };
        history.pair();
        Ok(history)
    }

    fn pair(&mut self) {
        let profile = self.profile;
        let mut operators = profile.operators.iter().enumerate().peekable();
        let mut open = Open { profile, stacks: BTreeMap::new() };
        let mut alive: BTreeMap<u64, usize> = BTreeMap::new();
        for change in &profile.changes {
            while let Some((at, operator)) =
                operators.next_if(|(_, operator)| operator.span.start <= change.at)
            {
                open.leave(operator.span.start, Some(operator.span.end), &mut self.occurrences);
                open.stacks.entry(operator.thread).or_default().push(at);
                self.occurrences.push(Occurrence::Enter(at));
            }
            open.leave(change.at, None, &mut self.occurrences);
            if let Some(block) = alive.remove(&change.address) {
                if let Some(block) = self.blocks.get_mut(block) {
                    block.freed = Some(change.at);
                }
                self.occurrences.push(Occurrence::Free(block));
            } else if change.bytes < 0 {
                self.freed_unseen = self.freed_unseen.saturating_add(1);
            }
            if change.bytes > 0 {
                let stack = open.stacks.get(&change.thread).map(Vec::as_slice).unwrap_or_default();
                let block = self.block(change.at, Bytes(change.bytes.unsigned_abs()), stack);
                alive.insert(change.address, self.blocks.len());
                self.occurrences.push(Occurrence::Alloc(self.blocks.len()));
                self.blocks.push(block);
            }
        }
        open.leave(Time::MAX, None, &mut self.occurrences);
    }

    fn block(&self, born: Time, bytes: Bytes, stack: &[usize]) -> TracedBlock {
        let is_named = |at: &usize| !MAKERS.contains(&self.profile.operator(*at));
        let named = stack.iter().rposition(is_named);
        let operator = named.and_then(|at| stack.get(at)).or_else(|| stack.first()).copied();
        let maker = named.and_then(|at| stack.get(at.saturating_add(1)));
        let is_copy = maker.is_some_and(|at| self.profile.operator(*at) == "aten::contiguous");
        let outermost = stack.first().copied();
        let is_node = outermost.is_some_and(|at| is_node(self.profile.operator(at)));
        let phase = match self.profile.mark_at(born) {
            Some(phase) => phase,
            None if is_node => Phase::Backward,
            None => Phase::Forward,
        };
        let step = self.steps.iter().rposition(|step| step.start <= born && born <= step.end);
        TracedBlock { bytes, born, freed: None, operator, outermost, is_copy, phase, step }
    }

    /// Whether a block lives and dies within the operator that asked for it: scratch of a CPU kernel.
    /// Copies of operands are none: they are asked for before it is known which kernel runs.
    pub(super) fn is_scratch(&self, block: &TracedBlock) -> bool {
        let operator = block.operator.and_then(|at| self.profile.operators.get(at));
        let dies = |(operator, freed): (&Operator, Time)| freed <= operator.span.end;
        !block.is_copy && operator.zip(block.freed).is_some_and(dies)
    }

    /// When the loader around a time is done; `None`: there is none.
    pub(super) fn loader(&self, at: Time) -> Option<Time> {
        let around = self.profile.around(at);
        let mut loaders =
            around.filter(|mark| self.profile.name(mark.name).starts_with("enumerate(DataLoader)"));
        loaders.next().map(|mark| mark.end)
    }

    /// A step's first call of an optimizer.
    pub(super) fn first_optimizer(&self, step: usize) -> Option<Span> {
        let step = self.steps.get(step)?;
        let mut within = self.profile.marks.iter().filter(|mark| step.holds(mark));
        within.find(|mark| self.profile.is_step(mark)).copied()
    }

    /// Blocks that backward makes in a step, and that the optimizer leaves to `zero_grad`.
    pub(super) fn gradients(&self, step: usize) -> Vec<&TracedBlock> {
        let end = self.steps.get(step).map_or(0, |step| step.end);
        let used = self.first_optimizer(step).map_or(end, |mark| mark.end);
        let is_gradient = |block: &&TracedBlock| {
            block.step == Some(step)
                && block.phase == Phase::Backward
                && block.freed.is_none_or(|freed| freed > used)
        };
        self.blocks.iter().filter(is_gradient).collect()
    }
}

/// Whether an operator is the engine, running a node of the graph.
pub(super) fn is_node(operator: &str) -> bool {
    operator.starts_with(NODE)
}

impl Span {
    /// Whether another lies within.
    pub(super) const fn holds(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl Profile {
    /// The name of an operator.
    pub(super) fn operator(&self, at: usize) -> &str {
        self.operators.get(at).map_or("", |operator| self.name(operator.span.name))
    }

    pub(super) fn is_step(&self, mark: &Span) -> bool {
        self.name(mark.name).starts_with("Optimizer.step#")
    }

    pub(super) fn is_zero_grad(&self, mark: &Span) -> bool {
        self.name(mark.name).starts_with("Optimizer.zero_grad#")
    }

    /// Marks around a time, innermost first.
    fn around(&self, at: Time) -> impl Iterator<Item = &Span> {
        let until = self.marks.partition_point(|mark| mark.start <= at);
        let before = self.marks.get(..until).unwrap_or_default();
        // Steps of training hold few marks that are over, and those of loaders and optimizers none.
        before.iter().rev().take(NEAR).filter(move |mark| at <= mark.end)
    }

    /// What the marks around a time say.
    fn mark_at(&self, at: Time) -> Option<Phase> {
        self.around(at).find_map(|mark| match () {
            () if self.is_step(mark) => Some(Phase::Optimizer),
            () if self.is_zero_grad(mark) => Some(Phase::ZeroGrad),
            () => None,
        })
    }
}

/// Operators that run.
struct Open<'p> {
    profile: &'p Profile,
    /// By thread, outermost first.
    stacks: BTreeMap<u64, Vec<usize>>,
}

impl Open<'_> {
    /// Those end that are over at a time; at their very end, if another begins there that is longer.
    fn leave(&mut self, at: Time, next: Option<Time>, occurrences: &mut Vec<Occurrence>) {
        for stack in self.stacks.values_mut() {
            let is_over = |operator: &mut usize| {
                let end = self.profile.operators.get(*operator).map_or(0, |o| o.span.end);
                end < at || end == at && next.is_some_and(|next| next > end)
            };
            while let Some(operator) = stack.pop_if(is_over) {
                occurrences.push(Occurrence::Leave(operator));
            }
        }
    }
}

/// Steps as the profiler counts them; else each ends with a step of the optimizer.
fn steps(profile: &Profile) -> Vec<Span> {
    let named = |mark: &&Span| profile.name(mark.name).starts_with("ProfilerStep#");
    let is_used = |step: &Span| {
        let first = profile.changes.partition_point(|change| change.at < step.start);
        profile.changes.get(first).is_some_and(|change| change.at <= step.end)
    };
    let counted: Vec<Span> = profile.marks.iter().filter(named).copied().filter(is_used).collect();
    // One is what there is where a schedule was given and nobody called the profiler's step().
    if counted.len() > 1 {
        return counted;
    }
    let mut steps: Vec<Span> = Vec::new();
    for mark in profile.marks.iter().filter(|mark| profile.is_step(mark)) {
        let start = steps.last().map_or(0, |step| step.end.saturating_add(1));
        if mark.end >= start {
            steps.push(Span { start, ..*mark });
        }
    }
    if steps.len() > 1 { steps } else { counted }
}
