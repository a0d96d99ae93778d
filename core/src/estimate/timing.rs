//! [`Timings`]: how long the step of a configuration takes on each GPU.

use std::rc::Rc;

use super::usual::reads_texts;
use super::{Model, Stages};
use crate::config::Config;
use crate::device::{self, Device};
use crate::eager::Launches;
use crate::error::{Error, ErrorKind};
use crate::time::{Clock, Generation, Gpu, Launched, Picoseconds, StepTime, Timing};

/// The times of one configuration. GPUs for which PyTorch launches the same kernels share them.
#[derive(Debug)]
pub struct Timings<'a> {
    model: &'a Model,
    config: Config,
    stages: &'a mut Stages,
}

impl<'a> Timings<'a> {
    /// Of a configuration; nothing is computed yet.
    pub fn new(model: &'a Model, config: &Config, stages: &'a mut Stages) -> Self {
        Self { model, config: config.clone(), stages }
    }

    /// A step on a GPU.
    ///
    /// # Errors
    /// When its vendor has not published its rates; as [`Model::estimate`].
    pub fn on(&mut self, device: &'static Device) -> Result<Timing, Error> {
        self.on_form(device, None)
    }

    /// The same on a form of its board, such as `PCIe`; without one on the usual form.
    ///
    /// # Errors
    /// When there is no such form, or tokens are written ([`Timings::generation`]); as [`Timings::on`].
    pub fn on_form(
        &mut self,
        device: &'static Device,
        form: Option<&str>,
    ) -> Result<Timing, Error> {
        if self.config.workload.generates() {
            let message = say!(
                "generation has no step: reading the prompts and writing each token take times of their own, which \
                 `highwater time` answers in a shell"
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("workload"));
        }
        let gpu = self.gpu(device, form)?;
        let (samples, tokens) = self.model.amounts(&self.config)?;
        let is_parallel = self.config.is_parallel();
        let ranks = is_parallel.then(|| self.config.ranks()).transpose()?;
        let (gpus, readers) = ranks.map_or((1, 1), |ranks| (ranks.all(), ranks.readers()));
        let launches = self.stages.launches_of_step(self.model, &self.config, device)?;
        let time = StepTime::of(&launches, gpu);
        let samples = samples.saturating_mul(readers);
        let tokens = tokens.map(|tokens| tokens.saturating_mul(readers));
        Ok(Timing { device, gpu, time, gpus, readers, samples, tokens })
    }

    /// One call of `generate` on a GPU, or on a form of its board.
    ///
    /// # Errors
    /// When the workload is not generation; as [`Timings::on_form`].
    pub fn generation(
        &mut self,
        device: &'static Device,
        form: Option<&str>,
        launched: Launched,
    ) -> Result<Generation, Error> {
        if !self.config.workload.generates() {
            let message = say!("no tokens are written: choose the workload generation");
            return Err(Error::new(ErrorKind::BadConfig, message).about("workload"));
        }
        let gpu = self.gpu(device, form)?;
        let (texts, _) = self.model.amounts(&self.config.in_effect())?;
        let launches = self.launches(device)?;
        let new_tokens = self.config.new_tokens.get();
        Ok(Generation::of(&launches, (device, gpu), (texts, new_tokens), launched))
    }

    /// What a sample takes on the configuration's own GPU, or a text that is written.
    ///
    /// # Errors
    /// As [`Timings::on`].
    pub fn sample(&mut self) -> Result<Picoseconds, Error> {
        let device = device::find(&self.config.device)?;
        let (step, samples) = if self.config.workload.generates() {
            let written = self.generation(device, None, Launched::ByPython)?;
            (written.total().time, written.texts)
        } else {
            let timing = self.on(device)?;
            (timing.time.step(), timing.samples)
        };
        Ok(Picoseconds(step.0.div_euclid(samples.max(1))))
    }

    /// When events of the run happen on the configuration's own GPU; `None` where the run repeats what was not launched
    /// for each trip of a loop.
    ///
    /// # Errors
    /// As [`Timings::on`].
    pub fn clock(&mut self, events: &[usize]) -> Result<Option<Clock>, Error> {
        let device = device::find(&self.config.device)?;
        let gpu = self.gpu(device, None)?;
        let launches = self.stages.launches(self.model, &self.config, device, true)?;
        let is_whole = launches.list.iter().all(|launch| launch.times == 1);
        Ok(is_whole.then(|| Clock::of(&launches, gpu, events)))
    }

    /// What decides over times there.
    fn gpu(&self, device: &Device, form: Option<&str>) -> Result<Gpu, Error> {
        let tf32 = self.config.tf32.of(self.config.pytorch);
        let gpu = form.map_or_else(|| Gpu::of(device), |form| Gpu::of_form(device, form))?;
        Ok(Gpu { tf32, ..gpu })
    }

    /// The kernels of all iterations on a GPU.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn launches(&mut self, device: &Device) -> Result<Rc<Launches>, Error> {
        self.stages.launches(self.model, &self.config, device, false)
    }
}

impl Model {
    /// COUNT: samples of a step on a GPU, and tokens where the model reads texts.
    fn amounts(&self, config: &Config) -> Result<(u64, Option<u64>), Error> {
        let dims = self.open_dims();
        let given = self.own_dims(config)?.dims;
        let size = |name: &str, default: u64| given.get(name).copied().unwrap_or(default);
        let batch = dims.iter().find(|dim| dim.batch);
        let batch = batch.map_or(1, |dim| size(&dim.name, dim.default));
        let samples = batch.saturating_mul(config.accumulate.get());
        let reads_texts = reads_texts(&self.graph);
        let others = dims.iter().filter(|dim| !dim.batch && reads_texts);
        let first = others.min_by_key(|dim| dim.inputs.is_empty());
        let length = first.map(|dim| size(&dim.name, dim.default));
        Ok((samples, length.map(|length| samples.saturating_mul(length))))
    }
}
