//! Functions that libraries spell out in Python, recovered as one operator each. `recover` finds them, and
//! [`crate::aten::spelled`] runs their calls.

use super::{Call, Inference, MANY, OpError, Operator, Shaped, torch};
use crate::aten::spelled::{self as aten, RmsNorm};
use crate::eager::Tensor;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    torch("BloomGelu", 1..=1).runs(bloom_gelu_rule),
    torch("ClampInFp16", 1..=1).runs(clamp_rule),
    torch("SpelledRmsNorm", 2..=2).runs(rms_norm_rule),
    Shaped { infer: states, ..torch("States", 0..=MANY) }.runs(states_rule),
];

/// A number.
#[expect(clippy::unnecessary_wraps, reason = "it is a shape rule like the others")]
fn states(inference: &mut Inference<'_>) -> Result<(), OpError> {
    inference.set_dims(0, DType::Float32, []);
    Ok(())
}

/// A model of which nothing but its state is known: every parameter gets a gradient.
#[expect(clippy::unnecessary_wraps, reason = "it is a runtime rule like the others")]
fn states_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let state = call.tensors();
    let state: Vec<&Tensor> = state.iter().collect();
    call.rt.enter_operator("the model");
    let loss = call.rt.empty(DType::Float32, &[]);
    let loss = call.rt.differentiable("States", loss, &state, &state, |pass| {
        pass.saved.iter().map(|parameter| Some(pass.rt.empty_like(parameter))).collect()
    });
    call.set(0, loss);
    Ok(())
}

fn clamp_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::clamp_in_fp16(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn bloom_gelu_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::bloom_gelu(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn rms_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight) = (call.need(0)?, call.need(1)?);
    let flag = |name| call.node.int(name).is_some_and(|n| n != 0);
    let family = match (flag("plus_one"), flag("keeps_input")) {
        (true, _) => RmsNorm::Gemma,
        (false, true) => RmsNorm::T5,
        (false, false) => RmsNorm::Llama,
    };
    let dtype = if flag("upcasts") { DType::Float32 } else { x.dtype() };
    let y = aten::rms_norm(call.rt, &x, &weight, (family, dtype), flag("weight_first"));
    call.set(0, y);
    Ok(())
}
