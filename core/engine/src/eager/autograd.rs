//! Autograd: the graph that a forward leaves behind, and the engine that walks it.
//!
//! Policy, after `torch/csrc/autograd/{engine,input_buffer}.cpp` and
//! `functions/accumulate_grad.h`, PyTorch 2.15:
//! - Nodes run in the reverse order of their creation; `AccumulateGrad` runs as soon as it is ready.
//! - Within a node everything is alive at once: incoming gradients, saved tensors, outputs. Then the
//!   outputs are fitted to the shapes they go to (`sum` over what was broadcast), the incoming
//!   gradients are dropped, then the saved tensors, in the order in which they were saved.
//! - A second gradient for the same tensor is added in place when the first is dense and nothing else references
//!   it or its memory; else their sum is a new tensor.
//! - `.grad` steals the incoming gradient when nothing else references it and its layout is the parameter's; else
//!   it is a clone.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::{fmt, mem};

use smallvec::{SmallVec, smallvec};

use super::checkpoint::{Region, Saved};
use super::recorder::Place;
use super::{Runtime, Tensor, kernels, layout};
use crate::tensor::{DType, Dims};
use crate::trace::{LabelId, ReasonId, Stream};

/// Gradients of a node's inputs, in their order; `None` where none is needed.
pub type Gradients = Vec<Option<Tensor>>;

/// What a gradient formula may look at.
#[derive(Debug)]
pub struct Pass<'a> {
    /// The process.
    pub rt: &'a Runtime,
    /// Gradients of the node's outputs; `None` where nothing depended on one.
    pub grads: &'a [Option<Tensor>],
    /// What forward saved.
    pub saved: &'a [Tensor],
    /// Which inputs need a gradient (`task_should_compute_output`).
    pub needs: &'a [bool],
}

impl Pass<'_> {
    /// Whether the input at this position needs a gradient.
    pub fn needs(&self, input: usize) -> bool {
        self.needs.get(input).copied().unwrap_or(false)
    }

    /// The gradient of the only output.
    pub fn grad(&self) -> Option<&Tensor> {
        self.grads.first()?.as_ref()
    }

    /// A saved tensor.
    pub fn saved(&self, position: usize) -> Option<&Tensor> {
        self.saved.get(position)
    }
}

/// Who follows a backward: called by the engine as it walks.
pub trait Observer {
    /// Backward begins, with the gradient of its root.
    fn begin(&self) {}

    /// All gradients are there; that of the root is still held.
    fn finish(&self) {}

    /// Runs a checkpointed region once more, where there are any.
    fn recompute(&self, _region: &Region) {}

    /// The operators that a module left behind run from here on.
    fn enter_module(&self, _module: LabelId) {}

    /// A `.grad` has been set or added to; what came in is still held.
    fn after_accumulation(&self, _leaf: &Leaf) {}
}

impl Observer for () {}

type Formula = Box<dyn Fn(&Pass<'_>) -> Gradients>;

/// Where a gradient goes: one output of the operator behind a node.
#[derive(Clone, Debug)]
pub struct Edge {
    node: Rc<GradNode>,
    output: usize,
}

impl Edge {
    /// The function behind it holds a tensor for as long as the graph is there, run or not.
    pub(crate) fn hold(&self, tensor: &Tensor) {
        self.node.context.replace(Some(tensor.detach()));
    }

    /// To the first output of a function.
    pub(crate) const fn to(node: Rc<GradNode>) -> Self {
        Self { node, output: 0 }
    }

    /// Whether it leads to this function.
    pub(crate) fn is_to(&self, node: &Rc<GradNode>) -> bool {
        Rc::ptr_eq(&self.node, node)
    }

    /// What arrives may be larger than the tensor: the gradient of the whole of which that is a part.
    pub(crate) fn takes_whole(&self) {
        self.node.outputs.borrow_mut().clear();
    }

    /// Whether it leads to a parameter's `.grad`.
    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.node.body, Body::Accumulate(_))
    }
}

/// Where the gradients of an operator's inputs go; most take few.
type Next = SmallVec<[Option<Edge>; 3]>;

/// Types of what an operator returns; most return one tensor.
type Types = SmallVec<[(DType, Dims); 1]>;

/// One backward function.
pub struct GradNode {
    /// Unique; grows with time.
    id: usize,
    name: &'static str,
    module: LabelId,
    reason: Option<ReasonId>,
    next: Next,
    /// Type of each output of the forward, which incoming gradients must have.
    outputs: RefCell<Types>,
    /// What it waits for in the backward that is under way.
    waiting: RefCell<Waiting>,
    /// What a function written in Python holds by itself (`ctx.tensors`): as long as the graph is there.
    context: RefCell<Option<Tensor>>,
    body: Body,
}

enum Body {
    Formula(RefCell<Option<(Formula, Saved)>>),
    Accumulate(Rc<Leaf>),
}

/// A parameter's `.grad`.
#[derive(Debug)]
pub struct Leaf {
    name: String,
    strides: Dims,
    grad: RefCell<Option<Tensor>>,
    reached: Cell<bool>,
    spread: Cell<bool>,
    stream: Cell<Option<Stream>>,
}

impl Leaf {
    /// It is seen through a view that was made on this stream: there gradients from several uses are added.
    pub fn set_stream(&self, stream: Stream) {
        self.stream.set(Some(stream));
    }

    /// The gradient, if a backward has left one.
    pub fn grad(&self) -> Option<Tensor> {
        self.grad.borrow().clone()
    }

    /// The parameter's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a backward has come to it, whatever became of the gradient.
    pub const fn is_reached(&self) -> bool {
        self.reached.get()
    }

    /// Whether it is spread over ranks (`DTensor`): no operator takes such a tensor beside a plain one.
    pub const fn is_spread(&self) -> bool {
        self.spread.get()
    }

    /// It is, or is not.
    pub fn set_spread(&self, is_spread: bool) {
        self.spread.set(is_spread);
    }

    /// `grad = …`, for a gradient that no backward made.
    pub fn set(&self, grad: Tensor) {
        let gone = self.grad.borrow_mut().replace(grad);
        drop(gone);
    }

    /// `grad = None`.
    pub fn clear(&self) {
        let gone = self.grad.borrow_mut().take();
        drop(gone);
    }
}

impl fmt::Debug for GradNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.id)
    }
}

impl Drop for GradNode {
    /// Lets go of long chains without recursion, which would overflow the stack.
    fn drop(&mut self) {
        let mut edges: Vec<Edge> = self.next.drain(..).flatten().collect();
        while let Some(edge) = edges.pop() {
            if let Some(mut node) = Rc::into_inner(edge.node) {
                edges.extend(node.next.drain(..).flatten());
            }
        }
    }
}

impl Runtime {
    /// Makes `parameter` a leaf that collects a gradient.
    pub fn parameter(&self, tensor: &Tensor, name: &str) -> (Tensor, Rc<Leaf>) {
        let leaf = Rc::new(Leaf {
            name: name.to_owned(),
            strides: tensor.strides().into(),
            grad: RefCell::default(),
            reached: Cell::new(false),
            spread: Cell::new(false),
            stream: Cell::default(),
        });
        let body = Body::Accumulate(Rc::clone(&leaf));
        let node = self.node("AccumulateGrad", Next::new(), body);
        node.outputs.replace(smallvec![(tensor.dtype(), tensor.sizes().into())]);
        (tensor.with_edge(Edge { node, output: 0 }), leaf)
    }

    /// Records a differentiable operator with one output.
    ///
    /// `saved` are the tensors that `derivatives.yaml` reads, in its order; `formula` gives one
    /// gradient per entry of `inputs`. There is no default: an operator without a formula returns
    /// plain tensors, and that is a statement too.
    #[must_use]
    pub fn differentiable(
        &self,
        name: &'static str,
        output: Tensor,
        inputs: &[&Tensor],
        saved: &[&Tensor],
        formula: impl Fn(&Pass<'_>) -> Gradients + 'static,
    ) -> Tensor {
        self.trace_call(name, inputs, saved, &[&output]);
        if !self.requires_grad(inputs) {
            return output;
        }
        let node = self.record(name, inputs, saved, Box::new(formula));
        let types = smallvec![(output.dtype(), output.sizes().into())];
        node.outputs.replace(types);
        output.with_edge(Edge { node, output: 0 })
    }

    /// Records a differentiable operator with several outputs.
    #[must_use]
    pub fn differentiable_many(
        &self,
        name: &'static str,
        outputs: Vec<Tensor>,
        inputs: &[&Tensor],
        saved: &[&Tensor],
        formula: impl Fn(&Pass<'_>) -> Gradients + 'static,
    ) -> Vec<Tensor> {
        self.trace_call(name, inputs, saved, &outputs.iter().collect::<Vec<_>>());
        if !self.requires_grad(inputs) {
            return outputs;
        }
        let node = self.record(name, inputs, saved, Box::new(formula));
        outputs_of(&node, &outputs)
    }

    /// The node of an operator: one function for all of them, since each formula is a type.
    fn record(
        &self,
        name: &'static str,
        inputs: &[&Tensor],
        saved: &[&Tensor],
        formula: Formula,
    ) -> Rc<GradNode> {
        let next = inputs.iter().map(|input| input.edge().cloned()).collect();
        let saved = self.keep(saved.iter().map(|tensor| tensor.detach()).collect());
        let node = self.node(name, next, Body::Formula(RefCell::new(Some((formula, saved)))));
        self.trace_node(node.id, inputs);
        node
    }

    /// One function for outputs of which some are differentiable; its gradients go to these edges.
    pub(crate) fn one_function(
        &self,
        name: &'static str,
        edges: Vec<Option<Edge>>,
        outputs: Vec<Tensor>,
        differentiable: &[bool],
        formula: impl Fn(&Pass<'_>) -> Gradients + 'static,
    ) -> Vec<Tensor> {
        let next = edges.into_iter().collect();
        let formula: Formula = Box::new(formula);
        let body = Body::Formula(RefCell::new(Some((formula, Saved::Held(Vec::new())))));
        let node = self.node(name, next, body);
        let mut types = Types::new();
        let mut with_edge = |(output, has_gradient): (Tensor, &bool)| {
            if !has_gradient {
                return output;
            }
            types.push((output.dtype(), output.sizes().into()));
            output.with_edge(Edge { node: Rc::clone(&node), output: types.len() - 1 })
        };
        let outputs = outputs.into_iter().zip(differentiable).map(&mut with_edge).collect();
        node.outputs.replace(types);
        outputs
    }

    /// Backward from several tensors, each with the gradient that it is given.
    pub(crate) fn backward_from(&self, given: Vec<(Tensor, Tensor)>) {
        let edges = given.iter().map(|(tensor, _)| tensor.edge().cloned()).collect();
        let gradients: Vec<Option<Tensor>> =
            given.into_iter().map(|(_, gradient)| Some(gradient)).collect();
        let Some(Some(start)) = gradients.first().cloned() else { return };
        let formula: Formula = Box::new(move |_| gradients.clone());
        let body = Body::Formula(RefCell::new(Some((formula, Saved::Held(Vec::new())))));
        let node = self.node("", edges, body);
        self.no_grad(|| {
            let mut engine = Engine::new(self, &node, &());
            self.in_backward_thread(|| engine.run(Edge::to(node), start));
        });
    }

    /// Whether an operator on these inputs is recorded.
    pub fn requires_grad(&self, inputs: &[&Tensor]) -> bool {
        self.mode.get().gradients && inputs.iter().any(|input| input.requires_grad())
    }

    fn node(&self, name: &'static str, next: Next, body: Body) -> Rc<GradNode> {
        let id = self.nodes_made.get();
        self.nodes_made.set(id + 1);
        let Place { module, reason, .. } = self.recorder.borrow().place();
        let (outputs, waiting, context) = <(RefCell<_>, RefCell<_>, RefCell<_>)>::default();
        Rc::new(GradNode { id, name, module, reason, next, outputs, waiting, context, body })
    }

    /// `loss.backward()`.
    pub fn backward(&self, loss: &Tensor, observer: &dyn Observer) {
        let Some(root) = loss.edge().cloned() else { return };
        self.no_grad(|| {
            self.enter_operator("aten::ones_like");
            let ones = self.empty_like(loss);
            self.launch_elementwise(&[], &[&ones]);
            self.walk_back(root, &ones, observer);
            drop(ones);
        });
        self.end_backward();
    }

    /// `torch.autograd.backward` from where a tensor's gradient goes, with that gradient, which the caller holds.
    pub fn backward_along(&self, root: Edge, gradient: &Tensor, observer: &dyn Observer) {
        self.no_grad(|| self.walk_back(root, gradient, observer));
        self.end_backward();
    }

    fn walk_back(&self, root: Edge, gradient: &Tensor, observer: &dyn Observer) {
        // Python's frame holds the root gradient until the call returns.
        let mut engine = Engine::new(self, &root.node, observer);
        observer.begin();
        self.in_backward_thread(|| engine.run(root, gradient.clone()));
        observer.finish();
    }

    fn end_backward(&self) {
        self.enter_operator("");
        self.enter_module(LabelId::default());
        self.enter_reason(None);
    }
}

/// The tensors as outputs of `node`.
fn outputs_of(node: &Rc<GradNode>, outputs: &[Tensor]) -> Vec<Tensor> {
    let types = outputs.iter().map(|t| (t.dtype(), t.sizes().into())).collect();
    node.outputs.replace(types);
    let edge = |output| Edge { node: Rc::clone(node), output };
    outputs.iter().enumerate().map(|(i, tensor)| tensor.with_edge(edge(i))).collect()
}

/// One walk over the graph.
struct Engine<'a> {
    rt: &'a Runtime,
    observer: &'a dyn Observer,
    /// Nodes whose gradients are complete.
    ready: BinaryHeap<Ready>,
}

/// What a node waits for.
#[derive(Default)]
struct Waiting {
    /// COUNT: gradients still to come.
    missing: usize,
    /// Gradients that have arrived.
    grads: Incoming,
}

/// Gradients of a node's outputs, as far as they have arrived; most nodes have one.
type Incoming = SmallVec<[Option<Tensor>; 1]>;

/// A node that can run: of several, leaves run first, then what was made last.
struct Ready(Rc<GradNode>);

impl Ready {
    fn rank(&self) -> (bool, usize) {
        (matches!(self.0.body, Body::Accumulate(_)), self.0.id)
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ready {}

impl<'a> Engine<'a> {
    fn new(rt: &'a Runtime, root: &Rc<GradNode>, observer: &'a dyn Observer) -> Self {
        let mut stack = vec![Rc::clone(root)];
        while let Some(node) = stack.pop() {
            for edge in node.next.iter().flatten() {
                let mut waiting = edge.node.waiting.borrow_mut();
                if waiting.missing == 0 {
                    stack.push(Rc::clone(&edge.node));
                }
                waiting.missing += 1;
            }
        }
        Self { rt, observer, ready: BinaryHeap::new() }
    }

    fn run(&mut self, root: Edge, ones: Tensor) {
        self.accumulate(&root, ones);
        self.ready.push(Ready(root.node));
        while let Some(Ready(node)) = self.ready.pop() {
            let grads = mem::take(&mut node.waiting.borrow_mut().grads);
            match &node.body {
                Body::Accumulate(leaf) => {
                    if self.rt.trace_leaf(&node, grads.iter().flatten().next()) {
                        continue;
                    }
                    self.enter(&node);
                    self.accumulate_leaf(leaf, grads);
                }
                Body::Formula(formula) => {
                    self.observer.enter_module(node.module);
                    self.enter(&node);
                    self.run_node(&node, formula.borrow_mut().take(), grads);
                }
            }
        }
    }

    fn enter(&self, node: &GradNode) {
        self.rt.enter_module(node.module);
        self.rt.enter_reason(node.reason);
        self.rt.enter_operator(node.name);
    }

    fn run_node(&mut self, node: &Rc<GradNode>, body: Option<(Formula, Saved)>, grads: Incoming) {
        let Some((formula, saved)) = body else { return self.hand_on(node, Vec::new()) };
        let (mut saved, region) = self.rt.unpack(saved, self.observer);
        if region.is_some() {
            self.enter(node);
        }
        let needs: SmallVec<[bool; 8]> = node.next.iter().map(Option::is_some).collect();
        let pass = Pass { rt: self.rt, grads: &grads, saved: &saved, needs: &needs };
        let mut results =
            if grads.iter().any(Option::is_some) { formula(&pass) } else { Vec::new() };
        results.resize(node.next.len(), None);
        self.rt.trace_gradients((node.name, node.id), &grads, &saved, &results);
        if region.is_some() {
            // Only the formula's own variables held what was computed again; the last goes first.
            saved.drain(..).rev().for_each(drop);
        }
        for (edge, result) in node.next.iter().zip(&mut results) {
            *result = match (edge, result.take()) {
                (Some(edge), Some(grad)) => Some(self.fit(edge, grad)),
                _ => None,
            };
        }
        grads.into_iter().for_each(drop);
        saved.into_iter().for_each(drop);
        drop(region);
        self.hand_on(node, results);
    }

    /// Gives gradients to the nodes that wait for them; nodes that get none wait no longer, either.
    fn hand_on(&mut self, node: &GradNode, results: Gradients) {
        let mut results = results.into_iter();
        for edge in &node.next {
            let result = results.next().flatten();
            let Some(edge) = edge else { continue };
            if let Some(grad) = result {
                self.accumulate(edge, grad);
            }
            let mut waiting = edge.node.waiting.borrow_mut();
            waiting.missing = waiting.missing.saturating_sub(1);
            if waiting.missing == 0 {
                self.ready.push(Ready(Rc::clone(&edge.node)));
            }
        }
    }

    /// Sums a gradient over the dimensions that forward broadcast, and casts it (`validate_outputs`).
    fn fit(&self, edge: &Edge, grad: Tensor) -> Tensor {
        let outputs = edge.node.outputs.borrow();
        let Some((dtype, sizes)) = outputs.get(edge.output) else { return grad };
        let grad = if grad.sizes() == sizes.as_slice() {
            grad
        } else {
            let sum = kernels::sum_to(self.rt, &grad, sizes);
            self.rt.trace_engine(true, &[&grad], &sum);
            sum
        };
        if grad.dtype() == *dtype {
            return grad;
        }
        let cast = kernels::cast(self.rt, &grad, *dtype);
        self.rt.trace_engine(false, &[&grad], &cast);
        cast
    }

    /// Adds a gradient to those that wait for a node (`InputBuffer::add`).
    fn accumulate(&self, edge: &Edge, grad: Tensor) {
        let buffer = &mut edge.node.waiting.borrow_mut().grads;
        if buffer.len() <= edge.output {
            buffer.resize(edge.output + 1, None);
        }
        let Some(slot) = buffer.get_mut(edge.output) else { return };
        *slot = Some(match slot.take() {
            None => grad,
            Some(first) if first.numel() != grad.numel() => self.add_part(&first, &grad),
            Some(first)
                if !self.rt.is_tracing() && first.owns_storage_alone() && first.is_dense() =>
            {
                self.rt.launch_in_place(&[&grad], &first);
                first
            }
            Some(first) => {
                let add = || kernels::add_gradients(self.rt, &first, &grad);
                let stream = match &edge.node.body {
                    Body::Accumulate(leaf) => leaf.stream.get(),
                    Body::Formula(_) => None,
                };
                let sum = stream.map_or_else(add, |stream| self.rt.on_stream(stream, add));
                self.rt.trace_engine(false, &[&first, &grad], &sum);
                sum
            }
        });
    }

    /// The sum of two gradients of which one is that of the whole: a part of it is copied first.
    fn add_part(&self, first: &Tensor, second: &Tensor) -> Tensor {
        let (part, whole) =
            if first.numel() < second.numel() { (first, second) } else { (second, first) };
        let of_whole = self.rt.empty(whole.dtype(), part.sizes());
        self.rt.launch_elementwise(&[part], &[&of_whole]);
        kernels::add_gradients(self.rt, part, &of_whole)
    }

    fn accumulate_leaf(&self, leaf: &Leaf, grads: Incoming) {
        let Some(grad) = grads.into_iter().flatten().next() else { return };
        // A second gradient is added in place.
        if leaf.grad.borrow().is_none() {
            let obeys_layout = !layout::is_dense(grad.sizes(), &leaf.strides)
                || same_layout(grad.sizes(), grad.strides(), &leaf.strides);
            let kept = if grad.is_unique() && grad.is_dense() && obeys_layout {
                grad.clone()
            } else {
                let kept = self.rt.empty_strided(grad.dtype(), grad.sizes(), leaf.strides.clone());
                self.rt.launch_elementwise(&[&grad], &[&kept]);
                kept
            };
            self.rt.becomes_gradient(&kept, &leaf.name);
            leaf.set(kept);
        } else if let Some(first) = leaf.grad() {
            self.rt.launch_in_place(&[&grad], &first);
        }
        leaf.reached.set(true);
        self.observer.after_accumulation(leaf);
        drop(grad);
    }
}

/// Whether two strides address the same elements, dimensions of size one left aside.
fn same_layout(sizes: &[u64], a: &[u64], b: &[u64]) -> bool {
    sizes.iter().zip(a).zip(b).all(|((&size, a), b)| size == 1 || a == b)
}
