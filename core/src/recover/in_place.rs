//! Activations that overwrite their input.
//!
//! No exporter keeps the flag. In convolutional nets the convention of torchvision is assumed:
//! an activation right behind a convolution, a normalisation or a residual sum overwrites it, but
//! for the `ReLU` of a squeeze, whose class leaves `nn.ReLU` as it is (`ops/misc.py`). The sum in front
//! of a `ReLU` overwrites its normalised operand where a block calls the normalisation itself
//! (`out = self.bn3(out); out += identity`, `models/resnet.py`), not where that is inside of
//! another module (`self.proj(x) + self.f(x)`, `models/regnet.py`). What is saved is the same size
//! either way; what differs is what is alive for a moment.

use super::View;
use super::dropout::has_module;
use crate::config::{Config, InPlace};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// Heads of torchvision's models whose dropout overwrites its input: a module's path with a parameter
/// that tells the model, and the dropout's own (`models/efficientnet.py`, `mobilenetv3.py`,
/// `mnasnet.py`). Its other models have `nn.Dropout(p)`.
const DROPOUTS: [(&str, &str); 3] = [
    ("features.#.#.block.#.fc1", "classifier.0"),
    ("features.#.block.#.fc1", "classifier.2"),
    ("layers.#.#.layers.#", "classifier.0"),
];

const ACTIVATIONS: [&str; 5] = ["Relu", "Clip", "HardSwish", "LeakyRelu", "Silu"];

/// Marks the nodes that overwrite their first input.
pub(super) fn assume(view: &mut View<'_>, config: &Config) {
    if view.graph().exact {
        return obey(view, config.in_place);
    }
    let is_marked = |node: &Node| match config.in_place {
        InPlace::Off => false,
        InPlace::On => ACTIVATIONS.contains(&node.op.as_str()),
        InPlace::Auto => overwrites(view, node),
    };
    let convolves = view.nodes().any(|(_, node)| node.op == "Conv");
    if config.in_place == InPlace::Auto && !convolves {
        return;
    }
    let marked: Vec<NodeId> =
        view.nodes().filter(|(_, node)| is_marked(node)).map(|(at, _)| at).collect();
    let count = marked.len();
    for at in marked {
        let Some(mut node) = view.node(at).cloned() else { continue };
        node.attributes.insert("in_place".to_owned(), Attribute::Int(1));
        view.replace(at, node);
    }
    if count > 0 && config.in_place == InPlace::Auto {
        let message = format!(
            "{count} activations, sums and dropouts are taken to overwrite their input, as in \
             torchvision's models; no exporter tells"
        );
        view.say(Severity::Info, "assumed-in-place", message);
    }
}

/// What the file marks stays as it is, unless the user wants it otherwise.
fn obey(view: &mut View<'_>, in_place: InPlace) {
    let marks = |node: &Node| match in_place {
        InPlace::Auto => None,
        InPlace::On => ACTIVATIONS.contains(&node.op.as_str()).then_some(true),
        InPlace::Off => node.attributes.contains_key("in_place").then_some(false),
    };
    let changed: Vec<(NodeId, bool)> =
        view.nodes().filter_map(|(at, node)| Some((at, marks(node)?))).collect();
    for (at, mark) in changed {
        let Some(mut node) = view.node(at).cloned() else { continue };
        if mark {
            node.attributes.insert("in_place".to_owned(), Attribute::Int(1));
        } else {
            node.attributes.remove("in_place");
        }
        view.replace(at, node);
    }
}

fn overwrites(view: &View<'_>, node: &Node) -> bool {
    let Some(input) = node.input(0) else { return false };
    if node.op == "Dropout" {
        let is_head =
            |&(tells, head): &(&str, &str)| head == node.module && has_module(view, tells);
        return view.read_once(input) && DROPOUTS.iter().any(is_head);
    }
    let behind = |op| view.made_by(input, op).is_some() && view.read_once(input);
    if node.op == "Relu" && squeezes(view, input) {
        return false;
    }
    if ACTIVATIONS.contains(&node.op.as_str()) {
        return behind("Conv") || behind("BatchNormalization") || behind("Add");
    }
    node.op == "Add"
        && behind("BatchNormalization")
        && view.made_by(input, "BatchNormalization").is_some_and(|norm| calls(node, norm))
        && feeds_relu(view, node)
}

/// Whether a convolution of pooled maps made it.
fn squeezes(view: &View<'_>, value: ValueId) -> bool {
    let pooled = view.made_by(value, "Conv").and_then(|conv| conv.input(0));
    pooled.is_some_and(|pooled| view.made_by(pooled, "GlobalAveragePool").is_some())
}

/// Whether the module that a node is in calls the other node's module; assumed where the file does
/// not tell.
fn calls(node: &Node, other: &Node) -> bool {
    let parent = other.module.rsplit_once('.').map_or("", |(parent, _)| parent);
    other.module.is_empty() || parent == node.module
}

fn feeds_relu(view: &View<'_>, node: &Node) -> bool {
    let Some(output) = node.output(0) else { return false };
    let reads = |reader: &Node, value: ValueId| reader.input(0) == Some(value);
    view.read_once(output)
        && view.nodes().any(|(_, reader)| reader.op == "Relu" && reads(reader, output))
}
