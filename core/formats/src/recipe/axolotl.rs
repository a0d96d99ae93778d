//! axolotl's YAML, 0.18: the keys of its schema.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::arguments;
use super::draft::Does::{Absent, Fills, Nothing, Reads, Refused, Slight};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::sharing;
use super::value::{Entry, Value};
use super::versions::Library;
use crate::error::Error;

const KEYS: &[Row] = &[
    row(&["base_model"], Fills(Slot::Model, as_::word)),
    row(&["micro_batch_size"], Fills(Slot::Batch, as_::count)),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["sequence_len"], Fills(Slot::Seq, as_::count)),
    row(&["optimizer"], Fills(Slot::Optimizer, as_::word)),
    row(&["weight_decay"], Fills(Slot::WeightDecay, as_::positive)),
    row(&["max_grad_norm"], Fills(Slot::Clip, as_::positive)),
    row(&["bf16"], Reads(bf16)),
    row(&["fp16"], Reads(fp16)),
    row(&["bfloat16"], Reads(bfloat16)),
    row(&["float16"], Reads(float16)),
    row(&["adapter"], Reads(adapter)),
    row(&["lora_r"], Fills(Slot::Rank, as_::count)),
    row(&["lora_dropout"], Fills(Slot::LoraDropout, as_::positive)),
    row(&["lora_target_modules"], Reads(arguments::targets)),
    row(&["lora_target_linear"], Reads(all_linear)),
    row(&["lora_modules_to_save"], Fills(Slot::ModulesToSave, as_::names)),
    row(&["peft_use_dora"], Fills(Slot::Dora, as_::flag)),
    row(&["peft_autocast_adapter_dtype"], Fills(Slot::AdaptersInModelType, as_::not)),
    row(&["load_in_4bit"], Fills(Slot::FourBits, as_::flag)),
    row(&["load_in_8bit"], Fills(Slot::EightBits, as_::flag)),
    row(&["bnb_config_kwargs"], super::draft::Does::Inside(arguments::QUANTIZATION)),
    row(&["gradient_checkpointing"], Reads(checkpointing)),
    row(&["gradient_checkpointing_kwargs"], super::draft::Does::Inside(KWARGS)),
    row(&["attn_implementation"], Reads(arguments::attention)),
    row(&["flash_attention"], Reads(arguments::flash)),
    row(&["sdp_attention"], Reads(sdpa)),
    row(&["eager_attention"], Reads(eager)),
    row(
        &[
            "flex_attention",
            "xformers_attention",
            "sage_attention",
            "s2_attention",
            "flash_optimum",
        ],
        Absent(Why::Attention),
    ),
    row(
        &[
            "large_head_attention",
            "flash_attn_d512",
            "sdpa_varlen",
            "scaling_softmax",
            "gemma4_hybrid_attn_impl",
        ],
        Absent(Why::Attention),
    ),
    row(&["val_set_size"], Fills(Slot::Evaluation, as_::positive)),
    row(&["test_datasets"], Reads(tests)),
    row(&["cut_cross_entropy"], Reads(cut_cross_entropy)),
    row(&["liger_fused_linear_cross_entropy"], Reads(liger_loss)),
    row(
        &[
            "liger_rope",
            "liger_rms_norm",
            "liger_swiglu",
            "liger_glu_activation",
            "liger_layer_norm",
        ],
        Reads(liger_kernels),
    ),
    row(
        &["liger_cross_entropy", "liger_rms_norm_gated", "liger_use_token_scaling"],
        Slight(Why::OwnKernels),
    ),
    row(&["plugins"], Reads(plugins)),
    row(
        &["lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel"],
        Slight(Why::OwnKernels),
    ),
    row(
        &[
            "flash_attn_cross_entropy",
            "flash_attn_rms_norm",
            "flash_attn_fuse_mlp",
            "fused_attn_kernel",
        ],
        Slight(Why::OwnKernels),
    ),
    row(
        &[
            "use_kernels",
            "experts_implementation",
            "use_scattermoe",
            "use_sonicmoe",
            "llama4_linearized_experts",
        ],
        Absent(Why::OwnKernels),
    ),
    row(
        &["chunked_cross_entropy", "use_eaft", "process_reward_model", "diffusion", "kd_*"],
        Absent(Why::OtherLoss),
    ),
    row(&["tiled_mlp"], Absent(Why::OwnKernels)),
    row(&["activation_offloading", "layer_offloading"], Absent(Why::Offload)),
    row(&["selective_checkpointing", "dynamic_checkpoint"], Absent(Why::PartOfLayers)),
    row(
        &[
            "unfrozen_parameters",
            "relora",
            "lisa_n_layers",
            "spectrum_top_fraction",
            "freeze_mm_modules",
        ],
        Absent(Why::PartialTraining),
    ),
    row(
        &[
            "lora_target_parameters",
            "lora_rank_pattern",
            "peft_layers_to_transform",
            "peft_layers_pattern",
            "peft_layer_replication",
            "peft_trainable_token_indices",
        ],
        Absent(Why::PartOfLayers),
    ),
    row(
        &["quantize_moe_experts", "gptq", "model_quantization_config", "quantization", "qat"],
        Absent(Why::Quantization),
    ),
    row(&["fp8"], Absent(Why::LowPrecision)),
    row(&["torch_compile", "deepcompile"], Reads(compile)),
    row(&["auto_find_batch_size"], Absent(Why::ChangingBatch)),
    row(&["rl"], Reads(preference)),
    row(&["rl_beta", "dpo_use_weighting"], Nothing),
    row(&["precompute_ref_log_probs"], Reads(arguments::precomputed)),
    row(&["neftune_noise_alpha", "noisy_embedding_alpha"], Slight(Why::Noise)),
    row(
        &[
            "overrides_of_model_config",
            "overrides_of_model_kwargs",
            "reinit_weights",
            "resize_token_embeddings_to_32x",
            "use_onebitllms",
        ],
        Absent(Why::ChangedModel),
    ),
    row(&["optim_target_modules", "lr_groups", "embedding_lr"], Slight(Why::Optimizer)),
    row(&["reward_model", "trl", "vllm", "ebft", "mora", "hatchery"], Refused(Why::Preference)),
    row(&["deepspeed"], Reads(sharing::deepspeed)),
    row(&["fsdp"], Reads(sharing::fsdp_words)),
    row(&["fsdp_config"], Reads(sharing::fsdp_with_keys)),
    row(&["fsdp_version"], Fills(Slot::FsdpVersion, as_::count)),
    row(&["dp_shard_size"], Fills(Slot::Shard, as_::width)),
    row(&["dp_replicate_size"], Fills(Slot::Replicate, as_::count)),
    row(&["tensor_parallel_size"], Fills(Slot::Tensor, as_::count)),
    row(&["context_parallel_size", "sequence_parallel_degree"], Reads(sharing::context)),
    row(&["expert_parallel_size"], Reads(sharing::experts)),
    row(&["ddp_bucket_cap_mb"], Fills(Slot::BucketCap, as_::count)),
    row(&["ddp_find_unused_parameters"], Fills(Slot::FindUnused, as_::flag)),
    row(&["max_memory", "gpu_memory_limit", "lora_on_cpu"], Absent(Why::OnHost)),
    row(&["image_size"], Absent(Why::Images)),
    row(
        &[
            "strict",
            "resume_from_checkpoint",
            "auto_resume_from_checkpoints",
            "mean_resizing_embeddings",
            "shrink_embeddings",
            "embeddings_skip_upcast",
            "trainer_cls",
            "num_labels",
            "dpo_*",
            "datasets",
            "shuffle_*",
            "dataset_*",
            "skip_prepare_dataset",
            "num_dataset_shards_to_save",
            "pretraining_dataset",
            "dataloader_*",
            "accelerator_config",
            "remove_unused_columns",
            "push_dataset_to_hub",
            "hf_use_auth_token",
            "device",
            "device_map",
            "world_size",
            "local_rank",
            "ddp*",
            "seed",
            "do_*",
            "eval_*",
            "evals_per_epoch",
            "bench_*",
            "metric_for_best_model",
            "greater_is_better",
            "loss_watchdog_*",
            "gc_*",
            "torch_empty_cache_steps",
            "tf32",
            "float32",
            "excess_length_strategy",
            "min_sample_len",
            "max_prompt_len",
            "sample_packing*",
            "pad_to_sequence_len",
            "pad_to_multiple_of",
            "curriculum_sampling",
            "multipack_real_batches",
            "batch_flattening",
            "use_pose",
            "pose_*",
            "pretrain_*",
            "pretraining_*",
            "streaming*",
            "special_tokens",
            "tokens",
            "added_tokens_overrides",
            "torch_compile_*",
            "max_steps",
            "warmup_*",
            "saves_per_epoch",
            "save_*",
            "logging_steps",
            "early_stopping_patience",
            "load_best_model_at_end",
            "use_tensorboard",
            "profiler_*",
            "include_*",
            "low_cpu_mem_usage",
            "chat_template*",
            "eot_tokens",
            "default_system_message",
            "fix_untrained_tokens",
            "is_*",
            "preprocess_iterable",
            "total_*",
            "axolotl_config_path",
            "generate_samples",
            "generation_*",
            "num_generation_samples",
            "train_on_inputs",
            "group_by_length",
            "learning_rate",
            "optim_args",
            "lr_*",
            "cosine_*",
            "adam_*",
            "num_epochs",
            "eval_batch_size",
            "batch_size",
            "output_dir",
            "hub_*",
            "wandb_*",
            "use_wandb",
            "mlflow_*",
            "use_mlflow",
            "comet_*",
            "use_comet",
            "trackio_*",
            "use_trackio",
            "swanlab_*",
            "use_swanlab",
            "gradio_*",
            "use_otel_metrics",
            "otel_*",
            "base_model_config",
            "cls_model_config",
            "model_type",
            "tokenizer_*",
            "processor_*",
            "type_of_model",
            "revision_of_model",
            "trust_remote_code",
            "experimental_skip_move_to_device",
            "lora_model_dir",
            "lora_alpha",
            "lora_fan_in_fan_out",
            "lora_alpha_pattern",
            "peft",
            "peft_use_rslora",
            "peft_init_lora_weights",
            "peft_ensure_weight_tying",
            "qlora_sharded_model_loading",
            "loraplus_*",
            "merge_*",
            "ring_attn_func",
            "fsdp_final_state_dict_type",
            "chunked_cross_entropy_num_chunks",
            "tiled_mlp_*",
            "flex_attn_compile_kwargs",
            "evaluation_strategy",
            "role_boundaries",
            "image_resize_algorithm",
            "capabilities",
            "version",
            "debug",
            "heads_k_stride",
            "scaling_softmax_*",
            "eaft_*",
            "gptq_*",
            "fp32_norm*",
            "lm_eval_*",
        ],
        Nothing,
    ),
];

const KWARGS: &[Row] = &[
    row(&["use_reentrant"], Fills(Slot::Reentry, as_::flag)),
    row(&["preserve_rng_state", "determinism_check"], Nothing),
];

/// Reads a recipe.
///
/// # Errors
/// When it describes a run that is not simulated, or adapters without a rank.
pub(super) fn read(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    draft.read(KEYS, entries, Library::Axolotl)?;
    if draft.get(Slot::Method) == Some("lora") && !draft.has(Slot::Rank) {
        let message = say!("`adapter` is set, but not `lora_r`, the rank, which axolotl requires");
        let place = entries.iter().find(|entry| entry.key == "adapter").map(|entry| entry.place);
        return Err(refused(message, place.unwrap_or_default()));
    }
    let has_kernels = entries
        .iter()
        .any(|entry| entry.key.starts_with("lora_") && entry.key.ends_with("_kernel"));
    if draft.get(Slot::Method) == Some("lora") && !has_kernels {
        draft.slight(Why::OwnKernels, "lora_mlp_kernel");
    }
    Ok(())
}

fn adapter(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let key = &entry.key;
    match entry.value.word().as_deref() {
        None | Some("") => draft.fill(Slot::Method, "full", key),
        Some("lora") => draft.fill(Slot::Method, "lora", key),
        Some("qlora") => {
            draft.fill(Slot::Method, "lora", key);
            if !draft.has(Slot::FourBits) {
                draft.fill(Slot::FourBits, "on", key);
            }
        }
        Some(name) => return Err(refused(Why::Adapters.sentence(name), entry.place)),
    }
    Ok(())
}

fn all_linear(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::Targets, "all-linear", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// `auto` and `true` load in bf16 and use autocast; `full` uses none.
fn bf16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let key = &entry.key;
    match &entry.value {
        Value::Text(text) if text == "full" => draft.fill(Slot::Weights, "bf16", key),
        value => match value.flag() {
            Some(true) => {
                draft.fill(Slot::Weights, "bf16", key);
                draft.fill(Slot::Autocast, "bf16", key);
            }
            Some(false) => draft.idle.push(key.clone()),
            None => draft.unread(key),
        },
    }
    Ok(())
}

fn fp16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    half(draft, entry, "fp16", true)
}

fn bfloat16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    half(draft, entry, "bf16", false)
}

fn float16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    half(draft, entry, "fp16", false)
}

fn half(draft: &mut Draft, entry: &Entry, to: &str, autocast: bool) -> Result<(), Error> {
    match entry.value.flag() {
        Some(true) => {
            draft.fill(Slot::Weights, to, &entry.key);
            draft.fill(Slot::Autocast, if autocast { to } else { "none" }, &entry.key);
        }
        Some(false) => draft.idle.push(entry.key.clone()),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

fn checkpointing(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let word = entry.value.word().unwrap_or_default();
    if word.starts_with("offload") {
        draft.fill(Slot::Checkpoint, "on", &entry.key);
        draft.fill(Slot::Offload, "on", &entry.key);
        return Ok(());
    }
    match as_::flag(&entry.value) {
        Some(flag) => draft.fill(Slot::Checkpoint, flag, &entry.key),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

fn sdpa(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    arguments::switched_attention(draft, entry, "sdpa")
}

fn eager(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    arguments::switched_attention(draft, entry, "eager")
}

fn tests(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
    } else {
        draft.fill(Slot::Evaluation, "on", &entry.key);
    }
    Ok(())
}

fn compile(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    // `auto` compiles only where it is known to work.
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
    } else {
        draft.fill(Slot::Compile, "on", &entry.key);
    }
    Ok(())
}

fn cut_cross_entropy(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    loss(draft, entry, "cce")
}

fn liger_loss(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    loss(draft, entry, "liger")
}

fn loss(draft: &mut Draft, entry: &Entry, kernel: &str) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::LossKernel, kernel, &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

fn liger_kernels(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::Kernels, "liger", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// The plugin of cut-cross-entropy is on by itself; that of Liger has keys of its own.
fn plugins(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let names = entry.value.names().unwrap_or_default();
    for name in &names {
        match name.rsplit('.').next().unwrap_or_default() {
            "CutCrossEntropyPlugin" if !draft.has(Slot::LossKernel) => {
                draft.fill(Slot::LossKernel, "cce", &entry.key);
            }
            "CutCrossEntropyPlugin" | "LigerPlugin" => {}
            _ => draft.absent(Why::OwnKernels, name),
        }
    }
    Ok(())
}

fn preference(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("dpo" | "ipo") => draft.fill(Slot::Objective, "dpo", &entry.key),
        _ if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        _ => return Err(refused(Why::Preference.sentence(&entry.key), entry.place)),
    }
    Ok(())
}
