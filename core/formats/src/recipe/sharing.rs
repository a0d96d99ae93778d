//! How several GPUs share a model: the keys of FSDP, meshes, DDP and `DeepSpeed` that accelerate, transformers, axolotl
//! and scripts have in common. Sources: `utils/dataclasses.py` of accelerate 1.15, `training_args.py` of transformers
//! 5.24, `schemas/fsdp.py` of axolotl 0.18.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::draft::Does::{Absent, Fills, Nothing, Part, Reads, Refused, Slight};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::value::{Entry, Value};
use super::versions::Library;
use crate::error::{Error, Place};

/// Keys of FSDP, with the prefix that accelerate gives them and without it.
pub(super) const FSDP: &[Row] = &[
    row(&["fsdp_version", "version"], Fills(Slot::FsdpVersion, as_::count)),
    row(
        &[
            "fsdp_reshard_after_forward",
            "reshard_after_forward",
            "fsdp_sharding_strategy",
            "sharding_strategy",
        ],
        Reads(strategy),
    ),
    row(
        &["fsdp_offload_params", "offload_params", "fsdp_cpu_offload", "cpu_offload"],
        Fills(Slot::CpuOffload, as_::flag),
    ),
    row(
        &[
            "fsdp_activation_checkpointing",
            "activation_checkpointing",
            "activation_checkpointing_policy",
        ],
        Reads(activation_checkpointing),
    ),
    row(
        &["fsdp_activation_checkpointing_offload", "activation_checkpointing_offload"],
        Fills(Slot::Offload, as_::flag),
    ),
    row(&["fsdp_auto_wrap_policy", "auto_wrap_policy"], Reads(wrap)),
    row(&["fsdp_backward_prefetch", "backward_prefetch"], Reads(backward_prefetch)),
    row(&["fsdp_forward_prefetch", "forward_prefetch"], Slight(Why::Prefetch)),
    row(&["fsdp_limit_all_gathers", "limit_all_gathers"], Reads(limit)),
    row(&["ignored_modules", "ignored_params"], Absent(Why::OtherUnits)),
    row(&["mixed_precision_policy", "fsdp_mixed_precision_policy"], Reads(policy)),
    // An object of a script, which is read where it is made.
    row(&["mp_policy", "mixed_precision", "offload_policy"], Part),
    row(&["xla", "fsdp_xla"], Refused(Why::SeveralGpus)),
    row(
        &[
            "fsdp_transformer_layer_cls_to_wrap",
            "transformer_layer_cls_to_wrap",
            "transformer_cls_names_to_wrap",
            "fsdp_min_num_params",
            "min_num_params",
            "fsdp_use_orig_params",
            "use_orig_params",
            "fsdp_sync_module_states",
            "sync_module_states",
            "fsdp_cpu_ram_efficient_loading",
            "cpu_ram_efficient_loading",
            "cpu_offload_pin_memory",
            "fsdp_cpu_offload_pin_memory",
            "fsdp_state_dict_type",
            "state_dict_type",
            "state_dict_config",
            "optim_state_dict_config",
            "fsdp_final_state_dict_type",
            "final_state_dict_type",
            "param_init_fn",
            "module",
            "mesh",
            "device_id",
            "process_group",
            "xla_*",
        ],
        Nothing,
    ),
];

/// PyTorch's `MixedPrecisionPolicy` and `MixedPrecision`.
pub(super) const POLICY: &[Row] = &[
    row(&["param_dtype"], Fills(Slot::ParamType, as_::dtype)),
    row(&["reduce_dtype"], Fills(Slot::ReduceType, as_::dtype)),
    row(&["*"], Nothing),
];

/// Sizes of a mesh: accelerate's `ParallelismConfig`.
pub(super) const MESH: &[Row] = &[
    row(
        &["parallelism_config_dp_replicate_size", "dp_replicate_size"],
        Fills(Slot::Replicate, as_::count),
    ),
    row(&["parallelism_config_dp_shard_size", "dp_shard_size"], Fills(Slot::Shard, as_::width)),
    row(&["parallelism_config_tp_size", "tp_size"], Fills(Slot::Tensor, as_::count)),
    row(
        &["parallelism_config_cp_size", "cp_size", "parallelism_config_sp_size", "sp_size"],
        Reads(context),
    ),
    row(&["parallelism_config_*", "tp_*", "cp_*", "sp_*", "device_mesh"], Nothing),
];

/// What `DistributedDataParallel` takes, also as accelerate and Lightning pass it on.
pub(super) const DDP: &[Row] = &[
    row(&["bucket_cap_mb"], Fills(Slot::BucketCap, as_::count)),
    row(&["gradient_as_bucket_view"], Fills(Slot::BucketView, as_::flag)),
    row(&["find_unused_parameters"], Fills(Slot::FindUnused, as_::flag)),
    row(&["comm_hook", "ddp_comm_hook", "ddp_comm_wrapper"], Slight(Why::Hook)),
    row(&["*"], Nothing),
];

/// accelerate's `deepspeed_config`.
const PLUGIN: &[Row] = &[
    row(&["zero_stage"], Reads(zero_stage)),
    row(&["deepspeed_config_file"], Reads(file)),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["gradient_clipping"], Fills(Slot::Clip, as_::positive)),
    row(&["*"], Nothing),
];

/// FSDP's keys in a mapping; a path cannot be followed.
pub(super) fn fsdp_config(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let entries = entry.value.entries();
    if entries.is_empty() {
        if entry.value.is_off() {
            draft.idle.push(entry.key.clone());
        } else {
            draft.unread(&entry.key);
        }
        return Ok(());
    }
    fsdp(draft, entries)
}

/// Reads keys of FSDP. The version comes first: others depend on it.
pub(super) fn fsdp(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    let is_version = |entry: &&Entry| matches!(entry.key.as_str(), "fsdp_version" | "version");
    if let Some(entry) = entries.iter().find(is_version)
        && let Some(version) = as_::count(&entry.value)
    {
        draft.fill(Slot::FsdpVersion, version, &entry.key);
    }
    draft.read(FSDP, entries, Library::Accelerate)
}

/// FSDP, by a key that switches it on and has keys of its own.
pub(super) fn fsdp_with_keys(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if !entry.value.is_off() {
        draft.fill(Slot::Fsdp, "on", &entry.key);
    }
    fsdp_config(draft, entry)
}

/// A mapping with the sizes of a mesh; a variable of the script is read where it is made.
pub(super) fn mesh(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.read(MESH, entry.value.entries(), Library::Accelerate)
}

/// `fsdp` of transformers and axolotl: `true`, or words such as `full_shard auto_wrap offload`.
pub(super) fn fsdp_words(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let key = &entry.key;
    if entry.value.is_off() {
        draft.idle.push(key.clone());
        return Ok(());
    }
    draft.fill(Slot::Fsdp, "on", key);
    let words: Vec<String> = match &entry.value {
        Value::List(items) => items.iter().filter_map(Value::word).collect(),
        value => vec![value.word().unwrap_or_default()],
    };
    let words = words.iter().flat_map(|words| words.split([' ', ',']));
    for word in words.filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "true" | "auto_wrap" => {}
            "offload" => draft.fill(Slot::CpuOffload, "on", key),
            word if share(draft, word, key) => {}
            _ => draft.unread(key),
        }
    }
    Ok(())
}

/// A strategy of FSDP, by its name or number; `false` if it is none.
fn share(draft: &mut Draft, word: &str, key: &str) -> bool {
    let upper = word.trim_start_matches('_').to_ascii_uppercase();
    let reshards = match upper.as_str() {
        "TRUE" | "FULL_SHARD" | "1" | "HYBRID_SHARD" | "4" => "auto",
        "FALSE" | "SHARD_GRAD_OP" | "2" | "HYBRID_SHARD_ZERO2" | "5" => "off",
        "NO_SHARD" | "3" => {
            draft.fill(Slot::FsdpStrategy, "none", key);
            return true;
        }
        _ => return false,
    };
    if upper.starts_with("HYBRID") || matches!(upper.as_str(), "4" | "5") {
        draft.fill(Slot::FsdpStrategy, "hybrid", key);
    }
    draft.fill(Slot::Reshard, reshards, key);
    true
}

fn strategy(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let is_known = entry.value.word().is_some_and(|word| share(draft, &word, &entry.key));
    if !is_known && entry.value != Value::Null {
        draft.unread(&entry.key);
    }
    Ok(())
}

/// FSDP's own checkpointing never enters autograd again.
fn activation_checkpointing(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(false) {
        draft.idle.push(entry.key.clone());
    } else {
        // In Lightning, classes of modules that are checkpointed.
        draft.fill(Slot::Checkpoint, "on", &entry.key);
        draft.fill(Slot::Reentry, "off", &entry.key);
    }
    Ok(())
}

fn wrap(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    // A function or classes of a script are those of blocks, unless they go by size.
    if matches!(entry.value, Value::Call(_) | Value::Opaque | Value::List(_)) {
        draft.fill(Slot::FsdpWrap, "blocks", &entry.key);
        return Ok(());
    }
    match entry.value.word().unwrap_or_default().to_ascii_uppercase().as_str() {
        "TRANSFORMER_BASED_WRAP" | "TRANSFORMER_AUTO_WRAP_POLICY" => {
            draft.fill(Slot::FsdpWrap, "blocks", &entry.key);
        }
        "NO_WRAP" => draft.fill(Slot::FsdpWrap, "model", &entry.key),
        "" => draft.idle.push(entry.key.clone()),
        _ => {
            draft.fill(Slot::FsdpWrap, "blocks", &entry.key);
            draft.slight(Why::OtherUnits, &entry.key);
        }
    }
    Ok(())
}

/// FSDP2 gathers the next block during backward whatever is asked for.
fn backward_prefetch(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let word = entry.value.word().unwrap_or_default().to_ascii_uppercase();
    let is_usual = matches!(word.as_str(), "" | "BACKWARD_PRE" | "1");
    if is_usual || draft.get(Slot::FsdpVersion) == Some("2") {
        draft.idle.push(entry.key.clone());
    } else {
        draft.slight(Why::Prefetch, &entry.key);
    }
    Ok(())
}

fn limit(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(false) {
        draft.absent(Why::Prefetch, &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// The type of both; an object of a script is read where it is made.
fn policy(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match as_::dtype(&entry.value) {
        Some(dtype) => {
            draft.fill(Slot::ParamType, dtype.clone(), &entry.key);
            draft.fill(Slot::ReduceType, dtype, &entry.key);
        }
        None if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        None => draft.read(POLICY, entry.value.entries(), Library::Torch)?,
    }
    Ok(())
}

/// Ranks that read parts of a text. One is none.
pub(super) fn context(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.count() {
        Some(width) if width > 1 => draft.fill(Slot::Context, width.to_string(), &entry.key),
        _ => draft.idle.push(entry.key.clone()),
    }
    Ok(())
}

/// Groups of experts, which are within the ranks that read different batches.
pub(super) fn experts(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.count().is_some_and(|width| width > 1) {
        draft.absent(Why::ExpertParallel, &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// `deepspeed` of transformers, axolotl and LLaMA-Factory: the configuration, or a path to it, which may name a stage.
pub(super) fn deepspeed(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
        return Ok(());
    }
    let entries = entry.value.entries();
    if entries.is_empty() {
        return file(draft, entry);
    }
    let stage = entry.value.member("zero_optimization").and_then(|zero| zero.member("stage"));
    let stage = stage.map_or(Some(0), Value::whole);
    zero(draft, stage, [&entry.key, ".zero_optimization.stage"].concat().as_str(), entry.place)
}

/// The stage that the name of a configuration has: `ds_zero2.json`.
fn stage_of(name: &str) -> Option<u64> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    let names = |stage: &u64| {
        ["zero", "z", "stage"].iter().any(|word| plain.contains(&format!("{word}{stage}")))
    };
    (1..=3).find(names)
}

/// A configuration of accelerate in another file, of which only the name is known.
pub(super) fn named(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let name = entry.value.word().unwrap_or_default().to_ascii_lowercase();
    if let Some(stage) = stage_of(&name) {
        return zero(draft, Some(stage), &entry.key, entry.place);
    }
    if name.contains("fsdp") {
        draft.fill(Slot::Fsdp, "on", &entry.key);
    } else if name.contains("multi_gpu") {
        draft.fill(Slot::DataParallel, "ddp", &entry.key);
    }
    if let Some(version) = ["1", "2"].into_iter().find(|n| name.contains(&format!("fsdp{n}"))) {
        draft.fill(Slot::FsdpVersion, version, &entry.key);
    }
    draft.unread(&entry.key);
    Ok(())
}

/// A path to a configuration of `DeepSpeed`.
fn file(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if let Some(stage) = stage_of(&entry.value.word().unwrap_or_default()) {
        return zero(draft, Some(stage), &entry.key, entry.place);
    }
    draft.absent(Why::ZeroFile, &entry.key);
    zero(draft, Some(0), &entry.key, entry.place)
}

/// accelerate's `deepspeed_config`, whose stage is 2 where nothing states it.
pub(super) fn plugin(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    plugged(draft, entry.value.entries(), &entry.key, entry.place)
}

/// The same from the keys of a command line.
pub(super) fn plugged(
    draft: &mut Draft,
    entries: &[Entry],
    key: &str,
    place: Place,
) -> Result<(), Error> {
    draft.read(PLUGIN, entries, Library::Accelerate)?;
    let states =
        |entry: &Entry| matches!(entry.key.as_str(), "zero_stage" | "deepspeed_config_file");
    if entries.iter().any(states) {
        return Ok(());
    }
    zero(draft, Some(2), key, place)
}

fn zero_stage(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    zero(draft, entry.value.whole(), &entry.key, entry.place)
}

/// A stage of `ZeRO` by `DeepSpeed`. Stage 0 is DDP; others run on its engine, which is not simulated.
pub(super) fn zero(
    draft: &mut Draft,
    stage: Option<u64>,
    key: &str,
    place: Place,
) -> Result<(), Error> {
    let message = match stage {
        Some(0) => {
            draft.fill(Slot::DataParallel, "ddp", key);
            draft.fill(Slot::DeepSpeed, "on", key);
            return Ok(());
        }
        Some(1) => say!(
            "`{key}`: stage 1 of DeepSpeed's ZeRO is not simulated. Remove it and choose the nearest, ZeRO-1 of \
             PyTorch (`--data-parallel zero-1`): it divides optimizer state by whole parameters, and DeepSpeed divides fp32 \
             weights, too, in one flat buffer",
            key
        ),
        Some(2) => say!(
            "`{key}`: stage 2 of DeepSpeed's ZeRO is not simulated. Remove it and choose the nearest, FSDP without \
             resharding (`--data-parallel fsdp --reshard off`): it gathers parameters in each step, and DeepSpeed \
             keeps them whole",
            key
        ),
        Some(3) => say!(
            "`{key}`: stage 3 of DeepSpeed's ZeRO is not simulated. Remove it and choose the nearest, FSDP \
             (`--data-parallel fsdp`): it gathers block by block, and DeepSpeed gathers as far ahead as its own limits \
             allow, with buckets that it keeps",
            key
        ),
        _ => say!(
            "`{key}`: this stage of DeepSpeed's ZeRO is not readable here; write a number from 0 to 3",
            key
        ),
    };
    Err(refused(message, place))
}
