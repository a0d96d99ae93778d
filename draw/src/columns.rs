//! One sample per column of pixels, because a finer picture would not be visible.

use highwater_core::report::Timeline;

use crate::pyramid::Pyramid;
use crate::span::Span;

/// For each column of pixels, the position of the sample to draw there.
///
/// Of the samples that fall into a column, the one with the most allocated: peaks survive. A
/// column without samples of its own shows what was there before it.
pub fn columns(timeline: &Timeline, pyramid: &Pyramid, span: Span, width: usize) -> Vec<usize> {
    let samples = timeline.event.len().min(timeline.allocated.len());
    if samples == 0 {
        return Vec::new();
    }
    let sample_at = |event: usize| timeline.event.partition_point(|&at| at < event).min(samples);
    let mut next = sample_at(span.begin);
    let mut columns = Vec::with_capacity(width);
    for column in 1..=width {
        let end = sample_at(span.begin + scaled(span.count(), column, width));
        let shown = pyramid.highest(&timeline.allocated, next, end);
        columns.push(shown.unwrap_or_else(|| next.saturating_sub(1)));
        next = end;
    }
    columns
}

/// `n * part / whole`, without overflow where `usize` has 32 bits.
fn scaled(n: usize, part: usize, whole: usize) -> usize {
    let product = n as u64 * part as u64;
    usize::try_from(product.div_ceil(whole as u64)).unwrap_or(n)
}

/// The column at a share of the width.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a number of pixels"
)]
pub fn column_at(share: f64, columns: usize) -> Option<usize> {
    let last = columns.checked_sub(1)?;
    Some(((share.clamp(0.0, 1.0) * columns as f64) as usize).min(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;

    fn drawn(sizes: &[u64], span: Span, width: usize) -> Vec<u64> {
        let timeline = timeline(sizes, &[]);
        let pyramid = Pyramid::of(&timeline.allocated);
        let columns = columns(&timeline, &pyramid, span, width);
        columns.into_iter().map(|at| timeline.allocated[at].0).collect()
    }

    #[test]
    fn columns_keep_peaks() {
        let all = Span { begin: 0, end: 8 };
        assert_eq!(drawn(&[1, 2, 9, 3, 4, 5, 1, 0], all, 4), [2, 9, 5, 1]);
        assert_eq!(drawn(&[1, 2, 9, 3, 4, 5, 1, 0], all, 8), [1, 2, 9, 3, 4, 5, 1, 0]);
    }

    #[test]
    fn wide_screens_repeat_samples() {
        let all = Span { begin: 0, end: 2 };
        assert_eq!(drawn(&[3, 7], all, 6), [3, 3, 3, 7, 7, 7].map(|n| n));
    }

    #[test]
    fn a_span_in_the_middle_begins_with_what_was_there_before() {
        let mut thinned = timeline(&[5, 6, 7], &[]);
        thinned.event = vec![0, 10, 20];
        thinned.events = 30;
        let pyramid = Pyramid::of(&thinned.allocated);
        assert_eq!(columns(&thinned, &pyramid, Span { begin: 5, end: 25 }, 4), [0, 1, 1, 2]);
    }

    #[test]
    fn nothing_makes_no_columns() {
        let (nothing, none) = (Timeline::default(), Pyramid::default());
        assert!(columns(&nothing, &none, Span { begin: 0, end: 1 }, 100).is_empty());
        assert!(drawn(&[1], Span { begin: 0, end: 1 }, 0).is_empty());
        assert_eq!(column_at(0.5, 0), None);
        assert_eq!(column_at(1.0, 10), Some(9));
        assert_eq!(column_at(-3.0, 10), Some(0));
    }
}
