//! Activations that overwrite their input.
//!
//! No exporter keeps the flag. In convolutional networks the convention of torchvision is assumed: an activation
//! directly after a convolution, a normalisation or a residual sum overwrites its input. Exceptions are the `ReLU`
//! of a squeeze, whose class uses plain `nn.ReLU` (`ops/misc.py`), and the last activation of some of timm's
//! blocks. The sum in front of a `ReLU` overwrites its normalised operand where a block calls the normalisation
//! itself (`out = self.bn3(out); out += identity`, `models/resnet.py`), not where that is inside of another module
//! (`self.proj(x) + self.f(x)`, `models/regnet.py`). Saved tensors have the same size either way, except for leaky
//! rectifiers; only short-lived tensors differ.

use super::View;
use super::dropout::{has_module, is_one_of};
use crate::bytes::Bytes;
use crate::config::{Config, InPlace};
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// What one of torchvision's models overwrites that no convention tells.
#[derive(Clone, Copy, Debug)]
struct Habit {
    /// Path of a module with a parameter that tells the model.
    tells: &'static str,
    /// Path of a dropout that overwrites its input; the other models have `nn.Dropout(p)`.
    dropout: &'static [&'static str],
    /// Path of the blocks whose residual sum is `result += input`.
    sums: &'static [&'static str],
}

/// `models/convnext.py`, `efficientnet.py`, `mnasnet.py`, `mobilenetv3.py`.
const HABITS: [Habit; 4] = [
    Habit { tells: "features.#.#.block.#", dropout: &[], sums: &["features.#.#"] },
    Habit {
        tells: "features.#.#.block.#.fc1",
        dropout: &["classifier.0"],
        sums: &["features.#.#"],
    },
    Habit { tells: "layers.#.#.layers.#", dropout: &["classifier.0"], sums: &[] },
    Habit { tells: "features.#.block.#.fc1", dropout: &["classifier.2"], sums: &["features.#"] },
];

/// Modules of torchvision's Inception models, which overwrite with `F.relu(x, inplace=True)`.
const OVERWRITTEN: [&str; 2] = ["Mixed_5b.branch1x1.conv", "inception3a.branch1.conv"];

/// Activations that torchvision's models overwrite with.
pub(super) const ACTIVATIONS: [&str; 5] = ["Relu", "Clip", "HardSwish", "LeakyRelu", "Silu"];

/// The others whose modules have the flag.
const FLAGGED: [&str; 7] =
    ["Celu", "Elu", "HardSigmoid", "Mish", "Selu", "ThresholdedRelu", "rrelu"];

/// The habits of one model.
#[derive(Debug)]
struct Habits {
    known: Vec<&'static Habit>,
    /// Whether functions that the model calls overwrite as well: [`OVERWRITTEN`].
    of_functions: bool,
}

impl Habits {
    fn of(view: &View<'_>) -> Self {
        Self {
            known: HABITS.iter().filter(|habit| has_module(view, habit.tells)).collect(),
            of_functions: OVERWRITTEN.iter().any(|path| has_module(view, path)),
        }
    }
}

/// Marks the nodes that overwrite their first input.
pub(super) fn assume(view: &mut View<'_>, config: &Config) {
    let convolves = view.nodes().any(|(_, node)| node.op == "Conv");
    if config.in_place == InPlace::Auto && !convolves {
        return;
    }
    let habits = Habits::of(view);
    let is_marked = |node: &Node| match config.in_place {
        InPlace::Off => false,
        InPlace::On => ACTIVATIONS.iter().chain(&FLAGGED).any(|op| *op == node.op),
        InPlace::Auto => overwrites(view, node, &habits),
    };
    let marked: Vec<NodeId> =
        view.nodes().filter(|(_, node)| is_marked(node)).map(|(at, _)| at).collect();
    if config.in_place != InPlace::Auto {
        // The user knows.
        view.reason = None;
    }
    let count = marked.len();
    let leaky = marked.iter().filter_map(|at| view.node(*at)).filter(|node| node.op == "LeakyRelu");
    let kept = leaky.filter_map(|node| Some(view.typed.ty(node.input(0)?)?.size()));
    let kept: Vec<Bytes> = kept.collect();
    for at in marked {
        let Some(mut node) = view.node(at).cloned() else { continue };
        node.attributes.insert("in_place".to_owned(), Attribute::Int(1));
        view.replace(at, node);
    }
    if count > 0 && config.in_place == InPlace::Auto {
        let message = say!(
            "{count} activations, sums and dropouts are assumed to overwrite their input, as in \
             torchvision's models; no export records this",
            count
        );
        view.say(Severity::Info, "assumed-in-place", message);
        warn(view, &kept);
    }
}

/// `LeakyReLU` saves its result where it overwrites its input, else its input, which the
/// normalisation before it does not need: there the flag decides what lives until backward, and
/// libraries differ in it.
fn warn(view: &View<'_>, kept: &[Bytes]) {
    let all: Bytes = kept.iter().copied().sum();
    if all > Bytes::ZERO {
        let message = say!(
            "{n} of them are leaky rectifiers, for which libraries differ: those that do not overwrite \
             their input keep up to {all} more until backward. If the model has no `inplace=True`, set \
             in-place to off",
            n = kept.len(),
            all
        );
        view.say(Severity::Warning, "assumed-in-place-leaky", message);
    }
}

/// In a program the nodes say it; the user may want it everywhere, or nowhere.
pub(super) fn obey(view: &mut View<'_>, config: &Config) {
    if config.in_place == InPlace::On {
        return assume(view, config);
    }
    if config.in_place == InPlace::Auto {
        return;
    }
    let marked = |node: &Node| node.attributes.contains_key("in_place");
    let marked: Vec<NodeId> =
        view.nodes().filter(|(_, node)| marked(node)).map(|(at, _)| at).collect();
    for at in marked {
        let Some(mut node) = view.node(at).cloned() else { continue };
        node.attributes.remove("in_place");
        view.replace(at, node);
    }
}

/// Whether a node overwrites its first input, in a model of these habits.
fn overwrites(view: &View<'_>, node: &Node, habits: &Habits) -> bool {
    let Some(input) = node.input(0) else { return false };
    let is_habit = |places: fn(&Habit) -> &'static [&'static str]| {
        habits.known.iter().any(|habit| is_one_of(&node.module, places(habit)))
    };
    if node.op == "Dropout" {
        return view.read_once(input) && is_habit(|habit| habit.dropout);
    }
    if node.op == "Add" && view.read_once(input) && is_habit(|habit| habit.sums) {
        return true;
    }
    let behind = |op| view.made_by(input, op).is_some() && view.read_once(input);
    if node.op == "Relu" && squeezes(view, input) || ends_timm_block(view, node, input) {
        return false;
    }
    if ACTIVATIONS.contains(&node.op.as_str()) {
        return (habits.of_functions || !is_function(view, node, input))
            && (belongs_to_norm(view, node, input)
                || behind("Conv")
                || behind("BatchNormalization")
                || behind("Add"));
    }
    node.op == "Add"
        && behind("BatchNormalization")
        && view.made_by(input, "BatchNormalization").is_some_and(|norm| calls(node, norm))
        && feeds_relu(view, node)
}

/// Whether an activation is a function that a block calls on the result of one of its layers, or on a
/// sum: `F.relu(self.bn(x))`, which overwrites nothing by default. Two of torchvision's models ask for it
/// (`models/inception.py`, `googlenet.py`).
fn is_function(view: &View<'_>, node: &Node, input: ValueId) -> bool {
    let Some(made) = view.producer(input).filter(|made| !made.module.is_empty()) else {
        return false;
    };
    if made.op == "Add" { made.module == node.module } else { calls(node, made) }
}

/// Whether a convolution of pooled maps made it.
fn squeezes(view: &View<'_>, value: ValueId) -> bool {
    let pooled = view.made_by(value, "Conv").and_then(|conv| conv.input(0));
    pooled.is_some_and(|pooled| view.made_by(pooled, "GlobalAveragePool").is_some())
}

/// Whether an activation is part of the normalisation before it, as in timm's `GroupNormAct` and
/// `LayerNormAct` (`layers/norm_act.py`), which make it with the flag.
fn belongs_to_norm(view: &View<'_>, node: &Node, input: ValueId) -> bool {
    let Some(norm) = node.module.strip_suffix(".act") else { return false };
    view.read_once(input)
        && view.producer(input).is_some_and(|made| made.module == norm && made.op.contains("Norm"))
}

/// Whether a node is the last activation of a block whose convolutions bring their normalisation
/// (`conv3.conv`, `conv3.bn`, then `act3` behind the sum): timm makes it without the flag
/// (`act_layer()` in `models/regnet.py`, `create_act_layer` in `models/cspnet.py`).
fn ends_timm_block(view: &View<'_>, node: &Node, input: ValueId) -> bool {
    let Some(block) = node.module.strip_suffix("act3") else { return false };
    let Some(sum) = view.made_by(input, "Add") else { return false };
    sum.inputs.iter().flatten().any(|&operand| {
        view.made_by(operand, "BatchNormalization")
            .and_then(|norm| norm.module.strip_prefix(block))
            .is_some_and(|rest| rest == "conv3.bn")
    })
}

/// Whether the module that a node is in calls the other node's module; assumed where the file does
/// not tell.
fn calls(node: &Node, other: &Node) -> bool {
    let parent = other.module.rsplit_once('.').map_or("", |(parent, _)| parent);
    other.module.is_empty() || parent == node.module
}

fn feeds_relu(view: &View<'_>, node: &Node) -> bool {
    let Some(output) = node.output(0) else { return false };
    let is_relu = |reader: &Node| reader.op == "Relu" && reader.input(0) == Some(output);
    let mut readers = view.readers(output).iter().filter_map(|at| view.node(*at));
    view.read_once(output) && readers.any(is_relu)
}
