//! Parameters that are equal when the model is new, which the dynamo exporter stores once or leaves out.
//!
//! Its optimizer (onnxscript's `DeduplicateInitializersPass` and the rules that remove zero biases) keeps one of equal
//! tensors that are small: all weights of new normalisations are one then, and so are the biases that start at zero.
//! The signature lists the module's parameters. So a small one that it lists and that the file lacks belongs to a node of
//! its module that reads another module's, or no bias at all.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;

use super::{View, batch_norm, is_within};
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Graph, Member, Node, NodeId, ValueId};
use crate::tensor::numel;

/// COUNT: elements of a tensor that is compared with others at most (`size_limit`). What is larger and read by several
/// modules is one tensor: the table of words and the head.
const SIZE_MAX: u64 = 1024;

/// Gives each node the parameters of its own module.
pub(super) fn separate(view: &mut View<'_>, _: &Config) {
    let mut missing = missing(view.graph());
    if missing.is_empty() {
        return;
    }
    let places: Vec<NodeId> = view.nodes().map(|(at, _)| at).collect();
    let mut count = 0_usize;
    for at in places {
        let Some(node) = view.node(at).cloned() else { continue };
        if batch_norm::is_folded(view.graph(), &node) {
            continue;
        }
        let mut own = node.clone();
        for (position, input) in node.inputs.iter().enumerate() {
            let name = input.and_then(|shared| other_name(view, &node, shared, &missing));
            if let (Some(name), Some(shared)) = (name, input)
                && let Some(ty) = view.typed.ty(*shared).cloned()
            {
                missing.remove(&name);
                let state = view.add_state(name, ty.dtype, ty.dims.to_vec());
                own.inputs.get_mut(position).into_iter().for_each(|slot| *slot = Some(state));
                count += 1;
            }
        }
        if let Some((name, weight, channels)) = removed_bias(view, &own, &missing)
            && let Some(ty) = view.typed.ty(weight).cloned()
        {
            missing.remove(&name);
            own.inputs.resize(2, None);
            own.inputs.push(Some(view.add_state(name, ty.dtype, vec![channels])));
            count += 1;
        }
        if node.inputs != own.inputs {
            view.replace(at, own);
        }
    }
    if count > 0 {
        let message = say!(
            "{count} parameters that were equal to others, or zero, when the model was exported, and that the file \
             has not for that, were restored",
            count
        );
        view.say(Severity::Info, "recovered-parameters", message);
    }
}

/// Parameters that the signature lists and the file lacks.
fn missing(graph: &Graph) -> BTreeSet<String> {
    if graph.members.is_empty() {
        return BTreeSet::new();
    }
    let carried = graph.values.iter().filter(|value| value.initializer.is_some());
    let carried: BTreeSet<&str> = carried.map(|value| value.name.as_str()).into_set();
    let parameters = graph.members.iter().filter(|(_, kind)| *kind == Member::Parameter);
    let names = parameters.map(|(name, _)| name.as_str());
    names.filter(|name| !carried.contains(name)).map(str::to_owned).collect()
}

/// What a node's own module calls the parameter in place of which it reads another module's.
fn other_name(
    view: &View<'_>,
    node: &Node,
    shared: ValueId,
    missing: &BTreeSet<String>,
) -> Option<String> {
    let name = view.graph().value_name(shared);
    let is_parameter = view.member(name) == Some(Member::Parameter) && view.is_initializer(shared);
    let is_small = view.dims(shared).is_some_and(|dims| numel(dims) <= SIZE_MAX);
    let is_shared = is_parameter && is_small && view.readers(shared).len() > 1;
    if !is_shared || node.module.is_empty() || is_within(name, &node.module) {
        return None;
    }
    // `norm2` beside `norm1.weight`, `l.1.attn` beside `l.0.attn.out.weight`: the end of the name is the same.
    let ends = name.match_indices('.').rev().filter_map(|(at, _)| name.get(at..));
    let mut alike = ends.map(|end| format!("{}{end}", node.module));
    if let Some(own) = alike.find(|own| missing.contains(own)) {
        return Some(own);
    }
    // Zeros of another kind of module.
    let is_bias =
        node.op == "Add" || node.inputs.iter().skip(2).any(|input| *input == Some(shared));
    let own = missing.iter().find(|own| is_within(own, &node.module) && own.ends_with("bias"));
    own.filter(|_| is_bias).cloned()
}

/// The bias that a layer of the module has and the file's node has not, beside its weight, and its size.
fn removed_bias(
    view: &View<'_>,
    node: &Node,
    missing: &BTreeSet<String>,
) -> Option<(String, ValueId, u64)> {
    let is_layer = matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm");
    let weight = node.input(1).filter(|_| is_layer && node.domain.is_empty())?;
    let name = view.graph().value_name(weight).strip_suffix("weight")?;
    let bias = format!("{name}bias");
    let channels = *view.dims(node.output(0)?)?.get(1)?;
    let lacks = node.input(2).is_none() && missing.contains(&bias);
    lacks.then_some((bias, weight, channels))
}
