//! `torch.amp.GradScaler`: a handful of numbers on the device (`torch/amp/grad_scaler.py`).

use crate::aten::elementwise;
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

/// The scaler of a run in fp16; made by its first use.
#[derive(Debug, Default)]
pub(super) struct Scaler {
    /// The scale and the growth tracker.
    state: Option<[Tensor; 2]>,
    /// Whether a gradient overflowed: from `step` to `update`.
    found_inf: Option<Tensor>,
}

impl Scaler {
    /// `scaler.scale(loss)`.
    pub(super) fn scale(&mut self, rt: &Runtime, loss: &Tensor) -> Tensor {
        let made = || {
            rt.enter_operator("aten::full");
            [rt.empty(DType::Float32, &[]), rt.empty(DType::Int32, &[])]
        };
        let [scale, _] = self.state.get_or_insert_with(made);
        elementwise::mul(rt, loss, scale)
    }

    /// `scaler.unscale_`: gradients are scaled in place, by the reciprocal in double precision.
    pub(super) fn unscale(&mut self, rt: &Runtime) {
        let Some([scale, _]) = &self.state else { return };
        let double = kernels::cast(rt, scale, DType::Float64);
        rt.enter_operator("aten::reciprocal");
        let reciprocal = rt.empty_like(&double);
        drop(double);
        let inverse = kernels::cast(rt, &reciprocal, DType::Float32);
        drop(reciprocal);
        rt.enter_operator("aten::full");
        let found_inf = rt.empty(DType::Float32, &[]);
        // Each device gets copies of its own, the one that has them too.
        rt.enter_operator("aten::to");
        self.found_inf = Some(rt.empty_like(&found_inf));
        let for_device = rt.empty_like(&inverse);
        drop((for_device, found_inf, inverse));
    }

    /// `scaler.update()`.
    pub(super) fn update(&mut self) {
        self.found_inf = None;
    }
}
