//! Bytes of scratch that cuDNN asks for, per call, with `cudnn.benchmark` off.
//!
//! The kernels for tensor cores want channels innermost, in whole 16-byte groups, and operands
//! rounded to TF32; PyTorch gives contiguous NCHW tensors. cuDNN makes copies in its workspace:
//!
//! - `x`, `y`, `w`: a copy of the input, the output, the weight. Both operands are copied; the
//!   call's result, or an operand in half precision, only where its order or its channels do not
//!   suit;
//! - `+n`: n partial results of the call's own result, where the sum over the inner dimension is
//!   split so that all multiprocessors have work;
//! - `winograd`: transformed 3x3 weights, 25 numbers for each 9;
//! - a kernel that reads NCHW itself takes none of these.
//!
//! Some combination of these gives cuDNN's figure to the byte or nearly. *Which* is the choice of
//! cuDNN's heuristics, for which [`choice`] has decision trees, and they are often wrong. Held-out
//! layers within 5 %, for forward, data, filter: 81, 88, 96 % on compute capability 7.5;
//! 74, 89, 72 % on 8.0, and 92, 91, 80 % in half precision; 64, 72, 79 % on 8.6; 59, 75, 60 % on 8.9; 80, 91, 74 % on 9.0. Exact to
//! the byte: 15 to 85 %. Median error: 1.2 % at most. Worst: 100 %.
//!
//! `docs/convolution-workspaces.md` tells how this was measured.

mod choice;

use super::Convolution;
use crate::bytes::Bytes;
use crate::eager::{Hardware, Tensor};
use choice::{Take, choose};

/// Which of a convolution's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The output.
    Forward,
    /// The input's gradient.
    BackwardData,
    /// The weight's gradient.
    BackwardFilter,
}

/// What the workspace depends on: a convolution from `input` to `output`. For a transposed one
/// these are exchanged, because it runs as the other's gradient.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states")]
pub struct Layer {
    /// `[N, C, H, W]`.
    pub input: Vec<u64>,
    /// `[M, C/groups, kH, kW]`.
    pub weight: Vec<u64>,
    /// `[N, M, oH, oW]`.
    pub output: Vec<u64>,
    /// Step per spatial dimension.
    pub stride: Vec<u64>,
    /// Spacing of the kernel's taps per spatial dimension.
    pub dilation: Vec<u64>,
    /// Channel groups.
    pub groups: u64,
    /// SIZE: one element.
    pub element: Bytes,
    /// Whether the tensors have their channels innermost already.
    pub channels_last: bool,
    /// `ConvTranspose`.
    pub transposed: bool,
    /// Whether PyTorch's own depthwise kernels run instead of cuDNN.
    pub native: bool,
}

impl Layer {
    /// `native` is for the caller to set.
    pub(super) fn new(
        x: &Tensor,
        weight: &Tensor,
        spec: &Convolution,
        channels_last: bool,
    ) -> Self {
        let (mut input, mut output) = (x.sizes().to_vec(), spec.output.clone());
        if spec.transposed {
            std::mem::swap(&mut input, &mut output);
        }
        Self {
            input,
            weight: weight.sizes().to_vec(),
            output,
            stride: spec.stride.clone(),
            dilation: spec.dilation.clone(),
            groups: spec.groups,
            element: x.dtype().size(),
            channels_last,
            transposed: spec.transposed,
            native: false,
        }
    }
}

/// SIZE: the workspace of one call.
pub fn size(hardware: &Hardware, layer: &Layer, direction: Direction) -> Bytes {
    if layer.native {
        return Bytes::ZERO;
    }
    let direction = match (layer.transposed, direction) {
        (true, Direction::Forward) => Direction::BackwardData,
        (true, Direction::BackwardData) => Direction::Forward,
        (_, direction) => direction,
    };
    let shape = Shape::new(layer);
    if shape.channels_last && shape.groups > 1 && shape.group_in() == 1 {
        return shape.depthwise_scratch(direction);
    }
    let Some(take) = choose(hardware.capability, direction, &shape) else { return Bytes::ZERO };
    let take =
        if shape.element <= 2 && shape.channels_last { take.in_order(direction) } else { take };
    shape.scratch(take, direction)
}

/// A [`Layer`] as the heuristics see it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: u64,
    in_channels: u64,
    out_channels: u64,
    groups: u64,
    /// First spatial dimension of the input.
    height: u64,
    /// Last spatial dimension of the input.
    width: u64,
    /// Positions of the input, of the output, of the kernel.
    in_area: u64,
    out_area: u64,
    kernel_area: u64,
    /// First spatial dimension of the kernel.
    kernel_height: u64,
    stride: u64,
    dilation: u64,
    element: u64,
    channels_last: bool,
}

impl Shape {
    fn new(layer: &Layer) -> Self {
        let at = |sizes: &[u64], dim: usize| sizes.get(dim).copied().unwrap_or(1);
        let area = |sizes: &[u64]| sizes.iter().skip(2).fold(1, |a: u64, &n| a.saturating_mul(n));
        Self {
            batch: at(&layer.input, 0),
            in_channels: at(&layer.input, 1),
            out_channels: at(&layer.weight, 0),
            groups: layer.groups.max(1),
            height: at(&layer.input, 2),
            width: layer.input.last().copied().unwrap_or(1),
            in_area: area(&layer.input),
            out_area: area(&layer.output),
            kernel_area: area(&layer.weight),
            kernel_height: at(&layer.weight, 2),
            stride: at(&layer.stride, 0),
            dilation: at(&layer.dilation, 0),
            element: layer.element.0.max(1),
            channels_last: layer.channels_last,
        }
    }

    /// Input channels of one group.
    fn group_in(&self) -> u64 {
        self.in_channels.div_euclid(self.groups)
    }

    /// Output channels of one group.
    fn group_out(&self) -> u64 {
        self.out_channels.div_euclid(self.groups)
    }

    /// SIZE: for depthwise kernels that read channels innermost. Those for 7x7 add up the weight's
    /// gradient from eight partial results for each 7x7 positions, and 16 more, where these are
    /// many; the others need too little to matter.
    fn depthwise_scratch(&self, direction: Direction) -> Bytes {
        if direction != Direction::BackwardFilter || self.kernel_area != 49 {
            return Bytes::ZERO;
        }
        let tiles = self.height.div_ceil(7).saturating_mul(self.width.div_ceil(7));
        let partials = product(&[8, self.batch, tiles]);
        if partials < 512 {
            return Bytes::ZERO;
        }
        let result = product(&[self.out_channels, self.kernel_area, self.element]);
        Bytes(result.saturating_mul(partials.saturating_add(16)).saturating_add(16))
    }

    /// SIZE: the workspace that a choice means.
    fn scratch(&self, take: Take, direction: Direction) -> Bytes {
        if take.winograd {
            let results = match direction {
                Direction::Forward => self.out_channels,
                _ => self.in_channels,
            };
            let weights = product(&[self.out_channels, self.group_in(), 25]);
            return Bytes(weights.saturating_add(results).saturating_mul(self.element));
        }
        let group = if take.padded { 16_u64.div_euclid(self.element).max(1) } else { 1 };
        let pad = |channels: u64| channels.checked_next_multiple_of(group).unwrap_or(channels);
        // Operands in single precision are copied in any case, rounded to TF32.
        let rounds = |is_result: bool| !is_result && self.element == 4;
        let copy = |wanted: bool, is_result: bool, area: u64, channels: u64, others: u64| {
            let ordered = self.channels_last || area == 1;
            let suits = ordered && pad(channels) == channels && !rounds(is_result);
            if wanted && !suits { product(&[pad(channels), area, others]) } else { 0 }
        };
        let is = |result: Direction| direction == result;
        let images = self.batch.saturating_mul(self.groups);
        let (group_in, group_out) = (self.group_in(), self.group_out());
        let copies = [
            copy(take.input, is(Direction::BackwardData), self.in_area, group_in, images),
            copy(take.output, is(Direction::Forward), self.out_area, group_out, images),
            copy(
                take.weight,
                is(Direction::BackwardFilter),
                self.kernel_area,
                group_in,
                self.out_channels,
            ),
        ];
        let result = match direction {
            Direction::Forward => product(&[self.batch, self.out_channels, self.out_area]),
            Direction::BackwardData => product(&[self.batch, self.in_channels, self.in_area]),
            Direction::BackwardFilter => {
                product(&[pad(group_in), self.out_channels, self.kernel_area])
            }
        };
        let partial = result.saturating_mul(take.partials);
        let elements = copies.into_iter().fold(partial, u64::saturating_add);
        let copying = copies.iter().any(|&copy| copy > 0);
        let extra = if copying { 16 } else { 0 } + if take.partials > 0 { 128 } else { 0 };
        Bytes(elements.saturating_mul(self.element).saturating_add(extra))
    }
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor))
}

#[cfg(test)]
mod tests;
