//! Writes a model as the program that its Python is: modules are registered, then called.
//!
//! A family's code has two halves, as its `nn.Module` has. `__init__` registers parameters and
//! buffers in order, `forward` runs operators under the paths of modules. Names of Python's are
//! [`Program::bind`], and go when they are bound again or when their frame returns; everything else
//! is held by the calls it is given to.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind};
use crate::graph::{
    Attribute, DeclaredType, Dim, Elements, Graph, Literal, Member, Node, Value, ValueId,
};
use crate::tensor::DType;

/// Version of the operator set whose nodes are written.
const OPSET: i64 = 23;

/// A tensor of the program.
pub(super) type Tensor = ValueId;

/// A program that is being written.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) graph: Graph,
    /// Modules around what is being added, from the outermost.
    path: Vec<String>,
    /// Names of Python's, by frame.
    frames: Vec<BTreeMap<&'static str, Tensor>>,
    /// Parameters and buffers by path.
    state: BTreeMap<String, Tensor>,
    /// The first name that was asked for and is not there: a mistake of ours, not of the file.
    missing: Option<String>,
}

/// COUNT: nodes that a model may have.
const NODES_MAX: usize = 400_000;

impl Program {
    pub(super) fn new(name: &str) -> Self {
        let graph =
            Graph { name: name.to_owned(), opset: OPSET, is_program: true, ..Graph::default() };
        Self { graph, frames: vec![BTreeMap::new()], ..Self::default() }
    }

    /// The graph, which returns these tensors.
    pub(super) fn finish(mut self, outputs: &[Tensor]) -> Result<Graph, Error> {
        while let Some(frame) = self.frames.pop() {
            self.leave(frame);
        }
        if let Some(missing) = self.missing {
            let message = format!("the program reads `{missing}`, which no module registered");
            return Err(Error::new(ErrorKind::NoGraph, message));
        }
        if self.graph.nodes.len() > NODES_MAX {
            let message = format!("the model has more than {NODES_MAX} operators");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.graph.outputs = outputs.to_vec();
        Ok(self.graph)
    }

    // Registration.

    /// Registers what a submodule has.
    pub(super) fn within(&mut self, name: &str, register: impl FnOnce(&mut Self)) {
        self.path.push(name.to_owned());
        register(self);
        self.path.pop();
    }

    pub(super) fn parameter(&mut self, leaf: &str, dims: &[u64]) {
        self.member(leaf, DType::Float32, dims, Member::Parameter);
    }

    pub(super) fn buffer(&mut self, leaf: &str, dtype: DType, dims: &[u64]) {
        self.member(leaf, dtype, dims, Member::Buffer);
    }

    fn member(&mut self, leaf: &str, dtype: DType, dims: &[u64], member: Member) {
        let name = self.path_of(leaf);
        let id = self.constant(name.clone(), dtype, dims.to_vec(), None);
        self.state.insert(name.clone(), id);
        self.graph.members.push((name, member));
    }

    /// `nn.Linear(takes, makes)`.
    pub(super) fn new_linear(&mut self, name: &str, takes: u64, makes: u64, bias: bool) {
        self.within(name, |p| {
            p.parameter("weight", &[makes, takes]);
            if bias {
                p.parameter("bias", &[makes]);
            }
        });
    }

    /// `nn.LayerNorm(width)`, or without a bias a norm that is written by hand.
    pub(super) fn new_norm(&mut self, name: &str, width: u64, bias: bool) {
        self.within(name, |p| {
            p.parameter("weight", &[width]);
            if bias {
                p.parameter("bias", &[width]);
            }
        });
    }

    /// `nn.Embedding(rows, width)`.
    pub(super) fn new_embedding(&mut self, name: &str, rows: u64, width: u64) {
        self.within(name, |p| p.parameter("weight", &[rows, width]));
    }

    /// Lets a module have another's weight: `_tied_weights_keys`.
    pub(super) fn tie(&mut self, name: &str, source: &str) {
        let Some(&id) = self.state.get(source) else {
            self.missing.get_or_insert_with(|| source.to_owned());
            return;
        };
        let name = self.path_of(name);
        self.state.insert(name, id);
    }

    // Calls and names.

    /// `self.name(…)`: runs a submodule's forward.
    pub(super) fn module<T>(&mut self, name: &str, forward: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name.to_owned());
        let result = self.function(forward);
        self.path.pop();
        result
    }

    /// Runs a function, whose names are its own.
    pub(super) fn function<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        self.frames.push(BTreeMap::new());
        let result = body(self);
        if let Some(frame) = self.frames.pop() {
            self.leave(frame);
        }
        result
    }

    fn leave(&mut self, frame: BTreeMap<&'static str, Tensor>) {
        let Some(now) = self.now() else { return };
        self.graph.held.extend(frame.into_values().map(|value| (value, now)));
    }

    /// `name = value`: what had that name before goes.
    pub(super) fn bind(&mut self, name: &'static str, value: Tensor) -> Tensor {
        let before = self.frames.last_mut().and_then(|frame| frame.insert(name, value));
        if let (Some(before), Some(now)) = (before, self.now()) {
            self.graph.held.push((before, now));
        }
        value
    }

    /// `del name`.
    pub(super) fn unbind(&mut self, name: &'static str) {
        let before = self.frames.last_mut().and_then(|frame| frame.remove(name));
        if let (Some(before), Some(now)) = (before, self.now()) {
            self.graph.held.push((before, now));
        }
    }

    /// A list of Python's goes that held these: `all_hidden_states`.
    pub(super) fn release(&mut self, held: &[Tensor]) {
        let Some(now) = self.now() else { return };
        self.graph.held.extend(held.iter().map(|&value| (value, now)));
    }

    /// What the last operator made.
    fn now(&self) -> Option<Tensor> {
        self.graph.nodes.last().and_then(|node| node.output(0))
    }

    // State that the forward reads.

    fn path_of(&self, leaf: &str) -> String {
        let path = self.path.iter().map(String::as_str).chain([leaf]);
        path.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// The module's own parameter or buffer, where it has that.
    pub(super) fn own(&self, leaf: &str) -> Option<Tensor> {
        self.state.get(&self.path_of(leaf)).copied()
    }

    /// The same, which must be there.
    pub(super) fn get(&mut self, leaf: &str) -> Tensor {
        let own = self.own(leaf);
        own.unwrap_or_else(|| {
            let name = self.path_of(leaf);
            self.missing.get_or_insert(name);
            ValueId(0)
        })
    }

    // Numbers that Python knows, and inputs.

    /// A tensor that the model is given.
    pub(super) fn input(&mut self, name: &str, dtype: DType, dims: Vec<Dim>) -> Tensor {
        let id = ValueId(self.graph.values.len());
        let declared = Some(DeclaredType { dtype: Some(dtype), dims: Some(dims) });
        self.graph.values.push(Value { name: name.to_owned(), declared, initializer: None });
        self.graph.inputs.push(id);
        id
    }

    fn constant(
        &mut self,
        name: String,
        dtype: DType,
        dims: Vec<u64>,
        elements: Option<Elements>,
    ) -> Tensor {
        let id = ValueId(self.graph.values.len());
        let initializer = Some(Literal { dtype, dims, elements });
        self.graph.values.push(Value { name, declared: None, initializer });
        id
    }

    pub(super) fn ints(&mut self, list: &[i64]) -> Tensor {
        let dims = vec![u64::try_from(list.len()).unwrap_or(0)];
        let name = format!("/Constant_{}", self.graph.values.len());
        self.constant(name, DType::Int64, dims, Some(Elements::Ints(list.to_vec())))
    }

    pub(super) fn int(&mut self, n: i64) -> Tensor {
        let name = format!("/Constant_{}", self.graph.values.len());
        self.constant(name, DType::Int64, Vec::new(), Some(Elements::Ints(vec![n])))
    }

    /// Some number with a fraction: which one makes no difference to memory.
    pub(super) fn number(&mut self) -> Tensor {
        let name = format!("/Constant_{}", self.graph.values.len());
        self.constant(name, DType::Float32, Vec::new(), Some(Elements::Floats(vec![0.5])))
    }

    // Operators.

    /// Runs an operator with so many results; those of PyTorch's that ONNX lacks are `torch.Linear`.
    pub(super) fn run<const N: usize>(
        &mut self,
        op: &str,
        inputs: &[Tensor],
        attributes: &[(&str, Attribute)],
    ) -> [Tensor; N] {
        let (domain, op) = op.split_once('.').unwrap_or(("", op));
        let module = self.path_of("");
        let base = self.graph.values.len();
        let outputs = std::array::from_fn(|index| ValueId(base.saturating_add(index)));
        for ValueId(index) in outputs {
            let name = format!("{module}/{op}_{index}");
            self.graph.values.push(Value { name, declared: None, initializer: None });
        }
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.graph.nodes.push(Node {
            name: format!("{module}/{op}_{base}"),
            op: op.to_owned(),
            domain: domain.to_owned(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: outputs.iter().copied().map(Some).collect(),
            attributes: attributes.collect(),
            module,
            origin: None,
        });
        outputs
    }

    pub(super) fn op(&mut self, op: &str, inputs: &[Tensor]) -> Tensor {
        let [y] = self.run(op, inputs, &[]);
        y
    }

    pub(super) fn with(&mut self, op: &str, inputs: &[Tensor], name: &str, n: i64) -> Tensor {
        let [y] = self.run(op, inputs, &[(name, Attribute::Int(n))]);
        y
    }

    pub(super) fn add(&mut self, a: Tensor, b: Tensor) -> Tensor {
        self.op("Add", &[a, b])
    }

    pub(super) fn mul(&mut self, a: Tensor, b: Tensor) -> Tensor {
        self.op("Mul", &[a, b])
    }

    /// `x * number`.
    pub(super) fn scale(&mut self, x: Tensor) -> Tensor {
        let number = self.number();
        self.op("Mul", &[x, number])
    }

    /// `x.view(…)`; `0` keeps a dimension, `-1` takes what is left.
    pub(super) fn reshape(&mut self, x: Tensor, target: &[i64]) -> Tensor {
        let target = self.ints(target);
        self.op("Reshape", &[x, target])
    }

    pub(super) fn permute(&mut self, x: Tensor, order: &[i64]) -> Tensor {
        let [y] = self.run("Transpose", &[x], &[("perm", Attribute::Ints(order.to_vec()))]);
        y
    }

    /// `x[start:end]` along a dimension.
    pub(super) fn slice(&mut self, x: Tensor, axis: i64, start: i64, end: i64) -> Tensor {
        let (start, end, axis) = (self.ints(&[start]), self.ints(&[end]), self.ints(&[axis]));
        self.op("Slice", &[x, start, end, axis])
    }

    /// `x[:, index]` along a dimension.
    pub(super) fn select(&mut self, x: Tensor, axis: i64, index: i64) -> Tensor {
        let index = self.int(index);
        self.with("Gather", &[x, index], "axis", axis)
    }

    pub(super) fn unsqueeze(&mut self, x: Tensor, axis: i64) -> Tensor {
        let axes = self.ints(&[axis]);
        self.op("Unsqueeze", &[x, axes])
    }

    /// `x.shape`.
    pub(super) fn shape_of(&mut self, x: Tensor) -> Tensor {
        self.op("Shape", &[x])
    }

    /// `x.shape[axis]`, as a list of one.
    pub(super) fn size(&mut self, x: Tensor, axis: i64) -> Tensor {
        let shape = self.shape_of(x);
        let (start, end) = (self.ints(&[axis]), self.ints(&[axis.saturating_add(1)]));
        self.op("Slice", &[shape, start, end])
    }

    /// `x[:size]` along a dimension.
    pub(super) fn slice_to(&mut self, x: Tensor, axis: i64, size: Tensor) -> Tensor {
        let (start, axis) = (self.ints(&[0]), self.ints(&[axis]));
        self.op("Slice", &[x, start, size, axis])
    }

    pub(super) fn concat(&mut self, parts: &[Tensor], axis: i64) -> Tensor {
        self.with("Concat", parts, "axis", axis)
    }

    /// `x.split(sizes, dim=axis)`.
    pub(super) fn split<const N: usize>(
        &mut self,
        x: Tensor,
        sizes: [u64; N],
        axis: i64,
    ) -> [Tensor; N] {
        let sizes = self.ints(&sizes.map(signed));
        self.run("Split", &[x, sizes], &[("axis", Attribute::Int(axis))])
    }

    pub(super) fn softmax(&mut self, x: Tensor) -> Tensor {
        self.with("Softmax", &[x], "axis", -1)
    }

    /// `x.float()`.
    pub(super) fn float(&mut self, x: Tensor) -> Tensor {
        self.with("Cast", &[x], "to", 1)
    }

    // Modules of PyTorch's.

    /// `F.linear` with the weight of the module that runs.
    pub(super) fn product(&mut self, x: Tensor) -> Tensor {
        let inputs: Vec<Tensor> =
            [x, self.get("weight")].into_iter().chain(self.own("bias")).collect();
        self.with("torch.Linear", &inputs, "transposed", 1)
    }

    pub(super) fn linear(&mut self, name: &str, x: Tensor) -> Tensor {
        self.module(name, |p| p.product(x))
    }

    /// transformers' `Conv1D`: `addmm` of the flattened input, whose weight is `[takes, makes]`.
    pub(super) fn conv1d(&mut self, name: &str, x: Tensor) -> Tensor {
        self.module(name, |p| {
            let (weight, bias) = (p.get("weight"), p.get("bias"));
            p.with("torch.Linear", &[x, weight, bias], "transposed", 0)
        })
    }

    pub(super) fn layer_norm(&mut self, name: &str, x: Tensor) -> Tensor {
        self.module(name, |p| {
            let inputs: Vec<Tensor> =
                [x, p.get("weight")].into_iter().chain(p.own("bias")).collect();
            p.with("LayerNormalization", &inputs, "axis", -1)
        })
    }

    pub(super) fn embedding(&mut self, name: &str, rows: Tensor) -> Tensor {
        self.module(name, |p| {
            let weight = p.get("weight");
            p.with("Gather", &[weight, rows], "axis", 0)
        })
    }

    /// `F.dropout`, which returns its input at a probability of 0.
    pub(super) fn drop_out(&mut self, x: Tensor, p: f64) -> Tensor {
        if p <= 0.0 {
            return x;
        }
        let [y] = self.run("Dropout", &[x], &[("ratio", Attribute::Float(p))]);
        y
    }

    pub(super) fn dropout(&mut self, name: &str, x: Tensor, p: f64) -> Tensor {
        self.module(name, |program| program.drop_out(x, p))
    }
}

pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
