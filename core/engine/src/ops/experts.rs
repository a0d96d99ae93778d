//! A mixture of experts as transformers 5 runs it (`integrations/moe.py`, `grouped_mm_experts_forward`):
//! [`crate::aten::experts`] has the allocations.

use super::shape_math::{dim, like_first, size};
use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::experts as aten;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: group_ends, ..torch("GroupEnds", 1..=1) }.runs(group_ends_rule),
    Shaped { infer: grouped_mm, ..torch("GroupedMm", 3..=3) }.runs(grouped_mm_rule),
    Shaped { infer: like_first, ..torch("InverseOrder", 1..=1) }.runs(inverse_rule),
    Shaped { infer: sort, ..torch("Sort", 1..=1) }.runs(sort_rule),
];

fn sort(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?.clone();
    inference.set_dims(1, DType::Int64, x.dims.clone());
    inference.set(0, x);
    Ok(())
}

fn group_ends(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let count = size(inference.node.int("experts").unwrap_or(1))?;
    let dims = inference.input(0)?.dims.clone();
    inference.set_dims(0, DType::Int32, dims);
    inference.set_dims(1, DType::Int32, [count]);
    inference.set_dims(2, DType::Int32, [count]);
    Ok(())
}

/// `x [S, K]`, `weight [G, N, K]`.
fn grouped_mm(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, weight) = (inference.input(0)?, inference.input(1)?);
    let (&[rows, width], &[_, makes, takes]) = (x.dims.as_slice(), weight.dims.as_slice()) else {
        return Err(OpError::new(say!("a grouped product takes rows and a matrix for each group")));
    };
    if width != takes {
        return Err(OpError::new(say!(
            "{width} features where weights take {takes}",
            width,
            takes
        )));
    }
    inference.set_dims(0, weight.dtype, [rows, makes]);
    Ok(())
}

fn sort_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (sorted, places) = aten::sort(call.rt, &call.need(0)?);
    call.set(0, sorted);
    call.set(1, places);
    Ok(())
}

fn group_ends_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let count = dim(&call.output_type(2)?.dims, 0);
    for (position, tensor) in
        aten::group_ends(call.rt, &call.need(0)?, count).into_iter().enumerate()
    {
        call.set(position, tensor);
    }
    Ok(())
}

fn inverse_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let inverse = aten::inverse(call.rt, &call.need(0)?);
    call.set(0, inverse);
    Ok(())
}

fn grouped_mm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, ends) = (call.need(0)?, call.need(1)?, call.need(2)?);
    let x = crate::eager::kernels::cast(call.rt, &x, weight.dtype());
    call.set(0, aten::grouped_mm(call.rt, &x, &weight, &ends));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("torch.Sort int64[2048]", "int64[2048] int64[2048]"),
            ("torch.GroupEnds int64[2048] experts=8", "int32[2048] int32[8] int32[8]"),
            ("torch.GroupedMm float32[64,32] float32[8,96,32] int32[8]", "float32[64,96]"),
            ("torch.GroupedMm float32[64,32] float32[8,96,31] int32[8]", "error: 32 features"),
            ("torch.InverseOrder int64[2048]", "int64[2048]"),
        ] {
            check(call, expected);
        }
    }
}
