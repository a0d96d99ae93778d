//! Bytes of scratch that cuDNN needs per call, with `cudnn.benchmark` off.
//!
//! The kernels for tensor cores want channels innermost, in whole 16-byte groups, and operands rounded to TF32;
//! PyTorch gives contiguous NCHW tensors. cuDNN makes copies in its workspace, and has partial results there where
//! the inner sum is split. [`plan`] computes their sizes, nearly always to the byte. *Which* plan a call takes is
//! the choice of cuDNN's heuristics, for which [`choice`] has decision trees.
//!
//! `docs/convolution-workspaces.md` describes how both were found, and how often they are right.

mod choice;
mod plan;

use std::borrow::Cow;

use super::Convolution;
use crate::bytes::Bytes;
use crate::config::Cudnn;
use crate::eager::Tensor;
use crate::tensor::Dims;
use choice::choose;
use plan::Plan;

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
    pub input: Dims,
    /// `[M, C/groups, kH, kW]`.
    pub weight: Dims,
    /// `[N, M, oH, oW]`.
    pub output: Dims,
    /// Step per spatial dimension.
    pub stride: Dims,
    /// Spacing of the kernel's taps per spatial dimension.
    pub dilation: Dims,
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
    /// The same between tensors of other sizes: those of the input, then those of the output.
    pub(super) fn resized(&self, sizes: &[u64]) -> Cow<'_, Self> {
        let (input, output) = sizes.split_at(self.input.len().min(sizes.len()));
        if (input, output) == (&*self.input, &*self.output) {
            return Cow::Borrowed(self);
        }
        let [input, output] = [input, output].map(Dims::from_slice);
        Cow::Owned(Self { input, output, ..self.clone() })
    }

    /// `native` is for the caller to set.
    pub(super) fn new(
        x: &Tensor,
        weight: &Tensor,
        spec: &Convolution,
        channels_last: bool,
    ) -> Self {
        let (mut input, mut output) = (Dims::from_slice(x.sizes()), spec.output.clone());
        if spec.transposed {
            std::mem::swap(&mut input, &mut output);
        }
        Self {
            input,
            weight: Dims::from_slice(weight.sizes()),
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

/// SIZE: the workspace of one call; `None` where what tells it cannot be had.
pub fn size(
    capability: (u32, u32),
    cudnn: Cudnn,
    layer: &Layer,
    direction: Direction,
) -> Option<Bytes> {
    if layer.native {
        return Some(Bytes::ZERO);
    }
    let direction = match (layer.transposed, direction) {
        (true, Direction::Forward) => Direction::BackwardData,
        (true, Direction::BackwardData) => Direction::Forward,
        (_, direction) => direction,
    };
    let shape = Shape::new(layer);
    if cudnn == Cudnn::V8 && shape.is_bare_in_8() {
        return Some(Bytes::ZERO);
    }
    let known = choose(capability, direction, &shape).ok()?;
    let plan = match known {
        Some(plan) if shape.kind.is_innermost() || !shape.channels_last => plan,
        Some(plan) => plan.in_order(shape.element, direction),
        None if shape.channels_last => {
            // cuDNN was not asked about such layers on this device.
            let outermost = Shape::new(&Layer { channels_last: false, ..layer.clone() });
            let plan = choose(capability, direction, &outermost).ok()?;
            plan.unwrap_or(Plan::Nothing).in_order(shape.element, direction)
        }
        None => return Some(Bytes::ZERO),
    };
    Some(plan.scratch(&shape, direction))
}

/// A [`Layer`] as the heuristics see it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: u64,
    in_channels: u64,
    out_channels: u64,
    groups: u64,
    /// Height and width; of more dimensions, all but the last count as height.
    input: (u64, u64),
    output: (u64, u64),
    kernel: (u64, u64),
    stride: u64,
    dilation: u64,
    element: u64,
    channels_last: bool,
    kind: Kind,
}

/// What kind of layer the heuristics were asked about apart from those of most networks: they choose
/// otherwise for these. `truth/kinds.py` parts them in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A picture under square filters with one, three or five taps a side, or a stem's with seven.
    Plain,
    /// One dimension.
    Line,
    /// Three dimensions.
    Volume,
    /// Any other filter: patches, even sizes, long and large ones.
    Odd,
    /// Several channel groups of more than one channel.
    Grouped,
    /// Taps apart from each other.
    Dilated,
    /// A filter for each channel, which has its channels innermost.
    Depthwise,
    /// Any other picture that has its channels innermost.
    Innermost,
}

impl Kind {
    /// By its name in `choices/*.txt`.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Plain,
            "line" => Self::Line,
            "volume" => Self::Volume,
            "dilated" => Self::Dilated,
            "odd" => Self::Odd,
            "grouped" => Self::Grouped,
            "depthwise" => Self::Depthwise,
            "innermost" => Self::Innermost,
            _ => return None,
        })
    }

    /// Whether its trees were learnt from layers that have their channels innermost.
    const fn is_innermost(self) -> bool {
        matches!(self, Self::Depthwise | Self::Innermost)
    }

    /// Of a layer whose other measures are known.
    fn of(shape: &Shape, dimensions: usize) -> Self {
        let is_plain = match shape.kernel {
            (1, 1) | (3, 3) | (5, 5) => true,
            (7, 7) => shape.in_channels.min(shape.out_channels) <= 4,
            _ => false,
        };
        match () {
            () if shape.channels_last && shape.groups > 1 && shape.group_in() == 1 => {
                Self::Depthwise
            }
            () if dimensions > 2 => Self::Volume,
            () if shape.channels_last => Self::Innermost,
            () if shape.input.0 == 1 && shape.kernel.0 == 1 && shape.input.1 > 1 => Self::Line,
            () if !is_plain => Self::Odd,
            () if shape.groups > 1 && shape.group_in() > 1 => Self::Grouped,
            () if shape.dilation > 1 => Self::Dilated,
            () => Self::Plain,
        }
    }
}

impl Shape {
    fn new(layer: &Layer) -> Self {
        let at = |sizes: &[u64], dim: usize| sizes.get(dim).copied().unwrap_or(1);
        let sides = |sizes: &[u64]| match sizes.get(2..).and_then(<[u64]>::split_last) {
            Some((width, others)) => (product(others), *width),
            None => (1, 1),
        };
        let shape = Self {
            batch: at(&layer.input, 0),
            in_channels: at(&layer.input, 1),
            out_channels: at(&layer.weight, 0),
            groups: layer.groups.max(1),
            input: sides(&layer.input),
            output: sides(&layer.output),
            kernel: sides(&layer.weight),
            stride: layer.stride.last().copied().unwrap_or(1),
            dilation: layer.dilation.iter().copied().max().unwrap_or(1),
            element: layer.element.0.max(1),
            channels_last: layer.channels_last,
            kind: Kind::Plain,
        };
        Self { kind: Kind::of(&shape, layer.input.len().saturating_sub(2)), ..shape }
    }

    /// Whether cuDNN 8 runs it without a workspace. Runs of timm's networks on an A100 tell so, in single precision:
    /// those of pointwise, grouped and depthwise layers take what they would without workspaces.
    const fn is_bare_in_8(&self) -> bool {
        let is_dense = self.groups == 1 && self.kernel.0 >= 3 && self.kernel.1 >= 3;
        self.element == 4 && !is_dense
    }

    /// COUNT: positions of the input.
    const fn in_area(&self) -> u64 {
        self.input.0.saturating_mul(self.input.1)
    }

    /// COUNT: positions of the output.
    const fn out_area(&self) -> u64 {
        self.output.0.saturating_mul(self.output.1)
    }

    /// COUNT: taps of a filter.
    const fn kernel_area(&self) -> u64 {
        self.kernel.0.saturating_mul(self.kernel.1)
    }

    /// Input channels of one group.
    const fn group_in(&self) -> u64 {
        self.in_channels.div_euclid(self.groups)
    }

    /// Output channels of one group.
    const fn group_out(&self) -> u64 {
        self.out_channels.div_euclid(self.groups)
    }
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor))
}

#[cfg(test)]
mod tests;
