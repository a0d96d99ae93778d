//! Pooling over the spatial dimensions of `X [N, C, spatial…]`.
//!
//! <https://onnx.ai/onnx/operators/onnx__MaxPool.html> (`ceil_mode` since operator set 10),
//! `onnx__AveragePool.html` (dilations since 19), `onnx__GlobalAveragePool.html`,
//! `onnx__LpPool.html`, `onnx__MaxUnpool.html`.

use super::Call;
use super::formula::{run_as, spelled};
use super::shape_math::{Windows, before, dim, from, signed, sizes};
use super::{Inference, OpError, Operator, Shaped, op, torch};
use crate::aten::formula::Value;
use crate::aten::pool as aten;
use crate::tensor::{DType, Dims, TensorType};

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: adaptive, ..torch("AdaptiveAveragePool", 1..=1) }.runs(adaptive_pool_rule),
    op("AveragePool", 1..=1, pool).runs(average_pool_rule),
    op("GlobalAveragePool", 1..=1, global).runs(global_average_pool),
    op("GlobalLpPool", 1..=1, global).runs(spelled),
    op("GlobalMaxPool", 1..=1, global).runs(max_pool_rule),
    op("LpPool", 1..=1, pool).runs(spelled),
    op("MaxPool", 1..=1, pool).runs(max_pool_rule),
    op("MaxUnpool", 2..=3, unpool).runs(spelled),
];

fn kernel(inference: &Inference<'_>) -> Result<Dims, OpError> {
    let stated = inference.node.ints("kernel_shape");
    sizes(stated.ok_or_else(|| OpError::new(say!("`kernel_shape` is missing")))?)
}

/// The second output of `MaxPool` holds the positions of the maxima. `TorchScript`'s exporter writes what PyTorch
/// pools without a batch as it is, with fewer dimensions than ONNX knows.
fn pool(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let windows = Windows::parse(inference, kernel(inference)?)?;
    let has_no_batch = x.rank() == windows.kernel.len().saturating_add(1);
    let lead = if has_no_batch { 1 } else { 2 };
    let mut dims = before(&x.dims, lead).to_vec();
    dims.extend(windows.slide(from(&x.dims, lead))?);
    let is_adaptive = inference.node.op == "MaxPool"
        && !inference.node.attributes.contains_key("dilations")
        && x.rank() == 3;
    if windows.kernel.is_empty() || is_adaptive {
        inference.assume(
            say!("adaptive pooling without a batch is exported without all of its sizes; the sizes in the file are used"),
        );
    }
    inference.set(1, TensorType::new(DType::Int64, dims.clone()));
    inference.set(0, TensorType::new(x.dtype, dims));
    Ok(())
}

fn global(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let mut dims = before(&x.dims, 2).to_vec();
    dims.resize(x.rank(), 1);
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `adaptive_avg_pool2d`, with the sizes that it makes in `output_size`.
fn adaptive(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let made = inference.node.ints("output_size");
    let made = sizes(made.ok_or_else(|| OpError::new(say!("`output_size` is missing")))?)?;
    let mut dims = before(&x.dims, 2).to_vec();
    dims.extend(made.iter().copied());
    if dims.len() != x.rank() {
        return Err(OpError::new(say!("{n}-d output of {x}", n = made.len(), x)));
    }
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// Undoes a pooling; its output may be stated as third input.
fn unpool(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    if inference.node.input(2).is_some() {
        let dims = sizes(inference.needed_ints(2)?)?;
        inference.set_dims(0, x.dtype, dims);
        return Ok(());
    }
    let windows = Windows::parse(inference, kernel(inference)?)?;
    let mut dims = before(&x.dims, 2).to_vec();
    for (position, &size) in from(&x.dims, 2).iter().enumerate() {
        let (front, back) = windows.pads.get(position).copied().unwrap_or((0, 0));
        let grown = size
            .saturating_sub(1)
            .saturating_mul(dim(&windows.strides, position))
            .saturating_add(dim(&windows.kernel, position))
            .checked_sub_signed(front)
            .and_then(|n| n.checked_sub_signed(back));
        dims.push(grown.ok_or_else(|| OpError::new(say!("the padding removes everything")))?);
    }
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

fn max_pool_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let (y, indices) = aten::max_pool(call.rt, &x, &call.output_type(0)?.dims);
    call.set(0, y);
    call.set(1, indices);
    Ok(())
}

/// Adaptive pooling to the size that is there is exported as pooling of single elements. With three windows the
/// volume may lack a batch.
fn average_pool_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let dims = &call.output_type(0)?.dims;
    let stated = call.node.int("adaptive").map(|n| n != 0);
    let windows = call.node.ints("kernel_shape").unwrap_or_default();
    let is_idle = windows.iter().all(|&n| n == 1) && x.sizes() == dims.as_slice();
    let adaptive = stated.unwrap_or(is_idle);
    if windows.len() == 3 && !adaptive {
        let size = dims.iter().map(|&n| Value::Int(signed(n))).collect();
        return run_as(call, "volume_avg_pool", vec![Value::Tensor(x), Value::List(size)]);
    }
    let y = aten::average_pool(call.rt, &x, dims, adaptive);
    call.set(0, y);
    Ok(())
}

fn adaptive_pool_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let dims = &call.output_type(0)?.dims;
    let is_mean = from(dims, 2).iter().all(|&n| n == 1);
    let y = if is_mean {
        aten::global_average_pool(call.rt, &x)
    } else {
        aten::average_pool(call.rt, &x, dims, true)
    };
    call.set(0, y);
    Ok(())
}

/// `adaptive_avg_pool2d` to one element is a mean.
fn global_average_pool(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let y = aten::global_average_pool(call.rt, &x);
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            (
                "MaxPool float32[2,64,112,112] kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
                "float32[2,64,56,56] int64[2,64,56,56]",
            ),
            (
                "MaxPool float32[2,64,109,109] kernel_shape=[3,3] strides=[2,2] ceil_mode=1",
                "float32[2,64,54,54]",
            ),
            ("MaxPool float32[2,64,10] kernel_shape=[3] dilations=[2]", "float32[2,64,6]"),
            ("AveragePool float32[2,8,7,7] kernel_shape=[7,7]", "float32[2,8,1,1]"),
            (
                "AveragePool float32[2,8,7,7] kernel_shape=[2,2] strides=[2,2] auto_pad=SAME_LOWER",
                "float32[2,8,4,4]",
            ),
            ("AveragePool float32[2,8,7,7]", "error: `kernel_shape` is missing"),
            ("MaxPool float32[2,8,7,7] kernel_shape=[2]", "error: 1-d kernel"),
            ("MaxPool float32[2,8,7,7] kernel_shape=[2,2] strides=[0,0]", "error: stride 0"),
            ("GlobalAveragePool float32[2,512,7,7]", "float32[2,512,1,1]"),
            ("torch.AdaptiveAveragePool float32[2,8,9,9] output_size=[7,7]", "float32[2,8,7,7]"),
            ("torch.AdaptiveAveragePool float32[2,8,9,9] output_size=[7]", "error: 1-d output"),
            (
                "MaxUnpool float32[1,1,2,2] int64[1,1,2,2] kernel_shape=[2,2] strides=[2,2]",
                "float32[1,1,4,4]",
            ),
        ] {
            check(call, expected);
        }
    }
}
