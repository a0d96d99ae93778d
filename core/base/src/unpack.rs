//! A [`Source`] read as a stream: [`Stream`] unpacks gzip (RFC 1952).

use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, ErrorKind};
use crate::source::Source;

/// SIZE: bytes read at once.
const CHUNK: usize = 1 << 18;

/// The bytes of a file in their order, or what gzip packed in it.
pub struct Stream<'s>(Kind<'s>);

/// Which of the two.
enum Kind<'s> {
    Plain(BufReader<Bytes<'s>>),
    Packed(MultiGzDecoder<BufReader<Bytes<'s>>>),
}

impl<'s> Stream<'s> {
    /// From the beginning, which tells whether it is packed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(source: &'s mut dyn Source) -> Result<Self, Error> {
        let mut head = [0; 2];
        if source.len() >= 2 {
            source.read_at(0, &mut head)?;
        }
        let bytes = BufReader::with_capacity(CHUNK, Bytes { source, offset: 0 });
        Ok(Self(if head == [0x1f, 0x8b] {
            Kind::Packed(MultiGzDecoder::new(bytes))
        } else {
            Kind::Plain(bytes)
        }))
    }

    /// SIZE: of all of it, where the file says.
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Kind::Plain(bytes) => Some(bytes.get_ref().source.len()),
            Kind::Packed(_) => None,
        }
    }

    /// Checks what was packed to its end, where the checksum stands.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn check(&mut self) -> io::Result<()> {
        match self.0 {
            Kind::Plain(_) => Ok(()),
            Kind::Packed(_) => io::copy(self, &mut io::sink()).map(drop),
        }
    }
}

impl fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Kind::Plain(_) => "Plain",
            Kind::Packed(_) => "Packed",
        };
        f.debug_tuple("Stream").field(&kind).finish()
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(bytes) => bytes.read(into),
            Kind::Packed(packed) => packed.read(into).map_err(damaged),
        }
    }
}

/// Input that is not valid gzip is reported as damaged; errors of the source are passed on.
fn damaged(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            let message = say!("what gzip packed is damaged: {error}", error);
            io::Error::new(io::ErrorKind::InvalidData, Error::new(ErrorKind::Corrupt, message))
        }
        _ => error,
    }
}

/// The bytes of a file in their order.
struct Bytes<'s> {
    source: &'s mut dyn Source,
    /// Of what was not read yet.
    offset: u64,
}

impl Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.source.len().saturating_sub(self.offset);
        let count = usize::try_from(rest).unwrap_or(usize::MAX).min(into.len());
        let into = into.get_mut(..count).unwrap_or_default();
        self.source.read_at(self.offset, into).map_err(io::Error::other)?;
        self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(rest));
        Ok(count)
    }
}
