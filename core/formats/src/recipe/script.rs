//! Python scripts: the calls that state how a run trains.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::arguments::{DPO, LOADING, LORA, QUANTIZATION, SFT, TRAINING};
use super::draft::Does::{Absent, Fills, Nothing, Part, Reads};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::settle::Tool;
use super::sharing::{self, DDP, MESH, POLICY};
use super::value::{Call, Entry, Value};
use super::versions::Library;
use crate::error::Error;

/// Calls that only a script that trains has.
const MARKS: [&str; 12] = [
    "TrainingArguments(",
    "SFTConfig(",
    "SFTTrainer(",
    "LoraConfig(",
    "FastLanguageModel.",
    "FastModel.",
    "DPOConfig(",
    "GRPOConfig(",
    "KTOConfig(",
    "RewardConfig(",
    "PromptTuningConfig(",
    "Trainer(",
];

/// Configurations of PEFT, but those of `LoRA`: adapters that are not simulated.
const ADAPTERS: [&str; 34] = [
    "AdaLoraConfig",
    "VeraConfig",
    "IA3Config",
    "PromptTuningConfig",
    "PrefixTuningConfig",
    "PromptEncoderConfig",
    "MultitaskPromptTuningConfig",
    "CPTConfig",
    "LoHaConfig",
    "LoKrConfig",
    "OFTConfig",
    "BOFTConfig",
    "PolyConfig",
    "AdaptionPromptConfig",
    "LNTuningConfig",
    "FourierFTConfig",
    "HRAConfig",
    "VBLoRAConfig",
    "BoneConfig",
    "MissConfig",
    "C3AConfig",
    "RandLoraConfig",
    "RoadConfig",
    "ShiraConfig",
    "XLoraConfig",
    "TrainableTokensConfig",
    "WaveFTConfig",
    "DeloraConfig",
    "GraloraConfig",
    "OSFConfig",
    "HiraConfig",
    "DeftConfig",
    "AdamssConfig",
    "GloraConfig",
];

/// Configurations of TRL whose trainers learn from preferences or rewards, but DPO.
const PREFERENCES: [&str; 11] = [
    "GRPOConfig",
    "KTOConfig",
    "RewardConfig",
    "PPOConfig",
    "RLOOConfig",
    "ORPOConfig",
    "CPOConfig",
    "OnlineDPOConfig",
    "XPOConfig",
    "NashMDConfig",
    "BCOConfig",
];

/// Quantisations that are not those of bitsandbytes.
const QUANTIZATIONS: [&str; 10] = [
    "GPTQConfig",
    "AwqConfig",
    "HqqConfig",
    "QuantoConfig",
    "TorchAoConfig",
    "AqlmConfig",
    "EetqConfig",
    "FbgemmFp8Config",
    "VptqConfig",
    "Mxfp4Config",
];

/// What unsloth's `from_pretrained` adds.
const UNSLOTH: &[Row] = &[
    row(&["max_seq_length"], Fills(Slot::Seq, as_::count)),
    row(&["full_finetuning"], Reads(full)),
    row(&["use_gradient_checkpointing"], Reads(checkpointing)),
    row(&["load_in_fp8", "load_in_16bit"], Absent(Why::LowPrecision)),
    row(&["fast_inference", "gpu_memory_utilization"], Absent(Why::Preference)),
    row(&["model"], Part),
    row(&["model_name"], Fills(Slot::Model, as_::word)),
    row(
        &[
            "max_lora_rank",
            "rope_scaling",
            "fix_tokenizer",
            "random_state",
            "float8_kv_cache",
            "disable_log_stats",
            "unsloth_vllm_standby",
            "offload_embedding",
            "use_exact_model_name",
            "resize_model_vocab",
            "qat_scheme",
            "finetune_*",
            "temporary_location",
            "float32_mixed_precision",
            "max_seq_len",
        ],
        Nothing,
    ),
];

/// Lightning's `Trainer`.
const LIGHTNING: &[Row] = &[
    row(&["precision"], Reads(precision)),
    row(&["accumulate_grad_batches"], Fills(Slot::Accumulate, as_::count)),
    row(&["gradient_clip_val"], Fills(Slot::Clip, as_::positive)),
    row(&["strategy"], Reads(strategy)),
    row(&["devices"], Reads(devices)),
    row(&["num_nodes"], Fills(Slot::Machines, as_::count)),
    row(&["plugins"], Absent(Why::LowPrecision)),
    row(&["use_distributed_sampler", "sync_batchnorm"], Nothing),
    row(
        &[
            "max_*",
            "min_*",
            "accelerator",
            "callbacks",
            "logger",
            "log_*",
            "limit_*",
            "val_check_interval",
            "check_val_every_n_epoch",
            "num_sanity_val_steps",
            "enable_*",
            "benchmark",
            "deterministic",
            "profiler",
            "default_root_dir",
            "fast_dev_run",
            "overfit_batches",
            "detect_anomaly",
            "inference_mode",
            "barebones",
            "reload_dataloaders_every_n_epochs",
            "gradient_clip_algorithm",
        ],
        Nothing,
    ),
];

/// PyTorch's optimizers, as a script calls them.
const OPTIMIZER: &[Row] = &[
    row(&["weight_decay"], Fills(Slot::WeightDecay, as_::positive)),
    row(&["momentum"], Reads(with)),
    row(&["fused", "foreach", "nesterov"], Reads(with)),
    row(&["*"], Nothing),
];

/// Whether a text is a script that trains.
pub(super) fn is_script(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark))
        && text.contains('=')
        && !text.trim_start().starts_with(['{', '['])
}

/// Reads the calls of a script; `None` where they say nothing about training.
///
/// # Errors
/// When it trains in a way that is not simulated.
pub(super) fn read(draft: &mut Draft, calls: &[Call]) -> Result<Option<Tool>, Error> {
    let mut found = Found::default();
    for call in calls {
        found.call(draft, call)?;
    }
    let tool = match found {
        Found { is_unsloth: true, .. } => Tool::Unsloth,
        Found { is_sft_config: true, .. } => Tool::Trl,
        Found { is_trl: true, .. } => Tool::TrlOverArguments,
        Found { is_lightning: true, .. } => Tool::Lightning,
        Found { is_recipe: true, .. } => Tool::Transformers,
        Found { .. } => return Ok(None),
    };
    Ok(Some(tool))
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is about another call")]
struct Found {
    is_unsloth: bool,
    is_sft_config: bool,
    is_trl: bool,
    is_lightning: bool,
    is_recipe: bool,
}

impl Found {
    #[expect(clippy::too_many_lines, reason = "a row for each function that is known")]
    fn call(&mut self, draft: &mut Draft, call: &Call) -> Result<(), Error> {
        let keywords = &call.keywords;
        let last = call.last();
        let is_of_unsloth = ["FastLanguageModel", "FastModel", "FastVisionModel"]
            .iter()
            .any(|class| call.name.contains(class));
        match last {
            "TrainingArguments" | "Seq2SeqTrainingArguments" | "UnslothTrainingArguments" => {
                self.is_recipe = true;
                draft.read(TRAINING, keywords, Library::Transformers)?;
            }
            "SFTConfig" => {
                (self.is_recipe, self.is_sft_config) = (true, true);
                draft.read_by(&[SFT, TRAINING], keywords, Library::Trl)?;
            }
            "DPOConfig" | "DPOTrainer" => {
                (self.is_recipe, self.is_sft_config) = (true, true);
                draft.fill(Slot::Objective, "dpo", last);
                if let Some(Value::Text(name)) = call.argument("model", 0) {
                    draft.fill(Slot::Model, name, last);
                    draft.fill(Slot::LoadedByTrl, "on", last);
                }
                draft.read_by(&[DPO, SFT, TRAINING], keywords, Library::Trl)?;
            }
            "SFTTrainer" => {
                (self.is_recipe, self.is_trl) = (true, true);
                if let Some(Value::Text(name)) = call.argument("model", 0) {
                    draft.fill(Slot::Model, name, "SFTTrainer");
                    draft.fill(Slot::LoadedByTrl, "on", "SFTTrainer");
                }
                draft.read_by(&[SFT, TRAINING], keywords, Library::Trl)?;
            }
            "LoraConfig" => {
                self.is_recipe = true;
                draft.fill(Slot::Method, "lora", last);
                let rank = call.positional.iter().map(|value| Entry {
                    key: "r".to_owned(),
                    place: call.place,
                    value: value.clone(),
                });
                draft.read(LORA, &rank.take(1).collect::<Vec<_>>(), Library::Peft)?;
                draft.read(LORA, keywords, Library::Peft)?;
            }
            "BitsAndBytesConfig" => draft.read(QUANTIZATION, keywords, Library::Transformers)?,
            "from_pretrained" if is_of_unsloth => {
                (self.is_recipe, self.is_unsloth) = (true, true);
                if let Some(Value::Text(name)) = call.argument("model_name", 0) {
                    draft.fill(Slot::Model, name, &call.name);
                }
                draft.read_by(&[UNSLOTH, LOADING], keywords, Library::Unsloth)?;
            }
            "get_peft_model" if is_of_unsloth => {
                (self.is_recipe, self.is_unsloth) = (true, true);
                draft.fill(Slot::Method, "lora", &call.name);
                draft.read_by(&[LORA, UNSLOTH], keywords, Library::Unsloth)?;
            }
            "from_pretrained" if loads_model(&call.name) => {
                if let Some(Value::Text(name)) = call.argument("pretrained_model_name_or_path", 0) {
                    draft.fill(Slot::Model, name, &call.name);
                }
                draft.read(LOADING, keywords, Library::Transformers)?;
            }
            "prepare_model_for_kbit_training" => {
                draft.fill(Slot::Prepared, "on", last);
                let checkpoints =
                    call.argument("use_gradient_checkpointing", 1).and_then(Value::flag);
                if checkpoints != Some(false) {
                    draft.fill(Slot::Checkpoint, "on", last);
                }
            }
            "gradient_checkpointing_enable" => {
                draft.fill(Slot::Checkpoint, "on", last);
                let kwargs = call.argument("gradient_checkpointing_kwargs", 0);
                let reentry = kwargs.and_then(|kwargs| kwargs.member("use_reentrant"));
                if let Some(flag) = reentry.and_then(as_::flag) {
                    draft.fill(Slot::Reentry, flag, "use_reentrant");
                }
            }
            "Trainer" if is_lightning(call) => {
                (self.is_recipe, self.is_lightning) = (true, true);
                draft.read(LIGHTNING, keywords, Library::Lightning)?;
            }
            "Trainer" | "Seq2SeqTrainer" => self.is_recipe = true,
            "fit" if call.positional.len() > 2 || call.argument("val_dataloaders", 9).is_some() => {
                draft.fill(Slot::Evaluation, "on", "val_dataloaders");
            }
            "FullyShardedDataParallelPlugin" | "FSDPStrategy" | "FullyShardedDataParallel" => {
                draft.fill(Slot::Fsdp, "on", last);
                sharing::fsdp(draft, keywords)?;
            }
            "fully_shard" => {
                draft.fill(Slot::Fsdp, "on", last);
                draft.fill(Slot::FsdpVersion, "2", last);
                sharing::fsdp(draft, keywords)?;
            }
            "DistributedDataParallel" | "DDP" | "DDPStrategy" => {
                draft.fill(Slot::DataParallel, "ddp", last);
                draft.read(DDP, keywords, Library::Torch)?;
            }
            "SingleDeviceStrategy" => {}
            _ if last.ends_with("Strategy") && call.name.starts_with(char::is_uppercase) => {
                return Err(refused(Why::SeveralGpus.sentence(last), call.place));
            }
            "DistributedDataParallelKwargs" => draft.read(DDP, keywords, Library::Accelerate)?,
            "MixedPrecisionPolicy" | "MixedPrecision" => {
                draft.read(POLICY, keywords, Library::Torch)?;
            }
            "CPUOffloadPolicy" => draft.fill(Slot::CpuOffload, "on", last),
            "notebook_launcher" => {
                if let Some(count) = call.argument("num_processes", 2).and_then(as_::count) {
                    draft.fill(Slot::Gpus, count, last);
                }
            }
            "ParallelismConfig" => draft.read(MESH, keywords, Library::Accelerate)?,
            "ZeroRedundancyOptimizer" => draft.fill(Slot::DataParallel, "zero-1", last),
            _ if ADAPTERS.contains(&last) => {
                return Err(refused(Why::Adapters.sentence(last), call.place));
            }
            _ if PREFERENCES.contains(&last) => {
                return Err(refused(Why::Preference.sentence(last), call.place));
            }
            _ if QUANTIZATIONS.contains(&last) => draft.absent(Why::Quantization, last),
            _ => other(draft, call)?,
        }
        Ok(())
    }
}

/// Calls that matter only where nothing else states the same.
fn other(draft: &mut Draft, call: &Call) -> Result<(), Error> {
    let keyword = |key: &str| call.keywords.iter().find(|entry| entry.key == key);
    if call.name.contains("optim.") {
        draft.fill(Slot::Optimizer, call.last(), &call.name);
        return draft.read(OPTIMIZER, &call.keywords, Library::Torch);
    }
    if call.last() == "DataLoader"
        && !draft.has(Slot::Batch)
        && let Some(count) = keyword("batch_size").and_then(|entry| as_::count(&entry.value))
    {
        draft.fill(Slot::Batch, count, "DataLoader.batch_size");
    }
    // How a tokenizer pads: `tokenizer(texts, truncation=True, max_length=512)`.
    let pads = keyword("truncation").or_else(|| keyword("padding")).is_some();
    if pads
        && !draft.has(Slot::Seq)
        && let Some(count) = keyword("max_length").and_then(|entry| as_::count(&entry.value))
    {
        draft.fill(Slot::Seq, count, "max_length");
    }
    if call.name.contains("models.") && !draft.has(Slot::Model) {
        draft.fill(Slot::Model, call.last(), &call.name);
        if let Some(entry) = keyword("num_classes") {
            draft.slight(Why::ChangedModel, &entry.key);
        }
    }
    Ok(())
}

/// Whether `from_pretrained` of this class loads a model, not a tokenizer.
fn loads_model(name: &str) -> bool {
    let class = name.rsplit('.').nth(1).unwrap_or_default();
    class.contains("Model") || class.contains("For") || class.ends_with("LMHead")
}

/// Whether a `Trainer` is Lightning's: transformers' takes a model.
fn is_lightning(call: &Call) -> bool {
    const OWN: [&str; 6] = [
        "precision",
        "max_epochs",
        "accelerator",
        "devices",
        "accumulate_grad_batches",
        "gradient_clip_val",
    ];
    call.keywords.iter().any(|entry| OWN.contains(&entry.key.as_str()))
}

fn full(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::FourBits, "off", &entry.key);
        draft.fill(Slot::Method, "full", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// `"unsloth"` moves the inputs of layers to the host; `True` keeps them.
fn checkpointing(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let offloads = matches!(&entry.value, Value::Text(text) if text == "unsloth");
    match as_::flag(&entry.value) {
        _ if offloads => {
            draft.fill(Slot::Checkpoint, "on", &entry.key);
            draft.fill(Slot::Offload, "on", &entry.key);
        }
        Some(flag) => {
            draft.fill(Slot::Checkpoint, flag, &entry.key);
            draft.fill(Slot::Offload, "off", &entry.key);
        }
        None => draft.unread(&entry.key),
    }
    Ok(())
}

/// `16-mixed` is autocast, `bf16-true` are weights in half precision.
fn precision(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let key = &entry.key;
    let (weights, autocast) = match entry.value.word().as_deref() {
        Some("32" | "32-true") => ("fp32", "none"),
        Some("16" | "16-mixed") => ("fp32", "fp16"),
        Some("bf16" | "bf16-mixed") => ("fp32", "bf16"),
        Some("16-true") => ("fp16", "none"),
        Some("bf16-true") => ("bf16", "none"),
        Some("64" | "64-true" | "transformer-engine" | "transformer-engine-float16") => {
            draft.absent(Why::LowPrecision, key);
            return Ok(());
        }
        _ => {
            draft.unread(key);
            return Ok(());
        }
    };
    draft.fill(Slot::Weights, weights, key);
    draft.fill(Slot::Autocast, autocast, key);
    Ok(())
}

/// A name, or an object, whose arguments are read where it is made.
fn strategy(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let key = &entry.key;
    let name = entry.value.word().unwrap_or_default();
    if matches!(&entry.value, Value::Name(_) | Value::Call(_)) {
        return Ok(());
    }
    match name.as_str() {
        "auto" | "single_device" => draft.idle.push(key.clone()),
        "fsdp" => draft.fill(Slot::Fsdp, "on", key),
        "fsdp_cpu_offload" => {
            draft.fill(Slot::Fsdp, "on", key);
            draft.fill(Slot::CpuOffload, "on", key);
        }
        name if name.starts_with("ddp") => {
            draft.fill(Slot::DataParallel, "ddp", key);
            if name.ends_with("find_unused_parameters_true") {
                draft.fill(Slot::FindUnused, "on", key);
            }
        }
        name if name.starts_with("deepspeed") => {
            let stage =
                name.chars().find(char::is_ascii_digit).and_then(|digit| digit.to_digit(10));
            // `deepspeed` alone is stage 2.
            return sharing::zero(draft, Some(u64::from(stage.unwrap_or(2))), key, entry.place);
        }
        "" => draft.unread(key),
        _ => return Err(refused(Why::SeveralGpus.sentence(key), entry.place)),
    }
    Ok(())
}

/// GPUs of a machine: a number or a list; all of them where it is -1.
fn devices(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let count = match &entry.value {
        Value::List(items) => u64::try_from(items.len()).ok(),
        value => value.count(),
    };
    match count {
        Some(count) => draft.fill(Slot::PerMachine, count.to_string(), &entry.key),
        None if matches!(&entry.value, Value::Text(text) if text == "auto") => {
            draft.idle.push(entry.key.clone());
        }
        None => draft.fill(Slot::DataParallel, "ddp", &entry.key),
    }
    Ok(())
}

fn with(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_positive() == Some(true) || entry.value.flag() == Some(true) {
        let before =
            draft.get(Slot::OptimizerWith).map_or_else(String::new, |with| [with, " "].concat());
        draft.fill(Slot::OptimizerWith, [before.as_str(), &entry.key].concat(), &entry.key);
    }
    Ok(())
}
