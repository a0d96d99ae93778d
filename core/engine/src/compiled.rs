//! `torch.compile`: a region runs once without memory and is traced; then its plan is what allocates.
//!
//! The trace is a joint graph of forward and backward ([`joint`]), at the grain of autograd's functions. Inductor's
//! minimum cut decides what forward keeps ([`cut`]), and fused kernels leave no results between them ([`plan`]).
//! `docs/compiled.md` has the rules and how exactly they hold.

mod cut;
mod joint;
mod plan;
mod tracing;

use std::cell::RefCell;
use std::rc::Rc;

use self::joint::{Class, Graph, Id};
use self::plan::{Plan, Step};
use self::tracing::{Shared, Tracing};
use crate::bytes::Bytes;
use crate::eager::tracer::Request;
use crate::eager::{Edge, Gradients, Kernel, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// A region that has been compiled.
#[derive(Debug)]
pub struct Compiled {
    graph: Graph,
    plan: Plan,
    /// Tensors that it is given each time, by their place among them.
    given: Vec<(usize, Id)>,
    outputs: Vec<Returned>,
    /// What backward is given for each output that has a gradient.
    tangents: Vec<Id>,
    gradients: Vec<(Goal, Returned)>,
}

/// Where a gradient goes.
#[derive(Debug)]
enum Goal {
    /// To a parameter.
    Parameter(Edge),
    /// To a tensor that the region was given, by its place.
    Given(usize),
}

/// A tensor that a half returns: a node, and how it is seen.
#[derive(Clone, Debug)]
struct Returned {
    id: Id,
    like: Tensor,
    /// Whether its gradient is asked for.
    has_gradient: bool,
}

/// Memory of a region's nodes.
type Memory = Vec<Option<Tensor>>;

impl Runtime {
    /// Compiles a region that reads these tensors besides the model's, and returns tensors.
    pub fn compile(&self, given: &[Tensor], body: impl Fn(&[Tensor]) -> Vec<Tensor>) -> Compiled {
        // What has a history outside begins here.
        let begin = |tensor: &Tensor| {
            if tensor.requires_grad() { self.parameter(tensor, "").0 } else { tensor.clone() }
        };
        let given: Vec<Tensor> = given.iter().map(begin).collect();
        let body = || body(&given);
        let (mut tracing, mut outputs, mut tangents) = self.trace(false, &body);
        if tracing.wants_channels_last() {
            (tracing, outputs, tangents) = self.trace(true, &body);
        }
        Compiled::new(self, tracing, &given, &outputs, tangents)
    }

    /// Runs a region, and its backward, without memory.
    fn trace(
        &self,
        channels_last: bool,
        body: &impl Fn() -> Vec<Tensor>,
    ) -> (Tracing, Vec<Tensor>, Vec<Id>) {
        let first = self.storages();
        self.with_own_casts(|| {
            self.without_memory(|| {
                let tracing = Shared::new(first, channels_last);
                self.set_tracer(Some(Box::new(tracing.clone())));
                let outputs = body();
                let mut tangents = Vec::new();
                let mut given = Vec::new();
                for output in outputs.iter().filter(|output| output.requires_grad()) {
                    let tangent = self.empty(output.dtype(), output.sizes());
                    tangents.push(tracing.tangent(self, &tangent));
                    given.push((output.clone(), tangent));
                }
                self.backward_from(given);
                self.set_tracer(None);
                (tracing.into_inner(), outputs, tangents)
            })
        })
    }
}

impl Compiled {
    fn new(
        rt: &Runtime,
        mut tracing: Tracing,
        given: &[Tensor],
        outputs: &[Tensor],
        tangents: Vec<Id>,
    ) -> Self {
        let returned = |tracing: &mut Tracing, tensor: &Tensor| Returned {
            id: tracing.id(rt, tensor),
            like: tensor.detach(),
            has_gradient: tensor.requires_grad(),
        };
        let outputs: Vec<Returned> =
            outputs.iter().map(|output| returned(&mut tracing, output)).collect();
        let gradients = std::mem::take(&mut tracing.gradients);
        let gradients = gradients.into_iter().map(|(node, gradient)| {
            let leads_to = |tensor: &Tensor| tensor.edge().is_some_and(|edge| edge.is_to(&node));
            let goal = given.iter().position(leads_to).map(Goal::Given);
            let goal = goal.unwrap_or_else(|| Goal::Parameter(Edge::to(node)));
            (goal, returned(&mut tracing, &gradient))
        });
        let gradients: Vec<(Goal, Returned)> = gradients.collect();
        let places = given.iter().enumerate();
        let given = places
            .filter_map(|(at, tensor)| Some((at, *tracing.known.get(&tensor.storage_id())?)))
            .collect();
        let roots = outputs.iter().map(|output| output.id).collect();
        let results = gradients.iter().map(|(_, gradient)| gradient.id).collect();
        let graph = Graph::new(tracing.nodes, roots, results, tracing.copies.into_values());
        let plan = Plan::of(&graph);
        Self { graph, plan, given, outputs, tangents, gradients }
    }

    /// Runs forward on these tensors; its function in autograd runs backward.
    pub fn run(self: &Rc<Self>, rt: &Runtime, given: &[Tensor]) -> Vec<Tensor> {
        let mut memory: Memory = vec![None; self.graph.ids().len()];
        for (at, id) in &self.given {
            if let (Some(slot), Some(tensor)) = (memory.get_mut(*id), given.get(*at)) {
                *slot = Some(tensor.detach());
            }
        }
        rt.aside(|| self.steps(rt, &self.plan.forward, &mut memory));
        let outputs: Vec<Tensor> = self.outputs.iter().map(|output| output.of(&memory)).collect();
        for (id, slot) in memory.iter_mut().enumerate() {
            slot.take_if(|_| !self.plan.saved.contains(&id));
        }
        if self.gradients.is_empty() {
            return outputs;
        }
        let kept = RefCell::new(Some(memory));
        let this = Rc::clone(self);
        let edges = self.gradients.iter().map(|(goal, _)| match goal {
            Goal::Parameter(edge) => Some(edge.clone()),
            Goal::Given(at) => given.get(*at)?.edge().cloned(),
        });
        let edges = edges.collect();
        let differentiable =
            self.outputs.iter().map(|output| output.has_gradient).collect::<Vec<_>>();
        rt.one_function("CompiledFunctionBackward", edges, outputs, &differentiable, move |pass| {
            kept.take().map(|memory| this.backward(pass, memory)).unwrap_or_default()
        })
    }

    fn backward(&self, pass: &Pass<'_>, mut memory: Memory) -> Gradients {
        let rt = pass.rt;
        for (at, id) in self.tangents.iter().enumerate() {
            let given = pass.grads.get(at).cloned().flatten();
            // What the loop did not use has a gradient of zeros.
            let tangent = given.or_else(|| self.empty(rt, *id));
            memory.get_mut(*id).into_iter().for_each(|slot| slot.clone_from(&tangent));
        }
        rt.aside(|| self.steps(rt, &self.plan.backward, &mut memory));
        self.gradients.iter().map(|(_, gradient)| Some(gradient.of(&memory))).collect()
    }

    fn empty(&self, rt: &Runtime, id: Id) -> Option<Tensor> {
        let ty = self.graph.node(id)?.ty.as_ref()?;
        Some(rt.without_launches(|| rt.empty(ty.dtype, &ty.dims)))
    }

    fn steps(&self, rt: &Runtime, steps: &[Step], memory: &mut Memory) {
        for step in steps {
            match step {
                Step::Make(id) => {
                    self.enter(rt, *id);
                    let made = self.empty(rt, *id);
                    memory.get_mut(*id).into_iter().for_each(|slot| slot.clone_from(&made));
                }
                Step::Over(id, source) => {
                    let old = memory.get_mut(*source).and_then(Option::take);
                    let ty = self.graph.node(*id).and_then(|node| node.ty.as_ref());
                    if let (Some(old), Some(ty), Some(slot)) = (old, ty, memory.get_mut(*id)) {
                        *slot = Some(old.as_type(ty));
                    }
                }
                Step::Run(id, read) => {
                    self.enter(rt, *id);
                    self.launch(rt, *id, read);
                }
                Step::Free(id) => {
                    memory.get_mut(*id).into_iter().for_each(|slot| *slot = None);
                }
            }
        }
    }

    fn enter(&self, rt: &Runtime, id: Id) {
        if let Some(node) = self.graph.node(id) {
            rt.enter_place(node.place);
        }
    }

    /// A kernel's scratch, and its time.
    fn launch(&self, rt: &Runtime, id: Id, read: &[Id]) {
        let Some(node) = self.graph.node(id) else { return };
        for request in &node.scratch {
            match request {
                Request::Product => rt.cublas(),
                Request::By(numbers, size) => drop(rt.scratch_as(numbers, size)),
            }
        }
        if !rt.is_launching() || node.is_statistic {
            return;
        }
        for (kernel, dtype) in &node.kernels {
            rt.launch(&[], *kernel, *dtype);
        }
        if !node.kernels.is_empty() {
            return;
        }
        let bytes = |ids: &[Id]| ids.iter().map(|id| self.graph.bytes(*id)).sum::<Bytes>();
        let written = if node.is_list() { bytes(self.graph.users(id)) } else { node.bytes() };
        let read = bytes(read);
        let dtype = node.ty.as_ref().map_or(DType::Float32, |ty| ty.dtype);
        let kernel = match node.class {
            Class::Small => Kernel::Reduction { read, written },
            _ => Kernel::Elementwise { read, written },
        };
        rt.launch(&[], kernel, dtype);
    }
}

impl Returned {
    /// The tensor.
    fn of(&self, memory: &Memory) -> Tensor {
        let held = memory.get(self.id).and_then(Option::as_ref);
        held.map_or_else(|| self.like.clone(), |held| held.seen_as(&self.like))
    }
}
