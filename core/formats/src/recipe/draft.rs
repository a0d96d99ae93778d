//! [`Draft`]: what a recipe states, before defaults. Tables of [`Row`]s say what each key does.

use std::collections::BTreeMap;

use super::value::{Entry, Value};
use super::versions::{Library, Versions};
use crate::diagnostic::{Diagnostic, RECIPE_UNREAD, Severity};
use crate::error::{Error, ErrorKind, Place};
use crate::formats::spec::kinds::did_you_mean;
use crate::formats::spec::tree::shortened;
use crate::sentence::Sentence;

/// What a recipe can state about a run. Values are texts, in words of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    Model,
    /// TRL loads the model, by its name.
    LoadedByTrl,
    Batch,
    /// Tokens of a sample, at most.
    Seq,
    Accumulate,
    /// Type of the weights when they are loaded: `fp32`, `bf16`, `fp16`, or `checkpoint` for that of the file.
    Weights,
    /// `none`, `bf16`, `fp16`.
    Autocast,
    /// A name of `OPTIMIZERS`.
    Optimizer,
    /// `momentum` and `nesterov` of SGD, `fused`, `foreach`: what a call gives to its optimizer.
    OptimizerWith,
    WeightDecay,
    Clip,
    Checkpoint,
    CheckpointEvery,
    Reentry,
    /// Inputs of checkpointed layers go to the host.
    Offload,
    /// `lora`, `full`.
    Method,
    Targets,
    Rank,
    LoraDropout,
    Dora,
    ModulesToSave,
    /// Adapters have the type of the model.
    AdaptersInModelType,
    FourBits,
    EightBits,
    QuantType,
    /// The type of the tensors that contain weights in 4 bits, if it is a floating one.
    QuantStorage,
    Double,
    Compute,
    /// `prepare_model_for_kbit_training` is called.
    Prepared,
    Attention,
    /// `torch`, `chunked`, `fused`, `liger`, `cce`.
    LossKernel,
    Kernels,
    /// The model goes through `torch.compile`.
    Compile,
    /// Validation runs between steps.
    Evaluation,
    InBackward,
    /// `dpo`, `dpo-precomputed`.
    Objective,
    /// COUNT: processes of the job, or those of a machine and the machines.
    Gpus,
    PerMachine,
    Machines,
    /// COUNT: samples of a step on all GPUs.
    GlobalBatch,
    /// `ddp`, `zero-1`, where a recipe asks for it by itself.
    DataParallel,
    /// `DeepSpeed` trains: half precision has weights in fp32 for the optimizer, and no autocast.
    DeepSpeed,
    Fsdp,
    /// `1`, `2`.
    FsdpVersion,
    /// `hybrid`: shards within a machine; `none`: FSDP that shards nothing.
    FsdpStrategy,
    /// What is gathered at a time: `blocks`, `model`.
    FsdpWrap,
    /// COUNT: ranks along an axis; `rest` is what the others leave.
    Replicate,
    Shard,
    Tensor,
    Context,
    Pipeline,
    Reshard,
    CpuOffload,
    ParamType,
    ReduceType,
    BucketCap,
    BucketView,
    FindUnused,
    NoSync,
}

/// A value, and the key that states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) value: String,
    pub(super) key: String,
}

/// What a key does.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// States a fact.
    Fills(Slot, fn(&Value) -> Option<String>),
    /// Has no effect on the memory of the GPU.
    Nothing,
    /// Names another part of the recipe, or an object of the script.
    Part,
    /// Changes memory in a way that is not simulated, unless it is off.
    Absent(Why),
    /// The same, and the difference is small.
    Slight(Why),
    /// Makes a run that is not simulated at all, unless it is off.
    Refused(Why),
    /// Has keys of its own.
    Inside(&'static [Row]),
    /// States several facts.
    Reads(fn(&mut Draft, &Entry) -> Result<(), Error>),
}

/// Keys that do the same; `*` at the end stands for any text.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) keys: &'static [&'static str],
    pub(super) does: Does,
}

/// A row of a table.
pub(super) const fn row(keys: &'static [&'static str], does: Does) -> Row {
    Row { keys, does }
}

/// Why something is not simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    SeveralGpus,
    Compile,
    CompileMode,
    OwnKernels,
    OtherLoss,
    Offload,
    PartOfLayers,
    ChangedModel,
    Optimizer,
    Preference,
    Quantization,
    Adapters,
    PartialTraining,
    LogitsOfEvaluation,
    ChangingBatch,
    Attention,
    Noise,
    Images,
    LowPrecision,
    OnHost,
    ZeroFile,
    TensorParallel,
    ContextParallel,
    PipelineParallel,
    ExpertParallel,
    Prefetch,
    OneUnit,
    OtherUnits,
    Hook,
    SomeOperators,
    WholeQuantized,
}

impl Why {
    /// A sentence about a key.
    #[expect(clippy::too_many_lines, reason = "a row for each reason")]
    pub(super) fn sentence(self, key: &str) -> Sentence {
        match self {
            Self::SeveralGpus => {
                say!(
                    "`{key}` spreads the run over several GPUs in a way that is not simulated; remove it, and set the \
                     number of GPUs and how they share the model (`--gpus`, `--data-parallel`)",
                    key
                )
            }
            Self::Compile => {
                say!("`{key}`: torch.compile is not simulated; the eager run is estimated", key)
            }
            Self::CompileMode => {
                say!("`{key}` is not read: Inductor in its default mode is estimated", key)
            }
            Self::OwnKernels => {
                say!(
                    "`{key}` replaces operators with kernels that are not simulated; PyTorch's are estimated",
                    key
                )
            }
            Self::OtherLoss => {
                say!("`{key}` changes how the loss is computed, which is not simulated", key)
            }
            Self::Offload => say!(
                "`{key}` moves tensors to the host, which is not simulated; the run may need less",
                key
            ),
            Self::PartOfLayers => {
                say!(
                    "`{key}` selects some of the layers, which is not read; all layers of the same name are estimated",
                    key
                )
            }
            Self::ChangedModel => {
                say!("`{key}` changes the model; the published one is estimated", key)
            }
            Self::Optimizer => {
                say!("`{key}` selects an optimizer that is not simulated; AdamW is estimated", key)
            }
            Self::Preference => {
                say!(
                    "`{key}` is training on preferences or rewards, which is not simulated; supervised fine-tuning is",
                    key
                )
            }
            Self::Quantization => {
                say!("`{key}`: only the quantisation of bitsandbytes is simulated", key)
            }
            Self::Adapters => {
                say!("`{key}`: these adapters are not simulated; LoRA and DoRA are", key)
            }
            Self::PartialTraining => {
                say!(
                    "`{key}` trains only a part of the weights; set what is frozen to estimate that",
                    key
                )
            }
            Self::LogitsOfEvaluation => {
                say!("`{key}`: logits that evaluation keeps on the GPU are not simulated", key)
            }
            Self::ChangingBatch => say!(
                "`{key}` changes the batch while the run goes on; the first one is estimated",
                key
            ),
            Self::Attention => {
                say!("`{key}` selects an attention that is not simulated; SDPA is estimated", key)
            }
            Self::Noise => say!(
                "`{key}` adds temporaries of the size of the embeddings, which are not simulated",
                key
            ),
            Self::Images => say!("`{key}` is about images or sound; only text is estimated", key),
            Self::LowPrecision => say!("`{key}`: training in 8 bits is not simulated", key),
            Self::OnHost => say!("`{key}`: weights on the host are not simulated", key),
            Self::ZeroFile => say!(
                "`{key}` names a configuration of DeepSpeed, whose stage of ZeRO is not known here; stage 0 is \
                 estimated, so the run may need less",
                key
            ),
            Self::TensorParallel => say!(
                "`{key}` divides layers over GPUs, which is not simulated; whole layers are estimated, so the run \
                 needs less",
                key
            ),
            Self::ContextParallel => say!(
                "`{key}` gives each GPU a part of every text, which is not simulated; whole texts are estimated, so \
                 the run needs less",
                key
            ),
            Self::PipelineParallel => say!(
                "`{key}` gives each GPU some of the layers, which is not simulated; all layers are estimated, so the \
                 run needs less",
                key
            ),
            Self::ExpertParallel => say!(
                "`{key}` gives each GPU some of the experts, which is not simulated; all experts are estimated",
                key
            ),
            Self::Prefetch => say!(
                "`{key}` changes when blocks are gathered, which is not simulated; gathering the next block during \
                 backward is estimated",
                key
            ),
            Self::OneUnit => say!(
                "`{key}` gathers the whole model at once, which is not simulated; blocks that are gathered one by one \
                 are estimated, so the run needs more",
                key
            ),
            Self::OtherUnits => say!(
                "`{key}` changes which modules are gathered together, which is not simulated; blocks are estimated",
                key
            ),
            Self::Hook => {
                say!("`{key}` changes how gradients are reduced, which is not simulated", key)
            }
            Self::WholeQuantized => say!(
                "`{key}` without `bnb_4bit_quant_storage` of a floating type keeps weights of 4 bits whole on every GPU, \
                 which is not simulated; divided weights are estimated, so the run needs more",
                key
            ),
            Self::SomeOperators => say!(
                "`{key}` keeps the results of some operators and computes the others again, which is not simulated; \
                 checkpointing of whole blocks is estimated, so the run needs more",
                key
            ),
        }
    }
}

/// What a recipe states.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) versions: Versions,
    pub(super) facts: BTreeMap<Slot, Fact>,
    /// Keys without an effect on memory.
    pub(super) idle: Vec<String>,
    pub(super) notes: Vec<Diagnostic>,
}

impl Draft {
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.facts.contains_key(&slot)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&str> {
        self.facts.get(&slot).map(|fact| fact.value.as_str())
    }

    pub(super) fn is_on(&self, slot: Slot) -> bool {
        self.get(slot) == Some("on")
    }

    /// States a fact; the last one counts.
    pub(super) fn fill(&mut self, slot: Slot, value: impl Into<String>, key: &str) {
        self.facts.insert(slot, Fact { value: value.into(), key: key.to_owned() });
    }

    /// Notes that something is not simulated.
    pub(super) fn absent(&mut self, why: Why, key: &str) {
        let note = Diagnostic::new(Severity::Warning, "recipe-not-simulated", why.sentence(key));
        self.note(note);
    }

    /// Notes that something small is not simulated.
    pub(super) fn slight(&mut self, why: Why, key: &str) {
        let note = Diagnostic::new(Severity::Info, "recipe-simplified", why.sentence(key));
        self.note(note);
    }

    pub(super) fn note(&mut self, note: Diagnostic) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes that the value of a key is not readable here.
    pub(super) fn unread(&mut self, key: &str) {
        self.unread_of(None, key);
    }

    /// The same of a key that decides a setting.
    fn unread_of(&mut self, setting: Option<&str>, key: &str) {
        let message = say!(
            "the value of `{key}` is not readable here, so its default is assumed; set it yourself",
            key
        );
        let note = Diagnostic::new(Severity::Warning, RECIPE_UNREAD, message);
        self.note(match setting {
            Some(setting) => note.at(setting),
            None => note,
        });
    }

    /// Reads the keys of a mapping or of a call by a table.
    ///
    /// # Errors
    /// When a key makes a run that is not simulated.
    pub(super) fn read(
        &mut self,
        table: &[Row],
        entries: &[Entry],
        of: Library,
    ) -> Result<(), Error> {
        self.read_by(&[table], entries, of)
    }

    /// The same by several tables, of which the first that knows a key counts.
    pub(super) fn read_by(
        &mut self,
        tables: &[&[Row]],
        entries: &[Entry],
        of: Library,
    ) -> Result<(), Error> {
        for entry in entries {
            match find(tables, &entry.key) {
                Some(does) => self.apply(does, entry, of)?,
                None => self.unknown(tables, entry, of),
            }
        }
        Ok(())
    }

    fn apply(&mut self, does: Does, entry: &Entry, of: Library) -> Result<(), Error> {
        let Entry { key, value, place } = entry;
        match does {
            Does::Part => {}
            Does::Nothing => self.idle.push(key.clone()),
            Does::Fills(..) if *value == Value::Null => self.idle.push(key.clone()),
            Does::Fills(slot, convert) => match convert(value) {
                Some(value) => self.fill(slot, value, key),
                None => self.unread_of(setting_of(slot), key),
            },
            Does::Absent(_) | Does::Slight(_) | Does::Refused(_) if value.is_off() => {
                self.idle.push(key.clone());
            }
            Does::Absent(why) => self.absent(why, key),
            Does::Slight(why) => self.slight(why, key),
            Does::Refused(why) => return Err(refused(why.sentence(key), *place)),
            Does::Inside(table) => self.read(table, value.entries(), of)?,
            Does::Reads(read) => read(self, entry)?,
        }
        Ok(())
    }

    /// Notes a key that no table has.
    fn unknown(&mut self, tables: &[&[Row]], entry: &Entry, of: Library) {
        let known = tables.iter().flat_map(|table| table.iter());
        let known = known.flat_map(|row| row.keys).filter(|key| !key.ends_with('*'));
        let short = shortened(&entry.key);
        let meant = did_you_mean(&short, known.copied());
        let Place { line, .. } = entry.place;
        let tool = of.name();
        let message = say!(
            "line {line}: `{key}` is no key of {tool} that is known here, so it is ignored{meant}",
            line,
            key = short,
            tool,
            meant
        );
        let is_near = !meant.is_empty();
        // Who means a key that is known gets another run than what is estimated.
        let code = if is_near { "recipe-not-simulated" } else { "recipe-unknown-key" };
        self.note(Diagnostic::new(Severity::Warning, code, message));
    }
}

/// The setting or the dimension that a fact alone decides.
const fn setting_of(slot: Slot) -> Option<&'static str> {
    Some(match slot {
        Slot::Batch => "batch",
        Slot::Seq => "seq",
        Slot::Accumulate => "accumulate",
        Slot::Optimizer => "optimizer",
        Slot::Attention => "attention",
        Slot::Rank => "lora-rank",
        _ => return None,
    })
}

/// An error about a place of a recipe.
pub(super) fn refused(message: Sentence, place: Place) -> Error {
    let error = Error::new(ErrorKind::BadConfig, message);
    if place == Place::default() { error } else { error.at(place) }
}

/// What a key does, by the first table that has it.
fn find(tables: &[&[Row]], key: &str) -> Option<Does> {
    let is_exact = |row: &&Row| row.keys.contains(&key);
    let begins = |row: &&Row| {
        row.keys
            .iter()
            .any(|known| known.strip_suffix('*').is_some_and(|start| key.starts_with(start)))
    };
    let rows = || tables.iter().flat_map(|table| table.iter());
    rows().find(is_exact).or_else(|| rows().find(begins)).map(|row| row.does)
}

/// Values as the slots have them.
pub(super) mod as_ {
    use super::Value;

    pub(in super::super) fn count(value: &Value) -> Option<String> {
        value.count().map(|n| n.to_string())
    }

    /// Ranks along an axis; -1 are those that are left.
    pub(in super::super) fn width(value: &Value) -> Option<String> {
        let is_rest =
            matches!(value, Value::Int(-1)) || matches!(value, Value::Text(text) if text == "-1");
        if is_rest { Some("rest".to_owned()) } else { count(value) }
    }

    pub(in super::super) fn flag(value: &Value) -> Option<String> {
        value.flag().map(|flag| if flag { "on" } else { "off" }.to_owned())
    }

    /// The opposite.
    pub(in super::super) fn not(value: &Value) -> Option<String> {
        value.flag().map(|flag| if flag { "off" } else { "on" }.to_owned())
    }

    /// On where the number is above zero.
    pub(in super::super) fn positive(value: &Value) -> Option<String> {
        value.is_positive().map(|is| if is { "on" } else { "off" }.to_owned())
    }

    pub(in super::super) fn word(value: &Value) -> Option<String> {
        value.word()
    }

    pub(in super::super) fn names(value: &Value) -> Option<String> {
        let names = value.names()?;
        names.iter().all(|name| is_plain(name)).then(|| names.join(", "))
    }

    /// Whether a name is one, and no pattern.
    fn is_plain(name: &str) -> bool {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c))
    }

    /// Layers that get adapters.
    pub(in super::super) fn targets(value: &Value) -> Option<String> {
        match value {
            Value::Text(text) if matches!(text.as_str(), "all-linear" | "all") => {
                Some("all-linear".to_owned())
            }
            Value::List(items) if items.len() == 1 => items.first().and_then(targets),
            value => names(value),
        }
    }

    /// A type of numbers: `torch.bfloat16`, `bf16`, `auto`.
    pub(in super::super) fn dtype(value: &Value) -> Option<String> {
        let word = value.word()?;
        let name = match word.as_str() {
            "bfloat16" | "bf16" => "bf16",
            "float16" | "fp16" | "half" => "fp16",
            "float32" | "fp32" | "float" => "fp32",
            "auto" => "checkpoint",
            _ => return None,
        };
        Some(name.to_owned())
    }

    /// On where evaluation runs at all.
    pub(in super::super) fn strategy(value: &Value) -> Option<String> {
        let word = value.word()?;
        Some(if matches!(word.as_str(), "no" | "false" | "NO") { "off" } else { "on" }.to_owned())
    }

    /// An implementation of attention, as transformers calls it.
    pub(in super::super) fn attention(value: &Value) -> Option<String> {
        let word = value.word()?;
        let name = match word.as_str() {
            "sdpa" => "sdpa",
            "eager" => "eager",
            "flash_attention_2" | "flash_attention_3" | "flash_attention_4" | "fa2" | "fa3" => {
                "flash"
            }
            word if word.contains("flash") => "flash",
            _ => return None,
        };
        Some(name.to_owned())
    }
}
