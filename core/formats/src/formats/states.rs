//! Models of which only the state is known: parameters, their gradients, the optimizer's state.
//!
//! One node, `torch.States`, stands for the model: it makes a number whose backward gives every
//! parameter a gradient.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::graph::{Graph, Level, Literal, Member, Node, Value, ValueId};
use crate::tensor::DType;

/// A tensor of a model's state.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<u64>,
    /// Whether it is a parameter.
    pub(super) is_trained: bool,
}

/// The program of nothing but this state.
///
/// # Errors
/// When a tensor has no name, or none is trained.
pub(super) fn program(states: Vec<State>) -> Result<Graph, Error> {
    let mut graph = Graph { level: Level::Trace, opset: 20, ..Graph::default() };
    let (mut inputs, mut buffers) = (Vec::new(), Vec::new());
    let mut result = "states".to_owned();
    for State { name, dtype, dims, is_trained } in states {
        if name.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidGraph,
                say!("a tensor of the file has no name"),
            ));
        }
        if name.starts_with(&result) {
            result = format!("{name}/states");
        }
        let id = ValueId(graph.values.len());
        if is_trained {
            inputs.push(Some(id));
            graph.members.push((name.clone(), Member::Parameter));
        } else {
            buffers.push((name.clone(), Member::Buffer));
        }
        let initializer = Some(Literal { dtype, dims, elements: None });
        graph.values.push(Value { name, declared: None, initializer });
    }
    if inputs.is_empty() {
        let message = say!("the file has no floating-point tensor, so there is nothing to train");
        return Err(Error::new(ErrorKind::NoGraph, message));
    }
    graph.members.append(&mut buffers);
    let output = ValueId(graph.values.len());
    graph.values.push(Value { name: result, ..Value::default() });
    graph.nodes.push(Arc::new(Node {
        name: "states".to_owned(),
        op: "States".to_owned(),
        domain: "torch".to_owned(),
        inputs,
        outputs: vec![Some(output)],
        ..Node::default()
    }));
    graph.outputs.push(output);
    Ok(graph)
}

/// The state of a program, which lists it, and no more than a run surely has: a matrix as large as an
/// embedding's table may be the table itself, as heads and the second half of translators share it.
///
/// # Errors
/// As [`program`].
pub(super) fn only(graph: &Graph) -> Result<Graph, Error> {
    let is_lookup = |node: &&Arc<Node>| node.op == "Gather" || node.op == "Embedding";
    let tables = graph.nodes.iter().filter(is_lookup).filter_map(|node| node.input(0));
    let dims = |id: ValueId| Some(graph.value(id)?.initializer.as_ref()?.dims.as_slice());
    let tables: BTreeSet<&[u64]> = tables.filter_map(dims).into_set();
    let mut counted: BTreeSet<&[u64]> = BTreeSet::new();
    let members = graph.members_by_name();
    let mut states = Vec::new();
    for value in &graph.values {
        let Some((literal, &member)) = value.initializer.as_ref().zip(members.get(&value.name))
        else {
            continue;
        };
        let may_be_shared = tables.contains(literal.dims.as_slice());
        if may_be_shared && !counted.insert(&literal.dims) {
            continue;
        }
        states.push(State {
            name: value.name.clone(),
            dtype: literal.dtype,
            dims: literal.dims.clone(),
            is_trained: member == Member::Parameter && literal.dtype.is_floating(),
        });
    }
    let (name, producer) = (graph.name.clone(), graph.producer.clone());
    let diagnostics = graph.diagnostics.clone();
    Ok(Graph { name, producer, diagnostics, ..program(states)? })
}
