//! The forward: nodes in order, each held as long as Python would hold it.
//!
//! A value is freed when the last operator that reads it has returned and its variable is assigned again: after
//! the operator's own outputs exist. The arguments of a call hold a value until the module returns, whichever
//! operator inside reads it last ([`frames`]).

mod blocks;
mod frames;

use crate::order::{InOrder as _, IntoOrdered as _};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::basis::Reason;
use crate::config::{Checkpoint, Config};
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::checkpoint::{Argument, Region};
use crate::eager::{Runtime, Tensor};
use crate::graph::{Graph, Node, Trip, ValueId};
use crate::infer::Typed;
use crate::ops::{self, Call, Operand, Operator};
use crate::recover::Program;
use crate::roles::Role;
use crate::trace::{LabelId, ReasonId};

use super::hooks::{Direction, Hooks, Walk};
use super::modules::{ModuleId, Modules};

/// A graph ready to run, any number of times.
#[derive(Debug)]
pub struct Forward<'a> {
    graph: &'a Graph,
    typed: &'a Typed,
    steps: Vec<Step<'a>>,
    /// Parts that are run again in backward, in order.
    regions: Vec<RangeInclusive<usize>>,
    /// Whether checkpoints wait on the host.
    offloads: bool,
    /// Names of modules in the trips that stand for others.
    trips: Trips<'a>,
    modules: Modules,
    /// Names of nodes that ran without a rule of their own, by operator.
    assumed: RefCell<BTreeMap<&'a str, BTreeSet<&'a str>>>,
    /// Values of a part that is run again: what lies on the device, and between two such runs
    /// nothing else. Kept, since there may be as many parts as there are values.
    scratch: RefCell<Vec<Option<Tensor>>>,
}

/// Labels of the modules in trips that stand for others.
type Trips<'a> = BTreeMap<(Trip, &'a str), LabelId>;

#[derive(Debug)]
struct Step<'a> {
    node: &'a Node,
    module: LabelId,
    operator: Option<&'static Operator>,
    /// Why what it makes is not simply proven.
    reason: Option<ReasonId>,
    /// Values that nobody reads after this step.
    dies: Vec<ValueId>,
    /// Values that nobody reads after this step and that a variable is assumed to hold.
    overdue: Vec<ValueId>,
    in_place: bool,
    /// Whether a part that is run again in backward ends with it.
    ends_region: bool,
}

impl<'a> Step<'a> {
    /// The step of a node, before it is known what dies with it.
    fn new(
        rt: &Runtime,
        program: &Program,
        typed: &Typed,
        node: &'a Node,
        trips: &mut Trips<'a>,
    ) -> Self {
        let operator = ops::lookup(&node.domain, &node.op);
        let reason = reason(program, typed, node, operator);
        let name = node.module.as_str();
        let module = match node.trip {
            None => rt.label(name),
            Some(trip) => *trips.entry((trip, name)).or_insert_with(|| rt.label_apart(name)),
        };
        Self {
            node,
            module,
            operator,
            reason: reason.map(|reason| rt.reason(&reason)),
            dies: Vec::new(),
            overdue: Vec::new(),
            in_place: false,
            ends_region: false,
        }
    }

    /// Names that nobody reads any more are bound again.
    fn forget(&self, values: &mut [Option<Tensor>]) {
        for value in &self.dies {
            if let Some(slot) = values.get_mut(value.0) {
                *slot = None;
            }
        }
    }
}

/// By value, the step after which nothing reads it or is known to hold it, and that after which no variable is
/// assumed to hold it either.
fn lives(program: &Program, typed: &Typed, on_device: &[&Node]) -> [Vec<Option<usize>>; 2] {
    let graph = &program.graph;
    let is_alias = |node: &Node| node.op == "Cast" && keeps_type(node, typed);
    // What a program holds is written in it.
    let habits = !graph.level.is_program();
    [false, habits].map(|habits| {
        let mut last = frames::last_holders(on_device, graph.values.len(), habits, is_alias);
        frames::hold(&mut last, on_device, &program.names);
        // The cache holds what an earlier pass made until it holds more.
        for past in graph.pasts() {
            let reader = on_device.iter().position(|node| node.inputs.contains(&Some(past)));
            if let Some(slot) = last.get_mut(past.0) {
                *slot = reader;
            }
        }
        last
    })
}

impl<'a> Forward<'a> {
    /// Looks operators up and finds the last reader of every value.
    pub fn plan(
        rt: &Runtime,
        program: &'a Program,
        typed: &'a Typed,
        roles: &[Role],
        config: &Config,
    ) -> Self {
        let graph = &program.graph;
        let mut is_output = vec![false; graph.values.len()];
        for output in &graph.outputs {
            if let Some(flag) = is_output.get_mut(output.0) {
                *flag = true;
            }
        }
        let mut readers = vec![0_usize; graph.values.len()];
        for input in program.nodes.iter().flat_map(|node| node.inputs.iter().flatten()) {
            if let Some(count) = readers.get_mut(input.0) {
                *count += 1;
            }
        }
        let on_device: Vec<&Node> = program
            .nodes
            .iter()
            .map(AsRef::as_ref)
            .filter(|node| !is_folded(node, typed))
            .collect();
        let [read, last_holder] = lives(program, typed, &on_device);
        let regions = regions(&on_device, &graph.recomputed, config.checkpoint);
        let mut trips = Trips::new();
        let steps =
            on_device.into_iter().map(|node| Step::new(rt, program, typed, node, &mut trips));
        let mut steps: Vec<Step<'a>> = steps.collect();
        let mut modules = Modules::default();
        for step in &steps {
            modules.add(step.module, &step.node.module);
        }
        for region in &regions {
            steps.get_mut(*region.end()).into_iter().for_each(|step| step.ends_region = true);
        }
        for (value, last) in last_holder.iter().enumerate() {
            let computed = roles.get(value) == Some(&Role::Computed);
            if let Some(step) = last.and_then(|index: usize| steps.get_mut(index))
                && computed
                && !is_output.get(value).copied().unwrap_or(false)
            {
                step.dies.push(ValueId(value));
            }
            let read =
                read.get(value).copied().flatten().filter(|at| last.is_some_and(|last| *at < last));
            if let Some(step) = read.and_then(|at| steps.get_mut(at)) {
                step.overdue.push(ValueId(value));
            }
        }
        for step in &mut steps {
            // Overwriting is possible where the input is computed and this is its only reader.
            step.in_place = step.node.input(0).is_some_and(|input| {
                readers.get(input.0) == Some(&1)
                    && roles.get(input.0) == Some(&Role::Computed)
                    && !is_output.get(input.0).copied().unwrap_or(false)
            });
            // Names are bound again in the order in which the operator was given them.
            let position =
                |value: &ValueId| step.node.inputs.iter().position(|input| *input == Some(*value));
            step.dies.order_by_key(|value| position(value).unwrap_or(usize::MAX));
        }
        Self {
            graph,
            typed,
            steps,
            regions,
            offloads: config.checkpoint_offload,
            trips,
            modules,
            assumed: RefCell::default(),
            scratch: RefCell::default(),
        }
    }

    /// Runs the graph on what lies on the device and on a batch; returns the model's outputs. The model itself ends with
    /// [`Forward::finish`].
    pub fn run(
        &self,
        rt: &Runtime,
        (device, inputs): (&[Option<Tensor>], Vec<(ValueId, Tensor)>),
        hooks: &dyn Hooks,
    ) -> Vec<Tensor> {
        self.run_with(rt, self.typed, (device, inputs), hooks)
    }

    /// The same in other sizes than it was planned for.
    pub fn run_with(
        &self,
        rt: &Runtime,
        typed: &Typed,
        (device, inputs): (&[Option<Tensor>], Vec<(ValueId, Tensor)>),
        hooks: &dyn Hooks,
    ) -> Vec<Tensor> {
        let mut values: Vec<Option<Tensor>> = device.to_vec();
        values.resize(self.graph.values.len(), None);
        for (id, tensor) in inputs {
            if let Some(slot) = values.get_mut(id.0) {
                *slot = Some(tensor);
            }
        }
        let mut regions = self.regions.iter().enumerate().peekable();
        let walk = Walk::of_model(rt, hooks, &self.modules, Direction::Forward);
        walk.begin();
        for (index, step) in self.steps.iter().enumerate() {
            if let Some((id, region)) = regions.next_if(|(_, region)| *region.start() == index) {
                rt.enter_region(id, self.arguments(region, device, &values));
            }
            rt.enter_region_step(index);
            walk.enter(step.module);
            self.run_step(rt, typed, step, &mut values);
            if step.ends_region {
                rt.leave_region();
            }
            step.forget(&mut values);
            let overdue = step.overdue.iter().filter_map(|value| values.get(value.0)?.as_ref());
            overdue.for_each(|tensor| rt.note_held(tensor));
        }
        walk.end();
        rt.enter_module(LabelId::default());
        rt.enter_reason(None);
        let outputs = self.graph.outputs.iter();
        outputs.filter_map(|output| values.get(output.0).cloned().flatten()).collect()
    }

    /// What the steps of a region read and do not make.
    fn arguments(
        &self,
        region: &RangeInclusive<usize>,
        device: &[Option<Tensor>],
        values: &[Option<Tensor>],
    ) -> Vec<(usize, Argument)> {
        let steps = self.steps.get(region.clone()).unwrap_or(&[]);
        let read = steps.iter().flat_map(|step| step.node.inputs.iter().flatten()).copied();
        let read = read.into_set();
        let made_before = |id: &ValueId| device.get(id.0).is_none_or(Option::is_none);
        let given = |id: ValueId| Some((id.0, values.get(id.0)?.clone()?));
        let given = read.into_iter().filter(made_before).filter_map(given);
        let keep = if self.offloads { Argument::on_host } else { Argument::Held };
        given.map(|(id, tensor)| (id, keep(tensor))).collect()
    }

    /// Runs a checkpointed region again, as far as something is saved.
    pub fn run_again(
        &self,
        rt: &Runtime,
        device: &[Option<Tensor>],
        region: &Region,
        hooks: &dyn Hooks,
    ) {
        let Some(region_steps) = self.regions.get(region.id) else { return };
        let mut values = self.scratch.take();
        if values.is_empty() {
            values = device.to_vec();
            values.resize(self.graph.values.len(), None);
        }
        for (id, argument) in &region.arguments {
            if let Some(slot) = values.get_mut(*id) {
                *slot = Some(argument.bring(rt));
            }
        }
        let (last, allocates) =
            if rt.reenters() { (*region_steps.end(), true) } else { region.last_step() };
        let walk = Walk::resume(rt, hooks, &self.modules, self.around(region_steps));
        let start = *region_steps.start();
        for (index, step) in self.steps.iter().enumerate().take(last + 1).skip(start) {
            walk.enter(step.module);
            if index == last && !allocates {
                rt.without_memory(|| self.run_step(rt, self.typed, step, &mut values));
            } else {
                self.run_step(rt, self.typed, step, &mut values);
                step.forget(&mut values);
            }
        }
        walk.end();
        if rt.reenters() {
            let end = self.steps.get(*region_steps.end()).map(|step| &step.node.outputs);
            let results = end.into_iter().flatten().flatten();
            region.keep_results(results.filter_map(|id| values.get(id.0)?.clone()).collect());
        }
        // Stopping unwinds the frames.
        let ran = self.steps.get(start..=last).unwrap_or_default();
        let made = ran.iter().flat_map(|step| step.node.outputs.iter().flatten());
        let given = region.arguments.iter().map(|(id, _)| *id);
        for id in made.map(|id| id.0).chain(given).into_set() {
            let on_device = device.get(id).cloned().flatten();
            values.get_mut(id).into_iter().for_each(|slot| slot.clone_from(&on_device));
        }
        self.scratch.replace(values);
    }

    /// The model returns.
    pub fn finish(&self, rt: &Runtime, hooks: &dyn Hooks) {
        Walk::of_model(rt, hooks, &self.modules, Direction::Forward).finish();
    }

    /// The module that a block is a part of.
    fn around(&self, block: &RangeInclusive<usize>) -> ModuleId {
        let modules = &self.modules;
        let module = |step: usize| modules.of_label(self.steps.get(step)?.module);
        let [first, last] =
            [*block.start(), *block.end()].map(|step| module(step).unwrap_or_default());
        let is_block =
            |module: &ModuleId| modules.path(*module).ends_with(|last: char| last.is_ascii_digit());
        let block = modules.within(modules.shared(first, last), ModuleId::MODEL).find(is_block);
        block.map_or(ModuleId::MODEL, |block| modules.around(block))
    }

    /// The modules that its operators run in.
    pub const fn modules(&self) -> &Modules {
        &self.modules
    }

    fn run_step(
        &self,
        rt: &Runtime,
        typed: &Typed,
        step: &Step<'a>,
        values: &mut [Option<Tensor>],
    ) {
        rt.enter_module(step.module);
        rt.enter_reason(step.reason);
        let node = step.node;
        let operands = node.inputs.iter().map(|input| match input {
            None => Operand::Absent,
            Some(id) => match values.get(id.0).and_then(Option::as_ref) {
                Some(tensor) => Operand::Tensor(tensor.clone()),
                None => Operand::Host,
            },
        });
        let known = (typed.types.as_slice(), typed.elements.as_slice());
        let mut call = Call::new(rt, node, self.graph.opset, known, operands.collect());
        call.in_place = step.in_place;
        let rule = step.operator.and_then(|operator| operator.run);
        let run = |call: &mut Call<'_>| {
            let ran = rule.is_some_and(|rule| rule(call).is_ok());
            if !ran {
                rt.assuming(&Reason::Unmodelled, || unknown(call));
            }
            ran
        };
        let is_off = node.origin.as_ref().is_some_and(|origin| origin.no_grad);
        let ran = if is_off { rt.no_grad(|| run(&mut call)) } else { run(&mut call) };
        if !ran && step.operator.is_some() {
            let label = node.label(self.graph);
            self.assumed.borrow_mut().entry(&node.op).or_default().insert(label);
        }
        for (output, tensor) in node.outputs.iter().zip(call.finish()) {
            if let Some(slot) = output.and_then(|id| values.get_mut(id.0)) {
                *slot = tensor;
            }
        }
    }

    /// Which trip of which loop the module of an event tells, where not all of a loop's trips run.
    pub fn trips(&self) -> Vec<(LabelId, Trip)> {
        self.trips.iter().map(|((trip, _), label)| (*label, *trip)).collect()
    }

    /// COUNT: parts that are run again in backward.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// Operators whose shapes are known, but not what PyTorch does to memory in their place.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let assumed = self.assumed.borrow();
        let mut found: Vec<Diagnostic> = self.recurrent().into_iter().collect();
        for (op, nodes) in assumed.iter() {
            let (count, first) = (nodes.len(), nodes.first().copied().unwrap_or_default());
            let message = say!(
                "what `{op}` keeps and allocates is unknown ({count} in the graph): it is assumed to \
                 make its outputs and to keep its inputs",
                op,
                count
            );
            found.push(Diagnostic::new(Severity::Error, "unmodelled-operator", message).at(first));
        }
        found
    }
}

impl Forward<'_> {
    /// That there are recurrent layers, for which cuDNN has kernels that were never asked.
    fn recurrent(&self) -> Option<Diagnostic> {
        let first = self.graph.nodes.iter().find(|node| is_recurrent(&node.op))?;
        let message = say!(
            "scratch of recurrent layers is that of cuDNN's usual kernels; those for small states \
                       (up to 384) and for half precision may take another, which no card was asked for"
        );
        let found = Diagnostic::new(Severity::Info, "recurrent-scratch", message);
        Some(found.at(first.label(self.graph)))
    }
}

/// Whether an operator is a recurrent layer.
pub(super) fn is_recurrent(op: &str) -> bool {
    ["LSTM", "GRU", "RNN", "Recurrent"].contains(&op)
}

/// The blocks of a program: the path of each, and what it reads that no other part of the program does.
pub(crate) fn blocks(program: &Program) -> Vec<(String, BTreeSet<ValueId>)> {
    let (graph, typed) = (&program.graph, &*program.typed);
    let nodes = program.nodes.iter().map(AsRef::as_ref);
    let steps: Vec<&Node> = nodes.filter(|node| !is_folded(node, typed)).collect();
    let mut found: Vec<(String, BTreeSet<ValueId>)> = Vec::new();
    let mut owner: Vec<Option<usize>> = vec![None; steps.len()];
    for block in blocks::find(&steps, &graph.recomputed) {
        let at = found.iter().position(|(path, _)| *path == block.path).unwrap_or_else(|| {
            found.push((block.path.clone(), BTreeSet::new()));
            found.len() - 1
        });
        owner.get_mut(block.steps).into_iter().flatten().for_each(|owner| *owner = Some(at));
    }
    let mut readers: BTreeMap<ValueId, BTreeSet<Option<usize>>> = BTreeMap::new();
    for (step, owner) in steps.iter().zip(&owner) {
        for &input in step.inputs.iter().flatten() {
            readers.entry(input).or_default().insert(*owner);
        }
    }
    for (value, readers) in readers {
        if let [Some(block)] = readers.into_iter().collect::<Vec<_>>()[..]
            && let Some((_, reads)) = found.get_mut(block)
        {
            reads.insert(value);
        }
    }
    found
}

/// The parts that run again in backward.
fn regions(
    steps: &[&Node],
    stated: &[String],
    checkpoint: Checkpoint,
) -> Vec<RangeInclusive<usize>> {
    let every = match checkpoint {
        Checkpoint::None => return Vec::new(),
        Checkpoint::Blocks => 1,
        Checkpoint::Every(n) => usize::try_from(n.get()).unwrap_or(usize::MAX),
    };
    blocks::find(steps, stated).into_iter().map(|block| block.steps).step_by(every).collect()
}

/// Why what a node makes is not simply proven.
fn reason(
    program: &Program,
    typed: &Typed,
    node: &Node,
    operator: Option<&Operator>,
) -> Option<Reason> {
    // What makes no floating-point tensor has no gradient, and nothing is saved for it.
    let is_float = |output: &ValueId| typed.ty(*output).is_some_and(|ty| ty.dtype.is_floating());
    let unproven = operator
        .filter(|operator| operator.run.is_some() && !operator.is_proven)
        .filter(|_| node.outputs.iter().flatten().any(is_float))
        .map(|_| Reason::Operator(node.op.clone()));
    unproven.or_else(|| program.reason(node).cloned())
}

/// Whether everything a node makes is known before the run: shapes and numbers, in Python.
fn is_folded(node: &Node, typed: &Typed) -> bool {
    node.outputs
        .iter()
        .flatten()
        .all(|output| typed.elements.get(output.0).is_some_and(Option::is_some))
}

/// Whether `x.to(dtype)` is `x`.
fn keeps_type(node: &Node, typed: &Typed) -> bool {
    let dtype = |value: Option<ValueId>| Some(typed.ty(value?)?.dtype);
    dtype(node.input(0)).is_some_and(|from| dtype(node.output(0)) == Some(from))
}

/// An operator that nobody described: it makes its outputs and keeps its inputs.
fn unknown(call: &mut Call<'_>) {
    call.rt.enter_unknown_operator(&call.node.op);
    let inputs = call.tensors();
    for position in 0..call.node.outputs.len() {
        let Ok(ty) = call.output_type(position) else { continue };
        let output = call.rt.empty(ty.dtype, &ty.dims);
        let output = if ty.dtype.is_floating() {
            let differentiable: Vec<&Tensor> = inputs.iter().collect();
            call.rt.differentiable("Unknown", output, &differentiable, &differentiable, |pass| {
                pass.saved.iter().map(|input| Some(pass.rt.empty_like(input))).collect()
            })
        } else {
            output
        };
        call.set(position, output);
    }
}
