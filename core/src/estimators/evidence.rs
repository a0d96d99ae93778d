//! [`Run`] and [`Evidence`]: what estimators may look at.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::Estimate;
use crate::allocator::{self, Settings};
use crate::bytes::Bytes;
use crate::config::{Config, Mesh, Rank, Ranks};
use crate::error::{Error, ErrorKind};
use crate::estimate::{Layer, Model, Simulation, Stages};
use crate::tensor::{DType, numel};
use crate::trace::{Category, Event, Phase, PhaseMark, Storage, Trace};

/// A run and the layers of its model, as plain data: another program can be asked about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run<'s> {
    /// Of one GPU: formulas divide the whole model themselves.
    trace: Cow<'s, Trace>,
    /// With the ranks that share the model.
    config: Cow<'s, Config>,
    pub(super) settings: Settings,
    pub(super) layers: Vec<Layer>,
    /// COUNT: samples of a batch.
    pub(super) batch: u64,
    /// SIZE: the CUDA context on its device.
    pub(super) context: Bytes,
    /// SIZE: the same for systems that measure it on the machine.
    pub(super) measured_context: Bytes,
    pub(super) allocated: Bytes,
    pub(super) reserved: Bytes,
    /// SIZE: what the process may use on its device.
    pub(super) usable: Bytes,
    /// Whether it survives there.
    pub(super) survives: bool,
}

impl<'s> Run<'s> {
    /// What was simulated of a model, with these stages.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn of(
        model: &Model,
        simulation: &'s Simulation,
        stages: &mut Stages,
    ) -> Result<Self, Error> {
        let config = simulation.config();
        if !config.workload.trains() {
            let message =
                say!("the other estimators are of training: choose the workload training");
            return Err(Error::new(ErrorKind::BadConfig, message).about("workload"));
        }
        let (trace, asked) = if config.is_parallel() {
            let alone = alone(simulation.asked());
            let trace = model.simulate(&alone, stages)?.trace().clone();
            (Cow::Owned(trace), Cow::Owned(alone))
        } else {
            (Cow::Borrowed(simulation.trace()), Cow::Borrowed(simulation.asked()))
        };
        let batch = model.batch();
        let batch =
            batch.map_or(1, |dim| config.dims.get(&dim.name).copied().unwrap_or(dim.default));
        let (replay, verdict) = (simulation.replay(), simulation.verdict());
        Ok(Self {
            trace,
            config: Cow::Borrowed(config),
            settings: *simulation.settings(),
            layers: model.layers(&asked, stages)?,
            batch: batch.max(1),
            context: verdict.context,
            measured_context: verdict.context,
            usable: verdict.usable(),
            allocated: replay.allocated.bytes,
            reserved: replay.reserved.bytes,
            survives: verdict.verdict.survives(),
        })
    }

    /// The same run where systems that measure the CUDA context have found this.
    #[must_use]
    pub fn with_measured_context(self, measured_context: Bytes) -> Self {
        Self { measured_context, ..self }
    }

    /// SIZE: the most that we say is allocated.
    pub const fn allocated(&self) -> Bytes {
        self.allocated
    }
}

/// The same training on one GPU.
fn alone(config: &Config) -> Config {
    let (gpus, mesh, rank) = (NonZeroU64::MIN, Mesh::default(), Rank(None));
    Config { gpus, mesh, rank, ..config.clone() }
}

/// A run, and what all estimators want to know of it.
#[derive(Debug)]
pub struct Evidence<'r> {
    pub(super) run: &'r Run<'r>,
    /// By position in [`Trace::storages`].
    lives: Vec<Life>,
}

/// When a storage was alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// The phase that made it.
    pub(super) phase: Phase,
    /// Whether the operator that made it also freed it.
    pub(super) is_scratch: bool,
}

impl<'r> Evidence<'r> {
    /// What there is to know of a run.
    pub fn of(run: &'r Run<'r>) -> Self {
        Self { run, lives: lives(&run.trace) }
    }

    pub(super) fn config(&self) -> &'r Config {
        &self.run.config
    }

    /// COUNT: ranks that share the model, along each axis; `None` for one GPU.
    pub fn ranks(&self) -> Option<Ranks> {
        let config = self.config();
        let ranks = config.is_parallel().then(|| config.ranks().ok()).flatten();
        ranks.filter(|ranks| ranks.all() > 1)
    }

    /// The same, with one rank along each axis for one GPU.
    pub(super) fn ranks_or_one(&self) -> Ranks {
        self.ranks().unwrap_or(Ranks { replicate: 1, data: 1, tensor: 1, pipeline: 1 })
    }

    pub(super) fn trace(&self) -> &'r Trace {
        &self.run.trace
    }

    /// All storages of a category.
    pub(super) fn storages(&self, category: Category) -> impl Iterator<Item = &'r Storage> {
        self.trace().storages.iter().filter(move |storage| storage.category == category)
    }

    /// Parameters on the device, each once.
    fn parameters(&self) -> impl Iterator<Item = &'r Storage> {
        self.storages(Category::Parameter)
    }

    /// COUNT: elements of all parameters.
    pub(super) fn parameter_count(&self) -> u64 {
        self.parameters().map(|storage| elements(self.trace(), storage)).sum()
    }

    /// COUNT: parameters with these dimensions, each once.
    pub(super) fn parameters_of(&self, dims: &[u64]) -> usize {
        let of_dims = |storage: &&Storage| {
            self.trace().tensor(storage).is_some_and(|ty| ty.dims.as_slice() == dims)
        };
        self.parameters().filter(of_dims).count()
    }

    /// Sizes of all parameters.
    pub(super) fn parameter_sizes(&self) -> impl Iterator<Item = Bytes> {
        self.parameters().map(|storage| storage.requested)
    }

    /// COUNT: parameters of the module that has most of its own, as the names of parameters tell modules.
    pub(super) fn largest_module(&self) -> u64 {
        let mut by_module = BTreeMap::new();
        for storage in self.parameters() {
            let name = self.trace().label(storage.name);
            let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
            *by_module.entry(module).or_insert(0_u64) += elements(self.trace(), storage);
        }
        by_module.into_values().max().unwrap_or(0)
    }

    /// COUNT: modules of the longest numbered list, by the names of parameters: `h.0.ln_1.weight`; `None` where no
    /// name has a number.
    pub(super) fn blocks(&self) -> Option<u64> {
        let mut lists: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for storage in self.parameters() {
            let name = self.trace().label(storage.name);
            let dots = name.match_indices('.').map(|(at, _)| at);
            for (at, end) in dots.clone().zip(dots.skip(1)) {
                let (list, number) = (name.get(..at)?, name.get(at.saturating_add(1)..end)?);
                if number.bytes().all(|byte| byte.is_ascii_digit()) {
                    lists.entry(list).or_default().insert(number);
                }
            }
        }
        lists.values().map(BTreeSet::len).max().and_then(|most| u64::try_from(most).ok())
    }

    /// SIZE: those parameters and buffers on the device, in single precision, whose name is asked for.
    pub(super) fn model_bytes(&self, is_asked: impl Fn(&str) -> bool) -> Bytes {
        let parameters = self.parameters();
        let parameters =
            parameters.map(|storage| (storage, Bytes(elements(self.trace(), storage)).times(4)));
        let buffers = self.storages(Category::Buffer).map(|storage| {
            // Accelerate counts a bit for a truth value.
            let is_bool = self.trace().tensor(storage).is_some_and(|ty| ty.dtype == DType::Bool);
            (storage, Bytes(storage.requested.0.div_euclid(if is_bool { 8 } else { 1 })))
        });
        let all = parameters.chain(buffers);
        let asked = all.filter(|(storage, _)| is_asked(self.trace().label(storage.name)));
        asked.map(|(_, bytes)| bytes).sum()
    }

    /// Whether the model reads words.
    pub(super) fn reads_words(&self) -> bool {
        self.run.layers.iter().any(|layer| layer.reads_words)
    }

    /// SIZE: the largest tensor that a batch brings.
    pub(super) fn input_bytes(&self) -> Bytes {
        let inputs = self.storages(Category::Input);
        inputs.map(|storage| storage.requested).max().unwrap_or(Bytes::ZERO)
    }

    /// COUNT: elements of the results of all layers for one sample.
    pub(super) fn activations(&self) -> u64 {
        let all: u64 = self.run.layers.iter().map(Layer::outputs).fold(0, u64::saturating_add);
        all.checked_div(self.run.batch).unwrap_or(all)
    }

    /// The events up to the end of a phase of an iteration.
    pub(super) fn until_end_of(&self, iteration: usize, last: Phase) -> usize {
        let trace = self.trace();
        let is_later = |mark: &&PhaseMark| {
            mark.iteration > iteration || mark.iteration == iteration && mark.phase > last
        };
        trace.phases.iter().find(is_later).map_or(trace.events.len(), |mark| mark.event)
    }

    /// The run up to an event, of those storages that count.
    pub(super) fn part(&self, events: usize, counts: impl Fn(&Storage, Life) -> bool) -> Trace {
        self.trace().part(events, |id, storage| {
            self.lives.get(id.index()).is_some_and(|life| counts(storage, *life))
        })
    }

    /// What a process needs whose allocator runs this part, and of it, what is allocated; the context is measured.
    pub(super) fn process(&self, part: &Trace) -> Estimate {
        let replay = allocator::replay(part, &self.run.settings, None);
        let bytes = replay.reserved.bytes + self.run.measured_context;
        Estimate { bytes, from: None, tensors: Some(replay.allocated.bytes) }
    }

    /// Whether that process survives on its device, where its allocator may free its cache.
    pub(super) fn survives(&self, part: &Trace) -> bool {
        let limit = self.run.usable - self.run.measured_context;
        allocator::replay(part, &self.run.settings, Some(limit)).out_of_memory.is_none()
    }

    /// SUM: the most that those storages have at once which count, as tensors ask for it or rounded.
    pub(super) fn peak_of_tensors(
        &self,
        events: usize,
        rounded: Option<Bytes>,
        counts: impl Fn(&Storage, Life) -> bool,
    ) -> Bytes {
        let size = |storage: &Storage| {
            rounded.map_or(storage.requested, |block| storage.requested.round_up(block))
        };
        let (mut now, mut most) = (Bytes::ZERO, Bytes::ZERO);
        let trace = self.trace();
        for event in trace.events.iter().take(events) {
            let at = event.storage().index();
            let (Some(storage), Some(life)) = (trace.storages.get(at), self.lives.get(at)) else {
                continue;
            };
            if counts(storage, *life) {
                match event {
                    Event::Alloc(_) => now += size(storage),
                    Event::Free(_) => now = now.saturating_sub(size(storage)),
                }
                most = most.max(now);
            }
        }
        most
    }
}

/// COUNT: elements of a parameter.
fn elements(trace: &Trace, storage: &Storage) -> u64 {
    trace.tensor(storage).map_or(0, |ty| numel(&ty.dims))
}

/// When each storage is alive.
fn lives(trace: &Trace) -> Vec<Life> {
    let none = Life { phase: Phase::Setup, is_scratch: false };
    let mut lives = vec![none; trace.storages.len()];
    let mut born = vec![None; trace.storages.len()];
    let mut marks = trace.phases.iter().peekable();
    let mut phase = Phase::Setup;
    // A call is a stretch of events of one operator in one module.
    let (mut call, mut last) = (0_usize, None);
    for (at, event) in trace.events.iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.event <= at) {
            phase = mark.phase;
        }
        let here = (trace.operators.get(at), trace.modules.get(at));
        if last != Some(here) {
            (call, last) = (call + 1, Some(here));
        }
        let id = event.storage().index();
        let (Some(life), Some(born)) = (lives.get_mut(id), born.get_mut(id)) else { continue };
        match event {
            Event::Alloc(_) => {
                *born = Some(call);
                *life = Life { phase, is_scratch: false };
            }
            Event::Free(_) => life.is_scratch = *born == Some(call),
        }
    }
    lives
}
