//! The optimizer of a trace: its class from the annotation, its settings from the state that its step left and
//! from the operators that it ran.

use crate::order::IntoOrdered as _;

use super::Span;
use super::history::{History, TracedBlock};
use crate::bytes::Bytes;
use crate::config::{Config, Implementation};
use crate::sentence::Sentence;
use crate::step::optimizer;
use crate::trace::Phase;

/// The optimizer that the marks name, with as much state as the first step left behind.
pub(super) fn chosen(history: &History<'_>, parameters: Bytes) -> Result<Config, Sentence> {
    let profile = history.profile;
    let names = profile.marks.iter().filter(|mark| profile.is_step(mark));
    let names = names.map(|mark| profile.name(mark.name)).into_set();
    let mut names = names.into_iter();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(say!(
            "not one optimizer steps in the trace: what its step allocated on the CPU is kept"
        ));
    };
    let class = name.trim_start_matches("Optimizer.step#").trim_end_matches(".step");
    if makes_state_twice(history) {
        return Err(say!(
            "more than one {class} steps in the trace, and which parameters each owns is unknown: what \
             their steps allocated on the CPU is kept",
            class
        ));
    }
    let sums = Sums::of(history, class);
    let optimizer = optimizer::of_class(class, copies(history, parameters), sums.nesterov)
        .ok_or_else(|| {
            say!(
                "the optimizer {class} is unknown: what its step allocated on the CPU is kept",
                class
            )
        })?;
    let runs = |part: &str| {
        let within = profile.operators.iter().map(|operator| profile.name(operator.span.name));
        within.into_iter().any(|name| name.starts_with(part))
    };
    let optimizer_impl =
        if runs("aten::_fused_") { Implementation::Fused } else { Implementation::Auto };
    Ok(Config { optimizer, optimizer_impl, weight_decay: sums.decay, ..Config::default() })
}

/// Whether several calls of an optimizer make state: then these are several.
fn makes_state_twice(history: &History<'_>) -> bool {
    let makes_state = |mark: &&Span| {
        let first = history.blocks.partition_point(|block| block.born < mark.start);
        let within = history.blocks.iter().skip(first).take_while(|block| block.born <= mark.end);
        within.into_iter().any(|block| block.freed.is_none() && !is_small(block))
    };
    let marks = history.profile.marks.iter().filter(|mark| history.profile.is_step(mark));
    marks.filter(makes_state).nth(1).is_some()
}

/// Whether a block is a number, as counters of steps are.
fn is_small(block: &TracedBlock) -> bool {
    block.bytes <= Bytes(8)
}

/// What a step of the optimizer adds out of place, one parameter after the other.
struct Sums {
    /// The parameter to its gradient, before anything else.
    decay: bool,
    /// The momentum to the gradient, after everything else.
    nesterov: bool,
}

impl Sums {
    /// As SGD's first step shows, which clones a gradient between the two; of other classes the second,
    /// when their state is there.
    fn of(history: &History<'_>, class: &str) -> Self {
        let is_sgd = class == "SGD";
        let step = Some(usize::from(!is_sgd));
        let blocks = history.blocks.iter();
        let mut adds = blocks
            .filter(|block| {
                block.phase == Phase::Optimizer && block.step == step && !is_small(block)
            })
            .filter_map(|block| Some(history.profile.operator(block.operator?) == "aten::add"));
        let first = adds.next().unwrap_or_default();
        // Adadelta adds out of place in any case.
        let decay = first && class != "Adadelta";
        Self { decay, nesterov: is_sgd && adds.next_back().unwrap_or_default() }
    }
}

/// COUNT: copies of the parameters that the first step leaves behind, to the nearest.
fn copies(history: &History<'_>, parameters: Bytes) -> u64 {
    let is_state = |block: &&TracedBlock| {
        block.phase == Phase::Optimizer && block.step == Some(0) && block.freed.is_none()
    };
    let state: Bytes = history.blocks.iter().filter(is_state).map(|block| block.bytes).sum();
    let half = parameters.0.div_euclid(2);
    state.0.saturating_add(half).checked_div(parameters.0).unwrap_or_default()
}
