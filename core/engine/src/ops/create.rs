//! Tensors made from numbers alone.
//!
//! <https://onnx.ai/onnx/operators/onnx__Constant.html>, `onnx__ConstantOfShape.html`,
//! `onnx__Range.html`, `onnx__EyeLike.html`, `onnx__HannWindow.html`.

use super::fold::{self, float, truncate, widen};
use super::run::fresh;
use super::shape_math::{dtype_attribute, size, sizes};
use super::{Call, Inference, OpError, Operator, Shaped, op, torch};
use crate::graph::{Attribute, Elements};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    op("BlackmanWindow", 1..=1, window).runs(fresh).unproven(),
    op("Constant", 0..=0, constant).runs(fresh),
    op("ConstantOfShape", 1..=1, constant_of_shape).runs(fresh).numbers_from(0),
    op("EyeLike", 1..=1, eye_like).runs(fresh),
    op("HammingWindow", 1..=1, window).runs(fresh).unproven(),
    op("HannWindow", 1..=1, window).runs(fresh).unproven(),
    op("Range", 3..=3, range).runs(fresh).numbers_from(0),
    Shaped { infer: type_of, ..torch("TypeOf", 1..=1) }.runs(type_of_rule),
    torch("ZerosLike", 1..=1).runs(zeros_rule),
    Shaped { infer: empty, ..torch("Empty", 1..=1) }.runs(fresh),
];

/// `x.dtype`: a tensor of that type without elements, which takes no memory.
fn type_of(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
    inference.set_dims(0, dtype, [0]);
    Ok(())
}

fn type_of_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let dtype = call.need(0)?.dtype();
    call.set(0, call.rt.empty(dtype, &[0]));
    Ok(())
}

/// `torch.zeros(sizes, dtype=x.dtype)`, recovered.
fn zeros_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let dtype = call.need(0)?.dtype();
    call.rt.enter_operator("aten::zeros");
    call.set(0, call.rt.empty(dtype, &call.output_type(0)?.dims));
    Ok(())
}

fn length(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn constant(inference: &mut Inference<'_>) -> Result<(), OpError> {
    for (name, attribute) in &inference.node.attributes {
        let (dtype, dims, elements) = match (name.as_str(), attribute) {
            ("value", Attribute::Tensor(literal)) => {
                (literal.dtype, literal.dims.clone(), literal.elements.clone())
            }
            ("value_int", Attribute::Int(n)) => {
                (DType::Int64, Vec::new(), Some(Elements::Ints(vec![*n])))
            }
            ("value_ints", Attribute::Ints(list)) => {
                (DType::Int64, vec![length(list.len())], Some(Elements::Ints(list.clone())))
            }
            ("value_float", Attribute::Float(x)) => {
                (DType::Float32, Vec::new(), Some(Elements::Floats(vec![*x])))
            }
            ("value_floats", Attribute::Floats(list)) => {
                (DType::Float32, vec![length(list.len())], Some(Elements::Floats(list.clone())))
            }
            _ => continue,
        };
        inference.set_dims(0, dtype, dims);
        if let Some(elements) = elements {
            inference.set_elements(0, elements);
        }
        return Ok(());
    }
    Err(OpError::new(say!("it has no value of a kind that can be read")))
}

/// Without a value, zeros of `float32`.
fn constant_of_shape(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = sizes(inference.needed_ints(0)?)?;
    let (dtype, elements) = match inference.node.attributes.get("value") {
        Some(Attribute::Tensor(literal)) => (literal.dtype, literal.elements.clone()),
        _ => (DType::Float32, Some(Elements::Floats(vec![0.0]))),
    };
    inference.set_dims(0, dtype, dims);
    if let (Some(one), true, Some(out)) = (elements, inference.is_small(0), inference.output(0)) {
        let count = usize::try_from(out.numel()).unwrap_or(0);
        if let Some(folded) = one.pick(&vec![0; count]) {
            inference.set_elements(0, folded);
        }
    }
    Ok(())
}

/// `Range(start, limit, delta)`.
fn range(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
    let scalar = |position| inference.elements(position).filter(|elements| elements.len() == 1);
    let unknown = || OpError::new(say!("the bounds are only known while it runs"));
    let (Some(start), Some(limit), Some(delta)) = (scalar(0), scalar(1), scalar(2)) else {
        return Err(unknown());
    };
    match (start, limit, delta) {
        (Elements::Ints(start), Elements::Ints(limit), Elements::Ints(delta)) => {
            let (&[start], &[limit], &[delta]) =
                (start.as_slice(), limit.as_slice(), delta.as_slice())
            else {
                return Err(unknown());
            };
            let forward = delta > 0;
            let distance =
                if forward { limit.checked_sub(start) } else { start.checked_sub(limit) };
            let distance = u64::try_from(distance.unwrap_or(0).max(0)).unwrap_or(0);
            if delta == 0 {
                return Err(OpError::new(say!("a step of 0 is invalid")));
            }
            let count = distance.div_ceil(delta.unsigned_abs());
            inference.set_dims(0, dtype, [count]);
            if inference.is_small(0) {
                let steps = 0..super::shape_math::signed(count);
                let each = steps.map(|i| start.saturating_add(i.saturating_mul(delta)));
                inference.set_elements(0, Elements::Ints(each.collect()));
            }
            Ok(())
        }
        (Elements::Floats(start), Elements::Floats(limit), Elements::Floats(delta)) => {
            let (&[start], &[limit], &[delta]) =
                (start.as_slice(), limit.as_slice(), delta.as_slice())
            else {
                return Err(unknown());
            };
            let count = float::div(float::sub(limit, start), delta).ceil();
            let count = truncate(count.max(0.0));
            inference.set_dims(0, dtype, [size(count)?]);
            if inference.is_small(0) {
                let step = |i| float::add(start, float::mul(widen(i), delta));
                let each = (0..count).map(|i| fold::narrow(step(i), dtype)).collect();
                inference.set_elements(0, Elements::Floats(each));
            }
            Ok(())
        }
        _ => Err(OpError::new(say!("the bounds are of different types"))),
    }
}

/// `torch.empty(sizes, dtype)` and what is filled at once: contents are not followed.
fn empty(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = sizes(inference.needed_ints(0)?)?;
    let dtype = dtype_attribute(inference, "dtype")?.unwrap_or(DType::Float32);
    inference.set_dims(0, dtype, dims);
    Ok(())
}

fn eye_like(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let dtype = dtype_attribute(inference, "dtype")?.unwrap_or(x.dtype);
    inference.set_dims(0, dtype, x.dims.clone());
    Ok(())
}

fn window(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let count = inference.needed_ints(0)?.first().copied().unwrap_or(0);
    let dtype = dtype_attribute(inference, "output_datatype")?.unwrap_or(DType::Float32);
    let count = size(count)?;
    inference.set_dims(0, dtype, [count]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Constant value_ints=[1,2]", "int64[2]:1,2"),
            ("Constant value=int64[1]:-1", "int64[1]:-1"),
            ("Constant value_float=0.5", "float32[]:0.5"),
            ("Constant", "error: no value"),
            ("ConstantOfShape int64[2]:2,3 value=int64[1]:1", "int64[2,3]:1,1,1,1,1,1"),
            ("ConstantOfShape int64[1]:2", "float32[2]:0,0"),
            ("ConstantOfShape int64[1]:5000", "float32[5000]"),
            ("ConstantOfShape int64[1]:-1", "error: -1 is not a size"),
            ("ConstantOfShape int64[2]", "error: contents of input 0"),
            ("Range int64[]:0 int64[]:7 int64[]:3", "int64[3]:0,3,6"),
            ("Range int64[]:3 int64[]:0 int64[]:-1", "int64[3]:3,2,1"),
            ("Range int64[]:3 int64[]:0 int64[]:1", "int64[0]:"),
            ("Range float32[]:0 float32[]:1 float32[]:0.5", "float32[2]:0,0.5"),
            ("Range int64[]:0 int64[]:7 int64[]:0", "error: step of 0"),
            ("EyeLike float32[3,3] dtype=11", "float64[3,3]"),
        ] {
            check(call, expected);
        }
    }
}
