//! Tensors that no operator reads, and nodes whose results nobody uses.
//!
//! PyTorch's exporters remove both by default. The dynamo exporter without `optimize` and other tools leave them. A
//! module has its tensors on the device, read or not. So tensors with names of a module's state are counted, and
//! everything else is reported with its bytes.

use crate::order::IntoOrdered as _;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Diagnostics, QUANTIZED_WEIGHTS, Severity};
use crate::graph::{Graph, Node, Value, ValueId};
use crate::infer::Typed;
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

/// Code of the diagnostic that the headline repeats.
pub const UNUSED: &str = "unused";

/// What is unused becomes worth a word, or leaves the answer open, from this part of the rest: one in so many.
const PART: u64 = 16;

/// Counts unread state among the module's, and reports what is unused.
pub fn note(graph: &mut Arc<Graph>, typed: &Typed, trains: bool, sink: &Diagnostics) {
    sink.extend(quantized(graph, typed, trains));
    if graph.level.is_whole() {
        return;
    }
    let (is_read, dead) = read(graph);
    let size = |id: ValueId| typed.ty(id).map_or(Bytes::ZERO, TensorType::size);
    let members = graph.members_by_name();
    let (mut used, mut left_out, mut counted) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
    let (mut idle, mut other) = (Vec::new(), None);
    for (at, value) in graph.values.iter().enumerate() {
        let (id, is_float) =
            (ValueId(at), typed.ty(ValueId(at)).is_some_and(|ty| ty.dtype.is_floating()));
        if is_read.get(at).copied().unwrap_or(true) {
            used += size(id);
        } else if value.initializer.is_some() && graph.idle.binary_search(&id).is_err() {
            let is_member = members.contains_key(&value.name);
            let is_state = is_member || members.is_empty() && value.has_state_name() && is_float;
            if is_state {
                counted += size(id);
                idle.push(id);
            } else {
                left_out += size(id);
                other = other.or(Some(id));
            }
        }
    }
    let made = dead.iter().flat_map(|node| node.outputs.iter().flatten().copied());
    let is_tensor = |id: &ValueId| typed.elements.get(id.0).is_some_and(Option::is_none);
    let made: Bytes = made.filter(is_tensor).map(size).sum();
    let tell = |severity, bytes: Bytes, name: Option<&str>, what: fn(Bytes, &str) -> Sentence| {
        let (Some(name), true) = (name, bytes.times(PART) > used) else { return };
        sink.push(Diagnostic::new(severity, UNUSED, what(bytes, name)));
    };
    let (state, other) = (idle.first(), other.as_ref());
    let name = |id: &ValueId| graph.value_name(*id);
    let what = |bytes: Bytes, name: &str| {
        say!(
            "{bytes} of parameters are counted without gradients, because no operator reads them: `{name}`",
            bytes,
            name
        )
    };
    tell(Severity::Warning, counted, state.map(name), what);
    let what = |bytes: Bytes, name: &str| {
        say!(
            "{bytes} of tensors are not counted, because no operator reads them: `{name}`",
            bytes,
            name
        )
    };
    tell(Severity::Error, left_out, other.map(name), what);
    let what = |bytes: Bytes, name: &str| {
        say!(
            "{bytes} are not counted, because no operator reads the result of `{name}`",
            bytes,
            name
        )
    };
    tell(Severity::Error, made, dead.first().map(|node| node.label(graph)), what);
    if !idle.is_empty() {
        let graph = Arc::make_mut(graph);
        graph.idle.extend(idle);
        graph.idle.sort_unstable();
    }
}

/// Which values the outputs depend on, and the nodes that they do not depend on.
fn read(graph: &Graph) -> (Vec<bool>, Vec<&Node>) {
    let mut is_read = vec![false; graph.values.len()];
    let mark = |id: &ValueId, is_read: &mut Vec<bool>| {
        if let Some(slot) = is_read.get_mut(id.0) {
            *slot = true;
        }
    };
    graph.outputs.iter().for_each(|id| mark(id, &mut is_read));
    let mut dead = Vec::new();
    for node in graph.nodes.iter().rev() {
        let asked = |id: &ValueId| is_read.get(id.0).copied().unwrap_or(false);
        // What control flow reads inside is not looked at: it stays as it is.
        let has_body = node.bodies().next().is_some();
        if has_body {
            is_read.fill(true);
        } else if node.outputs.iter().flatten().any(asked) {
            node.outputs.iter().chain(&node.inputs).flatten().for_each(|id| mark(id, &mut is_read));
        } else {
            dead.push(node.as_ref());
        }
    }
    (is_read, dead)
}

/// Where operators read weights in integers: name and position.
const QUANTIZED: [(&str, usize); 8] = [
    ("ConvInteger", 1),
    ("DequantizeLinear", 0),
    ("DynamicQuantizeMatMul", 1),
    ("MatMulInteger", 1),
    ("MatMulIntegerToFloat", 1),
    ("MatMulNBits", 1),
    ("QLinearConv", 3),
    ("QLinearMatMul", 3),
];

/// That weights in integers are counted as they are and do not train, so that training the file is another run than the
/// model's.
fn quantized(graph: &Graph, typed: &Typed, trains: bool) -> Option<Diagnostic> {
    let is_weight = |id: &ValueId| {
        let is_whole = |value: &Value| {
            value.initializer.as_ref().is_some_and(|literal| !literal.dtype.is_floating())
        };
        graph.value(*id).is_some_and(is_whole) && typed.ty(*id).is_some_and(|ty| ty.numel() > 1)
    };
    let weight = |node: &Node| {
        let (_, at) = QUANTIZED.iter().find(|(op, _)| *op == node.op)?;
        node.input(*at).filter(is_weight)
    };
    let weights: BTreeSet<ValueId> = graph.nodes.iter().filter_map(|node| weight(node)).into_set();
    let types = || weights.iter().filter_map(|id| typed.ty(*id));
    let held: Bytes = types().map(TensorType::size).sum();
    let elements = types().fold(0_u64, |sum, ty| sum.saturating_add(ty.numel()));
    let severity = if trains { Severity::Error } else { Severity::Warning };
    let message = say!(
        "{count} quantized weights ({held}) are counted as frozen buffers; trained copies of them would be \
         {trained} of parameters: export the model before it is quantized",
        count = weights.len(),
        held,
        trained = DType::Float32.size().times(elements)
    );
    (!weights.is_empty()).then(|| Diagnostic::new(severity, QUANTIZED_WEIGHTS, message))
}
