//! The events that a timeline shows.

use highwater_core::report::Timeline;

use crate::scene::Part;

/// Events that the timeline shows: from the first to before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First event shown.
    pub begin: usize,
    /// First event no longer shown.
    pub end: usize,
}

impl Span {
    /// The events of one iteration, or all of them.
    pub fn of(timeline: &Timeline, iteration: Option<usize>) -> Self {
        let all = Self { begin: 0, end: timeline.events.max(1) };
        let Some(iteration) = iteration else { return all };
        let start =
            |n| timeline.phases.iter().find(|mark| mark.iteration == n).map(|mark| mark.event);
        let Some(begin) = start(iteration) else { return all };
        let end = start(iteration + 1).unwrap_or(all.end);
        Self { begin, end: end.max(begin + 1) }
    }

    /// The events of a part of the run; all of them where there is no such part.
    pub fn of_part(timeline: &Timeline, part: Part) -> Self {
        if let Part::Events(begin, end) = part {
            let all = Self::of(timeline, None);
            return Self { begin, end: end.max(begin) }.zoomed(0.5, 1.0, all);
        }
        Self::of(timeline, part.resolved(timeline).iteration())
    }

    /// The second iteration, where the run is as high in it as anywhere.
    pub fn usual(timeline: &Timeline) -> Option<usize> {
        let (all, second) = (Self::of(timeline, None), Self::of(timeline, Some(2)));
        let highest = |span: Self| {
            let samples = timeline.event.iter().zip(&timeline.allocated);
            samples.filter(|&(&event, _)| span.contains(event)).map(|(_, &bytes)| bytes).max()
        };
        (second != all && highest(second) == highest(all)).then_some(2)
    }

    /// COUNT: events shown at least, however near somebody looks.
    const NEAREST: usize = 12;

    /// Whole events from one place on the axis to another, moved and cut to lie within `all`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "events are counted in thousands"
    )]
    pub fn between(from: f64, to: f64, all: Self) -> Self {
        let len = (to - from).abs().round().max(Self::NEAREST as f64) as usize;
        let len = len.min(all.count());
        let begin = (from.min(to).max(0.0).round() as usize).clamp(all.begin, all.end - len);
        Self { begin, end: begin + len }
    }

    /// Shows `factor` times as many events, and leaves the one at this share where it is.
    #[must_use]
    pub fn zoomed(self, about: f64, factor: f64, all: Self) -> Self {
        let (len, here) = (self.float_len() * factor, self.place(about));
        // Widened to the nearest that is allowed before it is placed, so that it does not drift.
        let len = len.max(Self { begin: 0, end: Self::NEAREST }.float_len());
        Self::between(here - about * len, here + (1.0 - about) * len, all)
    }

    /// Shows what lies this share of the width further.
    #[must_use]
    pub fn panned(self, share: f64, all: Self) -> Self {
        Self::between(self.place(share), self.place(1.0 + share), all)
    }

    /// The same if it shows an event, else as many events around it.
    #[must_use]
    pub fn revealing(self, event: usize, all: Self) -> Self {
        if self.contains(event) { self } else { self.panned(self.share(event) - 0.5, all) }
    }

    /// Place on the axis at a share of the width.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub fn place(self, share: f64) -> f64 {
        self.begin as f64 + share * self.float_len()
    }

    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    const fn float_len(self) -> f64 {
        self.count() as f64
    }

    /// COUNT: events shown.
    pub const fn count(self) -> usize {
        self.end - self.begin
    }

    /// Where an event lies, as a share of the width; outside of 0 to 1 when it is not shown.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub fn share(self, event: usize) -> f64 {
        (event as f64 - self.begin as f64) / self.count() as f64
    }

    /// The middle of the place that an event has, as a share of the width.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub fn middle(self, event: usize) -> f64 {
        self.share(event) + 0.5 / self.count() as f64
    }

    /// Whether an event is shown.
    pub const fn contains(self, event: usize) -> bool {
        self.begin <= event && event < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;
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
        assert_eq!(Span::of(&Timeline::default(), None).count(), 1);
    }

    #[test]
    fn looking_nearer_and_further_keeps_what_is_looked_at() {
        let all = Span { begin: 0, end: 1000 };
        let near = all.zoomed(0.25, 0.5, all);
        assert_eq!(near, Span { begin: 125, end: 625 });
        assert_eq!(near.zoomed(0.25, 2.0, all), all);
        assert_eq!(near.zoomed(0.0, 100.0, all), all);
        assert_eq!(near.zoomed(0.5, 0.0, all).count(), Span::NEAREST);
        assert_eq!(near.panned(0.5, all), Span { begin: 375, end: 875 });
        assert_eq!(near.panned(-9.0, all), Span { begin: 0, end: 500 });
        assert_eq!(near.revealing(200, all), near);
        assert_eq!(near.revealing(900, all), Span { begin: 500, end: 1000 });
        assert_eq!(Span::between(70.0, 30.0, all), Span { begin: 30, end: 70 });
        let few = Span { begin: 0, end: 3 };
        assert_eq!(few.zoomed(0.5, 0.1, few), few);
    }

    #[test]
    fn shares_run_from_edge_to_edge() {
        let span = Span { begin: 10, end: 20 };
        assert!((span.share(10) - 0.0).abs() < 1e-12);
        assert!((span.share(15) - 0.5).abs() < 1e-12);
        assert!(!span.contains(20) && span.contains(19));
    }
}
