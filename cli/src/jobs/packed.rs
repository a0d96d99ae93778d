//! [`Packed`]: what a job does alone on each kind of GPU, so that it can be placed. Jobs of a queue that run the same are
//! estimated once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use highwater_core::device::Device;
use highwater_core::estimate::{Alone, Stages};
use highwater_core::sharing::slowdown::Load;
use highwater_core::time::{Picoseconds, Share};
use highwater_core::{Bytes, Error};
use serde_json::{Map, Value};

use super::answer::Failure;
use super::engine::Engine;
use super::job::Job;
use crate::called;

/// A job that waits for a GPU.
#[derive(Debug)]
pub(crate) struct Packed {
    /// What it runs.
    pub(crate) work: Arc<Work>,
    /// When it is submitted, in milliseconds.
    pub(crate) submitted: u64,
    /// How long it runs alone, in milliseconds, where the job states it.
    duration: Option<u64>,
    /// COUNT: steps, where the job states them.
    steps: Option<u64>,
}

/// What jobs run.
#[derive(Debug)]
pub(crate) struct Work {
    /// Name of the model.
    pub(crate) model: String,
    /// Jobs with equal keys are off by as much.
    pub(crate) key: String,
    /// On each kind of GPU, in their order.
    pub(crate) on: Vec<OnDevice>,
}

/// What was estimated, by the job without what only places it in the queue.
#[derive(Debug, Default)]
pub(crate) struct KnownWork(Mutex<BTreeMap<String, Arc<Estimated>>>);

type Estimated = OnceLock<Result<Arc<Work>, Failure>>;

impl KnownWork {
    fn of(
        &self,
        key: String,
        estimate: impl FnOnce() -> Result<Work, Failure>,
    ) -> Result<Arc<Work>, Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(known.entry(key).or_default());
        // Others may be estimated meanwhile.
        drop(known);
        slot.get_or_init(|| estimate().map(Arc::new)).clone()
    }
}

/// A job alone on one kind of GPU.
#[derive(Debug)]
pub(crate) struct OnDevice {
    /// What it does there.
    pub(crate) alone: Alone,
    /// A step's kernels; `None` where there is no time.
    pub(crate) load: Option<Load>,
}

/// Keys of a job in a queue that estimates have no use for.
const KEYS: [&str; 3] = ["submitted", "duration", "steps"];
/// MILLISECONDS: how long a job is assumed to run that states nothing: an hour.
const HOUR: u64 = 3_600_000;

impl OnDevice {
    /// SIZE: the upper end of what nine runs in ten need; `None` where it is unknown.
    pub(crate) fn upper(&self) -> Option<Bytes> {
        self.alone.verdict.interval.map(|interval| interval.high)
    }

    /// How busy it keeps the multiprocessors; all of them where that is unknown.
    pub(crate) fn active(&self) -> Share {
        let timing = self.alone.timing.as_ref();
        timing.map_or(Share(Share::ALL), |timing| timing.time.utilisation().sm_active)
    }
}

impl Packed {
    /// How long it runs alone there, in milliseconds.
    pub(crate) fn duration(&self, on: &OnDevice) -> u64 {
        const MILLISECOND: u64 = 1_000_000_000;
        let by_steps = || {
            let Picoseconds(step) = on.alone.timing.as_ref()?.time.step();
            Some(step.saturating_mul(self.steps?).div_ceil(MILLISECOND))
        };
        self.duration.or_else(by_steps).unwrap_or(HOUR).max(1)
    }
}

impl Engine {
    /// Reads a job of a queue and estimates it on some kinds of GPUs; its id in any case.
    pub(crate) fn pack(
        &self,
        text: &[u8],
        kinds: &[&'static Device],
        known: &KnownWork,
    ) -> (Value, Result<Packed, Failure>) {
        let Ok(Value::Object(object)) = serde_json::from_slice(text) else {
            let (id, job) = Job::read(text);
            let nothing = Failure::new("bad-job", "a job is a JSON object");
            return (id, Err(job.err().unwrap_or(nothing)));
        };
        let id = object.get("id").cloned().unwrap_or_default();
        (id, self.packed(object, kinds, known))
    }

    fn packed(
        &self,
        mut object: Map<String, Value>,
        kinds: &[&'static Device],
        known: &KnownWork,
    ) -> Result<Packed, Failure> {
        let mut numbers = [None; KEYS.len()];
        for (key, number) in KEYS.into_iter().zip(&mut numbers) {
            let Some(value) = object.remove(key) else { continue };
            *number = Some(amount(key, &value)?);
        }
        let [submitted, duration, steps] = numbers;
        object.remove("id");
        let key = Value::Object(object.clone()).to_string();
        let work = known.of(key, || self.work(object, kinds))?;
        let milliseconds = |seconds: Option<u64>| seconds.map(|time| time.saturating_mul(1000));
        Ok(Packed {
            work,
            submitted: milliseconds(submitted).unwrap_or_default(),
            duration: milliseconds(duration),
            steps,
        })
    }

    fn work(
        &self,
        mut object: Map<String, Value>,
        kinds: &[&'static Device],
    ) -> Result<Work, Failure> {
        let names = kinds.iter().map(|device| Value::from(device.id)).collect();
        object.insert("devices".to_owned(), Value::Array(names));
        let job = Job::of(object)?;
        let model = self.model(&job)?;
        let failure = |error: Error| Failure::of(&error);
        let config = job.config(&model)?;
        let mut stages = Stages::default();
        let on: Result<Vec<OnDevice>, Error> = kinds
            .iter()
            .map(|device| {
                let alone = model.alone(&config, device.id, &mut stages)?;
                Ok(OnDevice { load: Load::of(&alone), alone })
            })
            .collect();
        Ok(Work {
            model: called(&model),
            key: format!("{} {}", model.name(), serde_json::to_string(&config).unwrap_or_default()),
            on: on.map_err(failure)?,
        })
    }
}

fn amount(key: &str, value: &Value) -> Result<u64, Failure> {
    value.as_u64().ok_or_else(|| {
        let what = if key == "steps" { "steps" } else { "seconds" };
        let message = format!("`{key}` must be a whole number of {what}, and is {value}");
        Failure::new("bad-job", message).at(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Files;

    /// Jobs that differ in name and time alone are one work, which is what each is by itself; others are not.
    #[test]
    fn jobs_that_run_the_same_are_estimated_once() {
        let kinds = [highwater_core::device::find("t4").expect("a device")];
        let engine = Engine::new(Files::Any);
        let known = KnownWork::default();
        let read = |job: &Value, known: &KnownWork| {
            engine.pack(job.to_string().as_bytes(), &kinds, known).1.expect("an estimate")
        };
        let job = |id: u64, batch: u64| serde_json::json!({ "id": id, "model": "resnet18", "batch": batch, "duration": id });
        let [first, second, other] =
            [job(1, 8), job(2, 8), job(3, 9)].map(|job| read(&job, &known));
        assert!(Arc::ptr_eq(&first.work, &second.work) && !Arc::ptr_eq(&first.work, &other.work));
        let alone = read(&job(2, 8), &KnownWork::default());
        assert_eq!(format!("{second:?}"), format!("{alone:?}"));
    }
}
