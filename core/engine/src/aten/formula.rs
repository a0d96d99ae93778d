//! Operators as formulas: what each makes, and the gradient of each of its inputs, a few lines of text
//! per operator (`formula/operators.txt`), in the terms of `tools/autograd/derivatives.yaml`.
//!
//! ```text
//! atan2(self, other) = each(self, other)
//!   self, other: d = self * self + other * other; r = d.reciprocal(); [grad * (r * other), …]
//! ```
//!
//! The behaviour of PyTorch's generated code follows from a row, and is written once (`gen_variable_type.py`,
//! `gen_autograd_functions.py`, PyTorch 2.15):
//! - Gradients are computed in alphabetical order, as far as they are needed.
//! - Saved are the tensors that a gradient's formula names, in alphabetical order, results last; one that
//!   a single formula names is saved only where that gradient is needed. `#x`, the sizes of a tensor,
//!   saves nothing.
//! - Each call of a formula makes its tensor. Temporaries are freed at the end of their statement, variables at
//!   the end of the formula, both in reverse order; arguments are evaluated from the last to the first, and the
//!   object of a method first, as GCC does.
//! - A row without gradients is a composition of calls, each of which autograd records.

mod kernels;
mod launches;
pub(crate) mod parse;

use crate::order::{InOrder as _, IntoOrdered as _};
use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::apart;
use crate::basis::Reason;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::sentence::Sentence;
use crate::tensor::DType;
use parse::{Body, Expr};

apart::text!(text, "formulas");

type Rows = BTreeMap<&'static str, Row>;

/// All rows, read when the first is asked for.
fn all() -> Option<&'static Rows> {
    static ROWS: OnceLock<Rows> = OnceLock::new();
    if let Some(rows) = ROWS.get() {
        return Some(rows);
    }
    let rows = parse::rows(text()?).into_iter();
    Some(ROWS.get_or_init(|| rows.map(|row| (row.name, row)).into_map()))
}

/// An operator.
#[derive(Debug)]
pub struct Row {
    /// Its name in ATen, with an overload where only that is meant.
    pub name: &'static str,
    /// Whether PyTorch's catalogue confirms it for all arguments that it takes: not with `~` behind its name.
    pub is_proven: bool,
    /// Its name in traces.
    label: String,
    parameters: Vec<&'static str>,
    body: Body,
    gradients: Vec<Gradient>,
}

/// A formula for the gradients of one or several parameters.
#[derive(Debug)]
struct Gradient {
    of: Vec<&'static str>,
    body: Body,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// An integer or a flag.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// An element type.
    Type(DType),
    /// Several.
    List(Vec<Value>),
    /// `None`.
    Nothing,
}

/// Why a formula has no value: an argument of a form that is not known.
pub type Refused = Sentence;

type Answer = Result<Value, Refused>;

/// All rows, by name; none where they cannot be had.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    all().into_iter().flat_map(Rows::values)
}

/// The row of this overload, or of all overloads.
pub fn lookup(name: &str) -> Option<&'static Row> {
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    let rows = all()?;
    rows.get(name).or_else(|| rows.get(plain))
}

impl Row {
    /// What the operator calls its arguments.
    pub fn parameters(&self) -> &[&'static str] {
        &self.parameters
    }

    /// Runs the operator; in place it overwrites its first argument.
    ///
    /// # Errors
    /// When its arguments are of a form that the row does not know.
    pub fn run(&'static self, rt: &Runtime, arguments: Vec<Value>, in_place: bool) -> Answer {
        let _level = rt.deeper().ok_or_else(|| say!("formulas call each other too deeply"))?;
        let mut arguments = arguments;
        arguments.resize(self.parameters.len(), Value::Nothing);
        if !rt.is_training() {
            let named = self.parameters.iter().zip(&mut arguments);
            let trains = named.filter(|(name, _)| ["train", "training"].contains(name));
            trains.for_each(|(_, argument)| *argument = Value::Int(0));
        }
        // Variants in place are on no list.
        if !in_place && self.autocast(rt, &mut arguments) {
            // Below an operator that is on one, autocast is off.
            return rt.autocast_off(|| self.run_as_is(rt, &arguments, in_place));
        }
        self.run_as_is(rt, &arguments, in_place)
    }

    fn run_as_is(&'static self, rt: &Runtime, arguments: &[Value], in_place: bool) -> Answer {
        rt.enter_operator(&self.label);
        if self.gradients.is_empty() {
            let mut scope = Scope::new(rt, self.bind(arguments));
            scope.overwritten = arguments.first().and_then(tensor).filter(|_| in_place);
            return scope.run(&self.body, &[]);
        }
        self.record(rt, arguments, in_place)
    }

    fn bind(&self, arguments: &[Value]) -> Vec<(&'static str, Value)> {
        self.parameters.iter().copied().zip(arguments.iter().cloned()).collect()
    }

    /// Casts of the lists in `autocast_mode.h`, the last argument first; whether the operator is on one.
    fn autocast(&self, rt: &Runtime, arguments: &mut [Value]) -> bool {
        let floats = arguments.iter().flat_map(tensors).map(|tensor| tensor.dtype());
        let Some(dtype) = rt.autocast_wants(&self.label, floats) else { return false };
        let cast = |value: &mut Value| {
            if let Value::Tensor(tensor) = value {
                *tensor = rt.cached_cast(tensor, dtype);
            }
        };
        for argument in arguments.iter_mut().rev() {
            match argument {
                Value::List(list) => list.iter_mut().rev().for_each(cast),
                one => cast(one),
            }
        }
        true
    }

    /// Runs the kernel without a history and gives its results one.
    fn record(&'static self, rt: &Runtime, arguments: &[Value], in_place: bool) -> Answer {
        let given = Given::new(self, self.bind(arguments));
        let inputs: Vec<Tensor> = given.differentiable().flat_map(tensors).collect();
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let is_recorded = rt.requires_grad(&inputs);
        let overwritten = arguments.first().and_then(tensor).filter(|_| in_place);
        let own = self.parameters.first().copied().unwrap_or("");
        let clone = overwritten.as_ref().filter(|_| is_recorded && given.keeps(own));
        let clone = clone.map(|x| rt.empty_like(x));
        let made = rt.no_grad(|| {
            let mut scope = Scope::new(rt, given.named.clone());
            scope.overwritten = overwritten;
            scope.run(&self.body, &[])
        })?;
        if !is_recorded {
            return Ok(made);
        }
        let results = tensors(&made);
        let (names, saved): (Vec<_>, Vec<_>) =
            given.saved(clone.as_ref(), &results).into_iter().unzip();
        let saved: Vec<&Tensor> = saved.iter().collect();
        let (facts, mut sizes, counts) = given.facts();
        let made_sizes = results.iter().map(|result| sizes_of(&Value::Tensor(result.clone())));
        sizes.extend(RESULTS.iter().copied().zip(made_sizes.clone()));
        sizes.push(("results", Value::List(made_sizes.collect())));
        let formula = move |pass: &Pass<'_>| {
            let mut known = facts.clone();
            for (name, tensor) in names.iter().zip(pass.saved) {
                bind_another(&mut known, name, tensor);
            }
            for (name, grad) in GRADS.iter().zip(pass.grads) {
                known.push((name, grad.clone().map_or(Value::Nothing, Value::Tensor)));
            }
            let grads = pass.grads.iter().cloned();
            let grads = grads.map(|grad| grad.map_or(Value::Nothing, Value::Tensor));
            known.push(("grads", Value::List(grads.collect())));
            self.backward(pass, &known, &sizes, &counts)
        };
        let mut floats = results.into_iter().filter(|result| result.dtype().is_floating());
        if !matches!(made, Value::List(_)) {
            let Some(only) = floats.next() else { return Ok(made) };
            drop(made);
            return Ok(rt.differentiable(&self.label, only, &inputs, &saved, formula).into());
        }
        let recorded =
            rt.differentiable_many(&self.label, floats.collect(), &inputs, &saved, formula);
        let mut recorded = recorded.into_iter();
        let replaced = |value| match value {
            Value::Tensor(t) if t.dtype().is_floating() => {
                recorded.next().map_or(Value::Nothing, Value::Tensor)
            }
            other => other,
        };
        let Value::List(list) = made else { return Ok(Value::Nothing) };
        Ok(Value::List(list.into_iter().map(replaced).collect()))
    }

    /// The gradients that are needed, in the order of the parameters.
    fn backward(
        &self,
        pass: &Pass<'_>,
        names: &[(&'static str, Value)],
        sizes: &[(&'static str, Value)],
        counts: &[(&'static str, usize)],
    ) -> Gradients {
        let offset = |name: &str| {
            let before = counts.iter().take_while(|(n, _)| *n != name);
            before.map(|(_, count)| count).sum::<usize>()
        };
        let count = |name: &str| counts.iter().find(|(n, _)| *n == name).map_or(0, |(_, c)| *c);
        let needs = |name: &str| {
            let start = offset(name);
            (start..start.saturating_add(count(name))).any(|at| pass.needs(at))
        };
        let mut found: Gradients = vec![None; counts.iter().map(|(_, count)| count).sum()];
        for gradient in &self.gradients {
            let wanted: Vec<bool> = gradient.of.iter().map(|name| needs(name)).collect();
            if !wanted.contains(&true) {
                continue;
            }
            let mut scope = Scope::new(pass.rt, names.to_vec());
            scope.sizes = sizes;
            scope.needed = names_needed(&gradient.of, &wanted);
            let several = gradient.of.len() > 1;
            let values = match scope.run(&gradient.body, if several { &wanted } else { &[] }) {
                Ok(Value::List(list)) if several => list,
                Ok(one) => vec![one],
                Err(_) => {
                    pass.rt.assuming(&Reason::Unmodelled, || self.unknown(pass, gradient, sizes))
                }
            };
            for (name, value) in gradient.of.iter().zip(values) {
                let slots = found.iter_mut().skip(offset(name)).take(count(name));
                let gradients = match value {
                    Value::List(list) => list,
                    one => vec![one],
                };
                for (slot, value) in slots.zip(gradients) {
                    *slot = tensor(&value);
                }
            }
        }
        found
    }

    /// Gradients of which the formula says nothing for these arguments: as large as what they are of, and
    /// a diagnostic says so.
    fn unknown(
        &self,
        pass: &Pass<'_>,
        gradient: &Gradient,
        sizes: &[(&'static str, Value)],
    ) -> Vec<Value> {
        pass.rt.lacks_gradient(self.name);
        let dtype = pass.grads.iter().flatten().next().map_or(DType::Float32, Tensor::dtype);
        let fresh = |sizes: &Value| {
            let Value::List(dims) = sizes else { return Value::Nothing };
            let dim = |n: &Value| match n {
                Value::Int(n) => u64::try_from(*n).ok(),
                _ => None,
            };
            let dims: Option<Vec<u64>> = dims.iter().map(dim).collect();
            dims.map_or(Value::Nothing, |dims| pass.rt.empty(dtype, &dims).into())
        };
        let like = |name: &&'static str| match sizes.iter().find(|(n, _)| n == name) {
            Some((_, Value::List(list))) if list.iter().any(|x| matches!(x, Value::List(_))) => {
                Value::List(list.iter().map(fresh).collect())
            }
            Some((_, one)) => fresh(one),
            None => Value::Nothing,
        };
        gradient.of.iter().map(like).collect()
    }
}

/// Arguments of a call that autograd may record.
struct Given {
    row: &'static Row,
    named: Bound,
    /// Names of the tensors among them that have a gradient's formula.
    names: Vec<&'static str>,
}

/// Values by their names.
type Bound = Vec<(&'static str, Value)>;

impl Given {
    fn new(row: &'static Row, named: Bound) -> Self {
        let has_formula =
            |name: &str| row.gradients.iter().any(|gradient| gradient.of.contains(&name));
        let names =
            named.iter().filter(|(name, value)| has_formula(name) && !tensors(value).is_empty());
        let names = names.map(|(name, _)| *name).collect();
        Self { row, named, names }
    }

    fn differentiable(&self) -> impl Iterator<Item = &Value> {
        self.named.iter().filter(|(name, _)| self.names.contains(name)).map(|(_, value)| value)
    }

    /// Whether an argument is saved (`guard_for`, `gen_variable_type.py`).
    fn keeps(&self, name: &str) -> bool {
        let mut readers = self.row.gradients.iter().filter(|gradient| {
            gradient.of.iter().any(|of| self.names.contains(of)) && gradient.body.reads(name)
        });
        match (readers.next(), readers.next()) {
            (None, _) => false,
            (Some(only), None)
                if only.of.len() == 1
                    && self.names.len() > 1
                    && !self.row.name.contains("backward") =>
            {
                let of = self.named.iter().filter(|(name, _)| only.of.contains(name));
                of.flat_map(|(_, value)| tensors(value)).any(|tensor| tensor.requires_grad())
            }
            _ => true,
        }
    }

    /// What is saved; in place a clone of what is overwritten.
    fn saved(&self, clone: Option<&Tensor>, results: &[Tensor]) -> Vec<(&'static str, Tensor)> {
        let mut saved: Vec<(&'static str, Tensor)> = Vec::new();
        for (at, (name, value)) in self.named.iter().enumerate() {
            if self.keeps(name) {
                let own = clone.filter(|_| at == 0).cloned();
                let kept = own.map_or_else(|| tensors(value), |clone| vec![clone]);
                saved.extend(kept.into_iter().map(|tensor| (*name, tensor)));
            }
        }
        saved.order_by_key(|(name, _)| *name);
        for (name, result) in RESULTS.iter().zip(results) {
            let reads = |gradient: &Gradient| {
                gradient.body.reads(name) && gradient.of.iter().any(|of| self.names.contains(of))
            };
            if self.row.gradients.iter().any(reads) {
                saved.push((name, result.clone()));
            }
        }
        saved
    }

    /// What a formula may ask of the arguments besides their elements: those that are no tensors, the
    /// sizes of tensors, and how many gradients each has.
    fn facts(&self) -> (Bound, Bound, Vec<(&'static str, usize)>) {
        let (facts, rest): (Bound, Bound) =
            self.named.iter().cloned().partition(|(_, value)| tensors(value).is_empty());
        let sizes = rest.iter().map(|(name, value)| (*name, sizes_of(value))).collect();
        let rest = rest.iter().filter(|(name, _)| self.names.contains(name));
        let counts = rest.map(|(name, value)| (*name, tensors(value).len())).collect();
        (facts, sizes, counts)
    }
}

/// Names of results and of their gradients.
const RESULTS: [&str; 4] = ["result", "result1", "result2", "result3"];
const GRADS: [&str; 4] = ["grad", "grad1", "grad2", "grad3"];

fn names_needed(of: &[&'static str], wanted: &[bool]) -> Vec<&'static str> {
    of.iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(name, _)| *name).collect()
}

fn bind_another(names: &mut Vec<(&'static str, Value)>, name: &'static str, tensor: &Tensor) {
    let value = Value::Tensor(tensor.clone());
    match names.iter_mut().find(|(n, _)| *n == name) {
        Some((_, Value::List(list))) => list.push(value),
        Some((_, slot)) => *slot = Value::List(vec![slot.clone(), value]),
        None => names.push((name, value)),
    }
}

/// The tensor that a value is.
fn tensor(value: &Value) -> Option<Tensor> {
    match value {
        Value::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    }
}

/// All tensors of a value.
fn tensors(value: &Value) -> Vec<Tensor> {
    match value {
        Value::Tensor(tensor) => vec![tensor.clone()],
        Value::List(list) => list.iter().filter_map(tensor).collect(),
        _ => Vec::new(),
    }
}

fn sizes_of(value: &Value) -> Value {
    let of = |tensor: &Tensor| {
        let int = |&n: &u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        Value::List(tensor.sizes().iter().map(int).collect())
    };
    match value {
        Value::Tensor(tensor) => of(tensor),
        Value::List(list) => Value::List(list.iter().filter_map(tensor).map(|t| of(&t)).collect()),
        _ => Value::Nothing,
    }
}

/// A formula under way.
struct Scope<'a> {
    rt: &'a Runtime,
    names: Vec<(&'static str, Value)>,
    sizes: &'a [(&'static str, Value)],
    /// Parameters whose gradients are needed.
    needed: Vec<&'static str>,
    /// Temporaries of the statement.
    held: Vec<Value>,
    /// What the first kernel overwrites.
    overwritten: Option<Tensor>,
}

impl<'a> Scope<'a> {
    const fn new(rt: &'a Runtime, names: Vec<(&'static str, Value)>) -> Self {
        Self { rt, names, sizes: &[], needed: Vec::new(), held: Vec::new(), overwritten: None }
    }

    /// All statements; of a list at the end, what is wanted.
    fn run(mut self, body: &Body, wanted: &[bool]) -> Answer {
        let given = self.names.len();
        let mut answer = Value::Nothing;
        for (at, (name, expr)) in body.0.iter().enumerate() {
            let value = match expr {
                Expr::List(list) if !wanted.is_empty() => {
                    let mut values = Vec::new();
                    for (expr, wanted) in list.iter().zip(wanted) {
                        values.push(if *wanted { self.eval(expr)? } else { Value::Nothing });
                    }
                    Value::List(values)
                }
                _ => self.eval(expr)?,
            };
            match name {
                Some(name) => match self.names.iter_mut().rev().find(|(n, _)| n == name) {
                    Some((_, slot)) => *slot = value,
                    None => self.names.push((name, value)),
                },
                None if at.saturating_add(1) == body.0.len() => answer = value,
                None => drop(value),
            }
            while self.held.pop().is_some() {}
        }
        while self.names.len() > given {
            self.names.pop();
        }
        Ok(answer)
    }

    fn eval(&mut self, expr: &Expr) -> Answer {
        match expr {
            Expr::Int(n) => Ok(Value::Int(*n)),
            Expr::Float(x) => Ok(Value::Float(*x)),
            Expr::Text(text) => Ok(Value::Text((*text).to_owned())),
            Expr::List(list) => {
                list.iter().map(|expr| self.eval(expr)).collect::<Result<_, _>>().map(Value::List)
            }
            Expr::Named(_, expr) => self.eval(expr),
            Expr::Name(name) => match self.names.iter().rev().find(|(n, _)| n == name) {
                Some((_, value)) => Ok(value.clone()),
                None => Ok(Value::Nothing),
            },
            Expr::Sizes(name) => {
                if let Some((_, sizes)) = self.sizes.iter().find(|(n, _)| n == name) {
                    return Ok(sizes.clone());
                }
                Ok(sizes_of(&self.eval(&Expr::Name(name))?))
            }
            Expr::Needs(name) => Ok(Value::Int(i64::from(self.needed.contains(name)))),
            Expr::Choice(parts) => {
                let [condition, yes, no] = parts.as_ref();
                let holds = kernels::truth(&self.eval(condition)?)?;
                self.eval(if holds { yes } else { no })
            }
            Expr::Call { name, arguments, is_method } => {
                let mut values = vec![Value::Nothing; arguments.len()];
                let leading = usize::from(*is_method);
                let last_first = (leading..arguments.len()).rev();
                for at in (0..leading.min(arguments.len())).chain(last_first) {
                    if let (Some(expr), Some(slot)) = (arguments.get(at), values.get_mut(at)) {
                        *slot = self.eval(expr)?;
                    }
                }
                let overwritten = self.overwritten.take();
                let (value, overwritten) = kernels::call(self.rt, name, values, overwritten)?;
                self.overwritten = overwritten;
                self.held.push(value.clone());
                Ok(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Expr, Row, kernels, rows, text};

    fn each_call(expr: &Expr, found: &mut impl FnMut(&'static str)) {
        match expr {
            Expr::Call { name, arguments, .. } => {
                found(name);
                for expr in arguments {
                    each_call(expr, found);
                }
            }
            Expr::List(list) => {
                for expr in list {
                    each_call(expr, found);
                }
            }
            Expr::Choice(parts) => {
                for expr in parts.iter() {
                    each_call(expr, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> =
            super::parse::rows(text().unwrap()).iter().map(|row| row.name).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "two rows have one name");
    }

    #[test]
    fn every_call_of_a_row_is_known() {
        for Row { name, body, gradients, parameters, .. } in rows() {
            let mut known = |call: &'static str| {
                assert!(kernels::is_known(call), "{name} calls {call}");
            };
            for (_, expr) in body.0.iter().chain(gradients.iter().flat_map(|g| &g.body.0)) {
                each_call(expr, &mut known);
            }
            for of in gradients.iter().flat_map(|gradient| &gradient.of) {
                assert!(parameters.contains(of), "{name} has no {of}");
            }
        }
    }
}
