//! Collectives around the layers that tensor parallelism divides; `parts` is how many ranks there are.

use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::tensor_parallel as aten;
use crate::tensor::Dims;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: like_first, ..torch("AllReduce", 1..=1) }.runs(all_reduce_rule),
    Shaped { infer: gathered, ..torch("GatherParts", 1..=1) }.runs(gather_rule),
    Shaped { infer: like_first, ..torch("Replicated", 1..=1) }.runs(replicated_rule),
    Shaped { infer: split, ..torch("SplitParts", 1..=1) }.runs(split_rule),
];

fn like_first(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let ty = inference.input(0)?.clone();
    inference.set(0, ty);
    Ok(())
}

fn gathered(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let parts = parts(inference.node.int("parts"));
    with_last(inference, |last| Some(last.saturating_mul(parts)))
}

fn split(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let parts = parts(inference.node.int("parts"));
    with_last(inference, |last| last.is_multiple_of(parts).then(|| last.div_euclid(parts)))
}

fn with_last(
    inference: &mut Inference<'_>,
    scaled: impl Fn(u64) -> Option<u64>,
) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let mut dims: Dims = x.dims.clone();
    let last = dims.last_mut().ok_or_else(|| OpError::new(say!("a scalar has no parts")))?;
    let uneven = || OpError::new(say!("{size} features have no equal parts", size = *last));
    *last = scaled(*last).ok_or_else(uneven)?;
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// COUNT: parts.
pub(super) fn parts(stated: Option<i64>) -> u64 {
    stated.and_then(|parts| u64::try_from(parts).ok()).unwrap_or(1).max(1)
}

fn all_reduce_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::all_reduce(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn gather_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::gather(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}

fn replicated_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::replicated(call.rt, &call.need(0)?);
    call.set(0, y);
    Ok(())
}

fn split_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::split(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}
