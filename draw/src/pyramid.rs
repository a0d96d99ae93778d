//! Finds the highest sample of any range in a few steps, however long the range is.

use highwater_core::Bytes;

/// Highest samples of stretches of 1, 2, 4, … samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pyramid {
    /// Winners, each of the two at twice its place and behind; samples themselves from the middle.
    winners: Vec<usize>,
}

impl Pyramid {
    /// Of these samples.
    pub fn of(samples: &[Bytes]) -> Self {
        let count = samples.len();
        let mut winners: Vec<usize> = (0..count).chain(0..count).collect();
        for at in (1..count).rev() {
            winners[at] = higher(samples, winners[2 * at], winners[2 * at + 1]);
        }
        Self { winners }
    }

    /// The highest of the samples from `begin` to before `end`, the first of equals.
    pub fn highest(&self, samples: &[Bytes], begin: usize, end: usize) -> Option<usize> {
        self.contest(begin, end, &mut |a, b| higher(samples, a, b))
    }

    fn contest(
        &self,
        begin: usize,
        end: usize,
        higher: &mut dyn FnMut(usize, usize) -> usize,
    ) -> Option<usize> {
        let count = self.winners.len() / 2;
        let (mut left, mut right) = (begin + count, end.min(count) + count);
        let mut best = None;
        while left < right {
            for is_left in [true, false] {
                let at = match is_left {
                    true if left % 2 == 1 => {
                        left += 1;
                        left - 1
                    }
                    false if right % 2 == 1 => {
                        right -= 1;
                        right
                    }
                    _ => continue,
                };
                let winner = self.winners[at];
                best = Some(best.map_or(winner, |best| higher(best, winner)));
            }
            left /= 2;
            right /= 2;
        }
        best
    }
}

fn higher(samples: &[Bytes], a: usize, b: usize) -> usize {
    let rank = |at: usize| (samples.get(at), std::cmp::Reverse(at));
    if rank(a) >= rank(b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_any_stretch_is_found() {
        let samples = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5].map(Bytes);
        let pyramid = Pyramid::of(&samples);
        for begin in 0..samples.len() {
            assert_eq!(pyramid.highest(&samples, begin, begin), None);
            for end in begin + 1..=samples.len() {
                let slow = (begin..end).min_by_key(|&at| std::cmp::Reverse(samples[at]));
                assert_eq!(pyramid.highest(&samples, begin, end), slow, "{begin}..{end}");
            }
        }
        assert_eq!(Pyramid::of(&[]).highest(&[], 0, 3), None);
    }

    #[test]
    fn a_hundred_thousand_samples_are_no_more_work_than_their_pixels() {
        let samples: Vec<_> = (0..100_000_u64).map(|n| Bytes(n * 7919 % 100_003)).collect();
        let pyramid = Pyramid::of(&samples);
        let columns = 1000;
        let mut compared = 0;
        for column in 0..columns {
            let stretch = samples.len() / columns;
            let found = pyramid.contest(column * stretch, (column + 1) * stretch, &mut |a, b| {
                compared += 1;
                higher(&samples, a, b)
            });
            assert!(found.is_some());
        }
        assert!(compared < 14 * columns, "{compared}");
    }
}
