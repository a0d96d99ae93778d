//! Elementwise functions of several tensors, with numpy's broadcasting.
//!
//! <https://onnx.ai/onnx/operators/onnx__Add.html>, `onnx__Where.html`, `onnx__Clip.html`,
//! <https://onnx.ai/onnx/repo-docs/Broadcasting.html>. Before operator set 7, arithmetic kept the
//! shape of its first input and stated an axis for the second. `PRelu` and `Clip` keep the shape
//! of the first input. Comparisons and logic give booleans.

use std::cmp::Ordering;

use super::fold::{self, float, narrow};
use super::shape_math::{broadcast, like_first};
use super::{Inference, MANY, OpError, Operator, op};
use crate::graph::Elements;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    op("Add", 2..=2, |i| arithmetic(i, i64::checked_add, |a, b| Some(float::add(a, b)))),
    op("And", 2..=2, |i| comparison(i, |a, b| a != 0 && b != 0, |_, _| false)),
    op("BitShift", 2..=2, |i| arithmetic(i, |_, _| None, |_, _| None)),
    op("BitwiseAnd", 2..=2, |i| arithmetic(i, |a, b| Some(a & b), |_, _| None)),
    op("BitwiseOr", 2..=2, |i| arithmetic(i, |a, b| Some(a | b), |_, _| None)),
    op("BitwiseXor", 2..=2, |i| arithmetic(i, |a, b| Some(a ^ b), |_, _| None)),
    op("Clip", 1..=3, clip),
    op("Div", 2..=2, |i| arithmetic(i, i64::checked_div, |a, b| Some(float::div(a, b)))),
    op("Equal", 2..=2, |i| {
        comparison(i, |a, b| a == b, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_eq))
    }),
    op("Greater", 2..=2, |i| comparison(i, |a, b| a > b, |a, b| a > b)),
    op("GreaterOrEqual", 2..=2, |i| comparison(i, |a, b| a >= b, |a, b| a >= b)),
    op("Less", 2..=2, |i| comparison(i, |a, b| a < b, |a, b| a < b)),
    op("LessOrEqual", 2..=2, |i| comparison(i, |a, b| a <= b, |a, b| a <= b)),
    op("Max", 1..=MANY, |i| variadic(i, |a, b| Some(a.max(b)), |a, b| Some(a.max(b)))),
    op("Mean", 1..=MANY, |i| variadic(i, |_, _| None, |_, _| None)),
    op("Min", 1..=MANY, |i| variadic(i, |a, b| Some(a.min(b)), |a, b| Some(a.min(b)))),
    op("Mod", 2..=2, modulo),
    op("Mul", 2..=2, |i| arithmetic(i, i64::checked_mul, |a, b| Some(float::mul(a, b)))),
    op("Or", 2..=2, |i| comparison(i, |a, b| a != 0 || b != 0, |_, _| false)),
    op("PRelu", 2..=2, like_first),
    op("Pow", 2..=2, |i| arithmetic(i, power, power_float)),
    op("Sub", 2..=2, |i| arithmetic(i, i64::checked_sub, |a, b| Some(float::sub(a, b)))),
    op("Sum", 1..=MANY, |i| variadic(i, i64::checked_add, |a, b| Some(float::add(a, b)))),
    op("Where", 3..=3, choose),
    op("Xor", 2..=2, |i| comparison(i, |a, b| (a != 0) != (b != 0), |_, _| false)),
];

type OnInts = fn(i64, i64) -> Option<i64>;
type OnFloats = fn(f64, f64) -> Option<f64>;

fn arithmetic(
    inference: &mut Inference<'_>,
    on_ints: OnInts,
    on_floats: OnFloats,
) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
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
fn broadcast_pair(inference: &Inference<'_>) -> Result<Vec<u64>, OpError> {
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
    if let Some(Elements::Ints(list)) = inference.elements(0) {
        let bound = |position| match (inference.node.input(position), inference.ints(position)) {
            (None, _) => Some(None),
            (Some(_), Some(&[bound])) => Some(Some(bound)),
            _ => None,
        };
        if let (Some(low), Some(high)) = (bound(1), bound(2)) {
            let (low, high) = (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX));
            let clipped = list.iter().map(|&n| n.max(low).min(high)).collect();
            inference.set_elements(0, Elements::Ints(clipped));
        }
    }
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
            ("PRelu float32[2,3,4,4] float32[3,1,1]", "float32[2,3,4,4]"),
        ] {
            check(call, expected);
        }
    }
}
