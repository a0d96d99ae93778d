//! The whole path: a model, opened once, answers any number of questions.
//!
//! [`Model::estimate`] reads as the stage table of the crate.

use std::cmp::Reverse;

use crate::allocator::{self, Replay, Settings};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device::{self, Device, Verdict};
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::Hardware;
use crate::error::{Error, ErrorKind};
use crate::formats;
use crate::graph::Graph;
use crate::infer::{self, OpenDim, Typed};
use crate::recover;
use crate::report::{self, DeviceVerdict, Report};
use crate::source::Source;
use crate::step::{self, loss::Loss};
use crate::trace::Trace;

/// A model that was read and can be estimated under any configuration.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    graph: Graph,
}

/// What one configuration does, before any allocator has seen it.
#[derive(Clone, Debug)]
struct Run {
    config: Config,
    typed: Typed,
    trace: Trace,
    diagnostics: Vec<Diagnostic>,
}

/// Reads a model; weights are not read.
///
/// # Errors
/// When the content is not a model that can be read here, is damaged, or contradicts itself.
pub fn open(source: &mut dyn Source, name: &str) -> Result<Model, Error> {
    let graph = formats::open(source, name)?;
    Ok(Model { name: name.to_owned(), graph })
}

impl Model {
    /// What its owner calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The graph as the file states it.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Dimensions that the user may set, the batch first.
    pub fn open_dims(&self) -> Vec<OpenDim> {
        infer::open_dims(&self.graph)
    }

    /// The whole answer for one configuration on its device.
    ///
    /// # Errors
    /// When the configuration names a device or a dimension that there is not, or an absurd size.
    pub fn estimate(&self, config: &Config) -> Result<Report, Error> {
        let device = find(&config.device)?;
        let run = self.run(config, device)?;
        let (replay, series) = allocator::replay_series(&run.trace, &Settings::default(), None);
        let verdict = judge(&run.trace, &replay, device);
        let summary = report::ModelSummary::of(&self.name, &self.graph, &run.trace);
        let lower_bound = run.typed.lower_bound
            || run.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        Ok(Report {
            model: summary,
            config: run.config,
            diagnostics: run.diagnostics,
            lower_bound,
            ..Report::of(&run.trace, &replay, &series, verdict)
        })
    }

    /// How the configuration ends on a device.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn verdict(&self, config: &Config, device_id: &str) -> Result<DeviceVerdict, Error> {
        let device = find(device_id)?;
        let run = self.run(config, device)?;
        let replay = allocator::replay(&run.trace, &Settings::default(), None);
        Ok(judge(&run.trace, &replay, device))
    }

    /// The events of a run, as PyTorch would make them on a device.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn trace(&self, config: &Config) -> Result<Trace, Error> {
        Ok(self.run(config, find(&config.device)?)?.trace)
    }

    /// The largest batch that survives on a device; `None` if not even one sample does, or the model
    /// has no batch.
    ///
    /// Every candidate is simulated. The search guesses by a straight line through what it has seen,
    /// bisects where that does not help, and ends when a batch fits and the next one does not.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn largest_batch(&self, config: &Config, device_id: &str) -> Result<Option<u64>, Error> {
        const ABSURD: u64 = 1 << 22;
        let device = find(device_id)?;
        let Some(batch) = self.open_dims().into_iter().find(|dim| dim.batch) else {
            return Ok(None);
        };
        let mut probe = config.clone();
        let mut seen: Vec<(u64, Bytes)> = Vec::new();
        let mut survives = |n: u64, seen: &mut Vec<(u64, Bytes)>| -> Result<bool, Error> {
            probe.dims.insert(batch.name.clone(), n);
            match self.verdict(&probe, device_id) {
                Ok(verdict) => {
                    seen.push((n, verdict.need));
                    Ok(verdict.verdict.survives())
                }
                Err(error) if error.kind() == ErrorKind::TooLarge => Ok(false),
                Err(error) => Err(error),
            }
        };
        let (mut fits, mut fails) = (0, ABSURD);
        let mut guess = config.dims.get(&batch.name).copied().unwrap_or(batch.default);
        let mut reach = 1;
        loop {
            guess = guess.clamp(fits + 1, fails - 1);
            let width = fails - fits;
            *(if survives(guess, &mut seen)? { &mut fits } else { &mut fails }) = guess;
            if fails - fits <= 1 {
                break;
            }
            let crossing = crossing(&seen, device.capacity);
            guess = if fails == ABSURD {
                // Past the line lies what survives by giving back cached segments.
                reach *= 2;
                crossing.map_or(fits * 2, |crossing| crossing.max(fits + reach))
            } else {
                // The line is trusted only as long as it at least halves what is left.
                let middle = fits.midpoint(fails);
                let halved = (fails - fits) * 2 <= width;
                crossing.filter(|_| halved).unwrap_or(middle)
            };
        }
        Ok((fits > 0).then_some(fits))
    }

    fn run(&self, config: &Config, device: &Device) -> Result<Run, Error> {
        let typed = infer::infer(&self.graph, &config.dims)?;
        let program = recover::recover(&self.graph, &typed);
        let loss = Loss::choose(&self.graph, &typed);
        let hardware = hardware(device);
        let trace = step::record(&program.graph, &typed, &loss, config.optimizer, hardware);
        let mut diagnostics = self.graph.diagnostics.clone();
        diagnostics.extend(typed.diagnostics.iter().cloned());
        diagnostics.push(loss.diagnostic());
        diagnostics.extend(program.diagnostics);
        diagnostics.sort_by_key(|diagnostic| Reverse(diagnostic.severity));
        let config = Config { dims: typed.dims.clone(), ..config.clone() };
        Ok(Run { config, typed, trace, diagnostics })
    }
}

/// Where the straight line through the two points nearest to the capacity meets it.
fn crossing(seen: &[(u64, Bytes)], capacity: Bytes) -> Option<u64> {
    let mut nearest: Vec<_> = seen.to_vec();
    nearest.sort_by_key(|&(_, need)| need.0.abs_diff(capacity.0));
    let [(n1, b1), (n2, b2), ..] = nearest.as_slice() else { return None };
    // n1 + (capacity - b1) · (n2 - n1) / (b2 - b1)
    let rise = i128::from(b2.0) - i128::from(b1.0);
    let run = i128::from(*n2) - i128::from(*n1);
    let wanted = i128::from(capacity.0) - i128::from(b1.0);
    let step = (wanted * run).checked_div_euclid(rise)?;
    Some(u64::try_from(i128::from(*n1) + step).unwrap_or(0))
}

fn find(id: &str) -> Result<&'static Device, Error> {
    device::lookup(id).ok_or_else(|| {
        let known: Vec<_> = device::all().iter().map(|device| device.id).collect();
        let message = format!("unknown device `{id}`; known are {}", known.join(", "));
        Error::new(ErrorKind::BadConfig, message)
    })
}

fn hardware(device: &Device) -> Hardware {
    Hardware {
        capability: device.compute_capability,
        multiprocessors: device.multiprocessors,
        threads_per_multiprocessor: device.threads_per_multiprocessor,
        cublas_workspace: device.cublas_workspace(),
    }
}

/// The verdict: by the peak where it stays below the capacity, else by what happens at the limit.
fn judge(trace: &Trace, unlimited: &Replay, device: &Device) -> DeviceVerdict {
    let need = unlimited.reserved.bytes + device.context();
    let mut verdict = DeviceVerdict {
        id: device.id.to_owned(),
        name: device.name.to_owned(),
        capacity: device.capacity,
        need,
        context: device.context(),
        verdict: Verdict::DoesNotFit,
        out_of_memory: None,
    };
    if let Some(fits) = Verdict::of(need, device.capacity) {
        verdict.verdict = fits;
    } else {
        let limited = allocator::replay(trace, &Settings::default(), Some(device.limit()));
        verdict.verdict = Verdict::under_limit(&limited);
        verdict.out_of_memory =
            limited.out_of_memory.map(|failure| report::OutOfMemory::of(trace, &failure, device));
    }
    verdict
}
