//! torchtune's YAML, 0.6: `_component_` names a function or a class, the keys next to it are its arguments.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::draft::Does::{Absent, Fills, Nothing, Part, Reads, Refused, Slight};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::sharing;
use super::value::{Entry, Value};
use super::versions::Library;
use crate::error::Error;

const KEYS: &[Row] = &[
    row(&["model"], Reads(model)),
    row(&["batch_size"], Fills(Slot::Batch, as_::count)),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["tokenizer"], Reads(tokenizer)),
    row(&["dataset"], Reads(dataset)),
    row(&["dataset_val", "run_val_every_n_steps"], Reads(validation)),
    row(&["optimizer"], Reads(optimizer)),
    row(&["optimizer_in_bwd"], Fills(Slot::InBackward, as_::flag)),
    row(&["loss"], Reads(loss)),
    row(&["clip_grad_norm"], Fills(Slot::Clip, as_::positive)),
    row(&["compile"], Absent(Why::Compile)),
    row(&["enable_activation_checkpointing"], Fills(Slot::Checkpoint, as_::flag)),
    row(&["enable_activation_offloading"], Fills(Slot::Offload, as_::flag)),
    row(&["dtype"], Fills(Slot::Weights, as_::dtype)),
    row(&["ac_mode", "ac_option"], Absent(Why::PartOfLayers)),
    row(&["recipe"], Reads(recipe)),
    row(&["fsdp_cpu_offload"], Reads(offload)),
    row(&["fsdp_reshard_after_forward"], Fills(Slot::Reshard, as_::flag)),
    row(&["custom_sharded_layers", "memory_efficient_fsdp_wrap"], Slight(Why::OtherUnits)),
    row(&["data_parallel_shard_dim"], Fills(Slot::Shard, as_::width)),
    row(&["data_parallel_replicate_dim"], Fills(Slot::Replicate, as_::count)),
    row(&["tensor_parallel_dim"], Fills(Slot::Tensor, as_::count)),
    row(&["context_parallel_dim"], Reads(sharing::context)),
    row(&["tensor_parallel_plan"], Part),
    row(&["quantizer", "fp8_recipe_name", "enable_fp8_training"], Absent(Why::LowPrecision)),
    row(&["teacher_model", "ref_checkpointer", "kd_loss", "kd_ratio"], Refused(Why::Preference)),
    row(
        &[
            "output_dir",
            "checkpointer",
            "resume_from_checkpoint",
            "save_*",
            "seed",
            "shuffle",
            "epochs",
            "max_steps_per_epoch",
            "metric_logger",
            "log_*",
            "device",
            "profiler",
            "lr_scheduler",
            "collate_fn",
            "adapter_checkpoint",
            "recipe_checkpoint",
            "cudnn_deterministic_mode",
            "keep_last_n_checkpoints",
            "enable_async_checkpointing",
            "resharding_*",
            "model_type",
            "optimizer_kwargs",
            "custom_*",
        ],
        Nothing,
    ),
];

/// What the constructor of a model takes.
const MODEL: &[Row] = &[
    // Read by themselves.
    row(&["_component_", "lora_attn_modules", "apply_lora_to_mlp", "apply_lora_to_output"], Part),
    row(&["lora_rank"], Fills(Slot::Rank, as_::count)),
    row(&["lora_dropout"], Fills(Slot::LoraDropout, as_::positive)),
    row(&["use_dora"], Fills(Slot::Dora, as_::flag)),
    row(&["quantize_base"], Fills(Slot::FourBits, as_::flag)),
    row(&["lora_alpha", "quantizer_kwargs", "max_seq_len"], Nothing),
    row(
        &["image_size", "decoder_trainable", "encoder_trainable", "fusion_trainable"],
        Absent(Why::Images),
    ),
];

/// Reads a recipe.
///
/// # Errors
/// When it describes a run that is not simulated.
pub(super) fn read(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    draft.read(KEYS, entries, Library::Torchtune)?;
    if draft.is_on(Slot::FourBits) {
        // torchao's NF4, whose scales are grouped as bitsandbytes groups them with double quantisation.
        draft.slight(Why::Quantization, "quantize_base");
    }
    Ok(())
}

/// The last part of `_component_`.
fn component(value: &Value) -> Option<String> {
    let name = value.member("_component_")?.word()?;
    name.rsplit('.').next().map(str::to_owned)
}

/// `torchtune.models.llama3_2.lora_llama3_2_1b`: the model, and how it is trained.
fn model(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let Some(name) = component(&entry.value) else {
        draft.unread(&entry.key);
        return Ok(());
    };
    let key = [&entry.key, "._component_"].concat();
    let plain = name.strip_prefix("qlora_").or_else(|| name.strip_prefix("lora_")).unwrap_or(&name);
    draft.fill(Slot::Model, plain, &key);
    let is_lora = plain != name;
    draft.fill(Slot::Method, if is_lora { "lora" } else { "full" }, &key);
    if name.starts_with("qlora_") {
        draft.fill(Slot::FourBits, "on", &key);
    }
    draft.read(MODEL, entry.value.entries(), Library::Torchtune)?;
    if is_lora {
        targets(draft, &entry.value);
    }
    Ok(())
}

/// Layers with adapters, in the names of transformers.
fn targets(draft: &mut Draft, model: &Value) {
    let attention = model.member("lora_attn_modules").and_then(Value::names).unwrap_or_default();
    let mut names: Vec<&str> = attention
        .iter()
        .map(|name| if name == "output_proj" { "o_proj" } else { name.as_str() })
        .collect();
    let is_on = |key| model.member(key).and_then(Value::flag) == Some(true);
    if is_on("apply_lora_to_mlp") {
        names.extend(["gate_proj", "up_proj", "down_proj"]);
    }
    if is_on("apply_lora_to_output") {
        names.push("lm_head");
    }
    draft.fill(Slot::Targets, names.join(", "), "model.lora_attn_modules");
}

fn tokenizer(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.member("max_seq_len").and_then(Value::count) {
        Some(length) => draft.fill(Slot::Seq, length.to_string(), "tokenizer.max_seq_len"),
        None => draft.idle.push(entry.key.clone()),
    }
    Ok(())
}

/// Packed or not, a row has the length of the longest, which is at most that of the tokenizer.
fn dataset(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.idle.push(entry.key.clone());
    Ok(())
}

fn validation(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
    } else {
        draft.fill(Slot::Evaluation, "on", &entry.key);
    }
    Ok(())
}

fn optimizer(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let Some(name) = component(&entry.value) else {
        draft.unread(&entry.key);
        return Ok(());
    };
    draft.fill(Slot::Optimizer, name, "optimizer._component_");
    let is_on = |key| entry.value.member(key).and_then(Value::flag) == Some(true);
    let with = ["fused", "foreach", "nesterov"].into_iter().filter(|key| is_on(key));
    let momentum = entry.value.member("momentum").and_then(Value::is_positive) == Some(true);
    let with: Vec<&str> = with.chain(momentum.then_some("momentum")).collect();
    if !with.is_empty() {
        draft.fill(Slot::OptimizerWith, with.join(" "), &entry.key);
    }
    Ok(())
}

/// Losses over parts of the sequence keep the logits of all parts.
fn loss(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match component(&entry.value).as_deref() {
        Some("CEWithChunkedOutputLoss" | "LinearCrossEntropyLoss") => {
            draft.fill(Slot::LossKernel, "output-chunks", "loss._component_");
        }
        Some("CrossEntropyLoss") => draft.fill(Slot::LossKernel, "torch", "loss._component_"),
        Some(name) if name.contains("DPO") || name.contains("PPO") || name.contains("GRPO") => {
            return Err(refused(Why::Preference.sentence(name), entry.place));
        }
        _ => draft.absent(Why::OtherLoss, &entry.key),
    }
    Ok(())
}

/// Recipes with `distributed` in their names use FSDP2.
fn recipe(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.word().is_some_and(|name| name.contains("distributed")) {
        draft.fill(Slot::Fsdp, "on", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// Only recipes of several GPUs have this key.
fn offload(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.fill(Slot::Fsdp, "on", &entry.key);
    match as_::flag(&entry.value) {
        Some(flag) => draft.fill(Slot::CpuOffload, flag, &entry.key),
        None => draft.unread(&entry.key),
    }
    Ok(())
}
