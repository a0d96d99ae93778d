//! Recurrent layers over whole sequences.
//!
//! <https://onnx.ai/onnx/operators/onnx__LSTM.html>, `onnx__GRU.html`, `onnx__RNN.html`:
//! `X [S, N, I]`, `W [directions, gates * H, I]`, `R [directions, gates * H, H]` to
//! `Y [S, directions, N, H]`, `Y_h [directions, N, H]`, `Y_c` alike. With `layout` 1 (operator set
//! 14) the batch stands first everywhere.

use super::{Inference, OpError, Operator, op};

pub(super) const TABLE: &[Operator] = &[
    op("GRU", 3..=6, recurrent).unmodelled(),
    op("LSTM", 3..=8, recurrent).unmodelled(),
    op("RNN", 3..=6, recurrent).unmodelled(),
];

fn recurrent(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, r) = (inference.input(0)?, inference.input(2)?);
    let (&[first, second, _], &[directions, _, hidden]) = (x.dims.as_slice(), r.dims.as_slice())
    else {
        return Err(OpError::new("X and R must have three dimensions"));
    };
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
