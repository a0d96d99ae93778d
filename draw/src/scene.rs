//! The data of a drawn timeline, computed once for each report and once for each view of it.

use highwater_core::order::InOrder as _;
use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::{DeviceVerdict, Report, Timeline};
use serde::{Deserialize, Serialize};

use crate::pyramid::Pyramid;
use crate::span::Span;
use crate::stack::Stack;
use crate::ticks::{Ticks, ticks};

/// COUNT: lines across the picture, at most.
const TICKS: u64 = 6;

/// Which part of the run the timeline shows, and how: what a link to it has to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Which part.
    pub part: Part,
    /// What it is stacked by.
    pub stack: Stack,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Where nobody chose: the second iteration, which those after it repeat, if the run is as high
    /// there as anywhere; otherwise all of it.
    #[default]
    Usual,
    /// All of it.
    All,
    /// One iteration, from 1.
    Iteration(usize),
    /// Events from the first to before the second.
    Events(usize, usize),
}

impl Part {
    /// The iteration, where it is one.
    pub const fn iteration(self) -> Option<usize> {
        match self {
            Self::Iteration(iteration) => Some(iteration),
            Self::Usual | Self::All | Self::Events(..) => None,
        }
    }

    /// The part that is shown: what is usual depends on the run.
    #[must_use]
    pub fn resolved(self, timeline: &Timeline) -> Self {
        match self {
            Self::Usual => Span::usual(timeline).map_or(Self::All, Self::Iteration),
            chosen => chosen,
        }
    }

    /// How links state it: an iteration, 0 for all of them, or the first event and the one behind the
    /// last; nothing for what is usual.
    pub const fn numbers(self) -> [Option<usize>; 3] {
        match self {
            Self::Usual => [None; 3],
            Self::All => [Some(0), None, None],
            Self::Iteration(iteration) => [Some(iteration), None, None],
            Self::Events(begin, end) => [None, Some(begin), Some(end)],
        }
    }

    /// What a link states.
    pub const fn of_numbers(numbers: [Option<usize>; 3]) -> Self {
        match numbers {
            [Some(0), ..] => Self::All,
            [Some(iteration), ..] => Self::Iteration(iteration),
            [None, Some(begin), Some(end)] => Self::Events(begin, end),
            _ => Self::Usual,
        }
    }
}

/// What a device leaves to the allocator, as a line across the picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Name of the device.
    pub name: String,
    /// What can be reserved there.
    pub bytes: Bytes,
    /// Whether the run is estimated for this device.
    pub is_chosen: bool,
}

impl Limit {
    /// Of a device.
    pub fn of(device: &DeviceVerdict, is_chosen: bool) -> Self {
        Self { name: device.name.clone(), bytes: device.usable() - device.context, is_chosen }
    }

    /// Whether the picture grows to show it. One far above would press the stack to the ground; the
    /// chosen one may take more of the picture than others.
    const fn is_near(&self, highest: Bytes) -> bool {
        let tenths = if self.is_chosen { 18 } else { 13 };
        self.bytes.0 / tenths <= highest.0 / 10
    }
}

/// What one report needs, whichever part of it is shown.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The report.
    pub report: Arc<Report>,
    pyramid: Pyramid,
    /// Size at the upper edge.
    pub top: Bytes,
    /// Sizes along the edge.
    pub ticks: Ticks,
    /// What devices leave to the allocator, the least first.
    pub limits: Vec<Limit>,
    /// Another run to compare it with.
    pub compared: Option<Arc<Report>>,
}

impl PartialEq for Ground {
    fn eq(&self, other: &Self) -> bool {
        let compared = [self, other].map(|ground| ground.compared.as_ref().map(Arc::as_ptr));
        let is_same = Arc::ptr_eq(&self.report, &other.report) && compared[0] == compared[1];
        is_same && self.limits == other.limits
    }
}

impl Ground {
    /// Of a report, with room for the one that it is compared with, and for limits that are near.
    pub fn of(report: Arc<Report>, compared: Option<Arc<Report>>, mut limits: Vec<Limit>) -> Self {
        limits.order_by_key(|limit| limit.bytes);
        let other = compared.as_ref().map(|compared| compared.peak.allocated);
        let top = top(&report, other, &limits);
        let pyramid = Pyramid::of(&report.timeline.allocated);
        Self { pyramid, top, ticks: ticks(top, TICKS), limits, report, compared }
    }

    /// The samples over time.
    pub fn data(&self) -> &Timeline {
        &self.report.timeline
    }

    /// The whole run.
    pub fn all(&self) -> Span {
        Span::of(self.data(), None)
    }

    /// Position of the sample to draw in each of `width` columns.
    pub fn columns(&self, span: Span, width: usize) -> Vec<usize> {
        crate::columns::columns(self.data(), &self.pyramid, span, width)
    }
}

/// Size at the upper edge of a picture: above everything reserved and the limits that are near.
pub fn top(report: &Report, compared: Option<Bytes>, limits: &[Limit]) -> Bytes {
    let reserved = report.timeline.reserved.iter().copied().max();
    let all = [reserved, Some(report.peak.allocated), compared];
    let highest = all.into_iter().flatten().max().unwrap_or_default();
    let near = limits.iter().filter(|limit| limit.is_near(highest)).map(|limit| limit.bytes);
    let reach = near.max().map_or(highest, |limit| limit.max(highest));
    let percent = if reach > highest { 108 } else { 116 };
    Bytes(reach.0 / 100 * percent).max(Bytes(1))
}

/// A report, and which part of it is shown how.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The report.
    pub ground: Arc<Ground>,
    /// The events that are shown.
    pub span: Span,
    /// What they are stacked by.
    pub stack: Stack,
}

impl Scene {
    /// One view of a report.
    pub fn of(ground: Arc<Ground>, view: View) -> Self {
        Self { span: Span::of_part(ground.data(), view.part), stack: view.stack, ground }
    }

    /// The part of the run that a span is.
    pub fn part(&self, span: Span) -> Part {
        if span == self.ground.all() { Part::All } else { Part::Events(span.begin, span.end) }
    }
}

/// Position of the sample that shows what is so after an event.
pub fn sample_at(data: &Timeline, event: usize) -> Option<usize> {
    data.event.partition_point(|&sampled| sampled <= event).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;
    use highwater_core::trace::Phase;

    #[test]
    fn links_state_every_part() {
        for part in [Part::Usual, Part::All, Part::Iteration(2), Part::Events(3, 9)] {
            assert_eq!(Part::of_numbers(part.numbers()), part);
        }
    }

    #[test]
    fn the_second_iteration_is_usual_where_it_is_as_high() {
        let marks = [(0, 0, Phase::Setup), (2, 1, Phase::Forward), (4, 2, Phase::Forward)];
        let shown = |sizes: &[u64], marks| Part::Usual.resolved(&timeline(sizes, marks));
        assert_eq!(shown(&[1, 1, 9, 1, 9, 1], &marks), Part::Iteration(2));
        assert_eq!(shown(&[1, 1, 9, 1, 8, 1], &marks), Part::All);
        assert_eq!(shown(&[1, 1, 9, 1, 9, 1], &marks[..2]), Part::All);
        assert_eq!(Part::All.resolved(&timeline(&[1], &marks)), Part::All);
    }

    #[test]
    fn limits_that_are_near_are_in_the_picture() {
        let mut spec = "input: [N, 64]\nlayers: [{linear: 256}, relu]\n".as_bytes();
        let model = highwater_core::open(&mut spec, "mlp.yaml").expect("it is a spec");
        let report = model.estimate(&highwater_core::Config::default()).expect("it is estimated");
        let reserved = report.peak.reserved;
        let limit = |factor: u64, is_chosen| Limit {
            name: "GPU".to_owned(),
            bytes: Bytes(reserved.0 / 10 * factor),
            is_chosen,
        };
        let reach = |limits: &[Limit]| top(&report, None, limits).parts_of(reserved, 100);
        assert_eq!(reach(&[]), 116);
        assert_eq!(reach(&[limit(12, false), limit(15, false)]), 130);
        assert_eq!(reach(&[limit(12, false), limit(15, true)]), 162);
        assert_eq!(reach(&[limit(5, true), limit(30, true)]), 116);
    }
}
