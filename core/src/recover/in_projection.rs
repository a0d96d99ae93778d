//! The packed projection of `nn.MultiheadAttention`: one product makes queries, keys and values.
//!
//! `_in_projection_packed` (`torch/nn/functional.py`) ends in
//! `unflatten(-1, (3, E)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()`: a copy that
//! exporters leave out, since ONNX has no strides. Without it, each of the three would be copied
//! later, beside the product instead of in its place.

use super::View;
use super::patterns::torch;
use crate::config::Config;
use crate::graph::{Node, ValueId};

/// Puts the copy back.
pub(super) fn copy(view: &mut View<'_>, _: &Config) {
    let packed: Vec<(ValueId, Node)> = view
        .nodes()
        .filter_map(|(_, node)| {
            let value = packed(view, node)?;
            Some((value, torch("Contiguous", node, Vec::new())))
        })
        .collect();
    let mut count = 0;
    for (value, copy) in packed {
        count += usize::from(view.insert_behind(value, copy).is_some());
    }
    view.found_again("the packed projection of nn.MultiheadAttention", count);
}

/// `Unsqueeze → Transpose → Squeeze`, of which only three parts are read.
fn packed(view: &View<'_>, squeeze: &Node) -> Option<ValueId> {
    if squeeze.op != "Squeeze" {
        return None;
    }
    let moved = view.made_by(squeeze.input(0)?, "Transpose")?;
    view.made_by(moved.input(0)?, "Unsqueeze")?;
    let packed = squeeze.output(0)?;
    let is_part = |reader: &Node| reader.op == "Gather" && reader.int("axis").unwrap_or(0) == 0;
    let readers = view.readers(packed);
    let are_parts = readers.iter().all(|at| view.node(*at).is_some_and(is_part));
    (readers.len() == 3 && are_parts && view.dims(packed)?.first() == Some(&3)).then_some(packed)
}
