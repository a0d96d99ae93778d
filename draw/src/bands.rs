//! Phases as bands below the timeline.

use highwater_core::report::Timeline;
use highwater_core::trace::Phase;

use crate::span::Span;

/// One phase, where it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// 0 for set-up, then 1, 2, 3.
    pub iteration: usize,
    /// Which phase.
    pub phase: Phase,
    /// Its first event.
    pub event: usize,
    /// Left edge, as a share of the width.
    pub left: f64,
    /// Width, as a share of the width.
    pub width: f64,
}

/// The bands of a span, from left to right; phases without events have none.
pub fn bands(timeline: &Timeline, span: Span) -> Vec<Band> {
    let ends = timeline.phases.iter().skip(1).map(|mark| mark.event).chain([timeline.events]);
    timeline
        .phases
        .iter()
        .zip(ends)
        .filter_map(|(mark, end)| {
            let (begin, end) = (mark.event.max(span.begin), end.min(span.end));
            (begin < end).then(|| Band {
                iteration: mark.iteration,
                phase: mark.phase,
                event: mark.event,
                left: span.share(begin),
                width: span.share(end) - span.share(begin),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;

    #[test]
    fn bands_tile_the_span() {
        let timeline = timeline(
            &[1; 10],
            &[
                (0, 0, Phase::Setup),
                (2, 1, Phase::ZeroGrad),
                (2, 1, Phase::Forward),
                (6, 1, Phase::Backward),
            ],
        );
        let shown = |begin, end| {
            bands(&timeline, Span { begin, end })
                .iter()
                .map(|band| format!("{} {:.2}+{:.2}", band.phase.name(), band.left, band.width))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(shown(0, 10), "setup 0.00+0.20, forward 0.20+0.40, backward 0.60+0.40");
        assert_eq!(shown(4, 8), "forward 0.00+0.50, backward 0.50+0.50");
    }
}
