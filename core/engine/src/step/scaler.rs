//! `torch.amp.GradScaler`: a handful of numbers on the device (`torch/amp/grad_scaler.py`).

use crate::aten::elementwise;
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

/// The scaler of a run in fp16; made by its first use.
#[derive(Debug, Default)]
pub struct Scaler {
    /// The scale and the growth tracker.
    state: Option<[Tensor; 2]>,
    /// Whether a gradient overflowed: from the look at the gradients to `update`.
    found_inf: Option<Tensor>,
}

impl Scaler {
    /// `scaler.scale(loss)`.
    pub fn scale(&mut self, rt: &Runtime, loss: &Tensor) -> Tensor {
        let made = || {
            rt.enter_operator("aten::full");
            [rt.empty(DType::Float32, &[]), rt.empty(DType::Int32, &[])]
        };
        let [scale, _] = self.state.get_or_insert_with(made);
        elementwise::mul(rt, loss, scale)
    }

    /// `scaler.unscale_`: gradients are scaled in place, by the reciprocal in double precision.
    pub fn unscale(&mut self, rt: &Runtime) {
        let Some([scale, _]) = &self.state else { return };
        let double = kernels::cast(rt, scale, DType::Float64);
        rt.enter_operator("aten::reciprocal");
        let reciprocal = rt.empty_like(&double);
        drop(double);
        let inverse = kernels::cast(rt, &reciprocal, DType::Float32);
        drop(reciprocal);
        self.look(rt, inverse);
    }

    /// `_unscale_grads_`: each device gets copies of its own, the one that has them too.
    fn look(&mut self, rt: &Runtime, inverse: Tensor) {
        rt.enter_operator("aten::full");
        let found_inf = rt.empty(DType::Float32, &[]);
        rt.enter_operator("aten::to");
        self.found_inf = Some(rt.empty_like(&found_inf));
        let for_device = rt.empty_like(&inverse);
        drop(for_device);
        drop(inverse);
        drop(found_inf);
    }

    /// `scaler.step(optimizer)`: gradients are unscaled before `step`, unless they are already. Fused
    /// kernels are told the scale instead, and whether a gradient overflowed.
    pub fn step(&mut self, rt: &Runtime, fused: bool, step: impl FnOnce()) {
        let is_unscaled = self.found_inf.is_some();
        if !fused {
            if !is_unscaled {
                self.unscale(rt);
            }
            return step();
        }
        let number = |operator| {
            rt.enter_operator(operator);
            rt.empty(DType::Float32, &[])
        };
        if !is_unscaled {
            // `_check_inf_per_device` scales by one.
            self.look(rt, number("aten::full"));
        }
        let found_inf = number("aten::add");
        let grad_scale = (!is_unscaled).then(|| number("aten::mul"));
        step();
        drop(grad_scale);
        drop(found_inf);
    }

    /// `scaler.update()`.
    pub fn update(&mut self) {
        self.found_inf = None;
    }
}
