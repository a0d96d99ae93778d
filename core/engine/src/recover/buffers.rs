//! Buffers in files that do not tell them from parameters: those of the TorchScript exporter.
//!
//! It matters for tensors that meet the model's input before any layer (`(x - mean) / std`, the knots of a spline):
//! if they are trained, everything up to the first layer is kept for backward. Evidence, in this order:
//!
//! - the exporter writes the state of a module in the order of `state_dict()`: its parameters, its buffers, then its
//!   children (`nn.Module._save_to_state_dict`). What follows a buffer of the same module is one, and what stands
//!   before a layer's weight of the same module is none;
//! - a tensor that is compared with the input gets no gradient from that, so that nobody trains it;
//! - names that usual code gives to buffers.
//!
//! A tensor of the same last name is one of another module of the same class. What is left is assumed to be trained,
//! with a warning.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use super::View;
use crate::bytes::Bytes;
use crate::config::{Config, Recover};
use crate::diagnostic::Severity;
use crate::graph::{Node, Value, ValueId};
use crate::tensor::numel;

/// Operators of one element of each tensor.
const ELEMENTWISE: [&str; 18] = [
    "Abs",
    "Add",
    "Cast",
    "Clip",
    "Cos",
    "Div",
    "Exp",
    "Identity",
    "Log",
    "Mul",
    "Neg",
    "Pow",
    "Reciprocal",
    "Sin",
    "Sqrt",
    "Sub",
    "Tanh",
    "Where",
];

/// Those whose results have no gradient.
const COMPARISONS: [&str; 8] =
    ["And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"];

/// Operators that move elements of their first input.
const VIEWS: [&str; 8] =
    ["Expand", "Flatten", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"];

/// Last names of buffers: of standardisation in torchvision's, timm's and detectron2's code, of splines.
const NAMES: [&str; 7] =
    ["grid", "image_mean", "image_std", "mean", "pixel_mean", "pixel_std", "std"];

/// Last names of the buffers of PyTorch's own layers.
const STATISTICS: [&str; 3] = ["running_mean", "running_var", "num_batches_tracked"];

/// What a value is made of, by element-wise operators and views alone.
#[derive(Clone, Debug, Default)]
struct Made {
    /// Whether of the model's input, too.
    of_input: bool,
    /// State that may be trained or not.
    state: BTreeSet<ValueId>,
}

/// What is found out about such state.
#[derive(Debug, Default)]
struct Found {
    met: BTreeSet<ValueId>,
    compared: BTreeSet<ValueId>,
    /// SIZE: results that have a gradient only if it is trained.
    kept: Bytes,
}

/// State that is not trained.
pub(super) fn find(view: &View<'_>, config: &Config) -> BTreeSet<ValueId> {
    let graph = view.graph();
    let is_asked = config.recover == Recover::Auto && graph.members.is_empty();
    if !is_asked || !graph.producer.starts_with("pytorch") {
        return BTreeSet::new();
    }
    let found = look(view);
    if found.met.is_empty() {
        return BTreeSet::new();
    }
    let mut buffers: BTreeSet<ValueId> =
        found.compared.intersection(&found.met).copied().into_set();
    let order = Order::of(view);
    let named = |id: &ValueId| NAMES.contains(&leaf(graph.value_name(*id)));
    for &id in &found.met {
        if order.follows_buffer(view, id, &buffers)
            || named(&id) && !order.stands_before_weight(view, id)
        {
            buffers.insert(id);
        }
    }
    let leaves: BTreeSet<&str> = buffers.iter().map(|id| leaf(graph.value_name(*id))).into_set();
    let alike = (0..graph.values.len())
        .map(ValueId)
        .filter(|id| is_open(view, *id) && leaves.contains(leaf(graph.value_name(*id))));
    buffers.extend(alike);
    let doubtful = |id: &&ValueId| !buffers.contains(id) && !order.stands_before_weight(view, **id);
    let open: Vec<&str> =
        found.met.iter().filter(doubtful).map(|id| graph.value_name(*id)).collect();
    if let Some(first) = buffers.first() {
        let message = say!(
            "{count} tensors that meet the model's input are assumed to be buffers, the first is `{first}`: the file \
             does not tell buffers from parameters",
            count = buffers.len(),
            first = graph.value_name(*first)
        );
        view.say(Severity::Info, "assumed-buffers", message);
    }
    if let Some(first) = open.first() {
        let message = say!(
            "{count} tensors that meet the model's input before any layer are assumed to be trained, the first is \
             `{first}`: the file does not tell buffers from parameters. If they are buffers, the truth is lower, by up \
             to {kept} that backward keeps: freeze them (`{names}`) for that answer",
            count = open.len(),
            first,
            kept = found.kept,
            names = open.join("`, `")
        );
        view.say(Severity::Warning, "assumed-trained", message);
    }
    buffers
}

fn leaf(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Whether the file carries a tensor, in floating point, under a name of the module's state, and only operators that
/// may read either kind read it.
fn is_open(view: &View<'_>, id: ValueId) -> bool {
    let graph = view.graph();
    let is_state = graph.value(id).is_some_and(|value| {
        value.initializer.is_some()
            && value.has_state_name()
            && !STATISTICS.contains(&leaf(&value.name))
    });
    let reads = |node: &Node| {
        let op = node.op.as_str();
        node.domain.is_empty()
            && (ELEMENTWISE.contains(&op) || COMPARISONS.contains(&op) || VIEWS.contains(&op))
    };
    let readers = view.readers(id);
    is_state
        && graph.constants.binary_search(&id).is_err()
        && view.typed.ty(id).is_some_and(|ty| ty.dtype.is_floating() && numel(&ty.dims) > 1)
        && !readers.is_empty()
        && readers.iter().all(|at| view.node(*at).is_some_and(reads))
}

/// Follows the input and such state through element-wise operators.
fn look(view: &View<'_>) -> Found {
    let graph = view.graph();
    let mut made: BTreeMap<ValueId, Made> = BTreeMap::new();
    for &input in &graph.inputs {
        made.insert(input, Made { of_input: true, ..Made::default() });
    }
    for (at, value) in graph.values.iter().enumerate() {
        let id = ValueId(at);
        if is_open(view, id) {
            made.insert(id, Made { of_input: false, state: BTreeSet::from([id]) });
        } else if value.initializer.is_some() && is_constant(view, id, value) {
            made.insert(id, Made::default());
        }
    }
    let mut found = Found::default();
    for (_, node) in view.nodes().filter(|(_, node)| node.domain.is_empty()) {
        let op = node.op.as_str();
        let compares = COMPARISONS.contains(&op);
        let read = match op {
            _ if VIEWS.contains(&op) => node.inputs.get(..1),
            _ if compares || ELEMENTWISE.contains(&op) => node.inputs.get(..),
            _ => None,
        };
        let operands = read.into_iter().flatten().flatten().map(|id| made.get(id));
        let Some(operands) = operands.collect::<Option<Vec<&Made>>>().filter(|all| !all.is_empty())
        else {
            continue;
        };
        let of_input = operands.iter().any(|operand| operand.of_input);
        let meets = of_input.then(|| operands.iter().filter(|operand| !operand.of_input));
        let met: BTreeSet<ValueId> = meets
            .into_iter()
            .flatten()
            .flat_map(|operand| operand.state.iter().copied())
            .into_set();
        let state = operands.iter().flat_map(|operand| operand.state.iter().copied()).collect();
        found.met.extend(met.iter().copied());
        if compares {
            found.compared.extend(met);
        }
        let whole = Made { of_input, state };
        for &output in node.outputs.iter().flatten() {
            let ty = view.typed.ty(output).filter(|ty| ty.dtype.is_floating());
            if let Some(ty) =
                ty.filter(|_| of_input && !whole.state.is_empty() && !VIEWS.contains(&op))
            {
                found.kept += ty.size();
            }
            made.insert(output, whole.clone());
        }
    }
    found
}

/// Whether a tensor of the file is none that could be trained.
fn is_constant(view: &View<'_>, id: ValueId, value: &Value) -> bool {
    let is_small = view.typed.ty(id).is_none_or(|ty| !ty.dtype.is_floating() || ty.numel() <= 1);
    is_small || !value.has_state_name() || view.graph().constants.binary_search(&id).is_ok()
}

/// The state of each module, in the file's order.
#[derive(Debug)]
struct Order(BTreeMap<String, Vec<ValueId>>);

impl Order {
    fn of(view: &View<'_>) -> Self {
        let mut modules: BTreeMap<String, Vec<ValueId>> = BTreeMap::new();
        for (at, value) in view.graph().values.iter().enumerate() {
            if value.initializer.is_some() && value.has_state_name() {
                modules.entry(module(&value.name).to_owned()).or_default().push(ValueId(at));
            }
        }
        Self(modules)
    }

    /// What its module has before it and behind it.
    fn around(&self, view: &View<'_>, id: ValueId) -> (&[ValueId], &[ValueId]) {
        let own = self.0.get(module(view.graph().value_name(id))).map_or(&[][..], Vec::as_slice);
        let at = own.iter().position(|other| *other == id).unwrap_or(own.len());
        own.split_at_checked(at).unwrap_or_default()
    }

    fn follows_buffer(&self, view: &View<'_>, id: ValueId, known: &BTreeSet<ValueId>) -> bool {
        let is_buffer = |other: &ValueId| {
            let is_whole = view.typed.ty(*other).is_some_and(|ty| !ty.dtype.is_floating());
            known.contains(other)
                || is_whole
                || STATISTICS.contains(&leaf(view.graph().value_name(*other)))
        };
        self.around(view, id).0.iter().any(is_buffer)
    }

    fn stands_before_weight(&self, view: &View<'_>, id: ValueId) -> bool {
        let is_weight = |other: &ValueId| {
            let is_float = view.typed.ty(*other).is_some_and(|ty| ty.dtype.is_floating());
            let mut readers = view.readers(*other).iter().filter_map(|at| view.node(*at));
            is_float && readers.any(Node::multiplies)
        };
        self.around(view, id).1.iter().any(is_weight)
    }
}

fn module(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(module, _)| module)
}
