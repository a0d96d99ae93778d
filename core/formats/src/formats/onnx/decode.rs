//! Decoded messages → [`Graph`] (<https://onnx.ai/onnx/repo-docs/IR.html>).
//!
//! - Every name is defined once: by an initializer, an input, or the output of a node.
//! - A `Constant` node is an initializer written differently and becomes one.
//! - Nodes are ordered here; files need not be (ONNX asks for it, runtimes do not).
//! - Values that are read but never made, and cycles, are refused: no estimate could be right.
//! - Values of bodies of control flow are the graph's like all others.

use crate::order::IntoOrdered as _;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onnx_ir::{AttributeProto, AttributeType, GraphProto, ModelProto, TensorProto, TypeProto};

use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{
    Attribute, Body, DeclaredType, Dim, Elements, Graph, Literal, Node, Value, ValueId,
    topological_order,
};
use crate::sentence::Sentence;
use crate::tensor::{DType, numel};

use super::inline::{self, FlatBody, FlatNode, Name};
use super::literal::{self, literal};
use super::provenance::{self, Modules};

/// The operator set that is assumed of a file which names none: the default of PyTorch 2.15's
/// dynamo exporter.
const OPSET_ASSUMED: i64 = 20;

/// Makes a graph of a decoded model.
///
/// # Errors
/// When there is nothing to run, or the graph contradicts itself.
pub(super) fn graph(model: &ModelProto) -> Result<Graph, Error> {
    let Some(main) = model.graph.as_ref() else {
        return Err(Error::new(
            ErrorKind::NoGraph,
            say!(
                "the file holds no ONNX graph; a TensorFlow `saved_model.pb` looks alike and has to be \
             converted with tf2onnx"
            ),
        ));
    };
    let flat = inline::inline(model, main)?;
    let mut builder = Builder::new(model, main);
    builder.initializers(main)?;
    builder.inputs(main)?;
    for node in &flat.nodes {
        builder.define_constants(node)?;
    }
    for node in &flat.nodes {
        builder.define_outputs(node)?;
    }
    builder.take_constants_for_state();
    builder.graph.nodes = builder.nodes(&flat.nodes)?.into_iter().map(Arc::new).collect();
    if builder.graph.nodes.is_empty() {
        let message = say!("the file's graph has no operators, so there is nothing to estimate");
        return Err(Error::new(ErrorKind::NoGraph, message));
    }
    builder.outputs(main)?;
    for info in main.value_info.iter().chain(&main.output) {
        builder.declare(&info.name, info.type_.as_ref());
    }
    for (name, info) in &flat.declared {
        builder.declare(name, info.type_.as_ref());
    }
    Ok(builder.graph)
}

struct Builder<'m> {
    graph: Graph,
    ids: BTreeMap<Name<'m>, ValueId>,
    modules: Modules<'m>,
    /// Positions of the nodes that make values, in the list that is being ordered.
    producers: Vec<Option<usize>>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m ModelProto, main: &'m GraphProto) -> Self {
        let opset = model.opset_import.iter().find(|set| inline::domain(&set.domain).is_empty());
        let mut diagnostics = Vec::new();
        if opset.is_none() {
            diagnostics.push(Diagnostic::new(
                Severity::Warning,
                "assumed-opset",
                say!(
                    "the file names no version of ONNX's operators; assumed {opset_assumed}",
                    opset_assumed = OPSET_ASSUMED
                ),
            ));
        }
        let graph = Graph {
            name: main.name.clone(),
            producer: format!("{} {}", model.producer_name, model.producer_version)
                .trim()
                .to_owned(),
            opset: opset.map_or(OPSET_ASSUMED, |set| set.version),
            members: provenance::members(main),
            diagnostics,
            ..Graph::default()
        };
        let modules = Modules::new(main.initializer.iter().map(|tensor| tensor.name.as_str()));
        Self { graph, ids: BTreeMap::new(), modules, producers: Vec::new() }
    }

    /// Adds a value under a name that must be new.
    fn define(&mut self, name: Name<'m>, initializer: Option<Literal>) -> Result<ValueId, Error> {
        let id = ValueId(self.graph.values.len());
        if name.is_empty() {
            return Err(invalid(say!("a tensor of the graph has no name")));
        }
        if self.ids.insert(name.clone(), id).is_some() {
            return Err(invalid(say!("the value \"{name}\" is defined twice", name)));
        }
        self.graph.values.push(Value { name: name.into_owned(), declared: None, initializer });
        Ok(id)
    }

    fn initializers(&mut self, main: &'m GraphProto) -> Result<(), Error> {
        for tensor in &main.initializer {
            self.note_stand_in(tensor, &tensor.name);
            self.define(Cow::Borrowed(&tensor.name), Some(literal(tensor)?))?;
        }
        for sparse in &main.sparse_initializer {
            self.sparse(sparse.values.get_or_default(), &sparse.dims)?;
        }
        Ok(())
    }

    fn sparse(&mut self, values: &'m TensorProto, dims: &[i64]) -> Result<(), Error> {
        self.define(Cow::Borrowed(&values.name), Some(dense(values, dims)?))?;
        let message = say!("the sparse tensor \"{name}\" is counted as dense", name = values.name);
        let diagnostic = Diagnostic::new(Severity::Warning, "sparse-initializer", message);
        self.graph.diagnostics.push(diagnostic);
        Ok(())
    }

    /// Graph inputs; up to IR version 3 initializers are listed among them.
    fn inputs(&mut self, main: &'m GraphProto) -> Result<(), Error> {
        for input in &main.input {
            let given = self.ids.get(input.name.as_str());
            let is_initializer = given
                .and_then(|&id| self.graph.value(id))
                .is_some_and(|value| value.initializer.is_some());
            if !is_initializer {
                let id = self.define(Cow::Borrowed(&input.name), None)?;
                self.graph.inputs.push(id);
            }
            self.declare(&input.name, input.type_.as_ref());
        }
        // Old exporters write 0 where a size is open; an empty batch trains nothing.
        for id in &self.graph.inputs {
            let value = self.graph.values.get_mut(id.0);
            let declared = value.and_then(|value| value.declared.as_mut());
            for dim in declared.into_iter().flat_map(|declared| &mut declared.dims).flatten() {
                if *dim == Dim::Known(0) {
                    *dim = Dim::Unknown;
                }
            }
        }
        Ok(())
    }

    fn constant(&mut self, node: &FlatNode<'m>) -> Result<(), Error> {
        let [output] = node.outputs.as_slice() else {
            return Err(invalid(say!(
                "the constant \"{name}\" has not one output",
                name = node.name
            )));
        };
        for (_, attribute) in &node.attributes {
            if let Some(tensor) = attribute.t.as_ref() {
                self.note_stand_in(tensor, output);
            }
        }
        let value = node.attributes.iter().find_map(|(name, value)| constant_value(name, value));
        let value = value.unwrap_or_else(|| {
            Err(invalid(say!("the constant \"{output}\" has no value that is known here", output)))
        })?;
        let id = self.define(output.clone(), Some(value))?;
        self.graph.constants.push(id);
        Ok(())
    }

    /// The constant that the node is, or those that are in its bodies, and their weights.
    fn define_constants(&mut self, node: &FlatNode<'m>) -> Result<(), Error> {
        if node.is_constant() {
            return self.constant(node);
        }
        for (_, body) in &node.bodies {
            for (name, tensor) in &body.initializers {
                self.note_stand_in(tensor, name);
                self.define(name.clone(), Some(literal(tensor)?))?;
            }
            for sparse in &body.proto.sparse_initializer {
                self.sparse(sparse.values.get_or_default(), &sparse.dims)?;
            }
            body.nodes.iter().try_for_each(|node| self.define_constants(node))?;
        }
        Ok(())
    }

    /// In a file without a tensor of its own (Paddle's exporter), constants are the module's state.
    fn take_constants_for_state(&mut self) {
        let has_numbers = |value: &Value| {
            let literal = value.initializer.as_ref();
            literal.is_some_and(|literal| literal.dtype.is_floating() && numel(&literal.dims) > 1)
        };
        let (values, constants) = (&self.graph.values, &mut self.graph.constants);
        let known: BTreeSet<ValueId> = constants.iter().copied().into_set();
        let ids = (0..).map(ValueId).zip(values).filter(|(_, value)| has_numbers(value));
        let (state, own): (BTreeSet<ValueId>, BTreeSet<ValueId>) =
            ids.map(|(id, _)| id).partition(|id| known.contains(id));
        if own.is_empty() {
            constants.retain(|id| !state.contains(id));
        }
    }

    /// What the node makes, and what its bodies are given and make.
    fn define_outputs(&mut self, node: &FlatNode<'m>) -> Result<(), Error> {
        if node.is_constant() {
            return Ok(());
        }
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            self.define(name.clone(), None)?;
        }
        for (_, body) in &node.bodies {
            for name in &body.inputs {
                self.define(name.clone(), None)?;
            }
            body.nodes.iter().try_for_each(|node| self.define_outputs(node))?;
        }
        Ok(())
    }

    /// The nodes that are no constants, in topological order.
    fn nodes(&mut self, flat: &[FlatNode<'m>]) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::with_capacity(flat.len());
        for node in flat.iter().filter(|node| !node.is_constant()) {
            nodes.push(self.node(node)?);
        }
        self.producers.resize(self.graph.values.len(), None);
        for (index, node) in nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                if let Some(producer) = self.producers.get_mut(id.0) {
                    *producer = Some(index);
                }
            }
        }
        let mut dependencies = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let mut list = Vec::new();
            reads(node, &mut |id| list.extend(self.producers.get(id.0).copied().flatten()));
            dependencies.push(list);
        }
        // A body's nodes are nobody's producers but there.
        for id in nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
            if let Some(producer) = self.producers.get_mut(id.0) {
                *producer = None;
            }
        }
        let order = topological_order(&dependencies).map_err(|cycle| {
            let names = cycle.iter().filter_map(|&index| nodes.get(index)).take(8);
            let names: Vec<_> = names.map(|node| node.label(&self.graph)).collect();
            let more = if cycle.len() > names.len() { ", …" } else { "" };
            invalid(say!(
                "the graph runs in a circle: {names}{more}",
                names = names.join(", "),
                more
            ))
        })?;
        let mut nodes: Vec<_> = nodes.into_iter().map(Some).collect();
        Ok(order.iter().filter_map(|&index| nodes.get_mut(index)?.take()).collect())
    }

    fn body(&mut self, flat: &FlatBody<'m>) -> Result<Body, Error> {
        let nodes = self.nodes(&flat.nodes)?;
        let id = |name: &Name<'m>| {
            let known = self.ids.get(name).copied();
            known.ok_or_else(|| invalid(say!("a body gives \"{name}\", which nothing makes", name)))
        };
        let ids = |names: &[Name<'m>]| names.iter().map(id).collect::<Result<_, _>>();
        Ok(Body { inputs: ids(&flat.inputs)?, outputs: ids(&flat.outputs)?, nodes })
    }

    fn node(&mut self, flat: &FlatNode<'m>) -> Result<Node, Error> {
        let mut node = Node {
            name: flat.name.clone().into_owned(),
            op: flat.proto.op_type.clone(),
            domain: inline::domain(&flat.proto.domain).to_owned(),
            ..Node::default()
        };
        for name in &flat.outputs {
            node.outputs.push(self.ids.get(name).copied());
        }
        for name in &flat.inputs {
            let id = self.ids.get(name).copied();
            if id.is_none() && !name.is_empty() {
                let reader = node.label(&self.graph);
                let message = say!(
                    "\"{reader}\" ({op}) reads \"{name}\", which no node, input or initializer makes",
                    reader,
                    op = node.op,
                    name
                );
                return Err(invalid(message));
            }
            node.inputs.push(id);
        }
        for (name, attribute) in &flat.attributes {
            let value = self.attribute(attribute)?;
            node.attributes.insert((*name).to_owned(), value);
        }
        for (name, body) in &flat.bodies {
            let body = Attribute::Body(Box::new(self.body(body)?));
            node.attributes.insert((*name).to_owned(), body);
        }
        node.origin =
            provenance::origin(flat.proto).or_else(|| flat.caller.and_then(provenance::origin));
        node.module = self.module(flat, &node);
        Ok(node)
    }

    /// The module's path, from the best witness there is.
    fn module(&mut self, flat: &FlatNode<'_>, node: &Node) -> String {
        if let Some(origin) = &node.origin {
            return provenance::module_of(origin);
        }
        let caller = flat.caller.map_or("", |caller| caller.name.as_str());
        for name in [flat.proto.name.as_str(), caller] {
            if let Some(path) = self.modules.of_node_name(name) {
                return path;
            }
        }
        let parameters = node.inputs.iter().flatten().filter_map(|&id| self.graph.value(id));
        parameters
            .filter(|value| value.initializer.is_some())
            .find_map(|value| provenance::module_of_parameter(&value.name))
            .unwrap_or_default()
            .to_owned()
    }

    fn outputs(&mut self, main: &GraphProto) -> Result<(), Error> {
        for output in &main.output {
            let Some(&id) = self.ids.get(output.name.as_str()) else {
                return Err(invalid(say!(
                    "the graph's output \"{name}\" is made by no node",
                    name = output.name
                )));
            };
            self.graph.outputs.push(id);
        }
        Ok(())
    }

    /// Notes the type that the file declares for a value; names of no value are passed over.
    fn declare(&mut self, name: &str, declared: Option<&TypeProto>) {
        let value = self.ids.get(name).and_then(|id| self.graph.values.get_mut(id.0));
        let (Some(value), Some(declared)) = (value, declared) else { return };
        value.declared = Some(declared_type(declared));
        if let Some(size) = negative(declared) {
            let message = say!("the file declares `{name}` with a dimension of {size}", name, size);
            let found = Diagnostic::new(Severity::Warning, "declared-value", message);
            self.graph.diagnostics.push(found.at(name));
        }
    }

    fn attribute(&mut self, attribute: &AttributeProto) -> Result<Attribute, Error> {
        Ok(match kind(attribute) {
            AttributeType::INT => Attribute::Int(attribute.i),
            AttributeType::FLOAT => Attribute::Float(attribute.f.into()),
            AttributeType::STRING => Attribute::String(text(&attribute.s)),
            AttributeType::INTS => Attribute::Ints(attribute.ints.clone()),
            AttributeType::FLOATS => {
                Attribute::Floats(attribute.floats.iter().copied().map(f64::from).collect())
            }
            AttributeType::STRINGS => {
                Attribute::Strings(attribute.strings.iter().map(|bytes| text(bytes)).collect())
            }
            AttributeType::TENSOR => {
                let tensor = attribute.t.get_or_default();
                self.note_stand_in(tensor, &attribute.name);
                Attribute::Tensor(literal(tensor)?)
            }
            _ => Attribute::Unsupported,
        })
    }

    /// Notes what is odd about a tensor: a type that PyTorch does not have, or too few bytes.
    fn note_stand_in(&mut self, tensor: &TensorProto, name: &str) {
        if let Some(message) = literal::contradiction(tensor, name) {
            self.graph.diagnostics.push(Diagnostic::new(Severity::Warning, "data-size", message));
        }
        if literal::is_stand_in(tensor.data_type) {
            self.graph.diagnostics.push(Diagnostic::new(
                Severity::Warning,
                "element-type",
                say!(
                    "\"{name}\" holds texts or elements smaller than a byte, which PyTorch does \
                     not train; counted as one byte each",
                    name
                ),
            ));
        }
    }
}

/// All values that a node reads, in its bodies too; what a body makes itself among them.
fn reads(node: &Node, read: &mut impl FnMut(ValueId)) {
    node.inputs.iter().flatten().for_each(|&id| read(id));
    for body in node.bodies() {
        body.outputs.iter().for_each(|&id| read(id));
        body.nodes.iter().for_each(|node| reads(node, read));
    }
}

/// The kind of an attribute; the oldest files leave it to what is set.
fn kind(attribute: &AttributeProto) -> AttributeType {
    match attribute.type_.enum_value_or_default() {
        AttributeType::UNDEFINED if attribute.t.is_some() => AttributeType::TENSOR,
        AttributeType::UNDEFINED if attribute.g.is_some() => AttributeType::GRAPH,
        AttributeType::UNDEFINED if !attribute.ints.is_empty() => AttributeType::INTS,
        AttributeType::UNDEFINED if !attribute.floats.is_empty() => AttributeType::FLOATS,
        AttributeType::UNDEFINED if !attribute.strings.is_empty() => AttributeType::STRINGS,
        AttributeType::UNDEFINED if !attribute.s.is_empty() => AttributeType::STRING,
        AttributeType::UNDEFINED if attribute.f.to_bits() != 0 => AttributeType::FLOAT,
        AttributeType::UNDEFINED => AttributeType::INT,
        kind => kind,
    }
}

/// What a `Constant` node holds, if this attribute says so
/// (<https://onnx.ai/onnx/operators/onnx__Constant.html>).
fn constant_value(name: &str, attribute: &AttributeProto) -> Option<Result<Literal, Error>> {
    let list = |length: usize| vec![u64::try_from(length).unwrap_or(u64::MAX)];
    let of = |dtype, dims, elements| Some(Ok(Literal { dtype, dims, elements }));
    let floats = || attribute.floats.iter().copied().map(f64::from).collect();
    match name {
        "value" => Some(literal(attribute.t.as_ref()?)),
        "sparse_value" => {
            let sparse = attribute.sparse_tensor.as_ref()?;
            Some(dense(sparse.values.get_or_default(), &sparse.dims))
        }
        "value_int" => of(DType::Int64, vec![], Some(Elements::Ints(vec![attribute.i]))),
        "value_float" => {
            of(DType::Float32, vec![], Some(Elements::Floats(vec![attribute.f.into()])))
        }
        "value_ints" => {
            let elements = Elements::Ints(attribute.ints.clone());
            of(DType::Int64, list(attribute.ints.len()), Some(elements))
        }
        "value_floats" => {
            of(DType::Float32, list(attribute.floats.len()), Some(Elements::Floats(floats())))
        }
        "value_string" => of(DType::UInt8, vec![], None),
        "value_strings" => of(DType::UInt8, list(attribute.strings.len()), None),
        _ => None,
    }
}

/// A sparse tensor, as PyTorch would hold it: dense.
fn dense(values: &TensorProto, dims: &[i64]) -> Result<Literal, Error> {
    let values = literal(values)?;
    let dims = dims.iter().copied().map(u64::try_from).collect::<Result<Vec<_>, _>>();
    let dims =
        dims.map_err(|_negative| invalid(say!("a sparse tensor has a negative dimension")))?;
    Ok(Literal { dtype: values.dtype, dims, elements: None })
}

/// A size that no dimension can have; −1 stands for an open one.
fn negative(declared: &TypeProto) -> Option<i64> {
    let tensor = declared.has_tensor_type().then(|| declared.tensor_type())?;
    let dims = &tensor.shape.as_ref()?.dim;
    dims.iter()
        .find_map(|dim| Some(dim.dim_value()).filter(|&size| dim.has_dim_value() && size < -1))
}

fn declared_type(declared: &TypeProto) -> DeclaredType {
    if !declared.has_tensor_type() {
        return DeclaredType { dtype: None, dims: None };
    }
    let tensor = declared.tensor_type();
    let dims = tensor.shape.as_ref().map(|shape| {
        let dims = shape.dim.iter();
        dims.map(|dim| match u64::try_from(dim.dim_value()) {
            Ok(size) if dim.has_dim_value() => Dim::Known(size),
            // A question mark is no name: Paddle's exporter writes it for whatever is open.
            _ if !["", "?"].contains(&dim.dim_param()) => Dim::Named(dim.dim_param().to_owned()),
            _ => Dim::Unknown,
        })
        .collect()
    });
    DeclaredType { dtype: literal::dtype(tensor.elem_type), dims }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn invalid(message: Sentence) -> Error {
    Error::new(ErrorKind::InvalidGraph, message)
}
