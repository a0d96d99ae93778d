//! Hugging Face `config.json` → the program that transformers or diffusers runs for it.
//!
//! - A configuration states sizes; the operators are those of the family's `modeling_*.py`, written
//!   out in `families/*.family` as that file writes them, and run by [`language`].
//! - A configuration of diffusers states its class, `_class_name`, which is the name of its family. It has no head.
//! - A configuration of another family is refused, because sizes alone do not determine operators. The refusal
//!   names the family with the most similar keys.
//!
//! Sources: transformers 5.23, `models/*/modeling_*.py` and `configuration_*.py`; diffusers 0.42, `models`.

use crate::order::IntoOrdered as _;

use crate::config::{
    Attention, Config, Kernels, Library, LossChoice, Pass, Precision, Sizes, Task,
};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Graph, LossPlace, ValueId};
use crate::sentence::Sentence;

use super::spec::tree;
use families::{Family, families};
use language::Run;
use settings::Settings;

mod families;
mod language;
mod layouts;
pub(super) mod named;
mod settings;
mod unread;

/// Names of a model's width.
const WIDTHS: [&str; 9] = [
    "hidden_size",
    "n_embd",
    "n_embed",
    "d_model",
    "dim",
    "hidden_sizes",
    "embed_dim",
    "block_out_channels",
    "attention_head_dim",
];

/// Where transformers and diffusers state the family.
const FAMILY: [&str; 2] = ["model_type", CLASS];

/// Where diffusers states the class.
const CLASS: &str = "_class_name";

/// Names of the configurations that a configuration of two models has.
const PARTS: [&str; 2] = ["text_config", "vision_config"];

/// Whether a text is such a configuration.
pub(super) fn is_config(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
        && ["architectures"].iter().chain(&FAMILY).any(|key| text.contains(key))
        && tree::parse(text).is_ok_and(|tree| {
            let c = Settings::new(&tree);
            ["architectures"].iter().chain(&FAMILY).any(|key| c.has(key))
        })
}

/// Reads a configuration; what is asked of the library goes before its own words.
///
/// # Errors
/// When its family is not known, or its sizes contradict each other.
pub(super) fn read(text: &str, library: Library) -> Result<(Graph, Config), Error> {
    let tree = tree::parse(text.trim_start_matches('\u{feff}'))?;
    program(Settings::new(&tree), library)
}

fn unknown_head(name: &str) -> Sentence {
    say!(
        "`{name}` has a head that is not supported; supported are ForCausalLM, ForMaskedLM, \
         ForConditionalGeneration, ForSequenceClassification, ForTokenClassification, ForQuestionAnswering, \
         ForImageClassification, ForSemanticSegmentation and the bare model",
        name
    )
}

fn assumed_head(name: &str) -> Diagnostic {
    let message = say!(
        "`architectures` is not stated, and {name} is assumed to be trained with its usual head",
        name
    );
    Diagnostic::new(Severity::Info, "assumed-head", message)
}

/// The program of a configuration, and how it is trained where nobody says.
fn program(whole: Settings<'_>, library: Library) -> Result<(Graph, Config), Error> {
    let families = families()?;
    let (c, family, left_out) = find_with_parts(&families, whole)?;
    unread::refuse_quantized(whole)?;
    let stated = c.words("architectures").first().copied().filter(|_| left_out.is_none());
    let asked = asked_class(stated, family, library.task)?;
    let architecture = asked.as_deref().or(stated);
    let is_own = !family.class.is_empty();
    if !is_own {
        refuse_without_width(c)?;
    }
    let task = match architecture {
        Some(name) if !is_own => task_of(name, family.task),
        _ => Some(family.task),
    };
    let task = task.ok_or_else(|| {
        c.fault(&["architectures"], &unknown_head(architecture.unwrap_or_default()))
    })?;
    let name = architecture.unwrap_or(family.model_type);
    refuse_other_class(c, architecture, family)?;
    let mut diagnostics = Vec::new();
    if let Some(left_out) = left_out {
        diagnostics.push(Diagnostic::new(Severity::Error, "text-part", left_out));
    } else if architecture.is_none() && !is_own && !c.has(CLASS) {
        diagnostics.push(assumed_head(name));
    }
    diagnostics.extend(assumptions(whole, library.attention));
    let is_eager = is_eager(whole, library.attention)?;
    let is_old = !is_own && !library.transformers.has_sdpa(family.model_type);
    let files = family.files(&families)?;
    let mut run = Run::new(name, library.sizes, c, if task == "Model" { family.base } else { "" });
    run.know("task", task);
    run.know("architecture", name);
    for (fact, holds) in [
        ("eager", is_eager.unwrap_or(is_old)),
        ("old", is_old),
        ("asked", is_eager.is_some()),
        ("compiled", library.is_compiled),
        ("generates", library.pass != Pass::Whole && task == "CausalLM"),
        ("decodes", library.pass == Pass::Decode && task == "CausalLM"),
        ("liger", library.kernels == Kernels::Liger),
    ] {
        run.know_whether(fact, holds);
    }
    run.divide(library.parts);
    let outputs = run.files(&files)?;
    refuse_head(c, task, family.task)?;
    diagnostics.extend(unread::report(c, &run.seen)?);
    let is_own_loss = computes_loss(&run.builder.graph, &outputs);
    let loss = if is_own_loss { LossChoice::Own } else { loss(task) };
    let defaults =
        Config { loss, precision: precision(c)?, freeze: run.frozen, ..Config::default() };
    let mut graph = run.builder.graph;
    graph.loss = asked.is_some().then_some(loss);
    graph.loss_place = loss_place(name, is_own);
    graph.options = run.options;
    diagnostics.extend(kernels_setting(library, &graph, family.model_type));
    graph.outputs = outputs;
    graph.outputs.extend(graph.cache.iter().map(|(_, kept)| *kept));
    graph.dims = run.dims;
    // The size of pictures is the configuration's.
    let is_side = |name: &str| [Sizes::HEIGHT, Sizes::WIDTH].iter().any(|end| name.ends_with(end));
    graph.assumed_dims = graph.dims.keys().filter(|name| !is_side(name)).cloned().collect();
    graph.diagnostics = diagnostics;
    graph.diagnostics.extend(run.diagnostics);
    Ok((graph, defaults))
}

/// Refuses a class that is none of the family's.
fn refuse_other_class(
    c: Settings<'_>,
    architecture: Option<&str>,
    family: &Family,
) -> Result<(), Error> {
    let Some(name) = architecture.filter(|class| !is_class(class, family)) else { return Ok(()) };
    let library = if family.class.is_empty() { "transformers" } else { "torchvision" };
    let message = say!(
        "`{name}` is no class of the family `{model_type}` in {library}",
        name,
        model_type = family.model_type,
        library
    );
    Err(c.fault(&["architectures"], &message))
}

/// Where a class computes its loss.
fn loss_place(class: &str, is_own: bool) -> LossPlace {
    match () {
        () if is_own => LossPlace::Script,
        // Such a class has no entry in the library's table of losses, and the library warns of it in each forward.
        () if class.ends_with("LMHeadModel") => LossPlace::BehindBreak,
        () => LossPlace::Model,
    }
}

/// Refuses heads that a family does not have.
fn refuse_head(c: Settings<'_>, task: &str, usual: &str) -> Result<(), Error> {
    if task == "QuestionAnswering" && !matches!(usual, "CausalLM" | "MaskedLM") {
        return Err(c.fault(&["architectures"], &say!("this family answers no questions here")));
    }
    if task == "SemanticSegmentation" && usual != task {
        return Err(
            c.fault(&["architectures"], &say!("this family has no head for segmentation here"))
        );
    }
    Ok(())
}

/// That Liger's kernels were asked for, and none are known for the family.
fn kernels_setting(library: Library, graph: &Graph, model_type: &str) -> Option<Diagnostic> {
    let has_layers = || graph.nodes.iter().any(|node| node.op == "LigerRmsNorm");
    (library.kernels == Kernels::Liger && !has_layers()).then(|| {
        let message = say!(
            "Liger's kernels are known for families like Llama, not for {model_type}: its layers run as in transformers",
            model_type
        );
        Diagnostic::new(Severity::Warning, "kernels-setting", message)
    })
}

/// Refuses what states no width. transformers and diffusers always save one: defaults alone are no model of anybody's.
fn refuse_without_width(c: Settings<'_>) -> Result<(), Error> {
    let has_parts = PARTS.iter().any(|name| c.part(name).is_some());
    if has_parts || WIDTHS.iter().any(|name| c.has(name)) {
        return Ok(());
    }
    let widths = WIDTHS.join(", ");
    let message =
        say!("the configuration states no width ({widths}), so that it is no model's", widths);
    Err(Error::new(ErrorKind::WrongFormat, message))
}

/// What a loss is computed of.
fn loss(task: &str) -> LossChoice {
    match task {
        "Contrastive" => LossChoice::Own,
        "Denoising" => LossChoice::Mse,
        _ => Task::of_class_end(task).map_or(LossChoice::Auto, Task::loss),
    }
}

/// The class with the head that is asked for; `None` where none is.
///
/// # Errors
/// When the family has no such head.
fn asked_class(stated: Option<&str>, family: &Family, task: Task) -> Result<Option<String>, Error> {
    if task == Task::Auto {
        return Ok(None);
    }
    let heads = heads(family);
    if !heads.contains(&task) {
        let names = heads.iter().map(|head| head.name()).collect::<Vec<_>>().join(", ");
        let message = say!(
            "{model_type} has no head `{task}` here; its heads are {names}",
            model_type = family.model_type,
            task = task.name(),
            names
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("task"));
    }
    let class = stated.map_or(family.model_type, |class| {
        let ends = ["For", "LMHead", "Model"].iter().filter_map(|end| class.find(end));
        ends.min().and_then(|end| class.get(..end)).unwrap_or(class)
    });
    let end = task.class_end();
    Ok(Some(if task == Task::Bare { format!("{class}{end}") } else { format!("{class}For{end}") }))
}

/// The heads that may be asked for, by what the family is usually trained for. A family that lacks one refuses it.
fn heads(family: &Family) -> &'static [Task] {
    match Task::of_class_end(family.task).filter(|_| family.class.is_empty()) {
        Some(Task::CausalLm) => &[
            Task::CausalLm,
            Task::SequenceClassification,
            Task::TokenClassification,
            Task::QuestionAnswering,
            Task::Bare,
        ],
        Some(Task::MaskedLm) => &[
            Task::MaskedLm,
            Task::SequenceClassification,
            Task::TokenClassification,
            Task::QuestionAnswering,
            Task::Bare,
        ],
        Some(Task::ConditionalGeneration) => &[Task::ConditionalGeneration, Task::Bare],
        Some(Task::ImageClassification) => &[Task::ImageClassification, Task::Bare],
        Some(Task::SemanticSegmentation) => {
            &[Task::SemanticSegmentation, Task::ImageClassification, Task::Bare]
        }
        _ => &[],
    }
}

/// Whether the program's first result is a loss, which many classes compute themselves.
fn computes_loss(graph: &Graph, outputs: &[ValueId]) -> bool {
    let first = outputs.first().copied();
    graph.nodes.iter().any(|node| node.op == "SoftmaxCrossEntropyLoss" && node.output(0) == first)
}

/// The family of a configuration; or of its `text_config`, where the whole is not known, and then what
/// is left out.
fn find_with_parts<'a, 'f>(
    families: &'f [Family],
    whole: Settings<'a>,
) -> Result<(Settings<'a>, &'f Family, Option<Sentence>), Error> {
    let architecture = |c: Settings<'a>| c.words("architectures").first().copied();
    let found = find(families, whole, architecture(whole));
    let part = whole.part("text_config");
    match (found, part) {
        (Ok(family), _) => Ok((whole, family, None)),
        (Err(error), None) => Err(error),
        (Err(_), Some(part)) => {
            let names =
                [whole, part].map(|c| tree::shortened(c.word(&["model_type"]).unwrap_or("?")));
            let [outer, inner] = names;
            let family = find(families, part, None).map_err(|_unknown| {
                let message = say!(
                    "a configuration of the family `{outer}` with a part for text of the family \
                     `{inner}`, neither of which is known here; export the model as ONNX",
                    outer,
                    inner
                );
                Error::new(ErrorKind::WrongFormat, message)
            })?;
            let message = say!(
                "of this configuration of `{outer}`, only the part for text is estimated \
                 (`text_config`, {inner}): what reads pictures or sound is left out",
                outer,
                inner
            );
            Ok((part, family, Some(message)))
        }
    }
}

/// Whether the attention that is asked for, else that of the configuration, is spelled out.
fn is_eager(c: Settings<'_>, asked: Attention) -> Result<Option<bool>, Error> {
    const NAMES: [&str; 2] = ["_attn_implementation", "attn_implementation"];
    Ok(match asked {
        Attention::Sdpa | Attention::Flash => Some(false),
        Attention::Eager => Some(true),
        Attention::Auto => match c.word(&NAMES) {
            None => None,
            Some("sdpa") => Some(false),
            Some("eager") => Some(true),
            Some(word) if word.starts_with("flash_attention") => Some(false),
            Some(_) => {
                return Err(c.fault(&NAMES, &say!("known are eager, sdpa and flash_attention_2")));
            }
        },
    })
}

/// What is assumed of any family.
fn assumptions(c: Settings<'_>, asked: Attention) -> Vec<Diagnostic> {
    let mut assumed = Vec::new();
    let mut assume = |code, message: Sentence| {
        assumed.push(Diagnostic::new(Severity::Info, code, message));
    };
    let word = c.word(&["_attn_implementation", "attn_implementation"]);
    let stated = word.is_some_and(|word| word.starts_with("flash_attention"));
    if asked == Attention::Flash || asked == Attention::Auto && stated {
        assume(
            "assumed-attention",
            say!(
                "flash-attention is assumed to keep what the fused kernels of sdpa keep; its package runs \
             in half precision only"
            ),
        );
    }
    let drops = ["layerdrop", "encoder_layerdrop", "decoder_layerdrop"];
    if let Some(name) = drops.iter().find(|name| c.number(&[name], 0.0) > 0.0) {
        assume(
            "assumed-layers",
            say!("layers that `{name}` drops at random are all taken to run", name),
        );
    }
    assumed
}

/// transformers loads weights in the type that the configuration names.
///
/// # Errors
/// When it names another.
fn precision(c: Settings<'_>) -> Result<Precision, Error> {
    const KEYS: [&str; 2] = ["dtype", "torch_dtype"];
    let word = c.word(&KEYS).map(|word| word.strip_prefix("torch.").unwrap_or(word));
    match word {
        Some("bfloat16") => Ok(Precision::Bf16),
        Some("float16" | "half") => Ok(Precision::Fp16),
        None | Some("" | "auto" | "float" | "float32") => Ok(Precision::Fp32),
        Some(_) => {
            let message =
                say!("weights are loaded as float32, bfloat16 or float16; state one of these");
            Err(c.fault(&KEYS, &message))
        }
    }
}

/// Whether a class may be one of a family, by the beginning of its name: `GPT2LMHeadModel`.
fn is_class_of(class: &str, model_type: &str) -> bool {
    let (class, family) = (plain(class), plain(model_type));
    // `Gemma3ForCausalLM` is of `gemma3_text`, `CLIPTextModelWithProjection` of `clip_text_model`.
    let stem = ["text", "model"].iter().find_map(|end| family.strip_suffix(end));
    [Some(family.as_str()), stem].into_iter().flatten().any(|stem| {
        class.strip_prefix(stem).is_some_and(|rest| {
            ["for", "model", "lmhead", "withlmhead", "text", "vision"]
                .iter()
                .any(|start| rest.starts_with(start))
        })
    })
}

/// Whether a class may be one of a family.
fn is_class(class: &str, family: &Family) -> bool {
    let begins_as = |stem: &str| !stem.is_empty() && is_class_of(class, stem);
    if family.class.is_empty() {
        begins_as(family.model_type) || begins_as(family.classes)
    } else {
        class == family.class
    }
}

/// A name without its separators and capitals.
fn plain(text: &str) -> String {
    text.replace(['_', '-'], "").to_ascii_lowercase()
}

fn find<'f>(
    families: &'f [Family],
    c: Settings<'_>,
    architecture: Option<&str>,
) -> Result<&'f Family, Error> {
    let stated = c.word(&FAMILY);
    let found = families.iter().find(|family| match (stated, architecture) {
        (Some(stated), _) => stated == family.model_type,
        (None, Some(name)) => {
            plain(name).strip_prefix(&plain(family.model_type)).is_some_and(|rest| {
                rest.starts_with("for") || rest.starts_with("model") || rest.starts_with("lmhead")
            })
        }
        (None, None) => false,
    });
    found.ok_or_else(|| unknown(families, c, stated.or(architecture).unwrap_or_default()))
}

/// That there is no such family, and which is the nearest.
fn unknown(families: &[Family], c: Settings<'_>, name: &str) -> Error {
    let families = families.iter().filter(|family| family.class.is_empty());
    let known: Vec<&str> = families.clone().map(|family| family.model_type).collect();
    let keys = c.keys().into_set();
    let shared = |family: &&Family| family.keys.iter().filter(|key| keys.contains(**key)).count();
    let nearest = families.rev().max_by_key(shared).filter(|family| shared(family) > 1);
    let nearest = nearest.map_or_else(Sentence::default, |family| {
        say!(
            " (its keys are most like those of {nearest}, whose operators are not its own)",
            nearest = family.model_type
        )
    });
    let name = tree::shortened(name);
    let message = say!(
        "a configuration of the family `{name}`, whose operators are not supported; supported are {known}{nearest}; or export the model as ONNX",
        name,
        known = known.join(", "),
        nearest
    );
    Error::new(ErrorKind::WrongFormat, message)
}

/// What a class is for, by the end of its name.
fn task_of(architecture: &str, usual: &'static str) -> Option<&'static str> {
    let (_, end) = architecture.rsplit_once("For").unwrap_or((architecture, ""));
    if let Some(task) = Task::of_class_end(end).filter(|task| *task != Task::Bare) {
        return Some(task.class_end());
    }
    let is_bare = architecture.ends_with("Model") || architecture.ends_with("ModelWithProjection");
    let has_usual = architecture.ends_with("LMHeadModel")
        || usual == "Contrastive" && architecture == "CLIPModel";
    match end {
        "PreTraining" => Some(usual),
        "" if has_usual => Some(usual),
        "" if is_bare => Some("Model"),
        _ => None,
    }
}
