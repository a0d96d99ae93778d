//! `nn.RNN`, `nn.LSTM` and `nn.GRU`. TorchScript's exporter writes each layer as an operator, and changes the
//! order of the gates in its weights (`symbolic_opset9.py`, `_generic_rnn`). cuDNN runs all layers in one call.

use super::View;
use super::calls::Noted;
use super::patterns::torch;
use super::weights::is_folded;
use crate::config::{Config, Dropout};
use crate::decimal;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// A layer: its node, what it reads and what it makes in the module's shape.
struct Layer {
    at: NodeId,
    x: ValueId,
    y: ValueId,
    /// The node that makes that shape.
    shaper: NodeId,
}

/// Puts modules back.
pub(super) fn find_again(view: &mut View<'_>, config: &Config) {
    let layers: Vec<Layer> = view.nodes().filter_map(|(at, node)| layer(view, at, node)).collect();
    let mut modules: Vec<Vec<Layer>> = Vec::new();
    for layer in layers {
        let continues = |module: &&mut Vec<Layer>| {
            module.last().is_some_and(|last| {
                let (a, b) = (view.node(last.at), view.node(layer.at));
                let alike = |(a, b): (&Node, &Node)| {
                    a.op == b.op && a.module == b.module && a.input(1) != b.input(1)
                };
                last.y == layer.x && a.zip(b).is_some_and(alike)
            })
        };
        // The layer before is the one that was met last, if there is one.
        match modules.last_mut().filter(continues) {
            Some(module) => module.push(layer),
            None => modules.push(vec![layer]),
        }
    }
    let mut count = 0;
    for module in modules {
        count += usize::from(join(view, &module, config).is_some());
    }
    view.found_again(&say!("a recurrent module"), count);
}

/// A node that is a layer.
fn layer(view: &View<'_>, at: NodeId, node: &Node) -> Option<Layer> {
    let is_layer = matches!(node.op.as_str(), "GRU" | "LSTM" | "RNN")
        && node.domain.is_empty()
        && node.int("layout").unwrap_or(0) == 0
        && node.input(4).is_none();
    let (x, mut shaper) =
        (node.input(0).filter(|_| is_layer)?, only_reader(view, node.output(0)?)?);
    if view.node(shaper)?.op == "Transpose" {
        shaper = only_reader(view, view.node(shaper)?.output(0)?)?;
    }
    let shapes = matches!(view.node(shaper)?.op.as_str(), "Squeeze" | "Reshape");
    let y = view.node(shaper)?.output(0).filter(|_| shapes)?;
    Some(Layer { at, x, y, shaper })
}

/// The node that alone needs the elements of a value.
fn only_reader(view: &View<'_>, value: ValueId) -> Option<NodeId> {
    let needs = |at: &&NodeId| view.node(**at).is_some_and(|node| node.op != "Shape");
    let mut readers = view.readers(value).iter().filter(needs);
    readers.next().copied().filter(|_| readers.next().is_none())
}

/// One node in place of the last layer's.
fn join(view: &mut View<'_>, layers: &[Layer], config: &Config) -> Option<()> {
    let (first, last) = (layers.first()?, layers.last()?);
    let node = view.node(last.at)?.clone();
    let &[directions, _, hidden] = view.dims(node.input(2)?)? else { return None };
    let kinds = if node.op == "LSTM" { 2 } else { 1 };
    let mut gone = vec![last.shaper];
    let mut outputs = vec![Some(last.y)];
    let mut states = Vec::new();
    for kind in 1..=kinds {
        let (whole, maker) = last_states(view, layers, kind)?;
        outputs.push(whole);
        gone.extend(maker);
        states.extend(first_state(view, first, layers.len(), kind + 4));
    }
    if !states.is_empty() && states.len() != kinds {
        return None;
    }
    let turned = |node: &Node| node.op == "Transpose" && node.ints("perm") == Some(&[1, 0, 2]);
    let (mut x, mut batch_first) = (first.x, false);
    let before =
        view.producer(first.x).filter(|before| turned(before) && before.module == node.module);
    let behind = only_reader(view, last.y).filter(|at| {
        view.node(*at).is_some_and(|behind| turned(behind) && behind.module == node.module)
    });
    if let (Some(before), Some(at)) = (before.and_then(|before| before.input(0)), behind) {
        (x, batch_first) = (before, true);
        gone.push(at);
        outputs =
            [view.node(at)?.output(0)].into_iter().chain(outputs.into_iter().skip(1)).collect();
    }
    let mut weights = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        weights.extend(
            named(view, layer, directions).or_else(|| folded(view, layer, at, directions))?,
        );
    }
    let given = states.len();
    let inputs = [vec![x], states, weights].concat().into_iter().map(Some).collect();
    let mut whole = torch("Recurrent", &node, inputs);
    whole.outputs = outputs;
    let int = |n: u64| i64::try_from(n).ok().map(Attribute::Int);
    let attributes = [
        ("cell", Attribute::String(node.op.to_ascii_lowercase())),
        ("hidden", int(hidden)?),
        ("layers", Attribute::Int(i64::try_from(layers.len()).ok()?)),
        ("directions", int(directions)?),
        ("states", Attribute::Int(i64::try_from(given).ok()?)),
        ("batch_first", Attribute::Int(i64::from(batch_first))),
        ("drops", Attribute::Int(i64::from(drops(&node, config)))),
    ];
    whole.attributes.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    view.replace(last.at, whole);
    for at in gone {
        let empty = Node { inputs: Vec::new(), outputs: Vec::new(), ..view.node(at)?.clone() };
        view.replace(at, empty);
    }
    Some(())
}

/// Whether there is dropout between layers: the call's arguments after the number of layers are `dropout, train`.
/// An export for inference is trained with it.
fn drops(node: &Node, config: &Config) -> bool {
    let call = node.origin.as_ref().and_then(|origin| Noted::parse(&origin.call));
    call.is_some_and(|call| match call.placed.get(5..7) {
        Some([dropout, train]) => {
            let runs = *train == "True" || config.drops() != Dropout::Off;
            runs && decimal::number(dropout).is_some_and(|p| p > 0.0)
        }
        _ => false,
    })
}

/// The last states of all layers, and what joins them, if several do.
fn last_states(
    view: &View<'_>,
    layers: &[Layer],
    position: usize,
) -> Option<(Option<ValueId>, Option<NodeId>)> {
    let each: Vec<Option<ValueId>> =
        layers.iter().map(|layer| view.node(layer.at)?.output(position)).collect();
    let one = each.first()?.filter(|state| !view.readers(*state).is_empty());
    let Some(one) = one else { return Some((None, None)) };
    if layers.len() == 1 {
        return Some((Some(one), None));
    }
    let at = only_reader(view, one)?;
    let joiner = view.node(at).filter(|node| node.op == "Concat" && node.inputs == each)?;
    Some((Some(joiner.output(0)?), Some(at)))
}

/// The first states of all layers, where they are given.
fn first_state(view: &View<'_>, layer: &Layer, layers: usize, position: usize) -> Option<ValueId> {
    let mut state = view.node(layer.at)?.input(position)?;
    if layers > 1 {
        state = view.made_by(state, "Slice")?.input(0)?;
    }
    let mut root = state;
    while let Some(node) = view.producer(root).filter(|node| {
        matches!(node.op.as_str(), "ConstantOfShape" | "Expand" | "Slice" | "Unsqueeze")
    }) {
        if node.op == "ConstantOfShape" {
            return None;
        }
        root = node.input(0)?;
    }
    let is_zeros = view.graph().value(root).is_some_and(|root| {
        root.initializer.is_some() && (!root.has_state_name() || is_folded(view, state))
    });
    (!is_zeros).then_some(state)
}

/// Weights and biases of a layer by direction, as the module has them.
fn named(view: &View<'_>, layer: &Layer, directions: u64) -> Option<Vec<ValueId>> {
    let node = view.node(layer.at)?;
    let directions = usize::try_from(directions).ok()?;
    let parts = |position: usize| {
        let mut found = Vec::new();
        let mut open: Vec<ValueId> = node.input(position).into_iter().collect();
        while let Some(value) = open.pop() {
            match view.producer(value) {
                Some(node) if node.op == "Concat" => {
                    open.extend(node.inputs.iter().flatten().rev());
                }
                Some(node) => open.extend(node.input(0)),
                None if found.last() != Some(&value) => found.push(value),
                None => {}
            }
        }
        found
    };
    let [of_input, of_state, biases] = [1, 2, 3].map(parts);
    let each = biases.len().checked_div(directions)?;
    let is_stored = |&value: &ValueId| view.is_initializer(value) && !is_folded(view, value);
    let fits = of_input.len() == directions
        && of_state.len() == directions
        && of_input.iter().chain(&of_state).chain(&biases).all(is_stored);
    let of_direction = |at: usize| {
        let own = biases.iter().skip(at * each).take(each);
        let matrices = [of_input.get(at), of_state.get(at)].into_iter().flatten();
        matrices.chain(own).copied().collect::<Vec<_>>()
    };
    fits.then(|| (0..directions).flat_map(of_direction).collect())
}

/// The same where constant folding joined them.
fn folded(
    view: &mut View<'_>,
    layer: &Layer,
    number: usize,
    directions: u64,
) -> Option<Vec<ValueId>> {
    let node = view.node(layer.at)?.clone();
    let (w, r, b) = (node.input(1)?, node.input(2)?, node.input(3));
    let are_folded = [Some(w), Some(r), b].into_iter().flatten().all(|part| is_folded(view, part));
    let dtype = view.typed.ty(w).filter(|_| are_folded)?.dtype;
    let (of_input, of_state) = (view.dims(w)?.get(1..)?.to_vec(), view.dims(r)?.get(1..)?.to_vec());
    let rows = of_input.get(..1)?.to_vec();
    let mut found = Vec::new();
    for direction in 0..directions {
        let end = if direction == 0 { "" } else { "_reverse" };
        let start =
            if node.module.is_empty() { String::new() } else { format!("{}.", node.module) };
        let mut state = |kind: &str, dims: &[u64]| {
            view.add_state(format!("{start}{kind}_l{number}{end}"), dtype, dims.to_vec())
        };
        found.extend([state("weight_ih", &of_input), state("weight_hh", &of_state)]);
        if b.is_some() {
            found.extend([state("bias_ih", &rows), state("bias_hh", &rows)]);
        }
    }
    Some(found)
}
