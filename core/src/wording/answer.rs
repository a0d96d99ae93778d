//! The answer: whether a run fits, where it peaks or runs out, and how far the batch can go.

use super::place::place;
use super::{Part, Sentence};
use crate::bytes;
use crate::config::{DataParallel, Method, Ranks, Workload};
use crate::device::Verdict;
use crate::diagnostic::{ASSUMED_DIMENSION, QUANTIZED_WEIGHTS, RECIPE_UNREAD, Severity};
use crate::estimate::LargestBatch;
use crate::infer::SEQUENCE;
use crate::report::{Certainty, DeviceVerdict, Report};
use crate::trace::Category;
use crate::unused::UNUSED;

/// Endings of files that are no part of a model's name.
const ENDINGS: [&str; 16] = [
    ".gz",
    ".onnx",
    ".pt2",
    ".json",
    ".index",
    ".safetensors",
    ".keras",
    ".h5",
    ".yaml",
    ".yml",
    ".toml",
    ".txt",
    ".pickle",
    ".pkl",
    ".pt.trace",
    ".pb",
];

/// Codes of warnings that the headline repeats.
const REPEATED: [&str; 14] = [
    UNUSED,
    QUANTIZED_WEIGHTS,
    "unread-key",
    "assumed-attention",
    "assumed-tied-weights",
    "beyond-positions",
    "beyond-window",
    "data-size",
    "declared-output",
    "declared-value",
    "mixed-types",
    "recipe-not-simulated",
    "recipe-unknown-key",
    RECIPE_UNREAD,
];

/// The answer on the configured device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// Whether it fits, and what it needs.
    pub lead: Sentence,
    /// What follows: the peak, the largest batch, the largest category.
    pub rest: Vec<Sentence>,
}

/// How far the batch can go, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nobody asked, or the model has no batch.
    NotAsked,
    /// The search is not done.
    OnItsWay,
    /// The search found this.
    Found(LargestBatch),
}

/// The answer on the configured device; `largest` is how far the batch can go there, if it is known.
pub fn headline(report: &Report, largest: Option<LargestBatch>) -> Headline {
    headline_with(report, largest.map_or(Reach::NotAsked, Reach::Found))
}

/// The answer on the configured device, with a place for a largest batch that is on its way.
pub fn headline_with(report: &Report, reach: Reach) -> Headline {
    let device = &report.verdict;
    let reach = match reach {
        // How far the batch can go is unknown of a lower bound.
        _ if report.is_open() => None,
        Reach::NotAsked => None,
        Reach::OnItsWay => {
            Some(Sentence::of("Largest batch on {gpu}: ….").with("gpu", with_article(&device.name)))
        }
        Reach::Found(largest) => Some(largest_batch(&device.name, largest)),
    };
    let rest = [
        Some(peak_or_end(report, device)),
        context_is_a_guess(device),
        reach,
        largest_category(report),
    ];
    let rest =
        assumed_sizes(report).into_iter().chain(repeated(report)).chain(rest.into_iter().flatten());
    Headline { lead: lead(report, device), rest: rest.collect() }
}

/// Sizes that neither the file nor the user gives.
fn assumed_sizes(report: &Report) -> Option<Sentence> {
    let mut sizes = String::new();
    for assumed in report.diagnostics.iter().filter(|found| found.code == ASSUMED_DIMENSION) {
        let Some(name) = &assumed.node else { continue };
        let Some(size) = report.config.dims.get(name) else { continue };
        sizes += if sizes.is_empty() { "" } else { ", " };
        sizes += &[name.as_str(), " = ", &size.to_string()].concat();
    }
    (!sizes.is_empty()).then(|| Sentence::of("Assumed: {sizes}.").with("sizes", sizes))
}

/// Warnings that decide how far the answer can be trusted.
fn repeated(report: &Report) -> impl Iterator<Item = Sentence> {
    let weighs = |code: &str| REPEATED.contains(&code);
    let warnings = report
        .diagnostics
        .iter()
        .filter(move |found| found.severity >= Severity::Warning && weighs(&found.code));
    warnings.map(|found| Sentence::of("Warning: {what}.").with("what", found.message.clone()))
}

/// Whether a run fits on a device, and what it needs of what it may use there.
pub fn lead(report: &Report, device: &DeviceVerdict) -> Sentence {
    let (need, usable) = (device.need, device.usable());
    // Rounded, both may read the same although one is more.
    let looks_equal = need > usable && need.short() == usable.short();
    let (is_bound, is_uncertain) = (report.lower_bound, report.uncertain);
    // A recording with a gap is a lower bound, too: it refutes and does not prove.
    let verdict = if report.is_open() { device.verdict.of_lower_bound() } else { device.verdict };
    let english = match verdict {
        Verdict::Fits => "{run} fits on {gpu}: it needs {need}.",
        Verdict::LikelyFits => "{run} likely fits on {gpu} ({chance} %): it needs {need}.",
        Verdict::FitsAfterFlush if looks_equal => {
            "{run} fits on {gpu} only if PyTorch flushes its cache every step (slow): without, it needs \
             {over} more than {usable}."
        }
        Verdict::FitsAfterFlush => {
            "{run} fits on {gpu} only if PyTorch flushes its cache every step (slow): without, it needs \
             {need}."
        }
        Verdict::NotKnown if is_uncertain => "{run} needs about {need} on {gpu}.",
        Verdict::NotKnown => "{run} needs at least {need} on {gpu}.",
        Verdict::LikelyDoesNotFit if looks_equal => {
            "Likely does not fit on {gpu} ({chance} % chance): {run} needs {over} more than {usable}."
        }
        Verdict::LikelyDoesNotFit => {
            "Likely does not fit on {gpu} ({chance} % chance): {run} needs {need}."
        }
        Verdict::DoesNotFit if need <= usable => "{run} does not fit on {gpu}.",
        Verdict::DoesNotFit if looks_equal => {
            "Does not fit on {gpu}: {run} needs {over} more than {usable}."
        }
        Verdict::DoesNotFit if is_uncertain => "Does not fit on {gpu}: {run} needs about {need}.",
        Verdict::DoesNotFit if is_bound => "Does not fit on {gpu}: {run} needs at least {need}.",
        Verdict::DoesNotFit => "Does not fit on {gpu}: {run} needs {need}.",
    };
    let need_of = Part::Of(need, usable);
    let answer = Sentence::of(english).with("run", run(report));
    let answer = match gpus(report) {
        1 => answer.with("gpu", with_article(&device.name)).with("need", need_of),
        gpus => answer
            .with("gpu", Sentence::of("{n} × {gpu}").with("n", gpus).with("gpu", &*device.name))
            .with("need", on_ranks(report, need_of)),
    };
    answer
        .with("over", need - usable)
        .with("usable", usable)
        .with("chance", device.chance.unwrap_or_default())
}

/// What is needed, and by whom of several ranks.
fn on_ranks(report: &Report, need: Part) -> Sentence {
    let config = &report.config;
    // Whole parameters are shared out, so the ranks of ZeRO-1 differ.
    let differ = config.data_parallel == DataParallel::Zero1;
    match config.rank.0 {
        Some(rank) => Sentence::of("{need} on rank {rank}").with("rank", rank),
        None if differ => Sentence::of("{need} on rank {rank}").with("rank", 0_u64),
        None => Sentence::of("{need} on each"),
    }
    .with("need", need)
}

/// COUNT: GPUs that the run is on.
fn gpus(report: &Report) -> u64 {
    let config = &report.config;
    if config.is_parallel() { config.ranks().map_or(1, Ranks::all) } else { 1 }
}

/// `resnet50 at batch 32`, `QLoRA of llama-3.1-8b at batch 1 × 4,096 tokens`, `resnet50 in inference at batch 32`.
fn run(report: &Report) -> Sentence {
    let (model, config) = (&report.model, &report.config);
    let dims = &config.dims;
    let name = match model_name(&model.name) {
        "" => Sentence::of("the model"),
        name => Sentence::name(name),
    };
    let name = match Method::of(config) {
        Method::Full => name,
        method => {
            Sentence::of("{method} of {model}").with("method", method.name()).with("model", name)
        }
    };
    let name = match config.workload {
        Workload::Training => name,
        Workload::Inference => Sentence::of("{model} in inference").with("model", name),
        Workload::Generation => Sentence::of("{model} generating {new} tokens")
            .with("model", name)
            .with("new", config.new_tokens.get()),
    };
    let Some(&batch) = model.batch.as_ref().and_then(|dim| dims.get(dim)) else { return name };
    let run = match dims.get(SEQUENCE) {
        None => Sentence::of("{model} at batch {batch}"),
        Some(&tokens) => {
            Sentence::of("{model} at batch {batch} × {tokens} tokens").with("tokens", tokens)
        }
    };
    run.with("model", name).with("batch", batch)
}

/// The name of a model by that of its file: without its folder and its ending.
pub fn model_name(name: &str) -> &str {
    let mut name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    while let Some(stem) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
        if stem.is_empty() {
            break;
        }
        name = stem;
    }
    name
}

/// Where memory runs out on a device, else how much is allocated at the peak and where.
pub fn peak_or_end(report: &Report, device: &DeviceVerdict) -> Sentence {
    if let Some(failed) = &device.out_of_memory {
        let place = place(failed.phase, &failed.module, &failed.operator);
        return Sentence::of("It runs out {place}.").with("place", place);
    }
    let peak = &report.peak;
    let place = place(peak.phase, &peak.module, &peak.operator);
    let has_happened = report.recorded.as_ref().is_some_and(|run| !run.is_prediction());
    let english = match (has_happened, report.lower_bound) {
        (true, _) if report.timeline.phases.is_empty() => {
            "{size} were allocated and {reserved} reserved at the peak."
        }
        (true, _) => "{size} were allocated and {reserved} reserved at the peak, {place}.",
        (false, true) => "At least {size} are allocated at the peak, {place}.",
        (false, false) => "{size} are allocated at the peak, {place}.",
    };
    Sentence::of(english)
        .with("size", peak.allocated)
        .with("reserved", peak.reserved)
        .with("place", place)
}

/// That the context is a guess, and how to measure it, where a high one would change the answer.
fn context_is_a_guess(device: &DeviceVerdict) -> Option<Sentence> {
    let high = device.decisive_context()?;
    let english = "The CUDA context is a guess, {likely}. On one machine in ten it is up to {high}, and this run does \
                   not fit there. To measure yours, let PyTorch hold one tensor on the GPU, and set the CUDA context to \
                   what nvidia-smi shows for that process.";
    Some(Sentence::of(english).with("likely", device.context).with("high", high))
}

/// A chance in percent; nothing is certain: `> 99 %`.
pub fn chance(percent: u64) -> String {
    match percent {
        0 => "< 1 %".to_owned(),
        100.. => "> 99 %".to_owned(),
        _ => format!("{percent} %"),
    }
}

/// A batch that a search found: `1,172`; `≥ 4,194,303` where it ended at its own limit.
pub fn batch(size: u64) -> String {
    let size_text = bytes::grouped(size);
    if size < LargestBatch::LIMIT { size_text } else { ["≥ ", &size_text].concat() }
}

/// How far the batch can go on a device.
pub fn largest_batch(device: &str, largest: LargestBatch) -> Sentence {
    let LargestBatch { likely, without_flush, .. } = largest;
    let english = match (likely, without_flush, largest.only_with_flush()) {
        (Some(_), Some(_), None) if likely == without_flush => "Largest batch on {gpu}: {likely}.",
        (Some(_), Some(_), None) => {
            "Largest batch on {gpu}: {likely} with a chance of 90 %, {batch} with one of {chance} %."
        }
        // One number is stated once, with the chance that it has.
        (Some(_), _, Some(_)) if likely == without_flush => {
            "Largest batch on {gpu}: {batch} with a chance of {chance} %, or {flushing} if PyTorch flushes its cache."
        }
        (Some(_), _, _) => {
            "Largest batch on {gpu}: {likely} with a chance of 90 %, {batch} with one of {chance} %, or {flushing} if \
             PyTorch flushes its cache."
        }
        (None, Some(_), None) => "Largest batch on {gpu}: {batch}, with a chance of {chance} %.",
        (None, Some(_), Some(_)) => {
            "Largest batch on {gpu}: {batch} with a chance of {chance} %, or {flushing} if PyTorch flushes its cache."
        }
        (None, None, Some(_)) => {
            "Largest batch on {gpu}: {flushing}, and only if PyTorch flushes its cache."
        }
        (None, None, None) => "Not even a batch of 1 fits on {gpu}.",
    };
    Sentence::of(english)
        .with("gpu", with_article(device))
        .with("likely", likely.map_or_else(String::new, batch))
        .with("chance", largest.chance)
        .with("batch", without_flush.map_or_else(String::new, batch))
        .with("flushing", largest.with_flush.map_or_else(String::new, batch))
}

/// What the peak mostly consists of. Nothing where not all of it is known, or what it was for.
pub fn largest_category(report: &Report) -> Option<Sentence> {
    let by_origin = report.recorded.as_ref().is_some_and(|run| run.by_origin);
    if by_origin || report.is_open() {
        return None;
    }
    let (category, bytes) = report.at_peak.largest_first().into_iter().next()?;
    let english = match category {
        Category::Parameter => "Parameters are {share} of the peak.",
        Category::Buffer => "Buffers are {share} of the peak.",
        Category::Input => "The inputs are {share} of the peak.",
        Category::Activation => "Activations are {share} of the peak.",
        Category::Temporary => "Temporaries are {share} of the peak.",
        Category::Workspace => "Workspaces are {share} of the peak.",
        Category::Gradient => "Gradients are {share} of the peak.",
        Category::OptimizerState => "The optimizer state is {share} of the peak.",
        Category::Cache => "Cached keys and values are {share} of the peak.",
        Category::Communication => "Buffers of communication are {share} of the peak.",
    };
    Some(Sentence::of(english).with("share", Part::Share(bytes, report.at_peak.total())))
}

/// How the run ends on several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// COUNT: devices.
    pub all: usize,
    /// COUNT: devices with a verdict so far.
    pub known: usize,
    /// COUNT: devices that the run survives on.
    pub survive: usize,
    /// COUNT: devices that it does not fit on.
    pub fail: usize,
}

impl Devices {
    /// Counts verdicts.
    pub fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut count = Self::default();
        for verdict in verdicts {
            count.all = count.all.saturating_add(1);
            if verdict.survives() {
                count.survive = count.survive.saturating_add(1);
            }
            if verdict.fails() {
                count.fail = count.fail.saturating_add(1);
            }
        }
        Self { known: count.all, ..count }
    }

    /// On how many devices the run fits; nothing where there are not several.
    pub fn sentence(self, is_open: bool) -> Option<Sentence> {
        let Self { all, known, survive, fail } = self;
        if all < 2 {
            return None;
        }
        let english = if known < all {
            "Checking {all} GPUs…"
        } else if fail == all {
            "Does not fit on any of {all} GPUs."
        } else if is_open && fail == 0 {
            "For all {all} GPUs the verdict is unknown."
        } else if is_open {
            "Does not fit on {fail} of {all} GPUs; the verdict for the others is unknown."
        } else if survive == all {
            "Fits on all {all} GPUs."
        } else {
            "Fits on {n} of {all} GPUs."
        };
        Some(Sentence::of(english).with("n", survive).with("all", all).with("fail", fail))
    }
}

/// How much of the peak is how certain.
pub fn certainty(certainty: &Certainty) -> Sentence {
    let Certainty { proven, recovered, assumed, .. } = *certainty;
    let total = certainty.total();
    let share = |bytes| Part::Share(bytes, total);
    let matter = [proven, recovered, assumed].map(|bytes| certainty.matters(bytes));
    let english = match matter {
        _ if proven == total => "The whole peak follows rules proven against PyTorch.",
        [_, false, false] => "{proven} of the peak follows rules proven against PyTorch.",
        [_, true, false] => {
            "{proven} of the peak follows rules proven against PyTorch, and {recovered} follows structure \
             recovered from the file."
        }
        [_, false, true] => {
            "{proven} of the peak follows rules proven against PyTorch, and {assumed} follows assumptions."
        }
        [_, true, true] => {
            "{proven} of the peak follows rules proven against PyTorch, {recovered} follows structure \
             recovered from the file, and {assumed} follows assumptions."
        }
    };
    Sentence::of(english)
        .with("proven", share(proven))
        .with("recovered", share(recovered))
        .with("assumed", share(assumed))
}

/// `a T4`, `an A100`: by how the first letter is spoken.
pub fn with_article(name: &str) -> Sentence {
    let mut letters = name.chars();
    let first = letters.next().unwrap_or('x');
    let spelled = letters.next().is_some_and(|second| !second.is_ascii_lowercase());
    let vowel = if spelled {
        matches!(first, 'A' | 'E' | 'F' | 'H' | 'I' | 'L' | 'M' | 'N' | 'O' | 'R' | 'S' | 'X' | '8')
    } else {
        matches!(first, 'A' | 'E' | 'I' | 'O' | 'U')
    };
    let english = if vowel { "an {gpu}" } else { "a {gpu}" };
    Sentence::of(english).with("gpu", name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(with_article(name).to_string(), spoken);
        }
    }

    #[test]
    fn a_model_is_named_without_its_file() {
        for (file, name) in [
            ("resnet50.onnx", "resnet50"),
            ("models/gpt2.onnx.gz", "gpt2"),
            ("model.safetensors.index.json", "model"),
            ("Llama-3.1-8B", "Llama-3.1-8B"),
            (".json", ".json"),
        ] {
            assert_eq!(model_name(file), name);
        }
    }

    #[test]
    fn the_largest_batch_is_a_sentence() {
        let up_to = |likely, without_flush, with_flush| LargestBatch {
            likely,
            without_flush,
            chance: 56,
            with_flush,
        };
        for (largest, expected) in [
            (up_to(Some(1), Some(1), Some(1)), "Largest batch on a T4: 1."),
            (
                up_to(Some(145), Some(154), Some(154)),
                "Largest batch on a T4: 145 with a chance of 90 %, 154 with one of 56 %.",
            ),
            (
                up_to(Some(145), Some(154), Some(1172)),
                "Largest batch on a T4: 145 with a chance of 90 %, 154 with one of 56 %, or 1,172 if PyTorch flushes \
                 its cache.",
            ),
            (
                LargestBatch { chance: 94, ..up_to(Some(707), Some(707), Some(816)) },
                "Largest batch on a T4: 707 with a chance of 94 %, or 816 if PyTorch flushes its cache.",
            ),
            (up_to(None, Some(1), Some(1)), "Largest batch on a T4: 1, with a chance of 56 %."),
            (
                up_to(None, Some(1), Some(2)),
                "Largest batch on a T4: 1 with a chance of 56 %, or 2 if PyTorch flushes its cache.",
            ),
            (
                up_to(None, None, Some(2)),
                "Largest batch on a T4: 2, and only if PyTorch flushes its cache.",
            ),
            (up_to(None, None, None), "Not even a batch of 1 fits on a T4."),
        ] {
            assert_eq!(largest_batch("T4", largest).to_string(), expected);
        }
    }

    #[test]
    fn the_count_is_honest_while_devices_are_still_looked_at() {
        let text = |count: Devices, is_bound| {
            count.sentence(is_bound).map(|sentence| sentence.to_string()).unwrap_or_default()
        };
        let count = |known, survive| {
            text(Devices { all: 31, known, survive, fail: known - survive }, false)
        };
        assert_eq!(count(3, 3), "Checking 31 GPUs…");
        assert_eq!(count(31, 30), "Fits on 30 of 31 GPUs.");
        assert_eq!(count(31, 31), "Fits on all 31 GPUs.");
        assert_eq!(count(31, 0), "Does not fit on any of 31 GPUs.");
        let bound = |fail| text(Devices { all: 31, known: 31, survive: 0, fail }, true);
        assert_eq!(
            bound(22),
            "Does not fit on 22 of 31 GPUs; the verdict for the others is unknown."
        );
        assert_eq!(bound(0), "For all 31 GPUs the verdict is unknown.");
        assert_eq!(bound(31), "Does not fit on any of 31 GPUs.");
        assert_eq!(text(Devices { all: 1, ..Devices::default() }, false), "");
    }
}
