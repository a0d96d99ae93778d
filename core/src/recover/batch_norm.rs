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

/// Puts every folded normalisation back behind the node that it was folded into.
pub(super) fn restore(view: &mut View<'_>, _: &Config) {
    let folded: Vec<NodeId> =
        view.nodes().filter(|(_, node)| is_folded(view.graph(), node)).map(|(at, _)| at).collect();
    let count = folded.into_iter().filter_map(|at| restore_one(view, at)).count();
    if count > 0 {
        let message = say!(
            "{count} batch normalisations that the exporter folded into convolutions were restored, \
             with their parameters and statistics",
            count
        );
        view.say(Severity::Info, "recovered-normalization", message);
    }
}

/// Whether a normalisation was folded into this node.
pub(super) fn is_folded(graph: &Graph, node: &Node) -> bool {
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm") || !node.domain.is_empty() {
        return false;
    }
    if let Some(origin) = &node.origin {
        return origin.class.contains("BatchNorm") || origin.aten.contains("batch_norm");
    }
    let made_up = |position| {
        node.input(position).is_some_and(|input| {
            let name = graph.value_name(input);
            let number = name.strip_prefix("onnx::Conv_").unwrap_or(name);
            graph.value(input).is_some_and(|value| value.initializer.is_some())
                && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    node.op != "Gemm" && made_up(1) && made_up(2)
}

fn restore_one(view: &mut View<'_>, at: NodeId) -> Option<()> {
    let node = view.node(at)?.clone();
    let (weight, output) = (node.input(1)?, node.output(0)?);
    let channels = *view.dims(output)?.get(1)?;
    let dtype = view.typed.ty(weight)?.dtype;
    let weight_name = view.graph().value_name(weight).to_owned();
    let (product, norm) = match &node.origin {
        Some(_) => (module_of(&weight_name).to_owned(), node.module.clone()),
        None => (node.module.clone(), norm_beside(&node.module)),
    };
    if node.origin.is_none() && !product.is_empty() {
        view.rename_free(weight, &format!("{product}.weight"));
    }
    let mut own = node.clone();
    own.module.clone_from(&product);
    if let Some(bias) = own.inputs.get_mut(2) {
        if view.member(&format!("{product}.bias")).is_some() {
            *bias = Some(view.add_state(format!("{product}.bias"), dtype, vec![channels]));
        } else {
            *bias = None;
        }
    }
    view.replace(at, own);
    let has_state = |view: &View<'_>, name: &str| {
        view.graph().members.is_empty() || view.member(&format!("{norm}.{name}")).is_some()
    };
    let mut inputs: Vec<Option<ValueId>> = vec![None];
    for name in ["weight", "bias", "running_mean", "running_var"] {
        let state = has_state(view, name)
            .then(|| view.add_state(format!("{norm}.{name}"), dtype, vec![channels]));
        inputs.push(state);
    }
    let batch_norm = Node {
        name: format!("{}/BatchNormalization", node.name),
        op: "BatchNormalization".to_owned(),
        domain: String::new(),
        inputs,
        outputs: Vec::new(),
        attributes: BTreeMap::from([("training_mode".to_owned(), Attribute::Int(1))]),
        module: norm,
        origin: node.origin,
        trip: node.trip,
    };
    view.insert_behind(output, batch_norm)
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
