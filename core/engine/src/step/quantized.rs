//! Weights that bitsandbytes quantises on their way to the device: packed values and their statistics.
//!
//! Source: `Params4bit` and `Int8Params` in `bitsandbytes/nn/modules.py` and `bitsandbytes/functional.py`, 0.50.

use crate::config::{Config, Quantize};
use crate::eager::{Runtime, Tensor, kernels};
use crate::ops::BLOCKS;
use crate::tensor::{DType, Dims, TensorType};
use crate::trace::Category;

/// COUNT: values that 4 bits and that 8 bits stand for.
const VALUES: [u64; 2] = [16, 256];

/// The operator that quantises a weight.
pub const QUANTIZE: &str = "bitsandbytes::quantize";

/// The same of a weight that is quantised on the host, where it waits: the packed values, then the statistics in the
/// order in which they come to the device.
pub(super) fn waiting(ty: &TensorType, config: &Config) -> (TensorType, Vec<TensorType>) {
    let single = |count: u64| TensorType::new(DType::Float32, [count]);
    if config.quantize == Quantize::Int8 {
        let rows = ty.dims.first().copied().unwrap_or(1);
        return (TensorType::new(DType::Int8, ty.dims.clone()), vec![single(rows)]);
    }
    let [block, outer] = BLOCKS;
    let [few, many] = VALUES;
    let blocks = ty.numel().div_ceil(block);
    let packed = TensorType::new(DType::UInt8, [ty.numel().div_ceil(2), 1]);
    if !config.double_quantize {
        return (packed, vec![single(few), single(blocks)]);
    }
    let small = TensorType::new(DType::UInt8, [blocks]);
    let offset = TensorType::new(DType::Float32, Dims::new());
    (packed, vec![single(few), small, offset, single(blocks.div_ceil(outer)), single(many)])
}

/// A weight of this type on the device, and what is needed to restore it; the `first` brings a table that all share.
pub(super) fn load(
    rt: &Runtime,
    ty: &TensorType,
    config: &Config,
    name: &str,
    first: bool,
) -> (Tensor, Vec<Tensor>) {
    rt.enter_operator(QUANTIZE);
    let place =
        |dtype, sizes: &[u64], category| rt.place(&TensorType::new(dtype, sizes), category, name);
    let keep = |dtype, sizes: &[u64]| place(dtype, sizes, Category::Buffer);
    let single = DType::Float32;
    if config.quantize == Quantize::Int8 {
        let _whole = rt.empty(DType::Float16, &ty.dims);
        let scales = keep(single, ty.dims.get(..1).unwrap_or_default());
        return (place(DType::Int8, &ty.dims, Category::Parameter), vec![scales]);
    }
    let [block, outer] = BLOCKS;
    let blocks = ty.numel().div_ceil(block);
    let whole = rt.empty(ty.dtype, &ty.dims);
    let is_double = config.double_quantize;
    let scales = if is_double { rt.empty(single, &[blocks]) } else { keep(single, &[blocks]) };
    let packed = place(DType::UInt8, &[ty.numel().div_ceil(2), 1], Category::Parameter);
    let [few, many] = VALUES;
    let mut kept = vec![keep(single, &[few])];
    let magnitudes = rt.empty(single, &[few]);
    let largest = rt.empty(single, &[]);
    drop(magnitudes);
    drop(largest);
    if !is_double {
        kept.push(scales);
        return (packed, kept);
    }
    kept.push(keep(single, &[]));
    kernels::reduce_into_place(rt, &scales, &[true]);
    let shifted = rt.empty(single, &[blocks]);
    if first {
        kept.push(keep(single, &[many]));
    }
    kept.push(keep(single, &[blocks.div_ceil(outer)]));
    kept.push(keep(DType::UInt8, &[blocks]));
    kept.push(keep(single, &[many]));
    drop(shifted);
    drop(scales);
    drop(whole);
    (packed, kept)
}
