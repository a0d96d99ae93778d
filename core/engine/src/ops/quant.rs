//! Quantisation: to small integers and back.
//!
//! <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>, `onnx__DequantizeLinear.html`,
//! `onnx__DynamicQuantizeLinear.html`.

use super::formula::spelled;
use super::shape_math::dtype_attribute;
use super::{Inference, OpError, Operator, op};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    op("DequantizeLinear", 2..=3, dequantize).runs(spelled),
    op("DynamicQuantizeLinear", 1..=1, dynamic).runs(spelled),
    op("QuantizeLinear", 2..=3, quantize).runs(spelled),
];

/// The type is that of the zero point, else `output_dtype`, else `uint8`.
fn quantize(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let stated = inference.node.int("output_dtype").filter(|&code| code != 0);
    let stated = stated.map(super::shape_math::dtype).transpose()?;
    let zero_point = inference.optional(2).map(|zero| zero.dtype);
    let dtype = zero_point.or(stated).unwrap_or(DType::UInt8);
    inference.set_dims(0, dtype, x.dims.clone());
    Ok(())
}

/// The type is that of the scale, unless `output_dtype` says otherwise.
fn dequantize(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, scale) = (inference.input(0)?, inference.input(1)?);
    let stated = match inference.node.int("output_dtype") {
        None | Some(0) => None,
        Some(_) => dtype_attribute(inference, "output_dtype")?,
    };
    inference.set_dims(0, stated.unwrap_or(scale.dtype), x.dims.clone());
    Ok(())
}

/// Quantized tensor, scale, zero point.
fn dynamic(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.set_dims(0, DType::UInt8, x.dims.clone());
    inference.set_dims(1, DType::Float32, []);
    inference.set_dims(2, DType::UInt8, []);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("QuantizeLinear float32[2,3] float32[] int8[]", "int8[2,3]"),
            ("QuantizeLinear float32[2,3] float32[]", "uint8[2,3]"),
            ("DequantizeLinear int8[2,3] float16[]", "float16[2,3]"),
            ("DynamicQuantizeLinear float32[2,3]", "uint8[2,3] float32[] uint8[]"),
        ] {
            check(call, expected);
        }
    }
}
