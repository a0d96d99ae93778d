//! Layers that change the shape of a tensor, and means over one dimension.

use super::super::{Args, Lowering, Size, Tensor};
use super::signed;
use crate::error::Error;
use crate::graph::Attribute;

/// `x.narrow(dim, 0, 1).expand(…)`, a view.
pub(in super::super::super) fn stand_in(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let size = a.number("size").unwrap_or(1);
    let mut shape = x.shape.clone();
    if let Some(at) = shape.get_mut(axis) {
        *at = Size::known(1);
    }
    let (start, end, axes) =
        (l.builder.ints(&[0]), l.builder.ints(&[1]), l.builder.ints(&[signed(axis_number(axis))]));
    let narrow = l.made("Slice", &[x.id, start, end, axes], None, shape.clone());
    let target: Vec<i64> =
        (0..shape.len()).map(|at| if at == axis { signed(size) } else { 1 }).collect();
    let target = l.builder.ints(&target);
    if let Some(at) = shape.get_mut(axis) {
        *at = Size::known(size);
    }
    Ok(l.made("Expand", &[narrow.id, target], None, shape))
}

fn axis_number(axis: usize) -> u64 {
    u64::try_from(axis).unwrap_or(0)
}

pub(in super::super::super) fn flatten(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let (start, end) = (l.axis(x, a.index("start_dim"))?, l.axis(x, a.index("end_dim"))?);
    if start > end {
        return Err(l.fault(say!(
            "`flatten` from dimension {start} to {end} is backwards",
            start,
            end
        )));
    }
    flat(l, x, start, end)
}

pub(super) fn flat(
    l: &mut Lowering<'_>,
    x: &Tensor,
    start: usize,
    end: usize,
) -> Result<Tensor, Error> {
    let (mut shape, mut target) = (Vec::new(), Vec::new());
    let mut whole: Option<Size> = None;
    for (axis, &size) in x.shape.iter().enumerate() {
        if (start..=end).contains(&axis) {
            whole = Some(whole.map_or(size, |before| before.with(size, u64::checked_mul)));
        }
        if axis == end {
            shape.extend(whole);
            target.push(-1);
        } else if axis < start {
            shape.push(size);
            target.push(0);
        } else if axis > end {
            shape.push(size);
            target.push(signed(l.need(Some(size), &say!("the size of a dimension behind"))?));
        }
    }
    let target = l.builder.ints(&target);
    Ok(l.made("Reshape", &[x.id, target], None, shape))
}

pub(in super::super::super) fn reshape(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let target = a.ints("shape");
    let open = target.iter().filter(|&&n| n == -1).count();
    if open > 1 || target.iter().any(|&n| n < -1) {
        return Err(l.fault(say!("`reshape` may leave one size to find, as -1; 0 keeps a size")));
    }
    let mut shape = Vec::new();
    for (axis, &n) in target.iter().enumerate() {
        shape.push(match n {
            0 => match x.shape.get(axis) {
                Some(size) => *size,
                None => {
                    return Err(l.fault(say!(
                        "{shown} has no dimension {axis} to keep",
                        shown = x.shown(),
                        axis
                    )));
                }
            },
            -1 => Size::known(1),
            n => Size::known(u64::try_from(n).unwrap_or(1)),
        });
    }
    let product = |sizes: &[Size]| {
        sizes.iter().fold(Size::known(1), |all, &size| all.with(size, u64::checked_mul))
    };
    // A kept batch stands on both sides, known or not.
    let kept = |axis: usize| target.get(axis) == Some(&0);
    let rest = |sizes: &[Size]| {
        let left = sizes.iter().enumerate().filter(|(axis, _)| !kept(*axis));
        product(&left.map(|(_, &size)| size).collect::<Vec<_>>())
    };
    let (have, want) = (rest(&x.shape), rest(&shape));
    let missing = have.with(want, |have, want| {
        have.checked_div_euclid(want).filter(|n| n.checked_mul(want) == Some(have))
    });
    let fits = match (have.number, want.number) {
        (Some(have), Some(want)) if open == 0 => have == want,
        (Some(_), Some(_)) => missing.number.is_some(),
        _ => true,
    };
    if !fits {
        return Err(l.fault(say!(
            "{shown} does not fill {target}",
            shown = x.shown(),
            target = format!("{target:?}")
        )));
    }
    if let Some(axis) = target.iter().position(|&n| n == -1)
        && let Some(size) = shape.get_mut(axis)
    {
        *size = missing;
    }
    let target = l.builder.ints(&target);
    Ok(l.made("Reshape", &[x.id, target], None, shape))
}

pub(in super::super::super) fn permute(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let mut order = Vec::new();
    for dim in a.ints("dims") {
        let axis = l.axis(x, dim)?;
        if order.contains(&axis) {
            return Err(l.fault(say!("`permute` names dimension {axis} twice", axis)));
        }
        order.push(axis);
    }
    if order.len() != x.shape.len() {
        return Err(l.fault(say!(
            "`permute` names {n} dimensions of {shown}",
            n = order.len(),
            shown = x.shown()
        )));
    }
    Ok(permuted(l, x, &order))
}

pub(in super::super) fn permuted(l: &mut Lowering<'_>, x: &Tensor, order: &[usize]) -> Tensor {
    let shape = order.iter().filter_map(|&axis| x.shape.get(axis).copied()).collect();
    let order = order.iter().map(|&axis| i64::try_from(axis).unwrap_or(0)).collect();
    l.made("Transpose", &[x.id], Some(("perm", Attribute::Ints(order))), shape)
}

pub(in super::super::super) fn transpose(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let (one, other) = (l.axis(x, a.index("dim0"))?, l.axis(x, a.index("dim1"))?);
    let mut order: Vec<usize> = (0..x.shape.len()).collect();
    if one != other {
        order.swap(one, other);
    }
    Ok(permuted(l, x, &order))
}

pub(in super::super::super) fn select(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let index = l.builder.int(a.index("index"));
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let axis = Some(("axis", Attribute::Int(i64::try_from(axis).unwrap_or(0))));
    Ok(l.made("Gather", &[x.id, index], axis, shape))
}

pub(in super::super::super) fn mean(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let keep = a.flag("keepdim");
    let mut shape = x.shape.clone();
    match shape.get_mut(axis) {
        Some(size) if keep => *size = Size::known(1),
        _ => {
            shape.remove(axis);
        }
    }
    let axes = l.builder.ints(&[i64::try_from(axis).unwrap_or(0)]);
    let keep = Some(("keepdims", Attribute::Int(i64::from(keep))));
    Ok(l.made("ReduceMean", &[x.id, axes], keep, shape))
}
