//! A graph as it travels: blocks that repeat are the same bytes, which gzip finds, and what follows from the rest is
//! left out.
//!
//! An id is the distance to the last one of its kind. Values that nodes make are one kind, parameters and inputs the
//! other: in a block after the next, both have moved on, by different steps. A value's name that is a
//! number is the distance to the one before. A node's name is left out where it is the usual one, and the path of a module where it is that of the node before; [`EMPTY`] stands for one that is empty.

use std::sync::Arc;

use highwater_core::graph::{Graph, Node, ValueId};

/// What stands for an empty text.
const EMPTY: &str = "\0";

/// The last ids of both kinds.
#[derive(Default)]
struct Last([usize; 2]);

impl Last {
    /// An id of a kind as a distance: twice its direction and four times its size, and the kind.
    #[cfg(test)]
    fn distance(&mut self, id: usize, kind: usize) -> usize {
        let [made, held] = &mut self.0;
        let last = std::mem::replace(if kind == 0 { made } else { held }, id);
        id.abs_diff(last) * 4 + usize::from(id < last) * 2 + kind
    }

    /// The id at a distance.
    fn id(&mut self, distance: usize) -> usize {
        let [made, held] = &mut self.0;
        let last = if distance.is_multiple_of(2) { made } else { held };
        let size = distance >> 2;
        let is_back = distance & 2 != 0;
        *last = if is_back { last.saturating_sub(size) } else { last.saturating_add(size) };
        *last
    }
}

/// The ids of all nodes, in order.
fn ids(graph: &mut Graph) -> impl Iterator<Item = &mut ValueId> {
    graph.nodes.iter_mut().map(Arc::make_mut).flat_map(|node| {
        let Node { inputs, outputs, .. } = node;
        inputs.iter_mut().chain(outputs).flatten()
    })
}

/// A number that names a value, as the exporter writes it.
fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name, 16).ok()
}

/// What stands for a number that is this much larger than the one before.
#[cfg(test)]
fn step(larger: u32) -> Option<char> {
    char::from_u32(larger).filter(|mark| (1..32).contains(&u32::from(*mark)))
}

/// The usual name of a node: `/h.0/attn/MatMul`.
fn usual_of(node: &Node) -> String {
    let mut name = String::new();
    for step in node.module.split('.').chain([node.op.as_str()]) {
        let is_item = step.bytes().all(|byte| byte.is_ascii_digit());
        if !step.is_empty() {
            name += if is_item { "." } else { "/" };
            name += step;
        }
    }
    name
}

/// Puts a text in where it was left out.
fn restore(text: &mut String, usual: impl FnOnce() -> String) {
    if text.is_empty() {
        *text = usual();
    } else if text == EMPTY {
        text.clear();
    }
}

/// A graph that has travelled, as it was.
pub(crate) fn restored(mut graph: Graph) -> Graph {
    let mut last = Last::default();
    ids(&mut graph).for_each(|id| id.0 = last.id(id.0));
    let mut before = 0;
    for value in &mut graph.values {
        let larger = value.name.chars().next().map(u32::from).filter(|mark| *mark < 32);
        if let Some(larger) = larger {
            value.name = format!("{:x}", before + larger);
        }
        before = number(&value.name).unwrap_or(before);
    }
    let mut module = String::new();
    for node in graph.nodes.iter_mut().map(Arc::make_mut) {
        restore(&mut node.module, || std::mem::take(&mut module));
        module.clone_from(&node.module);
        let name = usual_of(node);
        restore(&mut node.name, || name);
    }
    graph
}

/// Leaves a text out where it is the usual one.
#[cfg(test)]
fn leave_out(text: &mut String, usual: &str) {
    if text == usual {
        text.clear();
    } else if text.is_empty() {
        EMPTY.clone_into(text);
    }
}

/// The graph as it travels.
#[cfg(test)]
pub(crate) fn taken(mut graph: Graph) -> Graph {
    let mut before = 0;
    for value in &mut graph.values {
        let Some(number) = number(&value.name) else { continue };
        let mark = number.checked_sub(before).and_then(step);
        if let Some(mark) = mark.filter(|_| format!("{number:x}") == value.name) {
            value.name = mark.into();
        }
        before = number;
    }
    let mut last = String::new();
    for node in graph.nodes.iter_mut().map(Arc::make_mut) {
        let usual = usual_of(node);
        leave_out(&mut node.name, &usual);
        let module = node.module.clone();
        leave_out(&mut node.module, &last);
        last = module;
    }
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let made: std::collections::BTreeSet<ValueId> = made.copied().collect();
    let mut last = Last::default();
    ids(&mut graph).for_each(|id| id.0 = last.distance(id.0, usize::from(!made.contains(id))));
    graph
}
