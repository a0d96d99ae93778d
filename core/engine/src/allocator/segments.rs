//! [`SegmentView`], [`BlockView`]: what `torch.cuda.memory_snapshot()` shows, to test and draw.

use super::{Allocator, Block, BlockId, Pool, Shelf, State, Stream};
use crate::bytes::Bytes;

/// One piece of memory from the driver, or a range of addresses that it maps memory into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Counted from the first ever created.
    pub(super) number: usize,
    pub(super) address: Bytes,
    pub(super) shelf: Shelf,
    /// The block at its first byte; [`BlockId::NULL`] once the segment was given back.
    pub(super) first: BlockId,
}

/// One segment and its blocks; of a segment that expands, one stretch that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct SegmentView<'a> {
    allocator: &'a Allocator,
    segment: &'a Segment,
    /// The first of its blocks: of a range of addresses, the first of those that are mapped in a
    /// row.
    first: BlockId,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Its id while it is allocated.
    pub id: BlockId,
    /// Which segment holds it, counted from the first ever created.
    pub segment: usize,
    /// SIZE: distance from the first byte of the segment.
    pub offset: Bytes,
    /// Where it begins, were the driver to give addresses in a row and none twice.
    pub address: Bytes,
    /// SIZE: of the block.
    pub size: Bytes,
    /// SIZE: what was asked for; zero if the block is free.
    pub requested: Bytes,
    /// Whether it is handed out.
    pub allocated: bool,
}

impl Allocator {
    /// The segments held now, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        self.segments.iter().flat_map(move |segment| {
            let view = move |first| SegmentView { allocator: self, segment, first };
            let behind = move |view: &SegmentView<'_>| view.ids().last().map(|id| self.after(id));
            let next = move |current: &SegmentView<'_>| self.mapped(behind(current)?).map(view);
            std::iter::successors(self.mapped(segment.first).map(view), next)
        })
    }

    /// An allocated block.
    pub fn block(&self, id: BlockId) -> Option<BlockView> {
        let block = self.blocks.get(id.0).filter(|block| block.state == State::Allocated)?;
        self.view(id, block)
    }

    fn view(&self, id: BlockId, block: &Block) -> Option<BlockView> {
        let segment = self.segment(block.segment)?;
        let allocated = block.state == State::Allocated;
        Some(BlockView {
            id,
            segment: block.segment,
            offset: block.address - segment.address,
            address: block.address,
            size: block.size,
            requested: if allocated { block.requested } else { Bytes::ZERO },
            allocated,
        })
    }

    fn after(&self, id: BlockId) -> BlockId {
        self.blocks.get(id.0).map_or(BlockId::NULL, |block| block.next)
    }

    /// The block, or the one behind it if it is not mapped: no two neighbours are unmapped.
    fn mapped(&self, id: BlockId) -> Option<BlockId> {
        let block = self.blocks.get(id.0)?;
        if block.state != State::Unmapped {
            return Some(id);
        }
        self.blocks.get(block.next.0).map(|_| block.next)
    }

    pub(super) fn segment(&self, number: usize) -> Option<Segment> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        self.segments.get(at).copied()
    }

    /// Takes up a segment with the next number.
    pub(super) fn add_segment(&mut self, segment: Segment) {
        self.next_segment = self.next_segment.saturating_add(1);
        self.segments.push(segment);
    }

    /// Forgets a segment. Those forgotten are swept out once they are the most, so that giving
    /// back many costs no more than having obtained them.
    pub(super) fn drop_segment(&mut self, number: usize) {
        let Ok(at) = self.segments.binary_search_by_key(&number, |segment| segment.number) else {
            return;
        };
        if let Some(segment) = self.segments.get_mut(at) {
            segment.first = BlockId::NULL;
        }
        self.gone = self.gone.saturating_add(1);
        if self.gone > self.segments.len().div_euclid(2) {
            self.segments.retain(|segment| segment.first != BlockId::NULL);
            self.gone = 0;
        }
    }
}

impl<'a> SegmentView<'a> {
    /// Its number, counted from the first segment ever created.
    pub const fn index(&self) -> usize {
        self.segment.number
    }

    /// Where it begins, were the driver to give addresses in a row and none twice.
    pub fn address(&self) -> Bytes {
        self.segment.address + self.offset()
    }

    /// SIZE: distance from the first byte of the segment; zero but for segments that expand.
    pub fn offset(&self) -> Bytes {
        let first = self.allocator.blocks.get(self.first.0);
        first.map_or(Bytes::ZERO, |block| block.address - self.segment.address)
    }

    /// SIZE: of the segment, or of the stretch of it.
    pub fn size(&self) -> Bytes {
        self.blocks().map(|block| block.size).sum()
    }

    /// The pool it serves.
    pub const fn pool(&self) -> Pool {
        self.segment.shelf.pool
    }

    /// The stream whose requests it serves.
    pub const fn stream(&self) -> Stream {
        self.segment.shelf.stream
    }

    /// Its blocks in the order of their addresses.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView> + use<'a> {
        let allocator = self.allocator;
        self.ids().filter_map(move |id| allocator.view(id, allocator.blocks.get(id.0)?))
    }

    fn ids(&self) -> impl Iterator<Item = BlockId> + use<'a> {
        let allocator = self.allocator;
        let mapped = |id: &BlockId| {
            allocator.blocks.get(id.0).is_some_and(|block| block.state != State::Unmapped)
        };
        std::iter::successors(Some(self.first), |id| Some(allocator.after(*id))).take_while(mapped)
    }
}
