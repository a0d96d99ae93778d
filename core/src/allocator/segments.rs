//! [`SegmentView`], [`BlockView`]: what `torch.cuda.memory_snapshot()` shows, to test and draw.

use super::{Allocator, Block, BlockId, Pool, Segment};
use crate::bytes::Bytes;

/// One segment and its blocks.
#[derive(Clone, Copy, Debug)]
pub struct SegmentView<'a> {
    allocator: &'a Allocator,
    segment: &'a Segment,
    index: usize,
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
        let live = |(_, segment): &(usize, &Segment)| segment.first != BlockId::NULL;
        let view = |(index, segment)| SegmentView { allocator: self, segment, index };
        self.segments.iter().enumerate().filter(live).map(view)
    }

    /// An allocated block.
    pub fn block(&self, id: BlockId) -> Option<BlockView> {
        let block = self.blocks.get(id.0).filter(|block| block.allocated)?;
        self.view(id, block)
    }

    fn view(&self, id: BlockId, block: &Block) -> Option<BlockView> {
        let segment = self.segments.get(block.segment)?;
        Some(BlockView {
            id,
            segment: block.segment,
            offset: block.address - segment.address,
            size: block.size,
            requested: if block.allocated { block.requested } else { Bytes::ZERO },
            allocated: block.allocated,
        })
    }
}

impl<'a> SegmentView<'a> {
    /// Its number, counted from the first segment ever created.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// SIZE: of the segment.
    pub const fn size(&self) -> Bytes {
        self.segment.size
    }

    /// The pool it serves.
    pub const fn pool(&self) -> Pool {
        self.segment.pool
    }

    /// Its blocks in the order of their addresses.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView> + use<'a> {
        let allocator = self.allocator;
        let block = move |id: BlockId| allocator.blocks.get(id.0).map(|block| (id, block));
        std::iter::successors(block(self.segment.first), move |(_, current)| block(current.next))
            .filter_map(move |(id, block)| allocator.view(id, block))
    }
}
