//! Protobuf's wire format over a [`Source`]
//! (<https://protobuf.dev/programming-guides/encoding/>).
//!
//! - The reader holds one window of the file. After a jump the window is small, and it doubles
//!   while the reading goes on without one: a header between two weights costs a few kilobytes, a
//!   long list of nodes few reads.
//! - Every length is checked against the end of what encloses it before it is used.

use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;
use crate::source::Source;

/// SIZE: bytes of the window after a jump.
const WINDOW_MIN: usize = 4 << 10;
/// SIZE: bytes of the window at most.
const WINDOW_MAX: usize = 32 << 10;
/// SIZE: bytes that may be passed over without making the window small again.
const GAP_MAX: u64 = 4 << 10;

/// How a field's value is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    /// A variable-length integer.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length, then so many bytes.
    Delimited,
    /// Four bytes.
    Fixed32,
}

/// Number and wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) field: u64,
    pub(super) wire: WireType,
}

/// A position in a file, seen through a window.
pub(super) struct Reader<'s> {
    source: &'s mut dyn Source,
    /// SIZE: bytes of the file.
    pub(super) size: u64,
    /// Offset of the next byte.
    pub(super) at: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s mut dyn Source) -> Self {
        let size = source.len();
        Self { source, size, at: 0, window: Vec::new(), window_start: 0 }
    }

    /// The tag of the next field.
    pub(super) fn tag(&mut self, end: u64) -> Result<Tag, Error> {
        let start = self.at;
        let key = self.varint(end)?;
        let wire = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Delimited,
            5 => WireType::Fixed32,
            _ => return Err(corrupt(start, &say!("a field of an unknown wire type"))),
        };
        match key >> 3 {
            0 => Err(corrupt(start, &say!("a field without a number"))),
            field => Ok(Tag { field, wire }),
        }
    }

    /// A variable-length integer that must end before `end`.
    pub(super) fn varint(&mut self, end: u64) -> Result<u64, Error> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Err(self.truncated(end));
            }
            let byte = self.peek()?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt(start, &say!("an integer of more than ten bytes")))
    }

    /// The end of a field whose length comes next; it lies not beyond `end`.
    pub(super) fn delimited(&mut self, end: u64) -> Result<u64, Error> {
        let size = self.varint(end)?;
        match self.at.checked_add(size) {
            Some(field_end) if field_end <= end => Ok(field_end),
            _ if end == self.size => Err(Error::new(
                ErrorKind::Corrupt,
                say!(
                    "the file is truncated at byte {end}: a field at byte {at} is {size} bytes long; \
                     copy or download it again",
                    end,
                    at = self.at,
                    size
                ),
            )),
            _ => Err(corrupt(self.at, &say!("a field that is longer than what encloses it"))),
        }
    }

    /// Appends the next `size` bytes, which must end before `end`.
    pub(super) fn copy(&mut self, size: u64, end: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let until = self.at.checked_add(size).filter(|&until| until <= end);
        let until = until.ok_or_else(|| self.truncated(end))?;
        while self.at < until {
            self.fetch(1)?;
            let rest = self.rest();
            let wanted = usize::try_from(until - self.at).unwrap_or(usize::MAX);
            let part = rest.get(..wanted).unwrap_or(rest);
            out.extend_from_slice(part);
            self.at += length(part);
        }
        Ok(())
    }

    /// Goes on `size` bytes later, which must not be beyond `end`.
    pub(super) fn skip(&mut self, size: u64, end: u64) -> Result<(), Error> {
        let until = self.at.checked_add(size).filter(|&until| until <= end);
        self.at = until.ok_or_else(|| self.truncated(end))?;
        Ok(())
    }

    /// Whether these bytes come next.
    pub(super) fn is_next(&mut self, bytes: &[u8], end: u64) -> Result<bool, Error> {
        if self.at.checked_add(length(bytes)).is_none_or(|until| until > end) {
            return Ok(false);
        }
        self.fetch(length(bytes))?;
        Ok(self.rest().starts_with(bytes))
    }

    fn truncated(&self, end: u64) -> Error {
        if end == self.size {
            let message =
                say!("the file is truncated at byte {end}; copy or download it again", end);
            return Error::new(ErrorKind::Corrupt, message);
        }
        corrupt(self.at, &say!("a field that is longer than what encloses it"))
    }

    fn peek(&mut self) -> Result<u8, Error> {
        self.fetch(1)?;
        self.rest().first().copied().ok_or_else(|| self.truncated(self.size))
    }

    /// What the window holds from the position on.
    fn rest(&self) -> &[u8] {
        let offset = self.at.checked_sub(self.window_start).map(usize::try_from);
        let Some(Ok(offset)) = offset else { return &[] };
        self.window.get(offset..).unwrap_or_default()
    }

    /// Makes the window hold the position and some bytes from it on, unless the file ends there.
    fn fetch(&mut self, wanted: u64) -> Result<(), Error> {
        let wanted = wanted.min(self.size.saturating_sub(self.at)).max(1);
        if length(self.rest()) >= wanted {
            return Ok(());
        }
        let end = self.window_start.saturating_add(length(&self.window));
        // Short gaps are not worth a new start: a stack trace, a small tensor.
        let goes_on = (self.window_start..=end.saturating_add(GAP_MAX)).contains(&self.at);
        let size = if goes_on { self.window.len().saturating_mul(2) } else { 0 };
        let size = size.clamp(WINDOW_MIN, WINDOW_MAX);
        let left = self.size.saturating_sub(self.at);
        let size = usize::try_from(left).map_or(size, |left| left.min(size));
        if size == 0 {
            return Err(self.truncated(self.size));
        }
        self.window.resize(size, 0);
        self.window_start = self.at;
        self.source.read_at(self.at, &mut self.window)
    }
}

/// Appends a variable-length integer.
pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = (value & 0x7F).to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Appends a tag.
pub(super) fn put_tag(tag: Tag, out: &mut Vec<u8>) {
    let wire = match tag.wire {
        WireType::Varint => 0,
        WireType::Fixed64 => 1,
        WireType::Delimited => 2,
        WireType::Fixed32 => 5,
    };
    put_varint(tag.field << 3 | wire, out);
}

/// SIZE: of a slice, as files count.
pub(super) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The file contradicts its own format at this byte.
pub(super) fn corrupt(at: u64, what: &Sentence) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        say!("the ONNX file is damaged: at byte {at} is {what}", at, what),
    )
}
