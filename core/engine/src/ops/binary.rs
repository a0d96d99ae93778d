//! Elementwise functions of several tensors, with numpy's broadcasting.
//!
//! <https://onnx.ai/onnx/operators/onnx__Add.html>, `onnx__Where.html`, `onnx__Clip.html`,
//! <https://onnx.ai/onnx/repo-docs/Broadcasting.html>. Before operator set 7, arithmetic kept the
//! shape of its first input and stated an axis for the second. `PRelu` and `Clip` keep the shape
//! of the first input. Comparisons and logic give booleans.

use std::cmp::Ordering;

use super::Call;
use super::fold::{self, float, narrow};
use super::formula::{operand, run_as};
use super::run::fresh;
use super::run::without_gradient;
use super::shape_math::{broadcast, like_first};
use super::{Inference, MANY, OpError, Operator, op, torch};
use crate::aten::formula::Value;
use crate::aten::{elementwise, view};
use crate::eager::{Tensor, kernels};
use crate::graph::Elements;
use crate::tensor::{DType, Dims, TensorType};

pub(super) const TABLE: &[Operator] = &[
    torch("MaskedFill", 2..=2).runs(masked_fill_rule),
    op("Add", 2..=2, |i| arithmetic(i, i64::checked_add, |a, b| Some(float::add(a, b)))).runs(add),
    op("And", 2..=2, |i| comparison(i, |a, b| a != 0 && b != 0, |_, _| false))
        .runs(|c| without_gradient(c, "aten::logical_and")),
    op("BitShift", 2..=2, |i| arithmetic(i, |_, _| None, |_, _| None))
        .runs(|c| without_gradient(c, "aten::bitwise_left_shift")),
    op("BitwiseAnd", 2..=2, |i| arithmetic(i, |a, b| Some(a & b), |_, _| None))
        .runs(|c| without_gradient(c, "aten::bitwise_and")),
    op("BitwiseOr", 2..=2, |i| arithmetic(i, |a, b| Some(a | b), |_, _| None))
        .runs(|c| without_gradient(c, "aten::bitwise_or")),
    op("BitwiseXor", 2..=2, |i| arithmetic(i, |a, b| Some(a ^ b), |_, _| None))
        .runs(|c| without_gradient(c, "aten::bitwise_xor")),
    op("Clip", 1..=3, clip).runs(clip_rule),
    op("Div", 2..=2, |i| arithmetic(i, i64::checked_div, |a, b| Some(float::div(a, b))))
        .runs(divide),
    op("Equal", 2..=2, |i| {
        comparison(i, |a, b| a == b, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_eq))
    })
    .runs(|c| without_gradient(c, "aten::eq")),
    op("Greater", 2..=2, |i| comparison(i, |a, b| a > b, |a, b| a > b))
        .runs(|c| without_gradient(c, "aten::gt")),
    op("GreaterOrEqual", 2..=2, |i| comparison(i, |a, b| a >= b, |a, b| a >= b))
        .runs(|c| without_gradient(c, "aten::ge")),
    op("Less", 2..=2, |i| comparison(i, |a, b| a < b, |a, b| a < b))
        .runs(|c| without_gradient(c, "aten::lt")),
    op("LessOrEqual", 2..=2, |i| comparison(i, |a, b| a <= b, |a, b| a <= b))
        .runs(|c| without_gradient(c, "aten::le")),
    op("Max", 1..=MANY, |i| variadic(i, |a, b| Some(a.max(b)), |a, b| Some(a.max(b))))
        .runs(|c| extremum(c, "maximum")),
    op("Mean", 1..=MANY, |i| variadic(i, |_, _| None, |_, _| None)).runs(mean_rule),
    op("Min", 1..=MANY, |i| variadic(i, |a, b| Some(a.min(b)), |a, b| Some(a.min(b))))
        .runs(|c| extremum(c, "minimum")),
    op("Mod", 2..=2, modulo).runs(modulo_rule),
    op("Mul", 2..=2, |i| arithmetic(i, i64::checked_mul, |a, b| Some(float::mul(a, b))))
        .runs(multiply),
    op("Or", 2..=2, |i| comparison(i, |a, b| a != 0 || b != 0, |_, _| false))
        .runs(|c| without_gradient(c, "aten::logical_or")),
    op("PRelu", 2..=2, like_first).runs(prelu),
    op("Pow", 2..=2, |i| arithmetic(i, power, power_float)).runs(power_rule),
    op("Sub", 2..=2, |i| arithmetic(i, i64::checked_sub, |a, b| Some(float::sub(a, b))))
        .runs(subtract),
    op("Sum", 1..=MANY, |i| variadic(i, i64::checked_add, |a, b| Some(float::add(a, b))))
        .runs(sum_rule),
    op("Where", 3..=3, choose).runs(choose_rule),
    op("Xor", 2..=2, |i| comparison(i, |a, b| (a != 0) != (b != 0), |_, _| false))
        .runs(|c| without_gradient(c, "aten::logical_xor")),
];

type OnInts = fn(i64, i64) -> Option<i64>;
type OnFloats = fn(f64, f64) -> Option<f64>;

fn arithmetic(
    inference: &mut Inference<'_>,
    on_ints: OnInts,
    on_floats: OnFloats,
) -> Result<(), OpError> {
    let dtype = promoted(inference.input(0)?, inference.input(1)?);
    let dims = broadcast_pair(inference)?;
    inference.set_dims(0, dtype, dims);
    let folded = match fold::pair(inference, 0, 1) {
        Some((Elements::Ints(a), Elements::Ints(b))) => {
            fold::zip_with(&a, &b, on_ints).map(Elements::Ints)
        }
        Some((Elements::Floats(a), Elements::Floats(b))) => {
            fold::zip_with(&a, &b, |a, b| on_floats(a, b).map(|x| narrow(x, dtype)))
                .map(Elements::Floats)
        }
        _ => None,
    };
    if let Some(elements) = folded {
        inference.set_elements(0, elements);
    }
    Ok(())
}

/// ONNX wants both of one type; a program may have a float of either width, as PyTorch has.
fn promoted(a: &TensorType, b: &TensorType) -> DType {
    if a.dtype.is_floating() && b.dtype.is_floating() {
        elementwise::promoted((a.dtype, a.rank()), (b.dtype, b.rank()))
    } else {
        a.dtype
    }
}

fn comparison(
    inference: &mut Inference<'_>,
    on_ints: fn(i64, i64) -> bool,
    on_floats: fn(f64, f64) -> bool,
) -> Result<(), OpError> {
    let dims = broadcast_pair(inference)?;
    inference.set_dims(0, DType::Bool, dims);
    let folded = match fold::pair(inference, 0, 1) {
        Some((Elements::Ints(a), Elements::Ints(b))) => {
            fold::zip_with(&a, &b, |a, b| Some(i64::from(on_ints(a, b))))
        }
        Some((Elements::Floats(a), Elements::Floats(b))) => {
            fold::zip_with(&a, &b, |a, b| Some(i64::from(on_floats(a, b))))
        }
        _ => None,
    };
    if let Some(elements) = folded {
        inference.set_elements(0, Elements::Ints(elements));
    }
    Ok(())
}

/// Dimensions of two inputs together; before operator set 7, those of the first.
fn broadcast_pair(inference: &Inference<'_>) -> Result<Dims, OpError> {
    let (a, b) = (inference.input(0)?, inference.input(1)?);
    if inference.opset < 7 && inference.node.int("broadcast").is_some() {
        return Ok(a.dims.clone());
    }
    broadcast(&a.dims, &b.dims)
}

fn variadic(
    inference: &mut Inference<'_>,
    on_ints: OnInts,
    on_floats: OnFloats,
) -> Result<(), OpError> {
    if inference.n_inputs() == 2 {
        return arithmetic(inference, on_ints, on_floats);
    }
    let first = inference.input(0)?;
    let mut dims = first.dims.clone();
    for position in 1..inference.n_inputs() {
        dims = broadcast(&dims, &inference.input(position)?.dims)?;
    }
    inference.set_dims(0, first.dtype, dims);
    if inference.n_inputs() == 1 {
        fold::keep(inference);
    }
    Ok(())
}

/// `fmod` follows the sign of the first number, plain `Mod` that of the second.
fn modulo(inference: &mut Inference<'_>) -> Result<(), OpError> {
    if inference.node.int("fmod").unwrap_or(0) != 0 {
        return arithmetic(inference, i64::checked_rem, |_, _| None);
    }
    let floored = |a: i64, b: i64| {
        let rest = a.checked_rem(b)?;
        if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
    };
    arithmetic(inference, floored, |_, _| None)
}

fn power(base: i64, exponent: i64) -> Option<i64> {
    base.checked_pow(u32::try_from(exponent).ok()?)
}

/// Only the exponents whose result is the same on every platform.
fn power_float(base: f64, exponent: f64) -> Option<f64> {
    let is = |x: f64| exponent.total_cmp(&x).is_eq();
    if is(0.5) {
        Some(base.sqrt())
    } else if is(1.0) {
        Some(base)
    } else if is(2.0) {
        Some(float::mul(base, base))
    } else if is(-1.0) {
        Some(float::div(1.0, base))
    } else {
        None
    }
}

/// `Where(condition, X, Y)`.
fn choose(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (condition, x, y) = (inference.input(0)?, inference.input(1)?, inference.input(2)?);
    let dims = broadcast(&broadcast(&condition.dims, &x.dims)?, &y.dims)?;
    inference.set_dims(0, x.dtype, dims);
    let Some((xs, ys)) = fold::pair(inference, 1, 2) else { return Ok(()) };
    let Some((Elements::Ints(chosen), _)) = fold::pair(inference, 0, 0) else { return Ok(()) };
    let folded = match (xs, ys) {
        (Elements::Ints(xs), Elements::Ints(ys)) => Elements::Ints(select(&chosen, &xs, &ys)),
        (Elements::Floats(xs), Elements::Floats(ys)) => Elements::Floats(select(&chosen, &xs, &ys)),
        _ => return Ok(()),
    };
    inference.set_elements(0, folded);
    Ok(())
}

fn select<T: Copy>(chosen: &[i64], xs: &[T], ys: &[T]) -> Vec<T> {
    let both = xs.iter().zip(ys);
    chosen.iter().zip(both).map(|(&c, (&x, &y))| if c != 0 { x } else { y }).collect()
}

/// `Clip(X, min, max)`; the bounds were attributes before operator set 11.
fn clip(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?.clone();
    inference.set(0, x);
    let clipped = match inference.elements(0) {
        Some(Elements::Ints(list)) => bounds(inference, |e| match e {
            Elements::Ints(list) => list.first().copied(),
            Elements::Floats(_) => None,
        })
        .map(|(low, high)| {
            let (low, high) = (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX));
            Elements::Ints(list.iter().map(|&n| n.max(low).min(high)).collect())
        }),
        Some(Elements::Floats(list)) => bounds(inference, |e| match e {
            Elements::Ints(_) => None,
            Elements::Floats(list) => list.first().copied(),
        })
        .map(|(low, high)| {
            let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
            Elements::Floats(list.iter().map(|&x| x.max(low).min(high)).collect())
        }),
        None => None,
    };
    if let Some(elements) = clipped {
        inference.set_elements(0, elements);
    }
    Ok(())
}

/// The bounds of `Clip`, either of which may be absent; `None` where one is not known.
fn bounds<T>(
    inference: &Inference<'_>,
    number: impl Fn(&Elements) -> Option<T>,
) -> Option<(Option<T>, Option<T>)> {
    let bound = |position| match inference.node.input(position) {
        None => Some(None),
        Some(_) => inference.elements(position).and_then(&number).map(Some),
    };
    Some((bound(1)?, bound(2)?))
}

/// Both operands where they are tensors; numbers are Python's.
fn operands(call: &Call<'_>) -> (Option<Tensor>, Option<Tensor>) {
    let device = |position| match call.tensor(position) {
        Some(tensor) => Some(tensor),
        // A constant with several elements is a tensor after all.
        None => (call.input_type(position).ok()?.numel() > 1)
            .then(|| call.need(position).ok())
            .flatten(),
    };
    (device(0), device(1))
}

fn add(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(a), Some(b)) if call.overwrites() => elementwise::add_in_place(call.rt, &a, &b),
        (Some(a), Some(b)) => elementwise::add(call.rt, &a, &b),
        (Some(x), None) | (None, Some(x)) => elementwise::shift(call.rt, "aten::add", &x),
        (None, None) => return fresh(call),
    };
    call.set(0, y);
    Ok(())
}

fn subtract(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(a), Some(b)) => elementwise::sub(call.rt, &a, &b),
        (Some(x), None) => elementwise::shift(call.rt, "aten::sub", &x),
        (None, Some(x)) => elementwise::negate(call.rt, "aten::rsub", &x),
        (None, None) => return fresh(call),
    };
    call.set(0, y);
    Ok(())
}

fn multiply(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(a), Some(b)) => elementwise::mul(call.rt, &a, &b),
        (Some(x), None) | (None, Some(x)) => elementwise::scale(call.rt, "aten::mul", &x),
        (None, None) => return fresh(call),
    };
    call.set(0, y);
    Ok(())
}

fn divide(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(a), Some(b)) if call.overwrites() => elementwise::div_in_place(call.rt, &a, &b),
        (Some(a), Some(b)) => elementwise::div(call.rt, &a, &b),
        (Some(x), None) if call.overwrites() => {
            elementwise::scale_in_place(call.rt, "aten::div_", &x)
        }
        (Some(x), None) => elementwise::scale(call.rt, "aten::div", &x),
        (None, Some(x)) => reciprocal(call, &x),
        (None, None) => return fresh(call),
    };
    call.set(0, y);
    Ok(())
}

/// `number / x`: the reciprocal, which is saved, times the number.
fn reciprocal(call: &Call<'_>, x: &Tensor) -> Tensor {
    let op = elementwise::Unary::saves_output("aten::reciprocal")
        .node("ReciprocalBackward0")
        .temporaries(2);
    let y = elementwise::unary(call.rt, op, x);
    if call.number(0).is_some_and(|n| n.to_bits() == 1_f64.to_bits()) {
        return y;
    }
    elementwise::scale(call.rt, "aten::mul", &y)
}

fn power_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(x), None) => elementwise::pow_scalar(call.rt, &x),
        (None, None) => return fresh(call),
        _ => return run_as(call, "pow", vec![operand(call, 0), operand(call, 1)]),
    };
    call.set(0, y);
    Ok(())
}

fn modulo_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let is_signed = call.node.int("fmod").is_some_and(|n| n != 0);
    let operands = vec![operand(call, 0), operand(call, 1)];
    run_as(call, if is_signed { "fmod" } else { "remainder" }, operands)
}

/// `where`: a branch that is a number is no tensor.
fn choose_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let condition = call.need(0)?;
    let (a, b) = (call.tensor(1), call.tensor(2));
    let y = if a.is_none() && b.is_none() {
        let ty = call.output_type(0)?;
        elementwise::opaque(call.rt, "aten::where", ty.dtype, &[&condition])
    } else {
        elementwise::select(call.rt, &condition, a.as_ref(), b.as_ref())
    };
    call.set(0, y);
    Ok(())
}

/// `x.masked_fill(mask, number)`, or `masked_fill_`.
fn masked_fill_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, mask) = (call.need(0)?, call.need(1)?);
    let y = elementwise::masked_fill(call.rt, &x, &mask, call.overwrites());
    call.set(0, y);
    Ok(())
}

/// `clamp`, `relu6`, `hardtanh`: the input is saved.
fn clip_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let op = elementwise::Unary::saves_input("aten::hardtanh").node("HardtanhBackward0");
    let y = if call.overwrites() {
        elementwise::unary_in_place(call.rt, op, &x)
    } else {
        elementwise::unary(call.rt, op, &x)
    };
    call.set(0, y);
    Ok(())
}

fn prelu(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight) = (call.need(0)?, call.need(1)?);
    let [x, weight] = call.rt.for_operator("aten::prelu", [&x, &weight]);
    // A weight for each channel is seen in the channels' dimension.
    let weight = if weight.rank() == 1 && x.rank() > 1 {
        let behind = std::iter::repeat_n(1, x.rank().saturating_sub(2));
        let sizes: Dims = [1, weight.numel()].into_iter().chain(behind).collect();
        view::reshape(call.rt, &weight, &sizes)
    } else {
        weight
    };
    call.rt.enter_operator("aten::_prelu_kernel");
    let y = call.rt.empty_like(&x);
    let saved = [&x, &weight];
    let y = call.rt.differentiable("PreluKernelBackward0", y, &saved, &saved, |pass| {
        let Some(grad) = pass.grad() else { return vec![None, None] };
        let operands: Vec<&Tensor> = pass.saved.iter().chain([grad]).collect();
        let fresh = || Some(kernels::pointwise(pass.rt, grad.dtype(), &operands));
        vec![fresh(), fresh()]
    });
    call.set(0, y);
    Ok(())
}

fn sum_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let mut tensors = call.tensors().into_iter();
    let Some(first) = tensors.next() else { return fresh(call) };
    let sum = tensors.fold(first, |sum, next| elementwise::add(call.rt, &sum, &next));
    call.set(0, sum);
    Ok(())
}

fn mean_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let mut tensors = call.tensors().into_iter();
    let Some(first) = tensors.next() else { return fresh(call) };
    let sum = tensors.fold(first, |sum, next| elementwise::add(call.rt, &sum, &next));
    let mean = elementwise::scale(call.rt, "aten::div", &sum);
    call.set(0, mean);
    Ok(())
}

/// `maximum`, `minimum`, and clamps by a number: the operands are saved.
fn extremum(call: &mut Call<'_>, name: &str) -> Result<(), OpError> {
    let y = match operands(call) {
        (Some(a), Some(b)) => {
            return run_as(call, name, vec![Value::Tensor(a), Value::Tensor(b)]);
        }
        (Some(x), None) | (None, Some(x)) => {
            call.is_unproven();
            let op = elementwise::Unary::saves_input("aten::clamp")
                .node("ClampBackward1")
                .temporaries(1);
            elementwise::unary(call.rt, op, &x)
        }
        (None, None) => return fresh(call),
    };
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Add float32[2,1,4] float32[3,1]", "float32[2,3,4]"),
            ("Add float32[2,3] float32[4]", "error: do not broadcast"),
            ("Add float32[2,3,4] float32[3] @6 broadcast=1 axis=1", "float32[2,3,4]"),
            ("Add int64[2]:1,2 int64[]:10", "int64[2]:11,12"),
            ("Add int64[1]:9223372036854775807 int64[1]:1", "int64[1]"),
            ("Div int64[2]:-7,7 int64[1]:2", "int64[2]:-3,3"),
            ("Div int64[1]:7 int64[1]:0", "int64[1]"),
            ("Mul float32[1]:0.5 float32[1]:7", "float32[1]:3.5"),
            ("Mod int64[2]:-7,7 int64[1]:3", "int64[2]:2,1"),
            ("Mod int64[2]:-7,7 int64[1]:3 fmod=1", "int64[2]:-1,1"),
            ("Pow float32[2]:9,16 float32[]:0.5", "float32[2]:3,4"),
            ("Pow float32[1]:9 float32[]:0.3", "float32[1]"),
            ("Equal int64[3]:-1,2,3 int64[]:-1", "bool[3]:1,0,0"),
            ("Less float32[2,3] float32[3]", "bool[2,3]"),
            ("And bool[2]:1,0 bool[2]:1,1", "bool[2]:1,0"),
            ("Where bool[3]:1,0,0 int64[]:5 int64[3]:1,2,3", "int64[3]:5,2,3"),
            ("Where bool[2,1] float32[] float32[3]", "float32[2,3]"),
            ("Max int64[1]:3 int64[1]:5", "int64[1]:5"),
            ("Sum float32[2,1] float32[3] float32[]", "float32[2,3]"),
            ("Clip float32[2,3] float32[] float32[]", "float32[2,3]"),
            ("Clip int64[3]:-5,0,5 - int64[]:3", "int64[3]:-5,0,3"),
            ("Clip float32[3]:-5,0,5 float32[]:0", "float32[3]:0,0,5"),
            ("Clip float32[1]:-5 float32[]", "float32[1]"),
            ("PRelu float32[2,3,4,4] float32[3,1,1]", "float32[2,3,4,4]"),
        ] {
            check(call, expected);
        }
    }
}
