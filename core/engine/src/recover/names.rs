//! Python's variables that keep a value alive beyond its last reader.
//!
//! A value is freed when its last reader has returned, unless a variable keeps it longer. The file has no
//! variables. Three facts show some of them:
//!
//! - operators that are written everywhere alike: `apply_rotary_pos_emb(q, k, cos, sin)` holds its arguments until
//!   both are rotated, and a module that spells attention out has variables for queries, keys and values until it
//!   returns;
//! - gates are made of parts that an assignment to several variables separated (`i, f = x.chunk(2)`);
//! - the modules of a well-known library, whose callers assign their result to a variable of its own.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use super::dropout::ends_with;
use super::{View, is_within};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{Node, NodeId, ValueId};

/// Modules whose result keeps a name until their caller returns, by the end of their path; `#`
/// stands for a number.
///
/// transformers 4 and 5: `attn_output` in the blocks of `modeling_gpt2.py` and
/// `modeling_gpt_neo.py`; `attention_output` and `forwarded_states` in the layers of `modeling_t5.py`;
/// `inputs_embeds` wherever embeddings have this name; `fused_qkv` in `modeling_bloom.py` and its kin;
/// `attn_outputs` in the blocks of `modeling_mpt.py`.
const NAMED: [&str; 7] = [
    "embed_tokens",
    "h.#.attn",
    "layer.#.SelfAttention",
    "layer.#.EncDecAttention",
    "layer.#.DenseReluDense",
    "query_key_value",
    "transformer.blocks.#.attn",
];

/// Modules whose scores have a name apart from that of the weights that softmax makes of them, which
/// goes when they return: `modeling_bloom.py`, `modeling_mpt.py`.
const NAMED_SCORES: [&str; 2] = ["h.#.self_attention", "transformer.blocks.#.attn"];

/// Values that are held until another value has been made.
pub(super) fn find(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut held = arguments_of_rotation(view);
    held.extend(operands_of_attention(view));
    held.extend(results_of_modules(view));
    held.extend(named_scores(view));
    held.extend(arguments_of_layers(view));
    held.extend(names_of_functions(view));
    held.extend(arguments_of_masked(view));
    held.extend(masks_of_layers(view));
    held.extend(arguments_of_linear_loss(view));
    held.extend(parts(view));
    held
}

/// The parts of `i, f = x.chunk(2)` that gates are made of, until the module returns or takes such parts again; not
/// those that another view is made of, which usually gets the part's name (`q = q.view(…)`).
fn parts(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let is_read_by = |part: ValueId, ops: &[&str]| {
        let mut readers = view.readers(part).iter().filter_map(|at| view.node(*at));
        readers.any(|node| ops.contains(&node.op.as_str()))
    };
    let makes_gates = |parts: &[Option<ValueId>]| {
        let is_any = |ops: &[&str]| parts.iter().flatten().any(|&part| is_read_by(part, ops));
        is_any(&["Sigmoid", "Tanh"]) && !is_any(&VIEWS)
    };
    let splits: Vec<&Node> = view
        .nodes()
        .filter(|(_, node)| {
            node.op == "Split" && node.outputs.len() > 1 && makes_gates(&node.outputs)
        })
        .map(|(_, node)| node)
        .collect();
    if splits.is_empty() {
        return Vec::new();
    }
    let ends = last_values(view);
    let last = view.nodes().filter_map(|(_, node)| node.output(0)).last();
    // By module and the number of parts: the next ones.
    let mut next: BTreeMap<(&str, usize), ValueId> = BTreeMap::new();
    let mut held = Vec::new();
    for node in splits.into_iter().rev() {
        let module = node.module.as_str();
        let again = node.output(0).and_then(|part| next.insert((module, node.outputs.len()), part));
        let end =
            again.or_else(|| if module.is_empty() { last } else { ends.get(module).copied() });
        let Some(end) = end else { continue };
        held.extend(node.outputs.iter().flatten().map(|&part| (part, end)));
    }
    held
}

/// What frames of PyTorch's own Transformer hold (`torch/nn/modules/transformer.py` and `activation.py`, 2.15):
/// `_ff_block` its argument until the second linear layer has returned, and whoever makes a mask of numbers the
/// mask. What a layer adds to is held as any frame holds it (`step/forward/frames.rs`).
fn arguments_of_layers(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let names = view.graph().values.iter().map(|value| value.name.as_str());
    let packed = names
        .filter_map(|name| {
            let suffixes = [".in_proj_weight", ".in_proj_bias", ".q_proj_weight"];
            suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))
        })
        .into_set();
    if packed.is_empty() {
        return Vec::new();
    }
    let ends = last_values(view);
    let layers = packed.iter().filter_map(|path| path.strip_suffix(".self_attn")).into_set();
    let mut held: Vec<(ValueId, ValueId)> = Vec::new();
    for (_, node) in view.nodes() {
        let layer = node.module.strip_suffix(".linear1").filter(|path| layers.contains(path));
        let end = layer.and_then(|layer| ends.get(format!("{layer}.linear2").as_str()));
        if let Some(&end) = end {
            let inputs = node.inputs.iter().flatten().filter(|input| !view.is_initializer(**input));
            held.extend(inputs.map(|&input| (input, end)));
        }
        if !packed.contains(node.module.as_str()) {
            continue;
        }
        // Queries and what they are multiplied to.
        let is_factor = |node: &Node| matches!(node.op.as_str(), "Baddbmm" | "MatMul");
        let readers = node.output(0).map_or(&[][..], |scaled| view.readers(scaled));
        if node.op == "Mul" && readers.iter().any(|at| view.node(*at).is_some_and(is_factor)) {
            held.extend(node.input(0).zip(ends.get(node.module.as_str()).copied()));
        }
        let mut masks: Vec<ValueId> = match node.op.as_str() {
            "Attention" => node.input(3).into_iter().collect(),
            "Baddbmm" => node.input(0).into_iter().collect(),
            _ => continue,
        };
        while let Some(mask) = masks.pop() {
            let Some(maker) = view.producer(mask) else { continue };
            // The name of a mask that is padded is bound again.
            let is_padded = |at: &NodeId| view.node(*at).is_some_and(|node| node.op == "Pad");
            if maker.op != "Pad" || !view.readers(mask).iter().any(is_padded) {
                held.extend(ends.get(maker.module.as_str()).map(|&end| (mask, end)));
            }
            match maker.op.as_str() {
                "Add" => masks.extend(maker.inputs.iter().flatten()),
                "Reshape" | "Expand" | "Unsqueeze" | "Cast" | "Pad" => masks.extend(maker.input(0)),
                _ => {}
            }
        }
    }
    held
}

/// The last value that each module makes, in itself or inside.
fn last_values<'v>(view: &'v View<'_>) -> BTreeMap<&'v str, ValueId> {
    let mut last = BTreeMap::new();
    for (_, node) in view.nodes() {
        let output = node.output(0);
        around(&node.module).for_each(|path| last.extend(output.map(|output| (path, output))));
    }
    last
}

/// Names in PyTorch's functions that are bound again by a statement of several calls: the function, what
/// reads the name first in that statement and where, and the statement's last call, or the function's where a name is
/// not bound again (`torch/nn/functional.py`).
const IN_FUNCTIONS: [(&str, &str, usize, &str); 5] = [
    ("local_response_norm", "aten.squeeze.", 0, "aten.pow."),
    ("multi_head_attention_forward", "aten.baddbmm.", 0, ""),
    ("multi_head_attention_forward", "aten.mul.", 0, ""),
    ("multi_head_attention_forward", "aten.scaled_dot_product_attention.", 3, ""),
    ("multilabel_soft_margin_loss", "aten.sum.", 0, "aten.div."),
];

/// Values of the names of [`IN_FUNCTIONS`].
fn names_of_functions(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut open: BTreeMap<&str, ValueId> = BTreeMap::new();
    let mut named: Vec<(ValueId, &str)> = Vec::new();
    let mut ends: BTreeMap<&str, ValueId> = BTreeMap::new();
    let mut held = Vec::new();
    for (_, node) in view.nodes() {
        let Some(origin) = &node.origin else { continue };
        let Some((function, _)) = origin.function.rsplit_once('_') else { continue };
        ends.extend(node.output(0).map(|output| (origin.function.as_str(), output)));
        for (name, reader, at, last) in IN_FUNCTIONS {
            if function == name && origin.aten.starts_with(reader) && last.is_empty() {
                named.extend(node.input(at).map(|x| (x, origin.function.as_str())));
            } else if function == name && origin.aten.starts_with(reader) {
                open.extend(node.input(at).map(|x| (origin.function.as_str(), x)));
            } else if function == name && origin.aten.starts_with(last) {
                let x = open.remove(origin.function.as_str());
                held.extend(x.zip(node.output(0)));
            }
        }
    }
    held.extend(named.into_iter().filter_map(|(x, function)| Some((x, *ends.get(function)?))));
    held
}

/// Inputs of `torch.masked`'s functions, and what they make of them with the mask, until the functions
/// return (`torch/masked/_ops.py`): the mask is cast to what it is, and `where` reads a number.
fn arguments_of_masked(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut held = Vec::new();
    let mut readers: BTreeMap<ValueId, Vec<&Node>> = BTreeMap::new();
    for (_, node) in view.nodes() {
        for &input in node.inputs.iter().flatten() {
            readers.entry(input).or_default().push(node);
        }
    }
    let only = |value: ValueId| match readers.get(&value).map(Vec::as_slice) {
        Some(&[node]) => Some(node),
        _ => None,
    };
    for (_, node) in view.nodes().filter(|(_, node)| node.op == "Where") {
        let [Some(mask), Some(x), Some(fill)] = *node.inputs.as_slice() else { continue };
        let is_cast = view.made_by(mask, "Cast").is_some();
        let is_number = view.is_initializer(fill) && view.dims(fill).is_some_and(<[u64]>::is_empty);
        let (true, Some(masked)) = (is_cast && is_number, node.output(0)) else { continue };
        let Some(mut last) = only(masked) else { continue };
        let mut inner = last;
        while let Some(next) = last.output(0).and_then(only)
            && (last.op == "Neg" || next.op == "Div")
        {
            // The mean is a sum, which has returned when it is divided.
            if next.op != "Div" {
                inner = next;
            }
            last = next;
        }
        held.extend(last.output(0).map(|end| (x, end)));
        held.extend(inner.output(0).map(|end| (masked, end)));
    }
    // Without a mask, the mean divides by a sum of ones.
    for (_, node) in view.nodes().filter(|(_, node)| node.op == "Div") {
        let made = |at: usize| view.producer(node.input(at)?);
        let (Some(sum), Some(count)) = (made(0), made(1)) else { continue };
        let is_mean = sum.op == "ReduceSum" && count.op.starts_with("sum.");
        let (true, Some(x)) = (is_mean, sum.input(0)) else { continue };
        if view.made_by(x, "Where").is_none() {
            held.extend(node.output(0).map(|end| (x, end)));
        }
    }
    held
}

/// What `F.linear_cross_entropy` was given, until it returns.
fn arguments_of_linear_loss(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut held = Vec::new();
    for (_, loss) in view.nodes() {
        let product = product_of_loss(view, loss).or_else(|| product_of_call(view, loss));
        let Some(product) = product else { continue };
        let given = product.inputs.iter().flatten().map(|&given| source(view, given));
        held.extend(given.filter_map(|given| Some((given, loss.output(0)?))));
    }
    held
}

/// The product in `F.linear_cross_entropy`: the loss of a product that the same frame makes and sees in the shape
/// of the classes, be it the one that it has.
pub(super) fn product_of_loss<'v>(view: &'v View<'_>, loss: &Node) -> Option<&'v Node> {
    if loss.op != "SoftmaxCrossEntropyLoss" {
        return None;
    }
    let seen = view.made_by(loss.input(0)?, "Reshape")?;
    let product = view.producer(seen.input(0)?)?;
    let (dims, classes) = (view.dims(product.output(0)?)?, view.dims(seen.output(0)?)?);
    let rows = dims.get(..dims.len().checked_sub(1)?)?;
    let is_one = matches!(product.op.as_str(), "Gemm" | "Linear" | "MatMul")
        && classes.len() >= dims.len()
        && classes.starts_with(rows)
        && [product, seen].into_iter().all(|node| node.module == loss.module);
    is_one.then_some(product)
}

/// The same, where the file names the call of the loss.
fn product_of_call<'v>(view: &'v View<'_>, loss: &Node) -> Option<&'v Node> {
    loss.origin.as_ref().filter(|origin| origin.aten.starts_with("aten.cross_entropy_loss."))?;
    let product = view.producer(source(view, loss.input(0)?))?;
    matches!(product.op.as_str(), "Gemm" | "Linear" | "MatMul").then_some(product)
}

/// Masks that a module makes of those that it was given, until it returns: `_canonical_mask` in the layers of
/// `torch/nn/modules/transformer.py`.
fn masks_of_layers(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut made: BTreeMap<ValueId, &str> = BTreeMap::new();
    let mut named: Vec<(ValueId, &str)> = Vec::new();
    for (_, node) in view.nodes() {
        if node.op == "RandomUniformLike" {
            made.extend(node.output(0).map(|mask| (mask, node.module.as_str())));
        }
        let function = node.origin.as_ref().map_or("", |origin| &origin.function);
        if !function.starts_with("multi_head_attention_forward") {
            continue;
        }
        for mask in node.inputs.iter().flatten().map(|&mask| source(view, mask)) {
            let by = made.get(&mask).filter(|by| **by != node.module);
            named.extend(by.map(|by| (mask, *by)));
        }
    }
    if named.is_empty() {
        return Vec::new();
    }
    let ends = last_values(view);
    named.into_iter().filter_map(|(mask, by)| Some((mask, *ends.get(by)?))).collect()
}

/// Scores in the modules of [`NAMED_SCORES`], from where they are made to where softmax reads them, and
/// the last value of their module.
fn named_scores(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut held: Vec<(ValueId, &str)> = Vec::new();
    let mut ends: BTreeMap<&str, ValueId> = BTreeMap::new();
    for (_, node) in view.nodes() {
        let named = |path: &&str| NAMED_SCORES.iter().any(|named| ends_with(path, named));
        let Some(module) = around(&node.module).find(named) else { continue };
        ends.extend(node.output(0).map(|output| (module, output)));
        let scores = match node.op.as_str() {
            "Baddbmm" => node.output(0),
            "Softmax" => node.input(0).map(|scores| source(view, scores)),
            _ => None,
        };
        held.extend(scores.map(|scores| (scores, module)));
    }
    held.into_iter().filter_map(|(value, module)| Some((value, *ends.get(module)?))).collect()
}

/// That results are held as the code of a well-known library holds them.
pub(super) fn diagnostic(view: &View<'_>) -> Option<Diagnostic> {
    (!results_of_modules(view).is_empty()).then(|| {
        let message = say!(
            "the modules are named as those of transformers, and are assumed to hold results \
                       of embeddings and of attention until their callers return, as that code does"
        );
        Diagnostic::new(Severity::Info, "assumed-names", message)
    })
}

/// Queries, keys and values of attention that is spelled out, and the last value of its module.
fn operands_of_attention(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut operands: Vec<(ValueId, &str)> = Vec::new();
    let mut ends: BTreeMap<&str, Option<ValueId>> = BTreeMap::new();
    for (_, node) in view.nodes() {
        if node.op == "MatMul"
            && let Some(found) = operands_of(view, node)
        {
            operands.extend(found.map(|value| (value, node.module.as_str())));
            ends.insert(&node.module, None);
        }
    }
    for (_, node) in view.nodes() {
        for path in around(&node.module) {
            if let Some(end) = ends.get_mut(path) {
                *end = node.output(0).or(*end);
            }
        }
    }
    let end = |module: &str| ends.get(module).copied().flatten();
    operands.into_iter().filter_map(|(value, module)| Some((value, end(module)?))).collect()
}

/// Tensors behind `q`, `k` and `v` of `softmax(q @ k + …) @ v`.
fn operands_of(view: &View<'_>, node: &Node) -> Option<[ValueId; 3]> {
    let (weights, values) = (node.input(0)?, node.input(1)?);
    let mut at = view.producer(weights)?;
    let mut seen_softmax = false;
    // From the weights back to the scores, over what lies between.
    for _ in 0..16 {
        seen_softmax |= at.op == "Softmax";
        let input = match at.op.as_str() {
            "MatMul" if seen_softmax => break,
            "Where" => [at.input(1), at.input(2)]
                .into_iter()
                .flatten()
                .find(|&x| view.dims(x).is_some_and(|dims| dims.len() > 2)),
            "Softmax" | "Dropout" | "Cast" | "Add" | "Div" | "Mul" | "Reshape" | "Max"
            | "masked_fill" => at.input(0),
            _ => return None,
        };
        at = view.producer(input?)?;
    }
    if at.op != "MatMul" {
        return None;
    }
    Some([source(view, at.input(0)?), source(view, at.input(1)?), source(view, values)])
}

/// Operators that make views, or what PyTorch does not run at all.
const VIEWS: [&str; 9] = [
    "Reshape",
    "Transpose",
    "Split",
    "Slice",
    "Gather",
    "Squeeze",
    "Unsqueeze",
    "Cast",
    "Identity",
];

/// The tensor that a value is a view of.
fn source(view: &View<'_>, value: ValueId) -> ValueId {
    let mut value = value;
    for _ in 0..16 {
        let Some(node) = view.producer(value).filter(|node| VIEWS.contains(&node.op.as_str()))
        else {
            break;
        };
        let Some(input) = node.input(0) else { break };
        value = input;
    }
    value
}

/// What `apply_rotary_pos_emb` was given, and the last value that it makes.
fn arguments_of_rotation(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut calls: BTreeMap<&str, Vec<(ValueId, ValueId)>> = BTreeMap::new();
    for (_, node) in view.nodes() {
        if let Some(turned) = turned(view, node)
            && let Some(output) = node.output(0)
        {
            calls.entry(&node.module).or_default().push((turned, output));
        }
    }
    let mut held = Vec::new();
    // A call turns the queries and the keys.
    for call in calls.values().flat_map(|all| all.chunks(2)) {
        let last = call.last().map(|&(_, output)| output);
        held.extend(call.iter().filter_map(|&(turned, _)| Some((turned, last?))));
    }
    held
}

/// `x` of `x * cos + rotate_half(x) * sin`.
fn turned(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let factors = |value| -> Option<[ValueId; 2]> {
        let product = view.made_by(value, "Mul")?;
        Some([product.input(0)?, product.input(1)?])
    };
    if node.op != "Add" {
        return None;
    }
    let (straight, crossed) = (factors(node.input(0)?)?, factors(node.input(1)?)?);
    let half = crossed.into_iter().find_map(|value| rotated_half(view, value))?;
    straight.contains(&half).then_some(half)
}

/// `x` of `cat((-x[half:], x[:half]))`.
fn rotated_half(view: &View<'_>, value: ValueId) -> Option<ValueId> {
    let halves = view.made_by(value, "Concat")?;
    let negated = view.made_by(halves.input(0)?, "Neg")?;
    let source = |value: ValueId| {
        let half = view.producer(value)?;
        matches!(half.op.as_str(), "Slice" | "Split").then(|| half.input(0)).flatten()
    };
    let (second, first) = (source(negated.input(0)?)?, source(halves.input(1)?)?);
    (first == second).then_some(first)
}

/// Results of the modules of [`NAMED`], and the last value that their caller makes.
fn results_of_modules(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut results: Vec<(ValueId, &str)> = Vec::new();
    // By caller: its last node.
    let mut last: BTreeMap<&str, NodeId> = BTreeMap::new();
    for (at, node) in view.nodes() {
        let named = around(&node.module).find(|path| is_named(path));
        let Some((module, (caller, _))) =
            named.and_then(|path| Some((path, path.rsplit_once('.')?)))
        else {
            continue;
        };
        last.insert(caller, at);
        let leaves = |value: &ValueId| {
            let mut readers = view.readers(*value).iter().filter_map(|at| view.node(*at));
            readers.any(|reader| !is_within(&reader.module, module))
        };
        results.extend(node.outputs.iter().flatten().filter(|v| leaves(v)).map(|&v| (v, caller)));
    }
    for (at, node) in view.nodes() {
        for path in around(&node.module) {
            if let Some(last) = last.get_mut(path) {
                *last = at;
            }
        }
    }
    let end = |caller: &str| view.node(*last.get(caller)?)?.output(0);
    results.into_iter().filter_map(|(value, caller)| Some((value, end(caller)?))).collect()
}

fn is_named(path: &str) -> bool {
    NAMED.iter().any(|named| ends_with(path, named))
}

/// The modules around a path, itself among them, from the outermost.
fn around(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end))
}
