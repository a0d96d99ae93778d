//! The kernels that the engine itself runs: sums over what was broadcast, sums of two gradients,
//! casts. [`crate::aten`] builds on them.
//!
//! `native/cuda/Reduce.cuh`: a reduction over a direction that is not the fastest-moving one is
//! split over thread blocks when there are enough rows, and partial results go through a buffer
//! from the caching allocator: about one MiB per multiprocessor for the bias gradient of a wide
//! Linear.

use super::layout::{broadcast_sizes, contiguous_strides, elementwise_strides, like_strides};
use super::{Hardware, Runtime, Tensor};
use crate::bytes::Bytes;
use crate::tensor::{DType, Dims, numel};

/// The wider of two types, a float before any integer; of two unlike halves, single precision.
pub fn promote(a: DType, b: DType) -> DType {
    match (a.is_floating(), b.is_floating()) {
        (true, false) => a,
        (false, true) => b,
        _ if a == b => a,
        (true, true) if a.size() == b.size() => DType::Float32,
        _ if a.size() > b.size() => a,
        _ => b,
    }
}

/// The result of a pointwise kernel over operands that broadcast.
pub fn pointwise(rt: &Runtime, dtype: DType, operands: &[&Tensor]) -> Tensor {
    let sizes = operands
        .iter()
        .fold(Dims::new(), |sizes, operand| broadcast_sizes(&sizes, operand.sizes()));
    let strides = elementwise_strides(&sizes, operands);
    let y = rt.empty_strided(dtype, &sizes, strides);
    rt.launch_elementwise(operands, &[&y]);
    y
}

/// Sum of two gradients that may not be added in place.
pub(super) fn add_gradients(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::add");
    pointwise(rt, a.dtype(), &[a, b])
}

/// `aten::_to_copy` to another type; the same type is the same tensor.
pub fn cast(rt: &Runtime, x: &Tensor, dtype: DType) -> Tensor {
    if x.dtype() == dtype {
        return x.clone();
    }
    rt.enter_operator("aten::to");
    let y = rt.empty_strided(dtype, x.sizes(), like_strides(x));
    rt.launch_elementwise(&[x], &[&y]);
    if !dtype.is_floating() {
        return y;
    }
    let from = x.dtype();
    rt.differentiable("ToCopyBackward0", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| cast(pass.rt, grad, from))]
    })
}

/// `sum` over the dimensions in which `x` is larger than `sizes` (`at::sum_to`).
pub fn sum_to(rt: &Runtime, x: &Tensor, sizes: &[u64]) -> Tensor {
    let missing = x.rank().saturating_sub(sizes.len());
    let reduced: Vec<bool> = (0..x.rank())
        .map(|dim| match dim.checked_sub(missing).and_then(|d| sizes.get(d)) {
            Some(&size) => size == 1 && x.size(dim) != 1,
            None => true,
        })
        .collect();
    rt.enter_operator("aten::sum");
    let result = reduce(rt, x, &reduced, x.dtype());
    // Without dimensions it is a sum of everything; fewer dimensions are a view, which holds its base.
    let strides = contiguous_strides(sizes);
    if missing > 0 && !sizes.is_empty() {
        return result.view_of(sizes, strides);
    }
    result.alias_sole(sizes, strides)
}

/// Reduces the marked dimensions to one: allocates the result, then what the kernel needs.
pub fn reduce(rt: &Runtime, x: &Tensor, reduced: &[bool], dtype: DType) -> Tensor {
    let result = rt.empty(dtype, &kept_sizes(x, reduced));
    reduce_into_place(rt, x, reduced);
    rt.launch_reduction(&[x], &[&result]);
    result
}

/// Reduces the marked dimensions into a tensor that is there: staging buffers live as long as the
/// kernel runs.
pub fn reduce_into_place(rt: &Runtime, x: &Tensor, reduced: &[bool]) {
    let shape = shape(x, reduced);
    let scratch = move |hardware: &Hardware, counts: &[u64]| {
        let &[inputs, outputs] = counts else { return None };
        let split = Shape { inputs, outputs, ..shape }.split();
        Some(split.map_or_else(Default::default, |split| split.scratch(hardware)))
    };
    let counts = [shape.inputs, shape.outputs];
    let staging =
        rt.scratch_by(&counts, move |hardware, counts| Some(scratch(hardware, counts)?.0));
    let semaphores =
        rt.scratch_by(&counts, move |hardware, counts| Some(scratch(hardware, counts)?.1));
    drop(semaphores);
    drop(staging);
}

/// What a reduction of the marked dimensions is.
fn shape(x: &Tensor, reduced: &[bool]) -> Shape {
    let dims: Vec<(u64, u64, bool)> = x
        .sizes()
        .iter()
        .zip(x.strides())
        .zip(reduced)
        .filter(|((size, _), _)| **size != 1)
        .map(|((&size, &stride), &gone)| (size, stride, gone))
        .collect();
    let inputs = numel(&dims.iter().filter(|d| d.2).map(|d| d.0).collect::<Vec<_>>());
    let outputs = numel(&dims.iter().filter(|d| !d.2).map(|d| d.0).collect::<Vec<_>>());
    let innermost = |gone| dims.iter().filter(|d| d.2 == gone).map(|d| d.1).min();
    let fast = match (innermost(true), innermost(false)) {
        (Some(inside), Some(outside)) => inside < outside,
        _ => true,
    };
    let unit_stride = dims.iter().map(|d| d.1).min() == Some(1);
    let coalesced = coalesced_reduced_dims(&dims);
    // Sums of doubles and of long integers are as wide, all others in single precision; `any` and `all` take a byte.
    let narrowest = if x.dtype() == DType::Bool { 1 } else { 4 };
    let width = x.dtype().size().max(Bytes(narrowest));
    Shape { inputs, outputs, fast, unit_stride, coalesced, width }
}

/// COUNT: reduced dimensions once neighbours that step as one are merged.
fn coalesced_reduced_dims(dims: &[(u64, u64, bool)]) -> usize {
    let mut reduced: Vec<(u64, u64)> = dims.iter().filter(|d| d.2).map(|d| (d.1, d.0)).collect();
    reduced.sort_unstable();
    let merged = reduced.windows(2).filter(|pair| match pair {
        [(stride, size), (next, _)] => stride.saturating_mul(*size) == *next,
        _ => false,
    });
    reduced.len() - merged.count()
}

/// A reduction.
#[derive(Clone, Copy)]
struct Shape {
    inputs: u64,
    outputs: u64,
    fast: bool,
    unit_stride: bool,
    coalesced: usize,
    /// SIZE: a sum.
    width: Bytes,
}

/// A reduction that several blocks of threads may share.
struct Split {
    /// COUNT: threads of a block.
    threads: u64,
    /// COUNT: blocks that the outputs take.
    grid: u64,
    /// COUNT: inputs that a thread would read if one block read all.
    values: u64,
    /// SIZE: what one more block of each stages.
    staging: Bytes,
}

impl Shape {
    /// `setReduceConfig`, `Reduce.cuh`; `None` where one block per output suffices on every device.
    fn split(&self) -> Option<Split> {
        const MAX_THREADS: u64 = 512;
        if self.inputs <= 1 || self.outputs == 0 {
            return None;
        }
        let (mut dim0, dim1) =
            if self.fast { (self.inputs, self.outputs) } else { (self.outputs, self.inputs) };
        let mut vector = 1u64;
        if self.unit_stride {
            if self.fast && dim0 >= 128 && self.coalesced == 1 {
                dim0 = dim0.div_euclid(4);
            } else if !self.fast {
                vector = [4, 2].into_iter().find(|v| self.outputs.is_multiple_of(*v)).unwrap_or(1);
                dim0 = dim0.div_euclid(vector);
            }
        }
        let max_threads = MAX_THREADS.div_euclid(vector);
        let power = |n: u64| {
            if n >= max_threads { max_threads } else { 1 << n.max(1).ilog2() }
        };
        let width = power(dim0).min(32);
        let height = power(dim1).min(max_threads.div_euclid(width));
        let width = power(dim0).min(max_threads.div_euclid(height));
        let threads = width.saturating_mul(height).max(1);
        let (mut step_in, mut step_out) = if self.fast { (width, 1) } else { (1, width) };
        let values = self.inputs.div_ceil(step_in);
        let split = values >= (16 * height).min(256);
        if split {
            step_in = step_in.saturating_mul(height);
        } else {
            step_out = step_out.saturating_mul(height);
        }
        let grid = self.outputs.div_euclid(vector).max(1).div_ceil(step_out);
        let values = self.inputs.div_ceil(step_in);
        let lanes = if self.fast { 1 } else { width.saturating_mul(vector) };
        let staging = self.width.times(self.outputs).times(lanes);
        (split && values >= 256).then_some(Split { threads, grid, values, staging })
    }
}

impl Split {
    /// SIZE: staging buffer and semaphores.
    fn scratch(&self, hardware: &Hardware) -> (Bytes, Bytes) {
        let Self { threads, grid, values, staging } = *self;
        let per_processor = hardware.threads_per_multiprocessor.div_euclid(threads);
        let target = hardware.multiprocessors.saturating_mul(per_processor);
        let blocks = if grid <= target {
            target.div_ceil(grid).min(values.div_ceil(16)).max(values.div_ceil(256))
        } else {
            1
        };
        if blocks <= 1 {
            return (Bytes::ZERO, Bytes::ZERO);
        }
        (staging.times(blocks), Bytes(4).times(grid))
    }
}

/// Sizes with the marked dimensions one.
pub fn kept_sizes(x: &Tensor, reduced: &[bool]) -> Dims {
    x.sizes().iter().zip(reduced).map(|(&n, &gone)| if gone { 1 } else { n }).collect()
}
