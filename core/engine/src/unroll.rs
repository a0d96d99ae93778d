//! Control flow → the nodes that it runs, repeated as often as they run.
//!
//! PyTorch is eager: an `If` runs one of its branches, and a `Loop` or a `Scan`
//! (<https://onnx.ai/onnx/operators/>) repeats its body. So each becomes its body's nodes, and later stages see
//! one graph without bodies.
//!
//! - Of a loop that would become too many nodes, the first and the last trips are written out, and one of them stands
//!   for all between ([`Fold`]): the step runs it once and repeats its events.
//! - Conditions and trip counts follow from constants and shapes. Some are known only after other control flow, so
//!   types are inferred again after each round, until nothing changes.
//! - Sequences and optionals exist only here: as lists of values.
//! - Conditions that depend on data are assumed and reported: the branch that needs more memory, the most trips that
//!   a loop allows, one trip if it has no number.

mod lists;

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::basis::Reason;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Attribute, Body, Elements, Fold, Graph, Literal, Node, Trip, Value, ValueId};
use crate::infer::{self, Typed};
use crate::sentence::Sentence;
use crate::tensor::DType;

/// COUNT: nodes that bodies become at most, those included that are settled on the way.
pub const NODES_MAX: usize = 50_000;
/// COUNT: rounds of inference; each settles all control flow that does not wait for another's.
const ROUNDS_MAX: usize = 64;
/// COUNT: trips that are assumed at most of a loop that data ends.
const ASSUMED_MAX: u64 = 1_000;

fn too_many() -> Error {
    let message = say!(
        "the loops and branches inside of other loops become more than {nodes_max} operators: give the inner loops \
         fewer trips, by smaller dimensions or by another export",
        nodes_max = NODES_MAX
    );
    Error::new(ErrorKind::TooManyOperators, message)
}

/// A trip to write out.
#[derive(Clone, Copy)]
struct Written {
    /// Which of the loop's trips it is.
    index: u64,
    /// Where it is one of a few that stand for all.
    place: Option<Trip>,
    /// COUNT: trips that it stands for.
    times: u64,
}

/// A value of a list.
#[derive(Clone, Copy)]
struct Part {
    value: ValueId,
    /// COUNT: values that it stands for.
    times: u64,
}

/// COUNT: what a trip through a body takes: values that come in and go out take memory as nodes do.
fn width(body: &Body) -> usize {
    body.nodes.len().max(body.inputs.len()).max(body.outputs.len()).max(1)
}

/// A graph without control flow, and its types.
///
/// # Errors
/// As [`infer::infer`], and when bodies run so often that there are too many nodes.
pub fn unroll(
    graph: Arc<Graph>,
    dims: &BTreeMap<String, u64>,
    sink: &Diagnostics,
) -> Result<(Arc<Graph>, Typed), Error> {
    let settle = |graph: &mut Graph| settle(graph, dims, sink, NODES_MAX);
    unroll_by(settle, graph, dims, sink)
}

/// The same, by what the caller has for control flow.
///
/// # Errors
/// As [`unroll`], and what the caller's answers.
pub fn unroll_by(
    settle: impl FnOnce(&mut Graph) -> Result<(), Error>,
    mut graph: Arc<Graph>,
    dims: &BTreeMap<String, u64>,
    sink: &Diagnostics,
) -> Result<(Arc<Graph>, Typed), Error> {
    if graph.nodes.iter().any(|node| is_settled_here(node)) {
        settle(Arc::make_mut(&mut graph))?;
    }
    let typed = infer::infer(&graph, dims, sink)?;
    Ok((graph, typed))
}

/// Rounds until nothing changes; then what data decides is assumed, and more may follow from that.
///
/// # Errors
/// As [`unroll`].
pub fn settle(
    graph: &mut Graph,
    dims: &BTreeMap<String, u64>,
    sink: &Diagnostics,
    nodes_max: usize,
) -> Result<(), Error> {
    graph.counts = infer::counts(graph);
    let mut assumptions = Vec::new();
    let mut work = 0;
    let mut assumes = false;
    for _ in 0..ROUNDS_MAX {
        let typed = infer::as_far_as_known(graph, dims)?;
        let nodes = std::mem::take(&mut graph.nodes);
        let mut round = Round::new(graph, &typed, assumes, (work, nodes_max));
        nodes.into_iter().try_for_each(|node| round.node(Arc::unwrap_or_clone(node)))?;
        let changed = round.changed;
        work = round.work;
        round.finish(&mut assumptions);
        if !changed && assumes {
            break;
        }
        assumes = !changed;
    }
    graph.idle.sort_unstable();
    graph.idle.dedup();
    for Assumption { code, severity, message, node, count } in assumptions {
        let message =
            if count > 1 { say!("{message} ({count} like it)", message, count) } else { message };
        sink.push(Diagnostic::new(severity, code, message).at(node));
    }
    for fold in &graph.folds {
        let Fold { name, trips } = fold;
        let message = say!(
            "\"{name}\" runs its body {trips} times: {old} trips were run, and the memory of one is repeated",
            name,
            trips,
            old = Fold::WRITTEN
        );
        sink.push(Diagnostic::new(Severity::Info, "repeated-trips", message).at(name.as_str()));
    }
    // Lists are no tensors: whoever read them has read their values.
    graph.nodes.retain(|node| !lists::makes_list(node));
    Ok(())
}

/// Whether an operator is control flow, or makes or reads a sequence or an optional.
fn is_settled_here(node: &Node) -> bool {
    let control = ["If", "Loop", "Scan"];
    node.domain.is_empty() && (control.contains(&node.op.as_str()) || lists::is_of_lists(node))
        || is_flex_attention(node)
}

fn is_flex_attention(node: &Node) -> bool {
    node.domain == "ai.onnx.preview" && node.op == "FlexAttention"
}

/// What was assumed, of the first node that it was assumed of.
struct Assumption {
    code: &'static str,
    severity: Severity,
    message: Sentence,
    node: String,
    count: usize,
}

/// One pass over the nodes, with what is known of their values.
struct Round<'r> {
    graph: &'r mut Graph,
    typed: &'r Typed,
    /// The same, with the types of branches that were compared.
    scratch: Option<Typed>,
    nodes: Vec<Node>,
    /// Values that are others under another name.
    aliases: BTreeMap<ValueId, ValueId>,
    /// Sequences.
    lists: BTreeMap<ValueId, Vec<Part>>,
    changed: bool,
    /// What data decides, which is assumed once nothing else follows any more: `None` before.
    assumptions: Option<Vec<Assumption>>,
    /// COUNT: bodies around the node, in this round.
    depth: usize,
    /// Whether what is put in place now rests on an assumption.
    is_assumed: bool,
    /// The trip that is written out, where it is one of a few that stand for all.
    trip: Option<Trip>,
    /// COUNT: nodes that bodies became, in all rounds.
    work: usize,
    /// COUNT: such nodes at most.
    nodes_max: usize,
}

impl<'r> Round<'r> {
    fn new(
        graph: &'r mut Graph,
        typed: &'r Typed,
        assumes: bool,
        (work, nodes_max): (usize, usize),
    ) -> Self {
        Self {
            graph,
            typed,
            scratch: None,
            nodes: Vec::new(),
            aliases: BTreeMap::new(),
            lists: BTreeMap::new(),
            changed: false,
            assumptions: assumes.then(Vec::new),
            depth: 0,
            is_assumed: false,
            trip: None,
            work,
            nodes_max,
        }
    }

    /// Hands the nodes to the graph, which gives what its outputs are called now.
    fn finish(self, assumptions: &mut Vec<Assumption>) {
        for output in &mut self.graph.outputs {
            *output = self.aliases.get(output).copied().unwrap_or(*output);
        }
        self.graph.nodes = self.nodes.into_iter().map(Arc::new).collect();
        for new in self.assumptions.into_iter().flatten() {
            match assumptions.iter_mut().find(|known| known.code == new.code) {
                Some(known) => known.count += 1,
                None => assumptions.push(new),
            }
        }
    }

    /// Puts a node's body in its place, where it is known by now how it runs; else keeps the node.
    fn node(&mut self, mut node: Node) -> Result<(), Error> {
        rename(&mut node, &self.aliases);
        node.trip = node.trip.or(self.trip);
        if is_settled_here(&node) || node.op == "Identity" {
            let around = std::mem::replace(&mut self.trip, node.trip);
            let settled = match node.op.as_str() {
                "If" => self.branch(&node)?,
                "Loop" => self.run_loop(&node)?,
                "Scan" => self.scan(&node)?,
                "FlexAttention" => self.flex_attention(&node)?,
                _ => self.list(&node)?,
            };
            self.trip = around;
            if settled {
                self.changed = true;
                return Ok(());
            }
        }
        if self.is_assumed {
            for output in node.outputs.iter().flatten() {
                self.graph.reasons.insert(*output, Reason::ControlFlow);
            }
        }
        self.nodes.push(node);
        Ok(())
    }

    /// `If`: the nodes of a branch.
    fn branch(&mut self, node: &Node) -> Result<bool, Error> {
        let [Some(yes), Some(no)] = ["then_branch", "else_branch"].map(|name| node.body(name))
        else {
            return Ok(false);
        };
        let condition = node.input(0);
        let known =
            self.squeezes(yes, no).or_else(|| condition.and_then(|condition| self.flag(condition)));
        let Some(taken) = known.or_else(|| {
            // Types are inferred only where it is time to assume.
            self.assumptions.as_ref().filter(|_| self.depth == 0)?;
            let is_squeeze = squeezed(yes, no).is_some();
            let larger = !is_squeeze && self.need(yes) >= self.need(no);
            let name = if larger { "then" } else { "else" };
            let label = node.label(self.graph).to_owned();
            let message = say!(
                "data decides which branch of \"{label}\" (If) runs: its {name} branch is assumed, \
                 which needs more memory or comes first",
                label,
                name
            );
            self.assume("assumed-branch", Severity::Warning, label, message)?;
            Some(larger)
        }) else {
            return Ok(false);
        };
        let (body, other) = if taken { (yes, no) } else { (no, yes) };
        // A module has the weights of both branches.
        let idle = weights(self.graph, other);
        self.graph.idle.extend(idle);
        self.spend(body.nodes.len())?;
        let is_assumed = known.is_none() || self.rests_on_assumption(node);
        self.inside(is_assumed, |round| {
            body.nodes.iter().try_for_each(|inner| round.node(inner.clone()))
        })?;
        self.name(&node.outputs, body.outputs.iter().copied());
        Ok(true)
    }

    /// `Loop`: its body for each trip, what one trip carries being given to the next.
    fn run_loop(&mut self, node: &Node) -> Result<bool, Error> {
        let Some(body) = node.body("body") else { return Ok(false) };
        let n_carried = node.inputs.len().saturating_sub(2);
        let carried: Option<Vec<ValueId>> = node.inputs.iter().skip(2).copied().collect();
        let (Some(mut carried), [trip, condition, states @ ..], [goes_on, results @ ..]) =
            (carried, body.inputs.as_slice(), body.outputs.as_slice())
        else {
            return Ok(false);
        };
        if states.len() != n_carried || results.len() < n_carried {
            return Ok(false);
        }
        // Without a number of trips the condition alone ends the loop.
        let most =
            node.input(0).map(|most| self.number(most).map(|n| u64::try_from(n).unwrap_or(0)));
        let begins = node.input(1).map_or(Some(true), |begins| self.flag(begins));
        let is_counted = node.input(1).is_none() || self.is_constant_in(body, *goes_on, *condition);
        let label = node.label(self.graph).to_owned();
        let (trips, is_known) = match (begins, most) {
            (Some(false), _) => (0, true),
            (Some(true), Some(Some(most))) if is_counted => (most, true),
            (_, Some(Some(most))) if most <= ASSUMED_MAX => {
                let message = say!(
                    "data decides when \"{label}\" (Loop) ends: it is assumed to run as often as it \
                     may, {most} times",
                    label,
                    most
                );
                let told = self.assume("assumed-trips", Severity::Warning, label, message);
                (if told.is_some() { most } else { return Ok(false) }, false)
            }
            _ => {
                let message = say!(
                    "data decides how often \"{label}\" (Loop) runs: its body is counted once",
                    label
                );
                let told = self.assume("unknown-trips", Severity::Error, label, message);
                (if told.is_some() { 1 } else { return Ok(false) }, false)
            }
        };
        let is_assumed = !is_known || self.rests_on_assumption(node);
        let mut scanned = vec![Vec::new(); results.len() - n_carried];
        let around = self.trip;
        for Written { index, place, times } in self.written(node, body, trips)? {
            self.trip = place;
            let index = i64::try_from(index).unwrap_or(i64::MAX);
            let mut names = BTreeMap::new();
            names.insert(*trip, self.constant(DType::Int64, Elements::Ints(vec![index])));
            names.insert(*condition, self.constant(DType::Bool, Elements::Ints(vec![1])));
            names.extend(states.iter().copied().zip(carried));
            let made = self.run(body, names, index, is_assumed)?;
            let mut made = made.into_iter().skip(1);
            carried = made.by_ref().take(n_carried).collect();
            for (list, value) in scanned.iter_mut().zip(made) {
                list.push(Part { value, times });
            }
        }
        self.trip = around;
        let (states, stacks) = node.outputs.split_at(n_carried.min(node.outputs.len()));
        self.name(states, carried);
        for (name, list) in stacks.iter().zip(scanned) {
            if let Some(name) = *name {
                self.stack(name, &list, 0);
            }
        }
        Ok(true)
    }

    /// `Scan`: its body for each slice of what is scanned.
    fn scan(&mut self, node: &Node) -> Result<bool, Error> {
        let inputs: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
        let n_scanned = node.int("num_scan_inputs").and_then(|n| usize::try_from(n).ok());
        let (Some(body), Some(inputs), Some(n_scanned)) = (node.body("body"), inputs, n_scanned)
        else {
            return Ok(false);
        };
        let Some(n_carried) = inputs.len().checked_sub(n_scanned) else { return Ok(false) };
        // Before version 9 of the operators it had a batch and lengths of its own.
        if self.graph.opset < 9 || body.inputs.len() != inputs.len() || n_scanned == 0 {
            return Ok(false);
        }
        let at = |list: &str, position: usize| {
            node.ints(list).and_then(|list| list.get(position).copied()).unwrap_or(0)
        };
        let (carried, scanned) = inputs.split_at(n_carried);
        let mut carried = carried.to_vec();
        let length = scanned.first().and_then(|first| self.size(*first, at("scan_input_axes", 0)));
        let Some(trips) = length else { return Ok(false) };
        let is_assumed = self.rests_on_assumption(node);
        let mut stacks = vec![Vec::new(); body.outputs.len().saturating_sub(n_carried)];
        let around = self.trip;
        for Written { index, place, times } in self.written(node, body, trips)? {
            self.trip = place;
            let trip = i64::try_from(index).unwrap_or(i64::MAX);
            let mut given = carried;
            for (position, whole) in scanned.iter().enumerate() {
                let is_backward = at("scan_input_directions", position) == 1;
                let place = if is_backward { trips - 1 - index } else { index };
                let place = i64::try_from(place).unwrap_or(i64::MAX);
                given.push(self.select(*whole, at("scan_input_axes", position), place));
            }
            let names = body.inputs.iter().copied().zip(given).into_map();
            let mut made = self.run(body, names, trip, is_assumed)?.into_iter();
            carried = made.by_ref().take(n_carried).collect();
            for (list, value) in stacks.iter_mut().zip(made) {
                list.push(Part { value, times });
            }
        }
        self.trip = around;
        let (states, outputs) = node.outputs.split_at(n_carried.min(node.outputs.len()));
        self.name(states, carried);
        for (position, (name, mut list)) in outputs.iter().zip(stacks).enumerate() {
            if at("scan_output_directions", position) == 1 {
                list.reverse();
            }
            if let Some(name) = *name {
                self.stack(name, &list, at("scan_output_axes", position));
            }
        }
        Ok(true)
    }

    /// `FlexAttention`: scores, what changes them, their softmax, what changes that, and the sum of values.
    fn flex_attention(&mut self, node: &Node) -> Result<bool, Error> {
        let (&[Some(q), Some(k), Some(v)], Some(y)) = (node.inputs.as_slice(), node.output(0))
        else {
            return Ok(false);
        };
        let mut made = self.put_attention(node, "FlexScores", [q, k], None);
        made = self.changed_by(node, "score_mod", made)?;
        let weights = self.add(self.graph.value(made).cloned().unwrap_or_default());
        self.put("Softmax", vec![made], weights, Some(-1));
        made = self.changed_by(node, "prob_mod", weights)?;
        self.put_attention(node, "FlexValues", [made, v], Some(y));
        Ok(true)
    }

    /// What a body of one input makes of a value; the value, where there is no body.
    fn changed_by(&mut self, node: &Node, name: &str, x: ValueId) -> Result<ValueId, Error> {
        let Some(body) = node.body(name) else { return Ok(x) };
        let names = body.inputs.iter().map(|input| (*input, x)).into_map();
        let made = self.run(body, names, 0, self.rests_on_assumption(node))?;
        Ok(made.first().copied().unwrap_or(x))
    }

    fn put_attention(
        &mut self,
        node: &Node,
        op: &str,
        inputs: [ValueId; 2],
        output: Option<ValueId>,
    ) -> ValueId {
        let name = || format!("{op}#{}", self.graph.values.len());
        let value = output.is_none().then(name).map(|name| Value { name, ..Value::default() });
        let output = output.unwrap_or_else(|| self.add(value.unwrap_or_default()));
        let trip = self.trip;
        let mut part = Node { op: op.to_owned(), domain: "torch".to_owned(), trip, ..node.clone() };
        part.inputs = inputs.map(Some).to_vec();
        part.outputs = vec![Some(output)];
        part.attributes.retain(|_, attribute| !matches!(attribute, Attribute::Body(_)));
        self.nodes.push(part);
        output
    }

    /// One trip through a body: what its outputs are, given what its inputs are.
    fn run(
        &mut self,
        body: &Body,
        mut names: BTreeMap<ValueId, ValueId>,
        trip: i64,
        is_assumed: bool,
    ) -> Result<Vec<ValueId>, Error> {
        self.spend(width(body))?;
        let mut nodes = Vec::with_capacity(body.nodes.len());
        for node in &body.nodes {
            nodes.push(self.instance(node, &mut names, trip)?);
        }
        self.inside(is_assumed, |round| nodes.into_iter().try_for_each(|node| round.node(node)))?;
        let outputs = body.outputs.iter();
        Ok(outputs.map(|id| self.resolve(names.get(id).copied().unwrap_or(*id))).collect())
    }

    /// A node of a trip, which makes values of its own.
    fn instance(
        &mut self,
        node: &Node,
        names: &mut BTreeMap<ValueId, ValueId>,
        trip: i64,
    ) -> Result<Node, Error> {
        let mut node = node.clone();
        let mut anew = |round: &mut Self, id: &mut ValueId| {
            let known = round.graph.value(*id).cloned().unwrap_or_default();
            let name = format!("{}@{trip}", known.name);
            let fresh = round.add(Value { name, ..known });
            names.insert(*id, fresh);
            *id = fresh;
        };
        node.outputs.iter_mut().flatten().for_each(|id| anew(self, id));
        for attribute in node.attributes.values_mut() {
            let Attribute::Body(body) = attribute else { continue };
            body.inputs.iter_mut().for_each(|id| anew(self, id));
        }
        for attribute in node.attributes.values_mut() {
            let Attribute::Body(body) = attribute else { continue };
            self.spend(body.nodes.len())?;
            for node in &mut body.nodes {
                *node = self.instance(node, names, trip)?;
            }
        }
        rename(&mut node, names);
        Ok(node)
    }

    fn inside<T>(&mut self, is_assumed: bool, body: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.is_assumed, is_assumed);
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        self.is_assumed = around;
        result
    }

    /// Notes an assumption, if it is time for assumptions: not within a body that was put in place in
    /// this round, of whose values nothing is known yet.
    fn assume(
        &mut self,
        code: &'static str,
        severity: Severity,
        node: String,
        message: Sentence,
    ) -> Option<()> {
        let assumptions = self.assumptions.as_mut().filter(|_| self.depth == 0)?;
        assumptions.push(Assumption { code, severity, message, node, count: 1 });
        Some(())
    }

    fn rests_on_assumption(&self, node: &Node) -> bool {
        node.outputs.iter().flatten().any(|output| self.graph.reasons.contains_key(output))
    }

    fn spend(&mut self, nodes: usize) -> Result<(), Error> {
        self.work = self.work.saturating_add(nodes.max(1));
        if self.work > self.nodes_max { Err(too_many()) } else { Ok(()) }
    }

    /// The trips of a loop to write out: all, or where these are too many the first and the last.
    fn written(&mut self, node: &Node, body: &Body, trips: u64) -> Result<Vec<Written>, Error> {
        let each = u64::try_from(width(body)).unwrap_or(u64::MAX);
        let left = u64::try_from(self.nodes_max.saturating_sub(self.work)).unwrap_or(0);
        if trips.saturating_mul(each) <= left {
            let all = 0..trips;
            return Ok(all.map(|index| Written { index, place: self.trip, times: 1 }).collect());
        }
        let name = node.label(self.graph).to_owned();
        let fold = Fold { name, trips };
        let (lacking, position) = (fold.lacking(), self.graph.folds.len());
        if self.trip.is_some() || lacking == 0 {
            return Err(too_many());
        }
        self.graph.folds.push(fold);
        let places = (0_u64..).zip(0..Fold::WRITTEN);
        let written = places.map(|(index, place)| Written {
            index: if place > Fold::TEMPLATE { index.saturating_add(lacking) } else { index },
            place: Some(Trip { fold: position, place }),
            times: if place == Fold::TEMPLATE { lacking.saturating_add(1) } else { 1 },
        });
        Ok(written.collect())
    }

    /// Whether what ends a loop never does: the condition as it was given, or a constant.
    fn is_constant_in(&self, body: &Body, goes_on: ValueId, condition: ValueId) -> bool {
        let mut id = goes_on;
        for _ in 0..=body.nodes.len() {
            if id == condition || self.flag(id) == Some(true) {
                return true;
            }
            let maker = body.nodes.iter().find(|node| node.outputs.contains(&Some(id)));
            let passes_on = maker.filter(|node| ["Identity", "Cast"].contains(&node.op.as_str()));
            let Some(from) = passes_on.and_then(|node| node.input(0)) else { return false };
            id = from;
        }
        false
    }

    /// What decides an `If` that squeezes: the size of the axis, where it is known.
    fn squeezes(&self, yes: &Body, no: &Body) -> Option<bool> {
        let squeeze = squeezed(yes, no)?;
        let x = squeeze.input(0)?;
        let axes = squeeze.ints("axes").or_else(|| self.ints(squeeze.input(1)?))?;
        self.typed.ty(x)?;
        Some(axes.iter().all(|axis| self.size(x, *axis) == Some(1)))
    }

    /// How much memory a branch needs, roughly: its weights with gradients and two states of the optimizer, and what
    /// its nodes make; then its nodes.
    fn need(&mut self, body: &Body) -> (u64, usize) {
        let mut read = weights(self.graph, body);
        read.sort_unstable();
        read.dedup();
        let bytes = read.into_iter().filter_map(|id| {
            let literal = self.graph.value(id)?.initializer.as_ref()?;
            let numel = literal.dims.iter().try_fold(1_u64, |n, dim| n.checked_mul(*dim));
            Some(numel?.saturating_mul(literal.dtype.size().0))
        });
        let weights = bytes.fold(0, u64::saturating_add);
        let scratch = self.scratch.get_or_insert_with(|| self.typed.clone());
        let made = infer::bytes_made(self.graph, body, scratch);
        (weights.saturating_mul(4).saturating_add(made), count(body))
    }

    fn resolve(&self, id: ValueId) -> ValueId {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    fn alias(&mut self, name: ValueId, value: ValueId) {
        let value = self.resolve(value);
        self.aliases.insert(name, value);
    }

    /// What a node of control flow makes are these values.
    fn name(&mut self, names: &[Option<ValueId>], values: impl IntoIterator<Item = ValueId>) {
        for (name, value) in names.iter().zip(values) {
            if let Some(name) = *name {
                self.alias(name, value);
            }
        }
    }

    fn add(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.graph.values.len());
        self.graph.values.push(value);
        id
    }

    /// A number, or a list of them, that the body was given.
    fn constant(&mut self, dtype: DType, elements: Elements) -> ValueId {
        let name = format!("Constant#{}", self.graph.values.len());
        let initializer = Some(Literal { dtype, dims: vec![], elements: Some(elements) });
        self.add(Value { name, declared: None, initializer })
    }

    fn put(&mut self, op: &str, inputs: Vec<ValueId>, output: ValueId, axis: Option<i64>) {
        let axis = axis.map(|axis| ("axis".to_owned(), Attribute::Int(axis)));
        self.nodes.push(Node {
            op: op.to_owned(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: axis.into_iter().into_map(),
            trip: self.trip,
            ..Node::default()
        });
    }

    fn ints(&self, id: ValueId) -> Option<&[i64]> {
        let known = self.typed.elements.get(id.0).and_then(Option::as_ref);
        let literal = self.graph.value(id)?.initializer.as_ref();
        match known.or_else(|| literal?.elements.as_ref())? {
            Elements::Ints(list) => Some(list),
            Elements::Floats(_) => None,
        }
    }

    fn number(&self, id: ValueId) -> Option<i64> {
        match self.ints(id)? {
            [number] => Some(*number),
            _ => None,
        }
    }

    fn flag(&self, id: ValueId) -> Option<bool> {
        self.number(id).map(|number| number != 0)
    }

    /// The size of a value along an axis, which may count from the end.
    fn size(&self, id: ValueId, axis: i64) -> Option<u64> {
        let dims = &self.typed.ty(id)?.dims;
        let rank = i64::try_from(dims.len()).ok()?;
        let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
        dims.get(usize::try_from(axis).ok()?).copied()
    }
}

/// What a node reads, in its bodies too, under other names.
fn rename(node: &mut Node, names: &BTreeMap<ValueId, ValueId>) {
    if names.is_empty() {
        return;
    }
    let rename_id = |id: &mut ValueId| *id = names.get(id).copied().unwrap_or(*id);
    node.inputs.iter_mut().flatten().for_each(rename_id);
    for attribute in node.attributes.values_mut() {
        let Attribute::Body(body) = attribute else { continue };
        body.nodes.iter_mut().for_each(|node| rename(node, names));
        body.outputs.iter_mut().for_each(rename_id);
    }
}

/// Tensors of the file that a body reads, each as often as it is read.
fn weights(graph: &Graph, body: &Body) -> Vec<ValueId> {
    let mut found = Vec::new();
    for node in &body.nodes {
        let is_weight = |id: &ValueId| graph.value(*id).is_some_and(|v| v.initializer.is_some());
        found.extend(node.inputs.iter().flatten().copied().filter(is_weight));
        node.bodies().for_each(|body| found.extend(weights(graph, body)));
    }
    found
}

/// The `Squeeze` of the branches as which TorchScript writes `squeeze` of an axis: the other one passes its input on.
fn squeezed<'b>(yes: &'b Body, no: &Body) -> Option<&'b Node> {
    let [squeeze] = yes.nodes.as_slice() else { return None };
    let passes_on = no.nodes.iter().all(|node| node.op == "Identity");
    (squeeze.op == "Squeeze" && passes_on).then_some(squeeze)
}

/// COUNT: nodes of a body and of those in it.
fn count(body: &Body) -> usize {
    let inner = |node: &Node| node.bodies().map(count).fold(1, usize::saturating_add);
    body.nodes.iter().map(inner).fold(0, usize::saturating_add)
}
