//! GGUF files, and the memory of llama.cpp.
//!
//! The header of a file lists its tensors and types, so that weights are exact. llama.cpp allocates the weights of the
//! offloaded layers, and the cache for the whole context at once. Its compute buffer is not given: published logs do
//! not state enough to compare it. Source: `gguf-py/gguf/constants.py`, `src/llama-kv-cache.cpp`.

use std::collections::BTreeMap;

use crate::bytes::Bytes;
use crate::device::{Context, Device};
use crate::error::{Error, ErrorKind};
use crate::source::Source;

use super::cache::{Division, count};
use super::model::Served;
use super::vllm::{Parts, finish};
use super::weights::Weights;
use super::{Row, Serving};

/// What llama.cpp has on a GPU: the whole memory but for the CUDA context.
pub(super) fn row(
    model: &Served,
    settings: &Serving,
    weights: &Weights,
    device: &'static Device,
) -> Row {
    let context = device.context_range(false);
    let layers = count(model.cache.layers.len());
    let offloaded = settings.gpu_layers.unwrap_or(u64::MAX).min(layers);
    let has_output = settings.gpu_layers.is_none_or(|offloaded| offloaded > layers);
    let stored = |tensors: &[Tensor]| -> Bytes {
        let is_offloaded = |tensor: &&Tensor| {
            let layer = tensor.name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
            match layer.and_then(|layer| layer.parse::<u64>().ok()) {
                // The last ones are offloaded first.
                Some(layer) => layer >= layers.saturating_sub(offloaded),
                // The table of embeddings stays in the host's memory.
                None => has_output && !tensor.name.starts_with("token_embd"),
            }
        };
        tensors.iter().filter(is_offloaded).map(|tensor| tensor.size).sum()
    };
    let all = || model.sizes(weights, settings.tp, device).into_iter().sum();
    let part = |size: Bytes| Bytes(size.times(offloaded).0.checked_div(layers).unwrap_or(0));
    let parts = Parts {
        budget: settings.utilization.map_or(device.capacity, |share| share.of(device.capacity)),
        weights: model.stored.as_deref().map_or_else(all, stored),
        activations: Bytes::ZERO,
        non_torch: context,
        graphs: Context::default(),
    };
    let per_token = part(model.cache.bytes_per_token(settings.kv_type, settings.tp));
    let request = part(model.cache.request(settings.kv_type, settings.tp, settings.context));
    let divide = |size: Bytes| Division {
        blocks: size.0.checked_div(per_token.0).unwrap_or(0),
        tokens: size.0.checked_div(per_token.0).unwrap_or(0),
        concurrency: size.0.saturating_mul(100).checked_div(request.0).unwrap_or(0),
        request,
    };
    let mut row = finish(device, &parts, [512, u64::MAX], divide);
    row.notes.push(say!(
        "The compute buffer of llama.cpp is not counted: published logs do not state enough to compare it."
    ));
    row
}

/// The header of a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// Numbers and texts by key, such as `llama.block_count`.
    pub metadata: BTreeMap<String, Value>,
    /// Each tensor.
    pub tensors: Vec<Tensor>,
}

/// A tensor of a GGUF file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// SIZE: its bytes.
    pub size: Bytes,
}

/// A value of the metadata; lists are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

/// Types by their number: elements and bytes of a block.
const TYPES: [(u32, u64, u64); 34] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 40),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
    (40, 64, 36),
    (41, 128, 18),
];

/// COUNT: the most that a header may list.
const ENTRIES_MAX: u64 = 1 << 20;
/// SIZE: the longest text that is kept.
const TEXT_MAX: u64 = 1 << 16;

/// Reads the header of a GGUF file.
///
/// # Errors
/// When the file is none, or its header is damaged.
pub fn header(source: &mut dyn Source) -> Result<Header, Error> {
    let mut reader = Reader { source, at: 0 };
    if reader.take::<4>()? != *b"GGUF" {
        return Err(Error::new(ErrorKind::WrongFormat, say!("this is no GGUF file")));
    }
    let version = reader.u32()?;
    if !matches!(version, 2 | 3) {
        return Err(Error::new(
            ErrorKind::WrongFormat,
            say!("GGUF {version} is unknown; versions 2 and 3 are read", version),
        ));
    }
    let (tensors, entries) = (reader.u64()?, reader.u64()?);
    if tensors > ENTRIES_MAX || entries > ENTRIES_MAX {
        return Err(corrupt());
    }
    let mut header = Header::default();
    for _ in 0..entries {
        let key = reader.text()?;
        let kind = reader.u32()?;
        if let Some(value) = reader.value(kind)? {
            header.metadata.insert(key, value);
        }
    }
    for _ in 0..tensors {
        let name = reader.text()?;
        let rank = reader.u32()?;
        if rank > 4 {
            return Err(corrupt());
        }
        let mut numel: u64 = 1;
        for _ in 0..rank {
            numel = numel.checked_mul(reader.u64()?).ok_or_else(corrupt)?;
        }
        let kind = reader.u32()?;
        let _offset = reader.u64()?;
        let row = TYPES.iter().find(|(number, ..)| *number == kind);
        let (_, elements, bytes) = row.ok_or_else(|| {
            Error::new(
                ErrorKind::WrongFormat,
                say!("the tensor `{name}` has type {kind}, which is unknown", name = &name, kind),
            )
        })?;
        header.tensors.push(Tensor { name, size: Bytes(*bytes).times(numel.div_ceil(*elements)) });
    }
    Ok(header)
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, say!("the header of this GGUF file is damaged"))
}

struct Reader<'s> {
    source: &'s mut dyn Source,
    at: u64,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.source.read_at(self.at, &mut bytes)?;
        self.skip(u64::try_from(N).unwrap_or(u64::MAX))?;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        self.at =
            self.at.checked_add(bytes).filter(|at| *at <= self.source.len()).ok_or_else(corrupt)?;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Error> {
        let len = self.u64()?;
        if len > TEXT_MAX {
            self.skip(len)?;
            return Ok(String::new());
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_too_long| corrupt())?];
        self.source.read_at(self.at, &mut bytes)?;
        self.skip(len)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A value of a type; `None` for lists and fractions.
    fn value(&mut self, kind: u32) -> Result<Option<Value>, Error> {
        let number = match kind {
            0 | 1 | 7 => self.take::<1>()?.first().copied().map(u64::from),
            2 | 3 => Some(u64::from(u16::from_le_bytes(self.take()?))),
            4 | 5 => Some(u64::from(self.u32()?)),
            10 | 11 => Some(self.u64()?),
            6 => self.take::<4>().map(|_| None)?,
            12 => self.take::<8>().map(|_| None)?,
            8 => return Ok(Some(Value::Text(self.text()?))),
            9 => {
                let (kind, len) = (self.u32()?, self.u64()?);
                self.list(kind, len)?;
                None
            }
            _ => return Err(corrupt()),
        };
        Ok(number.map(Value::Number))
    }

    /// Passes over a list.
    fn list(&mut self, kind: u32, len: u64) -> Result<(), Error> {
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 if len <= ENTRIES_MAX => {
                for _ in 0..len {
                    let bytes = self.u64()?;
                    self.skip(bytes)?;
                }
                return Ok(());
            }
            _ => return Err(corrupt()),
        };
        self.skip(len.checked_mul(size).ok_or_else(corrupt)?)
    }
}
