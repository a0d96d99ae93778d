//! Lookups in tables: tokens, positions, patches.

use super::super::{Args, Lowering, Size, Tensor};
use super::shapes::{flat, permuted};
use super::windows::window;
use super::{channels, first, ints, sequence, signed};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

/// `x + table(types)`, where `types` is a buffer of zeros.
pub(in super::super::super) fn type_embedding(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let [length, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), &say!("the width of what comes in"))?;
    let types = a.number("types").unwrap_or(1);
    let indices = positions(l, x, length);
    let batch = extent(l, x, 0);
    let long = extent(l, x, 1);
    let axis = Some(("axis", Attribute::Int(0)));
    let target = l.made("Concat", &[batch, long], axis, vec![Size::known(2)]).id;
    let rows = l.made("Expand", &[indices, target], None, vec![first(x), length]).id;
    let vectors = l.within("table", |l| {
        let table = l.parameter("weight", &[types, width])?;
        let axis = Some(("axis", Attribute::Int(0)));
        Ok(l.made("Gather", &[table, rows], axis, x.shape.clone()))
    })?;
    Ok(l.made("Add", &[x.id, vectors.id], None, x.shape.clone()))
}

pub(in super::super::super) fn embedding(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    l.read_as_indices(x)?;
    let rows = a.number("num_embeddings").unwrap_or(1);
    let width = a.number("embedding_dim").unwrap_or(1);
    let table = l.parameter("weight", &[rows, width])?;
    let mut shape = x.shape.clone();
    shape.push(Size::known(width));
    Ok(l.made("Gather", &[table, x.id], Some(("axis", Attribute::Int(0))), shape))
}

pub(in super::super::super) fn positional_embedding(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let [length, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), &say!("the width of what comes in"))?;
    let rows = match a.number("length") {
        Some(rows) => rows,
        None => l.need(Some(length), &say!("the length of what comes in"))?,
    };
    if length.number.is_some_and(|n| n > rows) {
        return Err(l.fault(say!(
            "{rows} positions are too few for {shown}",
            rows,
            shown = x.shown()
        )));
    }
    let shape = vec![length, Size::known(width)];
    let is_whole = !length.open && length.number == Some(rows);
    let vectors = if a.flag("lookup") {
        let positions = positions(l, x, length);
        l.within("table", |l| {
            let table = l.parameter("weight", &[rows, width])?;
            Ok(l.made("Gather", &[table, positions], Some(("axis", Attribute::Int(0))), shape))
        })?
    } else {
        let weight = l.parameter("weight", &[1, rows, width])?;
        let shape = vec![Size::known(1), length, Size::known(width)];
        if is_whole || length.number == Some(rows) && a.number("length").is_none() {
            Tensor { id: weight, shape }
        } else {
            let (start, axis) = (l.builder.ints(&[0]), l.builder.ints(&[1]));
            let end = extent(l, x, 1);
            l.made("Slice", &[weight, start, end, axis], None, shape)
        }
    };
    Ok(l.made("Add", &[x.id, vectors.id], None, x.shape.clone()))
}

/// `torch.arange(x.size(1))`.
fn positions(l: &mut Lowering<'_>, x: &Tensor, length: Size) -> ValueId {
    let (start, step) = (l.builder.int(0), l.builder.int(1));
    let end = match length {
        Size { number: Some(n), open: false } => l.builder.int(signed(n)),
        _ => extent(l, x, 1),
    };
    l.made("Range", &[start, end, step], None, vec![length]).id
}

/// `x.shape[axis:axis + 1]`, which Python knows.
fn extent(l: &mut Lowering<'_>, x: &Tensor, axis: i64) -> ValueId {
    let bounds = [("start", axis), ("end", axis.saturating_add(1))];
    let bounds = bounds.map(|(name, n)| (name, Attribute::Int(n)));
    l.made("Shape", &[x.id], bounds, vec![Size::known(1)]).id
}

/// `torch.cat([token.expand(N, -1, -1), x], dim=1)`.
pub(in super::super::super) fn class_token(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let [_, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), &say!("the width of what comes in"))?;
    let token = l.parameter("weight", &[1, 1, width])?;
    let (batch, rest) = (extent(l, x, 0), l.builder.ints(&[1, signed(width)]));
    let axis = Some(("axis", Attribute::Int(0)));
    let target = l.made("Concat", &[batch, rest], axis, vec![Size::known(3)]).id;
    let shape = vec![first(x), Size::known(1), Size::known(width)];
    let token = l.made("Expand", &[token, target], None, shape);
    l.concat(&[token, x.clone()], 1)
}

pub(in super::super::super) fn patch_embed(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, 2)?;
    let (out, patch) = (a.number("embed_dim").unwrap_or(1), window(l, a, "patch_size", 2)?);
    if patch.contains(&0) {
        return Err(l.fault(say!("`patch_size` is a number from 1")));
    }
    let sides = x.shape.iter().skip(2).zip(&patch);
    let sides: Vec<Size> =
        sides.map(|(size, &side)| size.map(|n| n.checked_div_euclid(side))).collect();
    if sides.iter().any(|size| size.number == Some(0)) {
        return Err(l.fault(say!(
            "a patch of {patch} does not fit into {shown}",
            patch = format!("{patch:?}"),
            shown = x.shown()
        )));
    }
    let picture = l.within("proj", |l| {
        let dims: Vec<u64> = [out, channels].into_iter().chain(patch.iter().copied()).collect();
        let inputs = [x.id, l.parameter("weight", &dims)?, l.parameter("bias", &[out])?];
        let attributes = [("kernel_shape", ints(patch.clone())), ("strides", ints(patch.clone()))];
        let shape = [first(x), Size::known(out)].into_iter().chain(sides.clone()).collect();
        Ok(l.made("Conv", &inputs, attributes, shape))
    })?;
    let rows = flat(l, &picture, 2, 3)?;
    Ok(permuted(l, &rows, &[0, 2, 1]))
}
