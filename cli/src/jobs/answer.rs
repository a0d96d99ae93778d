//! [`Reply`]: the answer to a job, or why there is none. Bytes are integers.

use std::collections::BTreeMap;

use highwater_core::device::{self as core_device, Interval};
use highwater_core::diagnostic::Diagnostic;
use highwater_core::estimate::LargestBatch;
use highwater_core::export::{DeviceAnswer, JsonConfig};
use highwater_core::report::{DeviceVerdict, Peak, Report};
use highwater_core::sharing::Requests;
use highwater_core::time::{Share, Timing, Utilisation};
use highwater_core::wording::answer::lead;
use highwater_core::{Bytes, Error, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema::Settings;

/// What comes back for a job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// That of the job.
    pub(crate) id: Value,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    /// The answer.
    #[serde(flatten)]
    pub(crate) answer: Option<Answer>,
}

/// Why a job has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// Stable name of the cause, such as `bad-json`, `unknown-key` or `bad-config`.
    pub(crate) kind: String,
    /// What happened, where, and what to do.
    pub(crate) message: String,
    /// Key of the job that it is about, such as `settings.optimizer`.
    pub(crate) at: Option<String>,
}

/// The memory of a training run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Name of the model.
    model: String,
    /// All settings of the run; they may be sent back as `settings`.
    #[schemars(with = "Settings")]
    config: Value,
    /// The peak on the GPU of the settings.
    peak: JobPeak,
    /// How the run ends on each GPU, in the order of the job.
    devices: Vec<Device>,
    /// Whether the run needs more than was counted.
    lower_bound: bool,
    /// Whether the truth may lie far above or below.
    uncertain: bool,
    /// Warnings and errors about parts of the model.
    diagnostics: Vec<Note>,
}

/// The highest moment, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
struct JobPeak {
    /// Bytes of tensors.
    requested: u64,
    /// `torch.cuda.max_memory_allocated()`.
    allocated: u64,
    /// `torch.cuda.max_memory_reserved()`.
    reserved: u64,
    /// Reserved memory and the CUDA context.
    process: u64,
    /// Phase of the allocated peak.
    phase: &'static str,
    /// Iteration of the allocated peak, from 1.
    iteration: usize,
    /// Operator of the allocated peak.
    operator: String,
    /// Module of the allocated peak; may be empty.
    module: String,
}

/// How a run ends on one GPU, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Device {
    /// Id of the GPU.
    id: String,
    /// Memory of the GPU, as PyTorch reports it.
    capacity: u64,
    /// What the process may use of it, its CUDA context included.
    usable: u64,
    /// What the process is expected to need, its CUDA context included.
    need: u64,
    /// CUDA context and libraries, part of the need.
    context: u64,
    /// What nine runs in ten need.
    interval: Option<Ends>,
    /// Percent: the chance that the run fits.
    chance: Option<u64>,
    /// `fits`, `likely-fits`, `fits-after-flush`, `not-known`, `likely-does-not-fit` or `does-not-fit`.
    verdict: &'static str,
    /// The verdict in a sentence for people.
    sentence: String,
    /// What a scheduler asks for; `null` where the run is expected to fail.
    requests: Option<JobRequests>,
    /// The largest batches, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    largest: Option<Largest>,
    /// Step time and utilisation, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
    /// The slices on which the run fits, the smallest first, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    slices: Option<Vec<Slice>>,
}

/// A slice of a GPU, by MIG.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Slice {
    /// Its id as a GPU of its own: `a100-80gb-1g.10gb`.
    id: String,
    /// Its profile: `1g.10gb`, as `nvidia.com/mig-1g.10gb` in Kubernetes.
    profile: String,
    /// What the process is expected to need on it.
    need: u64,
    /// Percent: the chance that the run fits on it.
    chance: Option<u64>,
}

impl Slice {
    /// How a run ends on a slice.
    pub(crate) fn of(device: &core_device::Device, verdict: &DeviceVerdict) -> Self {
        Self {
            id: device.id.to_owned(),
            profile: device.nameplate.to_owned(),
            need: verdict.need.0,
            chance: verdict.chance,
        }
    }
}

/// Two ends.
#[derive(Debug, Serialize, JsonSchema)]
struct Ends {
    /// One run in twenty needs less.
    low: u64,
    /// One run in twenty needs more.
    high: u64,
}

/// What a scheduler asks for so that the run may share the GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct JobRequests {
    /// MiB of the process: `nvidia.com/gpumem` of HAMi, or a memory limit of MPS.
    memory_mib: u64,
    /// Share of the GPU, rounded up to hundredths: `num_gpus` of Ray.
    gpu_fraction: f64,
    /// Shards of Slurm, one of which stands for 1 GiB.
    shards: u64,
    /// Argument of `torch.cuda.set_per_process_memory_fraction`.
    fraction_of_allocator: f64,
    /// Whether at most one run in twenty needs more than this.
    is_sure: bool,
}

/// Largest batches; `null` where they are unknown.
#[derive(Debug, Serialize, JsonSchema)]
struct Largest {
    /// Fits with a chance of nine in ten.
    likely: Option<u64>,
    /// Fits as expected.
    expected: Option<u64>,
    /// Fits after the allocator gave cached segments back.
    with_flush: Option<u64>,
}

/// A step on one GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct Time {
    /// How long a step takes.
    picoseconds: Option<u64>,
    /// What nine steps in ten take.
    interval_picoseconds: Option<[u64; 2]>,
    /// Samples of a step.
    samples: Option<u64>,
    /// Tokens of a step, where the model reads texts.
    tokens: Option<u64>,
    /// What a step waits for.
    bound: Option<String>,
    /// Shares from 0 to 1, as DCGM averages them, with a data loader as fast as needed.
    utilisation: Option<BTreeMap<String, f64>>,
    /// The same of the idlest measured loop.
    least_utilisation: Option<BTreeMap<String, f64>>,
    /// Why there is no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

/// A word of caution.
#[derive(Debug, Serialize, JsonSchema)]
struct Note {
    /// `warning` or `error`.
    severity: &'static str,
    /// Stable name of the cause.
    code: String,
    /// What happened, and what to do.
    message: String,
}

impl Reply {
    /// The answer, or why there is none.
    pub(crate) fn of(id: Value, result: Result<Answer, Failure>) -> Self {
        match result {
            Ok(answer) => Self { id, error: None, answer: Some(answer) },
            Err(error) => Self { id, error: Some(error), answer: None },
        }
    }

    /// One line of JSON, without its end.
    pub(crate) fn line(&self) -> String {
        // Fails only for maps whose keys are no texts, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Failure {
    /// `message` is one or more sentences without the last full stop.
    pub(crate) fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), at: None }
    }

    /// An error of the core, and the setting that it is about.
    pub(crate) fn of(error: &Error) -> Self {
        let at = error.setting().map(|setting| format!("settings.{}", setting.replace('-', "_")));
        Self { at, ..Self::new(error.kind().name(), error.to_string()) }
    }

    /// The same, about a key of the job, unless it names one already.
    pub(crate) fn at(self, key: &str) -> Self {
        Self { at: self.at.or_else(|| Some(key.to_owned())), ..self }
    }
}

impl Answer {
    /// The answer of a report; `devices` in the order of the job.
    pub(crate) fn of(model: String, report: &Report, devices: Vec<Device>) -> Self {
        let config = JsonConfig::of(&report.config, report.iterations.len());
        let notes = report.diagnostics.iter().filter(|note| note.severity >= Severity::Warning);
        Self {
            model,
            config: serde_json::to_value(config).unwrap_or_default(),
            peak: JobPeak::of(&report.peak),
            devices,
            lower_bound: report.lower_bound,
            uncertain: report.uncertain,
            diagnostics: notes.map(Note::of).collect(),
        }
    }
}

impl JobPeak {
    fn of(peak: &Peak) -> Self {
        Self {
            requested: peak.requested.0,
            allocated: peak.allocated.0,
            reserved: peak.reserved.0,
            process: peak.process.0,
            phase: peak.phase.name(),
            iteration: peak.iteration,
            operator: peak.operator.clone(),
            module: peak.module.clone(),
        }
    }
}

impl Device {
    /// How a run ends, with what else was asked for.
    pub(crate) fn of(
        report: &Report,
        answer: &DeviceAnswer,
        largest: Option<LargestBatch>,
        time: Option<Result<Timing, Error>>,
        slices: Option<Vec<Slice>>,
    ) -> Self {
        let verdict: &DeviceVerdict = &answer.verdict;
        let ends = |Interval { low: Bytes(low), high: Bytes(high) }| Ends { low, high };
        Self {
            id: verdict.id.clone(),
            capacity: verdict.capacity.0,
            usable: verdict.usable().0,
            need: verdict.need.0,
            context: verdict.context.0,
            interval: verdict.interval.map(ends),
            chance: verdict.chance,
            verdict: verdict.verdict.name(),
            sentence: lead(report, verdict).to_string(),
            requests: Requests::of(verdict).map(JobRequests::of),
            largest: largest.map(|found| Largest {
                likely: found.likely,
                expected: found.without_flush,
                with_flush: found.with_flush,
            }),
            time: time.map(|time| Time::of(&time)),
            slices,
        }
    }
}

impl JobRequests {
    fn of(requests: Requests) -> Self {
        let Requests { memory_mib, gpu_hundredths, shards, allocator_millionths, is_sure } =
            requests;
        let gpu_fraction = parts(gpu_hundredths, 100);
        let fraction_of_allocator = parts(allocator_millionths, 1_000_000);
        Self { memory_mib, gpu_fraction, shards, fraction_of_allocator, is_sure }
    }
}

impl Time {
    fn of(time: &Result<Timing, Error>) -> Self {
        let timing = match time {
            Ok(timing) => timing,
            Err(error) => {
                let error = Some(Failure::of(error));
                return Self { error, ..Self::empty() };
            }
        };
        let shares = |used: Utilisation| -> BTreeMap<String, f64> {
            let share = |(name, share)| -> (String, f64) {
                let Share(share) = share;
                let all = u64::from(Share::ALL);
                (String::from(name), parts(u64::from(share), all))
            };
            used.named().map(share).into_iter().collect()
        };
        let step = &timing.time;
        let (least, most) = step.interval();
        Self {
            picoseconds: Some(step.step().0),
            interval_picoseconds: Some([least.0, most.0]),
            samples: Some(timing.samples),
            tokens: timing.tokens,
            bound: Some(step.bound().name().to_owned()),
            utilisation: Some(shares(step.utilisation())),
            least_utilisation: Some(shares(step.least_utilisation())),
            error: None,
        }
    }

    const fn empty() -> Self {
        Self {
            picoseconds: None,
            interval_picoseconds: None,
            samples: None,
            tokens: None,
            bound: None,
            utilisation: None,
            least_utilisation: None,
            error: None,
        }
    }
}

impl Note {
    fn of(note: &Diagnostic) -> Self {
        Self {
            severity: note.severity.name(),
            code: note.code.clone(),
            message: note.message.to_string(),
        }
    }
}

/// A fraction as JSON has it. Both numbers are far below 2^53, so that it is the nearest one.
#[expect(clippy::cast_precision_loss, reason = "at most a million")]
fn parts(of: u64, whole: u64) -> f64 {
    of as f64 / whole as f64
}
