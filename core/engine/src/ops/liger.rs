//! Liger's layers: `x`, `weight`; `gate`, `up`; queries, keys, and the tables of rotary positions.

use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::liger as aten;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: like_first, ..torch("LigerGate", 2..=2) }.runs(gate_rule),
    Shaped { infer: like_first, ..torch("LigerRmsNorm", 2..=2) }.runs(rms_norm_rule),
    Shaped { infer: like_two, ..torch("LigerRotary", 4..=4) }.runs(rotary_rule),
];

fn like_first(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let ty = inference.input(0)?.clone();
    inference.set(0, ty);
    Ok(())
}

fn like_two(inference: &mut Inference<'_>) -> Result<(), OpError> {
    for position in 0..2 {
        let ty = inference.input(position)?.clone();
        inference.set(position, ty);
    }
    Ok(())
}

fn gate_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::gated(call.rt, &call.need(0)?, &call.need(1)?);
    call.set(0, y);
    Ok(())
}

fn rms_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::rms_norm(call.rt, &call.need(0)?, &call.need(1)?);
    call.set(0, y);
    Ok(())
}

fn rotary_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (q, k, cos, sin) = (call.need(0)?, call.need(1)?, call.need(2)?, call.need(3)?);
    let turned = aten::rotary(call.rt, [&q, &k], [&cos, &sin]);
    for (position, tensor) in turned.into_iter().enumerate() {
        call.set(position, tensor);
    }
    Ok(())
}
