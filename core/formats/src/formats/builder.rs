//! Builds a [`Graph`] node by node, for families of models and for layer specs.

use crate::order::IntoOrdered as _;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::graph::{
    Attribute, DeclaredType, Dim, Elements, Graph, Level, Literal, Member, Node, Value, ValueId,
};
use crate::tensor::DType;

/// Version of the operator set whose nodes are written.
const OPSET: i64 = 23;

/// A graph under construction.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) graph: Graph,
}

impl Builder {
    pub(super) fn new(name: &str, diagnostics: Vec<Diagnostic>) -> Self {
        let name = name.to_owned();
        let graph =
            Graph { name, opset: OPSET, level: Level::Program, diagnostics, ..Graph::default() };
        Self { graph }
    }

    /// A tensor that the model is given.
    pub(super) fn input(&mut self, name: &str, dtype: DType, dims: Vec<Dim>) -> ValueId {
        let declared = Some(DeclaredType { dtype: Some(dtype), dims: Some(dims) });
        let id = self.value(Value { name: name.to_owned(), declared, initializer: None });
        self.graph.inputs.push(id);
        id
    }

    /// A parameter or a buffer, which is no member yet.
    pub(super) fn state(&mut self, name: &str, dtype: DType, dims: &[u64]) -> ValueId {
        self.constant(name.to_owned(), dtype, dims.to_vec(), None)
    }

    /// Lets a parameter or a buffer be a member of the model.
    pub(super) fn register(&mut self, name: &str, member: Member) {
        self.graph.members.push((name.to_owned(), member));
    }

    /// Whole numbers that Python knows, and no tensor on the device.
    pub(super) fn ints(&mut self, list: &[i64]) -> ValueId {
        let dims = vec![u64::try_from(list.len()).unwrap_or(0)];
        self.host(dims, DType::Int64, Elements::Ints(list.to_vec()))
    }

    /// One such number.
    pub(super) fn int(&mut self, n: i64) -> ValueId {
        self.host(Vec::new(), DType::Int64, Elements::Ints(vec![n]))
    }

    /// Such numbers with fractions.
    pub(super) fn floats(&mut self, list: Vec<f64>) -> ValueId {
        let dims = vec![u64::try_from(list.len()).unwrap_or(0)];
        self.host(dims, DType::Float32, Elements::Floats(list))
    }

    /// One such number.
    pub(super) fn float(&mut self, x: f64) -> ValueId {
        self.host(Vec::new(), DType::Float32, Elements::Floats(vec![x]))
    }

    fn host(&mut self, dims: Vec<u64>, dtype: DType, elements: Elements) -> ValueId {
        let name = format!("/Constant_{}", self.graph.values.len());
        self.constant(name, dtype, dims, Some(elements))
    }

    fn constant(
        &mut self,
        name: String,
        dtype: DType,
        dims: Vec<u64>,
        elements: Option<Elements>,
    ) -> ValueId {
        self.value(Value {
            name,
            declared: None,
            initializer: Some(Literal { dtype, dims, elements }),
        })
    }

    fn value(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.graph.values.len());
        self.graph.values.push(value);
        id
    }

    /// Adds a node with so many outputs in a module; `torch.Linear` is of domain `torch`.
    pub(super) fn run(
        &mut self,
        module: &str,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: impl IntoIterator<Item = (impl Into<String>, Attribute)>,
        outputs: usize,
    ) -> Vec<ValueId> {
        let (domain, op) = op.split_once('.').unwrap_or(("", op));
        let base = self.graph.values.len();
        let named = |index| format!("{module}/{op}_{index}");
        let made = (0..outputs).map(|index| {
            let name = named(base.saturating_add(index));
            self.value(Value { name, declared: None, initializer: None })
        });
        let made: Vec<ValueId> = made.collect();
        self.graph.nodes.push(Arc::new(Node {
            name: named(base),
            op: op.to_owned(),
            domain: domain.to_owned(),
            inputs,
            outputs: made.iter().copied().map(Some).collect(),
            attributes: attributes.into_iter().map(|(name, value)| (name.into(), value)).into_map(),
            module: module.to_owned(),
            ..Node::default()
        }));
        made
    }

    /// What the last node made.
    pub(super) fn now(&self) -> Option<ValueId> {
        self.graph.nodes.last().and_then(|node| node.output(0))
    }

    /// A name of Python's holds a value until another has been made.
    pub(super) fn hold(&mut self, value: ValueId, until: ValueId) {
        self.graph.held.push((value, until));
    }
}

/// The path of what a module has; either may be empty.
pub(super) fn joined(module: &str, name: &str) -> String {
    let parts = [module, name].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(".")
}
