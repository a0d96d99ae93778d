//! Expandable segments: `expandable_segments:True`.
//!
//! A segment is a range of addresses, an eighth wider than the device, into which the driver maps memory in
//! *pieces*: 2 MiB in the small pool, 20 MiB in the large one. Unmapped memory is a block too, so the blocks of a
//! range still form one list. A request that no free block serves goes to the lowest addresses at which free and
//! unmapped blocks together are wide enough, and their unmapped part is mapped, as whole pieces. Free whole pieces
//! can be released from anywhere in a range.

use super::free_blocks::{FreeBlock, SetPosition};
use super::{Allocator, Block, BlockId, Segment, Shelf, State};
use crate::bytes::Bytes;

impl Allocator {
    /// `get_free_block`, where segments expand: a block that can grow counts as large as it can
    /// become, so that one that cannot is taken before it.
    pub(super) fn best_fit_expandable(
        &self,
        shelf: Shelf,
        size: Bytes,
    ) -> Option<(SetPosition, FreeBlock)> {
        let room = |block: &FreeBlock| {
            let next = self.blocks.get(block.id.0).and_then(|found| self.blocks.get(found.next.0));
            let behind = next.filter(|next| next.state == State::Unmapped);
            block.size + behind.map_or(Bytes::ZERO, |next| next.size)
        };
        let mut found = self.free_set(shelf).from(size);
        let mut best = found.next()?;
        for next in found {
            if room(&next.1) >= room(&best.1) {
                break;
            }
            best = next;
        }
        Some(best)
    }

    /// `try_allocate_expandable_block`: a free block of at least this size, out of the free set.
    /// Pieces that were mapped before the driver had no more stay free.
    pub(super) fn expand(&mut self, shelf: Shelf, size: Bytes) -> Option<BlockId> {
        let start = self.find_room(shelf, size)?;
        let mut id = start;
        loop {
            let block = *self.blocks.get(id.0)?;
            let (unmapped, missing) = match block.state {
                State::Unmapped => (id, size),
                _ if block.size >= size => {
                    self.set_mut(shelf, State::Free).remove(block.size, block.address);
                    return Some(id);
                }
                _ => (block.next, size - block.size),
            };
            id = self.map(unmapped, missing)?;
        }
    }

    /// `find_expandable_block`: where free and unmapped blocks begin that are wide enough together.
    fn find_room(&mut self, shelf: Shelf, size: Bytes) -> Option<BlockId> {
        let ids = self.unmapped(shelf).ids();
        let mut starts = ids.filter_map(|id| {
            let before = self.blocks.get(id.0)?.previous;
            let start = if self.is(before, State::Free) { before } else { id };
            self.is_wide(start, size).then_some(start)
        });
        if let Some(start) = starts.next() {
            return Some(start);
        }
        drop(starts);
        self.add_range(shelf)
    }

    fn is_wide(&self, start: BlockId, size: Bytes) -> bool {
        let mut bytes = Bytes::ZERO;
        let mut next = self.blocks.get(start.0);
        while bytes < size
            && let Some(block) = next.filter(|block| block.state != State::Allocated)
        {
            bytes += block.size;
            next = self.blocks.get(block.next.0);
        }
        bytes >= size
    }

    /// A new range of addresses, nothing of it mapped.
    fn add_range(&mut self, shelf: Shelf) -> Option<BlockId> {
        /// SIZE: no device is as wide, and there may be a hundred thousand such ranges.
        const WIDE: Bytes = Bytes(1 << 46);
        let size =
            self.settings.address_space.unwrap_or(WIDE).round_up(self.settings.piece(shelf.pool));
        let address = self.take_addresses(size)?;
        let number = self.next_segment;
        let id = self.add_block(Block {
            size,
            state: State::Unmapped,
            ..Block::whole(shelf, number, address)
        });
        self.add_segment(Segment { number, address, shelf, first: id });
        self.set_mut(shelf, State::Unmapped).insert(FreeBlock { size: Bytes::ZERO, address, id });
        Some(id)
    }

    /// `map_block`: maps pieces from the start of an unmapped block, as many as this size needs,
    /// or as the block has. The free block that they are now part of; `None` if the driver has no
    /// more.
    fn map(&mut self, id: BlockId, size: Bytes) -> Option<BlockId> {
        let block = *self.blocks.get(id.0).filter(|block| block.state == State::Unmapped)?;
        let Shelf { pool, .. } = block.shelf;
        let mapped = size.round_up(self.settings.piece(pool)).min(block.size);
        if !self.take_from_driver(mapped) {
            return None;
        }
        self.set_mut(block.shelf, State::Unmapped).remove(Bytes::ZERO, block.address);
        self.split(id, mapped, State::Unmapped);
        if let Some(block) = self.blocks.get_mut(id.0) {
            block.state = State::Free;
        }
        if mapped < block.size {
            let address = block.address + mapped;
            let rest = self.blocks.get(id.0)?.next;
            self.set_mut(block.shelf, State::Unmapped).insert(FreeBlock {
                size: Bytes::ZERO,
                address,
                id: rest,
            });
        }
        let id = self.join(id).id;
        self.books.reserve(pool, mapped, 0);
        Some(id)
    }

    /// `unmap_block`: gives back the whole pieces of a free block, and its range, if nothing of it is mapped
    /// any more.
    pub(super) fn unmap(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get(id.0).copied() else { return };
        let Some(segment) = self.segment(block.segment) else { return };
        let (shelf, piece) = (block.shelf, self.settings.piece(block.shelf.pool));
        let start = block.address - segment.address;
        let before = start.round_up(piece) - start;
        let end = start + block.size;
        let behind = Bytes(end.0.checked_rem(piece.0).unwrap_or(0));
        if before + behind >= block.size {
            return;
        }
        let size = block.size - before - behind;
        self.set_mut(shelf, State::Free).remove(block.size, block.address);
        let mut unmapped = id;
        if before > Bytes::ZERO {
            unmapped = self.split(id, before, State::Free);
            self.set_mut(shelf, State::Free).insert(FreeBlock {
                size: before,
                address: block.address,
                id,
            });
        }
        if behind > Bytes::ZERO {
            let id = self.split(unmapped, size, State::Free);
            let address = block.address + before + size;
            self.set_mut(shelf, State::Free).insert(FreeBlock { size: behind, address, id });
        }
        if let Some(block) = self.blocks.get_mut(unmapped.0) {
            block.state = State::Unmapped;
        }
        let whole = self.join(unmapped).id;
        self.books.give_back(shelf.pool, size, 0);
        self.held -= size;
        let Some(left) = self.blocks.get(whole.0).filter(|block| !block.is_split()) else { return };
        let address = left.address;
        self.set_mut(shelf, State::Unmapped).remove(Bytes::ZERO, address);
        self.vacant.push(whole);
        self.drop_segment(block.segment);
    }

    fn is(&self, id: BlockId, state: State) -> bool {
        self.blocks.get(id.0).is_some_and(|block| block.state == state)
    }
}
