//! accelerate's YAML and `DeepSpeed`'s JSON: how a script is run. The model is in the script.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::draft::Does::{Absent, Fills, Nothing, Reads, Refused};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::sharing;
use super::value::{Entry, Value};
use super::versions::Library;
use crate::error::Error;

const ACCELERATE: &[Row] = &[
    row(&["mixed_precision"], Reads(mixed)),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["gradient_clipping"], Fills(Slot::Clip, as_::positive)),
    row(&["num_processes"], Fills(Slot::Gpus, as_::count)),
    row(&["num_machines"], Fills(Slot::Machines, as_::count)),
    row(&["distributed_type"], Reads(distributed)),
    row(&["fsdp_config"], Reads(sharing::fsdp_config)),
    row(&["parallelism_config"], Reads(sharing::mesh)),
    row(&["deepspeed_config"], Reads(sharing::plugin)),
    row(&["megatron_lm_config"], Refused(Why::SeveralGpus)),
    // They count only for `distributed_type: XLA`.
    row(&["tpu_*"], Nothing),
    row(&["dynamo_config", "dynamo_backend"], Absent(Why::Compile)),
    row(&["fp8_config"], Absent(Why::LowPrecision)),
    row(
        &[
            "compute_environment",
            "debug",
            "downcast_bf16",
            "enable_cpu_affinity",
            "gpu_ids",
            "machine_rank",
            "main_*",
            "rdzv_backend",
            "same_network",
            "use_cpu",
            "num_cpu_threads_per_process",
            "command_file",
            "commands",
            "mpirun_config",
            "ipex_config",
        ],
        Nothing,
    ),
];

const DEEPSPEED: &[Row] = &[
    row(&["train_micro_batch_size_per_gpu"], Reads(batch)),
    row(&["gradient_accumulation_steps"], Reads(accumulate)),
    row(&["train_batch_size"], Reads(together)),
    row(&["gradient_clipping"], Reads(clip)),
    row(&["bf16", "bfloat16"], Reads(bf16)),
    row(&["fp16"], Reads(fp16)),
    row(&["zero_optimization"], Reads(zero)),
    row(&["optimizer"], Reads(optimizer)),
    row(&["tensor_parallel", "pipeline", "sequence_parallel_size"], Refused(Why::SeveralGpus)),
    row(&["amp", "data_types", "compression_training"], Absent(Why::LowPrecision)),
    row(&["activation_checkpointing"], Nothing),
    row(&["compile"], Absent(Why::Compile)),
    row(
        &[
            "scheduler",
            "steps_per_print",
            "wall_clock_breakdown",
            "zero_allow_*",
            "zero_force_*",
            "communication_data_type",
            "prescale_gradients",
            "gradient_predivide_factor",
            "sparse_gradients",
            "dump_state",
            "memory_breakdown",
            "flops_profiler",
            "aio",
            "tensorboard",
            "wandb",
            "csv_monitor",
            "comms_logger",
            "checkpoint",
            "data_efficiency",
            "elasticity",
            "autotuning",
            "zero_optimization_*",
            "grad_accum_dtype",
        ],
        Nothing,
    ),
];

/// Reads accelerate's YAML.
///
/// # Errors
/// When it shares a model in a way that is not simulated.
pub(super) fn accelerate(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    draft.read(ACCELERATE, entries, Library::Accelerate)
}

/// Reads `DeepSpeed`'s JSON.
///
/// # Errors
/// When it divides a model by a stage of `ZeRO`.
pub(super) fn deepspeed(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    draft.read(DEEPSPEED, entries, Library::DeepSpeed)
}

pub(super) fn mixed(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some(to @ ("bf16" | "fp16")) => draft.fill(Slot::Autocast, to, &entry.key),
        Some("no" | "false") | None => draft.fill(Slot::Autocast, "none", &entry.key),
        Some(_) => draft.absent(Why::LowPrecision, &entry.key),
    }
    Ok(())
}

/// What several processes do; `deepspeed_config` has the stage.
fn distributed(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("FSDP") => draft.fill(Slot::Fsdp, "on", &entry.key),
        Some("MULTI_GPU") => draft.fill(Slot::DataParallel, "ddp", &entry.key),
        Some("MEGATRON_LM" | "XLA") => {
            return Err(refused(Why::SeveralGpus.sentence(&entry.key), entry.place));
        }
        _ => draft.idle.push(entry.key.clone()),
    }
    Ok(())
}

/// `auto` is what the script states.
fn is_auto(draft: &mut Draft, entry: &Entry) -> bool {
    let is_auto = matches!(&entry.value, Value::Text(text) if text == "auto");
    if is_auto {
        draft.idle.push(entry.key.clone());
    }
    is_auto
}

fn batch(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    number(draft, entry, Slot::Batch);
    Ok(())
}

fn accumulate(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    number(draft, entry, Slot::Accumulate);
    Ok(())
}

fn together(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    number(draft, entry, Slot::GlobalBatch);
    Ok(())
}

fn number(draft: &mut Draft, entry: &Entry, slot: Slot) {
    if is_auto(draft, entry) {
        return;
    }
    match entry.value.count() {
        Some(count) => draft.fill(slot, count.to_string(), &entry.key),
        None => draft.unread(&entry.key),
    }
}

fn clip(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if !is_auto(draft, entry) {
        match as_::positive(&entry.value) {
            Some(flag) => draft.fill(Slot::Clip, flag, &entry.key),
            None => draft.unread(&entry.key),
        }
    }
    Ok(())
}

fn bf16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    half(draft, entry, "bf16");
    Ok(())
}

fn fp16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    half(draft, entry, "fp16");
    Ok(())
}

/// Half precision, with weights in single precision that the optimizer has.
fn half(draft: &mut Draft, entry: &Entry, to: &str) {
    let enabled = entry.value.member("enabled");
    match enabled.and_then(Value::flag) {
        Some(true) => draft.fill(Slot::Weights, [to, "-master"].concat(), &entry.key),
        _ => draft.idle.push(entry.key.clone()),
    }
}

fn zero(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.member("stage") {
        None => {
            draft.idle.push(entry.key.clone());
            Ok(())
        }
        Some(stage) => sharing::zero(draft, stage.whole(), "zero_optimization.stage", entry.place),
    }
}

fn optimizer(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.member("type").and_then(Value::word) {
        Some(name) => {
            draft.fill(Slot::Optimizer, name, "optimizer.type");
            draft.fill(Slot::OptimizerWith, "fused", "optimizer.type");
        }
        None => draft.unread(&entry.key),
    }
    Ok(())
}
