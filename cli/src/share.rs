//! `highwater share`: whether several jobs fit on one GPU, and what sharing it costs each.

mod json;
mod text;

use std::path::PathBuf;

use highwater_core::device::{self, Device};
use highwater_core::estimate::{Alone, Offer, Stages};
use highwater_core::sharing::slowdown::{self, Mode, Slowed};
use highwater_core::sharing::{Fit, Partition, Tenant};
use highwater_core::{Config, Error, Model};
use rayon::prelude::*;

use crate::args::{Sharing, Training};
use crate::progress::Progress;

/// A job, and what it does alone on the card.
#[derive(Debug)]
struct Job {
    /// What it is called in answers: its model and its own settings. Jobs with equal names are off by as much.
    name: String,
    alone: Alone,
    /// How it ends on each slice of the card.
    offers: Vec<Offer>,
}

/// The answer about jobs on a card.
#[derive(Debug)]
struct Answer {
    card: &'static Device,
    jobs: Vec<Job>,
    fit: Fit,
    /// What steps take that share the whole card, by how it is shared; none where a job has no step.
    slowed: Vec<(Mode, Vec<Slowed>)>,
    partition: Option<Partition>,
}

/// Whether the jobs fit on the device of the settings.
pub(crate) fn share(arguments: &Sharing) -> Result<String, String> {
    let asked: Vec<Asked> =
        arguments.jobs.iter().map(|job| Asked::read(job, arguments)).collect::<Result<_, _>>()?;
    let id = asked.first().map(|job| job.config.device.clone()).unwrap_or_default();
    let card = device::find(&id).map_err(|error| error.to_string())?;
    if let Some(other) = asked.iter().find(|job| job.config.device != id) {
        return Err(format!(
            "{}: the jobs are to share one GPU, and this one is for `{}`, not for `{id}`; give `--device` once",
            other.name, other.config.device
        ));
    }
    let jobs = alone(&asked, card)?;
    let tenants: Vec<_> =
        jobs.iter().map(|job| Tenant { name: &job.name, alone: &job.alone }).collect();
    let Some(fit) = Fit::of(&tenants) else { return Err("there is no job".to_owned()) };
    let offers: Vec<_> = jobs
        .iter()
        .map(|job| {
            let step = job.alone.timing.as_ref().map(|timing| timing.time.step());
            (job.offers.clone(), step)
        })
        .collect();
    let partition = Partition::of(&offers);
    let slowed = slowdown::of_all(jobs.iter().map(|job| &job.alone));
    let answer = Answer { card, jobs, fit, slowed, partition };
    Ok(if arguments.json { json::render(&answer) } else { text::render(&answer) })
}

/// A job as it is asked for.
struct Asked {
    name: String,
    model: Model,
    config: Config,
}

impl Asked {
    /// A model, and its own settings behind it, over those of all jobs.
    fn read(job: &str, arguments: &Sharing) -> Result<Self, String> {
        let (path, flags) = match job.split_once(" --") {
            Some((path, flags)) => (path.trim(), format!("--{flags}")),
            None => (job.trim(), String::new()),
        };
        let of_job = |error: Error| crate::locate(path.as_ref(), &error);
        let model = crate::file_or_name(&PathBuf::from(path)).map_err(of_job)?;
        let own = Training::read(&flags).map_err(|message| format!("{path}: {message}"))?;
        let shared = arguments.training.of(&model).map_err(of_job)?;
        let config = own.over(&shared, &model).map_err(of_job)?;
        let name = crate::called(&model);
        let name = if flags.is_empty() { name } else { format!("{name} {flags}") };
        Ok(Self { name, model, config })
    }
}

/// What each job does alone on the card.
fn alone(asked: &[Asked], card: &'static Device) -> Result<Vec<Job>, String> {
    let work = |job: &Asked| -> Result<Job, Error> {
        let mut stages = Stages::default();
        let alone = job.model.alone(&job.config, card.id, &mut stages)?;
        let offers = job.model.offers(&job.config, card.id, &mut stages)?;
        Ok(Job { name: job.name.clone(), alone, offers })
    };
    let progress = Progress::of("estimating {len} jobs: {pos} of {len}", asked.len());
    asked
        .par_iter()
        .map(|job| {
            let done = work(job).map_err(|error| crate::locate(job.name.as_ref(), &error));
            progress.advance();
            done
        })
        .collect()
}
