//! Normalisations as modules call them: without the constants that ONNX requires for a missing weight or bias.
//! Instance normalisation with statistics becomes one operator.

use super::View;
use crate::config::Config;
use crate::graph::{Elements, Node, NodeId, Value, ValueId};
use crate::sentence::Sentence;

/// Takes constant weights and biases away, and puts instance normalisations back.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let plain: Vec<(NodeId, Node)> =
        view.nodes().filter_map(|(at, node)| Some((at, without_constants(view, node)?))).collect();
    for (at, node) in plain {
        view.replace(at, node);
    }
    let whole: Vec<(NodeId, Node)> =
        view.nodes().filter_map(|(at, node)| Some((at, instance_norm(view, node)?))).collect();
    view.found_again(&Sentence::name("instance_norm"), whole.len());
    for (at, node) in whole {
        view.replace(at, node);
    }
}

/// A normalisation whose weight is one everywhere, or whose bias is zero everywhere, has none.
fn without_constants(view: &View<'_>, node: &Node) -> Option<Node> {
    let is_norm = matches!(
        node.op.as_str(),
        "BatchNormalization"
            | "InstanceNormalization"
            | "LayerNormalization"
            | "RMSNormalization"
            | "GroupNormalization"
    );
    let is_idle = |position: usize, number| {
        node.input(position).is_some_and(|value| is_constant(view, value, number))
    };
    // Statistics that are computed are those of the batch, and the kernel's own.
    let own = node.op == "BatchNormalization"
        && node.input(3).is_some_and(|mean| view.made_by(mean, "ReduceMean").is_some());
    let idle = [is_idle(1, 1.0), is_idle(2, 0.0), own, own];
    if !is_norm || idle == [false; 4] {
        return None;
    }
    let mut node = node.clone();
    for (input, idle) in node.inputs.iter_mut().skip(1).zip(idle) {
        if idle {
            *input = None;
        }
    }
    Some(node)
}

/// Whether a value is a constant of the code that is this number everywhere; one with many elements,
/// which are not kept, is taken to be.
pub(super) fn is_constant(view: &View<'_>, value: ValueId, number: f64) -> bool {
    let Some(known) = view.graph().value(value) else { return false };
    let literal = known.initializer.as_ref();
    if known.has_state_name() && literal.is_some() {
        return false;
    }
    let elements = view.typed.elements.get(value.0).and_then(Option::as_ref);
    match elements.or_else(|| literal?.elements.as_ref()) {
        Some(Elements::Floats(list)) => list.iter().all(|x| x.to_bits() == number.to_bits()),
        Some(Elements::Ints(list)) => {
            let is_it = |n: i32| f64::from(n).to_bits() == number.to_bits();
            list.iter().all(|&n| i32::try_from(n).is_ok_and(is_it))
        }
        None => literal.is_some() && is_in_code(known),
    }
}

/// Whether TorchScript's exporter wrote a value as a constant of the code.
fn is_in_code(value: &Value) -> bool {
    value.name.starts_with('/') && value.name.contains("/Constant")
}

/// `Reshape → BatchNormalization → Reshape` over one image with all channels of all images is an instance
/// norm that keeps statistics, which both exporters repeat.
fn instance_norm(view: &View<'_>, node: &Node) -> Option<Node> {
    // Of one image the exporter leaves the last `Reshape` out, and names the call.
    let is_call = node.origin.as_ref().is_some_and(|o| o.aten.starts_with("aten.instance_norm."));
    let norm = match node.op.as_str() {
        "BatchNormalization" if is_call => node,
        "Reshape" if node.domain.is_empty() => {
            view.made_by(node.input(0)?, "BatchNormalization")?
        }
        _ => return None,
    };
    let whole = norm.input(0)?;
    let x = view.made_by(whole, "Reshape")?.input(0)?;
    let (dims, whole_dims) = (view.dims(x)?, view.dims(whole)?);
    let (batch, rest) = dims.split_first()?;
    let channels = rest.first()?;
    let is_one_image = whole_dims.split_first()? == (&1, whole_dims.get(1..)?)
        && *whole_dims.get(1)? == batch.checked_mul(*channels)?
        && whole_dims.get(2..)? == rest.get(1..)?
        && view.dims(node.output(0)?)? == dims;
    let few = |position: usize| -> Option<Option<ValueId>> {
        let Some(repeated) = norm.input(position) else { return Some(None) };
        let tiles = |node: &&Node| matches!(node.op.as_str(), "repeat" | "Tile");
        let one = match view.producer(repeated).filter(tiles) {
            Some(tile) => {
                let expanded = tile.input(0)?;
                view.made_by(expanded, "Expand").map_or(Some(expanded), |node| node.input(0))
            }
            None => (view.dims(repeated)? == [*channels]).then_some(repeated),
        }?;
        // One and zero, in place of a weight and a bias.
        let idle = [None, Some(1.0), Some(0.0)].get(position).copied().flatten();
        Some(Some(one).filter(|&one| !idle.is_some_and(|n| is_constant(view, one, n))))
    };
    let mut found = node.clone();
    "InstanceNormalization".clone_into(&mut found.op);
    found.inputs = vec![Some(x), few(1)?, few(2)?, few(3)?, few(4)?];
    found.module.clone_from(&norm.module);
    is_one_image.then_some(found)
}
