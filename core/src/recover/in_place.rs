//! Activations that overwrite their input.
//!
//! No exporter keeps the flag. In convolutional nets the convention of torchvision is assumed:
//! an activation right behind a convolution, a normalisation or a residual sum overwrites it, and
//! the sum in front of such a `ReLU` overwrites its normalised operand (`out += identity`). What is
//! saved is the same size either way; what differs is what is alive for a moment.

use super::View;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{Attribute, Node, NodeId, ValueId};

const ACTIVATIONS: [&str; 5] = ["Relu", "Clip", "HardSwish", "LeakyRelu", "Silu"];

/// Nodes that overwrite their first input, marked so.
pub(super) fn find(view: &View<'_>) -> Vec<(NodeId, Node)> {
    if !view.nodes().any(|(_, node)| node.op == "Conv") {
        return Vec::new();
    }
    let mut marked = Vec::new();
    for (at, node) in view.nodes() {
        if overwrites(view, node) {
            let mut node = node.clone();
            node.attributes.insert("in_place".to_owned(), Attribute::Int(1));
            marked.push((at, node));
        }
    }
    marked
}

fn overwrites(view: &View<'_>, node: &Node) -> bool {
    let Some(input) = node.input(0) else { return false };
    let behind = |op| view.made_by(input, op).is_some() && view.read_once(input);
    if ACTIVATIONS.contains(&node.op.as_str()) {
        return behind("Conv") || behind("BatchNormalization") || behind("Add");
    }
    node.op == "Add" && behind("BatchNormalization") && feeds_relu(view, node)
}

fn feeds_relu(view: &View<'_>, node: &Node) -> bool {
    let Some(output) = node.output(0) else { return false };
    let reads = |reader: &Node, value: ValueId| reader.input(0) == Some(value);
    view.read_once(output)
        && view.nodes().any(|(_, reader)| reader.op == "Relu" && reads(reader, output))
}

pub(super) fn diagnostic(count: usize) -> Diagnostic {
    let message = format!(
        "{count} activations and sums behind convolutions and normalisations are taken to overwrite \
         their input, as in torchvision's models; no exporter tells"
    );
    Diagnostic::new(Severity::Info, "assumed-in-place", message)
}
