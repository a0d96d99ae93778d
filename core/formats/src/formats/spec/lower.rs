//! [`Spec`] → [`Graph`]: every layer becomes the nodes that PyTorch runs for its module.
//!
//! `tests/fixtures/spec/reference.py` has the Python code that a spec describes, and the paths of modules are
//! those of that code. Sizes are followed along, so that a layer knows what comes in; an open dimension has the
//! size that the spec suggests, or none, and then no parameter may depend on it.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::{Default as Fallback, Value};
use super::{Body, Join, LAYERS_MAX, Layer, Module, Spec, tree};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind, Place};
use crate::formats::builder::{Builder, joined};
use crate::graph::{Attribute, Dim, Graph, Member, ValueId};
use crate::sentence::Sentence;
use crate::tensor::DType;

pub(super) mod blocks;
pub(super) mod layers;

/// COUNT: nodes that a graph may have.
const NODES_MAX: usize = 4 * LAYERS_MAX;

/// Name of a batch that the spec states as a number.
const BATCH: &str = "batch";

/// A dimension on its way through the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// How large it is, where that is known.
    pub(super) number: Option<u64>,
    /// Whether the user may still change it.
    pub(super) open: bool,
}

impl Size {
    pub(super) const fn known(number: u64) -> Self {
        Self { number: Some(number), open: false }
    }

    pub(super) fn map(self, change: impl FnOnce(u64) -> Option<u64>) -> Self {
        Self { number: self.number.and_then(change), open: self.open }
    }

    fn with(self, other: Self, change: impl FnOnce(u64, u64) -> Option<u64>) -> Self {
        let number = self.number.zip(other.number).and_then(|(a, b)| change(a, b));
        Self { number, open: self.open || other.open }
    }
}

/// A value of the graph and its sizes.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) id: ValueId,
    pub(super) shape: Vec<Size>,
}

impl Tensor {
    /// The sizes, for messages: `[8, 3, ?]`.
    pub(super) fn shown(&self) -> String {
        let size = |size: &Size| size.number.map_or_else(|| "?".to_owned(), |n| n.to_string());
        format!("[{}]", self.shape.iter().map(size).collect::<Vec<_>>().join(", "))
    }

    /// The last dimension.
    fn width(&self) -> Option<Size> {
        self.shape.last().copied()
    }
}

/// Arguments of a module, with the table's defaults.
#[derive(Debug)]
pub(super) struct Args<'a> {
    module: &'a Module,
}

impl Args<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        if let Some(given) = self.module.argument(name) {
            return Some(given.clone());
        }
        let row = self.module.kind().arguments.iter().find(|argument| argument.name == name)?;
        Some(match row.default {
            Fallback::Needed | Fallback::Derived(_) => return None,
            Fallback::Int(n) => Value::Int(n),
            Fallback::Share(x) => Value::Number(x),
            Fallback::Flag(flag) => Value::Flag(flag),
            Fallback::Word(word) => Value::Word(word.to_owned()),
        })
    }

    /// A number that was given or has a default.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Int(n) => u64::try_from(n).ok(),
            Value::Ints(list) => u64::try_from(*list.first()?).ok(),
            _ => None,
        }
    }

    /// One number for each of so many dimensions.
    pub(super) fn numbers(&self, name: &str, count: usize) -> Option<Vec<u64>> {
        let size = |n: &i64| u64::try_from(*n).ok();
        match self.value(name)? {
            Value::Int(n) => Some(vec![size(&n)?; count]),
            Value::Ints(list) if list.len() == count => list.iter().map(size).collect(),
            Value::Ints(list) if list.len() == 1 => Some(vec![size(list.first()?)?; count]),
            _ => None,
        }
    }

    pub(super) fn ints(&self, name: &str) -> Vec<i64> {
        match self.value(name) {
            Some(Value::Ints(list)) => list,
            Some(Value::Int(n)) => vec![n],
            _ => Vec::new(),
        }
    }

    pub(super) fn index(&self, name: &str) -> i64 {
        self.ints(name).first().copied().unwrap_or(0)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Flag(true))
    }

    /// A flag that follows from something else where it is not given.
    pub(super) fn given_flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn share(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(x)) => x,
            Some(Value::Int(1)) => 1.0,
            _ => 0.0,
        }
    }

    pub(super) fn word(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) const fn kind(&self) -> &'static str {
        self.module.kind().name
    }
}

/// A graph under construction.
#[derive(Debug)]
pub(super) struct Lowering<'a> {
    spec: &'a Spec,
    pub(super) builder: Builder,
    buffers: Vec<(String, Member)>,
    /// Modules around what is being added, from the outermost.
    path: Vec<String>,
    /// Where the text says what is being added.
    pub(super) place: Place,
    /// Results and inputs by path.
    named: BTreeMap<String, Tensor>,
    /// Those that are read again under their name.
    read_by_name: BTreeSet<ValueId>,
    /// Parameters and buffers by path.
    state: BTreeMap<String, ValueId>,
    /// Inputs whose type follows from who reads them first.
    untyped: BTreeSet<ValueId>,
    layers: usize,
    /// What layers with names are, and the path of each as a module.
    bodies: BTreeMap<String, &'a Body>,
    /// COUNT: layers that are run again, inside each other; parameters are then those that there are.
    again: usize,
    /// A module whose parameters depend on the size of an open dimension.
    depends: Option<String>,
}

impl Spec {
    /// The program that PyTorch runs for this model.
    ///
    /// # Errors
    /// When layers do not fit together, name what there is not, or are too many.
    pub fn lower(&self) -> Result<Graph, Error> {
        let mut lowering = Lowering::new(self);
        let mut x = lowering.inputs()?;
        if self.layers.is_empty() {
            return Err(Error::new(ErrorKind::NoGraph, say!("the spec has no layers")));
        }
        x = lowering.row(&self.layers, x, 0)?;
        lowering.finish(&x)
    }
}

impl<'a> Lowering<'a> {
    pub(super) fn new(spec: &'a Spec) -> Self {
        let mut builder = Builder::new(&spec.name, spec.diagnostics.clone());
        builder.graph.dims = spec.dims.clone();
        Self {
            spec,
            builder,
            buffers: Vec::new(),
            path: Vec::new(),
            place: Place::default(),
            named: BTreeMap::new(),
            read_by_name: BTreeSet::new(),
            state: BTreeMap::new(),
            untyped: BTreeSet::new(),
            layers: 0,
            bodies: BTreeMap::new(),
            again: 0,
            depends: None,
        }
    }

    /// Adds the inputs; the first is what the first layer reads.
    pub(super) fn inputs(&mut self) -> Result<Tensor, Error> {
        let spec = self.spec;
        let is_named = |dim: &Dim| !matches!(dim, Dim::Known(_));
        let fixed = !spec.inputs.iter().any(|input| input.dims.iter().any(is_named));
        let mut first = None;
        for input in &spec.inputs {
            self.place = input.place;
            let mut dims = input.dims.clone();
            // A batch that is written as a number stays one that the user may change.
            if fixed && let Some(batch) = dims.first_mut() {
                if let Dim::Known(n) = batch {
                    self.builder.graph.dims.insert(BATCH.to_owned(), *n);
                }
                *batch = Dim::Named(BATCH.to_owned());
            }
            let shape = dims.iter().map(|dim| match dim {
                Dim::Known(n) => Size::known(*n),
                Dim::Named(name) => {
                    Size { number: self.builder.graph.dims.get(name).copied(), open: true }
                }
                Dim::Unknown => Size { number: None, open: true },
            });
            let shape = shape.collect();
            let dtype = input.dtype.unwrap_or(DType::Float32);
            let id = self.builder.input(&input.name, dtype, dims);
            if input.dtype.is_none() {
                self.untyped.insert(id);
            }
            let tensor = Tensor { id, shape };
            if self.named.insert(input.name.clone(), tensor.clone()).is_some() {
                return Err(self.fault(say!("two inputs are called `{name}`", name = input.name)));
            }
            first = first.or(Some(tensor));
        }
        first.ok_or_else(|| {
            tree::fault(
                Place::default(),
                say!("the spec has no input; write `input: [N, 3, 224, 224]`"),
            )
        })
    }

    fn finish(mut self, last: &Tensor) -> Result<Graph, Error> {
        let mut outputs = Vec::new();
        for name in &self.spec.outputs {
            outputs.push(self.named(name)?.id);
        }
        if outputs.is_empty() {
            outputs.push(last.id);
        }
        if outputs.iter().any(|id| self.builder.graph.inputs.contains(id)) {
            return Err(Error::new(
                ErrorKind::NoGraph,
                say!("no layer of the spec computes anything"),
            ));
        }
        // What is read by name has a name in the forward, which goes when that returns.
        let inputs = &self.builder.graph.inputs;
        let named = self.read_by_name.iter().filter(|id| !inputs.contains(id));
        self.builder.graph.held.extend(named.map(|&id| (id, last.id)));
        self.builder.graph.outputs = outputs;
        self.builder.graph.members.append(&mut self.buffers);
        if let Some(module) = self.depends {
            let sizes = self.spec.dims.iter().map(|(name, size)| format!("{name} = {size}"));
            let message = say!(
                "parameters (the first are those of `{module}`) have sizes that follow from {sizes}; a \
                 model for other sizes is another spec",
                module,
                sizes = sizes.collect::<Vec<_>>().join(", ")
            );
            let diagnostic = Diagnostic::new(Severity::Info, "sizes-of-the-spec", message);
            self.builder.graph.diagnostics.push(diagnostic);
        }
        Ok(self.builder.graph)
    }

    /// Layers in a row.
    fn row(&mut self, layers: &'a [Layer], x: Tensor, depth: usize) -> Result<Tensor, Error> {
        if depth > super::DEPTH_MAX {
            let message =
                say!("layers lie more than {most} deep in each other", most = super::DEPTH_MAX);
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let mut x = x;
        for (index, layer) in layers.iter().enumerate() {
            x = self.layer(layer, index, x, depth)?;
        }
        Ok(x)
    }

    fn layer(
        &mut self,
        layer: &'a Layer,
        index: usize,
        x: Tensor,
        depth: usize,
    ) -> Result<Tensor, Error> {
        self.place = layer.place;
        self.count()?;
        let x = match &layer.from {
            None => x,
            Some(name) => self.read(name)?,
        };
        let name = layer.name.clone().unwrap_or_else(|| index.to_string());
        if let Body::Join { join, with, dim } = &layer.body {
            let mut operands = vec![x];
            for name in with {
                operands.push(self.read(name)?);
            }
            let y = self.join(*join, &operands, *dim)?;
            return self.remember(layer, &name, y);
        }
        self.path.push(name.clone());
        let y = self.body(&layer.body, x, depth.saturating_add(1));
        self.path.pop();
        let y = self.remember(layer, &name, y?)?;
        if layer.name.is_some() {
            self.bodies.insert(self.path_of(&name), &layer.body);
        }
        Ok(y)
    }

    /// One layer more.
    fn count(&mut self) -> Result<(), Error> {
        self.layers = self.layers.saturating_add(1);
        if self.layers > LAYERS_MAX || self.builder.graph.nodes.len() > NODES_MAX {
            let message =
                say!("the spec expands to more than {layers_max} layers", layers_max = LAYERS_MAX);
            return Err(Error::new(ErrorKind::TooLarge, message).at(self.place));
        }
        Ok(())
    }

    /// Lets later layers read a result by name.
    fn remember(&mut self, layer: &Layer, name: &str, y: Tensor) -> Result<Tensor, Error> {
        if layer.name.is_some() {
            let path = self.path_of(name);
            if self.named.insert(path, y.clone()).is_some() && self.again == 0 {
                self.place = layer.place;
                return Err(self.fault(say!("two layers are called `{name}`", name)));
            }
        }
        Ok(y)
    }

    fn body(&mut self, body: &'a Body, x: Tensor, depth: usize) -> Result<Tensor, Error> {
        match body {
            Body::Module(module) => self.module(module, &x),
            Body::Sequential(layers) => self.row(layers, x, depth),
            Body::Repeat { count, block } => {
                let mut x = x;
                for index in 0..*count {
                    x = self.repetition(block, index, x, depth)?;
                }
                Ok(x)
            }
            Body::Residual { body, shortcut, inplace } => {
                let y = self.within("body", |l| l.row(body, x.clone(), depth))?;
                let other = self.within("shortcut", |l| l.row(shortcut, x.clone(), depth))?;
                let inplace = inplace.then_some(("in_place", Attribute::Int(1)));
                let shape = self.broadcast(&y, &other)?;
                let sum = self.made("Add", &[y.id, other.id], inplace, shape);
                // `y` and `other` are names.
                for id in [y.id, other.id] {
                    self.builder.hold(id, sum.id);
                }
                Ok(sum)
            }
            Body::Branch { arms, join, dim } => {
                let mut results = Vec::new();
                for (index, arm) in arms.iter().enumerate() {
                    let y = self.within("branches", |l| {
                        l.within(&index.to_string(), |l| l.row(arm, x.clone(), depth))
                    });
                    results.push(y?);
                }
                let y = self.join(*join, &results, *dim)?;
                for result in results {
                    self.builder.hold(result.id, y.id);
                }
                Ok(y)
            }
            // Handled where its name is known: it is no module.
            Body::Join { .. } => Ok(x),
        }
    }

    /// One module of the table.
    pub(super) fn module(&mut self, module: &Module, x: &Tensor) -> Result<Tensor, Error> {
        let missing = module.kind().arguments.iter().find(|argument| {
            argument.default == Fallback::Needed && module.argument(argument.name).is_none()
        });
        if let Some(argument) = missing {
            let (kind, name, about) = (module.kind().name, argument.name, argument.about);
            return Err(self.fault(say!(
                "`{kind}` needs `{name}`: {about}",
                kind,
                name,
                about = Sentence::of(about)
            )));
        }
        (module.kind().lower)(self, &Args { module }, x)
    }

    /// A block that is a single layer is that layer.
    fn repetition(
        &mut self,
        block: &'a [Layer],
        index: u64,
        x: Tensor,
        depth: usize,
    ) -> Result<Tensor, Error> {
        match block {
            [only] if only.name.is_none() && !matches!(only.body, Body::Join { .. }) => {
                let position = usize::try_from(index).unwrap_or(usize::MAX);
                self.layer(only, position, x, depth)
            }
            _ => {
                // An empty block has no layer to count.
                self.count()?;
                self.path.push(index.to_string());
                let y = self.row(block, x, depth.saturating_add(1));
                self.path.pop();
                y
            }
        }
    }

    pub(super) fn join(
        &mut self,
        join: Join,
        operands: &[Tensor],
        dim: i64,
    ) -> Result<Tensor, Error> {
        let Some((first, others)) = operands.split_first() else {
            return Err(self.fault(say!("`{name}` has nothing to join", name = join.name())));
        };
        if join == Join::Concat {
            return self.concat(operands, dim);
        }
        let op = if join == Join::Add { "Add" } else { "Mul" };
        let mut y = first.clone();
        for other in others {
            let shape = self.broadcast(&y, other)?;
            y = self.made(op, &[y.id, other.id], None, shape);
        }
        Ok(y)
    }

    fn concat(&mut self, operands: &[Tensor], dim: i64) -> Result<Tensor, Error> {
        let Some(first) = operands.first() else {
            return Err(self.fault(say!("`concat` has nothing to join")));
        };
        let axis = self.axis(first, dim)?;
        let mut shape = first.shape.clone();
        for other in operands.iter().skip(1) {
            let pairs = other.shape.iter().zip(&first.shape).enumerate();
            let differs = |(at, (a, b)): (usize, (&Size, &Size))| {
                at != axis && a.number.is_some() && b.number.is_some() && a.number != b.number
            };
            let mut pairs = pairs;
            if other.shape.len() != first.shape.len() || pairs.any(differs) {
                let message = say!(
                    "`concat` along dimension {axis} of {shown} and {shown_2}: all others must be alike",
                    axis,
                    shown = first.shown(),
                    shown_2 = other.shown()
                );
                return Err(self.fault(message));
            }
            if let (Some(sum), Some(&more)) = (shape.get_mut(axis), other.shape.get(axis)) {
                *sum = sum.with(more, u64::checked_add);
            }
        }
        let ids: Vec<ValueId> = operands.iter().map(|tensor| tensor.id).collect();
        let axis = i64::try_from(axis).unwrap_or(0);
        Ok(self.made("Concat", &ids, Some(("axis", Attribute::Int(axis))), shape))
    }

    /// Sizes of a sum.
    fn broadcast(&self, a: &Tensor, b: &Tensor) -> Result<Vec<Size>, Error> {
        let rank = a.shape.len().max(b.shape.len());
        let padded = |tensor: &Tensor| {
            let missing = rank.saturating_sub(tensor.shape.len());
            let ones = std::iter::repeat_n(Size::known(1), missing);
            ones.chain(tensor.shape.iter().copied()).collect::<Vec<_>>()
        };
        let pairs = padded(a).into_iter().zip(padded(b));
        let sizes = pairs.map(|(x, y)| match (x.number, y.number) {
            (Some(n), Some(m)) if n == m => Some(Size { number: x.number, open: x.open || y.open }),
            (_, Some(1)) | (Some(2..), None) => Some(x),
            (Some(1) | None, _) => Some(y),
            (Some(_), _) => None,
        });
        sizes.collect::<Option<Vec<_>>>().ok_or_else(|| {
            let hint = "; give the residual a `shortcut` that brings its input to the same sizes";
            let hint = if a.shape.len() == b.shape.len() { hint } else { "" };
            self.fault(say!(
                "{shown} and {shown_2} do not fit each other{hint}",
                shown = a.shown(),
                shown_2 = b.shown(),
                hint
            ))
        })
    }

    /// The name of what there is, from the innermost module outwards.
    fn found<T>(&self, known: &BTreeMap<String, T>, name: &str) -> Option<String> {
        (0..=self.path.len()).rev().find_map(|depth| {
            let around = self.path.get(..depth)?.iter().map(String::as_str);
            let path = around.chain([name]).collect::<Vec<_>>().join(".");
            known.contains_key(&path).then_some(path)
        })
    }

    /// Lets modules read a result under this name.
    pub(super) fn name(&mut self, name: &str, tensor: &Tensor) {
        self.named.insert(name.to_owned(), tensor.clone());
    }

    /// Runs with one module more around.
    pub(super) fn within<T>(
        &mut self,
        name: &str,
        add: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.path.push(name.to_owned());
        let result = add(self);
        self.path.pop();
        result
    }

    /// The result or input of this name, from the innermost module outwards.
    pub(super) fn named(&self, name: &str) -> Result<Tensor, Error> {
        let found = self.found(&self.named, name).and_then(|path| self.named.get(&path));
        found.cloned().ok_or_else(|| {
            let known = self.named.keys().map(String::as_str);
            let meant = super::kinds::did_you_mean(name, known);
            let name = tree::shortened(name);
            self.fault(say!(
                "nothing before this is called `{name}`{meant}; give a layer a `name`",
                name,
                meant
            ))
        })
    }

    /// The same, which keeps that name until the forward returns.
    fn read(&mut self, name: &str) -> Result<Tensor, Error> {
        let tensor = self.named(name)?;
        self.read_by_name.insert(tensor.id);
        Ok(tensor)
    }

    fn path_of(&self, leaf: &str) -> String {
        joined(&self.path.join("."), leaf)
    }

    pub(super) fn fault(&self, message: Sentence) -> Error {
        tree::fault(self.place, message)
    }

    /// A size that a parameter depends on.
    pub(super) fn need(&mut self, size: Option<Size>, what: &Sentence) -> Result<u64, Error> {
        match size {
            Some(Size { number: Some(n), open }) => {
                if open && self.depends.is_none() {
                    self.depends = Some(self.path.join("."));
                }
                Ok(n)
            }
            Some(_) => Err(self.fault(say!(
                "{what} is unknown, because it follows from an open dimension; give that a size \
                 under `dims`, such as `{example}`",
                what,
                example = "dims: {H: 224}"
            ))),
            None => Err(self.fault(say!("there is no dimension for {what}", what))),
        }
    }

    /// A dimension by number, from the back if negative.
    pub(super) fn axis(&self, x: &Tensor, dim: i64) -> Result<usize, Error> {
        let rank = i64::try_from(x.shape.len()).unwrap_or(i64::MAX);
        let axis = if dim < 0 { dim.saturating_add(rank) } else { dim };
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < x.shape.len());
        axis.ok_or_else(|| {
            self.fault(say!("{shown} has no dimension {dim}", shown = x.shown(), dim))
        })
    }

    /// A parameter of the module that is being added.
    pub(super) fn parameter(&mut self, leaf: &str, dims: &[u64]) -> Result<ValueId, Error> {
        if let Some(id) = self.shared(leaf, dims)? {
            return Ok(id);
        }
        let id = self.member(leaf, dims)?;
        self.builder.register(&self.path_of(leaf), Member::Parameter);
        Ok(id)
    }

    /// A buffer of the module that is being added.
    pub(super) fn buffer(&mut self, leaf: &str, dims: &[u64]) -> Result<ValueId, Error> {
        if let Some(id) = self.shared(leaf, dims)? {
            return Ok(id);
        }
        let id = self.member(leaf, dims)?;
        self.buffers.push((self.path_of(leaf), Member::Buffer));
        Ok(id)
    }

    /// The tensor of a layer that is run again.
    fn shared(&self, leaf: &str, dims: &[u64]) -> Result<Option<ValueId>, Error> {
        let known = self.state.get(&self.path_of(leaf)).filter(|_| self.again > 0).copied();
        let Some(id) = known else { return Ok(None) };
        if self.dims_of(id) == dims {
            return Ok(Some(id));
        }
        let (name, have) = (self.path_of(leaf), self.dims_of(id));
        Err(self.fault(say!(
            "`{name}` is {have}, and {dims} is needed here",
            name,
            have = format!("{have:?}"),
            dims = format!("{dims:?}")
        )))
    }

    fn member(&mut self, leaf: &str, dims: &[u64]) -> Result<ValueId, Error> {
        let name = self.path_of(leaf);
        let id = self.builder.state(&name, DType::Float32, dims);
        if self.state.insert(name.clone(), id).is_some() || self.named.contains_key(&name) {
            return Err(self.fault(say!("two tensors would be called `{name}`", name)));
        }
        Ok(id)
    }

    /// The weight of an earlier module.
    pub(super) fn weight_of(&self, module: &str) -> Option<ValueId> {
        let leaf = format!("{module}.weight");
        (0..=self.path.len()).rev().find_map(|depth| {
            let around = self.path.get(..depth)?.iter().map(String::as_str);
            self.state.get(&around.chain([leaf.as_str()]).collect::<Vec<_>>().join(".")).copied()
        })
    }

    /// Sizes of a parameter.
    pub(super) fn dims_of(&self, id: ValueId) -> &[u64] {
        let literal = self.builder.graph.value(id).and_then(|value| value.initializer.as_ref());
        literal.map_or(&[], |literal| literal.dims.as_slice())
    }

    /// Adds a node with one output; `torch.Linear` is of domain `torch`.
    pub(super) fn made(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: impl IntoIterator<Item = (&'static str, Attribute)>,
        shape: Vec<Size>,
    ) -> Tensor {
        let inputs = inputs.iter().map(|&id| Some(id)).collect();
        let [id] = self.run(op, inputs, attributes);
        Tensor { id, shape }
    }

    /// Adds a node with so many outputs.
    pub(super) fn run<const N: usize>(
        &mut self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: impl IntoIterator<Item = (&'static str, Attribute)>,
    ) -> [ValueId; N] {
        let made = self.builder.run(&self.path.join("."), op, inputs, attributes, N);
        std::array::from_fn(|index| made.get(index).copied().unwrap_or(ValueId(0)))
    }

    /// Lets an input without a stated type be integers, as an embedding reads them.
    fn read_as_indices(&mut self, x: &Tensor) -> Result<(), Error> {
        let untyped = self.untyped.contains(&x.id);
        let value = self.builder.graph.values.get_mut(x.id.0);
        let declared = value.and_then(|value| value.declared.as_mut());
        match declared {
            Some(declared) if untyped => declared.dtype = Some(DType::Int64),
            Some(declared) if declared.dtype.is_some_and(|dtype| !dtype.is_floating()) => {}
            _ => {
                let message = say!("an embedding reads numbers of rows: an input of type int64");
                return Err(self.fault(message));
            }
        }
        Ok(())
    }
}

/// COUNT: layers that are run again inside each other, at most.
const AGAIN_MAX: usize = 8;

/// The module of this name once more: its parameters are those that there are.
pub(super) fn again(l: &mut Lowering<'_>, a: &Args<'_>, x: &Tensor) -> Result<Tensor, Error> {
    let name = a.word("layer").unwrap_or_default();
    let known = l.found(&l.bodies, &name);
    let found = known.and_then(|path| l.bodies.get(&path).map(|&body| (path, body)));
    let Some((path, body)) = found else {
        let known = l.bodies.keys().map(String::as_str);
        let meant = super::kinds::did_you_mean(&name, known);
        let name = tree::shortened(&name);
        return Err(l.fault(say!("`again` finds no earlier layer `{name}`{meant}", name, meant)));
    };
    if l.again >= AGAIN_MAX {
        return Err(l.fault(say!(
            "`again` is nested more than {again_max} deep in itself",
            again_max = AGAIN_MAX
        )));
    }
    l.count()?;
    let path = path.split('.').map(str::to_owned).collect();
    let outside = std::mem::replace(&mut l.path, path);
    l.again = l.again.saturating_add(1);
    let y = l.body(body, x.clone(), 0);
    l.again = l.again.saturating_sub(1);
    l.path = outside;
    y
}
