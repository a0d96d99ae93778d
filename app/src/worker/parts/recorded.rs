//! Reads memory snapshots that `PyTorch` recorded, and answers questions about one.

use highwater_core::recorded::{self, Calls, Recorded};
use highwater_core::report::{By, DeviceVerdict, Reading, Snapshot};
use highwater_core::{Config, Error, Report};
use wasm_split_helpers::wasm_split;

use crate::model::protocol::Fault;
use crate::worker::load::{Found, Opening};
use crate::worker::recording::Recording;

/// Reads a snapshot.
///
/// # Errors
/// It is none, or what reads snapshots did not arrive.
#[wasm_split(recorded, fallible)]
pub(crate) fn read(mut input: Opening, name: String, config: Config) -> Result<Found, Fault> {
    let file = input.read_by(|source| {
        let snapshot = recorded::open(source)?;
        // Of one there is nothing to choose, and its history is not made twice.
        let several = snapshot.devices() > 1;
        let readings = if several { recorded::readings(&snapshot) } else { Vec::new() };
        File::of(Recorded::owning(snapshot, None)?, readings, &name, &config)
    });
    Ok(Found::recording(file.map_err(|error| Fault::of(&error))?))
}

/// A snapshot, and the history of one of its GPUs.
struct File {
    recorded: Recorded<'static>,
    calls: Calls,
    /// Histories of all GPUs, where there are several.
    readings: Vec<Reading>,
    report: Report,
}

impl File {
    fn of(
        recorded: Recorded<'static>,
        readings: Vec<Reading>,
        name: &str,
        config: &Config,
    ) -> Result<Self, Error> {
        let report = recorded.report(name, config)?;
        let mut file = Self { calls: recorded.calls(), recorded, readings, report };
        file.judge_anew(config)?;
        let shown = file.recorded.reading();
        if let Some(run) = file.report.recorded.as_mut().filter(|_| !file.readings.is_empty()) {
            run.shown = file.readings.iter().position(|known| *known == shown).unwrap_or_default();
            run.readings.clone_from(&file.readings);
        }
        Ok(file)
    }

    fn judge_anew(&mut self, config: &Config) -> Result<(), Error> {
        self.report.verdict = self.judge(config)?;
        self.report.peak.process = self.report.peak.reserved + self.report.verdict.context;
        self.report.config = config.clone();
        Ok(())
    }
}

impl Recording for File {
    fn report(&self) -> Report {
        self.report.clone()
    }

    fn change(&mut self, config: &Config, reading: usize) -> Result<(), Error> {
        match self.readings.get(reading).map(|reading| reading.by) {
            Some(By::Gpu(gpu)) if gpu != self.recorded.device => {
                let snapshot = std::mem::take(self.recorded.snapshot.to_mut());
                let recorded = Recorded::owning(snapshot, Some(gpu))?;
                let readings = std::mem::take(&mut self.readings);
                *self = Self::of(recorded, readings, &self.report.model.name, config)?;
                Ok(())
            }
            _ => self.judge_anew(config),
        }
    }

    fn look(&self, event: usize) -> Snapshot {
        self.recorded.look(event)
    }

    fn judge(&self, config: &Config) -> Result<DeviceVerdict, Error> {
        self.calls.verdict(self.recorded.needed, config, &config.device)
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }
}
