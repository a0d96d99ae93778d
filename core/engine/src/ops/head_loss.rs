//! The output head of a language model and its loss in one: `hidden [B, S, H]`, `weight [V, H]`, `labels [B, S]`, and
//! `bias [V]` to a number. The attribute `kernel` names whose ([`LossKernel`]), and `chunk` counts tokens.

use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::head_loss as aten;
use crate::config::LossKernel;
use crate::tensor::{DType, Dims};

/// The operator's name.
pub(crate) const NAME: &str = "HeadLoss";

pub(super) const TABLE: &[Operator] =
    &[Shaped { infer: number, ..torch(NAME, 3..=4) }.runs(head_loss_rule)];

#[expect(clippy::unnecessary_wraps, reason = "it is a shape rule like the others")]
fn number(inference: &mut Inference<'_>) -> Result<(), OpError> {
    inference.set_dims(0, DType::Float32, Dims::new());
    Ok(())
}

fn head_loss_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (hidden, weight, labels, bias) =
        (call.need(0)?, call.need(1)?, call.need(2)?, call.tensor(3));
    let head =
        aten::Head { hidden: &hidden, weight: &weight, bias: bias.as_ref(), labels: &labels };
    let kernel = call.node.string("kernel").and_then(|name| name.parse().ok());
    let chunk = call.node.int("chunk").and_then(|chunk| u64::try_from(chunk).ok()).unwrap_or(1);
    let loss = match kernel.unwrap_or(LossKernel::Torch) {
        LossKernel::Liger => aten::liger(call.rt, head),
        LossKernel::Fused => aten::fused(call.rt, head),
        LossKernel::Chunked => aten::chunked(call.rt, head, chunk.max(1)),
        LossKernel::Cce => aten::cut(call.rt, head),
        LossKernel::Torch | LossKernel::OutputChunks => aten::output_chunks(call.rt, head),
    };
    call.set(0, loss);
    Ok(())
}
