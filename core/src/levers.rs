//! What would help: changes to a configuration that need less memory, each simulated.
//!
//! [`LEVERS`] is the table. A lever turns one configuration into another or does not apply; what it
//! saves is never stated, but found by running the step again. [`Search`] looks for the least that
//! makes a run fit on a device.

mod search;

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

pub use self::search::{Plan, Search, Searched};
use crate::bytes::Bytes;
use crate::config::{
    Checkpoint, Config, Implementation, LoopStyle, Optimizer, Precision, ZeroGrad,
};
use crate::device;
use crate::error::Error;
use crate::estimate::{Model, Simulation};
use crate::report::{DeviceVerdict, Moment};
use crate::trace::{Category, Phase};

/// What a lever costs, as a class; the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// The same numbers in the same time, or less.
    Nothing,
    /// The same training, a little slower or with other rounding.
    Little,
    /// The same training, about a third slower.
    Time,
    /// Another training: the result must be looked at again.
    Training,
}

impl Cost {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Little => "little",
            Self::Time => "time",
            Self::Training => "training",
        }
    }

    /// What it means: no full stop.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Nothing => "costs nothing",
            Self::Little => "a little slower, or other rounding",
            Self::Time => "about a third slower",
            Self::Training => "changes the training",
        }
    }

    /// How much of it is as bad as one of a class below.
    const fn weight(self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::Little => 4,
            Self::Time => 10,
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
    /// What it costs.
    pub cost: Cost,
    /// Whether it can be pulled more than once.
    repeats: bool,
    change: fn(&mut Config, &Facts) -> Option<()>,
    code: fn(&Config) -> String,
}

/// What levers ask of a model and of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Names of the parameters, in the order of the model.
    parameters: Vec<String>,
    /// Name of the dimension that counts samples.
    batch: Option<String>,
    /// Whether the device multiplies bfloat16 itself.
    has_bfloat16: bool,
}

impl Facts {
    /// What is known once a configuration has run.
    pub fn of(model: &Model, simulation: &Simulation, config: &Config) -> Self {
        let trace = simulation.trace();
        let placed = trace.storages.iter().filter(|storage| {
            storage.category == Category::Parameter && trace.label(storage.operator).is_empty()
        });
        let capability = device::lookup(&config.device).map(|device| device.compute_capability);
        Self {
            parameters: placed.map(|storage| trace.label(storage.name).to_owned()).collect(),
            batch: model.open_dims().into_iter().find(|dim| dim.batch).map(|dim| dim.name),
            has_bfloat16: capability.is_none_or(|capability| capability >= (8, 0)),
        }
    }
}

impl Lever {
    /// The lever with this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        LEVERS.iter().find(|lever| lever.id == id)
    }

    /// The changed configuration; `None` where there is nothing to change.
    pub fn pull(&self, config: &Config, facts: &Facts) -> Option<Config> {
        let mut changed = config.clone();
        (self.change)(&mut changed, facts)?;
        (changed != *config).then_some(changed)
    }

    /// What to write in Python for a configuration that this lever made.
    pub fn code(&self, changed: &Config) -> String {
        (self.code)(changed)
    }
}

/// Every lever, the cheapest first.
pub const LEVERS: &[Lever] = &[
    Lever {
        id: "zero-grad-start",
        title: "Drop gradients before the forward",
        cost: Cost::Nothing,
        repeats: false,
        change: |config, _| {
            config.zero_grad = ZeroGrad::Start;
            Some(())
        },
        code: |_| "optimizer.zero_grad(set_to_none=True)  # first line of the loop\n".to_owned(),
    },
    Lever {
        id: "step-function",
        title: "Let logits and loss go after each step",
        cost: Cost::Nothing,
        repeats: false,
        change: |config, _| {
            config.loop_style = LoopStyle::Function;
            Some(())
        },
        code: |_| "optimizer.step()\ndel output, loss  # last line of the loop\n".to_owned(),
    },
    Lever {
        id: "fused",
        title: "Run the optimizer as one kernel",
        cost: Cost::Nothing,
        repeats: false,
        change: |config, _| {
            matches!(config.optimizer_impl, Implementation::Auto | Implementation::Foreach)
                .then_some(())?;
            class(config.optimizer).filter(|class| class.is_fusible)?;
            config.optimizer_impl = Implementation::Fused;
            Some(())
        },
        code: |config| constructor(config, "fused=True"),
    },
    Lever {
        id: "for-loop",
        title: "Step one parameter at a time",
        cost: Cost::Little,
        repeats: false,
        change: |config, _| {
            matches!(config.optimizer_impl, Implementation::Auto | Implementation::Foreach)
                .then_some(())?;
            class(config.optimizer)?;
            config.optimizer_impl = Implementation::ForLoop;
            Some(())
        },
        code: |config| constructor(config, "foreach=False"),
    },
    Lever {
        id: "amp-bf16",
        title: "Compute in bfloat16 (autocast)",
        cost: Cost::Little,
        repeats: false,
        change: |config, facts| {
            (config.precision == Precision::Fp32 && facts.has_bfloat16).then_some(())?;
            config.precision = Precision::AmpBf16;
            Some(())
        },
        code: |_| {
            "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n    output = model(x)\n    \
             loss = loss_fn(output, target)\nloss.backward()\n"
                .to_owned()
        },
    },
    Lever {
        id: "amp-fp16",
        title: "Compute in float16 (autocast, scaled loss)",
        cost: Cost::Little,
        repeats: false,
        change: |config, facts| {
            (config.precision == Precision::Fp32 && !facts.has_bfloat16).then_some(())?;
            config.precision = Precision::AmpFp16;
            Some(())
        },
        code: |_| {
            "scaler = torch.amp.GradScaler(\"cuda\")\n\n\
             with torch.autocast(\"cuda\", dtype=torch.float16):\n    output = model(x)\n    \
             loss = loss_fn(output, target)\nscaler.scale(loss).backward()\n\
             scaler.step(optimizer)\nscaler.update()\n"
                .to_owned()
        },
    },
    Lever {
        id: "accumulate",
        title: "Halve the batch, accumulate twice as often",
        cost: Cost::Little,
        repeats: true,
        change: |config, facts| {
            let batch = config.dims.get_mut(facts.batch.as_deref()?)?;
            (*batch >= 2 && batch.is_multiple_of(2)).then_some(())?;
            *batch = batch.checked_div(2)?;
            config.accumulate = config.accumulate.checked_mul(NonZeroU64::new(2)?)?;
            Some(())
        },
        code: |config| {
            let count = config.accumulate;
            format!(
                "for i, (x, target) in enumerate(loader):  # batches 1/{count} of the size\n    \
                 (loss_fn(model(x), target) / {count}).backward()\n    \
                 if (i + 1) % {count} == 0:\n        optimizer.step()\n        \
                 optimizer.zero_grad()\n"
            )
        },
    },
    Lever {
        id: "checkpoint-half",
        title: "Recompute every second block in backward",
        cost: Cost::Little,
        repeats: false,
        change: |config, _| {
            (config.checkpoint == Checkpoint::None).then_some(())?;
            config.checkpoint = Checkpoint::Every(NonZeroU64::new(2)?);
            Some(())
        },
        code: |_| {
            "from torch.utils.checkpoint import checkpoint\n\n\
             for i, block in enumerate(self.blocks):\n    \
             x = checkpoint(block, x, use_reentrant=False) if i % 2 == 0 else block(x)\n"
                .to_owned()
        },
    },
    Lever {
        id: "checkpoint",
        title: "Recompute every block in backward",
        cost: Cost::Time,
        repeats: false,
        change: |config, _| {
            (config.checkpoint == Checkpoint::None).then_some(())?;
            config.checkpoint = Checkpoint::Blocks;
            Some(())
        },
        code: |_| {
            "from torch.utils.checkpoint import checkpoint\n\n\
             for block in self.blocks:\n    x = checkpoint(block, x, use_reentrant=False)\n\
             # transformers: model.gradient_checkpointing_enable()\n"
                .to_owned()
        },
    },
    Lever {
        id: "adamw-8bit",
        title: "Keep the optimizer's state in 8 bits",
        cost: Cost::Training,
        repeats: false,
        change: |config, _| {
            config.optimizer = match config.optimizer {
                Optimizer::Adam => Optimizer::Adam8bit,
                Optimizer::AdamW => Optimizer::AdamW8bit,
                _ => return None,
            };
            config.optimizer_impl = Implementation::Auto;
            Some(())
        },
        code: |config| {
            let class = if config.optimizer == Optimizer::Adam8bit { "Adam" } else { "AdamW" };
            format!(
                "import bitsandbytes as bnb\n\n\
                 optimizer = bnb.optim.{class}8bit(model.parameters(), lr=1e-3)\n"
            )
        },
    },
    Lever {
        id: "bf16",
        title: "Keep everything in bfloat16",
        cost: Cost::Training,
        repeats: false,
        change: |config, facts| {
            (config.precision.converts_to().is_none() && facts.has_bfloat16).then_some(())?;
            config.precision = Precision::Bf16;
            Some(())
        },
        code: |_| "model = model.to(torch.bfloat16)\n".to_owned(),
    },
    Lever {
        id: "sgd-momentum",
        title: "Train with SGD and momentum",
        cost: Cost::Training,
        repeats: false,
        change: |config, _| {
            let is_simple = [Optimizer::Sgd, Optimizer::SgdMomentum, Optimizer::SgdNesterov];
            (!is_simple.contains(&config.optimizer)).then_some(())?;
            config.optimizer = Optimizer::SgdMomentum;
            Some(())
        },
        code: |_| {
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n".to_owned()
        },
    },
    Lever {
        id: "lora",
        title: "Train low-rank adapters only (LoRA)",
        cost: Cost::Training,
        repeats: false,
        change: |config, facts| {
            (config.lora.is_empty() && config.freeze.is_empty()).then_some(())?;
            let targets = ADAPTED.iter().filter(|target| facts.has_layer(target));
            config.lora = targets.map(|&target| target.to_owned()).collect();
            (!config.lora.is_empty()).then_some(())
        },
        code: |config| {
            let targets: Vec<_> = config.lora.iter().map(|name| format!("\"{name}\"")).collect();
            format!(
                "from peft import LoraConfig, get_peft_model\n\n\
                 model = get_peft_model(model, LoraConfig(r={}, target_modules=[{}]))\n",
                config.lora_rank,
                targets.join(", ")
            )
        },
    },
    Lever {
        id: "freeze",
        title: "Train the head only",
        cost: Cost::Training,
        repeats: false,
        change: |config, facts| {
            (config.lora.is_empty() && config.freeze.is_empty()).then_some(())?;
            config.freeze = facts.all_but_the_head()?;
            Some(())
        },
        code: |config| {
            let names: Vec<_> = config.freeze.iter().map(|name| format!("\"{name}\"")).collect();
            format!(
                "for name, parameter in model.named_parameters():\n    \
                 if name.startswith(({},)):\n        parameter.requires_grad_(False)\n",
                names.join(", ")
            )
        },
    },
];

/// Linear layers of attention by the last part of their names, as `peft` adapts them by default.
const ADAPTED: &[&str] = &[
    "q_proj",
    "v_proj",
    "query",
    "value",
    "q_lin",
    "v_lin",
    "q",
    "v",
    "c_attn",
    "query_key_value",
    "qkv",
];

impl Facts {
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
        let mut rest: Vec<_> = self.parameters.iter().map(|name| top(name)).collect();
        rest.dedup();
        rest.retain(|name| *name != head);
        (!rest.is_empty()).then_some(rest)
    }
}

/// A class of `torch.optim`.
struct Class {
    name: &'static str,
    /// Whether its constructor takes `fused`.
    is_fusible: bool,
}

/// The class behind an optimizer, where it is one of PyTorch's that walks over all parameters.
fn class(optimizer: Optimizer) -> Option<Class> {
    let (name, is_fusible) = match optimizer {
        Optimizer::Sgd | Optimizer::SgdMomentum | Optimizer::SgdNesterov => ("SGD", true),
        Optimizer::Adam | Optimizer::AdamAmsgrad => ("Adam", true),
        Optimizer::AdamW | Optimizer::AdamWAmsgrad => ("AdamW", true),
        Optimizer::Adagrad => ("Adagrad", false),
        Optimizer::NAdam => ("NAdam", false),
        Optimizer::RAdam => ("RAdam", false),
        Optimizer::Adamax => ("Adamax", false),
        Optimizer::RmsProp | Optimizer::RmsPropMomentum | Optimizer::RmsPropCentered => {
            ("RMSprop", false)
        }
        Optimizer::Adadelta => ("Adadelta", false),
        Optimizer::Rprop => ("Rprop", false),
        Optimizer::Asgd => ("ASGD", false),
        Optimizer::Adafactor
        | Optimizer::Muon
        | Optimizer::Lion
        | Optimizer::Adam8bit
        | Optimizer::AdamW8bit => return None,
    };
    Some(Class { name, is_fusible })
}

fn constructor(config: &Config, argument: &str) -> String {
    let name = class(config.optimizer).map_or("AdamW", |class| class.name);
    format!("optimizer = torch.optim.{name}(model.parameters(), lr=1e-3, {argument})\n")
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
    pub fn outcome(&self, config: &Config) -> Result<Outcome, Error> {
        let simulation = self.simulate(config)?;
        let replay = simulation.replay();
        let Moment { iteration, phase, operator, module } =
            Moment::of(simulation.trace(), replay.allocated.event);
        Ok(Outcome {
            allocated: replay.allocated.bytes,
            reserved: replay.reserved.bytes,
            phase,
            iteration,
            operator,
            module,
            verdict: simulation.verdict(),
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
    /// [`Lever::cost`].
    pub cost: Cost,
    /// The changed configuration.
    pub config: Config,
    /// What to write in Python.
    pub code: String,
    /// What it leads to.
    pub outcome: Outcome,
}

impl Model {
    /// Pulls one lever; `None` where it does not apply.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn pull(
        &self,
        lever: &Lever,
        config: &Config,
        facts: &Facts,
    ) -> Result<Option<Pulled>, Error> {
        let Some(changed) = lever.pull(config, facts) else { return Ok(None) };
        let outcome = self.outcome(&changed)?;
        Ok(Some(Pulled {
            id: lever.id.to_owned(),
            title: lever.title.to_owned(),
            cost: lever.cost,
            code: lever.code(&changed),
            config: changed,
            outcome,
        }))
    }
}
