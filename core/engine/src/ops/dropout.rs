//! Dropout and random numbers.
//!
//! <https://onnx.ai/onnx/operators/onnx__Dropout.html> (with a mask of booleans as second output),
//! `onnx__RandomNormal.html`, `onnx__RandomUniformLike.html`, `onnx__Bernoulli.html`,
//! `onnx__Multinomial.html`.

use super::Call;
use super::formula::run_as;
use super::shape_math::{dim, dtype_attribute, size, sizes};
use super::{Inference, OpError, Operator, fold, op, torch};
use crate::aten::formula::Value;
use crate::aten::{dropout as aten, elementwise};
use crate::tensor::{DType, Dims};

pub(super) const TABLE: &[Operator] = &[
    op("Bernoulli", 1..=1, random_like).runs(bernoulli_rule),
    op("Dropout", 1..=3, dropout).runs(dropout_rule).numbers_from(1),
    op("Multinomial", 1..=1, multinomial).runs(random_rule),
    op("RandomNormal", 0..=0, random).runs(random_rule),
    op("RandomNormalLike", 1..=1, random_like).runs(random_rule).unproven(),
    op("RandomUniform", 0..=0, random).runs(random_rule),
    op("RandomUniformLike", 1..=1, random_like).runs(random_rule),
    torch("DropPath", 1..=1).runs(drop_path_rule),
    torch("StochasticDepth", 1..=1).runs(stochastic_depth_rule),
];

fn dropout(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    // The mask is of the input's type before operator set 10.
    let mask = if inference.opset < 10 { x.dtype } else { DType::Bool };
    inference.set(0, x.clone());
    inference.set_dims(1, mask, x.dims.clone());
    fold::keep(inference);
    Ok(())
}

fn random(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let shape =
        inference.node.ints("shape").ok_or_else(|| OpError::new(say!("`shape` is missing")))?;
    let dtype = dtype_attribute(inference, "dtype")?.unwrap_or(DType::Float32);
    let dims = sizes(shape)?;
    inference.set_dims(0, dtype, dims);
    Ok(())
}

fn random_like(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let dtype = dtype_attribute(inference, "dtype")?.unwrap_or(x.dtype);
    inference.set_dims(0, dtype, x.dims.clone());
    Ok(())
}

fn multinomial(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let samples = size(inference.node.int("sample_size").unwrap_or(1))?;
    let dtype = dtype_attribute(inference, "dtype")?.unwrap_or(DType::Int32);
    inference.set_dims(0, dtype, [dim(&x.dims, 0), samples]);
    Ok(())
}

/// In training with a ratio above zero; else the input passes through.
fn dropout_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let ratio = call.node.float("ratio").or_else(|| call.number(1));
    let y = if ratio == Some(0.0) || !call.rt.is_training() {
        x
    } else if ratio == Some(1.0) {
        // `input.mul(at::zeros({}))` (`native/Dropout.cpp`).
        let zero = call.rt.empty(x.dtype(), &[]);
        elementwise::mul(call.rt, &x, &zero)
    } else if call.overwrites() {
        aten::dropout_in_place(call.rt, &x)
    } else {
        aten::dropout(call.rt, &x)
    };
    call.set(0, y);
    Ok(())
}

/// In training `x` times noise that is one number per sample.
fn stochastic_depth_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    if !call.rt.is_training() {
        call.set(0, x);
        return Ok(());
    }
    let sizes = (0..x.rank()).map(|dim| if dim == 0 { x.size(0) } else { 1 });
    let noise = aten::random(call.rt, x.dtype(), &sizes.collect::<Vec<_>>());
    let y = elementwise::mul(call.rt, &x, &noise);
    call.set(0, y);
    Ok(())
}

/// `drop_path` of timm and transformers, in training: noise that is one number per sample, rounded down, then
/// `x.div(keep) * noise`.
fn drop_path_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, x) = (call.rt, call.need(0)?);
    if !rt.is_training() {
        call.set(0, x);
        return Ok(());
    }
    let sizes: Dims = (0..x.rank()).map(|dim| if dim == 0 { x.size(0) } else { 1 }).collect();
    let noise = aten::random(rt, x.dtype(), &sizes);
    let shifted = rt.empty_like(&noise);
    let floored = rt.empty_like(&noise);
    drop((shifted, noise));
    let scaled = elementwise::scale(rt, "aten::div", &x);
    let y = elementwise::mul(rt, &scaled, &floored);
    call.set(0, y);
    Ok(())
}

/// `torch.bernoulli`, with probabilities.
fn bernoulli_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    if call.output_type(0)?.dtype != call.input_type(0)?.dtype {
        return random_rule(call);
    }
    run_as(call, "bernoulli", vec![Value::Tensor(x)])
}

fn random_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let ty = call.output_type(0)?;
    call.set(0, aten::random(call.rt, ty.dtype, &ty.dims));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Dropout float32[2,3] float32[]:0.1 bool[]:1", "float32[2,3] bool[2,3]"),
            ("RandomNormal shape=[2,3]", "float32[2,3]"),
            ("RandomUniformLike float16[2,3]", "float16[2,3]"),
            ("Bernoulli float32[2] dtype=9", "bool[2]"),
            ("Multinomial float32[2,10] sample_size=4", "int32[2,4]"),
        ] {
            check(call, expected);
        }
    }
}
