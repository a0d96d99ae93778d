//! How long texts take that are written token by token: the prompts are read in one pass, then each token is a pass of
//! its own, which takes longer as the cache grows.

use super::machine::{Launched, Machine};
use super::{Bound, Gpu, Picoseconds, StepTime};
use crate::device::Device;
use crate::eager::Launches;
use crate::eager::launch::Launch;

/// COUNT: passes that are timed, about; between two of them time is a line in the length of the cache.
const TIMED: usize = 16;

/// The operator by which a cache grows.
const CAT: &str = "aten::cat";

/// A time, and the least and the most of nine in ten runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// What is expected.
    pub time: Picoseconds,
    /// The least.
    pub least: Picoseconds,
    /// The most.
    pub most: Picoseconds,
}

/// One call of `generate` on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The GPU.
    pub device: &'static Device,
    /// What decides over times there.
    pub gpu: Gpu,
    /// How kernels come to the device.
    pub launched: Launched,
    /// COUNT: texts at once.
    pub texts: u64,
    /// COUNT: tokens that each text gets.
    pub new_tokens: u64,
    /// The pass that reads the prompts and chooses the first token.
    pub prefill: StepTime,
    /// Some of the passes behind it, by their number from 0, the first and the last among them.
    pub passes: Vec<(u64, StepTime)>,
}

impl Paced {
    /// A time with the interval of its kernels.
    pub fn of(time: &StepTime) -> Self {
        let (least, most) = time.interval();
        Self { time: time.step(), least, most }
    }

    /// The same change of all three.
    fn map(self, change: impl Fn(Picoseconds) -> Picoseconds) -> Self {
        Self { time: change(self.time), least: change(self.least), most: change(self.most) }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |Picoseconds(one): Picoseconds, Picoseconds(two): Picoseconds| {
            Picoseconds(one.saturating_add(two))
        };
        Self {
            time: sum(self.time, other.time),
            least: sum(self.least, other.least),
            most: sum(self.most, other.most),
        }
    }

    /// The sum of `count` times on the line from `self` to `to`, that of `to` excluded.
    fn until(self, to: Self, count: u64) -> Self {
        let sum = |Picoseconds(from): Picoseconds, Picoseconds(to): Picoseconds| {
            let (n, steps) = (i128::from(count), i128::from(count.saturating_sub(1)));
            let rise = i128::from(to).saturating_sub(i128::from(from));
            let rest = rise.saturating_mul(steps).div_euclid(2);
            let all = i128::from(from).saturating_mul(n).saturating_add(rest);
            Picoseconds(u64::try_from(all.max(0)).unwrap_or(u64::MAX))
        };
        Self {
            time: sum(self.time, to.time),
            least: sum(self.least, to.least),
            most: sum(self.most, to.most),
        }
    }

    /// COUNT: a count over the time, for each second, in hundredths: expected, least and most.
    pub fn per_second(self, count: u64) -> [u64; 3] {
        const HUNDREDTHS: u128 = 100_000_000_000_000;
        [self.time, self.most, self.least].map(|Picoseconds(time)| {
            let all = u128::from(count).saturating_mul(HUNDREDTHS);
            let rate = all.div_euclid(u128::from(time.max(1)));
            u64::try_from(rate).unwrap_or(u64::MAX)
        })
    }
}

impl Generation {
    /// The times of a run's kernels on a GPU.
    pub fn of(
        launches: &Launches,
        (device, gpu): (&'static Device, Gpu),
        (texts, new_tokens): (u64, u64),
        launched: Launched,
    ) -> Self {
        let machine = Machine::of(gpu).of_passes(launched);
        // A server writes keys and values in place, where `DynamicCache` copies all of them for each token.
        let copies = launched == Launched::ByPython;
        let is_run = |launch: &&Launch| copies || launches.label(launch.operator) != CAT;
        let of = |kernels: &[Launch]| StepTime::of_kernels(kernels.iter().filter(is_run), &machine);
        let prefill = of(launches.of_prefill());
        let count = launches.passes.len();
        let stride = count.div_ceil(TIMED).max(1);
        let is_timed = |at: usize| at.is_multiple_of(stride) || at.saturating_add(1) == count;
        let passes = launches.passes.iter().enumerate().filter(|(at, _)| is_timed(*at));
        let passes = passes.map(|(at, pass)| (pass.number, of(launches.of_pass(at)))).collect();
        Self { device, gpu, launched, texts, new_tokens, prefill, passes }
    }

    /// The GPU's name, with its form where there are several: `H100 SXM`.
    pub fn name(&self) -> String {
        super::timing::name(self.device, self.gpu)
    }

    /// What most passes wait for; the prefill where there is none behind it.
    pub fn waits_for(&self) -> Bound {
        self.passes.last().map_or(&self.prefill, |(_, time)| time).bound()
    }

    /// The time until each text has its first token, without tokenising and waiting in a queue.
    pub fn first_token(&self) -> Paced {
        Paced::of(&self.prefill)
    }

    /// The time of all passes behind the prefill.
    pub fn decode(&self) -> Paced {
        let mut passes = self.passes.iter().map(|(number, time)| (*number, Paced::of(time)));
        let Some(mut last) = passes.next() else { return Paced::default() };
        let mut sum = Paced::default();
        for next in passes {
            sum = sum.plus(last.1.until(next.1, next.0.saturating_sub(last.0)));
            last = next;
        }
        sum.plus(last.1)
    }

    /// The time of the whole call.
    pub fn total(&self) -> Paced {
        self.first_token().plus(self.decode())
    }

    /// The time between two tokens of a text, on average; `None` where each text gets one token.
    pub fn per_token(&self) -> Option<Paced> {
        let count = self.new_tokens.checked_sub(1).filter(|count| *count > 0)?;
        Some(self.decode().map(|Picoseconds(all)| Picoseconds(all.div_euclid(count))))
    }

    /// The time of the first pass behind the prefill, and of the last.
    pub fn ends(&self) -> Option<[Paced; 2]> {
        let ((_, first), (_, last)) = (self.passes.first()?, self.passes.last()?);
        Some([Paced::of(first), Paced::of(last)])
    }

    /// COUNT: tokens that are written in a second, of all texts, the prefill included, in hundredths: expected, least
    /// and most.
    pub fn tokens_per_second(&self) -> [u64; 3] {
        self.total().per_second(self.texts.saturating_mul(self.new_tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times on a line, of which every fourth is known, add up to those of all.
    #[test]
    fn passes_between_are_on_a_line() {
        let at = |time: u64| {
            let time = Picoseconds(time);
            Paced { time, least: time, most: time }
        };
        let line = |number: u64| 1000 + 6 * number;
        let all: u64 = (0..8).map(line).sum();
        let sum = at(line(0)).until(at(line(4)), 4).plus(at(line(4)).until(at(line(8)), 4));
        assert_eq!(sum.time, Picoseconds(all));
        assert_eq!(at(line(8)).until(at(line(0)), 0), Paced::default());
        assert_eq!(at(500_000_000_000).per_second(3), [600; 3]);
    }
}
