//! Names of things, and how sentences are joined.

use std::fmt::Display;

use highwater_core::Bytes;
use highwater_core::diagnostic::Severity;
use highwater_core::report::Timeline;
use highwater_core::trace::Phase;
use highwater_core::wording::{self, Sentence};
use highwater_draw::segments::{Pool, Totals};

use super::format;
use super::language::{fill, spoken, tr};

/// Where something happens: `in the backward pass of layer1.0.conv2`.
pub(crate) fn place(phase: Phase, module: &str, operator: &str) -> String {
    spoken(&wording::place::place(phase, module, operator))
}

/// `a T4`, `an A100`: by how the first letter is spoken.
pub(crate) fn with_article(name: &str) -> String {
    spoken(&wording::answer::with_article(name))
}

/// A model's name: an example's title, else that of its file without the ending.
pub(crate) fn model_name(file: &str) -> &str {
    let known = crate::model::examples::EXAMPLES.iter().find(|example| example.file == file);
    known.map_or_else(|| wording::answer::model_name(file), |example| example.title)
}

/// A short name of a GPU: `T4`, `V100`, `RTX 4090`, `H100`.
pub(crate) fn short_name(name: &str) -> &str {
    let name =
        name.strip_prefix("GeForce ").or_else(|| name.strip_prefix("Tesla ")).unwrap_or(name);
    let unit = name.strip_suffix(" GB").and_then(|name| name.rsplit_once(' '));
    unit.map_or(name, |(name, _)| name).trim_end_matches(" SXM")
}

/// A phase as it is called on the timeline.
pub(crate) fn phase(phase: Phase) -> String {
    tr(phase.heading())
}

/// A short name of a phase.
pub(crate) fn phase_short(phase: Phase) -> String {
    let short = phase.short();
    if short.is_empty() { String::new() } else { tr(short) }
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

/// `31 segments, 3.35 GiB reserved, 2.90 GiB in use`.
pub(crate) fn segments(totals: &Totals) -> String {
    fill(
        "{segments} segments, {reserved} reserved, {used} in use",
        &[
            ("segments", &format::grouped(totals.segments as u64)),
            ("reserved", &totals.reserved.short()),
            ("used", &totals.used.short()),
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
    let (size, line) = (totals.reserved.short(), line.short());
    let parts: [(&str, &dyn Display); 3] =
        [("n", &totals.segments), ("size", &size), ("line", &line)];
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

/// What a sentence ends with that needs no full stop.
const ENDS: [char; 6] = ['.', '?', '!', '…', '。', '？'];

/// A sentence with its capital, unless it begins with the name of a program, and its full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut sentence = text.trim().to_owned();
    if !sentence.starts_with("nvidia-smi")
        && let Some(first) = sentence.get_mut(..1)
    {
        first.make_ascii_uppercase();
    }
    if !sentence.ends_with(ENDS) {
        sentence.push('.');
    }
    sentence
}

/// A reason of the core as a sentence of the page, with its full stop.
pub(crate) fn stated(reason: &Sentence) -> String {
    let text = spoken(reason);
    let is_whole = text.ends_with(ENDS);
    sentence(&if is_whole { text } else { fill("{what}.", &[("what", &text)]) })
}

/// Joins sentences with spaces, without the empty ones.
pub(super) fn spaced(sentences: &[&str]) -> String {
    let filled: Vec<_> = sentences.iter().copied().filter(|text| !text.is_empty()).collect();
    filled.join(" ")
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn short_names_keep_what_tells_gpus_apart() {
        for (name, expected) in [
            ("T4", "T4"),
            ("Tesla V100 16 GB", "V100"),
            ("GeForce RTX 4090", "RTX 4090"),
            ("A100 80 GB", "A100"),
            ("H100 SXM", "H100"),
        ] {
            assert_eq!(short_name(name), expected);
        }
    }
}
