//! Element types and tensor types: sizes and nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::bytes::Bytes;

/// Element type of a tensor, under PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 64-bit float.
    Float64,
    /// 32-bit float, the default of training.
    Float32,
    /// IEEE half precision.
    Float16,
    /// bfloat16.
    BFloat16,
    /// Any of the 8-bit floats.
    Float8,
    /// 64-bit signed integer: labels, token ids, indices.
    Int64,
    /// 32-bit signed integer.
    Int32,
    /// 16-bit signed integer.
    Int16,
    /// 8-bit signed integer.
    Int8,
    /// 64-bit unsigned integer.
    UInt64,
    /// 32-bit unsigned integer.
    UInt32,
    /// 16-bit unsigned integer.
    UInt16,
    /// 8-bit unsigned integer.
    UInt8,
    /// One byte per element, as PyTorch stores it.
    Bool,
    /// Two 32-bit floats.
    Complex64,
    /// Two 64-bit floats.
    Complex128,
}

impl DType {
    /// The type that ONNX gives this number (`TensorProto.DataType`); types below one byte count
    /// as a byte, as PyTorch would hold them unpacked. `None` for texts and what is not defined.
    pub const fn from_onnx(code: i64) -> Option<Self> {
        Some(match code {
            1 => Self::Float32,
            // UINT4 and UINT2.
            2 | 21 | 25 => Self::UInt8,
            // INT4 and INT2.
            3 | 22 | 26 => Self::Int8,
            4 => Self::UInt16,
            5 => Self::Int16,
            6 => Self::Int32,
            7 => Self::Int64,
            9 => Self::Bool,
            10 => Self::Float16,
            11 => Self::Float64,
            12 => Self::UInt32,
            13 => Self::UInt64,
            14 => Self::Complex64,
            15 => Self::Complex128,
            16 => Self::BFloat16,
            // The five 8-bit floats, and FLOAT4E2M1.
            17..=20 | 23 | 24 => Self::Float8,
            _ => return None,
        })
    }

    /// The number that ONNX gives this type, where it has one for it alone.
    pub fn to_onnx(self) -> i64 {
        (1..=16).find(|&code| Self::from_onnx(code) == Some(self)).unwrap_or_default()
    }

    /// Bytes per element.
    pub const fn size(self) -> Bytes {
        Bytes(match self {
            Self::Complex128 => 16,
            Self::Float64 | Self::Int64 | Self::UInt64 | Self::Complex64 => 8,
            Self::Float32 | Self::Int32 | Self::UInt32 => 4,
            Self::Float16 | Self::BFloat16 | Self::Int16 | Self::UInt16 => 2,
            Self::Float8 | Self::Int8 | Self::UInt8 | Self::Bool => 1,
        })
    }

    /// Whether autograd can differentiate through elements of this type.
    pub const fn is_floating(self) -> bool {
        matches!(
            self,
            Self::Float64
                | Self::Float32
                | Self::Float16
                | Self::BFloat16
                | Self::Float8
                | Self::Complex64
                | Self::Complex128
        )
    }
}

said_plainly!(DType, TensorType);

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Float64 => "float64",
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float8 => "float8",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::UInt64 => "uint64",
            Self::UInt32 => "uint32",
            Self::UInt16 => "uint16",
            Self::UInt8 => "uint8",
            Self::Bool => "bool",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
        })
    }
}

/// Dimensions or strides, outermost first; few enough to need no memory of their own.
pub type Dims = SmallVec<[u64; 6]>;

/// Element type and dimensions, all known: `float32[32, 64, 112, 112]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first; empty for a scalar.
    pub dims: Dims,
}

impl TensorType {
    /// A tensor of `dtype` with these dimensions.
    pub fn new(dtype: DType, dims: impl AsRef<[u64]>) -> Self {
        Self { dtype, dims: Dims::from_slice(dims.as_ref()) }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// COUNT: elements; saturates, so that absurd dimensions stay absurd.
    pub fn numel(&self) -> u64 {
        numel(&self.dims)
    }

    /// SIZE: bytes of a contiguous tensor of this type.
    pub fn size(&self) -> Bytes {
        self.dtype.size().times(self.numel())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// COUNT: elements of a tensor with these dimensions; saturates.
pub fn numel(dims: &[u64]) -> u64 {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d))
}
