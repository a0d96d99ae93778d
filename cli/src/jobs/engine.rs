//! [`Engine`]: answers jobs. Models that were read are kept for the next ones.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use highwater_core::config::PyTorch;
use highwater_core::estimate::{LargestBatch, Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::report::Verdict;
use highwater_core::{Config, Error, Model, device, recipe};
use serde_json::Value;

use super::answer::{Answer, Device, Failure, Reply, Slice};
use super::files::Files;
use super::job::{Job, Source};
use crate::answer::{self, Asked};
use crate::called;
use crate::file::FileSource;

/// Answers jobs, on any number of threads.
#[derive(Debug)]
pub(crate) struct Engine {
    files: Files,
    models: Mutex<VecDeque<Kept>>,
}

/// A model that was read.
#[derive(Debug)]
struct Kept {
    key: Key,
    model: Arc<Model>,
    /// COUNT: operators of the graph, and one for each [`Engine::TEXT`] of what was sent.
    weight: usize,
}

/// What a model was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    model: Option<String>,
    recipe: Option<String>,
    pytorch: Option<String>,
    /// When a file was changed.
    changed: Option<SystemTime>,
}

/// What one thread keeps between jobs.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// The newest last.
    stages: VecDeque<(Arc<Model>, Stages)>,
}

impl Worker {
    /// COUNT: models whose stages are kept.
    const MODELS: usize = 2;

    fn take(&mut self, model: &Arc<Model>) -> Stages {
        let at = self.stages.iter().position(|(known, _)| Arc::ptr_eq(known, model));
        at.and_then(|at| self.stages.remove(at)).map(|(_, stages)| stages).unwrap_or_default()
    }

    fn keep(&mut self, model: Arc<Model>, stages: Stages) {
        self.stages.push_back((model, stages));
        if self.stages.len() > Self::MODELS {
            self.stages.pop_front();
        }
    }
}

impl Engine {
    /// COUNT: models that are kept.
    const MODELS: usize = 64;
    /// COUNT: operators of all models that are kept, the newest in any case.
    const WEIGHT: usize = 400_000;
    /// SIZE: bytes of text that weigh as much as an operator.
    const TEXT: usize = 64;

    /// An engine that has read nothing.
    pub(crate) const fn new(files: Files) -> Self {
        Self { files, models: Mutex::new(VecDeque::new()) }
    }

    /// COUNT: models that are kept.
    pub(crate) fn models(&self) -> usize {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The answer to a job that is written as JSON.
    pub(crate) fn answer(&self, text: &[u8], worker: &mut Worker) -> Reply {
        let (id, job) = Job::read(text);
        let result = job.and_then(|job| {
            let run = AssertUnwindSafe(|| self.run(&job, worker));
            panic::catch_unwind(run).unwrap_or_else(|panic| {
                // What it was at is not kept.
                *worker = Worker::default();
                Err(broken(&*panic))
            })
        });
        Reply::of(id, result)
    }

    fn run(&self, job: &Job, worker: &mut Worker) -> Result<Answer, Failure> {
        let model = self.model(job)?;
        let config = job.config(&model)?;
        let mut stages = worker.take(&model);
        let answer = Self::estimate(job, &model, &config, &mut stages);
        worker.keep(model, stages);
        answer
    }

    fn estimate(
        job: &Job,
        model: &Model,
        config: &Config,
        stages: &mut Stages,
    ) -> Result<Answer, Failure> {
        let failure = |error: Error| Failure::of(&error);
        let devices = job.on(config)?;
        let report = model.simulate(config, stages).map_err(failure)?.report();
        let config = &model.settled(config, stages).map_err(failure)?;
        let asked = Asked::of(devices.clone());
        let verdicts = answer::verdicts(model, config, &asked, stages).map_err(failure)?;
        let mut largest = Vec::new();
        if job.largest && !report.is_open() {
            let line = model.batch_line(config, stages);
            for device in &devices {
                let found = model.largest_batch(config, device.id, &line, stages);
                largest.push(found.map_err(failure)?.unwrap_or_default());
            }
        }
        let largest = largest.into_iter().map(Some).chain(std::iter::repeat_with(|| {
            // How far a batch can go is unknown where not all that it takes is.
            job.largest.then(LargestBatch::default)
        }));
        let mut slices = Vec::new();
        for device in &devices {
            let found = job.slices.then(|| slices_for(model, config, device, stages));
            slices.push(found.transpose().map_err(failure)?);
        }
        let mut timings = Timings::new(model, config, stages);
        let devices = devices.iter().zip(&verdicts).zip(largest).zip(slices);
        let devices = devices.map(|(((device, verdict), largest), slices)| {
            Device::of(&report, verdict, largest, job.time.then(|| timings.on(device)), slices)
        });
        let devices = devices.collect();
        Ok(Answer::of(called(model), &report, devices))
    }

    /// The model of a job, read once.
    pub(super) fn model(&self, job: &Job) -> Result<Arc<Model>, Failure> {
        let pytorch = match job.settings.get("pytorch") {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        let text = |source: &Option<Source>| source.as_ref().map(Source::text);
        let mut key =
            Key { model: text(&job.model), recipe: text(&job.recipe), pytorch, changed: None };
        let path = match &job.model {
            Some(Source::Text(name)) if self.files.has(name) || catalogue::find(name).is_none() => {
                let name = name.clone();
                let (path, changed) = self.files.read(move |files| {
                    let path = files.find(&name)?;
                    let changed = path.metadata().and_then(|file| file.modified()).ok();
                    Ok((path, changed))
                })?;
                key.changed = changed;
                key.model = Some(path.display().to_string());
                Some(path)
            }
            _ => None,
        };
        if let Some(model) = self.kept(&key) {
            return Ok(model);
        }
        let failure = |error: Error| Failure::of(&error).at("model");
        let pytorch: Option<PyTorch> =
            key.pytorch.as_deref().map(str::parse).transpose().map_err(failure)?;
        let model = match (&job.model, path) {
            (Some(Source::Object(_)), _) => {
                let text = key.model.clone().unwrap_or_default();
                let model = highwater_core::open_for(&mut text.as_bytes(), "model", pytorch);
                Some(model.map_err(failure))
            }
            (Some(Source::Text(name)), None) => {
                let entry = catalogue::find(name);
                entry.map(|entry| highwater_core::open_named(&entry).map_err(failure))
            }
            (_, Some(path)) => Some(self.files.read(move |_| {
                let open = |mut source: FileSource| {
                    highwater_core::open_for(&mut source, &path.to_string_lossy(), pytorch)
                };
                FileSource::open(&path).and_then(open).map_err(failure)
            })),
            (None, None) => None,
        };
        let mut model = model.transpose()?;
        if let Some(text) = &key.recipe {
            model = Some(trained_by(text, model, pytorch)?);
        }
        let model = model.ok_or_else(|| Failure::new("bad-job", "the job has no model"))?;
        Ok(self.keep(key, Arc::new(model)))
    }

    fn kept(&self, key: &Key) -> Option<Arc<Model>> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let at = models.iter().position(|kept| kept.key == *key)?;
        let kept = models.remove(at)?;
        let model = Arc::clone(&kept.model);
        models.push_back(kept);
        Some(model)
    }

    fn keep(&self, key: Key, model: Arc<Model>) -> Arc<Model> {
        let texts = [&key.model, &key.recipe].into_iter().flatten();
        let weight = model.graph().nodes.len() + texts.map(String::len).sum::<usize>() / Self::TEXT;
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = models.iter().find(|kept| kept.key == key) {
            // Another thread was faster.
            return Arc::clone(&known.model);
        }
        models.push_back(Kept { key, model: Arc::clone(&model), weight });
        let sum = |models: &VecDeque<Kept>| models.iter().map(|kept| kept.weight).sum::<usize>();
        while models.len() > 1 && (models.len() > Self::MODELS || sum(&models) > Self::WEIGHT) {
            models.pop_front();
        }
        model
    }
}

/// The slices of a GPU on which a run surely fits, the smallest first.
fn slices_for(
    model: &Model,
    config: &Config,
    device: &device::Device,
    stages: &mut Stages,
) -> Result<Vec<Slice>, Error> {
    let mut found = Vec::new();
    for slice in device::slices(device.id) {
        let verdict = model.verdict(config, slice.id, stages)?;
        if verdict.verdict == Verdict::Fits {
            found.push(Slice::of(slice, &verdict));
        }
    }
    Ok(found)
}

/// A model with the settings of a recipe, which may name the model.
fn trained_by(
    text: &str,
    model: Option<Model>,
    pytorch: Option<PyTorch>,
) -> Result<Model, Failure> {
    let failure = |error: Error| Failure::of(&error).at("recipe");
    let Some(model) = model else {
        return highwater_core::open_for(&mut text.as_bytes(), "recipe", pytorch).map_err(failure);
    };
    let recipe = recipe::read(text, pytorch).map_err(failure)?.ok_or_else(|| {
        let message = "`recipe` is no training recipe; give the arguments of a trainer, or the text of a script or a \
                       YAML file";
        Failure::new("bad-job", message).at("recipe")
    })?;
    Ok(model.trained_by(recipe))
}

/// That the program has a mistake.
fn broken(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let message = format!(
        "Highwater has a mistake, and this job shows it ({text}); please report the job. Other jobs are answered"
    );
    Failure::new("internal", message)
}
