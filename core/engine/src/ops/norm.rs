//! Normalizations: the output has the type of the input, statistics are further outputs.
//!
//! <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html> (training form with three
//! outputs since operator set 14, five in 1 to 13), `onnx__LayerNormalization.html`,
//! `onnx__InstanceNormalization.html`, `onnx__GroupNormalization.html`,
//! `onnx__RMSNormalization.html`, `onnx__LpNormalization.html`, `onnx__LRN.html`.

use super::Call;
use super::formula::{run_as, spelled};
use super::shape_math::{self, dim, dtype_attribute, like_first};
use super::{Inference, OpError, Operator, op, torch};
use crate::aten::formula::Value;
use crate::aten::norm as aten;
use crate::eager::kernels;
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    op("BatchNormalization", 3..=5, batch_norm).runs(batch_norm_rule),
    op("GroupNormalization", 3..=3, like_first).runs(group_norm_rule),
    op("InstanceNormalization", 1..=3, like_first).runs(instance_norm_rule),
    op("LRN", 1..=1, like_first).runs(spelled),
    torch("LayerNorm", 1..=3).runs(layer_norm_rule),
    op("LayerNormalization", 2..=3, layer_norm).runs(layer_norm_rule),
    op("LpNormalization", 1..=1, like_first).runs(lp_normalization_rule).unproven(),
    op("MeanVarianceNormalization", 1..=1, like_first).runs(spelled),
    op("RMSNormalization", 2..=2, like_first).runs(rms_norm_rule),
];

/// `Y`, then mean and variance of the batch, per channel.
fn batch_norm(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, scale) = (inference.input(0)?, inference.input(1)?);
    let mean = inference.optional(3).unwrap_or(scale);
    let channels = dim(&x.dims, 1);
    if x.rank() >= 2 && scale.dims.as_slice() != [channels] {
        return Err(OpError::new(say!(
            "{channels} channels where the scale is {scale}",
            channels,
            scale
        )));
    }
    if x.rank() >= 2 {
        for (position, name) in [(2, "bias"), (3, "mean"), (4, "variance")] {
            shape_math::per_channel(inference.optional(position), name, channels)?;
        }
    }
    inference.set(0, x.clone());
    for position in 1..inference.n_outputs() {
        inference.set(position, mean.clone());
    }
    Ok(())
}

/// `Y`, then mean and inverse deviation with the normalized dimensions as 1.
fn layer_norm(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let axis = shape_math::axis(inference.node.int("axis").unwrap_or(-1), x.rank())?;
    inference.set(0, x.clone());
    let dtype = dtype_attribute(inference, "stash_type")?.unwrap_or(DType::Float32);
    let kept = x.dims.iter().enumerate().map(|(i, &d)| if i < axis { d } else { 1 });
    let statistics = TensorType::new(dtype, kept.collect::<Vec<_>>());
    inference.set(1, statistics.clone());
    inference.set(2, statistics);
    Ok(())
}

/// `F.normalize(x, p, dim)`.
fn lp_normalization_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let stated = |name, default| Value::Int(call.node.int(name).unwrap_or(default));
    let (p, axis) = (stated("p", 2), stated("axis", -1));
    run_as(call, "normalize", vec![Value::Tensor(x), p, axis])
}

fn batch_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.tensor(1), call.tensor(2));
    let is_native = call.node.int("native").is_some_and(|n| n != 0);
    if call.node.int("updates") == Some(1) && x.rank() < 3 {
        call.is_unproven();
    }
    let kind = aten::BatchNorm { is_tracked: call.tensor(3).is_some(), is_native };
    let y = aten::batch_norm(call.rt, &x, weight.as_ref(), bias.as_ref(), kind);
    call.set(0, y);
    Ok(())
}

/// COUNT: elements per normalised row, from `axis`.
fn row_width(call: &Call<'_>) -> Result<u64, OpError> {
    let dims = &call.input_type(0)?.dims;
    let axis = shape_math::axis(call.node.int("axis").unwrap_or(-1), dims.len())?;
    Ok(crate::tensor::numel(shape_math::from(dims, axis)))
}

fn layer_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.tensor(1), call.tensor(2));
    let width = row_width(call)?;
    let rt = call.rt;
    let norm =
        |x, weight: Option<&_>, bias: Option<&_>| aten::layer_norm(rt, x, width, weight, bias);
    let low = rt.autocast_type().filter(|_| call.node.int("lowered") == Some(1));
    let y = match low {
        // A module that casts to the type of autocast itself, and turns it off.
        Some(low) => {
            let cast = |x: &_| kernels::cast(rt, x, low);
            let (x, weight, bias) = (cast(&x), weight.as_ref().map(cast), bias.as_ref().map(cast));
            rt.autocast_off(|| norm(&x, weight.as_ref(), bias.as_ref()))
        }
        None => norm(&x, weight.as_ref(), bias.as_ref()),
    };
    call.set(0, y);
    Ok(())
}

pub(super) fn rms_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight) = (call.need(0)?, call.tensor(1));
    let width = row_width(call)?;
    let y = aten::rms_norm(call.rt, &x, width, weight.as_ref());
    call.set(0, y);
    Ok(())
}

fn group_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.tensor(1), call.tensor(2));
    let groups = call.node.int("num_groups").and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
    let y = aten::group_norm(call.rt, &x, groups, weight.as_ref(), bias.as_ref());
    call.set(0, y);
    Ok(())
}

fn instance_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.tensor(1), call.tensor(2));
    let statistics = call.tensor(3);
    let y = aten::instance_norm(call.rt, &x, weight.as_ref(), bias.as_ref(), statistics.as_ref());
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events};

    #[test]
    fn the_input_and_its_statistics_are_saved() {
        expect![[r"
            aten::native_layer_norm: +a 192 +b 24 +c 24
            drop: -a
            aten::ones_like: +d 4
            gradient: +e 192
            NativeLayerNormBackward0: +f 192 +g 32 +h 32 -e -b -c
            AccumulateGrad: -d
        "]]
        .assert_eq(&events("LayerNormalization float32[2,3,8] float32[8] float32[8]"));
        expect![[r"
            aten::native_layer_norm: +a 192 +b 24 +c 24
            drop: -a
            aten::ones_like: +d 4
            gradient: +e 192
            NativeLayerNormBackward0: +f 192 +g 32 -e -b -c
            AccumulateGrad: -d
        "]]
        .assert_eq(&events("LayerNormalization float32[2,3,8] float32[8]"));
        expect![[r"
            aten::native_layer_norm: +a 192 +b 24 +c 24
            drop: -a
            aten::ones_like: +d 4
            gradient: +e 192
            NativeLayerNormBackward0: +f 192 -e -b -c
            AccumulateGrad: -d
        "]]
        .assert_eq(&events("torch.LayerNorm float32[2,3,8]"));
        expect![[r"
            aten::_fused_rms_norm: +a 192 +b 24
            drop: -a
            aten::ones_like: +c 4
            gradient: +d 192
            FusedRmsNormBackward0: +e 192 +f 32 -d -b
            AccumulateGrad: -c
        "]]
        .assert_eq(&events("RMSNormalization float32[2,3,8] float32[8]"));
        expect![[r"
            aten::native_group_norm: +a 256 +b 16 +c 16 +d 32 +e 32 -d -e
            drop: -a
            aten::ones_like: +f 4
            gradient: +g 256
            aten::native_group_norm_backward: +h 256 +i 16 +j 16 +k 32 +l 32 +m 16 +n 16 +o 32 -k -l -m -n -o -g -b -c
            AccumulateGrad: -f
        "]].assert_eq(&events(
            "GroupNormalization float32[2,4,8] float32[4] float32[4] num_groups=2",
        ));
        expect![[r"
            aten::repeat: +a 32 +b 32
            aten::batch_norm: +c 2048 +d 32 +e 32 -b
            drop: -c
            aten::ones_like: +f 4
            gradient: +g 2048
            CudnnBatchNormBackward0: +h 2048 +i 32 +j 32 -g -d -e -a
            aten::repeat: +k 16 -j +l 16 -i
            AccumulateGrad: -f
        "]]
        .assert_eq(&events("InstanceNormalization float32[2,4,8,8] float32[4] float32[4]"));
        expect![[r"
            aten::batch_norm: +a 2048 +b 16 +c 16
            drop: -a
            aten::ones_like: +d 4
            gradient: +e 2048
            CudnnBatchNormBackward0: +f 2048 +g 16 +h 16 -e -b -c
            AccumulateGrad: -d
        "]].assert_eq(&events(
            "BatchNormalization float32[2,4,8,8] float32[4] float32[4] float32[4] float32[4] training_mode=1",
        ));
    }

    #[test]
    fn shapes() {
        for (call, expected) in [
            (
                "BatchNormalization float32[2,64,56,56] float32[64] float32[64] float32[64] float32[64] training_mode=1",
                "float32[2,64,56,56] float32[64] float32[64]",
            ),
            (
                "BatchNormalization float32[2,64,56,56] float32[32] float32[32] float32[32] float32[32]",
                "error: 64 channels",
            ),
            (
                "LayerNormalization float16[2,64,768] float16[768] float16[768]",
                "float16[2,64,768] float32[2,64,1] float32[2,64,1]",
            ),
            (
                "LayerNormalization float32[2,3,4] float32[3,4] axis=1",
                "float32[2,3,4] float32[2,1,1]",
            ),
            (
                "GroupNormalization float32[2,32,8,8] float32[32] float32[32] num_groups=4",
                "float32[2,32,8,8]",
            ),
            ("RMSNormalization float32[2,64,768] float32[768]", "float32[2,64,768]"),
            ("torch.LayerNorm float16[2,64,768]", "float16[2,64,768]"),
        ] {
            check(call, expected);
        }
    }
}
