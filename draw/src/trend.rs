//! Needed memory over sizes of a dimension, compared with the memory of GPUs.

use highwater_core::Bytes;
use plotters::prelude::DrawingBackend;
use plotters::style::RGBAColor;
use serde::{Deserialize, Serialize};

use crate::float;
use crate::palette::Ink;
use crate::pen::{Area, Drawn, Pen, Point, whole};

/// What a run needs at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrendPoint {
    /// The size of the dimension.
    pub size: u64,
    /// `max_memory_allocated`.
    pub allocated: Bytes,
    /// `max_memory_reserved`, with unlimited memory.
    pub reserved: Bytes,
    /// That and the CUDA context.
    pub need: Bytes,
}

/// Pixels that a dot on the edge of the picture reaches beyond it.
pub const MARGIN: f64 = 8.0;

/// What is drawn besides labels.
#[derive(Clone, Debug)]
pub struct Curve<'a> {
    /// What the picture shows.
    pub frame: Frame,
    /// The sizes that were tried.
    pub points: &'a [TrendPoint],
    /// Sizes with a line across.
    pub ticks: &'a [Bytes],
    /// What devices have.
    pub limits: &'a [Bytes],
    /// Where curves and limits meet.
    pub marks: &'a [(u64, Bytes)],
    /// The size that is set, and what it needs.
    pub now: (u64, Bytes),
}

impl Curve<'_> {
    /// Draws it.
    ///
    /// # Errors
    /// The backend cannot draw.
    pub fn draw<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>, area: Area) -> Drawn<B> {
        let (line, dash) = (pen.pixels(1.0), pen.pixels(4.0));
        let top = |&bytes: &Bytes| self.place(area, 0, bytes).1;
        let across = |bytes| area.across(top(bytes), line);
        pen.bars(self.ticks.iter().map(across), pen.colour(Ink::Grid))?;
        let dashes = |bytes| {
            let (bar, period) = (across(bytes), usize::try_from(2 * dash).unwrap_or(1));
            let dashed = move |left| Area { left, width: dash.min(bar.right() - left), ..bar };
            (bar.left..bar.right()).step_by(period).map(dashed)
        };
        pen.bars(self.limits.iter().flat_map(dashes), pen.colour(Ink::Soft))?;
        let along = |of: fn(&TrendPoint) -> Bytes| -> Vec<Point> {
            self.points.iter().map(|point| self.place(area, point.size, of(point))).collect()
        };
        let thick = pen.pixels(2.0);
        // No colour of a category: what is allocated is all of them.
        pen.line(along(|point| point.allocated), thick, pen.colour(Ink::Edge))?;
        pen.line(along(|point| point.need), thick, pen.colour(Ink::Text))?;
        for &(size, bytes) in self.marks {
            dot(pen, self.place(area, size, bytes), 5.0, pen.colour(Ink::Text))?;
        }
        let (size, need) = self.now;
        if size > self.frame.reach {
            return Ok(());
        }
        dot(pen, self.place(area, size, need), 7.0, pen.colour(Ink::Accent))
    }

    fn place(&self, area: Area, size: u64, bytes: Bytes) -> Point {
        let x = f64::from(area.width) * self.frame.x(size);
        let y = f64::from(area.height) * (1.0 - self.frame.y(bytes));
        (area.left + whole(x), area.top + whole(y))
    }
}

/// A dot that the ground sets off from what it lies on.
fn dot<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    at: Point,
    radius: f64,
    colour: RGBAColor,
) -> Drawn<B> {
    pen.dot(at, pen.pixels(radius + 1.0), pen.colour(Ink::Ground))?;
    pen.dot(at, pen.pixels(radius - 1.0), colour)
}

/// What the square shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// The largest size.
    pub reach: u64,
    /// The most bytes.
    pub top: Bytes,
}

impl Frame {
    /// All points, and the limits that are not far above them.
    pub fn of(points: &[TrendPoint], limits: &[Bytes]) -> Self {
        let reach = points.last().map_or(1, |point| point.size);
        let highest = points.iter().map(|point| point.need).max().unwrap_or_default();
        let near = limits.iter().filter(|limit| limit.0 <= highest.times(2).0);
        let top = near.copied().max().unwrap_or_default().max(highest).max(Bytes(1));
        // A limit at the top has two lines of text above it.
        Self { reach, top: top + Bytes(top.0 / 6) }
    }

    /// From the left, as a share of the width.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub fn x(&self, size: u64) -> f64 {
        (size as f64 / self.reach.max(1) as f64).min(1.0)
    }

    /// From below, as a share of the height.
    pub fn y(&self, bytes: Bytes) -> f64 {
        (float(bytes) / float(self.top)).min(1.0)
    }
}

/// Round sizes up to the largest, at most so many.
pub fn round_sizes(reach: u64, most: u64) -> Vec<u64> {
    let decades = (0..19).map(|power| 10_u64.pow(power));
    let mut steps =
        decades.flat_map(|decade| [1, 2, 5].map(|factor| decade.saturating_mul(factor)));
    let step = steps.find(|step| reach / step <= most).unwrap_or(u64::MAX);
    (1..=reach / step).map(|n| n * step).collect()
}

/// A share in thousandths.
#[expect(clippy::cast_possible_truncation, reason = "it is at most a thousand")]
pub fn pixels(share: f64) -> i32 {
    (share * 1000.0) as i32
}

/// Where the straight lines between the points cross a limit for the first time; `None` where all stay
/// below it, or none does.
pub fn crossing(points: &[TrendPoint], limit: Bytes) -> Option<u64> {
    let above = points.iter().position(|point| point.need > limit)?;
    let (low, high) = (points.get(above.checked_sub(1)?)?, points.get(above)?);
    let rise = u128::from(high.need.0.saturating_sub(low.need.0)).max(1);
    let wanted = u128::from(limit.0.saturating_sub(low.need.0));
    let step = wanted * u128::from(high.size.saturating_sub(low.size)) / rise;
    Some(low.size.saturating_add(u64::try_from(step).unwrap_or(0)))
}

/// The point nearest to a place, as a share of the width.
pub fn at(points: &[TrendPoint], across: f64) -> Option<TrendPoint> {
    let thousandths = u64::try_from(pixels(across.clamp(0.0, 1.0))).ok()?;
    nearest(points, points.last()?.size.saturating_mul(thousandths) / 1000)
}

/// The point whose size is nearest.
pub fn nearest(points: &[TrendPoint], size: u64) -> Option<TrendPoint> {
    points.iter().copied().min_by_key(|point| point.size.abs_diff(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_lies_below_what_devices_have() {
        let (points, limits) = (line(), [Bytes::mib(600)]);
        let frame = Frame { reach: 8, top: Bytes::mib(1000) };
        let curve = Curve {
            frame,
            points: &points,
            ticks: &[Bytes::mib(500)],
            limits: &limits,
            marks: &[(6, limits[0])],
            now: (2, Bytes::mib(200)),
        };
        let svg = crate::samples::drawn((40, 20), |pen, area| curve.draw(pen, area));
        expect_test::expect![[r##"
            <svg width="40" height="20" viewBox="0 0 40 20" xmlns="http://www.w3.org/2000/svg">
            <rect x="0" y="10" width="40" height="1" opacity="1" fill="#E4E6EA" stroke="none"/>
            <polygon opacity="1" fill="#565D67" points="0,9 0,8 4,8 4,9 0,9 8,9 8,8 12,8 12,9 0,9 16,9 16,8 20,8 20,9 0,9 24,9 24,8 28,8 28,9 0,9 32,9 32,8 36,8 36,9 0,9 "/>
            <polyline fill="none" opacity="1" stroke="#8B929C" stroke-width="2" points="10,18 20,16 40,12 "/>
            <polyline fill="none" opacity="1" stroke="#16191D" stroke-width="2" points="10,16 20,12 40,4 "/>
            <circle cx="30" cy="8" r="6" opacity="1" fill="#FFFFFF" stroke="none" stroke-width="1"/>
            <circle cx="30" cy="8" r="4" opacity="1" fill="#16191D" stroke="none" stroke-width="1"/>
            <circle cx="10" cy="16" r="8" opacity="1" fill="#FFFFFF" stroke="none" stroke-width="1"/>
            <circle cx="10" cy="16" r="6" opacity="1" fill="#3A49C9" stroke="none" stroke-width="1"/>
            </svg>
        "##]].assert_eq(&svg);
    }

    fn line() -> Vec<TrendPoint> {
        let point = |size: u64| TrendPoint {
            size,
            allocated: Bytes::mib(50 * size),
            reserved: Bytes::mib(90 * size),
            need: Bytes::mib(100 * size),
        };
        vec![point(2), point(4), point(8)]
    }

    #[test]
    fn a_limit_is_crossed_between_points() {
        assert_eq!(crossing(&line(), Bytes::mib(600)), Some(6));
        assert_eq!(crossing(&line(), Bytes::mib(400)), Some(4));
        assert_eq!(crossing(&line(), Bytes::mib(900)), None);
        assert_eq!(crossing(&line(), Bytes::mib(100)), None);
        assert_eq!(crossing(&[], Bytes::mib(100)), None);
    }

    #[test]
    fn sizes_along_the_axis_are_round() {
        assert_eq!(round_sizes(132, 7), [20, 40, 60, 80, 100, 120]);
        assert_eq!(round_sizes(1131, 7), [200, 400, 600, 800, 1000]);
        assert_eq!(round_sizes(3, 7), [1, 2, 3]);
        assert!(round_sizes(0, 7).is_empty());
        assert!(round_sizes(u64::MAX, 7).len() <= 7);
    }

    #[test]
    fn the_frame_holds_the_curve_and_limits_that_are_near() {
        let frame = Frame::of(&line(), &[Bytes::mib(1200), Bytes::mib(90_000)]);
        assert_eq!(frame, Frame { reach: 8, top: Bytes::mib(1400) });
        let frame = Frame { reach: 8, top: Bytes::mib(1000) };
        assert!((frame.x(4) - 0.5).abs() < 1e-9 && (frame.y(Bytes::mib(250)) - 0.25).abs() < 1e-9);
        assert_eq!(nearest(&line(), 5).map(|point| point.size), Some(4));
        assert_eq!(nearest(&[], 5), None);
    }
}
