//! Tensors that language models of transformers make before their first layer: positions, masks, and tests of
//! masks without an effect. ONNX has no operators for these. A `Range` of known length would be folded, although
//! PyTorch puts it on the device.

use super::run::fresh;
use super::shape_math::{axis, dim, size};
use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::view;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: positions, ..torch("Arange", 1..=1) }.runs(fresh),
    Shaped { infer: causal_mask, ..torch("CausalMask", 1..=2) }.runs(causal_mask_rule),
    Shaped { infer: causal_pairs, ..torch("CausalPairs", 1..=1) }.runs(fresh),
    Shaped { infer: ones, ..torch("Ones", 1..=1) }.runs(fresh),
    torch("PackedSequences", 1..=1).runs(packed_sequences),
    torch("PaddedEnds", 1..=1).runs(padded_ends),
    torch("PaddingTest", 1..=1).runs(padding_test),
    Shaped { infer: position_bias, ..torch("PositionBias", 1..=2) }.runs(position_bias_rule),
    Shaped { infer: scalar, ..torch("Scalar", 1..=1) }.runs(fresh),
    torch("ShiftRight", 1..=1).runs(shift_right),
    Shaped { infer: visible, ..torch("VisiblePairs", 1..=1) }.runs(visible_pairs_rule),
];

/// `torch.arange(x.shape[axis], device=x.device)`: it lies on the device.
fn positions(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let at = axis(inference.node.int("axis").unwrap_or(1), x.rank())?;
    let length = dim(&x.dims, at);
    inference.set_dims(0, DType::Int64, [length]);
    Ok(())
}

/// `torch.tensor(number, dtype=x.dtype, device=x.device)`.
fn scalar(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dtype = inference.input(0)?.dtype;
    inference.set_dims(0, dtype, []);
    Ok(())
}

/// `torch.ones(x.shape)`.
fn ones(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = inference.input(0)?.dims.clone();
    inference.set_dims(0, DType::Float32, dims);
    Ok(())
}

/// The mask that transformers adds to the scores of tokens `[N, L]`, in the type of the embeddings
/// (`masking_utils.eager_mask`).
fn causal_mask(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let (batch, length) = (dim(&x.dims, 0), dim(&x.dims, 1));
    inference.set_dims(0, stated_type(inference), [batch, 1, length, length]);
    Ok(())
}

/// The mask of tokens `[N, L]` for the fused kernels.
fn visible(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let (batch, length) = (dim(&x.dims, 0), dim(&x.dims, 1));
    inference.set_dims(0, DType::Bool, [batch, 1, length, length]);
    Ok(())
}

/// `arange(L)[:, None] >= arange(L)[None, :]` for scores `[1, heads, L, L]`.
fn causal_pairs(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let (rows, columns) = (dim(&x.dims, 2), dim(&x.dims, 3));
    inference.set_dims(0, DType::Bool, [1, 1, rows, columns]);
    Ok(())
}

/// `torch.zeros((1, heads, L, L), dtype=query.dtype)`: T5's attention to the encoder has no bias of
/// positions.
fn position_bias(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let length = dim(&inference.input(0)?.dims, 1);
    let heads = size(inference.node.int("heads").unwrap_or(1))?;
    inference.set_dims(0, stated_type(inference), [1, heads, length, length]);
    Ok(())
}

/// The type of the second input; single precision where there is none.
fn stated_type(inference: &Inference<'_>) -> DType {
    inference.input(1).map_or(DType::Float32, |like| like.dtype)
}

fn position_bias_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let ty = call.output_type(0)?;
    let dtype = call.tensor(1).map_or(ty.dtype, |like| like.dtype());
    call.set(0, call.rt.empty(dtype, &ty.dims));
    Ok(())
}

/// `shift_tokens_right`: what the decoder reads is made of the labels.
fn shift_right(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, ty) = (call.rt, call.input_type(0)?);
    let shifted = rt.empty(ty.dtype, &ty.dims);
    let (n, length) = (dim(&ty.dims, 0), dim(&ty.dims, 1));
    drop(rt.empty(ty.dtype, &[n, length.saturating_sub(1)]));
    drop(rt.empty(DType::Bool, &ty.dims));
    call.set(0, shifted);
    Ok(())
}

/// Positions of batch, heads, queries and keys are compared: `[L, L]`, for all samples and heads.
pub(super) fn visible_pairs(rt: &Runtime, n: u64, length: u64) -> Tensor {
    let indices = [n, 1].map(|size| rt.empty(DType::Int64, &[size]));
    let places = [(); 2].map(|()| {
        let range = rt.empty(DType::Int64, &[length]);
        let offset = rt.empty(DType::Int64, &[length]);
        drop(range);
        offset
    });
    let visible = rt.empty(DType::Bool, &[length, length]);
    drop((indices, places));
    visible
}

/// The booleans become numbers.
fn causal_mask_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, dims) = (call.rt, call.output_type(0)?.dims.clone());
    let visible = visible_pairs(rt, dim(&dims, 0), dim(&dims, 3));
    let dtype = call.tensor(1).map_or(DType::Float32, |like| like.dtype());
    let zero = rt.empty(dtype, &[]);
    let least = rt.empty(dtype, &[]);
    call.set(0, rt.empty(dtype, &dims));
    drop((least, zero, visible));
    Ok(())
}

/// The booleans are seen once for each sample (`masking_utils.sdpa_mask`).
fn visible_pairs_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, dims) = (call.rt, &call.output_type(0)?.dims);
    let visible = visible_pairs(rt, dim(dims, 0), dim(dims, 3));
    call.set(0, view::expand(rt, &visible, dims));
    Ok(())
}

/// `warn_if_padding_and_no_attention_mask`: whether `input_ids[:, [-1, 0]]` has the number of padding.
fn padded_ends(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, ty) = (call.rt, call.input_type(0)?);
    let ends = [dim(&ty.dims, 0), 2];
    let indices = rt.empty(DType::Int64, &[2]);
    let picked = rt.empty(ty.dtype, &ends);
    drop(indices);
    let equal = rt.empty(DType::Bool, &ends);
    let any = rt.empty(DType::Bool, &[]);
    drop(equal);
    drop(any);
    drop(picked);
    Ok(())
}

/// Whether a mask of ones hides anything (transformers' `masking_utils.py`).
fn padding_test(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, dims) = (call.rt, call.input_type(0)?.dims.clone());
    let mask = rt.empty(DType::Bool, &dims);
    let sum = rt.empty(DType::Int64, &[]);
    drop(rt.empty(DType::Int64, &dims));
    let all = rt.empty(DType::Bool, &[]);
    drop((sum, all, mask));
    Ok(())
}

/// `find_packed_sequence_indices` of transformers' `masking_utils.py`, which decides that there are none.
fn packed_sequences(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, dims) = (call.rt, call.input_type(0)?.dims.clone());
    let (n, length) = (dim(&dims, 0), dim(&dims, 1));
    let first = rt.empty(DType::Int64, &[n, 1]);
    let prepended = rt.empty(DType::Int64, &[n, length.saturating_add(1)]);
    let difference = rt.empty(DType::Int64, &dims);
    drop(prepended);
    let differs = rt.empty(DType::Bool, &dims);
    let sums = rt.empty(DType::Int64, &dims);
    let widened = rt.empty(DType::Int64, &dims);
    drop((widened, differs));
    let none = rt.empty(DType::Bool, &[n]);
    let all = rt.empty(DType::Bool, &[]);
    drop((none, all));
    drop((first, difference, sums));
    Ok(())
}
