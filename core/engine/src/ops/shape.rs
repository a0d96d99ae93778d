//! Shapes as data, and changes of shape that leave the elements where they are.
//!
//! <https://onnx.ai/onnx/operators/onnx__Shape.html> (`start` and `end` since operator set 15),
//! `onnx__Reshape.html` (`allowzero` since 14), `onnx__Squeeze.html` and `onnx__Unsqueeze.html`
//! (axes are an input since 13), `onnx__Flatten.html`, `onnx__Expand.html`, `onnx__Cast.html`.

use super::Call;
use super::run::fresh;
use super::shape_math::{
    axis_mask, before, broadcast, dim, dtype_attribute, exact_div, from, like_first, signed,
    signed_len, size,
};
use super::{Inference, OpError, Operator, fold, op};
use crate::aten::view;
use crate::eager::kernels;
use crate::graph::Elements;
use crate::tensor::{DType, Dims, TensorType, numel};

pub(super) const TABLE: &[Operator] = &[
    op("BitCast", 1..=1, cast).runs(fresh),
    op("Cast", 1..=1, cast).runs(cast_rule),
    op("CastLike", 2..=2, cast_like).runs(cast_like_rule),
    op("Expand", 2..=2, expand).runs(expand_rule).numbers_from(1),
    op("Flatten", 1..=1, flatten).runs(reshape_rule),
    op("Identity", 1..=1, identity).runs(identity_rule),
    op("Reshape", 1..=2, reshape).runs(reshape_rule).numbers_from(1),
    op("Shape", 1..=1, shape).runs(fresh),
    op("Size", 1..=1, element_count).runs(fresh),
    op("Squeeze", 1..=2, squeeze).runs(reshape_rule).numbers_from(1),
    op("Unsqueeze", 1..=2, unsqueeze).runs(reshape_rule).numbers_from(1),
];

fn identity(inference: &mut Inference<'_>) -> Result<(), OpError> {
    like_first(inference)?;
    fold::keep(inference);
    Ok(())
}

fn convert(inference: &mut Inference<'_>, dtype: DType) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.set_dims(0, dtype, x.dims.clone());
    if let Some(elements) = inference.elements(0) {
        inference.set_elements(0, fold::cast(elements, dtype));
    }
    Ok(())
}

fn cast(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let to = dtype_attribute(inference, "to")?;
    convert(inference, to.ok_or_else(|| OpError::new(say!("`to` is missing")))?)
}

fn cast_like(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let to = inference.input(1)?.dtype;
    convert(inference, to)
}

fn shape(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let bound = |name, default| {
        let rank = signed_len(x.rank());
        let n = inference.node.int(name).unwrap_or(default);
        let n = if n < 0 { n.saturating_add(rank) } else { n };
        usize::try_from(n.clamp(0, rank)).unwrap_or(0)
    };
    let (start, end) = (bound("start", 0), bound("end", i64::MAX));
    let part = from(before(&x.dims, end), start);
    let count = u64::try_from(part.len()).unwrap_or(u64::MAX);
    inference.set_dims(0, DType::Int64, [count]);
    inference.set_elements(0, Elements::Ints(part.iter().map(|&d| signed(d)).collect()));
    Ok(())
}

fn element_count(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.set_dims(0, DType::Int64, []);
    inference.set_elements(0, Elements::Ints(vec![signed(x.numel())]));
    Ok(())
}

/// Sets output 0 to input 0 in another shape.
fn reshaped(inference: &mut Inference<'_>, dims: Dims) -> Result<(), OpError> {
    let x = inference.input(0)?;
    if numel(&dims) != x.numel() {
        return Err(OpError::new(say!(
            "{numel} elements do not fill {dims}, which holds {needed}",
            numel = x.numel(),
            dims = format!("{dims:?}"),
            needed = numel(&dims)
        )));
    }
    inference.set_dims(0, x.dtype, dims);
    fold::keep(inference);
    Ok(())
}

/// 0 keeps a dimension (unless `allowzero`), and one -1 takes what is left.
fn reshape(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let Some(target) = inference.ints_from("shape", 1)? else {
        return Err(OpError::new(say!("no shape is stated")));
    };
    let zero_is_zero = inference.node.int("allowzero").unwrap_or(0) != 0;
    let mut dims = Dims::with_capacity(target.len());
    let mut open = None;
    for (position, &n) in target.iter().enumerate() {
        match n {
            0 if !zero_is_zero => {
                let kept = x.dims.get(position).copied();
                dims.push(
                    kept.ok_or_else(|| OpError::new(say!("0 keeps a dimension that is not")))?,
                );
            }
            -1 if open.is_none() => {
                open = Some(position);
                dims.push(1);
            }
            n => dims.push(size(n)?),
        }
    }
    if let Some(open) = open {
        let stated = numel(&dims);
        let rest = exact_div(x.numel(), stated).ok_or_else(|| {
            OpError::new(say!(
                "{numel} elements do not fit {target}",
                numel = x.numel(),
                target = format!("{target:?}")
            ))
        })?;
        if let Some(d) = dims.get_mut(open) {
            *d = rest;
        }
    }
    reshaped(inference, dims)
}

/// Two dimensions: those before `axis`, and the rest.
fn flatten(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let rank = signed_len(x.rank());
    let stated = inference.node.int("axis").unwrap_or(1);
    let axis = if stated < 0 { stated.saturating_add(rank) } else { stated };
    let axis = usize::try_from(axis).ok().filter(|&axis| axis <= x.rank());
    let axis = axis.ok_or_else(|| OpError::new(say!("axis {stated} is outside", stated)))?;
    let dims = Dims::from_slice(&[numel(before(&x.dims, axis)), numel(from(&x.dims, axis))]);
    reshaped(inference, dims)
}

/// Without axes, every dimension of 1 goes.
fn squeeze(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let mask = match inference.ints_from("axes", 1)? {
        Some(axes) => axis_mask(axes, x.rank())?,
        None => x.dims.iter().map(|&d| d == 1).collect(),
    };
    let kept = x.dims.iter().zip(&mask).filter(|&(_, &gone)| !gone).map(|(&d, _)| d);
    let dims = kept.collect();
    reshaped(inference, dims)
}

fn unsqueeze(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let axes = inference.ints_from("axes", 1)?;
    let axes = axes.ok_or_else(|| OpError::new(say!("no axes are stated")))?;
    let mask = axis_mask(axes, x.rank().saturating_add(axes.len()))?;
    let mut rest = x.dims.iter().copied();
    let dims = mask.iter().map(|&new| if new { 1 } else { rest.next().unwrap_or(1) }).collect();
    reshaped(inference, dims)
}

fn expand(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    // PyTorch's exporters write -1 for a dimension that stays.
    let target = inference.needed_ints(1)?;
    let lead = target.len().saturating_sub(x.rank());
    let kept =
        |position: usize| position.checked_sub(lead).map_or(1, |position| dim(&x.dims, position));
    let wanted: Result<Vec<u64>, OpError> = target
        .iter()
        .enumerate()
        .map(|(position, &n)| if n == -1 { Ok(kept(position)) } else { size(n) })
        .collect();
    let dims = broadcast(&x.dims, &wanted?)?;
    inference.set(0, TensorType::new(x.dtype, dims));
    if let (Some(elements), Some(out)) = (inference.elements(0), inference.output(0))
        && inference.is_small(0)
        && let Some(positions) = fold::broadcast_positions(&x.dims, &out.dims)
        && let Some(folded) = elements.pick(&positions)
    {
        inference.set_elements(0, folded);
    }
    Ok(())
}

fn cast_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = kernels::cast(call.rt, &call.need(0)?, call.output_type(0)?.dtype);
    call.set(0, y);
    Ok(())
}

/// To the type that the other tensor has when it runs, which autocast may have changed.
fn cast_like_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let like = call.tensor(1).map(|like| like.dtype());
    let dtype = like.map_or_else(|| call.output_type(0).map(|ty| ty.dtype), Ok)?;
    let y = kernels::cast(call.rt, &call.need(0)?, dtype);
    call.set(0, y);
    Ok(())
}

fn expand_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = view::expand(call.rt, &call.need(0)?, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

fn identity_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    call.set(0, x);
    Ok(())
}

/// `reshape`, `view`, `flatten`, `squeeze`, `unsqueeze`: other sizes for the same elements.
fn reshape_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = view::reshape(call.rt, &call.need(0)?, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Shape float32[2,3,4]", "int64[3]:2,3,4"),
            ("Shape float32[2,3,4] start=1", "int64[2]:3,4"),
            ("Shape float32[2,3,4] start=-3 end=-1", "int64[2]:2,3"),
            ("Shape float32[2,3,4] start=2 end=1", "int64[0]:"),
            ("Size float32[2,3]", "int64[]:6"),
            ("Reshape float32[2,3,4] int64[2]:0,-1", "float32[2,12]"),
            ("Reshape float32[2,3,4] int64[1]:24", "float32[24]"),
            ("Reshape float32[0,3] int64[2]:0,7 allowzero=1", "float32[0,7]"),
            ("Reshape float32[2,3,4] int64[2]:-1,5", "error: do not fit"),
            ("Reshape float32[2,3] int64[2]:-1,-1", "error: -1 is not a size"),
            ("Reshape float32[2,3] int64[1]:7", "error: 6 elements do not fill"),
            ("Reshape float32[2,3] int64[2]", "error: contents of input 1"),
            ("Reshape float32[2,3] shape=[3,2] @4", "float32[3,2]"),
            ("Reshape int64[]:4 int64[1]:-1", "int64[1]:4"),
            ("Flatten float32[2,3,4]", "float32[2,12]"),
            ("Flatten float32[2,3,4] axis=0", "float32[1,24]"),
            ("Flatten float32[2,3,4] axis=4", "error: axis 4"),
            ("Squeeze float32[2,1,4,1]", "float32[2,4]"),
            ("Squeeze float32[2,1,4,1] int64[1]:1", "float32[2,4,1]"),
            ("Squeeze float32[2,3] axes=[0] @11", "error: do not fill"),
            ("Unsqueeze float32[2,3] int64[2]:0,-1", "float32[1,2,3,1]"),
            ("Unsqueeze int64[]:5 axes=[0] @11", "int64[1]:5"),
            ("Expand float32[3,1] int64[3]:2,1,6", "float32[2,3,6]"),
            ("Expand int64[1]:7 int64[1]:3", "int64[3]:7,7,7"),
            ("Expand float32[1,3] int64[2]:4,-1", "float32[4,3]"),
            ("Expand float32[2,3] int64[2]:4,3", "error: do not broadcast"),
            ("Cast float32[2]:1.5,-1.5 to=7", "int64[2]:1,-1"),
            ("Cast int64[2]:0,3 to=9", "bool[2]:0,1"),
            ("Cast float32[2] to=8", "error: element type 8"),
            ("CastLike int64[2] float16[]", "float16[2]"),
            ("Identity int64[1]:3", "int64[1]:3"),
        ] {
            check(call, expected);
        }
    }
}
