//! [`FreeBlocks`]: the free blocks of one pool, in the order in which they are chosen.
//!
//! The unmapped blocks of a pool are such a set too, all of size zero: in the order of addresses.
//!
//! By size, then by address. PyTorch compares the stream first; there is one. Since 2.13 it breaks
//! ties by the creation of the segment, then by address; our addresses grow with each segment, so
//! that the address alone says both. Up to 2.11 ties went by the driver's addresses, which mostly
//! grow as well.
//!
//! A B-tree comes within a tenth of the fastest structure tried, a sorted row in chunks, and with a
//! hundred thousand free blocks is nearly as fast as with a hundred: `examples/replay_speed.rs`.

use std::collections::BTreeMap;

use super::BlockId;
use crate::bytes::Bytes;

/// A free block, as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeBlock {
    pub(super) size: Bytes,
    pub(super) address: Bytes,
    pub(super) id: BlockId,
}

/// An ordered set of free blocks.
#[derive(Clone, Debug)]
pub(super) struct FreeBlocks {
    by_size_and_address: BTreeMap<(Bytes, Bytes), BlockId>,
}

impl FreeBlocks {
    pub(super) const fn new() -> Self {
        Self { by_size_and_address: BTreeMap::new() }
    }

    /// The first block of at least this size: the best fit.
    pub(super) fn first_at_least(&self, size: Bytes) -> Option<FreeBlock> {
        self.from(size).next()
    }

    /// All blocks of at least this size, smallest first.
    pub(super) fn from(&self, size: Bytes) -> impl Iterator<Item = FreeBlock> + '_ {
        let found = self.by_size_and_address.range((size, Bytes::ZERO)..);
        found.map(|(&(size, address), &id)| FreeBlock { size, address, id })
    }

    /// The largest block.
    pub(super) fn last(&self) -> Option<FreeBlock> {
        let last = self.by_size_and_address.last_key_value();
        last.map(|(&(size, address), &id)| FreeBlock { size, address, id })
    }

    /// All blocks, smallest first.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.by_size_and_address.values().copied()
    }

    pub(super) fn insert(&mut self, block: FreeBlock) {
        self.by_size_and_address.insert((block.size, block.address), block.id);
    }

    /// Takes a block out; one that is not in the set is ignored.
    pub(super) fn remove(&mut self, size: Bytes, address: Bytes) {
        self.by_size_and_address.remove(&(size, address));
    }
}
