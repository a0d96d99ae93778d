//! A [`Source`] read from its beginning to its end: [`Stream`] unpacks what is packed with gzip (RFC 1952).

use std::io::{self, Read};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

use crate::error::Error;
use crate::source::Source;

/// SIZE: what is read at once.
const CHUNK: u64 = 1 << 18;

/// The bytes of a file in their order, or what gzip packed in it.
pub(crate) enum Stream<'s> {
    Plain(Bytes<'s>),
    Packed(Unpacked<'s>),
}

impl<'s> Stream<'s> {
    /// From the beginning, which tells whether it is packed.
    pub(crate) fn of(source: &'s mut dyn Source) -> Result<Self, Error> {
        let mut head = [0; 2];
        if source.len() >= 2 {
            source.read_at(0, &mut head)?;
        }
        let bytes = Bytes::new(source);
        Ok(if head == [0x1f, 0x8b] {
            Self::Packed(Unpacked::new(bytes))
        } else {
            Self::Plain(bytes)
        })
    }

    /// SIZE: of all of it, where the file says.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Plain(bytes) => Some(bytes.source.len()),
            Self::Packed(_) => None,
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(into),
            Self::Packed(unpacked) => unpacked.read(into),
        }
    }
}

/// The bytes of a file in their order.
pub(crate) struct Bytes<'s> {
    source: &'s mut dyn Source,
    buffer: Vec<u8>,
    /// Position in `buffer`.
    at: usize,
    /// Offset of what was not read yet.
    offset: u64,
}

impl<'s> Bytes<'s> {
    fn new(source: &'s mut dyn Source) -> Self {
        Self { source, buffer: Vec::new(), at: 0, offset: 0 }
    }

    /// What is there; nothing at the end.
    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.buffer.len() {
            let rest = self.source.len().saturating_sub(self.offset).min(CHUNK);
            self.buffer.resize(usize::try_from(rest).unwrap_or_default(), 0);
            self.at = 0;
            self.source.read_at(self.offset, &mut self.buffer).map_err(io::Error::other)?;
            self.offset = self.offset.saturating_add(rest);
        }
        Ok(self.buffer.get(self.at..).unwrap_or_default())
    }

    fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill()?.first().copied();
        self.skip(1);
        Ok(byte)
    }

    /// A byte that has to be there.
    fn next(&mut self) -> io::Result<u8> {
        self.byte()?.ok_or_else(cut)
    }
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let have = self.fill()?;
        let count = have.len().min(into.len());
        if let (Some(into), Some(have)) = (into.get_mut(..count), have.get(..count)) {
            into.copy_from_slice(have);
        }
        self.skip(count);
        Ok(count)
    }
}

/// What gzip packed.
pub(crate) struct Unpacked<'s> {
    packed: Bytes<'s>,
    /// Of the member that is read; `None` between members.
    state: Option<Box<InflateState>>,
}

impl<'s> Unpacked<'s> {
    const fn new(packed: Bytes<'s>) -> Self {
        Self { packed, state: None }
    }

    /// The head of a member; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        let Some(first) = self.packed.byte()? else { return Ok(false) };
        let head = [first, self.packed.next()?, self.packed.next()?];
        if head != [0x1f, 0x8b, 8] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not packed with gzip"));
        }
        let flags = self.packed.next()?;
        for _ in 0..6 {
            self.packed.next()?;
        }
        if flags & 4 != 0 {
            let length = u16::from_le_bytes([self.packed.next()?, self.packed.next()?]);
            for _ in 0..length {
                self.packed.next()?;
            }
        }
        // A name and a comment, each up to a zero.
        for flag in [8, 16] {
            while flags & flag != 0 && self.packed.next()? != 0 {}
        }
        if flags & 2 != 0 {
            self.packed.next()?;
            self.packed.next()?;
        }
        self.state = Some(InflateState::new_boxed(DataFormat::Raw));
        Ok(true)
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if self.state.is_none() && !self.begin()? {
                return Ok(0);
            }
            let Some(state) = &mut self.state else { return Ok(0) };
            let have = self.packed.fill()?;
            let is_end = have.is_empty();
            let done = inflate(state, have, into, MZFlush::None);
            self.packed.skip(done.bytes_consumed);
            match done.status {
                Ok(MZStatus::StreamEnd) => {
                    self.state = None;
                    // The checksum and the length; what is damaged is seldom JSON.
                    for _ in 0..8 {
                        self.packed.next()?;
                    }
                }
                Ok(_) => {}
                Err(miniz_oxide::MZError::Buf) if !is_end => {}
                Err(miniz_oxide::MZError::Buf) => return Err(cut()),
                Err(_) => {
                    let why = "what gzip packed is damaged";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
            if done.bytes_written > 0 {
                return Ok(done.bytes_written);
            }
            if is_end && self.state.is_some() {
                return Err(cut());
            }
        }
    }
}
