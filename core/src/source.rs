//! Bytes at an offset: a native file, a browser `File`, or memory.
//!
//! The one door through which `core` reads. A reader asks for the few slices it needs, so that a
//! file of many gigabytes costs no more than its structure.

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
                Error::new(ErrorKind::Corrupt, format!("the file ends before byte {offset}"))
            })?;
        buffer.copy_from_slice(slice);
        Ok(())
    }
}
