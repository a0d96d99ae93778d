//! Attention as one operator, and rotary embeddings.
//!
//! <https://onnx.ai/onnx/operators/onnx__Attention.html> (since operator set 23),
//! `onnx__RotaryEmbedding.html`. Queries are `[N, heads, L, E]`, or `[N, L, heads * E]` with the
//! numbers of heads as attributes.

use super::Call;
use super::formula::{run_row, spelled, value_of};
use super::shape_math::{dim, dtype_attribute, exact_div, like_first, size};
use super::torch;
use super::{Inference, OpError, Operator, Shaped, op};
use crate::aten::formula::Value;
use crate::aten::{attention as aten, view};
use crate::bytes::Bytes;
use crate::config::MemoryFormat;
use crate::eager::Tensor;
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: whole_attention, ..torch("Attention", 3..=4) }.runs(recovered_attention),
    op("Attention", 3..=7, attention).runs(attention_rule).unproven(),
    Shaped { infer: flex_scores, ..torch("FlexScores", 2..=2) }.runs(spelled),
    Shaped { infer: flex_values, ..torch("FlexValues", 2..=2) }.runs(spelled),
    op("LinearAttention", 3..=6, linear_attention).runs(spelled),
    op("RotaryEmbedding", 3..=4, like_first).runs(spelled),
    op("TensorScatter", 2..=3, like_first).runs(spelled),
];

/// Queries, keys or values as `[N, heads, length, width]`.
fn by_head(
    inference: &Inference<'_>,
    tensor: &TensorType,
    heads: &str,
) -> Result<[u64; 4], OpError> {
    match *tensor.dims.as_slice() {
        [n, heads, length, width] => Ok([n, heads, length, width]),
        [n, length, all] => {
            let stated = inference.node.int(heads);
            let count =
                size(stated.ok_or_else(|| OpError::new(say!("`{heads}` is missing", heads)))?)?;
            let width = exact_div(all, count).ok_or_else(|| {
                OpError::new(say!("{count} heads do not divide {all}", count, all))
            })?;
            Ok([n, count, length, width])
        }
        _ => Err(OpError::new(say!("{tensor} has neither 3 nor 4 dimensions", tensor))),
    }
}

/// `Y`, then keys and values with those of the past in front, then the scores.
fn attention(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (q, k, v) = (inference.input(0)?, inference.input(1)?, inference.input(2)?);
    let [n, heads, length, width] = by_head(inference, q, "q_num_heads")?;
    let [kv_n, kv_heads, kv_length, k_width] = by_head(inference, k, "kv_num_heads")?;
    let [_, _, _, v_width] = by_head(inference, v, "kv_num_heads")?;
    if width != k_width {
        return Err(OpError::new(say!(
            "queries of {width} meet keys of {k_width}",
            width,
            k_width
        )));
    }
    let past = inference.optional(4).map_or(0, |past| dim(&past.dims, 2));
    let total = kv_length.saturating_add(past);
    let y = if q.rank() == 4 {
        vec![n, heads, length, v_width]
    } else {
        vec![n, length, heads.saturating_mul(v_width)]
    };
    inference.set_dims(0, q.dtype, y);
    inference.set_dims(1, k.dtype, [kv_n, kv_heads, total, k_width]);
    inference.set_dims(2, v.dtype, [kv_n, kv_heads, total, v_width]);
    inference.set_dims(3, q.dtype, [n, heads, length, total]);
    Ok(())
}

/// `[N, heads, L, E]` and `[N, fewer heads, S, E]` to `[N, heads, L, S]`, in single precision at least.
fn flex_scores(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (q, k) = (inference.input(0)?, inference.input(1)?);
    let wide = if q.dtype == DType::Float64 { q.dtype } else { DType::Float32 };
    let stated = dtype_attribute(inference, "softmax_precision")?;
    let dims = [dim(&q.dims, 0), dim(&q.dims, 1), dim(&q.dims, 2), dim(&k.dims, 2)];
    inference.set_dims(0, stated.unwrap_or(wide), dims);
    Ok(())
}

/// `[N, heads, L, S]` and `[N, fewer heads, S, E]` to `[N, heads, L, E]`.
fn flex_values(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (p, v) = (inference.input(0)?, inference.input(1)?);
    let dims = [dim(&p.dims, 0), dim(&p.dims, 1), dim(&p.dims, 2), dim(&v.dims, 3)];
    inference.set_dims(0, v.dtype, dims);
    Ok(())
}

/// `Y [N, L, heads * V]`, and the state `[N, heads of keys, E, V]`.
fn linear_attention(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (q, k, v) = (inference.input(0)?, inference.input(1)?, inference.input(2)?);
    let [n, heads, length, _] = by_head(inference, q, "q_num_heads")?;
    let [_, kv_heads, _, width] = by_head(inference, k, "kv_num_heads")?;
    let [_, _, _, v_width] = by_head(inference, v, "kv_num_heads")?;
    inference.set_dims(0, q.dtype, [n, length, heads.saturating_mul(v_width)]);
    let state = inference.optional(3).map_or(q.dtype, |past| past.dtype);
    inference.set_dims(1, state, [n, kv_heads, width, v_width]);
    Ok(())
}

/// The sizes of the queries, with the width of the values.
fn whole_attention(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (q, v) = (inference.input(0)?, inference.input(2)?);
    let (Some((_, rows)), Some(&width)) = (q.dims.split_last(), v.dims.last()) else {
        return Err(OpError::new(say!("queries and values need dimensions")));
    };
    let mut dims = rows.to_vec();
    dims.push(width);
    inference.set_dims(0, q.dtype, dims);
    Ok(())
}

/// `scaled_dot_product_attention`, recovered: q, k in another order of dimensions, v, bias.
fn recovered_attention(call: &mut Call<'_>) -> Result<(), OpError> {
    let (q, k, v, bias) = (call.need(0)?, call.need(1)?, call.need(2)?, call.tensor(3));
    let k = match call.node.ints("key_order") {
        Some(order) => {
            let order: Vec<usize> =
                order.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
            view::permute(call.rt, &k, &order)
        }
        None => k,
    };
    // No kernel takes rows with gaps between their elements, so whoever turns them copies them, which
    // exporters do not write down.
    let is_eager = call.node.int("eager").is_some_and(|n| n != 0);
    let is = |name: &str| call.node.int(name).is_some_and(|n| n != 0);
    let in_rows = |x: Tensor| {
        if is_eager || is("as_given") {
            return x;
        }
        let is_turned = x.strides().last().is_some_and(|&stride| stride != 1);
        if is_turned && x.suggested_format() != MemoryFormat::Contiguous {
            call.is_unproven();
        }
        if is_turned { view::contiguous(call.rt, &x) } else { x }
    };
    let [q, k, v] = [q, k, v].map(in_rows);
    let last = |x: &Tensor| x.strides().last().copied();
    let is_half = call.rt.autocast_type().is_some() || q.dtype().size() == Bytes(2);
    if is("as_given")
        && (bias.is_some() && is_half || q.rank() != 4 || [&q, &k, &v].map(last) != [Some(1); 3])
    {
        call.is_unproven();
    }
    let drops = is("drops") && call.rt.is_training();
    let operands = [&q, &k, &v];
    let y = if is_eager {
        aten::eager_attention(call.rt, operands, bias.as_ref(), drops)
    } else {
        aten::attention(call.rt, operands, bias.as_ref(), [drops, is("causal")])
    };
    call.set(0, y);
    Ok(())
}

/// `scaled_dot_product_attention`, behind what it lacks: a past is put in front, and what limits the keys becomes
/// part of the mask. Limited scores and scores as a result are written by hand.
fn attention_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let int = |name| call.node.int(name);
    let is_causal = int("is_causal").is_some_and(|n| n != 0);
    let has_window =
        ["left_window_size", "right_window_size"].iter().any(|name| int(name) >= Some(0));
    let (q, k, v) = (call.need(0)?, call.need(1)?, call.need(2)?);
    let by_head = |x: Tensor, heads: &str| match (x.sizes(), call.node.int(heads)) {
        (&[n, length, all], Some(heads)) => {
            let heads = size(heads)?;
            let width = all.checked_div(heads).unwrap_or(0);
            let split = view::reshape(call.rt, &x, &[n, length, heads, width]);
            Ok(view::transpose(call.rt, &split, 1, 2))
        }
        _ => Ok(x),
    };
    let dims = call.output_type(0)?.dims.clone();
    let [q, k, v] =
        [by_head(q, "q_num_heads")?, by_head(k, "kv_num_heads")?, by_head(v, "kv_num_heads")?];
    let after = |x: Tensor, past| match call.tensor(past) {
        Some(past) => view::cat(call.rt, &[&past, &x], 2),
        None => x,
    };
    let (k, v) = (after(k, 4), after(v, 5));
    let given = |at| call.node.input(at).map(|_| call.need(at)).transpose();
    let (mut mask, lengths) = (given(3)?, given(6)?);
    let is_plain =
        !has_window && lengths.is_none() && call.node.input(4).is_none() && mask.is_none();
    if lengths.is_some() || !is_plain && (is_causal || has_window) {
        let is_banded = Value::Int(i64::from(is_causal || has_window));
        let [mask_, lengths] = [mask, lengths].map(value_of);
        let arguments = vec![mask_, lengths, is_banded, q.clone().into(), k.clone().into()];
        mask = run_row(call, "attention_mask", arguments)?.into_iter().next();
    }
    let softcap = call.node.float("softcap").filter(|cap| cap.abs() > 0.0);
    let asks = call.node.output(3).is_some();
    let y = if asks || softcap.is_some() {
        let mode = if asks { int("qk_matmul_output_mode").unwrap_or(0) } else { -1 };
        let precision = int("softmax_precision").map_or(Value::Nothing, Value::Int);
        let operands = [Some(q), Some(k.clone()), Some(v.clone()), mask].map(value_of);
        let softcap = softcap.map_or(Value::Nothing, Value::Float);
        let arguments =
            operands.into_iter().chain([softcap, Value::Int(mode), precision]).collect();
        let mut made = run_row(call, "attention_by_hand", arguments)?.into_iter();
        let y = made.next().ok_or_else(|| OpError::new(say!("it has no formula")))?;
        if let Some(scores) = made.next() {
            call.set(3, scores);
        }
        y
    } else {
        aten::attention(call.rt, [&q, &k, &v], mask.as_ref(), [false, is_causal && is_plain])
    };
    call.set(1, k);
    call.set(2, v);
    let y = if dims.len() == 3 {
        view::reshape(call.rt, &view::transpose(call.rt, &y, 1, 2), &dims)
    } else {
        y
    };
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events};

    /// Few queries split the keys, and what each part gives is kept apart until it is summed; 64
    /// heads fill the device as they are.
    #[test]
    fn few_queries_split_the_keys() {
        for (operand, expected) in [
            ("float16[1,16,512,128]", Some("+c 131072 +d 16777216")),
            ("float16[1,64,512,128]", None),
            ("float16[1,8,128,64]", None),
            ("float16[1,8,1024,64]", Some("+c 131072 +d 8388608")),
            ("float16[1,4,2048,96]", Some("+c 98304 +d 9437184")),
            ("float16[3,5,333,160]", Some("+c 39960 +d 7672320")),
        ] {
            let text = events(&format!("torch.Attention {operand} {operand} {operand}"));
            let forward = text.lines().next().unwrap_or_default();
            match expected {
                Some(partial) => assert!(forward.contains(partial), "{operand}: {forward}"),
                None => assert!(!forward.contains("-c"), "{operand}: {forward}"),
            }
        }
    }

    /// Heads of ten elements: flash pads them, the memory-efficient kernel takes none but multiples
    /// of 16 bytes, and then everything is spelled out, as it is for five dimensions.
    #[test]
    fn operands_decide_the_kernel() {
        for (operand, kernel) in [
            ("float16[2,3,40,10]", "aten::_flash_attention_forward"),
            ("float32[2,3,40,12]", "aten::_efficient_attention_forward"),
            ("float32[2,3,40,10]", "aten::_softmax"),
            ("float32[2,2,3,40,12]", "aten::_softmax"),
            ("float16[2,2,3,40,16]", "aten::_softmax"),
            ("float16[2,3,40,264]", "aten::_efficient_attention_forward"),
        ] {
            let text = events(&format!("torch.Attention {operand} {operand} {operand}"));
            assert!(text.contains(kernel), "{operand}: {text}");
        }
        expect![[r"
            aten::mul: +a 3200 +b 3200
            aten::bmm: +c 12800 +d 8388608 -d
            aten::_softmax: +e 12800
            aten::_safe_softmax: +f 3200 +g 80 +h 4 -h -g -f -c
            aten::native_dropout: +i 3200 +j 12800
            aten::bmm: +k 3200 +l 8388608 -l
            drop: -k
            aten::ones_like: +m 4
            gradient: +n 3200
            aten::bmm: +o 3200 +p 8388608 -p +q 12800 +r 8388608 -r -n -j
            aten::native_dropout_backward: +s 12800 -q -i
            SafeSoftmaxBackward0: +t 12800 +u 12800 -t -s -e
            aten::bmm: +v 3200 +w 8388608 -w +x 3200 +y 8388608 -y -u -b -a
            MulBackward0: +z 3200 -v
            AccumulateGrad: +{ 3200 -z
            MulBackward0: +| 3200 -x
            AccumulateGrad: -m
        "]]
        .assert_eq(&events(
            "torch.Attention float32[1,2,40,10] float32[1,2,40,10] float32[1,2,40,10] drops=1",
        ));
    }

    #[test]
    fn shapes() {
        for (call, expected) in [
            (
                "Attention float32[2,8,10,64] float32[2,2,20,64] float32[2,2,20,32]",
                "float32[2,8,10,32] float32[2,2,20,64] float32[2,2,20,32] float32[2,8,10,20]",
            ),
            (
                "Attention float32[2,10,512] float32[2,20,128] float32[2,20,128] q_num_heads=8 kv_num_heads=2",
                "float32[2,10,512]",
            ),
            (
                "Attention float32[2,8,1,64] float32[2,8,1,64] float32[2,8,1,64] - float32[2,8,9,64] float32[2,8,9,64]",
                "float32[2,8,1,64] float32[2,8,10,64] float32[2,8,10,64]",
            ),
            (
                "Attention float32[2,10,512] float32[2,20,128] float32[2,20,128]",
                "error: `q_num_heads`",
            ),
            (
                "RotaryEmbedding float32[2,8,10,64] float32[10,32] float32[10,32]",
                "float32[2,8,10,64]",
            ),
        ] {
            check(call, expected);
        }
    }
}
