//! The program as its file states it: values, nodes, parameters, module paths.
//!
//! Every format becomes this one type, and nothing after it knows where a graph came from.
//! Nodes are in topological order; ids are positions.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::basis::Reason;
use crate::config::LossChoice;
use crate::diagnostic::Diagnostic;
use crate::tensor::DType;

mod order;

pub use order::topological_order;

/// Position of a [`Value`] in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub usize);

/// Position of a [`Node`] in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub usize);

/// A model as it was read, before any dimension is bound.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Graph {
    /// Name the file gives itself; may be empty.
    pub name: String,
    /// Program that wrote the file, such as `pytorch 2.15.0`; may be empty.
    pub producer: String,
    /// Version of ONNX's default operator set, which some shape rules depend on.
    pub opset: i64,
    /// All tensors that have a name.
    pub values: Vec<Value>,
    /// Operators, each after those it reads from.
    pub nodes: Vec<Arc<Node>>,
    /// What the caller feeds, in order; initializers are not among them.
    pub inputs: Vec<ValueId>,
    /// What the caller gets, in order.
    pub outputs: Vec<ValueId>,
    /// Parameters and buffers that the module had when it was exported, in the order and under the
    /// names of `named_parameters()` and then `named_buffers()`: also those that the exporter folded
    /// away. Empty where the file does not tell.
    pub members: Vec<(String, Member)>,
    /// Sizes that the file itself suggests for its open dimensions, by name.
    pub dims: BTreeMap<String, u64>,
    /// Names of those that are usual sizes, which the file does not state.
    pub assumed_dims: Vec<String>,
    /// How close the nodes are to the operators that PyTorch runs.
    pub level: Level,
    /// In a program: values that a Python name holds until another value has been made.
    pub held: Vec<(ValueId, ValueId)>,
    /// In a program: paths of the modules that its library runs again in backward where a user asks for that. Empty
    /// where the library is not known to choose.
    #[serde(default)]
    pub recomputed: Vec<String>,
    /// Values of `Constant` nodes, in order: numbers of the code, which are trained only where they are used as
    /// weights.
    pub constants: Vec<ValueId>,
    /// Weights of branches that are not taken or that nothing reads, in order: the module has them all the same.
    #[serde(skip)]
    pub idle: Vec<ValueId>,
    /// Why values are not simply what the file states; as long as no stage has run, none.
    #[serde(skip)]
    pub reasons: BTreeMap<ValueId, Reason>,
    /// Inputs that say how often a loop runs, in order, once the loops are written out.
    #[serde(skip)]
    pub counts: Vec<ValueId>,
    /// COUNT: tokens of the longest text that the model has positions for, where its configuration states it.
    #[serde(skip)]
    pub positions: Option<u64>,
    /// Sizes that no input has and the user may choose, such as the number of classes, with those that they have;
    /// `None` for one that follows the length.
    #[serde(skip)]
    pub options: BTreeMap<&'static str, Option<u64>>,
    /// The loss that the class computes where the user chose its head.
    #[serde(skip)]
    pub loss: Option<LossChoice>,
    /// Where the loss is computed.
    #[serde(skip)]
    pub loss_place: LossPlace,
    /// COUNT: tokens that attention looks back over, where it does not look at all.
    #[serde(skip)]
    pub window: Option<u64>,
    /// Keys and values that are kept from one forward pass to the next: what a pass is given, if it is not the first,
    /// and what it makes of it.
    #[serde(skip)]
    pub cache: Vec<(Option<ValueId>, ValueId)>,
    /// Loops of which a few trips stand for all.
    #[serde(skip)]
    pub folds: Vec<Fold>,
    /// Parameters that tensor parallelism spreads over ranks, each in its part or whole.
    #[serde(default)]
    pub spread: BTreeSet<String>,
    /// What reading the file already had to assume.
    pub diagnostics: Vec<Diagnostic>,
}

/// Where the loss of a model is computed, as a compiler of the model sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPlace {
    /// In the script: the model does not know it.
    #[default]
    Script,
    /// In the model's own forward.
    Model,
    /// There too, but behind a call that no compiler follows.
    BehindBreak,
}

/// How close nodes are to the operators that PyTorch runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// What an exporter wrote: it removed operators and took others apart.
    #[default]
    Export,
    /// The calls that PyTorch made in a trace: none removed, none taken apart, with what overwrites its input marked
    /// and all state among the members. What Python's names hold, and what libraries spell out in Python, is still to
    /// be recovered.
    Trace,
    /// The operators that PyTorch runs: nothing is to be recovered.
    Program,
}

impl Level {
    /// Whether the nodes are all that ran, and the members all that the module registers.
    pub const fn is_whole(self) -> bool {
        !matches!(self, Self::Export)
    }

    /// Whether the nodes are the operators themselves, so that all of them run, read or not.
    pub const fn is_program(self) -> bool {
        matches!(self, Self::Program)
    }

    /// Whether the nodes are the calls of a trace.
    pub const fn is_trace(self) -> bool {
        matches!(self, Self::Trace)
    }
}

/// A loop that runs too often to write out: the graph has its first and last trips, and one of them stands for all
/// between, which are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The loop's name.
    pub name: String,
    /// COUNT: trips that the loop makes.
    pub trips: u64,
}

impl Fold {
    /// COUNT: trips that the graph has.
    pub const WRITTEN: usize = 8;
    /// The trip, counted from 0, that also stands for those that the graph lacks, which follow it.
    pub const TEMPLATE: usize = 4;

    /// COUNT: trips that the graph lacks.
    pub fn lacking(&self) -> u64 {
        self.trips.saturating_sub(u64::try_from(Self::WRITTEN).unwrap_or(0))
    }
}

/// Where a node of a [`Fold`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trip {
    /// Position of the loop in [`Graph::folds`].
    pub fold: usize,
    /// Of the trips that the graph has, counted from 0.
    pub place: usize,
}

/// What a tensor is to the module that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Member {
    /// Trained, with a gradient: `nn.Parameter`.
    Parameter,
    /// State without a gradient: `nn.Buffer`.
    Buffer,
}

/// One tensor of the graph.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Value {
    /// Name in the file; unique, and never empty.
    pub name: String,
    /// Type that the file declares, where it does.
    pub declared: Option<DeclaredType>,
    /// Set when the file carries the tensor's contents: a parameter, a buffer, a constant.
    pub initializer: Option<Literal>,
}

/// A type with dimensions that may still be open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredType {
    /// Element type; `None` where the file names one without a size (strings, sequences).
    pub dtype: Option<DType>,
    /// Dimensions, outermost first; `None` where not even the rank is known.
    pub dims: Option<Vec<Dim>>,
}

impl fmt::Display for DeclaredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dtype {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("?")?,
        }
        let Some(dims) = &self.dims else { return Ok(()) };
        let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

/// One declared dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dim {
    /// A number.
    Known(u64),
    /// Open, with a name that the user binds: `batch`, `seq`.
    Named(String),
    /// Open, without a name.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// Contents of a tensor in the file: its type, and its elements where they are few and needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Literal {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Vec<u64>,
    /// Elements, kept only for small tensors: shape arithmetic reads them. Weights are never read.
    pub elements: Option<Elements>,
}

/// Elements of a small constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Elements {
    /// Integers and booleans.
    Ints(Vec<i64>),
    /// Floating-point numbers, widened.
    Floats(Vec<f64>),
}

impl Elements {
    /// COUNT: elements.
    pub const fn len(&self) -> usize {
        match self {
            Self::Ints(list) => list.len(),
            Self::Floats(list) => list.len(),
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements at these positions; `None` if one is outside.
    pub fn pick(&self, positions: &[usize]) -> Option<Self> {
        match self {
            Self::Ints(list) => pick(list, positions).map(Self::Ints),
            Self::Floats(list) => pick(list, positions).map(Self::Floats),
        }
    }

    /// The elements of both, one after the other; `None` if they are of two kinds.
    pub fn append(&mut self, other: &Self) -> Option<()> {
        match (self, other) {
            (Self::Ints(list), Self::Ints(more)) => list.extend_from_slice(more),
            (Self::Floats(list), Self::Floats(more)) => list.extend_from_slice(more),
            _ => return None,
        }
        Some(())
    }
}

fn pick<T: Copy>(list: &[T], positions: &[usize]) -> Option<Vec<T>> {
    positions.iter().map(|&position| list.get(position).copied()).collect()
}

/// One operator of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name in the file; may be empty.
    pub name: String,
    /// Operator, such as `Conv`.
    pub op: String,
    /// Operator set; empty for ONNX's own.
    pub domain: String,
    /// What it reads; `None` for an optional input left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; `None` for an optional output left out.
    pub outputs: Vec<Option<ValueId>>,
    /// Attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// Path of the module it came from, `layer1.0.conv1`; empty where the file does not tell.
    pub module: String,
    /// What the exporter tells of the PyTorch call behind the node, where it does.
    pub origin: Option<Origin>,
    /// The trip of a loop that it belongs to, if not all trips are there.
    #[serde(skip)]
    pub trip: Option<Trip>,
}

/// The PyTorch call that a node came from (`pkg.torch.onnx.*` metadata of the dynamo exporter).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// ATen operator, such as `aten.layer_norm.default`; empty where unknown.
    pub aten: String,
    /// Class of the innermost module, such as `torch.nn.modules.activation.GELU`.
    pub class: String,
    /// Names from the outermost module inwards, the call itself last.
    pub scopes: Vec<String>,
    /// The traced call as text, with its arguments.
    pub call: String,
    /// The call of one of PyTorch's functions in Python that it is a part of, such as `softmin_1`; else empty.
    pub function: String,
    /// Whether it ran under `torch.no_grad()` inside the model.
    #[serde(default)]
    pub no_grad: bool,
}

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Attribute {
    /// One integer.
    Int(i64),
    /// One number.
    Float(f64),
    /// One text.
    String(String),
    /// A small tensor.
    Tensor(Literal),
    /// Integers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
    /// Texts.
    Strings(Vec<String>),
    /// A body of control flow.
    Body(Box<Body>),
    /// Kinds that no rule reads.
    Unsupported,
}

/// What a node of control flow runs: nodes over the values of the whole graph, so that a body reads
/// what is made around it, and its weights are among the graph's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Body {
    /// What the node hands in, in order.
    pub inputs: Vec<ValueId>,
    /// What the node gets, in order.
    pub outputs: Vec<ValueId>,
    /// Operators, each after those it reads from.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Keys and values that a pass is given of earlier ones.
    pub fn pasts(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.cache.iter().filter_map(|(past, _)| *past)
    }

    /// As after `model.to(dtype)` of a program: what is given to it in single precision, state and
    /// inputs, is in `dtype` instead. What it casts to single precision itself stays so.
    pub fn convert_floats(&mut self, dtype: DType) {
        let convert = |found: &mut DType| {
            if *found == DType::Float32 {
                *found = dtype;
            }
        };
        for value in &mut self.values {
            value.initializer.iter_mut().for_each(|literal| convert(&mut literal.dtype));
            let declared = value.declared.as_mut().and_then(|declared| declared.dtype.as_mut());
            declared.into_iter().for_each(convert);
        }
    }

    /// The value with this id.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.0)
    }

    /// What the tensors of the exported module are to it, by name, where the file says; the first of a
    /// name counts.
    pub fn members_by_name(&self) -> BTreeMap<String, Member> {
        self.members.iter().rev().cloned().into_map()
    }

    /// Name of a value, for messages.
    pub fn value_name(&self, id: ValueId) -> &str {
        self.value(id).map_or("?", |value| value.name.as_str())
    }
}

impl Node {
    /// Name for messages and diagnostics: its own, else that of its first output, else its operator.
    pub fn label<'a>(&'a self, graph: &'a Graph) -> &'a str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let output = self.outputs.iter().flatten().next();
        output.map_or(self.op.as_str(), |&id| graph.value_name(id))
    }

    /// Whether it is a product of which one factor may be a weight.
    pub fn multiplies(&self) -> bool {
        matches!(self.op.as_str(), "Conv" | "ConvTranspose" | "Gemm" | "Linear" | "MatMul")
    }

    /// The input at this position, where it is given.
    pub fn input(&self, position: usize) -> Option<ValueId> {
        self.inputs.get(position).copied().flatten()
    }

    /// The output at this position, where it is asked for.
    pub fn output(&self, position: usize) -> Option<ValueId> {
        self.outputs.get(position).copied().flatten()
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name) {
            Some(Attribute::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Ints(list)) => Some(list),
            _ => None,
        }
    }

    /// A number.
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.attributes.get(name) {
            Some(Attribute::Float(x)) => Some(*x),
            _ => None,
        }
    }

    /// A body of control flow.
    pub fn body(&self, name: &str) -> Option<&Body> {
        match self.attributes.get(name) {
            Some(Attribute::Body(body)) => Some(body),
            _ => None,
        }
    }

    /// All bodies of control flow.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.attributes.values().filter_map(|attribute| match attribute {
            Attribute::Body(body) => Some(&**body),
            _ => None,
        })
    }

    /// A text.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name) {
            Some(Attribute::String(text)) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    /// Whether the name is a path of modules, `layer1.0.bn1.weight`: state of the model, and not
    /// something that an exporter made up and named after a node, `/h.0/act/Constant_1_output_0`.
    pub fn has_state_name(&self) -> bool {
        let made_up = self.name.contains("Constant")
            || ["onnx::", "val_", "/"].iter().any(|prefix| self.name.starts_with(prefix))
            || self.name.bytes().all(|byte| byte.is_ascii_digit());
        !made_up
    }
}

impl Literal {
    /// The integers, where they are kept and are integers.
    pub fn ints(&self) -> Option<&[i64]> {
        match &self.elements {
            Some(Elements::Ints(list)) => Some(list),
            _ => None,
        }
    }

    /// The numbers, where they are kept and are floating-point.
    pub fn floats(&self) -> Option<&[f64]> {
        match &self.elements {
            Some(Elements::Floats(list)) => Some(list),
            _ => None,
        }
    }
}
