//! Moving, cutting and joining: the same elements in another order, or some of them.
//!
//! <https://onnx.ai/onnx/operators/onnx__Transpose.html>, `onnx__Concat.html`, `onnx__Split.html`
//! (sizes are an input since operator set 13, `num_outputs` since 18), `onnx__Slice.html` (bounds
//! are inputs since 10), `onnx__Tile.html`, `onnx__Pad.html` (inputs since 11, axes since 18),
//! `onnx__DepthToSpace.html`, `onnx__Trilu.html`, `onnx__CenterCropPad.html`.

use super::formula::{ints, run_as, spelled};
use super::run::resampled;
use super::shape_math::{
    axis, axis_mask, before, dim, exact_div, from, like_first, signed, signed_len, size, sizes,
    with,
};
use super::{Call, torch};
use super::{Inference, MANY, OpError, Operator, fold, op};
use crate::aten::formula::Value;
use crate::aten::{elementwise, view};
use crate::tensor::Dims;

pub(super) const TABLE: &[Operator] = &[
    torch("Contiguous", 1..=1).runs(contiguous_rule),
    torch("Detach", 1..=1).runs(detach_rule),
    torch("Flip", 1..=1).runs(|c| resampled(c, "aten::flip")),
    torch("Roll", 1..=1).runs(roll_rule),
    torch("Split", 1..=1).runs(split_rule),
    op("CenterCropPad", 2..=2, center_crop_pad).runs(spelled).numbers_from(1),
    op("Concat", 1..=MANY, concat).runs(concat_rule),
    op("DepthToSpace", 1..=1, depth_to_space).runs(|c| resampled(c, "aten::pixel_shuffle")),
    op("Pad", 1..=4, pad).runs(pad_rule).numbers_from(1),
    op("ReverseSequence", 2..=2, like_first).runs(|c| resampled(c, "aten::flip")),
    op("Slice", 1..=5, slice).runs(slice_rule).numbers_from(1),
    op("SpaceToDepth", 1..=1, space_to_depth).runs(|c| resampled(c, "aten::pixel_unshuffle")),
    op("Split", 1..=2, split).runs(split_rule).numbers_from(1),
    op("Tile", 2..=3, tile).runs(tile_rule).numbers_from(1),
    op("Transpose", 1..=1, transpose).runs(transpose_rule),
    op("Trilu", 1..=2, like_first).runs(|c| pointwise_like(c, "aten::tril")),
];

/// Folds output 0 from positions in input 0.
fn fold_positions(inference: &mut Inference<'_>, start: i64, steps: &[i64]) {
    if let (Some(elements), Some(out)) = (inference.elements(0), inference.output(0))
        && let Some(positions) = fold::strided_positions(&out.dims, start, steps)
        && let Some(folded) = elements.pick(&positions)
    {
        inference.set_elements(0, folded);
    }
}

/// The same memory without its history.
fn detach_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    call.rt.enter_operator("aten::detach");
    call.set(0, call.need(0)?.detach());
    Ok(())
}

/// Without `perm`, the order of the dimensions is reversed.
fn transpose(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let order = match inference.node.ints("perm") {
        None => (0..x.rank()).rev().collect::<Vec<_>>(),
        Some(perm) => {
            let seen = axis_mask(perm, x.rank())?;
            if perm.len() != x.rank() || seen.contains(&false) {
                return Err(OpError::new(say!(
                    "{perm} is no order of {rank} axes",
                    perm = format!("{perm:?}"),
                    rank = x.rank()
                )));
            }
            perm.iter().map(|&a| axis(a, x.rank())).collect::<Result<_, _>>()?
        }
    };
    let dims: Dims = order.iter().map(|&a| dim(&x.dims, a)).collect();
    inference.set_dims(0, x.dtype, dims);
    if inference.elements(0).is_some() {
        let steps = fold::strides(&x.dims);
        let steps: Vec<i64> = order.iter().filter_map(|&a| steps.get(a).copied()).collect();
        fold_positions(inference, 0, &steps);
    }
    Ok(())
}

fn concat(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let first = inference.input(0)?;
    let stated = inference.node.int("axis").unwrap_or(1);
    let axis = axis(stated, first.rank())?;
    let repeats = inference.node.ints("repeats").unwrap_or_default();
    let times = |position: usize| repeats.get(position).map_or(1, |times| times.unsigned_abs());
    let mut total = dim(&first.dims, axis).saturating_mul(times(0));
    for position in 1..inference.n_inputs() {
        let next = inference.input(position)?;
        let alike = next.rank() == first.rank()
            && next.dims.iter().zip(&first.dims).enumerate().all(|(i, (a, b))| i == axis || a == b);
        if !alike {
            return Err(OpError::new(say!(
                "{dims} and {dims_2} differ outside axis {axis}",
                dims = format!("{:?}", first.dims),
                dims_2 = format!("{:?}", next.dims),
                axis
            )));
        }
        let length = dim(&next.dims, axis).saturating_mul(times(position));
        total = total.saturating_add(length);
    }
    inference.set_dims(0, first.dtype, with(&first.dims, axis, total));
    if !repeats.is_empty() {
        return Ok(());
    }
    // Shape arithmetic joins along the outermost dimension: the elements follow one another.
    if first.dims.iter().take(axis).all(|&d| d == 1) && inference.is_small(0) {
        let mut parts = (0..inference.n_inputs()).map(|position| inference.elements(position));
        if let Some(Some(first)) = parts.next() {
            let mut joined = first.clone();
            if parts.all(|part| part.and_then(|part| joined.append(part)).is_some()) {
                inference.set_elements(0, joined);
            }
        }
    }
    Ok(())
}

fn split(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let axis = axis(inference.node.int("axis").unwrap_or(0), x.rank())?;
    let whole = dim(&x.dims, axis);
    let count = inference.n_outputs();
    // A long list is not kept; so many parts have one element each.
    let is_all = u64::try_from(count) == Ok(whole);
    let parts = match inference.ints_from("split", 1) {
        Ok(Some(stated)) => sizes(stated)?.into_vec(),
        Err(error) if !is_all => return Err(error),
        _ => even_parts(whole, count),
    };
    let sum = parts.iter().fold(0_u64, |sum, &part| sum.saturating_add(part));
    let enough = parts.len() >= inference.n_outputs();
    if sum != whole || !enough {
        return Err(OpError::new(say!(
            "parts {parts} of a dimension of {whole}",
            parts = format!("{parts:?}"),
            whole
        )));
    }
    let steps = fold::strides(&x.dims);
    let step = steps.get(axis).copied().unwrap_or(1);
    let mut start = 0_i64;
    for (position, &part) in parts.iter().enumerate() {
        let dims = with(&x.dims, axis, part);
        let folded = inference
            .elements(0)
            .and_then(|elements| elements.pick(&fold::strided_positions(&dims, start, &steps)?));
        inference.set_dims(position, x.dtype, dims);
        if let Some(folded) = folded {
            inference.set_elements(position, folded);
        }
        start = start.saturating_add(signed(part).saturating_mul(step));
    }
    Ok(())
}

/// Equal parts; the last is smaller where they do not divide.
fn even_parts(whole: u64, count: usize) -> Vec<u64> {
    let n = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
    let part = whole.div_ceil(n);
    let mut left = whole;
    (0..count)
        .map(|_| {
            let here = part.min(left);
            left = left.saturating_sub(here);
            here
        })
        .collect()
}

/// Bounds of one axis of a slice: where it begins, how far apart, how many.
fn span(whole: u64, start: i64, end: i64, step: i64) -> Option<(i64, i64, u64)> {
    let whole = signed(whole);
    let clamp = |n: i64, low: i64, high: i64| {
        let n = if n < 0 { n.saturating_add(whole) } else { n };
        n.clamp(low, high.max(low))
    };
    let (start, distance) = if step > 0 {
        let start = clamp(start, 0, whole);
        (start, clamp(end, 0, whole).saturating_sub(start))
    } else {
        let start = clamp(start, 0, whole.saturating_sub(1));
        (start, start.saturating_sub(clamp(end, -1, whole.saturating_sub(1))))
    };
    let distance = u64::try_from(distance.max(0)).ok()?;
    let step_size = step.unsigned_abs();
    (step_size != 0).then(|| (start, step, distance.div_ceil(step_size)))
}

/// `Slice(data, starts, ends, axes, steps)`.
fn slice(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let missing = || OpError::new(say!("no bounds are stated"));
    let starts = inference.ints_from("starts", 1)?.ok_or_else(missing)?;
    let ends = inference.ints_from("ends", 2)?.ok_or_else(missing)?;
    let axes = inference.ints_from("axes", 3)?;
    let steps = inference.ints_from("steps", 4)?;
    if starts.len() != ends.len() || axes.is_some_and(|axes| axes.len() != starts.len()) {
        return Err(OpError::new(say!("starts, ends and axes differ in number")));
    }
    let mut dims = x.dims.clone();
    let mut strides = fold::strides(&x.dims);
    let mut offset = 0_i64;
    for (position, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let stated = axes.and_then(|axes| axes.get(position).copied());
        let axis = axis(stated.unwrap_or_else(|| signed_len(position)), x.rank())?;
        let step = steps.and_then(|steps| steps.get(position).copied()).unwrap_or(1);
        let (start, step, count) = span(dim(&x.dims, axis), start, end, step)
            .ok_or_else(|| OpError::new(say!("a step of 0 is invalid")))?;
        if let (Some(d), Some(stride)) = (dims.get_mut(axis), strides.get_mut(axis)) {
            *d = count;
            offset = offset.saturating_add(start.saturating_mul(*stride));
            *stride = stride.saturating_mul(step);
        }
    }
    inference.set_dims(0, x.dtype, dims);
    fold_positions(inference, offset, &strides);
    Ok(())
}

/// `Tile(X, repeats)`; before operator set 6, one number and one axis.
fn tile(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let repeats = sizes(inference.needed_ints(1)?)?;
    if repeats.len() != x.rank() {
        return Err(OpError::new(say!(
            "{n} repeats for rank {rank}",
            n = repeats.len(),
            rank = x.rank()
        )));
    }
    let dims: Dims = x.dims.iter().zip(&repeats).map(|(d, r)| d.saturating_mul(*r)).collect();
    inference.set_dims(0, x.dtype, dims);
    // A vector or a single row is all that shape arithmetic repeats.
    if repeats.iter().all(|&r| r == 1) || x.numel() == 0 {
        fold::keep(inference);
    } else if let (Some(elements), true) = (inference.elements(0), inference.is_small(0))
        && from(&repeats, 1).iter().all(|&r| r == 1)
        && let Some(&times) = repeats.first()
    {
        let each: Vec<usize> = (0..elements.len()).collect();
        let positions: Vec<usize> = (0..times).flat_map(|_| each.iter().copied()).collect();
        if let Some(folded) = elements.pick(&positions) {
            inference.set_elements(0, folded);
        }
    }
    Ok(())
}

/// `Pad(data, pads, value, axes)`: fronts of all axes, then backs; negative cuts.
fn pad(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let name = if inference.node.ints("paddings").is_some() { "paddings" } else { "pads" };
    let pads =
        inference.ints_from(name, 1)?.ok_or_else(|| OpError::new(say!("`pads` is missing")))?;
    let every: Vec<i64> = (0..signed_len(x.rank())).collect();
    let axes = match inference.node.input(3) {
        Some(_) => inference.needed_ints(3)?,
        None => &every,
    };
    if pads.len() != axes.len().saturating_mul(2) {
        return Err(OpError::new(say!(
            "{n} pads for {axes} axes",
            n = pads.len(),
            axes = axes.len()
        )));
    }
    let mut dims = x.dims.clone();
    let backs = pads.iter().skip(axes.len());
    for (&a, (&front, &back)) in axes.iter().zip(pads.iter().zip(backs)) {
        if let Some(d) = dims.get_mut(axis(a, x.rank())?) {
            let padded = d.checked_add_signed(front.saturating_add(back));
            *d = padded.ok_or_else(|| {
                OpError::new(say!("pads {pads} leave nothing", pads = format!("{pads:?}")))
            })?;
        }
    }
    inference.set_dims(0, x.dtype, dims);
    if pads.iter().all(|&n| n == 0) {
        fold::keep(inference);
    }
    Ok(())
}

fn block(inference: &Inference<'_>) -> Result<u64, OpError> {
    let stated = inference.node.int("blocksize");
    size(stated.ok_or_else(|| OpError::new(say!("`blocksize` is missing")))?)
}

/// `[N, C, H, W]` to `[N, C / b², H * b, W * b]`.
fn depth_to_space(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let b = block(inference)?;
    let &[n, c, h, w] = x.dims.as_slice() else {
        return Err(OpError::new(say!("the input must have four dimensions")));
    };
    let c = exact_div(c, b.saturating_mul(b))
        .ok_or_else(|| OpError::new(say!("blocks of {b} do not divide {c} channels", b, c)))?;
    inference.set_dims(0, x.dtype, [n, c, h.saturating_mul(b), w.saturating_mul(b)]);
    Ok(())
}

/// `[N, C, H, W]` to `[N, C * b², H / b, W / b]`.
fn space_to_depth(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let b = block(inference)?;
    let &[n, c, h, w] = x.dims.as_slice() else {
        return Err(OpError::new(say!("the input must have four dimensions")));
    };
    let (Some(h), Some(w)) = (exact_div(h, b), exact_div(w, b)) else {
        return Err(OpError::new(say!("blocks of {b} do not divide {h} by {w}", b, h, w)));
    };
    inference.set_dims(0, x.dtype, [n, c.saturating_mul(b).saturating_mul(b), h, w]);
    Ok(())
}

/// The stated axes get the stated sizes.
fn center_crop_pad(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let target = sizes(inference.needed_ints(1)?)?;
    let every: Vec<i64> = (0..signed_len(x.rank())).collect();
    let axes = inference.node.ints("axes").unwrap_or(&every);
    let mut dims = Dims::from_slice(before(&x.dims, x.rank()));
    for (&a, &size) in axes.iter().zip(&target) {
        dims = with(&dims, axis(a, x.rank())?, size);
    }
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

fn concat_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let dims = &call.output_type(0)?.dims;
    let axis = axis(call.node.int("axis").unwrap_or(0), dims.len())?;
    let pieces: Vec<_> =
        (0..call.node.inputs.len()).map(|i| call.need(i)).collect::<Result<_, _>>()?;
    let total = dim(dims, axis);
    let y = view::cat_to(call.rt, &pieces.iter().collect::<Vec<_>>(), axis, total);
    call.set(0, y);
    Ok(())
}

fn split_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let axis = axis(call.node.int("axis").unwrap_or(0), x.rank())?;
    let lengths: Vec<u64> = (0..call.node.outputs.len())
        .map(|position| call.output_type(position).map(|ty| dim_of(&ty.dims, axis)))
        .collect::<Result<_, _>>()?;
    if lengths.contains(&0) {
        call.is_unproven();
    }
    for (position, piece) in view::split(call.rt, &x, axis, &lengths).into_iter().enumerate() {
        call.set(position, piece);
    }
    Ok(())
}

fn dim_of(dims: &[u64], axis: usize) -> u64 {
    dim(dims, axis)
}

/// One view per sliced axis, as Python's `x[a:b, c:d]` makes them.
fn slice_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    if call.ints(4).is_some_and(|steps| steps.iter().any(|&step| step < 0)) {
        // PyTorch has no views that run backwards.
        return resampled(call, "aten::flip");
    }
    let mut y = call.need(0)?;
    let steps: Vec<u64> =
        call.ints(4).unwrap_or_default().iter().map(|step| step.unsigned_abs()).collect();
    let axes = call.node.ints("axes").or_else(|| call.ints(3)).unwrap_or_default();
    let dims = &call.output_type(0)?.dims;
    for (axis, &length) in dims.iter().enumerate() {
        let position =
            axes.iter().position(|&a| super::shape_math::axis(a, dims.len()) == Ok(axis));
        let step = position.and_then(|at| steps.get(at)).copied().unwrap_or(1);
        y = view::slice(call.rt, &y, axis, length, step);
    }
    call.set(0, y);
    Ok(())
}

/// `Tensor.repeat`.
fn tile_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let Some(repeats) = call.ints(1) else { return resampled(call, "aten::repeat") };
    let repeats = ints(repeats);
    let x = call.need(0)?;
    run_as(call, "repeat", vec![Value::Tensor(x), repeats])
}

/// `Tensor.contiguous`, recovered.
fn contiguous_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let y = view::contiguous(call.rt, &x);
    call.set(0, y);
    Ok(())
}

/// `torch.roll` along as many dimensions as `dims` says, one where it is not stated.
fn roll_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let dims = call.node.int("dims").and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    let y = view::roll(call.rt, &x, dims);
    call.set(0, y);
    Ok(())
}

fn transpose_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let order: Vec<usize> = match call.node.ints("perm") {
        Some(order) => order.iter().map(|&n| axis(n, x.rank())).collect::<Result<_, _>>()?,
        None => (0..x.rank()).rev().collect(),
    };
    let y = view::permute(call.rt, &x, &order);
    call.set(0, y);
    Ok(())
}

fn pad_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let dims = &call.output_type(0)?.dims;
    let y = match call.node.string("mode") {
        None | Some("constant") => view::resample(call.rt, "aten::constant_pad_nd", &x, dims),
        Some("wrap") => view::pad_circular(call.rt, &x, &pads_of(call, x.rank())),
        Some("edge" | "replicate") => {
            view::keeping_input(call.rt, "aten::replication_pad2d", &x, dims)
        }
        Some(_) => {
            let y = view::keeping_input(call.rt, "aten::reflection_pad2d", &x, dims);
            drop(call.rt.no_grad(|| view::contiguous(call.rt, &x)));
            y
        }
    };
    call.set(0, y);
    Ok(())
}

/// Pads in front and behind of every dimension; those that take something away count as none.
fn pads_of(call: &Call<'_>, rank: usize) -> Vec<(u64, u64)> {
    let pads = call.node.ints("pads").or_else(|| call.ints(1)).unwrap_or_default();
    let axes = call.ints(3);
    let half = pads.len().div_euclid(2);
    let mut of_dims = vec![(0, 0); rank];
    for (at, (&front, &back)) in pads.iter().zip(pads.iter().skip(half)).take(half).enumerate() {
        let named = axes.and_then(|axes| axes.get(at)).and_then(|&a| axis(a, rank).ok());
        if let Some(slot) = of_dims.get_mut(named.unwrap_or(at)) {
            *slot = (u64::try_from(front).unwrap_or(0), u64::try_from(back).unwrap_or(0));
        }
    }
    of_dims
}

fn pointwise_like(call: &mut Call<'_>, name: &'static str) -> Result<(), OpError> {
    let op = elementwise::Unary::saves_nothing(name).node("TrilBackward0");
    let x = call.need(0)?;
    let run = if call.overwrites() { elementwise::unary_in_place } else { elementwise::unary };
    let y = run(call.rt, op, &x);
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Transpose float32[2,3,4]", "float32[4,3,2]"),
            ("Transpose float32[2,3,4] perm=[0,2,1]", "float32[2,4,3]"),
            ("Transpose int64[2,2]:1,2,3,4", "int64[2,2]:1,3,2,4"),
            ("Transpose float32[2,3] perm=[0,0]", "error: no order"),
            ("Concat float32[2,3] float32[2,5] axis=-1", "float32[2,8]"),
            ("Concat int64[1]:2 int64[2]:3,4 axis=0", "int64[3]:2,3,4"),
            ("Concat int64[1]:2 int64[1] axis=0", "int64[2]"),
            ("Concat float32[2,3] float32[3,3] axis=1", "error: differ outside axis 1"),
            ("Split float32[2,10] axis=1 int64[2]:4,6", "float32[2,4] float32[2,6]"),
            ("Split float32[2,10] axis=1 num_outputs=3", "float32[2,4] float32[2,4] float32[2,2]"),
            ("Split int64[3]:7,8,9 split=[1,2] @11", "int64[1]:7 int64[2]:8,9"),
            ("Split float32[2,10] axis=1 int64[2]:4,5", "error: parts [4, 5]"),
            ("Slice float32[2,10] int64[1]:1 int64[1]:-1 int64[1]:1", "float32[2,8]"),
            (
                "Slice float32[2,10] int64[1]:-1 int64[1]:-9223372036854775807 int64[1]:1 int64[1]:-2",
                "float32[2,5]",
            ),
            (
                "Slice int64[4]:1,2,3,4 int64[1]:-1 int64[1]:-9223372036854775807 int64[1]:0 int64[1]:-1",
                "int64[4]:4,3,2,1",
            ),
            ("Slice int64[2,2]:1,2,3,4 int64[1]:1 int64[1]:9 int64[1]:1", "int64[2,1]:2,4"),
            ("Slice float32[2,10] starts=[0,5] ends=[1,7] @9", "float32[1,2]"),
            ("Slice float32[10] int64[1]:8 int64[1]:2 int64[1]:0", "float32[0]"),
            ("Slice float32[10] int64[1] int64[1]:2", "error: contents of input 1"),
            ("Slice float32[10] int64[1]:0 int64[1]:2 - int64[1]:0", "error: step of 0"),
            ("Tile float32[2,3] int64[2]:2,1", "float32[4,3]"),
            ("Tile int64[2]:1,2 int64[1]:2", "int64[4]:1,2,1,2"),
            ("Tile int64[0]: int64[1]:9223372036854775807", "int64[0]:"),
            ("Pad float32[1,3,8,8] int64[8]:0,0,1,2,0,0,3,4", "float32[1,3,12,14]"),
            ("Pad float32[4] int64[2]:-1,-1", "float32[2]"),
            ("Pad float32[2,8] int64[2]:1,1 - int64[1]:-1", "float32[2,10]"),
            ("Pad float32[4] int64[2]:-3,-3", "error: leave nothing"),
            ("DepthToSpace float32[1,8,2,3] blocksize=2", "float32[1,2,4,6]"),
            ("SpaceToDepth float32[1,2,4,6] blocksize=2", "float32[1,8,2,3]"),
            ("DepthToSpace float32[1,6,2,3] blocksize=2", "error: do not divide 6"),
            ("Trilu float32[4,4] int64[]:0", "float32[4,4]"),
            ("CenterCropPad float32[10,7,3] int64[2]:4,8 axes=[0,1]", "float32[4,8,3]"),
        ] {
            check(call, expected);
        }
    }
}
