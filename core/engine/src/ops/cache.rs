//! Keys and values that stay from one forward pass to the next (`cache_utils.py` of transformers).

use super::shape_math::dim;
use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::view;
use crate::eager::Tensor;
use crate::trace::Category;

pub(super) const TABLE: &[Operator] =
    &[Shaped { infer: cached, ..torch("Cached", 1..=2) }.runs(cached_rule)];

/// The dimension of tokens: `[N, heads, tokens, width]`.
const TOKENS: usize = 2;

/// `torch.cat([past, new], dim=-2)`; the past comes first, where there is one.
fn cached(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let first = inference.input(0)?;
    let (dtype, mut dims) = (first.dtype, first.dims.clone());
    if let Some(new) = inference.optional(1) {
        let more = dim(&new.dims, TOKENS);
        if let Some(tokens) = dims.get_mut(TOKENS) {
            *tokens = tokens.saturating_add(more);
        }
    }
    inference.set_dims(0, dtype, dims);
    Ok(())
}

/// The result is as long as its type states, however long the past is: the tokens between may not have run.
fn cached_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let total = dim(&call.output_type(0)?.dims, TOKENS);
    let tensors = call.tensors();
    let pieces: Vec<&Tensor> = tensors.iter().collect();
    let joined = view::joined(call.rt, Some(Category::Cache), &pieces, TOKENS, total);
    call.rt.launch_elementwise(&pieces, &[&joined]);
    call.set(0, joined);
    Ok(())
}
