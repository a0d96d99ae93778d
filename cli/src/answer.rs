//! One estimate, and how the same run ends on other devices.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use highwater_core::device::{self, Device};
use highwater_core::estimate::{BatchLine, LargestBatch, Stages, Timings};
use highwater_core::export::{DeviceAnswer, DeviceTime};
use highwater_core::report::Report;
use highwater_core::{Config, Error, Model};

use crate::args::Estimate;
use crate::progress::Progress;

/// What is asked of the devices.
#[derive(Debug)]
pub(crate) struct Asked {
    devices: Vec<&'static Device>,
    /// Whether the largest batch of each is searched.
    searches: bool,
}

impl Asked {
    /// These devices, without a search.
    pub(crate) const fn of(devices: Vec<&'static Device>) -> Self {
        Self { devices, searches: false }
    }

    pub(crate) fn by(arguments: &Estimate, report: &Report) -> Self {
        let named: Vec<&str> = [&arguments.devices, &arguments.require]
            .into_iter()
            .flatten()
            .chain([&report.config.device])
            .map(String::as_str)
            .collect();
        let is_asked = |device: &Device| {
            let is_card = device.slice.is_none();
            (is_card && arguments.devices.is_empty()) || named.contains(&device.id)
        };
        Self {
            devices: device::every().filter(|device| is_asked(device)).collect(),
            // How far a batch can go is not known where not all that it takes is.
            searches: !arguments.no_max_batch && !report.is_open(),
        }
    }
}

/// How the run ends on the devices, and the dimension whose largest size was searched there, which takes many times
/// as long as the estimate; `stages` has what that made.
pub(crate) fn devices(
    model: &Model,
    config: &Config,
    asked: &Asked,
    mut stages: Stages,
) -> Result<(Vec<DeviceAnswer>, Option<String>), Error> {
    let mut answers = verdicts(model, config, asked, &mut stages)?;
    let dims = model.open_dims().into_iter().filter(|_| asked.searches);
    let Some(batch) = dims.into_iter().find(|dim| dim.batch) else { return Ok((answers, None)) };
    let line = model.batch_line(config, &mut stages);
    let largest = largest_batches(model, config, asked, &line, stages)?;
    // A model that cannot be simulated far enough has none anywhere.
    let Some(largest) = largest.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok((answers, None));
    };
    for (answer, largest) in answers.iter_mut().zip(largest) {
        answer.largest = largest;
    }
    Ok((answers, Some(batch.name)))
}

/// How long a step takes on the devices whose vendors publish their rates; none where the workload has no step.
///
/// Asked before the verdicts, which then need no runs of their own.
pub(crate) fn times(
    model: &Model,
    config: &Config,
    asked: &Asked,
    stages: &mut Stages,
) -> Vec<DeviceTime> {
    let mut timings = Timings::new(model, config, stages);
    let time = |device: &&'static Device| timings.on(device).ok();
    asked.devices.iter().filter_map(time).map(|timing| DeviceTime::of(&timing)).collect()
}

/// Those that choose the same kernels stay together, since the run on one of them predicts how it ends on the others.
pub(crate) fn verdicts(
    model: &Model,
    config: &Config,
    asked: &Asked,
    stages: &mut Stages,
) -> Result<Vec<DeviceAnswer>, Error> {
    let mut by_kernels: Vec<(usize, &Device)> = asked.devices.iter().copied().enumerate().collect();
    let configured = device::find(&config.device)?.compute_capability;
    by_kernels.sort_by_key(|(_, device)| {
        let capability = device.compute_capability;
        // The run that is known comes first.
        (capability != configured, capability, device.multiprocessors)
    });
    let mut answers = Vec::new();
    for (index, device) in by_kernels {
        let verdict = model.verdict(config, device.id, stages)?;
        answers.push((index, DeviceAnswer { verdict, largest: LargestBatch::default() }));
    }
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Threads share the devices out; those that choose the same kernels stay together, since runs on one of them predict
/// how any batch ends on the others.
fn largest_batches(
    model: &Model,
    config: &Config,
    asked: &Asked,
    line: &BatchLine,
    stages: Stages,
) -> Result<Vec<Option<LargestBatch>>, Error> {
    let devices = &asked.devices;
    let mut by_kernels: Vec<(usize, &Device)> = devices.iter().copied().enumerate().collect();
    by_kernels.sort_by_key(|(_, device)| device.compute_capability);
    let alike = |(_, a): &(usize, &Device), (_, b): &(usize, &Device)| {
        a.compute_capability == b.compute_capability
    };
    let queue = Mutex::new(by_kernels.chunk_by(alike));
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let progress = Progress::of("asking {len} GPUs: {pos} of {len}", devices.len());
    let work = |mut stages: Stages| -> Vec<(usize, Result<Option<LargestBatch>, Error>)> {
        std::iter::from_fn(next)
            .flatten()
            .map(|&(index, device)| {
                let largest = model.largest_batch(config, device.id, line, &mut stages);
                progress.advance();
                (index, largest)
            })
            .collect()
    };
    let groups = by_kernels.chunk_by(alike).count();
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(groups);
    let mut answers = thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map(|_| scope.spawn(|| work(Stages::default()))).collect();
        let mut answers = work(stages);
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    });
    drop(progress);
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
