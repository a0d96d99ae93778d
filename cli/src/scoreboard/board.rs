//! Scores of all estimators, over each source and over all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use highwater_core::Bytes;
use highwater_core::estimators::scores::{Estimated, Measured, Scores, error, median};
use highwater_core::estimators::{ALL, About, Means};

use super::answers::{Answer, Answered, Said};
use super::runs::Run;
use super::sources::Source;

/// Who made an estimate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// Highwater, where the CUDA context that was measured on the machine is known.
    Known,
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
    /// What it is compared with.
    pub(crate) means: Means,
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
            Self::Known => "highwater-known",
            Self::Others(id) => id,
        }
    }

    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Us(at) => ALL[*at].about().name.to_owned(),
            Self::Known => format!("{}, context known", ALL[0].about().name),
            Self::Others(id) => {
                format!("{}, as published", about(id).map_or(id.as_str(), |about| about.name))
            }
        }
    }

    /// What it needs, where that is known.
    pub(crate) fn needs(&self) -> &'static str {
        let id = if *self == Self::Known { ALL[0].about().id } else { self.id() };
        about(id).map_or("", |about| about.needs.name())
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
        let (row, survived, capacity) = (self.run.line, self.run.survived, self.capacity);
        Measured { row, need, survived, capacity }
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
    let point = |by: By, means: Means, bytes: Bytes, survives: bool| {
        let (estimated, need) = (Estimated { bytes, survives }, run.measured.need(means, context));
        Point { source, run, by, means, estimated, from: None, need, capacity, took: None }
    };
    // A figure of tensors has no context, so all estimators get the same one, and fit if the sum does.
    let tensors =
        |by: By, bytes: Bytes| point(by, Means::Tensors, bytes, bytes + context <= capacity);
    let mut points = Vec::new();
    for (at, said) in answer.said.iter().enumerate() {
        let Some(Said { estimate, survives, took }) = *said else { continue };
        let of_it = match ALL[at].about().means {
            Means::Process => {
                let process = point(By::Us(at), Means::Process, estimate.bytes, survives);
                let part = estimate.tensors.map(|bytes| tensors(By::Us(at), bytes));
                [Some(Point { from: estimate.from, ..process }), part]
            }
            Means::Tensors => [Some(tensors(By::Us(at), estimate.bytes)), None],
        };
        points.extend(of_it.into_iter().flatten().map(|point| Point { took, ..point }));
    }
    let known = answer.known.map(|known| known.said);
    points.extend(
        known.map(|said| point(By::Known, Means::Process, said.estimate.bytes, said.survives)),
    );
    for (id, bytes) in &run.published {
        let by = By::Others(id.clone());
        points.push(match about(id).map_or(Means::Process, |about| about.means) {
            Means::Process => point(by, Means::Process, *bytes, *bytes <= capacity),
            Means::Tensors => tensors(by, *bytes),
        });
    }
    // An estimate is scored if there is something to compare it with.
    points.retain(|point| point.need.is_some() || !run.measured.is_known());
    points
}

/// Points of one table.
pub(crate) fn of<'a, 'p>(
    points: &'a [Point<'p>],
    means: Means,
) -> impl Iterator<Item = &'a Point<'p>> + Clone {
    points.iter().filter(move |point| point.means == means)
}

/// Who has an estimate among points: Highwater first, then in the order of [`ALL`], then what others published.
pub(crate) fn all_of<'a>(points: impl Iterator<Item = &'a Point<'a>>) -> Vec<By> {
    let found: BTreeSet<By> = points.map(|point| point.by.clone()).collect();
    let mut found: Vec<By> = found.into_iter().collect();
    found.sort_by_key(|by| *by != By::Us(0));
    found
}

/// A line for each estimator: the smallest median error first, then those without one.
pub(crate) fn lines<'a>(points: &(impl Iterator<Item = &'a Point<'a>> + Clone)) -> Vec<Line> {
    let line = |by: By| {
        let of_it = points.clone().filter(|point| point.by == by);
        let scores = Scores::of(of_it.clone().map(|point| (point.estimated, point.measured())));
        let took = middle(of_it.filter_map(|point| point.took));
        Line { by, scores, took }
    };
    let mut lines: Vec<Line> = all_of(points.clone()).into_iter().map(line).collect();
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
            let means = estimator.about().means;
            let of = |by: By| here().filter(move |point| point.by == by && point.means == means);
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
