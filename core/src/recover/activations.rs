//! Activations that are one operator in PyTorch and several in ONNX, told by what they compute.

use std::collections::BTreeMap;

use super::patterns::torch;
use super::{View, norms};
use crate::config::Config;
use crate::graph::{Node, NodeId, ValueId};

/// What an activation is called, its operator here, and whether that is one of ONNX's own.
type Found = (&'static str, Node);

/// Puts the activation in place of the last of its nodes.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let found: Vec<(NodeId, Found)> =
        view.nodes().filter_map(|(at, node)| Some((at, find(view, node)?))).collect();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (at, (name, node)) in found {
        *counts.entry(name).or_default() += 1;
        view.replace(at, node);
    }
    for (name, count) in counts {
        view.found_again(name, count);
    }
}

fn find(view: &View<'_>, node: &Node) -> Option<Found> {
    if !node.domain.is_empty() {
        return None;
    }
    let own = |name, op: &str, x| Some((name, Node { domain: String::new(), ..one(op, node, x) }));
    match node.op.as_str() {
        "Mul" => mish(view, node)
            .and_then(|x| own("mish", "Mish", x))
            .or_else(|| Some(("glu", one("Glu", node, glu(view, node)?)))),
        "Log" => {
            let x = once(view, node.input(0)?, "Sigmoid")?.input(0)?;
            Some(("log_sigmoid", one("LogSigmoid", node, x)))
        }
        "Div" => scaled_softplus(view, node).and_then(|x| own("softplus", "Softplus", x)),
        "Add" => softshrink(view, node).and_then(|x| own("softshrink", "Shrink", x)),
        "Where" => bounded_softplus(view, node)
            .and_then(|x| own("softplus", "Softplus", x))
            .or_else(|| hardshrink(view, node).and_then(|x| own("hardshrink", "Shrink", x)))
            .or_else(|| signed_softshrink(view, node).and_then(|x| own("softshrink", "Shrink", x)))
            .or_else(|| threshold(view, node).and_then(|x| own("threshold", "ThresholdedRelu", x))),
        _ => None,
    }
}

fn one(op: &str, like: &Node, x: ValueId) -> Node {
    torch(op, like, vec![Some(x)])
}

/// The node that makes a value for one reader alone.
fn once<'v>(view: &'v View<'_>, value: ValueId, op: &str) -> Option<&'v Node> {
    view.made_by(value, op).filter(|_| view.read_once(value))
}

/// Both orders of two operands.
fn pairs(node: &Node) -> Option<[(ValueId, ValueId); 2]> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    Some([(a, b), (b, a)])
}

/// The operand beside a number.
fn beside_number(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let is_number = |value| view.number(value).is_some();
    pairs(node)?.into_iter().find(|&(x, n)| is_number(n) && !is_number(x)).map(|(x, _)| x)
}

/// `x · tanh(softplus(x))`.
fn mish(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let is_gate = |x, gate| {
        let curve = once(view, gate, "Tanh")?.input(0)?;
        (once(view, curve, "Softplus")?.input(0)? == x).then_some(x)
    };
    pairs(node)?.into_iter().find_map(|(x, gate)| is_gate(x, gate))
}

/// `a · sigmoid(b)` of the two halves of one tensor.
fn glu(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let halves = |a, gate| {
        let b = once(view, gate, "Sigmoid")?.input(0)?;
        let split = view.made_by(a, "Split")?;
        let is_split = split.outputs.as_slice() == [Some(a), Some(b)];
        let is_even = view.dims(a)? == view.dims(b)?;
        let is_read_here = view.read_once(a) && view.read_once(b);
        (is_split && is_even && is_read_here).then(|| split.input(0)).flatten()
    };
    pairs(node)?.into_iter().find_map(|(a, gate)| halves(a, gate))
}

/// `softplus(β · x) / β`.
fn scaled_softplus(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let divisor = view.number(node.input(1)?)?;
    let scaled = once(view, once(view, node.input(0)?, "Softplus")?.input(0)?, "Mul")?;
    let is_beta = |value| view.number(value).is_some_and(|n| n.to_bits() == divisor.to_bits());
    pairs(scaled)?.into_iter().find(|&(_, beta)| is_beta(beta)).map(|(x, _)| x)
}

/// `x` where it, or its multiple, is above a number, else its softplus.
fn bounded_softplus(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let (above, x, curve) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let compared = beside_number(view, view.made_by(above, "Greater")?)?;
    let is_x = |value| {
        value == x || view.made_by(value, "Mul").and_then(|mul| beside_number(view, mul)) == Some(x)
    };
    let bare = scaled_softplus_or_plain(view, curve)?;
    (is_x(compared) && is_x(bare)).then_some(x)
}

/// What a softplus is of, past the division by its factor.
fn scaled_softplus_or_plain(view: &View<'_>, curve: ValueId) -> Option<ValueId> {
    let plain = view
        .made_by(curve, "Softplus")
        .or_else(|| view.made_by(view.made_by(curve, "Div")?.input(0)?, "Softplus"));
    plain?.input(0)
}

/// What is compared with a number, past idle casts of the answer.
fn compared(view: &View<'_>, flags: ValueId, op: &str) -> Option<ValueId> {
    let flags = view.made_by(flags, "Cast").map_or(Some(flags), |cast| cast.input(0))?;
    let comparison = view.made_by(flags, op)?;
    view.number(comparison.input(1)?)?;
    comparison.input(0)
}

/// `x` outside of an interval around zero, else zero.
fn hardshrink(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let (flags, a, b) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let is_zero = |value| {
        view.number(value).is_some_and(|n| n.abs() < f64::MIN_POSITIVE)
            || norms::is_constant(view, value, 0.0)
    };
    if let Some(outside) = view.made_by(flags, "Or") {
        let above = compared(view, outside.input(0)?, "Greater")?;
        let below = compared(view, outside.input(1)?, "Less")?;
        return (above == a && below == a && is_zero(b)).then_some(a);
    }
    let size = compared(view, flags, "LessOrEqual")?;
    (view.made_by(size, "Abs")?.input(0)? == b && is_zero(a)).then_some(b)
}

/// `x - λ` above `λ`, plus `x + λ` below `-λ`.
fn softshrink(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let side = |value, comparison, moved| {
        let chosen = once(view, value, "Where")?;
        let x = compared(view, chosen.input(0)?, comparison)?;
        let is_moved = view.made_by(chosen.input(1)?, moved)?.input(0)? == x;
        (is_moved && norms::is_constant(view, chosen.input(2)?, 0.0)).then_some(x)
    };
    let above = side(node.input(0)?, "Greater", "Sub")?;
    (side(node.input(1)?, "Less", "Add")? == above).then_some(above)
}

/// `x - λ · sign(x)` where its size is above `λ`, else `0 · x`.
fn signed_softshrink(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let (flags, moved, idle) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let x = view.made_by(compared(view, flags, "Greater")?, "Abs")?.input(0)?;
    let moved = view.made_by(moved, "Sub")?;
    let sign = beside_number(view, view.made_by(moved.input(1)?, "Mul")?)?;
    let is_signed = view.made_by(sign, "Sign")?.input(0)? == x && moved.input(0)? == x;
    let is_idle = beside_number(view, view.made_by(idle, "Mul")?)? == x;
    (is_signed && is_idle).then_some(x)
}

/// A number where `x` is not above another, else `x`.
fn threshold(view: &View<'_>, node: &Node) -> Option<ValueId> {
    let (flags, value, x) = (node.input(0)?, node.input(1)?, node.input(2)?);
    view.number(value)?;
    (compared(view, flags, "LessOrEqual")? == x && view.read_once(flags)).then_some(x)
}
