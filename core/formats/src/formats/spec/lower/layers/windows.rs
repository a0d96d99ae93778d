//! Layers with windows: convolutions, pooling, and the resizing of images and signals.

use super::super::{Args, Lowering, Size, Tensor};
use super::{channels, first, ints, signed};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

/// One number for each spatial dimension.
pub(super) fn window(
    l: &Lowering<'_>,
    a: &Args<'_>,
    name: &str,
    n: usize,
) -> Result<Vec<u64>, Error> {
    a.numbers(name, n).ok_or_else(|| {
        l.fault(say!("`{name}` of `{kind}` is one number or {n}", name, kind = a.kind(), n))
    })
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
            return Err(l.fault(say!("kernel, stride and dilation are numbers from 1")));
        }
        let padding = if a.word("padding").is_some() {
            // `padding="same"`.
            let reach = |(k, d): (&u64, &u64)| k.saturating_sub(1).saturating_mul(*d);
            let reach: Vec<u64> = kernel.iter().zip(&dilation).map(reach).collect();
            if reach.iter().any(|n| !n.is_multiple_of(2)) || stride.iter().any(|&s| s != 1) {
                return Err(l.fault(say!("`padding: same` is for odd windows and steps of 1")));
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
                return Err(l.fault(say!(
                    "a window of {reach} does not fit into {shown}",
                    reach,
                    shown = x.shown()
                )));
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

pub(in super::super::super) fn conv(
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

pub(in super::super::super) fn conv_transpose(
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
            return Err(l.fault(say!("the padding leaves nothing of {shown}", shown = x.shown())));
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
pub(super) fn grouped(
    l: &Lowering<'_>,
    channels: u64,
    out: u64,
    groups: u64,
) -> Result<u64, Error> {
    let divides = |n: u64| groups > 0 && n.is_multiple_of(groups);
    if divides(channels) && divides(out) {
        return Ok(channels.div_euclid(groups));
    }
    Err(l.fault(say!(
        "{groups} groups do not divide {channels} channels into {out}",
        groups,
        channels,
        out
    )))
}

pub(in super::super::super) fn pool(
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
        return Err(l.fault(say!("the padding of a pool is at most half of its window")));
    }
    let mut shape: Vec<Size> = x.shape.iter().take(2).copied().collect();
    shape.extend(window.slide(l, x)?);
    Ok(l.made(op, &[x.id], window.attributes(), shape))
}

/// `torch.nn.functional.pad`.
pub(in super::super::super) fn zero_pad(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let spatial = x.shape.len().saturating_sub(2);
    if spatial == 0 {
        return Err(l.fault(say!("{shown} has no sides to put zeros at", shown = x.shown())));
    }
    let both = spatial.saturating_mul(2);
    let pads = match a.numbers("padding", spatial) {
        Some(sides) => sides.iter().chain(&sides).copied().collect(),
        None => window(l, a, "padding", both)?,
    };
    let (front, behind) = pads.split_at_checked(spatial).unwrap_or_default();
    let mut shape = x.shape.clone();
    let sides = front.iter().zip(behind);
    for (size, (&one, &other)) in shape.iter_mut().skip(2).zip(sides) {
        *size = size.map(|n| n.checked_add(one)?.checked_add(other));
    }
    let list = |part: &[u64]| [0, 0].into_iter().chain(part.iter().map(|&n| signed(n))).collect();
    let list: Vec<i64> =
        [front, behind].map(list).into_iter().flat_map(|part: Vec<i64>| part).collect();
    let list = l.builder.ints(&list);
    Ok(l.made("Pad", &[x.id, list], None, shape))
}

/// As exporters write it, where windows are alike.
pub(in super::super::super) fn adaptive_average_pool(
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
        let size = l.need(size, &say!("the size of the picture"))?;
        if n == 0 || !size.is_multiple_of(n) {
            let message = say!("{size} positions do not divide into {n} equal windows", size, n);
            return Err(l.fault(message));
        }
        kernel.push(size.div_euclid(n));
    }
    let mut shape: Vec<Size> = x.shape.iter().take(2).copied().collect();
    shape.extend(wanted.iter().map(|&n| Size::known(n)));
    let attributes = [("kernel_shape", ints(kernel.clone())), ("strides", ints(kernel))];
    Ok(l.made("AveragePool", &[x.id], attributes, shape))
}

pub(in super::super::super) fn global_pool(
    l: &mut Lowering<'_>,
    x: &Tensor,
    op: &str,
) -> Result<Tensor, Error> {
    if x.shape.len() < 3 {
        return Err(l.fault(say!("{shown} has no positions to pool over", shown = x.shown())));
    }
    let shape = x.shape.iter().enumerate();
    let shape = shape.map(|(axis, size)| if axis < 2 { *size } else { Size::known(1) }).collect();
    Ok(l.made(op, &[x.id], None, shape))
}

pub(in super::super::super) fn upsample(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    channels(l, a, x, 2)?;
    let factor = a.number("scale_factor").unwrap_or(1);
    let Ok(scale) = u32::try_from(factor).map(f64::from) else {
        return Err(l.fault(say!("the picture would be too large")));
    };
    let shape: Vec<Size> = x
        .shape
        .iter()
        .enumerate()
        .map(|(axis, size)| if axis < 2 { *size } else { size.map(|n| n.checked_mul(factor)) })
        .collect();
    let mode = if a.word("mode").as_deref() == Some("bilinear") { "linear" } else { "nearest" };
    let scales = l.builder.floats(vec![1.0, 1.0, scale, scale]);
    let mode = Some(("mode", Attribute::String(mode.to_owned())));
    let [id] = l.run("Resize", vec![Some(x.id), None, Some(scales)], mode);
    Ok(Tensor { id, shape })
}

pub(in super::super::super) fn pixel_shuffle(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let channels = channels(l, a, x, 2)?;
    let factor = a.number("upscale_factor").unwrap_or(1);
    let square = factor.saturating_mul(factor);
    if !channels.is_multiple_of(square) {
        return Err(l.fault(say!(
            "{square} does not divide {channels} channels",
            square,
            channels
        )));
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
