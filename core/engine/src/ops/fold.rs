//! Folding: elements of small tensors, carried through the arithmetic that decides shapes.
//!
//! - Only tensors of up to [`LIMIT`] elements; other elements are unknown before a run.
//! - Integers and booleans are exact; a result that overflows is unknown.
//! - Floating-point numbers only matter where a size depends on them (`floor(height * scale)`), so only operations
//!   whose result does not depend on the platform are folded.

use super::{Inference, OpError, shape_math};
use crate::graph::Elements;
use crate::tensor::DType;

/// COUNT: most elements a folded tensor may hold.
pub const LIMIT: usize = 1024;

/// The elements as a tensor of `dtype` holds them.
pub(super) fn cast(elements: &Elements, dtype: DType) -> Elements {
    match (elements, dtype.is_floating()) {
        (Elements::Ints(list), false) if dtype == DType::Bool => {
            Elements::Ints(list.iter().map(|&n| i64::from(n != 0)).collect())
        }
        (Elements::Ints(list), false) => Elements::Ints(list.clone()),
        (Elements::Ints(list), true) => {
            Elements::Floats(list.iter().map(|&n| narrow(widen(n), dtype)).collect())
        }
        (Elements::Floats(list), false) if dtype == DType::Bool => {
            Elements::Ints(list.iter().map(|&x| i64::from(x != 0.0)).collect())
        }
        (Elements::Floats(list), false) => {
            Elements::Ints(list.iter().map(|&x| truncate(x)).collect())
        }
        (Elements::Floats(list), true) => {
            Elements::Floats(list.iter().map(|&x| narrow(x, dtype)).collect())
        }
    }
}

/// Integer towards zero; saturates.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the only conversion the language has; it saturates"
)]
pub(super) const fn truncate(x: f64) -> i64 {
    x as i64
}

/// The nearest floating-point number.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "the only conversion the language has; it rounds to nearest"
)]
pub(super) const fn widen(n: i64) -> f64 {
    n as f64
}

/// The number as `dtype` holds it: single precision and below are told apart from double only.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the only conversion the language has; it rounds to nearest"
)]
pub(crate) fn narrow(x: f64, dtype: DType) -> f64 {
    if dtype == DType::Float64 { x } else { f64::from(x as f32) }
}

/// Floating-point arithmetic as functions; decides sizes, never counts bytes.
#[expect(clippy::float_arithmetic, reason = "exporters compute sizes in floats; no byte sum is")]
pub(super) mod float {
    pub(in crate::ops) const fn add(a: f64, b: f64) -> f64 {
        a + b
    }
    pub(in crate::ops) const fn sub(a: f64, b: f64) -> f64 {
        a - b
    }
    pub(in crate::ops) const fn mul(a: f64, b: f64) -> f64 {
        a * b
    }
    pub(in crate::ops) const fn div(a: f64, b: f64) -> f64 {
        a / b
    }
    pub(in crate::ops) const fn neg(a: f64) -> f64 {
        -a
    }
}

/// Positions in a tensor's elements when it is broadcast from `dims` to `out`.
pub(super) fn broadcast_positions(dims: &[u64], out: &[u64]) -> Option<Vec<usize>> {
    let lead = out.len().checked_sub(dims.len())?;
    let steps = strides(dims);
    let steps: Vec<i64> = std::iter::repeat_n(0, lead)
        .chain(steps.iter().zip(dims).map(|(&step, &d)| if d == 1 { 0 } else { step }))
        .collect();
    strided_positions(out, 0, &steps)
}

/// Positions in row-major order over `out` when each of its axes steps by `steps` from `start`.
pub(super) fn strided_positions(out: &[u64], start: i64, steps: &[i64]) -> Option<Vec<usize>> {
    let mut positions = vec![start];
    for (&d, &step) in out.iter().zip(steps) {
        let count = usize::try_from(d).ok()?;
        if positions.len().checked_mul(count)? > LIMIT {
            return None;
        }
        let offsets = || (0..shape_math::signed(d)).map(|i| i.saturating_mul(step));
        positions =
            positions.iter().flat_map(|&p| offsets().map(move |o| p.saturating_add(o))).collect();
    }
    positions.iter().map(|&p| usize::try_from(p).ok()).collect()
}

/// Elements from one step along each axis to the next, in row-major order.
pub(super) fn strides(dims: &[u64]) -> Vec<i64> {
    let mut step = 1_i64;
    let mut steps: Vec<i64> = dims
        .iter()
        .rev()
        .map(|&d| {
            let here = step;
            step = step.saturating_mul(shape_math::signed(d));
            here
        })
        .collect();
    steps.reverse();
    steps
}

/// Keeps the elements of input 0 in output 0 where only the shape changed.
pub(super) fn keep(inference: &mut Inference<'_>) {
    if let Some(elements) = inference.elements(0) {
        inference.set_elements(0, elements.clone());
    }
}

/// Folds output 0 element by element from input 0.
pub(super) fn unary(
    inference: &mut Inference<'_>,
    on_ints: fn(i64) -> Option<i64>,
    on_floats: fn(f64) -> Option<f64>,
) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
    let folded = match inference.elements(0) {
        Some(Elements::Ints(list)) => {
            list.iter().map(|&n| on_ints(n)).collect::<Option<_>>().map(Elements::Ints)
        }
        Some(Elements::Floats(list)) => list
            .iter()
            .map(|&x| on_floats(x).map(|x| narrow(x, dtype)))
            .collect::<Option<_>>()
            .map(Elements::Floats),
        None => None,
    };
    if let Some(elements) = folded {
        inference.set_elements(0, elements);
    }
    Ok(())
}

/// The elements of two inputs, each broadcast to the type of output 0.
pub(super) fn pair(
    inference: &Inference<'_>,
    first: usize,
    second: usize,
) -> Option<(Elements, Elements)> {
    let of = |position| {
        let elements = inference.elements(position)?;
        let dims = &inference.optional(position)?.dims;
        let out = &inference.output(0)?.dims;
        if dims == out {
            return Some(elements.clone());
        }
        elements.pick(&broadcast_positions(dims, out)?)
    };
    // Both must be known before either is copied.
    inference.elements(first)?;
    inference.elements(second)?;
    inference.is_small(0).then_some(())?;
    Some((of(first)?, of(second)?))
}

/// Two lists combined element by element; `None` where one element has no result.
pub(super) fn zip_with<T: Copy, U>(
    a: &[T],
    b: &[T],
    combine: impl Fn(T, T) -> Option<U>,
) -> Option<Vec<U>> {
    a.iter().zip(b).map(|(&a, &b)| combine(a, b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_broadcast() {
        assert_eq!(broadcast_positions(&[2, 1], &[2, 3]), Some(vec![0, 0, 0, 1, 1, 1]));
        assert_eq!(broadcast_positions(&[3], &[2, 3]), Some(vec![0, 1, 2, 0, 1, 2]));
        assert_eq!(broadcast_positions(&[], &[2]), Some(vec![0, 0]));
        assert_eq!(broadcast_positions(&[1], &[1 << 40]), None);
        assert_eq!(broadcast_positions(&[2, 2], &[2]), None);
    }

    #[test]
    fn casts_truncate_and_saturate() {
        let floats = Elements::Floats(vec![1.9, -1.9, 1e300, f64::NAN]);
        assert_eq!(cast(&floats, DType::Int64), Elements::Ints(vec![1, -1, i64::MAX, 0]));
        assert_eq!(cast(&Elements::Ints(vec![0, 7]), DType::Bool), Elements::Ints(vec![0, 1]));
        let tenth = cast(&Elements::Floats(vec![0.1]), DType::Float32);
        assert_eq!(tenth, Elements::Floats(vec![f64::from(0.1_f32)]));
    }
}
