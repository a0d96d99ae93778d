//! `optimizer.step()` with PyTorch's default on CUDA, `foreach` (`torch/optim/{sgd,adam}.py`).

use super::Parameter;
use crate::config::Optimizer;
use crate::eager::{Runtime, Tensor};

/// An optimizer and the state it has made so far.
#[derive(Debug)]
pub struct State {
    optimizer: Optimizer,
    /// In the order of their making: parameter by parameter, each its tensors in order.
    state: Vec<Tensor>,
}

impl State {
    /// An optimizer that has not stepped yet.
    pub const fn new(optimizer: Optimizer) -> Self {
        Self { optimizer, state: Vec::new() }
    }

    /// One step: state is made in the first, temporaries in each.
    pub fn step(&mut self, rt: &Runtime, parameters: &[Parameter]) {
        let trained: Vec<&Parameter> =
            parameters.iter().filter(|parameter| parameter.leaf.grad().is_some()).collect();
        match self.optimizer {
            Optimizer::Sgd => {}
            Optimizer::SgdMomentum => {
                rt.enter_operator("aten::clone");
                self.make(rt, &trained, 1);
            }
            Optimizer::Adam | Optimizer::AdamW => {
                rt.enter_operator("aten::zeros_like");
                self.make(rt, &trained, 2);
                // One root per parameter, all alive at once; Python drops a list from its end.
                rt.enter_operator("aten::_foreach_sqrt");
                let mut roots: Vec<Tensor> =
                    trained.iter().map(|parameter| rt.empty_like(&parameter.tensor)).collect();
                while roots.pop().is_some() {}
            }
        }
    }

    fn make(&mut self, rt: &Runtime, trained: &[&Parameter], per_parameter: usize) {
        if !self.state.is_empty() {
            return;
        }
        for parameter in trained {
            for _ in 0..per_parameter {
                self.state.push(rt.optimizer_state(&parameter.tensor));
            }
        }
    }
}
