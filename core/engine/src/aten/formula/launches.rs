//! The launches of calls whose arguments tell what their kernel computes.

use super::{Value, tensors};
use crate::eager::{Runtime, Tensor};

/// The product of `x` with a matrix that makes `y`: it sums over the dimension of `x` that `y` has not.
pub(super) fn product(rt: &Runtime, x: &Tensor, y: &Tensor) {
    if !rt.is_launching() {
        return;
    }
    let last = x.rank().saturating_sub(1);
    let (rows, inner) = (x.size(last.saturating_sub(1)), x.size(last));
    let has_rows = y.size(y.rank().saturating_sub(2)) == rows || y.rank() < x.rank();
    rt.launch_products(y, if has_rows { inner } else { rows });
}

/// A kernel that overwrites `x`.
pub(super) fn over(rt: &Runtime, values: &[Value], x: &Tensor) {
    if rt.is_launching() {
        let operands: Vec<Tensor> = values.iter().flat_map(tensors).collect();
        let others = operands.iter().filter(|operand| operand.storage_id() != x.storage_id());
        rt.launch_in_place(&others.collect::<Vec<_>>(), x);
    }
}
