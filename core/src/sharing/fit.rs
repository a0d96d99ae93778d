//! Whether the memory of several jobs fits on one card.
//!
//! Each process has a context of its own and keeps what it has reserved, so their peaks add up, whenever they are. What
//! may make them fit nevertheless: a limit for each, at which its allocator gives cached memory back; and an empty cache
//! after each step, which leaves memory to others while their peaks do not meet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::device::{Device, Doubt, Interval, Verdict};
use crate::estimate::{Alone, Held};
use crate::sentence::Sentence;
use crate::time::Share;

/// A job that shares a card.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// Name of what it runs: where two are equal, they are off by as much.
    pub name: &'a str,
    /// What it does alone on this card.
    pub alone: &'a Alone,
}

/// How several jobs end on one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Together {
    /// Their peaks fit at once, with a chance of 95 % or more.
    Fit,
    /// What is expected of all peaks fits.
    LikelyFit,
    /// They fit where each is limited: allocators then give their caches back within steps.
    WithLimits,
    /// They fit most of the time, while their peaks do not meet, where each empties its cache after each step.
    UnlessPeaksMeet,
    /// What could be counted fits, and not everything could be counted.
    NotKnown,
    /// What all hold is more than there is, most of the time.
    DoNotFit,
    /// One of them does not even fit alone.
    NotAlone,
}

impl Together {
    /// The name in JSON: `with-limits`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::LikelyFit => "likely-fit",
            Self::WithLimits => "with-limits",
            Self::UnlessPeaksMeet => "unless-peaks-meet",
            Self::NotKnown => "not-known",
            Self::DoNotFit => "do-not-fit",
            Self::NotAlone => "not-alone",
        }
    }

    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Fit,
        Self::LikelyFit,
        Self::WithLimits,
        Self::UnlessPeaksMeet,
        Self::NotKnown,
        Self::DoNotFit,
        Self::NotAlone,
    ];

    /// In words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::LikelyFit => "likely fit",
            Self::WithLimits => "fit only with limits",
            Self::UnlessPeaksMeet => "do not fit unless peaks do not meet",
            Self::NotKnown => "not known",
            Self::DoNotFit => "do not fit",
            Self::NotAlone => "one does not fit alone",
        }
    }

    /// Percent of the time: peaks that meet more often are no way to share a card.
    const RARELY: u32 = 50;
}

/// What there is to know of several jobs' memory on one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The card.
    pub device: &'static Device,
    /// COUNT: jobs.
    pub jobs: usize,
    /// How they end.
    pub verdict: Together,
    /// Percent: the chance that all peaks fit at once; `None` where an answer may be far off.
    pub chance: Option<u64>,
    /// SIZE: what is expected of all peaks, contexts included.
    pub need: Bytes,
    /// What nine times in ten they need together; `None` where an answer may be far off.
    pub interval: Option<Interval>,
    /// SIZE: what there is for all of them.
    pub usable: Bytes,
    /// SIZE: what they need where each is limited to the least with which it survives, contexts included.
    pub least: Bytes,
    /// The part of the time in which they would hold more than there is, where each empties its cache after each step
    /// and steps begin at any time.
    pub meet: Share,
    /// What each may reserve, so that none takes what another needs; none where that is not enough.
    pub limits: Vec<Limit>,
}

/// What one of several processes may reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// SIZE: reserved memory.
    pub reserved: Bytes,
    /// Its part of the card's memory, for `torch.cuda.set_per_process_memory_fraction`.
    pub fraction: Share,
    /// Whether it is less than the peak, so that the allocator gives cached memory back within steps, which takes time.
    pub flushes: bool,
}

impl Fit {
    /// How jobs end together on a card that each was asked about alone; `None` where there is none.
    pub fn of(jobs: &[Tenant<'_>]) -> Option<Self> {
        let first = jobs.first()?.alone;
        let verdicts = || jobs.iter().map(|job| &job.alone.verdict);
        let capacity = verdicts().map(|verdict| verdict.capacity).min()?;
        let others = verdicts().map(|verdict| verdict.other_processes).max()?;
        let usable = capacity - others;
        let doubt = Doubt::of_all(jobs.iter().map(|job| (job.name, job.alone.doubt)));
        let contexts = doubt.context.likely;
        let leasts = jobs.iter().map(|job| job.alone.least);
        let least = leasts.fold(contexts, |sum, least| sum + least);
        let is_open = jobs.iter().any(|job| job.alone.is_open);
        let chance = (!is_open).then(|| doubt.chance(usable));
        let meet = meet(jobs, contexts, usable);
        let rarely = Share(Together::RARELY.saturating_mul(100));
        let verdict = match doubt.need() <= usable {
            _ if verdicts().any(|verdict| verdict.verdict.fails()) => Together::NotAlone,
            true if is_open => Together::NotKnown,
            true if chance.is_some_and(|chance| Verdict::of_chance(chance) == Verdict::Fits) => {
                Together::Fit
            }
            true => Together::LikelyFit,
            false if least <= usable && !is_open => Together::WithLimits,
            false if meet <= rarely && !is_open => Together::UnlessPeaksMeet,
            false => Together::DoNotFit,
        };
        Some(Self {
            device: first.device,
            jobs: jobs.len(),
            verdict,
            chance,
            need: doubt.need(),
            interval: (!is_open).then(|| doubt.interval()),
            usable,
            least,
            meet,
            limits: limits(jobs, usable - contexts, capacity),
        })
    }

    /// How they end, for people, without a full stop.
    pub fn sentence(&self) -> Sentence {
        let Self { jobs, need, usable, least, .. } = self;
        let card = self.device.name;
        match self.verdict {
            Together::Fit => say!(
                "{jobs} jobs fit on {card}: their peaks need {need}, and there are {usable}",
                jobs,
                card,
                need,
                usable
            ),
            Together::LikelyFit => say!(
                "{jobs} jobs likely fit on {card}: their peaks need {need}, and there are {usable}",
                jobs,
                card,
                need,
                usable
            ),
            Together::WithLimits => say!(
                "{jobs} jobs fit on {card} only with limits: their peaks need {need}, and there are {usable}; with the \
                 limits below, allocators give cached memory back and {least} are enough, which takes time",
                jobs,
                card,
                need,
                usable,
                least
            ),
            Together::UnlessPeaksMeet => say!(
                "{jobs} jobs do not fit on {card} unless each calls `torch.cuda.empty_cache()` after each step and their \
                 peaks do not meet, as they do {meet} of the time: their peaks need {need}, and there are {usable}",
                jobs,
                card,
                meet = self.meet.to_string(),
                need,
                usable
            ),
            Together::NotKnown => say!(
                "whether {jobs} jobs fit on {card} is not known: what could be counted needs {need}, and there are \
                 {usable}",
                jobs,
                card,
                need,
                usable
            ),
            Together::NotAlone => {
                say!(
                    "{jobs} jobs do not fit on {card}: one of them does not even fit alone",
                    jobs,
                    card
                )
            }
            Together::DoNotFit => say!(
                "{jobs} jobs do not fit on {card}: they need {need}, and there are {usable}",
                jobs,
                card,
                need,
                usable
            ),
        }
    }
}

/// The part of the time in which jobs hold more than there is, contexts included: steps begin at any time, independent
/// of each other.
fn meet(jobs: &[Tenant<'_>], contexts: Bytes, usable: Bytes) -> Share {
    /// COUNT: parts of the time that are told apart.
    const WHOLE: u64 = 1 << 30;
    /// COUNT: sizes that are told apart below what there is.
    const SIZES: u64 = 4096;
    let grain = usable.0.div_euclid(SIZES).max(1);
    let mut sums = BTreeMap::from([(contexts.0.div_ceil(grain), WHOLE)]);
    for job in jobs {
        let held = &job.alone.held;
        let all: u64 = held.iter().map(|held| held.time.0).fold(0, u64::saturating_add).max(1);
        // A job without a step holds its peak all the time.
        let peak = [Held { bytes: job.alone.doubt.reserved, time: crate::time::Picoseconds(1) }];
        let held = if held.is_empty() { &peak[..] } else { held };
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for (&sum, &weight) in &sums {
            for Held { bytes, time } in held {
                let part = u128::from(weight).saturating_mul(u128::from(time.0));
                let part = u64::try_from(part.div_euclid(u128::from(all))).unwrap_or(WHOLE);
                let size = sum.saturating_add(bytes.0.div_ceil(grain)).min(SIZES.saturating_mul(2));
                let weights = next.entry(size).or_default();
                *weights = weights.saturating_add(part);
            }
        }
        sums = next;
    }
    let all = sums.values().copied().fold(0, u64::saturating_add).max(1);
    let over = sums.range(SIZES.saturating_add(1)..).map(|(_, weight)| *weight);
    let over = over.fold(0, u64::saturating_add);
    let parts = Bytes(over).parts_of(Bytes(all), u64::from(Share::ALL));
    Share(u32::try_from(parts).unwrap_or(Share::ALL))
}

/// Shares out what may be reserved: to each its peak, or the least with which it survives, and of the rest what is in
/// proportion to the difference of both.
fn limits(jobs: &[Tenant<'_>], room: Bytes, capacity: Bytes) -> Vec<Limit> {
    let sum = |of: fn(&Alone) -> Bytes| jobs.iter().map(|job| of(job.alone)).sum::<Bytes>();
    let peaks = sum(|alone| alone.doubt.reserved);
    let leasts = sum(|alone| alone.least);
    if leasts > room {
        return Vec::new();
    }
    let fits = peaks <= room;
    let (taken, all) = if fits { (peaks, peaks) } else { (leasts, peaks - leasts) };
    let limit = |job: &Tenant<'_>| {
        let (peak, least) = (job.alone.doubt.reserved, job.alone.least);
        let (own, weight) = if fits { (peak, peak) } else { (least, peak - least) };
        let spare = u128::from((room - taken).0).saturating_mul(u128::from(weight.0));
        let spare = spare.div_euclid(u128::from(all.0.max(1)));
        let reserved = own + Bytes(u64::try_from(spare).unwrap_or(u64::MAX));
        let fraction = reserved.parts_of(capacity, u64::from(Share::ALL));
        let fraction = Share(u32::try_from(fraction).unwrap_or(Share::ALL));
        Limit { reserved, fraction, flushes: reserved < peak }
    };
    jobs.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::device::{self, Context, Room};
    use crate::report::DeviceVerdict;
    use crate::time::Picoseconds;

    const CAPACITY: Bytes = Bytes::mib(10_000);

    /// A job that reserves so many MiB, and holds so many for so long in each step; its context is 500 MiB.
    fn job(reserved: u64, least: u64, held: &[(u64, u64)]) -> Alone {
        let device = device::find("t4").expect("it is in the table");
        let context = Context::about(Bytes::mib(500));
        let config = Config {
            device: device.id.to_owned(),
            capacity: Some(CAPACITY),
            context: Some(context.likely),
            ..Config::default()
        };
        let room = Room::of(device, &config);
        let doubt = room.doubt(Bytes::mib(reserved), Bytes::ZERO);
        let held = held
            .iter()
            .map(|&(mib, time)| Held { bytes: Bytes::mib(mib), time: Picoseconds(time) });
        Alone {
            device,
            verdict: DeviceVerdict::by_peak(&doubt, device, &room),
            doubt,
            is_open: false,
            least: Bytes::mib(least),
            held: held.collect(),
            timing: None,
            runs: Vec::new(),
        }
    }

    fn fit(jobs: &[(&str, Alone)]) -> Fit {
        let tenants: Vec<_> = jobs.iter().map(|(name, alone)| Tenant { name, alone }).collect();
        Fit::of(&tenants).expect("there are jobs")
    }

    #[test]
    fn peaks_add_up() {
        for (reserved, expected) in [
            (2000, Together::Fit),
            (4400, Together::LikelyFit),
            (4600, Together::WithLimits),
            (9600, Together::NotAlone),
        ] {
            let one = job(reserved, reserved - 200, &[(reserved, 1)]);
            let found = fit(&[("a", one.clone()), ("b", one)]);
            assert_eq!(found.verdict, expected, "{reserved}");
            assert_eq!(found.need, Bytes::mib(2 * (reserved + 500)));
        }
    }

    /// Each holds 6,000 MiB for a quarter of a step and 2,000 for the rest: both hold 6,000 in a sixteenth of the time.
    #[test]
    fn peaks_meet_as_often_as_they_last() {
        let one = job(6000, 6000, &[(2000, 3), (6000, 1)]);
        let found = fit(&[("a", one.clone()), ("b", one)]);
        assert_eq!((found.verdict, found.meet), (Together::UnlessPeaksMeet, Share(625)));
        let always = job(6000, 6000, &[(6000, 1)]);
        let found = fit(&[("a", always.clone()), ("b", always)]);
        assert_eq!((found.verdict, found.meet), (Together::DoNotFit, Share(Share::ALL)));
    }

    /// Limits leave to each what it needs, and are all that there is.
    #[test]
    fn limits_share_the_card_out() {
        let of = |jobs: &[(&str, Alone)]| {
            let limits = fit(jobs).limits;
            limits.iter().map(|limit| (limit.reserved.0 >> 20, limit.flushes)).collect::<Vec<_>>()
        };
        let (large, small) = (job(6000, 5000, &[]), job(1500, 1400, &[]));
        assert_eq!(of(&[("a", large.clone()), ("b", small)]), [(7200, false), (1800, false)]);
        let other = job(4000, 3500, &[]);
        assert_eq!(of(&[("a", large.clone()), ("b", other)]), [(5333, true), (3666, true)]);
        assert_eq!(of(&[("a", large.clone()), ("b", large)]), []);
    }
}
