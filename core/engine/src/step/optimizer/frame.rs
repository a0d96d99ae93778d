//! A Python frame that updates parameters: variables, values without a variable, and state.
//!
//! - A variable that is assigned again drops its old value after the new one exists.
//! - Values without a variable are freed after the statement that made them.
//! - When the function returns, its variables are freed in the order in which the code first mentions them; a list
//!   is freed from its end.

use super::rule::Slot;
use crate::eager::launch::Passes;
use crate::eager::{Runtime, Tensor};
use crate::tensor::{DType, TensorType};
use crate::trace::Category;

/// A list of tensors, or of the only one.
pub(super) type List = Vec<Tensor>;

/// One call of an update function.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The process.
    pub(super) rt: &'a Runtime,
    /// Parameters that the statements are about: all of a type, or one.
    pub(super) parameters: List,
    /// Whether a weight decay is set.
    pub(super) decays: bool,
    /// COUNT: steps begun, this one among them.
    step: usize,
    state: &'a mut Vec<Tensor>,
    names: Vec<(&'static str, List)>,
    unnamed: Vec<List>,
}

impl<'a> Frame<'a> {
    /// A frame that has bound nothing yet; state goes to `state` and stays.
    pub(super) const fn new(rt: &'a Runtime, state: &'a mut Vec<Tensor>, step: usize) -> Self {
        Self {
            rt,
            parameters: Vec::new(),
            decays: false,
            step,
            state,
            names: Vec::new(),
            unnamed: Vec::new(),
        }
    }

    /// Whether lists are divided into new ones, as before PyTorch 2.1.
    pub(super) fn is_out_of_place(&self) -> bool {
        self.rt.pytorch.updates_out_of_place()
    }

    /// Whether this step stands for all later ones, where a count of steps decides.
    pub(super) const fn is_late(&self) -> bool {
        self.step > 2
    }

    /// What an operator makes of the parameters: as many tensors of their sizes.
    pub(super) fn like(&self, operator: &'static str) -> List {
        self.rt.enter_operator(operator);
        let fresh = || self.parameters.iter().map(|parameter| self.rt.empty_like(parameter));
        let made = self.rt.without_launches(|| fresh().collect());
        self.rt.launch_foreach(&self.parameters, Passes { reads: 1, writes: 1 });
        made
    }

    /// `name = operator(…)`, the end of a statement.
    pub(super) fn assign(&mut self, name: &'static str, operator: &'static str) {
        let values = self.like(operator);
        self.bind(name, values);
    }

    /// `name = values`, the end of a statement.
    pub(super) fn bind(&mut self, name: &'static str, values: List) {
        self.end_statement();
        let held = self.names.iter_mut().find(|(known, _)| *known == name);
        let old = if let Some((_, held)) = held {
            std::mem::replace(held, values)
        } else {
            self.names.push((name, values));
            Vec::new()
        };
        release(old);
    }

    /// `del name`, or binding it to what was there before.
    pub(super) fn del(&mut self, name: &'static str) {
        self.bind(name, Vec::new());
    }

    /// `to = from`, and `from` is not read any more.
    pub(super) fn rename(&mut self, from: &'static str, to: &'static str) {
        let held = self.names.iter_mut().find(|(known, _)| *known == from);
        let values = held.map(|(_, held)| std::mem::take(held)).unwrap_or_default();
        self.bind(to, values);
    }

    /// Says in which order the code mentions names, where control flow may change that.
    pub(super) fn mention(&mut self, names: &[&'static str]) {
        for &name in names {
            if !self.names.iter().any(|(known, _)| *known == name) {
                self.names.push((name, Vec::new()));
            }
        }
    }

    /// An operator's result that gets no name: it lives as long as its statement.
    pub(super) fn temporary(&mut self, operator: &'static str) {
        let values = self.like(operator);
        self.unnamed.push(values);
    }

    /// The end of a statement that binds nothing.
    fn end_statement(&mut self) {
        self.unnamed.drain(..).for_each(release);
    }

    /// A statement whose only new tensors are an operator's.
    pub(super) fn expression(&mut self, operator: &'static str) {
        release(self.like(operator));
    }

    /// In the first step, state as large as the parameters.
    pub(super) fn keep(&mut self, operator: &'static str) {
        if self.step == 1 {
            self.rt.enter_operator(operator);
            let rt = self.rt;
            self.state.extend(self.parameters.iter().map(|tensor| rt.optimizer_state(tensor)));
        }
    }

    /// In the first step, state of another type.
    pub(super) fn keep_typed(&mut self, operator: &'static str, dtype: DType, sizes: &[u64]) {
        if self.step == 1 {
            self.rt.enter_operator(operator);
            let ty = TensorType::new(dtype, sizes);
            self.state.push(self.rt.place(&ty, Category::OptimizerState, ""));
        }
    }

    /// In the first step, a tensor of state for each parameter.
    pub(super) fn make(&mut self, slot: Slot) {
        match slot {
            Slot::Like(operator) => self.keep(operator),
            Slot::Number(operator) => self.keep_typed(operator, DType::Float32, &[]),
            Slot::By(make) => make(self),
        }
    }

    /// Whether some state of this type is there already.
    pub(super) fn keeps(&self, dtype: DType) -> bool {
        self.state.iter().any(|state| state.dtype() == dtype)
    }

    /// A number on the device, in 32 bits.
    pub(super) fn number(&self, operator: &'static str) -> Tensor {
        self.rt.enter_operator(operator);
        self.rt.empty(DType::Float32, &[])
    }

    /// `return`: names go in their order.
    pub(super) fn finish(mut self) {
        self.end_statement();
        self.names.drain(..).for_each(|(_, values)| release(values));
    }
}

/// Python drops a list from its end.
pub(super) fn release(mut list: List) {
    while list.pop().is_some() {}
}
