//! Images: resampling, regions, and spectra.
//!
//! <https://onnx.ai/onnx/operators/onnx__Resize.html> (scales only in operator set 10, regions and
//! sizes since 11, axes and `keep_aspect_ratio_policy` since 18), `onnx__Upsample.html`,
//! `onnx__GridSample.html`, `onnx__AffineGrid.html`, `onnx__RoiAlign.html`, `onnx__MaxRoiPool.html`,
//! `onnx__NonMaxSuppression.html`, `onnx__DFT.html`, `onnx__STFT.html`.

use super::fold::{float, truncate, widen};
use super::formula::{run_as, spelled};
use super::run::{fresh, resampled};
use super::shape_math::{axis, before, dim, from, signed, signed_len, size, sizes, with};
use super::{Call, Inference, OpError, Operator, op};
use crate::aten::formula::Value;
use crate::graph::Elements;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    op("AffineGrid", 2..=2, affine_grid).runs(spelled).numbers_from(1),
    op("DFT", 1..=3, dft).runs(spelled).numbers_from(1),
    op("GridSample", 2..=2, grid_sample).runs(grid_sample_rule),
    op("MaxRoiPool", 2..=2, max_roi_pool).unmodelled(),
    op("NonMaxSuppression", 2..=5, non_max_suppression).runs(fresh).unproven(),
    op("Resize", 1..=4, resize).runs(|c| resampled(c, "aten::upsample")).numbers_from(1),
    op("RoiAlign", 3..=3, roi_align).runs(spelled),
    op("STFT", 2..=4, stft).runs(spelled),
    op("Upsample", 1..=2, upsample).runs(|c| resampled(c, "aten::upsample")).numbers_from(1),
];

fn scaled(size: u64, scale: f64) -> u64 {
    let grown = float::mul(widen(signed(size)), scale).floor();
    u64::try_from(truncate(grown)).unwrap_or(0)
}

/// Scales at this position, where they are given and not empty.
fn scales<'a>(inference: &Inference<'a>, position: usize) -> Result<Option<&'a [f64]>, OpError> {
    match inference.elements(position) {
        Some(Elements::Floats(list)) if !list.is_empty() => Ok(Some(list)),
        Some(_) => Ok(None),
        None => match inference.optional(position) {
            Some(ty) if ty.numel() == 0 => Ok(None),
            None => Ok(None),
            Some(_) => Err(OpError::new(say!("the scales are only known while it runs"))),
        },
    }
}

fn scale_axes(inference: &mut Inference<'_>, axes: &[i64], scales: &[f64]) -> Result<(), OpError> {
    let x = inference.input(0)?;
    if scales.len() != axes.len() {
        return Err(OpError::new(say!(
            "{n} scales for {axes} axes",
            n = scales.len(),
            axes = axes.len()
        )));
    }
    let mut dims = x.dims.clone();
    for (&a, &scale) in axes.iter().zip(scales) {
        if let Some(d) = dims.get_mut(axis(a, x.rank())?) {
            *d = scaled(*d, scale);
        }
    }
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `Resize(X, roi, scales, sizes)`.
fn resize(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let every: Vec<i64> = (0..signed_len(x.rank())).collect();
    if inference.opset < 11 && inference.n_inputs() == 2 {
        let scales =
            scales(inference, 1)?.ok_or_else(|| OpError::new(say!("no scales are stated")))?;
        return scale_axes(inference, &every, scales);
    }
    let axes = inference.node.ints("axes").unwrap_or(&every);
    if inference.node.input(3).is_some() {
        let target = sizes(inference.needed_ints(3)?)?;
        if !target.is_empty() {
            return resize_to(inference, axes, &target);
        }
    }
    let scales = scales(inference, 2)?;
    scale_axes(inference, axes, scales.ok_or_else(|| OpError::new(say!("no scales are stated")))?)
}

/// With a policy for the aspect ratio, one scale holds for all axes.
fn resize_to(inference: &mut Inference<'_>, axes: &[i64], target: &[u64]) -> Result<(), OpError> {
    let x = inference.input(0)?;
    if target.len() != axes.len() {
        return Err(OpError::new(say!(
            "{n} sizes for {axes} axes",
            n = target.len(),
            axes = axes.len()
        )));
    }
    let mut dims = x.dims.clone();
    let policy = inference.node.string("keep_aspect_ratio_policy").unwrap_or("stretch");
    let mut common: Option<f64> = None;
    for (&a, &size) in axes.iter().zip(target) {
        let now = dim(&x.dims, axis(a, x.rank())?);
        let scale = float::div(widen(signed(size)), widen(signed(now)));
        common = Some(match (common, policy) {
            (None, _) => scale,
            (Some(before), "not_larger") => before.min(scale),
            (Some(before), _) => before.max(scale),
        });
    }
    for (&a, &size) in axes.iter().zip(target) {
        let position = axis(a, x.rank())?;
        let rounded = |scale| {
            let grown = float::mul(widen(signed(dim(&x.dims, position))), scale);
            u64::try_from(truncate(float::add(grown, 0.5).floor())).unwrap_or(0)
        };
        let size = match (policy, common) {
            ("stretch", _) | (_, None) => size,
            (_, Some(scale)) => rounded(scale),
        };
        dims = with(&dims, position, size);
    }
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `Upsample(X, scales)`; the scales were an attribute before operator set 9.
fn upsample(inference: &mut Inference<'_>) -> Result<(), OpError> {
    use crate::graph::Attribute;
    let x = inference.input(0)?;
    let every: Vec<i64> = (0..signed_len(x.rank())).collect();
    if let Some(Attribute::Floats(list)) = inference.node.attributes.get("scales") {
        return scale_axes(inference, &every, list);
    }
    let scales = scales(inference, 1)?.ok_or_else(|| OpError::new(say!("no scales are stated")))?;
    scale_axes(inference, &every, scales)
}

/// `X [N, C, spatial…]` at `grid [N, out…, n]`.
fn grid_sample(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, grid) = (inference.input(0)?, inference.input(1)?);
    let mut dims = before(&x.dims, 2).to_vec();
    dims.extend(from(before(&grid.dims, grid.rank().saturating_sub(1)), 1));
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `F.grid_sample`.
fn grid_sample_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, grid) = (call.need(0)?, call.need(1)?);
    run_as(call, "grid_sampler_2d", vec![Value::Tensor(x), Value::Tensor(grid)])
}

/// `[N, spatial…, n]` for `size [N, C, spatial…]`.
fn affine_grid(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
    let target = sizes(inference.needed_ints(1)?)?;
    let spatial = from(&target, 2);
    let mut dims = vec![dim(&target, 0)];
    dims.extend(spatial);
    dims.push(u64::try_from(spatial.len()).unwrap_or(u64::MAX));
    inference.set_dims(0, dtype, dims);
    Ok(())
}

/// `[regions, C, h, w]`.
fn roi_align(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, regions) = (inference.input(0)?, inference.input(1)?);
    let stated = |name| size(inference.node.int(name).unwrap_or(1));
    let dims = vec![
        dim(&regions.dims, 0),
        dim(&x.dims, 1),
        stated("output_height")?,
        stated("output_width")?,
    ];
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

fn max_roi_pool(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, regions) = (inference.input(0)?, inference.input(1)?);
    let mut dims = vec![dim(&regions.dims, 0), dim(&x.dims, 1)];
    dims.extend(sizes(inference.node.ints("pooled_shape").unwrap_or(&[]))?);
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `boxes [N, boxes, 4]`, `scores [N, classes, boxes]` to `[selected, 3]`.
fn non_max_suppression(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let scores = inference.input(1)?;
    let each = inference.ints(2).and_then(|list| list.first().copied()).unwrap_or(i64::MAX);
    let each = size(each.max(0))?.min(dim(&scores.dims, 2));
    inference.assume(say!("the number of selected boxes depends on data; the maximum is assumed"));
    let count = dim(&scores.dims, 0).saturating_mul(dim(&scores.dims, 1)).saturating_mul(each);
    inference.set_dims(0, DType::Int64, [count, 3]);
    Ok(())
}

/// The last dimension becomes 2, real and imaginary; `onesided` keeps half of the signal axis, and its inverse
/// makes real numbers of such a half.
fn dft(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let stated = inference.ints(2).and_then(|list| list.first().copied());
    let default = if inference.opset < 20 { 1 } else { -2 };
    let stated = stated.or_else(|| inference.node.int("axis")).unwrap_or(default);
    let axis = axis(stated, x.rank())?;
    let is_set = |name| inference.node.int(name).unwrap_or(0) != 0;
    let (onesided, inverse) = (is_set("onesided"), is_set("inverse"));
    let length = match inference.node.input(1) {
        Some(_) => size(inference.needed_ints(1)?.first().copied().unwrap_or(0))?,
        None if onesided && inverse => dim(&x.dims, axis).saturating_sub(1).saturating_mul(2),
        None => dim(&x.dims, axis),
    };
    let kept = if onesided && !inverse { (length >> 1).saturating_add(1) } else { length };
    let parts = if onesided && inverse { 1 } else { 2 };
    let dims = with(&with(&x.dims, axis, kept), x.rank().saturating_sub(1), parts);
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `signal [N, L, 1 or 2]` to `[N, frames, bins, 2]`.
fn stft(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let step = size(inference.needed_ints(1)?.first().copied().unwrap_or(0))?;
    let length = match (inference.ints(3), inference.optional(2)) {
        (Some(&[length, ..]), _) => size(length)?,
        (_, Some(window)) => dim(&window.dims, 0),
        _ => return Err(OpError::new(say!("neither window nor frame length is stated"))),
    };
    let bins = if inference.node.int("onesided").unwrap_or(1) != 0 {
        (length >> 1).saturating_add(1)
    } else {
        length
    };
    let span = dim(&x.dims, 1).checked_sub(length);
    let frames = span.and_then(|span| span.checked_div(step)).map(|n| n.saturating_add(1));
    let frames = frames.ok_or_else(|| OpError::new(say!("no frame fits into the signal")))?;
    inference.set_dims(0, x.dtype, [dim(&x.dims, 0), frames, bins, 2]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events_under};
    use crate::tensor::DType;

    #[test]
    fn autocast_upsamples_in_single_precision() {
        let call = "Resize bfloat16[1,4,8,8] - - int64[2]:16,16 axes=[2,3]";
        expect![[r"
            aten::to: +a 1024
            aten::upsample: +b 4096 -a
            drop: -b
            aten::ones_like: +c 4
            gradient: +d 4096
            aten::upsample: +e 1024 -d
            aten::to: +f 512 -e
            AccumulateGrad: -c
        "]]
        .assert_eq(&events_under(call, Some(DType::BFloat16)));
    }

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Resize float32[1,3,10,10] - float32[4]:1,1,2,2", "float32[1,3,20,20]"),
            ("Resize float32[1,3,10,10] - - int64[4]:1,3,7,9", "float32[1,3,7,9]"),
            (
                "Resize float32[1,3,10,20] - - int64[2]:30,30 axes=[2,3] keep_aspect_ratio_policy=not_larger",
                "float32[1,3,15,30]",
            ),
            ("Resize float32[1,3,10,10] float32[4]:1,1,0.55,2 @10", "float32[1,3,5,20]"),
            ("Resize float32[1,3,10,10] - float32[4]", "error: scales are only known"),
            ("Upsample float32[1,3,10,10] scales=[1.0,1.0,2.0,2.0] @7", "float32[1,3,20,20]"),
            ("Upsample float32[1,3,10,10] float32[4]:1,1,2,2 @9", "float32[1,3,20,20]"),
            ("GridSample float32[1,3,10,10] float32[1,6,7,2]", "float32[1,3,6,7]"),
            ("AffineGrid float32[2,2,3] int64[4]:2,3,5,6", "float32[2,5,6,2]"),
            (
                "RoiAlign float32[1,256,50,50] float32[100,4] int64[100] output_height=7 output_width=7",
                "float32[100,256,7,7]",
            ),
            (
                "MaxRoiPool float32[1,256,50,50] float32[100,5] pooled_shape=[7,7]",
                "float32[100,256,7,7]",
            ),
            ("NonMaxSuppression float32[1,50,4] float32[1,80,50] int64[]:10", "int64[800,3]"),
            ("DFT float32[1,10,1] onesided=1 @17", "float32[1,6,2]"),
            ("DFT float32[1,6,10,2] axis=1 onesided=1 inverse=1 @19", "float32[1,10,10,1]"),
            ("DFT float32[1,6,2] int64[]:11 axis=1 onesided=1 inverse=1 @17", "float32[1,11,1]"),
            ("DFT float32[1,6,2] axis=1 inverse=1 @17", "float32[1,6,2]"),
            ("STFT float32[1,128,1] int64[]:8 float32[16]", "float32[1,15,9,2]"),
        ] {
            check(call, expected);
        }
    }
}
