//! torchtitan's TOML, 0.1 and 0.2. A model is a name and a flavour; sizes are those of one rank.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::draft::Does::{Absent, Fills, Inside, Nothing, Part, Reads, Refused};
use super::draft::{Draft, Row, Slot, Why, as_, row};
use super::sharing;
use super::value::{Entry, Value};
use super::versions::Library;
use crate::error::Error;
use crate::formats::spec::{toml, tree};

const KEYS: &[Row] = &[
    row(&["model"], Reads(model)),
    row(&["training"], Reads(training)),
    row(&["parallelism", "experimental"], Inside(PARALLELISM)),
    row(&["optimizer"], Reads(optimizer)),
    row(&["activation_checkpoint"], Reads(checkpoint)),
    row(&["compile"], Reads(compile)),
    row(&["validation"], Reads(validation)),
    row(&["fault_tolerance"], Reads(fault_tolerance)),
    // They count only for converters of the model.
    row(&["float8", "mx", "quantize"], Nothing),
    row(
        &[
            "job",
            "profiling",
            "profiler",
            "metrics",
            "lr_scheduler",
            "checkpoint",
            "comm",
            "memory_estimation",
            "debug",
        ],
        Nothing,
    ),
];

const MODEL: &[Row] = &[
    // Read by themselves.
    row(&["name", "flavor"], Part),
    row(&["converters"], Absent(Why::LowPrecision)),
    row(&["tokenizer_path", "hf_assets_path", "print_after_conversion", "norm_type"], Nothing),
];

const TRAINING: &[Row] = &[
    row(&["local_batch_size", "batch_size"], Fills(Slot::Batch, as_::count)),
    row(&["global_batch_size"], Reads(together)),
    row(&["seq_len"], Fills(Slot::Seq, as_::count)),
    row(&["max_norm"], Fills(Slot::Clip, as_::positive)),
    row(&["dtype"], Fills(Slot::Weights, as_::dtype)),
    row(&["mixed_precision_param"], Fills(Slot::ParamType, as_::dtype)),
    row(&["mixed_precision_reduce"], Fills(Slot::ReduceType, as_::dtype)),
    row(&["enable_cpu_offload"], Fills(Slot::CpuOffload, as_::flag)),
    row(&["compile"], Absent(Why::Compile)),
    row(
        &[
            "dataset",
            "dataset_path",
            "steps",
            "gc_freq",
            "gc_debug",
            "seed",
            "deterministic",
            "debug_*",
            "warmup_steps",
            "data_parallel_type",
        ],
        Nothing,
    ),
];

const PARALLELISM: &[Row] = &[
    row(&["data_parallel_replicate_degree"], Fills(Slot::Replicate, as_::count)),
    row(&["data_parallel_shard_degree", "data_parallel_degree"], Fills(Slot::Shard, as_::width)),
    row(&["tensor_parallel_degree"], Fills(Slot::Tensor, as_::count)),
    row(&["pipeline_parallel_degree"], Fills(Slot::Pipeline, as_::count)),
    row(&["context_parallel_degree"], Reads(sharing::context)),
    row(&["expert_parallel_degree"], Reads(sharing::experts)),
    row(&["fsdp_reshard_after_forward"], Reads(reshard)),
    row(
        &[
            "expert_tensor_parallel_degree",
            "disable_loss_parallel",
            "enable_async_tensor_parallel",
            "enable_compiled_autograd",
            "pipeline_parallel_*",
            "module_fqns_per_model_part",
            "context_parallel_*",
            "expert_parallel_*",
            "custom_*",
        ],
        Nothing,
    ),
];

/// Names of models, and how the catalogue calls them. Of Llama 3, flavours have the sizes of 3.1.
const NAMES: [(&str, &str); 4] = [
    ("llama3", "llama-3.1"),
    ("llama4", "llama-4"),
    ("deepseek_v3", "deepseek-v3"),
    ("gpt_oss", "gpt-oss"),
];

/// Whether a text is one of torchtitan's.
pub(super) fn is_titan(text: &str) -> bool {
    let has = |names: &[&str]| {
        let is_name = |line: &str| names.contains(&line.split('#').next().unwrap_or(line).trim());
        text.lines().any(is_name)
    };
    let is_other = text.lines().any(|line| line.trim_start().starts_with("[[layers"));
    has(&["[training]"])
        && has(&["[parallelism]", "[activation_checkpoint]", "[model]"])
        && !is_other
        && toml::is_toml(text)
}

/// Reads a recipe.
///
/// # Errors
/// When it is no TOML, or describes a run that is not simulated.
pub(super) fn read(draft: &mut Draft, text: &str) -> Result<(), Error> {
    if let Some(count) = preset(text) {
        draft.fill(Slot::Gpus, count, "preset");
    }
    let root: tree::Tree = toml::parse(text)?;
    draft.read(KEYS, Value::of(root).entries(), Library::Torchtitan)
}

/// `NOTE: this toml config is a preset for 64 A100 GPUs.`, as the published ones have it.
fn preset(text: &str) -> Option<String> {
    let comments = text.lines().filter(|line| line.starts_with('#') && line.contains("GPU"));
    let rest = comments.filter_map(|line| line.split_once("preset for ")).map(|(_, rest)| rest);
    let mut counts = rest.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    counts.next().map(|count| count.to_string())
}

/// Older releases have degrees here, too.
fn training(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.read_by(&[TRAINING, PARALLELISM], entry.value.entries(), Library::Torchtitan)
}

fn model(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.read(MODEL, entry.value.entries(), Library::Torchtitan)?;
    let word = |key: &str| entry.value.member(key).and_then(Value::word);
    let Some(name) = word("name") else { return Ok(()) };
    let called = NAMES.iter().find(|(known, _)| *known == name).map(|(_, called)| *called);
    let called = called.unwrap_or(&name);
    let model = match word("flavor") {
        Some(flavor) => format!("{called}-{flavor}"),
        None => called.to_owned(),
    };
    draft.fill(Slot::Model, model, "model.flavor");
    Ok(())
}

/// -1 is one batch of each rank.
fn together(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.count() {
        Some(samples) => draft.fill(Slot::GlobalBatch, samples.to_string(), &entry.key),
        None => draft.idle.push(entry.key.clone()),
    }
    Ok(())
}

fn reshard(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let reshards = match entry.value.word().as_deref() {
        Some("default") => "auto",
        Some("always") => "on",
        Some("never") => "off",
        _ => {
            draft.unread(&entry.key);
            return Ok(());
        }
    };
    draft.fill(Slot::Reshard, reshards, &entry.key);
    Ok(())
}

fn optimizer(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    const ROWS: &[Row] = &[
        row(&["name"], Fills(Slot::Optimizer, as_::word)),
        row(&["implementation"], Fills(Slot::OptimizerWith, as_::word)),
        row(&["weight_decay"], Fills(Slot::WeightDecay, as_::positive)),
        row(&["early_step_in_backward"], Fills(Slot::InBackward, as_::flag)),
        row(&["*"], Nothing),
    ];
    draft.read(ROWS, entry.value.entries(), Library::Torchtitan)?;
    if draft.has(Slot::Optimizer) && !draft.has(Slot::OptimizerWith) {
        draft.fill(Slot::OptimizerWith, "fused", "optimizer.name");
    }
    Ok(())
}

/// `full` are all blocks, `selective` every second one unless it says which, or some of the operators.
fn checkpoint(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    const KEY: &str = "activation_checkpoint.mode";
    let word = |key: &str| entry.value.member(key).and_then(Value::word);
    let every = match word("mode").as_deref() {
        Some("none") => {
            draft.fill(Slot::Checkpoint, "off", KEY);
            return Ok(());
        }
        Some("full") => "1".to_owned(),
        Some("selective") | None => match word("selective_ac_option") {
            Some(option) if option == "op" => {
                draft.absent(Why::SomeOperators, "selective_ac_option");
                "1".to_owned()
            }
            Some(option) => option,
            None => "2".to_owned(),
        },
        Some(_) => {
            draft.absent(Why::SomeOperators, KEY);
            "1".to_owned()
        }
    };
    draft.fill(Slot::Checkpoint, "on", KEY);
    draft.fill(Slot::CheckpointEvery, every, KEY);
    Ok(())
}

/// Blocks are compiled one by one, unless only other parts are named.
fn compile(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let parts = entry.value.member("components").and_then(Value::names);
    let is_model = parts.is_none_or(|parts| parts.iter().any(|part| part == "model"));
    let is_on = entry.value.member("enable").and_then(Value::flag) == Some(true);
    if is_on && is_model {
        draft.absent(Why::Compile, "compile.enable");
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

fn validation(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let flag = entry.value.member("enable").or_else(|| entry.value.member("enabled"));
    if flag.and_then(Value::flag) == Some(true) {
        draft.fill(Slot::Evaluation, "on", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

fn fault_tolerance(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    const ROWS: &[Row] = &[row(&["enable"], Refused(Why::SeveralGpus)), row(&["*"], Nothing)];
    draft.read(ROWS, entry.value.entries(), Library::Torchtitan)
}
