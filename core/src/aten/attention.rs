//! `scaled_dot_product_attention`.
//!
//! In single precision the memory-efficient kernel runs (flash needs half precision):
//! `native/transformers/cuda/attention.cu`, `attention_backward.cu`.

use super::view;
use crate::bytes::Bytes;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// Attention over `q, k, v [B, H, S, D]`, with the kernel that PyTorch chooses for the type.
pub fn attention(
    rt: &Runtime,
    operands: [&Tensor; 3],
    bias: Option<&Tensor>,
    drops: bool,
) -> Tensor {
    // The bias is read in rows, and seen as large as the scores.
    let bias = bias.map(|bias| {
        let [q, k, _] = operands;
        let rows = view::contiguous(rt, bias);
        view::expand(rt, &rows, &[q.size(0), q.size(1), q.size(2), k.size(2)])
    });
    efficient_attention(rt, operands, bias.as_ref(), drops)
}

/// Memory-efficient attention over `q, k, v [B, H, S, D]`.
///
/// Saved: q, k, v, the bias, the output, the logarithm of the row sums (rows rounded up to 32), and
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
    let mut saved = vec![q, k, v];
    saved.extend(bias);
    saved.extend([&lse, &y]);
    saved.extend(offset.as_ref());
    saved.extend(seed.as_ref());
    let y = y.clone();
    rt.differentiable(
        "ScaledDotProductEfficientAttentionBackward0",
        y,
        &[q, k, v],
        &saved,
        backward,
    )
}

fn backward(pass: &Pass<'_>) -> Gradients {
    let (Some(grad), Some(q), Some(k), Some(v)) =
        (pass.grad(), pass.saved(0), pass.saved(1), pass.saved(2))
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
    let for_bias = pass.needs(3).then(|| rt.empty(q.dtype(), &[batch, heads, rows, k.size(2)]));
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
    let scratch = rt.scratch(workspace(batch * heads, rows, width));
    drop(delta);
    drop(scratch);
    drop(repeated);
    drop(grad_copy);
    vec![Some(for_q), Some(for_k), Some(for_v), for_bias]
}

/// SIZE: the kernel's accumulator for the query's gradient, one tile of 128 rows after another,
/// and a counter per 16 rows.
fn workspace(batches: u64, rows: u64, width: u64) -> Bytes {
    let rows = rows.next_multiple_of(128);
    let accumulator = Bytes(4).times(rows).times(width.next_multiple_of(32));
    (accumulator + Bytes(rows.div_ceil(4))).times(batches)
}
