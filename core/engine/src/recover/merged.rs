//! Operators that several modules run on one tensor, and that the file contains once.
//!
//! Exporters write equal nodes once. A module that starts with an activation of its argument then reads
//! what another module made inside itself of the same argument (the branches of `NASNet`'s cells:
//! `ActConvBn`, `BranchSeparables` in timm's `models/nasnet.py` and `pnasnet.py`). No module reads what is
//! inside of another one, so each has an operator of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{View, is_within};
use crate::config::Config;
use crate::graph::{Node, NodeId, ValueId};

/// Operators without state that a module may begin with, and which save what they make or read.
const OPERATORS: [&str; 14] = [
    "AveragePool",
    "Clip",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "MaxPool",
    "Mish",
    "Pad",
    "Relu",
    "Sigmoid",
    "Silu",
    "Tanh",
];

/// A node that other modules run, too: its place, and by module who reads it there.
type Merged = (NodeId, BTreeMap<String, Vec<NodeId>>);

/// COUNT: operators in a row that a module may begin with.
const DEPTH: usize = 4;

/// Gives every module an operator of its own; then what followed it has another argument there, and is
/// looked at again.
pub(super) fn separate(view: &mut View<'_>, _: &Config) {
    for _ in 0..DEPTH {
        let merged: Vec<Merged> = view
            .nodes()
            .map(|(at, node)| (at, elsewhere(view, node)))
            .filter(|(_, modules)| !modules.is_empty())
            .collect();
        if merged.is_empty() {
            break;
        }
        for (at, modules) in merged {
            for (module, readers) in modules {
                let first = readers.iter().min().and_then(|at| at.0.checked_sub(1));
                if let Some(before) = first {
                    copy(view, at, &module, (NodeId(before), &readers));
                }
            }
        }
        view.settle();
    }
}

/// Puts a copy of a node behind another one, for these readers.
pub(super) fn copy(
    view: &mut View<'_>,
    at: NodeId,
    module: &str,
    (behind, readers): (NodeId, &[NodeId]),
) -> Option<()> {
    let node = view.node(at)?.clone();
    let shared = node.output(0)?;
    let ty = view.typed.ty(shared)?.clone();
    let name = format!("{} of {module}", view.graph().value_name(shared));
    let own = view.add_value(name, ty, None);
    view.rests_on_reason(own);
    let own_node = Node { outputs: vec![Some(own)], module: module.to_owned(), ..node };
    view.behind.entry(behind).or_default().push(own_node);
    for &reader in readers {
        let mut node = view.node(reader)?.clone();
        let inputs = node.inputs.iter_mut().filter(|input| **input == Some(shared));
        inputs.for_each(|input| *input = Some(own));
        // What the reader makes is what it made before: it rests on nothing new.
        if let Some(slot) = view.nodes.get_mut(reader.0) {
            *slot = Arc::new(node);
        }
    }
    view.nodes_changed = true;
    Some(())
}

/// The modules that read what a node makes inside of another module, of that module's argument.
fn elsewhere(view: &View<'_>, node: &Node) -> BTreeMap<String, Vec<NodeId>> {
    let mut modules: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    let Some((argument, made)) = node.input(0).zip(node.output(0)) else { return modules };
    if !OPERATORS.contains(&node.op.as_str()) || view.graph().outputs.contains(&made) {
        return modules;
    }
    let source = view.producer(argument).map_or("", |source| source.module.as_str());
    for &at in view.readers(made) {
        let Some(reader) = view.node(at) else { continue };
        let Some((own, other)) = part(&node.module, &reader.module) else { continue };
        if !is_within(source, own) && reads_inside(view, made, own) {
            modules.entry(other.to_owned()).or_default().push(at);
        }
    }
    modules.retain(|_, readers| {
        readers.iter().any(|at| view.node(*at).is_some_and(|reader| reader.op != "Shape"))
    });
    modules
}

/// Whether somebody inside of a module computes with a value.
fn reads_inside(view: &View<'_>, value: ValueId, module: &str) -> bool {
    let mut readers = view.readers(value).iter().filter_map(|at| view.node(*at));
    readers.any(|reader| reader.op != "Shape" && is_within(&reader.module, module))
}

/// The outermost module around one path that is not around the other; and the module around the other
/// that is like the one around the first (`resnets.2` like `resnets.0`), or else the outermost.
fn part<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let common = one.split('.').zip(other.split('.')).take_while(|(a, b)| a == b).count();
    let own = outermost(one, common)?;
    let parent = one.rsplit_once('.').map_or("", |(parent, _)| parent);
    let like = |module: &&str| is_within(parent, own) && kind(module) == kind(parent);
    let around = (common..other.split('.').count()).rev();
    let alike = around.filter_map(|depth| outermost(other, depth)).find(like);
    Some((own, alike.map_or_else(|| outermost(other, common), Some)?))
}

/// What a module is called by those of its kind: its name without the number that follows.
fn kind(module: &str) -> &str {
    let end = module.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    end.rsplit('.').next().unwrap_or(end)
}

/// The beginning of a path with one part more than `depth`.
fn outermost(path: &str, depth: usize) -> Option<&str> {
    if path.is_empty() || path.split('.').count() <= depth {
        return None;
    }
    let end = path.match_indices('.').nth(depth).map_or(path.len(), |(end, _)| end);
    path.get(..end)
}
