//! The answer in a sentence, what follows from it, and why real memory may differ.

use std::fmt::Display;

use highwater_core::diagnostic::Severity;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::{Certainty, Gap, Report, Verdict};
use highwater_core::wording;
use highwater_core::wording::Reach;
use highwater_core::wording::answer::Devices;
use leptos::prelude::Get as _;

use super::format;
use super::language::{fill, spoken, tr};
use super::names::{model_name, short_name, spaced, stated};
use crate::model::derived::{Count, Derived};
use crate::model::examples::EXAMPLES;

/// The answer in words: what matters most first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    /// Whether the run fits on the chosen device, and what it needs.
    pub(crate) lead: String,
    /// The peak, the largest batch, the largest category, and how many devices will do.
    pub(crate) rest: String,
    /// Verdict on the chosen device.
    pub(crate) verdict: Verdict,
}

/// The sentences at the top of the page.
pub(crate) fn headline(report: &Report, count: Count, reach: Reach) -> Headline {
    let headline = wording::headline_with(report, reach);
    let verdict = report.verdict.verdict;
    let verdict = if report.is_open() { verdict.of_lower_bound() } else { verdict };
    let mut rest: Vec<String> = headline.rest.iter().map(spoken).collect();
    rest.push(on_devices(count, report.is_open()));
    let rest: Vec<_> = rest.iter().map(String::as_str).collect();
    let mut lead = spoken(&headline.lead);
    // The page's examples have titles; core knows only their files.
    if let Some(example) = EXAMPLES.iter().find(|example| example.file == report.model.name) {
        lead = lead.replacen(
            example.file.strip_suffix(".onnx").unwrap_or(example.file),
            example.title,
            1,
        );
    }
    Headline { lead, rest: spaced(&rest), verdict }
}

/// What the browser's tab says: the model and its verdict, so that the entries of a history differ.
pub(crate) fn tab_title(model: Option<&str>, report: Option<&Report>) -> String {
    let Some(model) = model else {
        return tr("Highwater: will it fit on your GPU?");
    };
    let Some(report) = report else {
        return fill("{model} · Highwater", &[("model", &model_name(model))]);
    };
    let model = model_name(&report.model.name);
    let verdict = report.verdict.verdict;
    let verdict = if report.is_open() { verdict.of_lower_bound() } else { verdict };
    let gpu = short_name(&report.verdict.name);
    let verdict = format::verdict(verdict);
    let parts: [(&str, &dyn Display); 3] =
        [("model", &model), ("verdict", &verdict), ("gpu", &gpu)];
    fill("{model} · {verdict} on {gpu} · Highwater", &parts)
}

/// The settings behind an answer in one line, for paper, which has no controls; empty where there are none.
pub(crate) fn settings_line(report: &Report) -> String {
    if report.recorded.is_some() {
        return String::new();
    }
    let config = &report.config;
    let dims = config.dims.iter().map(|(name, size)| format!("{name} {}", format::grouped(*size)));
    let optimizer = config.workload.trains().then(|| tr(config.optimizer.label()));
    let stated = [tr(config.precision.label())].into_iter().chain(optimizer);
    let unusual = config.unusual().into_iter();
    let unusual = unusual.map(|(name, value)| [&name.replace('-', " "), " ", &value].concat());
    dims.chain(stated).chain(unusual).collect::<Vec<_>>().join(" · ")
}

/// On how many devices the run fits; empty where there are not several.
fn on_devices(count: Count, is_open: bool) -> String {
    let Count { all, known, survive, fail } = count;
    let devices = Devices { all, known, survive, fail };
    devices.sentence(is_open).as_ref().map(spoken).unwrap_or_default()
}

/// The headline of the newest answer, also while another one is on its way.
pub(crate) fn newest_headline(derived: Derived) -> Option<Headline> {
    let report = derived.report.get()?;
    Some(headline(&report, derived.count.get(), derived.reach.get()))
}

/// Why the truth may be another, in a word and in a sentence: what a recording leaves out, and the first
/// warning of one.
pub(crate) fn doubt(report: &Report) -> Option<(String, String)> {
    let why = match report.recorded.as_ref().map(|run| run.gap) {
        Some(Some(Gap::RunsOut)) => tr("Memory ran out in this run, so it needs more than it had."),
        Some(Some(Gap::OnlyEnd)) => tr("No history was recorded, so only the end is known."),
        Some(Some(Gap::BeginsLate)) => {
            tr("The recording begins in the middle of the run, so a higher peak may lie before it.")
        }
        Some(None) => {
            let mut warnings = report.diagnostics.iter();
            let warning = warnings.find(|warning| warning.severity == Severity::Warning)?;
            return Some((tr("Uncertain."), stated(&warning.message)));
        }
        None if report.uncertain => {
            let mut causes = report.diagnostics.iter();
            let cause = causes.find(|cause| cause.is_uncertain())?;
            return Some((tr("Uncertain."), stated(&cause.message)));
        }
        None if report.lower_bound => {
            tr("Parts of this model could not be estimated, so a real run needs this much or more.")
        }
        None => return None,
    };
    Some((tr("Lower bound."), why))
}

/// A chance that no line breaks.
pub(crate) fn chance(percent: u64) -> String {
    wording::answer::chance(percent).replace(' ', "\u{a0}")
}

/// How far the batch can go on a device whose name is next to it, and how likely that is.
pub(crate) fn how_far(largest: LargestBatch) -> String {
    let LargestBatch { likely, without_flush, chance, with_flush } = largest;
    let sure =
        likely.map(|batch| fill("{n} fits with a chance of 90 %", &[("n", &format::batch(batch))]));
    let best = without_flush.filter(|_| likely != without_flush).map(|batch| {
        let chance = self::chance(chance);
        fill("{n} with one of {chance}", &[("n", &format::batch(batch)), ("chance", &chance)])
    });
    let flushing = with_flush.filter(|_| with_flush != without_flush);
    let flushing = flushing
        .map(|batch| fill("{n} if PyTorch flushes its cache", &[("n", &format::batch(batch))]));
    let all: Vec<String> = sure.into_iter().chain(best).chain(flushing).collect();
    if all.is_empty() { tr("no batch fits") } else { all.join("; ") }
}

/// How much of the peak is how certain.
pub(crate) fn certainty(certainty: &Certainty) -> String {
    spoken(&wording::answer::certainty(certainty))
}
