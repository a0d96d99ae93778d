//! [`Simulation`]: one run, kept so that every moment of it can be asked about.

use super::{Model, Run, judge, without_workspaces};
use crate::allocator::{self, Replay, Series, Settings};
use crate::config::Config;
use crate::device::{self, Device, Room};
use crate::diagnostic::Severity;
use crate::error::Error;
use crate::report::{DeviceVerdict, ModelSummary, Report, Snapshot};
use crate::trace::Trace;

/// One configuration of one model, executed once.
#[derive(Clone, Debug)]
pub struct Simulation {
    summary: ModelSummary,
    run: Run,
    device: &'static Device,
    replay: Replay,
    series: Series,
}

impl Model {
    /// Runs one configuration on its device, with as much memory as it asks for.
    ///
    /// # Errors
    /// When the configuration names a device or a dimension that there is not, or an absurd size.
    pub fn simulate(&self, config: &Config) -> Result<Simulation, Error> {
        let device = device::find(&config.device)?;
        let run = self.run(config, device)?;
        let summary = ModelSummary::of(&self.name, &self.recognised, &self.graph, &run.trace);
        let (replay, series) = allocator::replay_series(&run.trace, &run.settings, None);
        Ok(Simulation { summary, run, device, replay, series })
    }
}

impl Simulation {
    /// The whole answer.
    pub fn report(&self) -> Report {
        let Self { summary, run, replay, series, .. } = self;
        let verdict = self.verdict();
        let failed = |diagnostic: &crate::Diagnostic| diagnostic.severity == Severity::Error;
        Report {
            model: summary.clone(),
            config: run.config.clone(),
            diagnostics: run.diagnostics.clone(),
            lower_bound: run.typed.lower_bound || run.diagnostics.iter().any(failed),
            without_workspaces: without_workspaces(run),
            ..Report::of(&run.trace, replay, series, verdict)
        }
    }

    /// How it ends on the configured device.
    pub fn verdict(&self) -> DeviceVerdict {
        judge(&self.run, &self.replay, self.device)
    }

    /// The peaks over the run.
    pub const fn replay(&self) -> &Replay {
        &self.replay
    }

    /// What is alive after an event, and where it lies; an event behind the last is the last.
    pub fn snapshot(&self, event: usize) -> Snapshot {
        let trace = &self.run.trace;
        let event = event.min(trace.events.len().saturating_sub(1));
        let (allocator, blocks) = allocator::state_after(trace, &self.run.settings, event);
        Snapshot::of(trace, event, &allocator, &blocks)
    }

    /// The configuration, with the dimensions that were assumed.
    pub const fn config(&self) -> &Config {
        &self.run.config
    }

    /// How the allocator is set.
    pub const fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// What there is for the run on its device.
    pub fn room(&self) -> Room {
        Room::of(self.device, &self.run.config)
    }

    /// The events of the run.
    pub const fn trace(&self) -> &Trace {
        &self.run.trace
    }
}
