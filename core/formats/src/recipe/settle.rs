//! What a recipe states, and the defaults of its tool where it states nothing → settings.

mod ranks;

use super::draft::{Draft, Slot};
use super::versions::{Library, Release};
use super::{Choice, Origin};
use crate::config::{Config, SETTINGS, Setting};
use crate::diagnostic::{Diagnostic, Severity};
use crate::formats::catalogue::Entry;
use crate::order::InOrder as _;

/// What reads the recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    Transformers,
    Trl,
    /// TRL's trainer with the `TrainingArguments` of transformers, as before 0.9.
    TrlOverArguments,
    Unsloth,
    Axolotl,
    LlamaFactory,
    Torchtune,
    Torchtitan,
    Lightning,
    Accelerate,
    DeepSpeed,
    /// A launcher of PyTorch, of a script that is not known.
    Torch,
}

impl Tool {
    pub(super) const fn library(self) -> Library {
        match self {
            Self::Transformers => Library::Transformers,
            Self::Trl | Self::TrlOverArguments => Library::Trl,
            Self::Unsloth => Library::Unsloth,
            Self::Axolotl => Library::Axolotl,
            Self::LlamaFactory => Library::LlamaFactory,
            Self::Torchtune => Library::Torchtune,
            Self::Lightning => Library::Lightning,
            Self::Accelerate => Library::Accelerate,
            Self::DeepSpeed => Library::DeepSpeed,
            Self::Torchtitan => Library::Torchtitan,
            Self::Torch => Library::Torch,
        }
    }

    /// The tools whose defaults hold, the nearest first.
    const fn over(self) -> &'static [Self] {
        match self {
            Self::Transformers => &[Self::Transformers],
            Self::Trl => &[Self::Trl, Self::Transformers],
            Self::TrlOverArguments => &[Self::TrlOverArguments, Self::Transformers],
            Self::Unsloth => &[Self::Unsloth, Self::Trl, Self::Transformers],
            Self::Axolotl => &[Self::Axolotl, Self::Transformers],
            Self::LlamaFactory => &[Self::LlamaFactory, Self::Transformers],
            Self::Torchtune => &[Self::Torchtune],
            Self::Lightning => &[Self::Lightning],
            Self::Accelerate => &[Self::Accelerate],
            Self::DeepSpeed => &[Self::DeepSpeed],
            Self::Torchtitan => &[Self::Torchtitan],
            Self::Torch => &[],
        }
    }

    /// Whether it trains with transformers' `Trainer`.
    const fn has_trainer(self) -> bool {
        !matches!(
            self,
            Self::Torchtune
                | Self::Torchtitan
                | Self::Lightning
                | Self::Accelerate
                | Self::DeepSpeed
                | Self::Torch
        )
    }

    /// Whether several processes are DDP where nothing else is stated, also of scripts that it only launches.
    const fn launches_ddp(self) -> bool {
        matches!(self, Self::Lightning | Self::Accelerate)
    }
}

/// A default: the tool, what it is about, the release from which on it holds, and the value.
type Usual = (Tool, Slot, Release, &'static str);

/// COUNT: any release.
const ANY: Release = Release(0, 0);

/// Defaults by release; of several that hold, the last counts. Sources: `training_args.py` and `modeling_utils.py` of
/// transformers, `sft_config.py` of TRL, the schemas of axolotl, `hparams` of LLaMA-Factory, recipes of torchtune,
/// `job_config.py` of torchtitan, `dataclasses.py` of accelerate.
const USUAL: &[Usual] = &[
    (Tool::Transformers, Slot::Batch, ANY, "8"),
    (Tool::Transformers, Slot::Accumulate, ANY, "1"),
    (Tool::Transformers, Slot::Clip, ANY, "on"),
    (Tool::Transformers, Slot::Optimizer, ANY, "adamw_hf"),
    (Tool::Transformers, Slot::Optimizer, Release(4, 32), "adamw_torch"),
    (Tool::Transformers, Slot::Optimizer, Release(4, 55), "adamw_torch_fused"),
    (Tool::Transformers, Slot::Weights, ANY, "fp32"),
    (Tool::Transformers, Slot::Weights, Release(5, 0), "checkpoint"),
    (Tool::Transformers, Slot::Autocast, ANY, "none"),
    (Tool::Transformers, Slot::Checkpoint, ANY, "off"),
    (Tool::Transformers, Slot::Reentry, ANY, "on"),
    (Tool::Transformers, Slot::Reentry, Release(5, 0), "off"),
    (Tool::Transformers, Slot::LossKernel, ANY, "torch"),
    (Tool::Transformers, Slot::QuantType, ANY, "fp4"),
    (Tool::Transformers, Slot::Double, ANY, "off"),
    (Tool::Transformers, Slot::Compute, ANY, "fp32"),
    (Tool::Transformers, Slot::Rank, ANY, "8"),
    (Tool::Axolotl, Slot::QuantStorage, ANY, "bf16"),
    (Tool::LlamaFactory, Slot::QuantStorage, ANY, "bf16"),
    (Tool::Transformers, Slot::FsdpVersion, ANY, "1"),
    (Tool::Transformers, Slot::FsdpVersion, Release(5, 10), "2"),
    (Tool::Transformers, Slot::NoSync, ANY, "on"),
    (Tool::Trl, Slot::Seq, ANY, "1024"),
    (Tool::Trl, Slot::Checkpoint, Release(0, 22), "on"),
    (Tool::Trl, Slot::Autocast, Release(0, 20), "bf16"),
    (Tool::Trl, Slot::Reentry, Release(0, 28), "off"),
    (Tool::Trl, Slot::LossKernel, Release(1, 7), "chunked"),
    (Tool::Trl, Slot::LossKernel, Release(1, 15), "fused"),
    (Tool::TrlOverArguments, Slot::Seq, ANY, "1024"),
    (Tool::Unsloth, Slot::FourBits, ANY, "on"),
    (Tool::Unsloth, Slot::QuantType, ANY, "nf4"),
    (Tool::Unsloth, Slot::Double, ANY, "on"),
    (Tool::Unsloth, Slot::Compute, ANY, "bf16"),
    (Tool::Unsloth, Slot::Weights, ANY, "bf16"),
    (Tool::Unsloth, Slot::Checkpoint, ANY, "on"),
    (Tool::Unsloth, Slot::Offload, ANY, "on"),
    (Tool::Unsloth, Slot::Reentry, ANY, "on"),
    (Tool::Unsloth, Slot::Rank, ANY, "16"),
    (
        Tool::Unsloth,
        Slot::Targets,
        ANY,
        "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
    ),
    (Tool::Unsloth, Slot::LossKernel, ANY, "torch"),
    (Tool::Axolotl, Slot::Batch, ANY, "1"),
    (Tool::Axolotl, Slot::Seq, ANY, "512"),
    (Tool::Axolotl, Slot::Optimizer, ANY, "adamw_torch_fused"),
    (Tool::Axolotl, Slot::Weights, ANY, "bf16"),
    (Tool::Axolotl, Slot::Autocast, ANY, "bf16"),
    (Tool::Axolotl, Slot::Reentry, ANY, "on"),
    (Tool::Axolotl, Slot::QuantType, ANY, "nf4"),
    (Tool::Axolotl, Slot::Double, ANY, "on"),
    (Tool::Axolotl, Slot::Compute, ANY, "bf16"),
    (Tool::Axolotl, Slot::Targets, ANY, "all-linear"),
    (Tool::LlamaFactory, Slot::Seq, ANY, "2048"),
    (Tool::LlamaFactory, Slot::Method, ANY, "lora"),
    (Tool::LlamaFactory, Slot::Targets, ANY, "all-linear"),
    (Tool::LlamaFactory, Slot::Checkpoint, ANY, "on"),
    (Tool::LlamaFactory, Slot::Reentry, ANY, "on"),
    (Tool::LlamaFactory, Slot::QuantType, ANY, "nf4"),
    (Tool::LlamaFactory, Slot::Double, ANY, "on"),
    (Tool::LlamaFactory, Slot::Compute, ANY, "bf16"),
    (Tool::Torchtune, Slot::Batch, ANY, "2"),
    (Tool::Torchtune, Slot::Accumulate, ANY, "1"),
    (Tool::Torchtune, Slot::Weights, ANY, "bf16"),
    (Tool::Torchtune, Slot::Autocast, ANY, "none"),
    (Tool::Torchtune, Slot::Optimizer, ANY, "AdamW"),
    (Tool::Torchtune, Slot::Clip, ANY, "off"),
    (Tool::Torchtune, Slot::Checkpoint, ANY, "off"),
    (Tool::Torchtune, Slot::Reentry, ANY, "off"),
    (Tool::Torchtune, Slot::QuantType, ANY, "nf4"),
    (Tool::Torchtune, Slot::Double, ANY, "on"),
    (Tool::Torchtune, Slot::Compute, ANY, "bf16"),
    (Tool::Torchtune, Slot::Rank, ANY, "8"),
    (Tool::Torchtune, Slot::AdaptersInModelType, ANY, "on"),
    (Tool::Torchtune, Slot::LossKernel, ANY, "torch"),
    (Tool::Torchtune, Slot::FsdpVersion, ANY, "2"),
    (Tool::Torchtune, Slot::Reshard, ANY, "on"),
    (Tool::Torchtitan, Slot::Batch, ANY, "8"),
    (Tool::Torchtitan, Slot::Seq, ANY, "2048"),
    (Tool::Torchtitan, Slot::Weights, ANY, "fp32"),
    (Tool::Torchtitan, Slot::Optimizer, ANY, "adamw_torch_fused"),
    (Tool::Torchtitan, Slot::Clip, ANY, "on"),
    (Tool::Torchtitan, Slot::Checkpoint, ANY, "on"),
    (Tool::Torchtitan, Slot::CheckpointEvery, ANY, "2"),
    (Tool::Torchtitan, Slot::Reentry, ANY, "off"),
    (Tool::Torchtitan, Slot::Shard, ANY, "rest"),
    (Tool::Torchtitan, Slot::FsdpVersion, ANY, "2"),
    (Tool::Torchtitan, Slot::Reshard, ANY, "auto"),
    (Tool::Torchtitan, Slot::ParamType, ANY, "bf16"),
    (Tool::Torchtitan, Slot::ReduceType, ANY, "fp32"),
    (Tool::Torchtitan, Slot::BucketCap, ANY, "100"),
    (Tool::Accelerate, Slot::FsdpVersion, ANY, "1"),
    (Tool::Accelerate, Slot::FsdpWrap, ANY, "model"),
    (Tool::Accelerate, Slot::NoSync, ANY, "on"),
    (Tool::Lightning, Slot::FsdpVersion, ANY, "1"),
    (Tool::Lightning, Slot::NoSync, ANY, "on"),
    (Tool::Lightning, Slot::Accumulate, ANY, "1"),
    (Tool::Lightning, Slot::Clip, ANY, "off"),
    (Tool::Lightning, Slot::Weights, ANY, "fp32"),
    (Tool::Lightning, Slot::Autocast, ANY, "none"),
    (Tool::Lightning, Slot::Checkpoint, ANY, "off"),
];

/// Optimizers as recipes call them, without capitals, `_` and `-`: the name here, and the implementation that comes
/// with it. Those of bitsandbytes have one only.
const OPTIMIZERS: &[(&str, &str, &str)] = &[
    ("adamwtorch", "adamw", "auto"),
    ("adamwtorchfused", "adamw", "fused"),
    ("adamwtorchxla", "adamw", "auto"),
    ("adamwapexfused", "adamw", "fused"),
    ("adamwhf", "adamw", "for-loop"),
    ("adamw", "adamw", "auto"),
    ("fusedadam", "adamw", "fused"),
    ("adam", "adam", "auto"),
    ("sgd", "sgd", "auto"),
    ("adagrad", "adagrad", "auto"),
    ("adadelta", "adadelta", "auto"),
    ("adamax", "adamax", "auto"),
    ("nadam", "nadam", "auto"),
    ("radam", "radam", "auto"),
    ("asgd", "asgd", "auto"),
    ("rprop", "rprop", "auto"),
    ("rmsprop", "rmsprop", "auto"),
    ("adafactor", "adafactor", "auto"),
    ("muon", "muon", "auto"),
    ("lion", "lion", "auto"),
    ("lion32bit", "lion", "auto"),
    ("adamwbnb8bit", "adamw-8bit", "auto"),
    ("adamw8bit", "adamw-8bit", "auto"),
    ("adam8bit", "adam-8bit", "auto"),
    ("pagedadamw8bit", "paged-adamw-8bit", "auto"),
    ("pagedadamw32bit", "paged-adamw-32bit", "auto"),
    ("pagedadamw", "paged-adamw-32bit", "auto"),
];

/// Layers that PEFT gives adapters where none are named, by the `model_type`; all other families have queries and
/// values. From `constants.py`.
const TARGETS: &[(&str, &str)] = &[
    ("gpt2", "c_attn"),
    ("bloom", "query_key_value"),
    ("falcon", "query_key_value"),
    ("gpt_neox", "query_key_value"),
    ("phi3", "qkv_proj"),
    ("bert", "query, value"),
    ("roberta", "query, value"),
    ("xlm-roberta", "query, value"),
    ("electra", "query, value"),
    ("deberta-v2", "query_proj, value_proj"),
    ("t5", "q, v"),
];

/// What settings follow.
pub(super) struct Settled {
    pub(super) config: Config,
    pub(super) choices: Vec<Choice>,
    pub(super) notes: Vec<Diagnostic>,
}

/// Settings from what is stated and from defaults; `model` is the entry of the catalogue that the recipe names.
pub(super) fn settle(draft: &Draft, tool: Tool, model: Option<&Entry>) -> Settled {
    let settled = Settled { config: Config::default(), choices: Vec::new(), notes: Vec::new() };
    let mut desk = Desk { draft, tool, model, settled };
    desk.versions();
    desk.sizes();
    desk.precision();
    desk.optimizer();
    desk.adapters();
    desk.memory();
    desk.ranks();
    let mut settled = desk.settled;
    let position = |name: &str| SETTINGS.iter().position(|setting| setting.name == name);
    // Sizes of dimensions, which are no settings, come first.
    settled.choices.order_by_key(|choice| position(&choice.setting));
    settled
}

struct Desk<'d> {
    draft: &'d Draft,
    tool: Tool,
    model: Option<&'d Entry>,
    settled: Settled,
}

impl Desk<'_> {
    /// The release of a library for this recipe.
    fn release(&self, library: Library) -> Release {
        self.draft.versions.release(library, self.tool.library())
    }

    /// What is stated, else the default.
    fn fact(&self, slot: Slot) -> Option<(String, Origin)> {
        if let Some(fact) = self.draft.facts.get(&slot) {
            return Some((fact.value.clone(), Origin::Key(fact.key.clone())));
        }
        self.tool.over().iter().find_map(|&tool| {
            let release = self.release(tool.library());
            let mut rows =
                USUAL.iter().filter(|row| row.0 == tool && row.1 == slot && row.2 <= release);
            rows.next_back().map(|row| (row.3.to_owned(), self.default_of(tool.library())))
        })
    }

    fn default_of(&self, library: Library) -> Origin {
        Origin::Default(format!("{} {}", library.name(), self.release(library)))
    }

    fn is_on(&self, slot: Slot) -> bool {
        self.fact(slot).is_some_and(|(value, _)| value == "on")
    }

    fn text(&self, slot: Slot) -> Option<String> {
        self.fact(slot).map(|(value, _)| value)
    }

    /// Sets a setting; a value that is not simulated is noted.
    fn choose(&mut self, name: &str, value: &str, from: &Origin) {
        let config = &mut self.settled.config;
        if Setting::named(name).is_none_or(|setting| setting.set(config, value).is_err()) {
            let message = say!("{name} {value} of the recipe is not simulated", name, value);
            let note = Diagnostic::new(Severity::Warning, "recipe-not-simulated", message);
            self.settled.notes.push(note);
            return;
        }
        let choice =
            Choice { setting: name.to_owned(), value: value.to_owned(), from: from.clone() };
        self.settled.choices.push(choice);
    }

    fn note(&mut self, code: &str, message: crate::sentence::Sentence) {
        self.settled.notes.push(Diagnostic::new(Severity::Info, code, message));
    }

    /// Releases that the recipe states are settings; others are assumed.
    fn versions(&mut self) {
        let tool = self.tool.library();
        if self.draft.versions.states(Library::Torch) {
            let release = self.release(Library::Torch).to_string();
            self.choose("pytorch", &release, &Origin::Key("torch".to_owned()));
        }
        if self.tool.has_trainer() {
            let release = self.release(Library::Transformers).to_string();
            let from = if self.draft.versions.states(Library::Transformers) {
                Origin::Key("transformers".to_owned())
            } else {
                self.default_of(tool)
            };
            self.choose("transformers", &release, &from);
        }
        if self.tool == Tool::Torch {
            return;
        }
        if !self.draft.versions.states(tool) {
            let message = say!(
                "the recipe does not state the version of {tool}: {release} is assumed, whose defaults fill what it leaves open",
                tool = tool.name(),
                release = self.release(tool).to_string()
            );
            self.note("recipe-version", message);
        }
        let loop_style = match self.tool {
            Tool::Lightning => "lightning",
            // Outputs, batches and gradients live as long in the loops of both.
            Tool::Torchtune | Tool::Torchtitan => "torchtune",
            Tool::Accelerate | Tool::DeepSpeed | Tool::Torch => return,
            _ => "trainer",
        };
        let from = self.default_of(tool);
        self.choose("loop", loop_style, &from);
        let clears = match self.tool {
            Tool::Lightning => "before-backward",
            Tool::Torchtitan => "start",
            _ => "end",
        };
        self.choose("zero-grad", clears, &from);
        self.choose("batches", "moved", &from);
    }

    fn sizes(&mut self) {
        for (slot, name) in [(Slot::Batch, "batch"), (Slot::Seq, "seq")] {
            if let Some((value, from)) = self.fact(slot)
                && let Ok(size) = value.parse()
            {
                self.settled.config.dims.insert(name.to_owned(), size);
                self.settled.choices.push(Choice { setting: name.to_owned(), value, from });
            }
        }
        if let Some((value, from)) = self.fact(Slot::Accumulate) {
            self.choose("accumulate", &value, &from);
        }
    }

    /// Whether weights have 4 or 8 bits, and which key made them so.
    fn quantized(&self) -> Option<(String, Origin)> {
        if self.is_on(Slot::EightBits) {
            return self.fact(Slot::EightBits).map(|(_, from)| ("int8".to_owned(), from));
        }
        if !self.is_on(Slot::FourBits) {
            return None;
        }
        let kind = self.text(Slot::QuantType).unwrap_or_default();
        self.fact(Slot::FourBits).map(|(_, from)| (kind, from))
    }

    fn is_lora(&self) -> bool {
        self.text(Slot::Method).as_deref() == Some("lora")
    }

    /// Whether the recipe or its tool states how weights are loaded.
    fn has_weights(&self) -> bool {
        self.tool == Tool::LlamaFactory || self.fact(Slot::Weights).is_some()
    }

    /// Autocast; torchtitan has it where no parameters are divided.
    fn autocast(&self) -> Option<(String, Origin)> {
        if self.tool != Tool::Torchtitan || self.is_sharded() {
            return self.fact(Slot::Autocast);
        }
        let (to, from) = self.fact(Slot::ParamType)?;
        Some((if to == "fp32" { "none".to_owned() } else { to }, from))
    }

    /// The type of the weights: as it is loaded, and as tools convert it after that.
    fn weights(&self) -> Option<(String, Origin)> {
        let autocast = self.text(Slot::Autocast).unwrap_or_default();
        let is_quantized = self.quantized().is_some();
        if self.raises_shards() && !self.is_lora() && !is_quantized && self.has_weights() {
            return Some(("fp32".to_owned(), self.default_of(Library::Accelerate)));
        }
        let trl = self.release(Library::Trl);
        let is_trl = matches!(self.tool, Tool::Trl | Tool::TrlOverArguments);
        if self.draft.is_on(Slot::Prepared) && is_quantized {
            let from = Origin::Key("prepare_model_for_kbit_training".to_owned());
            // Before 1.0, TRL converts embeddings and head back: `peft_module_casting_to_bf16`.
            let is_back = is_trl && trl < Release(1, 0) && autocast == "bf16";
            return Some((if is_back { "bf16" } else { "fp32" }.to_owned(), from));
        }
        if !self.draft.has(Slot::Weights) {
            if self.tool == Tool::LlamaFactory {
                // Weights are loaded in the type of computation; those that are trained are converted to fp32.
                let from = self.default_of(Library::LlamaFactory);
                let is_frozen = self.is_lora();
                let loaded = if autocast == "none" { "checkpoint" } else { autocast.as_str() };
                let kind = if is_frozen { loaded } else { "fp32" };
                return Some((self.of_checkpoint(kind), from));
            }
            if self.draft.is_on(Slot::LoadedByTrl) && trl >= Release(0, 26) {
                let kind = if trl >= Release(0, 27) { "fp32" } else { "checkpoint" };
                return Some((self.of_checkpoint(kind), self.default_of(Library::Trl)));
            }
            if is_quantized
                && self.tool.has_trainer()
                && self.release(Library::Transformers) < Release(5, 0)
                && matches!(self.tool, Tool::Transformers | Tool::Trl | Tool::TrlOverArguments)
            {
                return Some(("fp16".to_owned(), self.default_of(Library::Transformers)));
            }
        }
        let (kind, from) = self.fact(Slot::Weights)?;
        Some((self.of_checkpoint(&kind), from))
    }

    /// `checkpoint` is the type of the published weights: half precision where it is not known.
    fn of_checkpoint(&self, kind: &str) -> String {
        if kind != "checkpoint" {
            return kind.to_owned();
        }
        let known = match self.model.map(|model| model.dtype().unwrap_or("float32")) {
            Some("float32") => "fp32",
            Some("float16") => "fp16",
            _ => "bf16",
        };
        known.to_owned()
    }

    /// `DeepSpeed`'s half precision.
    fn masters(&self, to: &str) -> Option<String> {
        let is_half = self.draft.is_on(Slot::DeepSpeed) && to != "none";
        is_half.then(|| format!("{to}-master"))
    }

    fn precision(&mut self) {
        let (weights, autocast) = (self.weights(), self.autocast());
        let (Some((weights, loaded)), autocast) = (weights, autocast) else {
            // A launcher states autocast, and not how weights are loaded.
            if let Some((to, from)) = self.fact(Slot::Autocast) {
                let plain = || if to == "none" { "fp32".to_owned() } else { format!("amp-{to}") };
                let name = self.masters(&to).unwrap_or_else(plain);
                self.choose("precision", &name, &from);
            }
            return;
        };
        let (cast, by) = autocast.unwrap_or_else(|| ("none".to_owned(), loaded.clone()));
        let name = self.masters(&cast).unwrap_or_else(|| match (weights.as_str(), cast.as_str()) {
            ("fp32", "none") => "fp32".to_owned(),
            ("fp32", to) => format!("amp-{to}"),
            (kind, "none") => kind.to_owned(),
            (kind, _) if kind.ends_with("-master") => kind.to_owned(),
            (kind, _) => format!("{kind}-amp"),
        });
        let from = match (&by, &loaded) {
            (Origin::Key(by), Origin::Key(loaded)) if by != loaded => {
                Origin::Key(format!("{loaded}, {by}"))
            }
            (Origin::Key(_), Origin::Default(_)) if cast != "none" => by,
            _ => loaded,
        };
        self.choose("precision", &name, &from);
    }

    fn optimizer(&mut self) {
        let Some((name, from)) = self.fact(Slot::Optimizer) else { return };
        let is_default = !self.draft.has(Slot::Optimizer);
        let plain: String =
            name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_ascii_lowercase();
        let Some((_, known, implementation)) = OPTIMIZERS.iter().find(|row| row.0 == plain) else {
            let message = super::draft::Why::Optimizer.sentence(&name);
            self.settled.notes.push(Diagnostic::new(
                Severity::Warning,
                "recipe-not-simulated",
                message,
            ));
            return;
        };
        let with = self.draft.get(Slot::OptimizerWith).unwrap_or_default();
        let has = |word| with.split(' ').any(|part| part == word);
        let known = match *known {
            "sgd" if has("nesterov") => "sgd-nesterov",
            "sgd" if has("momentum") => "sgd-momentum",
            "rmsprop" if has("momentum") => "rmsprop-momentum",
            known => known,
        };
        self.choose("optimizer", known, &from);
        // transformers takes the fused one from PyTorch 2.8 on.
        let lacks_fused = is_default
            && self.tool != Tool::Axolotl
            && self.release(Library::Torch) < Release(2, 8);
        let implementation = match *implementation {
            "fused" if lacks_fused => "auto",
            _ if has("fused") => "fused",
            _ if has("foreach") => "foreach",
            _ if has("for-loop") => "for-loop",
            implementation => implementation,
        };
        if implementation != "auto" {
            self.choose("optimizer-impl", implementation, &from);
        }
        let decays = self.draft.is_on(Slot::WeightDecay);
        if decays
            && !known.starts_with("adamw")
            && !known.contains("8bit")
            && !known.starts_with("paged")
        {
            let from = self.fact(Slot::WeightDecay).map_or(from, |(_, from)| from);
            self.choose("weight-decay", "true", &from);
        }
        if self.is_on(Slot::InBackward)
            && let Some((_, from)) = self.fact(Slot::InBackward)
        {
            self.choose("optimizer-in-backward", "true", &from);
        }
    }

    fn adapters(&mut self) {
        let quantized = self.quantized();
        if self.is_lora() {
            let (targets, from) = self.targets();
            self.choose("lora", &targets, &from);
            if let Some((rank, from)) = self.fact(Slot::Rank) {
                self.choose("lora-rank", &rank, &from);
            }
            for (slot, name) in [(Slot::LoraDropout, "lora-dropout"), (Slot::Dora, "dora")] {
                if let Some((_, from)) = self.fact(slot).filter(|(value, _)| value == "on") {
                    self.choose(name, "true", &from);
                }
            }
            if let Some((names, from)) = self.fact(Slot::ModulesToSave) {
                self.choose("modules-to-save", &names, &from);
            }
            self.adapter_type(quantized.is_some());
            if self.is_on(Slot::Checkpoint)
                && self.tool != Tool::Torchtune
                && let Some((_, from)) = self.fact(Slot::Checkpoint)
            {
                self.choose("input-require-grads", "true", &from);
            }
        }
        let Some((kind, from)) = quantized else { return };
        self.choose("quantize", &kind, &from);
        if kind == "int8" {
            return;
        }
        if let Some((_, from)) = self.fact(Slot::Double).filter(|(value, _)| value == "on") {
            self.choose("double-quantize", "true", &from);
        }
        if let Some((kind, from)) = self.fact(Slot::Compute) {
            let kind = if kind == "checkpoint" { "bf16".to_owned() } else { kind };
            self.choose("compute-type", &kind, &from);
        }
    }

    /// PEFT has adapters in fp32, unless a tool converts them.
    fn adapter_type(&mut self, is_quantized: bool) {
        let is_trl = matches!(self.tool, Tool::Trl | Tool::TrlOverArguments);
        if let Some((_, from)) =
            self.fact(Slot::AdaptersInModelType).filter(|(value, _)| value == "on")
        {
            self.choose("lora-model-type", "true", &from);
        } else if is_trl && is_quantized && self.release(Library::Trl) >= Release(1, 0) {
            // The parameters that are trained are converted to bf16.
            let from = self.default_of(Library::Trl);
            if self.weights().is_some_and(|(weights, _)| weights == "bf16") {
                self.choose("lora-model-type", "true", &from);
            }
        }
    }

    /// Layers that get adapters: those of the recipe, else those that PEFT has for the family.
    fn targets(&self) -> (String, Origin) {
        if let Some((targets, from)) =
            self.fact(Slot::Targets).filter(|(targets, _)| !targets.is_empty())
        {
            return (targets, from);
        }
        let family = self.model.map(Entry::family).unwrap_or_default();
        let known =
            TARGETS.iter().find(|row| row.0 == family).map_or("q_proj, v_proj", |row| row.1);
        (known.to_owned(), Origin::Default("PEFT".to_owned()))
    }

    /// What decides over activations.
    fn memory(&mut self) {
        if let Some((value, from)) = self.fact(Slot::Checkpoint) {
            let every = self.text(Slot::CheckpointEvery).filter(|every| every != "1");
            let is_on = value == "on";
            let value = if is_on { every.as_deref().unwrap_or("blocks") } else { "none" };
            self.choose("checkpoint", value, &from);
            if is_on {
                self.follow("checkpoint-reentry", Slot::Reentry);
                if self.is_on(Slot::Offload)
                    && let Some((_, from)) = self.fact(Slot::Offload)
                {
                    self.choose("checkpoint-offload", "true", &from);
                }
            }
        }
        self.follow("objective", Slot::Objective);
        self.follow("clip-grad-norm", Slot::Clip);
        self.follow("attention", Slot::Attention);
        self.follow("loss-kernel", Slot::LossKernel);
        self.follow("kernels", Slot::Kernels);
        if self.tool == Tool::Unsloth && !self.draft.has(Slot::LossKernel) {
            let message = say!(
                "unsloth computes the loss in chunks whose size depends on the memory that is free, which is not \
                 simulated; full logits are estimated, so the run may need less"
            );
            self.settled.notes.push(Diagnostic::new(
                Severity::Warning,
                "recipe-not-simulated",
                message,
            ));
        }
        if self.is_on(Slot::Evaluation)
            && let Some((_, from)) = self.fact(Slot::Evaluation)
        {
            self.choose("evaluation", "true", &from);
        }
        if self.is_on(Slot::Compile)
            && let Some((_, from)) = self.fact(Slot::Compile)
        {
            self.compile(&from);
        }
    }

    /// The model goes through `torch.compile`, where that is simulated with all else that is set.
    fn compile(&mut self, from: &Origin) {
        // Hooks of FSDP cut the graph at every block.
        let of_shards = self.is_sharded().then(|| say!("FSDP"));
        let of_others = || self.settled.config.never_compiled_with().map(|(what, _)| what);
        let Some(what) = of_shards.or_else(of_others) else {
            return self.choose("compile", "inductor", from);
        };
        let message = say!(
            "torch.compile is not simulated with {what}; the run without it is estimated, which may need more",
            what
        );
        let note = Diagnostic::new(Severity::Warning, "recipe-not-simulated", message);
        self.settled.notes.push(note);
    }

    /// A setting whose values are those of the slot.
    fn follow(&mut self, name: &str, slot: Slot) {
        if let Some((value, from)) = self.fact(slot) {
            self.choose(name, &value, &from);
        }
    }
}
