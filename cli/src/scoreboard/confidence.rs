//! How often the truth lies in our intervals, and our errors by family of models.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use highwater_core::Bytes;
use highwater_core::bytes::grouped;
use highwater_core::device::Interval;
use highwater_core::estimators::Means;
use highwater_core::estimators::scores::{Errors, Scores, Share};

use super::answers::{Answer, Answered};
use super::board::{self, By, Point};
use super::runs::Run;
use super::sources::Source;
use super::tables::or_dash;

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
    fn add(&mut self, need: Bytes, interval: Option<Interval>) {
        let Some(interval) = interval else { return };
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
        or_dash(Share { part, of: self.runs() }.hundredths())
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

/// Whether the constants of the intervals were taken from a family. A model that its row describes has none.
fn was_used(run: &Run) -> bool {
    let sum: u32 = family(run).bytes().map(u32::from).sum();
    run.spec.is_none() && sum.is_multiple_of(2)
}

/// A line about the intervals of all runs; nothing where no need is known.
pub(crate) fn sentence(sources: &[Source], answers: &[Vec<Answered>]) -> String {
    let mut all = Intervals::default();
    for (source, answers) in sources.iter().zip(answers) {
        measured(source, answers).for_each(|(_, need, answer)| all.add(need, answer.interval));
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
    let mut text =
        "| source | families | context | runs | inside | need less | need more |\n".to_owned();
    text += "|---|---|---|---:|---:|---:|---:|\n";
    for (source, answers) in sources.iter().zip(answers) {
        let mut halves: BTreeMap<bool, [Intervals; 2]> = BTreeMap::new();
        for (run, need, answer) in measured(source, answers) {
            let [as_asked, known] = halves.entry(was_used(run)).or_default();
            as_asked.add(need, answer.interval);
            known.add(need, answer.known.and_then(|known| known.interval));
        }
        for (used, halves) in halves {
            for (context, half) in ["not known", "known"].into_iter().zip(halves) {
                text += &line(&source.about.name, used, context, half);
            }
        }
    }
    text
}

fn line(name: &str, used: bool, context: &str, half: Intervals) -> String {
    if half.runs() == 0 {
        return String::new();
    }
    let families = if used { "used" } else { "not used" };
    let [inside, below, above] = [half.inside, half.below, half.above].map(|part| half.share(part));
    let runs = grouped(half.runs());
    format!("| {name} | {families} | {context} | {runs} | {inside} | {below} | {above} |\n")
}

/// Our errors by family of models, the smallest first; families with few runs are one.
pub(crate) fn families(points: &[Point<'_>]) -> String {
    let mut by_family: BTreeMap<&str, Vec<&Point<'_>>> = BTreeMap::new();
    // A source whose context was measured is shown with that context, which is the same for all families.
    let known = points.iter().filter(|point| point.by == By::Known);
    let known: BTreeSet<&str> = known.map(|point| point.source.about.id.as_str()).collect();
    let is_ours = |point: &&Point<'_>| {
        let is_known = known.contains(point.source.about.id.as_str());
        point.by == if is_known { By::Known } else { By::Us(0) }
    };
    let ours = board::of(points, Means::Process).filter(is_ours);
    let ours = ours.filter(|point| point.error().is_some());
    for point in ours.filter(|point| point.run.spec.is_none()) {
        by_family.entry(family(point.run)).or_default().push(point);
    }
    let few: Vec<&Point<'_>> = by_family
        .extract_if(.., |_, points| points.len() < FAMILY_MIN)
        .flat_map(|(_, points)| points)
        .collect();
    by_family.insert("(others)", few);
    let scores = by_family.into_iter().map(|(family, points)| {
        let pairs = points.into_iter().map(|point| (point.estimated, point.measured()));
        (family, Scores::of(pairs).errors)
    });
    let mut scores: Vec<(&str, Errors)> = scores.filter(|(_, errors)| errors.runs() > 0).collect();
    scores.sort_by_key(|(family, errors)| (errors.median(), *family));
    let mut text =
        "| family | runs | median | worst | too low |\n|---|---:|---:|---:|---:|\n".to_owned();
    for (family, errors) in scores {
        let [median, worst] = [errors.median(), errors.worst()].map(or_dash);
        let (runs, low) = (errors.runs(), errors.under);
        writeln!(text, "| {family} | {runs} | {median} | {worst} | {low} |").ok();
    }
    text
}
