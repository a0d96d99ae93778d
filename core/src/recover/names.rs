//! Names of Python's that outlive their last reader.
//!
//! A value dies when its last reader has returned, unless a name holds it longer. The file has no
//! names. Two things tell some of them:
//!
//! - the operators of a function that is written everywhere alike: `apply_rotary_pos_emb(q, k, cos,
//!   sin)` holds its arguments until both are turned;
//! - the modules of a well-known library, whose callers bind their result to a name of its own.

use std::collections::BTreeMap;

use super::View;
use super::dropout::ends_with;
use crate::graph::{Node, NodeId, ValueId};

/// Modules whose result keeps a name until their caller returns, by the end of their path; `#`
/// stands for a number.
///
/// transformers 4 and 5: `attn_output` in the blocks of `modeling_gpt2.py` and
/// `modeling_gpt_neo.py`; `attention_output` and `forwarded_states` in the layers of `modeling_t5.py`.
const NAMED: [&str; 4] =
    ["h.#.attn", "layer.#.SelfAttention", "layer.#.EncDecAttention", "layer.#.DenseReluDense"];

/// Values that are held until another value has been made.
pub(super) fn find(view: &View<'_>) -> Vec<(ValueId, ValueId)> {
    let mut held = arguments_of_rotation(view);
    held.extend(results_of_modules(view));
    held
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
        let Some((module, (caller, _))) = named.and_then(|path| Some((path, path.rsplit_once('.')?)))
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

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
