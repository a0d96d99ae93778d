//! Bytes at an offset: a native file, a browser `File`, or memory.
//!
//! The only interface through which `core` reads. A reader asks for the few slices it needs, so that a file of
//! many gigabytes costs no more than its structure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// Random access to the bytes of an input.
pub trait Source {
    /// SIZE: bytes in all.
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the range does not lie inside the input, or the medium fails.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;

    /// The same from another file in the same folder; whether there is one with these bytes, and it may be read.
    fn read_next_to(&mut self, _name: &str, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }
}

impl Source for &[u8] {
    fn len(&self) -> u64 {
        u64::try_from(<[u8]>::len(self)).unwrap_or(u64::MAX)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let slice = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, say!("the file ends before byte {offset}", offset))
            })?;
        buffer.copy_from_slice(slice);
        Ok(())
    }
}

/// What reading a model took: the proof that weights are left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadStats {
    /// SIZE: bytes of the input.
    pub file_bytes: u64,
    /// SUM: bytes that were read.
    pub bytes_read: u64,
    /// COUNT: reads.
    pub reads: u64,
}

/// A [`Source`] that counts what is read through it.
///
/// ```
/// use highwater_base::source::{Counted, Source};
/// let mut bytes: &[u8] = &[0; 100];
/// let mut counted = Counted::new(&mut bytes);
/// counted.read_at(10, &mut [0; 5]).unwrap();
/// assert_eq!((counted.stats().bytes_read, counted.stats().file_bytes), (5, 100));
/// ```
pub struct Counted<'s> {
    source: &'s mut dyn Source,
    stats: ReadStats,
}

impl<'s> Counted<'s> {
    /// Counts from zero.
    pub fn new(source: &'s mut dyn Source) -> Self {
        let stats = ReadStats { file_bytes: source.len(), ..ReadStats::default() };
        Self { source, stats }
    }

    /// What was read so far.
    pub const fn stats(&self) -> ReadStats {
        self.stats
    }
}

impl fmt::Debug for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl Source for Counted<'_> {
    fn len(&self) -> u64 {
        self.stats.file_bytes
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.stats.reads += 1;
        self.stats.bytes_read += u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        self.source.read_at(offset, buffer)
    }

    fn read_next_to(&mut self, name: &str, offset: u64, buffer: &mut [u8]) -> bool {
        self.source.read_next_to(name, offset, buffer)
    }
}
