//! Operators that the dynamo exporter decomposed, recovered from the metadata of their nodes.
//!
//! Every node of one ATen call carries the call as text, with the names of its operands; the values of the graph
//! have the same names (`pkg.torch.onnx.fx_node`). Code that the model itself spells out is several calls, and
//! stays as it is. `nn.RMSNorm` is one operator in PyTorch. The exporter decomposes it before it records the
//! calls, so it is recognised by its class.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use super::View;
use super::calls::Noted;
use super::norms::is_constant;
use super::patterns::{grouped, is_tensor, torch};
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::sentence::Sentence;

/// What runs in place of the nodes of one call, given the node that makes the call's result.
type Rebuild = fn(&View<'_>, &Node, &Operands<'_>) -> Option<Node>;

/// Calls by ATen operator, without the overload.
const CALLS: [(&str, &str, Rebuild); 7] = [
    ("aten.gelu", "gelu", |_, node, operands| unary("Gelu", node, operands)),
    ("aten.group_norm", "group_norm", group_norm),
    ("aten.instance_norm", "instance_norm", instance_norm),
    ("aten.mean", "adaptive_avg_pool2d", mean_of_images),
    ("aten.mse_loss", "mse_loss", mse_loss),
    ("aten.scaled_dot_product_attention", "scaled_dot_product_attention", attention),
    ("aten.silu", "silu", |_, node, operands| unary("Silu", node, operands)),
];

/// Puts the operator that ran in place of each decomposed call.
pub(super) fn regroup(view: &mut View<'_>, _: &Config) {
    if view.nodes().all(|(_, node)| node.origin.is_none()) {
        return;
    }
    let norms: Vec<(NodeId, Node)> =
        view.nodes().filter_map(|(at, node)| Some((at, rms_norm(view, node)?))).collect();
    view.found_again(&Sentence::name("rms_norm"), norms.len());
    for (at, norm) in norms {
        view.replace(at, norm);
    }
    let graph = view.graph();
    let names = graph.values.iter().enumerate();
    let names = names.map(|(index, value)| (value.name.as_str(), ValueId(index))).into_map();
    let rebuilt: Vec<(NodeId, &'static str, Node)> = view
        .nodes()
        .filter_map(|(at, node)| {
            let origin = node.origin.as_ref()?;
            let (_, name, rebuild) = CALLS.iter().find(|(aten, ..)| {
                origin.aten.strip_prefix(aten).is_some_and(|rest| rest.starts_with('.'))
            })?;
            let operands = Operands::parse(&origin.call, &names)?;
            let makes_result = graph.value_name(node.output(0)?) == operands.result;
            let is_whole = node.op.eq_ignore_ascii_case(name);
            let node = (makes_result && !is_whole).then(|| rebuild(view, node, &operands))??;
            Some((at, *name, node))
        })
        .collect();
    let mut found: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (at, name, node) in rebuilt {
        *found.entry(name).or_default() += 1;
        view.replace(at, node);
    }
    for (name, count) in found {
        view.found_again(&Sentence::name(name), count);
    }
    give_batches(view);
}

/// Gives keys and values of attention apart the batch and the heads that the queries have, which later passes of the
/// exporter leave joined.
fn give_batches(view: &mut View<'_>) {
    let mut joined: Vec<(NodeId, usize, ValueId, Vec<u64>)> = Vec::new();
    for (at, node) in view.nodes().filter(|(_, node)| node.op == "Attention") {
        let Some(&[batch, heads, ..]) = node.input(0).and_then(|q| view.dims(q)) else { continue };
        for (position, x) in node.inputs.iter().enumerate().take(3).skip(1) {
            let (Some(x), Some(&[both, rows, width])) = (*x, x.and_then(|x| view.dims(x))) else {
                continue;
            };
            if Some(both) == batch.checked_mul(heads) {
                joined.push((at, position, x, vec![batch, heads, rows, width]));
            }
        }
    }
    for (at, position, x, dims) in joined {
        let (Some(attention), Some(before)) = (view.node(at), at.0.checked_sub(1)) else {
            continue;
        };
        let (Some(mut ty), mut attention) = (view.typed.ty(x).cloned(), attention.clone()) else {
            continue;
        };
        let size = dims.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
        ty.dims = dims.into();
        let apart = view.add_value(view.graph().value_name(x).to_owned(), ty, None);
        let mut reshape = torch("seen_as", &attention, vec![Some(x)]);
        "aten".clone_into(&mut reshape.domain);
        reshape.outputs = vec![Some(apart)];
        reshape.attributes.insert("size".to_owned(), Attribute::Ints(size));
        reshape.attributes.insert("tensors".to_owned(), Attribute::String("self".to_owned()));
        view.behind.entry(NodeId(before)).or_default().push(reshape);
        attention.inputs.iter_mut().skip(position).take(1).for_each(|x| *x = Some(apart));
        view.replace(at, attention);
    }
}

/// The operands of a call.
#[derive(Debug)]
struct Operands<'a> {
    /// Name of the call's result.
    result: &'a str,
    /// Arguments by position, as text and, for tensors that the graph has, as values.
    args: Vec<(&'a str, Option<ValueId>)>,
}

impl<'a> Operands<'a> {
    fn parse(call: &'a str, names: &BTreeMap<&str, ValueId>) -> Option<Self> {
        let Noted { result, placed, .. } = Noted::parse(call)?;
        let value = |text: &str| text.strip_prefix('%').and_then(|name| names.get(name).copied());
        let args = placed.into_iter().map(|text| (text, value(text))).collect();
        Some(Self { result, args })
    }

    fn tensor(&self, position: usize) -> Option<ValueId> {
        self.args.get(position)?.1
    }
}

/// Gives attention the few heads that a trace repeats.
///
/// transformers repeats them where there is a mask as a tensor, which a trace always has; where
/// PyTorch is told of it by a flag, it is given the few (`use_gqa_in_sdpa`, `sdpa_attention.py`).
pub(super) fn share_heads(view: &mut View<'_>) {
    let shared = |node: &Node| {
        let mut node = node.clone();
        let operands = node.inputs.iter_mut().skip(1).take(2);
        let mut found = false;
        for operand in operands {
            let few = operand.and_then(|value| grouped(view, value));
            found |= few.is_some();
            *operand = few.or(*operand);
        }
        found.then_some(node)
    };
    let is_masked = |node: &Node| node.op == "Attention" && node.int("masked").is_some();
    let found: Vec<(NodeId, Node)> = view
        .nodes()
        .filter(|(_, node)| is_masked(node))
        .filter_map(|(at, node)| Some((at, shared(node)?)))
        .collect();
    for (at, node) in found {
        view.replace(at, node);
    }
}

/// `nn.AdaptiveAvgPool2d(1)`, whose mean keeps the format of its images.
fn mean_of_images(_: &View<'_>, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    let is_pool = node.origin.as_ref()?.class.ends_with(".AdaptiveAvgPool2d");
    let mut pool = torch("GlobalAveragePool", node, vec![Some(operands.tensor(0)?)]);
    pool.domain = String::new();
    is_pool.then_some(pool)
}

/// `F.mse_loss(self, target, reduction)`; the mean where no reduction is stated.
fn mse_loss(_: &View<'_>, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    let inputs = vec![Some(operands.tensor(0)?), Some(operands.tensor(1)?)];
    let reduction = operands.args.get(2).map_or(Some(1), |(text, _)| text.parse().ok())?;
    let mut loss = torch("mse_loss", node, inputs);
    "aten".clone_into(&mut loss.domain);
    loss.attributes.insert("tensors".to_owned(), Attribute::String("self,target".to_owned()));
    loss.attributes.insert("reduction".to_owned(), Attribute::Int(reduction));
    Some(loss)
}

fn unary(op: &str, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    Some(torch(op, node, vec![Some(operands.tensor(0)?)]))
}

/// `group_norm(x, groups, weight, bias, eps)`; parameters that the exporter gave more dimensions are found by
/// the module's path, and have theirs again from [`restore_affine`].
fn group_norm(view: &View<'_>, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    let groups: i64 = operands.args.get(1)?.0.parse().ok()?;
    let parameter = |position: usize, name: &str| {
        let path = format!("{}.{name}", node.module);
        let value = operands.tensor(position).or_else(|| view.named(&path).first().copied())?;
        let idle = if name == "bias" { 0.0 } else { 1.0 };
        (!is_constant(view, value, idle)).then_some(value)
    };
    let inputs = vec![Some(operands.tensor(0)?), parameter(2, "weight"), parameter(3, "bias")];
    let mut norm = torch("GroupNormalization", node, inputs);
    norm.domain = String::new();
    norm.attributes.insert("num_groups".to_owned(), Attribute::Int(groups));
    Some(norm)
}

/// `instance_norm(x, weight, bias, mean, variance, …)` of a batch; ONNX has no place for the statistics, of which
/// only the size matters: that of the weight.
fn instance_norm(_: &View<'_>, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    let keeps = operands.args.get(3).is_some_and(|(text, _)| *text != "None");
    let weight = operands.tensor(1)?;
    (keeps && node.op == "InstanceNormalization").then(|| {
        let mut norm = node.clone();
        norm.inputs.extend([Some(weight), Some(weight)]);
        norm
    })
}

/// Gives the weight of `nn.Bilinear` its name and its dimensions: the exporter stores it as the matrix of a product.
pub(super) fn restore_bilinear(view: &mut View<'_>, _: &Config) {
    let mut folded = Vec::new();
    for (_, node) in view.nodes().filter(|(_, node)| node.op == "MatMul") {
        let is_call = node.origin.as_ref().is_some_and(|o| o.aten.starts_with("aten.bilinear."));
        let Some(matrix) = node.input(1).filter(|m| is_call && view.is_initializer(*m)) else {
            continue;
        };
        let after = node.output(0).and_then(|product| view.readers(product).first().copied());
        let parts = after.and_then(|at| view.dims(view.node(at)?.output(0)?));
        let (Some(&[first, _]), Some(&[.., out, second])) = (view.dims(matrix), parts) else {
            continue;
        };
        folded.push((matrix, [out, first, second], format!("{}.weight", node.module)));
    }
    for (matrix, dims, name) in folded {
        view.reshape_state(matrix, &dims);
        view.take_for_state(matrix, &name);
    }
}

/// Gives the weight and the bias of group norms their names and their one dimension, where the exporter
/// folded another into them.
pub(super) fn restore_affine(view: &mut View<'_>, _: &Config) {
    let mut folded = Vec::new();
    for (_, node) in view.nodes() {
        let is_norm = node.origin.as_ref().is_some_and(|o| o.aten.starts_with("aten.group_norm."));
        let name = match node.op.as_str() {
            "Mul" => "weight",
            "Add" => "bias",
            _ => continue,
        };
        let factor = node.input(1).filter(|value| is_norm && view.is_initializer(*value));
        let Some(value) = factor.filter(|value| !is_constant(view, *value, 0.0)) else { continue };
        let ones = |dims: &&[u64]| dims.iter().skip(1).all(|&n| n == 1);
        let channels = view.dims(value).filter(ones).and_then(|dims| dims.first().copied());
        folded.extend(channels.map(|n| (value, n, format!("{}.{name}", node.module))));
    }
    for (value, channels, name) in folded {
        view.reshape_state(value, &[channels]);
        view.rename_free(value, &name);
    }
}

/// `scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)`.
///
/// Later passes of the exporter may rename an operand; then it is what the call's nodes start from.
fn attention(view: &View<'_>, node: &Node, operands: &Operands<'_>) -> Option<Node> {
    let call = &node.origin.as_ref()?.call;
    let mut product = view.producer(node.input(0)?)?;
    while product.op != "MatMul" {
        let weights = if product.op == "Where" { product.input(2) } else { product.input(0) };
        product = view.producer(weights?)?;
    }
    let operand = |position: usize, end: Option<ValueId>| {
        let start = operands.tensor(position).or_else(|| start_of(view, end?, call))?;
        Some(grouped(view, start).filter(|_| position > 0).unwrap_or(start))
    };
    let q = operand(0, product.input(0))?;
    let k = operand(1, product.input(1))?;
    let v = operand(2, node.input(1))?;
    let mut found = torch("Attention", node, vec![Some(q), Some(k), Some(v)]);
    found.attributes.insert("drops".to_owned(), Attribute::Int(0));
    if operands.args.get(5).is_some_and(|(text, _)| *text == "True") {
        found.attributes.insert("causal".to_owned(), Attribute::Int(1));
    }
    match operands.args.get(3) {
        None | Some(("None", _)) => {}
        Some((_, Some(mask))) if is_tensor(view, *mask) => found.inputs.push(Some(*mask)),
        Some(_) => {
            found.attributes.insert("masked".to_owned(), Attribute::Int(1));
        }
    }
    Some(found)
}

/// The activation from which the nodes of a call make a value.
fn start_of(view: &View<'_>, mut value: ValueId, call: &str) -> Option<ValueId> {
    let in_call =
        |node: &&Node| node.origin.as_ref().is_some_and(|origin| origin.call.as_str() == call);
    while let Some(node) = view.producer(value).filter(in_call) {
        let is_activation = |input: &&ValueId| view.dims(**input).is_some_and(|d| d.len() > 2);
        value = *node.inputs.iter().flatten().find(is_activation)?;
    }
    Some(value)
}

/// The whole of an `nn.RMSNorm`, at the node whose result leaves the module.
fn rms_norm(view: &View<'_>, node: &Node) -> Option<Node> {
    let is_inside = |node: &&Node| {
        let class = node.origin.as_ref().map_or("", |origin| origin.class.as_str());
        class == "torch.nn.modules.normalization.RMSNorm"
    };
    let y = node.output(0)?;
    let in_module = |other: &&Node| is_inside(other) && other.module == node.module;
    let stays = view.readers(y).iter().any(|at| view.node(*at).as_ref().is_some_and(in_module));
    if !is_inside(&node) || stays || node.op == "RMSNormalization" {
        return None;
    }
    let mut x = y;
    while let Some(inner) = view.producer(x).filter(is_inside) {
        let as_large = |input: &&ValueId| view.dims(**input) == view.dims(y);
        x = *inner.inputs.iter().flatten().find(as_large)?;
    }
    let weight = format!("{}.weight", node.module);
    let weight = view.named(&weight).first().copied();
    let width = i64::try_from(view.dims(weight?)?.len()).ok()?;
    let mut norm = torch("RMSNormalization", node, vec![Some(x), weight]);
    norm.domain = String::new();
    norm.attributes.insert("axis".to_owned(), Attribute::Int(width.checked_neg()?));
    Some(norm)
}
