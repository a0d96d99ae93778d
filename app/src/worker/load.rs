//! Sources for the worker: files in slices, and bytes in memory.

use highwater_core::formats::Opened;
use highwater_core::graph::Graph;
use highwater_core::source::Source;
use highwater_core::{Error, ErrorKind, say};
use js_sys::{ArrayBuffer, Date, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DedicatedWorkerGlobalScope, File, FileReaderSync};

use super::abilities::Arrived;
use super::recording::Recording;
use crate::model::distances;
use crate::model::explained::Explained;
use crate::model::protocol::Fault;

/// SIZE: of what small reads fetch at once. A reader hops from one tensor to the next and reads a
/// few bytes of each; a block saves a round trip through the browser for each of them.
const BLOCK: u64 = 64 << 10;
/// Milliseconds between two words of how much of a file was read.
const NEWS: f64 = 150.0;
/// What packed graphs begin with.
pub(crate) const GRAPH: &[u8] = b"highwater graph\n";
/// SIZE: of texts that the page shows in its editor.
const TEXT_MAX: usize = 256 << 10;

/// What the readers make of an input.
pub(crate) type Read = Result<Found, Fault>;

/// What is in an input; at least one of these.
#[derive(Default)]
pub(crate) struct Found {
    /// A model.
    pub(crate) model: Option<Opened>,
    /// What came with it.
    pub(crate) arrived: Arrived,
    /// What the model is called, where that is not the name of the input.
    pub(crate) name: Option<String>,
    /// A message that memory ran out, or `nvidia-smi`.
    pub(crate) message: Option<Explained>,
    /// A run that was recorded.
    pub(crate) recording: Option<Box<dyn Recording>>,
}

impl Found {
    /// A recorded run.
    pub(crate) fn recording(recording: impl Recording + 'static) -> Self {
        Self { recording: Some(Box::new(recording)), ..Self::default() }
    }
}

/// What the page sent to be opened.
#[derive(Debug)]
pub(crate) enum Opening {
    /// A file of the user's, in a worker.
    File(FileSource),
    /// All of it.
    Bytes(Vec<u8>),
}

impl Opening {
    /// From what travelled with a message.
    pub(crate) fn of(input: JsValue) -> Self {
        match input.dyn_into::<File>() {
            Ok(file) => Self::File(FileSource::new(file)),
            Err(bytes) => {
                Self::Bytes(Uint8Array::new(bytes.unchecked_ref::<ArrayBuffer>()).to_vec())
            }
        }
    }

    /// Lets a reader at it.
    pub(crate) fn read_by<T>(&mut self, reader: impl FnOnce(&mut dyn Source) -> T) -> T {
        match self {
            Self::File(file) => reader(file),
            Self::Bytes(bytes) => reader(&mut bytes.as_slice()),
        }
    }

    /// The graph of an example, which needs no reader.
    pub(crate) fn graph(&self) -> Option<Graph> {
        let Self::Bytes(bytes) = self else { return None };
        graph(bytes)
    }

    /// Its contents, if they are a text that a person could edit.
    pub(crate) fn text(&mut self) -> Option<String> {
        let bytes = match self {
            Self::File(file) => {
                let size = usize::try_from(file.len()).ok().filter(|&size| size <= TEXT_MAX)?;
                let mut bytes = vec![0; size];
                file.read_at(0, &mut bytes).ok()?;
                bytes
            }
            Self::Bytes(bytes) if bytes.len() <= TEXT_MAX => bytes.clone(),
            Self::Bytes(_) => return None,
        };
        let text = String::from_utf8(bytes).ok()?;
        let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        text.chars().all(is_shown).then_some(text)
    }
}

/// The graph of an example.
fn graph(bytes: &[u8]) -> Option<Graph> {
    postcard::from_bytes(bytes.strip_prefix(GRAPH)?).ok().map(distances::restored)
}

/// A browser `File` as a [`Source`], inside a worker: the only place where reading is synchronous.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: File,
    length: u64,
    block: Vec<u8>,
    block_at: u64,
    /// When the page was last informed.
    reported: f64,
}

impl FileSource {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a file's size is a whole number below 2^53"
    )]
    pub(crate) fn new(file: File) -> Self {
        let length = file.size() as u64;
        Self { file, length, block: Vec::new(), block_at: 0, reported: Date::now() }
    }

    fn fetch(&self, offset: u64, end: u64) -> Result<Vec<u8>, JsValue> {
        let blob: Blob = self.file.slice_with_f64_and_f64(to_f64(offset), to_f64(end))?;
        let buffer = FileReaderSync::new()?.read_as_array_buffer(&blob)?;
        Ok(Uint8Array::new(&buffer).to_vec())
    }

    /// Posts to the page how much was read, in percent, if reading takes long.
    fn report(&mut self, offset: u64) {
        let now = Date::now();
        if now - self.reported < NEWS {
            return;
        }
        self.reported = now;
        let percent = offset.saturating_mul(100).checked_div(self.length).unwrap_or_default();
        let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
        // Fails only for values that cannot be cloned, and numbers always can.
        drop(scope.post_message(&JsValue::from_f64(to_f64(percent))));
    }

    fn copy_from_block(&self, offset: u64, buffer: &mut [u8]) -> Option<()> {
        let start = usize::try_from(offset.checked_sub(self.block_at)?).ok()?;
        buffer.copy_from_slice(self.block.get(start..start.checked_add(buffer.len())?)?);
        Some(())
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let wanted = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        let end =
            offset.checked_add(wanted).filter(|&end| end <= self.length).ok_or_else(|| {
                Error::new(
                    ErrorKind::Corrupt,
                    say!("the file ends before byte {offset} is read", offset),
                )
            })?;
        if self.copy_from_block(offset, buffer).is_some() {
            return Ok(());
        }
        self.report(offset);
        let block_end = end.max(offset.saturating_add(BLOCK)).min(self.length);
        self.block = self.fetch(offset, block_end).map_err(|_reason| {
            Error::new(
                ErrorKind::Io,
                say!("the browser could not read the file; was it moved or changed since it was chosen"),
            )
        })?;
        self.block_at = offset;
        self.copy_from_block(offset, buffer).ok_or_else(|| {
            Error::new(ErrorKind::Io, say!("the file became shorter while it was being read"))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "offsets in a file stay far below 2^53")]
const fn to_f64(offset: u64) -> f64 {
    offset as f64
}
