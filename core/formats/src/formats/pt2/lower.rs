//! The program → [`Graph`]: values under their names, tied parameters as one, nodes in their order.
//!
//! - Parameters and buffers have the names of `named_parameters()` and `named_buffers()`, in that order; those
//!   that are one tensor (`lm_head.weight`, `wte.weight`) are recognised by the file that holds them. A frozen
//!   parameter (`requires_grad=False`) is treated as a buffer: state without a gradient.
//! - Sizes that the program computes in Python (`sym_size.int`, `_operator.mul`) are lists of one integer
//!   here, so that inference folds them.
//! - Symbols of open dimensions have no names (`s77`): that of the first dimension is called `batch`,
//!   the second of token ids `seq`.
//! - After an operator overwrites a tensor, the tensor has the result's name, whichever of the two is read.
//! - Graphs inside nodes (`wrap_with_set_grad_enabled`) are inlined; their nodes know whether gradients are off.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::calls::{self, Call};
use super::program::{self, ExportedProgram, list, text};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{
    DeclaredType, Dim, Elements, Graph, Level, Literal, Member, Node, Origin, Value, ValueId,
};
use crate::sentence::Sentence;
use crate::tensor::DType;

/// The version of ONNX's operators by which the nodes are meant.
const OPSET: i64 = 20;
/// COUNT: nodes at most, those of inner graphs included.
const NODES_MAX: usize = 250_000;
/// COUNT: graphs inside each other.
const DEPTH_MAX: usize = 16;

/// Makes a graph of an exported program.
///
/// # Errors
/// When it names what nobody makes, or has nothing to run.
pub(super) fn graph(program: &ExportedProgram<'_>) -> Result<Graph, Error> {
    let mut lower = Lower::new(program);
    lower.inputs()?;
    lower.nodes(program.graph, 0)?;
    lower.outputs()?;
    lower.finish()
}

/// Lowering under way.
pub(super) struct Lower<'j> {
    program: &'j ExportedProgram<'j>,
    /// The graph so far.
    pub(super) graph: Graph,
    /// Values by their name in the program: tensors and sizes.
    ids: BTreeMap<&'j str, ValueId>,
    /// Types by name of a tensor.
    meta: BTreeMap<&'j str, &'j Json>,
    /// Names of values that there are.
    taken: BTreeSet<String>,
    /// Names for symbols of open dimensions.
    symbols: BTreeMap<String, String>,
    /// Numbers that stand for themselves, by how they are written.
    constants: BTreeMap<String, ValueId>,
    /// Of parts of tensors and other views, what they were made of.
    views: BTreeMap<&'j str, &'j str>,
    /// Values that follow from trained tensors.
    trained: BTreeSet<ValueId>,
    /// COUNT: calls that were made as in evaluation and are trained here.
    pub(super) evaluated: usize,
    /// COUNT: masks that PyTorch is recognised by a flag.
    pub(super) masked: usize,
    /// Whether the nodes are inside `torch.no_grad()`.
    no_grad: bool,
    /// COUNT: tensors that were detached, and regions without gradients, whose values follow from trained tensors.
    pub(super) stopped: usize,
}

impl<'j> Lower<'j> {
    fn new(program: &'j ExportedProgram<'j>) -> Self {
        let producer = if program.torch.is_empty() { "" } else { "pytorch " };
        Self {
            program,
            graph: Graph {
                producer: format!("{producer}{}", program.torch),
                opset: OPSET,
                level: Level::Trace,
                ..Graph::default()
            },
            ids: BTreeMap::new(),
            meta: BTreeMap::new(),
            taken: BTreeSet::new(),
            views: BTreeMap::new(),
            symbols: BTreeMap::new(),
            constants: BTreeMap::new(),
            trained: BTreeSet::new(),
            evaluated: 0,
            masked: 0,
            no_grad: false,
            stopped: 0,
        }
    }

    /// Parameters, buffers, constants, and what the caller feeds.
    fn inputs(&mut self) -> Result<(), Error> {
        self.enter(self.program.graph);
        let specs = list(self.program.signature, "input_specs");
        if specs.is_empty() {
            return Err(self.program.refuse(&say!("`signature.input_specs` is missing")));
        }
        self.name_symbols(specs);
        let mut by_file: BTreeMap<&str, ValueId> = BTreeMap::new();
        let mut buffers = Vec::new();
        for spec in specs {
            let Some((kind, spec)) = program::single(spec) else { continue };
            let argument = spec.get("arg").unwrap_or(&Json::Null);
            let target = match kind {
                "parameter" => text(spec, "parameter_name"),
                "buffer" => text(spec, "buffer_name"),
                "tensor_constant" => text(spec, "tensor_constant_name"),
                "user_input" => {
                    for name in program::tensors(argument).into_iter().flatten() {
                        let id = self.define(name, name);
                        self.graph.inputs.push(id);
                    }
                    continue;
                }
                _ => continue,
            };
            let name = text(argument, "name");
            if name.is_empty() || target.is_empty() {
                let what = say!("a {kind} of `signature.input_specs` has no name", kind);
                return Err(self.program.refuse(&what));
            }
            let file = self.program.files.get(target).copied();
            if let Some(&tied) = file.and_then(|file| by_file.get(file)) {
                self.ids.insert(name, tied);
                continue;
            }
            let literal = self.literal(name)?;
            let floats = literal.dtype.is_floating();
            let id = self.define(name, target);
            if let Some(value) = self.graph.values.get_mut(id.0) {
                value.initializer = Some(literal);
            }
            by_file.extend(file.map(|file| (file, id)));
            let grad = self.meta.get(name).and_then(|meta| meta.get("requires_grad")?.as_bool());
            match kind {
                "parameter" if grad != Some(false) => {
                    self.graph.members.push((target.to_owned(), Member::Parameter));
                }
                "tensor_constant" => {}
                _ => buffers.push((target.to_owned(), Member::Buffer)),
            }
            if floats && kind != "tensor_constant" {
                self.trained.insert(id);
            }
        }
        self.graph.members.append(&mut buffers);
        Ok(())
    }

    /// Types of a graph's tensors.
    fn enter(&mut self, graph: &'j Json) {
        let types = graph.get("tensor_values").and_then(Json::as_object);
        self.meta.extend(types.into_iter().flatten().map(|(name, meta)| (name.as_str(), meta)));
    }

    /// Names for the symbols of the caller's inputs, by where they first stand.
    fn name_symbols(&mut self, specs: &'j [Json]) {
        let mut taken = BTreeSet::new();
        for spec in specs {
            let Some(("user_input", spec)) = program::single(spec) else { continue };
            let argument = spec.get("arg").unwrap_or(&Json::Null);
            for name in program::tensors(argument).into_iter().flatten() {
                let Some(meta) = self.meta.get(name) else { continue };
                let sizes = list(meta, "sizes");
                let is_ids = meta.get("dtype").and_then(Json::as_i64) == Some(5);
                for (axis, size) in sizes.iter().enumerate() {
                    let Some(symbol) = program::symbol(size) else { continue };
                    let is_numbered = symbol.trim_start_matches(['s', 'u']).parse::<u64>().is_ok();
                    let name = match (axis, sizes.len()) {
                        (0, _) => "batch",
                        (1, 2) if is_ids => "seq",
                        (2, 4) => "height",
                        (3, 4) => "width",
                        _ => continue,
                    };
                    if is_numbered && !self.symbols.contains_key(symbol) && taken.insert(name) {
                        self.symbols.insert(symbol.to_owned(), name.to_owned());
                    }
                }
            }
        }
    }

    /// A tensor of the module's state, without its contents.
    fn literal(&self, name: &str) -> Result<Literal, Error> {
        let declared = self.declared(name);
        let dims = declared.as_ref().and_then(|declared| declared.dims.as_ref());
        let known = dims.map(|dims| {
            let known = |dim: &Dim| match dim {
                Dim::Known(n) => Some(*n),
                Dim::Named(_) | Dim::Unknown => None,
            };
            dims.iter().map(known).collect::<Option<Vec<u64>>>()
        });
        match (declared.as_ref().and_then(|declared| declared.dtype), known.flatten()) {
            (Some(dtype), Some(dims)) => Ok(Literal { dtype, dims, elements: None }),
            _ => Err(self.program.refuse(&say!("`{name}` has no type in `tensor_values`", name))),
        }
    }

    /// Type of a tensor as the program states it.
    pub(super) fn declared(&self, name: &str) -> Option<DeclaredType> {
        Some(program::declared(self.meta.get(name)?, &self.symbols))
    }

    /// A new value for a name of the program.
    pub(super) fn define(&mut self, name: &'j str, label: &str) -> ValueId {
        let id = self.add(label.to_owned(), None);
        let declared = self.declared(name);
        if let Some(value) = self.graph.values.get_mut(id.0) {
            value.declared = declared;
        }
        self.ids.insert(name, id);
        id
    }

    /// Adds a value; a name that is taken, as by a damaged file, gets a number behind it.
    fn add(&mut self, mut name: String, initializer: Option<Literal>) -> ValueId {
        let id = ValueId(self.graph.values.len());
        if name.is_empty() || self.taken.contains(&name) {
            name = format!("{name}/{}", id.0);
        }
        self.taken.insert(name.clone());
        self.graph.values.push(Value { name, declared: None, initializer });
        id
    }

    /// A value that the program does not name.
    pub(super) fn intermediate(&mut self) -> ValueId {
        self.add(format!("/value/{}", self.graph.values.len()), None)
    }

    /// A number or a list of numbers.
    pub(super) fn constant(&mut self, literal: Literal) -> ValueId {
        let key = format!("{literal:?}");
        if let Some(&id) = self.constants.get(&key) {
            return id;
        }
        let id = self.add(format!("/constant/{}", self.graph.values.len()), Some(literal));
        self.constants.insert(key, id);
        id
    }

    /// A list of integers.
    pub(super) fn integers(&mut self, list: &[i64]) -> ValueId {
        let dims = vec![u64::try_from(list.len()).unwrap_or(u64::MAX)];
        let elements = Some(Elements::Ints(list.to_vec()));
        self.constant(Literal { dtype: DType::Int64, dims, elements })
    }

    /// The value of a name.
    pub(super) fn id(&self, name: &str) -> Option<ValueId> {
        self.ids.get(name).copied()
    }

    /// Another name for a value.
    pub(super) fn alias(&mut self, name: &'j str, id: ValueId) {
        self.ids.insert(name, id);
    }

    /// Notes that a tensor is a view of another.
    pub(super) fn note_view(&mut self, view: &'j str, of: &'j str) {
        self.views.insert(view, self.whole_of(of));
    }

    /// What a tensor is a view of, or itself.
    pub(super) fn whole_of(&self, name: &'j str) -> &'j str {
        self.views.get(name).copied().unwrap_or(name)
    }

    /// Adds a node and notes what its outputs follow from.
    pub(super) fn push(&mut self, node: Node) {
        let stops = self.no_grad || matches!(node.op.as_str(), "Shape" | "Detach");
        let trained =
            !stops && node.inputs.iter().flatten().any(|input| self.trained.contains(input));
        if trained {
            self.trained.extend(node.outputs.iter().flatten());
        }
        self.graph.nodes.push(Arc::new(node));
    }

    /// Whether a value follows from what is trained.
    pub(super) fn is_trained(&self, id: ValueId) -> bool {
        self.trained.contains(&id)
    }

    /// Whether no gradient flows through a value: it is state, or follows from nothing trained.
    pub(super) fn is_plain(&self, id: ValueId) -> bool {
        let is_state = self.graph.value(id).is_some_and(|value| value.initializer.is_some());
        is_state || !self.is_trained(id)
    }

    /// All nodes of a graph, in their order.
    fn nodes(&mut self, graph: &'j Json, depth: usize) -> Result<(), Error> {
        let Some(nodes) = graph.get("nodes").and_then(Json::as_array) else {
            return Err(self.program.refuse(&say!("`graph.nodes` is missing")));
        };
        for node in nodes {
            if self.graph.nodes.len() > NODES_MAX {
                let message =
                    say!("the program has more than {nodes_max} operators", nodes_max = NODES_MAX);
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            self.node(node, depth)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &'j Json, depth: usize) -> Result<(), Error> {
        let target = text(node, "target");
        if target.is_empty() {
            let name = text(node, "name");
            return Err(self.program.refuse(&say!("the node `{name}` has no `target`", name)));
        }
        if let Some(inner) = inner_graph(node) {
            return self.inline(node, inner, depth);
        }
        for input in list(node, "inputs") {
            let argument = input.get("arg").unwrap_or(&Json::Null);
            for name in program::tensors(argument).into_iter().flatten() {
                if self.id(name).is_none() {
                    let what = say!("`{target}` reads `{name}`, which nothing makes", target, name);
                    return Err(self.program.refuse(&what));
                }
            }
        }
        let metadata = node.get("metadata").unwrap_or(&Json::Null);
        let (module, class, mut scopes) = program::modules(text(metadata, "nn_module_stack"));
        let name = outputs(node).into_iter().flatten().next().unwrap_or_default();
        scopes.push(name.to_owned());
        let aten = target.strip_prefix("torch.ops.").unwrap_or(target).to_owned();
        // Of other kinds it is the operator itself.
        let function =
            text(metadata, "torch_fn").split_once(";function.").map_or("", |(call, _)| call);
        let origin = Origin {
            aten,
            class,
            scopes,
            function: function.to_owned(),
            no_grad: self.no_grad,
            ..Origin::default()
        };
        calls::lower(Call::new(self, node, outputs(node), (module, origin)));
        Ok(())
    }

    /// The graph inside a node, put in its place.
    fn inline(&mut self, node: &'j Json, inner: &'j Json, depth: usize) -> Result<(), Error> {
        if depth >= DEPTH_MAX {
            return Err(self
                .program
                .refuse(&say!("{depth_max} graphs lie inside each other", depth_max = DEPTH_MAX)));
        }
        let arguments = list(node, "inputs").iter().filter_map(|input| input.get("arg"));
        let given: Vec<ValueId> = arguments
            .flat_map(program::tensors)
            .flatten()
            .filter_map(|name| self.id(name))
            .collect();
        let (ids, meta, no_grad) = (self.ids.clone(), self.meta.clone(), self.no_grad);
        self.enter(inner);
        let formal = list(inner, "inputs").iter().flat_map(program::tensors).flatten();
        let bound: Vec<(&str, ValueId)> = formal.zip(given).collect();
        if let Some(enabled) = sets_gradients(node) {
            let reads_trained = bound.iter().any(|(_, id)| self.is_trained(*id));
            self.stopped += usize::from(!enabled && !self.no_grad && reads_trained);
            self.no_grad = !enabled;
        }
        self.ids.extend(bound);
        self.nodes(inner, depth.saturating_add(1))?;
        self.no_grad = no_grad;
        let results = list(inner, "outputs").iter().flat_map(program::tensors);
        let results: Vec<Option<ValueId>> =
            results.map(|name| name.and_then(|name| self.id(name))).collect();
        (self.ids, self.meta) = (ids, meta);
        for (name, result) in outputs(node).into_iter().zip(results) {
            if let (Some(name), Some(result)) = (name, result) {
                self.ids.insert(name, result);
            }
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<(), Error> {
        for spec in list(self.program.signature, "output_specs") {
            let Some(("user_output" | "loss_output", spec)) = program::single(spec) else {
                continue;
            };
            // `user_output` has an argument, `loss_output` a tensor.
            let argument = spec.get("arg").unwrap_or(&Json::Null);
            let named = argument.get("name").and_then(Json::as_str);
            for name in program::tensors(argument).into_iter().chain([named]).flatten() {
                let Some(id) = self.id(name) else {
                    let what = say!("the output `{name}` is made by nothing", name);
                    return Err(self.program.refuse(&what));
                };
                self.graph.outputs.push(id);
            }
        }
        Ok(())
    }

    /// Drops what no output follows from, and says what was assumed.
    fn finish(mut self) -> Result<Graph, Error> {
        let mut wanted = self.graph.outputs.iter().copied().into_set();
        let mut live = Vec::with_capacity(self.graph.nodes.len());
        for node in std::mem::take(&mut self.graph.nodes).into_iter().rev() {
            if node.outputs.iter().flatten().any(|output| wanted.contains(output)) {
                wanted.extend(node.inputs.iter().flatten());
                live.push(node);
            }
        }
        live.reverse();
        if live.is_empty() {
            let message = say!("the program has no operators, so there is nothing to estimate");
            return Err(Error::new(ErrorKind::NoGraph, message));
        }
        self.graph.nodes = live;
        if self.evaluated > 0 {
            let message = say!(
                "the program was exported from `model.eval()`: {evaluated} normalisations and dropouts are \
                 taken to run as in training; what attention drops is not in such a file, so export \
                 `model.train()` instead",
                evaluated = self.evaluated
            );
            self.say(Severity::Warning, "exported-for-inference", message);
        }
        if self.stopped > 0 {
            let message = say!(
                "gradients stop at {stopped} places of the program (`detach`, `torch.no_grad()`): what stands before \
                 them is not trained through them",
                stopped = self.stopped
            );
            self.say(Severity::Info, "stopped-gradients", message);
        }
        if self.masked > 0 {
            let message = say!(
                "attention masks are assumed to be causal or all ones, so that PyTorch \
                           passes a flag and no tensor"
            );
            self.say(Severity::Info, "attention-mask", message);
        }
        Ok(self.graph)
    }

    fn say(&mut self, severity: Severity, code: &str, message: Sentence) {
        self.graph.diagnostics.push(Diagnostic::new(severity, code, message));
    }
}

/// Names that a node gives to what it makes, in order: tensors and sizes.
fn outputs(node: &Json) -> Vec<Option<&str>> {
    let mut names = Vec::new();
    for output in list(node, "outputs") {
        match program::single(output) {
            Some(("as_sym_int" | "as_sym_float" | "as_sym_bool", size)) => {
                names.push(size.get("as_name").and_then(Json::as_str));
            }
            Some(_) => {
                let tensors = program::tensors(output);
                names.extend(if tensors.is_empty() { vec![None] } else { tensors });
            }
            None => names.push(None),
        }
    }
    names
}

/// Whether gradients are on in the graph inside a node, if the node says so.
fn sets_gradients(node: &Json) -> Option<bool> {
    let is_it = text(node, "target").contains("wrap_with_set_grad_enabled");
    let mut arguments = list(node, "inputs").iter().filter_map(|input| input.get("arg"));
    arguments.find_map(|argument| argument.get("as_bool")?.as_bool()).filter(|_| is_it)
}

/// The graph among a node's arguments.
fn inner_graph(node: &Json) -> Option<&Json> {
    let is_wrapper = text(node, "target").contains("wrap_with");
    let mut arguments = list(node, "inputs").iter().filter_map(|input| input.get("arg"));
    arguments.find_map(|argument| argument.pointer("/as_graph/graph")).filter(|_| is_wrapper)
}
