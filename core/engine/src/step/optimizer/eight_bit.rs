//! Adam and AdamW of bitsandbytes 0.44 and later: with moments in eight bits, and with moments in paged memory, which
//! the driver moves between host and device and PyTorch does not see (`bitsandbytes/optim/optimizer.py`). Its kernels
//! update in place.

use super::frame::Frame;
use super::rule::{Rule, Slot, TORCH};
use crate::config::Implementation;
use crate::tensor::DType;

/// COUNT: elements below which a parameter's moments stay in 32 bits (`min_8bit_size`).
const SMALL: u64 = 4096;

/// COUNT: elements from which moments are paged (`get_state_buffer`).
const PAGED: u64 = 100_000;

/// COUNT: elements that share a scale.
const BLOCK: u64 = 256;

/// COUNT: values that a byte stands for.
const MAP: u64 = 256;

/// `bnb.optim.Adam8bit(lr)`.
pub(super) const ADAM: Rule = Rule {
    module: "bnb.optim",
    class: "Adam8bit",
    state: &[Slot::By(|frame| moments(frame, DType::UInt8, u64::MAX))],
    usual: Implementation::ForLoop,
    assumed: "8-bit optimizers are those of bitsandbytes 0.44 and later; embeddings are in 8 bits too, unlike \
              under the HF Trainer",
    ..TORCH
};

/// `bnb.optim.AdamW8bit(lr)`.
pub(super) const ADAMW: Rule = Rule { class: "AdamW8bit", ..ADAM };

/// `bnb.optim.PagedAdamW8bit(lr)`.
pub(super) const PAGED_ADAMW: Rule = Rule {
    class: "PagedAdamW8bit",
    state: &[Slot::By(|frame| moments(frame, DType::UInt8, PAGED))],
    assumed: "paged state is outside of PyTorch's memory: the driver takes what the GPU has left, or the host's",
    ..ADAM
};

/// `bnb.optim.PagedAdamW32bit(lr)`.
pub(super) const PAGED_ADAMW_32: Rule = Rule {
    class: "PagedAdamW32bit",
    state: &[Slot::By(|frame| moments(frame, DType::Float32, PAGED))],
    ..PAGED_ADAMW
};

/// `Optimizer2State.init_state`: two moments of this type and, of bytes, their scales by block; once for all
/// parameters, the two maps from bytes to values. Moments of so many elements are not on the device.
fn moments(frame: &mut Frame<'_>, dtype: DType, paged: u64) {
    let Some(parameter) = frame.parameters.first().cloned() else { return };
    let rt = frame.rt;
    let dtype = if parameter.numel() < SMALL { DType::Float32 } else { dtype };
    let is_first_of_bytes = dtype == DType::UInt8 && !frame.keeps(DType::UInt8);
    let mut keep_two = |operator, dtype, sizes: &[u64]| {
        frame.keep_typed(operator, dtype, sizes);
        frame.keep_typed(operator, dtype, sizes);
    };
    if is_first_of_bytes {
        keep_two("aten::to", DType::Float32, &[MAP]);
    }
    if parameter.numel() < paged {
        keep_two("aten::zeros_like", dtype, parameter.sizes());
    } else {
        rt.without_memory(|| keep_two("aten::zeros_like", dtype, parameter.sizes()));
    }
    if dtype == DType::UInt8 {
        keep_two("aten::zeros", DType::Float32, &[parameter.numel().div_ceil(BLOCK)]);
    }
}
