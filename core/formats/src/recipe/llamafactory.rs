//! LLaMA-Factory's YAML, 0.9: its own keys; the others are those of `TrainingArguments`.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::arguments::TRAINING;
use super::draft::Does::{Absent, Fills, Nothing, Reads, Refused, Slight};
use super::draft::{Draft, Row, Slot, Why, as_, refused, row};
use super::value::Entry;
use super::versions::Library;
use crate::error::Error;

const KEYS: &[Row] = &[
    row(&["model_name_or_path"], Fills(Slot::Model, as_::word)),
    row(&["cutoff_len"], Fills(Slot::Seq, as_::count)),
    row(&["stage"], Reads(stage)),
    row(&["finetuning_type"], Reads(method)),
    row(&["lora_rank"], Fills(Slot::Rank, as_::count)),
    row(&["lora_target"], Fills(Slot::Targets, as_::targets)),
    row(&["lora_dropout"], Fills(Slot::LoraDropout, as_::positive)),
    row(&["additional_target"], Fills(Slot::ModulesToSave, as_::names)),
    row(&["use_dora"], Fills(Slot::Dora, as_::flag)),
    row(&["pure_bf16"], Reads(pure)),
    row(&["quantization_bit"], Reads(bits)),
    row(&["quantization_type"], Fills(Slot::QuantType, as_::word)),
    row(&["double_quantization"], Fills(Slot::Double, as_::flag)),
    row(&["quantization_method"], Reads(quantization)),
    row(&["disable_gradient_checkpointing"], Fills(Slot::Checkpoint, as_::not)),
    row(&["use_reentrant_gc"], Fills(Slot::Reentry, as_::flag)),
    row(&["use_unsloth_gc"], Fills(Slot::Offload, as_::flag)),
    row(&["flash_attn"], Reads(attention)),
    row(&["enable_liger_kernel"], Reads(liger)),
    row(&["val_size"], Fills(Slot::Evaluation, as_::positive)),
    row(&["upcast_layernorm"], Slight(Why::LowPrecision)),
    row(&["upcast_lmhead_output"], Absent(Why::OtherLoss)),
    row(&["use_unsloth", "use_v1_kernels"], Absent(Why::OwnKernels)),
    row(&["use_kt"], Absent(Why::OnHost)),
    row(&["shift_attn", "block_diag_attn"], Absent(Why::Attention)),
    row(
        &["mixture_of_depths", "resize_vocab", "train_from_scratch", "rope_scaling"],
        Absent(Why::ChangedModel),
    ),
    row(&["use_llama_pro", "freeze_extra_modules"], Absent(Why::PartialTraining)),
    row(
        &["use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon"],
        Absent(Why::Optimizer),
    ),
    row(
        &["use_dft_loss", "use_asft_loss", "use_eaft_loss", "moe_aux_loss_coef"],
        Absent(Why::OtherLoss),
    ),
    row(&["use_mca", "use_hyper_parallel", "ray_num_workers"], Refused(Why::SeveralGpus)),
    row(&["fp8"], Absent(Why::LowPrecision)),
    row(
        &[
            "image_max_pixels",
            "image_min_pixels",
            "video_max_pixels",
            "video_min_pixels",
            "video_fps",
            "video_maxlen",
            "use_audio_in_video",
            "audio_sampling_rate",
        ],
        Absent(Why::Images),
    ),
    row(&["freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model"], Nothing),
    row(
        &[
            "template",
            "dataset",
            "eval_dataset",
            "dataset_dir",
            "media_dir",
            "train_on_prompt",
            "mask_history",
            "streaming",
            "buffer_size",
            "mix_strategy",
            "interleave_probs",
            "overwrite_cache",
            "preprocessing_*",
            "max_samples",
            "eval_num_beams",
            "ignore_pad_token_for_loss",
            "packing",
            "neat_packing",
            "tool_format",
            "default_system",
            "enable_thinking",
            "preserve_thinking",
            "tokenized_path",
            "data_shared_file_system",
            "freeze_trainable_*",
            "lora_alpha",
            "loraplus_*",
            "use_rslora",
            "pissa_*",
            "create_new_adapter",
            "galore_*",
            "apollo_*",
            "badam_*",
            "use_swanlab",
            "swanlab_*",
            "compute_accuracy",
            "disable_shuffling",
            "early_stopping_steps",
            "plot_loss",
            "include_effective_tokens_per_second",
            "do_sample",
            "temperature",
            "top_*",
            "num_beams",
            "max_new_tokens",
            "repetition_penalty",
            "length_penalty",
            "skip_special_tokens",
            "adapter_name_or_path",
            "adapter_folder",
            "cache_dir",
            "use_fast_tokenizer",
            "split_special_tokens",
            "add_tokens",
            "add_special_tokens",
            "new_special_tokens_config",
            "init_special_tokens",
            "model_revision",
            "low_cpu_mem_usage",
            "infer_*",
            "offload_folder",
            "use_kv_cache",
            "hf_hub_token",
            "ms_hub_token",
            "om_hub_token",
            "print_param_status",
            "trust_remote_code",
            "quantization_device_map",
            "export_*",
            "vllm_*",
            "sglang_*",
            "kt_*",
            "ray_*",
            "master_*",
            "enable_torch_profiler",
            "profiler_*",
            "profile_modules",
            "fp8_*",
            "asft_*",
            "eaft_*",
            "image_do_pan_and_scan",
            "crop_to_patches",
            "pref_*",
            "dpo_*",
            "kto_*",
            "simpo_*",
            "ppo_*",
            "reward_*",
            "ref_*",
            "ld_alpha",
        ],
        Nothing,
    ),
];

/// Reads a recipe.
///
/// # Errors
/// When it describes a run that is not simulated.
pub(super) fn read(draft: &mut Draft, entries: &[Entry]) -> Result<(), Error> {
    draft.read_by(&[KEYS, TRAINING], entries, Library::LlamaFactory)
}

fn stage(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("sft" | "pt") => {
            draft.idle.push(entry.key.clone());
            Ok(())
        }
        Some("dpo") => {
            draft.fill(Slot::Objective, "dpo", &entry.key);
            Ok(())
        }
        _ => Err(refused(Why::Preference.sentence(&entry.key), entry.place)),
    }
}

fn method(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some(method @ ("lora" | "full")) => draft.fill(Slot::Method, method, &entry.key),
        Some("freeze") => {
            draft.fill(Slot::Method, "full", &entry.key);
            draft.absent(Why::PartialTraining, &entry.key);
        }
        name => {
            let name = name.unwrap_or_default();
            return Err(refused(Why::Adapters.sentence(name), entry.place));
        }
    }
    Ok(())
}

fn pure(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::Weights, "bf16", &entry.key);
        draft.fill(Slot::Autocast, "none", &entry.key);
        draft.fill(Slot::AdaptersInModelType, "on", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

fn bits(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.count() {
        Some(4) => draft.fill(Slot::FourBits, "on", &entry.key),
        Some(8) => draft.fill(Slot::EightBits, "on", &entry.key),
        _ if entry.value.is_off() => draft.idle.push(entry.key.clone()),
        _ => draft.absent(Why::Quantization, &entry.key),
    }
    Ok(())
}

fn quantization(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("bnb" | "bitsandbytes") => draft.idle.push(entry.key.clone()),
        _ => draft.absent(Why::Quantization, &entry.key),
    }
    Ok(())
}

fn attention(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    match entry.value.word().as_deref() {
        Some("auto") | None => draft.idle.push(entry.key.clone()),
        Some("disabled" | "false") => draft.fill(Slot::Attention, "eager", &entry.key),
        Some(_) => match as_::attention(&entry.value) {
            Some(attention) => draft.fill(Slot::Attention, attention, &entry.key),
            None => draft.absent(Why::Attention, &entry.key),
        },
    }
    Ok(())
}

fn liger(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::Kernels, "liger", &entry.key);
        draft.fill(Slot::LossKernel, "liger", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}
