//! [`Simulation`]: one run, kept so that every moment of it can be examined.

use super::{Model, OnDevice, Stages, ranks};
use crate::allocator::{self, Replay, Series, Settings};
use crate::basis::Basis;
use crate::config::Config;
use crate::device::{self, Room};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::Error;
use crate::formats::Fidelity;
use crate::report::{DeviceVerdict, ModelSummary, Part, Report, Snapshot};
use crate::trace::Trace;

/// COUNT: the peak over this is how much has to depend on variables to be worth a word.
const VARIABLES_MATTER: u64 = 100;

/// One configuration of one model, executed once.
#[derive(Clone, Debug)]
pub struct Simulation {
    summary: ModelSummary,
    /// As it was asked for: stages know it by this.
    asked: Config,
    config: Config,
    on: OnDevice,
    series: Series,
    diagnostics: Vec<Diagnostic>,
}

impl Model {
    /// Runs one configuration on its device, with as much memory as it asks for.
    ///
    /// # Errors
    /// When the configuration names a device or a dimension that there is not, or an absurd size.
    pub fn simulate(&self, config: &Config, stages: &mut Stages) -> Result<Simulation, Error> {
        let device = device::find(&config.device)?;
        let mut diagnostics = self.notes(config)?;
        let settled = self.settled(config, stages)?;
        diagnostics.extend(ranks::notes(config, &settled));
        let config = &settled;
        let (on, series) = stages.series_on(self, config, device)?;
        diagnostics.extend(on.run.diagnostics.iter().cloned());
        let (name, graph) = (&self.name, &self.graph);
        let mut summary =
            ModelSummary::of(name, &self.recognised, graph, on.run.operators, on.trace());
        let fidelity = &mut summary.recognised.fidelity;
        if *fidelity == Fidelity::ExactGraph && !on.run.is_exact {
            *fidelity = Fidelity::Graph;
        }
        let (asked, config) = (config.clone(), on.run.given(config));
        Ok(Simulation { summary, asked, config, on, series, diagnostics })
    }
}

/// That a rule is not proven, with the bytes that hang on it.
fn unproven(part: &Part, matters: bool) -> Option<Diagnostic> {
    let Part { reason, bytes } = part;
    (reason.basis() == Basis::Unproven).then(|| {
        let message = say!("{what} is not proven against PyTorch for all arguments: {bytes} of the peak depend on it", what = reason.what(), bytes);
        let severity = if matters { Severity::Warning } else { Severity::Info };
        Diagnostic::new(severity, "unproven-operator", message)
    })
}

/// That variables which no file contains hold a good part of the peak.
fn variables(on: &OnDevice) -> Option<Diagnostic> {
    let peak = &on.unlimited.allocated;
    let held = on.trace().held_at(peak.event);
    (held.times(VARIABLES_MATTER) >= peak.bytes).then(|| {
        let message = say!(
            "{held} of the peak are results that only variables of Python hold, which no file contains: where two \
             modules' results are added, each is assumed to have a variable of its own. If the code adds them without \
             (`up(x) + skip`), the truth is lower, by up to that",
            held
        );
        Diagnostic::new(Severity::Warning, "assumed-variables", message)
    })
}

impl Simulation {
    /// The whole answer.
    pub fn report(&self) -> Report {
        let Self { summary, asked: _, config, on, series, diagnostics: known } = self;
        let run = &on.run;
        let report = Report::of(on.trace(), &on.unlimited, series, self.verdict());
        let parts = report.certainty.iter().flat_map(|certainty| &certainty.parts);
        let diagnostics = Diagnostics::default();
        diagnostics.extend(known.iter().cloned());
        let matters = |part: &Part| {
            report.certainty.as_ref().is_some_and(|certainty| certainty.matters(part.bytes))
        };
        diagnostics.extend(parts.filter_map(|part| unproven(part, matters(part))));
        diagnostics.extend(variables(on));
        Report {
            model: summary.clone(),
            config: config.clone(),
            diagnostics: diagnostics.into_sorted(),
            lower_bound: run.is_open() && !run.is_uncertain(),
            uncertain: run.is_uncertain(),
            without_workspaces: on.without_workspaces(),
            ..report
        }
    }

    /// Whether it is a language model whose loss could be computed without all logits.
    pub(crate) fn guesses_next_token(&self) -> bool {
        self.on.run.has_next_token_head
    }

    /// Whether it normalises over the samples of a batch, so that a batch in parts is another training.
    pub(crate) fn normalises_batches(&self) -> bool {
        self.on.run.normalises_batches
    }

    /// How it ends on the configured device.
    pub fn verdict(&self) -> DeviceVerdict {
        self.on.verdict()
    }

    /// The peaks over the run.
    pub fn replay(&self) -> &Replay {
        &self.on.unlimited
    }

    /// What is alive after an event, and where it lies; an event behind the last is the last.
    pub fn snapshot(&self, event: usize) -> Snapshot {
        let trace = self.trace();
        let event = event.min(trace.events.len().saturating_sub(1));
        let (allocator, blocks) = allocator::state_after(trace, &self.on.settings, event);
        Snapshot::of(trace, event, &allocator, &blocks)
    }

    /// The configuration, with the dimensions that were assumed.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration without them, as it was asked for.
    pub(crate) const fn asked(&self) -> &Config {
        &self.asked
    }

    /// How the allocator is set.
    pub const fn settings(&self) -> &Settings {
        &self.on.settings
    }

    /// What there is for the run on its device.
    pub fn room(&self) -> Room {
        Room::of(self.on.device, &self.config)
    }

    /// The events of the run.
    pub fn trace(&self) -> &Trace {
        self.on.trace()
    }
}
