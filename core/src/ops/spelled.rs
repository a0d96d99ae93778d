//! Functions that libraries spell out in Python, recovered as one operator each: `recover` finds them,
//! [`crate::aten::spelled`] has what they run.

use super::torch;
use super::{Call, OpError, Operator};
use crate::aten::spelled as aten;

pub(super) const TABLE: &[Operator] = &[
    torch("BloomGelu", 1..=1).runs(bloom_gelu_rule),
    torch("SpelledRmsNorm", 2..=2).runs(rms_norm_rule),
];

fn bloom_gelu_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::bloom_gelu(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn rms_norm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight) = (call.need(0)?, call.need(1)?);
    let flag = |name| call.node.int(name).is_some_and(|n| n != 0);
    let form = aten::RmsNorm {
        upcasts: flag("upcasts"),
        keeps_input: flag("keeps_input"),
        plus_one: flag("plus_one"),
        weight_first: flag("weight_first"),
    };
    let y = aten::rms_norm(call.rt, &x, &weight, form);
    call.set(0, y);
    Ok(())
}
