//! [`LargestBatch`]: the largest batch that a device holds.

use serde::{Deserialize, Serialize};

use super::forecast::Rehearsal;
use super::{Model, OnDevice, Stages};
use crate::allocator::{
    LARGE_BUFFER, MIN_LARGE_ALLOC, ROUND_LARGE, Replay, SMALL_BUFFER, SMALL_SIZE,
};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{self, Device, Room};
use crate::error::{Error, ErrorKind};
use crate::infer::OpenDim;

/// COUNT: no batch of a real run is as large.
const ABSURD: u64 = 1 << 22;

/// COUNT: a batch that most models can run with, and that is no special case.
const USUAL: u64 = 8;

/// The largest batches of a run on one device; `None` where not even one sample survives.
///
/// Survival is not quite monotone in the batch, since fragmentation is not: each of the two ends well,
/// and the next larger batch does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestBatch {
    /// COUNT: samples that fit with a chance of [`LargestBatch::LIKELY`] percent, for which somewhat more memory must be
    /// left than is expected to be needed. Never more than the next.
    pub likely: Option<u64>,
    /// COUNT: samples that fit with room for all that the allocator reserves, if it does so to the byte.
    pub without_flush: Option<u64>,
    /// Percent: the chance that so many fit; 0 where there is none.
    pub chance: u64,
    /// COUNT: samples that survive, if need be because the allocator hits the limit, frees its cached
    /// segments and tries again, which is slow. Never less than the other.
    pub with_flush: Option<u64>,
}

impl LargestBatch {
    /// COUNT: the largest batch that is tried.
    pub const LIMIT: u64 = ABSURD - 1;

    /// Percent: the chance that the likely batch fits.
    pub const LIKELY: u64 = 90;

    /// The batch to propose: the likely one, or else the largest.
    pub fn proposed(self) -> Option<u64> {
        self.likely.or(self.with_flush)
    }

    /// The batch that is reached only by flushing the cache, where there is one.
    pub fn only_with_flush(self) -> Option<u64> {
        self.with_flush.filter(|_| self.with_flush != self.without_flush)
    }
}

/// What batches of a few sizes need on one card, from which searches on all cards begin: the line that
/// memory grows along is nearly the same everywhere.
///
/// It does not depend on the batch that a configuration has, nor on its device, so neither do the largest
/// batches.
#[derive(Clone, Debug, Default)]
pub struct BatchLine {
    reserved: Vec<(u64, Bytes)>,
    allocated: Vec<(u64, Bytes)>,
    /// Batches that the forecast of all others is made from: about the largest of the smallest card, one between, and
    /// more than any card holds.
    pub(super) anchors: Option<[u64; 3]>,
    /// Whether loops run too many operators before memory is full.
    is_cut: bool,
}

impl BatchLine {
    /// Three batches that those of all devices lie between; `None` where memory hardly grows.
    fn anchors(&self) -> Option<[u64; 3]> {
        let at = |limit| crossing(&self.reserved, &[], limit);
        let capacities = || device::all().iter().map(|device| device.capacity);
        // A batch of one is a special case: nothing has to be copied to lie in one piece.
        let low = at(capacities().min()?).unwrap_or_default();
        // Samples may be so small that no card is ever full: a search ends there.
        let low = low.clamp(2, LargestBatch::LIMIT.div_euclid(2));
        let top = at(capacities().max()?.times(2))?.max(low + 2).min(LargestBatch::LIMIT);
        // A batch that was run before is had for nothing.
        let mut known = self.reserved.iter().rev().map(|(size, _)| *size);
        let is_between = |size: &u64| low < *size && *size < top;
        let middle = known.find(is_between).or_else(|| Some(low.midpoint(top)).filter(is_between));
        Some([low, middle?, top])
    }
}

/// Runs of any batch on one device.
pub(super) trait Runs {
    /// What a batch reaches where memory has no limit; `None` for one that is too large to simulate.
    fn peaks(&mut self, batch: u64) -> Result<Option<Peaks>, Error>;

    /// What a batch lacks on the device, even where the cache is flushed; `None` where it survives.
    fn missing(&mut self, batch: u64, peaks: &Peaks) -> Result<Option<Bytes>, Error>;
}

/// What a run reaches where memory has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peaks {
    reserved: Bytes,
    allocated: Bytes,
    /// SUM: bytes that were asked for at the peak of those allocated.
    requested: Bytes,
}

impl Peaks {
    pub(super) const fn of(replay: &Replay) -> Self {
        Self {
            reserved: replay.reserved.bytes,
            allocated: replay.allocated.bytes,
            requested: replay.requested_at_peak,
        }
    }

    /// What a run lacks within a limit, even where the cache is flushed; `limited` replays it there.
    pub(super) fn missing(&self, limit: Bytes, limited: impl FnOnce() -> Replay) -> Option<Bytes> {
        if self.reserved <= limit {
            return None;
        }
        if self.requested > limit {
            return Some(self.requested - limit);
        }
        let failure = limited().out_of_memory?;
        Some(failure.error.reserved + failure.error.segment - limit)
    }
}

/// Runs that are simulated.
pub(super) struct Simulated<'a> {
    pub(super) model: &'a Model,
    /// The batch's dimension.
    pub(super) batch: &'a str,
    pub(super) config: Config,
    pub(super) device: &'static Device,
    pub(super) stages: &'a mut Stages,
    /// Whether micro-batches that are alike are recorded all the same.
    pub(super) is_whole: bool,
}

impl Simulated<'_> {
    /// A run; `None` for one that is too large to simulate. A pipeline runs batches that its micro-batches divide, so it
    /// is asked about the next one: then the largest batch is one of them.
    fn run(&mut self, batch: u64) -> Result<Option<OnDevice>, Error> {
        let micro_batches = self.config.micro_batches();
        let batch = batch.div_ceil(micro_batches.max(1)).saturating_mul(micro_batches.max(1));
        self.config.dims.insert(self.batch.to_owned(), batch);
        let Self { model, config, device, stages, is_whole, .. } = self;
        let run = if *is_whole {
            stages.on(model, config, device)
        } else {
            stages.peaks_on(model, config, device)
        };
        match run {
            Ok(run) => Ok(Some(run)),
            Err(error) if error.kind() == ErrorKind::TooLarge => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Runs for Simulated<'_> {
    fn peaks(&mut self, batch: u64) -> Result<Option<Peaks>, Error> {
        Ok(self.run(batch)?.map(|run| Peaks::of(run.replay())))
    }

    fn missing(&mut self, batch: u64, peaks: &Peaks) -> Result<Option<Bytes>, Error> {
        let run = self.run(batch)?;
        Ok(run.and_then(|run| peaks.missing(run.room.limit(), || run.limited())))
    }
}

impl Model {
    /// The line that the memory of a run grows along; empty if the model has no batch, or none of the
    /// usual sizes.
    pub fn batch_line(&self, config: &Config, stages: &mut Stages) -> BatchLine {
        let mut line = BatchLine::default();
        let Ok(device) = device::find(&Config::default().device) else { return line };
        let Some(batch) = self.batch() else { return line };
        let Ok(mut config) = self.own_dims(config) else { return line };
        // The line is that of all devices: figures of one card, such as its capacity, have no part in it.
        config.forget_the_card();
        let here = Room::of(device, &config).limit();
        let mut runs =
            Simulated { model: self, batch: &batch.name, config, device, stages, is_whole: false };
        let mut next = Some(USUAL);
        for _ in 0..2 {
            let Some(size) = next else { break };
            let run = runs.run(size);
            let kind = run.as_ref().err().map(Error::kind);
            line.is_cut = kind == Some(ErrorKind::TooManyOperators);
            let Ok(Some(run)) = run else { break };
            line.reserved.push((size, run.replay().reserved.bytes));
            line.allocated.push((size, run.replay().allocated.bytes));
            let met = crossing(&line.reserved, &[], here);
            next = met.filter(|&met| met != size).map(|met| met.clamp(1, ABSURD));
        }
        // A forecast of all batches is none of those that micro-batches divide.
        line.anchors = line.anchors().filter(|_| runs.config.micro_batches() <= 1);
        line
    }

    pub(crate) fn batch(&self) -> Option<OpenDim> {
        self.open_dims().into_iter().find(|dim| dim.batch)
    }

    /// How far the batch can go on a device; `None` if the model has no batch, or cannot be simulated that far.
    ///
    /// The search goes over a [`Forecast`](super::forecast::Forecast). Where that is exact, it is the answer; where it
    /// is none, every candidate is simulated, from what it says on.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn largest_batch(
        &self,
        config: &Config,
        device_id: &str,
        line: &BatchLine,
        stages: &mut Stages,
    ) -> Result<Option<LargestBatch>, Error> {
        let device = device::find(device_id)?;
        let Some(batch) = self.batch().filter(|_| !line.is_cut) else {
            return Ok(None);
        };
        match self.search(&batch, &self.own_dims(config)?, device, line, stages) {
            Ok(largest) => Ok(Some(largest)),
            // That is no limit of memory.
            Err(error) if error.kind() == ErrorKind::TooManyOperators => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn search(
        &self,
        batch: &OpenDim,
        config: &Config,
        device: &'static Device,
        line: &BatchLine,
        stages: &mut Stages,
    ) -> Result<LargestBatch, Error> {
        let room = Room::of(device, config);
        let start = config.dims.get(&batch.name).copied().unwrap_or(batch.default);
        let mut brackets = Brackets {
            likely: Bracket::from(start, room.likely_limit(LargestBatch::LIKELY), &line.reserved),
            roomy: Bracket::from(start, room.limit(), &line.reserved),
            flushing: Bracket::from(start, room.limit(), &line.allocated),
        };
        let rehearsal = line
            .anchors
            .and_then(|sizes| stages.rehearsal(self, config, device, &batch.name, sizes));
        if let Some(mut rehearsal) = rehearsal {
            let mut stepping = brackets.clone();
            let steps = rehearsal.steps();
            (stepping.likely.steps, stepping.roomy.steps) = (steps, steps);
            let found = stepping.search(&room, &mut rehearsal)?;
            brackets.likely.learn(found.likely, &rehearsal);
            brackets.roomy.learn(found.without_flush, &rehearsal);
            brackets.flushing.learn(found.with_flush, &rehearsal);
            if brackets.are_closed() {
                return Ok(found);
            }
        }
        let (model, batch, config) = (self, &*batch.name, config.clone());
        let is_whole = false;
        brackets.search(&room, &mut Simulated { model, batch, config, device, stages, is_whole })
    }
}

/// The searches on a device: below a limit that is likely to hold, below the limit, and with flushes.
#[derive(Clone, Debug)]
struct Brackets<'a> {
    likely: Bracket<'a>,
    roomy: Bracket<'a>,
    flushing: Bracket<'a>,
}

impl Brackets<'_> {
    fn search(mut self, room: &Room, runs: &mut impl Runs) -> Result<LargestBatch, Error> {
        while let Some(size) = self.roomy.next() {
            let peaks = runs.peaks(size)?;
            self.roomy.note_reserved(size, peaks);
            self.likely.note_reserved(size, peaks);
            self.flushing.note_flushing(size, peaks, runs)?;
        }
        while let Some(size) = self.likely.next() {
            self.likely.note_reserved(size, runs.peaks(size)?);
        }
        while let Some(size) = self.flushing.next() {
            let peaks = runs.peaks(size)?;
            self.flushing.note_flushing(size, peaks, runs)?;
        }
        let without_flush = self.roomy.largest();
        let peaks = without_flush.map(|size| runs.peaks(size)).transpose()?.flatten();
        Ok(LargestBatch {
            likely: self.likely.largest().min(without_flush),
            without_flush,
            chance: peaks.map_or(0, |peaks| room.chance(peaks.reserved)),
            with_flush: self.flushing.largest().max(without_flush),
        })
    }

    const fn are_closed(&self) -> bool {
        self.likely.is_closed() && self.roomy.is_closed() && self.flushing.is_closed()
    }
}

/// A search between a size that ends well and one that does not.
///
/// Memory grows along a nearly straight line, so a search goes where that line meets the limit, or to a guess, then steps
/// away from there until it has a size that ends well and the next one, which does not.
#[derive(Clone, Debug)]
struct Bracket<'a> {
    start: u64,
    /// What a forecast says.
    guess: Option<u64>,
    /// Where memory steps up.
    steps: Option<Steps>,
    /// What sizes need on another card.
    line: &'a [(u64, Bytes)],
    /// SIZE: what a size may need, as [`Bracket::points`] count it.
    limit: Bytes,
    /// COUNT: the largest size that is known to end well; 0 where none is.
    fits: u64,
    /// COUNT: the smallest size that is known not to.
    fails: u64,
    /// What sizes need.
    points: Vec<(u64, Bytes)>,
    /// COUNT: guesses by the line that are left.
    on_the_line: u32,
    /// The newest size, and whether it ended well.
    newest: Option<(u64, bool)>,
    /// COUNT: how far the next step goes at least: farther each time that the line fell short.
    gap: u64,
}

impl<'a> Bracket<'a> {
    const fn from(start: u64, limit: Bytes, line: &'a [(u64, Bytes)]) -> Self {
        Self {
            start,
            guess: None,
            steps: None,
            line,
            limit,
            fits: 0,
            fails: ABSURD,
            points: Vec::new(),
            on_the_line: 12,
            newest: None,
            gap: 1,
        }
    }

    /// The size to try next; `None` once the ends are neighbours.
    fn next(&mut self) -> Option<u64> {
        if self.is_closed() {
            return None;
        }
        let (fits, fails) = (self.fits, self.fails);
        let half = (fails - fits).div_euclid(2);
        let line = self.guess.or_else(|| crossing(&self.points, self.line, self.limit));
        let line = line.filter(|_| self.on_the_line > 0);
        let guess = match (line, self.newest) {
            (line, None) => line.unwrap_or(self.start),
            (Some(line), Some((newest, ended_well))) => {
                self.on_the_line -= 1;
                let is_open = fits == 0 || fails == ABSURD;
                let gap = if is_open { self.gap } else { self.gap.min(half) };
                if ended_well {
                    line.max(newest + gap)
                } else {
                    line.min(newest.saturating_sub(gap))
                }
            }
            (None, Some(_)) if fails == ABSURD => fits.saturating_mul(2),
            (None, Some(_)) => fits + half,
        };
        let guess = guess.clamp(fits + 1, fails - 1);
        let Some(steps) = self.steps.filter(|_| self.newest.is_some()) else { return Some(guess) };
        // What lies between two steps is alike: the last before one, then the first behind it.
        if fits > 0 && self.newest == Some((fits, true)) && steps.before(fits).contains(&Some(fits))
        {
            return Some(fits + 1);
        }
        let lasts = steps.before(guess).into_iter().flatten();
        let near = lasts.filter(|&last| fits < last && last < fails);
        Some(near.min_by_key(|last| last.abs_diff(guess)).unwrap_or(guess))
    }

    /// Whether its ends are neighbours.
    const fn is_closed(&self) -> bool {
        self.fails - self.fits <= 1
    }

    /// How a size ended whose reserved memory must stay below the limit; what was found holds.
    fn note_reserved(&mut self, size: u64, peaks: Option<Peaks>) {
        if self.fits < size && size < self.fails {
            let reserved = peaks.map(|peaks| peaks.reserved);
            self.note(size, reserved.is_some_and(|bytes| bytes <= self.limit), reserved);
        }
    }

    /// How a size ended, and what it needs.
    fn note(&mut self, size: u64, ends_well: bool, needs: Option<Bytes>) {
        self.points.extend(needs.map(|bytes| (size, bytes)));
        if ends_well {
            self.fits = self.fits.max(size);
        } else {
            self.fails = self.fails.min(size);
        }
        let again = self.newest.is_some_and(|(_, before)| before == ends_well);
        if again {
            self.gap = self.gap.saturating_mul(2);
        }
        self.newest = Some((size, ends_well));
    }

    /// How a size ended that may flush the cache; `None` for one that is too large to simulate.
    fn note_flushing(
        &mut self,
        size: u64,
        peaks: Option<Peaks>,
        runs: &mut impl Runs,
    ) -> Result<(), Error> {
        if size <= self.fits || self.fails <= size {
            // Survival is not monotone: what was found holds.
            return Ok(());
        }
        let Some(peaks) = peaks else {
            self.note(size, false, None);
            return Ok(());
        };
        let missing = runs.missing(size, &peaks)?;
        if let Some(missing) = missing {
            // What is lost between segments where it fails is lost at other sizes too.
            self.limit = peaks.allocated - missing;
        }
        self.note(size, missing.is_none(), Some(peaks.allocated));
        Ok(())
    }

    /// Takes note of what a forecast found.
    fn learn(&mut self, found: Option<u64>, rehearsal: &Rehearsal<'_>) {
        self.guess = found;
        let found = found.unwrap_or_default();
        let next = found.saturating_add(1);
        match rehearsal.exact() {
            Some((low, top)) if low <= found && (next <= top || next == ABSURD) => {
                (self.fits, self.fails) = (found, next);
            }
            // The smallest batch that it knows ends badly.
            Some((low, _)) if found < low => self.fails = low,
            _ => {}
        }
    }

    fn largest(&self) -> Option<u64> {
        (self.fits > 0).then_some(self.fits)
    }
}

/// Batches at which many allocations grow past what a segment has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// SIZE: an allocation at batch 0, and how much it grows with each sample.
    pub(super) base: i128,
    pub(super) rise: i128,
}

impl Steps {
    /// Whether a search would not find them by itself.
    pub(super) fn are_wide(&self) -> bool {
        const BATCHES: i128 = 16;
        self.rise.saturating_mul(BATCHES) <= i128::from(ROUND_LARGE.0)
    }

    /// The last batch before the step at or before a batch, and before the next.
    fn before(&self, batch: u64) -> [Option<u64>; 2] {
        let size = || i128::from(batch).checked_mul(self.rise)?.checked_add(self.base);
        let last = |most: i128| {
            u64::try_from(most.checked_sub(self.base)?.checked_div_euclid(self.rise)?).ok()
        };
        size().and_then(room).map_or([None; 2], |sizes| sizes.map(last))
    }
}

/// SIZE: the most that an allocation may take for one more of them to have room in a segment than for one of this size,
/// and for as many.
fn room(size: i128) -> Option<[i128; 2]> {
    let [small, large, unit] =
        [SMALL_BUFFER, LARGE_BUFFER, ROUND_LARGE].map(|size| i128::from(size.0));
    let segment = if size <= i128::from(SMALL_SIZE.0) { small } else { large };
    if size >= i128::from(MIN_LARGE_ALLOC.0) {
        // It has a segment of its own, of whole units.
        let most = size.checked_add(unit - 1)?.checked_div_euclid(unit)?.checked_mul(unit)?;
        return Some([most - unit, most]);
    }
    let count = segment.checked_div_euclid(size)?;
    Some([segment.checked_div_euclid(count + 1)?, segment.checked_div_euclid(count)?])
}

/// Where a straight line through the point nearest to the limit meets it: one that rises as from there
/// to the farthest point, where that is far enough for the line to be straight; else as on another card;
/// else to the origin.
fn crossing(points: &[(u64, Bytes)], line: &[(u64, Bytes)], limit: Bytes) -> Option<u64> {
    let nearest = |points: &[(u64, Bytes)]| {
        points.iter().copied().min_by_key(|(_, needed)| needed.0.abs_diff(limit.0))
    };
    let farthest = |points: &[(u64, Bytes)], from: u64| {
        points.iter().copied().max_by_key(|(size, _)| size.abs_diff(from))
    };
    let near = nearest(points).or_else(|| nearest(line))?;
    let far = farthest(points, near.0).filter(|far| far.0 != near.0);
    let is_short = far.is_none_or(|far| far.0.abs_diff(near.0) < near.0.div_euclid(4));
    let elsewhere = match line {
        [one, other, ..] if is_short => Some((*one, *other)),
        _ => None,
    };
    // near.0 + (limit - near.1) · (n2 - n1) / (b2 - b1)
    let ((n1, b1), (n2, b2)) = match elsewhere {
        Some(line) => line,
        None => (near, far.unwrap_or((0, Bytes::ZERO))),
    };
    let rise = i128::from(b2.0) - i128::from(b1.0);
    let run = i128::from(n2) - i128::from(n1);
    let wanted = i128::from(limit.0) - i128::from(near.1.0);
    let step = (wanted * run).checked_div_euclid(rise)?;
    u64::try_from((i128::from(near.0) + step).max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COUNT: trials until the ends are neighbours; `needs` is nearly a line.
    fn check(start: u64, limit: u64, line: &[(u64, Bytes)], needs: impl Fn(u64) -> u64) -> usize {
        let mut bracket = Bracket::from(start, Bytes(limit), line);
        let mut trials = 0;
        while let Some(size) = bracket.next() {
            trials += 1;
            assert!(trials < 100, "the search goes on at {size}");
            bracket.note(size, needs(size) <= limit, Some(Bytes(needs(size))));
        }
        let fits = bracket.largest().unwrap_or(0);
        assert!(fits == 0 || needs(fits) <= limit, "{fits} does not fit");
        assert!(needs(fits + 1) > limit, "{} fits too", fits + 1);
        trials
    }

    /// Figures of one GPU, as a message or `--capacity` states them, are not those of another.
    #[test]
    fn figures_of_one_device_change_no_other() {
        let entry = crate::formats::catalogue::find("resnet50").expect("it is in the catalogue");
        let model = super::super::open_named(&entry).expect("it opens");
        let largest = |config: &Config, id: &str| {
            let mut stages = Stages::default();
            let line = model.batch_line(config, &mut stages);
            model.largest_batch(config, id, &line, &mut stages).expect("it is searched")
        };
        let plain = model.defaults().clone();
        let known = Config {
            capacity: Some(Bytes::mib(8192)),
            other_processes: Bytes::mib(742),
            ..plain.clone()
        };
        assert_eq!(largest(&known, "h100-80gb"), largest(&plain, "h100-80gb"));
        assert_ne!(largest(&known, &known.device), largest(&plain, &plain.device));
    }

    #[test]
    fn a_search_takes_few_trials() {
        // The last two: trials at most without the line of another card, and with it.
        for (start, limit, fixed, each, unit, alone, with_line) in [
            // A straight line.
            (32, 80_000, 300, 100, 1, 5, 4),
            // Rounded up to large segments, of which a sample fills one, a fifth, or a hundredth.
            (32, 80_000, 300, 100, 100, 5, 4),
            (32, 80_000, 300, 20, 100, 7, 6),
            (1, 80_000, 300, 1, 100, 17, 16),
            // Mostly weights; nothing fits; one sample fits; no sample is any memory.
            (1, 80_000, 60_000, 10, 20, 7, 5),
            (8, 80_000, 90_000, 10, 20, 4, 1),
            (64, 80_000, 300, 70_000, 20, 3, 2),
        ] {
            let needs = |size: u64| (fixed + size * each).div_ceil(unit) * unit;
            // Other kernels there need a little more.
            let line =
                [8_u64, 800].map(|size| (size, Bytes(150 + needs(size) + size.div_euclid(50))));
            for (line, most) in [(&[][..], alone), (&line[..], with_line)] {
                let trials = check(start, limit, line, needs);
                assert!(trials <= most, "{trials} trials: {start} {limit} {fixed} {each} {unit}");
            }
        }
        // Steps that come late, and ones that go down.
        check(32, 80_000, &[], |size| 100 * size + if size > 700 { 9_000 } else { 0 });
        check(32, 80_000, &[], |size| 100 * size + 2_000 * (size.div_euclid(16) % 3));
        check(32, 80_000, &[], |size| if size > 5_000 { 90_000 } else { 10 });
    }
}
