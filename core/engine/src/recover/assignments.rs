//! Assignments to parts of a tensor: `x[:, 1:] = y`.
//!
//! ONNX has no views, so exporters spell out the position of every element that is written, and
//! scatter. PyTorch makes no positions: it copies into a view.

use super::View;
use super::patterns::torch;
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::tensor::numel;

/// Puts a copy into a view in place of each scatter to positions that no input decides.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let found: Vec<(NodeId, Node)> =
        view.nodes().filter_map(|(at, node)| Some((at, assignment(view, node)?))).collect();
    view.found_again(&say!("an assignment to a part of a tensor"), found.len());
    for (at, node) in found {
        view.replace(at, node);
    }
}

fn assignment(view: &View<'_>, node: &Node) -> Option<Node> {
    let adds_up = node.attributes.contains_key("reduction");
    if node.op != "ScatterND" || !node.domain.is_empty() || adds_up {
        return None;
    }
    let (x, positions, piece) = (node.input(0)?, node.input(1)?, node.input(2)?);
    view.producer(x)?;
    if !is_fixed(view, positions) {
        return None;
    }
    let is_whole = numel(view.dims(piece)?) == numel(view.dims(x)?);
    let mut found = torch("Assign", node, vec![Some(x), Some(piece)]);
    found.attributes.insert("whole".to_owned(), Attribute::Int(i64::from(is_whole)));
    Some(found)
}

/// Whether a value follows from shapes and constants alone.
fn is_fixed(view: &View<'_>, value: ValueId) -> bool {
    !view.follows_from(value, |value| {
        let is_given = view.is_known(value) || view.is_initializer(value);
        !is_given && view.producer(value).is_none()
    })
}
