//! Hatching: diagonal stripes between two staircases, as one polygon.

use crate::pen::Point;

/// COUNT: columns that a stripe crosses at least; shorter ones are specks.
const SHORTEST: usize = 3;

/// Stripes that rise to the right where `upper` lies above `lower`: heights from above, one for each
/// pixel from `left`. Stripes are so far `apart` and so `thick`, in pixels along a row.
///
/// The way from one stripe to the next runs along the left edge and comes back as it went.
pub(crate) fn stripes(
    left: i32,
    upper: &[i32],
    lower: &[i32],
    apart: i32,
    thick: i32,
) -> Vec<Point> {
    let columns: Vec<(i32, i32, i32)> =
        (left..).zip(upper).zip(lower).map(|((x, &upper), &lower)| (x, upper, lower)).collect();
    let open = columns.iter().filter(|(_, upper, lower)| upper < lower);
    let (Some(highest), Some(lowest), Some(&(last, ..))) = (
        open.clone().map(|column| column.1).min(),
        open.map(|column| column.2).max(),
        columns.last(),
    ) else {
        return Vec::new();
    };
    let apart = apart.max(1);
    let mut corners = Vec::new();
    // Along a stripe, the distance from the left and the distance from above have one sum.
    let mut sum = (left + highest).div_euclid(apart) * apart;
    while sum <= last + lowest {
        let place = |x: i32| usize::try_from(x - left).unwrap_or(0).min(columns.len());
        let crossed = columns.get(place(sum - lowest)..place(sum - highest + 1));
        let is_open = |&(x, upper, lower): &(i32, i32, i32)| (upper..lower).contains(&(sum - x));
        for run in crossed.unwrap_or_default().chunk_by(|a, b| is_open(a) == is_open(b)) {
            let ([(from, ..), ..], [.., (to, ..)]) = (run, run) else { continue };
            if run.len() < SHORTEST || !run.first().is_some_and(is_open) {
                continue;
            }
            // As thick at its end, and nothing beyond the last column.
            let (from, to) = (*from, (to + 1).min(last + 1 - thick));
            corners.extend([(left, sum - from), (from, sum - from), (from + thick, sum - from)]);
            corners.extend([(to + thick, sum - to), (to, sum - to), (from, sum - from)]);
            corners.push((left, sum - from));
        }
        sum += apart;
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_lie_between_the_stairs() {
        let corners = stripes(10, &[0; 8], &[8, 8, 8, 8, 0, 8, 8, 8], 6, 1);
        let inside = |&(x, y): &Point| (10..=18).contains(&x) && (-1..=8).contains(&y);
        assert!(corners.iter().all(inside), "{corners:?}");
        // Each comes back to the left edge, and the column without room parts them.
        assert_eq!(corners.len() % 7, 0);
        let begins: Vec<Point> = corners.chunks(7).map(|stripe| stripe[1]).collect();
        assert_eq!(begins, [(10, 2), (11, 7), (15, 3)]);
    }

    #[test]
    fn without_room_there_are_none() {
        assert!(stripes(0, &[5, 5], &[5, 5], 6, 1).is_empty());
        assert!(stripes(0, &[], &[], 6, 1).is_empty());
    }
}
