//! Views, which allocate nothing, and the copies that views fall back to.

use crate::config::MemoryFormat;
use crate::eager::kernels::promote;
use crate::eager::layout::{contiguous_strides, format_strides, view_strides};
use crate::eager::{Runtime, Tensor};
use crate::tensor::{DType, Dims, numel};
use crate::trace::Category;

/// `aten::clone` into row-major order; a contiguous tensor is itself.
pub fn contiguous(rt: &Runtime, x: &Tensor) -> Tensor {
    if x.is_contiguous() {
        return x.clone();
    }
    rt.enter_operator("aten::contiguous");
    copy(rt, x, MemoryFormat::Contiguous)
}

/// `aten::clone` into a memory format (`contiguous(memory_format)`), where strides are others.
pub fn contiguous_in(rt: &Runtime, x: &Tensor, format: MemoryFormat) -> Tensor {
    if x.is_contiguous_in(format) {
        return x.clone();
    }
    rt.enter_operator("aten::contiguous");
    copy(rt, x, format)
}

/// A copy of its own in a memory format.
pub(super) fn copy(rt: &Runtime, x: &Tensor, format: MemoryFormat) -> Tensor {
    let y = rt.empty_in(x.dtype(), x.sizes(), format);
    rt.launch_elementwise(&[x], &[&y]);
    rt.differentiable("CloneBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// `aten::clone`: a new tensor with the strides of a dense one.
pub fn duplicate(rt: &Runtime, x: &Tensor) -> Tensor {
    rt.enter_operator("aten::clone");
    let y = rt.empty_like(x);
    rt.launch_elementwise(&[x], &[&y]);
    rt.differentiable("CloneBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// `aten::squeeze`, `unsqueeze`: dimensions of one come or go.
pub fn restrided(
    rt: &Runtime,
    x: &Tensor,
    sizes: impl AsRef<[u64]>,
    strides: impl AsRef<[u64]>,
) -> Tensor {
    let y = x.view_of(sizes, strides);
    let before = x.sizes().to_vec();
    rt.differentiable("SqueezeBackward0", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| reshape(pass.rt, grad, &before))]
    })
}

/// `aten::reshape`: a view where strides allow it, else a view of a copy.
pub fn reshape(rt: &Runtime, x: &Tensor, sizes: &[u64]) -> Tensor {
    if let Some(strides) = view_strides(x, sizes) {
        return view(rt, x, sizes, strides);
    }
    rt.enter_operator("aten::reshape");
    let copied = copy(rt, x, MemoryFormat::Contiguous);
    view(rt, &copied, sizes, contiguous_strides(sizes))
}

fn view(rt: &Runtime, x: &Tensor, sizes: &[u64], strides: Dims) -> Tensor {
    let y = x.view_of(sizes, strides);
    let before = x.sizes().to_vec();
    rt.differentiable("ViewBackward0", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| reshape(pass.rt, grad, &before))]
    })
}

/// `aten::as_strided` to the strides of a format, for a tensor of one element per channel. The
/// gradient is copied into a tensor that stands for the storage, and seen with the strides before.
pub fn in_format(rt: &Runtime, x: &Tensor, format: MemoryFormat) -> Tensor {
    let y = x.view_of(x.sizes(), format_strides(x.sizes(), format));
    let before = x.strides().to_vec();
    rt.differentiable("AsStridedBackward0", y, &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::new_zeros");
        vec![pass.grad().map(|grad| {
            let storage = pass.rt.empty(grad.dtype(), &[grad.numel()]);
            storage.alias_sole(grad.sizes(), before.clone())
        })]
    })
}

/// `aten::permute`.
pub fn permute(rt: &Runtime, x: &Tensor, order: &[usize]) -> Tensor {
    let pick =
        |of: &[u64]| order.iter().map(|&d| of.get(d).copied().unwrap_or(1)).collect::<Dims>();
    let y = x.view_of(pick(x.sizes()), pick(x.strides()));
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        if let Some(slot) = inverse.get_mut(from) {
            *slot = to;
        }
    }
    rt.differentiable("PermuteBackward0", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| permute(pass.rt, grad, &inverse))]
    })
}

/// `aten::transpose`.
pub fn transpose(rt: &Runtime, x: &Tensor, a: usize, b: usize) -> Tensor {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if a < order.len() && b < order.len() {
        order.swap(a, b);
    }
    permute(rt, x, &order)
}

/// `aten::expand`: stretched dimensions have stride zero; the gradient is summed over them.
pub fn expand(rt: &Runtime, x: &Tensor, sizes: &[u64]) -> Tensor {
    let missing = sizes.len().saturating_sub(x.rank());
    let strides = sizes.iter().enumerate().map(|(dim, &size)| {
        let Some(own) = dim.checked_sub(missing) else { return 0 };
        if x.size(own) == 1 && size != 1 { 0 } else { x.strides().get(own).copied().unwrap_or(0) }
    });
    let y = x.view_of(sizes, strides.collect::<Dims>());
    // The engine sums an expanded gradient back to the shape it goes to.
    rt.differentiable("ExpandBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// `aten::slice` and `aten::narrow`: a view; the gradient is the whole input, zero outside.
pub fn slice(rt: &Runtime, x: &Tensor, dim: usize, length: u64, step: u64) -> Tensor {
    if x.size(dim) == length {
        return x.clone();
    }
    let y = x.view_of(
        replaced(x.sizes(), dim, length),
        replaced(x.strides(), dim, x.strides().get(dim).copied().unwrap_or(1).saturating_mul(step)),
    );
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("SliceBackward0", y, &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::slice_backward");
        vec![pass.grad().map(|grad| into_zeros(pass.rt, grad, dtype, &sizes))]
    })
}

/// Zeros of these sizes, into a part of which a gradient is copied.
pub(super) fn into_zeros(rt: &Runtime, grad: &Tensor, dtype: DType, sizes: &[u64]) -> Tensor {
    let whole = rt.empty(dtype, sizes);
    rt.launch_into_zeros(grad, &whole);
    whole
}

/// `aten::select`: a slice of one, without its dimension.
pub fn select(rt: &Runtime, x: &Tensor, dim: usize) -> Tensor {
    let without = |of: &[u64]| {
        of.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &n)| n).collect::<Vec<_>>()
    };
    let y = x.view_of(without(x.sizes()), without(x.strides()));
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("SelectBackward0", y, &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::select_backward");
        vec![pass.grad().map(|grad| into_zeros(pass.rt, grad, dtype, &sizes))]
    })
}

/// `aten::split` into pieces of these lengths: views; the gradients are concatenated.
pub fn split(rt: &Runtime, x: &Tensor, dim: usize, lengths: &[u64]) -> Vec<Tensor> {
    let pieces = lengths
        .iter()
        .map(|&length| x.view_of(replaced(x.sizes(), dim, length), x.strides()))
        .collect();
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    let types: Vec<Dims> = lengths.iter().map(|&n| replaced(x.sizes(), dim, n)).collect();
    rt.differentiable_many("SplitBackward0", pieces, &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::split_backward");
        // Pieces that nothing depended on count as zeros, made for the concatenation.
        let zeros: Vec<_> = types
            .iter()
            .zip(pass.grads)
            .filter(|(_, grad)| grad.is_none())
            .map(|(piece, _)| pass.rt.empty(dtype, piece))
            .collect();
        let format = common_format(pass.grads.iter().flatten().chain(&zeros));
        let whole = pass.rt.empty_in(dtype, &sizes, format);
        if pass.rt.is_launching() {
            let reads: Vec<&Tensor> = pass.grads.iter().flatten().chain(&zeros).collect();
            pass.rt.launch_elementwise(&reads, &[&whole]);
        }
        drop(zeros);
        vec![Some(whole)]
    })
}

/// `aten::unbind`: views without the dimension; the gradients are stacked.
pub fn unbind(rt: &Runtime, x: &Tensor, dim: usize) -> Vec<Tensor> {
    let without = |of: &[u64]| {
        of.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &n)| n).collect::<Vec<_>>()
    };
    let count = usize::try_from(x.size(dim)).unwrap_or(0);
    let piece = x.view_of(without(x.sizes()), without(x.strides()));
    let pieces = (0..count).map(|_| piece.view_of(piece.sizes(), piece.strides()));
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    let piece_sizes = without(x.sizes());
    rt.differentiable_many("UnbindBackward0", pieces.collect(), &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::unbind_backward");
        let zeros: Vec<_> = pass
            .grads
            .iter()
            .filter(|grad| grad.is_none())
            .map(|_| pass.rt.empty(dtype, &piece_sizes))
            .collect();
        let whole = pass.rt.empty(dtype, &sizes);
        if pass.rt.is_launching() {
            let reads: Vec<&Tensor> = pass.grads.iter().flatten().chain(&zeros).collect();
            pass.rt.launch_elementwise(&reads, &[&whole]);
        }
        drop(zeros);
        vec![Some(whole)]
    })
}

/// `aten::copy_` of a piece into a part of `x`.
///
/// What was there has a gradient of zeros, and the piece that of its part, copied out of the whole's
/// (`CopySlices`, `torch/csrc/autograd/functions/tensor.cpp`).
pub fn assign(rt: &Runtime, x: &Tensor, piece: &Tensor, is_whole: bool) -> Tensor {
    rt.enter_operator("aten::copy_");
    rt.launch_copy(piece, piece);
    let (y, sizes) = (rt.overwritten(x), piece.sizes().to_vec());
    if is_whole {
        return rt.differentiable("CopyBackwards", y, &[x, piece], &[], |pass| {
            let zeros = pass.grad().map(|grad| pass.rt.empty_like(grad));
            vec![zeros, pass.grad().cloned()]
        });
    }
    rt.differentiable("CopySlices", y, &[x, piece], &[], move |pass| {
        let Some(grad) = pass.grad() else { return vec![None, None] };
        let whole = pass.rt.empty_like(grad);
        let part = pass.rt.empty(grad.dtype(), &sizes);
        // What was overwritten has a gradient of zeros, where it needs one.
        drop(pass.needs(0).then(|| pass.rt.empty(grad.dtype(), &sizes)));
        vec![Some(whole), Some(part)]
    })
}

/// `aten::_pad_circular`, by so much in front and behind of each dimension (`native/PadNd.cpp`).
///
/// The input is copied into the middle of a new tensor, then for each dimension, the last first, both ends
/// from what lies opposite.
pub fn pad_circular(rt: &Runtime, x: &Tensor, pads: &[(u64, u64)]) -> Tensor {
    rt.enter_operator("aten::_pad_circular");
    let sizes: Dims = x
        .sizes()
        .iter()
        .zip(pads)
        .map(|(&n, &(a, b))| n.saturating_add(a).saturating_add(b))
        .collect();
    let y = rt.empty(x.dtype(), &sizes);
    // A batch and channels stand in front, or channels alone where so many dimensions are padded.
    let padded = pads.iter().position(|&pads| pads != (0, 0)).unwrap_or(2);
    let spatial = padded.min(2).min(x.rank())..x.rank();
    let whole = spatial.clone().fold(x.clone(), |piece, dim| part(rt, &piece, dim, x.size(dim)));
    let mut y = assign(rt, &y, &whole, false);
    drop(whole);
    for dim in spatial.rev() {
        let (front, back) = pads.get(dim).copied().unwrap_or_default();
        for length in [front, back].into_iter().filter(|&length| length > 0) {
            let piece = part(rt, &y, dim, length);
            y = assign(rt, &y, &piece, false);
        }
    }
    y
}

/// `aten::slice`, which is a view also of the whole length.
fn part(rt: &Runtime, x: &Tensor, dim: usize, length: u64) -> Tensor {
    let y = x.view_of(replaced(x.sizes(), dim, length), x.strides());
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("SliceBackward0", y, &[x], &[], move |pass| {
        pass.rt.enter_operator("aten::slice_backward");
        vec![pass.grad().map(|grad| into_zeros(pass.rt, grad, dtype, &sizes))]
    })
}

/// `aten::cat`: a new tensor; its gradient is handed back in slices, which are views.
pub fn cat(rt: &Runtime, pieces: &[&Tensor], dim: usize) -> Tensor {
    let total = pieces.iter().map(|piece| piece.size(dim)).fold(0, u64::saturating_add);
    cat_to(rt, pieces, dim, total)
}

/// The same, where pieces stand for several that are alike: the result is so long.
pub fn cat_to(rt: &Runtime, pieces: &[&Tensor], dim: usize, total: u64) -> Tensor {
    let y = joined(rt, None, pieces, dim, total);
    let lengths: Vec<u64> = pieces.iter().map(|piece| piece.size(dim)).collect();
    if lengths.iter().copied().fold(0, u64::saturating_add) == total {
        rt.launch_elementwise(pieces, &[&y]);
    }
    rt.differentiable("CatBackward0", y, pieces, &[], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        lengths
            .iter()
            .map(|&length| Some(grad.view_of(replaced(grad.sizes(), dim, length), grad.strides())))
            .collect()
    })
}

/// The memory that `aten::cat` allocates, for a stated purpose where there is one.
pub(crate) fn joined(
    rt: &Runtime,
    category: Option<Category>,
    pieces: &[&Tensor],
    dim: usize,
    total: u64,
) -> Tensor {
    rt.enter_operator("aten::cat");
    let Some(first) = pieces.first() else {
        return rt.empty(DType::Float32, &[0]);
    };
    let sizes = replaced(first.sizes(), dim, total);
    let widest = |dtype, piece: &&Tensor| promote(dtype, piece.dtype());
    let dtype = pieces.iter().fold(first.dtype(), widest);
    match category {
        Some(category) => rt.empty_for(category, dtype, &sizes),
        None => rt.empty_in(dtype, &sizes, common_format(pieces.iter().copied())),
    }
}

/// The format of tensors that are joined: channels last if all are (`cat_compute_output_memory_format`).
fn common_format<'a>(mut pieces: impl Iterator<Item = &'a Tensor>) -> MemoryFormat {
    if pieces.all(|piece| piece.suggested_format() == MemoryFormat::ChannelsLast) {
        MemoryFormat::ChannelsLast
    } else {
        MemoryFormat::Contiguous
    }
}

/// A tensor of other sizes that a kernel fills, with a gradient that another kernel fills: `upsample`,
/// pads, `repeat`, `flip`. Of these, some keep to channels last.
pub fn resample(rt: &Runtime, name: &'static str, x: &Tensor, sizes: &[u64]) -> Tensor {
    resample_keeping(rt, name, x, sizes, &[])
}

/// A tensor of other sizes whose gradient reads the input: `aten::glu`.
///
/// Those of `reflection_pad` and `replication_pad` are given it for its sizes, and so keep it
/// (`tools/autograd/derivatives.yaml`).
pub fn keeping_input(rt: &Runtime, name: &'static str, x: &Tensor, sizes: &[u64]) -> Tensor {
    resample_keeping(rt, name, x, sizes, &[x])
}

fn resample_keeping(
    rt: &Runtime,
    name: &'static str,
    x: &Tensor,
    sizes: &[u64],
    saved: &[&Tensor],
) -> Tensor {
    rt.enter_operator(name);
    let keeps = matches!(name, "aten::upsample" | "aten::constant_pad_nd" | "aten::flip");
    let format = move |like: &Tensor| {
        if keeps { like.suggested_format() } else { MemoryFormat::Contiguous }
    };
    // A pad that adds nothing is a clone.
    let is_clone = name == "aten::constant_pad_nd" && x.sizes() == sizes;
    let y = if is_clone { rt.empty_like(x) } else { rt.empty_in(x.dtype(), sizes, format(x)) };
    rt.launch_elementwise(&[x], &[&y]);
    let (before, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("ResampleBackward0", y, &[x], saved, move |pass| {
        pass.rt.enter_operator(name);
        vec![pass.grad().map(|grad| {
            let result = pass.rt.empty_in(dtype, &before, format(grad));
            if pass.rt.is_launching() {
                let reads: Vec<&Tensor> = [grad].into_iter().chain(pass.saved(0)).collect();
                pass.rt.launch_elementwise(&reads, &[&result]);
            }
            result
        })]
    })
}

/// `aten::roll`: along one dimension after another, each time into a tensor of its own; so are the
/// gradients rolled back (`roll_common`, `native/TensorTransformations.h`).
pub fn roll(rt: &Runtime, x: &Tensor, dims: usize) -> Tensor {
    let y = rolled(rt, x, dims);
    rt.differentiable("RollBackward0", y, &[x], &[], move |pass| {
        vec![pass.grad().map(|grad| rolled(pass.rt, grad, dims))]
    })
}

fn rolled(rt: &Runtime, x: &Tensor, dims: usize) -> Tensor {
    rt.enter_operator("aten::roll");
    let fresh = || rt.empty(x.dtype(), x.sizes());
    (1..dims).fold(fresh(), |before, _| {
        let after = fresh();
        drop(before);
        after
    })
}

fn replaced(values: &[u64], dim: usize, value: u64) -> Dims {
    let mut values = Dims::from_slice(values);
    if let Some(slot) = values.get_mut(dim) {
        *slot = value;
    }
    values
}

/// Product of all dimensions but the last, and the last.
pub fn rows_and_width(sizes: &[u64]) -> (u64, u64) {
    match sizes.split_last() {
        Some((&width, outer)) => (numel(outer), width),
        None => (1, 1),
    }
}
