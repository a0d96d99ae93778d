//! One step of a recurrent network: two products and a kernel for the rest (`native/RNN.cpp`,
//! `native/cuda/RNN.cu`).

use crate::aten::elementwise::{self, Unary};
use crate::aten::matmul::{WeightLayout, linear};
use crate::eager::{Runtime, Tensor};

/// Operands of a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Input, state, and the weights of both.
    pub operands: [Tensor; 4],
    /// The biases of both.
    pub biases: Option<[Tensor; 2]>,
}

impl Step {
    /// The operands as autocast wants them, the last first.
    fn cast(&self, rt: &Runtime, name: &str, cell: Option<&Tensor>) -> (Self, Option<Tensor>) {
        let one = |x: &Tensor| {
            let [x] = rt.for_operator(name, [x]);
            x
        };
        let [x, h, w, r] = &self.operands;
        let biases = self.biases.as_ref().map(|[a, b]| rt.for_operator(name, [a, b]));
        let [w, r] = rt.for_operator(name, [w, r]);
        let h = one(h);
        let cell = cell.map(one);
        (Self { operands: [one(x), h, w, r], biases }, cell)
    }

    /// The products of the input and of the state, without their biases.
    fn products(&self, rt: &Runtime) -> [Tensor; 2] {
        let [x, h, w, r] = &self.operands;
        [(x, w), (h, r)].map(|(x, w)| linear(rt, x, w, None, WeightLayout::OutIn))
    }
}

/// `aten::rnn_tanh_cell`, or `rnn_relu_cell`: the product of the input is added onto that of the state, and
/// lives until the end.
pub fn plain(rt: &Runtime, step: &Step, cuts: bool) -> Tensor {
    let (step, _) =
        step.cast(rt, if cuts { "aten::rnn_relu_cell" } else { "aten::rnn_tanh_cell" }, None);
    let [x, h, w, r] = &step.operands;
    let [of_input, of_state] =
        step.biases.as_ref().map_or([None, None], |[a, b]| [Some(a), Some(b)]);
    let state = linear(rt, h, r, of_state, WeightLayout::OutIn);
    let input = linear(rt, x, w, of_input, WeightLayout::OutIn);
    let sum = elementwise::add_in_place(rt, &state, &input);
    drop(state);
    let curve = if cuts {
        Unary::saves_output("aten::relu").saved_leads()
    } else {
        Unary::saves_output("aten::tanh")
    };
    elementwise::unary(rt, curve, &sum)
}

/// `aten::_thnn_fused_lstm_cell`: the new state and the new cell.
pub fn lstm(rt: &Runtime, step: &Step, cell: &Tensor) -> Vec<Tensor> {
    let (step, cast) = step.cast(rt, "aten::lstm_cell", Some(cell));
    let cell = &cast.unwrap_or_else(|| cell.clone());
    let [input, state] = &step.products(rt);
    rt.enter_operator("aten::_thnn_fused_lstm_cell");
    let workspace = rt.empty_like(input);
    let new = [rt.empty_like(cell), rt.empty_like(cell)];
    let biases: Vec<&Tensor> = step.biases.iter().flatten().collect();
    let inputs: Vec<&Tensor> = [input, state, cell].into_iter().chain(biases.clone()).collect();
    let saved: Vec<&Tensor> =
        inputs.iter().copied().chain(new.get(1)).chain([&workspace]).collect();
    let has_bias = !biases.is_empty();
    let outputs = new.to_vec();
    rt.differentiable_many("ThnnFusedLstmCellBackward0", outputs, &inputs, &saved, move |pass| {
        let (Some(gates), Some(cell)) = (pass.saved(0), pass.saved(2)) else { return Vec::new() };
        let for_gates = pass.rt.empty_like(gates);
        let for_cell = pass.rt.empty_like(cell);
        let for_bias = has_bias.then(|| pass.rt.empty(gates.dtype(), &[gates.size(1)]));
        vec![Some(for_gates.clone()), Some(for_gates), Some(for_cell), for_bias.clone(), for_bias]
    })
}

/// `aten::_thnn_fused_gru_cell`: the new state.
pub fn gru(rt: &Runtime, step: &Step) -> Tensor {
    let (step, _) = step.cast(rt, "aten::gru_cell", None);
    let [input, state] = &step.products(rt);
    let [_, before, ..] = &step.operands;
    rt.enter_operator("aten::_thnn_fused_gru_cell");
    let workspace = rt.empty(before.dtype(), &[before.size(0), before.size(1).saturating_mul(5)]);
    let new = rt.empty_like(before);
    let biases: Vec<&Tensor> = step.biases.iter().flatten().collect();
    let inputs: Vec<&Tensor> = [input, state, before].into_iter().chain(biases.clone()).collect();
    let saved: Vec<&Tensor> = inputs.iter().copied().chain([&workspace]).collect();
    let has_bias = !biases.is_empty();
    rt.differentiable("ThnnFusedGruCellBackward0", new, &inputs, &saved, move |pass| {
        let (Some(gates), Some(before)) = (pass.saved(0), pass.saved(2)) else { return Vec::new() };
        let for_input = pass.rt.empty_like(gates);
        let for_state = pass.rt.empty_like(gates);
        let for_before = pass.rt.empty_like(before);
        let sum = || has_bias.then(|| pass.rt.empty(gates.dtype(), &[gates.size(1)]));
        let for_biases = [sum(), sum()];
        let [a, b] = for_biases;
        vec![Some(for_input), Some(for_state), Some(for_before), a, b]
    })
}
