//! One step of a recurrent network: `nn.RNNCell`, `nn.LSTMCell`, `nn.GRUCell`.
//!
//! On a GPU the last two are two products and one kernel (`native/RNN.cpp`); exporters write the arithmetic. A
//! cell that a model spells out itself runs as it is spelled. So modules are recognised by the names of their
//! parameters.

use super::View;
use super::patterns::torch;
use crate::config::Config;
use crate::graph::{Attribute, Node, NodeId, ValueId};

/// Puts cells back.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    let mut replaced: Vec<(NodeId, Node)> = Vec::new();
    let mut count = 0;
    let ids: Vec<(NodeId, Node)> = view.nodes().map(|(at, node)| (at, node.clone())).collect();
    for (at, node) in ids {
        let found = plain(view, &node)
            .map(|cell| vec![(at, cell)])
            .or_else(|| gru(view, &node).map(|cell| vec![(at, cell)]))
            .or_else(|| lstm(view, at, &node));
        if let Some(found) = found {
            count += 1;
            replaced.extend(found);
        }
    }
    for (at, node) in replaced {
        view.replace(at, node);
    }
    view.found_again(&say!("the cell of a recurrent network"), count);
}

/// A product with a parameter of this name: what is multiplied, the weight, and the bias.
fn product(view: &View<'_>, value: ValueId, name: &str) -> Option<[Option<ValueId>; 3]> {
    let node = view.producer(value)?;
    let (x, mut weight, bias) = (node.input(0)?, node.input(1)?, node.input(2));
    match node.op.as_str() {
        "Gemm" if node.int("transB") == Some(1) => {}
        "MatMul" => weight = view.made_by(weight, "Transpose")?.input(0)?,
        _ => return None,
    }
    let is_named = view.graph().value_name(weight).ends_with(name) && view.is_initializer(weight);
    is_named.then_some([Some(x), Some(weight), bias])
}

/// Inputs of a cell: the input, the states, both weights, both biases.
fn inputs(
    of_input: [Option<ValueId>; 3],
    of_state: [Option<ValueId>; 3],
    cell: Option<ValueId>,
) -> Vec<Option<ValueId>> {
    let ([x, w, b], [h, r, c]) = (of_input, of_state);
    vec![x, h, cell, w, r, b, c]
}

/// `tanh(R h + W x)`, or `relu`.
fn plain(view: &View<'_>, node: &Node) -> Option<Node> {
    if !matches!(node.op.as_str(), "Tanh" | "Relu") || !node.domain.is_empty() {
        return None;
    }
    let sum = view.made_by(node.input(0)?, "Add").filter(|sum| sum.outputs.len() == 1)?;
    let of_state = product(view, sum.input(0)?, "weight_hh")?;
    let of_input = product(view, sum.input(1)?, "weight_ih")?;
    let mut found = torch("RnnCell", node, inputs(of_input, of_state, None));
    let cuts = i64::from(node.op == "Relu");
    found.attributes.insert("relu".to_owned(), Attribute::Int(cuts));
    Some(found)
}

/// One of the parts that a product is split into.
fn gate(view: &View<'_>, value: ValueId) -> Option<ValueId> {
    view.made_by(value, "Split")?.input(0)
}

/// `(h - n) · z + n`.
fn gru(view: &View<'_>, node: &Node) -> Option<Node> {
    if node.op != "Add" || !node.domain.is_empty() {
        return None;
    }
    let (kept, new) = (node.input(0)?, node.input(1)?);
    let sum = view.made_by(view.made_by(new, "Tanh")?.input(0)?, "Add")?;
    let (of_input, reset) = (sum.input(0)?, view.made_by(sum.input(1)?, "Mul")?);
    let of_input = product(view, gate(view, of_input)?, "weight_ih")?;
    let of_state = reset.inputs.iter().flatten().find_map(|&part| gate(view, part))?;
    let of_state = product(view, of_state, "weight_hh")?;
    let difference = view.made_by(view.made_by(kept, "Mul")?.input(0)?, "Sub")?;
    let is_step = difference.input(0) == of_state[0] && difference.input(1) == Some(new);
    is_step.then(|| torch("GruCell", node, inputs(of_input, of_state, None)))
}

/// `o · tanh(f · c + i · g)`, which gives the new state, and the sum, which is the new cell.
fn lstm(view: &View<'_>, at: NodeId, node: &Node) -> Option<Vec<(NodeId, Node)>> {
    if node.op != "Add" || !node.domain.is_empty() {
        return None;
    }
    let cell = node.output(0)?;
    let forgotten = view.made_by(node.input(0)?, "Mul")?;
    let gates = gate(view, view.made_by(forgotten.input(0)?, "Sigmoid")?.input(0)?)?;
    let before = forgotten.input(1)?;
    let sum = view.made_by(gates, "Add")?;
    let of_state = product(view, sum.input(0)?, "weight_hh")?;
    let of_input = product(view, sum.input(1)?, "weight_ih")?;
    let readers = view.readers(cell).iter().filter_map(|at| view.node(*at));
    let curve = readers.into_iter().find(|node| node.op == "Tanh")?.output(0)?;
    let (last, state) = view.readers(curve).iter().find_map(|&at| Some((at, view.node(at)?)))?;
    if state.op != "Mul" {
        return None;
    }
    let mut found = torch("LstmCell", node, inputs(of_input, of_state, Some(before)));
    found.outputs = vec![state.output(0), Some(cell)];
    let gone = Node { outputs: Vec::new(), inputs: Vec::new(), ..state.clone() };
    Some(vec![(at, found), (last, gone)])
}
