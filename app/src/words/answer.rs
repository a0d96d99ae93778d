//! The answer in a sentence or two, and why the truth may be another.

use std::fmt::Display;

use highwater_core::basis::Basis;
use highwater_core::diagnostic::Severity;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::{Certainty, DeviceVerdict, Gap, Peak, Report, Verdict, share};
use leptos::prelude::Get as _;

use super::language::{fill, tr};
use super::names::{place, sentence, spaced, with_article};
use super::{format, recorded};
use crate::model::derived::{Count, Derived};

/// The answer in words: what matters most first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    /// The one sentence or two that answer the question.
    pub(crate) lead: String,
    /// What else is good to know.
    pub(crate) rest: String,
    /// Verdict on the chosen device.
    pub(crate) verdict: Verdict,
}

/// The sentence at the top of the page.
pub(crate) fn headline(report: &Report, count: Count, largest: Option<LargestBatch>) -> Headline {
    let chosen = &report.verdict;
    let has_happened = report.recorded.as_ref().is_some_and(|run| !run.is_prediction());
    let peak =
        if has_happened { recorded::peak(report) } else { peak(&report.peak, report.lower_bound) };
    let on_devices = on_devices(count, report.lower_bound);
    let share = report.at_peak.activation;
    let requested = report.at_peak.total();
    let activations = if has_happened {
        String::new()
    } else {
        fill("{share} is activations.", &[("share", &format::percent(share, requested))])
    };
    let (lead, rest) = if chosen.verdict == Verdict::NotKnown {
        let spare = chosen.usable() - chosen.need;
        let parts: [(&str, &dyn Display); 2] =
            [("gpu", &with_article(&chosen.name)), ("spare", &spare)];
        let rest = fill("On {gpu}, what could be counted leaves {spare}.", &parts);
        (spaced(&[&peak, &on_devices]), rest)
    } else if chosen.verdict.survives() {
        (spaced(&[&peak, &on_devices]), on_chosen(chosen, largest))
    } else {
        let known = largest.filter(|_| !report.lower_bound);
        let most = known.map(most).unwrap_or_default();
        (does_not_fit(chosen), spaced(&[&peak, &most, &on_devices]))
    };
    Headline { lead, rest: spaced(&[&rest, &activations]), verdict: chosen.verdict }
}

/// The headline of the newest answer.
pub(crate) fn newest_headline(derived: Derived) -> Option<Headline> {
    let report = derived.report.get()?;
    Some(headline(&report, derived.count.get(), derived.largest.get()))
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
            return Some((tr("Uncertain."), sentence(&warning.message)));
        }
        None if report.lower_bound => {
            tr("Parts of this model could not be estimated, so a real run needs this much or more.")
        }
        None => return None,
    };
    Some((tr("Lower bound."), why))
}

/// What the peak rests on.
pub(crate) fn certainty(certainty: &Certainty) -> String {
    let on = |(basis, bytes)| {
        let english = match basis {
            Basis::Proven => "{share} on rules proven against PyTorch",
            Basis::Recovered => "{share} on structure recovered from the file",
            Basis::Assumed | Basis::Unproven => "{share} on assumptions",
        };
        fill(english, &[("share", &share(bytes, certainty.total()))])
    };
    let shares: Vec<String> = certainty.shares().map(on).collect();
    fill("The peak rests {shares}.", &[("shares", &shares.join(&tr(", ")))])
}

fn peak(peak: &Peak, lower_bound: bool) -> String {
    let place = place(peak.phase, &peak.module, &peak.operator);
    let parts: [(&str, &dyn Display); 2] = [("size", &peak.allocated), ("place", &place)];
    if lower_bound {
        fill("Peaks at {size} or more {place}.", &parts)
    } else {
        fill("Peaks at {size} {place}.", &parts)
    }
}

fn on_devices(count: Count, lower_bound: bool) -> String {
    let Count { all, known, survive, fail } = count;
    let parts: [(&str, &dyn Display); 3] = [("n", &survive), ("all", &all), ("fail", &fail)];
    if all == 0 {
        return String::new();
    }
    let english = if known < all {
        "Checking {all} GPUs…"
    } else if fail == all {
        "Fits on none of {all} GPUs."
    } else if lower_bound && fail == 0 {
        "Not known whether it fits on any of {all} GPUs."
    } else if lower_bound {
        "Does not fit on {fail} of {all} GPUs; not known of the others."
    } else if survive == all {
        "Fits on all {all} GPUs."
    } else {
        "Fits on {n} of {all} GPUs."
    };
    fill(english, &parts)
}

fn on_chosen(device: &DeviceVerdict, largest: Option<LargestBatch>) -> String {
    let name = with_article(&device.name);
    let spare = device.usable() - device.need;
    let sizes = largest.unwrap_or_default();
    let size = |size: Option<u64>| size.map_or_else(String::new, format::grouped);
    let (batch, flushing) = (size(sizes.without_flush), size(sizes.with_flush));
    let parts: [(&str, &dyn Display); 4] =
        [("gpu", &name), ("spare", &spare), ("batch", &batch), ("flushing", &flushing)];
    let english = match (device.verdict, sizes.without_flush, sizes.only_with_flush()) {
        (Verdict::FitsAfterFlush, None, _) => {
            "On {gpu} it fits, but PyTorch must flush its cache on the way, which is slow."
        }
        (Verdict::FitsAfterFlush, Some(_), _) => {
            "On {gpu} it fits, but PyTorch must flush its cache on the way, which is slow: up to batch \
             {batch} there is room, up to {flushing} with flushes."
        }
        (Verdict::Tight, None, _) => "On {gpu} it is tight: {spare} to spare.",
        (Verdict::Tight, Some(_), None) => {
            "On {gpu} it is tight, with {spare} to spare: up to batch {batch}."
        }
        (Verdict::Tight, Some(_), Some(_)) => {
            "On {gpu} it is tight, with {spare} to spare: up to batch {batch} with room, {flushing} with \
             cache flushes."
        }
        (_, None, _) => "On {gpu} it leaves {spare} to spare.",
        (_, Some(_), None) => "On {gpu}: up to batch {batch}.",
        (_, Some(_), Some(_)) => {
            "On {gpu}: up to batch {batch} with room, {flushing} with cache flushes."
        }
    };
    fill(english, &parts)
}

/// How far the batch can go where the run does not fit.
fn most(largest: LargestBatch) -> String {
    let size = |size: Option<u64>| size.map_or_else(String::new, format::grouped);
    let (batch, flushing) = (size(largest.without_flush), size(largest.with_flush));
    let english = match (largest.without_flush, largest.only_with_flush()) {
        (Some(_), None) => "The largest batch that fits is {batch}.",
        (Some(_), Some(_)) => {
            "The largest batch that fits is {batch}, or {flushing} with cache flushes."
        }
        (None, Some(_)) => "Up to batch {flushing} survives, but only with cache flushes.",
        (None, None) => "Not even a batch of 1 fits.",
    };
    fill(english, &[("batch", &batch), ("flushing", &flushing)])
}

fn does_not_fit(device: &DeviceVerdict) -> String {
    let name = with_article(&device.name);
    let short = device.need.saturating_sub(device.usable());
    let place = device
        .out_of_memory
        .as_ref()
        .map(|oom| place(oom.phase, &oom.module, &oom.operator))
        .unwrap_or_default();
    let parts: [(&str, &dyn Display); 3] = [("gpu", &name), ("size", &short), ("place", &place)];
    let english = match (short.0 > 0, place.is_empty()) {
        (true, false) => "Does not fit on {gpu}: needs {size} more, first fails {place}.",
        (true, true) => "Does not fit on {gpu}: needs {size} more.",
        (false, false) => "Does not fit on {gpu}: first fails {place}.",
        (false, true) => "Does not fit on {gpu}.",
    };
    fill(english, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::Bytes;
    use highwater_core::device::Provenance;
    use highwater_core::report::OutOfMemory;
    use highwater_core::trace::Phase;

    fn device(need: u64, capacity: u64, verdict: Verdict) -> DeviceVerdict {
        DeviceVerdict {
            id: "t4".to_owned(),
            name: "T4".to_owned(),
            capacity: Bytes::mib(capacity),
            need: Bytes::mib(need),
            capacity_from: Provenance::Reported,
            context: Bytes::mib(100),
            context_from: Provenance::Fitted,
            other_processes: Bytes::ZERO,
            allowed: None,
            verdict,
            out_of_memory: (!verdict.survives()).then(|| OutOfMemory {
                iteration: 1,
                phase: Phase::Backward,
                operator: "aten::mm".to_owned(),
                module: "encoder.layer.7".to_owned(),
                message: String::new(),
            }),
        }
    }

    #[test]
    fn a_device_gets_the_right_article() {
        for (name, spoken) in [
            ("T4", "a T4"),
            ("A100 80 GB", "an A100 80 GB"),
            ("H100", "an H100"),
            ("RTX 4090", "an RTX 4090"),
            ("GeForce RTX 4090", "a GeForce RTX 4090"),
            ("Tesla T4", "a Tesla T4"),
            ("L4", "an L4"),
            ("V100", "a V100"),
            ("B200", "a B200"),
        ] {
            assert_eq!(with_article(name), spoken);
        }
    }

    #[test]
    fn the_verdict_is_a_sentence() {
        let fails = device(2048 + 819, 2048, Verdict::DoesNotFit);
        assert_eq!(
            does_not_fit(&fails),
            "Does not fit on a T4: needs 819.00 MiB more, first fails in backward of encoder.layer.7."
        );
        let fits = device(1000, 2048, Verdict::Fits);
        let up_to = |without_flush, with_flush| LargestBatch { without_flush, with_flush };
        let same = up_to(Some(118), Some(118));
        assert_eq!(on_chosen(&fits, Some(same)), "On a T4: up to batch 118.");
        let further = up_to(Some(118), Some(1250));
        assert_eq!(
            on_chosen(&fits, Some(further)),
            "On a T4: up to batch 118 with room, 1,250 with cache flushes."
        );
        for (largest, expected) in [
            (same, "The largest batch that fits is 118."),
            (further, "The largest batch that fits is 118, or 1,250 with cache flushes."),
            (up_to(None, Some(2)), "Up to batch 2 survives, but only with cache flushes."),
            (up_to(None, None), "Not even a batch of 1 fits."),
        ] {
            assert_eq!(most(largest), expected);
        }
        assert_eq!(on_chosen(&fits, None), "On a T4 it leaves 1.02 GiB to spare.");
        let tight = device(2000, 2048, Verdict::Tight);
        assert_eq!(on_chosen(&tight, None), "On a T4 it is tight: 48.00 MiB to spare.");
    }

    #[test]
    fn the_count_is_honest_while_devices_are_still_looked_at() {
        let count = |known, survive| {
            on_devices(Count { all: 31, known, survive, fail: known - survive }, false)
        };
        assert_eq!(count(3, 3), "Checking 31 GPUs…");
        assert_eq!(count(31, 30), "Fits on 30 of 31 GPUs.");
        assert_eq!(count(31, 31), "Fits on all 31 GPUs.");
        assert_eq!(count(31, 0), "Fits on none of 31 GPUs.");
        let bound = |fail| on_devices(Count { all: 31, known: 31, survive: 0, fail }, true);
        assert_eq!(bound(22), "Does not fit on 22 of 31 GPUs; not known of the others.");
        assert_eq!(bound(0), "Not known whether it fits on any of 31 GPUs.");
        assert_eq!(bound(31), "Fits on none of 31 GPUs.");
    }
}
