//! One estimate, and how the same run ends on other devices.

use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use highwater_core::device::{self, Device};
use highwater_core::estimate::{BatchLine, Stages};
use highwater_core::export::DeviceAnswer;
use highwater_core::report::Report;
use highwater_core::{Config, Error, Model};

use crate::args::Estimate;

/// What is asked of the devices.
#[derive(Debug)]
pub(crate) struct Asked {
    devices: Vec<&'static Device>,
    /// Whether the largest batch of each is searched.
    searches: bool,
}

impl Asked {
    pub(crate) fn by(arguments: &Estimate, report: &Report) -> Self {
        let named = [&arguments.devices, &arguments.require];
        let is_named = |device: &Device| {
            arguments.devices.is_empty()
                || report.config.device == device.id
                || named.iter().any(|ids| ids.iter().any(|id| id == device.id))
        };
        Self {
            devices: device::all().iter().filter(|device| is_named(device)).collect(),
            // How far a batch can go is not known where not all that it takes is.
            searches: !arguments.no_max_batch && !report.is_open(),
        }
    }

    /// The dimension whose largest size is searched.
    pub(crate) fn batch(&self, model: &Model) -> Option<String> {
        let dims = model.open_dims().into_iter().filter(|_| self.searches);
        dims.into_iter().find(|dim| dim.batch).map(|dim| dim.name)
    }
}

/// How the run ends on the devices, which takes many times as long as the estimate; `stages` has what that made.
pub(crate) fn devices(
    model: &Model,
    config: &Config,
    asked: &Asked,
    mut stages: Stages,
) -> Result<Vec<DeviceAnswer>, Error> {
    let line = asked.searches.then(|| model.batch_line(config, &mut stages));
    on_devices(model, config, asked, line.as_ref(), stages)
}

/// Threads share the devices out; those of about the same memory stay together, since their searches try the
/// same batches, and the run on one of them predicts how it ends on the others.
fn on_devices(
    model: &Model,
    config: &Config,
    asked: &Asked,
    line: Option<&BatchLine>,
    stages: Stages,
) -> Result<Vec<DeviceAnswer>, Error> {
    let devices = &asked.devices;
    let mut by_memory: Vec<(usize, &Device)> = devices.iter().copied().enumerate().collect();
    by_memory.sort_by_key(|(_, device)| device.capacity);
    // At most a tenth more than the one before.
    let alike = |(_, a): &(usize, &Device), (_, b): &(usize, &Device)| {
        b.capacity.times(10) <= a.capacity.times(11)
    };
    let queue = Mutex::new(by_memory.chunk_by(alike));
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let progress = Progress::of(devices.len());
    let work = |mut stages: Stages| -> Vec<(usize, Result<DeviceAnswer, Error>)> {
        std::iter::from_fn(next)
            .flatten()
            .map(|&(index, device)| {
                let answer = on_device(model, config, device, line, &mut stages);
                progress.advance();
                (index, answer)
            })
            .collect()
    };
    // What is known answers at once where nothing is searched: another thread would have to run it again.
    let groups = if line.is_some() { by_memory.chunk_by(alike).count() } else { 1 };
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
    progress.clear();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn on_device(
    model: &Model,
    config: &Config,
    device: &Device,
    line: Option<&BatchLine>,
    stages: &mut Stages,
) -> Result<DeviceAnswer, Error> {
    let verdict = model.verdict(config, device.id, stages)?;
    let search = |line| model.largest_batch(config, device.id, line, stages);
    let largest = line.map(search).transpose()?;
    let largest = largest.flatten().unwrap_or_default();
    Ok(DeviceAnswer { verdict, largest })
}

/// A line on a terminal's stderr that counts devices, and goes away again.
#[derive(Debug)]
struct Progress {
    all: usize,
    done: AtomicUsize,
    is_shown: bool,
}

impl Progress {
    fn of(all: usize) -> Self {
        Self { all, done: AtomicUsize::new(0), is_shown: io::stderr().is_terminal() }
    }

    fn advance(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.show(&format!("\r{done} of {} GPUs", self.all));
    }

    fn clear(&self) {
        // Back to the start of the line, and all of it erased.
        self.show("\r\x1b[K");
    }

    /// A stderr that is closed shows nothing.
    fn show(&self, text: &str) {
        if self.is_shown {
            io::stderr().write_all(text.as_bytes()).ok();
        }
    }
}
