//! `torch.compile` next to other settings.

use super::{Checkpoint, Config, Kernels, LossKernel, Quantize};
use crate::sentence::Sentence;

impl Config {
    /// What a model is never compiled with here, because it was never compared with Inductor, and its setting.
    pub fn never_compiled_with(&self) -> Option<(Sentence, &'static str)> {
        Some(match () {
            () if !self.workload.trains() => (say!("another workload than training"), "workload"),
            () if self.checkpoint != Checkpoint::None => (say!("checkpointing"), "checkpoint"),
            () if !self.lora.is_empty() => (say!("adapters"), "lora"),
            () if self.quantize != Quantize::None => (say!("quantised weights"), "quantize"),
            () if self.loss_kernel != LossKernel::Torch => {
                (say!("a loss without logits"), "loss-kernel")
            }
            () if self.kernels != Kernels::Torch => (say!("Liger's kernels"), "kernels"),
            () if self.objective.is_of_pairs() => (say!("losses of pairs of texts"), "objective"),
            () if !self.pytorch.compiles() => (say!("PyTorch before 2.0"), "pytorch"),
            () => return None,
        })
    }
}
