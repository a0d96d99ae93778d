//! Reading and writing by index, and operators whose results depend on contents.
//!
//! <https://onnx.ai/onnx/operators/onnx__Gather.html>, `onnx__GatherElements.html`, `onnx__GatherND.html`,
//! `onnx__ScatterElements.html`, `onnx__ScatterND.html`, `onnx__OneHot.html`, `onnx__TopK.html`,
//! `onnx__NonZero.html`, `onnx__Unique.html`, `onnx__Compress.html`. Where the size depends on contents that only
//! a run shows, the largest possible size is assumed and reported.

use super::Call;
use super::formula::{operand, run_as};
use super::run::fresh;
use super::shape_math::{axis, before, dim, from, signed, size, with};
use super::{Inference, OpError, Operator, Shaped, fold, op, shape_math::like_first, torch};
use crate::aten::formula::Value;
use crate::aten::{embedding, index as aten, tensor_parallel, view};
use crate::graph::Elements;
use crate::tensor::{DType, Dims};

pub(super) const TABLE: &[Operator] = &[
    op("Compress", 2..=2, compress).runs(pick),
    op("Gather", 2..=2, gather).runs(gather_rule),
    Shaped { infer: index_pairs, ..torch("IndexPairs", 3..=3) }.runs(index_pairs_rule),
    Shaped { infer: gather, ..torch("TableRows", 2..=2) }.runs(table_rows_rule),
    Shaped { infer: place, ..torch("Place", 1..=1) }.runs(place_rule),
    op("GatherElements", 2..=2, gather_elements).runs(gather_elements_rule),
    op("GatherND", 2..=2, gather_nd).runs(pick).unproven(),
    Shaped { infer: last_tokens, ..torch("LastTokens", 2..=2) }.runs(last_tokens_rule),
    op("NonZero", 1..=1, non_zero).runs(fresh),
    op("OneHot", 3..=3, one_hot).runs(fresh).numbers_from(1),
    op("Scatter", 3..=3, like_first).runs(scatter_elements_rule),
    op("ScatterElements", 3..=3, like_first).runs(scatter_elements_rule),
    op("ScatterND", 3..=3, like_first).runs(scatter_rule).unproven(),
    torch("Assign", 2..=2).runs(assign_rule),
    op("TopK", 1..=2, top_k).runs(top_k_rule).unproven(),
    op("Unique", 1..=1, unique).runs(fresh),
];

fn gather(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (data, indices) = (inference.input(0)?, inference.input(1)?);
    let axis = axis(inference.node.int("axis").unwrap_or(0), data.rank())?;
    let mut dims = before(&data.dims, axis).to_vec();
    dims.extend(&indices.dims);
    dims.extend(from(&data.dims, axis.saturating_add(1)));
    inference.set_dims(0, data.dtype, dims);
    if let (Some(elements), Some(wanted), true) =
        (inference.elements(0), inference.ints(1), inference.is_small(0))
        && let Some(positions) = gather_positions(&data.dims, axis, wanted)
        && let Some(folded) = elements.pick(&positions)
    {
        inference.set_elements(0, folded);
    }
    Ok(())
}

fn gather_positions(dims: &[u64], axis: usize, indices: &[i64]) -> Option<Vec<usize>> {
    let steps = fold::strides(dims);
    let (outer_dims, inner_dims) = (before(dims, axis), from(dims, axis.checked_add(1)?));
    let outer = fold::strided_positions(outer_dims, 0, &steps)?;
    let inner_steps = steps.get(axis.checked_add(1)?..)?;
    let inner = fold::strided_positions(inner_dims, 0, inner_steps)?;
    let count = signed(dim(dims, axis));
    let step = *steps.get(axis)?;
    let mut positions = Vec::new();
    for &base in &outer {
        for &index in indices {
            let index = if index < 0 { index.checked_add(count)? } else { index };
            if !(0..count).contains(&index) {
                return None;
            }
            let offset = usize::try_from(index.checked_mul(step)?).ok()?.checked_add(base)?;
            positions.extend(inner.iter().map(|&i| offset.saturating_add(i)));
        }
    }
    Some(positions)
}

fn gather_elements(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (data, indices) = (inference.input(0)?, inference.input(1)?);
    if data.rank() != indices.rank() {
        return Err(OpError::new(say!("data and indices differ in rank")));
    }
    inference.set_dims(0, data.dtype, indices.dims.clone());
    Ok(())
}

fn gather_nd(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (data, indices) = (inference.input(0)?, inference.input(1)?);
    let batch = usize::try_from(inference.node.int("batch_dims").unwrap_or(0)).unwrap_or(0);
    let (&depth, lead) =
        indices.dims.split_last().ok_or_else(|| OpError::new(say!("the indices are a scalar")))?;
    let taken = usize::try_from(depth).unwrap_or(usize::MAX).saturating_add(batch);
    if taken > data.rank() {
        return Err(OpError::new(say!(
            "indices of {depth} into rank {rank}",
            depth,
            rank = data.rank()
        )));
    }
    let mut dims = lead.to_vec();
    dims.extend(from(&data.dims, taken));
    inference.set_dims(0, data.dtype, dims);
    Ok(())
}

/// `x[rows, columns]`: one place in the first two dimensions for each pair.
fn index_pairs(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, rows) = (inference.input(0)?, inference.input(1)?);
    if x.rank() < 2 {
        return Err(OpError::new(say!("two indices into fewer dimensions")));
    }
    let dims = [rows.dims.as_slice(), from(&x.dims, 2)].concat();
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

fn one_hot(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (indices, values) = (inference.input(0)?, inference.input(2)?);
    let depth = match inference.elements(1).map(|depth| fold::cast(depth, DType::Int64)) {
        Some(Elements::Ints(list)) => list.first().copied(),
        _ => None,
    };
    let depth = depth.ok_or_else(|| OpError::new(say!("the depth is only known while it runs")))?;
    let rank = indices.rank().saturating_add(1);
    let axis = axis(inference.node.int("axis").unwrap_or(-1), rank)?;
    let mut dims = indices.dims.clone();
    dims.insert(axis.min(dims.len()), size(depth)?);
    inference.set_dims(0, values.dtype, dims);
    // `repeat_interleave` writes its repeats so: ones, and a number at one position.
    if indices.numel() == 1
        && inference.is_small(0)
        && let (Some(&[index]), Some([off, on])) = (inference.ints(0), inference.ints(2))
    {
        let index = if index < 0 { index.saturating_add(depth) } else { index };
        let row = (0..depth).map(|at| if at == index { *on } else { *off }).collect();
        inference.set_elements(0, Elements::Ints(row));
    }
    Ok(())
}

/// Values and their positions; `k` was an attribute before operator set 10.
fn top_k(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let k = match inference.node.int("k") {
        Some(k) => k,
        None => inference.needed_ints(1)?.first().copied().unwrap_or(0),
    };
    let axis = axis(inference.node.int("axis").unwrap_or(-1), x.rank())?;
    let dims = with(&x.dims, axis, size(k)?);
    inference.set_dims(0, x.dtype, dims.clone());
    inference.set_dims(1, DType::Int64, dims);
    Ok(())
}

/// `[rank, count]`.
fn non_zero(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let rank = u64::try_from(x.rank().max(1)).unwrap_or(u64::MAX);
    let found = inference.ints(0).map(|list| list.iter().filter(|&&n| n != 0).count());
    let count = if let Some(count) = found {
        u64::try_from(count).unwrap_or(u64::MAX)
    } else {
        inference.assume(say!(
            "the number of non-zero elements depends on data; all are assumed to be non-zero"
        ));
        x.numel()
    };
    inference.set_dims(0, DType::Int64, [rank, count]);
    Ok(())
}

fn unique(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.assume(say!(
        "the number of unique elements depends on data; all are assumed to be unique"
    ));
    let axis = inference.node.int("axis").map(|a| axis(a, x.rank())).transpose()?;
    let count = axis.map_or_else(|| x.numel(), |axis| dim(&x.dims, axis));
    let dims = if axis.is_some() { x.dims.clone() } else { Dims::from_slice(&[count]) };
    inference.set_dims(0, x.dtype, dims);
    inference.set_dims(1, DType::Int64, [count]);
    inference.set_dims(2, DType::Int64, [axis.map_or(count, |axis| dim(&x.dims, axis))]);
    inference.set_dims(3, DType::Int64, [count]);
    Ok(())
}

fn compress(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, condition) = (inference.input(0)?, inference.input(1)?);
    let count = if let Some(list) = inference.ints(1) {
        u64::try_from(list.iter().filter(|&&n| n != 0).count()).unwrap_or(u64::MAX)
    } else {
        inference.assume(say!(
            "the number of selected elements depends on data; all are assumed to be selected"
        ));
        condition.numel()
    };
    let dims = match inference.node.int("axis") {
        None => Dims::from_slice(&[count]),
        Some(a) => with(&x.dims, axis(a, x.rank())?, count),
    };
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// Rows of a table are an embedding, one place along an axis a view, anything else a gather.
fn gather_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let data = call.need(0)?;
    let dims = &call.input_type(0)?.dims;
    let axis = axis(call.node.int("axis").unwrap_or(0), dims.len())?;
    let is_known = call.ints(1).is_some();
    // Exporters state the axis but for an embedding.
    let is_embedding = !is_known && data.rank() == 2 && !call.node.attributes.contains_key("axis");
    if call.input_type(1)?.rank() == 0 && !is_embedding {
        let y = view::select(call.rt, &data, axis);
        call.set(0, y);
        return Ok(());
    }
    let indices = call.need(1)?;
    if let Some(parts) = call.node.int("parts") {
        let parts = super::tensor_parallel::parts(Some(parts));
        let y = tensor_parallel::embedding(call.rt, &data, &indices, parts);
        call.set(0, y);
        return Ok(());
    }
    let y = if axis == 0 && is_known && data.rank() != 2 && data.requires_grad() {
        aten::indexed(call.rt, &data, &[&indices], &call.output_type(0)?.dims)
    } else if axis == 0 && data.rank() == 2 && data.requires_grad() {
        embedding::embedding(call.rt, &data, &indices)
    } else {
        aten::pick(call.rt, &data, &indices, &call.output_type(0)?.dims)
    };
    call.set(0, y);
    Ok(())
}

/// `table[indices]`, recovered.
fn table_rows_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (table, indices) = (call.need(0)?, call.need(1)?);
    let mut sizes = indices.sizes().to_vec();
    sizes.extend(table.sizes().iter().skip(1));
    let y = aten::indexed(call.rt, &table, &[&indices], &sizes);
    call.set(0, y);
    Ok(())
}

fn index_pairs_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, rows, columns) = (call.need(0)?, call.need(1)?, call.need(2)?);
    let y = aten::indexed(call.rt, &x, &[&rows, &columns], &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

/// `x[..., [index], :]`: one place along an axis by a list, which keeps the axis.
fn place(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let axis = axis(inference.node.int("axis").unwrap_or(0), x.rank())?;
    inference.set_dims(0, x.dtype, with(&x.dims, axis, 1));
    Ok(())
}

/// `logits[arange(N), last]`, where `last` is each sequence's last token that is no padding.
fn last_tokens(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let &[n, _, classes] = x.dims.as_slice() else {
        return Err(OpError::new(say!("scores are for samples, tokens and classes")));
    };
    inference.set_dims(0, x.dtype, [n, classes]);
    Ok(())
}

fn last_tokens_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (scores, tokens) = (call.need(0)?, call.need(1)?);
    let y = aten::last_tokens(call.rt, &scores, &tokens);
    call.set(0, y);
    Ok(())
}

fn place_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let y = aten::place(call.rt, &x, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

fn gather_elements_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (data, indices) = (call.need(0)?, call.need(1)?);
    let y = aten::gather(call.rt, &data, &indices, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

fn pick(call: &mut Call<'_>) -> Result<(), OpError> {
    let (data, indices) = (call.need(0)?, call.need(1)?);
    let y = aten::pick(call.rt, &data, &indices, &call.output_type(0)?.dims);
    call.set(0, y);
    Ok(())
}

fn scatter_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (data, indices, source) = (call.need(0)?, call.need(1)?, call.need(2)?);
    let y = aten::scatter(call.rt, &data, &indices, &source);
    call.set(0, y);
    Ok(())
}

/// `scatter`, `scatter_add`, `scatter_reduce`.
fn scatter_elements_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let axis = Value::Int(call.node.int("axis").unwrap_or(0));
    let (data, indices) = (Value::Tensor(call.need(0)?), Value::Tensor(call.need(1)?));
    let mut arguments = vec![data, axis, indices, operand(call, 2)];
    let name = match call.node.string("reduction") {
        None | Some("none") => "scatter",
        Some("add") => "scatter_add",
        Some(reduction) => {
            let called = match reduction {
                "mul" => "prod",
                "max" => "amax",
                _ => "amin",
            };
            arguments.extend([Value::Text(called.to_owned()), Value::Int(1)]);
            "scatter_reduce"
        }
    };
    run_as(call, name, arguments)
}

/// `x[…] = piece`, recovered; `whole` where the part is all of `x`.
fn assign_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, piece) = (call.need(0)?, call.need(1)?);
    let is_whole = call.node.int("whole").is_some_and(|n| n != 0);
    let y = view::assign(call.rt, &x, &piece, is_whole);
    call.set(0, y);
    Ok(())
}

fn top_k_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let dims = &call.output_type(0)?.dims;
    let along = call.node.int("axis").unwrap_or(-1);
    let length = x.size(axis(along, x.rank())?);
    if x.sizes() == dims.as_slice() && length <= 4096 {
        return run_as(call, "sorted", vec![Value::Tensor(x), Value::Int(along)]);
    }
    let (values, indices) = aten::values_and_indices(call.rt, "aten::topk", &x, dims);
    call.set(0, values);
    call.set(1, indices);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("Gather float32[30522,768] int64[2,64]", "float32[2,64,768]"),
            ("Gather int64[4]:2,3,5,7 int64[]:-1", "int64[]:7"),
            ("Gather int64[2,2]:2,3,5,7 int64[1]:1 axis=1", "int64[2,1]:3,7"),
            ("Gather int64[2]:2,3 int64[1]:5", "int64[1]"),
            ("Gather float32[2,3] int64[1] axis=2", "error: axis 2"),
            ("GatherElements float32[2,3] int64[2,1] axis=1", "float32[2,1]"),
            ("GatherND float32[2,3,4] int64[5,2]", "float32[5,4]"),
            ("GatherND float32[2,3,4] int64[2,5,1] batch_dims=1", "float32[2,5,4]"),
            ("ScatterND float32[2,3] int64[1,2] float32[1]", "float32[2,3]"),
            ("OneHot int64[2,5] int64[]:10 float32[2]", "float32[2,5,10]"),
            ("OneHot int64[2,5] int64[1]:10 float32[2] axis=0", "float32[10,2,5]"),
            ("OneHot int64[1]:2 int64[]:4 int64[2]:1,8", "int64[1,4]:1,1,8,1"),
            ("OneHot int64[1]:-1 int64[]:3 int64[2]:0,1", "int64[1,3]:0,0,1"),
            ("OneHot int64[2]:0,1 int64[]:3 int64[2]:0,1", "int64[2,3]"),
            ("TopK float32[2,100] int64[1]:5", "float32[2,5] int64[2,5]"),
            ("TopK float32[2,100] k=5 @9", "float32[2,5] int64[2,5]"),
            ("NonZero bool[2,3]", "int64[2,6]"),
            ("NonZero int64[3]:0,1,1", "int64[1,2]"),
            ("Unique int64[2,3]", "int64[6] int64[6] int64[6] int64[6]"),
            ("torch.LastTokens float32[2,512,3] int64[2,512]", "float32[2,3]"),
            ("torch.Place float32[2,512,6,64] axis=2", "float32[2,512,1,64]"),
            ("torch.TableRows float32[1024,64] int64[2048]", "float32[2048,64]"),
            ("Compress float32[2,3] bool[3]:1,0,1 axis=1", "float32[2,2]"),
        ] {
            check(call, expected);
        }
    }
}
