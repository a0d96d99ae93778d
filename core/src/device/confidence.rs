//! How far a process may be from its estimate: an interval that holds nine runs in ten, and the chance that a run fits.
//!
//! `docs/confidence.md` shows where the figures come from, and how many runs fell inside that they were not taken from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Context;
use crate::bytes::Bytes;

/// What the uncertainty of an estimate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// SIZE: what is expected to be reserved.
    pub reserved: Bytes,
    /// What the process is expected to have in use besides.
    pub context: Context,
    /// The same on one machine in ten, where the machine is unknown.
    pub high_context: Option<Context>,
    /// SIZE: what of the reserved memory is there for workspaces of convolutions. Another cuDNN may take none.
    pub workspaces: Bytes,
    /// SIZE: reserved memory that may be off. None where it was recorded; of several processes less than all, because
    /// they are not off together.
    pub rough: Bytes,
}

/// What nine runs in ten need, on a usual machine and on one whose context is high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// SIZE: one run in twenty needs less on a usual machine.
    pub low: Bytes,
    /// SIZE: one run in twenty needs more, on a machine whose context is high unless the context is known.
    pub high: Bytes,
}

/// A share of runs, and how far from their estimates those at its end are.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Percent of runs that need no more.
    percent: u64,
    /// Thousandths of the distance to the end of the interval.
    distance: u64,
}

/// Below the estimate, the farthest first.
const BELOW: [Level; 4] = [
    Level { percent: 1, distance: 3000 },
    Level { percent: 5, distance: 1000 },
    Level { percent: 10, distance: 740 },
    Level { percent: 25, distance: 420 },
];

/// Above the estimate, the nearest first.
const ABOVE: [Level; 4] = [
    Level { percent: 75, distance: 230 },
    Level { percent: 90, distance: 600 },
    Level { percent: 95, distance: 1000 },
    Level { percent: 99, distance: 5000 },
];

/// Thousandths of the reserved memory: how far below the estimate one run in twenty is.
const RESERVED_BELOW: u64 = 90;

/// Thousandths of the reserved memory: how far above the estimate one run in twenty is.
const RESERVED_ABOVE: u64 = 110;

/// Percent of machines whose context is high: [`super::Device::high_context`].
const HIGH: u64 = 10;

impl Doubt {
    /// SIZE: what is expected.
    pub fn need(&self) -> Bytes {
        self.reserved + self.context.likely
    }

    /// What nine runs in ten need.
    pub fn interval(&self) -> Interval {
        let highest = self.where_high().unwrap_or(*self);
        Interval { low: self.need() - self.below(), high: highest.need() + highest.above() }
    }

    /// Percent: the chance that the process needs no more than this, over all machines that it may run on. What is
    /// expected keeps a chance of 50 %.
    pub fn chance(&self, usable: Bytes) -> u64 {
        let usual = self.chance_by_context(usable);
        let Some(high) = self.where_high() else { return usual };
        let usual = usual.saturating_mul(100_u64.saturating_sub(HIGH));
        let high = high.chance_by_context(usable).saturating_mul(HIGH);
        let both = usual.saturating_add(high).div_euclid(100);
        if usable < self.need() { both } else { both.max(50) }
    }

    /// The same run on a machine whose context is high.
    fn where_high(&self) -> Option<Self> {
        let context = self.high_context?;
        Some(Self { context, high_context: None, ..*self })
    }

    /// Percent: the chance on machines of one kind.
    fn chance_by_context(&self, usable: Bytes) -> u64 {
        let need = self.need();
        let (below, above) = (self.below(), self.above());
        let at = |level: &Level, off: Bytes| part(off, level.distance);
        let less = BELOW.iter().map(|level| (level.percent, need - at(level, below)));
        let more = ABOVE.iter().map(|level| (level.percent, need + at(level, above)));
        let mut last: Option<(u64, Bytes)> = None;
        for (percent, bytes) in less.chain([(50, need)]).chain(more) {
            if usable < bytes {
                let Some((from, least)) = last else { return 0 };
                let part = (usable - least).parts_of(bytes - least, percent.saturating_sub(from));
                return from.saturating_add(part);
            }
            last = Some((percent, bytes));
        }
        100
    }

    /// SIZE: how far below the estimate one run in twenty is.
    fn below(&self) -> Bytes {
        let context = self.context.likely - self.context.least;
        together([part(self.rough, RESERVED_BELOW), self.workspaces, context])
    }

    /// SIZE: how far above the estimate one run in twenty is.
    fn above(&self) -> Bytes {
        let context = self.context.most - self.context.likely;
        together([part(self.rough, RESERVED_ABOVE), Bytes::ZERO, context])
    }

    /// Processes next to each other on one machine, each with the name of what it runs.
    ///
    /// What the machine decides is off by as much in all of them: contexts, and workspaces by the version of cuDNN.
    /// Reserved memory is off in each by itself, but as much wherever the same runs.
    pub fn of_all<'a>(processes: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let none = Context::default();
        let mut all = Self {
            reserved: Bytes::ZERO,
            context: none,
            high_context: None,
            workspaces: Bytes::ZERO,
            rough: Bytes::ZERO,
        };
        let mut rough: BTreeMap<&str, Bytes> = BTreeMap::new();
        let mut high = none;
        for (name, one) in processes {
            all.reserved += one.reserved;
            all.workspaces += one.workspaces;
            all.context = all.context.and(one.context);
            high = high.and(one.high_context.unwrap_or(one.context));
            all.high_context = all.high_context.or(one.high_context);
            *rough.entry(name).or_default() += one.rough;
        }
        all.high_context = all.high_context.map(|_| high);
        all.rough = together(rough.into_values());
        all
    }
}

fn part(bytes: Bytes, thousandths: u64) -> Bytes {
    Bytes(bytes.times(thousandths).0.div_euclid(1000))
}

/// SIZE: causes that are independent of each other, to a KiB: squares of more bytes would be too large.
fn together(causes: impl IntoIterator<Item = Bytes>) -> Bytes {
    let kib = causes.into_iter().map(|cause| cause.0.div_euclid(1024));
    let squares = kib.map(|cause| cause.saturating_mul(cause));
    Bytes::kib(squares.fold(0, u64::saturating_add).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn doubt(reserved: u64, context: [u64; 3]) -> Doubt {
        let [least, likely, most] = context;
        let [least, likely, most] = [Bytes::mib(least), Bytes::mib(likely), Bytes::mib(most)];
        let context = Context { least, likely, most };
        Doubt {
            reserved: Bytes::mib(reserved),
            context,
            high_context: None,
            workspaces: Bytes::ZERO,
            rough: Bytes::mib(reserved),
        }
    }

    /// Two different runs are less uncertain together than two of the same, and both no less likely where one alone
    /// is.
    #[test]
    fn processes_are_off_together_where_they_run_the_same() {
        let one = doubt(10_000, [500; 3]);
        let of = |names: [&str; 2]| Doubt::of_all(names.map(|name| (name, one)));
        let (same, others) = (of(["a", "a"]), of(["a", "b"]));
        assert_eq!((same.need(), others.need()), (Bytes::mib(21_000), Bytes::mib(21_000)));
        assert_eq!(same.rough, Bytes::mib(20_000));
        assert_eq!(others.rough, Bytes::kib(14_481_546));
        assert!(same.interval().high > others.interval().high);
        assert_eq!(Doubt::of_all([("a", one)]), one);
    }

    #[test]
    fn the_chance_rises_with_the_memory() {
        let doubt = doubt(10_000, [400, 500, 650]);
        assert_eq!(doubt.chance(Bytes::mib(10_500)), 50);
        assert_eq!((doubt.chance(Bytes::ZERO), doubt.chance(Bytes::mib(20_000))), (0, 100));
        let chances: Vec<u64> =
            (50..190).map(|part| doubt.chance(Bytes::mib(part * 100))).collect();
        assert!(chances.is_sorted() && chances.contains(&0) && chances.contains(&100));
        let Interval { low, high } = doubt.interval();
        assert_eq!((doubt.chance(low), doubt.chance(high)), (5, 95));
    }

    #[test]
    fn causes_add_up_as_independent_ones() {
        let exact = Doubt { rough: Bytes::ZERO, ..doubt(10_000, [500; 3]) };
        assert_eq!(exact.interval(), Interval { low: exact.need(), high: exact.need() });
        assert_eq!((exact.chance(Bytes::mib(10_499)), exact.chance(Bytes::mib(10_500))), (0, 100));
        let both = doubt(10_000, [0, 600, 1200]).interval();
        let alone = doubt(10_000, [600; 3]).interval();
        assert!(both.low < alone.low && both.low > alone.low - Bytes::mib(600));
        let convolutional =
            Doubt { workspaces: Bytes::mib(3000), ..doubt(10_000, [500; 3]) }.interval();
        assert!(convolutional.low < Bytes::mib(10_500 - 3000));
        assert_eq!(convolutional.high, doubt(10_000, [500; 3]).interval().high);
    }

    /// The interval of an unknown machine reaches from that of a usual one to that of a high one.
    #[test]
    fn an_unknown_machine_may_have_a_high_context() {
        let (usual, high) = (doubt(10_000, [400, 500, 600]), doubt(10_000, [1400, 1575, 1750]));
        let unknown = Doubt { high_context: Some(high.context), ..usual };
        let ends = Interval { low: usual.interval().low, high: high.interval().high };
        assert_eq!((unknown.need(), unknown.interval()), (usual.need(), ends));
        let sizes = (50..190).map(|part| Bytes::mib(part * 100));
        let chances: Vec<u64> = sizes.clone().map(|size| unknown.chance(size)).collect();
        assert!(chances.is_sorted() && chances.contains(&0) && chances.contains(&100));
        for (size, chance) in sizes.zip(chances) {
            assert!(chance <= usual.chance(size) && chance >= high.chance(size), "{size}");
        }
        assert_eq!(unknown.chance(unknown.need()), 50);
        assert!(unknown.chance(ends.high) >= 95);
    }
}
