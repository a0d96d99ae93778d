//! Operators that exporters write as several ONNX operators. Each row of `spellings.txt` has the pattern of one.
//!
//! ```text
//! remainder(self, other) = self - Floor(self / other) * other
//! ```
//!
//! The left side is the operator that runs: an ATen operator with the names of its arguments
//! (`aten/formula/operators.txt`), or one of ONNX or [`DOMAIN`](super::DOMAIN). The right side is the content of
//! the file, in the syntax of formulas. `docs/recovery.md` describes the rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use smallvec::{SmallVec, smallvec};

use super::patterns::torch;
use super::{View, norms};
use crate::aten::formula::parse::{self, Expr};
use crate::basis::Reason;
use crate::config::Config;
use crate::eager::layout::contiguous_strides;
use crate::graph::{Attribute, Node, NodeId, ValueId};
use crate::ops;
use crate::sentence::Sentence;
use crate::tensor::DType;

const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/spellings.txt"));

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    parse::entries(TEXT).into_iter().filter_map(|line| Row::parse(line.trim_end())).collect()
});

/// Rows by the operator that is last in what they tell.
static BY_ROOT: LazyLock<BTreeMap<&'static str, Vec<&'static Row>>> = LazyLock::new(|| {
    let mut rows: BTreeMap<&'static str, Vec<&'static Row>> = BTreeMap::new();
    for row in ROWS.iter() {
        for root in row.results.first().into_iter().flat_map(roots) {
            rows.entry(root).or_default().push(row);
        }
    }
    rows
});

/// A spelling.
#[derive(Debug)]
struct Row {
    /// What it stands for.
    name: &'static str,
    /// Its arguments: what they are called, and what they are.
    arguments: Vec<(&'static str, Expr)>,
    /// Names for parts.
    parts: Vec<(&'static str, Expr)>,
    /// What makes the results; the last node first.
    results: Vec<Expr>,
}

impl Row {
    fn parse(line: &'static str) -> Option<Self> {
        let (head, body) = line.split_once(") = ")?;
        let (name, arguments) = head.split_once('(')?;
        let mut row = Self { name, arguments: Vec::new(), parts: Vec::new(), results: Vec::new() };
        for argument in parse::list(arguments) {
            row.arguments.push(match argument {
                Expr::Name(name) => (name, Expr::Name(name)),
                Expr::Named(name, value) => (name, *value),
                _ => return None,
            });
        }
        for (name, expr) in parse::body(body).0 {
            match name {
                Some(name) => row.parts.push((name, expr)),
                None => row.results.push(expr),
            }
        }
        Some(row)
    }

    fn part(&self, name: &str) -> Option<&Expr> {
        self.parts.iter().find(|(part, _)| *part == name).map(|(_, expr)| expr)
    }
}

/// Operators that may make the result of this expression.
fn roots(expr: &'static Expr) -> Vec<&'static str> {
    match expr {
        Expr::Call { name: "sized" | "called" | "by", arguments, .. } => {
            arguments.first().into_iter().flat_map(roots).collect()
        }
        Expr::Call { name: "reduced", .. } => vec!["ReduceMean", "ReduceSum", "Squeeze"],
        Expr::Call { name: "loss", arguments, .. } => {
            let unreduced = arguments.first().into_iter().flat_map(roots);
            unreduced.chain(["ReduceMean", "ReduceSum", "Squeeze"]).collect()
        }
        Expr::Call { name, .. } => vec![operator(name)],
        _ => Vec::new(),
    }
}

/// ONNX's name of what formulas write with a sign.
fn operator(name: &'static str) -> &'static str {
    match name {
        "add" => "Add",
        "sub" => "Sub",
        "mul" => "Mul",
        "div" => "Div",
        "neg" => "Neg",
        "eq" => "Equal",
        "lt" => "Less",
        "le" => "LessOrEqual",
        "gt" => "Greater",
        "ge" => "GreaterOrEqual",
        other => other,
    }
}

/// Puts what ran in place of each spelling.
pub(super) fn find_again(view: &mut View<'_>, _: &Config) {
    search(view, true);
}

/// Of files whose nodes name their calls only what is spelled in several calls: one call says itself what
/// ran.
pub(super) fn find_decomposed(view: &mut View<'_>, _: &Config) {
    if view.nodes().any(|(_, node)| call(node).is_some()) {
        search(view, false);
    }
}

/// The call that a node came from.
fn call(node: &Node) -> Option<&str> {
    let call = node.origin.as_ref()?.call.as_str();
    (!call.is_empty()).then_some(call)
}

/// Puts in what is found of all rows, be it in the nodes of one call or not.
fn search(view: &mut View<'_>, in_one_call: bool) {
    let mut found: Vec<(NodeId, Node)> = Vec::new();
    let mut marked: Vec<(ValueId, &'static str)> = Vec::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut taken = vec![false; view.nodes.len()];
    // The last node of a spelling comes before those of the shorter ones in it.
    for (at, node) in view.nodes.iter().enumerate().rev() {
        let is_free = is_matched(node) && taken.get(at) == Some(&false);
        let rows = BY_ROOT.get(node.op.as_str()).filter(|_| is_free);
        let spelled = |row: &&'static Row| {
            // What is only marked is marked once, before calls become one node each.
            if in_one_call && row.name.starts_with('~') {
                return None;
            }
            let found = Match::of(view, row, NodeId(at));
            let is_meant = |found: &Match<'_>| in_one_call || found.has_several_calls();
            let found = found.filter(|found| row.name.starts_with('~') || is_meant(found))?;
            Some((row.name, found))
        };
        let Some((name, spelled)) = rows.and_then(|rows| rows.iter().find_map(spelled)) else {
            continue;
        };
        if let Some(name) = name.strip_prefix('~') {
            marked.extend(node.output(0).map(|value| (value, name)));
            continue;
        }
        let Some(nodes) = spelled.replaced() else { continue };
        for &NodeId(at) in &spelled.nodes {
            if let Some(slot) = taken.get_mut(at) {
                *slot = true;
            }
        }
        found.extend(nodes);
        *counts.entry(name).or_default() += 1;
    }
    for (at, node) in found {
        view.replace(at, node);
    }
    for (name, count) in counts {
        view.found_again(&Sentence::name(&name.to_ascii_lowercase()), count);
    }
    for (value, name) in marked {
        super::rests_on(&mut view.reasons, value, &Reason::Operator(name.to_owned()));
    }
}

/// Whether rows name nodes of this domain.
fn is_matched(node: &Node) -> bool {
    ["", super::DOMAIN, "aten"].contains(&node.domain.as_str())
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq)]
enum Bound {
    Value(ValueId),
    Values(Vec<ValueId>),
    Attribute(Option<Attribute>),
}

/// A row that is being compared with nodes.
#[derive(Debug)]
struct Match<'v> {
    view: &'v View<'v>,
    row: &'static Row,
    bound: Vec<(&'static str, Bound)>,
    nodes: Vec<NodeId>,
    /// What makes the row's results.
    last: SmallVec<[NodeId; 2]>,
}

impl<'v> Match<'v> {
    fn of(view: &'v View<'v>, row: &'static Row, at: NodeId) -> Option<Self> {
        let mut spelled =
            Self { view, row, bound: Vec::new(), nodes: Vec::new(), last: smallvec![at] };
        let (first, rest) = row.results.split_first()?;
        let root = view.node(at)?.output(0)?;
        if !spelled.is(first, root) {
            return None;
        }
        for result in rest {
            let other = spelled.others().into_iter().find(|&other| {
                let output = view.node(other).and_then(|node| node.output(0));
                output.is_some_and(|output| spelled.is(result, output))
            })?;
            spelled.last.push(other);
        }
        // What is only marked stays, with whoever reads parts of it.
        (row.name.starts_with('~') || spelled.is_all_here()).then_some(spelled)
    }

    fn has_several_calls(&self) -> bool {
        let mut calls = self.nodes.iter().map(|at| self.view.node(*at).and_then(call));
        let first = calls.next();
        calls.any(|call| Some(call) != first)
    }

    /// Nodes that may make a further result: what is spelled and what reads the same, if others read it.
    fn others(&self) -> Vec<NodeId> {
        let values = self.bound.iter().filter_map(|(_, bound)| match bound {
            Bound::Value(value) => Some(*value),
            _ => None,
        });
        let mut beside: Vec<NodeId> =
            values.flat_map(|value| self.view.readers(value)).copied().collect();
        // Of what reads the same also the rest, as far as one node reads the next.
        let mut at = 0;
        while let Some(node) = beside.get(at).filter(|_| at < 64) {
            let made = self.view.node(*node).and_then(|node| node.output(0));
            let next = made.map_or(&[][..], |value| self.view.readers(value));
            let is_new = next.len() == 1 && next.iter().all(|next| !beside.contains(next));
            beside.extend(next.iter().filter(|_| is_new));
            at = at.saturating_add(1);
        }
        let is_read = |at: &NodeId| {
            let value = self.view.node(*at).and_then(|node| node.output(0));
            value.is_some_and(|value| {
                self.view.graph().outputs.contains(&value)
                    || self.view.readers(value).iter().any(|at| !self.nodes.contains(at))
            })
        };
        self.nodes.iter().copied().chain(beside).filter(is_read).collect()
    }

    /// Whether nothing else reads what lies between arguments and results.
    fn is_all_here(&self) -> bool {
        let between = self.nodes.iter().filter(|at| !self.last.contains(at));
        let made = between.filter_map(|at| self.view.node(*at));
        made.flat_map(|node| node.outputs.iter().flatten()).all(|&value| {
            let is_known = self.view.is_known(value);
            is_known
                || (!self.view.graph().outputs.contains(&value)
                    && self.view.readers(value).iter().all(|at| {
                        let outputs = self.view.node(*at).map(|node| node.outputs.as_slice());
                        let mut outputs = outputs.unwrap_or_default().iter().flatten();
                        self.nodes.contains(at) || outputs.all(|&v| self.view.is_known(v))
                    }))
        })
    }

    /// The one node instead, where the first result was made; nothing instead of the others.
    fn replaced(&self) -> Option<Vec<(NodeId, Node)>> {
        let first = self.last.iter().copied().min()?;
        let like = self.view.node(*self.last.first()?)?;
        let is_onnx = self.row.name.starts_with(|c: char| c.is_ascii_uppercase());
        let mut node = torch(self.row.name, like, Vec::new());
        if !is_onnx {
            "aten".clone_into(&mut node.domain);
        } else if ops::lookup("", self.row.name).is_some() {
            node.domain.clear();
        }
        let outputs = self.last.iter().filter_map(|at| self.view.node(*at));
        node.outputs = outputs.map(|node| node.output(0)).collect();
        let mut tensors: Vec<String> = Vec::new();
        for (name, expr) in &self.row.arguments {
            match self.argument(expr)? {
                Bound::Attribute(None) => {}
                Bound::Attribute(Some(attribute)) => {
                    node.attributes.insert((*name).to_owned(), attribute);
                }
                Bound::Value(value) => {
                    tensors.push((*name).to_owned());
                    node.inputs.push(Some(value));
                }
                Bound::Values(values) => {
                    tensors.extend(values.iter().map(|_| format!("{name}*")));
                    node.inputs.extend(values.into_iter().map(Some));
                }
            }
        }
        if !is_onnx {
            node.attributes.insert("tensors".to_owned(), Attribute::String(tensors.join(",")));
        }
        let rest = self.last.iter().filter(|at| **at != first);
        let empty = rest.filter_map(|&at| {
            let node = self.view.node(at)?.clone();
            Some((at, Node { inputs: Vec::new(), outputs: Vec::new(), ..node }))
        });
        Some(std::iter::once((first, node)).chain(empty).collect())
    }

    fn argument(&self, expr: &'static Expr) -> Option<Bound> {
        Some(match expr {
            Expr::Name(name) => match self.known(name)? {
                // A number of the code is Python's.
                Bound::Value(value) => match self.number(*value) {
                    Some(x) if self.view.dims(*value)?.is_empty() => {
                        Bound::Attribute(Some(Attribute::Float(x)))
                    }
                    _ => Bound::Value(*value),
                },
                other => other.clone(),
            },
            other => Bound::Attribute(Some(literal(other)?)),
        })
    }

    fn known(&self, name: &str) -> Option<&Bound> {
        self.bound.iter().find(|(known, _)| *known == name).map(|(_, bound)| bound)
    }

    /// Whether a name stands for this, from now on if it stood for nothing.
    fn bind(&mut self, name: &'static str, value: Bound) -> bool {
        match self.known(name) {
            _ if name == "_" => true,
            Some(known) => *known == value,
            None => {
                self.bound.push((name, value));
                true
            }
        }
    }

    fn number(&self, value: ValueId) -> Option<f64> {
        self.view.number(value)
    }

    /// Whether a value was made as the expression says.
    fn is(&mut self, expr: &'static Expr, value: ValueId) -> bool {
        match expr {
            Expr::Name(name) => match self.row.part(name) {
                Some(part) => self.is(part, value),
                None => self.bind(name, Bound::Value(value)),
            },
            Expr::Int(_) | Expr::Float(_) => {
                let wanted = number(expr);
                self.number(value).map_or_else(
                    || norms::is_constant(self.view, value, wanted),
                    |x| is_near(x, wanted),
                )
            }
            Expr::List(_) => literal(expr).is_some_and(|list| {
                self.view.ints(value).map(|ints| Attribute::Ints(ints.to_vec())) == Some(list)
            }),
            Expr::Call { name, arguments, .. } => {
                self.is_call(name, arguments, value).unwrap_or(false)
            }
            _ => false,
        }
    }

    fn is_call(
        &mut self,
        name: &'static str,
        arguments: &'static [Expr],
        value: ValueId,
    ) -> Option<bool> {
        let (view, first) = (self.view, arguments.first());
        Some(match (name, first?) {
            ("number" | "ints" | "steps", Expr::Name(attribute)) => {
                let known = self.constant(name, value)?;
                self.bind(attribute, Bound::Attribute(Some(known)))
            }
            ("loss" | "reduced", unreduced) => {
                self.is_loss(unreduced, arguments.get(1)?, value, name == "loss")
            }
            ("rank", inner) => {
                let rank = number(arguments.get(1)?);
                let dims = u32::try_from(view.dims(value)?.len()).ok()?;
                is_near(f64::from(dims), rank) && self.is(inner, value)
            }
            ("called" | "by" | "terms" | "block", inner) => {
                self.is_of_calls(name, inner, arguments.get(1), value)?
            }
            ("tensor", inner) => self.number(value).is_none() && self.is(inner, value),
            ("sized", inner) => {
                let dims = view.dims(value)?.iter().map(|&size| i64::try_from(size).ok());
                let dims = Bound::Attribute(Some(Attribute::Ints(dims.collect::<Option<_>>()?)));
                let Expr::Name(name) = arguments.get(1)? else { return None };
                self.is(inner, value) && self.bind(name, dims)
            }
            ("made", inner) => {
                let by = arguments.get(1)?;
                let op = &view.producer(value)?.op;
                matches!(by, Expr::Name(name) if op == name) && self.is(inner, value)
            }
            ("past", inner) => {
                let is_there = |node: &&Node| matches!(arguments.get(1), Some(Expr::Name(op)) if node.op == *op);
                match view.producer(value).filter(is_there).and_then(|node| node.input(0)) {
                    Some(input) => {
                        self.nodes.extend(self.maker(value));
                        self.is(inner, input)
                    }
                    None => self.is(inner, value),
                }
            }
            ("unless", other) => {
                let before = (self.bound.len(), self.nodes.len());
                let is_other = arguments.get(1).is_some_and(|inner| self.is(inner, value));
                let operand = view.producer(value).and_then(|node| node.input(0));
                let kept = (self.bound.len(), self.nodes.len());
                let is_refused = operand.is_some_and(|operand| self.is(other, operand));
                self.forget(if is_other && !is_refused { kept } else { before });
                is_other && !is_refused
            }
            ("cast", inner) => {
                let mut value = value;
                while let Some(cast) = view.made_by(value, "Cast") {
                    self.nodes.extend(self.maker(value));
                    value = cast.input(0)?;
                }
                self.is(inner, value)
            }
            ("nth", position) => {
                let position = number(position);
                let outputs = &view.producer(value)?.outputs;
                let at = outputs.iter().position(|output| *output == Some(value))?;
                let at = f64::from(u32::try_from(at).ok()?);
                is_near(at, position) && self.is_made(arguments.get(1)?, value)
            }
            _ => {
                let is_first = view.producer(value)?.output(0) == Some(value);
                is_first && self.is_node(name, arguments, value)?
            }
        })
    }

    /// A constant value as an attribute: one number, integers, or the distances between slices.
    fn constant(&self, kind: &str, value: ValueId) -> Option<Attribute> {
        let ints = || self.view.ints(value);
        Some(match kind {
            "number" => Attribute::Float(self.number(value)?),
            "ints" => Attribute::Ints(ints()?.to_vec()),
            _ => Attribute::Ints(strides_of(ints()?, self.view.dims(value)?)?),
        })
    }

    /// Whether a value is the mean or the sum of this, or, where that is asked for too, this itself.
    fn is_loss(
        &mut self,
        unreduced: &'static Expr,
        reduction: &'static Expr,
        value: ValueId,
        or_itself: bool,
    ) -> bool {
        let before = (self.bound.len(), self.nodes.len());
        let (code, inner) = self.reduced(value);
        let bound = Bound::Attribute(Some(Attribute::Int(code)));
        let is_bound = match reduction {
            Expr::Name(name) => (or_itself || code != 0) && self.bind(name, bound),
            _ => false,
        };
        let is_loss = is_bound && self.is(unreduced, inner);
        if !is_loss {
            self.forget(before);
        }
        is_loss
    }

    /// Whether a value is what the text of a call says of it, or what many nodes make together.
    fn is_of_calls(
        &mut self,
        name: &'static str,
        inner: &'static Expr,
        other: Option<&'static Expr>,
        value: ValueId,
    ) -> Option<bool> {
        Some(match (name, other) {
            ("called", Some(Expr::Name(name))) => {
                self.is_called(value, name) && self.is(inner, value)
            }
            ("by", Some(Expr::Text(text))) => {
                let call = call(self.view.producer(value)?)?;
                call.contains(text) && self.is(inner, value)
            }
            ("terms", _) => {
                let before = (self.bound.len(), self.nodes.len());
                let first = self.first_term(value);
                let is_sum = first != value && self.is(inner, first);
                if !is_sum {
                    self.forget(before);
                }
                is_sum
            }
            ("block", _) => {
                let joined = self.view.made_by(value, "Concat")?;
                let mut parts = joined.inputs.iter().flatten();
                let mut parts = parts.by_ref().filter(|part| !self.view.is_initializer(**part));
                let (Some(part), None) = (parts.next(), parts.next()) else { return None };
                self.nodes.extend(self.maker(value));
                self.is(inner, *part)
            }
            _ => false,
        })
    }

    /// What a loss reduces, and its `reduction`: 0 for none, 1 for the mean, 2 for the sum. A mean may be
    /// a reduction that keeps its dimensions, and a squeeze.
    fn reduced(&mut self, value: ValueId) -> (i64, ValueId) {
        let view = self.view;
        let squeezed = view.made_by(value, "Squeeze").and_then(|node| node.input(0));
        let (made, keeps) = squeezed.map_or((value, 0), |inner| (inner, 1));
        for (op, code) in [("ReduceMean", 1), ("ReduceSum", 2)] {
            let Some(node) = view.made_by(made, op) else { continue };
            let is_whole = node.inputs.iter().flatten().count() == 1
                && !node.attributes.contains_key("axes")
                && node.int("keepdims").unwrap_or(1) == keeps;
            if let Some(inner) = node.input(0).filter(|_| is_whole) {
                self.nodes.extend(self.maker(value));
                if squeezed.is_some() {
                    self.nodes.extend(self.maker(made));
                }
                return (code, inner);
            }
        }
        (0, value)
    }

    /// Whether a reader knows the value by this name: what the exporter left out made it, and changed nothing.
    fn is_called(&self, value: ValueId, name: &str) -> bool {
        let readers = self.view.readers(value).iter().filter_map(|at| self.view.node(*at));
        readers.filter_map(call).any(|call| {
            call.split('%').skip(1).any(|argument| {
                let end = argument.find(|c: char| !c.is_alphanumeric() && c != '_');
                let argument = argument.get(..end.unwrap_or(argument.len())).unwrap_or("");
                let number = argument.strip_prefix(name).map(|rest| rest.trim_start_matches('_'));
                number.is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()))
            })
        })
    }

    /// The first of many terms, which are selected of one tensor.
    fn first_term(&mut self, mut value: ValueId) -> ValueId {
        while let Some(sum) = self.view.made_by(value, "Add") {
            self.nodes.extend(self.maker(value));
            let mut term = sum.input(1);
            while let Some(part) = term.and_then(|term| self.view.made_by(term, "Gather")) {
                let at = term.and_then(|term| self.maker(term));
                self.nodes.extend(at.filter(|at| !self.nodes.contains(at)));
                term = part.input(0);
            }
            let Some(first) = sum.input(0) else { break };
            value = first;
        }
        value
    }

    /// Whether any result of what the expression says.
    fn is_made(&mut self, expr: &'static Expr, value: ValueId) -> bool {
        match expr {
            Expr::Name(name) => self.row.part(name).is_some_and(|part| self.is_made(part, value)),
            Expr::Call { name, arguments, .. } => {
                self.is_node(name, arguments, value).unwrap_or(false)
            }
            _ => false,
        }
    }

    fn maker(&self, value: ValueId) -> Option<NodeId> {
        *self.view.producers.get(value.0)?
    }

    fn is_node(
        &mut self,
        name: &'static str,
        arguments: &'static [Expr],
        value: ValueId,
    ) -> Option<bool> {
        let at = self.maker(value)?;
        let node = self.view.node(at)?;
        if node.op != operator(name) || !is_matched(node) {
            return Some(false);
        }
        let named = arguments.iter().filter_map(|argument| match argument {
            Expr::Named(name, expr) => Some((*name, expr.as_ref())),
            _ => None,
        });
        let placed: SmallVec<[&'static Expr; 4]> =
            arguments.iter().filter(|argument| !matches!(argument, Expr::Named(..))).collect();
        let mut inputs: SmallVec<[_; 4]> = node.inputs.iter().copied().collect();
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let before = (self.bound.len(), self.nodes.len());
        self.nodes.push(at);
        for (called, expr) in named {
            let mut stated = node.attributes.get(called).cloned();
            // Newer operator sets have it as an input.
            if stated.is_none() && called == "axes" && inputs.len() > placed.len() {
                stated = Some(Attribute::Ints(self.view.ints(inputs.pop()??)?.to_vec()));
            }
            if !self.is_stated(expr, stated) {
                return Some(false);
            }
        }
        if let [Expr::Call { name: "all", arguments, .. }] = placed.as_slice() {
            let one = arguments.first()?;
            // What is called `tensors` is another tensor in each.
            let mut tensors: Vec<ValueId> = Vec::new();
            let are_such = inputs.iter().all(|&input| {
                let is_such = self.is_input(one, input);
                let list = self.bound.iter().position(|(name, _)| *name == "tensors");
                if let Some((_, Bound::Value(tensor))) = list.map(|at| self.bound.remove(at)) {
                    tensors.push(tensor);
                }
                is_such
            });
            if !are_such {
                self.forget(before);
            } else if !tensors.is_empty() {
                self.bound.push(("tensors", Bound::Values(tensors)));
            }
            return Some(are_such);
        }
        if inputs.len() != placed.len() {
            return Some(false);
        }
        let bound = (self.bound.len(), self.nodes.len());
        if placed.iter().zip(&inputs).all(|(expr, &input)| self.is_input(expr, input)) {
            return Some(true);
        }
        self.forget(bound);
        // With a sign in either order.
        inputs.reverse();
        if matches!(name, "add" | "mul")
            && placed.iter().zip(&inputs).all(|(expr, &input)| self.is_input(expr, input))
        {
            return Some(true);
        }
        self.forget(before);
        Some(false)
    }

    fn is_input(&mut self, expr: &'static Expr, input: Option<ValueId>) -> bool {
        match input {
            Some(value) => self.is(expr, value),
            None => matches!(expr, Expr::Name("none")),
        }
    }

    fn forget(&mut self, (bound, nodes): (usize, usize)) {
        self.bound.truncate(bound);
        self.nodes.truncate(nodes);
    }

    /// Whether an attribute is this; a name stands for it, or for nothing.
    fn is_stated(&mut self, expr: &'static Expr, stated: Option<Attribute>) -> bool {
        match expr {
            Expr::Name("none") => stated.is_none(),
            Expr::Name(name) => self.bind(name, Bound::Attribute(stated)),
            literal_ => stated.is_some() && literal(literal_) == stated,
        }
    }
}

/// How far apart neighbours are along each dimension, if that tells all positions.
fn strides_of(positions: &[i64], dims: &[u64]) -> Option<Vec<i64>> {
    let dense = contiguous_strides(dims);
    let first = positions.first()?;
    let step = |(&size, &at): (&u64, &u64)| {
        let next = if size > 1 { positions.get(usize::try_from(at).ok()?)? } else { first };
        next.checked_sub(*first)
    };
    let steps: Vec<i64> = dims.iter().zip(&dense).map(step).collect::<Option<_>>()?;
    let place = |at: u64| {
        let along =
            dims.iter().zip(&dense).map(|(&size, &of)| at.checked_div(of)?.checked_rem(size));
        let far = along.zip(&steps).map(|(n, step)| i64::try_from(n?).ok()?.checked_mul(*step));
        far.sum::<Option<i64>>()?.checked_add(*first)
    };
    let is_so = (0..).zip(positions).all(|(at, position)| place(at) == Some(*position));
    is_so.then_some(steps)
}

/// Whether a number of the file is one of a row, in single precision.
fn is_near(x: f64, wanted: f64) -> bool {
    let single = |x| ops::narrow(x, DType::Float32);
    single(x).partial_cmp(&single(wanted)).is_some_and(Ordering::is_eq)
}

fn number(expr: &Expr) -> f64 {
    match expr {
        Expr::Int(n) => i32::try_from(*n).map_or(f64::NAN, f64::from),
        Expr::Float(x) => *x,
        _ => f64::NAN,
    }
}

fn literal(expr: &Expr) -> Option<Attribute> {
    Some(match expr {
        Expr::Int(n) => Attribute::Int(*n),
        Expr::Float(x) => Attribute::Float(*x),
        Expr::Text(text) => Attribute::String((*text).to_owned()),
        Expr::List(list) => {
            let int = |expr: &Expr| if let Expr::Int(n) = expr { Some(*n) } else { None };
            Attribute::Ints(list.iter().map(int).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Expr, ROWS, Row, TEXT, operator};
    use crate::aten::formula;
    use crate::aten::formula::parse;
    use crate::ops;

    #[test]
    fn rows_are_read_and_what_they_name_exists() {
        assert_eq!(ROWS.len(), parse::entries(TEXT).len(), "a line that is no row");
        for row in ROWS.iter() {
            let name = row.name;
            if name.starts_with('~') {
                continue;
            }
            let own = formula::lookup(name);
            let torch = || ops::lookup("", name).or_else(|| ops::lookup("torch", name));
            assert!(own.is_some() || torch().is_some(), "{name} is no operator");
            for (argument, _) in &row.arguments {
                let is_known = own.is_none_or(|own| own.parameters().contains(argument));
                assert!(is_known, "{name} has no {argument}");
            }
            let mut bound = Vec::new();
            assert!(!row.results.is_empty(), "{name} is recognised by nothing");
            row.results.iter().for_each(|result| names(row, result, &mut bound));
            let arguments = row.arguments.iter().filter_map(|(_, argument)| match argument {
                Expr::Name(name) => Some(name),
                _ => None,
            });
            for argument in arguments {
                assert!(bound.contains(argument), "{name} does not tell {argument}");
            }
        }
    }

    /// What a value can be required to be, apart from the result of an operator.
    const FORMS: [&str; 19] = [
        "number", "ints", "rank", "tensor", "made", "past", "sized", "steps", "all", "unless",
        "loss", "reduced", "called", "by", "sum", "terms", "block", "cast", "nth",
    ];

    fn names(row: &'static Row, expr: &'static Expr, found: &mut Vec<&'static str>) {
        match expr {
            Expr::Name(name) => match row.parts.iter().find(|(part, _)| part == name) {
                Some((_, part)) => names(row, part, found),
                None => found.push(name),
            },
            Expr::Named(_, expr) => names(row, expr, found),
            Expr::Call { name, arguments, .. } => {
                let name = operator(name);
                let is_known = FORMS.contains(&name)
                    || formula::lookup(name).is_some()
                    || ops::lookup("", name).or_else(|| ops::lookup("torch", name)).is_some();
                assert!(is_known, "{} is recognised by {name}", row.name);
                for argument in arguments {
                    names(row, argument, found);
                }
            }
            _ => {}
        }
    }
}
