//! Matrix products.
//!
//! <https://onnx.ai/onnx/operators/onnx__MatMul.html>, `onnx__Gemm.html`, `onnx__Einsum.html`,
//! `onnx__MatMulInteger.html`, `onnx__QLinearMatMul.html`, `onnx__Det.html`.

use super::Call;
use super::formula::{run_as, run_row};
use super::run::fresh;
use super::shape_math::{before, broadcast, dim};
use super::torch;
use super::{Inference, MANY, OpError, Operator, Shaped, op};
use crate::aten::formula::Value;
use crate::aten::matmul as aten;
use crate::aten::matmul::WeightLayout;
use crate::aten::{reduce, view};
use crate::eager::Tensor;
use crate::tensor::{DType, Dims, TensorType};

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: |i| matmul_at(i, [1, 2], None), ..torch("Baddbmm", 3..=3) }.runs(baddbmm_rule),
    Shaped { infer: |i| matmul(i, 1, None), ..torch("Bmm", 2..=2) }.runs(bmm_rule),
    Shaped { infer: linear, ..torch("Linear", 2..=3) }.runs(linear_rule),
    op("Det", 1..=1, det).unmodelled(),
    op("Einsum", 1..=MANY, einsum).runs(einsum_rule).unproven(),
    op("Gemm", 2..=3, gemm).runs(gemm_rule),
    op("MatMul", 2..=2, |i| matmul(i, 1, None)).runs(matmul_rule),
    op("MatMulInteger", 2..=4, |i| matmul(i, 1, Some(DType::Int32))).runs(fresh).unproven(),
    op("QLinearMatMul", 8..=8, |i| matmul(i, 3, None)).runs(fresh).unproven(),
];

/// `A […, M, K] × B […, K, N]`; a vector stands for a row in front and for a column behind.
fn matmul(
    inference: &mut Inference<'_>,
    second: usize,
    dtype: Option<DType>,
) -> Result<(), OpError> {
    matmul_at(inference, [0, second], dtype)
}

/// The same, with the factors at these positions.
fn matmul_at(
    inference: &mut Inference<'_>,
    [first, second]: [usize; 2],
    dtype: Option<DType>,
) -> Result<(), OpError> {
    let (a, b) = (inference.input(first)?, inference.input(second)?);
    let dims = product(&a.dims, &b.dims)?;
    inference.set(0, TensorType::new(dtype.unwrap_or(a.dtype), dims));
    Ok(())
}

/// Dimensions of a product.
pub(super) fn product(a: &[u64], b: &[u64]) -> Result<Dims, OpError> {
    let (Some((&k, a_rest)), false) = (a.split_last(), b.is_empty()) else {
        return Err(OpError::new(say!("a scalar is no matrix")));
    };
    let b_batch = before(b, b.len().saturating_sub(2));
    let b_inner = dim(b, b.len().saturating_sub(2));
    if k != b_inner {
        return Err(OpError::new(say!("inner dimensions {k} and {b_inner} differ", k, b_inner)));
    }
    let (row, a_batch) =
        a_rest.split_last().map_or((None, a_rest), |(row, rest)| (Some(row), rest));
    let mut dims = broadcast(a_batch, b_batch)?;
    dims.extend(row.copied());
    if b.len() > 1 {
        dims.extend(b.last().copied());
    }
    Ok(dims)
}

/// `A [M, K] × B [K, N] + C`, either transposed.
fn gemm(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let turned = |name| inference.node.int(name).unwrap_or(0) != 0;
    let (a, b) = (inference.input(0)?, inference.input(1)?);
    let (&[a0, a1], &[b0, b1]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return Err(OpError::new(say!("both factors must be matrices")));
    };
    let (m, k) = if turned("transA") { (a1, a0) } else { (a0, a1) };
    let (inner, n) = if turned("transB") { (b1, b0) } else { (b0, b1) };
    if k != inner {
        return Err(OpError::new(say!("inner dimensions {k} and {inner} differ", k, inner)));
    }
    if let Some(c) = inference.optional(2)
        && !broadcast(&c.dims, &[m, n]).is_ok_and(|both| both.as_slice() == [m, n])
    {
        return Err(OpError::new(say!("{c} is not added to [{m}, {n}]", c, m, n)));
    }
    inference.set_dims(0, a.dtype, [m, n]);
    Ok(())
}

/// `x […, in]` and `weight [out, in]`, or `[in, out]` where that is not `transposed`.
fn linear(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, weight) = (inference.input(0)?, inference.input(1)?);
    let (Some((&width, rows)), &[first, second]) = (x.dims.split_last(), weight.dims.as_slice())
    else {
        return Err(OpError::new(say!("a linear layer takes a matrix")));
    };
    let transposed = inference.node.int("transposed").is_some_and(|n| n != 0);
    let (takes, makes) = if transposed { (second, first) } else { (first, second) };
    if width != takes {
        return Err(OpError::new(say!(
            "{width} features where weights take {takes}",
            width,
            takes
        )));
    }
    let mut dims = rows.to_vec();
    dims.push(makes);
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

fn det(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    inference.set_dims(0, x.dtype, before(&x.dims, x.rank().saturating_sub(2)));
    Ok(())
}

/// One term of an equation: its letters, and where an ellipsis stands among them.
struct Term {
    letters: Vec<u8>,
    ellipsis: Option<usize>,
}

fn einsum(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let equation: String = inference.node.string("equation").unwrap_or("").replace(' ', "");
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<Term> = left.split(',').map(term).collect();
    if terms.len() != inference.n_inputs() {
        return Err(OpError::new(say!(
            "`{equation}` is for {n} inputs",
            equation,
            n = terms.len()
        )));
    }
    let mut sizes = Vec::new();
    let mut rest = Dims::new();
    for (position, term) in terms.iter().enumerate() {
        let dims = &inference.input(position)?.dims;
        let hidden = bind(term, dims, &mut sizes).ok_or_else(|| {
            OpError::new(say!(
                "`{equation}` does not fit {dims}",
                equation,
                dims = format!("{dims:?}")
            ))
        })?;
        rest = broadcast(&rest, hidden)?;
    }
    let result = right.map_or_else(|| implied(&terms), term);
    let mut dims = Vec::new();
    for position in 0..=result.letters.len() {
        if result.ellipsis == Some(position) {
            dims.extend_from_slice(&rest);
        }
        if let Some(letter) = result.letters.get(position) {
            let size = sizes.iter().find(|(known, _)| known == letter);
            let unknown =
                || OpError::new(say!("`{letter}` has no size", letter = char::from(*letter)));
            dims.push(size.ok_or_else(unknown)?.1);
        }
    }
    let dtype = inference.input(0)?.dtype;
    inference.set_dims(0, dtype, dims);
    Ok(())
}

fn term(text: &str) -> Term {
    let letters = text.bytes().filter(|&c| c != b'.').collect();
    Term { letters, ellipsis: text.find("...") }
}

/// Gives each letter its size; what the ellipsis stands for is left over.
fn bind<'a>(term: &Term, dims: &'a [u64], sizes: &mut Vec<(u8, u64)>) -> Option<&'a [u64]> {
    let hidden = dims.len().checked_sub(term.letters.len())?;
    if term.ellipsis.is_none() && hidden != 0 {
        return None;
    }
    let lead = term.ellipsis.unwrap_or(0);
    let (front, tail) = dims.split_at_checked(lead)?;
    let (rest, back) = tail.split_at_checked(hidden)?;
    for (&letter, &size) in term.letters.iter().zip(front.iter().chain(back)) {
        match sizes.iter_mut().find(|(known, _)| *known == letter) {
            None => sizes.push((letter, size)),
            Some((_, known)) if *known == 1 => *known = size,
            Some((_, known)) if size == 1 || *known == size => {}
            Some(_) => return None,
        }
    }
    Some(rest)
}

/// Without an arrow the result has the letters that occur once, in alphabetical order.
fn implied(terms: &[Term]) -> Term {
    let count = |letter: &u8| {
        terms.iter().flat_map(|term| &term.letters).filter(|other| *other == letter).count()
    };
    let letters = (b'A'..=b'z').filter(|letter| count(letter) == 1).collect();
    let ellipsis = terms.iter().any(|term| term.ellipsis.is_some()).then_some(0);
    Term { letters, ellipsis }
}

/// `x @ w` or `x @ wᵀ`, with a bias where there is one: `addmm`.
pub(super) fn gemm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.need(1)?, call.tensor(2));
    let transposed = |name| call.node.int(name).is_some_and(|n| n != 0);
    let x = if transposed("transA") { view::transpose(call.rt, &x, 0, 1) } else { x };
    // cuBLASLt adds a vector while it multiplies; all else is cuBLAS's `addmm`.
    let is_one = |name| call.node.float(name).is_none_or(|x| x.total_cmp(&1.0).is_eq());
    if let Some(bias) = &bias
        && (bias.rank() != 1 || bias.numel() == 1 || !is_one("beta"))
    {
        let weight =
            if transposed("transB") { view::transpose(call.rt, &weight, 0, 1) } else { weight };
        let factor = |name| Value::Float(call.node.float(name).unwrap_or(1.0));
        let tensors = [bias, &x, &weight].map(|t| Value::Tensor(t.clone()));
        let arguments = tensors.into_iter().chain([factor("beta"), factor("alpha")]).collect();
        return run_as(call, "addmm", arguments);
    }
    let layout = if transposed("transB") { WeightLayout::OutIn } else { WeightLayout::InOut };
    let y = aten::linear(call.rt, &x, &weight, bias.as_ref(), layout);
    call.set(0, y);
    Ok(())
}

/// `torch.nn.functional.linear`, recovered: x, weight, bias.
pub(super) fn linear_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (x, weight, bias) = (call.need(0)?, call.need(1)?, call.tensor(2));
    let transposed = call.node.int("transposed").is_some_and(|n| n != 0);
    let layout = if transposed { WeightLayout::OutIn } else { WeightLayout::InOut };
    // Each rank adds its share of the bias of a layer that is divided by its inputs.
    let shares = bias.as_ref().filter(|_| call.node.int("shares_bias").is_some_and(|n| n != 0));
    let share = shares.map(|bias| {
        call.rt.enter_operator("aten::div");
        call.rt.no_grad(|| call.rt.empty_like(bias))
    });
    let linear = || aten::linear(call.rt, &x, &weight, bias.as_ref(), layout);
    // In a block of the model's own that turns autocast off.
    let y =
        if call.node.int("autocast") == Some(0) { call.rt.autocast_off(linear) } else { linear() };
    drop(share);
    call.set(0, y);
    Ok(())
}

/// `torch.baddbmm(self, batch1, batch2)`, recovered; `scales` where `alpha` is not one.
fn baddbmm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (bias, a, b) = (call.need(0)?, call.need(1)?, call.need(2)?);
    let scales = ["scales", "scales_bias"].map(|name| call.node.int(name).is_some_and(|n| n != 0));
    if call.node.attributes.contains_key("scales_queries") {
        call.is_unproven_as("multi_head_attention_forward");
    }
    let y = aten::baddbmm(call.rt, [&bias, &a, &b], scales);
    call.set(0, y);
    Ok(())
}

/// `torch.bmm`, whose operands are seen as they are: `matmul` would see them as views.
fn bmm_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (a, b) = (call.need(0)?, call.need(1)?);
    let [a, b] = call.rt.for_operator("aten::bmm", [&a, &b]);
    let y = aten::bmm(call.rt, &a, &b);
    call.set(0, y);
    Ok(())
}

fn matmul_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    if call.node.origin.as_ref().is_some_and(|origin| origin.aten.starts_with("aten.bmm.")) {
        return bmm_rule(call);
    }
    let (a, b) = (call.need(0)?, call.need(1)?);
    if call.node.origin.is_none() && call.rt.autocast_type().is_some() && a.rank().max(b.rank()) < 2
    {
        // Or `dot`, which autocast leaves alone.
        call.is_unproven_as("dot");
    }
    let y = aten::matmul(call.rt, &a, &b);
    call.set(0, y);
    Ok(())
}

/// `torch.einsum`: products of two operands after another, from the left; what only one of them has and nothing
/// behind it needs is summed up first (`at::einsum`).
fn einsum_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let equation = call.node.string("equation").unwrap_or_default().replace(' ', "");
    let (left, right) = equation.split_once("->").map_or((&*equation, None), |(l, r)| (l, Some(r)));
    let terms: Vec<Term> = left.split(',').map(term).collect();
    let output = right.map_or_else(|| implied(&terms), term);
    let rank = call.output_type(0)?.rank();
    let output = spread_out(&output, rank);
    let mut operands = Vec::new();
    for (position, term) in terms.iter().enumerate() {
        let x = call.need(position)?;
        let letters = spread_out(term, x.rank());
        operands.push(without_repeats(call, x, letters)?);
    }
    let mut rest = operands.into_iter();
    let (mut x, mut letters) =
        rest.next().ok_or_else(|| OpError::new(say!("it has no operands")))?;
    while let Some((y, others)) = rest.next() {
        let is_needed = |c: &u8| {
            output.contains(c) || rest.as_slice().iter().any(|(_, later)| later.contains(c))
        };
        let needed = |c: &u8, other: &[u8]| is_needed(c) || other.contains(c);
        let (a, own) = summed(call, &x, &letters, &|c| needed(c, &others));
        let (b, others) = summed(call, &y, &others, &|c| needed(c, &letters));
        let mut made: Vec<u8> = own.iter().copied().filter(&is_needed).collect();
        made.extend(others.iter().filter(|c| is_needed(c) && !own.contains(c)));
        if rest.as_slice().is_empty() {
            made.clone_from(&output);
        }
        let pair = [(&a, &own), (&b, &others)];
        let [a, b] = pair.map(|(tensor, letters)| aten::Subscripted { tensor, letters });
        (x, letters) = (aten::contract(call.rt, a, b, &made), made);
    }
    let (x, letters) = summed(call, &x, &letters, &|c| output.contains(c));
    let order = output.iter().filter_map(|c| letters.iter().position(|other| other == c));
    let order: Vec<usize> = order.collect();
    let is_turned = order.iter().enumerate().any(|(at, &from)| at != from);
    call.set(0, if is_turned { view::permute(call.rt, &x, &order) } else { x });
    Ok(())
}

/// An operand whose last two dimensions have one letter is seen along its diagonal.
fn without_repeats(
    call: &Call<'_>,
    x: Tensor,
    mut letters: Vec<u8>,
) -> Result<(Tensor, Vec<u8>), OpError> {
    let repeats = |letters: &[u8]| {
        (0..letters.len()).any(|at| letters.iter().take(at).any(|c| Some(c) == letters.get(at)))
    };
    if !repeats(&letters) {
        return Ok((x, letters));
    }
    let last = letters.pop();
    if repeats(&letters) || letters.last().copied() != last {
        return Err(OpError::new(say!(
            "a letter that one operand repeats elsewhere is not modelled"
        )));
    }
    let arguments = vec![x.into(), Value::Int(0), Value::Int(-2), Value::Int(-1)];
    let diagonal = run_row(call, "diagonal", arguments)?.into_iter().next();
    Ok((diagonal.ok_or_else(|| OpError::new(say!("it has no formula")))?, letters))
}

/// Letters with one for each dimension that an ellipsis stands for.
fn spread_out(term: &Term, rank: usize) -> Vec<u8> {
    let hidden = rank.saturating_sub(term.letters.len());
    let mut letters = term.letters.clone();
    if let Some(at) = term.ellipsis {
        // Counted from the end, as broadcasting does; fewer than stand before the first letter.
        let unseen = (0..hidden).rev().map(|n| u8::try_from(n).unwrap_or(u8::MAX).min(b'A' - 1));
        let behind = letters.split_off(at.min(letters.len()));
        letters.extend(unseen);
        letters.extend(behind);
    }
    letters
}

/// An operand without the dimensions that are not kept.
fn summed(
    call: &Call<'_>,
    x: &Tensor,
    letters: &[u8],
    keeps: &dyn Fn(&u8) -> bool,
) -> (Tensor, Vec<u8>) {
    let gone: Vec<bool> = letters.iter().map(|c| !keeps(c)).collect();
    if !gone.contains(&true) {
        return (x.clone(), letters.to_vec());
    }
    let kept = letters.iter().copied().filter(|c| keeps(c)).collect();
    (reduce::sum(call.rt, x, &gone, false), kept)
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("MatMul float32[2,64,768] float32[768,3072]", "float32[2,64,3072]"),
            ("MatMul float32[2,12,64,32] float32[1,12,32,64]", "float32[2,12,64,64]"),
            ("MatMul float32[3] float32[3]", "float32[]"),
            ("MatMul float32[3] float32[5,3,4]", "float32[5,4]"),
            ("MatMul float32[5,4,3] float32[3]", "float32[5,4]"),
            ("MatMul float32[2,3] float32[4,5]", "error: inner dimensions 3 and 4 differ"),
            ("MatMul float32[] float32[4,5]", "error: scalar"),
            ("Gemm float32[2,512] float32[1000,512] float32[1000] transB=1", "float32[2,1000]"),
            ("Gemm float32[512,2] float32[512,1000] transA=1", "float32[2,1000]"),
            ("Gemm float32[2,512] float32[1000,512]", "error: inner dimensions 512 and 1000"),
            ("Einsum float32[2,3,4] float32[2,4,5] equation=bij,bjk->bik", "float32[2,3,5]"),
            ("Einsum float32[2,3,4] float32[4,5] equation=...ij,jk->...ik", "float32[2,3,5]"),
            ("Einsum float32[3,4] float32[4,5] equation=ij,jk", "float32[3,5]"),
            ("Einsum float32[3,4] equation=ij->ji", "float32[4,3]"),
            ("Einsum float32[3,4] float32[5,5] equation=ij,jk->ik", "error: does not fit"),
            ("MatMulInteger uint8[2,3] uint8[3,4]", "int32[2,4]"),
            ("Det float32[2,3,3]", "float32[2]"),
        ] {
            check(call, expected);
        }
    }
}
