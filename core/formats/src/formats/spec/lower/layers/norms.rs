//! Normalisation.

use super::super::{Args, Lowering, Size, Tensor};
use super::windows::grouped;
use super::{channels, signed};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

pub(in super::super::super) fn batch_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let spatial: &[usize] = match a.kind() {
        "batchnorm1d" => &[0, 1],
        "batchnorm3d" => &[3],
        _ => &[2],
    };
    let rank = x.shape.len().saturating_sub(2);
    let nearest = spatial.iter().copied().find(|&n| n == rank).or_else(|| spatial.first().copied());
    let channels = channels(l, a, x, nearest.unwrap_or(2))?;
    let state = [
        l.parameter("weight", &[channels])?,
        l.parameter("bias", &[channels])?,
        l.buffer("running_mean", &[channels])?,
        l.buffer("running_var", &[channels])?,
    ];
    let inputs: Vec<ValueId> = [x.id].into_iter().chain(state).collect();
    let training = Some(("training_mode", Attribute::Int(1)));
    Ok(l.made("BatchNormalization", &inputs, training, x.shape.clone()))
}

pub(in super::super::super) fn layer_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    norm_of_rows(l, x, "LayerNormalization", a.flag("bias"))
}

pub(in super::super::super) fn rms_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    if !a.flag("composite") {
        return norm_of_rows(l, x, "RMSNormalization", false);
    }
    composite_rms_norm(l, x)
}

pub(in super::super) fn composite_rms_norm(
    l: &mut Lowering<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    // `weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))`.
    let width = l.need(x.width(), &say!("the width of what comes in"))?;
    let weight = l.parameter("weight", &[width])?;
    let (two, eps, axes) = (l.builder.float(2.0), l.builder.float(1e-6), l.builder.ints(&[-1]));
    let squares = l.made("Pow", &[x.id, two], None, x.shape.clone());
    let mut narrow = x.shape.clone();
    if let Some(last) = narrow.last_mut() {
        *last = Size::known(1);
    }
    let keep = Some(("keepdims", Attribute::Int(1)));
    let variance = l.made("ReduceMean", &[squares.id, axes], keep, narrow.clone());
    let shifted = l.made("Add", &[variance.id, eps], None, narrow.clone());
    let root = l.made("Sqrt", &[shifted.id], None, narrow.clone());
    let factor = l.made("Reciprocal", &[root.id], None, narrow);
    let normed = l.made("Mul", &[x.id, factor.id], None, x.shape.clone());
    let y = l.made("Mul", &[weight, normed.id], None, x.shape.clone());
    l.builder.hold(normed.id, y.id);
    l.builder.hold(variance.id, y.id);
    Ok(y)
}

/// A norm over the last dimension, in the module that is being added.
pub(in super::super) fn norm_of_rows(
    l: &mut Lowering<'_>,
    x: &Tensor,
    op: &str,
    bias: bool,
) -> Result<Tensor, Error> {
    let width = l.need(x.width(), &say!("the width of what comes in"))?;
    let mut inputs = vec![x.id, l.parameter("weight", &[width])?];
    if bias {
        inputs.push(l.parameter("bias", &[width])?);
    }
    Ok(l.made(op, &inputs, Some(("axis", Attribute::Int(-1))), x.shape.clone()))
}

pub(in super::super::super) fn group_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = l.need(x.shape.get(1).copied(), &say!("the number of channels that come in"))?;
    let groups = a.number("num_groups").unwrap_or(1);
    grouped(l, channels, groups, groups)?;
    let inputs = [x.id, l.parameter("weight", &[channels])?, l.parameter("bias", &[channels])?];
    let groups = Some(("num_groups", Attribute::Int(signed(groups))));
    Ok(l.made("GroupNormalization", &inputs, groups, x.shape.clone()))
}

pub(in super::super::super) fn instance_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let spatial = match a.kind() {
        "instancenorm1d" => 1,
        "instancenorm3d" => 3,
        _ => 2,
    };
    let channels = channels(l, a, x, spatial)?;
    let mut inputs = vec![x.id];
    if a.flag("affine") {
        inputs.push(l.parameter("weight", &[channels])?);
        inputs.push(l.parameter("bias", &[channels])?);
    }
    Ok(l.made("InstanceNormalization", &inputs, None, x.shape.clone()))
}
