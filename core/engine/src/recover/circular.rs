//! Circular pads, which the older exporter writes as a concatenation of the opposite ends.

use std::collections::BTreeMap;

use super::View;
use super::patterns::torch;
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// Puts one pad in place of the concatenations along all dimensions.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let ids: Vec<NodeId> = view.nodes().map(|(at, _)| at).collect();
    let mut count = 0;
    for at in ids {
        let Some(pad) = view.node(at).and_then(|node| pad(view, node)) else { continue };
        view.replace(at, pad);
        count += 1;
    }
    view.found_again(&say!("a circular pad"), count);
}

/// `[x[-a:], x, x[:b]]`, one end of which may be missing; the pad of a pad is one.
fn pad(view: &View<'_>, node: &Node) -> Option<Node> {
    if node.op != "Concat" || !node.domain.is_empty() || !(2..=3).contains(&node.inputs.len()) {
        return None;
    }
    let parts: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
    let rank = view.dims(node.output(0)?)?.len();
    let axis = node.int("axis")?;
    let axis = usize::try_from(axis).ok().filter(|&axis| axis >= 2 && axis < rank)?;
    let end = |value: ValueId, of: ValueId| {
        let slice = view.made_by(value, "Slice").filter(|slice| slice.input(0) == Some(of))?;
        let start = *view.ints(slice.input(1)?)?.first()?;
        let axes = view.ints(slice.input(3)?)?;
        let is_here = axes.len() == 1 && usize::try_from(*axes.first()?) == Ok(axis);
        let length = i64::try_from(*view.dims(value)?.get(axis)?).ok()?;
        is_here.then_some((start, length))
    };
    let (middle, front, back) = match *parts.as_slice() {
        [a, x, b] => (x, Some(end(a, x)?), Some(end(b, x)?)),
        [a, b] => match (end(a, b), end(b, a)) {
            (Some(front), None) => (b, Some(front), None),
            (None, Some(back)) => (a, None, Some(back)),
            _ => return None,
        },
        _ => return None,
    };
    let wraps = front.is_none_or(|(start, length)| start == -length)
        && back.is_none_or(|(start, _)| start == 0);
    let mut pads = vec![0; rank * 2];
    let mut x = middle;
    if let Some(inner) = view.made_by(middle, "Pad")
        && inner.string("mode") == Some("wrap")
    {
        pads = inner.ints("pads")?.to_vec();
        x = inner.input(0)?;
    }
    let length = |end: Option<(i64, i64)>| end.map_or(0, |(_, length)| length);
    *pads.get_mut(axis)? = length(front);
    *pads.get_mut(axis + rank)? = length(back);
    let mut found = torch("Pad", node, vec![Some(x)]);
    found.domain = String::new();
    found.attributes = BTreeMap::from([
        ("mode".to_owned(), Attribute::String("wrap".to_owned())),
        ("pads".to_owned(), Attribute::Ints(pads)),
    ]);
    wraps.then_some(found)
}
