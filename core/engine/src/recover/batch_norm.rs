//! Batch normalisations that the exporter folded into the product before them, and those of weights.
//!
//! For inference, both exporters of PyTorch multiply a normalisation's scale into the weight before it. In
//! training it is there: its input is saved in addition to the product's. It has two parameters and two statistics
//! per channel, while the folded bias is one tensor that the module usually does not have.
//!
//! - The dynamo exporter leaves the normalisation's origin on the surviving node, and its state in
//!   the signature: certain.
//! - The TorchScript exporter gives generated names to weights that it changed, `onnx::Conv_497` (before 1.13,
//!   `497`), and leaves all others under the module's: nothing else changes the weight of a convolution. That the
//!   convolution has no bias of its own is a convention.
//! - Tools that simplify a file drop the origin, or fold what the exporter left. Names tell: `c.weight_bias` next to
//!   `c.weight`, and a node called `node_Conv_17`, are of the dynamo exporter's own folding (a call is
//!   `node_conv2d`); `…BatchNormalization_output_0_weight` or `getitem_weight` with its `_bias` is onnxslim's; `_v_24`
//!   is onnxsim's; `…/batchnorm/sub:0` is Keras' arithmetic in a file of tf2onnx, which keeps `· batchnorm/mul` and
//!   `+` where the convolution has a bias of its own.
//!
//! A standardised weight is `F.batch_norm(weight.reshape(1, out, -1), None, None, …, training=True)` (timm's
//! `StdConv2d`, `ScaledStdConv2d`). ONNX wants statistics, so the TorchScript exporter also computes those of the
//! batch, and fills in missing ones.

use std::collections::BTreeMap;

use super::View;
use super::weights;
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Graph, Node, NodeId, ValueId};
use crate::tensor::DType;

/// A normalisation that was folded into a node: what their modules are called.
#[derive(Debug)]
struct Folded {
    product: String,
    norm: String,
}

/// Puts every folded normalisation back behind the node that it was folded into.
pub(super) fn restore(view: &mut View<'_>, _: &Config) {
    let folded: Vec<(NodeId, Folded)> =
        view.nodes().filter_map(|(at, node)| Some((at, folded(view.graph(), node)?))).collect();
    let count = folded.into_iter().filter_map(|(at, found)| restore_one(view, at, found)).count();
    if count > 0 {
        let message = say!(
            "{count} batch normalisations that the exporter folded into convolutions were restored, \
             with their parameters and statistics",
            count
        );
        view.say(Severity::Info, "recovered-normalization", message);
    }
    let scaled: Vec<(NodeId, ValueId, String)> =
        view.nodes().filter_map(|(at, node)| scale_and_shift(view, at, node)).collect();
    for (at, x, norm) in scaled {
        let Some(node) = view.node(at).cloned() else { continue };
        let batch_norm = normalisation(view, x, (norm, &node));
        view.replace(at, batch_norm);
    }
}

/// Whether a normalisation was folded into this node.
pub(super) fn is_folded(graph: &Graph, node: &Node) -> bool {
    folded(graph, node).is_some()
}

fn folded(graph: &Graph, node: &Node) -> Option<Folded> {
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm") || !node.domain.is_empty() {
        return None;
    }
    let of_file = |position| {
        let id = node.input(position)?;
        graph.value(id)?.initializer.as_ref().map(|_| graph.value_name(id))
    };
    if let Some(origin) = &node.origin {
        let is_norm = origin.class.contains("BatchNorm") || origin.aten.contains("batch_norm");
        let weight = node.input(1).map_or("", |id| graph.value_name(id));
        let product = module_of(weight).to_owned();
        return is_norm.then(|| Folded { product, norm: node.module.clone() });
    }
    let (weight, bias) = (of_file(1)?, of_file(2)?);
    let product = if node.module.is_empty() { module_of(weight) } else { &node.module };
    let beside = || Folded { product: product.to_owned(), norm: norm_beside(product) };
    if bias.strip_suffix("_bias") == Some(weight) {
        return Some(beside());
    }
    if node.op == "Gemm" {
        return None;
    }
    // Keras' `x * inv + (beta - mean * inv)`, by names of TensorFlow.
    if let Some((norm, _)) = bias.split_once("/batchnorm/") {
        return Some(Folded { product: product.to_owned(), norm: norm.to_owned() });
    }
    let stems = (weight.strip_suffix("_weight"), bias.strip_suffix("_bias"));
    if let (Some(stem), Some(other)) = stems
        && stem == other
        && (stem.contains("BatchNorm") || numbered(stem, "getitem"))
    {
        let norm = stem.trim_start_matches('/').rsplit_once('/').map_or(stem, |(path, _)| path);
        let product = product.to_owned();
        return Some(Folded { product, norm: norm.replace('/', ".") });
    }
    let is_made_up = |name: &str| {
        let known = ["onnx::Conv_", "_v_"].iter().find_map(|start| name.strip_prefix(start));
        known.unwrap_or(name).bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_rewritten = graph.producer.starts_with("pytorch")
        && ["node_Conv_", "node_ConvTranspose_"].iter().any(|start| {
            node.name.strip_prefix(start).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        });
    (is_made_up(weight) && is_made_up(bias) || is_rewritten).then(beside)
}

/// Whether a name is this word, perhaps with a number behind it.
fn numbered(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('_').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// `x · scale + shift` by the names of a normalisation of Keras': its node, `x`, and what it is called.
fn scale_and_shift(view: &View<'_>, at: NodeId, node: &Node) -> Option<(NodeId, ValueId, String)> {
    if node.op != "Add" || !node.domain.is_empty() {
        return None;
    }
    let (product, shift) = (node.input(0)?, node.input(1)?);
    let product = view.made_by(product, "Mul")?;
    let (x, scale) = (product.input(0)?, product.input(1)?);
    let (norm, _) = view.graph().value_name(scale).split_once("/batchnorm/mul")?;
    let channels = *view.dims(x)?.get(1)?;
    let by_channel = |value: ValueId| {
        let dims = view.dims(value)?;
        let rest = dims.iter().skip(2).all(|&size| size == 1);
        Some(rest && dims.first() == Some(&1) && dims.get(1) == Some(&channels))
    };
    let is_it = view.is_initializer(scale) && view.is_initializer(shift);
    (is_it && by_channel(scale)? && by_channel(shift)?).then(|| (at, x, norm.to_owned()))
}

fn restore_one(view: &mut View<'_>, at: NodeId, found: Folded) -> Option<()> {
    let node = view.node(at)?.clone();
    let (weight, output) = (node.input(1)?, node.output(0)?);
    let Folded { product, norm } = found;
    let dtype = view.typed.ty(weight)?.dtype;
    let channels = *view.dims(output)?.get(1)?;
    if node.origin.is_none() && !product.is_empty() {
        view.rename_free(weight, &format!("{product}.weight"));
    }
    let mut own = node.clone();
    own.module.clone_from(&product);
    let own_bias = format!("{product}.bias");
    if let Some(bias) = own.inputs.get_mut(2)
        && bias.is_none_or(|bias| view.graph().value_name(bias) != own_bias)
    {
        *bias = view
            .member(&own_bias)
            .is_some()
            .then(|| view.add_state(own_bias, dtype, vec![channels]));
    }
    view.replace(at, own);
    let batch_norm = normalisation(view, output, (norm, &node));
    view.insert_behind(output, batch_norm)
}

/// A normalisation of a value, with new state, in the place of this node.
fn normalisation(view: &mut View<'_>, x: ValueId, (norm, node): (String, &Node)) -> Node {
    let ty = view.typed.ty(x).cloned();
    let channels = ty.as_ref().and_then(|ty| ty.dims.get(1).copied()).unwrap_or_default();
    let dtype = ty.map_or(DType::Float32, |ty| ty.dtype);
    let has_state = |view: &View<'_>, name: &str| {
        view.graph().members.is_empty() || view.member(&format!("{norm}.{name}")).is_some()
    };
    let mut inputs: Vec<Option<ValueId>> = vec![Some(x)];
    for name in ["weight", "bias", "running_mean", "running_var"] {
        let state = has_state(view, name)
            .then(|| view.add_state(format!("{norm}.{name}"), dtype, vec![channels]));
        inputs.push(state);
    }
    Node {
        name: format!("{}/BatchNormalization", node.name),
        op: "BatchNormalization".to_owned(),
        domain: String::new(),
        inputs,
        outputs: node.outputs.clone(),
        attributes: BTreeMap::from([("training_mode".to_owned(), Attribute::Int(1))]),
        module: norm,
        origin: node.origin.clone(),
        trip: node.trip,
    }
}

/// Normalisations with the statistics of what they normalise: one operator, as PyTorch ran it.
pub(super) fn of_weights(view: &mut View<'_>, _: &Config) {
    let found: Vec<(NodeId, Node)> = view
        .nodes()
        .filter_map(|(at, node)| Some((at, with_batch_statistics(view, node)?)))
        .collect();
    let count = found.len();
    for (at, node) in found {
        for (position, leaf) in ["weight", "gain", "bias"].into_iter().enumerate() {
            let folded = node.input(position).filter(|&input| weights::is_folded(view, input));
            if let Some(folded) = folded {
                view.take_for_state(folded, &format!("{}.{leaf}", node.module));
            }
        }
        view.replace(at, node);
    }
    view.found_again(&say!("batch normalisation with the statistics of its input"), count);
}

/// The normalisation without the nodes that the exporter added to it.
fn with_batch_statistics(view: &View<'_>, node: &Node) -> Option<Node> {
    let averages = |position| {
        node.input(position).is_some_and(|value| view.made_by(value, "ReduceMean").is_some())
    };
    if node.op != "BatchNormalization" || !node.domain.is_empty() || !averages(3) || !averages(4) {
        return None;
    }
    let is_filled_in = |value: ValueId| {
        view.is_initializer(value) && view.graph().value_name(value).contains("Constant")
            || view.made_by(value, "Constant").is_some()
    };
    let mut found = node.clone();
    found.inputs.truncate(3);
    for input in found.inputs.iter_mut().skip(1) {
        *input = input.filter(|&value| !is_filled_in(value));
    }
    found.outputs.truncate(1);
    found.attributes.insert("training_mode".to_owned(), Attribute::Int(1));
    Some(found)
}

/// The module that owns a parameter.
fn module_of(parameter: &str) -> &str {
    parameter.rsplit_once('.').map_or("", |(module, _)| module)
}

/// What a normalisation is called beside a convolution of this name: `bn1` beside `conv1`, `1`
/// behind `0` in a container.
fn norm_beside(conv: &str) -> String {
    let (parent, leaf) = conv.rsplit_once('.').map_or(("", conv), |(parent, leaf)| (parent, leaf));
    let beside = if let Ok(position) = leaf.parse::<u32>() {
        position.saturating_add(1).to_string()
    } else if leaf.contains("conv") {
        leaf.replace("conv", "bn")
    } else {
        format!("{leaf}_bn")
    };
    if parent.is_empty() { beside } else { format!("{parent}.{beside}") }
}

#[cfg(test)]
mod tests {
    use super::norm_beside;

    #[test]
    fn norms_are_named_after_their_convolution() {
        for (conv, norm) in [
            ("conv1", "bn1"),
            ("layer2.0.downsample.0", "layer2.0.downsample.1"),
            ("stem", "stem_bn"),
        ] {
            assert_eq!(norm_beside(conv), norm);
        }
    }
}
