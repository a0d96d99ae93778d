//! Geometry of the timeline: numbers in, numbers out, no page. Tested natively.

pub(crate) mod bands;
pub(crate) mod columns;
pub(crate) mod svg;
pub(crate) mod ticks;
pub(crate) mod trend;

use highwater_core::report::Timeline;

/// Events that the timeline shows: from the first to before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First event shown.
    pub(crate) begin: usize,
    /// First event no longer shown.
    pub(crate) end: usize,
}

impl Span {
    /// The events of one iteration, or all of them.
    pub(crate) fn of(timeline: &Timeline, iteration: Option<usize>) -> Self {
        let all = Self { begin: 0, end: timeline.events.max(1) };
        let Some(iteration) = iteration else { return all };
        let start =
            |n| timeline.phases.iter().find(|mark| mark.iteration == n).map(|mark| mark.event);
        let Some(begin) = start(iteration) else { return all };
        let end = start(iteration + 1).unwrap_or(all.end);
        Self { begin, end: end.max(begin + 1) }
    }

    /// COUNT: events shown.
    pub(crate) const fn len(self) -> usize {
        self.end - self.begin
    }

    /// Where an event lies, as a share of the width; outside of 0 to 1 when it is not shown.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub(crate) fn share(self, event: usize) -> f64 {
        (event as f64 - self.begin as f64) / self.len() as f64
    }

    /// Whether an event is shown.
    pub(crate) const fn contains(self, event: usize) -> bool {
        self.begin <= event && event < self.end
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use highwater_core::Bytes;
    use highwater_core::report::ByCategory;
    use highwater_core::trace::{Phase, PhaseMark};

    /// A timeline with one sample per size, and marks at `(event, iteration, phase)`.
    pub(crate) fn timeline(sizes: &[u64], marks: &[(usize, usize, Phase)]) -> Timeline {
        Timeline {
            event: (0..sizes.len()).collect(),
            categories: sizes
                .iter()
                .map(|&n| ByCategory { activation: Bytes(n), ..ByCategory::default() })
                .collect(),
            allocated: sizes.iter().copied().map(Bytes).collect(),
            reserved: sizes.iter().map(|_| Bytes(10)).collect(),
            operator: vec![0; sizes.len()],
            module: vec![0; sizes.len()],
            labels: vec![String::new()],
            phases: marks
                .iter()
                .map(|&(event, iteration, phase)| PhaseMark { event, iteration, phase })
                .collect(),
            events: sizes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::timeline;
    use super::*;
    use highwater_core::trace::Phase;

    #[test]
    fn a_span_covers_one_iteration() {
        let timeline = timeline(
            &[1; 10],
            &[(0, 0, Phase::Setup), (2, 1, Phase::Forward), (6, 2, Phase::Forward)],
        );
        assert_eq!(Span::of(&timeline, None), Span { begin: 0, end: 10 });
        assert_eq!(Span::of(&timeline, Some(1)), Span { begin: 2, end: 6 });
        assert_eq!(Span::of(&timeline, Some(2)), Span { begin: 6, end: 10 });
        assert_eq!(Span::of(&timeline, Some(7)), Span { begin: 0, end: 10 });
        assert_eq!(Span::of(&Timeline::default(), None).len(), 1);
    }

    #[test]
    fn shares_run_from_edge_to_edge() {
        let span = Span { begin: 10, end: 20 };
        assert!((span.share(10) - 0.0).abs() < 1e-12);
        assert!((span.share(15) - 0.5).abs() < 1e-12);
        assert!(!span.contains(20) && span.contains(19));
    }
}
