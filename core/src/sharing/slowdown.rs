//! How much slower jobs run that share a GPU.
//!
//! The kernels of all jobs are replayed on one device, step after step. Each job has its host, which launches kernels
//! in the order of the step and waits for the device at its end, as a loop does that reads its loss. What the device
//! does with kernels of several processes is a [`Mode`]:
//!
//! - **Time slices**: only one process has the device at a time, until its slice ends or it has nothing to run.
//! - **MPS**: a kernel takes the multiprocessors that earlier ones leave, in the order of arrival. So a job of short
//!   kernels waits for the long ones of another, and not the other way round. At the most, kernels do not overlap at
//!   all: those that share multiprocessors, caches or DRAM slow each other.
//! - **MIG**: a slice is a device of its own.
//!
//! No constant was fitted but the width of the range; the rules were chosen with the measured pairs in sight, with which
//! `tests/fixtures/sharing/slowdown.txt` compares MPS. Hosts and data loaders of several jobs share the processor, which
//! is not counted.

use std::collections::BTreeMap;

use crate::estimate::Alone;
use crate::time::{Picoseconds, Run};

/// How a GPU is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// One process at a time, as without any setting.
    #[default]
    TimeSlices,
    /// Kernels of several processes overlap: NVIDIA's Multi-Process Service.
    Mps,
    /// Each process has a slice of the hardware: a load must be that on its slice.
    Mig,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TimeSlices, Self::Mps, Self::Mig];

    /// The name in settings and JSON: `time-slices`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeSlices => "time-slices",
            Self::Mps => "mps",
            Self::Mig => "mig",
        }
    }

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::TimeSlices => "time slices",
            Self::Mps => "MPS",
            Self::Mig => "MIG",
        }
    }
}

/// What a job asks of the device in each step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    kernels: Vec<Kernel>,
    /// What the host takes before its first launch: it waits for the data loader.
    idle: u64,
    /// How long the step takes alone.
    alone: u64,
}

/// A kernel of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel {
    /// When the host has launched it, in picoseconds since the step began.
    launched: u64,
    /// What it has to do: picoseconds alone, times thousandths of the multiprocessors.
    work: u64,
    /// COUNT: thousandths of the multiprocessors that it can use.
    share: u64,
}

/// A step of a job that shares the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowed {
    /// Without other jobs.
    pub alone: Picoseconds,
    /// At least.
    pub least: Picoseconds,
    /// Most likely.
    pub likely: Picoseconds,
    /// At most.
    pub most: Picoseconds,
}

impl Slowed {
    /// PER MILLE: how much longer the step takes than alone, at least, most likely and at most: 1000 is as long.
    pub fn slowdowns(&self) -> [u64; 3] {
        [self.least, self.likely, self.most].map(|time| slowdown(time.0, self.alone.0))
    }
}

/// PER MILLE: how much longer a time is than that alone.
fn slowdown(time: u64, alone: u64) -> u64 {
    let times = u128::from(time).saturating_mul(1000).div_euclid(alone.max(1).into());
    u64::try_from(times).unwrap_or(u64::MAX)
}

/// COUNT: thousandths: all multiprocessors.
const WHOLE: u64 = 1000;
/// COUNT: steps of each job that are replayed at least; the first is not counted.
const STEPS: u64 = 4;
/// COUNT: events of a replay, at most.
const MOST_EVENTS: u32 = 2_000_000;
/// PICOSECONDS: how long a process keeps the device while others wait. NVIDIA publishes no figure; about 2 ms was
/// observed, and the range has a quarter of it and four times it.
const SLICES: [u64; 3] = [SLICE >> 2, SLICE, SLICE << 2];
/// PICOSECONDS: the most likely slice.
const SLICE: u64 = 2_000_000_000;

/// PER MILLE: how far beyond what replays give the range goes, so that nine of ten measured slowdowns are inside. Of the
/// half of the measured pairs that it was taken from, 92 % are, of the other half 93 % (`docs/sharing.md`). Time slices
/// were not measured, and get the same.
const DOUBT: u64 = 1150;

impl Load {
    /// The kernels of a step, which alone takes this long: with its loader, or as it was measured.
    ///
    /// Where that is longer than the kernels need, the host waits before the step. Where it is shorter, all kernels are
    /// faster by the same factor.
    pub fn new(runs: &[Run], alone: Picoseconds) -> Self {
        let needed = Self::unscaled(runs, [1, 1]);
        let (own, alone) = (needed.alone(), alone.0.max(1));
        if own <= alone {
            return Self { idle: alone.saturating_sub(own), alone, ..needed };
        }
        Self { alone, ..Self::unscaled(runs, [alone, own]) }
    }

    /// What a job asks of the device that it is alone on; `None` where no step is known.
    pub fn of(alone: &Alone) -> Option<Self> {
        let step = alone.timing.as_ref()?.time.step();
        Some(Self::new(&alone.runs, step))
    }

    /// The kernels, with times multiplied by a fraction.
    fn unscaled(runs: &[Run], [part, whole]: [u64; 2]) -> Self {
        let scaled = |time: u64| scaled(time, [part, whole]);
        let mut launched: u64 = 0;
        let kernels = runs.iter().map(|run| {
            launched = launched.saturating_add(scaled(run.host.0));
            let share = u64::from(run.share).clamp(1, WHOLE);
            Kernel { launched, work: scaled(run.device.0).saturating_mul(share).max(1), share }
        });
        Self { kernels: kernels.collect(), ..Self::default() }
    }

    /// How long the step takes if no other job has the device.
    fn alone(&self) -> u64 {
        self.kernels.iter().fold(0, |now: u64, kernel| {
            now.max(kernel.launched).saturating_add(kernel.work.div_ceil(kernel.share.max(1)))
        })
    }
}

/// A time multiplied by a fraction.
fn scaled(time: u64, [part, whole]: [u64; 2]) -> u64 {
    let scaled = u128::from(time).saturating_mul(part.into()).div_euclid(whole.max(1).into());
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// How long the steps of jobs take that share a device.
pub fn slowed(loads: &[Load], mode: Mode) -> Vec<Slowed> {
    let each: Vec<&Load> = loads.iter().collect();
    let replays: [Vec<u64>; 3] = match mode {
        Mode::Mig => [0; 3].map(|_| loads.iter().map(|load| load.alone).collect()),
        Mode::TimeSlices => SLICES.map(|slice| Replay::new(&each, Turn::Slices(slice)).run()),
        Mode::Mps => {
            let (overlap, apart) = multi_process(&each);
            [overlap.clone(), between(&overlap, &apart), apart]
        }
    };
    let [first, likely, last] = replays;
    let times = first.iter().zip(&likely).zip(&last).zip(loads);
    times
        .map(|(((first, likely), last), load)| {
            let of = |time: u64| Picoseconds(time.max(load.alone));
            let (least, most) = match mode {
                // A slice is as fast as it is.
                Mode::Mig => (*likely, *likely),
                Mode::TimeSlices | Mode::Mps => {
                    let least = *first.min(likely).min(last);
                    let most = *first.max(likely).max(last);
                    (scaled(least, [WHOLE, DOUBT]), scaled(most, [DOUBT, WHOLE]))
                }
            };
            Slowed {
                alone: Picoseconds(load.alone),
                least: of(least),
                likely: of(*likely),
                most: of(most),
            }
        })
        .collect()
}

/// How long steps take under MPS where kernels overlap, and where they do not.
fn multi_process(loads: &[&Load]) -> (Vec<u64>, Vec<u64>) {
    let times = |turn| Replay::new(loads, turn).run();
    (times(Turn::Leftover), times(Turn::OneByOne))
}

fn between(some: &[u64], others: &[u64]) -> Vec<u64> {
    some.iter().zip(others).map(|(one, other)| one.midpoint(*other)).collect()
}

/// How much slower jobs most likely are together, for the many sets of jobs that a queue makes: sets of equal loads in
/// the same order are replayed once, and only as is most likely.
#[derive(Clone, Debug)]
pub struct Likely<'a> {
    mode: Mode,
    /// Loads that differ, with their places.
    places: BTreeMap<&'a Load, usize>,
    /// By the places of their loads.
    known: BTreeMap<Vec<usize>, Vec<u64>>,
}

impl<'a> Likely<'a> {
    /// Nothing is known yet.
    pub const fn new(mode: Mode) -> Self {
        Self { mode, places: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// PER MILLE: how much longer the step of each takes than alone: the second of [`Slowed::slowdowns`].
    pub fn slowdowns(&mut self, loads: &[&'a Load]) -> Vec<u64> {
        let mut place = |load: &&'a Load| {
            let next = self.places.len();
            *self.places.entry(load).or_insert(next)
        };
        let key = loads.iter().map(&mut place).collect();
        self.known.entry(key).or_insert_with(|| likely(loads, self.mode)).clone()
    }
}

/// PER MILLE: how much longer steps most likely take than alone.
fn likely(loads: &[&Load], mode: Mode) -> Vec<u64> {
    let times = match mode {
        Mode::Mig => loads.iter().map(|load| load.alone).collect(),
        Mode::TimeSlices => Replay::new(loads, Turn::Slices(SLICE)).run(),
        Mode::Mps => {
            let (overlap, apart) = multi_process(loads);
            between(&overlap, &apart)
        }
    };
    let times = times.iter().zip(loads);
    times.map(|(time, load)| slowdown((*time).max(load.alone), load.alone)).collect()
}

/// How long the steps of jobs take that share a whole card, by each way of sharing it; none where a job has no step.
pub fn of_all<'a>(jobs: impl IntoIterator<Item = &'a Alone>) -> Vec<(Mode, Vec<Slowed>)> {
    let loads: Option<Vec<_>> = jobs.into_iter().map(Load::of).collect();
    loads.map_or_else(Vec::new, |loads| {
        [Mode::TimeSlices, Mode::Mps].map(|mode| (mode, slowed(&loads, mode))).into()
    })
}

/// Whose kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Each takes what earlier ones leave.
    Leftover,
    /// The one that came first.
    OneByOne,
    /// Those of one job, for a slice in picoseconds.
    Slices(u64),
}

/// Where a job is.
#[derive(Clone, Debug)]
struct Place<'a> {
    load: &'a Load,
    /// The kernel that runs or waits.
    at: usize,
    kernel: Kernel,
    /// When it came to the device.
    ready: u64,
    /// What is left of its work.
    left: u64,
    /// When the step began.
    begun: u64,
    /// COUNT: steps that ended.
    steps: u64,
    /// When the first of them ended, and the last.
    ended: [u64; 2],
}

impl<'a> Place<'a> {
    fn new(load: &'a Load) -> Self {
        let mut place = Self {
            load,
            at: 0,
            kernel: Kernel::default(),
            ready: 0,
            left: 0,
            begun: 0,
            steps: 0,
            ended: [0; 2],
        };
        place.take(0, 0);
        place
    }

    /// Goes to a kernel of the step, at this time.
    fn take(&mut self, at: usize, now: u64) {
        self.at = at;
        self.kernel = self.load.kernels.get(at).copied().unwrap_or_default();
        let launched =
            self.begun.saturating_add(self.load.idle).saturating_add(self.kernel.launched);
        self.ready = now.max(launched);
        self.left = self.kernel.work;
    }

    /// Goes to the next kernel, or begins the next step.
    fn next(&mut self, now: u64) {
        let next = self.at.saturating_add(1);
        if next < self.load.kernels.len() {
            return self.take(next, now);
        }
        let [first, _] = self.ended;
        self.ended = [if self.steps == 0 { now } else { first }, now];
        self.steps = self.steps.saturating_add(1);
        self.begun = now;
        self.take(0, now);
    }

    /// How long a step took, on average.
    fn step(&self, now: u64) -> u64 {
        let [first, last] = self.ended;
        if self.steps > 1 {
            return last.saturating_sub(first).div_euclid(self.steps.saturating_sub(1));
        }
        // Too few steps for the events that are allowed: by the kernels that ran.
        let count = |n: usize| u128::try_from(n).unwrap_or(u128::MAX);
        let all = count(self.load.kernels.len());
        let ran = all.saturating_mul(self.steps.into()).saturating_add(count(self.at)).max(1);
        u64::try_from(u128::from(now).saturating_mul(all).div_euclid(ran)).unwrap_or(u64::MAX)
    }
}

/// Jobs on a device.
struct Replay<'a> {
    places: Vec<Place<'a>>,
    /// Which jobs have no kernels.
    idle: Vec<bool>,
    turn: Turn,
    now: u64,
    /// Who has the device, and since when.
    owner: (usize, u64),
    /// COUNT: events that passed.
    events: u32,
    /// Those whose kernels wait or run, in the order of arrival.
    waiting: Vec<(u64, usize)>,
    /// COUNT: thousandths of the multiprocessors that each job has.
    given: Vec<u64>,
}

impl<'a> Replay<'a> {
    fn new(loads: &[&'a Load], turn: Turn) -> Self {
        Self {
            places: loads.iter().map(|load| Place::new(load)).collect(),
            idle: loads.iter().map(|load| load.kernels.is_empty()).collect(),
            turn,
            now: 0,
            owner: (0, 0),
            events: 0,
            waiting: Vec::with_capacity(loads.len()),
            given: vec![0; loads.len()],
        }
    }

    /// How long a step of each job takes, in picoseconds.
    fn run(mut self) -> Vec<u64> {
        while self.events < MOST_EVENTS && !self.is_done() {
            self.advance();
            self.pass_slice();
        }
        self.steps()
    }

    fn steps(&self) -> Vec<u64> {
        let step = |(place, idle): (&Place<'_>, &bool)| {
            if *idle { place.load.alone } else { place.step(self.now) }
        };
        self.places.iter().zip(&self.idle).map(step).collect()
    }

    fn is_done(&self) -> bool {
        self.places.iter().zip(&self.idle).all(|(place, idle)| *idle || place.steps >= STEPS)
    }

    /// To the next moment at which a kernel ends, comes or loses the device.
    fn advance(&mut self) {
        self.give();
        let slice_ends = match self.turn {
            Turn::Slices(slice) => self.owner.1.saturating_add(slice),
            _ => u64::MAX,
        };
        let mut next = if slice_ends > self.now { slice_ends } else { u64::MAX };
        for ((place, given), idle) in self.places.iter().zip(&self.given).zip(&self.idle) {
            if *idle {
                continue;
            }
            if place.ready > self.now {
                next = next.min(place.ready);
            } else if *given > 0 {
                next = next.min(self.now.saturating_add(place.left.div_ceil(*given)));
            }
        }
        let passed = next.saturating_sub(self.now);
        self.now = next;
        self.events = self.events.saturating_add(1);
        for ((place, given), idle) in self.places.iter_mut().zip(&self.given).zip(&self.idle) {
            if *idle || *given == 0 {
                continue;
            }
            place.left = place.left.saturating_sub(passed.saturating_mul(*given));
            if place.left == 0 {
                place.next(next);
            }
        }
    }

    /// The events that follow within the slice of a job, as [`Replay::advance`] would pass them: nothing changes for the
    /// others, whose kernels only come.
    fn pass_slice(&mut self) {
        let Turn::Slices(slice) = self.turn else { return };
        let (owner, since) = self.owner;
        let slice_ends = since.saturating_add(slice);
        let mut now = self.now;
        let comes = |places: &[Place<'_>], idle: &[bool], now: u64| {
            let others = places.iter().zip(idle).enumerate();
            let ready = others.filter(|(at, (_, idle))| *at != owner && !**idle);
            ready.map(|(_, (place, _))| place.ready).filter(|ready| *ready > now).min()
        };
        let mut coming = comes(&self.places, &self.idle, now).unwrap_or(u64::MAX);
        while self.events < MOST_EVENTS && now < slice_ends {
            let Some(place) = self.places.get_mut(owner) else { break };
            let share = place.kernel.share.min(WHOLE);
            // Another job gets the device where this one has nothing to run.
            if place.ready > now || share == 0 {
                break;
            }
            let ends = now.saturating_add(place.left.div_ceil(share));
            let next = slice_ends.min(coming).min(ends);
            place.left = place.left.saturating_sub((next - now).saturating_mul(share));
            now = next;
            self.events = self.events.saturating_add(1);
            let steps = place.steps;
            if place.left == 0 {
                place.next(now);
            }
            let is_step = place.steps > steps;
            if now >= coming {
                coming = comes(&self.places, &self.idle, now).unwrap_or(u64::MAX);
            }
            if is_step && self.is_done() {
                break;
            }
        }
        self.now = now;
    }

    /// Gives each job its part of the multiprocessors.
    fn give(&mut self) {
        let now = self.now;
        self.waiting.clear();
        for (at, (place, idle)) in self.places.iter().zip(&self.idle).enumerate() {
            if !*idle && place.ready <= now {
                self.waiting.push((place.ready, at));
            }
        }
        self.waiting.sort_unstable();
        match self.turn {
            Turn::Slices(slice) => {
                self.choose(slice);
                let owner = self.owner.0;
                self.waiting.retain(|(_, at)| *at == owner);
            }
            Turn::OneByOne => self.waiting.truncate(1),
            Turn::Leftover => {}
        }
        self.given.fill(0);
        let mut free = WHOLE;
        for (_, at) in &self.waiting {
            let share = self.places.get(*at).map_or(0, |place| place.kernel.share);
            let part = share.min(free);
            free = free.saturating_sub(part);
            if let Some(given) = self.given.get_mut(*at) {
                *given = part;
            }
        }
    }

    /// Gives the device to the next job that waits, where its owner has nothing to run or its slice is over.
    fn choose(&mut self, slice: u64) {
        let (owner, since) = self.owner;
        let has_work = self.waiting.iter().any(|(_, at)| *at == owner);
        if has_work && self.now < since.saturating_add(slice) {
            return;
        }
        let jobs = self.places.len().max(1);
        let turn = |at: usize| {
            at.saturating_add(jobs).saturating_sub(owner.saturating_add(1)).checked_rem(jobs)
        };
        let next = self.waiting.iter().map(|(_, at)| *at).min_by_key(|at| turn(*at));
        if let Some(next) = next {
            self.owner = (next, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MICROSECOND: u64 = 1_000_000;

    /// A step of so many kernels, each of some microseconds on the device and on the host, on a share of it.
    fn load(count: usize, device: u64, host: u64, share: u32) -> Load {
        let of = |us: u64| Picoseconds(us * MICROSECOND);
        let runs = vec![Run { device: of(device), host: of(host), share }; count];
        let alone = Load::unscaled(&runs, [1, 1]).alone();
        Load::new(&runs, Picoseconds(alone))
    }

    fn slowdowns(loads: &[Load], mode: Mode) -> Vec<[u64; 3]> {
        slowed(loads, mode).iter().map(Slowed::slowdowns).collect()
    }

    /// The long way: each event by itself.
    fn one_by_one(loads: &[&Load], turn: Turn) -> Vec<u64> {
        let mut replay = Replay::new(loads, turn);
        while replay.events < MOST_EVENTS && !replay.is_done() {
            replay.advance();
        }
        replay.steps()
    }

    /// A step of kernels that differ.
    fn mixed() -> impl Strategy<Value = Load> {
        let run = (1_u64..400_000_000, 0_u64..200_000_000, 0_u32..1200);
        let run = run.prop_map(|(device, host, share)| Run {
            device: Picoseconds(device),
            host: Picoseconds(host),
            share,
        });
        let alone = 1_u64..9_000_000_000;
        (prop::collection::vec(run, 0..30), alone)
            .prop_map(|(runs, alone)| Load::new(&runs, Picoseconds(alone)))
    }

    proptest! {
        /// Passing a slice at once, replaying only what is most likely, and knowing sets of loads by their loads: each
        /// gives what the long way gives.
        #[test]
        fn the_quick_ways_give_the_same(loads in prop::collection::vec(mixed(), 1..5)) {
            let each: Vec<&Load> = loads.iter().collect();
            for slice in SLICES.map(Turn::Slices) {
                prop_assert_eq!(Replay::new(&each, slice).run(), one_by_one(&each, slice));
            }
            for mode in Mode::ALL {
                let long = slowdowns(&loads, mode).iter().map(|[_, likely, _]| *likely).collect();
                let mut known = Likely::new(mode);
                let copies = loads.clone();
                let copies: Vec<&Load> = copies.iter().collect();
                let ways = [known.slowdowns(&each), known.slowdowns(&copies)];
                prop_assert_eq!(ways, [Vec::clone(&long), long]);
                prop_assert_eq!(known.known.len(), 1);
            }
        }
    }

    /// Replays that end because there are too many events end at the same one.
    #[test]
    fn the_limit_of_events_is_met_at_the_same_event() {
        let (many, few) = (load(2000, 1, 1, 1000), load(2, 3_000_000, 1, 700));
        let loads = [&many, &few];
        let turn = Turn::Slices(SLICE);
        let mut replay = Replay::new(&loads, turn);
        while replay.events < MOST_EVENTS && !replay.is_done() {
            replay.advance();
            replay.pass_slice();
        }
        assert_eq!(replay.events, MOST_EVENTS);
        assert_eq!(replay.steps(), one_by_one(&loads, turn));
    }

    /// Alone nothing is slower, in any mode.
    #[test]
    fn alone_nothing_is_slower() {
        for mode in Mode::ALL {
            let [[least, likely, most]] =
                slowdowns(&[load(100, 50, 10, 1000)], mode).try_into().expect("there is one");
            assert!(least == 1000 && likely == 1000 && most <= DOUBT, "{mode:?}");
        }
    }

    /// Two jobs that fill the device take twice as long; on slices of the hardware neither is slower.
    #[test]
    fn two_full_loads_halve_the_device() {
        let loads = [load(100, 50, 1, 1000), load(100, 50, 1, 1000)];
        for mode in [Mode::Mps, Mode::TimeSlices] {
            for [least, likely, most] in slowdowns(&loads, mode) {
                assert!(least >= 1700 && (1900..=2100).contains(&likely) && most <= 2400);
            }
        }
        assert_eq!(slowdowns(&loads, Mode::Mig), [[1000; 3]; 2]);
    }

    /// With MPS the job of short kernels waits for long ones; kernels of half the device overlap.
    #[test]
    fn short_kernels_wait_for_long_ones() {
        let loads = [load(400, 10, 2, 1000), load(40, 500, 2, 1000)];
        let [short, long] = slowdowns(&loads, Mode::Mps).try_into().expect("there are two");
        assert!(short[0] > 10_000 && long[1] < 1200, "{short:?} {long:?}");
        let halves = [load(100, 50, 1, 500), load(100, 50, 1, 500)];
        let [one, other] = slowdowns(&halves, Mode::Mps).try_into().expect("there are two");
        assert!(one[0] < 1050 && other[0] < 1050 && one[2] > 1900, "{one:?} {other:?}");
    }

    /// A job that waits for its host most of the time leaves the device to others.
    #[test]
    fn a_host_that_waits_leaves_the_device() {
        let loads = [load(100, 5, 100, 1000), load(100, 5, 100, 1000)];
        for mode in [Mode::Mps, Mode::TimeSlices] {
            assert!(
                slowdowns(&loads, mode).iter().all(|[_, likely, _]| *likely < 1100),
                "{mode:?}"
            );
        }
        let empty = [Load::new(&[], Picoseconds(5)), load(10, 5, 1, 1000)];
        let found = slowdowns(&empty, Mode::Mps);
        assert!(found.iter().all(|slowdowns| slowdowns[..2] == [1000; 2]), "{found:?}");
    }
}
