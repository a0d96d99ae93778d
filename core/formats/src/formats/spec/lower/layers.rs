//! Layers that are one module of PyTorch, or one call.

use super::{Args, Lowering, Size, Tensor};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

mod embeddings;
mod norms;
mod recurrent;
mod shapes;
mod windows;

pub(in super::super) use embeddings::{
    class_token, embedding, patch_embed, positional_embedding, type_embedding,
};
pub(in super::super) use norms::{batch_norm, group_norm, instance_norm, layer_norm, rms_norm};
pub(super) use norms::{composite_rms_norm, norm_of_rows};
pub(in super::super) use recurrent::recurrent;
pub(super) use shapes::permuted;
pub(in super::super) use shapes::{flatten, mean, permute, reshape, select, stand_in, transpose};
pub(in super::super) use windows::{
    adaptive_average_pool, conv, conv_transpose, global_pool, pixel_shuffle, pool, upsample,
    zero_pad,
};

/// Numbers as an attribute.
fn ints(list: impl IntoIterator<Item = u64>) -> Attribute {
    Attribute::Ints(list.into_iter().map(signed).collect())
}

pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn in_place(args: &Args<'_>) -> Option<(&'static str, Attribute)> {
    args.flag("inplace").then_some(("in_place", Attribute::Int(1)))
}

/// `torch.nn.functional.linear`.
pub(in super::super) fn linear(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let out = a.number("out_features").unwrap_or(1);
    match a.word("tie") {
        None => full(l, x, out, a.flag("bias")),
        Some(name) => {
            let Some(weight) = l.weight_of(&name) else {
                return Err(l.fault(say!("`tie: {name}` names no earlier layer with a weight; give the embedding that `name`", name)));
            };
            let width = l.need(x.width(), &say!("the number of features that come in"))?;
            if l.dims_of(weight) != [out, width] {
                return Err(l.fault(say!(
                    "the weight of `{name}` is {weight}, and [{out}, {width}] is needed here",
                    name,
                    weight = format!("{:?}", l.dims_of(weight)),
                    out,
                    width
                )));
            }
            let bias = if a.flag("bias") { Some(l.parameter("bias", &[out])?) } else { None };
            Ok(product(l, x, weight, bias, out))
        }
    }
}

/// A linear layer with a weight of its own, in the module that is being added.
pub(super) fn full(
    l: &mut Lowering<'_>,
    x: &Tensor,
    out: u64,
    bias: bool,
) -> Result<Tensor, Error> {
    let width = l.need(x.width(), &say!("the number of features that come in"))?;
    let weight = l.parameter("weight", &[out, width])?;
    let bias = if bias { Some(l.parameter("bias", &[out])?) } else { None };
    Ok(product(l, x, weight, bias, out))
}

fn product(
    l: &mut Lowering<'_>,
    x: &Tensor,
    weight: ValueId,
    bias: Option<ValueId>,
    out: u64,
) -> Tensor {
    let mut shape = x.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = Size::known(out);
    }
    let inputs: Vec<ValueId> = [x.id, weight].into_iter().chain(bias).collect();
    l.made("torch.Linear", &inputs, Some(("transposed", Attribute::Int(1))), shape)
}

/// What comes in, as `[N, C, …]` with so many further dimensions, and its channels.
fn channels(l: &mut Lowering<'_>, a: &Args<'_>, x: &Tensor, spatial: usize) -> Result<u64, Error> {
    if x.shape.len() != spatial.saturating_add(2) {
        let wanted = ["[N, C]", "[N, C, L]", "[N, C, H, W]", "[N, C, D, H, W]"];
        return Err(l.fault(say!(
            "`{kind}` reads {spatial}, and what comes in is {shown}",
            kind = a.kind(),
            spatial = wanted.get(spatial).unwrap_or(&"[N, C, …]"),
            shown = x.shown()
        )));
    }
    l.need(x.shape.get(1).copied(), &say!("the number of channels that come in"))
}

fn first(x: &Tensor) -> Size {
    x.shape.first().copied().unwrap_or(Size { number: None, open: true })
}

/// `NewGELUActivation` of transformers.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table may fail")]
pub(in super::super) fn gelu_new(
    l: &mut Lowering<'_>,
    _: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let numbers = [0.5, 3.0, 0.044_715, 0.797_884, 1.0].map(|n| l.builder.float(n));
    let [half, three, cubic, root, one] = numbers;
    let mut op = |op: &str, a: ValueId, b: ValueId| l.made(op, &[a, b], None, x.shape.clone()).id;
    let halved = op("Mul", x.id, half);
    let cube = op("Pow", x.id, three);
    let cube = op("Mul", cube, cubic);
    let sum = op("Add", x.id, cube);
    let argument = op("Mul", sum, root);
    let tanh = l.made("Tanh", &[argument], None, x.shape.clone()).id;
    let shifted = l.made("Add", &[tanh, one], None, x.shape.clone()).id;
    Ok(l.made("Mul", &[halved, shifted], None, x.shape.clone()))
}

/// `weight * x`, where the weight has the channels and ones behind.
pub(in super::super) fn layer_scale(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let channels =
        l.need(x.shape.get(axis).copied(), &say!("the number of channels that come in"))?;
    let behind = x.shape.len().saturating_sub(axis).saturating_sub(1);
    let dims: Vec<u64> = [channels].into_iter().chain(std::iter::repeat_n(1, behind)).collect();
    let weight = l.parameter("weight", &dims)?;
    Ok(l.made("Mul", &[weight, x.id], None, x.shape.clone()))
}

/// Operators of one tensor that keep its sizes.
pub(in super::super) fn activation(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
    op: &str,
) -> Result<Tensor, Error> {
    let mut attributes: Vec<_> = in_place(a).into_iter().collect();
    if a.kind().ends_with("softmax") {
        let axis = l.axis(x, a.index("dim"))?;
        attributes.push(("axis", Attribute::Int(i64::try_from(axis).unwrap_or(0))));
    }
    Ok(pointwise(l, x, op, attributes))
}

/// `Silu` is an operator of PyTorch's.
pub(super) fn pointwise(
    l: &mut Lowering<'_>,
    x: &Tensor,
    op: &str,
    attributes: Vec<(&'static str, Attribute)>,
) -> Tensor {
    let op = if op == "Silu" { "torch.Silu" } else { op };
    l.made(op, &[x.id], attributes, x.shape.clone())
}

pub(in super::super) fn prelu(
    l: &mut Lowering<'_>,
    _: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let slope = l.parameter("weight", &[1])?;
    Ok(l.made("PRelu", &[x.id, slope], None, x.shape.clone()))
}

#[expect(clippy::unnecessary_wraps, reason = "a row of the table may fail")]
pub(in super::super) fn dropout(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let attributes = in_place(a).into_iter().collect();
    Ok(drop_out(l, x, a.share("p"), attributes))
}

pub(super) fn drop_out(
    l: &mut Lowering<'_>,
    x: &Tensor,
    p: f64,
    mut attributes: Vec<(&'static str, Attribute)>,
) -> Tensor {
    attributes.push(("ratio", Attribute::Float(p)));
    l.made("Dropout", &[x.id], attributes, x.shape.clone())
}

/// timm's `DropPath`: nothing happens at a probability of 0.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table may fail")]
pub(in super::super) fn drop_path(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    Ok(drop_sample(l, x.clone(), a.share("p")))
}

pub(super) fn drop_sample(l: &mut Lowering<'_>, x: Tensor, p: f64) -> Tensor {
    if p > 0.0 { l.made("torch.StochasticDepth", &[x.id], None, x.shape) } else { x }
}

/// Length and width of a sequence `[N, L, C]`.
pub(super) fn sequence(l: &Lowering<'_>, a: &Args<'_>, x: &Tensor) -> Result<[Size; 2], Error> {
    match x.shape.as_slice() {
        &[_, length, width] => Ok([length, width]),
        _ => Err(l.fault(say!(
            "`{kind}` reads a sequence [N, L, C], and what comes in is {shown}",
            kind = a.kind(),
            shown = x.shown()
        ))),
    }
}
