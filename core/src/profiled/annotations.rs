//! Annotations with which a script describes its tensors: an annotation's name lists them.
//!
//! The profiler begins after parameters and the batch were made, or they come from a file without a call to the
//! allocator. So a trace does not contain them. The snippet of `docs/profiles.md` sets an annotation named
//! `highwater parameter:float32[64,3,7,7] buffer:float32[64] batch:int64[8]`.

use crate::tensor::{DType, TensorType};
use crate::trace::Category;

/// How the annotation begins.
const HEAD: &str = "highwater ";

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnnotatedRole {
    /// A parameter that is trained.
    Parameter,
    /// One that is not.
    Frozen,
    /// A buffer.
    Buffer,
    /// Part of the batch.
    Batch,
}

impl AnnotatedRole {
    /// What it is in the answer.
    pub const fn category(self) -> Category {
        match self {
            Self::Parameter | Self::Frozen => Category::Parameter,
            Self::Buffer => Category::Buffer,
            Self::Batch => Category::Input,
        }
    }
}

/// One tensor that is there before the first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// What it is.
    pub kind: AnnotatedRole,
    /// Its type and dimensions.
    pub tensor: TensorType,
}

/// The tensors that a mark tells of, or the word that is not understood; `None` where it is another mark.
pub(super) fn read(name: &str) -> Option<Result<Vec<Annotation>, String>> {
    let words = name.strip_prefix(HEAD)?.split_whitespace();
    Some(words.map(|word| tensor(word).ok_or_else(|| word.to_owned())).collect())
}

fn tensor(word: &str) -> Option<Annotation> {
    let (kind, rest) = word.split_once(':')?;
    let kind = match kind {
        "parameter" => AnnotatedRole::Parameter,
        "frozen" => AnnotatedRole::Frozen,
        "buffer" => AnnotatedRole::Buffer,
        "batch" => AnnotatedRole::Batch,
        _ => return None,
    };
    let (dtype, dims) = rest.strip_suffix(']')?.split_once('[')?;
    Some(Annotation { kind, tensor: TensorType::new(of_pytorch(dtype)?, numbers(dims)?) })
}

/// `2,3`.
pub(super) fn numbers(list: &str) -> Option<Vec<u64>> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

fn of_pytorch(name: &str) -> Option<DType> {
    Some(match name {
        "float64" => DType::Float64,
        "float32" => DType::Float32,
        "float16" => DType::Float16,
        "bfloat16" => DType::BFloat16,
        "int64" => DType::Int64,
        "int32" => DType::Int32,
        "int16" => DType::Int16,
        "int8" => DType::Int8,
        "uint8" => DType::UInt8,
        "bool" => DType::Bool,
        "complex64" => DType::Complex64,
        _ => return None,
    })
}
