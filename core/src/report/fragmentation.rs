//! [`Fragmentation`]: memory that is reserved and not allocated, where it is, and which allocations could use it.

use super::Segment;
use crate::allocator::{MIN_LARGE_ALLOC, Pool, SMALL_SIZE};
use crate::bytes::Bytes;
use crate::order::InOrder as _;

/// Free blocks: how many, and how much together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// COUNT: of them.
    pub count: usize,
    /// SUM: of their sizes.
    pub bytes: Bytes,
}

impl Holes {
    fn add(&mut self, size: Bytes) {
        self.count = self.count.saturating_add(1);
        self.bytes += size;
    }
}

/// Free blocks of one range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Whose they are.
    pub pool: Pool,
    /// SIZE: larger than this.
    pub over: Bytes,
    /// SIZE: at most this; `None` for no bound.
    pub up_to: Option<Bytes>,
    /// Those between other blocks, which stay as long as these do.
    pub holes: Holes,
}

/// What is reserved and not allocated at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// COUNT: of segments.
    pub segments: usize,
    /// SUM: of the segments.
    pub reserved: Bytes,
    /// SUM: of the blocks handed out.
    pub allocated: Bytes,
    /// Segments that are one free block each: `torch.cuda.empty_cache()` would give them back.
    pub whole: Holes,
    /// Free blocks in segments that are partly in use: nobody can give them back.
    pub split: Holes,
    /// The same by pool and size, those without any left out.
    pub classes: Vec<Class>,
    /// SIZE: of the largest free block of the small pool, then of the large one.
    pub largest: [Bytes; 2],
}

impl Fragmentation {
    /// Of segments at one moment.
    pub fn of(segments: &[Segment]) -> Self {
        let mut found = Self { segments: segments.len(), ..Self::default() };
        let mut classes =
            CLASSES.map(|(pool, over, up_to)| Class { pool, over, up_to, holes: Holes::default() });
        for segment in segments {
            found.reserved += segment.size;
            let is_whole = segment.blocks.len() == 1;
            for block in &segment.blocks {
                if block.tensor.is_some() {
                    found.allocated += block.size;
                    continue;
                }
                let [small, large] = &mut found.largest;
                let largest = if segment.pool == Pool::Small { small } else { large };
                *largest = block.size.max(*largest);
                if is_whole {
                    found.whole.add(block.size);
                    continue;
                }
                found.split.add(block.size);
                let class = classes.iter_mut().find(|class| {
                    class.pool == segment.pool && class.up_to.is_none_or(|end| block.size <= end)
                });
                if let Some(class) = class {
                    class.holes.add(block.size);
                }
            }
        }
        found.classes = classes.into_iter().filter(|class| class.holes.count > 0).collect();
        found.classes.order_by_key(|class| std::cmp::Reverse(class.holes.bytes));
        found
    }

    /// SUM: reserved and not allocated.
    pub fn unused(&self) -> Bytes {
        self.reserved - self.allocated
    }
}

/// Sizes by what becomes of a request of that size: from 10 MiB on it would get a segment of its own.
const CLASSES: [(Pool, Bytes, Option<Bytes>); 5] = [
    (Pool::Small, Bytes::ZERO, None),
    (Pool::Large, Bytes::ZERO, Some(SMALL_SIZE)),
    (Pool::Large, SMALL_SIZE, Some(MIN_LARGE_ALLOC)),
    (Pool::Large, MIN_LARGE_ALLOC, Some(Bytes::mib(100))),
    (Pool::Large, Bytes::mib(100), None),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SegmentBlock;

    fn segment(pool: Pool, blocks: &[(u64, bool)]) -> Segment {
        let block = |&(mib, used): &(u64, bool)| SegmentBlock {
            size: Bytes::mib(mib),
            tensor: used.then_some(0),
        };
        let blocks: Vec<_> = blocks.iter().map(block).collect();
        Segment { pool, size: blocks.iter().map(|block| block.size).sum(), blocks }
    }

    #[test]
    fn whole_segments_are_told_from_holes() {
        let found = Fragmentation::of(&[
            segment(Pool::Small, &[(1, true), (1, false)]),
            segment(Pool::Large, &[(20, false)]),
            segment(Pool::Large, &[(4, false), (10, true), (6, false)]),
            segment(Pool::Large, &[(300, true), (120, false)]),
        ]);
        assert_eq!(found.unused(), Bytes::mib(151));
        assert_eq!(found.whole, Holes { count: 1, bytes: Bytes::mib(20) });
        assert_eq!(found.split, Holes { count: 4, bytes: Bytes::mib(131) });
        assert_eq!(found.largest, [Bytes::mib(1), Bytes::mib(120)]);
        let classes: Vec<_> =
            found.classes.iter().map(|class| (class.over, class.holes.count)).collect();
        assert_eq!(classes, [(Bytes::mib(100), 1), (Bytes::mib(1), 2), (Bytes::ZERO, 1)]);
    }
}
