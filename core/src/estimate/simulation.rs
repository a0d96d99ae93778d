//! [`Simulation`]: one run, kept so that every moment of it can be examined.

use super::{Model, Run, judge, without_workspaces};
use crate::allocator::{self, Replay, Series, Settings};
use crate::basis::Basis;
use crate::config::Config;
use crate::device::{self, Device, Room};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::Error;
use crate::formats::Fidelity;
use crate::report::{DeviceVerdict, ModelSummary, Part, Report, Snapshot};
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
        let (run, _) = self.run(config, device)?;
        let (name, graph) = (&self.name, &self.graph);
        let mut summary =
            ModelSummary::of(name, &self.recognised, graph, run.operators, &run.trace);
        let fidelity = &mut summary.recognised.fidelity;
        if *fidelity == Fidelity::ExactGraph && !run.is_exact {
            *fidelity = Fidelity::Graph;
        }
        let (replay, series) = allocator::replay_series(&run.trace, &run.settings, None);
        Ok(Simulation { summary, run, device, replay, series })
    }
}

/// That a rule is not proven, with the bytes that hang on it.
fn unproven(part: &Part, matters: bool) -> Option<Diagnostic> {
    let Part { reason, bytes } = part;
    (reason.basis() == Basis::Unproven).then(|| {
        let message = format!(
            "{} is not proven against PyTorch for all arguments: {bytes} of the peak depend on it",
            reason.what()
        );
        let severity = if matters { Severity::Warning } else { Severity::Info };
        Diagnostic::new(severity, "unproven-operator", message)
    })
}

impl Simulation {
    /// The whole answer.
    pub fn report(&self) -> Report {
        let Self { summary, run, replay, series, .. } = self;
        let verdict = self.verdict();
        let report = Report::of(&run.trace, replay, series, verdict);
        let parts = report.certainty.iter().flat_map(|certainty| &certainty.parts);
        let diagnostics = Diagnostics::default();
        diagnostics.extend(run.diagnostics.iter().cloned());
        let matters = |part: &Part| {
            report.certainty.as_ref().is_some_and(|certainty| certainty.matters(part.bytes))
        };
        diagnostics.extend(parts.filter_map(|part| unproven(part, matters(part))));
        Report {
            model: summary.clone(),
            config: run.config.clone(),
            diagnostics: diagnostics.into_sorted(),
            lower_bound: run.is_open() && !run.is_uncertain(),
            uncertain: run.is_uncertain(),
            without_workspaces: without_workspaces(run),
            ..report
        }
    }

    /// How it ends on the configured device.
    pub fn verdict(&self) -> DeviceVerdict {
        let room = self.run.room(self.device);
        judge(&self.run, &self.run.trace, &self.run.settings, &self.replay, (self.device, &room))
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
