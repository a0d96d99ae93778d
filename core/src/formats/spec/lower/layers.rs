//! Layers that are one module of PyTorch, or one call.

use super::{Args, Lowering, Size, Tensor};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

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
                return Err(l.fault(format!(
                    "`tie: {name}` names no earlier layer with a weight; give the embedding that `name`"
                )));
            };
            let width = l.need(x.width(), "the number of features that come in")?;
            if l.dims_of(weight) != [out, width] {
                return Err(l.fault(format!(
                    "the weight of `{name}` is {:?}, and [{out}, {width}] is needed here",
                    l.dims_of(weight)
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
    let width = l.need(x.width(), "the number of features that come in")?;
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
        return Err(l.fault(format!(
            "`{}` reads {}, and what comes in is {}",
            a.kind(),
            wanted.get(spatial).unwrap_or(&"[N, C, …]"),
            x.shown()
        )));
    }
    l.need(x.shape.get(1).copied(), "the number of channels that come in")
}

/// One number for each spatial dimension.
fn window(l: &Lowering<'_>, a: &Args<'_>, name: &str, n: usize) -> Result<Vec<u64>, Error> {
    a.numbers(name, n)
        .ok_or_else(|| l.fault(format!("`{name}` of `{}` is one number or {n}", a.kind())))
}

/// Kernel, strides, padding and dilations of a window.
struct Window {
    kernel: Vec<u64>,
    stride: Vec<u64>,
    padding: Vec<u64>,
    dilation: Vec<u64>,
    ceil: bool,
}

impl Window {
    fn of(l: &Lowering<'_>, a: &Args<'_>, n: usize) -> Result<Self, Error> {
        let kernel = window(l, a, "kernel_size", n)?;
        let dilation = a.numbers("dilation", n).unwrap_or_else(|| vec![1; n]);
        let stride = match a.numbers("stride", n) {
            Some(stride) => stride,
            None => kernel.clone(),
        };
        if kernel.iter().chain(&stride).chain(&dilation).any(|&size| size == 0) {
            return Err(l.fault("kernel, stride and dilation are numbers from 1"));
        }
        let padding = if a.word("padding").is_some() {
            // `padding="same"`.
            let reach = |(k, d): (&u64, &u64)| k.saturating_sub(1).saturating_mul(*d);
            let reach: Vec<u64> = kernel.iter().zip(&dilation).map(reach).collect();
            if reach.iter().any(|n| !n.is_multiple_of(2)) || stride.iter().any(|&s| s != 1) {
                return Err(l.fault("`padding: same` is for odd windows and steps of 1"));
            }
            reach.iter().map(|n| n.div_euclid(2)).collect()
        } else {
            window(l, a, "padding", n)?
        };
        Ok(Self { kernel, stride, padding, dilation, ceil: a.flag("ceil_mode") })
    }

    fn attributes(&self) -> Vec<(&'static str, Attribute)> {
        let pads = self.padding.iter().chain(&self.padding).copied();
        vec![
            ("kernel_shape", ints(self.kernel.iter().copied())),
            ("strides", ints(self.stride.iter().copied())),
            ("pads", ints(pads)),
            ("dilations", ints(self.dilation.iter().copied())),
            ("ceil_mode", Attribute::Int(i64::from(self.ceil))),
        ]
    }

    /// `Convolution output size`, `pooling_output_shape` (`ATen/native/Pool.h`).
    fn slide(&self, l: &Lowering<'_>, x: &Tensor) -> Result<Vec<Size>, Error> {
        let sides =
            self.kernel.iter().zip(&self.stride).zip(self.padding.iter().zip(&self.dilation));
        let mut shape = Vec::new();
        for (size, ((&kernel, &stride), (&padding, &dilation))) in x.shape.iter().skip(2).zip(sides)
        {
            let reach = kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
            let padded = size.map(|n| n.checked_add(padding.saturating_mul(2)));
            if padded.number.is_some_and(|n| n < reach) {
                return Err(l.fault(format!("a window of {reach} does not fit into {}", x.shown())));
            }
            shape.push(padded.map(|n| {
                let room = n.checked_sub(reach)?;
                let steps = if self.ceil { room.div_ceil(stride) } else { room.div_euclid(stride) };
                // A last window must begin inside the input or its padding in front.
                let begins = steps.saturating_mul(stride);
                let outside = self.ceil && begins >= n.saturating_sub(padding);
                Some(if outside { steps } else { steps.saturating_add(1) })
            }));
        }
        Ok(shape)
    }
}

pub(in super::super) fn conv(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
    n: usize,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, n)?;
    let window = Window::of(l, a, n)?;
    let (out, groups) = (a.number("out_channels").unwrap_or(1), a.number("groups").unwrap_or(1));
    let per_group = grouped(l, channels, out, groups)?;
    let mut shape = vec![first(x), Size::known(out)];
    shape.extend(window.slide(l, x)?);
    let dims: Vec<u64> =
        [out, per_group].into_iter().chain(window.kernel.iter().copied()).collect();
    convolution(l, a, "Conv", x, &dims, out, window.attributes(), shape)
}

pub(in super::super) fn conv_transpose(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
    n: usize,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, n)?;
    let w = Window::of(l, a, n)?;
    let extra = window(l, a, "output_padding", n)?;
    let (out, groups) = (a.number("out_channels").unwrap_or(1), a.number("groups").unwrap_or(1));
    grouped(l, channels, out, groups)?;
    let mut shape = vec![first(x), Size::known(out)];
    for (axis, size) in x.shape.iter().skip(2).enumerate() {
        let at = |list: &[u64]| list.get(axis).copied().unwrap_or(0);
        let grown = size.map(|n| {
            let reach = at(&w.dilation).saturating_mul(at(&w.kernel).saturating_sub(1));
            let full = n.checked_sub(1)?.checked_mul(at(&w.stride))?;
            let full = full.checked_add(reach)?.checked_add(at(&extra))?.checked_add(1)?;
            full.checked_sub(at(&w.padding).saturating_mul(2)).filter(|&n| n > 0)
        });
        if size.number.is_some() && grown.number.is_none() {
            return Err(l.fault(format!("the padding leaves nothing of {}", x.shown())));
        }
        shape.push(grown);
    }
    let dims: Vec<u64> = [channels, out.div_euclid(groups.max(1))]
        .into_iter()
        .chain(w.kernel.iter().copied())
        .collect();
    let mut attributes = w.attributes();
    attributes.push(("output_padding", ints(extra)));
    convolution(l, a, "ConvTranspose", x, &dims, out, attributes, shape)
}

#[expect(clippy::too_many_arguments, reason = "what two kinds of convolution share")]
fn convolution(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    op: &str,
    x: &Tensor,
    dims: &[u64],
    out: u64,
    attributes: Vec<(&'static str, Attribute)>,
    shape: Vec<Size>,
) -> Result<Tensor, Error> {
    let weight = l.parameter("weight", dims)?;
    let bias = if a.flag("bias") { Some(l.parameter("bias", &[out])?) } else { None };
    let group = ("group", Attribute::Int(signed(a.number("groups").unwrap_or(1))));
    let inputs: Vec<ValueId> = [x.id, weight].into_iter().chain(bias).collect();
    Ok(l.made(op, &inputs, attributes.into_iter().chain([group]), shape))
}

/// Channels of each group that come in.
fn grouped(l: &Lowering<'_>, channels: u64, out: u64, groups: u64) -> Result<u64, Error> {
    let divides = |n: u64| groups > 0 && n.is_multiple_of(groups);
    if divides(channels) && divides(out) {
        return Ok(channels.div_euclid(groups));
    }
    Err(l.fault(format!("{groups} groups do not divide {channels} channels into {out}")))
}

fn first(x: &Tensor) -> Size {
    x.shape.first().copied().unwrap_or(Size { number: None, open: true })
}

pub(in super::super) fn batch_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let spatial: &[usize] = match a.kind() {
        "batchnorm1d" => &[0, 1],
        "batchnorm3d" => &[3],
        _ => &[2],
    };
    let rank = x.shape.len().saturating_sub(2);
    let nearest = spatial.iter().copied().find(|&n| n == rank).or_else(|| spatial.first().copied());
    let channels = channels(l, a, x, nearest.unwrap_or(2))?;
    let state = [
        l.parameter("weight", &[channels])?,
        l.parameter("bias", &[channels])?,
        l.buffer("running_mean", &[channels])?,
        l.buffer("running_var", &[channels])?,
    ];
    let inputs: Vec<ValueId> = [x.id].into_iter().chain(state).collect();
    let training = Some(("training_mode", Attribute::Int(1)));
    Ok(l.made("BatchNormalization", &inputs, training, x.shape.clone()))
}

pub(in super::super) fn layer_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    norm_of_rows(l, x, "LayerNormalization", a.flag("bias"))
}

pub(in super::super) fn rms_norm(
    l: &mut Lowering<'_>,
    _: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    norm_of_rows(l, x, "RMSNormalization", false)
}

/// A norm over the last dimension, in the module that is being added.
pub(super) fn norm_of_rows(
    l: &mut Lowering<'_>,
    x: &Tensor,
    op: &str,
    bias: bool,
) -> Result<Tensor, Error> {
    let width = l.need(x.width(), "the width of what comes in")?;
    let mut inputs = vec![x.id, l.parameter("weight", &[width])?];
    if bias {
        inputs.push(l.parameter("bias", &[width])?);
    }
    Ok(l.made(op, &inputs, Some(("axis", Attribute::Int(-1))), x.shape.clone()))
}

pub(in super::super) fn group_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = l.need(x.shape.get(1).copied(), "the number of channels that come in")?;
    let groups = a.number("num_groups").unwrap_or(1);
    grouped(l, channels, groups, groups)?;
    let inputs = [x.id, l.parameter("weight", &[channels])?, l.parameter("bias", &[channels])?];
    let groups = Some(("num_groups", Attribute::Int(signed(groups))));
    Ok(l.made("GroupNormalization", &inputs, groups, x.shape.clone()))
}

pub(in super::super) fn instance_norm(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let spatial = match a.kind() {
        "instancenorm1d" => 1,
        "instancenorm3d" => 3,
        _ => 2,
    };
    let channels = channels(l, a, x, spatial)?;
    let mut inputs = vec![x.id];
    if a.flag("affine") {
        inputs.push(l.parameter("weight", &[channels])?);
        inputs.push(l.parameter("bias", &[channels])?);
    }
    Ok(l.made("InstanceNormalization", &inputs, None, x.shape.clone()))
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

pub(in super::super) fn pool(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
    (n, op): (usize, &str),
) -> Result<Tensor, Error> {
    if x.shape.len() != n.saturating_add(2) {
        channels(l, a, x, n)?;
    }
    let window = Window::of(l, a, n)?;
    let too_wide = |(k, p): (&u64, &u64)| p.saturating_mul(2) > *k;
    if window.kernel.iter().zip(&window.padding).any(too_wide) {
        return Err(l.fault("the padding of a pool is at most half of its window"));
    }
    let mut shape: Vec<Size> = x.shape.iter().take(2).copied().collect();
    shape.extend(window.slide(l, x)?);
    Ok(l.made(op, &[x.id], window.attributes(), shape))
}

/// As exporters write it, where windows are alike.
pub(in super::super) fn adaptive_average_pool(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    if x.shape.len() != 4 {
        channels(l, a, x, 2)?;
    }
    let wanted = window(l, a, "output_size", 2)?;
    if wanted.iter().all(|&n| n == 1) {
        return global_pool(l, x, "GlobalAveragePool");
    }
    let mut kernel = Vec::new();
    for (axis, &n) in wanted.iter().enumerate() {
        let size = x.shape.get(axis.saturating_add(2)).copied();
        let size = l.need(size, "the size of the picture")?;
        if n == 0 || !size.is_multiple_of(n) {
            let message = format!("{size} positions do not divide into {n} equal windows");
            return Err(l.fault(message));
        }
        kernel.push(size.div_euclid(n));
    }
    let mut shape: Vec<Size> = x.shape.iter().take(2).copied().collect();
    shape.extend(wanted.iter().map(|&n| Size::known(n)));
    let attributes = [("kernel_shape", ints(kernel.clone())), ("strides", ints(kernel))];
    Ok(l.made("AveragePool", &[x.id], attributes, shape))
}

pub(in super::super) fn global_pool(
    l: &mut Lowering<'_>,
    x: &Tensor,
    op: &str,
) -> Result<Tensor, Error> {
    if x.shape.len() < 3 {
        return Err(l.fault(format!("{} has no positions to pool over", x.shown())));
    }
    let shape = x.shape.iter().enumerate();
    let shape = shape.map(|(axis, size)| if axis < 2 { *size } else { Size::known(1) }).collect();
    Ok(l.made(op, &[x.id], None, shape))
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

pub(in super::super) fn embedding(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    l.read_as_indices(x)?;
    let rows = a.number("num_embeddings").unwrap_or(1);
    let width = a.number("embedding_dim").unwrap_or(1);
    let table = l.parameter("weight", &[rows, width])?;
    let mut shape = x.shape.clone();
    shape.push(Size::known(width));
    Ok(l.made("Gather", &[table, x.id], Some(("axis", Attribute::Int(0))), shape))
}

/// Length and width of a sequence `[N, L, C]`.
pub(super) fn sequence(l: &Lowering<'_>, a: &Args<'_>, x: &Tensor) -> Result<[Size; 2], Error> {
    match x.shape.as_slice() {
        &[_, length, width] => Ok([length, width]),
        _ => Err(l.fault(format!(
            "`{}` reads a sequence [N, L, C], and what comes in is {}",
            a.kind(),
            x.shown()
        ))),
    }
}

pub(in super::super) fn positional_embedding(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let [length, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), "the width of what comes in")?;
    let rows = match a.number("length") {
        Some(rows) => rows,
        None => l.need(Some(length), "the length of what comes in")?,
    };
    if length.number.is_some_and(|n| n > rows) {
        return Err(l.fault(format!("{rows} positions are too few for {}", x.shown())));
    }
    let shape = vec![length, Size::known(width)];
    let is_whole = !length.open && length.number == Some(rows);
    let vectors = if a.flag("lookup") {
        let positions = positions(l, x, length);
        l.within("table", |l| {
            let table = l.parameter("weight", &[rows, width])?;
            Ok(l.made("Gather", &[table, positions], Some(("axis", Attribute::Int(0))), shape))
        })?
    } else {
        let weight = l.parameter("weight", &[1, rows, width])?;
        let shape = vec![Size::known(1), length, Size::known(width)];
        if is_whole || length.number == Some(rows) && a.number("length").is_none() {
            Tensor { id: weight, shape }
        } else {
            let (start, axis) = (l.host(&[0]), l.host(&[1]));
            let end = extent(l, x, 1);
            l.made("Slice", &[weight, start, end, axis], None, shape)
        }
    };
    Ok(l.made("Add", &[x.id, vectors.id], None, x.shape.clone()))
}

/// `torch.arange(x.size(1))`.
fn positions(l: &mut Lowering<'_>, x: &Tensor, length: Size) -> ValueId {
    let (start, step) = (l.host_scalar(0), l.host_scalar(1));
    let end = match length {
        Size { number: Some(n), open: false } => l.host_scalar(signed(n)),
        _ => extent(l, x, 1),
    };
    l.made("Range", &[start, end, step], None, vec![length]).id
}

/// `x.shape[axis:axis + 1]`, which Python knows.
fn extent(l: &mut Lowering<'_>, x: &Tensor, axis: i64) -> ValueId {
    let bounds = [("start", axis), ("end", axis.saturating_add(1))];
    let bounds = bounds.map(|(name, n)| (name, Attribute::Int(n)));
    l.made("Shape", &[x.id], bounds, vec![Size::known(1)]).id
}

/// `torch.cat([token.expand(N, -1, -1), x], dim=1)`.
pub(in super::super) fn class_token(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let [_, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), "the width of what comes in")?;
    let token = l.parameter("weight", &[1, 1, width])?;
    let (batch, rest) = (extent(l, x, 0), l.host(&[1, signed(width)]));
    let axis = Some(("axis", Attribute::Int(0)));
    let target = l.made("Concat", &[batch, rest], axis, vec![Size::known(3)]).id;
    let shape = vec![first(x), Size::known(1), Size::known(width)];
    let token = l.made("Expand", &[token, target], None, shape);
    l.concat(&[token, x.clone()], 1)
}

pub(in super::super) fn patch_embed(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, 2)?;
    let (out, patch) = (a.number("embed_dim").unwrap_or(1), window(l, a, "patch_size", 2)?);
    if patch.contains(&0) {
        return Err(l.fault("`patch_size` is a number from 1"));
    }
    let sides = x.shape.iter().skip(2).zip(&patch);
    let sides: Vec<Size> =
        sides.map(|(size, &side)| size.map(|n| n.checked_div_euclid(side))).collect();
    if sides.iter().any(|size| size.number == Some(0)) {
        return Err(l.fault(format!("a patch of {patch:?} does not fit into {}", x.shown())));
    }
    let picture = l.within("proj", |l| {
        let dims: Vec<u64> = [out, channels].into_iter().chain(patch.iter().copied()).collect();
        let inputs = [x.id, l.parameter("weight", &dims)?, l.parameter("bias", &[out])?];
        let attributes = [("kernel_shape", ints(patch.clone())), ("strides", ints(patch.clone()))];
        let shape = [first(x), Size::known(out)].into_iter().chain(sides.clone()).collect();
        Ok(l.made("Conv", &inputs, attributes, shape))
    })?;
    let rows = flat(l, &picture, 2, 3)?;
    Ok(permuted(l, &rows, &[0, 2, 1]))
}

pub(in super::super) fn flatten(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let (start, end) = (l.axis(x, a.index("start_dim"))?, l.axis(x, a.index("end_dim"))?);
    if start > end {
        return Err(l.fault(format!("`flatten` from dimension {start} to {end} is backwards")));
    }
    flat(l, x, start, end)
}

fn flat(l: &mut Lowering<'_>, x: &Tensor, start: usize, end: usize) -> Result<Tensor, Error> {
    let (mut shape, mut target) = (Vec::new(), Vec::new());
    let mut whole: Option<Size> = None;
    for (axis, &size) in x.shape.iter().enumerate() {
        if (start..=end).contains(&axis) {
            whole = Some(whole.map_or(size, |before| before.with(size, u64::checked_mul)));
        }
        if axis == end {
            shape.extend(whole);
            target.push(-1);
        } else if axis < start {
            shape.push(size);
            target.push(0);
        } else if axis > end {
            shape.push(size);
            target.push(signed(l.need(Some(size), "the size of a dimension behind")?));
        }
    }
    let target = l.host(&target);
    Ok(l.made("Reshape", &[x.id, target], None, shape))
}

pub(in super::super) fn reshape(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let target = a.ints("shape");
    let open = target.iter().filter(|&&n| n == -1).count();
    if open > 1 || target.iter().any(|&n| n < -1) {
        return Err(l.fault("`reshape` may leave one size to find, as -1; 0 keeps a size"));
    }
    let mut shape = Vec::new();
    for (axis, &n) in target.iter().enumerate() {
        shape.push(match n {
            0 => match x.shape.get(axis) {
                Some(size) => *size,
                None => {
                    return Err(l.fault(format!("{} has no dimension {axis} to keep", x.shown())));
                }
            },
            -1 => Size::known(1),
            n => Size::known(u64::try_from(n).unwrap_or(1)),
        });
    }
    let product = |sizes: &[Size]| {
        sizes.iter().fold(Size::known(1), |all, &size| all.with(size, u64::checked_mul))
    };
    // A kept batch stands on both sides, known or not.
    let kept = |axis: usize| target.get(axis) == Some(&0);
    let rest = |sizes: &[Size]| {
        let left = sizes.iter().enumerate().filter(|(axis, _)| !kept(*axis));
        product(&left.map(|(_, &size)| size).collect::<Vec<_>>())
    };
    let (have, want) = (rest(&x.shape), rest(&shape));
    let missing = have.with(want, |have, want| {
        have.checked_div_euclid(want).filter(|n| n.checked_mul(want) == Some(have))
    });
    let fits = match (have.number, want.number) {
        (Some(have), Some(want)) if open == 0 => have == want,
        (Some(_), Some(_)) => missing.number.is_some(),
        _ => true,
    };
    if !fits {
        return Err(l.fault(format!("{} does not fill {target:?}", x.shown())));
    }
    if let Some(axis) = target.iter().position(|&n| n == -1)
        && let Some(size) = shape.get_mut(axis)
    {
        *size = missing;
    }
    let target = l.host(&target);
    Ok(l.made("Reshape", &[x.id, target], None, shape))
}

pub(in super::super) fn permute(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let mut order = Vec::new();
    for dim in a.ints("dims") {
        let axis = l.axis(x, dim)?;
        if order.contains(&axis) {
            return Err(l.fault(format!("`permute` names dimension {axis} twice")));
        }
        order.push(axis);
    }
    if order.len() != x.shape.len() {
        return Err(l.fault(format!(
            "`permute` names {} dimensions of {}",
            order.len(),
            x.shown()
        )));
    }
    Ok(permuted(l, x, &order))
}

pub(super) fn permuted(l: &mut Lowering<'_>, x: &Tensor, order: &[usize]) -> Tensor {
    let shape = order.iter().filter_map(|&axis| x.shape.get(axis).copied()).collect();
    let order = order.iter().map(|&axis| i64::try_from(axis).unwrap_or(0)).collect();
    l.made("Transpose", &[x.id], Some(("perm", Attribute::Ints(order))), shape)
}

pub(in super::super) fn transpose(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let (one, other) = (l.axis(x, a.index("dim0"))?, l.axis(x, a.index("dim1"))?);
    let mut order: Vec<usize> = (0..x.shape.len()).collect();
    if one != other {
        order.swap(one, other);
    }
    Ok(permuted(l, x, &order))
}

pub(in super::super) fn select(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let index = l.host_scalar(a.index("index"));
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let axis = Some(("axis", Attribute::Int(i64::try_from(axis).unwrap_or(0))));
    Ok(l.made("Gather", &[x.id, index], axis, shape))
}

pub(in super::super) fn mean(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let axis = l.axis(x, a.index("dim"))?;
    let keep = a.flag("keepdim");
    let mut shape = x.shape.clone();
    match shape.get_mut(axis) {
        Some(size) if keep => *size = Size::known(1),
        _ => {
            shape.remove(axis);
        }
    }
    let axes = l.host(&[i64::try_from(axis).unwrap_or(0)]);
    let keep = Some(("keepdims", Attribute::Int(i64::from(keep))));
    Ok(l.made("ReduceMean", &[x.id, axes], keep, shape))
}

pub(in super::super) fn upsample(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    channels(l, a, x, 2)?;
    let factor = a.number("scale_factor").unwrap_or(1);
    let Ok(scale) = u32::try_from(factor).map(f64::from) else {
        return Err(l.fault("the picture would be too large"));
    };
    let shape: Vec<Size> = x
        .shape
        .iter()
        .enumerate()
        .map(|(axis, size)| if axis < 2 { *size } else { size.map(|n| n.checked_mul(factor)) })
        .collect();
    let mode = if a.word("mode").as_deref() == Some("bilinear") { "linear" } else { "nearest" };
    let scales = l.host_floats(vec![1.0, 1.0, scale, scale]);
    let mode = Some(("mode", Attribute::String(mode.to_owned())));
    let [id] = l.run("Resize", vec![Some(x.id), None, Some(scales)], mode);
    Ok(Tensor { id, shape })
}

pub(in super::super) fn pixel_shuffle(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, 2)?;
    let factor = a.number("upscale_factor").unwrap_or(1);
    let square = factor.saturating_mul(factor);
    if !channels.is_multiple_of(square) {
        return Err(l.fault(format!("{square} does not divide {channels} channels")));
    }
    let shape = x.shape.iter().enumerate().map(|(axis, size)| match axis {
        0 => *size,
        1 => Size::known(channels.div_euclid(square)),
        _ => size.map(|n| n.checked_mul(factor)),
    });
    let shape = shape.collect();
    let block = Some(("blocksize", Attribute::Int(signed(factor))));
    Ok(l.made("DepthToSpace", &[x.id], block, shape))
}
