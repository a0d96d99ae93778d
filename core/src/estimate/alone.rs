//! [`Alone`]: what a job does alone on a card, from which follows what it does next to others.

use super::{Model, OnDevice, Stages, Timings};
use crate::allocator::{self, Replay};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{self, Device, Doubt};
use crate::error::Error;
use crate::report::DeviceVerdict;
use crate::time::{Picoseconds, Run, Timing};

/// A job alone on a card.
#[derive(Clone, Debug)]
pub struct Alone {
    /// The card, or a slice of one.
    pub device: &'static Device,
    /// How it ends there.
    pub verdict: DeviceVerdict,
    /// What its process needs, and how far that may be off.
    pub doubt: Doubt,
    /// Whether the truth may be far off: a lower bound, or an uncertain answer.
    pub is_open: bool,
    /// SIZE: the least that it can be limited to; it then gives its cache back within each step.
    pub least: Bytes,
    /// What it holds during a step, where it gives its cache back after each.
    pub held: Vec<Held>,
    /// A step; `None` where there is none, as of generation, or where the card has no published rates.
    pub timing: Option<Timing>,
    /// The kernels of a step.
    pub runs: Vec<Run>,
}

/// Memory that is reserved for a part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// SIZE: reserved.
    pub bytes: Bytes,
    /// How long.
    pub time: Picoseconds,
}

impl Model {
    /// What a job does alone on a device: a card, or a slice of one.
    ///
    /// # Errors
    /// As [`Model::verdict`].
    pub fn alone(
        &self,
        config: &Config,
        device: &str,
        stages: &mut Stages,
    ) -> Result<Alone, Error> {
        let device = device::find(device)?;
        let config = Config { device: device.id.to_owned(), ..self.settled(config, stages)? };
        let mut timings = Timings::new(self, &config, stages);
        let timing = timings.on(device).ok();
        let runs = match &timing {
            Some(timing) => {
                let launches = timings.launches(device)?;
                Run::of_step(&launches, timing.gpu)
            }
            None => Vec::new(),
        };
        let on = stages.on(self, &config, device)?;
        let changes = on.changes();
        let events: Vec<usize> = changes.iter().map(|&(event, _)| event).collect();
        let clock = Timings::new(self, &config, stages).clock(&events).ok().flatten();
        // Where no moments are known, each event counts as much.
        let moments = clock.map_or_else(
            || {
                events
                    .iter()
                    .filter_map(|&event| u64::try_from(event).ok())
                    .map(Picoseconds)
                    .collect()
            },
            |clock| clock.moments,
        );
        Ok(Alone {
            device,
            verdict: on.verdict(),
            doubt: on.doubt(),
            is_open: on.run.is_open(),
            least: on.least_limit(),
            held: held(&changes, &moments),
            timing,
            runs,
        })
    }
}

/// How a job ends on a slice of a card.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The slice.
    pub device: &'static Device,
    /// How it ends there.
    pub verdict: DeviceVerdict,
    /// The time of a step there.
    pub step: Option<Picoseconds>,
}

impl Model {
    /// How a job ends on each slice of a card, the smallest first.
    ///
    /// # Errors
    /// As [`Model::verdict`].
    pub fn offers(
        &self,
        config: &Config,
        card: &str,
        stages: &mut Stages,
    ) -> Result<Vec<Offer>, Error> {
        let config = self.settled(config, stages)?;
        let mut offers = Vec::new();
        for device in device::slices(card) {
            // What leaves nothing to PyTorch is no slice for it.
            let Ok(verdict) = self.verdict(&config, device.id, stages) else { continue };
            let step = if verdict.verdict.survives() {
                Timings::new(self, &config, stages).on(device).ok().map(|timing| timing.time.step())
            } else {
                None
            };
            offers.push(Offer { device, verdict, step });
        }
        Ok(offers)
    }
}

/// How long a step holds how much: each change lasts until the next.
fn held(changes: &[(usize, Bytes)], moments: &[Picoseconds]) -> Vec<Held> {
    let ends = moments.iter().skip(1);
    let lasting = changes.iter().zip(moments).zip(ends);
    let held = lasting.map(|((&(_, bytes), from), to)| Held {
        bytes,
        time: Picoseconds(to.0.saturating_sub(from.0)),
    });
    held.filter(|held| held.time > Picoseconds(0)).collect()
}

impl OnDevice {
    /// What the process needs, and how far that may be off.
    fn doubt(&self) -> Doubt {
        let least = self.without_workspaces().map(|least| least.reserved);
        self.room.doubt_of(self.unlimited.reserved.bytes, least)
    }

    /// The events of the last iteration after which more or less is reserved, where the cache is emptied after each
    /// iteration; the first and the last event are among them.
    fn changes(&self) -> Vec<(usize, Bytes)> {
        let trace = self.trace();
        let reserved = allocator::reserved_if_emptied(trace, &self.settings);
        let Some((_, range)) = allocator::iterations(trace).pop() else { return Vec::new() };
        let last = range.end.saturating_sub(1);
        let mut before = None;
        let events = range.filter_map(|event| Some((event, *reserved.get(event)?)));
        let changed =
            events.filter(|&(event, bytes)| before.replace(bytes) != Some(bytes) || event == last);
        changed.collect()
    }

    /// SIZE: the least that may be reserved with which the run survives, as it does with all that is more, to a large
    /// segment's size.
    ///
    /// It may survive with less than that: where the cache is given back decides how memory is cut into segments.
    fn least_limit(&self) -> Bytes {
        const STEP: Bytes = Bytes::mib(2);
        /// COUNT: limits that are tried between the peaks of allocated and reserved memory.
        const TRIED: u64 = 16;
        let survives = |limit: Bytes| {
            let replay: Replay = allocator::replay(self.trace(), &self.settings, Some(limit));
            replay.out_of_memory.is_none()
        };
        let (allocated, reserved) = (self.unlimited.allocated.bytes, self.unlimited.reserved.bytes);
        let part = Bytes((reserved - allocated).0.div_ceil(TRIED)).max(STEP);
        let (mut fails, mut fits) = (allocated, reserved);
        while fits > allocated + part {
            if !survives(fits - part) {
                fails = fits - part;
                break;
            }
            fits -= part;
        }
        while fits - fails > STEP {
            let middle = Bytes(fails.0.midpoint(fits.0));
            if survives(middle) { fits = middle } else { fails = middle }
        }
        fits
    }
}
