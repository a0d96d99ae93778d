//! [`FreeBlocks`]: the free blocks of one pool, smallest first.
//!
//! # Note: the order
//! By size, then by address. PyTorch compares the stream first; there is one. Since 2.13 it breaks
//! ties by the creation of the segment, then by address; our addresses grow with each
//! segment, so that the address alone says both. Up to 2.11 ties went by the driver's addresses, which
//! mostly grow as well.
//!
//! # Note: the structure
//! A sorted row, cut into chunks of at most [`CHUNK`] entries: a B-tree of two levels. Moving a
//! few hundred bytes costs less than walking a deeper tree, a training step seldom has more
//! than a few hundred free blocks, and with a hundred thousand it still does not break down.

use super::BlockId;
use crate::bytes::Bytes;

/// COUNT: entries in a chunk, at most.
const CHUNK: usize = 64;

/// A free block, as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) size: Bytes,
    pub(super) address: Bytes,
    pub(super) id: BlockId,
}

impl Entry {
    const fn key(&self) -> (Bytes, Bytes) {
        (self.size, self.address)
    }
}

/// A set of free blocks in the order in which they are chosen. No chunk is empty.
#[derive(Clone, Debug)]
pub(super) struct FreeBlocks {
    chunks: Vec<Vec<Entry>>,
}

impl FreeBlocks {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// The first block of at least this size: the best fit.
    pub(super) fn first_at_least(&self, size: Bytes) -> Option<Entry> {
        let (chunk, at) = self.position((size, Bytes::ZERO));
        self.chunks.get(chunk)?.get(at).copied()
    }

    /// The largest block.
    pub(super) fn last(&self) -> Option<Entry> {
        self.chunks.last()?.last().copied()
    }

    /// All blocks, smallest first.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.chunks.iter().flatten().map(|entry| entry.id)
    }

    pub(super) fn insert(&mut self, size: Bytes, address: Bytes, id: BlockId) {
        let entry = Entry { size, address, id };
        let (mut at_chunk, mut at) = self.position(entry.key());
        if at_chunk == self.chunks.len() {
            // Behind the last entry: the end of the last chunk, if there is one.
            at_chunk = at_chunk.saturating_sub(1);
            at = self.chunks.last().map_or(0, Vec::len);
        }
        let Some(chunk) = self.chunks.get_mut(at_chunk) else {
            let mut chunk = Vec::with_capacity(CHUNK);
            chunk.push(entry);
            self.chunks.push(chunk);
            return;
        };
        if chunk.len() < CHUNK {
            chunk.insert(at, entry);
            return;
        }
        let half = CHUNK >> 1;
        let mut upper = Vec::with_capacity(CHUNK);
        upper.extend(chunk.drain(half..));
        if at <= half {
            chunk.insert(at, entry);
        } else {
            upper.insert(at.saturating_sub(half), entry);
        }
        self.chunks.insert(at_chunk.saturating_add(1), upper);
    }

    /// Takes a block out; one that is not in the set is ignored.
    pub(super) fn remove(&mut self, size: Bytes, address: Bytes) {
        let (at_chunk, at) = self.position((size, address));
        let Some(chunk) = self.chunks.get_mut(at_chunk) else { return };
        if chunk.get(at).is_none_or(|entry| entry.key() != (size, address)) {
            return;
        }
        chunk.remove(at);
        if chunk.is_empty() {
            self.chunks.remove(at_chunk);
        }
    }

    /// Chunk and index of the first entry that is not below `key`; the number of chunks, and 0,
    /// if all are.
    fn position(&self, key: (Bytes, Bytes)) -> (usize, usize) {
        let chunk =
            self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.key() < key));
        let at = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(|entry| entry.key() < key));
        (chunk, at)
    }
}
