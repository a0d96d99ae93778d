//! What the timeline draws, worked out once for each report and once for each view of it.

use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::{Report, Timeline};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
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
            Self::All | Self::Events(..) => None,
        }
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
    /// What the device leaves to the allocator.
    pub limit: Bytes,
    /// Another run to compare it with.
    pub compared: Option<Arc<Report>>,
}

impl PartialEq for Ground {
    fn eq(&self, other: &Self) -> bool {
        let compared = [self, other].map(|ground| ground.compared.as_ref().map(Arc::as_ptr));
        Arc::ptr_eq(&self.report, &other.report) && compared[0] == compared[1]
    }
}

impl Ground {
    /// Of a report, with room for the one that it is compared with.
    pub fn of(report: Arc<Report>, compared: Option<Arc<Report>>) -> Self {
        let highest = report.timeline.reserved.iter().copied().max().unwrap_or_default();
        let other = compared.as_ref().map_or(Bytes::ZERO, |report| report.peak.allocated);
        let highest = highest.max(report.peak.allocated).max(other);
        let limit = report.verdict.capacity - report.verdict.context;
        // A limit far above would press the picture to the ground: it is only named.
        let (reach, percent) =
            if limit.0 <= highest.0 / 5 * 9 { (highest.max(limit), 108) } else { (highest, 116) };
        let top = Bytes(reach.0 / 100 * percent).max(Bytes(1));
        let pyramid = Pyramid::of(&report.timeline.allocated);
        Self { pyramid, top, ticks: ticks(top, TICKS), limit, report, compared }
    }

    /// The samples over time.
    pub fn data(&self) -> &Timeline {
        &self.report.timeline
    }

    /// The limit, where it is within the picture.
    pub fn limit_shown(&self) -> Option<Bytes> {
        Some(self.limit).filter(|&limit| limit <= self.top)
    }

    /// The whole run.
    pub fn all(&self) -> Span {
        Span::of(self.data(), None)
    }

    /// Position of the sample to draw in each of so many columns.
    pub fn columns(&self, span: Span, width: usize) -> Vec<usize> {
        crate::columns::columns(self.data(), &self.pyramid, span, width)
    }
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
