//! Convolutions over `X [N, C, spatial…]`.
//!
//! <https://onnx.ai/onnx/operators/onnx__Conv.html>, `onnx__ConvTranspose.html`,
//! `onnx__DeformConv.html`, `onnx__ConvInteger.html`, `onnx__QLinearConv.html`, `onnx__Col2Im.html`.

use super::Call;
use super::formula::{run_as, spelled};
use super::run::fresh;
use super::shape_math::{
    AutoPad, Windows, before, dim, exact_div, from, per_channel, sizes, spatial,
};
use super::{Inference, OpError, Operator, op};
use crate::aten::conv::{Convolution, convolution};
use crate::aten::elementwise::{Unary, unary};
use crate::aten::formula::Value;
use crate::aten::view;
use crate::eager::Tensor;
use crate::tensor::{DType, Dims, TensorType, numel};

pub(super) const TABLE: &[Operator] = &[
    op("CausalConvWithState", 2..=4, causal_conv).runs(causal_conv_rule).unproven(),
    op("Col2Im", 3..=3, col2im).runs(spelled).numbers_from(1),
    op("Conv", 2..=3, biased_conv).runs(convolution_rule),
    op("ConvInteger", 2..=4, conv_integer).runs(fresh).unproven(),
    op("ConvTranspose", 2..=3, conv_transpose).runs(transposed_rule),
    op("DeformConv", 3..=5, |i| conv(i, WEIGHT)).runs(spelled),
    op("QLinearConv", 8..=9, |i| conv(i, QUANTIZED_WEIGHT)).runs(fresh).unproven(),
];

/// Position of `W [M, C/group, k…]`.
const WEIGHT: usize = 1;
/// Where scales and zero points stand between.
const QUANTIZED_WEIGHT: usize = 3;

/// The bias has an element for each channel of the result.
fn biased_conv(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let channels = dim(&inference.input(WEIGHT)?.dims, 0);
    per_channel(inference.optional(2), "bias", channels)?;
    conv(inference, WEIGHT)
}

/// A result of the input's type.
fn conv(inference: &mut Inference<'_>, weight: usize) -> Result<(), OpError> {
    let dims = slide(inference, weight)?;
    inference.set(0, TensorType::new(inference.input(0)?.dtype, dims));
    Ok(())
}

fn conv_integer(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = slide(inference, WEIGHT)?;
    inference.set(0, TensorType::new(DType::Int32, dims));
    Ok(())
}

/// Dimensions of the result, `[N, M, …]`.
fn slide(inference: &Inference<'_>, weight: usize) -> Result<Dims, OpError> {
    let (x, w) = (inference.input(0)?, inference.input(weight)?);
    let group = u64::try_from(inference.node.int("group").unwrap_or(1)).unwrap_or(0);
    let channels = dim(&x.dims, 1);
    let expected = dim(&w.dims, 1).saturating_mul(group);
    if x.rank() < 2 || w.rank() != x.rank() {
        return Err(OpError::new(say!(
            "ranks {rank} and {rank_2} do not fit",
            rank = x.rank(),
            rank_2 = w.rank()
        )));
    }
    if channels != expected {
        return Err(OpError::new(say!(
            "{channels} channels where weights take {expected}",
            channels,
            expected
        )));
    }
    if dim(&w.dims, 0).checked_rem(group) != Some(0) {
        let makes = dim(&w.dims, 0);
        return Err(OpError::new(say!(
            "{makes} channels are not {group} groups of one size",
            makes,
            group
        )));
    }
    let windows = Windows::parse(inference, kernel(inference, w)?)?;
    let mut dims = Dims::from_slice(&[dim(&x.dims, 0), dim(&w.dims, 0)]);
    dims.extend(windows.slide(from(&x.dims, 2))?);
    Ok(dims)
}

/// The sizes of the kernel, which the weights have and the node may repeat.
fn kernel(inference: &Inference<'_>, w: &TensorType) -> Result<Dims, OpError> {
    let of_weights = Dims::from_slice(from(&w.dims, 2));
    let stated = inference.node.ints("kernel_shape").filter(|stated| !stated.is_empty());
    if let Some(stated) = stated.map(sizes).transpose()?.filter(|stated| *stated != of_weights) {
        let [stated, of_weights] =
            [format!("{:?}", stated.as_slice()), format!("{:?}", of_weights.as_slice())];
        return Err(OpError::new(say!(
            "`kernel_shape` is {stated} where the weights have {of_weights}",
            stated,
            of_weights
        )));
    }
    Ok(of_weights)
}

/// `W [C, M/group, k…]`.
fn conv_transpose(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, w) = (inference.input(0)?, inference.input(1)?);
    let group = u64::try_from(inference.node.int("group").unwrap_or(1)).unwrap_or(0);
    if x.rank() < 2 || w.rank() != x.rank() {
        return Err(OpError::new(say!(
            "ranks {rank} and {rank_2} do not fit",
            rank = x.rank(),
            rank_2 = w.rank()
        )));
    }
    if dim(&x.dims, 1) != dim(&w.dims, 0) {
        let (has, takes) = (dim(&x.dims, 1), dim(&w.dims, 0));
        return Err(OpError::new(say!("{has} channels where weights take {takes}", has, takes)));
    }
    let sizes_in = from(&x.dims, 2);
    per_channel(inference.optional(2), "bias", dim(&w.dims, 1).saturating_mul(group))?;
    let windows = Windows::parse(inference, kernel(inference, w)?)?;
    let mut dims = vec![dim(&x.dims, 0), dim(&w.dims, 1).saturating_mul(group)];
    if let Some(stated) = inference.node.ints("output_shape") {
        let stated = sizes(stated)?;
        dims.extend(from(&stated, stated.len().saturating_sub(sizes_in.len())));
    } else {
        let extra = spatial(inference, "output_padding", sizes_in.len(), 0)?;
        for (position, (&size, &extra)) in sizes_in.iter().zip(&extra).enumerate() {
            let grown = grow(&windows, position, size, extra);
            dims.push(grown.ok_or_else(|| OpError::new(say!("the padding removes everything")))?);
        }
    }
    inference.set(0, TensorType::new(x.dtype, dims));
    Ok(())
}

/// Size after a transposed convolution along one axis.
fn grow(windows: &Windows, axis: usize, size: u64, extra: u64) -> Option<u64> {
    let stride = *windows.strides.get(axis)?;
    let kernel = *windows.kernel.get(axis)?;
    let dilation = *windows.dilations.get(axis)?;
    let reach = dilation.saturating_mul(kernel.checked_sub(1)?).saturating_add(1);
    let full = stride.saturating_mul(size.checked_sub(1)?).saturating_add(extra);
    let full = full.saturating_add(reach);
    match windows.auto {
        AutoPad::Same => Some(size.saturating_mul(stride)),
        AutoPad::Valid => Some(full),
        AutoPad::No => {
            let &(front, back) = windows.pads.get(axis)?;
            full.checked_sub_signed(front)?.checked_sub_signed(back)
        }
    }
}

/// `[N, C, L]`, and what the next call needs of it, `[N, C, K - 1]`.
fn causal_conv(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, w) = (inference.input(0)?, inference.input(1)?);
    let (&[n, channels, _], &[_, _, taps]) = (x.dims.as_slice(), w.dims.as_slice()) else {
        return Err(OpError::new(say!("{x} and {w} do not have 3 dimensions each", x, w)));
    };
    inference.set(0, x.clone());
    inference.set_dims(1, x.dtype, [n, channels, taps.saturating_sub(1)]);
    Ok(())
}

/// `silu(conv1d(cat([past, x], 2), weight, bias, groups=C))`; without a past there is a pad in front.
fn causal_conv_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, x, weight) = (call.rt, call.need(0)?, call.need(1)?);
    let before = weight.size(2).saturating_sub(1);
    let longer = [x.size(0), x.size(1), x.size(2).saturating_add(before)];
    let x = match call.tensor(3) {
        Some(past) => view::cat(rt, &[&past, &x], 2),
        None if before > 0 => view::resample(rt, "aten::constant_pad_nd", &x, &longer),
        None => x,
    };
    let spec = Convolution {
        output: call.output_type(0)?.dims.clone(),
        stride: Dims::from_slice(&[1]),
        dilation: Dims::from_slice(&[1]),
        groups: x.size(1),
        transposed: false,
    };
    let y = convolution(rt, &x, &weight, call.tensor(2).as_ref(), &spec);
    call.set(1, view::slice(rt, &x, 2, before, 1));
    let is_gated =
        call.node.string("activation").is_some_and(|name| name != "none" && !name.is_empty());
    call.set(0, if is_gated { unary(rt, Unary::saves_input("aten::silu"), &y) } else { y });
    Ok(())
}

/// `[N, C * product(block), L]` to `[N, C, image…]`.
fn col2im(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let image = sizes(inference.needed_ints(1)?)?;
    let block = sizes(inference.needed_ints(2)?)?;
    let channels = exact_div(dim(&x.dims, 1), numel(&block)).ok_or_else(|| {
        OpError::new(say!(
            "blocks of {block} do not divide the channels",
            block = format!("{block:?}")
        ))
    })?;
    let mut dims = before(&x.dims, 1).to_vec();
    dims.push(channels);
    dims.extend(image);
    inference.set(0, TensorType::new(x.dtype, dims));
    Ok(())
}

fn convolution_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let spec = attributes(call)?;
    convolve(call, &spec)
}

fn transposed_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let spec = Convolution { transposed: true, ..attributes(call)? };
    // cuDNN does not add as much at the end as it steps (`ConvParams::is_output_padding_big`).
    let extra = call.node.ints("output_padding").unwrap_or_default();
    let steps = call.node.ints("strides").unwrap_or_default().iter().chain(std::iter::repeat(&1));
    if extra.iter().zip(steps).any(|(extra, step)| extra >= step) {
        return slowly(call, &spec);
    }
    convolve(call, &spec)
}

/// A transposed convolution by products of matrices.
fn slowly(call: &mut Call<'_>, spec: &Convolution) -> Result<(), OpError> {
    let cast = |position| {
        let tensor = call.tensor(position)?;
        let [tensor] = call.rt.for_operator("aten::convolution", [&tensor]);
        Some(tensor)
    };
    // The last operand is cast first.
    let [bias, weight, x] = [2, 1, 0].map(|at| cast(at).map_or(Value::Nothing, Value::Tensor));
    let int = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let size = Value::List(spec.output.iter().copied().map(int).collect());
    run_as(call, "slow_conv_transpose", vec![x, weight, bias, size, int(spec.groups)])
}

/// What the node says, as of a convolution that is not transposed.
fn attributes(call: &Call<'_>) -> Result<Convolution, OpError> {
    let list = |name| {
        let ints = call.node.ints(name).unwrap_or_default();
        ints.iter().map(|&n| u64::try_from(n).unwrap_or(1)).collect()
    };
    Ok(Convolution {
        output: call.output_type(0)?.dims.clone(),
        stride: list("strides"),
        dilation: list("dilations"),
        groups: call.node.int("group").and_then(|n| u64::try_from(n).ok()).unwrap_or(1).max(1),
        transposed: false,
    })
}

fn convolve(call: &mut Call<'_>, spec: &Convolution) -> Result<(), OpError> {
    let (mut x, weight, bias) = (call.need(0)?, call.need(1)?, call.tensor(2));
    if let Some(sizes) = unevenly_padded(call, &x, &weight, spec) {
        x = view::resample(call.rt, "aten::constant_pad_nd", &x, &sizes);
    }
    let y = convolution(call.rt, &x, &weight, bias.as_ref(), spec);
    call.set(0, y);
    Ok(())
}

/// Sizes after what is padded on one side only: kernels pad both sides alike, so that the rest goes into a
/// tensor of its own (`_convolution_same`, `native/Convolution.cpp`).
fn unevenly_padded(
    call: &Call<'_>,
    x: &Tensor,
    weight: &Tensor,
    spec: &Convolution,
) -> Option<Vec<u64>> {
    let spatial = x.rank().checked_sub(2)?;
    let is_same = call.node.string("auto_pad").is_some_and(|auto| auto.starts_with("SAME"));
    let mut sizes = x.sizes().to_vec();
    let mut is_uneven = false;
    for (at, size) in sizes.iter_mut().skip(2).enumerate() {
        let extra = if is_same {
            let spacing = spec.dilation.get(at).copied().unwrap_or(1);
            spacing.saturating_mul(weight.size(at.saturating_add(2)).saturating_sub(1)) % 2
        } else {
            let pads = call.node.ints("pads").unwrap_or_default();
            let (front, back) = (pads.get(at)?, pads.get(at.saturating_add(spatial))?);
            front.abs_diff(*back)
        };
        is_uneven |= extra > 0;
        *size = size.saturating_add(extra);
    }
    (is_uneven && !spec.transposed).then_some(sizes)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events};

    #[test]
    fn more_at_the_end_than_a_step_is_a_product_for_each_image() {
        let of = "ConvTranspose float32[2,2,3,3] float32[2,1,2,2] float32[1] dilations=[2,2] output_padding=[1,1]";
        expect![[r"
            aten::share: +a 288
            aten::taps: +b 144 +c 144 +d 8388608 -d +e 8388608 -e +f 8388608 -f +g 8388608 -g -c -b
            drop: -a
            aten::ones_like: +h 4
            gradient: +i 288
            aten::slow_product: +j 144
            aten::taps: +k 144 +l 8388608 -l +m 8388608 -m -k +n 32 +o 4 +p 144 +q 8388608 -q +r 8388608 -r -p
            aten::joined: -i
            AccumulateGrad: -h
        "]].assert_eq(&events(of));
    }

    #[test]
    fn shapes() {
        for (call, expected) in [
            (
                "Conv float32[2,3,224,224] float32[64,3,7,7] float32[64] strides=[2,2] pads=[3,3,3,3]",
                "float32[2,64,112,112]",
            ),
            (
                "Conv float32[2,32,56,56] float32[32,1,3,3] group=32 pads=[1,1,1,1]",
                "float32[2,32,56,56]",
            ),
            ("Conv float32[2,8,100] float32[4,8,3] dilations=[2]", "float32[2,4,96]"),
            (
                "Conv float32[2,3,9,9] float32[8,3,3,3] strides=[2,2] auto_pad=SAME_UPPER",
                "float32[2,8,5,5]",
            ),
            ("Conv float32[2,4,9,9] float32[8,3,3,3]", "error: 4 channels where weights take 3"),
            ("Conv float32[2,3,2,2] float32[8,3,3,3]", "error: does not fit in 2"),
            ("Conv float32[2,3,9,9] float32[8,3,3]", "error: ranks 4 and 3"),
            (
                "ConvTranspose float32[2,16,14,14] float32[16,8,2,2] strides=[2,2]",
                "float32[2,8,28,28]",
            ),
            (
                "ConvTranspose float32[2,16,14,14] float32[16,4,3,3] group=2 strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]",
                "float32[2,8,28,28]",
            ),
            ("ConvInteger uint8[1,1,3,3] uint8[1,1,2,2]", "int32[1,1,2,2]"),
            ("Col2Im float32[1,5,5] int64[2]:5,5 int64[2]:1,5", "float32[1,1,5,5]"),
        ] {
            check(call, expected);
        }
    }
}
