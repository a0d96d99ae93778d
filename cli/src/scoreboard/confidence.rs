//! How often the truth lies in our intervals, and our errors by family of models.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use highwater_core::Bytes;
use highwater_core::bytes::grouped;
use highwater_core::estimators::scores::{Share, error, median};
use highwater_core::estimators::{ALL, Means};

use super::answers::{Answer, Answered};
use super::runs::Run;
use super::sources::Source;
use super::tables::short;

/// COUNT: runs of a family that is listed by itself.
const FAMILY_MIN: usize = 4;

/// Runs, by where the measured need lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Intervals {
    inside: u64,
    below: u64,
    above: u64,
}

impl Intervals {
    fn add(&mut self, (need, answer): (Bytes, &Answer)) {
        let Some(interval) = answer.interval else { return };
        if need < interval.low {
            self.below += 1;
        } else if need > interval.high {
            self.above += 1;
        } else {
            self.inside += 1;
        }
    }

    const fn runs(self) -> u64 {
        self.inside + self.below + self.above
    }

    fn share(self, part: u64) -> String {
        let share = Share { part, of: self.runs() };
        share.hundredths().map_or_else(|| "-".to_owned(), short)
    }
}

/// Runs that survived, whose need is known, with what was measured.
fn measured<'a>(
    source: &'a Source,
    answers: &'a [Answered],
) -> impl Iterator<Item = (&'a Run, Bytes, &'a Answer)> {
    let runs = source.runs.iter().zip(answers).filter(|(run, _)| run.survived);
    runs.filter_map(|(run, answer)| {
        let answer = answer.as_ref().ok()?;
        let (need, _) = run.measured.need(Means::Process, answer.context)?;
        Some((run, need, answer))
    })
}

/// What a model is called before the first digit: `resnet` of `resnet50`.
fn family(run: &Run) -> &str {
    let end = run.model.find(|letter: char| !letter.is_ascii_alphabetic());
    end.map_or(run.model.as_str(), |end| &run.model[..end])
}

/// Whether the constants of the intervals were taken from a family. Perceptrons have none; nothing was taken from them.
fn was_used(source: &Source, run: &Run) -> bool {
    let sum: u32 = family(run).bytes().map(u32::from).sum();
    run.spec.is_none() && source.about.id != "mlp" && sum.is_multiple_of(2)
}

/// A line about the intervals of all runs; nothing where no need is known.
pub(crate) fn sentence(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let mut all = Intervals::default();
    for (source, answers) in sources.iter().zip(answers) {
        measured(source, answers).for_each(|(_, need, answer)| all.add((need, answer)));
    }
    if all.runs() == 0 {
        return String::new();
    }
    format!(
        "Our interval for nine runs in ten holds {} of {} runs; {} need less, {} more.\n",
        all.share(all.inside),
        grouped(all.runs()),
        all.share(all.below),
        all.share(all.above)
    )
}

/// The table of intervals: by source, of families that the constants were taken from and of others.
pub(crate) fn intervals(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let mut text = "| source | families | runs | inside | need less | need more |\n".to_owned();
    text += "|---|---|---:|---:|---:|---:|\n";
    let mut totals: BTreeMap<bool, Intervals> = BTreeMap::new();
    for (source, answers) in sources.iter().zip(answers) {
        let mut halves: BTreeMap<bool, Intervals> = BTreeMap::new();
        for (run, need, answer) in measured(source, answers) {
            let used = was_used(source, run);
            halves.entry(used).or_default().add((need, answer));
            if run.spec.is_none() {
                totals.entry(used).or_default().add((need, answer));
            }
        }
        for (used, half) in halves {
            text += &line(&source.about.name, used, half);
        }
    }
    for (used, half) in totals {
        text += &line("all but perceptrons", used, half);
    }
    text
}

fn line(name: &str, used: bool, half: Intervals) -> String {
    let families = if used { "used" } else { "not used" };
    let [inside, below, above] = [half.inside, half.below, half.above].map(|part| half.share(part));
    format!("| {name} | {families} | {} | {inside} | {below} | {above} |\n", grouped(half.runs()))
}

/// Our errors by family of models, the smallest first; families with few runs are one.
pub(crate) fn families(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let mut errors: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (source, answers) in sources.iter().zip(answers) {
        for (run, need, answer) in measured(source, answers).filter(|(run, ..)| run.spec.is_none())
        {
            let ours = ALL.iter().zip(&answer.said).find(|(one, _)| one.about().id == "highwater");
            if let Some(said) = ours.and_then(|(_, said)| said.as_ref()) {
                errors.entry(family(run)).or_default().push(error(said.estimate.bytes, need));
            }
        }
    }
    let few: Vec<i64> = errors
        .extract_if(.., |_, errors| errors.len() < FAMILY_MIN)
        .flat_map(|(_, errors)| errors)
        .collect();
    errors.insert("(others)", few);
    let mut lines: Vec<(u64, String)> = errors
        .into_iter()
        .filter(|(_, errors)| !errors.is_empty())
        .map(|(family, errors)| of_family(family, &errors))
        .collect();
    lines.sort();
    let mut text =
        "| family | runs | median | worst | too low |\n|---|---:|---:|---:|---:|\n".to_owned();
    text.extend(lines.into_iter().map(|(_, line)| line));
    text
}

/// A line of a family, with its median for the order.
fn of_family(family: &str, errors: &[i64]) -> (u64, String) {
    let mut sizes: Vec<u64> = errors.iter().map(|error| error.unsigned_abs()).collect();
    sizes.sort_unstable();
    let (middle, worst) = (median(&sizes), sizes.last().copied().unwrap_or_default());
    let low = errors.iter().filter(|error| **error < 0).count();
    let mut line = String::new();
    writeln!(
        line,
        "| {family} | {} | {} | {} | {low} |",
        errors.len(),
        short(middle),
        short(worst)
    )
    .ok();
    (middle, line)
}
