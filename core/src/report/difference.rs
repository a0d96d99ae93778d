//! The differences between two runs: at their peaks, module by module, and in each phase.

use crate::order::InOrder as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::owners::{largest, prefix};
use super::{ByCategory, ModuleBytes, Report, Timeline};
use crate::bytes::Bytes;
use crate::trace::{Category, Phase};

/// What something has in one run and in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Its name: a module path, empty for what belongs to none.
    pub name: String,
    /// What it had before.
    pub before: Bytes,
    /// What it has after.
    pub after: Bytes,
}

impl Difference {
    /// By how much the two differ, whichever is larger.
    pub const fn size(&self) -> Bytes {
        Bytes(self.before.0.abs_diff(self.after.0))
    }
}

/// Requested bytes at the two peaks by module, the largest difference first; modules that have
/// the same in both are left out.
///
/// Paths are cut to as many parts as tell the modules of `after` apart.
pub fn by_module(before: &Report, after: &Report) -> Vec<Difference> {
    between(&before.modules_at_peak, &after.modules_at_peak)
}

fn between(before: &[ModuleBytes], after: &[ModuleBytes]) -> Vec<Difference> {
    let (depth, _) = largest(after);
    let mut sums = BTreeMap::<&str, [Bytes; 2]>::new();
    for (modules, side) in [(before, 0), (after, 1)] {
        for module in modules {
            let sums = sums.entry(prefix(&module.module, depth)).or_default();
            if let Some(sum) = sums.get_mut(side) {
                *sum += module.bytes;
            }
        }
    }
    let mut differences: Vec<_> = sums
        .into_iter()
        .filter(|(_, [before, after])| before != after)
        .map(|(name, [before, after])| Difference { name: name.to_owned(), before, after })
        .collect();
    differences.order_by_key(|difference| (Reverse(difference.size()), natural(&difference.name)));
    differences
}

/// What a path sorts by: its numbers as numbers, so that `h.10` is behind `h.2`.
fn natural(path: &str) -> Vec<(u64, String)> {
    path.split('.').map(|part| (part.parse().unwrap_or_default(), part.to_owned())).collect()
}

/// The highest moment of one phase, in two runs that both have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseDifference {
    /// Iteration, from 1; 0 for set-up.
    pub iteration: usize,
    /// Phase.
    pub phase: Phase,
    /// Allocated bytes then, in the one.
    pub before: Bytes,
    /// In the other.
    pub after: Bytes,
    /// What differs the most between these moments; none where as much is allocated. Where one of the runs
    /// knows origins only ([`RecordedRun::by_origin`](super::RecordedRun::by_origin)), this is one.
    pub mostly: Option<(Category, [Bytes; 2])>,
}

/// The highest moment of each phase that both have, in the order of the second.
pub fn by_phase(before: &Report, after: &Report) -> Vec<PhaseDifference> {
    let is_by_origin = |report: &Report| report.recorded.as_ref().is_some_and(|run| run.by_origin);
    let folds = is_by_origin(before) != is_by_origin(after);
    let [before, after] = [before, after].map(|report| {
        let folds = folds && !is_by_origin(report);
        highest(&report.timeline, folds)
    });
    let in_both = after.into_iter().filter_map(|(mark, after, sums)| {
        let is_it = |(other, ..): &&Highest| *other == mark;
        let (_, before, other) = before.iter().find(is_it)?;
        let pair = |category| (category, [other.get(category), sums.get(category)]);
        let pairs = Category::ALL.map(pair).into_iter();
        let gap = |(_, [before, after]): &(Category, [Bytes; 2])| before.0.abs_diff(after.0);
        let mostly = pairs.max_by_key(gap).filter(|_| *before != after);
        let (iteration, phase) = mark;
        Some(PhaseDifference { iteration, phase, before: *before, after, mostly })
    });
    in_both.collect()
}

/// A phase of an iteration, the most that was allocated in it, and what that was.
type Highest = ((usize, Phase), Bytes, ByCategory);

/// The highest moment of each phase. A phase that begins more than once in an iteration is one.
fn highest(timeline: &Timeline, folds: bool) -> Vec<Highest> {
    let ends = timeline.phases.iter().skip(1).map(|mark| mark.event).chain([timeline.events]);
    let mut highest: Vec<Highest> = Vec::new();
    for (mark, end) in timeline.phases.iter().zip(ends) {
        let place = |event: usize| timeline.event.partition_point(|&at| at < event);
        let samples = place(mark.event)..place(end);
        let most = samples.max_by_key(|&at| timeline.allocated.get(at).copied());
        let moment =
            most.and_then(|at| timeline.allocated.get(at).zip(timeline.categories.get(at)));
        let Some((&allocated, &sums)) = moment else { continue };
        let sums = if folds { origins(&sums, mark.phase) } else { sums };
        let found = ((mark.iteration, mark.phase), allocated, sums);
        match highest.iter_mut().find(|(known, ..)| *known == found.0) {
            Some(known) if known.1 < allocated => *known = found,
            Some(_) => {}
            None => highest.push(found),
        }
    }
    highest
}

/// Categories of a simulated moment as the stacks of a recording would tell of them: what is scratch
/// belongs to what runs.
fn origins(sums: &ByCategory, phase: Phase) -> ByCategory {
    let mut origins = ByCategory {
        parameter: sums.parameter + sums.buffer + sums.input,
        activation: sums.activation,
        gradient: sums.gradient,
        optimizer_state: sums.optimizer_state,
        ..ByCategory::default()
    };
    *origins.get_mut(match phase {
        Phase::Setup => Category::Parameter,
        Phase::Forward | Phase::Prefill | Phase::Decode => Category::Activation,
        Phase::Backward => Category::Gradient,
        Phase::Optimizer | Phase::ZeroGrad => Category::OptimizerState,
    }) += sums.temporary + sums.workspace;
    origins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_compared_as_deep_as_they_can_be_told_apart() {
        let modules = |sizes: &[(&str, u64)]| -> Vec<ModuleBytes> {
            let bytes = |&(module, bytes): &(&str, u64)| ModuleBytes {
                module: module.to_owned(),
                bytes: Bytes(bytes),
            };
            sizes.iter().map(bytes).collect()
        };
        let before = modules(&[("h.0.attn", 40), ("h.1.attn", 40), ("h.1.mlp", 9), ("", 7)]);
        let after = modules(&[("h.0.attn", 10), ("h.1.attn", 40), ("h.1.mlp", 10), ("wte", 5)]);
        let shown: Vec<String> = between(&before, &after)
            .iter()
            .map(|d| format!("{:?} {} to {}", d.name, d.before.0, d.after.0))
            .collect();
        assert_eq!(
            shown,
            [r#""h.0.attn" 40 to 10"#, r#""" 7 to 0"#, r#""wte" 0 to 5"#, r#""h.1.mlp" 9 to 10"#]
        );
        assert!(between(&after, &after).is_empty());
    }
}
