//! The copy inside `nn.MultiheadAttention`.
//!
//! Its packed projection `[L, N, 3E]` is unflattened, its three parts are moved to the front, and the
//! whole is copied by `.contiguous()`, which no exporter writes down, before it is taken apart
//! (`torch/nn/functional.py`, `_in_projection_packed`). Without the copy each part would be
//! copied by itself.

use super::patterns::torch;
use super::{Found, View};
use crate::graph::Node;

/// `Reshape`, `Unsqueeze`, `Transpose`, `Squeeze`, read by one `Gather` for each part: the copy takes
/// the place of the `Squeeze`.
pub(super) fn find(view: &View<'_>, node: &Node) -> Option<Found> {
    let moved = node.input(0)?;
    let transpose = view.made_by(moved, "Transpose")?;
    let unsqueeze = view.made_by(transpose.input(0)?, "Unsqueeze")?;
    view.made_by(unsqueeze.input(0)?, "Reshape")?;
    let whole = node.output(0)?;
    let parts = *view.dims(whole)?.first()?;
    let readers: Vec<&Node> = view
        .nodes()
        .map(|(_, reader)| reader)
        .filter(|r| r.inputs.contains(&Some(whole)))
        .collect();
    let picks = |reader: &&Node| reader.op == "Gather" && reader.int("axis").unwrap_or(0) == 0;
    let all = u64::try_from(readers.len()).is_ok_and(|count| count == parts);
    (parts == 3 && all && readers.iter().all(picks)).then(|| {
        ("the copy in nn.MultiheadAttention", torch("Contiguous", node, vec![Some(moved)]))
    })
}
