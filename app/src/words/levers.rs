//! Suggestions and the growth of memory, in words.

use highwater_core::levers::{Cost, Outcome};
use highwater_core::report::{DeviceVerdict, Report, Verdict};
use highwater_core::wording;
use highwater_draw::trend::TrendPoint;

use super::names::place;
use crate::model::protocol::SearchOutcome;
use crate::model::state::SearchState;
use crate::words::format::{self, grouped};
use crate::words::language::{fill, spoken, tr};

/// What a lever costs: its class, or its time where that is known, in percent.
pub(crate) fn cost(cost: Cost, slower: Option<i64>) -> String {
    let time = slower.map(|percent| spoken(&wording::levers::time(percent)));
    match (time, cost) {
        (None, _) => tr(cost.about()),
        (Some(time), Cost::Nothing | Cost::Time) => time,
        (Some(time), Cost::Little) => [&time, "; ", &tr("may round differently")].concat(),
        (Some(time), Cost::Host | Cost::Training) => [&tr(cost.about()), "; ", &time].concat(),
    }
}

/// Where the peak is afterwards.
pub(crate) fn moves_to(outcome: &Outcome) -> String {
    let place = place(outcome.phase, &outcome.module, &outcome.operator);
    fill("then the peak is {place}", &[("place", &place)])
}

/// The verdict as sign and word: `✓ fits`.
pub(crate) fn verdict(verdict: Verdict) -> String {
    [format::verdict_symbol(verdict), &format::verdict(verdict)].join(" ")
}

/// How far a search has come.
pub(crate) fn searching(search: &SearchState) -> String {
    fill("Searching: {n} sets of changes tried…", &[("n", &search.tried)])
}

/// What a search found: the sentence above its plan.
pub(crate) fn found(steps: usize, fits: bool, verdict: &DeviceVerdict) -> String {
    spoken(&wording::levers::plan(steps, fits, verdict))
}

/// A lower bound fits.
pub(crate) fn not_known(device: &str) -> String {
    spoken(&wording::levers::unknown(device))
}

/// What a search found, once it has ended.
pub(crate) fn outcome(search: &SearchState, report: &Report) -> Option<String> {
    let (fits, plan) = match search.outcome.as_ref()? {
        SearchOutcome::Found(plan) => (true, plan),
        SearchOutcome::Nothing(plan) => (false, plan),
    };
    Some(found(plan.steps.len(), fits, &report.verdict))
}

/// That something was applied.
pub(crate) fn applied(title: &str) -> String {
    fill("Applied: {title}.", &[("title", &title)])
}

/// What a run needs at one size: `batch 96: 12.31 GiB, 11.90 GiB of it allocated`.
pub(crate) fn at_size(dim: &str, point: &TrendPoint) -> String {
    fill(
        "{dim} {size}: needs {need}, {allocated} of it allocated",
        &[
            ("dim", &dim),
            ("size", &grouped(point.size)),
            ("need", &point.need.short()),
            ("allocated", &point.allocated.short()),
        ],
    )
}
