//! The page's sentences, kept together: they are composed here and nowhere else.

use highwater_core::diagnostic::Severity;
use highwater_core::estimate::{Located, Match, Place};
use highwater_core::report::{DeviceVerdict, Peak, Report, Verdict};
use highwater_core::trace::{Category, Phase};

use crate::explained::Held;
use crate::format;
use crate::protocol::LargestBatch;
use crate::state::Notice;

/// Name of a model that is begun in the editor.
pub(crate) const NEW_SPEC: &str = "new model";
/// Name of a text from the clipboard.
pub(crate) const PASTED: &str = "pasted text";
/// Name of a text that was dragged in.
pub(crate) const DROPPED: &str = "dropped text";

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
    let peak = peak(&report.peak, report.lower_bound);
    let on_devices = on_devices(count, report.lower_bound);
    let share = report.at_peak.activation;
    let requested = report.at_peak.total();
    let activations = format!("{} is activations.", format::percent(share, requested));
    let (lead, rest) = if chosen.verdict.survives() {
        (format!("{peak} {on_devices}"), on_chosen(chosen, largest))
    } else {
        let rest = match largest {
            Some(LargestBatch::UpTo(batch)) => {
                format!("{peak} The largest batch that fits is {}.", format::grouped(batch))
            }
            Some(LargestBatch::None) => format!("{peak} Not even a batch of 1 fits."),
            Some(LargestBatch::Unknown) | None => peak,
        };
        (does_not_fit(chosen), format!("{rest} {on_devices}"))
    };
    let rest = [rest, activations].join(" ").trim().to_owned();
    Headline { lead: lead.trim().to_owned(), rest, verdict: chosen.verdict }
}

fn peak(peak: &Peak, lower_bound: bool) -> String {
    let or_more = if lower_bound { " or more" } else { "" };
    let place = place(peak.phase, &peak.module, &peak.operator);
    format!("Peaks at {}{or_more} {place}.", peak.allocated)
}

/// `in backward of layer1.0.conv2`.
pub(crate) fn place(phase: Phase, module: &str, operator: &str) -> String {
    let what = match module {
        "" => operator,
        "loss" => "the loss",
        module => module,
    };
    match phase {
        Phase::Setup => "while the model is put on the device".to_owned(),
        Phase::ZeroGrad => "while gradients are dropped".to_owned(),
        Phase::Optimizer => "in the optimizer step".to_owned(),
        Phase::Forward | Phase::Backward if what.is_empty() => format!("in {}", phase.name()),
        Phase::Forward | Phase::Backward => format!("in {} of {what}", phase.name()),
    }
}

fn on_devices(count: Count, lower_bound: bool) -> String {
    let fits = if lower_bound { "At best fits" } else { "Fits" };
    match count {
        Count { all: 0, .. } => String::new(),
        Count { all, known, .. } if known < all => format!("Checking {all} GPUs…"),
        Count { all, survive: 0, .. } => format!("Fits on none of {all} GPUs."),
        Count { all, survive, .. } if survive == all => format!("{fits} on all {all} GPUs."),
        Count { all, survive, .. } => format!("{fits} on {survive} of {all} GPUs."),
    }
}

fn on_chosen(device: &DeviceVerdict, largest: Option<LargestBatch>) -> String {
    let name = with_article(&device.name);
    let spare = device.usable() - device.need;
    let batch = match largest {
        Some(LargestBatch::UpTo(batch)) => {
            format!("up to batch {}", format::grouped(batch))
        }
        _ => String::new(),
    };
    match device.verdict {
        Verdict::Tight if batch.is_empty() => format!("On {name} it is tight: {spare} to spare."),
        Verdict::Tight => format!("On {name} it is tight, with {spare} to spare: {batch}."),
        Verdict::FitsAfterFlush => format!(
            "On {name} it fits only because the allocator drops its cache on the way, which is slow."
        ),
        _ if batch.is_empty() => format!("On {name} it leaves {spare} to spare."),
        _ => format!("On {name}: {batch}."),
    }
}

fn does_not_fit(device: &DeviceVerdict) -> String {
    let name = with_article(&device.name);
    let short = device.need.saturating_sub(device.usable());
    let needs = if short.0 > 0 { format!("needs {short} more") } else { String::new() };
    let fails = device.out_of_memory.as_ref().map_or_else(String::new, |oom| {
        format!("first fails {}", place(oom.phase, &oom.module, &oom.operator))
    });
    let why: Vec<_> = [needs, fails].into_iter().filter(|part| !part.is_empty()).collect();
    if why.is_empty() {
        format!("Does not fit on {name}.")
    } else {
        format!("Does not fit on {name}: {}.", why.join(", "))
    }
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
    format!("{} {name}", if vowel { "an" } else { "a" })
}

/// A category in words.
pub(crate) const fn category(category: Category) -> &'static str {
    match category {
        Category::Parameter => "parameters",
        Category::Buffer => "buffers",
        Category::Input => "inputs",
        Category::Activation => "activations",
        Category::Temporary => "temporaries",
        Category::Workspace => "workspace",
        Category::Gradient => "gradients",
        Category::OptimizerState => "optimizer state",
    }
}

/// What a category means, for those who ask.
pub(crate) const fn category_meaning(category: Category) -> &'static str {
    match category {
        Category::Parameter => "Trained tensors of the model",
        Category::Buffer => "Running statistics, masks and other untrained state",
        Category::Input => "What the data loader put on the device",
        Category::Activation => "Results of the forward pass, kept for the backward pass",
        Category::Temporary => "Tensors that live only within a forward, a backward or a step",
        Category::Workspace => "Scratch memory of single kernels",
        Category::Gradient => "The .grad of each parameter",
        Category::OptimizerState => "Moments and momentum buffers",
    }
}

/// A phase as it is called on the timeline.
pub(crate) const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "set-up",
        Phase::ZeroGrad => "zero grad",
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Optimizer => "step",
    }
}

/// A phase where there is no room for more.
pub(crate) const fn phase_short(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "set",
        Phase::ZeroGrad => "",
        Phase::Forward => "fwd",
        Phase::Backward => "bwd",
        Phase::Optimizer => "opt",
    }
}

/// How much a diagnostic weighs, in a word.
pub(crate) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "noted",
        Severity::Warning => "uncertain",
        Severity::Error => "missing",
    }
}

/// Nothing could be made of a file.
pub(crate) fn refused(name: &str, reason: &str, kept: Option<&str>) -> Notice {
    let mut detail = match reason.strip_prefix(name) {
        Some(rest) if rest.starts_with(' ') => sentence(&format!("The file{rest}")),
        _ => sentence(reason),
    };
    if let Some(kept) = kept {
        detail = format!("{detail} {kept} is still here.");
    }
    Notice { title: format!("Could not open {name}"), detail, is_error: true }
}

/// The worker died and was started again.
pub(crate) fn restarted(at_fault: Option<&str>, kept: Option<&str>) -> Notice {
    let mut detail = match at_fault {
        Some(name) => {
            format!("{name} made the estimator stop, which no file should: please report it.")
        }
        None => "The last setting made the estimator stop: please report it.".to_owned(),
    };
    detail.push_str(" It was started again");
    detail.push_str(&kept.map_or_else(|| ".".to_owned(), |kept| format!(", with {kept}.")));
    Notice { title: "The estimator had to be restarted".to_owned(), detail, is_error: true }
}

/// The worker does not come back.
pub(crate) fn stopped_for_good() -> Notice {
    Notice {
        title: "The estimator does not start".to_owned(),
        detail: "Reload the page. If that does not help, try a current Firefox, Chrome or Safari."
            .to_owned(),
        is_error: true,
    }
}

/// Something other than one file was dropped.
pub(crate) fn not_a_file() -> Notice {
    Notice {
        title: "That was no file".to_owned(),
        detail: "Drop one file from your computer: a model, or a log with the message.".to_owned(),
        is_error: true,
    }
}

/// Who holds a part of a card, in words.
pub(crate) const fn held(held: Held) -> &'static str {
    match held {
        Held::Allocated => "tensors",
        Held::Unallocated => "cached by PyTorch",
        Held::Context => "CUDA context",
        Held::Others => "other processes",
        Held::Unknown => "not accounted for",
        Held::Free => "free",
    }
}

/// What that means, for those who ask.
pub(crate) const fn held_meaning(held: Held) -> &'static str {
    match held {
        Held::Allocated => "What PyTorch calls allocated: blocks that tensors hold",
        Held::Unallocated => "Reserved and in no tensor: holes between blocks that are in use",
        Held::Context => "CUDA, its libraries and kernels in this process",
        Held::Others => "What other processes on this card have in use",
        Held::Unknown => "The message does not say who has it",
        Held::Free => "What the driver could still have given",
    }
}

/// Where a message's allocation is in the step, first what is most certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where, in a sentence.
    pub(crate) lead: String,
    /// How that is known, or what it means that it was not found.
    pub(crate) detail: String,
    /// Its event on the timeline.
    pub(crate) event: Option<usize>,
    /// Another batch that fits the message.
    pub(crate) batch: Option<(u64, String)>,
}

/// What was found of a message in the step of a report.
pub(crate) fn finding(located: &Located, searching: bool, report: &Report) -> Finding {
    let batch = located.batch.as_ref().map(|(batch, place)| {
        let there = self::place(place.phase, &place.module, &place.operator);
        (*batch, format!("With a batch of {} it would fail {there}.", format::grouped(*batch)))
    });
    let best = located.places.first();
    let lead = match best {
        None if searching => "Not with this batch; trying others…".to_owned(),
        None => "This step has no such allocation at that moment.".to_owned(),
        Some(place) => at(place),
    };
    let fits = report.verdict.verdict.survives();
    let detail = match best {
        Some(place) if place.fits == Match::Fails => sentence(place.fits.about()),
        Some(place) if fits => format!(
            "{} But here the run fits on {}: its batch, its settings or the model differ.",
            sentence(place.fits.about()),
            with_article(&report.verdict.name)
        ),
        Some(place) => sentence(place.fits.about()),
        None if searching => String::new(),
        None => format!(
            "At most {} is allocated here: the run had another batch, other settings or another \
             model.",
            located.peak
        ),
    };
    Finding { lead, detail, event: best.map(|place| place.event), batch }
}

fn at(found: &Place) -> String {
    let there = place(found.phase, &found.module, &found.operator);
    let operator = match (found.operator.as_str(), found.module.as_str()) {
        ("", _) | (_, "") => String::new(),
        (operator, _) => format!(" ({operator})"),
    };
    let iterations: Vec<_> = found.iterations.iter().map(ToString::to_string).collect();
    let of = match iterations.as_slice() {
        [] => String::new(),
        [one] if one == "0" => String::new(),
        [one] => format!(", iteration {one}"),
        all => format!(", iterations {}", all.join(", ")),
    };
    let what = match (&found.tensor, found.name.is_empty()) {
        (_, false) => format!("{} for {}", found.requested, found.name),
        (Some(tensor), true) => format!("{} for {tensor}", found.requested),
        (None, true) => format!("{} of workspace", found.requested),
    };
    let likely = if found.fits == Match::Fails { "" } else { "Likely " };
    sentence(&format!("{likely}{there}{operator}{of}: {what}, with {} allocated", found.allocated))
}

/// A sentence with its capital and its full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut sentence: String =
        letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with(['.', '?', '!', '…']) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::Bytes;
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
        assert_eq!(on_chosen(&fits, Some(LargestBatch::UpTo(118))), "On a T4: up to batch 118.");
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
