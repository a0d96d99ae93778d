//! Slices that together divide a tensor, which are one `chunk`.
//!
//! The difference shows in backward: each slice would fill a whole tensor with zeros, while the chunk's gradients
//! are concatenated once.

use std::collections::BTreeMap;

use super::{DOMAIN, View};
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::sentence::Sentence;

/// One slice along one axis: where it begins and ends, and what it makes.
type Piece = (u64, u64, ValueId, NodeId);

/// A chunk in place of its first slice, and the slices that it makes superfluous.
#[derive(Debug)]
struct Chunk {
    at: NodeId,
    node: Node,
    superfluous: Vec<NodeId>,
}

/// Puts a chunk in place of each set of such slices.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let chunks = find(view);
    let count = chunks.len();
    for chunk in chunks {
        view.replace(chunk.at, chunk.node);
        chunk.superfluous.into_iter().for_each(|at| view.replace(at, Node::default()));
    }
    view.found_again(&Sentence::name("chunk"), count);
}

/// Gives every slice of a strided slice a strided slice of its own: `x[:, 0::2, 1::2]` names none, and
/// exporters write equal ones once.
pub(super) fn separate(view: &mut View<'_>, _: &Config) {
    let shared: Vec<(ValueId, Node, Vec<NodeId>)> =
        view.nodes().filter_map(|(_, node)| shared_stride(view, node)).collect();
    for (part, slice, readers) in shared {
        let Some(ty) = view.typed.ty(part).cloned() else { continue };
        for at in readers.into_iter().skip(1) {
            let (Some(mut reader), Some(before)) = (view.node(at).cloned(), at.0.checked_sub(1))
            else {
                continue;
            };
            let own = view.add_value(view.graph().value_name(part).to_owned(), ty.clone(), None);
            let slice = Node { outputs: vec![Some(own)], ..slice.clone() };
            view.behind.entry(NodeId(before)).or_default().push(slice);
            reader.inputs.iter_mut().take(1).for_each(|input| *input = Some(own));
            view.replace(at, reader);
        }
    }
}

/// A strided slice that several slices read and nobody else: what it makes, itself, and these.
fn shared_stride(view: &View<'_>, node: &Node) -> Option<(ValueId, Node, Vec<NodeId>)> {
    let is_slice = |node: &Node| node.op == "Slice" && node.domain.is_empty();
    let part = node.output(0).filter(|_| is_slice(node))?;
    let &[step] = view.ints(node.input(4)?)? else { return None };
    let readers = view.readers(part);
    let reads =
        |at: &NodeId| view.node(*at).is_some_and(|n| is_slice(n) && n.input(0) == Some(part));
    let is_shared = step > 1 && readers.len() > 1 && readers.iter().all(reads);
    (is_shared && !view.graph().outputs.contains(&part))
        .then(|| (part, node.clone(), readers.to_vec()))
}

fn find(view: &View<'_>) -> Vec<Chunk> {
    let mut slices: BTreeMap<(ValueId, usize), Vec<Piece>> = BTreeMap::new();
    let mut negated = std::collections::BTreeSet::new();
    for (at, node) in view.nodes() {
        if node.op == "Neg" {
            negated.extend(node.input(0));
        }
        if let Some((whole, axis, piece)) = slice(view, at, node) {
            slices.entry((whole, axis)).or_default().push(piece);
        }
    }
    let chunks = slices.into_iter().filter_map(|((whole, axis), mut pieces)| {
        pieces.sort_unstable();
        // Rotary embeddings negate one half; they are written with slices.
        if pieces.iter().any(|piece| negated.contains(&piece.2)) {
            return None;
        }
        chunk(view, whole, axis, &pieces)
    });
    chunks.collect()
}

fn slice(view: &View<'_>, at: NodeId, node: &Node) -> Option<(ValueId, usize, Piece)> {
    // Where the file names the call, a slice is one.
    let is_said = node.origin.as_ref().is_some_and(|origin| origin.aten.starts_with("aten.slice."));
    if node.op != "Slice" || !node.domain.is_empty() || is_said {
        return None;
    }
    let (whole, part) = (node.input(0)?, node.output(0)?);
    let (dims, part_dims) = (view.dims(whole)?, view.dims(part)?);
    let mut changed = (0..dims.len()).filter(|&d| dims.get(d) != part_dims.get(d));
    let (axis, None) = (changed.next()?, changed.next()) else { return None };
    // In a list of bounds: what `tensor_split` makes are slices.
    let listed = node.input(2).and_then(|end| view.made_by(end, "Gather")?.input(0));
    if listed.is_some_and(|list| view.made_by(list, "Concat").is_some()) {
        return None;
    }
    let [start] = view.ints(node.input(1)?)? else { return None };
    let length = *part_dims.get(axis)?;
    let size = i64::try_from(*dims.get(axis)?).ok()?;
    let start = if *start < 0 { start.checked_add(size)? } else { *start };
    let start = u64::try_from(start).ok()?;
    Some((whole, axis, (start, start.checked_add(length)?, part, at)))
}

fn chunk(view: &View<'_>, whole: ValueId, axis: usize, pieces: &[Piece]) -> Option<Chunk> {
    let size = *view.dims(whole)?.get(axis)?;
    let starts = std::iter::once(0).chain(pieces.iter().map(|piece| piece.1));
    let tiles = pieces.iter().zip(starts).all(|(piece, expected)| piece.0 == expected);
    if pieces.len() < 2 || !tiles || pieces.last()?.1 != size {
        return None;
    }
    let first = pieces.iter().map(|piece| piece.3).min()?;
    let like = view.node(first)?;
    let axis = i64::try_from(axis).ok()?;
    let node = Node {
        name: like.name.clone(),
        op: "Split".to_owned(),
        domain: DOMAIN.to_owned(),
        inputs: vec![Some(whole)],
        outputs: pieces.iter().map(|piece| Some(piece.2)).collect(),
        attributes: BTreeMap::from([("axis".to_owned(), Attribute::Int(axis))]),
        module: like.module.clone(),
        origin: like.origin.clone(),
        trip: like.trip,
    };
    let superfluous = pieces.iter().map(|piece| piece.3).filter(|&at| at != first).collect();
    Some(Chunk { at: first, node, superfluous })
}
