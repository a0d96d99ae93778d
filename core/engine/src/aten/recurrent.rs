//! Recurrent layers as cuDNN runs them: `aten::_cudnn_rnn`, for `nn.RNN`, `nn.LSTM` and `nn.GRU`.
//!
//! Source of the order: `native/cudnn/RNN.cpp`. `workspace` and `reserve` have the memory that cuDNN needs in
//! addition to the tensors. The sizes are those that `cudnnGetRNNTempSpaceSizes` of cuDNN 9.26 returns
//! (`tests/oracle/recurrent.py`).

pub mod cell;

use super::view;
use crate::bytes::Bytes;
use crate::eager::kernels;
use crate::eager::{Gradients, Kernel, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// What a cell computes (`cudnnRNNMode_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `tanh(W x + R h)`, or `relu`.
    Plain,
    /// Long short-term memory.
    Lstm,
    /// Gated recurrent unit.
    Gru,
}

impl Cell {
    /// COUNT: products with the input, and as many with the state before.
    pub const fn gates(self) -> u64 {
        match self {
            Self::Plain => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }
}

/// A recurrent module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// What a cell computes.
    pub cell: Cell,
    /// Width of the state.
    pub hidden: u64,
    /// COUNT: layers, each reading the one before it.
    pub layers: u64,
    /// COUNT: directions, 1 or 2.
    pub directions: u64,
    /// Whether the batch lies before the time.
    pub batch_first: bool,
    /// Whether there is dropout between layers.
    pub drops: bool,
}

impl Recurrent {
    /// COUNT: elements of cuDNN's biases, two for each layer and direction.
    const fn biases(&self) -> u64 {
        let rows = self.cell.gates().saturating_mul(self.hidden);
        self.layers.saturating_mul(self.directions).saturating_mul(rows).saturating_mul(2)
    }
}

/// One call of it: the sizes that decide what cuDNN asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The module.
    pub module: Recurrent,
    /// COUNT: steps.
    pub time: u64,
    /// COUNT: sequences.
    pub batch: u64,
    /// Width of what is read.
    pub input: u64,
    /// SIZE: an element.
    pub element: Bytes,
}

impl Run {
    /// SIZE: one state of one direction.
    const fn state(&self) -> Bytes {
        self.element.times(self.batch).times(self.module.hidden)
    }

    /// SIZE: what forward keeps for backward.
    ///
    /// For every step, layer and direction the gates and what else the cell's gradient reads, and
    /// what lies between layers.
    pub fn reserve(&self) -> Bytes {
        let Recurrent { cell, layers, directions, .. } = self.module;
        let kept: u64 = match cell {
            Cell::Plain => 1,
            Cell::Lstm => 5,
            Cell::Gru => 6,
        };
        let states = kept.saturating_mul(layers).saturating_add(layers.saturating_sub(1));
        self.state().times(self.time).times(directions).times(states) + ALIGNMENT
    }

    /// SIZE: scratch of a call, the same for forward and both halves of backward.
    ///
    /// Inference takes as much with LSTM and GRU, and less with plain cells, which is not modelled.
    ///
    /// cuDNN's answer to the byte for one layer and for two directions; within 1.6 % of it for several
    /// layers of LSTM or GRU in one direction, where it runs layers side by side.
    pub fn workspace(&self) -> Bytes {
        let Recurrent { cell, hidden, layers, directions, .. } = self.module;
        let (gates, time) = (cell.gates(), self.time);
        let steps = |count: u64, width: u64| count.saturating_mul(time).saturating_mul(width);
        let states = |count: u64| count.saturating_mul(layers).saturating_mul(hidden);
        let widest = self.input.max(hidden);
        let (by_gate, by_width) = if directions == 1 {
            let (held, more) = match cell {
                Cell::Plain => (1, 1),
                Cell::Lstm => (6, 3),
                Cell::Gru => (3, 1),
            };
            let chunk = gates.saturating_mul(time.min(CHUNK)).saturating_mul(hidden);
            let rows = if layers == 1 {
                steps(1, hidden).saturating_add(states(more))
            } else {
                time.min(8).saturating_mul(hidden).saturating_add(states(more + 4))
            };
            (chunk.saturating_add(states(held)), steps(1, widest).saturating_add(rows))
        } else {
            let (held, more) = match cell {
                Cell::Plain => (4, 6),
                Cell::Lstm => (16, 10),
                Cell::Gru => (10, 6),
            };
            let less = if layers == 1 { 2 } else { 0 };
            let rows = steps(4, widest).saturating_add(steps(4_u64 - less, hidden));
            (
                steps(gates.saturating_mul(2).saturating_add(4), hidden)
                    .saturating_add(states(held)),
                rows.saturating_add(states(more)),
            )
        };
        let streams = STREAM.times(layers).times(directions);
        let elements = by_gate.max(by_width).saturating_mul(self.batch);
        streams + self.matrices() + self.element.times(elements) + ALIGNMENT
    }

    /// SIZE: all weights without biases.
    fn matrices(&self) -> Bytes {
        let Recurrent { cell, hidden, layers, directions, .. } = self.module;
        let rows = cell.gates().saturating_mul(hidden).saturating_mul(directions);
        let first = self.input.saturating_add(hidden);
        let next = directions.saturating_add(1).saturating_mul(hidden);
        let columns = first.saturating_add(layers.saturating_sub(1).saturating_mul(next));
        self.element.times(rows).times(columns).round_up(ALIGNMENT)
    }
}

/// SIZE: what `native/cudnn/RNN.cpp` calls slightly over 2 MB; cuDNN decides, by card.
const DROPOUT_STATES: Bytes = Bytes((2 << 20) + (64 << 10));

/// SIZE: what cuDNN rounds pieces to, and adds once.
const ALIGNMENT: Bytes = Bytes(256);

/// SIZE: scratch of one stream, of which there is one for each layer and direction.
const STREAM: Bytes = Bytes(8 << 20);

/// COUNT: steps whose gates are alive together in one direction.
const CHUNK: u64 = 256;

/// Output, last state, and for an LSTM the last cell; first `states` that nobody gives are zeros.
///
/// `x [S, N, I]` to `[S, N, directions * H]`, or with the batch first; the states are `[layers * directions, N, H]`.
/// `weights` are those of `nn.RNNBase._flat_weights`, in its order.
pub fn recurrent(
    rt: &Runtime,
    x: &Tensor,
    given: &[Tensor],
    weights: &[Tensor],
    module: &Recurrent,
) -> Vec<Tensor> {
    const NAME: &str = "aten::_cudnn_rnn";
    let (time_at, batch_at) = if module.batch_first { (1, 0) } else { (0, 1) };
    let (time, batch) = (x.size(time_at), x.size(batch_at));
    let states = [module.layers.saturating_mul(module.directions), batch, module.hidden];
    let has_cell = module.cell == Cell::Lstm;
    rt.enter_operator("aten::zeros");
    let state = |at: usize| given.get(at).cloned().unwrap_or_else(|| rt.empty(x.dtype(), &states));
    let zeros = state(0);
    let cell_zeros = has_cell.then(|| state(1));
    let (flat, weights) = flattened(rt, weights, module);
    let cx = cell_zeros.as_ref().map(|zeros| {
        let [cx] = rt.for_operator(NAME, [zeros]);
        cx
    });
    let [x, hx] = &rt.for_operator(NAME, [x, &zeros]);
    let run = Run { module: *module, time, batch, input: x.size(2), element: x.dtype().size() };
    let trains = rt.is_training();
    if module.drops && trains {
        rt.dropout_states(DROPOUT_STATES);
    }
    let copy = by_time(rt, x, module);
    rt.enter_operator(NAME);
    let width = module.directions.saturating_mul(module.hidden);
    let y = rt.empty(x.dtype(), &[time, batch, width]);
    let hy = rt.empty(x.dtype(), &states);
    let cy = has_cell.then(|| rt.empty(x.dtype(), &states));
    // `flatten_parameters` knows no bfloat16 (`CUDNN_TENSOR_DTYPES`): each call copies all weights into one tensor.
    let is_apart = flat.is_none() && x.dtype() == DType::BFloat16;
    let flat =
        flat.or_else(|| is_apart.then(|| rt.empty(x.dtype(), &[elements(&weights, module)])));
    let scratch = rt.scratch(run.workspace());
    // Inference has none.
    let reserve = if trains { run.reserve() } else { Bytes::ZERO };
    let reserve = rt.empty(DType::UInt8, &[reserve.0]);
    if rt.is_launching() {
        let writes: Vec<&Tensor> = [&y, &hy, &reserve].into_iter().chain(&cy).collect();
        launch(rt, &run, &writes, Part::Forward);
    }
    drop((scratch, copy));
    let y = as_given(y, module);
    let mut saved = vec![x];
    saved.extend(&weights);
    saved.push(hx);
    saved.extend(cx.as_ref());
    saved.extend([&y, &reserve]);
    saved.extend(flat.as_ref());
    let mut inputs = vec![x];
    inputs.extend(&weights);
    inputs.push(hx);
    inputs.extend(cx.as_ref());
    let outputs = [y.clone(), hy].into_iter().chain(cy).collect();
    let layouts = weights.iter().map(|w| (w.sizes().to_vec(), w.strides().to_vec()));
    let layouts: Vec<_> = layouts.collect();
    rt.differentiable_many("CudnnRnnBackward0", outputs, &inputs, &saved, move |pass| {
        gradients(pass, &run, &states, &layouts)
    })
}

/// COUNT: elements of all weights, and of the two biases that cuDNN has for each layer and direction also where the
/// module has none.
fn elements(weights: &[Tensor], module: &Recurrent) -> u64 {
    let all = weights.iter().map(Tensor::numel).fold(0, u64::saturating_add);
    let has_bias = weights.iter().any(|weight| weight.rank() == 1);
    all.saturating_add(if has_bias { 0 } else { module.biases() })
}

/// Under autocast all weights as views of one tensor of the lower type, which each call makes anew
/// (`_cudnn_rnn_cast_reflatten`, `native/cudnn/RNN.cpp`); else as they are.
fn flattened(
    rt: &Runtime,
    weights: &[Tensor],
    module: &Recurrent,
) -> (Option<Tensor>, Vec<Tensor>) {
    let is_other = |dtype| weights.first().is_some_and(|weight| weight.dtype() != dtype);
    let Some(dtype) = rt.autocast_type().filter(|&dtype| is_other(dtype)) else {
        return (None, weights.to_vec());
    };
    rt.enter_operator("aten::_cudnn_rnn");
    let flat = rt.empty(dtype, &[elements(weights, module)]);
    let views = weights.iter().map(|weight| {
        let view = flat.alias(weight.sizes(), weight.strides());
        let from = weight.dtype();
        rt.differentiable("CopyBackwards", view, &[weight], &[], move |pass| {
            vec![pass.grad().map(|grad| kernels::cast(pass.rt, grad, from))]
        })
    });
    let views = views.collect();
    (Some(flat), views)
}

/// `input.transpose(0, 1).contiguous()`, where the batch lies first.
fn by_time(rt: &Runtime, x: &Tensor, module: &Recurrent) -> Tensor {
    rt.no_grad(|| {
        let x = if module.batch_first { view::transpose(rt, x, 0, 1) } else { x.clone() };
        view::contiguous(rt, &x)
    })
}

/// `transpose_(0, 1)` of what was made by time.
fn as_given(y: Tensor, module: &Recurrent) -> Tensor {
    let &[time, batch, width] = y.sizes() else { return y };
    if !module.batch_first {
        return y;
    }
    y.alias_sole(vec![batch, time, width], vec![width, batch.saturating_mul(width), 1])
}

/// Which of cuDNN's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Forward,
    Data,
    Weights,
}

/// The kernels of a call: for each layer and direction a product for all inputs at once and one for the state of
/// each step; the gradients of weights are two products. The cell's arithmetic is counted with the states' bytes.
fn launch(rt: &Runtime, run: &Run, writes: &[&Tensor], part: Part) {
    let Some(dtype) = writes.first().map(|first| first.dtype()).filter(|_| rt.is_launching())
    else {
        return;
    };
    let Run {
        module: Recurrent { cell, hidden, layers, directions, .. }, time, batch, input, ..
    } = *run;
    let gates = cell.gates().saturating_mul(hidden);
    let tokens = time.saturating_mul(batch);
    let product = |writes: &[&Tensor], rows, inner, columns| {
        rt.launch(writes, Kernel::Gemm { batch: 1, rows, inner, columns, batched: false }, dtype);
    };
    let mut writes = writes;
    for layer in 0..layers {
        let width = if layer == 0 { input } else { directions.saturating_mul(hidden) };
        for _ in 0..directions {
            match part {
                Part::Forward => product(writes, tokens, width, gates),
                Part::Data => product(writes, tokens, gates, width),
                Part::Weights => {
                    product(writes, gates, tokens, width);
                    product(&[], gates, tokens, hidden);
                }
            }
            writes = &[];
            let steps = if part == Part::Weights { 0 } else { time };
            for _ in 0..steps {
                product(&[], batch, hidden, gates);
            }
            if steps > 0 {
                let read = run.element.times(tokens).times(gates);
                rt.launch(&[], Kernel::Elementwise { read, written: read }, dtype);
            }
        }
    }
}

/// `_cudnn_rnn_backward`: the gradient of the input is made whether it is needed or not, since that
/// call completes the reserve; then all weights' gradients as pieces of one tensor.
fn gradients(
    pass: &Pass<'_>,
    run: &Run,
    states: &[u64],
    weights: &[(Vec<u64>, Vec<u64>)],
) -> Gradients {
    let Some(x) = pass.saved(0) else { return Vec::new() };
    let (rt, module) = (pass.rt, &run.module);
    let dtype = x.dtype();
    rt.enter_operator("aten::_cudnn_rnn_backward");
    let given = |position: usize| pass.grads.get(position).and_then(Option::clone);
    let width = module.directions.saturating_mul(module.hidden);
    let grad = given(0).unwrap_or_else(|| rt.empty(dtype, &[run.batch, run.time, width]));
    let last = given(1).unwrap_or_else(|| rt.empty(dtype, states));
    let has_cell = module.cell == Cell::Lstm;
    let last_cell = has_cell.then(|| given(2).unwrap_or_else(|| rt.empty(dtype, states)));
    let copy = by_time(rt, x, module);
    let grad_copy = by_time(rt, &grad, module);
    rt.enter_operator("aten::_cudnn_rnn_backward");
    let for_input = rt.empty(dtype, &[run.time, run.batch, run.input]);
    let for_state = rt.empty(dtype, states);
    let for_cell = has_cell.then(|| rt.empty(dtype, states));
    rt.workspace(run.workspace());
    if rt.is_launching() {
        let writes: Vec<&Tensor> = [&for_input, &for_state].into_iter().chain(&for_cell).collect();
        launch(rt, run, &writes, Part::Data);
    }
    drop((grad_copy, copy));
    let copy = by_time(rt, x, module);
    rt.enter_operator("aten::_cudnn_rnn_backward");
    let count = |sizes: &[u64]| sizes.iter().copied().fold(1, u64::saturating_mul);
    let all = weights.iter().map(|(sizes, _)| count(sizes)).fold(0, u64::saturating_add);
    // cuDNN has biases, two for each layer and direction, where the module has none: its weights are copies.
    let has_bias = weights.iter().any(|(sizes, _)| sizes.len() == 1);
    let biases = if has_bias { 0 } else { module.biases() };
    let flat = rt.empty(dtype, &[all.saturating_add(biases)]);
    let scratch = rt.scratch(run.workspace());
    if rt.is_launching() {
        launch(rt, run, &[&flat], Part::Weights);
    }
    drop(copy);
    let mut gradients = vec![Some(as_given(for_input, module))];
    let piece = |(sizes, strides): &(Vec<u64>, Vec<u64>)| {
        if has_bias { flat.alias(sizes.clone(), strides.clone()) } else { rt.empty(dtype, sizes) }
    };
    gradients.extend(weights.iter().map(piece).map(Some));
    drop((scratch, flat, last_cell, last, grad));
    gradients.push(Some(for_state));
    gradients.extend(for_cell.map(Some));
    gradients
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cudnnGetRNNTempSpaceSizes` of cuDNN 9.26 answers: `tests/oracle/recurrent.py`.
    #[test]
    fn spaces_are_those_of_cudnn() {
        use Cell::{Gru, Lstm, Plain};
        for (cell, [time, batch, input, hidden], [layers, directions], expected) in [
            (Plain, [10, 4, 16, 32], [1, 1], [8_405_760, 5_376]),
            (Plain, [10, 4, 16, 32], [1, 2], [16_823_552, 10_496]),
            (Lstm, [10, 4, 16, 32], [1, 1], [8_436_992, 25_856]),
            (Lstm, [20, 4, 16, 32], [1, 1], [8_457_472, 51_456]),
            (Lstm, [10, 4, 64, 32], [1, 1], [8_461_568, 25_856]),
            (Lstm, [10, 4, 16, 32], [1, 2], [16_896_256, 51_456]),
            (Lstm, [10, 4, 16, 32], [2, 2], [33_779_968, 112_896]),
            (Lstm, [100, 64, 300, 512], [2, 2], [233_505_024, 288_358_656]),
            (Gru, [10, 4, 16, 32], [1, 1], [8_424_192, 30_976]),
            (Gru, [10, 4, 16, 32], [2, 2], [33_726_720, 133_376]),
            (Gru, [100, 64, 300, 512], [2, 2], [196_100_352, 340_787_456]),
        ] {
            let module =
                Recurrent { cell, hidden, layers, directions, batch_first: false, drops: false };
            let run = Run { module, time, batch, input, element: Bytes(4) };
            let spaces = [run.workspace().0, run.reserve().0];
            assert_eq!(spaces, expected, "{run:?}");
        }
    }
}
