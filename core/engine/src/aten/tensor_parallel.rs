//! Collectives of tensor parallelism: what `DTensor` allocates around the operators of a rank's part.
//!
//! - A collective writes into a new tensor: an all-reduce into a copy of its input.
//! - What is gathered along another dimension than the first arrives in one buffer, and is put together in another.
//! - Where ranks have the same tensor, a part of it is a copy.
//!
//! Sources: `torch/distributed/tensor/{_api,_redistribute,placement_types}.py`, `_ops/_embedding_ops.py`, PyTorch 2.15.

use super::embedding;
use crate::eager::exchange::{Exchange, Group};
use crate::eager::layout::contiguous_strides;
use crate::eager::{Runtime, Tensor};
use crate::tensor::{DType, Dims};

/// Ranks that have parts of a layer are neighbours.
const fn group(parts: u64) -> Group {
    Group { ranks: parts, apart: 1 }
}

/// `_c10d_functional::all_reduce`: a copy, which is reduced in place.
fn reduced(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    rt.enter_operator("_c10d_functional::all_reduce");
    let y = rt.empty_like(x);
    rt.launch_elementwise(&[x], &[&y]);
    rt.exchange(&[], Exchange::AllReduce.of(y.nbytes(), group(parts)));
    y
}

/// A part of the last dimension, by itself.
fn part(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    rt.enter_operator("aten::clone");
    let y = rt.empty(x.dtype(), &last_scaled(x.sizes(), |n| n.div_euclid(parts.max(1))));
    rt.launch_elementwise(&[&y], &[&y]);
    y
}

/// The parts of all ranks along the last dimension.
fn gathered(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    let sizes = last_scaled(x.sizes(), |n| n.saturating_mul(parts));
    rt.enter_operator("_c10d_functional::all_gather_into_tensor");
    let buffer = rt.empty(x.dtype(), &sizes);
    rt.exchange(&[&buffer], Exchange::AllGather.of(buffer.nbytes(), group(parts)));
    rt.enter_operator("aten::cat");
    let y = rt.empty(x.dtype(), &sizes);
    rt.launch_elementwise(&[&buffer], &[&y]);
    y
}

fn last_scaled(sizes: &[u64], scaled: impl Fn(u64) -> u64) -> Dims {
    let mut sizes = Dims::from_slice(sizes);
    if let Some(last) = sizes.last_mut() {
        *last = scaled(*last);
    }
    sizes
}

/// What every rank has goes into parts of a layer: the gradients of all are added.
pub fn replicated(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    let y = x.alias(x.sizes(), x.strides());
    rt.differentiable("_FromTorchTensorBackward", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| reduced(pass.rt, grad, parts))]
    })
}

/// The sum over all ranks, which each has then; so does it its gradient.
pub fn all_reduce(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    let y = reduced(rt, x, parts);
    rt.differentiable("RedistributeBackward", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// The parts of all ranks, put together along the last dimension.
pub fn gather(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    let y = gathered(rt, x, parts);
    rt.differentiable("RedistributeBackward", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| part(pass.rt, grad, parts))]
    })
}

/// This rank's part of the last dimension of what all have.
pub fn split(rt: &Runtime, x: &Tensor, parts: u64) -> Tensor {
    let y = part(rt, x, parts);
    rt.differentiable("RedistributeBackward", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| gathered(pass.rt, grad, parts))]
    })
}

/// Rows of a table whose rows are divided between ranks: those of other ranks are zeros, and all are added. The gradient
/// is that of the whole table.
pub fn embedding(rt: &Runtime, weight: &Tensor, indices: &Tensor, parts: u64) -> Tensor {
    if let Some(edge) = weight.edge() {
        edge.takes_whole();
    }
    let mut table = weight.sizes().to_vec();
    if let Some(rows) = table.first_mut() {
        *rows = rows.saturating_mul(parts);
    }
    let (rows, mask) = rt.no_grad(|| {
        let like =
            |dtype| rt.empty_strided(dtype, indices.sizes(), contiguous_strides(indices.sizes()));
        rt.enter_operator("aten::lt");
        let below = like(DType::Bool);
        rt.enter_operator("aten::ge");
        let above = like(DType::Bool);
        rt.enter_operator("aten::bitwise_or");
        let mask = like(DType::Bool);
        rt.launch_elementwise(&[&below, &above], &[&mask]);
        drop((below, above));
        rt.enter_operator("aten::clone");
        let copy = like(indices.dtype());
        rt.enter_operator("aten::sub");
        let own = like(indices.dtype());
        rt.launch_elementwise(&[&copy], &[&own]);
        drop(copy);
        (embedding::rows(rt, weight, &own), mask)
    });
    drop(mask);
    let y = reduced(rt, &rows, parts);
    drop(rows);
    embedding::of_rows(rt, y, (weight, &table), indices)
}
