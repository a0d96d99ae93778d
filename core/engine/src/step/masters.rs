//! Master weights: a model in half precision, and an optimizer that owns copies in single precision.
//!
//! NVIDIA's Apex at level O2 and the `FP16Optimizer` of Megatron-LM and fairseq do this. In plain PyTorch:
//!
//! ```python
//! model = model.half()                          # or .bfloat16()
//! weights = [p for p in model.parameters() if p.requires_grad]
//! masters = [p.detach().float().requires_grad_() for p in weights]
//! optimizer = torch.optim.AdamW(masters)
//! for _ in range(3):
//!     for p in weights + masters:               # zero_grad
//!         p.grad = None
//!     out = model(x)
//!     loss = criterion(out, y)
//!     loss.backward()
//!     for p, m in zip(weights, masters):
//!         m.grad = p.grad.float()
//!     optimizer.step()                          # and clipping before it
//!     with torch.no_grad():
//!         for p, m in zip(weights, masters):
//!             p.copy_(m)
//! ```
//!
//! Gradients in half precision stay until `zero_grad`, in addition to those of the masters. Everything is
//! converted, normalisations too (`keep_batchnorm_fp32=False`).

use super::Parameter;
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

/// The optimizer's copy of each trained parameter, in their order.
#[derive(Debug)]
pub struct Masters {
    /// Leaves in single precision.
    pub parameters: Vec<Parameter>,
}

impl Masters {
    /// `p.detach().float()` of each.
    pub fn of(rt: &Runtime, weights: &[Parameter]) -> Self {
        rt.enter_operator("aten::to");
        let copy = |weight: &Parameter| {
            let name = weight.leaf.name();
            let copy = rt.optimizer_state_in(&weight.tensor, DType::Float32, name);
            let (tensor, leaf) = rt.parameter(&copy, name);
            leaf.set_spread(weight.leaf.is_spread());
            Parameter { tensor, leaf }
        };
        let parameters = weights.iter().map(copy).collect();
        rt.enter_operator("");
        Self { parameters }
    }

    /// `m.grad = p.grad.float()` for each; `p.copy_(m)` after the step takes no memory.
    pub fn take_gradients(&self, rt: &Runtime, weights: &[Parameter]) {
        for (weight, master) in weights.iter().zip(&self.parameters) {
            if let Some(grad) = weight.leaf.grad() {
                let single: Tensor = rt.no_grad(|| kernels::cast(rt, &grad, DType::Float32));
                rt.becomes_gradient(&single, master.leaf.name());
                master.leaf.set(single);
            }
        }
    }

    /// `p.copy_(m)` for each.
    pub fn hand_back(&self, rt: &Runtime, weights: &[Parameter]) {
        for (weight, master) in weights.iter().zip(&self.parameters).filter(|_| rt.is_launching()) {
            rt.launch_copy(&master.tensor, &weight.tensor);
        }
    }

    /// Which loop is meant.
    pub(super) fn diagnostic() -> Diagnostic {
        let message = say!(
            "the optimizer holds the parameters once more in fp32, and gradients are copied \
                       to fp32 before its step, as in Apex O2 and Megatron; those in half precision \
                       are assumed to stay until zero_grad, and normalisations to be converted too"
        );
        Diagnostic::new(Severity::Info, "master-weights", message)
    }
}
