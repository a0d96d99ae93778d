//! Another run on the axes of this one, aligned phase by phase, because its events differ.

use highwater_core::Bytes;
use highwater_core::report::Timeline;

/// Allocated bytes of `other` in each column that shows one of `samples` of `shown`: the most
/// since the column before. A phase that `other` has not is empty.
pub fn sizes(shown: &Timeline, samples: &[usize], other: &Timeline) -> Vec<Bytes> {
    let mut last = None;
    let at = |&sample: &usize| -> Bytes {
        let event = shown.event.get(sample).copied().unwrap_or_default();
        let Some(event) = same_moment(shown, event, other) else {
            last = None;
            return Bytes::ZERO;
        };
        let end = other.event.partition_point(|&sampled| sampled <= event);
        let begin = last.unwrap_or(end).min(end.saturating_sub(1));
        last = Some(end);
        let between = other.allocated.get(begin..end).unwrap_or_default();
        between.iter().copied().max().unwrap_or_default()
    };
    samples.iter().map(at).collect()
}

/// The event of `other` that is as far in the same phase of the same iteration.
fn same_moment(shown: &Timeline, event: usize, other: &Timeline) -> Option<usize> {
    let after = shown.phases.partition_point(|mark| mark.event <= event);
    let (mark, here) = phase(shown, after.checked_sub(1)?)?;
    let same = |place: &usize| {
        let found = other.phases.get(*place);
        found.is_some_and(|found| found.iteration == mark.0 && found.phase == mark.1)
    };
    let (_, there) = phase(other, (0..other.phases.len()).find(same)?)?;
    let share = (event - here.start) as u64 * there.len() as u64 / (here.len() as u64).max(1);
    Some(there.start + usize::try_from(share).ok()?)
}

/// What a phase is, and its events.
fn phase(
    timeline: &Timeline,
    place: usize,
) -> Option<((usize, highwater_core::trace::Phase), std::ops::Range<usize>)> {
    let mark = timeline.phases.get(place)?;
    let end = timeline.phases.get(place + 1).map_or(timeline.events, |next| next.event);
    Some(((mark.iteration, mark.phase), mark.event..end))
}

#[cfg(test)]
mod tests {
    use highwater_core::trace::Phase;

    use crate::samples::timeline;

    #[test]
    fn phases_lie_above_each_other() {
        let phases = [(0, 0, Phase::Setup), (2, 1, Phase::Forward), (6, 1, Phase::Backward)];
        let shown = timeline(&[1; 10], &phases);
        // Twice as many events in its forward, and no backward.
        let other = timeline(&[5, 6, 10, 20, 30, 40, 50, 60, 70, 80], &[phases[0], phases[1]]);
        let columns: Vec<usize> = (0..10).collect();
        let sizes: Vec<u64> =
            super::sizes(&shown, &columns, &other).iter().map(|size| size.0).collect();
        assert_eq!(sizes, [5, 6, 10, 30, 50, 70, 0, 0, 0, 0]);
        // A spike between two columns is seen.
        let wide = timeline(&[1; 10], &[phases[0], phases[1]]);
        let spiky = timeline(&[5, 6, 10, 99, 30, 40, 50, 60, 70, 80], &[phases[0], phases[1]]);
        let sizes: Vec<u64> =
            super::sizes(&wide, &[0, 5], &spiky).iter().map(|size| size.0).collect();
        assert_eq!(sizes, [5, 99]);
    }
}
