//! The picture of needed memory against a size: the GPUs' limits, and two lines below.
//!
//! The canvas has the lines and dots. A drawing above it has the labels and the text of each point; its positions
//! are per cent of the panel.

use highwater_core::Bytes;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::Verdict;
use highwater_draw::pen::Area;
use highwater_draw::ticks::{Ticks, ticks};
use highwater_draw::trend::{Curve, Frame, MARGIN, TrendPoint, crossing, pixels, round_sizes};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlCanvasElement, HtmlElement};

use super::by_hand::find;
use super::canvas::paint;
use crate::model::protocol::Trend;
use crate::words::format::grouped;
use crate::words::keep::largest_batch;
use crate::words::language::fill;
use crate::words::levers as words;
use crate::words::short_name;

/// COUNT: lines across the picture, at most.
const TICKS: u64 = 4;
/// COUNT: sizes along the picture, at most.
const SIZES: u64 = 7;

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
            labels.push(label("trend-tick", (0.0, frame.y(at)), -6, said));
        }
        for size in round_sizes(frame.reach, SIZES) {
            let x = frame.x(size);
            let class = if x > 0.96 { "trend-size trend-left" } else { "trend-size" };
            labels.push(label(class, (x, 0.0), 18, grouped(size)));
        }
        labels.push(label("trend-left", (1.0, 0.0), 36, self.curve.dim.clone()));
        for limit in self.shown(frame.top) {
            let y = frame.y(limit.room);
            let name = [short_name(&limit.name), " ", &limit.room.short()].concat();
            let reached = reaches(points, limit).map(|(at, said)| (frame.x(at), said));
            // The curve is below the line left of where it crosses it, and above it right of there.
            match reached {
                None => labels.push(label("trend-name trend-left", (1.0, y), -6, name)),
                Some((x, said)) if x > 0.5 => {
                    labels.push(label("trend-name trend-left", (x, y), -6, name));
                    labels.push(label("trend-mark trend-left", (x, y), -22, said));
                }
                // A low line has room for one text below it, and the curve is far above its end.
                Some((x, said)) if x < 0.3 => {
                    labels.push(label("trend-mark", (x, y), 18, said));
                    labels.push(label("trend-name trend-left", (1.0, y), -6, name));
                }
                Some((x, said)) => {
                    labels.push(label("trend-mark", (x, y), 18, said));
                    labels.push(label("trend-name", (x, y), 34, name));
                }
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

/// A text, at a share from the left and one from below, moved down by some pixels.
fn label(class: &'static str, (x, y): (f64, f64), down: i32, said: String) -> impl IntoView {
    view! {
        <text class=class dy=down.to_string() x=percent(x) y=percent(1.0 - y)>
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
        return Some((at, largest_batch(largest, Verdict::Fits)));
    }
    let at = crossing(points, limit.room)?;
    let said = fill("about {n}", &[("n", &grouped(at))]);
    Some((at, said))
}
