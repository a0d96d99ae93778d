//! What ONNX Runtime and its tools put in place of ONNX's own operators.
//!
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md>: `FusedMatMul`, `Gelu`, `BiasGelu`,
//! `FastGelu`, `QuickGelu`, `SkipLayerNormalization`, `SkipSimplifiedLayerNormalization`, `MatMulNBits`,
//! `GroupQueryAttention`. `SimplifiedLayerNormalization` stands among ONNX's own. PyTorch runs what they were made of.

use super::norm;
use super::run::fresh;
use super::shape_math::{before, broadcast, dim, exact_div, like_first, size};
use super::{Call, Inference, OpError, Operator, RunRule, Shaped, op};
use crate::aten::elementwise::{self, Unary, unary};
use crate::aten::{matmul, norm as aten, view};
use crate::eager::Tensor;
use crate::graph::Node;
use crate::tensor::{Dims, TensorType};

const MICROSOFT: &str = "com.microsoft";

pub(super) const TABLE: &[Operator] = &[
    contrib(op("BiasGelu", 2..=2, broadcast_first)).runs(gelu_rule),
    contrib(op("FastGelu", 1..=2, like_first)).runs(gelu_rule),
    contrib(op("FusedMatMul", 2..=2, fused_matmul)).runs(fused_matmul_rule),
    contrib(op("Gelu", 1..=1, like_first)).runs(gelu_rule),
    contrib(op("GroupQueryAttention", 1..=14, group_query_attention)).unmodelled(),
    contrib(op("MatMulNBits", 3..=6, matmul_bits)).runs(fresh).unproven(),
    contrib(op("QuickGelu", 1..=1, like_first)).runs(quick_gelu_rule),
    op("SimplifiedLayerNormalization", 2..=2, like_first).runs(norm::rms_norm_rule),
    skipping("SkipLayerNormalization", |c| skip_rule(c, false)),
    skipping("SkipSimplifiedLayerNormalization", |c| skip_rule(c, true)),
];

const fn contrib(row: Shaped) -> Shaped {
    Shaped { domain: MICROSOFT, ..row }
}

const fn skipping(name: &'static str, run: RunRule) -> Operator {
    contrib(op(name, 3..=5, skip)).runs(run)
}

fn broadcast_first(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, bias) = (inference.input(0)?, inference.input(1)?);
    let dims = broadcast(&x.dims, &bias.dims)?;
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `x + bias`, where there is one, then the activation.
fn gelu_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let x = call.tensor(1).map_or_else(|| x.clone(), |bias| elementwise::add(call.rt, &x, &bias));
    call.set(0, unary(call.rt, Unary::saves_input("aten::gelu"), &x));
    Ok(())
}

/// `x * sigmoid(1.702 * x)`.
fn quick_gelu_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let scaled = elementwise::scale(call.rt, "aten::mul", &x);
    let gate = unary(call.rt, Unary::saves_output("aten::sigmoid"), &scaled);
    drop(scaled);
    call.set(0, elementwise::mul(call.rt, &x, &gate));
    Ok(())
}

/// The order of a factor's dimensions after `trans…` and `transBatch…`, the latter of which moves the first behind the
/// others.
fn order(rank: usize, [turns, turns_batch]: [bool; 2]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    if turns_batch && rank > 2 {
        order.get_mut(..rank - 1).into_iter().for_each(|batch| batch.rotate_left(1));
    }
    if turns && rank > 1 {
        order.swap(rank - 2, rank - 1);
    }
    order
}

fn turns(node: &Node, factor: char) -> [bool; 2] {
    ["trans", "transBatch"].map(|name| node.int(&format!("{name}{factor}")).is_some_and(|n| n != 0))
}

fn fused_matmul(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (a, b) = (inference.input(0)?, inference.input(1)?);
    let dims = |factor: &TensorType, name| -> Dims {
        let order = order(factor.rank(), turns(inference.node, name));
        order.into_iter().map(|at| dim(&factor.dims, at)).collect()
    };
    let dims = super::matmul::product(&dims(a, 'A'), &dims(b, 'B'))?;
    inference.set_dims(0, a.dtype, dims);
    Ok(())
}

/// `torch.matmul` of views, and the factor in front of it, where there is one.
fn fused_matmul_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let place = |x: Tensor, name| {
        let order = order(x.rank(), turns(call.node, name));
        if order.is_sorted() { x } else { view::permute(call.rt, &x, &order) }
    };
    let (a, b) = (place(call.need(0)?, 'A'), place(call.need(1)?, 'B'));
    let y = matmul::matmul(call.rt, &a, &b);
    let is_scaled = call.node.float("alpha").is_some_and(|alpha| alpha.total_cmp(&1.0).is_ne());
    let y = if is_scaled { elementwise::scale(call.rt, "aten::mul", &y) } else { y };
    call.set(0, y);
    Ok(())
}

/// `Y`, then mean and deviation, which nobody asks for, then `x + skip`.
fn skip(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?.clone();
    for position in [0, 3] {
        inference.set(position, x.clone());
    }
    Ok(())
}

/// `norm(x + skip + bias)`.
fn skip_rule(call: &mut Call<'_>, is_rms: bool) -> Result<(), OpError> {
    let (x, skip, weight) = (call.need(0)?, call.need(1)?, call.tensor(2));
    let width = weight.as_ref().map_or_else(|| x.size(x.rank().saturating_sub(1)), |w| w.size(0));
    let (beta, bias) =
        if is_rms { (None, call.tensor(3)) } else { (call.tensor(3), call.tensor(4)) };
    let mut sum = elementwise::add(call.rt, &x, &skip);
    if let Some(bias) = bias {
        sum = elementwise::add(call.rt, &sum, &bias);
    }
    let y = if is_rms {
        aten::rms_norm(call.rt, &sum, width, weight.as_ref())
    } else {
        aten::layer_norm(call.rt, &sum, width, weight.as_ref(), beta.as_ref())
    };
    call.set(0, y);
    if call.node.output(3).is_some() {
        call.set(3, sum);
    }
    Ok(())
}

/// `x […, K]` to `[…, N]`; the weight is packed.
fn matmul_bits(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let stated = |name: &str| size(inference.node.int(name).unwrap_or(0));
    let (k, n) = (stated("K")?, stated("N")?);
    if x.dims.last() != Some(&k) {
        return Err(OpError::new(say!("its rows do not have {k} elements", k)));
    }
    let mut dims: Dims = before(&x.dims, x.rank().saturating_sub(1)).iter().copied().collect();
    dims.push(n);
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `query [batch, tokens, heads · size]`, or all three packed, to the same of queries; then the caches
/// `[batch, kv_heads, past + tokens, size]`.
fn group_query_attention(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let query = inference.input(0)?;
    let stated = |name: &str| size(inference.node.int(name).unwrap_or(0));
    let (heads, kv_heads) = (stated("num_heads")?, stated("kv_num_heads")?);
    let (batch, tokens, width) = (dim(&query.dims, 0), dim(&query.dims, 1), dim(&query.dims, 2));
    let is_packed = inference.optional(1).is_none();
    let all = if is_packed { heads.saturating_add(kv_heads.saturating_mul(2)) } else { heads };
    let each = exact_div(width, all).ok_or_else(|| {
        OpError::new(say!("{width} is no multiple of {heads} heads", width, heads = all))
    })?;
    let past = inference.optional(3).map_or(0, |past| dim(&past.dims, 2));
    let dtype = query.dtype;
    inference.set_dims(0, dtype, [batch, tokens, each.saturating_mul(heads)]);
    for position in [1, 2] {
        inference.set_dims(position, dtype, [batch, kv_heads, past.saturating_add(tokens), each]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("com.microsoft.BiasGelu float32[2,3] float32[3]", "float32[2,3]"),
            ("com.microsoft.FusedMatMul float32[2,3,4] float32[2,5,4] transB=1", "float32[2,3,5]"),
            (
                "com.microsoft.FusedMatMul float32[3,2,4] float32[2,4,5] transBatchA=1",
                "float32[2,3,5]",
            ),
            (
                "com.microsoft.FusedMatMul float32[2,3] float32[2,3]",
                "error: inner dimensions 3 and 2 differ",
            ),
            ("SimplifiedLayerNormalization float32[2,8] float32[8]", "float32[2,8]"),
            (
                "com.microsoft.MatMulNBits float16[2,7,64] uint8[32,2,16] float16[64] K=64 N=32",
                "float16[2,7,32]",
            ),
            (
                "com.microsoft.MatMulNBits float16[2,7,9] uint8[32,2,16] float16[64] K=64 N=32",
                "error: its rows",
            ),
        ] {
            check(call, expected);
        }
    }
}
