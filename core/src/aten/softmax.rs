//! `_softmax` and `_log_softmax`: the result is saved (`native/cuda/SoftMax.cu`).

use super::elementwise::{Reads, Unary, unary};
use super::view;
use crate::eager::{Runtime, Tensor};

/// `aten::softmax`.
pub fn softmax(rt: &Runtime, x: &Tensor) -> Tensor {
    // The gradient is multiplied by the result first, into a tensor of its own.
    run(rt, x, "aten::_softmax", "SoftmaxBackward0", 1)
}

/// `aten::log_softmax`.
pub fn log_softmax(rt: &Runtime, x: &Tensor) -> Tensor {
    run(rt, x, "aten::_log_softmax", "LogSoftmaxBackward0", 0)
}

fn run(
    rt: &Runtime,
    x: &Tensor,
    name: &'static str,
    node: &'static str,
    temporaries: usize,
) -> Tensor {
    let x = view::contiguous(rt, x);
    unary(rt, Unary { name, node, reads: Reads::Output, temporaries }, &x)
}
