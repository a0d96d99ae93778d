//! How long a step takes: sentences and tables ready to be shown, and time as the axis of a timeline.

use highwater_core::report::{Report, Timeline};
use serde::{Deserialize, Serialize};

/// A text of the page, with its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Phrase(pub(crate) String, pub(crate) Vec<(String, String)>);

impl Phrase {
    /// A text without parts.
    pub(crate) fn plain(text: &str) -> Self {
        Self(text.to_owned(), Vec::new())
    }
}

/// How long a step takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// In one sentence.
    pub(crate) lead: Phrase,
    /// PICOSECONDS: of a step.
    pub(crate) step: u64,
    /// COUNT: samples of a step.
    pub(crate) samples: u64,
    /// Whether an epoch is a number of such steps.
    pub(crate) has_epochs: bool,
    /// Figures, each with its name.
    pub(crate) facts: Vec<(Phrase, String)>,
    /// Where the time goes, and on which GPU how much of it.
    pub(crate) sheets: Vec<Sheet>,
    /// What there is to know about them.
    pub(crate) notes: Vec<Phrase>,
    /// PICOSECONDS: when each event that was asked for happens; none where that is not known.
    pub(crate) moments: Vec<u64>,
    /// What most of the time before each was spent on: 1 arithmetic, 2 memory, 3 the host, 0 nothing.
    pub(crate) bounds: Vec<u8>,
}

impl Times {
    /// PICOSECONDS: of a sample.
    pub(crate) fn sample(&self) -> u64 {
        self.step / self.samples.max(1)
    }
}

/// A table with a bar in each row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sheet {
    /// Its title.
    pub(crate) title: Phrase,
    /// The heads of its columns; the first is over the names.
    pub(crate) heads: Vec<Phrase>,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// A row of such a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What it is about.
    pub(crate) name: Phrase,
    /// The GPU that it is about, where it is one: its id.
    pub(crate) gpu: String,
    /// PER MILLE: the length of its bar.
    pub(crate) bar: u64,
    /// Whether it is the one that was chosen.
    pub(crate) chosen: bool,
    /// Its cells.
    pub(crate) cells: Vec<Phrase>,
}

/// Time as the axis of a timeline: events lie where they happen.
///
/// The picture counts in ticks, where it counts in events otherwise. Events at one moment stay apart by a tick each.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The events whose moments are known, and their ticks.
    events: Vec<usize>,
    ticks: Vec<usize>,
    /// PICOSECONDS: of each of them.
    moments: Vec<u64>,
    bounds: Vec<u8>,
}

/// COUNT: ticks of a run for each of its events.
const FINENESS: u64 = 64;

impl Clock {
    /// Of the events of a timeline; `None` where their moments are not known.
    pub(crate) fn of(timeline: &Timeline, times: &Times) -> Option<Self> {
        let Times { moments, bounds, .. } = times;
        let all = *moments.last().filter(|all| **all > 0)?;
        if moments.len() != timeline.event.len() || bounds.len() != moments.len() {
            return None;
        }
        let fine = u128::from(FINENESS) * timeline.events as u128;
        let tick = |(event, moment): (&usize, &u64)| {
            let along = u128::from(*moment) * fine / u128::from(all);
            event + usize::try_from(along).unwrap_or(0)
        };
        let events = timeline.event.clone();
        let ticks = events.iter().zip(moments).map(tick).collect();
        Some(Self { events, ticks, moments: moments.clone(), bounds: bounds.clone() })
    }

    /// Where an event lies.
    pub(crate) fn tick(&self, event: usize) -> usize {
        if event == usize::MAX { event } else { along(&self.events, &self.ticks, event) }
    }

    /// The event at a tick.
    pub(crate) fn event(&self, tick: usize) -> usize {
        along(&self.ticks, &self.events, tick)
    }

    /// PICOSECONDS: the moment of a tick.
    pub(crate) fn moment(&self, tick: usize) -> u64 {
        let at = self.ticks.partition_point(|known| *known < tick).min(self.ticks.len() - 1);
        self.moments[at]
    }

    /// What most of the time between two places was spent on; they are ticks, or else events.
    pub(crate) fn bound(&self, is_ticks: bool, begin: usize, end: usize) -> u8 {
        let axis = if is_ticks { &self.ticks } else { &self.events };
        // What lies before a sample ends with it.
        let first = axis.partition_point(|known| *known <= begin);
        let last = axis.partition_point(|known| *known < end).min(axis.len() - 1);
        let mut spent = [0; 4];
        for at in first..=last {
            let before = at.checked_sub(1).map_or(0, |before| self.moments[before]);
            if let Some(sum) = spent.get_mut(usize::from(self.bounds[at])) {
                *sum += self.moments[at] - before;
            }
        }
        let longest = |best: u8, next: u8| {
            if spent[usize::from(next)] > spent[usize::from(best)] { next } else { best }
        };
        (1..4).fold(0, longest)
    }

    /// A report whose events are ticks.
    pub(crate) fn retimed(&self, report: &Report) -> Report {
        let mut report = report.clone();
        let data = &mut report.timeline;
        data.event.clone_from(&self.ticks);
        data.phases.iter_mut().for_each(|mark| mark.event = self.tick(mark.event));
        data.events = self.tick(data.events);
        report.peak.event = self.tick(report.peak.event);
        for tensor in &mut report.live_at_peak {
            tensor.born = self.tick(tensor.born);
            tensor.dies = tensor.dies.map(|dies| self.tick(dies));
        }
        report
    }
}

/// A place of one axis on another; both grow, and their known places belong together.
fn along(from: &[usize], to: &[usize], place: usize) -> usize {
    let next = from.partition_point(|known| *known < place);
    if from.get(next) == Some(&place) {
        return to[next];
    }
    let begin = next.checked_sub(1).map_or((0, 0), |at| (from[at], to[at]));
    let Some(end) = from.get(next).map(|at| (*at, to[next])) else {
        // Beyond the last, one by one.
        return begin.1 + (place - begin.0);
    };
    let share = (end.1 - begin.1) as u64 * (place - begin.0) as u64 / (end.0 - begin.0) as u64;
    begin.1 + usize::try_from(share).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        let timeline = Timeline { event: vec![0, 1, 2, 6], events: 10, ..Timeline::default() };
        let moments = vec![0, 10, 10, 640];
        let times = Times { moments, bounds: vec![0, 1, 0, 3], ..Times::default() };
        Clock::of(&timeline, &times).expect("all moments are known")
    }

    #[test]
    fn events_lie_where_they_happen_and_apart() {
        let clock = clock();
        let ticks: Vec<usize> = (0..=7).map(|event| clock.tick(event)).collect();
        assert_eq!(ticks, [0, 11, 12, 170, 329, 487, 646, 647]);
        for (event, tick) in ticks.into_iter().enumerate() {
            assert!(clock.event(tick).abs_diff(event) <= 1, "{event}");
        }
        for event in [0, 1, 2, 6] {
            assert_eq!(clock.event(clock.tick(event)), event);
        }
        assert_eq!((clock.moment(11), clock.moment(646)), (10, 640));
        assert_eq!(clock.tick(usize::MAX), usize::MAX);
    }

    #[test]
    fn a_stretch_waits_for_what_took_most_of_it() {
        let clock = clock();
        let bound = |begin, end| clock.bound(false, begin, end);
        assert_eq!([bound(0, 7), bound(0, 1), bound(1, 2), bound(3, 4)], [3, 1, 0, 3]);
        // Within a long stretch nothing happens, and it waits all the same.
        assert_eq!([clock.bound(true, 100, 101), clock.bound(true, 5, 6)], [3, 1]);
    }

    #[test]
    fn other_runs_have_no_clock() {
        let timeline = Timeline { event: vec![0, 1], events: 2, ..Timeline::default() };
        assert!(Clock::of(&timeline, &Times::default()).is_none());
    }
}
