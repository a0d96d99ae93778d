//! Types of every value, once all dimensions are numbers.
//!
//! - The user's numbers are bound to the open dimensions of the graph's inputs; one not given gets
//!   a default, which the report lists.
//! - Every type then follows from the shape rules, node by node. Types stated inside the file are those of the
//!   example it was exported with: they are used only after an operator without a rule.
//! - Elements of small integer tensors are carried along, because exporters write shape arithmetic
//!   as part of the graph.
//! - An operator without a rule, or one that contradicts its rule, gets a placeholder type and makes the answer a
//!   lower bound. Nothing is guessed without a report.

use std::collections::BTreeMap;

use crate::bytes::grouped;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Body, Dim, Elements, Graph, Node, ValueId};
use crate::ops::{self, Inference, LIMIT, Made, OpError, Operator};
use crate::sentence::Sentence;
use crate::tensor::{DType, Dims, TensorType};

mod dims;
mod open;
mod rebatch;

pub use dims::{OpenDim, SEQUENCE, open_dims};
pub use dims::{beyond_window, counts, own_sizes};

use dims::Binding;
use rebatch::Rebatch;

/// COUNT: elements beyond which a tensor is refused rather than estimated.
const NUMEL_MAX: u64 = 1 << 50;

/// COUNT: dimensions that a PyTorch tensor may have (`dim_bitset_size`, ATen/WrapDimUtilsMulti.h).
const RANK_MAX: usize = 64;

/// What is known of every value of a graph, its dimensions bound.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    /// Types by [`ValueId`]; `None` where nothing is known.
    pub types: Vec<Option<TensorType>>,
    /// Elements by [`ValueId`], of small tensors that follow from shapes and constants.
    pub elements: Vec<Option<Elements>>,
    /// All dimensions by name: the user's numbers, and the defaults of the rest.
    pub dims: BTreeMap<String, u64>,
    /// Whether some type is a stand-in, so that sums over types are lower bounds.
    pub lower_bound: bool,
}

impl Typed {
    /// Type of a value, where it is known.
    pub fn ty(&self, id: ValueId) -> Option<&TensorType> {
        self.types.get(id.0)?.as_ref()
    }

    /// Sets what changes from `first` to `last`, two of the same graph where each size is a line in one number, to what
    /// it is `part` of `whole` steps from `first` on. Before, this is either of them or lies between.
    pub(crate) fn set_between(&mut self, first: &Self, last: &Self, (part, whole): (u64, u64)) {
        let line = |a: i128, b: i128| {
            let (part, whole) = (i128::from(part), i128::from(whole.max(1)));
            a.saturating_add((b.saturating_sub(a)).saturating_mul(part).div_euclid(whole))
        };
        let size = |(a, b): (&u64, &u64)| {
            u64::try_from(line(i128::from(*a), i128::from(*b))).unwrap_or(*a)
        };
        let int = |(a, b): (&i64, &i64)| {
            i64::try_from(line(i128::from(*a), i128::from(*b))).unwrap_or(*a)
        };
        for (ty, pair) in self.types.iter_mut().zip(first.types.iter().zip(&last.types)) {
            let (Some(a), Some(b)) = pair else { continue };
            if a.rank() == b.rank() && a.dims != b.dims {
                let dims: Dims = a.dims.iter().zip(&b.dims).map(size).collect();
                *ty = Some(TensorType::new(a.dtype, dims));
            }
        }
        for (list, pair) in self.elements.iter_mut().zip(first.elements.iter().zip(&last.elements))
        {
            let (Some(Elements::Ints(a)), Some(Elements::Ints(b))) = pair else { continue };
            if a.len() == b.len() && a != b {
                *list = Some(Elements::Ints(a.iter().zip(b).map(int).collect()));
            }
        }
    }

    /// As after `model.to(dtype)`: everything in single precision is in `dtype` instead.
    pub fn convert_floats(&mut self, dtype: DType) {
        let single = self.types.iter_mut().flatten().filter(|ty| ty.dtype == DType::Float32);
        single.for_each(|ty| ty.dtype = dtype);
    }
}

/// Types all values of `graph` with these numbers for its open dimensions.
///
/// # Errors
/// When `dims` names a dimension that the graph does not have or an absurd size, when an input has
/// no shape, when a tensor becomes too large to count, or when no output can be typed.
pub fn infer(
    graph: &Graph,
    dims: &BTreeMap<String, u64>,
    sink: &Diagnostics,
) -> Result<Typed, Error> {
    let binding = Binding::new(graph, dims, sink)?;
    let rebatch = match binding.rebatch {
        None => None,
        Some((old, new)) => {
            let as_exported =
                Run::new(graph, &binding, old, None)?.finish(&Diagnostics::default())?;
            Some(Rebatch { old, new, before: as_exported })
        }
    };
    let batch = rebatch.as_ref().map_or(0, |rebatch| rebatch.new);
    Run::new(graph, &binding, batch, rebatch.as_ref())?.finish(sink)
}

/// Types as far as they are known while control flow waits to be unrolled: no gap is a problem yet.
///
/// # Errors
/// As [`infer`], but for outputs without a type.
pub(crate) fn as_far_as_known(graph: &Graph, dims: &BTreeMap<String, u64>) -> Result<Typed, Error> {
    let sink = Diagnostics::default();
    let binding = Binding::new(graph, dims, &sink)?;
    let batch = binding.rebatch.map_or(0, |(_, new)| new);
    let mut run = Run::new(graph, &binding, batch, None)?;
    graph.nodes.iter().try_for_each(|node| run.node(node))?;
    Ok(run.typed())
}

/// Types what the nodes of a body make, as far as what they read is typed; returns its bytes, and of control flow
/// inside those of the largest body. Views take none.
pub(crate) fn bytes_made(graph: &Graph, body: &Body, typed: &mut Typed) -> u64 {
    const VIEWS: [&str; 6] =
        ["Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];
    let mut bytes = 0_u64;
    for node in &body.nodes {
        let inner = node.bodies().map(|inner| bytes_made(graph, inner, typed)).max().unwrap_or(0);
        bytes = bytes.saturating_add(inner);
        let Some(operator) = ops::lookup(&node.domain, &node.op) else { continue };
        let mut inference = Inference::new(node, graph.opset, &typed.types, &typed.elements);
        let is_known = check_inputs(operator, &inference)
            .and_then(|()| (operator.infer)(&mut inference))
            .is_ok();
        let (made, _) = inference.finish();
        for (id, made) in node.outputs.iter().zip(made).filter(|_| is_known) {
            let Some(id) = id else { continue };
            let takes = made.ty.as_ref().filter(|_| !VIEWS.contains(&node.op.as_str()));
            bytes = bytes.saturating_add(takes.map_or(0, |ty| ty.size().0));
            if let (Some(ty), Some(elements)) =
                (typed.types.get_mut(id.0), typed.elements.get_mut(id.0))
            {
                (*ty, *elements) = (made.ty, made.elements);
            }
        }
    }
    bytes
}

/// What nodes are counted by: severity and code of the diagnostic, operator.
type Key<'a> = (Severity, &'static str, &'a str);

/// Nodes of one operator that share a shortcoming.
#[derive(Debug)]
struct Gap {
    count: usize,
    node: String,
    message: Sentence,
}

/// Inference under way.
struct Run<'a> {
    graph: &'a Graph,
    binding: &'a Binding,
    rebatch: Option<&'a Rebatch>,
    /// What a fixed batch of the file's inputs becomes.
    batch: u64,
    types: Vec<Option<TensorType>>,
    elements: Vec<Option<Elements>>,
    gaps: BTreeMap<Key<'a>, Gap>,
    lower_bound: bool,
}

impl<'a> Run<'a> {
    /// Seeds initializers and inputs; an input's type wins over a default in the file.
    fn new(
        graph: &'a Graph,
        binding: &'a Binding,
        batch: u64,
        rebatch: Option<&'a Rebatch>,
    ) -> Result<Self, Error> {
        let n = graph.values.len();
        let mut run = Self {
            graph,
            binding,
            rebatch,
            batch,
            types: vec![None; n],
            elements: vec![None; n],
            gaps: BTreeMap::new(),
            lower_bound: false,
        };
        let numbers = ops::only_numbers(graph.nodes.iter().map(AsRef::as_ref), n);
        let slots = run.types.iter_mut().zip(&mut run.elements).zip(numbers);
        for ((at, value), ((ty, elements), is_number)) in graph.values.iter().enumerate().zip(slots)
        {
            if let Some(literal) = &value.initializer {
                *ty = Some(TensorType::new(literal.dtype, literal.dims.clone()));
                // What is trained has no fixed elements, however small it is.
                let is_trained = literal.dtype.is_floating()
                    && value.has_state_name()
                    && !is_number
                    && graph.constants.binary_search(&ValueId(at)).is_err();
                let known = literal.elements.clone().filter(|_| !is_trained);
                *elements = known.filter(|list| list.len() <= LIMIT);
            }
        }
        run.check_state()?;
        for &id in &graph.inputs {
            let Some(ty) = binding.input_type(graph, id, batch)? else {
                run.gap("shape-unknown", "input", graph.value_name(id), || {
                    say!(
                        "the input `{id}` has no element type of a size",
                        id = graph.value_name(id)
                    )
                });
                continue;
            };
            run.store(id, Made { ty: Some(ty), elements: binding.count(graph, id) })?;
        }
        Ok(run)
    }

    fn finish(mut self, sink: &Diagnostics) -> Result<Typed, Error> {
        for node in &self.graph.nodes {
            self.node(node)?;
        }
        let outputs = &self.graph.outputs;
        let typed = |id: &ValueId| self.types.get(id.0).is_some_and(Option::is_some);
        if !outputs.is_empty() && !outputs.iter().any(typed) {
            let why =
                self.gaps.values().next().map_or_else(Sentence::default, |gap| gap.message.clone());
            let message = say!("no output of the model can be typed: {why}", why);
            return Err(Error::new(ErrorKind::InvalidGraph, message));
        }
        self.compare_outputs(sink);
        self.compare_values(sink);
        let gaps = std::mem::take(&mut self.gaps);
        sink.extend(gaps.into_iter().map(|((severity, code, op), gap)| {
            let message = match gap.count {
                1 => gap.message,
                count => say!(
                    "{message} ({count} nodes of type {op}; the first is named here)",
                    message = gap.message,
                    count,
                    op
                ),
            };
            Diagnostic::new(severity, code, message).at(gap.node)
        }));
        Ok(self.typed())
    }

    /// Notes outputs that the file declares with another shape. Not where the shapes rest on stand-ins or data, or
    /// where the batch is not that of the file.
    fn compare_outputs(&self, sink: &Diagnostics) {
        let depends = |key: &Key<'_>| key.1 == "data-dependent-size";
        if self.lower_bound || self.binding.rebatch.is_some() || self.gaps.keys().any(depends) {
            return;
        }
        for id in &self.graph.outputs {
            let declared = self.graph.value(*id).and_then(|value| value.declared.as_ref());
            let declared = declared.and_then(|declared| declared.dims.as_ref());
            let (Some(dims), Some(Some(ty))) = (declared, self.types.get(id.0)) else { continue };
            let differs = |(dim, size): (&Dim, &u64)| matches!(dim, Dim::Known(n) if n != size);
            if dims.len() == ty.rank() && !dims.iter().zip(&ty.dims).any(differs) {
                continue;
            }
            let rank = dims.len();
            let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
            let (name, dims) = (self.graph.value_name(*id), dims.join(", "));
            let message = say!(
                "the file declares the output `{name}` as [{dims}], its operators make {ty}",
                name,
                dims,
                ty
            );
            // Exporters leave a rank behind that a branch has changed; sizes they state rightly.
            let code = if rank == ty.rank() { "declared-output" } else { "declared-rank" };
            sink.push(Diagnostic::new(Severity::Warning, code, message).at(name));
        }
    }

    /// Notes values between nodes that the file declares with another type. Not where types rest on stand-ins or data,
    /// or where the batch is not that of the file.
    fn compare_values(&self, sink: &Diagnostics) {
        let depends = |key: &Key<'_>| key.1 == "data-dependent-size";
        if self.graph.level.is_whole() || self.lower_bound || self.binding.rebatch.is_some() {
            return;
        }
        if self.gaps.keys().any(depends) {
            return;
        }
        let made = self.graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        let between = made.filter(|id| !self.graph.outputs.contains(id));
        let mut differing = between.filter_map(|id| {
            let declared = self.graph.value(*id)?.declared.as_ref()?;
            let ty = self.types.get(id.0)?.as_ref()?;
            let other_type = declared.dtype.is_some_and(|dtype| dtype != ty.dtype);
            let differs = |(dim, size): (&Dim, &u64)| matches!(dim, Dim::Known(n) if n != size);
            let other_dims = declared.dims.as_ref().is_some_and(|dims| {
                dims.len() != ty.rank() || dims.iter().zip(&ty.dims).any(differs)
            });
            (other_type || other_dims).then_some((*id, declared, ty))
        });
        let Some((id, declared, ty)) = differing.next() else { return };
        let (name, more) = (self.graph.value_name(id), differing.count());
        let declared = declared.to_string();
        let message = match more {
            0 => say!(
                "the file declares `{name}` as {declared}, its operators make {ty}",
                name,
                declared,
                ty
            ),
            more => say!(
                "the file declares `{name}` as {declared}, its operators make {ty}; so it is with {more} other values",
                name,
                declared,
                ty,
                more
            ),
        };
        sink.push(Diagnostic::new(Severity::Warning, "declared-value", message).at(name));
    }

    /// Notes inputs of different types, where ONNX wants one.
    fn compare_inputs(&mut self, node: &'a Node) {
        const ALIKE: [&str; 8] =
            ["Add", "Conv", "ConvTranspose", "Div", "Gemm", "MatMul", "Mul", "Sub"];
        if self.graph.level.is_whole() || !ALIKE.contains(&node.op.as_str()) {
            return;
        }
        let types = node.inputs.iter().flatten().filter_map(|id| self.types.get(id.0)?.as_ref());
        let mut types = types.map(|ty| ty.dtype);
        let Some(first) = types.next() else { return };
        if let Some(other) = types.find(|dtype| *dtype != first) {
            let label = node.label(self.graph);
            self.count((Severity::Warning, "mixed-types", &node.op), label, || {
                say!(
                    "\"{label}\" ({op}) reads {first} and {other}: PyTorch wants one type",
                    label,
                    op = node.op,
                    first,
                    other
                )
            });
        }
    }

    fn typed(self) -> Typed {
        Typed {
            types: self.types,
            elements: self.elements,
            dims: self.binding.dims.clone(),
            lower_bound: self.lower_bound,
        }
    }

    /// Types the outputs of one node: by its rule, or by a stand-in.
    fn node(&mut self, node: &'a Node) -> Result<(), Error> {
        if node.bodies().next().is_some() {
            let label = node.label(self.graph);
            self.gap("control-flow", &node.op, label, || {
                say!(
                    "how \"{label}\" ({op}) runs the graph of its own is unknown: what happens \
                     inside is not counted",
                    label,
                    op = node.op
                )
            });
            return self.stand_in(node, Vec::new());
        }
        let Some(operator) = ops::lookup(&node.domain, &node.op) else {
            self.gap("unknown-operator", &node.op, node.label(self.graph), || { let dot = if node.domain.is_empty() { "" } else { "." };
                say!("the operator {domain}{dot}{op} is not supported: the shapes and the memory of what \
                     it makes are stand-ins", domain = node.domain, dot, op = node.op)
            });
            return self.stand_in(node, Vec::new());
        };
        let mut inference = Inference::new(node, self.graph.opset, &self.types, &self.elements);
        let result =
            check_inputs(operator, &inference).and_then(|()| (operator.infer)(&mut inference));
        let (mut made, notes) = inference.finish();
        self.compare_inputs(node);
        for note in notes {
            let key = (Severity::Warning, "data-dependent-size", node.op.as_str());
            self.count(key, node.label(self.graph), || note);
        }
        if let Some(rebatch) = self.rebatch
            && let Some(ty) = rebatch.correct(node, result.is_ok(), &self.types, &self.elements)
        {
            let differs = made.first().and_then(|first| first.ty.as_ref()) != Some(&ty);
            if differs || result.is_err() {
                self.rebatched(node, &ty);
                made = vec![Made { ty: Some(ty), elements: None }];
            }
            return self.stand_in(node, made);
        }
        let complete = made.iter().zip(&node.outputs).all(|(m, o)| o.is_none() || m.ty.is_some());
        match result {
            Ok(()) if complete => {}
            Ok(()) => {
                self.contradiction(node, &OpError::new(say!("one of its outputs has no rule")));
            }
            Err(error) => {
                made.clear();
                if let Some(ty) = open::dimension(node, &self.types, &self.elements) {
                    self.opened(node, &ty);
                    made.push(Made { ty: Some(ty), elements: None });
                } else {
                    self.contradiction(node, &error);
                }
            }
        }
        self.stand_in(node, made)
    }

    /// Stores what a rule made; an output it did not make gets the best type there is.
    fn stand_in(&mut self, node: &Node, made: Vec<Made>) -> Result<(), Error> {
        let mut made = made.into_iter();
        for &output in &node.outputs {
            let made = made.next().unwrap_or_default();
            let Some(id) = output else { continue };
            let made = if made.ty.is_some() {
                made
            } else {
                Made { ty: self.guess(node, id), elements: None }
            };
            self.store(id, made)?;
        }
        Ok(())
    }

    /// The declared type if all its dimensions are numbers, else that of the first input.
    fn guess(&self, node: &Node, output: ValueId) -> Option<TensorType> {
        let declared = self.graph.value(output)?.declared.as_ref();
        let declared =
            declared.and_then(|declared| self.binding.declared_type(declared, self.batch));
        declared.or_else(|| {
            // What control flow reads are conditions and what it carries, not what it makes.
            if node.bodies().next().is_some() {
                return None;
            }
            let mut inputs = node.inputs.iter().flatten();
            inputs.find_map(|id| self.types.get(id.0)?.clone())
        })
    }

    fn store(&mut self, id: ValueId, made: Made) -> Result<(), Error> {
        if let Some(ty) = &made.ty {
            self.check(id, ty)?;
        }
        if let (Some(ty), Some(elements)) = (self.types.get_mut(id.0), self.elements.get_mut(id.0))
        {
            *ty = made.ty;
            *elements = made.elements;
        }
        Ok(())
    }

    /// Refuses what no tensor can be.
    fn check(&self, id: ValueId, ty: &TensorType) -> Result<(), Error> {
        let name = self.graph.value_name(id);
        if ty.rank() > RANK_MAX {
            let rank = ty.rank();
            let message = say!(
                "`{name}` would have {rank} dimensions; PyTorch has {rank_max}",
                name,
                rank,
                rank_max = RANK_MAX
            );
            return Err(Error::new(ErrorKind::InvalidGraph, message));
        }
        if ty.numel() > NUMEL_MAX {
            let (assumed, given) = (self.binding.assumed(), self.binding.given());
            let message = say!("{assumed}`{name}` would be {ty}{given}", assumed, name, ty, given);
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    /// Refuses state that is too large to count, by itself or together.
    fn check_state(&self) -> Result<(), Error> {
        let mut elements = 0_u64;
        for (at, (value, ty)) in self.graph.values.iter().zip(&self.types).enumerate() {
            let Some(ty) = ty.as_ref().filter(|_| value.initializer.is_some()) else { continue };
            self.check(ValueId(at), ty)?;
            elements = elements.saturating_add(ty.numel());
            if elements > NUMEL_MAX {
                let message = say!(
                    "with `{name}`, {ty}, the model would have more than {most} parameters",
                    name = value.name,
                    ty,
                    most = grouped(NUMEL_MAX)
                );
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
        }
        Ok(())
    }

    /// A rule that failed; silent where the cause lies with an input that is reported already.
    fn contradiction(&mut self, node: &'a Node, error: &OpError) {
        let type_of = |id: &ValueId| self.types.get(id.0).and_then(Option::as_ref);
        if node.inputs.iter().flatten().any(|id| type_of(id).is_none()) {
            self.lower_bound = true;
            return;
        }
        let inputs: Vec<String> = node
            .inputs
            .iter()
            .map(|id| {
                id.as_ref().and_then(type_of).map_or_else(|| "-".to_owned(), ToString::to_string)
            })
            .collect();
        let message = say!(
            "{assumed}the shape of {op}({inputs}): {error}",
            assumed = self.binding.assumed(),
            op = node.op,
            inputs = inputs.join(", "),
            error
        );
        self.gap("shape-unknown", &node.op, node.label(self.graph), || message);
    }

    fn opened(&mut self, node: &'a Node, ty: &TensorType) {
        let label = node.label(self.graph);
        self.count((Severity::Info, "restored-shape", &node.op), label, || {
            say!(
                "the exporter wrote the number of an axis where -1 stood, since both were one \
                 constant: {op} is read as making {ty}",
                op = node.op,
                ty
            )
        });
    }

    fn rebatched(&mut self, node: &'a Node, ty: &TensorType) {
        let label = node.label(self.graph);
        self.count((Severity::Info, "rebatched", &node.op), label, || {
            say!(
                "{op} was exported for one batch size and is read as making {ty}",
                op = node.op,
                ty
            )
        });
    }

    fn gap(
        &mut self,
        code: &'static str,
        op: &'a str,
        label: &str,
        message: impl FnOnce() -> Sentence,
    ) {
        self.lower_bound = true;
        self.count((Severity::Error, code, op), label, message);
    }

    fn count(&mut self, key: Key<'a>, label: &str, message: impl FnOnce() -> Sentence) {
        let first = || Gap { count: 0, node: label.to_owned(), message: message() };
        let gap = self.gaps.entry(key).or_insert_with(first);
        gap.count = gap.count.saturating_add(1);
    }
}

/// What every row states of its inputs: how many, and that those it must have are typed.
fn check_inputs(operator: &Operator, inference: &Inference<'_>) -> Result<(), OpError> {
    let n = inference.n_inputs();
    let (least, most) = (*operator.inputs.start(), *operator.inputs.end());
    if n < least || n > most {
        return Err(OpError::new(say!("{n} inputs where {least} or more are needed", n, least)));
    }
    (0..least).try_for_each(|position| inference.input(position).map(|_| ()))
}

#[cfg(test)]
mod tests;
