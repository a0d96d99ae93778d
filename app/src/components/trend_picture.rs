//! The picture of needed memory against a size: the GPUs' limits, and two lines below.
//!
//! The canvas has the lines and dots. A drawing above it has the labels and the text of each point; its positions
//! are per cent of the panel.

use highwater_core::Bytes;
use highwater_core::estimate::LargestBatch;
use highwater_draw::pen::Area;
use highwater_draw::ticks::{Ticks, ticks};
use highwater_draw::trend::{Curve, Frame, MARGIN, TrendPoint, crossing, pixels};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlCanvasElement, HtmlElement};

use super::by_hand::find;
use super::canvas::paint;
use crate::model::protocol::Trend;
use crate::words::format::grouped;
use crate::words::language::fill;
use crate::words::levers as words;

/// COUNT: lines across the picture, at most.
const TICKS: u64 = 4;

/// What a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Name of the device.
    pub(super) name: String,
    /// What the process may hold there.
    pub(super) room: Bytes,
    /// The largest batch there, where the curve goes along the batch and it is known.
    pub(super) largest: Option<LargestBatch>,
}

/// What the picture shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    /// The curve.
    pub(super) curve: Trend,
    /// What devices have.
    pub(super) limits: Vec<Limit>,
    /// The size that is set.
    pub(super) size: u64,
    /// What it needs.
    pub(super) need: Bytes,
}

impl Picture {
    fn frame(&self) -> (Frame, Ticks) {
        let rooms: Vec<Bytes> = self.limits.iter().map(|limit| limit.room).collect();
        let frame = Frame::of(&self.curve.points, &rooms);
        (frame, ticks(frame.top, TICKS))
    }

    /// The limits that are within the picture.
    fn shown(&self, top: Bytes) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(move |limit| limit.room <= top)
    }

    /// All labels, and the words behind each point.
    pub(super) fn labels(&self) -> impl IntoView + use<> {
        let (points, (frame, ticks)) = (&self.curve.points, self.frame());
        let mut labels = Vec::new();
        for (n, &at) in ticks.at.iter().enumerate().skip(1) {
            let said = [&ticks.label(n), " ", ticks.unit.name()].concat();
            labels.push(label("trend-tick", (0.0, frame.y(at)), said));
        }
        for point in points.iter().skip(3).step_by(4) {
            let class =
                if point.size == frame.reach { "trend-size trend-left" } else { "trend-size" };
            labels.push(label(class, (frame.x(point.size), 0.0), grouped(point.size)));
        }
        for limit in self.shown(frame.top) {
            let said = [&limit.name, " ", &limit.room.to_string()].concat();
            labels.push(label("trend-name trend-left", (1.0, frame.y(limit.room)), said));
            if let Some((at, said)) = reaches(points, limit) {
                let place = (frame.x(at), frame.y(limit.room));
                let class = if place.0 > 0.3 { "trend-mark trend-left" } else { "trend-mark" };
                labels.push(label(class, place, said));
            }
        }
        let dot = |point: &TrendPoint| {
            let said = words::at_size(&self.curve.dim, point);
            dot((frame.x(point.size), frame.y(point.need)), said)
        };
        let dots = points.iter().map(dot).collect_view();
        view! { <svg aria-hidden="true">{labels} {dots}</svg> }
    }

    /// Draws the lines where they were written. The canvas reaches a margin beyond the picture.
    pub(super) fn paint(&self, plot: &HtmlElement) -> Option<()> {
        let canvas: HtmlCanvasElement = find(plot, "canvas")?.unchecked_into();
        let css = (f64::from(plot.client_width()), f64::from(plot.client_height()));
        let (points, (frame, ticks)) = (&self.curve.points, self.frame());
        let limits: Vec<Bytes> = self.shown(frame.top).map(|limit| limit.room).collect();
        let mark = |limit: &Limit| Some((reaches(points, limit)?.0, limit.room));
        let marks: Vec<_> = self.shown(frame.top).filter_map(mark).collect();
        let now = (self.size, self.need);
        // At zero the style sheet has the edge.
        let ticks = ticks.at.get(1..).unwrap_or_default();
        let curve = Curve { frame, points, ticks, limits: &limits, marks: &marks, now };
        paint(&canvas, (css.0 + 2.0 * MARGIN, css.1 + 2.0 * MARGIN), |pen, all| {
            let margin = pen.pixels(MARGIN);
            let (width, height) = (all.width - 2 * margin, all.height - 2 * margin);
            curve.draw(pen, Area { left: margin, top: margin, width, height })
        })
    }
}

/// `12.3%`.
fn percent(share: f64) -> String {
    let tenths = pixels(share);
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// A text, at a share from the left and one from below.
fn label(class: &'static str, (x, y): (f64, f64), said: String) -> impl IntoView {
    // Above a line, left of where it is crossed, and below it, right of there, the curve is not.
    let dy = match class {
        "trend-tick" | "trend-mark trend-left" => "-6",
        _ => "18",
    };
    view! {
        <text class=class dy=dy x=percent(x) y=percent(1.0 - y)>
            {said}
        </text>
    }
}

/// Shows what is under the pointer.
fn dot((x, y): (f64, f64), said: String) -> impl IntoView {
    view! {
        <circle class="trend-point" r="4" cx=percent(x) cy=percent(1.0 - y)>
            <title>{said}</title>
        </circle>
    }
}

/// How far a device reaches, and what is said of it.
fn reaches(points: &[TrendPoint], limit: &Limit) -> Option<(u64, String)> {
    if let Some(largest) = limit.largest {
        let at = largest.likely.or(largest.without_flush).unwrap_or_default();
        return Some((at, words::largest(largest)));
    }
    let at = crossing(points, limit.room)?;
    let said = fill("about {n}", &[("n", &grouped(at))]);
    Some((at, said))
}
