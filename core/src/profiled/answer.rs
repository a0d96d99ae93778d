//! A trace's prediction in the form of an estimate, so that the same code shows both.

use super::{History, Prediction, Rules, Target, predict};
use crate::allocator::{self, Conf, Settings};
use crate::config::Config;
use crate::device::{self, Device, Room};
use crate::error::Error;
use crate::formats::{Fidelity, Recognised};
use crate::recorded::Calls;
use crate::report::{
    Band, By, DeviceVerdict, ModelSummary, Reading, RecordedRun, Report, Snapshot,
};

/// What a trace comes to on the device of a configuration, of which only the device and the
/// settings of its memory matter: what is trained, and how, is in the trace.
#[derive(Clone, Debug)]
pub struct Traced {
    config: Config,
    card: Card,
    readings: Vec<Reading>,
    shown: usize,
    prediction: Prediction,
}

/// A device, and what there is of it.
#[derive(Clone, Debug)]
struct Card {
    device: &'static Device,
    room: Room,
    settings: Settings,
}

impl Card {
    fn of(config: &Config) -> Result<Self, Error> {
        let device = device::find(&config.device)?;
        let room = Room::of(device, config);
        let settings = Conf::read(&config.alloc_conf)?.on(Some(room.capacity), room.allowed);
        Ok(Self { device, room: Room { allowed: settings.allowed, ..room }, settings })
    }

    fn verdict(&self, prediction: &Prediction) -> DeviceVerdict {
        let Prediction { trace, replay, .. } = prediction;
        let least = Band::without_workspaces(trace, &self.settings);
        let limited = || allocator::replay(trace, &self.settings, Some(self.room.left()));
        DeviceVerdict::of(trace, replay, limited, least, (self.device, &self.room))
    }
}

impl Rules {
    /// Both, in the order in which they are offered.
    pub const OFFERED: [Self; 2] = [Self::Highwater, Self::Xmem];

    const fn reading(self) -> By {
        match self {
            Self::Highwater => By::Highwater,
            Self::Xmem => By::Xmem,
        }
    }
}

impl Target {
    fn of(config: &Config) -> Self {
        Self { device: config.device.clone(), alloc_conf: config.alloc_conf.clone() }
    }
}

/// How the training would end on the device of a configuration.
///
/// # Errors
/// As [`predict`].
pub fn verdict(
    history: &History<'_>,
    rules: Rules,
    config: &Config,
) -> Result<DeviceVerdict, Error> {
    predict(history, rules, &Target::of(config))?.verdict(config)
}

impl Prediction {
    /// How it ends on the device of a configuration: the one that it was made for.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn verdict(&self, config: &Config) -> Result<DeviceVerdict, Error> {
        Ok(Card::of(config)?.verdict(self))
    }
}

impl Traced {
    /// Predicts by both sets of rules; `shown`, a position in [`Rules::OFFERED`], is what all else
    /// is about, and the first where it is none.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn of(history: &History<'_>, config: &Config, shown: usize) -> Result<Self, Error> {
        let target = Target::of(config);
        let [highwater, xmem] = Rules::OFFERED.map(|rules| predict(history, rules, &target));
        let predictions = [highwater?, xmem?];
        let reading = |prediction: &Prediction| Reading {
            by: prediction.rules.reading(),
            allocated: prediction.replay.allocated.bytes,
            reserved: prediction.replay.reserved.bytes,
        };
        let readings = predictions.iter().map(reading).collect();
        let [highwater, xmem] = predictions;
        let (shown, prediction) = if shown == 1 { (1, xmem) } else { (0, highwater) };
        Ok(Self { config: config.clone(), card: Card::of(config)?, readings, shown, prediction })
    }

    /// The rules that all is about.
    pub const fn rules(&self) -> Rules {
        self.prediction.rules
    }

    /// The whole answer.
    pub fn report(&self, name: &str) -> Report {
        let Prediction { trace, diagnostics, .. } = &self.prediction;
        let (replay, series) = allocator::replay_series(trace, &self.card.settings, None);
        let verdict = self.card.verdict(&self.prediction);
        Report {
            model: ModelSummary {
                name: name.to_owned(),
                recognised: Recognised {
                    format: "profiler trace".to_owned(),
                    fidelity: Fidelity::SeenOnCpu,
                },
                ..ModelSummary::placed(trace)
            },
            config: self.config.clone(),
            diagnostics: diagnostics.clone(),
            recorded: Some(RecordedRun {
                readings: self.readings.clone(),
                shown: self.shown,
                alloc_conf: Some(self.config.alloc_conf.clone()),
                ..RecordedRun::default()
            }),
            certainty: None,
            ..Report::of(trace, &replay, &series, verdict)
        }
    }

    /// One moment of it; one behind the last is the last.
    pub fn look(&self, event: usize) -> Snapshot {
        let trace = &self.prediction.trace;
        let event = event.min(trace.events.len().saturating_sub(1));
        let (allocator, blocks) = allocator::state_after(trace, &self.card.settings, event);
        Snapshot::of(trace, event, &allocator, &blocks)
    }

    /// What it asks of the allocator.
    pub fn calls(&self) -> Calls {
        Calls::of(&self.prediction.trace, &self.config.alloc_conf)
    }
}
