//! [`LargestBatch`]: how far the batch can go on a device.

use serde::{Deserialize, Serialize};

use super::{Model, Run};
use crate::allocator::{self, Replay};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{self, Device, Room};
use crate::error::{Error, ErrorKind};
use crate::sorted;

/// COUNT: no batch of a real run is as large.
const ABSURD: u64 = 1 << 22;

/// The largest batches of a run on one device; `None` where not even one sample survives.
///
/// Survival is not quite monotone in the batch, since fragmentation is not: each of the two ends well,
/// and the next larger batch does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestBatch {
    /// COUNT: samples that fit with room for all that the allocator reserves.
    pub without_flush: Option<u64>,
    /// COUNT: samples that survive, if need be because the allocator hits the limit, frees its cached
    /// segments and tries again, which is slow. Never less than the other.
    pub with_flush: Option<u64>,
}

impl LargestBatch {
    /// The batch that is reached only by flushing the cache, where there is one.
    pub fn only_with_flush(self) -> Option<u64> {
        self.with_flush.filter(|_| self.with_flush != self.without_flush)
    }
}

impl Model {
    /// How far the batch can go on a device; `None` if the model has no batch.
    ///
    /// Every candidate is simulated. Memory grows along a nearly straight line, so a search first goes
    /// where that line meets the limit, then steps away from there until it has a batch that ends well
    /// and one that does not, then bisects.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn largest_batch(
        &self,
        config: &Config,
        device_id: &str,
    ) -> Result<Option<LargestBatch>, Error> {
        let device = device::find(device_id)?;
        let Some(batch) = self.open_dims().into_iter().find(|dim| dim.batch) else {
            return Ok(None);
        };
        let limit = Room::of(device, config).limit();
        let start = config.dims.get(&batch.name).copied().unwrap_or(batch.default);
        let mut probe = config.clone();
        let mut trial = |size| {
            probe.dims.insert(batch.name.clone(), size);
            self.trial(&probe, device)
        };
        let mut roomy = Bracket::from(start, limit);
        let mut flushing = Bracket::from(start, limit);
        while let Some(size) = roomy.next() {
            let trial = trial(size)?;
            let reserved = trial.as_ref().map(|(_, unlimited)| unlimited.reserved.bytes);
            roomy.note(size, reserved.is_some_and(|bytes| bytes <= limit), reserved);
            flushing.learn(size, trial.as_ref().map(|(_, unlimited)| unlimited));
        }
        flushing.begin_at(roomy.fits);
        while let Some(size) = flushing.next() {
            let trial = trial(size)?;
            let survives = trial
                .as_ref()
                .is_some_and(|(run, unlimited)| survives(run, unlimited, &run.room(device)));
            let allocated = trial.map(|(_, unlimited)| unlimited.allocated.bytes);
            flushing.note(size, survives, allocated);
        }
        Ok(Some(LargestBatch { without_flush: roomy.largest(), with_flush: flushing.largest() }))
    }

    /// A run, and its peaks where memory has no limit; `None` for one that is too large to simulate.
    fn trial(&self, config: &Config, device: &Device) -> Result<Option<(Run, Replay)>, Error> {
        match self.run(config, device) {
            Ok(run) => {
                let unlimited = allocator::replay(&run.trace, &run.settings, None);
                Ok(Some((run, unlimited)))
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a run survives within the limit, be it by flushing the cache.
fn survives(run: &Run, unlimited: &Replay, room: &Room) -> bool {
    let limit = room.limit();
    unlimited.reserved.bytes <= limit
        || unlimited.requested_at_peak <= limit
            && allocator::replay(&run.trace, &run.settings, Some(room.left()))
                .out_of_memory
                .is_none()
}

/// A search between a size that ends well and one that does not.
struct Bracket {
    start: u64,
    limit: Bytes,
    /// COUNT: the largest size that is known to end well; 0 where none is.
    fits: u64,
    /// COUNT: the smallest size that is known not to.
    fails: u64,
    /// What sizes need.
    points: Vec<(u64, Bytes)>,
    /// COUNT: guesses by the line that are left.
    on_the_line: u32,
    /// COUNT: how far the newest step went.
    gap: u64,
}

impl Bracket {
    const fn from(start: u64, limit: Bytes) -> Self {
        let points = Vec::new();
        Self { start, limit, fits: 0, fails: ABSURD, points, on_the_line: 4, gap: 0 }
    }

    /// Sizes up to this one end well.
    const fn begin_at(&mut self, fits: u64) {
        self.fits = fits;
        if self.fails <= fits {
            self.fails = fits + 1;
        }
    }

    /// The size to try next; `None` once the ends are neighbours.
    fn next(&mut self) -> Option<u64> {
        let (fits, fails) = (self.fits, self.fails);
        if fails - fits <= 1 {
            return None;
        }
        let by_line = crossing(&self.points, self.limit)
            .filter(|&guess| self.on_the_line > 0 && fits < guess && guess < fails);
        let guess = match by_line {
            _ if self.points.is_empty() && fails == ABSURD => self.start,
            Some(guess) => {
                self.on_the_line -= 1;
                guess
            }
            None if fits == 0 || fails == ABSURD => {
                let reached = fits.max(fails.rem_euclid(ABSURD));
                self.gap = (self.gap * 2).max(reached.div_euclid(128)).max(1);
                if fits == 0 { fails.saturating_sub(self.gap) } else { fits + self.gap }
            }
            None => fits.midpoint(fails),
        };
        Some(guess.clamp(fits + 1, fails - 1))
    }

    /// How a size ended, and what it needs.
    fn note(&mut self, size: u64, ends_well: bool, needs: Option<Bytes>) {
        self.points.extend(needs.map(|bytes| (size, bytes)));
        *(if ends_well { &mut self.fits } else { &mut self.fails }) = size;
    }

    /// What another search learnt of a size: what it allocates, and that tensors alone are too large.
    fn learn(&mut self, size: u64, unlimited: Option<&Replay>) {
        self.points.extend(unlimited.map(|replay| (size, replay.allocated.bytes)));
        if unlimited.is_none_or(|replay| replay.requested_at_peak > self.limit) {
            self.fails = self.fails.min(size);
        }
    }

    fn largest(&self) -> Option<u64> {
        (self.fits > 0).then_some(self.fits)
    }
}

/// Where the straight line through the two points nearest to the limit meets it; through one point
/// and the origin, where there is only one.
fn crossing(points: &[(u64, Bytes)], limit: Bytes) -> Option<u64> {
    let mut nearest: Vec<_> = points.to_vec();
    sorted::by_key(&mut nearest, |&(_, needed)| needed.0.abs_diff(limit.0));
    let ((n1, b1), (n2, b2)) = match nearest.as_slice() {
        [] => return None,
        [only] => (*only, (0, Bytes::ZERO)),
        [first, second, ..] => (*first, *second),
    };
    // n1 + (limit - b1) · (n2 - n1) / (b2 - b1)
    let rise = i128::from(b2.0) - i128::from(b1.0);
    let run = i128::from(n2) - i128::from(n1);
    let wanted = i128::from(limit.0) - i128::from(b1.0);
    let step = (wanted * run).checked_div_euclid(rise)?;
    u64::try_from(i128::from(n1) + step).ok()
}
