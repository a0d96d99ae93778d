//! `highwater advise`: what sets the peak, what would help, and the smallest change that fits.

pub(crate) mod json;
pub(crate) mod text;

use std::collections::BTreeMap;

use highwater_core::autopsy::Autopsy;
use highwater_core::estimate::{Stages, Timings};
use highwater_core::levers::{Cost, Facts, LEVERS, Plan, Pulled, Search, Searched};
use highwater_core::report::Report;
use highwater_core::{Error, Model};

use crate::Models;
use crate::args::Advise;
use crate::progress::Progress;

/// Everything that is printed.
#[derive(Debug)]
struct Advice {
    /// Name of the file.
    name: String,
    report: Report,
    autopsy: Autopsy,
    /// Levers that apply, those that save most first.
    pulled: Vec<Pulled>,
    /// PERCENT by id of each lever that costs time: how much longer a sample takes; without those of which no time is
    /// known.
    slower: BTreeMap<String, i64>,
    remedy: Remedy,
}

/// The least that makes a run fit on its device, or what comes nearest.
#[derive(Debug)]
pub(crate) struct Remedy {
    /// Without steps where it fits as it is.
    plan: Plan,
    /// Whether it fits under the plan.
    fits: bool,
    /// COUNT: sets of levers that were tried for it.
    tried: usize,
}

impl Remedy {
    /// Searches for it, from the configuration of a report.
    pub(crate) fn of(
        model: &Model,
        report: &Report,
        facts: Facts,
        stages: &mut Stages,
    ) -> Result<Self, Error> {
        let mut search = Search::new(&report.config, facts);
        let (plan, fits) = match search.run(model, stages)? {
            Searched::Found(plan) => (plan, !report.is_open()),
            Searched::Nothing(plan) => (plan, false),
            Searched::On => (Plan::default(), false),
        };
        Ok(Self { plan, fits, tried: search.tried() })
    }
}

/// What to print.
pub(crate) fn advise(arguments: &Advise, models: Models<'_>) -> Result<String, String> {
    let advice = ask(arguments, models).map_err(|error| crate::locate(&arguments.model, &error))?;
    if arguments.json {
        json::render(&advice).map_err(|error| format!("cannot write JSON: {error}"))
    } else {
        Ok(text::render(&advice))
    }
}

fn ask(arguments: &Advise, models: Models<'_>) -> Result<Advice, Error> {
    let model = models.open(&arguments.model)?;
    let mut config = arguments.training.of(&model)?;
    if let Some(device) = &arguments.fit {
        config.device.clone_from(device);
    }
    let mut stages = Stages::default();
    let simulation = model.simulate(&config, &mut stages)?;
    let report = simulation.report();
    let facts = Facts::of(&model, &simulation, &report.config);
    let mut pulled = Vec::new();
    let progress = Progress::of("trying {len} changes: {pos} of {len}", LEVERS.len());
    for lever in LEVERS {
        pulled.extend(model.pull(lever, &report.config, &facts, &mut stages)?);
        progress.advance();
    }
    pulled.sort_by_key(|pulled| pulled.outcome.verdict.need);
    let slower = slower(&model, &report, &pulled, &mut stages);
    let remedy = Remedy::of(&model, &report, facts, &mut stages)?;
    let name = crate::called(&model);
    Ok(Advice { name, autopsy: Autopsy::of(&report), report, pulled, slower, remedy })
}

fn slower(
    model: &Model,
    report: &Report,
    pulled: &[Pulled],
    stages: &mut Stages,
) -> BTreeMap<String, i64> {
    let mut sample = |config| Timings::new(model, config, stages).sample().ok();
    let costs_time = pulled.iter().filter(|pulled| pulled.cost == Cost::Time);
    let Some(now) = sample(&report.config) else { return BTreeMap::new() };
    costs_time
        .filter_map(|pulled| {
            let then = sample(&pulled.config)?;
            Some((pulled.id.clone(), then.longer_than(now)?))
        })
        .collect()
}
