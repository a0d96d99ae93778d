//! Finds the operators that PyTorch ran behind what the exporter wrote.
//!
//! Exporters decompose (`linear` into `Transpose`, `MatMul`, `Add`; attention into a dozen nodes), and
//! each decomposition would save other tensors than the one kernel that ran. Every recovery replaces
//! the last node of a pattern by one of domain [`DOMAIN`]; what then feeds nothing is dropped.

mod chunks;
mod in_place;
mod packed;
mod patterns;
mod removed;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::infer::Typed;

/// Domain of operators that exist in PyTorch but not in ONNX.
pub const DOMAIN: &str = "torch";

/// What was found again, and the node that stands for it.
type Found = (&'static str, Node);

/// The program as PyTorch ran it: the same values, other nodes.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The graph as the file states it: values, inputs, outputs.
    pub graph: &'a Graph,
    /// The nodes that run instead of the graph's own.
    pub nodes: Vec<Cow<'a, Node>>,
    /// What was recovered.
    pub diagnostics: Vec<Diagnostic>,
}

/// Recovers what can be told with certainty or by convention.
pub fn recover<'a>(graph: &'a Graph, typed: &'a Typed) -> Program<'a> {
    let mut view = View::new(graph, typed);
    let mut found: BTreeMap<&'static str, usize> = BTreeMap::new();
    for chunk in chunks::find(&view) {
        *found.entry("chunk").or_insert(0) += 1;
        view.replace(chunk.at, chunk.node);
        chunk.superfluous.into_iter().for_each(|at| view.replace(at, Node::default()));
    }
    for index in 0..graph.nodes.len() {
        // Patterns are tried at their last node, so that what they read is already recovered.
        if let Some((name, node)) = patterns::find(&view, NodeId(index)) {
            *found.entry(name).or_insert(0) += 1;
            view.replace(NodeId(index), node);
        }
    }
    let overwrites = in_place::find(&view);
    let overwrite_count = overwrites.len();
    for (at, node) in overwrites {
        view.replace(at, node);
    }
    let causal_masks = view.dropped_masks;
    let nodes = view.live_nodes();
    let mut diagnostics = removed::find(graph);
    diagnostics.extend(describe(&found, causal_masks));
    if overwrite_count > 0 {
        diagnostics.push(in_place::diagnostic(overwrite_count));
    }
    Program { graph, nodes, diagnostics }
}

fn describe(found: &BTreeMap<&'static str, usize>, masks: bool) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<_> = found
        .iter()
        .map(|(name, count)| {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            let message = format!("{name} was found again {times} in what the exporter decomposed");
            Diagnostic::new(Severity::Info, "recovered", message)
        })
        .collect();
    if masks {
        diagnostics.push(Diagnostic::new(
            Severity::Info,
            "attention-mask",
            "attention masks are taken to be causal or all ones, so that PyTorch passes a flag and no tensor",
        ));
    }
    diagnostics
}

/// A graph that patterns look at: who makes a value, who reads it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    graph: &'a Graph,
    typed: &'a Typed,
    nodes: Vec<Cow<'a, Node>>,
    producers: Vec<Option<NodeId>>,
    readers: Vec<usize>,
    dropped_masks: bool,
}

impl<'a> View<'a> {
    fn new(graph: &'a Graph, typed: &'a Typed) -> Self {
        let mut producers = vec![None; graph.values.len()];
        let mut readers = vec![0; graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                if let Some(slot) = producers.get_mut(output.0) {
                    *slot = Some(NodeId(index));
                }
            }
            for input in node.inputs.iter().flatten() {
                if let Some(count) = readers.get_mut(input.0) {
                    *count += 1;
                }
            }
        }
        for output in &graph.outputs {
            if let Some(count) = readers.get_mut(output.0) {
                *count += 1;
            }
        }
        let nodes = graph.nodes.iter().map(Cow::Borrowed).collect();
        Self { graph, typed, nodes, producers, readers, dropped_masks: false }
    }

    fn replace(&mut self, at: NodeId, node: Node) {
        self.dropped_masks |= node.op == "Attention" && node.int("masked").is_some();
        if let Some(slot) = self.nodes.get_mut(at.0) {
            *slot = Cow::Owned(node);
        }
    }

    /// All nodes as they stand.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index), node.as_ref()))
    }

    /// Integers of a value, where they are known.
    pub(crate) fn ints(&self, value: ValueId) -> Option<&[i64]> {
        match self.typed.elements.get(value.0)?.as_ref()? {
            crate::graph::Elements::Ints(list) => Some(list),
            crate::graph::Elements::Floats(_) => None,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0).map(Cow::as_ref)
    }

    /// The node that makes a value.
    pub(crate) fn producer(&self, value: ValueId) -> Option<&Node> {
        let id = (*self.producers.get(value.0)?)?;
        self.node(id)
    }

    /// The node that makes a value, if it is this operator of ONNX's own.
    pub(crate) fn made_by(&self, value: ValueId, op: &str) -> Option<&Node> {
        self.producer(value).filter(|node| node.op == op && node.domain.is_empty())
    }

    /// Whether exactly one node reads the value.
    pub(crate) fn read_once(&self, value: ValueId) -> bool {
        self.readers.get(value.0) == Some(&1)
    }

    /// Whether the file carries the value.
    pub(crate) fn is_initializer(&self, value: ValueId) -> bool {
        self.graph.value(value).is_some_and(|v| v.initializer.is_some())
    }

    /// Dimensions of a value.
    pub(crate) fn dims(&self, value: ValueId) -> Option<&[u64]> {
        self.typed.types.get(value.0)?.as_ref().map(|ty| ty.dims.as_slice())
    }

    /// The one number that a value is, where it is known.
    pub(crate) fn number(&self, value: ValueId) -> Option<f64> {
        use crate::graph::Elements;
        let known = self.typed.elements.get(value.0)?.as_ref();
        let literal = self.graph.value(value).and_then(|v| v.initializer.as_ref());
        let elements = known.or_else(|| literal.and_then(|l| l.elements.as_ref()))?;
        match elements {
            Elements::Floats(list) if list.len() == 1 => list.first().copied(),
            Elements::Ints(list) if list.len() == 1 => {
                i32::try_from(*list.first()?).ok().map(f64::from)
            }
            _ => None,
        }
    }

    /// Whether a value follows from trained tensors, looking back through everything.
    pub(crate) fn depends_on_floats(&self, value: ValueId) -> bool {
        let mut stack = vec![value];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(value) = stack.pop() {
            if !seen.insert(value) {
                continue;
            }
            let ty = self.typed.types.get(value.0).and_then(Option::as_ref);
            let initializer = self.is_initializer(value);
            let known = self.typed.elements.get(value.0).is_some_and(Option::is_some);
            if initializer
                && !known
                && ty.is_some_and(|ty| ty.dtype.is_floating() && ty.numel() > 1)
            {
                return true;
            }
            if let Some(node) = self.producer(value) {
                // Shapes of activations are not their contents.
                if node.op != "Shape" && node.op != "Size" {
                    stack.extend(node.inputs.iter().flatten());
                }
            }
        }
        false
    }

    /// Nodes that something still asks for, in order.
    fn live_nodes(self) -> Vec<Cow<'a, Node>> {
        let mut wanted = vec![false; self.graph.values.len()];
        let want = |value: &ValueId, wanted: &mut Vec<bool>| {
            if let Some(slot) = wanted.get_mut(value.0) {
                *slot = true;
            }
        };
        for output in &self.graph.outputs {
            want(output, &mut wanted);
        }
        let mut live = Vec::with_capacity(self.nodes.len());
        for node in self.nodes.into_iter().rev() {
            let is_live =
                node.outputs.iter().flatten().any(|v| wanted.get(v.0).copied().unwrap_or(false));
            if is_live {
                for input in node.inputs.iter().flatten() {
                    want(input, &mut wanted);
                }
                live.push(node);
            }
        }
        live.reverse();
        live
    }
}
