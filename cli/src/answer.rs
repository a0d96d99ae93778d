//! One estimate, and how the same run ends on every device.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use highwater_core::device::{self, Device};
use highwater_core::export::{Answer, DeviceAnswer};
use highwater_core::{Config, Error, Model};

/// Everything that is printed.
pub(crate) fn answer(model: &Model, name: &str, config: &Config) -> Result<Answer, Error> {
    let report = model.estimate(config)?;
    let devices = on_all_devices(model, config)?;
    let batch = model.open_dims().into_iter().find(|dim| dim.batch).map(|dim| dim.name);
    Ok(Answer { name: name.to_owned(), batch, report, devices })
}

/// Devices are independent of each other, so that threads share them out.
fn on_all_devices(model: &Model, config: &Config) -> Result<Vec<DeviceAnswer>, Error> {
    let devices = device::all();
    let queue = Mutex::new(devices.iter().enumerate());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let work = || -> Vec<(usize, Result<DeviceAnswer, Error>)> {
        std::iter::from_fn(next)
            .map(|(index, device)| (index, on_device(model, config, device)))
            .collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(devices.len());
    let mut answers = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut answers = work();
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    });
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn on_device(model: &Model, config: &Config, device: &Device) -> Result<DeviceAnswer, Error> {
    let verdict = model.verdict(config, device.id)?;
    let largest = model.largest_batch(config, device.id)?.unwrap_or_default();
    Ok(DeviceAnswer { verdict, largest })
}
