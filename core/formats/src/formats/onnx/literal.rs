//! Tensors in the file → [`Literal`] (<https://onnx.ai/onnx/repo-docs/IR.html>, "Tensors").
//!
//! - Elements lie in `raw_data`, little-endian, or in a typed field that may serve several types:
//!   `int32_data` also holds 8- and 16-bit integers, booleans and the bits of 16-bit floats.
//! - Elements are kept where `slim` left them, which is where they are few.
//! - Types below one byte are counted as one byte per element, as PyTorch would hold them unpacked.

use onnx_ir::TensorProto;

use crate::error::{Error, ErrorKind};
use crate::graph::{Elements, Literal};
use crate::sentence::Sentence;
use crate::tensor::{DType, numel};

/// COUNT: elements of a tensor that are kept at most.
const ELEMENTS_KEPT: u64 = 1 << 10;

/// Element types of `TensorProto.DataType` that have no type of their own here.
const STRING: i32 = 8;
const SUB_BYTE: std::ops::RangeInclusive<i32> = 21..=26;

/// Our name of an element type; `None` for texts and what ONNX does not define.
pub(super) fn dtype(code: i32) -> Option<DType> {
    DType::from_onnx(i64::from(code))
}

/// Whether [`dtype`] is only a stand-in for this type, which deserves a diagnostic.
pub(super) fn is_stand_in(code: i32) -> bool {
    code == STRING || SUB_BYTE.contains(&code) && code != 24
}

/// A tensor's type, and its elements where the file has them at hand.
///
/// # Errors
/// When its type is none of ONNX's, or a dimension is negative.
pub(super) fn literal(tensor: &TensorProto) -> Result<Literal, Error> {
    let invalid = |what: Sentence| {
        let message = say!("the tensor \"{name}\" has {what}", name = tensor.name, what);
        Error::new(ErrorKind::InvalidGraph, message)
    };
    let dtype = match (tensor.data_type, dtype(tensor.data_type)) {
        (_, Some(dtype)) => dtype,
        (STRING, None) => DType::UInt8,
        (code, None) => return Err(invalid(say!("element type {code}, unknown to ONNX", code))),
    };
    let dims = tensor.dims.iter().copied().map(u64::try_from).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_negative| invalid(say!("a negative dimension")))?;
    let elements = elements(tensor, dtype, numel(&dims));
    Ok(Literal { dtype, dims, elements })
}

/// That the bytes of a tensor in the file are not those of its type and dimensions. Nothing of elements in typed
/// fields or in other files.
pub(super) fn contradiction(tensor: &TensorProto, name: &str) -> Option<Sentence> {
    let kept = u64::try_from(tensor.raw_data.len()).unwrap_or(u64::MAX);
    // Of bytes that were not copied, `slim` leaves the number.
    let found = kept.max(u64::try_from(tensor.segment.get_or_default().end).unwrap_or(0));
    let dtype = dtype(tensor.data_type).filter(|_| !is_stand_in(tensor.data_type))?;
    let dims: Option<Vec<u64>> = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect();
    let needed = numel(&dims?).saturating_mul(dtype.size().0);
    (found != 0 && found != needed).then(|| {
        say!("\"{name}\" has {found} bytes where its dimensions need {needed}: the latter are counted", name, found, needed)
    })
}

fn elements(tensor: &TensorProto, dtype: DType, count: u64) -> Option<Elements> {
    let count = usize::try_from(count).ok().filter(|_| count <= ELEMENTS_KEPT)?;
    if is_stand_in(tensor.data_type) || matches!(dtype, DType::Complex64 | DType::Complex128) {
        return None;
    }
    let elements = if tensor.raw_data.is_empty() {
        typed_elements(tensor, dtype)
    } else {
        raw_elements(&tensor.raw_data, tensor.data_type, dtype)
    };
    let found = match &elements {
        Elements::Ints(list) => list.len(),
        Elements::Floats(list) => list.len(),
    };
    (found == count).then_some(elements)
}

/// Elements from `raw_data`.
fn raw_elements(raw: &[u8], code: i32, dtype: DType) -> Elements {
    match dtype {
        DType::Int64 => Elements::Ints(chunks(raw, i64::from_le_bytes)),
        DType::Int32 => Elements::Ints(chunks(raw, |b| i32::from_le_bytes(b).into())),
        DType::Int16 => Elements::Ints(chunks(raw, |b| i16::from_le_bytes(b).into())),
        DType::Int8 => Elements::Ints(chunks(raw, |b| i8::from_le_bytes(b).into())),
        DType::UInt64 => Elements::Ints(chunks(raw, |b| saturate(u64::from_le_bytes(b)))),
        DType::UInt32 => Elements::Ints(chunks(raw, |b| u32::from_le_bytes(b).into())),
        DType::UInt16 => Elements::Ints(chunks(raw, |b| u16::from_le_bytes(b).into())),
        DType::UInt8 | DType::Bool => Elements::Ints(chunks(raw, |[b]| b.into())),
        DType::Float64 => Elements::Floats(chunks(raw, f64::from_le_bytes)),
        DType::Float32 => Elements::Floats(chunks(raw, |b| f32::from_le_bytes(b).into())),
        DType::Float16 | DType::BFloat16 => {
            Elements::Floats(chunks(raw, |b| small_float(u16::from_le_bytes(b).into(), code)))
        }
        DType::Float8 | DType::Complex64 | DType::Complex128 => {
            Elements::Floats(chunks(raw, |[b]| small_float(b.into(), code)))
        }
    }
}

/// Elements from the typed field that serves this type.
fn typed_elements(tensor: &TensorProto, dtype: DType) -> Elements {
    let narrow = || tensor.int32_data.iter().copied();
    match dtype {
        DType::Int64 => Elements::Ints(tensor.int64_data.clone()),
        DType::UInt64 | DType::UInt32 => {
            Elements::Ints(tensor.uint64_data.iter().copied().map(saturate).collect())
        }
        DType::Int32 | DType::Int16 | DType::Int8 | DType::UInt16 | DType::UInt8 | DType::Bool => {
            Elements::Ints(narrow().map(i64::from).collect())
        }
        DType::Float64 => Elements::Floats(tensor.double_data.clone()),
        DType::Float32 => {
            Elements::Floats(tensor.float_data.iter().copied().map(f64::from).collect())
        }
        DType::Float16 | DType::BFloat16 | DType::Float8 | DType::Complex64 | DType::Complex128 => {
            Elements::Floats(
                narrow().map(|bits| small_float(bits.cast_unsigned(), tensor.data_type)).collect(),
            )
        }
    }
}

fn chunks<const SIZE: usize, T>(raw: &[u8], read: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    let (chunks, rest) = raw.as_chunks::<SIZE>();
    // A rest means that the size does not fit the type: then there are no elements to tell.
    if rest.is_empty() { chunks.iter().copied().map(read).collect() } else { Vec::new() }
}

fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A float of 16 or 8 bits, widened.
fn small_float(bits: u32, code: i32) -> f64 {
    match code {
        10 => infinite(bits, 5, 10).unwrap_or_else(|| widen(bits, 5, 10)),
        16 => f64::from(f32::from_bits((bits & 0xFFFF) << 16)),
        // E4M3 has no infinities; the values that shape arithmetic could meet are the same.
        17 => widen(bits, 4, 3),
        19 => infinite(bits, 5, 2).unwrap_or_else(|| widen(bits, 5, 2)),
        // FNUZ: the bias is larger by one, and negative zero is the only NaN.
        18 | 20 if bits & 0xFF == 0x80 => f64::NAN,
        18 => halve(widen(bits, 4, 3)),
        20 => halve(widen(bits, 5, 2)),
        // E8M0 is an exponent alone, with a bias of 127.
        24 if bits & 0xFF == 0xFF => f64::NAN,
        24 => f64::from_bits(u64::from((bits & 0xFF) + (1023 - 127)) << 52),
        _ => f64::NAN,
    }
}

/// Infinity or NaN of a type that has them: all bits of the exponent are set.
fn infinite(bits: u32, exponent_bits: u32, fraction_bits: u32) -> Option<f64> {
    let exponent_max = (1 << exponent_bits) - 1;
    let sign = bits >> (exponent_bits + fraction_bits) & 1;
    let fraction = bits & ((1 << fraction_bits) - 1);
    (bits >> fraction_bits & exponent_max == exponent_max).then_some(match (fraction, sign) {
        (0, 0) => f64::INFINITY,
        (0, _) => f64::NEG_INFINITY,
        _ => f64::NAN,
    })
}

/// A finite float with so many bits of exponent and of fraction, by its bits alone.
fn widen(bits: u32, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let sign = u64::from(bits >> (exponent_bits + fraction_bits) & 1) << 63;
    let exponent_max = (1 << exponent_bits) - 1;
    let exponent = bits >> fraction_bits & exponent_max;
    let fraction = bits & ((1 << fraction_bits) - 1);
    let bias = exponent_max >> 1;
    let magnitude = if exponent == 0 && fraction == 0 {
        0
    } else if exponent == 0 {
        // Subnormal: the leading one moves up to the hidden place.
        let shift = fraction.leading_zeros() - (31 - fraction_bits);
        let fraction = (u64::from(fraction) << shift) & ((1 << fraction_bits) - 1);
        u64::from(1023 + 1 - bias - shift) << 52 | fraction << (52 - fraction_bits)
    } else {
        u64::from(exponent + 1023 - bias) << 52 | u64::from(fraction) << (52 - fraction_bits)
    };
    f64::from_bits(sign | magnitude)
}

/// Half of a normal number or zero, by its bits alone.
fn halve(value: f64) -> f64 {
    let bits = value.to_bits();
    if bits << 1 == 0 { value } else { f64::from_bits(bits.wrapping_sub(1 << 52)) }
}

#[cfg(test)]
mod tests {
    use super::small_float;

    #[test]
    #[expect(clippy::float_cmp, reason = "widening is exact")]
    fn small_floats_widen_exactly() {
        let cases = [
            (10, 0x3C00, 1.0),
            (10, 0xC000, -2.0),
            (10, 0x0001, 2_f64.powi(-24)),
            (10, 0x03FF, 1023.0 * 2_f64.powi(-24)),
            (10, 0x7BFF, 65504.0),
            (10, 0xFC00, f64::NEG_INFINITY),
            (10, 0x0000, 0.0),
            (16, 0x3FC0, 1.5),
            (16, 0xFF80, f64::NEG_INFINITY),
            (17, 0x38, 1.0),
            (17, 0x7E, 448.0),
            (18, 0x40, 1.0),
            (19, 0x7B, 57344.0),
            (20, 0x40, 1.0),
            (20, 0x7F, 57344.0),
            (24, 127, 1.0),
        ];
        for (code, bits, expected) in cases {
            assert_eq!(small_float(bits, code), expected, "type {code}, bits {bits:#x}");
        }
        for (code, bits) in [(10, 0x7E00), (18, 0x80), (24, 0xFF)] {
            assert!(small_float(bits, code).is_nan(), "type {code}, bits {bits:#x}");
        }
    }
}
