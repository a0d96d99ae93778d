//! Reductions along axes, and running sums.
//!
//! <https://onnx.ai/onnx/operators/onnx__ReduceMean.html>: the axes are an attribute before
//! operator set 18 (13 for `ReduceSum`) and an input since; without axes everything is reduced,
//! unless `noop_with_empty_axes`. `onnx__ArgMax.html`, `onnx__CumSum.html`.

use super::Call;
use super::formula::{ints, run_as, spelled};
use super::shape_math::{self, axis_mask, like_first};
use super::{Inference, OpError, Operator, fold, op};
use crate::aten::formula::Value;
use crate::aten::reduce as aten;
use crate::graph::Elements;
use crate::tensor::{DType, Dims};

pub(super) const TABLE: &[Operator] = &[
    op("ArgMax", 1..=1, arg).runs(arg_rule),
    op("ArgMin", 1..=1, arg).runs(arg_rule),
    op("CumProd", 2..=2, like_first).runs(spelled).numbers_from(1),
    op("CumSum", 2..=2, cumulative_sum).runs(cumulative_rule),
    op("ReduceL1", 1..=2, |i| reduce(i, None))
        .runs(|c| row_rule(c, "linalg_vector_norm", Some(1)))
        .numbers_from(1),
    op("ReduceL2", 1..=2, |i| reduce(i, None))
        .runs(|c| row_rule(c, "linalg_vector_norm", Some(2)))
        .numbers_from(1),
    op("ReduceLogSum", 1..=2, |i| reduce(i, None))
        .runs(|c| saving_rule(c, "aten::log"))
        .numbers_from(1),
    op("ReduceLogSumExp", 1..=2, |i| reduce(i, None))
        .runs(|c| row_rule(c, "logsumexp", None))
        .numbers_from(1),
    op("ReduceMax", 1..=2, |i| reduce(i, Some(|a, b| Some(a.max(b)))))
        .runs(|c| extremum_rule(c, ["max", "amax", "max.dim"]))
        .numbers_from(1),
    op("ReduceMean", 1..=2, |i| reduce(i, None)).runs(mean_rule).numbers_from(1),
    op("ReduceMin", 1..=2, |i| reduce(i, Some(|a, b| Some(a.min(b)))))
        .runs(|c| extremum_rule(c, ["min", "amin", "min.dim"]))
        .numbers_from(1),
    op("ReduceProd", 1..=2, |i| reduce(i, Some(i64::checked_mul)))
        .runs(|c| saving_rule(c, "aten::prod"))
        .numbers_from(1),
    op("ReduceSum", 1..=2, |i| reduce(i, Some(i64::checked_add))).runs(sum_rule).numbers_from(1),
    op("ReduceSumSquare", 1..=2, |i| reduce(i, None))
        .runs(|c| saving_rule(c, "aten::sum"))
        .numbers_from(1),
];

/// What remains of `dims` when the axes in `mask` are reduced.
fn reduced(dims: &[u64], mask: &[bool], keep: bool) -> Dims {
    let both = dims.iter().zip(mask);
    both.filter(|&(_, &gone)| keep || !gone).map(|(&d, &gone)| if gone { 1 } else { d }).collect()
}

type Combine = fn(i64, i64) -> Option<i64>;

fn reduce(inference: &mut Inference<'_>, combine: Option<Combine>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let axes = inference.ints_from("axes", 1)?.unwrap_or(&[]);
    let noop = inference.node.int("noop_with_empty_axes").unwrap_or(0) != 0;
    let mask = match (axes.is_empty(), noop) {
        (true, true) => vec![false; x.rank()],
        (true, false) => vec![true; x.rank()],
        (false, _) => axis_mask(axes, x.rank())?,
    };
    let keep = inference.node.int("keepdims").unwrap_or(1) != 0;
    inference.set_dims(0, x.dtype, reduced(&x.dims, &mask, keep));
    if let (Some(combine), Some(list), true) = (combine, inference.ints(0), inference.is_small(0))
        && let Some(folded) = combine_along(list, &x.dims, &mask, combine)
    {
        inference.set_elements(0, Elements::Ints(folded));
    }
    Ok(())
}

/// Combines the elements along the axes in `mask`.
fn combine_along(list: &[i64], dims: &[u64], mask: &[bool], combine: Combine) -> Option<Vec<i64>> {
    let kept = reduced(dims, mask, true);
    let targets = fold::broadcast_positions(&kept, dims)?;
    let count = usize::try_from(crate::tensor::numel(&kept)).ok()?;
    let mut folded: Vec<Option<i64>> = vec![None; count];
    for (&n, &target) in list.iter().zip(&targets) {
        let slot = folded.get_mut(target)?;
        *slot = match *slot {
            None => Some(n),
            Some(before) => Some(combine(before, n)?),
        };
    }
    folded.into_iter().collect()
}

fn arg(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let mask = axis_mask(&[inference.node.int("axis").unwrap_or(0)], x.rank())?;
    let keep = inference.node.int("keepdims").unwrap_or(1) != 0;
    inference.set_dims(0, DType::Int64, reduced(&x.dims, &mask, keep));
    Ok(())
}

fn cumulative_sum(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.set(0, x.clone());
    let stated = |name| inference.node.int(name).unwrap_or(0) != 0;
    let plain = !stated("exclusive") && !stated("reverse");
    if let (Some(list), Some(&[axis]), true) = (inference.ints(0), inference.ints(1), plain) {
        let step = fold::strides(&x.dims);
        let axis = shape_math::axis(axis, x.rank())?;
        let step = step.get(axis).and_then(|&step| usize::try_from(step).ok()).unwrap_or(1);
        let size = usize::try_from(shape_math::dim(&x.dims, axis)).unwrap_or(usize::MAX);
        let mut sums = list.to_vec();
        for position in step..sums.len() {
            let along = position.checked_div(step).and_then(|n| n.checked_rem(size));
            let previous = sums.get(position.saturating_sub(step)).copied().unwrap_or(0);
            if let (Some(1..), Some(sum)) = (along, sums.get_mut(position)) {
                *sum = sum.saturating_add(previous);
            }
        }
        inference.set_elements(0, Elements::Ints(sums));
    }
    Ok(())
}

/// Which dimensions go, and whether they stay as ones.
fn reduction(call: &Call<'_>) -> Result<(Vec<bool>, bool), OpError> {
    let rank = call.input_type(0)?.rank();
    let axes = call.node.ints("axes").or_else(|| call.ints(1)).unwrap_or_default();
    let keep = call.node.int("keepdims").unwrap_or(1) != 0;
    if axes.is_empty() {
        let none = call.node.int("noop_with_empty_axes").unwrap_or(0) != 0;
        return Ok((vec![!none; rank], keep));
    }
    Ok((axis_mask(axes, rank)?, keep))
}

fn mean_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, (gone, keep)) = (call.need(0)?, reduction(call)?);
    let y = aten::mean(call.rt, &x, &gone, keep);
    call.set(0, y);
    Ok(())
}

fn sum_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, (gone, keep)) = (call.need(0)?, reduction(call)?);
    let y = aten::sum(call.rt, &x, &gone, keep);
    call.set(0, y);
    Ok(())
}

/// A reduction that has a formula; `order` is that of a norm.
fn row_rule(call: &mut Call<'_>, name: &str, order: Option<i64>) -> Result<(), OpError> {
    let (x, (gone, keep)) = (call.need(0)?, reduction(call)?);
    let dims: Vec<i64> = (0_i64..).zip(&gone).filter(|(_, gone)| **gone).map(|(n, _)| n).collect();
    let mut arguments = vec![Value::Tensor(x)];
    arguments.extend(order.map(Value::Int));
    arguments.extend([ints(&dims), Value::Int(i64::from(keep))]);
    run_as(call, name, arguments)
}

/// `x.max()`, `x.amax(dims)` and `x.max(dim)`, of which only dynamo says which.
fn extremum_rule(call: &mut Call<'_>, names: [&str; 3]) -> Result<(), OpError> {
    let (x, (gone, keep)) = (call.need(0)?, reduction(call)?);
    let [whole, several, one] = names;
    let named = call.node.origin.as_ref().map_or("", |origin| origin.aten.as_str());
    let is_named = named.contains(several);
    let count = gone.iter().filter(|gone| **gone).count();
    let is_stated = call.node.attributes.contains_key("axes") || call.node.input(1).is_some();
    if !is_stated && !keep && !is_named {
        return run_as(call, whole, vec![Value::Tensor(x)]);
    }
    if count == 1 && !is_named && x.dtype().is_floating() {
        if named.is_empty() {
            call.is_unproven();
        }
        return row_rule(call, one, None);
    }
    row_rule(call, several, None)
}

fn saving_rule(call: &mut Call<'_>, name: &'static str) -> Result<(), OpError> {
    let (x, (gone, keep)) = (call.need(0)?, reduction(call)?);
    let y = aten::saving(call.rt, name, &x, &gone, keep);
    call.set(0, y);
    Ok(())
}

fn arg_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let ty = call.output_type(0)?;
    call.rt.enter_operator("aten::argmax");
    call.set(0, call.rt.empty(ty.dtype, &ty.dims));
    Ok(())
}

fn cumulative_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    run_as(call, "cumsum", vec![Value::Tensor(x)])
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("ReduceMean float32[2,64,7,7] axes=[2,3] keepdims=0 @17", "float32[2,64]"),
            ("ReduceMean float32[2,64,7,7] int64[2]:-1,-2", "float32[2,64,1,1]"),
            ("ReduceSum float32[2,3]", "float32[1,1]"),
            ("ReduceSum float32[2,3] keepdims=0", "float32[]"),
            ("ReduceSum float32[2,3] noop_with_empty_axes=1", "float32[2,3]"),
            ("ReduceSum float32[2,3] int64[1]", "error: contents of input 1"),
            ("ReduceMax float32[2,3] axes=[2]", "error: axis 2"),
            ("ReduceProd int64[3]:2,3,4 keepdims=0", "int64[]:24"),
            ("ReduceSum int64[2,2]:1,2,3,4 int64[1]:1 keepdims=0", "int64[2]:3,7"),
            ("ReduceSum int64[0,1099511627776]: axes=[0]", "int64[1,1099511627776]"),
            ("ReduceMin int64[2,2]:1,2,3,4 int64[1]:0", "int64[1,2]:1,2"),
            ("ArgMax float32[2,10] axis=1 keepdims=0", "int64[2]"),
            ("ArgMin float32[2,10]", "int64[1,10]"),
            ("CumSum int64[3]:1,2,3 int64[]:0", "int64[3]:1,3,6"),
            ("CumSum int64[2,2]:1,2,3,4 int64[]:0", "int64[2,2]:1,2,4,6"),
            ("CumSum int64[2,2]:1,2,3,4 int64[]:1", "int64[2,2]:1,3,3,7"),
            ("CumSum float32[2,5] int64[]:1", "float32[2,5]"),
        ] {
            check(call, expected);
        }
    }
}
