//! Opens a dimension that the exporter fixed by mistake.
//!
//! The TorchScript exporter shares equal constants, then counts negative axes from the front by changing
//! the constant (`repeat_interleave(…, dim=-1)` makes it the last axis: 2 of three dimensions, 3 of four).
//! The `-1` of a `view` that shared it is then that number, which fits nothing (rotary embeddings of
//! transformers' Cohere, Helium and GLM).

use crate::graph::{Elements, Node};
use crate::tensor::{DType, TensorType, numel};

/// The type of a `Reshape` to a shape that does not fit, if it fits with one such number left open. A
/// number that the input has in the same place stays.
pub(super) fn dimension(
    node: &Node,
    types: &[Option<TensorType>],
    elements: &[Option<Elements>],
) -> Option<TensorType> {
    let (x, target) = (types.get(node.input(0)?.0)?.as_ref()?, elements.get(node.input(1)?.0)?);
    if node.op != "Reshape" || x.dtype == DType::Int64 {
        return None;
    }
    let Elements::Ints(target) = target.as_ref()? else { return None };
    let target: Vec<u64> = target.iter().map(|&n| u64::try_from(n).ok()).collect::<Option<_>>()?;
    let fitting = |at: usize| -> Option<Vec<u64>> {
        let mut dims = target.clone();
        let slot = dims.get_mut(at).filter(|n| matches!(n, 2..=4) && x.dims.get(at) != Some(n))?;
        *slot = 1;
        let others = numel(&dims);
        let fits = x.numel().checked_rem(others)? == 0 && x.numel() > 0;
        *dims.get_mut(at)? = x.numel().checked_div(others)?;
        fits.then_some(dims)
    };
    let mut fitting = (0..target.len()).filter_map(fitting);
    let (dims, None) = (fitting.next()?, fitting.next()) else { return None };
    Some(TensorType::new(x.dtype, dims))
}
