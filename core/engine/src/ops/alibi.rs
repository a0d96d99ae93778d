//! Attention with linear biases, as Bloom and Falcon of transformers compute it in Python.
//!
//! Sources: transformers 5.23, `modeling_bloom.py`, `modeling_falcon.py` (`build_alibi_tensor`).

use super::masks::visible_pairs;
use super::shape_math::{dim, size};
use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::eager::{Runtime, Tensor, kernels};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: alibi, ..torch("Alibi", 2..=2) }.runs(alibi_rule),
    Shaped { infer: biased_mask, ..torch("AlibiMask", 2..=2) }.runs(biased_mask_rule),
    Shaped { infer: slopes, ..torch("AlibiSlopes", 0..=0) }.runs(slopes_rule),
];

fn heads(inference: &Inference<'_>) -> Result<u64, OpError> {
    size(inference.node.int("heads").unwrap_or(1))
}

/// `[heads]`.
fn slopes(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let heads = heads(inference)?;
    inference.set_dims(0, DType::Float32, [heads]);
    Ok(())
}

/// `[N * heads, 1, L]` of tokens, in the type of the embeddings.
fn alibi(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let heads = heads(inference)?;
    let tokens = inference.input(0)?;
    let (n, length) = (dim(&tokens.dims, 0), dim(&tokens.dims, 1));
    let dtype = inference.input(1)?.dtype;
    inference.set_dims(0, dtype, [n.saturating_mul(heads), 1, length]);
    Ok(())
}

/// `[N, heads, L, L]` of tokens, in the type of the embeddings.
fn biased_mask(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let heads = heads(inference)?;
    let tokens = inference.input(0)?;
    let (n, length) = (dim(&tokens.dims, 0), dim(&tokens.dims, 1));
    let dtype = inference.input(1)?.dtype;
    inference.set_dims(0, dtype, [n, heads, length, length]);
    Ok(())
}

/// A slope for each head, and what is left over on the way: powers of two first, then what lies
/// between them.
fn make_slopes(rt: &Runtime, heads: u64) -> (Tensor, Vec<Tensor>) {
    rt.enter_operator("aten::pow");
    let powers = |count: u64| {
        let base = rt.empty(DType::Float32, &[]);
        let exponents = rt.empty(DType::Int32, &[count]);
        (rt.empty(DType::Float32, &[count]), vec![base, exponents])
    };
    let power = 1_u64 << heads.max(1).ilog2();
    let (slopes, mut left) = powers(power);
    if power == heads {
        return (slopes, left);
    }
    let (between, more) = powers(heads.saturating_sub(power));
    left.extend(more);
    let all = rt.empty(DType::Float32, &[heads]);
    drop((between, slopes));
    (all, left)
}

/// `_get_alibi_slopes(heads, device)`.
fn slopes_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let heads = dim(&call.output_type(0)?.dims, 0);
    let (slopes, left) = make_slopes(call.rt, heads);
    drop(left);
    call.set(0, slopes);
    Ok(())
}

/// Falcon's `build_alibi_tensor` of a mask of ones: in bfloat16, then in the type of the embeddings.
fn alibi_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let rt = call.rt;
    let (tokens, dims) = (&call.input_type(0)?.dims, &call.output_type(0)?.dims);
    let heads = dim(dims, 0).checked_div(dim(tokens, 0)).unwrap_or(0);
    let (slopes, left) = make_slopes(rt, heads);
    rt.enter_operator("aten::cumsum");
    let sums = rt.empty(DType::Int64, tokens);
    let shifted = rt.empty(DType::Int64, tokens);
    drop(sums);
    let places = rt.empty(DType::Int64, tokens);
    drop(shifted);
    let half = rt.empty(DType::BFloat16, &[heads]);
    let product = rt.empty(DType::BFloat16, dims);
    drop(half);
    let alibi = kernels::cast(rt, &product, call.need(1)?.dtype());
    drop((left, slopes, places, product));
    call.set(0, alibi);
    Ok(())
}

/// Falcon puts that into the mask: pairs that are not visible get the least number.
fn biased_mask_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, ty) = (call.rt, call.output_type(0)?);
    let dtype = call.need(1)?.dtype();
    let (n, heads, length) = (dim(&ty.dims, 0), dim(&ty.dims, 1), dim(&ty.dims, 3));
    let visible = visible_pairs(rt, n, length);
    rt.enter_operator("aten::where");
    let zero = rt.empty(dtype, &[]);
    let least = rt.empty(dtype, &[]);
    let mask = rt.empty(dtype, &[n, 1, length, length]);
    drop((least, zero, visible));
    let scaled = rt.empty(dtype, &[n, heads, 1, length]);
    let hidden = rt.empty(DType::Bool, &[n, 1, length, length]);
    let filled = rt.empty(dtype, &ty.dims);
    drop((scaled, hidden, mask));
    call.set(0, filled);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("torch.Alibi int64[2,512] float32[2,512,64] heads=8", "float32[16,1,512]"),
            ("torch.AlibiMask int64[2,512] float16[2,512,64] heads=8", "float16[2,8,512,512]"),
            ("torch.AlibiSlopes heads=71", "float32[71]"),
        ] {
            check(call, expected);
        }
    }
}
