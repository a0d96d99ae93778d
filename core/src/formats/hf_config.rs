//! Hugging Face `config.json` → the program that transformers runs for it.
//!
//! - A configuration states sizes; the operators are those of the family's `modeling_*.py`, written
//!   out here as that file writes them: registration, then the forward with its Python names.
//! - [`FAMILIES`] is the one table of what is known. A configuration of another family is refused,
//!   with the nearest by what it states: sizes alone do not tell operators.
//! - Defaults of missing keys and older names of keys are those of transformers' configuration classes.
//!
//! Sources: transformers 5.23, `models/*/modeling_*.py` and `configuration_*.py`.

use std::collections::BTreeSet;

use crate::config::{Attention, Config, Precision};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::Graph;

use super::spec::tree;
use model::{Model, Task};
use parts::Implementation;
use program::Tensor;
use settings::Settings;

mod bloom;
mod clip;
mod deberta;
mod encoders;
mod experts;
mod falcon;
mod gpt2;
mod gptj;
mod layouts;
mod llama;
mod model;
mod more_decoders;
pub(super) mod named;
mod parts;
mod program;
mod seq2seq;
mod settings;
mod swin;
mod vision;
mod whisper;

/// Writes a family's program, and returns what it computes.
type Forward = fn(Settings<'_>, &mut Model) -> Result<Tensor, Error>;

/// A family of models: one `model_type`.
struct Family {
    model_type: &'static str,
    /// What such a model is trained for where `architectures` does not say.
    task: Task,
    /// Keys that its configurations have and few others.
    keys: &'static [&'static str],
    forward: Forward,
}

const fn family(
    model_type: &'static str,
    task: Task,
    keys: &'static [&'static str],
    forward: Forward,
) -> Family {
    Family { model_type, task, keys, forward }
}

/// All families, by how much they are used.
const FAMILIES: &[Family] = &[
    family("gpt2", Task::CausalLm, &["n_embd", "n_layer", "n_head", "n_positions"], gpt2::gpt2),
    family(
        "llama",
        Task::CausalLm,
        &["rms_norm_eps", "hidden_act", "num_key_value_heads"],
        llama::llama,
    ),
    family(
        "mistral",
        Task::CausalLm,
        &["rms_norm_eps", "sliding_window", "num_key_value_heads"],
        llama::mistral,
    ),
    family(
        "qwen2",
        Task::CausalLm,
        &["rms_norm_eps", "use_sliding_window", "max_window_layers"],
        llama::qwen2,
    ),
    family(
        "qwen3",
        Task::CausalLm,
        &["rms_norm_eps", "head_dim", "use_sliding_window"],
        llama::qwen3,
    ),
    family(
        "bert",
        Task::MaskedLm,
        &["hidden_dropout_prob", "type_vocab_size", "position_embedding_type"],
        encoders::bert,
    ),
    family(
        "roberta",
        Task::MaskedLm,
        &["hidden_dropout_prob", "type_vocab_size", "pad_token_id"],
        encoders::roberta,
    ),
    family(
        "distilbert",
        Task::MaskedLm,
        &["dim", "hidden_dim", "n_heads", "n_layers"],
        encoders::distilbert,
    ),
    family(
        "vit",
        Task::Images,
        &["image_size", "patch_size", "qkv_bias", "encoder_stride"],
        vision::vit,
    ),
    family(
        "opt",
        Task::CausalLm,
        &["ffn_dim", "do_layer_norm_before", "word_embed_proj_dim"],
        more_decoders::opt,
    ),
    family(
        "gpt_neox",
        Task::CausalLm,
        &["rotary_pct", "use_parallel_residual"],
        more_decoders::gpt_neox,
    ),
    family(
        "phi",
        Task::CausalLm,
        &["partial_rotary_factor", "qk_layernorm", "resid_pdrop"],
        more_decoders::phi,
    ),
    family(
        "gemma",
        Task::CausalLm,
        &["rms_norm_eps", "head_dim", "hidden_activation"],
        llama::gemma,
    ),
    family(
        "gemma2",
        Task::CausalLm,
        &["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"],
        llama::gemma2,
    ),
    family(
        "gemma3_text",
        Task::CausalLm,
        &["rope_local_base_freq", "sliding_window_pattern", "query_pre_attn_scalar"],
        llama::gemma3,
    ),
    family(
        "mixtral",
        Task::CausalLm,
        &["num_local_experts", "num_experts_per_tok", "router_aux_loss_coef"],
        llama::mixtral,
    ),
    family(
        "falcon",
        Task::CausalLm,
        &["multi_query", "parallel_attn", "new_decoder_architecture", "alibi"],
        falcon::falcon,
    ),
    family(
        "bloom",
        Task::CausalLm,
        &["apply_residual_connection_post_layernorm", "slow_but_exact", "n_layer"],
        bloom::bloom,
    ),
    family("gptj", Task::CausalLm, &["rotary_dim", "n_embd", "n_positions"], gptj::gptj),
    family("t5", Task::Seq2Seq, &["d_kv", "d_ff", "relative_attention_num_buckets"], seq2seq::t5),
    family(
        "bart",
        Task::Seq2Seq,
        &["encoder_ffn_dim", "decoder_ffn_dim", "scale_embedding"],
        seq2seq::bart,
    ),
    family(
        "convnext",
        Task::Images,
        &["depths", "hidden_sizes", "layer_scale_init_value"],
        vision::convnext,
    ),
    family(
        "albert",
        Task::MaskedLm,
        &["embedding_size", "num_hidden_groups", "inner_group_num"],
        encoders::albert,
    ),
    family(
        "gpt_neo",
        Task::CausalLm,
        &["attention_types", "attention_layers", "window_size"],
        more_decoders::gpt_neo,
    ),
    family(
        "deberta-v2",
        Task::MaskedLm,
        &["relative_attention", "pos_att_type", "position_buckets", "share_att_key"],
        deberta::deberta_v2,
    ),
    family(
        "whisper",
        Task::Seq2Seq,
        &["num_mel_bins", "max_source_positions", "max_target_positions", "encoder_ffn_dim"],
        whisper::whisper,
    ),
    family(
        "swin",
        Task::Images,
        &["embed_dim", "depths", "num_heads", "window_size", "mlp_ratio"],
        swin::swin,
    ),
    family(
        "clip",
        Task::Contrastive,
        &["text_config", "vision_config", "logit_scale_init_value", "projection_dim"],
        clip::clip,
    ),
    family("clip_text_model", Task::Base, &["projection_dim", "eos_token_id"], clip::text_model),
    family(
        "clip_vision_model",
        Task::Base,
        &["projection_dim", "image_size", "patch_size"],
        clip::vision_model,
    ),
    family("deit", Task::Images, &["image_size", "patch_size", "qkv_bias"], vision::deit),
    family(
        "electra",
        Task::MaskedLm,
        &["embedding_size", "summary_type", "type_vocab_size"],
        encoders::electra,
    ),
];

/// Names of a model's width.
const WIDTHS: [&str; 7] =
    ["hidden_size", "n_embd", "n_embed", "d_model", "dim", "hidden_sizes", "embed_dim"];

/// Names of the configurations that a configuration of two models has.
const PARTS: [&str; 2] = ["text_config", "vision_config"];

/// Whether a text is such a configuration.
pub(super) fn is_config(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
        && (text.contains("\"model_type\"") || text.contains("\"architectures\""))
        && tree::parse(text).is_ok_and(|tree| {
            let c = Settings::new(&tree);
            c.has("model_type") || c.has("architectures")
        })
}

/// Reads a configuration; an attention that is asked for goes before its own.
///
/// # Errors
/// When its family is not known, or its sizes contradict each other.
pub(super) fn read(text: &str, asked: Attention) -> Result<(Graph, Config), Error> {
    let tree = tree::parse(text.trim_start_matches('\u{feff}'))?;
    program(Settings::new(&tree), asked)
}

/// The program of a configuration, and how it is trained where nobody says.
fn program(whole: Settings<'_>, asked: Attention) -> Result<(Graph, Config), Error> {
    let (c, family, left_out) = find_with_parts(whole)?;
    let architecture = c.words("architectures").first().copied().filter(|_| left_out.is_none());
    // What transformers saves always has a width: defaults alone are no model of anybody's.
    let has_parts = PARTS.iter().any(|name| c.part(name).is_some());
    if !has_parts && !WIDTHS.iter().any(|name| c.has(name)) {
        let message = format!(
            "the configuration states no width ({}), so that it is no model's",
            WIDTHS.join(", ")
        );
        return Err(Error::new(ErrorKind::WrongFormat, message));
    }
    let task = match architecture {
        Some(name) => task_of(name, family.task)
            .ok_or_else(|| c.fault("architectures", &format!("`{name}` has a head that is not known here; known are ForCausalLM, ForMaskedLM, ForConditionalGeneration, ForSequenceClassification, ForTokenClassification, ForQuestionAnswering, ForImageClassification and the bare model")))?,
        None => family.task,
    };
    let attention = attention_of(whole, asked)?;
    let name = architecture.unwrap_or(family.model_type);
    let mut model = Model::new(name, task, attention);
    if let Some(left_out) = left_out {
        model.diagnostics.push(Diagnostic::new(Severity::Error, "text-part", left_out));
    } else if architecture.is_none() {
        let message = format!(
            "`architectures` is not stated, and {name} is taken to be trained with its usual head"
        );
        model.say("assumed-head", message);
    }
    say_assumptions(whole, asked, &mut model);
    let mut output = (family.forward)(c, &mut model)?;
    if task == Task::Answers {
        if !matches!(family.task, Task::CausalLm | Task::MaskedLm) {
            return Err(c.fault("architectures", "this family answers no questions here"));
        }
        let drop =
            c.number(&["qa_dropout"], if family.model_type == "distilbert" { 0.1 } else { 0.0 });
        output = model.answers(output, c.count(&WIDTHS, 1)?, drop);
    }
    let defaults = Config {
        loss: model.loss(),
        precision: precision(c),
        freeze: std::mem::take(&mut model.frozen),
        ..Config::default()
    };
    let mut graph = model.program.finish(&[&[output], model.returned.as_slice()].concat())?;
    graph.dims = model.dims;
    graph.diagnostics = model.diagnostics;
    Ok((graph, defaults))
}

/// The family of a configuration; or of its `text_config`, where the whole is not known, and then what
/// is left out.
fn find_with_parts<'a>(
    whole: Settings<'a>,
) -> Result<(Settings<'a>, &'static Family, Option<String>), Error> {
    let architecture = |c: Settings<'a>| c.words("architectures").first().copied();
    let found = find(whole, architecture(whole));
    let part = whole.part("text_config");
    match (found, part) {
        (Ok(family), _) => Ok((whole, family, None)),
        (Err(error), None) => Err(error),
        (Err(_), Some(part)) => {
            let names =
                [whole, part].map(|c| tree::shortened(c.word(&["model_type"]).unwrap_or("?")));
            let [outer, inner] = names;
            let family = find(part, None).map_err(|_unknown| {
                let message = format!(
                    "a configuration of the family `{outer}` with a part for text of the family \
                     `{inner}`, neither of which is known here; export the model as ONNX"
                );
                Error::new(ErrorKind::WrongFormat, message)
            })?;
            let message = format!(
                "of this configuration of `{outer}`, only the part for text is estimated \
                 (`text_config`, {inner}): what reads pictures or sound is left out"
            );
            Ok((part, family, Some(message)))
        }
    }
}

/// The attention that is asked for, else that of the configuration.
fn attention_of(c: Settings<'_>, asked: Attention) -> Result<Option<Implementation>, Error> {
    Ok(match asked {
        Attention::Sdpa | Attention::Flash => Some(Implementation::Sdpa),
        Attention::Eager => Some(Implementation::Eager),
        Attention::Auto => match c.word(&["_attn_implementation", "attn_implementation"]) {
            None => None,
            Some("sdpa") => Some(Implementation::Sdpa),
            Some("eager") => Some(Implementation::Eager),
            Some(word) if word.starts_with("flash_attention") => Some(Implementation::Sdpa),
            Some(_) => {
                return Err(
                    c.fault("_attn_implementation", "known are eager, sdpa and flash_attention_2")
                );
            }
        },
    })
}

/// What is assumed of any family.
fn say_assumptions(c: Settings<'_>, asked: Attention, model: &mut Model) {
    let word = c.word(&["_attn_implementation", "attn_implementation"]);
    let stated = word.is_some_and(|word| word.starts_with("flash_attention"));
    if asked == Attention::Flash || asked == Attention::Auto && stated {
        model.say(
            "assumed-attention",
            "flash-attention is taken to keep what the fused kernels of sdpa keep; its package runs \
             in half precision only",
        );
    }
    let drops = ["layerdrop", "encoder_layerdrop", "decoder_layerdrop"];
    if let Some(name) = drops.iter().find(|name| c.number(&[name], 0.0) > 0.0) {
        model.say(
            "assumed-layers",
            format!("layers that `{name}` drops at random are all taken to run"),
        );
    }
}

/// transformers loads weights in the type that the configuration names.
fn precision(c: Settings<'_>) -> Precision {
    match c.word(&["dtype", "torch_dtype"]) {
        Some("bfloat16") => Precision::Bf16,
        Some("float16") => Precision::Fp16,
        _ => Precision::Fp32,
    }
}

fn find(c: Settings<'_>, architecture: Option<&str>) -> Result<&'static Family, Error> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let stated = c.word(&["model_type"]);
    let found = FAMILIES.iter().find(|family| match (stated, architecture) {
        (Some(stated), _) => stated == family.model_type,
        (None, Some(name)) => {
            plain(name).strip_prefix(&plain(family.model_type)).is_some_and(|rest| {
                rest.starts_with("for") || rest.starts_with("model") || rest.starts_with("lmhead")
            })
        }
        (None, None) => false,
    });
    found.ok_or_else(|| unknown(c, stated.or(architecture).unwrap_or_default()))
}

/// That there is no such family, and which is the nearest.
fn unknown(c: Settings<'_>, name: &str) -> Error {
    let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
    let keys: BTreeSet<&str> = c.keys().collect();
    let shared = |family: &&Family| family.keys.iter().filter(|key| keys.contains(**key)).count();
    let nearest = FAMILIES.iter().rev().max_by_key(shared).filter(|family| shared(family) > 1);
    let nearest = nearest.map_or_else(String::new, |family| {
        format!("; by what it states, {} is the nearest: with that as `model_type`, sizes are read and operators are those of {0}", family.model_type)
    });
    let name = tree::shortened(name);
    let message = format!(
        "a configuration of the family `{name}`, whose operators are not known here; known are {}{nearest}; or export the model as ONNX",
        known.join(", ")
    );
    Error::new(ErrorKind::WrongFormat, message)
}

/// What a class is for, by the end of its name.
fn task_of(architecture: &str, usual: Task) -> Option<Task> {
    let (_, end) = architecture.rsplit_once("For").unwrap_or((architecture, ""));
    Some(match end {
        "CausalLM" => Task::CausalLm,
        "MaskedLM" => Task::MaskedLm,
        "ConditionalGeneration" => Task::Seq2Seq,
        "SequenceClassification" => Task::Classification,
        "QuestionAnswering" => Task::Answers,
        "TokenClassification" => Task::TokenClassification,
        "ImageClassification" => Task::Images,
        "" if architecture.ends_with("LMHeadModel") => usual,
        "" if usual == Task::Contrastive && architecture == "CLIPModel" => usual,
        "" if architecture.ends_with("Model") || architecture.ends_with("ModelWithProjection") => {
            Task::Base
        }
        "PreTraining" => usual,
        _ => return None,
    })
}
