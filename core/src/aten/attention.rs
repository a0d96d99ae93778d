//! `scaled_dot_product_attention`.
//!
//! In single precision the memory-efficient kernel runs (flash needs half precision):
//! `native/transformers/cuda/attention.cu`, `attention_backward.cu`.

use super::view;
use crate::bytes::Bytes;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: elements that a row of the bias is padded to a multiple of, and its gradient's likewise
/// (`transformers/attention.cpp`, `transformers/cuda/attention_backward.cu`).
const BIAS_ALIGNMENT: u64 = 8;
const BIAS_GRADIENT_ALIGNMENT: u64 = 16;

/// Attention over `q, k, v [B, H, S, D]`, with the kernel that PyTorch chooses for the type.
pub fn attention(
    rt: &Runtime,
    operands: [&Tensor; 3],
    bias: Option<&Tensor>,
    drops: bool,
) -> Tensor {
    const NAME: &str = "aten::scaled_dot_product_attention";
    let bias = bias.map(|bias| {
        let [bias] = rt.for_operator(NAME, [bias]);
        bias
    });
    let [q, k, v] = &rt.for_operator(NAME, operands);
    if flash_takes(rt, q, v) && bias.is_none() {
        return flash_attention(rt, [q, k, v], drops);
    }
    let bias = bias.map(|mask| as_bias(rt, mask, q.dtype()));
    // The bias is read in rows of whole vectors, and seen as large as the scores (`pad_bias`).
    let bias = bias.as_ref().map(|bias| {
        let rows = view::contiguous(rt, bias);
        let last = bias.rank().saturating_sub(1);
        let columns = bias.size(last);
        let mut padded = bias.sizes().to_vec();
        if let Some(last) = padded.last_mut() {
            *last = columns.next_multiple_of(BIAS_ALIGNMENT);
        }
        let rows = if rows.sizes() == padded.as_slice() {
            rows
        } else {
            view::slice(
                rt,
                &view::resample(rt, "aten::constant_pad_nd", &rows, &padded),
                last,
                columns,
                1,
            )
        };
        view::expand(rt, &rows, &[q.size(0), q.size(1), q.size(2), k.size(2)])
    });
    efficient_attention(rt, [q, k, v], bias.as_ref(), drops)
}

/// A mask of booleans becomes numbers to add: zero where it is true, the least number elsewhere.
fn as_bias(rt: &Runtime, mask: Tensor, dtype: DType) -> Tensor {
    if mask.dtype() != DType::Bool {
        return mask;
    }
    let least = rt.empty(dtype, &[]);
    let zero = rt.empty(dtype, &[]);
    let bias = rt.empty(dtype, mask.sizes());
    drop(zero);
    drop(least);
    bias
}

/// Whether flash attention runs (`sdp_utils.cpp`): half precision, Ampere or later, heads of at most
/// 256 elements. Where cuDNN's kernel comes first (Hopper), what is kept is the same.
fn flash_takes(rt: &Runtime, q: &Tensor, v: &Tensor) -> bool {
    q.dtype().size() == Bytes(2)
        && rt.hardware.capability >= (8, 0)
        && q.size(3) <= 256
        && q.size(3) == v.size(3)
}

/// Flash attention over `q, k, v [B, H, S, D]`.
///
/// Saved: q, k, v, the logarithm of the row sums, the output, and the random state: a seed of two
/// words and an offset, also where nothing is dropped.
pub fn flash_attention(rt: &Runtime, [q, k, v]: [&Tensor; 3], drops: bool) -> Tensor {
    rt.enter_operator("aten::_flash_attention_forward");
    let y = like_by_row(rt, q);
    let lse = rt.empty(DType::Float32, &[q.size(0), q.size(1), q.size(2)]);
    // The kernel's own state is replaced where something is dropped.
    let state = drops.then(|| rt.empty(DType::Int64, &[2]));
    let (seed, offset) = if drops {
        let offset = rt.empty(DType::Int64, &[]);
        (rt.empty(DType::Int64, &[2]), offset)
    } else {
        let seed = rt.empty(DType::Int64, &[2]);
        (seed, rt.empty(DType::Int64, &[]))
    };
    drop(state);
    let saved = [q, k, v, &lse, &y, &seed, &offset];
    let name = "ScaledDotProductFlashAttentionBackward0";
    rt.differentiable(name, y.clone(), &[q, k, v], &saved, flash_backward)
}

/// A tensor like this one, made as `[B, S, H, D]` and seen as `[B, H, S, D]`; strides that leave no
/// gaps are kept.
fn like_by_row(rt: &Runtime, like: &Tensor) -> Tensor {
    rt.no_grad(|| {
        let rows = view::transpose(rt, like, 1, 2);
        view::transpose(rt, &rt.empty_like(&rows), 1, 2)
    })
}

fn flash_backward(pass: &Pass<'_>) -> Gradients {
    let (Some(grad), Some(q), Some(k), Some(v)) =
        (pass.grad(), pass.saved(0), pass.saved(1), pass.saved(2))
    else {
        return Vec::new();
    };
    let rt = pass.rt;
    rt.enter_operator("aten::_flash_attention_backward");
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), q.size(3));
    let in_rows = |t: &Tensor| view::contiguous(rt, &view::transpose(rt, t, 1, 2));
    let (grad_copy, out_copy) = (in_rows(grad), pass.saved(4).map(in_rows));
    let gradients = [like_by_row(rt, q), like_by_row(rt, k), like_by_row(rt, v)];
    let padded = rows.next_multiple_of(128);
    let width = width.next_multiple_of(if width > 64 { 64 } else { 32 });
    let sums = rt.empty(DType::Float32, &[batch, heads, padded]);
    let accumulator = rt.empty(DType::Float32, &[batch, padded, heads, width]);
    // Shared heads: the kernel fills one gradient per query head, which are then summed.
    let repeated: Vec<Tensor> = if k.size(1) < heads {
        (0..2).map(|_| rt.empty(k.dtype(), &[batch, k.size(2), heads, q.size(3)])).collect()
    } else {
        Vec::new()
    };
    drop(repeated);
    drop(accumulator);
    drop(sums);
    drop((out_copy, grad_copy));
    gradients.map(Some).into()
}

/// Memory-efficient attention over `q, k, v [B, H, S, D]`.
///
/// Saved: the bias, q, k, v, the output, the logarithm of the row sums (rows rounded up to 32), and
/// where nothing is dropped two placeholders for the random state.
pub fn efficient_attention(
    rt: &Runtime,
    [q, k, v]: [&Tensor; 3],
    bias: Option<&Tensor>,
    drops: bool,
) -> Tensor {
    rt.enter_operator("aten::_efficient_attention_forward");
    let seed = (!drops).then(|| rt.empty(DType::Int64, &[]));
    let offset = (!drops).then(|| rt.empty(DType::Int64, &[]));
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), v.size(3));
    let out = rt.empty(q.dtype(), &[batch, rows, heads, width]);
    let trained = rt.requires_grad(&[q, k, v]);
    let lse_rows = if trained { rows.next_multiple_of(32) } else { 0 };
    let lse = rt.empty(DType::Float32, &[batch, heads, lse_rows]);
    let y = out.view_of(
        vec![batch, heads, rows, width],
        vec![rows * heads * width, width, heads * width, 1],
    );
    drop(out);
    let mut saved: Vec<&Tensor> = bias.into_iter().collect();
    saved.extend([q, k, v, &lse, &y]);
    saved.extend(offset.as_ref());
    saved.extend(seed.as_ref());
    let y = y.clone();
    let mut inputs = vec![q, k, v];
    inputs.extend(bias);
    let name = "ScaledDotProductEfficientAttentionBackward0";
    let behind_bias = usize::from(bias.is_some());
    rt.differentiable(name, y, &inputs, &saved, move |pass| backward(pass, behind_bias))
}

/// The queries are the saved tensor at `at`, keys and values follow.
fn backward(pass: &Pass<'_>, at: usize) -> Gradients {
    let (Some(grad), Some(q), Some(k), Some(v)) =
        (pass.grad(), pass.saved(at), pass.saved(at + 1), pass.saved(at + 2))
    else {
        return Vec::new();
    };
    let rt = pass.rt;
    rt.enter_operator("aten::_efficient_attention_backward");
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), q.size(3));
    // The kernel works on [B, S, H, D].
    let by_row = view::transpose(rt, grad, 1, 2);
    let grad_copy = (!by_row.is_contiguous()).then(|| rt.empty(grad.dtype(), by_row.sizes()));
    drop(by_row);
    let gradient_of = |t: &Tensor| {
        let (b, h, s, d) = (t.size(0), t.size(1), t.size(2), t.size(3));
        rt.empty(t.dtype(), &[b, s, h, d])
            .alias_sole(vec![b, h, s, d], vec![s * h * d, d, h * d, 1])
    };
    let (for_q, for_k, for_v) = (gradient_of(q), gradient_of(k), gradient_of(v));
    let for_bias = pass.needs(3).then(|| {
        let columns = k.size(2);
        let row = columns.next_multiple_of(BIAS_GRADIENT_ALIGNMENT);
        let strides = vec![heads * rows * row, rows * row, row, 1];
        rt.empty(q.dtype(), &[batch, heads, rows, row])
            .alias_sole(vec![batch, heads, rows, columns], strides)
    });
    // Shared heads: the kernel fills one gradient per query head, which are then summed.
    let per_head = [batch, k.size(2), heads, width];
    let repeated: Vec<Tensor> = if k.size(1) < heads {
        (0..2).map(|_| rt.empty(k.dtype(), &per_head)).collect()
    } else {
        Vec::new()
    };
    let product = rt.empty(DType::Float32, &[batch, rows, heads, width]);
    let sums = rt.empty(DType::Float32, &[batch, rows, heads]);
    let delta = rt.empty(DType::Float32, &[batch, heads, rows]);
    drop(sums);
    drop(product);
    let sizes = [batch * heads, rows, k.size(2), width];
    let scratch = rt.scratch(workspace(rt.hardware.capability, q.dtype(), sizes));
    drop(delta);
    drop(scratch);
    drop(repeated);
    drop(grad_copy);
    vec![Some(for_q), Some(for_k), Some(for_v), for_bias]
}

/// SIZE: rows and columns of the tiles in which the backward kernel sums the query's gradient
/// (`transformers/cuda/mem_eff_attention/kernels/cutlassB.h`), as PyTorch 2.15 allocates for them.
fn tile(capability: (u32, u32), dtype: DType, width: u64) -> [u64; 2] {
    let is_half = dtype.size() == Bytes(2);
    match (width, capability >= (8, 0), is_half) {
        (..=64, ..) | (_, false, false) => [64, 64],
        // Cards with less shared memory have a kernel of their own below 96.
        (..=96, true, true) if matches!(capability, (8, 6 | 9)) => [128, 64],
        (..=128, true, true) => [128, 128],
        _ => [128, 64],
    }
}

/// SIZE: that sum, tile by tile, each with a lock and a counter. Half precision does not hold wide
/// gradients of keys and values in registers: they are summed in memory too.
fn workspace(
    capability: (u32, u32),
    dtype: DType,
    [heads, queries, keys, width]: [u64; 4],
) -> Bytes {
    const LOCK: Bytes = Bytes(16);
    let [rows, columns] = tile(capability, dtype, width);
    let tiles = queries.div_ceil(rows) * width.div_ceil(columns);
    let for_queries = (Bytes(4).times(rows).times(columns) + LOCK).times(tiles);
    let spills = dtype.size() == Bytes(2) && width > 128;
    let for_keys = if spills {
        Bytes(8).times(keys.next_multiple_of(64)).times(width.next_multiple_of(128))
    } else {
        Bytes::ZERO
    };
    (for_queries + for_keys).times(heads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PyTorch 2.15 allocates for 3 heads on devices of several capabilities.
    #[test]
    fn workspaces_are_those_of_the_kernels() {
        for (dtype, capability, length, width, expected) in [
            (DType::Float32, (8, 0), 64, 64, 49_200),
            (DType::Float32, (8, 0), 128, 32, 98_400),
            (DType::Float32, (8, 0), 100, 8, 98_400),
            (DType::Float32, (8, 0), 192, 72, 393_408),
            (DType::Float32, (8, 0), 512, 136, 1_180_224),
            (DType::Float32, (7, 5), 192, 136, 442_800),
            (DType::BFloat16, (8, 0), 192, 40, 147_600),
            (DType::BFloat16, (8, 0), 128, 128, 196_656),
            (DType::BFloat16, (8, 0), 192, 136, 1_769_760),
            (DType::BFloat16, (8, 0), 128, 320, 1_671_408),
            (DType::Float16, (8, 6), 192, 96, 393_408),
            (DType::Float16, (8, 9), 192, 104, 393_312),
            (DType::Float16, (7, 0), 192, 128, 393_408),
        ] {
            let found = workspace(capability, dtype, [3, length, length, width]);
            assert_eq!(found, Bytes(expected), "{dtype} {capability:?} {length} {width}");
        }
    }
}
