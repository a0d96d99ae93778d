//! `highwater share`: whether several jobs fit on one GPU, and what sharing it costs each.

mod json;
mod text;

use std::path::PathBuf;
use std::thread;

use highwater_core::device::{self, Device};
use highwater_core::estimate::{Alone, Offer, Stages};
use highwater_core::sharing::slowdown::{Load, Mode, Slowed, slowed};
use highwater_core::sharing::{Fit, Partition, Tenant};
use highwater_core::{Config, Error, Model};

use crate::args::{Sharing, Training};

/// A job, and what it does alone on the card.
#[derive(Debug)]
struct Job {
    /// What it is called in answers.
    name: String,
    /// What tells it from jobs that are off by as much.
    key: String,
    alone: Alone,
    /// How it ends on each slice of the card.
    offers: Vec<Offer>,
}

/// All that is said of jobs on a card.
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
        jobs.iter().map(|job| Tenant { name: &job.key, alone: &job.alone }).collect();
    let Some(fit) = Fit::of(&tenants) else { return Err("there is no job".to_owned()) };
    let offers: Vec<_> = jobs
        .iter()
        .map(|job| {
            let step = job.alone.timing.as_ref().map(|timing| timing.time.step());
            (job.offers.clone(), step)
        })
        .collect();
    let partition = Partition::of(&offers);
    let loads: Option<Vec<_>> = jobs.iter().map(|job| Load::of(&job.alone)).collect();
    let slowed = loads.map_or_else(Vec::new, |loads| {
        [Mode::TimeSlices, Mode::Mps].map(|mode| (mode, slowed(&loads, mode))).into()
    });
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
        let model = crate::open(&PathBuf::from(path)).map_err(of_job)?;
        let own = Training::read(&flags).map_err(|message| format!("{path}: {message}"))?;
        let shared = arguments.training.over(model.defaults()).map_err(of_job)?;
        let config = own.over(&shared).map_err(of_job)?;
        let name = crate::called(&model);
        let name = if flags.is_empty() { name } else { format!("{name} {flags}") };
        Ok(Self { name, model, config })
    }
}

/// What each job does alone on the card; a thread for each that runs something else.
fn alone(asked: &[Asked], card: &'static Device) -> Result<Vec<Job>, String> {
    let work = |job: &Asked| -> Result<(Alone, Vec<Offer>), Error> {
        let mut stages = Stages::default();
        let alone = job.model.alone(&job.config, card.id, &mut stages)?;
        Ok((alone, job.model.offers(&job.config, card.id, &mut stages)?))
    };
    let found: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = asked.iter().map(|job| scope.spawn(|| work(job))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().map(join).collect()
    });
    let jobs = asked.iter().zip(found).map(|(asked, found)| {
        let (alone, offers) = found.map_err(|error| crate::locate(asked.name.as_ref(), &error))?;
        Ok(Job { name: asked.name.clone(), key: asked.name.clone(), alone, offers })
    });
    jobs.collect()
}
