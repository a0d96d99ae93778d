//! [`FreeBlocks`]: the free blocks of one pool and stream, in the order in which they are chosen.
//!
//! The unmapped blocks of a pool are such a set too, all of size zero: in the order of addresses.
//!
//! By size, then by address. PyTorch has one set for all streams, and compares the stream first. Since 2.13 it
//! breaks ties by the creation of the segment, then by address; our addresses grow with each segment, so the
//! address alone decides both. Up to 2.11 ties went by the driver's addresses, which mostly grow as well.
//!
//! A training run has some dozen free blocks at a time, so they are one sorted row: a search in it
//! takes few steps, and to insert moves little. A row that grows long is halved, so that a hundred
//! thousand free blocks cost not much more: `examples/replay_speed.rs`.

use super::BlockId;
use crate::bytes::Bytes;

/// COUNT: blocks that stay in a row when it is halved, which is when it has twice as many.
const HALF: usize = 64;

/// A free block, as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeBlock {
    pub(super) size: Bytes,
    pub(super) address: Bytes,
    pub(super) id: BlockId,
}

impl FreeBlock {
    /// Whether it comes before a block of this size and address.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "the processor foresees no branch in a search"
    )]
    fn is_before(&self, size: Bytes, address: Bytes) -> bool {
        (self.size < size) | ((self.size == size) & (self.address < address))
    }
}

/// Where a block is in its set, until the set changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetPosition {
    row: usize,
    at: usize,
}

/// An ordered set of free blocks.
#[derive(Clone, Debug)]
pub(super) struct FreeBlocks {
    /// One behind the other, in order. No row is empty, unless it is the only one.
    rows: Vec<Vec<FreeBlock>>,
}

impl FreeBlocks {
    pub(super) const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// The first block of at least this size: the best fit.
    pub(super) fn first_at_least(&self, size: Bytes) -> Option<(SetPosition, FreeBlock)> {
        let place = self.place(size, Bytes::ZERO);
        Some((place, *self.rows.get(place.row)?.get(place.at)?))
    }

    /// All blocks of at least this size, smallest first.
    pub(super) fn from(&self, size: Bytes) -> impl Iterator<Item = (SetPosition, FreeBlock)> + '_ {
        let first = self.place(size, Bytes::ZERO);
        let places = self.rows.iter().enumerate().skip(first.row).flat_map(|(row, blocks)| {
            blocks.iter().enumerate().map(move |(at, &block)| (SetPosition { row, at }, block))
        });
        places.skip(first.at)
    }

    /// The largest block.
    pub(super) fn last(&self) -> Option<FreeBlock> {
        self.rows.last()?.last().copied()
    }

    /// All blocks, smallest first.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.rows.iter().flatten().map(|block| block.id)
    }

    pub(super) fn insert(&mut self, block: FreeBlock) {
        let SetPosition { row, at } = self.place(block.size, block.address);
        let Some(blocks) = self.rows.get_mut(row) else {
            self.rows.push(vec![block]);
            return;
        };
        blocks.insert(at, block);
        if blocks.len() >= 2 * HALF {
            let upper = blocks.split_off(HALF);
            self.rows.insert(row.saturating_add(1), upper);
        }
    }

    /// Takes a block out; one that is not in the set is ignored.
    pub(super) fn remove(&mut self, size: Bytes, address: Bytes) {
        if let Some(place) = self.find(size, address) {
            self.remove_at(place);
        }
    }

    /// Takes the block at a place out and puts another in: where they are near each other, only what
    /// lies between them moves.
    pub(super) fn replace(&mut self, SetPosition { row, at }: SetPosition, block: FreeBlock) {
        let to = self.place(block.size, block.address);
        let blocks = self.rows.get_mut(row).filter(|_| to.row == row);
        let slot = match blocks {
            Some(blocks) if to.at <= at => {
                let between = blocks.get_mut(to.at..=at).unwrap_or_default();
                between.rotate_right(1);
                between.first_mut()
            }
            Some(blocks) => {
                let between = blocks.get_mut(at..to.at).unwrap_or_default();
                between.rotate_left(1);
                between.last_mut()
            }
            None => {
                self.remove_at(SetPosition { row, at });
                return self.insert(block);
            }
        };
        if let Some(slot) = slot {
            *slot = block;
        }
    }

    pub(super) fn remove_at(&mut self, SetPosition { row, at }: SetPosition) {
        let Some(blocks) = self.rows.get_mut(row) else { return };
        blocks.remove(at);
        if blocks.is_empty() && self.rows.len() > 1 {
            self.rows.remove(row);
        }
    }

    pub(super) fn find(&self, size: Bytes, address: Bytes) -> Option<SetPosition> {
        let place = self.place(size, address);
        let found = self.rows.get(place.row)?.get(place.at)?;
        ((found.size, found.address) == (size, address)).then_some(place)
    }

    /// Where a block of this size and address is or would be: behind all smaller ones.
    fn place(&self, size: Bytes, address: Bytes) -> SetPosition {
        let in_front =
            |row: &Vec<FreeBlock>| row.last().is_some_and(|last| last.is_before(size, address));
        let row = match self.rows.as_slice() {
            [] => return SetPosition { row: 0, at: 0 },
            [others @ .., _] => others.partition_point(in_front),
        };
        let at = self
            .rows
            .get(row)
            .map_or(0, |row| row.partition_point(|block| block.is_before(size, address)));
        SetPosition { row, at }
    }
}
