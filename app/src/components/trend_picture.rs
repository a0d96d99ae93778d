//! The picture of how the need grows: two lines, and what devices have.
//!
//! An outer drawing of the panel's own size, in which places are per cent, holds all labels; one inside,
//! which is stretched, holds the lines.

use highwater_core::Bytes;
use highwater_core::estimate::LargestBatch;

use super::markup::Markup;
use crate::chart::ticks::ticks;
use crate::chart::trend::{Frame, TrendPoint, crossing, pixels};
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

/// The whole picture, with a dot at the size that is set and what it needs.
pub(super) fn draw(markup: &mut Markup, curve: &Trend, limits: &[Limit], size: u64, need: Bytes) {
    let points = &curve.points;
    let bounds: Vec<Bytes> = limits.iter().map(|limit| limit.room).collect();
    let frame = Frame::of(points, &bounds);
    let ticks = ticks(frame.top, TICKS);
    markup.raw("<svg aria-hidden=\"true\"><svg width=\"100%\" height=\"100%\"");
    markup.raw(" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">");
    for &at in &ticks.at {
        level(markup, "trend-grid", frame.y(at));
    }
    let shown = || limits.iter().filter(|limit| limit.room <= frame.top);
    for limit in shown() {
        level(markup, "trend-limit", frame.y(limit.room));
    }
    let (allocated, all) = (frame.path(points, |p| p.allocated), frame.path(points, |p| p.need));
    markup.around("<path class=\"trend-allocated\" d=\"", &allocated, "\"/>");
    markup.around("<path class=\"trend-need\" d=\"", &all, "\"/></svg>");
    for (n, &at) in ticks.at.iter().enumerate().skip(1) {
        let said = [&ticks.label(n), " ", ticks.unit.name()].concat();
        label(markup, "trend-tick", (0.0, frame.y(at)), &said);
    }
    for point in points.iter().skip(3).step_by(4) {
        let class = if point.size == frame.reach { "trend-size trend-left" } else { "trend-size" };
        label(markup, class, (frame.x(point.size), 0.0), &grouped(point.size));
    }
    for limit in shown() {
        let said = [&limit.name, " ", &limit.room.to_string()].concat();
        label(markup, "trend-name trend-left", (1.0, frame.y(limit.room)), &said);
        if let Some((at, said)) = reaches(points, limit) {
            let place = (frame.x(at), frame.y(limit.room));
            let class = if place.0 > 0.3 { "trend-mark trend-left" } else { "trend-mark" };
            dot(markup, "trend-mark-dot", place, "");
            label(markup, class, place, &said);
        }
    }
    for point in points {
        let said = words::at_size(&curve.dim, point);
        dot(markup, "trend-point", (frame.x(point.size), frame.y(point.need)), &said);
    }
    if size <= frame.reach {
        dot(markup, "trend-now", (frame.x(size), frame.y(need)), "");
    }
    markup.raw("</svg>");
}

fn level(markup: &mut Markup, class: &'static str, y: f64) {
    markup.raw("<path class=\"").raw(class).raw("\" d=\"M0 ");
    markup.text(&(1000 - pixels(y)).to_string()).raw("H1000\"/>");
}

/// `x="12.3%" y="45.6%"`, from a share from the left and one from below.
fn place(markup: &mut Markup, names: [&'static str; 2], (x, y): (f64, f64)) {
    for (name, share) in names.into_iter().zip([x, 1.0 - y]) {
        let tenths = pixels(share);
        let percent =
            [(tenths / 10).to_string(), ".".to_owned(), (tenths % 10).to_string()].concat();
        markup.raw(name).around("=\"", &percent, "%\" ");
    }
}

fn label(markup: &mut Markup, class: &'static str, at: (f64, f64), said: &str) {
    // Above a line, left of where it is crossed, and below it, right of there, the curve is not.
    let dy = match class {
        "trend-tick" | "trend-mark trend-left" => "-6",
        _ => "18",
    };
    markup.raw("<text class=\"").raw(class).raw("\" dy=\"").raw(dy).raw("\" ");
    place(markup, ["x", "y"], at);
    markup.around(">", said, "</text>");
}

fn dot(markup: &mut Markup, class: &'static str, at: (f64, f64), said: &str) {
    markup.raw("<circle class=\"").raw(class).raw("\" r=\"4\" ");
    place(markup, ["cx", "cy"], at);
    markup.around("><title>", said, "</title></circle>");
}

/// How far a device reaches, and what is said of it.
fn reaches(points: &[TrendPoint], limit: &Limit) -> Option<(u64, String)> {
    if let Some(largest) = limit.largest {
        let at = largest.without_flush.unwrap_or_default();
        return Some((at, words::largest(&limit.name, largest)));
    }
    let at = crossing(points, limit.room)?;
    let said = fill("{device}: about {n}", &[("device", &limit.name), ("n", &grouped(at))]);
    Some((at, said))
}
