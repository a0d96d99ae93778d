//! The geometry of a curve over sizes: a square of a thousand by a thousand, its origin above.

use highwater_core::Bytes;
use serde::{Deserialize, Serialize};

use super::float;

/// What a run needs at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrendPoint {
    /// The size of the dimension.
    pub(crate) size: u64,
    /// `max_memory_allocated`.
    pub(crate) allocated: Bytes,
    /// `max_memory_reserved`, with unlimited memory.
    pub(crate) reserved: Bytes,
    /// That and the CUDA context.
    pub(crate) need: Bytes,
}

/// What the square shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The largest size.
    pub(crate) reach: u64,
    /// The most bytes.
    pub(crate) top: Bytes,
}

impl Frame {
    /// All points, and the limits that are not far above them.
    pub(crate) fn of(points: &[TrendPoint], limits: &[Bytes]) -> Self {
        let reach = points.last().map_or(1, |point| point.size);
        let highest = points.iter().map(|point| point.need).max().unwrap_or_default();
        let near = limits.iter().filter(|limit| limit.0 <= highest.times(2).0);
        let top = near.copied().max().unwrap_or_default().max(highest).max(Bytes(1));
        Self { reach, top: top + Bytes(top.0 / 12) }
    }

    /// From the left, as a share of the width.
    #[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
    pub(crate) fn x(&self, size: u64) -> f64 {
        (size as f64 / self.reach.max(1) as f64).min(1.0)
    }

    /// From below, as a share of the height.
    pub(crate) fn y(&self, bytes: Bytes) -> f64 {
        (float(bytes) / float(self.top)).min(1.0)
    }

    /// A path through all points, as `d` has it.
    pub(crate) fn path(&self, points: &[TrendPoint], of: fn(&TrendPoint) -> Bytes) -> String {
        let mut path = String::new();
        for point in points {
            path.push(if path.is_empty() { 'M' } else { 'L' });
            for part in [self.x(point.size), 1.0 - self.y(of(point))] {
                path.push_str(&pixels(part).to_string());
                path.push(' ');
            }
        }
        path
    }
}

/// A share in thousandths.
#[expect(clippy::cast_possible_truncation, reason = "it is at most a thousand")]
pub(crate) fn pixels(share: f64) -> i32 {
    (share * 1000.0) as i32
}

/// Where the straight lines between the points cross a limit for the first time; `None` where all stay
/// below it, or none does.
pub(crate) fn crossing(points: &[TrendPoint], limit: Bytes) -> Option<u64> {
    let above = points.iter().position(|point| point.need > limit)?;
    let (low, high) = (points.get(above.checked_sub(1)?)?, points.get(above)?);
    let rise = u128::from(high.need.0.saturating_sub(low.need.0)).max(1);
    let wanted = u128::from(limit.0.saturating_sub(low.need.0));
    let step = wanted * u128::from(high.size.saturating_sub(low.size)) / rise;
    Some(low.size.saturating_add(u64::try_from(step).unwrap_or(0)))
}

/// The point nearest to a place, as a share of the width.
pub(crate) fn at(points: &[TrendPoint], across: f64) -> Option<TrendPoint> {
    let thousandths = u64::try_from(pixels(across.clamp(0.0, 1.0))).ok()?;
    nearest(points, points.last()?.size.saturating_mul(thousandths) / 1000)
}

/// The point whose size is nearest.
pub(crate) fn nearest(points: &[TrendPoint], size: u64) -> Option<TrendPoint> {
    points.iter().copied().min_by_key(|point| point.size.abs_diff(size))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_frame_holds_the_curve_and_limits_that_are_near() {
        let frame = Frame::of(&line(), &[Bytes::mib(1200), Bytes::mib(90_000)]);
        assert_eq!(frame, Frame { reach: 8, top: Bytes::mib(1300) });
        let frame = Frame { reach: 8, top: Bytes::mib(1000) };
        assert_eq!(frame.path(&line(), |point| point.need), "M250 800 L500 600 L1000 199 ");
        assert_eq!(nearest(&line(), 5).map(|point| point.size), Some(4));
        assert_eq!(nearest(&[], 5), None);
    }
}
