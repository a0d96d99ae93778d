//! Adam and AdamW with moments in eight bits, of bitsandbytes 0.44 and later
//! (`bitsandbytes/optim/optimizer.py`). Its kernels update in place.

use super::frame::Frame;
use super::rule::{Rule, Slot, TORCH};
use crate::config::Implementation;
use crate::tensor::DType;

/// COUNT: elements below which a parameter's moments stay in 32 bits (`min_8bit_size`).
const SMALL: u64 = 4096;

/// COUNT: elements that share a scale.
const BLOCK: u64 = 256;

/// COUNT: values that a byte stands for.
const MAP: u64 = 256;

/// `bnb.optim.Adam8bit(lr)`.
pub(super) const ADAM: Rule = Rule {
    module: "bnb.optim",
    class: "Adam8bit",
    state: &[Slot::By(moments)],
    usual: Implementation::ForLoop,
    assumed: "8-bit optimizers are those of bitsandbytes 0.44 and later, whose state follows from its source \
              and was not compared with a run; embeddings are in 8 bits too, unlike under the HF Trainer",
    ..TORCH
};

/// `bnb.optim.AdamW8bit(lr)`.
pub(super) const ADAMW: Rule = Rule { class: "AdamW8bit", ..ADAM };

/// `Optimizer2State.init_state`: two moments of a byte per element and their scales by block; once for
/// all parameters, the two maps from bytes to values.
fn moments(frame: &mut Frame<'_>) {
    let Some(parameter) = frame.parameters.first().cloned() else { return };
    let is_first_of_bytes = !frame.keeps(DType::UInt8);
    let mut keep_two = |operator, dtype, sizes: &[u64]| {
        frame.keep_typed(operator, dtype, sizes);
        frame.keep_typed(operator, dtype, sizes);
    };
    if parameter.numel() < SMALL {
        return keep_two("aten::zeros_like", DType::Float32, parameter.sizes());
    }
    if is_first_of_bytes {
        keep_two("aten::to", DType::Float32, &[MAP]);
    }
    keep_two("aten::zeros_like", DType::UInt8, parameter.sizes());
    keep_two("aten::zeros", DType::Float32, &[parameter.numel().div_ceil(BLOCK)]);
}
