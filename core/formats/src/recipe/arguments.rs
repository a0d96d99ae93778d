//! transformers' `TrainingArguments`, and what TRL, PEFT and bitsandbytes add: the keys that all front ends share.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::draft::Does::{Absent, Fills, Inside, Nothing, Part, Reads, Refused, Slight};
use super::draft::{Draft, Row, Slot, Why, as_, row};
use super::sharing;
use super::value::{Entry, Value};
use crate::error::Error;

/// `TrainingArguments` of transformers 4.36 to 5.24.
pub(super) const TRAINING: &[Row] = &[
    row(
        &["per_device_train_batch_size", "per_gpu_train_batch_size"],
        Fills(Slot::Batch, as_::count),
    ),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["max_grad_norm"], Fills(Slot::Clip, as_::positive)),
    row(&["optim"], Fills(Slot::Optimizer, as_::word)),
    row(&["weight_decay"], Fills(Slot::WeightDecay, as_::positive)),
    row(&["bf16"], Reads(bf16)),
    row(&["fp16"], Reads(fp16)),
    row(
        &["gradient_checkpointing", "activation_checkpointing"],
        Fills(Slot::Checkpoint, as_::flag),
    ),
    row(
        &["gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"],
        Inside(CHECKPOINTING),
    ),
    row(&["use_liger_kernel", "use_liger"], Reads(liger)),
    row(&["liger_kernel_config"], Inside(LIGER)),
    row(&["eval_strategy", "evaluation_strategy"], Fills(Slot::Evaluation, as_::strategy)),
    row(&["do_eval"], Fills(Slot::Evaluation, as_::flag)),
    row(&["eval_on_start"], Nothing),
    row(&["torch_compile"], Fills(Slot::Compile, as_::flag)),
    row(&["torch_compile_backend", "torch_compile_mode"], Reads(compiled_by)),
    row(&["auto_find_batch_size"], Absent(Why::ChangingBatch)),
    row(&["neftune_noise_alpha"], Slight(Why::Noise)),
    row(&["label_smoothing_factor"], Absent(Why::OtherLoss)),
    row(&["optim_target_modules"], Absent(Why::Optimizer)),
    row(
        &["eval_accumulation_steps", "batch_eval_metrics", "include_for_metrics"],
        Slight(Why::LogitsOfEvaluation),
    ),
    row(&["fsdp"], Reads(sharing::fsdp_words)),
    row(&["fsdp_config"], Reads(sharing::fsdp_config)),
    row(&["fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params"], Nothing),
    row(&["deepspeed"], Reads(sharing::deepspeed)),
    row(&["parallelism_config"], Reads(sharing::mesh)),
    row(&["ddp_bucket_cap_mb"], Fills(Slot::BucketCap, as_::count)),
    row(&["ddp_find_unused_parameters"], Fills(Slot::FindUnused, as_::flag)),
    row(
        &[
            "output_dir",
            "overwrite_output_dir",
            "num_train_epochs",
            "max_steps",
            "learning_rate",
            "lr_*",
            "warmup_*",
            "optim_args",
            "adam_*",
            "average_tokens_across_devices",
            "bf16_full_eval",
            "fp16_full_eval",
            "tf32",
            "use_cache",
            "torch_empty_cache_steps",
            "logging_*",
            "log_*",
            "include_num_input_tokens_seen",
            "include_tokens_per_second",
            "disable_tqdm",
            "report_to",
            "run_name",
            "project",
            "trackio_*",
            "eval_*",
            "per_device_eval_batch_size",
            "prediction_loss_only",
            "include_inputs_for_metrics",
            "save_*",
            "enable_jit_checkpoint",
            "push_to_hub*",
            "hub_*",
            "load_best_model_at_end",
            "metric_for_best_model",
            "greater_is_better",
            "ignore_data_skip",
            "restore_callback_states_from_checkpoint",
            "full_determinism",
            "seed",
            "data_seed",
            "use_cpu",
            "no_cuda",
            "accelerator_config",
            "dataloader_*",
            "remove_unused_columns",
            "label_names",
            "train_sampling_strategy",
            "group_by_length",
            "length_column_name",
            "ddp_*",
            "debug",
            "skip_memory_metrics",
            "do_train",
            "do_predict",
            "resume_from_checkpoint",
            "local_rank",
            "jit_mode_eval",
            "half_precision_backend",
            "fp16_opt_level",
            "past_index",
            "predict_with_generate",
            "generation_*",
            "wandb_*",
        ],
        Nothing,
    ),
];

const CHECKPOINTING: &[Row] = &[
    row(&["use_reentrant"], Fills(Slot::Reentry, as_::flag)),
    row(&["every_n_layers"], Fills(Slot::CheckpointEvery, as_::count)),
    row(&["offload"], Fills(Slot::Offload, as_::flag)),
    row(&["preserve_rng_state", "determinism_check", "debug"], Nothing),
    row(&["selective", "context_fn"], Absent(Why::PartOfLayers)),
];

const LIGER: &[Row] = &[
    row(&["fused_linear_cross_entropy"], Reads(fused_linear)),
    row(&["rope", "rms_norm", "swiglu", "cross_entropy", "layer_norm"], Slight(Why::OwnKernels)),
];

/// What `SFTConfig` adds, of TRL 0.12 to 1.16, and the trainer's own arguments of older releases.
pub(super) const SFT: &[Row] = &[
    row(&["max_length", "max_seq_length"], Fills(Slot::Seq, as_::count)),
    row(&["model_init_kwargs"], Inside(LOADING)),
    row(
        &[
            "train_dataset",
            "eval_dataset",
            "processing_class",
            "tokenizer",
            "data_collator",
            "formatting_func",
            "callbacks",
            "compute_metrics",
            "preprocess_logits_for_metrics",
            "args",
            "model",
            "peft_config",
        ],
        Part,
    ),
    row(&["loss_type"], Reads(loss_type)),
    row(&["activation_offloading"], Absent(Why::Offload)),
    row(&["use_dft", "router_aux_loss_coef"], Absent(Why::OtherLoss)),
    // The rows are filled either way.
    row(
        &[
            "packing",
            "packing_strategy",
            "padding_free",
            "pad_to_multiple_of",
            "eval_packing",
            "completion_only_loss",
            "assistant_only_loss",
            "trust_remote_code",
            "chat_template_path",
            "dataset_*",
            "eos_token",
            "pad_token",
            "truncation_mode",
            "shuffle_dataset",
            "num_of_sequences",
            "chars_per_token",
        ],
        Nothing,
    ),
];

/// What `DPOConfig` and `DPOTrainer` add, of TRL 0.19 to 1.16.
pub(super) const DPO: &[Row] = &[
    row(&["precompute_ref_log_probs"], Reads(precomputed)),
    row(&["loss_type", "use_weighting", "rpo_alpha", "use_logits_to_keep"], Slight(Why::OtherLoss)),
    row(&["ref_model"], Part),
    row(
        &[
            "beta",
            "label_smoothing",
            "loss_weights",
            "ld_alpha",
            "f_divergence_type",
            "f_alpha_divergence_coef",
            "max_prompt_length",
            "max_completion_length",
            "disable_dropout",
            "precompute_ref_batch_size",
            "sync_ref_model",
            "ref_model_mixup_alpha",
            "ref_model_sync_steps",
            "reference_free",
            "discopop_tau",
        ],
        Nothing,
    ),
];

/// The reference reads all texts before the training, and goes.
pub(super) fn precomputed(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
    } else {
        draft.fill(Slot::Objective, "dpo-precomputed", &entry.key);
    }
    Ok(())
}

/// `from_pretrained` of transformers.
pub(super) const LOADING: &[Row] = &[
    row(&["torch_dtype", "dtype"], Fills(Slot::Weights, as_::dtype)),
    row(&["attn_implementation"], Reads(attention)),
    row(&["use_flash_attention_2"], Reads(flash)),
    row(&["load_in_4bit"], Fills(Slot::FourBits, as_::flag)),
    row(&["load_in_8bit"], Fills(Slot::EightBits, as_::flag)),
    row(&["quantization_config"], Inside(QUANTIZATION)),
    row(&["tp_size"], Fills(Slot::Tensor, as_::count)),
    row(&["tp_plan"], Absent(Why::TensorParallel)),
    row(&["max_memory", "offload_folder", "offload_state_dict"], Absent(Why::OnHost)),
    row(
        &[
            "device_map",
            "trust_remote_code",
            "use_cache",
            "token",
            "use_auth_token",
            "revision",
            "cache_dir",
            "low_cpu_mem_usage",
            "local_files_only",
            "force_download",
            "use_safetensors",
            "variant",
            "config",
            "pretrained_model_name_or_path",
            "use_fast",
            "padding_side",
            "add_eos_token",
            "add_bos_token",
            "subfolder",
        ],
        Nothing,
    ),
    row(
        &["num_labels", "num_hidden_layers", "rope_scaling", "problem_type"],
        Absent(Why::ChangedModel),
    ),
];

/// `BitsAndBytesConfig`.
pub(super) const QUANTIZATION: &[Row] = &[
    row(&["load_in_4bit"], Fills(Slot::FourBits, as_::flag)),
    row(&["load_in_8bit"], Fills(Slot::EightBits, as_::flag)),
    row(&["bnb_4bit_quant_type"], Fills(Slot::QuantType, as_::word)),
    row(&["bnb_4bit_use_double_quant"], Fills(Slot::Double, as_::flag)),
    row(&["bnb_4bit_compute_dtype"], Fills(Slot::Compute, as_::dtype)),
    row(&["bnb_4bit_quant_storage"], Reads(storage)),
    row(&["llm_int8_threshold", "llm_int8_has_fp16_weight"], Nothing),
    row(&["llm_int8_skip_modules"], Absent(Why::PartOfLayers)),
    row(&["llm_int8_enable_fp32_cpu_offload"], Absent(Why::OnHost)),
];

/// `LoraConfig`.
pub(super) const LORA: &[Row] = &[
    row(&["r"], Fills(Slot::Rank, as_::count)),
    row(&["target_modules"], Reads(targets)),
    row(&["lora_dropout"], Fills(Slot::LoraDropout, as_::positive)),
    row(&["use_dora"], Fills(Slot::Dora, as_::flag)),
    row(&["modules_to_save"], Fills(Slot::ModulesToSave, as_::names)),
    row(&["autocast_adapter_dtype"], Fills(Slot::AdaptersInModelType, as_::not)),
    row(&["bias"], Reads(bias)),
    row(
        &[
            "exclude_modules",
            "layers_to_transform",
            "layers_pattern",
            "layer_replication",
            "rank_pattern",
            "target_parameters",
            "trainable_token_indices",
        ],
        Absent(Why::PartOfLayers),
    ),
    row(&["megatron_config", "megatron_core"], Refused(Why::SeveralGpus)),
    row(
        &["use_qalora", "alora_invocation_tokens", "arrow_config", "lora_bias"],
        Slight(Why::ChangedModel),
    ),
    row(
        &[
            "lora_alpha",
            "task_type",
            "inference_mode",
            "fan_in_fan_out",
            "use_rslora",
            "init_lora_weights",
            "loftq_config",
            "alpha_pattern",
            "eva_config",
            "corda_config",
            "runtime_config",
            "base_model_name_or_path",
            "revision",
            "peft_type",
            "auto_mapping",
            "ensure_weight_tying",
        ],
        Nothing,
    ),
];

pub(super) fn bf16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    autocast(draft, entry, "bf16")
}

pub(super) fn fp16(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    autocast(draft, entry, "fp16")
}

/// Autocast to a type; where it is off, only if the other type has not switched it on.
fn autocast(draft: &mut Draft, entry: &Entry, to: &str) -> Result<(), Error> {
    match entry.value.flag() {
        Some(true) => draft.fill(Slot::Autocast, to, &entry.key),
        Some(false) if draft.has(Slot::Autocast) || entry.value == Value::Null => {
            draft.idle.push(entry.key.clone());
        }
        Some(false) => draft.fill(Slot::Autocast, "none", &entry.key),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

/// Integers are the default.
fn storage(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match as_::dtype(&entry.value) {
        Some(dtype) => draft.fill(Slot::QuantStorage, dtype, &entry.key),
        None => draft.idle.push(entry.key.clone()),
    }
    Ok(())
}

fn liger(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.flag() {
        Some(true) => {
            draft.fill(Slot::Kernels, "liger", &entry.key);
            draft.fill(Slot::LossKernel, "liger", &entry.key);
        }
        Some(false) => draft.idle.push(entry.key.clone()),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

/// What compiles, and how: either one by itself also switches compilation on.
fn compiled_by(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("inductor" | "default") => draft.fill(Slot::Compile, "on", &entry.key),
        _ if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        _ => draft.absent(Why::CompileMode, &entry.key),
    }
    Ok(())
}

fn fused_linear(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.flag() {
        Some(true) => draft.fill(Slot::LossKernel, "liger", &entry.key),
        Some(false) => draft.fill(Slot::LossKernel, "torch", &entry.key),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

fn loss_type(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("nll") => draft.fill(Slot::LossKernel, "torch", &entry.key),
        Some("chunked_nll") => draft.fill(Slot::LossKernel, "chunked", &entry.key),
        _ => draft.absent(Why::OtherLoss, &entry.key),
    }
    Ok(())
}

/// An attention by its name in transformers.
pub(super) fn attention(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match as_::attention(&entry.value) {
        Some(attention) => draft.fill(Slot::Attention, attention, &entry.key),
        None if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        None => draft.absent(Why::Attention, &entry.key),
    }
    Ok(())
}

pub(super) fn flash(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    switched_attention(draft, entry, "flash")
}

pub(super) fn switched_attention(draft: &mut Draft, entry: &Entry, to: &str) -> Result<(), Error> {
    match entry.value.flag() {
        Some(true) => draft.fill(Slot::Attention, to, &entry.key),
        Some(false) => draft.idle.push(entry.key.clone()),
        None => draft.unread(&entry.key),
    }
    Ok(())
}

/// Names of layers. A pattern is not read, and all linear layers are assumed.
pub(super) fn targets(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match as_::targets(&entry.value) {
        Some(targets) => draft.fill(Slot::Targets, targets, &entry.key),
        None if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        None => {
            draft.unread(&entry.key);
            draft.fill(Slot::Targets, "all-linear", &entry.key);
        }
    }
    Ok(())
}

fn bias(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.is_off() {
        draft.idle.push(entry.key.clone());
    } else {
        draft.slight(Why::PartialTraining, &entry.key);
    }
    Ok(())
}
