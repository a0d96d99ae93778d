//! Restores dropout, which exports for inference do not have.
//!
//! No exporter leaves a trace of it. For modules of a well-known library, the place of dropout and its default
//! probability are known; each assumption is reported. Libraries whose default probability is zero (torchvision's
//! and timm's transformers, Llama, Qwen, `GPT-NeoX`) have no row. Sources are the modules' `forward` and the
//! `*_dropout`, `*_pdrop` of their configurations in transformers 4 and 5, and `torch/nn/modules/transformer.py`.

use std::collections::BTreeMap;

use super::in_place::ACTIVATIONS;
use super::{DOMAIN, View};
use crate::basis::Reason;
use crate::bytes::Bytes;
use crate::config::{Config, Dropout};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// Models that drop out, recognised by modules that only they have.
struct Family {
    name: &'static str,
    /// Ends of parameters' names that the model has, without `.weight`.
    has: &'static [&'static str],
    /// Such that it has not.
    has_not: &'static [&'static str],
    /// Default probability.
    ratio: f64,
    /// Modules whose result is dropped out.
    behind: &'static [&'static str],
    /// Modules whose argument is dropped out.
    before: &'static [&'static str],
    /// Modules whose attention weights are dropped out, inside the kernel or behind the softmax.
    attention: &'static [&'static str],
}

/// In paths, `#` stands for a number, and what is left out in front for anything.
const FAMILIES: [Family; 8] = [
    Family {
        name: "transformers' BERT",
        has: &["embeddings.word_embeddings", "layer.#.attention.output.dense"],
        has_not: &[],
        ratio: 0.1,
        behind: &["embeddings.LayerNorm", "layer.#.attention.output.dense", "layer.#.output.dense"],
        before: &[],
        attention: &["layer.#.attention.self"],
    },
    Family {
        name: "transformers' DistilBERT",
        has: &["embeddings.word_embeddings", "transformer.layer.#.ffn.lin2"],
        has_not: &[],
        ratio: 0.1,
        behind: &["embeddings.LayerNorm", "layer.#.ffn.lin2"],
        before: &[],
        attention: &["layer.#.attention"],
    },
    Family {
        name: "transformers' GPT-2",
        has: &["wte", "wpe", "h.#.attn.c_attn"],
        has_not: &[],
        ratio: 0.1,
        behind: &["h.#.attn.c_proj", "h.#.mlp.c_proj"],
        before: &["h.0.ln_1"],
        attention: &["h.#.attn"],
    },
    Family {
        name: "transformers' OPT",
        has: &[
            "decoder.embed_positions",
            "decoder.layers.#.self_attn.out_proj",
            "decoder.layers.#.fc2",
        ],
        has_not: &["encoder.layers.#.fc2"],
        ratio: 0.1,
        behind: &["layers.#.self_attn.out_proj", "layers.#.fc2"],
        before: &[],
        attention: &[],
    },
    Family {
        name: "transformers' BART",
        has: &["encoder.layers.#.fc2", "decoder.layers.#.encoder_attn.out_proj"],
        has_not: &["encoder.conv1"],
        ratio: 0.1,
        behind: &[
            "layernorm_embedding",
            "layers.#.self_attn.out_proj",
            "layers.#.encoder_attn.out_proj",
            "layers.#.fc2",
        ],
        before: &[],
        attention: &[],
    },
    Family {
        name: "nn.TransformerEncoder",
        has: &["layers.#.self_attn", "layers.#.linear1", "layers.#.linear2", "layers.#.norm1"],
        has_not: &[],
        ratio: 0.1,
        behind: &["layers.#.linear2", "layers.#.self_attn", "layers.#.multihead_attn"],
        before: &["layers.#.linear2"],
        attention: &["layers.#.self_attn", "layers.#.multihead_attn"],
    },
    Family {
        name: "transformers' T5",
        has: &["block.#.layer.#.SelfAttention.o", "block.#.layer.#.DenseReluDense.wo"],
        has_not: &[],
        ratio: 0.1,
        behind: &[
            "layer.#.SelfAttention.o",
            "layer.#.EncDecAttention.o",
            "layer.#.DenseReluDense.wo",
            "encoder.final_layer_norm",
            "decoder.final_layer_norm",
        ],
        before: &["block.0.layer.0.layer_norm", "layer.#.DenseReluDense.wo"],
        attention: &["layer.#.SelfAttention", "layer.#.EncDecAttention"],
    },
    // `WindowMultiHeadAttention` of `models/swin_transformer_v2_cr.py`.
    Family {
        name: "timm's Swin V2 CR",
        has: &["attn.meta_mlp.fc1", "attn.meta_mlp.fc2"],
        has_not: &[],
        ratio: 0.125,
        behind: &["attn.meta_mlp.act"],
        before: &[],
        attention: &[],
    },
];

/// Ends of parameters' names, without `.weight` or `.bias`, of models of tokens that drop nothing out by
/// default: transformers' `GPT-NeoX`, Falcon and BLOOM; `GPT-Neo`; `CodeGen` and `GPT-J`; MPT; Phi, `StableLM` and
/// those built as Llama; `ModernBERT` and `Nomic`.
const WITHOUT: [&str; 10] = [
    "attention.query_key_value",
    "self_attention.query_key_value",
    "attn.attention.out_proj",
    "h.#.attn.qkv_proj",
    "h.#.attn.q_proj",
    "attn.Wqkv",
    "layers.#.mlp.fc1",
    "layers.#.mlp.gate_proj",
    "blocks.#.ffn.up_proj",
    "layers.#.mlp.Wi",
];

/// Whether a model is one of tokens or of series, of which most drop out, and none that is known not to.
pub(super) fn is_missed(view: &View<'_>) -> bool {
    let graph = view.graph();
    let is_picture = |&id: &ValueId| view.dims(id).is_some_and(|dims| dims.len() > 3);
    !graph.inputs.iter().any(is_picture) && !WITHOUT.iter().any(|path| has_module(view, path))
}

/// The probability that most libraries take; memory does not depend on it.
const USUAL_RATIO: f64 = 0.1;

/// Puts dropout back where the architecture is known to have it.
pub(super) fn reinsert(view: &mut View<'_>, config: &Config) {
    if config.drops() == Dropout::Off || view.nodes().any(|(_, node)| node.op == "Dropout") {
        return;
    }
    let Some(family) = FAMILIES.iter().find(|family| is_member(view, family)) else { return };
    let values = places(view, family);
    let attentions: Vec<NodeId> = view
        .nodes()
        .filter(|(_, node)| node.op == "Attention" && is_one_of(&node.module, family.attention))
        .map(|(at, _)| at)
        .collect();
    let count = drop_out(view, values, &attentions, family.ratio);
    if count > 0 {
        let message = say!(
            "the model is built as {name}, and is assumed to drop out as that does by \
             default: {count} times with probability {ratio}; the file was exported for inference, which \
             removes dropout",
            name = family.name,
            count,
            ratio = family.ratio
        );
        view.say(Severity::Info, "assumed-dropout", message);
    }
}

/// Puts dropout behind values, each in a module, and inside of attention; returns how often.
fn drop_out(
    view: &mut View<'_>,
    values: BTreeMap<ValueId, String>,
    attentions: &[NodeId],
    ratio: f64,
) -> usize {
    let count = values.len() + attentions.len();
    for &at in attentions {
        let Some(mut node) = view.node(at).cloned() else { continue };
        node.attributes.insert("drops".to_owned(), Attribute::Int(1));
        view.replace(at, node);
    }
    for (value, module) in values {
        let dropout = Node {
            name: format!("{module}/Dropout"),
            op: "Dropout".to_owned(),
            attributes: BTreeMap::from([("ratio".to_owned(), Attribute::Float(ratio))]),
            module,
            ..Node::default()
        };
        view.insert_behind(value, dropout);
    }
    count
}

/// Dropout as the user says: nowhere, or where such a model usually has it.
pub(super) fn obey(view: &mut View<'_>, config: &Config) {
    match config.dropout {
        Dropout::Auto => {}
        Dropout::Off => remove(view),
        Dropout::On if view.nodes().any(|(_, node)| drops(node)) => {}
        Dropout::On => {
            view.reason = Some(Reason::RemovedDropout);
            let values = usual_places(view);
            let attentions: Vec<NodeId> = view
                .nodes()
                .filter(|(_, node)| node.op == "Attention" && node.domain == DOMAIN)
                .map(|(at, _)| at)
                .collect();
            let count = drop_out(view, values, &attentions, USUAL_RATIO);
            view.reason = None;
            let (severity, message) = match count {
                0 => (Severity::Warning, say!("no place for dropout was found")),
                _ => (
                    Severity::Info,
                    say!(
                        "dropout is put where such a model usually has it, in {count} places: on weights \
                         of attention, on what is added to a residual, in front of its last convolution, in front of the \
                         classifier",
                        count
                    ),
                ),
            };
            view.say(severity, "assumed-dropout", message);
        }
    }
}

fn drops(node: &Node) -> bool {
    node.op == "Dropout" || node.op == "Attention" && node.int("drops").is_some_and(|n| n != 0)
}

/// `p = 0.0`, which PyTorch's modules pass through.
fn remove(view: &mut View<'_>) {
    let found: Vec<NodeId> =
        view.nodes().filter(|(_, node)| drops(node)).map(|(at, _)| at).collect();
    for at in found {
        let Some(mut node) = view.node(at).cloned() else { continue };
        if node.op == "Dropout" {
            "Identity".clone_into(&mut node.op);
            node.domain = String::new();
            node.inputs.truncate(1);
            node.outputs.truncate(1);
            node.attributes.clear();
        } else {
            node.attributes.insert("drops".to_owned(), Attribute::Int(0));
        }
        view.replace(at, node);
    }
}

/// What dropout in front of the last convolution of residual blocks would keep until backward, and in how many
/// blocks, if the file is not one for training.
pub(super) fn missing_from_blocks(view: &View<'_>) -> Option<(usize, Bytes)> {
    let trains = |node: &Node| node.int("training_mode") == Some(1);
    let is_block = |(_, node): (NodeId, &Node)| {
        let [a, b] = [node.input(0)?, node.input(1)?];
        if node.op != "Add" || view.dims(a) != view.dims(b) {
            return None;
        }
        let ty = view.typed.ty([a, b].into_iter().find_map(|y| convolved(view, y))?)?;
        // The result, and a mask of bytes.
        Some(ty.size() + Bytes(ty.numel()))
    };
    let kept: Vec<Bytes> = view.nodes().filter_map(is_block).collect();
    let is_silent = !kept.is_empty() && !view.graph().nodes.iter().any(|node| trains(node));
    is_silent.then(|| (kept.len(), kept.iter().copied().sum()))
}

/// What dropout elsewhere would keep until backward: in front of linear layers that read an activation, and between
/// recurrent layers. With it, whether that is a good part of all that the model computes and has.
pub(super) fn missing_elsewhere(view: &View<'_>) -> Option<(Bytes, bool)> {
    // A result, and a mask of bytes.
    let kept = |value: ValueId| view.typed.ty(value).map(|ty| ty.size() + Bytes(ty.numel()));
    let between = |(_, node): (NodeId, &Node)| match node.op.as_str() {
        "Linear" | "Gemm" => {
            let result = activated(view, node.input(0)?)?;
            let maker = view.producer(result)?;
            kept(result).filter(|_| !are_numbered(&maker.module, &node.module))
        }
        // The call of a dynamo file states its dropout.
        "Recurrent" if node.origin.is_none() && node.int("drops") != Some(1) => {
            let gaps = u64::try_from(node.int("layers")?).ok()?.checked_sub(1)?;
            Some(kept(node.output(0)?)?.times(gaps)).filter(|_| gaps > 0)
        }
        _ => None,
    };
    let is_trained = |(_, node): (NodeId, &Node)| node.int("training_mode") == Some(1);
    let kept: Bytes = view.nodes().filter_map(between).sum();
    if kept == Bytes::ZERO || view.nodes().any(is_trained) {
        return None;
    }
    let sizes = |is_state: bool| {
        let graph = view.graph();
        let of_kind = graph.values.iter().zip(&view.typed.types);
        let of_kind = of_kind.filter(move |(value, _)| value.initializer.is_some() == is_state);
        let types = of_kind.filter_map(|(_, ty)| ty.as_ref().filter(|ty| ty.dtype.is_floating()));
        types.map(crate::tensor::TensorType::size).sum::<Bytes>()
    };
    // Parameters have gradients, and usually two moments.
    let all = sizes(false) + sizes(true).times(4);
    Some((kept, kept.times(MATTERS) >= all))
}

/// Whether two modules have numbers in one container: these have a gap where a module is missing.
fn are_numbered(one: &str, other: &str) -> bool {
    let place = |path: &str| {
        let (container, number) = path.rsplit_once('.').unwrap_or(("", path));
        number.parse::<u64>().is_ok().then(|| container.to_owned())
    };
    place(one).is_some_and(|container| place(other) == Some(container))
}

/// COUNT: what is kept times this is at least all there is, where it deserves a warning.
const MATTERS: u64 = 50;

/// The result of an activation that a value is a view of.
fn activated(view: &View<'_>, mut value: ValueId) -> Option<ValueId> {
    loop {
        let maker = view.producer(value).filter(|_| view.read_once(value))?;
        match maker.op.as_str() {
            "Flatten" | "Reshape" | "Squeeze" | "Transpose" => value = maker.input(0)?,
            op if ACTIVATIONS.contains(&op)
                || matches!(op, "Elu" | "Gelu" | "Sigmoid" | "Tanh") =>
            {
                return Some(value);
            }
            _ => return None,
        }
    }
}

/// What the last convolution of a residual block was given, where a normalisation and an activation made it:
/// wide residual networks and the U-Nets of diffusion drop out there.
fn convolved(view: &View<'_>, result: ValueId) -> Option<ValueId> {
    let x = view.made_by(result, "Conv").filter(|_| view.read_once(result))?.input(0)?;
    let activation = view.producer(x).filter(|_| view.read_once(x))?;
    let norm = view.producer(activation.input(0)?)?;
    let is_block = ACTIVATIONS.contains(&activation.op.as_str()) && norm.op.contains("Norm");
    is_block.then_some(x)
}

/// What residual networks, transformers and classifiers of any library usually drop out.
fn usual_places(view: &View<'_>) -> BTreeMap<ValueId, String> {
    let mut places = BTreeMap::new();
    for (_, node) in view.nodes() {
        let inputs = [node.input(0), node.input(1)];
        match node.op.as_str() {
            "Add" => {
                let [Some(a), Some(b)] = inputs else { continue };
                let is_residual = view.dims(a) == view.dims(b)
                    && view.dims(a).is_some_and(|dims| dims.len() >= 3)
                    && ![a, b].into_iter().any(|value| view.is_initializer(value));
                let added = [a, b].into_iter().find(|&value| is_projected(view, value));
                let value = added.or_else(|| [a, b].into_iter().find_map(|y| convolved(view, y)));
                if let Some(value) = value.filter(|_| is_residual) {
                    places.insert(value, node.module.clone());
                }
            }
            "Softmax" => {
                let weighs =
                    |at: &NodeId| view.node(*at).is_some_and(|reader| reader.op == "MatMul");
                if let Some(weights) = node.output(0)
                    && view.readers(weights).iter().any(weighs)
                {
                    places.insert(weights, node.module.clone());
                }
            }
            "Linear" | "Gemm" => {
                let is_last = node.output(0).is_some_and(|y| view.graph().outputs.contains(&y));
                if let Some(x) = inputs[0]
                    && is_last
                    && view.dims(x).is_some_and(|dims| dims.len() == 2)
                    && view.producer(x).is_some()
                {
                    places.insert(x, node.module.clone());
                }
            }
            _ => {}
        }
    }
    places
}

/// Whether a linear layer makes a value that nothing else reads.
fn is_projected(view: &View<'_>, mut value: ValueId) -> bool {
    while view.read_once(value) {
        let Some(maker) = view.producer(value) else { return false };
        match maker.op.as_str() {
            "Linear" | "Gemm" => return true,
            "MatMul" => return maker.input(1).is_some_and(|weight| view.is_initializer(weight)),
            "Reshape" | "Transpose" | "Identity" => {}
            "Add" if maker.input(1).is_some_and(|bias| view.is_initializer(bias)) => {}
            _ => return false,
        }
        let Some(before) = maker.input(0) else { return false };
        value = before;
    }
    false
}

fn is_member(view: &View<'_>, family: &Family) -> bool {
    let has = |path: &&str| has_module(view, path);
    family.has.iter().all(has) && !family.has_not.iter().any(has)
}

/// Whether the model has a parameter in a module whose path ends so.
pub(super) fn has_module(view: &View<'_>, path: &str) -> bool {
    let graph = view.graph();
    let carried = graph.values.iter().filter(|value| value.initializer.is_some());
    let members = graph.members.iter().map(|(name, _)| name.as_str());
    let mut names = carried.map(|value| value.name.as_str()).chain(members);
    names.any(|name| name.rsplit_once('.').is_some_and(|(module, _)| ends_with(module, path)))
}

/// Values to be dropped out, and the module that does it, in order.
fn places(view: &View<'_>, family: &Family) -> BTreeMap<ValueId, String> {
    let mut places = BTreeMap::new();
    for (_, node) in view.nodes() {
        if is_one_of(&node.module, family.behind)
            && let Some(output) = node.output(0)
            && leaves_module(view, output, &node.module)
        {
            places.insert(output, node.module.clone());
        }
        if node.op == "Softmax"
            && is_one_of(&node.module, family.attention)
            && let Some(weights) = node.output(0)
        {
            places.insert(weights, node.module.clone());
        }
        if is_one_of(&node.module, family.before)
            && let Some(input) = argument(view, node)
        {
            places.insert(input, node.module.clone());
        }
    }
    places
}

/// Whether nodes of other modules read an activation.
fn leaves_module(view: &View<'_>, value: ValueId, module: &str) -> bool {
    let elsewhere = |at: &NodeId| view.node(*at).is_some_and(|reader| reader.module != module);
    view.typed.ty(value).is_some_and(|ty| ty.dtype.is_floating())
        && view.readers(value).iter().any(elsewhere)
}

/// The activation that comes to a node from another module.
fn argument(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let comes_from_elsewhere = |input: &ValueId| {
        view.typed.ty(*input).is_some_and(|ty| ty.dtype.is_floating() && ty.rank() > 1)
            && view.producer(*input).is_some_and(|producer| producer.module != node.module)
    };
    node.inputs.iter().flatten().copied().find(comes_from_elsewhere)
}

pub(super) fn is_one_of(module: &str, paths: &[&str]) -> bool {
    paths.iter().any(|path| ends_with(module, path))
}

/// Whether a module's path ends as `path` says.
pub(super) fn ends_with(module: &str, path: &str) -> bool {
    // Most paths already differ in their last letter.
    if module.bytes().last() != path.bytes().last() && !path.ends_with('#') {
        return false;
    }
    let mut parts = module.rsplit('.');
    path.rsplit('.').all(|wanted| {
        let Some(part) = parts.next() else { return false };
        wanted == part || wanted == "#" && part.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::ends_with;

    #[test]
    fn paths_match_from_their_end() {
        for (module, path, expected) in [
            ("m.bert.encoder.layer.11.output.dense", "layer.#.output.dense", true),
            ("m.bert.encoder.layer.11.attention.output.dense", "layer.#.output.dense", false),
            ("transformer.h.0.ln_1", "h.0.ln_1", true),
            ("transformer.h.10.ln_1", "h.0.ln_1", false),
            ("ln_1", "h.0.ln_1", false),
        ] {
            assert_eq!(ends_with(module, path), expected, "{module}");
        }
    }
}
