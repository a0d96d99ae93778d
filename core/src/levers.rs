//! Suggestions: changes to a configuration that need less memory, each simulated.
//!
//! [`LEVERS`] is the table. A lever turns one configuration into another or does not apply; what it
//! saves is found by running the step again. [`Search`] looks for the smallest change that fits on a device.
//! See `docs/levers.md`.

mod scale;
mod search;
mod table;

use serde::{Deserialize, Serialize};

pub use self::scale::{Pace, Scale, Scaled, WAYS, Way};
pub use self::search::{Plan, Search, Searched};
pub use self::table::LEVERS;
use crate::bytes::Bytes;
use crate::config::Config;
use crate::device;
use crate::error::{Error, ErrorKind};
use crate::estimate::{Model, Simulation, Stages};
use crate::report::{DeviceVerdict, EventContext};
use crate::trace::{Category, Phase, Storage};

/// What a lever costs, as a class; the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// The same numbers in the same time, or less.
    Nothing,
    /// The same training, perhaps slightly slower or rounded differently.
    Little,
    /// The same training, slower.
    Time,
    /// The same training, whose optimizer steps on the host: many times slower.
    Host,
    /// Different training: the result must be checked.
    Training,
}

impl Cost {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Little => "little",
            Self::Time => "time",
            Self::Host => "host",
            Self::Training => "training",
        }
    }

    /// What it means: no full stop.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Nothing => "costs nothing",
            Self::Little => "the same training, perhaps rounded differently",
            Self::Time => "the same training, slower",
            Self::Host => "the optimizer steps on the CPU, which is slow",
            Self::Training => "changes the training",
        }
    }

    /// How much of it is as bad as one of a class below.
    const fn weight(self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::Little => 4,
            Self::Time => 10,
            Self::Host => 20,
            Self::Training => 30,
        }
    }
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Lever {
    /// Stable name: `amp-bf16`.
    pub id: &'static str,
    /// What one does, as an imperative.
    pub title: &'static str,
    /// What it usually costs; [`Lever::cost_of`] has what it costs a model.
    pub cost: Cost,
    change: fn(&mut Config, &Facts) -> Option<()>,
    code: fn(&Config, &Facts) -> String,
}

/// What levers ask of a model and of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts {
    /// Names of the parameters, in the order of the model.
    parameters: Vec<String>,
    /// Name of the dimension that counts samples.
    batch: Option<String>,
    /// Whether the device multiplies bfloat16 itself.
    has_bfloat16: bool,
    /// Whether a normalisation takes its statistics over a batch.
    has_batch_norm: bool,
    /// Whether an input has the four dimensions of images.
    has_images: bool,
    /// Whether it is a language model that guesses the next token.
    guesses_next_token: bool,
}

impl Facts {
    /// What is known once a configuration has run.
    pub fn of(model: &Model, simulation: &Simulation, config: &Config) -> Self {
        let trace = simulation.trace();
        let name = |storage: &Storage| trace.label(storage.name).to_owned();
        let placed = |category| {
            trace.storages.iter().filter(move |storage| {
                storage.category == category && trace.label(storage.operator).is_empty()
            })
        };
        let capability = device::lookup(&config.device).map(|device| device.compute_capability);
        let mut inputs = trace.storages.iter().filter(|s| s.category == Category::Input);
        Self {
            parameters: placed(Category::Parameter).map(name).collect(),
            batch: model.open_dims().into_iter().find(|dim| dim.batch).map(|dim| dim.name),
            has_bfloat16: capability.is_none_or(|capability| capability >= (8, 0)),
            has_batch_norm: simulation.normalises_batches(),
            has_images: inputs.any(|s| trace.tensor(s).is_some_and(|ty| ty.rank() == 4)),
            guesses_next_token: simulation.guesses_next_token(),
        }
    }

    fn has_layer(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| {
            let path = parameter.strip_suffix(".weight").unwrap_or_default();
            path.rsplit('.').next() == Some(name)
        })
    }

    /// The first parts of all names but the last one's; `None` where nothing would be left.
    fn all_but_the_head(&self) -> Option<Vec<String>> {
        let top = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let head = top(self.parameters.last()?);
        let mut rest: Vec<String> = Vec::new();
        for name in self.parameters.iter().map(|name| top(name)) {
            if name != head && !rest.contains(&name) {
                rest.push(name);
            }
        }
        (!rest.is_empty()).then_some(rest)
    }
}

impl Lever {
    /// The lever with this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        LEVERS.iter().find(|lever| lever.id == id)
    }

    /// The changed configuration; `None` where there is nothing to change, or nothing that bears on the workload.
    pub fn pull(&self, config: &Config, facts: &Facts) -> Option<Config> {
        let mut changed = config.clone();
        (self.change)(&mut changed, facts)?;
        let is_idle = config.idle_settings().any(|setting| !setting.is_same(config, &changed));
        (changed != *config && !is_idle).then_some(changed)
    }

    /// What a change costs that it made. A batch in smaller parts is another training for a normalisation over batches.
    pub fn cost_of(&self, config: &Config, changed: &Config, facts: &Facts) -> Cost {
        let has_other_parts = changed.accumulate != config.accumulate;
        if facts.has_batch_norm && has_other_parts { Cost::Training } else { self.cost }
    }

    /// What to write in Python for a configuration that this lever made.
    pub fn code(&self, changed: &Config, facts: &Facts) -> String {
        (self.code)(changed, facts)
    }
}

/// What one configuration needs, in a few numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `max_memory_allocated`.
    pub allocated: Bytes,
    /// `max_memory_reserved`.
    pub reserved: Bytes,
    /// Phase of the allocated peak.
    pub phase: Phase,
    /// Iteration of the allocated peak, from 1.
    pub iteration: usize,
    /// Operator of the allocated peak.
    pub operator: String,
    /// Module of the allocated peak; may be empty.
    pub module: String,
    /// How it ends on the configured device.
    pub verdict: DeviceVerdict,
}

impl Model {
    /// What a configuration needs: [`Model::estimate`] without its details.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn outcome(&self, config: &Config, stages: &mut Stages) -> Result<Outcome, Error> {
        let run = self.on_device(config, stages)?;
        let replay = run.replay();
        let EventContext { iteration, phase, operator, module } =
            EventContext::of(run.trace(), replay.allocated.event);
        Ok(Outcome {
            allocated: replay.allocated.bytes,
            reserved: replay.reserved.bytes,
            phase,
            iteration,
            operator,
            module,
            verdict: run.verdict(),
        })
    }
}

/// A lever that applies, and what it makes of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// [`Lever::id`].
    pub id: String,
    /// [`Lever::title`].
    pub title: String,
    /// [`Lever::cost_of`].
    pub cost: Cost,
    /// The changed configuration.
    pub config: Config,
    /// What to write in Python.
    pub code: String,
    /// What it leads to.
    pub outcome: Outcome,
}

impl Model {
    /// Pulls one lever; `None` where it does not apply, or leads to what PyTorch refuses.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn pull(
        &self,
        lever: &Lever,
        config: &Config,
        facts: &Facts,
        stages: &mut Stages,
    ) -> Result<Option<Pulled>, Error> {
        let Some(changed) = lever.pull(config, facts) else { return Ok(None) };
        let outcome = match self.outcome(&changed, stages) {
            Ok(outcome) => outcome,
            Err(error) if error.kind() == ErrorKind::BadConfig => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Pulled {
            id: lever.id.to_owned(),
            title: lever.title.to_owned(),
            cost: lever.cost_of(config, &changed, facts),
            code: lever.code(&changed, facts),
            config: changed,
            outcome,
        }))
    }
}
