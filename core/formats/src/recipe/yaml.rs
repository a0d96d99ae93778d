//! Recipes in YAML or JSON: which tool's, by the keys that only it has.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use super::arguments::{LORA, QUANTIZATION, SFT, TRAINING};
use super::draft::Does::{Fills, Nothing, Reads};
use super::draft::{Draft, Row, Slot, as_, row};
use super::settle::Tool;
use super::value::{Entry, Value};
use super::versions::Library;
use super::{arguments, axolotl, launchers, llamafactory, torchtune};
use crate::error::Error;
use crate::formats::spec::tree;

/// Keys that a tool's recipes have: one of the first and, where there are any, one of the second.
const SIGNS: &[(Tool, &[&str], &[&str])] = &[
    (Tool::Torchtune, &["_component_"], &[]),
    (
        Tool::Axolotl,
        &["base_model"],
        &[
            "micro_batch_size",
            "sequence_len",
            "adapter",
            "datasets",
            "gradient_accumulation_steps",
            "num_epochs",
            "sample_packing",
        ],
    ),
    (Tool::LlamaFactory, &["finetuning_type", "cutoff_len"], &[]),
    (
        Tool::LlamaFactory,
        &["model_name_or_path"],
        &["stage", "template", "quantization_bit", "dataset_dir"],
    ),
    (Tool::Accelerate, &["compute_environment", "distributed_type"], &[]),
    (Tool::DeepSpeed, &["zero_optimization", "train_micro_batch_size_per_gpu"], &[]),
    (
        Tool::Trl,
        &["model_name_or_path", "per_device_train_batch_size"],
        &[
            "max_length",
            "max_seq_length",
            "packing",
            "use_peft",
            "dataset_text_field",
            "assistant_only_loss",
            "loss_type",
        ],
    ),
    (Tool::Transformers, &["per_device_train_batch_size"], &[]),
    (
        Tool::Transformers,
        &["output_dir"],
        &["gradient_accumulation_steps", "num_train_epochs", "learning_rate"],
    ),
];

/// What TRL's command line adds: `ModelConfig` and `ScriptArguments`.
pub(super) const COMMAND: &[Row] = &[
    row(&["model_name_or_path"], Fills(Slot::Model, as_::word)),
    row(&["torch_dtype", "dtype"], Fills(Slot::Weights, as_::dtype)),
    row(&["attn_implementation"], Reads(arguments::attention)),
    row(&["use_peft"], Reads(peft)),
    row(&["lora_r"], Fills(Slot::Rank, as_::count)),
    row(&["lora_dropout"], Fills(Slot::LoraDropout, as_::positive)),
    row(&["lora_target_modules"], Reads(arguments::targets)),
    row(&["lora_modules_to_save"], Fills(Slot::ModulesToSave, as_::names)),
    row(&["use_dora"], Fills(Slot::Dora, as_::flag)),
    row(&["load_in_4bit"], Fills(Slot::FourBits, as_::flag)),
    row(&["load_in_8bit"], Fills(Slot::EightBits, as_::flag)),
    row(&["use_bnb_nested_quant"], Fills(Slot::Double, as_::flag)),
    row(
        &[
            "model_revision",
            "lora_alpha",
            "lora_task_type",
            "use_rslora",
            "dataset_name",
            "dataset_config",
            "dataset_train_split",
            "dataset_test_split",
            "dataset_streaming",
            "dataset_mixer",
            "chat_template",
            "config",
            "transformers_version",
        ],
        Nothing,
    ),
];

/// The tool of a recipe that is recognised, but not read.
pub(super) fn unread(text: &str) -> Option<&'static str> {
    let is_script = |name: &str| text.contains(name);
    if ["pretrain_gpt.py", "pretrain_bert.py", "pretrain_t5.py"].into_iter().any(is_script) {
        return Some("Megatron-LM");
    }
    let is_detection = has_key(text, "imgsz") && (has_key(text, "task") || has_key(text, "epochs"));
    is_detection.then_some("ultralytics")
}

/// The tool whose keys a text has.
pub(super) fn tool(text: &str) -> Option<Tool> {
    let has = |keys: &[&str]| keys.iter().any(|key| has_key(text, key));
    let is_of = |(_, first, second): &&(Tool, &[&str], &[&str])| {
        has(first) && (second.is_empty() || has(second))
    };
    // A list of layers is a spec, whatever its keys are.
    if has(&["layers", "architectures"]) && !has(&["base_model"]) {
        return None;
    }
    SIGNS.iter().find(is_of).map(|(tool, ..)| *tool)
}

/// Reads a text by the table of its tool; `None` where it is no recipe.
///
/// # Errors
/// When it breaks off, or describes a run that is not simulated.
pub(super) fn read(draft: &mut Draft, tool: Tool, text: &str) -> Result<Option<Tool>, Error> {
    let Value::Map(entries) = Value::of(tree::parse(text)?) else { return Ok(None) };
    match tool {
        Tool::Axolotl => axolotl::read(draft, &entries)?,
        Tool::LlamaFactory => llamafactory::read(draft, &entries)?,
        Tool::Torchtune => torchtune::read(draft, &entries)?,
        Tool::Accelerate => launchers::accelerate(draft, &entries)?,
        Tool::DeepSpeed => launchers::deepspeed(draft, &entries)?,
        Tool::Trl => {
            draft.read_by(&[COMMAND, SFT, TRAINING, QUANTIZATION], &entries, Library::Trl)?;
            if draft.has(Slot::Model) && !draft.has(Slot::Weights) {
                draft.fill(Slot::LoadedByTrl, "on", "model_name_or_path");
            }
        }
        _ => draft.read_by(&[TRAINING, COMMAND, LORA], &entries, Library::Transformers)?,
    }
    Ok(Some(tool))
}

fn peft(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    if entry.value.flag() == Some(true) {
        draft.fill(Slot::Method, "lora", &entry.key);
    } else {
        draft.idle.push(entry.key.clone());
    }
    Ok(())
}

/// Whether a text has a key, in YAML or JSON.
fn has_key(text: &str, key: &str) -> bool {
    text.match_indices(key).any(|(at, found)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let starts =
            before.is_none_or(|c| matches!(c, '\n' | '"' | '\'' | '{' | ',' | ' ' | '\t' | '\r'));
        let rest = text.get(at.saturating_add(found.len())..).unwrap_or_default();
        starts && rest.trim_start_matches(['"', '\'']).trim_start_matches(' ').starts_with(':')
    })
}
