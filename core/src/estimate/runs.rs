//! [`Runs`]: known runs, from which runs on other devices are predicted.

use std::borrow::Cow;

use super::{Model, Run};
use crate::allocator::{self, Conf, Replay, Settings};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{Device, Room};
use crate::eager::{Asked, Elsewhere};
use crate::error::{Error, ErrorKind};
use crate::report::DeviceVerdict;
use crate::trace::Trace;

/// Runs of one model that are known: where another card would run the same, nothing is run again.
#[derive(Debug, Default)]
pub struct Runs(Vec<Known>);

#[derive(Debug)]
struct Known {
    /// The configuration as it was asked for.
    config: Config,
    asked: Asked,
    run: Run,
    /// Where memory has no limit.
    unlimited: Replay,
}

/// A run, on one device.
pub(super) struct OnDevice<'r> {
    run: &'r Run,
    trace: Cow<'r, Trace>,
    settings: Settings,
    pub(super) unlimited: Cow<'r, Replay>,
    room: Room,
    device: &'r Device,
}

impl Runs {
    /// COUNT: runs that are kept.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// COUNT: events of all runs that are kept, the newest in any case; older ones are forgotten.
    const EVENTS: usize = 1 << 19;

    /// The run of a configuration on a device: a known one, if it would be the same there.
    pub(super) fn on<'r>(
        &'r mut self,
        model: &Model,
        config: &Config,
        device: &'r Device,
    ) -> Result<OnDevice<'r>, Error> {
        let hardware = device.hardware(config.pytorch);
        let alike = self.0.iter().enumerate().filter(|(_, known)| known.config == *config);
        let mut alike =
            alike.filter_map(|(index, known)| match known.asked.on(&known.run.trace, &hardware) {
                Elsewhere::Same => Some((index, None)),
                Elsewhere::Resized(trace) => Some((index, Some(trace))),
                Elsewhere::Different => None,
            });
        let (index, trace) = if let Some(found) = alike.next() {
            found
        } else {
            let (run, asked) = model.run(config, device)?;
            let unlimited = allocator::replay(&run.trace, &run.settings, None);
            (self.keep(Known { config: config.clone(), asked, run, unlimited }), None)
        };
        // It has just been found there.
        let known = self.0.get(index).ok_or_else(|| Error::new(ErrorKind::TooLarge, "no run"))?;
        let Known { run, unlimited, .. } = known;
        let room = Room::of(device, &run.config);
        let settings = Conf::read(&config.alloc_conf)?.on(Some(room.capacity), room.allowed);
        let room = Room { allowed: settings.allowed, ..room };
        let is_same = settings.without_limits() == run.settings.without_limits();
        let unlimited = match &trace {
            None if is_same => Cow::Borrowed(unlimited),
            None => Cow::Owned(allocator::replay(&run.trace, &settings, None)),
            Some(trace) => Cow::Owned(allocator::replay(trace, &settings, None)),
        };
        let trace = trace.map_or(Cow::Borrowed(&run.trace), Cow::Owned);
        Ok(OnDevice { run, trace, settings, unlimited, room, device })
    }

    /// Keeps a run; returns where.
    fn keep(&mut self, known: Known) -> usize {
        self.0.push(known);
        let events =
            |runs: &[Known]| runs.iter().map(|known| known.run.trace.events.len()).sum::<usize>();
        while self.0.len() > 1 && events(&self.0) > Self::EVENTS {
            self.0.remove(0);
        }
        self.0.len().saturating_sub(1)
    }
}

impl OnDevice<'_> {
    /// How it ends.
    pub(super) fn verdict(&self) -> DeviceVerdict {
        judge(self.run, &self.trace, &self.settings, &self.unlimited, (self.device, &self.room))
    }

    /// What it lacks within the limit, even where the cache is flushed; `None` where it survives.
    pub(super) fn missing(&self) -> Option<Bytes> {
        let limit = self.room.limit();
        if self.unlimited.reserved.bytes <= limit {
            return None;
        }
        if self.unlimited.requested_at_peak > limit {
            return Some(self.unlimited.requested_at_peak - limit);
        }
        let limited = allocator::replay(&self.trace, &self.settings, Some(self.room.left()));
        let failure = limited.out_of_memory?;
        Some(failure.error.reserved + failure.error.segment - limit)
    }
}

/// How a run ends on a device.
pub(super) fn judge(
    run: &Run,
    trace: &Trace,
    settings: &Settings,
    unlimited: &Replay,
    place: (&Device, &Room),
) -> DeviceVerdict {
    let mut judged = DeviceVerdict::of(trace, settings, unlimited, place);
    if run.is_open() {
        judged.verdict = judged.verdict.of_lower_bound();
    }
    judged
}
