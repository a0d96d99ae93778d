//! Operators of ATen under their own names, whose rules are the formulas of [`crate::aten::formula`].
//!
//! A node names its tensors in the attribute `tensors`, one input each, with `#` before a list of integers;
//! everything else is an attribute. The shapes are those of the tensors that the formula makes.

use std::sync::OnceLock;

use super::{Call, Inference, MANY, OpError, Operand, Operator, shape_math};
use crate::aten::formula::{self, Row, Value};
use crate::bytes::Bytes;
use crate::config::{Cudnn, PyTorch};
use crate::eager::{Hardware, Runtime, Tensor};
use crate::graph::{Attribute, Node};
use crate::tensor::{DType, TensorType};

/// For shapes any device does.
const ANY: Hardware = Hardware {
    capability: (8, 0),
    multiprocessors: 1,
    threads_per_multiprocessor: 1024,
    cublas_workspace: Bytes::ZERO,
    cudnn: Cudnn::V9,
};

/// The operator of each formula, by name; none where the formulas cannot be had.
pub(super) fn rows() -> &'static [Operator] {
    static OPERATORS: OnceLock<Vec<Operator>> = OnceLock::new();
    let row = |row: &'static Row| Operator {
        name: row.name,
        domain: "aten",
        inputs: 0..=MANY,
        infer: shapes,
        run: Some(run),
        is_proven: row.is_proven,
        numbers_from: MANY,
    };
    // Nothing is kept of an attempt that found none.
    match OPERATORS.get() {
        Some(rows) => rows,
        None if formula::rows().next().is_none() => &[],
        None => OPERATORS.get_or_init(|| formula::rows().map(row).collect()),
    }
}

/// The operator with this name; overloads share a row but where they have their own.
pub(super) fn lookup(name: &str) -> Option<&'static Operator> {
    let row = formula::lookup(name)?;
    let rows = rows();
    let found = rows.binary_search_by(|operator| operator.name.cmp(row.name));
    found.ok().and_then(|position| rows.get(position))
}

fn shapes(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let rt = Runtime::new(ANY, PyTorch::LATEST);
    let node = inference.node;
    let row = formula::lookup(&node.op).ok_or_else(|| OpError::new(say!("it has no formula")))?;
    let placed = |position: usize| {
        let ty: &TensorType = inference.optional(position)?;
        Some(rt.empty(ty.dtype, &ty.dims))
    };
    let arguments = arguments(row, node, placed, |position| inference.ints(position))?;
    let made = rt.without_memory(|| row.run(&rt, arguments, false)).map_err(OpError::new)?;
    for (position, tensor) in results(made) {
        inference.set_dims(position, tensor.dtype(), tensor.sizes());
    }
    Ok(())
}

fn run(call: &mut Call<'_>) -> Result<(), OpError> {
    let in_place = call.overwrites();
    let (plain, overload) = call.node.op.split_once('.').unwrap_or((&call.node.op, ""));
    let own = formula::lookup(&format!("{plain}_")).filter(|_| in_place);
    let row = own.or_else(|| formula::lookup(&format!("{plain}.{overload}")));
    let row = row.ok_or_else(|| OpError::new(say!("it has no formula")))?;
    let placed = |position: usize| call.need(position).ok();
    let arguments = arguments(row, call.node, placed, |position| call.ints(position))?;
    let made = row.run(call.rt, arguments, in_place && own.is_none());
    let made = made.map_err(OpError::new)?;
    for (position, tensor) in results(made) {
        call.set(position, tensor);
    }
    Ok(())
}

/// Runs the row of an operator of ATen for one of ONNX's.
pub(super) fn run_as(
    call: &mut Call<'_>,
    name: &str,
    arguments: Vec<Value>,
) -> Result<(), OpError> {
    for (position, tensor) in results(made_by(call, name, arguments)?) {
        call.set(position, tensor);
    }
    Ok(())
}

/// The tensors that such a row makes.
pub(super) fn run_row(
    call: &Call<'_>,
    name: &str,
    arguments: Vec<Value>,
) -> Result<Vec<Tensor>, OpError> {
    Ok(results(made_by(call, name, arguments)?).map(|(_, tensor)| tensor).collect())
}

fn made_by(call: &Call<'_>, name: &str, arguments: Vec<Value>) -> Result<Value, OpError> {
    let row = formula::lookup(name).ok_or_else(|| OpError::new(say!("it has no formula")))?;
    if !row.is_proven {
        call.is_unproven();
    }
    row.run(call.rt, arguments, false).map_err(OpError::new)
}

/// A tensor that may be missing.
pub(super) fn value_of(tensor: Option<Tensor>) -> Value {
    tensor.map_or(Value::Nothing, Value::Tensor)
}

/// Runs the row that spells an operator out under its own name: its parameters are the operator's inputs, then
/// attributes; `made` has the sizes of the first output.
pub(super) fn spelled(call: &mut Call<'_>) -> Result<(), OpError> {
    let name = call.node.op.as_str();
    let row = formula::lookup(name).ok_or_else(|| OpError::new(say!("it has no formula")))?;
    let operator = super::lookup(&call.node.domain, name);
    let (inputs, numbers) =
        operator.map_or((0, MANY), |operator| (*operator.inputs.end(), operator.numbers_from));
    let parameters = row.parameters().iter().enumerate();
    let arguments = parameters.map(|(at, name)| match *name {
        _ if at < inputs => given(call, at, at >= numbers),
        "made" => {
            let dims = call.output_type(0)?.dims.iter();
            Ok(ints(&dims.map(|&n| shape_math::signed(n)).collect::<Vec<_>>()))
        }
        name => attribute(name, call.node.attributes.get(name)),
    });
    let arguments = arguments.collect::<Result<_, _>>()?;
    run_as(call, name, arguments)
}

/// An operand: sizes, axes and single numbers are Python's.
fn given(call: &Call<'_>, position: usize, is_number: bool) -> Result<Value, OpError> {
    let ty = match call.operand(position) {
        Operand::Absent => return Ok(Value::Nothing),
        Operand::Tensor(tensor) if !is_number => return Ok(Value::Tensor(tensor.clone())),
        Operand::Tensor(_) | Operand::Host => call.input_type(position)?,
    };
    let is_whole = matches!(ty.dtype, DType::Int32 | DType::Int64);
    Ok(match (ty.rank(), call.ints(position)) {
        (0, Some(&[n])) if is_whole => Value::Int(n),
        (1, Some(list)) if is_number => ints(list),
        _ => operand(call, position),
    })
}

/// An operand as a row takes it: numbers are Python's.
pub(super) fn operand(call: &Call<'_>, position: usize) -> Value {
    let is_number = call.input_type(position).is_ok_and(|ty| ty.numel() == 1);
    match (call.tensor(position), call.number(position)) {
        (Some(tensor), _) => Value::Tensor(tensor),
        (None, Some(x)) if is_number => Value::Float(x),
        _ => call.need(position).map_or(Value::Nothing, Value::Tensor),
    }
}

/// Integers as a row takes them.
pub(super) fn ints(list: &[i64]) -> Value {
    Value::List(list.iter().map(|&n| Value::Int(n)).collect())
}

/// The tensors that a row made, each with its position.
fn results(made: Value) -> impl Iterator<Item = (usize, Tensor)> {
    let results = match made {
        Value::List(list) => list,
        one => vec![one],
    };
    let tensor = |(position, value)| match value {
        Value::Tensor(tensor) => Some((position, tensor)),
        _ => None,
    };
    results.into_iter().enumerate().filter_map(tensor)
}

/// What a node passes for each parameter of a row.
fn arguments<'a>(
    row: &Row,
    node: &Node,
    mut placed: impl FnMut(usize) -> Option<Tensor>,
    ints: impl Fn(usize) -> Option<&'a [i64]>,
) -> Result<Vec<Value>, OpError> {
    let names: Vec<&str> = node.string("tensors").unwrap_or("").split(',').collect();
    let mut values = Vec::new();
    for parameter in row.parameters() {
        let mut tensors = Vec::new();
        let mut sizes = None;
        let mut is_list = false;
        for (position, name) in names.iter().enumerate() {
            let (name, lists) = name.strip_suffix('*').map_or((*name, false), |name| (name, true));
            if name == *parameter {
                is_list |= lists;
                tensors.push(placed(position).map_or(Value::Nothing, Value::Tensor));
            } else if name.strip_prefix('#') == Some(*parameter) {
                let known = ints(position);
                let known = known
                    .ok_or_else(|| OpError::new(say!("`{parameter}` is unknown", parameter)))?;
                sizes = Some(Value::List(known.iter().map(|&n| Value::Int(n)).collect()));
            }
        }
        let only = tensors.pop();
        values.push(match (only, sizes) {
            (_, Some(sizes)) => sizes,
            (Some(only), None) if !is_list => only,
            (Some(last), None) => {
                tensors.push(last);
                Value::List(tensors)
            }
            // That attribute names tensors.
            (None, None) if *parameter == "tensors" => Value::Nothing,
            (None, None) => attribute(parameter, node.attributes.get(*parameter))?,
        });
    }
    Ok(values)
}

fn attribute(name: &str, attribute: Option<&Attribute>) -> Result<Value, OpError> {
    Ok(match attribute {
        None => Value::Nothing,
        Some(Attribute::Int(code)) if name == "dtype" => Value::Type(shape_math::dtype(*code)?),
        Some(Attribute::Int(n)) => Value::Int(*n),
        Some(Attribute::Float(x)) => Value::Float(*x),
        Some(Attribute::String(text)) => Value::Text(text.clone()),
        Some(Attribute::Ints(list)) => Value::List(list.iter().map(|&n| Value::Int(n)).collect()),
        Some(Attribute::Floats(list)) => {
            Value::List(list.iter().map(|&x| Value::Float(x)).collect())
        }
        Some(
            Attribute::Strings(_)
            | Attribute::Tensor(_)
            | Attribute::Body(_)
            | Attribute::Unsupported,
        ) => {
            return Err(OpError::new(say!("`{name}` is of a form that is unknown", name)));
        }
    })
}
