//! Convolutions. `derivatives.yaml`: input and weight are always saved.
//!
//! cuDNN takes a workspace for the duration of each call; PyTorch's own depthwise kernels take
//! none. Sources: `native/Convolution.cpp`, `native/cudnn/Conv_v8.cpp`.

use std::rc::Rc;

use smallvec::SmallVec;

use super::view;
use crate::config::MemoryFormat;
use crate::eager::kernels;
use crate::eager::launch::{self, Product};
use crate::eager::{Gradients, Kernel, Pass, Runtime, Tensor};
use crate::tensor::{DType, Dims};

pub mod workspace;

use workspace::{Direction, Layer};

/// What the operator's attributes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Dimensions of the output `[N, M, …]`.
    pub output: Dims,
    /// Step per spatial dimension.
    pub stride: Dims,
    /// Spacing of the kernel's taps per spatial dimension.
    pub dilation: Dims,
    /// Channel groups.
    pub groups: u64,
    /// `ConvTranspose`.
    pub transposed: bool,
}

/// `aten::convolution`, with one, two or three spatial dimensions.
///
/// `x [N, C, d…]`, `weight [M, C/groups, k…]`, transposed `[C, M/groups, k…]`, `bias [M]` to `[N, M, …]`.
pub fn convolution(
    rt: &Runtime,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: &Convolution,
) -> Tensor {
    let bias = bias.map(|bias| {
        let [bias] = rt.for_operator("aten::convolution", [bias]);
        bias
    });
    let given = rt.for_operator("aten::convolution", [x, weight]);
    let is_line = x.rank() == 3;
    let [x, weight] = &given.each_ref().map(|t| if is_line { as_picture(t) } else { t.clone() });
    let spec = &if is_line { spec.of_picture() } else { spec.clone() };
    let channels_last = suggest_channels_last(rt, x, weight);
    let native =
        is_depthwise(x, weight, spec) && !channels_last && !is_depthwise_for_cudnn(x, weight, spec);
    let layer = Rc::new(Layer { native, ..Layer::new(x, weight, spec, channels_last) });
    // The kernel works on a copy where strides ask for one; what is saved is the input itself.
    let format = format(channels_last);
    let copy = rt.no_grad(|| view::contiguous_in(rt, x, format));
    rt.enter_operator("aten::convolution");
    let y = rt.empty_in(x.dtype(), &spec.output, format);
    let weight_copy = rt.no_grad(|| view::contiguous_in(rt, weight, format));
    rt.enter_operator("aten::convolution");
    take_workspace(rt, &layer, Direction::Forward);
    launch(rt, &y, &layer, Direction::Forward);
    if let Some(bias) = bias.as_ref().filter(|_| !layer.native) {
        // `output.add_(bias)`.
        rt.launch_in_place(&[bias], &y);
    }
    drop((weight_copy, copy));
    let y = if is_line { as_line(y) } else { y };
    let inputs: SmallVec<[&Tensor; 3]> = given.iter().chain(&bias).collect();
    let has_bias = bias.is_some();
    rt.differentiable("ConvolutionBackward0", y, &inputs, &[x, weight], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        if !is_line {
            return gradients(pass, &layer, grad, has_bias);
        }
        let found = gradients(pass, &layer, &as_picture(grad), has_bias);
        let lines = found.into_iter().enumerate();
        lines.map(|(input, grad)| if input < 2 { grad.map(as_line) } else { grad }).collect()
    })
}

impl Convolution {
    /// The same for a picture of height 1 (`view_1d_as_2d`).
    fn of_picture(&self) -> Self {
        let with_height = |list: &[u64], at: usize| {
            let (front, back) = list.split_at_checked(at).unwrap_or((list, &[]));
            front.iter().chain(&[1]).chain(back).copied().collect()
        };
        Self {
            output: with_height(&self.output, 2),
            stride: with_height(&self.stride, 0),
            dilation: with_height(&self.dilation, 0),
            ..self.clone()
        }
    }
}

/// A line as a picture of height 1: PyTorch has no kernels for lines (`view4d`).
fn as_picture(x: &Tensor) -> Tensor {
    let step = x.size(2).saturating_mul(x.strides().get(2).copied().unwrap_or(1));
    let with = |list: &[u64], height: u64| {
        let (front, back) = list.split_at_checked(2).unwrap_or((list, &[]));
        front.iter().chain(&[height]).chain(back).copied().collect::<Dims>()
    };
    x.alias(with(x.sizes(), 1), with(x.strides(), step))
}

/// A picture of height 1 as a line.
fn as_line(x: Tensor) -> Tensor {
    let without = |list: &[u64]| {
        let kept = list.iter().enumerate().filter(|&(dim, _)| dim != 2);
        kept.map(|(_, &n)| n).collect::<Dims>()
    };
    let (sizes, strides) = (without(x.sizes()), without(x.strides()));
    x.alias_sole(sizes, strides)
}

/// Gradient of the input, then of the weight, then the bias's sum.
fn gradients(pass: &Pass<'_>, layer: &Rc<Layer>, grad: &Tensor, has_bias: bool) -> Gradients {
    let (Some(x), Some(weight)) = (pass.saved(0), pass.saved(1)) else { return Vec::new() };
    let rt = pass.rt;
    let (for_input, for_weight) = if layer.native {
        native_gradients(pass, layer, grad, x, weight)
    } else {
        cudnn_gradients(pass, layer, grad, x, weight)
    };
    // The bias's sum reads the gradient as it came.
    let for_bias = (has_bias && pass.needs(2)).then(|| {
        let sizes: Dims =
            (0..grad.rank()).map(|dim| if dim == 1 { grad.size(1) } else { 1 }).collect();
        kernels::sum_to(rt, grad, &sizes).alias_sole([grad.size(1)], [1])
    });
    vec![for_input, for_weight, for_bias]
}

/// `aten::_conv_depthwise2d_backward`: PyTorch's own kernels read contiguous tensors and make the
/// weight's gradient first.
fn native_gradients(
    pass: &Pass<'_>,
    layer: &Rc<Layer>,
    grad: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> (Option<Tensor>, Option<Tensor>) {
    let rt = pass.rt;
    let grad_copy = view::contiguous(rt, grad);
    let copy = view::contiguous(rt, x);
    rt.enter_operator("aten::convolution_backward");
    let for_weight = pass.needs(1).then(|| rt.empty(grad.dtype(), weight.sizes()));
    let for_input = pass.needs(0).then(|| rt.empty(grad.dtype(), x.sizes()));
    if let Some(y) = &for_weight {
        launch(rt, y, layer, Direction::BackwardFilter);
    }
    if let Some(y) = &for_input {
        launch(rt, y, layer, Direction::BackwardData);
    }
    drop((copy, grad_copy));
    (for_input, for_weight)
}

/// `aten::cudnn_convolution_backward`: two calls, each with copies of what is not in the format that
/// its operands suggest, and with its workspace.
fn cudnn_gradients(
    pass: &Pass<'_>,
    layer: &Rc<Layer>,
    grad: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> (Option<Tensor>, Option<Tensor>) {
    let rt = pass.rt;
    let of_layer = format(layer.channels_last);
    let x = if pass.needs(1) { view::contiguous_in(rt, x, of_layer) } else { x.clone() };
    let grad = if layer.transposed {
        view::contiguous_in(rt, grad, x.suggested_format())
    } else {
        in_suggested(rt, grad, x.suggested_format())
    };
    rt.enter_operator("aten::convolution_backward");
    let for_input = pass.needs(0).then(|| {
        let format = format(suggest_channels_last(rt, &grad, weight));
        let result = rt.empty_in(grad.dtype(), x.sizes(), format);
        let weight = view::contiguous_in(rt, weight, format);
        let grad = view::contiguous_in(rt, &grad, format);
        rt.enter_operator("aten::convolution_backward");
        take_workspace(rt, layer, Direction::BackwardData);
        launch(rt, &result, layer, Direction::BackwardData);
        drop((grad, weight));
        result
    });
    let for_weight = pass.needs(1).then(|| {
        let format = format(suggest_channels_last(rt, &x, &grad));
        let grad = view::contiguous_in(rt, &grad, format);
        let x = view::contiguous_in(rt, &x, format);
        rt.enter_operator("aten::convolution_backward");
        let result = rt.empty_in(grad.dtype(), weight.sizes(), format);
        take_workspace(rt, layer, Direction::BackwardFilter);
        launch(rt, &result, layer, Direction::BackwardFilter);
        drop((x, grad));
        result
    });
    (for_input, for_weight)
}

/// The kernel of one of a layer's products, which writes `y`.
fn launch(rt: &Runtime, y: &Tensor, layer: &Layer, direction: Direction) {
    if !rt.is_launching() {
        return;
    }
    let product = match (layer.transposed, direction) {
        (false, Direction::Forward) | (true, Direction::BackwardData) => Product::Forward,
        (false, Direction::BackwardData) | (true, Direction::Forward) => Product::Data,
        (_, Direction::BackwardFilter) => Product::Filter,
    };
    let spatial = |dims: &[u64]| dims.iter().skip(2).copied().fold(1, u64::saturating_mul);
    let first = |dims: &[u64], at: usize| dims.get(at).copied().unwrap_or(1);
    let kernel = Kernel::Convolution(launch::Convolution {
        product,
        batch: first(&layer.input, 0),
        groups: layer.groups,
        inputs: first(&layer.weight, 1).saturating_mul(layer.groups),
        outputs: first(&layer.weight, 0),
        input_positions: spatial(&layer.input),
        positions: spatial(&layer.output),
        taps: spatial(&layer.weight),
        channels_last: layer.channels_last,
    });
    rt.launch(&[y], kernel, y.dtype());
}

/// Allocates and frees what cuDNN asks for.
fn take_workspace(rt: &Runtime, layer: &Rc<Layer>, direction: Direction) {
    if rt.lacks_workspaces() {
        return;
    }
    let layer = Rc::clone(layer);
    let sizes = [layer.input.as_slice(), &layer.output].concat();
    let is_known = rt.workspace_by(&sizes, move |hardware, sizes| {
        let resized = layer.resized(sizes);
        workspace::size(hardware.capability, hardware.cudnn, &resized, direction)
    });
    if !is_known {
        rt.set_lacks_workspaces();
    }
}

/// `to(memory_format)`: a copy unless strides look like the format already, gaps or not.
fn in_suggested(rt: &Runtime, tensor: &Tensor, format: MemoryFormat) -> Tensor {
    if tensor.suggested_format() == format {
        return tensor.clone();
    }
    rt.enter_operator("aten::to");
    rt.empty_in(tensor.dtype(), tensor.sizes(), format)
}

/// `ConvParams::is_depthwise`.
fn is_depthwise(x: &Tensor, weight: &Tensor, spec: &Convolution) -> bool {
    !spec.transposed
        && spec.groups > 1
        && x.size(1) == spec.groups
        && weight.size(0).is_multiple_of(x.size(1).max(1))
        && matches!(x.rank(), 4 | 5)
}

/// `use_cudnn_depthwise` for contiguous tensors, `check_cudnn_depthwise_workload_with_filter`:
/// float16 alone, where cuDNN was found to be faster. The same for every device; PyTorch 2.15
/// answers so for each of 5440 layers that `_select_conv_backend` was asked about on an A100.
fn is_depthwise_for_cudnn(x: &Tensor, weight: &Tensor, spec: &Convolution) -> bool {
    let (batch, channels) = (x.size(0), x.size(1));
    let (&[_, _, height, width], &[_, _, taps, across]) = (x.sizes(), weight.sizes()) else {
        return false;
    };
    let &[down, stride] = spec.stride.as_slice() else { return false };
    let suits = x.dtype() == DType::Float16
        && channels >= 32
        && spec.dilation.iter().all(|&spacing| spacing == 1)
        && (down == stride || height == 1);
    if !suits || height == 1 && stride == 1 {
        return suits;
    }
    if taps != across || !matches!(taps, 1 | 3 | 5) || width < 7 {
        return false;
    }
    match (stride, batch, taps) {
        (2, 1, 1) => width <= 28,
        (1, _, _) | (2, 1, _) => true,
        (2, _, 1) => batch <= 16 && channels >= 128 && width <= 7,
        (2, _, _) => channels >= 512 || channels >= 256 && width >= 28,
        _ => false,
    }
}

/// `cudnn_conv_suggest_memory_format`: channels last if either operand looks like it, or the compiler made it so.
fn suggest_channels_last(rt: &Runtime, x: &Tensor, weight: &Tensor) -> bool {
    let looks = |tensor: &Tensor| tensor.suggested_format() == MemoryFormat::ChannelsLast;
    x.dtype() != DType::Float64 && (looks(x) || looks(weight) || rt.compiles_in_channels_last())
}

const fn format(channels_last: bool) -> MemoryFormat {
    if channels_last { MemoryFormat::ChannelsLast } else { MemoryFormat::Contiguous }
}
