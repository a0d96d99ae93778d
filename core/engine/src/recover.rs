//! Finds the program that PyTorch ran, from the graph that the exporter wrote.
//!
//! Exporters remove operators (batch normalisation, dropout) and decompose others (`linear` into `Transpose`,
//! `MatMul`, `Add`; attention into a dozen nodes). The remaining graph would save other tensors than the program
//! that ran. Every recovery replaces the last node of a pattern, or adds a node after another. Operators that ONNX
//! does not have are of domain [`DOMAIN`]. Nodes without readers are then dropped. `docs/recovery.md` lists the
//! evidence for each recovery, and how certain it is.

mod assignments;
mod attention;
mod batch_norm;
mod buffers;
mod calls;
mod cells;
mod chunks;
mod circular;
mod copies;
mod deduplicated;
mod dropout;
mod gaps;
mod in_place;
mod in_projection;
mod masks;
mod merged;
mod names;
mod norms;
mod patterns;
mod placement;
mod position_bias;
mod recurrent;
mod removed;
mod rms_norm;
mod spellings;
mod traced;
mod weights;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::basis::Reason;
use crate::config::{Config, Recover};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::graph::{Graph, Literal, Member, Node, NodeId, Value, ValueId};
use crate::infer::Typed;
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

pub(crate) use placement::LEAVES;

/// Domain of operators that exist in PyTorch but not in ONNX.
pub const DOMAIN: &str = "torch";

/// The program as PyTorch ran it: the file's values and some more, other nodes. What recovery left as it was is the
/// graph's own, and shared with it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Values, inputs and outputs; what recovery added stands behind the file's own values. Its
    /// nodes are the file's: [`Program::nodes`] run.
    pub graph: Arc<Graph>,
    /// Types of these values.
    pub typed: Arc<Typed>,
    /// The nodes that run instead of the graph's own.
    pub nodes: Vec<Arc<Node>>,
    /// Initializers in the order in which the module registers them and the optimizer meets them.
    pub placement: Vec<ValueId>,
    /// The same in the order in which `model.to("cuda")` meets them.
    pub to_device: Vec<ValueId>,
    /// Buffers that no operator reads, by the initializer after which they are registered.
    pub unread_buffers: BTreeMap<ValueId, Vec<(String, TensorType)>>,
    /// Values that a Python name holds until another value has been made.
    pub names: Vec<(ValueId, ValueId)>,
    /// State that is assumed not to be trained, where the file does not tell.
    pub buffers: BTreeSet<ValueId>,
    /// What does not stand in the file as it runs: state, and what nodes make.
    pub reasons: BTreeMap<ValueId, Reason>,
}

impl Program {
    /// Everything that nodes make rests on this, where it does not rest on something less certain.
    pub fn rests_on(&mut self, reason: &Reason) {
        for output in self.nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
            rests_on(&mut self.reasons, *output, reason);
        }
    }

    /// Whether statistics are taken over the samples of a batch. Weights that are standardised are one sample.
    pub fn normalises_batches(&self) -> bool {
        self.nodes.iter().any(|node| {
            let samples = || self.typed.ty(node.input(0)?)?.dims.first().copied();
            node.op == "BatchNormalization" && node.domain.is_empty() && samples() != Some(1)
        })
    }

    /// Why what a node makes is not simply proven.
    pub fn reason(&self, node: &Node) -> Option<&Reason> {
        node.outputs.iter().flatten().find_map(|output| self.reasons.get(output))
    }
}

/// Whether a path is that of a module, or lies inside it.
fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Of two reasons the less certain one counts.
fn rests_on(reasons: &mut BTreeMap<ValueId, Reason>, value: ValueId, reason: &Reason) {
    let known = reasons.entry(value).or_insert_with(|| reason.clone());
    if known.basis() < reason.basis() {
        *known = reason.clone();
    }
}

/// What puts something back, and says so in a diagnostic.
type Recovery = fn(&mut View<'_>, &Config);

/// All recoveries, in order: first what the exporter removed, then what it took apart, then what
/// no exporter keeps; and what an answer rests on that has them.
const RECOVERIES: &[(Recovery, Reason)] = &[
    (deduplicated::separate, Reason::FoldedParameters),
    (batch_norm::restore, Reason::FoldedNormalisation),
    (batch_norm::of_weights, Reason::TakenApart),
    (recurrent::find_again, Reason::TakenApart),
    (in_projection::rejoin, Reason::FoldedParameters),
    (traced::restore_bilinear, Reason::FoldedParameters),
    (position_bias::restore, Reason::FoldedParameters),
    (weights::name_folded, Reason::FoldedParameters),
    (weights::tie_heads, Reason::SharedWeights),
    (weights::turn_back, Reason::TransposedWeights),
    (masks::separate, Reason::MergedMasks),
    (traced::restore_affine, Reason::TakenApart),
    (traced::regroup, Reason::TakenApart),
    (in_projection::copy, Reason::TakenApart),
    (in_projection::separate, Reason::TakenApart),
    (copies::restore, Reason::TakenApart),
    (circular::find_again, Reason::TakenApart),
    (spellings::find_decomposed, Reason::TakenApart),
    (calls::find_again, Reason::TakenApart),
    (spellings::find_again, Reason::TakenApart),
    (chunks::separate, Reason::TakenApart),
    (chunks::find_again, Reason::TakenApart),
    (cells::find_again, Reason::TakenApart),
    (norms::find_again, Reason::TakenApart),
    (patterns::find_again, Reason::TakenApart),
    (assignments::find_again, Reason::TakenApart),
    (rms_norm::find_again, Reason::TakenApart),
    (merged::separate, Reason::MergedOperators),
    (dropout::reinsert, Reason::RemovedDropout),
    (gaps::fill, Reason::RemovedDropout),
    (in_place::assume, Reason::Overwriting),
    (calls::mark, Reason::TakenApart),
];

/// Recovers what can be told with certainty or by convention.
pub fn recover(
    graph: &Arc<Graph>,
    typed: &Arc<Typed>,
    config: &Config,
    sink: &Diagnostics,
) -> Program {
    let mut view = View::new(graph, typed, sink);
    if graph.level.is_program() {
        dropout::obey(&mut view, config);
        view.settle();
        attention::obey(&mut view, config);
        view.settle();
        in_place::obey(&mut view, config);
        view.settle();
        return view.into_program();
    }
    match config.recover {
        _ if graph.level.is_trace() => {
            if config.recover == Recover::Auto {
                view.reason = Some(Reason::TakenApart);
                traced::share_heads(&mut view);
                rms_norm::find_again(&mut view, config);
                view.settle();
                view.reason = None;
            }
            in_place::obey(&mut view, config);
            view.settle();
        }
        Recover::Auto => RECOVERIES.iter().for_each(|(recovery, reason)| {
            view.reason = Some(reason.clone());
            recovery(&mut view, config);
            view.settle();
        }),
        Recover::Off => in_place::assume(&mut view, config),
    }
    view.reason = None;
    dropout::obey(&mut view, config);
    view.settle();
    attention::obey(&mut view, config);
    view.settle();
    if !graph.level.is_trace() {
        removed::report(&view, config);
    }
    let buffers = buffers::find(&view, config);
    Program { buffers, ..view.into_program() }
}

/// Puts a value behind those of a graph, and its type behind theirs.
pub(crate) fn add_value(
    graph: &mut Arc<Graph>,
    typed: &mut Arc<Typed>,
    name: String,
    ty: TensorType,
    initializer: Option<Literal>,
) -> ValueId {
    let graph = Arc::make_mut(graph);
    let id = ValueId(graph.values.len());
    graph.values.push(Value { name, declared: None, initializer });
    let typed = Arc::make_mut(typed);
    typed.types.push(Some(ty));
    typed.elements.push(None);
    id
}

/// A graph under recovery: who makes a value, who reads it, and what changes.
#[derive(Debug)]
pub(crate) struct View<'a> {
    graph: Arc<Graph>,
    typed: Arc<Typed>,
    nodes: Vec<Arc<Node>>,
    producers: Vec<Option<NodeId>>,
    readers: Vec<Vec<NodeId>>,
    /// Values by their names, of which several may have one; from when it is first asked for.
    names: OnceCell<BTreeMap<String, Vec<ValueId>>>,
    /// The module's members by their names, likewise.
    members: OnceCell<BTreeMap<String, Member>>,
    /// New nodes, by the node behind which they run.
    behind: BTreeMap<NodeId, Vec<Node>>,
    sink: &'a Diagnostics,
    /// What is changed from here on rests on this.
    reason: Option<Reason>,
    /// What has been changed, by the values that it makes.
    reasons: BTreeMap<ValueId, Reason>,
    /// Whether tensors of the module's state are not those of the file.
    state_changed: bool,
    /// Whether nodes changed since they were last settled.
    nodes_changed: bool,
}

impl<'a> View<'a> {
    fn new(graph: &Arc<Graph>, typed: &Arc<Typed>, sink: &'a Diagnostics) -> Self {
        let mut view = Self {
            graph: Arc::clone(graph),
            typed: Arc::clone(typed),
            nodes: graph.nodes.clone(),
            producers: Vec::new(),
            readers: Vec::new(),
            names: OnceCell::new(),
            members: OnceCell::new(),
            behind: BTreeMap::new(),
            sink,
            reason: None,
            reasons: graph.reasons.clone(),
            state_changed: false,
            nodes_changed: false,
        };
        view.index();
        view
    }

    /// Notes anew who makes and who reads what.
    fn index(&mut self) {
        let mut producers = vec![None; self.graph.values.len()];
        let mut readers = vec![Vec::new(); self.graph.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                if let Some(slot) = producers.get_mut(output.0) {
                    *slot = Some(NodeId(index));
                }
            }
            for input in node.inputs.iter().flatten() {
                if let Some(list) = readers.get_mut(input.0) {
                    list.push(NodeId(index));
                }
            }
        }
        (self.producers, self.readers) = (producers, readers);
    }

    /// Puts new nodes in their places, and drops those that nobody asks for any more.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.nodes_changed) {
            return;
        }
        let mut behind = std::mem::take(&mut self.behind);
        if !behind.is_empty() {
            let nodes = std::mem::take(&mut self.nodes).into_iter().enumerate();
            self.nodes = nodes
                .flat_map(|(index, node)| {
                    let new =
                        behind.get_mut(&NodeId(index)).map(std::mem::take).unwrap_or_default();
                    std::iter::once(node).chain(new.into_iter().map(Arc::new))
                })
                .collect();
        }
        self.drop_dead();
        self.index();
    }

    fn replace(&mut self, at: NodeId, node: Node) {
        node.outputs.iter().flatten().for_each(|&output| self.rests_on_reason(output));
        if let Some(slot) = self.nodes.get_mut(at.0) {
            *slot = Arc::new(node);
            self.nodes_changed = true;
        }
    }

    /// Puts a node between a value and all that read it; its first input and its first output are
    /// set here.
    fn insert_behind(&mut self, value: ValueId, mut node: Node) -> Option<()> {
        let at = (*self.producers.get(value.0)?)?;
        let ty = self.typed.ty(value)?.clone();
        let before = self.add_value(format!("{}_before", self.graph.value_name(value)), ty, None);
        let producer = Arc::make_mut(self.nodes.get_mut(at.0)?);
        for output in producer.outputs.iter_mut().filter(|output| **output == Some(value)) {
            *output = Some(before);
        }
        if node.inputs.is_empty() {
            node.inputs.push(None);
        }
        if let Some(reason) = self.reasons.remove(&value) {
            self.reasons.insert(before, reason);
        }
        self.rests_on_reason(value);
        *node.inputs.first_mut()? = Some(before);
        node.outputs = vec![Some(value)];
        self.behind.entry(at).or_default().push(node);
        self.nodes_changed = true;
        Some(())
    }

    /// A value is made, or is, as it was recovered or assumed.
    fn rests_on_reason(&mut self, value: ValueId) {
        if let Some(reason) = &self.reason {
            rests_on(&mut self.reasons, value, reason);
        }
    }

    fn add_value(&mut self, name: String, ty: TensorType, initializer: Option<Literal>) -> ValueId {
        let id = add_value(&mut self.graph, &mut self.typed, name, ty, initializer);
        if let Some(names) = self.names.get_mut() {
            names.entry(self.graph.value_name(id).to_owned()).or_default().push(id);
        }
        id
    }

    /// A tensor of the module's state that the file does not have.
    fn add_state(&mut self, name: String, dtype: DType, dims: Vec<u64>) -> ValueId {
        self.state_changed = true;
        let literal = Literal { dtype, dims: dims.clone(), elements: None };
        let state = self.add_value(name, TensorType::new(dtype, dims), Some(literal));
        self.rests_on_reason(state);
        state
    }

    fn rename(&mut self, value: ValueId, name: String) {
        let known = Arc::make_mut(&mut self.graph).values.get_mut(value.0);
        let Some(known) = known else { return };
        let before = std::mem::replace(&mut known.name, name);
        if let Some(names) = self.names.get_mut() {
            names.get_mut(&before).into_iter().for_each(|alike| alike.retain(|id| *id != value));
            names.entry(known.name.clone()).or_default().push(value);
        }
    }

    /// Values of this name: the graph's in their order, then those that got it since.
    fn named(&self, name: &str) -> &[ValueId] {
        let names = self.names.get_or_init(|| {
            let mut names: BTreeMap<String, Vec<ValueId>> = BTreeMap::new();
            for (index, value) in self.graph.values.iter().enumerate() {
                names.entry(value.name.clone()).or_default().push(ValueId(index));
            }
            names
        });
        names.get(name).map_or(&[], Vec::as_slice)
    }

    /// What the module has under this name, where the file says.
    fn member(&self, name: &str) -> Option<Member> {
        self.members.get_or_init(|| self.graph.members_by_name()).get(name).copied()
    }

    /// Renames a value, unless the name is taken.
    fn rename_free(&mut self, value: ValueId, name: &str) {
        if self.named(name).is_empty() {
            self.rename(value, name.to_owned());
        }
    }

    /// Takes a tensor of the file for one that is trained: gives it a name of the module's state, of
    /// which there may be several alike, and forgets what its elements are.
    fn take_for_state(&mut self, value: ValueId, name: &str) {
        let is_taken = !self.named(name).is_empty();
        let name = if is_taken { format!("{name}.{}", value.0) } else { name.to_owned() };
        self.rename(value, name);
        self.forget_elements(value);
    }

    /// Takes elements of a value for what is not known.
    fn forget_elements(&mut self, value: ValueId) {
        if let Some(elements) = Arc::make_mut(&mut self.typed).elements.get_mut(value.0) {
            *elements = None;
        }
    }

    /// Gives a tensor of the file other dimensions.
    fn reshape_state(&mut self, value: ValueId, dims: &[u64]) {
        self.state_changed = true;
        let graph = Arc::make_mut(&mut self.graph);
        let literal = graph.values.get_mut(value.0).and_then(|value| value.initializer.as_mut());
        if let Some(literal) = literal {
            literal.dims = dims.to_vec();
        }
        let ty = Arc::make_mut(&mut self.typed).types.get_mut(value.0).and_then(Option::as_mut);
        if let Some(ty) = ty {
            *ty = TensorType::new(ty.dtype, dims);
        }
    }

    /// Says that something was put back.
    fn say(&self, severity: Severity, code: &'static str, message: Sentence) {
        self.sink.push(Diagnostic::new(severity, code, message));
    }

    /// Says how often an operator was found behind what it had become.
    fn found_again(&self, name: &Sentence, count: usize) {
        if count > 0 {
            let message = if count == 1 {
                say!("{name} was found again once in what the exporter decomposed", name)
            } else {
                say!(
                    "{name} was found again {count} times in what the exporter decomposed",
                    name,
                    count
                )
            };
            self.say(Severity::Info, "recovered", message);
        }
    }

    /// The nodes that read a value.
    pub(crate) fn readers(&self, value: ValueId) -> &[NodeId] {
        self.readers.get(value.0).map_or(&[], Vec::as_slice)
    }

    /// The graph's values, inputs and outputs.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// All nodes as they stand.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| {
            #[cfg(test)]
            tests::count_visit();
            (NodeId(index), node.as_ref())
        })
    }

    /// Integers of a value, where they are known.
    pub(crate) fn ints(&self, value: ValueId) -> Option<&[i64]> {
        match self.typed.elements.get(value.0)?.as_ref()? {
            crate::graph::Elements::Ints(list) => Some(list),
            crate::graph::Elements::Floats(_) => None,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0).map(AsRef::as_ref)
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

    /// Whether exactly one node reads the value, and the caller does not get it.
    pub(crate) fn read_once(&self, value: ValueId) -> bool {
        self.readers(value).len() == 1 && !self.graph.outputs.contains(&value)
    }

    /// Whether the file carries the value.
    pub(crate) fn is_initializer(&self, value: ValueId) -> bool {
        self.graph.value(value).is_some_and(|v| v.initializer.is_some())
    }

    /// Whether the file carries a value of this name.
    pub(crate) fn is_initializer_named(&self, name: &str) -> bool {
        self.named(name).iter().any(|value| self.is_initializer(*value))
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
        self.follows_from(value, |value| {
            let is_wide = |ty: &TensorType| ty.dtype.is_floating() && ty.numel() > 1;
            self.is_initializer(value)
                && !self.is_known(value)
                && self.typed.ty(value).is_some_and(is_wide)
        })
    }

    /// Whether the value, or one that its content follows from, is such.
    pub(crate) fn follows_from(&self, value: ValueId, is_such: impl Fn(ValueId) -> bool) -> bool {
        let mut stack = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(value) = stack.pop() {
            if !seen.insert(value) {
                continue;
            }
            if is_such(value) {
                return true;
            }
            // Shapes are not content, and known elements follow from nothing else.
            let node = self.producer(value).filter(|node| node.op != "Shape" && node.op != "Size");
            if let Some(node) = node.filter(|_| !self.is_known(value)) {
                stack.extend(node.inputs.iter().flatten());
            }
        }
        false
    }

    /// Whether inference found the elements of a value.
    fn is_known(&self, value: ValueId) -> bool {
        self.typed.elements.get(value.0).is_some_and(Option::is_some)
    }

    /// Drops nodes that nothing asks for; PyTorch runs all that a program has.
    fn drop_dead(&mut self) {
        if self.graph.level.is_program() {
            return;
        }
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
        for node in std::mem::take(&mut self.nodes).into_iter().rev() {
            // What follows from shapes is Python's, and holds no tensor.
            let known = |v: &&ValueId| self.typed.elements.get(v.0).is_some_and(Option::is_some);
            let asked = |v: &ValueId| wanted.get(v.0).copied().unwrap_or(false);
            let is_live = node.outputs.iter().flatten().filter(|v| !known(v)).any(asked);
            if is_live {
                for input in node.inputs.iter().flatten() {
                    want(input, &mut wanted);
                }
                live.push(node);
            }
        }
        live.reverse();
        self.nodes = live;
    }

    fn into_program(mut self) -> Program {
        self.drop_dead();
        self.index();
        let placement = placement::order(&self);
        let to_device = placement::to_device(&self, &placement);
        let unread = placement.iter().map(|&id| (id, placement::unread_buffers(&self, id)));
        let unread_buffers =
            unread.filter(|(_, buffers)| !buffers.is_empty()).collect::<BTreeMap<_, _>>();
        let names = if self.graph.level.is_program() {
            self.graph.held.clone()
        } else {
            self.sink.extend(placement::diagnostic(&unread_buffers));
            self.sink.extend(names::diagnostic(&self));
            names::find(&self)
        };
        Program {
            graph: self.graph,
            typed: self.typed,
            nodes: self.nodes,
            placement,
            to_device,
            unread_buffers,
            names,
            buffers: BTreeSet::new(),
            reasons: self.reasons,
        }
    }
}
