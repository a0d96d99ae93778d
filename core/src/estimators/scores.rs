//! Scores of an estimator over measured runs, by the measures that studies of this field use.
//!
//! Errors are in hundredths of a percent. PEF and MCP follow xMem (doi 10.1145/3721462.3770773). Its authors ran every
//! job again under a limit on memory. Here a run fails if its measured need exceeds that limit.

use serde::Serialize;

use crate::bytes::Bytes;

/// What is known about a run that somebody made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The row that states it. Neighbours of one row, such as the batch that fits and the one that does not, are one
    /// question: its verdict is right if all are.
    pub row: u64,
    /// SIZE: what an estimate of the run should be; `None` where only the outcome is known.
    pub need: Option<Bytes>,
    /// Whether the run survived on its device.
    pub survived: bool,
    /// SIZE: memory of the device.
    pub capacity: Bytes,
}

/// What an estimator says about that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// SIZE: its figure.
    pub bytes: Bytes,
    /// Whether it expects the run to survive.
    pub survives: bool,
}

/// The scores of one estimator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scores {
    /// COUNT: runs with an estimate.
    pub runs: u64,
    /// Errors of runs that survived and whose need is known.
    pub errors: Errors,
    /// Rows whose verdicts on whether a run survives are all right.
    pub verdicts: Share,
    /// Probability of estimation failure: runs that a scheduler would lose by trusting the estimate.
    pub failures: Share,
    /// SIZE: memory that a scheduler could give to others, summed over the runs of `failures`.
    #[serde(skip)]
    conserved: u128,
}

/// Absolute errors, in hundredths of a percent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// COUNT: estimates below the measured need.
    pub under: u64,
    /// In ascending order.
    #[serde(skip)]
    sorted: Vec<u64>,
}

/// Some of a number of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// COUNT: these.
    pub part: u64,
    /// COUNT: all.
    pub of: u64,
}

impl Scores {
    /// Scores pairs of an estimate and what was measured.
    pub fn of(pairs: impl IntoIterator<Item = (Estimated, Measured)>) -> Self {
        let mut scores = Self::default();
        let mut last: Option<(u64, bool)> = None;
        for (estimated, measured) in pairs {
            let is_right = estimated.survives == measured.survived;
            last = match last {
                Some((row, so_far)) if row == measured.row => Some((row, so_far && is_right)),
                before => {
                    scores.verdicts.count_row(before);
                    Some((measured.row, is_right))
                }
            };
            scores.add(estimated, measured);
        }
        scores.verdicts.count_row(last);
        scores.errors.sorted.sort_unstable();
        scores
    }

    fn add(&mut self, estimated: Estimated, measured: Measured) {
        self.runs += 1;
        let Measured { need, survived, capacity, .. } = measured;
        let Some(need) = need else { return };
        if survived {
            self.errors.under += u64::from(estimated.bytes < need);
            self.errors.sorted.push(error(estimated.bytes, need).unsigned_abs());
        }
        let saved = match (estimated.bytes <= capacity, survived) {
            (false, false) => Some(capacity),
            (true, true) if granted(estimated.bytes, capacity) >= need => {
                Some(capacity.saturating_sub(estimated.bytes))
            }
            _ => None,
        };
        self.failures.count(saved.is_none());
        self.conserved += u128::from(saved.unwrap_or_default().0);
    }

    /// MCP: the memory that a scheduler conserves per run.
    pub fn conserved(&self) -> Bytes {
        let runs = u128::from(self.failures.of.max(1));
        Bytes(u64::try_from(self.conserved.div_euclid(runs)).unwrap_or(u64::MAX))
    }
}

impl Errors {
    /// COUNT: runs.
    pub fn runs(&self) -> u64 {
        u64::try_from(self.sorted.len()).unwrap_or(u64::MAX)
    }

    /// The error that half of the runs do not exceed.
    pub fn median(&self) -> Option<u64> {
        (!self.sorted.is_empty()).then(|| median(&self.sorted))
    }

    /// The error that 9 in 10 runs do not exceed.
    pub fn ninetieth(&self) -> Option<u64> {
        self.sorted.get((self.sorted.len() * 9).div_ceil(10).checked_sub(1)?).copied()
    }

    /// The largest error.
    pub fn worst(&self) -> Option<u64> {
        self.sorted.last().copied()
    }

    /// The share of estimates below the measured need.
    pub fn under(&self) -> Share {
        Share { part: self.under, of: self.runs() }
    }
}

impl Share {
    /// Counts a row, if there is one.
    fn count_row(&mut self, row: Option<(u64, bool)>) {
        if let Some((_, is_right)) = row {
            self.count(is_right);
        }
    }

    fn count(&mut self, is_part: bool) {
        self.part += u64::from(is_part);
        self.of += 1;
    }

    /// In hundredths of a percent, rounded down; `None` of nothing.
    pub fn hundredths(self) -> Option<u64> {
        self.part.saturating_mul(10_000).checked_div(self.of)
    }
}

/// The error of an estimate, in hundredths of a percent of the truth, to the nearest.
pub fn error(estimate: Bytes, truth: Bytes) -> i64 {
    let off = i128::from(estimate.0) - i128::from(truth.0);
    let truth = i128::from(truth.0).max(1);
    let hundredths = (off.abs() * 10_000 + truth.div_euclid(2)).div_euclid(truth) * off.signum();
    i64::try_from(hundredths).unwrap_or(i64::MAX)
}

/// The element in the middle of sorted numbers, the larger of two; 0 if there is none.
pub fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len().div_euclid(2)).copied().unwrap_or(0)
}

/// Hundredths of a percent as text: `0.61 %`.
pub fn percent(hundredths: u64) -> String {
    format!("{}.{:02} %", hundredths.div_euclid(100), hundredths.rem_euclid(100))
}

/// The limit for a run with such an estimate: `set_per_process_memory_fraction` with two decimals.
fn granted(estimate: Bytes, capacity: Bytes) -> Bytes {
    let (estimate, capacity) = (u128::from(estimate.0), u128::from(capacity.0).max(1));
    let parts = (estimate * 100 + capacity.div_euclid(2)).div_euclid(capacity);
    Bytes(u64::try_from((parts * capacity).div_euclid(100)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Bytes = Bytes(1000);

    /// The scores of one run on a device of 1,000 bytes.
    fn one(bytes: u64, need: Option<u64>, survived: bool) -> Scores {
        let estimated = Estimated { bytes: Bytes(bytes), survives: bytes <= CAPACITY.0 };
        let need = need.map(Bytes);
        Scores::of([(estimated, Measured { row: 1, need, survived, capacity: CAPACITY })])
    }

    #[test]
    fn a_run_fails_if_its_need_exceeds_what_it_was_granted() {
        let outcome = |bytes, need, survived| {
            let scores = one(bytes, Some(need), survived);
            (scores.failures.part == 0, scores.conserved().0)
        };
        assert_eq!(outcome(600, 500, true), (true, 400));
        assert_eq!(outcome(496, 500, true), (true, 504), "rounded to whole percents");
        assert_eq!(outcome(494, 500, true), (false, 0));
        assert_eq!(outcome(1100, 500, true), (false, 0), "it would have fitted");
        assert_eq!(outcome(1100, 990, false), (true, 1000));
        assert_eq!(outcome(900, 990, false), (false, 0));
    }

    #[test]
    fn what_is_not_known_is_not_scored() {
        let of_outcome = one(1100, None, false);
        assert_eq!((of_outcome.verdicts, of_outcome.failures.of), (Share { part: 1, of: 1 }, 0));
        assert_eq!(of_outcome.errors.median(), None);
        assert_eq!(one(700, Some(1000), true).errors.median(), Some(3000));
        assert_eq!(Scores::default().errors.ninetieth(), None);
    }

    #[test]
    fn a_row_is_right_if_all_its_verdicts_are() {
        let run = |row, bytes, survived| {
            let estimated = Estimated { bytes: Bytes(bytes), survives: bytes <= CAPACITY.0 };
            (estimated, Measured { row, need: None, survived, capacity: CAPACITY })
        };
        let of = |runs: &[(Estimated, Measured)]| Scores::of(runs.iter().copied()).verdicts;
        let both = [run(1, 900, true), run(1, 1100, false)];
        assert_eq!(of(&both), Share { part: 1, of: 1 });
        assert_eq!(of(&[run(1, 900, true), run(1, 950, false)]), Share { part: 0, of: 1 });
        assert_eq!(of(&[both[0], both[1], run(2, 1100, true)]), Share { part: 1, of: 2 });
        assert_eq!(of(&[]), Share::default());
    }

    #[test]
    fn percentiles_are_errors_of_runs() {
        let need = Some(Bytes(100));
        let measured = Measured { row: 1, need, survived: true, capacity: CAPACITY };
        let pairs = (1..=20).map(|off| {
            let bytes = if off % 2 == 0 { 100 + off } else { 100 - off };
            (Estimated { bytes: Bytes(bytes), survives: true }, measured)
        });
        let errors = Scores::of(pairs).errors;
        assert_eq!((errors.median(), errors.ninetieth()), (Some(1100), Some(1800)));
        assert_eq!((errors.worst(), errors.under().hundredths()), (Some(2000), Some(5000)));
        assert_eq!(percent(1805), "18.05 %");
        assert_eq!(error(Bytes(1), Bytes::ZERO), 10_000);
    }
}
