//! The page's sentences, kept together: they are composed here and nowhere else.

pub(crate) mod autopsy;
pub(crate) mod comparison;
pub(crate) mod keep;
pub(crate) mod levers;
pub(crate) mod message;
pub(crate) mod recorded;

use std::fmt::Display;

use highwater_core::Bytes;
use highwater_core::diagnostic::Severity;
use highwater_core::report::{
    DeviceVerdict, Gap, LiveTensor, Peak, Report, Snapshot, Timeline, Verdict,
};
use highwater_core::trace::{Category, Phase};

use crate::chart::segments::{Pool, Totals};
use crate::format;
use crate::language::{fill, tr};
use crate::state::Notice;
use highwater_core::estimate::LargestBatch;

pub(crate) use recorded::speak_of;

/// Name of a model that is begun in the editor.
pub(crate) fn new_spec() -> String {
    tr("new model")
}

/// Name of a text from the clipboard.
pub(crate) fn pasted() -> String {
    tr("pasted text")
}

/// Name of a text that was dragged in.
pub(crate) fn dropped() -> String {
    tr("dropped text")
}

/// How many devices the run survives on, of how many that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Devices in the catalogue.
    pub(crate) all: usize,
    /// Devices with a verdict so far.
    pub(crate) known: usize,
    /// Devices that the run survives on.
    pub(crate) survive: usize,
}

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
    let (lead, rest) = if chosen.verdict.survives() {
        (spaced(&[&peak, &on_devices]), on_chosen(chosen, largest))
    } else {
        let most = largest.map(most).unwrap_or_default();
        (does_not_fit(chosen), spaced(&[&peak, &most, &on_devices]))
    };
    Headline { lead, rest: spaced(&[&rest, &activations]), verdict: chosen.verdict }
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

/// Sentences one behind the other; those that say nothing are left out.
fn spaced(sentences: &[&str]) -> String {
    let said: Vec<_> = sentences.iter().copied().filter(|text| !text.is_empty()).collect();
    said.join(" ")
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

/// `in backward of layer1.0.conv2`.
pub(crate) fn place(phase: Phase, module: &str, operator: &str) -> String {
    let what = match module {
        "" => operator.to_owned(),
        "loss" => tr("the loss"),
        module => module.to_owned(),
    };
    let parts: [(&str, &dyn Display); 1] = [("what", &what)];
    match phase {
        Phase::Setup => tr("while the model is put on the device"),
        Phase::ZeroGrad => tr("while gradients are dropped"),
        Phase::Optimizer => tr("in the optimizer step"),
        Phase::Forward if what.is_empty() => tr("in forward"),
        Phase::Backward if what.is_empty() => tr("in backward"),
        Phase::Forward => fill("in forward of {what}", &parts),
        Phase::Backward => fill("in backward of {what}", &parts),
    }
}

fn on_devices(count: Count, lower_bound: bool) -> String {
    let Count { all, known, survive } = count;
    let parts: [(&str, &dyn Display); 2] = [("n", &survive), ("all", &all)];
    if all == 0 {
        return String::new();
    }
    let english = if known < all {
        "Checking {all} GPUs…"
    } else if survive == 0 {
        "Fits on none of {all} GPUs."
    } else if survive == all {
        if lower_bound { "At best fits on all {all} GPUs." } else { "Fits on all {all} GPUs." }
    } else if lower_bound {
        "At best fits on {n} of {all} GPUs."
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

/// `a T4`, `an A100`: by how the first letter is spoken.
pub(crate) fn with_article(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().unwrap_or('x');
    let spelled = letters.next().is_some_and(|second| !second.is_ascii_lowercase());
    let vowel = if spelled {
        matches!(first, 'A' | 'E' | 'F' | 'H' | 'I' | 'L' | 'M' | 'N' | 'O' | 'R' | 'S' | 'X' | '8')
    } else {
        matches!(first, 'A' | 'E' | 'I' | 'O' | 'U')
    };
    fill(if vowel { "an {gpu}" } else { "a {gpu}" }, &[("gpu", &name)])
}

/// A category in words.
pub(crate) fn category(category: Category) -> String {
    if let Some(name) = recorded::origin(category) {
        return name;
    }
    tr(category.label())
}

/// What a category means, for those who ask.
pub(crate) fn category_meaning(category: Category) -> String {
    if let Some(meaning) = recorded::origin_meaning(category) {
        return meaning;
    }
    tr(category.about())
}

/// A phase as it is called on the timeline.
pub(crate) fn phase(phase: Phase) -> String {
    tr(match phase {
        Phase::Setup => "set-up",
        Phase::ZeroGrad => "zero grad",
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Optimizer => "step",
    })
}

/// A phase where there is no room for more.
pub(crate) fn phase_short(phase: Phase) -> String {
    tr(match phase {
        Phase::Setup => "set",
        Phase::ZeroGrad => return String::new(),
        Phase::Forward => "fwd",
        Phase::Backward => "bwd",
        Phase::Optimizer => "opt",
    })
}

/// `backward of iteration 2`.
pub(crate) fn when(data: &Timeline, event: usize) -> String {
    let after = data.phases.partition_point(|mark| mark.event <= event);
    let mark = after.checked_sub(1).and_then(|at| data.phases.get(at));
    mark.map_or_else(String::new, |mark| moment(mark.phase, mark.iteration))
}

/// `backward of iteration 2`.
pub(crate) fn moment(phase: Phase, iteration: usize) -> String {
    let name = self::phase(phase);
    if phase == Phase::Setup {
        return name;
    }
    fill("{phase} of iteration {n}", &[("phase", &name), ("n", &iteration)])
}

/// What a tensor is called: by its own name, else by its module, else by what it is for.
pub(crate) fn tensor(tensor: &LiveTensor) -> String {
    match (tensor.name.as_str(), tensor.module.as_str()) {
        ("", "") => category(tensor.category),
        ("", module) => module.to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// `98.00 MiB activations layer1.0.conv2, in segment 3`.
pub(crate) fn block(snapshot: &Snapshot, segment: usize, at: usize) -> Option<String> {
    let block = snapshot.segments.get(segment)?.blocks.get(at)?;
    let owner = block.tensor.and_then(|tensor| snapshot.live.get(tensor));
    let number = segment + 1;
    Some(match owner {
        // What has no name is called what it is for.
        Some(owner) if tensor(owner) == category(owner.category) => fill(
            "{size} {name}, in segment {n}",
            &[("size", &block.size), ("name", &tensor(owner)), ("n", &number)],
        ),
        Some(owner) => fill(
            "{size} {category} {name}, in segment {n}",
            &[
                ("size", &block.size),
                ("category", &category(owner.category)),
                ("name", &tensor(owner)),
                ("n", &number),
            ],
        ),
        None => fill("{size} free, in segment {n}", &[("size", &block.size), ("n", &number)]),
    })
}

/// `31 segments, 3.35 GiB reserved, 2.90 GiB in use`.
pub(crate) fn segments(totals: &Totals) -> String {
    fill(
        "{segments} segments, {reserved} reserved, {used} in use",
        &[
            ("segments", &format::grouped(totals.segments as u64)),
            ("reserved", &totals.reserved),
            ("used", &totals.used),
        ],
    )
}

/// A pool in a word.
pub(crate) fn pool_name(pool: Pool) -> String {
    match pool {
        Pool::Large => tr("large"),
        Pool::Small => tr("small"),
    }
}

/// `Large pool: 12 segments, 3.20 GiB; a line is 256.00 MiB`.
pub(crate) fn pool(pool: Pool, totals: &Totals, line: Bytes) -> String {
    let parts: [(&str, &dyn Display); 3] =
        [("n", &totals.segments), ("size", &totals.reserved), ("line", &line)];
    match pool {
        Pool::Large => fill("Large pool: {n} segments, {size}; a line is {line}", &parts),
        Pool::Small => fill("Small pool: {n} segments, {size}; a line is {line}", &parts),
    }
}

/// How much a diagnostic weighs, in a word.
pub(crate) fn severity(severity: Severity) -> String {
    tr(match severity {
        Severity::Info => "noted",
        Severity::Warning => "uncertain",
        Severity::Error => "missing",
    })
}

/// How near a guess was.
pub(crate) fn guessed(guess: Bytes, answer: Bytes) -> String {
    let off = u128::from(guess.0.abs_diff(answer.0)) * 100 / u128::from(answer.0.max(1));
    let parts: [(&str, &dyn Display); 3] = [("guess", &guess), ("answer", &answer), ("off", &off)];
    let english = match off {
        0..=5 => "You said {guess}, it is {answer}: as good as exact.",
        6..=25 => "You said {guess}, it is {answer}: near, {off} % off.",
        _ if guess < answer => "You said {guess}, it is {answer}: more than one thinks.",
        _ => "You said {guess}, it is {answer}: less than one thinks.",
    };
    fill(english, &parts)
}

/// Nothing could be made of a file.
pub(crate) fn refused(name: &str, reason: &str, kept: Option<&str>) -> Notice {
    let detail = match reason.strip_prefix(name) {
        Some(rest) if rest.starts_with(' ') => sentence(&format!("The file{rest}")),
        _ => sentence(reason),
    };
    let kept = kept.map(|kept| fill("{file} is still here.", &[("file", &kept)]));
    Notice {
        title: fill("Could not open {file}", &[("file", &name)]),
        detail: spaced(&[&detail, kept.as_deref().unwrap_or_default()]),
        is_error: true,
    }
}

/// The worker died and was started again.
pub(crate) fn restarted(at_fault: Option<&str>, kept: Option<&str>) -> Notice {
    let why = match at_fault {
        Some(name) => fill(
            "{file} made the estimator stop, which no file should: please report it.",
            &[("file", &name)],
        ),
        None => tr("The last setting made the estimator stop: please report it."),
    };
    let now = match kept {
        Some(kept) => fill("It was started again, with {file}.", &[("file", &kept)]),
        None => tr("It was started again."),
    };
    Notice {
        title: tr("The estimator had to be restarted"),
        detail: spaced(&[&why, &now]),
        is_error: true,
    }
}

/// The worker does not come back.
pub(crate) fn stopped_for_good() -> Notice {
    Notice {
        title: tr("The estimator does not start"),
        detail: tr(
            "Reload the page. If that does not help, try a current Firefox, Chrome or Safari.",
        ),
        is_error: true,
    }
}

/// Something other than one file was dropped.
pub(crate) fn not_a_file() -> Notice {
    Notice {
        title: tr("That was no file"),
        detail: tr("Drop one file from your computer: a model, or a log with the message."),
        is_error: true,
    }
}

/// A sentence with its capital and its full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut sentence: String =
        letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with(['.', '?', '!', '…', '。', '？']) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::device::Provenance;
    use highwater_core::report::OutOfMemory;

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
        let count = |known, survive| on_devices(Count { all: 31, known, survive }, false);
        assert_eq!(count(3, 3), "Checking 31 GPUs…");
        assert_eq!(count(31, 30), "Fits on 30 of 31 GPUs.");
        assert_eq!(count(31, 31), "Fits on all 31 GPUs.");
        assert_eq!(count(31, 0), "Fits on none of 31 GPUs.");
        let bound = on_devices(Count { all: 31, known: 31, survive: 9 }, true);
        assert_eq!(bound, "At best fits on 9 of 31 GPUs.");
    }

    #[test]
    fn reasons_become_sentences() {
        let notice = refused("a.zip", "a.zip is a zip archive; unpack it", Some("b.onnx"));
        assert_eq!(notice.title, "Could not open a.zip");
        assert_eq!(notice.detail, "The file is a zip archive; unpack it. b.onnx is still here.");
        assert_eq!(sentence("the file is empty"), "The file is empty.");
        assert_eq!(sentence("Was it moved?"), "Was it moved?");
        assert_eq!(sentence(""), ".");
    }
}
