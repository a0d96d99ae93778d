//! Recurrent layers over whole sequences.
//!
//! <https://onnx.ai/onnx/operators/onnx__LSTM.html>, `onnx__GRU.html`, `onnx__RNN.html`:
//! `X [S, N, I]`, `W [directions, gates * H, I]`, `R [directions, gates * H, H]` to
//! `Y [S, directions, N, H]`, `Y_h [directions, N, H]`, `Y_c` alike. With `layout` 1 (operator set
//! 14) the batch stands first everywhere.

use super::{Call, Inference, MANY, OpError, Operator, Shaped, op, torch};
use crate::aten::recurrent::cell::{self, Step};
use crate::aten::recurrent::{Cell, Recurrent, recurrent as aten};
use crate::aten::view;

pub(super) const TABLE: &[Operator] = &[
    op("GRU", 3..=6, recurrent).runs(|call| layer(call, Cell::Gru)).unproven(),
    op("LSTM", 3..=8, recurrent).runs(|call| layer(call, Cell::Lstm)).unproven(),
    op("RNN", 3..=6, recurrent).runs(|call| layer(call, Cell::Plain)).unproven(),
    Shaped { infer: gru_cell, ..torch("GruCell", 4..=7) }.runs(gru_cell_rule),
    Shaped { infer: gru_cell, ..torch("RnnCell", 4..=7) }.runs(plain_cell_rule),
    Shaped { infer: lstm_cell, ..torch("LstmCell", 4..=7) }.runs(lstm_cell_rule),
    Shaped { infer: whole_module, ..torch("Recurrent", 3..=MANY) }.runs(module),
];

/// The new state has the type of the one before.
fn gru_cell(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let state = inference.input(1)?.clone();
    inference.set(0, state);
    Ok(())
}

/// State and cell have the types of those before.
fn lstm_cell(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let state = inference.input(1)?.clone();
    inference.set(0, state.clone());
    inference.set(1, state);
    Ok(())
}

/// Operands of a cell: input, state, weights; biases.
fn step(call: &Call<'_>) -> Result<Step, OpError> {
    let operands = [call.need(0)?, call.need(1)?, call.need(3)?, call.need(4)?];
    Ok(Step { operands, biases: call.tensor(5).zip(call.tensor(6)).map(|(a, b)| [a, b]) })
}

fn gru_cell_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let state = cell::gru(call.rt, &step(call)?);
    call.set(0, state);
    Ok(())
}

fn plain_cell_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let cuts = call.node.int("relu").is_some_and(|n| n != 0);
    let state = cell::plain(call.rt, &step(call)?, cuts);
    call.set(0, state);
    Ok(())
}

fn lstm_cell_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let outputs = cell::lstm(call.rt, &step(call)?, &call.need(2)?);
    for (position, output) in outputs.into_iter().enumerate() {
        call.set(position, output);
    }
    Ok(())
}

fn recurrent(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, r) = (inference.input(0)?, inference.input(2)?);
    let (&[first, second, _], &[directions, rows, hidden]) = (x.dims.as_slice(), r.dims.as_slice())
    else {
        return Err(OpError::new(say!("X and R must have three dimensions")));
    };
    if rows.checked_rem(hidden) != Some(0) {
        return Err(OpError::new(say!("{r} is no weight of a state of {hidden}", r, hidden)));
    }
    let batch_first = inference.node.int("layout").unwrap_or(0) != 0;
    if batch_first {
        inference.set_dims(0, x.dtype, [first, second, directions, hidden]);
    } else {
        inference.set_dims(0, x.dtype, [first, directions, second, hidden]);
    }
    for position in [1, 2] {
        if batch_first {
            inference.set_dims(position, x.dtype, [first, directions, hidden]);
        } else {
            inference.set_dims(position, x.dtype, [directions, second, hidden]);
        }
    }
    Ok(())
}

/// One layer as cuDNN runs it. An exporter writes several layers as several nodes, and weights of
/// both directions as one.
fn layer(call: &mut Call<'_>, cell: Cell) -> Result<(), OpError> {
    let x = call.need(0)?;
    let &[directions, _, hidden] = call.input_type(2)?.dims.as_slice() else {
        return Err(OpError::new(say!("R must have three dimensions")));
    };
    let weights: Vec<_> = (1..=3).filter_map(|position| call.tensor(position)).collect();
    let batch_first = call.node.int("layout").unwrap_or(0) != 0;
    let module = Recurrent { cell, hidden, layers: 1, directions, batch_first, drops: false };
    let mut outputs = aten(call.rt, &x, &[], &weights, &module).into_iter();
    if let Some(y) = outputs.next() {
        let by_direction = [y.size(0), y.size(1), directions, hidden];
        let y = view::reshape(call.rt, &y, &by_direction);
        let y = if batch_first { y } else { view::permute(call.rt, &y, &[0, 2, 1, 3]) };
        call.set(0, y);
    }
    for (position, state) in (1..).zip(outputs) {
        let state = if batch_first { view::transpose(call.rt, &state, 0, 1) } else { state };
        call.set(position, state);
    }
    Ok(())
}

/// `y` of `nn.RNNBase`, and the last states.
fn whole_module(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?.clone();
    let &[first, second, _] = x.dims.as_slice() else {
        return Err(OpError::new(say!("{x} is no sequence", x)));
    };
    let size = |name| inference.node.int(name).and_then(|n| u64::try_from(n).ok());
    let (Some(hidden), Some(ways)) = (size("hidden"), size("directions")) else {
        return Err(OpError::new(say!("`hidden` or `directions` is missing")));
    };
    inference.set_dims(0, x.dtype, [first, second, hidden.saturating_mul(ways)]);
    let batch = if inference.node.int("batch_first") == Some(0) { second } else { first };
    let layers = size("layers").unwrap_or(1).saturating_mul(ways);
    for position in [1, 2] {
        inference.set_dims(position, x.dtype, [layers, batch, hidden]);
    }
    Ok(())
}

/// `nn.RNN`, `nn.LSTM` or `nn.GRU`, all layers in one call; with `batch_first` where nothing is said.
fn module(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let size = |name| call.node.int(name).and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
    let cell = match call.node.string("cell") {
        Some("lstm") => Cell::Lstm,
        Some("gru") => Cell::Gru,
        _ => Cell::Plain,
    };
    let states = call.node.int("states").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let states: Vec<_> = (1..=states).filter_map(|position| call.need(position).ok()).collect();
    let weights: Vec<_> = call.tensors().into_iter().skip(states.len().saturating_add(1)).collect();
    let module = Recurrent {
        cell,
        hidden: size("hidden"),
        layers: size("layers"),
        directions: size("directions"),
        batch_first: call.node.int("batch_first") != Some(0),
        drops: call.node.int("drops") == Some(1),
    };
    if module.drops {
        call.is_unproven();
    }
    let outputs = aten(call.rt, &x, &states, &weights, &module);
    for (position, output) in outputs.into_iter().enumerate() {
        call.set(position, output);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            (
                "LSTM float32[35,20,200] float32[1,2600,200] float32[1,2600,650]",
                "float32[35,1,20,650] float32[1,20,650] float32[1,20,650]",
            ),
            (
                "GRU float32[35,20,200] float32[2,300,200] float32[2,300,100] direction=bidirectional",
                "float32[35,2,20,100] float32[2,20,100]",
            ),
            (
                "RNN float32[20,35,200] float32[1,100,200] float32[1,100,100] layout=1",
                "float32[20,35,1,100] float32[20,1,100]",
            ),
            (
                "LSTM float32[35,20] float32[1,2600,200] float32[1,2600,650]",
                "error: three dimensions",
            ),
        ] {
            check(call, expected);
        }
    }
}
