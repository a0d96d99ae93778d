//! Collectives around the layers that tensor parallelism divides; `parts` is how many ranks there are.

use super::{Call, Inference, OpError, Operator, Shaped, torch};
use crate::aten::tensor_parallel as aten;
use crate::tensor::Dims;

pub(super) const TABLE: &[Operator] = &[
    Shaped { infer: like_first, ..torch("AllReduce", 1..=1) }.runs(all_reduce_rule),
    Shaped { infer: gathered, ..torch("GatherParts", 1..=1) }.runs(gather_rule),
    Shaped { infer: like_first, ..torch("Replicated", 1..=1) }.runs(replicated_rule),
    Shaped { infer: split, ..torch("SplitParts", 1..=1) }.runs(split_rule),
];

fn like_first(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let ty = inference.input(0)?.clone();
    inference.set(0, ty);
    Ok(())
}

fn gathered(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let parts = parts(inference.node.int("parts"));
    with_last(inference, |last| Some(last.saturating_mul(parts)))
}

fn split(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let parts = parts(inference.node.int("parts"));
    with_last(inference, |last| last.is_multiple_of(parts).then(|| last.div_euclid(parts)))
}

fn with_last(
    inference: &mut Inference<'_>,
    scaled: impl Fn(u64) -> Option<u64>,
) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let mut dims: Dims = x.dims.clone();
    let last = dims.last_mut().ok_or_else(|| OpError::new(say!("a scalar has no parts")))?;
    let uneven = || OpError::new(say!("{size} features have no equal parts", size = *last));
    *last = scaled(*last).ok_or_else(uneven)?;
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// COUNT: parts.
pub(super) fn parts(stated: Option<i64>) -> u64 {
    stated.and_then(|parts| u64::try_from(parts).ok()).unwrap_or(1).max(1)
}

fn all_reduce_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::all_reduce(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}

fn gather_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::gather(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}

fn replicated_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::replicated(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}

fn split_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let y = aten::split(call.rt, &call.need(0)?, parts(call.node.int("parts")));
    call.set(0, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::ops::check::{check, events};

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("torch.AllReduce float32[2,4]", "float32[2,4]"),
            ("torch.GatherParts float32[2,4] parts=2", "float32[2,8]"),
            ("torch.Replicated float32[2,4]", "float32[2,4]"),
            ("torch.SplitParts float32[2,4] parts=2", "float32[2,2]"),
            ("torch.SplitParts float32[2,5] parts=2", "error: 5 features have no equal parts"),
        ] {
            check(call, expected);
        }
    }

    #[test]
    fn an_all_reduce_is_a_copy_and_gives_its_gradient_on() {
        expect![[r"
            _c10d_functional::all_reduce: +a 32
            drop: -a
            aten::ones_like: +b 4
            gradient: +c 32
            AccumulateGrad: -b
        "]]
        .assert_eq(&events("torch.AllReduce float32[2,4]"));
    }

    #[test]
    fn what_all_have_reduces_its_gradient() {
        expect![[r"
            aten::ones_like: +a 4
            gradient: +b 32
            _c10d_functional::all_reduce: +c 32 -b
            AccumulateGrad: -a
        "]]
        .assert_eq(&events("torch.Replicated float32[2,4]"));
    }

    #[test]
    fn gathered_parts_take_a_buffer() {
        expect![[r"
            _c10d_functional::all_gather_into_tensor: +a 64
            aten::cat: +b 64 -a
            drop: -b
            aten::ones_like: +c 4
            gradient: +d 64
            aten::clone: +e 32 -d
            AccumulateGrad: -c
        "]]
        .assert_eq(&events("torch.GatherParts float32[2,4] parts=2"));
    }

    #[test]
    fn a_part_is_a_copy_and_its_gradient_is_gathered() {
        expect![[r"
            aten::clone: +a 16
            drop: -a
            aten::ones_like: +b 4
            gradient: +c 16
            _c10d_functional::all_gather_into_tensor: +d 32
            aten::cat: +e 32 -d -c
            AccumulateGrad: -b
        "]]
        .assert_eq(&events("torch.SplitParts float32[2,4] parts=2"));
    }

    #[test]
    fn a_divided_table_has_the_gradient_of_the_whole() {
        expect![[r"
            aten::lt: +a 2
            aten::ge: +b 2
            aten::bitwise_or: +c 2 -a -b
            aten::clone: +d 16
            aten::sub: +e 16 -d
            aten::embedding: +f 32 -e -c
            _c10d_functional::all_reduce: +g 32 -f
            drop: -g
            aten::ones_like: +h 4
            gradient: +i 32
            aten::embedding_dense_backward: +j 256 -i
            AccumulateGrad: -h
        "]]
        .assert_eq(&events("Gather float32[8,4] int64[2] axis=0 parts=2"));
    }
}
