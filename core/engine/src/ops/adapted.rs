//! Linear layers with low-rank adapters and with quantised weights: see [`crate::adapt`], which writes these nodes.
//!
//! Sources: `peft/tuners/lora/{layer,bnb}.py` of peft 0.21, `bitsandbytes/autograd/_functions.py` and
//! `bitsandbytes/backends/cuda/ops.py` of bitsandbytes 0.50.

use super::matmul::{gemm_rule, linear_rule};
use super::{Call, OpError, Operator, torch};
use crate::aten::matmul::WeightLayout;
use crate::aten::{dropout, elementwise, matmul, view};
use crate::bytes::Bytes;
use crate::eager::{Kernel, Runtime, Tensor, kernels};
use crate::tensor::{DType, TensorType};

pub(super) const TABLE: &[Operator] = &[
    torch("Adapted", 5..=6).runs(adapted_rule),
    torch("Quantized", 2..=3).runs(quantized_rule),
    torch("RequireGrad", 1..=1).runs(require_grad_rule),
];

/// COUNT: weights that share a number, and numbers of such that share one.
pub(crate) const BLOCKS: [u64; 2] = [64, 256];

/// SIZE: what CUB's count and selection need for one tile.
const SCRATCH: [Bytes; 2] = [Bytes(1), Bytes(1023)];

/// Whether a node has a flag.
fn is(call: &Call<'_>, name: &str) -> bool {
    call.node.attributes.contains_key(name)
}

/// A linear layer, whose inputs come first, then `A` and `B`: `layer(x) + B(A(dropout(x))) · scaling`.
fn adapted_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, bits) = (call.rt, call.node.int("bits"));
    match call.node.string("base") {
        Some("Gemm") => gemm_rule(call)?,
        Some("Quantized") => quantized_rule(call)?,
        _ => linear_rule(call)?,
    }
    let (x, a, b) = (call.need(0)?, call.need(3)?, call.need(4)?);
    let mut base = call.take(0).ok_or_else(|| OpError::new(say!("the layer has no result")))?;
    let dtype = base.dtype();
    // The class for layers of 4 bits copies their result.
    if bits == Some(4) {
        base = copy(rt, &base);
    }
    // Under autocast, the classes of quantised layers leave casts to it.
    let casts = bits.is_none() || rt.autocast_type().is_none();
    let x = if casts { kernels::cast(rt, &x, a.dtype()) } else { x };
    let is_dropped = is(call, "dropout") && rt.is_training();
    if let Some(magnitude) = call.tensor(5) {
        let x = if is_dropped { dropout::dropout(rt, &x) } else { x };
        let update = dora(call, &x, (!is_dropped).then_some(&base), [&a, &b, &magnitude])?;
        let sum = elementwise::add(rt, &base, &update);
        drop(update);
        drop(base);
        call.set(0, if casts { kernels::cast(rt, &sum, dtype) } else { sum });
        return Ok(());
    }
    let dropped = is_dropped.then(|| dropout::dropout(rt, &x));
    let low = matmul::linear(rt, dropped.as_ref().unwrap_or(&x), &a, None, WeightLayout::OutIn);
    drop(dropped);
    let update = matmul::linear(rt, &low, &b, None, WeightLayout::OutIn);
    drop(low);
    let scaled = elementwise::scale(rt, "aten::mul", &update);
    drop(update);
    if bits.is_some() {
        let update = if casts { kernels::cast(rt, &scaled, dtype) } else { scaled.clone() };
        drop(scaled);
        call.set(0, elementwise::add(rt, &base, &update));
        return Ok(());
    }
    let sum = elementwise::add(rt, &base, &scaled);
    drop(scaled);
    drop(base);
    call.set(0, kernels::cast(rt, &sum, dtype));
    Ok(())
}

/// `DoraLinearLayer.forward`: the product of the adapter's matrices is made anew from an identity matrix, to divide the
/// trained lengths by those of the sum of both weights. Without dropout the layer's own result serves, less its bias.
fn dora(
    call: &Call<'_>,
    x: &Tensor,
    base: Option<&Tensor>,
    [a, b, magnitude]: [&Tensor; 3],
) -> Result<Tensor, OpError> {
    let rt = call.rt;
    let linear =
        |x: &Tensor, weight: &Tensor| matmul::linear(rt, x, weight, None, WeightLayout::OutIn);
    rt.enter_operator("aten::eye");
    let eye = rt.empty(a.dtype(), &[a.size(1), a.size(1)]);
    let product = linear(&linear(&eye, a), b);
    let update = kernels::cast(rt, &view::transpose(rt, &product, 0, 1), x.dtype());
    let weight = match call.node.int("bits") {
        None => call.need(1)?,
        Some(bits) => restored(rt, call.input_type(1)?, bits, is(call, "double")),
    };
    let whole = kernels::cast(rt, &weight, x.dtype());
    drop(weight);
    let is_turned = whole.size(0) != b.size(0);
    let whole = if is_turned { view::transpose(rt, &whole, 0, 1) } else { whole };
    let scaled = elementwise::scale(rt, "aten::mul", &update.detach());
    let sum = elementwise::add(rt, &whole, &scaled);
    drop(scaled);
    rt.enter_operator("aten::linalg_vector_norm");
    let norm = kernels::reduce(rt, &sum, &[false, true], sum.dtype());
    let norm = norm.alias_sole([b.size(0)], [1]);
    drop(sum);
    let factor = elementwise::div(rt, magnitude, &norm);
    let factor = view::reshape(rt, &factor, &[1, b.size(0)]);
    let result = linear(&linear(x, a), b);
    let base = match (base, call.tensor(2)) {
        (Some(base), Some(bias)) => elementwise::sub(rt, base, &bias),
        (Some(base), None) => base.clone(),
        (None, _) => linear(x, &whole),
    };
    let shifted = elementwise::shift(rt, "aten::sub", &factor);
    let first = elementwise::mul(rt, &shifted, &base);
    drop(shifted);
    let second = elementwise::mul(rt, &factor, &result);
    let scaled = elementwise::scale(rt, "aten::mul", &second);
    drop(second);
    Ok(elementwise::add(rt, &first, &scaled))
}

/// A weight of so many bits as it was before: `dequantize_4bit`, `int8_vectorwise_dequant`.
fn restored(rt: &Runtime, ty: &TensorType, bits: i64, is_double: bool) -> Tensor {
    rt.enter_operator("bitsandbytes::dequantize");
    if bits == 8 {
        let _product = rt.empty(DType::Float32, &ty.dims);
        return rt.empty(DType::Float32, &ty.dims);
    }
    let blocks = [ty.numel().div_ceil(BLOCKS[0])];
    let _scales = is_double.then(|| rt.empty(DType::Float32, &blocks));
    rt.empty(ty.dtype, &ty.dims)
}

/// `x.clone()`.
fn copy(rt: &Runtime, x: &Tensor) -> Tensor {
    rt.enter_operator("aten::clone");
    let y = rt.empty_like(x);
    rt.differentiable("CloneBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// `Linear4bit` and `Linear8bitLt`, of which `x` and a bias may be there; the packed weight is not read.
fn quantized_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let (rt, x) = (call.rt, call.need(0)?);
    let weight = call.input_type(1)?;
    let y = if call.node.int("bits") == Some(8) {
        eight_bits(rt, &x, &weight.dims)
    } else {
        let compute = call.node.int("compute").and_then(DType::from_onnx);
        let low = kernels::cast(rt, &x, compute.unwrap_or_else(|| x.dtype()));
        let y = four_bits(rt, &low, weight, call.tensor(2).as_ref(), is(call, "double"));
        kernels::cast(rt, &y, x.dtype())
    };
    call.set(0, y);
    Ok(())
}

/// `MatMul4Bit`: a copy of the weight in the type of `x` for the product, and in the type that it was quantised
/// from for the gradient; where statistics are quantised, they are restored first.
///
/// This is the path for more than 512 rows: fewer may go to a kernel that restores weights as it multiplies.
fn four_bits(
    rt: &Runtime,
    x: &Tensor,
    weight: &TensorType,
    bias: Option<&Tensor>,
    is_double: bool,
) -> Tensor {
    let blocks = [weight.numel().div_ceil(BLOCKS[0])];
    let y = rt.no_grad(|| {
        rt.enter_operator("bitsandbytes::gemm_4bit");
        let restored = is_double.then(|| [(); 2].map(|()| rt.empty(DType::Float32, &blocks)));
        let whole = rt.empty(x.dtype(), &weight.dims);
        let y = matmul::linear(rt, x, &whole, bias, WeightLayout::OutIn);
        drop(restored);
        y
    });
    let weight = weight.clone();
    rt.differentiable("MatMul4BitBackward", y, &[x], &[], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        let whole = restored(pass.rt, &weight, 4, is_double);
        let low = kernels::cast(pass.rt, &whole, grad.dtype());
        drop(whole);
        vec![Some(matmul::matmul(pass.rt, grad, &low))]
    })
}

/// `MatMul8bitLt` with a threshold, where nothing exceeds it: `x` is quantised by rows, multiplied in integers, and
/// the result is scaled in half precision, where a bias is added in place. Its context holds `x` for as long as the
/// graph is there.
fn eight_bits(rt: &Runtime, x: &Tensor, sizes: &[u64]) -> Tensor {
    let (rows, inner) = view::rows_and_width(x.sizes());
    let (dtype, out) = (x.dtype(), sizes.first().copied().unwrap_or(1));
    let y = rt.no_grad(|| {
        rt.enter_operator("bitsandbytes::int8_vectorwise_quant");
        let flat = view::reshape(rt, x, &[rows, inner]);
        let half = kernels::cast(rt, &flat, DType::Float16);
        let scales = rt.empty(DType::Float32, &[rows]);
        let packed = rt.empty(DType::Int8, &[rows, inner]);
        let magnitudes = rt.empty_like(&half);
        let outliers = rt.empty(DType::Bool, &[rows, inner]);
        drop(magnitudes);
        drop(kernels::reduce(rt, &outliers, &[true, true], DType::Bool));
        let columns = kernels::reduce(rt, &outliers, &[true, false], DType::Bool);
        // `nonzero`: the number of columns, and the scratch of its two kernels.
        let found = rt.empty(DType::Int32, &[]);
        for size in SCRATCH {
            rt.workspace(size);
        }
        drop((found, columns, outliers, half));
        rt.enter_operator("bitsandbytes::int8_scaled_mm");
        let sums = rt.empty(DType::Int32, &[rows, out]);
        rt.launch(
            &[&sums],
            Kernel::Gemm { batch: 1, rows, inner, columns: out, batched: false },
            DType::Int8,
        );
        let half = rt.empty(DType::Float16, &[rows, out]);
        let y = kernels::cast(rt, &half, dtype);
        drop((half, sums, packed, scales));
        y
    });
    let mut shape = x.sizes().to_vec();
    shape.last_mut().into_iter().for_each(|last| *last = out);
    let y = view::reshape(rt, &y, &shape);
    let weight = sizes.to_vec();
    let y = rt.differentiable("MatMul8bitLtBackward", y, &[x], &[], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        pass.rt.enter_operator("aten::to");
        let whole = pass.rt.empty(dtype, &weight);
        drop(pass.rt.empty(DType::Float32, &[out, 1]));
        vec![Some(matmul::matmul(pass.rt, grad, &whole))]
    });
    if !rt.runs_unrecorded() {
        y.edge().into_iter().for_each(|edge| edge.hold(x));
    }
    y
}

/// `x.requires_grad_(True)`: where `x` has no gradient yet, it becomes a leaf, which keeps its own.
fn require_grad_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let y = if x.requires_grad() { x } else { call.rt.parameter(&x, &call.node.name).0 };
    call.set(0, y);
    Ok(())
}
