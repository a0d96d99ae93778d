//! Scores of all estimators, over each source and over all of them.

use std::time::Duration;

use highwater_core::Bytes;
use highwater_core::estimators::scores::{Estimated, Measured, Scores, error, median};
use highwater_core::estimators::{ALL, About, Means};

use super::answers::{Answer, Answered};
use super::runs::Run;
use super::sources::Source;

/// Who made an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// An estimator, by its position in [`ALL`].
    Us(usize),
    /// A system, whose figures others published; by its id.
    Others(String),
}

/// An estimate of a run, with what was measured.
#[derive(Clone, Debug)]
pub(crate) struct Point<'a> {
    pub(crate) source: &'a Source,
    pub(crate) run: &'a Run,
    pub(crate) by: By,
    pub(crate) estimated: Estimated,
    /// The lower end of a range.
    pub(crate) from: Option<Bytes>,
    /// What the figure should be, and the word for it.
    pub(crate) need: Option<(Bytes, &'static str)>,
    pub(crate) capacity: Bytes,
    pub(crate) took: Option<Duration>,
}

/// The scores of an estimator.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) by: By,
    pub(crate) scores: Scores,
    /// How long an estimate takes after the simulation, at the median.
    pub(crate) took: Option<Duration>,
}

/// Figures that others published, compared with ours of the same runs.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    /// The estimator.
    pub(crate) estimator: usize,
    pub(crate) source: String,
    /// COUNT: runs with both figures.
    pub(crate) runs: usize,
    /// Median distance of our figures from theirs, in hundredths of a percent.
    pub(crate) apart: u64,
    /// Scores of their figures and of ours, over these runs.
    pub(crate) theirs: Scores,
    pub(crate) ours: Scores,
}

impl By {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Us(at) => ALL[*at].about().id,
            Self::Others(id) => id,
        }
    }

    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Us(at) => ALL[*at].about().name.to_owned(),
            Self::Others(id) => {
                format!("{}, as published", about(id).map_or(id.as_str(), |about| about.name))
            }
        }
    }

    /// What it needs, where that is known.
    pub(crate) fn needs(&self) -> &'static str {
        about(self.id()).map_or("", |about| about.needs.name())
    }

    pub(crate) const fn is_published(&self) -> bool {
        matches!(self, Self::Others(_))
    }
}

impl Point<'_> {
    pub(crate) const fn measured(&self) -> Measured {
        let need = match self.need {
            Some((need, _)) => Some(need),
            None => None,
        };
        Measured { need, survived: self.run.survived, capacity: self.capacity }
    }

    /// The error in hundredths of a percent; none of a run that failed.
    pub(crate) fn error(&self) -> Option<i64> {
        let (need, _) = self.need.filter(|_| self.run.survived)?;
        Some(error(self.estimated.bytes, need))
    }
}

/// The estimator with an id, where it is one of ours.
fn about(id: &str) -> Option<&'static About> {
    ALL.iter().map(|one| one.about()).find(|about| about.id == id)
}

/// The time that half of them do not exceed.
pub(crate) fn middle(times: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// All estimates of all runs, in the order of the runs.
pub(crate) fn points<'a>(sources: &'a [Source], answers: &[Vec<Answered>]) -> Vec<Point<'a>> {
    let mut points = Vec::new();
    for (source, answers) in sources.iter().zip(answers) {
        for (run, answered) in source.runs.iter().zip(answers) {
            if let Ok(answer) = answered {
                points.extend(of_run(source, run, answer));
            }
        }
    }
    points
}

fn of_run<'a>(source: &'a Source, run: &'a Run, answer: &Answer) -> Vec<Point<'a>> {
    let &Answer { context, capacity, .. } = answer;
    let estimated = answer.said.iter().enumerate().filter_map(|(at, said)| Some((at, (*said)?)));
    let ours = estimated.map(|(at, said)| Point {
        source,
        run,
        by: By::Us(at),
        estimated: Estimated { bytes: said.estimate.bytes, survives: said.survives },
        from: said.estimate.from,
        need: run.measured.need(ALL[at].about().means, context),
        capacity,
        took: said.took,
    });
    let published = run.published.iter().map(|(id, bytes)| {
        let means = about(id).map_or(Means::Process, |about| about.means);
        Point {
            source,
            run,
            by: By::Others(id.clone()),
            estimated: Estimated { bytes: *bytes, survives: *bytes <= capacity },
            from: None,
            need: run.measured.need(means, context),
            capacity,
            took: None,
        }
    });
    // An estimate is scored if there is something to compare it with.
    let is_scored = |point: &Point<'_>| point.need.is_some() || !run.measured.is_known();
    ours.chain(published).filter(is_scored).collect()
}

/// A line for each estimator: the smallest median error first, then those without one.
pub(crate) fn lines<'a>(points: &(impl Iterator<Item = &'a Point<'a>> + Clone)) -> Vec<Line> {
    let mut all: Vec<By> = (0..ALL.len()).map(By::Us).collect();
    for point in points.clone() {
        if !all.contains(&point.by) {
            all.push(point.by.clone());
        }
    }
    let line = |by: By| {
        let of_it = points.clone().filter(|point| point.by == by);
        let scores = Scores::of(of_it.clone().map(|point| (point.estimated, point.measured())));
        let took = middle(of_it.filter_map(|point| point.took));
        Line { by, scores, took }
    };
    let mut lines: Vec<Line> = all.into_iter().map(line).collect();
    let rank = |line: &Line| {
        let Scores { errors, verdicts, .. } = &line.scores;
        let right = verdicts.hundredths().unwrap_or(0);
        (errors.median().unwrap_or(u64::MAX), u64::MAX - right)
    };
    lines.sort_by_key(rank);
    lines
}

/// Published figures and ours of the same runs, for each source and estimator that have both.
pub(crate) fn agreements(sources: &[Source], points: &[Point<'_>]) -> Vec<Agreement> {
    let mut agreements = Vec::new();
    for source in sources {
        let here = || points.iter().filter(|point| point.source.about.id == source.about.id);
        for (at, estimator) in ALL.iter().enumerate() {
            let of = |by: By| here().filter(move |point| point.by == by);
            let theirs: Vec<_> = of(By::Others(estimator.about().id.to_owned())).collect();
            let ours = of(By::Us(at));
            let is_same = |a: &Point<'_>, b: &Point<'_>| std::ptr::eq(a.run, b.run);
            let pairs: Vec<_> = ours
                .filter_map(|ours| Some((ours, *theirs.iter().find(|it| is_same(it, ours))?)))
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let apart = pairs.iter().map(|(ours, theirs)| {
                error(ours.estimated.bytes, theirs.estimated.bytes).unsigned_abs()
            });
            let mut apart: Vec<u64> = apart.collect();
            apart.sort_unstable();
            let pair = |point: &Point<'_>| (point.estimated, point.measured());
            agreements.push(Agreement {
                estimator: at,
                source: source.about.id.clone(),
                runs: pairs.len(),
                apart: median(&apart),
                theirs: Scores::of(pairs.iter().map(|(_, theirs)| pair(theirs))),
                ours: Scores::of(pairs.iter().map(|(ours, _)| pair(ours))),
            });
        }
    }
    agreements
}
