//! `_softmax` and `_log_softmax`: the result is saved, before PyTorch 1.11 with what was read
//! (`native/cuda/SoftMax.cu`).

use super::view;
use crate::eager::layout::like_strides;
use crate::eager::{Kernel, Runtime, Tensor, kernels};
use crate::tensor::DType;

/// `aten::softmax` of `x` of any shape, along any dimension; the result is saved.
pub fn softmax(rt: &Runtime, x: &Tensor) -> Tensor {
    // The gradient is multiplied by the result first, into a tensor of its own.
    run(rt, x, asked_to_be_single(rt, x), "aten::_softmax", "SoftmaxBackward0", 1)
}

/// `aten::softmax` with `dtype=torch.float32`.
pub fn softmax_in_single(rt: &Runtime, x: &Tensor) -> Tensor {
    run(rt, x, true, "aten::_softmax", "SoftmaxBackward0", 1)
}

/// `aten::_safe_softmax` (`native/transformers/attention.cpp`): rows that are masked altogether are
/// looked for afterwards, and set to zero in place.
pub fn safe_softmax(rt: &Runtime, x: &Tensor) -> Tensor {
    let y = run(rt, x, false, "aten::_softmax", "SafeSoftmaxBackward0", 1);
    rt.enter_operator("aten::_safe_softmax");
    let masked = rt.empty(DType::Bool, x.sizes());
    let mut rows = x.sizes().to_vec();
    if let Some(last) = rows.last_mut() {
        *last = 1;
    }
    let rows = rt.empty(DType::Bool, &rows);
    let zero = rt.empty(y.dtype(), &[]);
    drop(zero);
    drop(rows);
    drop(masked);
    y
}

/// `aten::log_softmax`, likewise.
pub fn log_softmax(rt: &Runtime, x: &Tensor) -> Tensor {
    run(rt, x, asked_to_be_single(rt, x), "aten::_log_softmax", "LogSoftmaxBackward0", 0)
}

/// `aten::log_softmax` with the type of its input stated, which autocast respects.
pub fn log_softmax_in_its_type(rt: &Runtime, x: &Tensor) -> Tensor {
    let x = view::contiguous(rt, x);
    kernel(rt, &x, x.dtype(), "aten::_log_softmax", "LogSoftmaxBackward0", 0)
}

/// Under autocast the result is in single precision, but for doubles, which autocast leaves alone.
fn asked_to_be_single(rt: &Runtime, x: &Tensor) -> bool {
    rt.autocast_type().is_some() && x.dtype().is_floating() && x.dtype() != DType::Float64
}

/// For a result in single precision, fp16 is read as it is, and bf16 is cast before.
fn run(
    rt: &Runtime,
    x: &Tensor,
    single: bool,
    name: &'static str,
    node: &'static str,
    temporaries: usize,
) -> Tensor {
    let fused = single && x.dtype() == DType::Float16;
    let x = if single && !fused { &kernels::cast(rt, x, DType::Float32) } else { x };
    let x = view::contiguous(rt, x);
    let dtype = if single { DType::Float32 } else { x.dtype() };
    kernel(rt, &x, dtype, name, node, temporaries)
}

/// The kernel over rows, of this many tensors: the last dimension is assumed, since no caller states it.
fn rows_of(x: &Tensor, inputs: u64) -> Kernel {
    let width = if x.rank() == 0 { 1 } else { x.size(x.rank().saturating_sub(1)) };
    let rows = x.numel().checked_div(width).unwrap_or_default();
    Kernel::Softmax { rows, width, inputs }
}

fn kernel(
    rt: &Runtime,
    x: &Tensor,
    dtype: DType,
    name: &'static str,
    node: &'static str,
    temporaries: usize,
) -> Tensor {
    rt.enter_operator(name);
    let y = rt.empty_strided(dtype, x.sizes(), like_strides(x));
    let from = x.dtype();
    rt.launch(&[&y], rows_of(x, 1), from);
    let both = [&y, x];
    let count = 1 + usize::from(rt.pytorch.keeps_softmax_input());
    let saved = both.get(..count).unwrap_or(&both);
    rt.differentiable(node, y.clone(), &[x], saved, move |pass| {
        let Some(grad) = pass.grad() else { return vec![None] };
        let temporaries: Vec<_> = (0..temporaries).map(|_| pass.rt.empty_like(grad)).collect();
        for product in &temporaries {
            if pass.rt.is_launching() {
                let reads: Vec<&Tensor> = pass.saved(0).into_iter().chain([grad]).collect();
                pass.rt.launch_elementwise(&reads, &[product]);
            }
        }
        let result = pass.rt.empty_strided(from, grad.sizes(), like_strides(grad));
        pass.rt.launch(&[&result], rows_of(grad, 2), grad.dtype());
        drop(temporaries);
        vec![Some(result)]
    })
}
