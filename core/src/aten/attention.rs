//! `scaled_dot_product_attention`.
//!
//! In single precision the memory-efficient kernel runs (flash needs half precision):
//! `native/transformers/cuda/attention.cu`, `attention_backward.cu`. What no kernel takes is spelled
//! out: `native/transformers/attention.cpp`.

use super::{dropout, elementwise, matmul, softmax, view};
use crate::bytes::Bytes;
use crate::eager::{Gradients, Pass, Runtime, Tensor, kernels};
use crate::tensor::DType;

/// COUNT: elements that a row of the bias is padded to a multiple of, and its gradient's likewise
/// (`transformers/attention.cpp`, `transformers/cuda/attention_backward.cu`).
const BIAS_ALIGNMENT: u64 = 8;
const BIAS_GRADIENT_ALIGNMENT: u64 = 16;
/// COUNT: dimensions of what the kernels take (`check_tensor_shapes` of
/// `transformers/sdp_utils_cpp.h`).
const KERNEL_RANK: usize = 4;

/// Attention over `q, k, v [B, H, S, D]`, with the kernel that PyTorch chooses for the type; over more
/// dimensions, or fewer, with none.
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
    if [q, k, v].iter().any(|operand| operand.rank() != KERNEL_RANK) {
        return spelled_out(rt, [q, k, v], bias.as_ref(), drops);
    }
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

/// `_scaled_dot_product_attention_math`: both operands are scaled before the product. Half precision
/// is computed in single, and what is handed over outlives the call; autocast has had its say before.
fn spelled_out(rt: &Runtime, operands: [&Tensor; 3], bias: Option<&Tensor>, drops: bool) -> Tensor {
    rt.autocast(None, || {
        let dtype = operands[0].dtype();
        let wide = if dtype.size() == Bytes(2) { DType::Float32 } else { dtype };
        let bias = bias.map(|mask| as_bias(rt, mask.clone(), wide));
        let [q, k, v] = operands.map(|operand| kernels::cast(rt, operand, wide));
        let query = elementwise::scale(rt, "aten::mul", &q);
        let last = k.rank().saturating_sub(1);
        let turned = view::transpose(rt, &k, last.saturating_sub(1), last);
        let key = elementwise::scale(rt, "aten::mul", &turned);
        let mut scores = matmul::matmul(rt, &query, &key);
        drop(key);
        if let Some(bias) = &bias {
            scores = elementwise::add_in_place(rt, &scores, bias);
        }
        let mut weights = softmax::safe_softmax(rt, &scores);
        drop(scores);
        if drops {
            weights = dropout::dropout(rt, &weights);
        }
        // The weights are returned too, for those who want them.
        let returned = rt.no_grad(|| kernels::cast(rt, &weights, dtype));
        let product = matmul::matmul(rt, &weights, &v);
        drop(weights);
        let y = kernels::cast(rt, &product, dtype);
        drop((product, query));
        drop((turned, v, k, q));
        drop(returned);
        y
    })
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
    let of_head =
        Tiles::of(rt.hardware.capability, q.dtype(), width).workspace(rows, k.size(2), width);
    let scratch = rt.scratch(of_head.times(batch).times(heads));
    drop(delta);
    drop(scratch);
    drop(repeated);
    drop(grad_copy);
    vec![Some(for_q), Some(for_k), Some(for_v), for_bias]
}

/// How a backward kernel divides its work.
struct Tiles {
    /// Rows and columns of a tile of the query's gradient.
    rows: u64,
    columns: u64,
    /// Whether gradients of keys and values are summed in memory too.
    sums_keys: bool,
}

impl Tiles {
    /// The kernel that takes heads of this width (`kernels/generate_kernels.py`): the largest whose
    /// tiles fit into a block's shared memory, of which A100, H100 and their like have more.
    fn of(capability: (u32, u32), dtype: DType, width: u64) -> Self {
        let has_much = matches!(capability, (8, 0 | 7) | (9 | 10, _));
        let is_half = dtype.size() == Bytes(2);
        let (rows, columns, sums_keys) = match width {
            ..=64 => (64, 64, false),
            _ if !is_half => (if has_much { 128 } else { 64 }, 64, false),
            129.. => (128, 64, true),
            _ if has_much => (128, 128, false),
            97.. if capability >= (8, 0) => (64, 64, true),
            _ => (128, 64, false),
        };
        Self { rows, columns, sums_keys }
    }

    /// SIZE: the accumulators of a head: tiles with a counter each, then keys and values.
    fn workspace(&self, rows: u64, keys: u64, width: u64) -> Bytes {
        let count = rows.div_ceil(self.rows).saturating_mul(width.div_ceil(self.columns));
        let tile = Bytes(4).times(self.rows).times(self.columns) + Bytes(16);
        let keys = Bytes(4).times(keys.next_multiple_of(64)).times(width.next_multiple_of(128));
        let tiles = tile.times(count);
        if self.sums_keys { tiles + keys.times(2) } else { tiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `_efficient_attention_backward` of PyTorch 2.15 takes for six heads.
    #[test]
    fn workspaces_are_those_of_pytorch() {
        const SINGLE: DType = DType::Float32;
        const HALF: DType = DType::Float16;
        for (capability, dtype, width, rows, keys, expected) in [
            ((8, 0), SINGLE, 16, 50, 50, 98_400),
            ((8, 0), SINGLE, 64, 448, 1500, 688_800),
            ((8, 0), SINGLE, 80, 200, 200, 786_816),
            ((8, 0), SINGLE, 160, 50, 50, 590_112),
            ((8, 0), HALF, 64, 70, 70, 196_800),
            ((8, 0), HALF, 128, 448, 1500, 1_573_248),
            ((8, 0), HALF, 160, 448, 1500, 21_234_816),
            ((8, 0), HALF, 256, 70, 70, 2_359_680),
            ((9, 0), SINGLE, 128, 200, 200, 786_816),
            ((9, 0), HALF, 80, 50, 50, 393_312),
            ((8, 6), SINGLE, 160, 200, 200, 1_180_800),
            ((8, 6), HALF, 80, 200, 200, 786_816),
            ((8, 9), HALF, 128, 200, 200, 2_360_064),
            ((8, 9), HALF, 160, 50, 50, 1_376_544),
            ((7, 5), SINGLE, 80, 50, 50, 196_800),
            ((7, 5), HALF, 128, 200, 200, 786_816),
        ] {
            let bytes = Tiles::of(capability, dtype, width).workspace(rows, keys, width).times(6);
            assert_eq!(bytes, Bytes(expected), "{capability:?} {dtype} {width} {rows} {keys}");
        }
    }
}
