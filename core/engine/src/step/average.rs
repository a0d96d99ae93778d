//! A moving average of the parameters (`torch/optim/swa_utils.py`).

use crate::eager::launch::Passes;
use crate::eager::{Runtime, Tensor};
use crate::tensor::{DType, TensorType};
use crate::trace::Category;

/// `AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn())`: a deep copy, buffers too, averaged in
/// place after each step.
#[derive(Debug)]
pub struct Model {
    copy: Vec<Tensor>,
    has_updated: bool,
}

impl Model {
    /// The copy of a model's parameters and buffers, in their order.
    pub fn of(rt: &Runtime, state: &[Tensor]) -> Self {
        rt.enter_operator("aten::clone");
        let copied = state.iter().map(|tensor| {
            let ty = TensorType::new(tensor.dtype(), tensor.sizes());
            let copy = rt.place(&ty, Category::Buffer, "moving average");
            if !tensor.requires_grad() {
                // A buffer's copy is an empty tensor that is then given the storage's copy.
                drop(rt.empty(tensor.dtype(), &[]));
            }
            copy
        });
        let copy = copied.collect();
        rt.enter_operator("");
        Self { copy, has_updated: false }
    }

    /// `update_parameters(model)`: the first copies, each later one sends its count to the device.
    pub fn update(&mut self, rt: &Runtime) {
        if std::mem::replace(&mut self.has_updated, true) {
            rt.enter_operator("aten::to");
            drop(rt.empty(DType::Int64, &[]));
            rt.launch_foreach(&self.copy, Passes { reads: 2, writes: 1 });
            rt.enter_operator("");
        }
    }
}
