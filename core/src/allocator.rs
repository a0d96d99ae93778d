//! PyTorch's CUDA caching allocator: events in, segments, blocks and statistics out.
//!
//! Integers only, and nothing but integers: it knows no tensors, no operators and no device, only
//! sizes and a limit. The rules are those of PyTorch 2.15, `c10/cuda/CUDACachingAllocator.cpp`,
//! for one device and one stream:
//!
//! - Memory comes from the driver in *segments*. A segment is a row of *blocks*; the allocator
//!   hands out blocks and never moves them.
//! - A request is rounded up to 512 bytes. At most 1 MiB, and it is served from the *small pool*,
//!   whose segments are 2 MiB; above that, from the *large pool*. The pools never mix.
//! - The smallest free block that is large enough serves a request. Among equal sizes the oldest
//!   segment wins, then the lowest address.
//! - If no free block is large enough, a new segment is obtained: 2 MiB in the small pool; 20 MiB
//!   for less than 10 MiB; otherwise the request rounded up to 2 MiB.
//! - A block that is too large is split if what would remain is worth keeping: 512 bytes in the
//!   small pool, more than 1 MiB in the large one. Otherwise the whole block is handed out, and
//!   *allocated* exceeds *requested* by the rest.
//! - A freed block joins its free neighbours in the segment. The segment stays: *reserved* falls
//!   only when whole segments are given back, by [`Allocator::empty_cache`] or under pressure.
//! - If the driver has no more memory, every segment that is one free block is given back and the
//!   driver is asked once more. If that fails too, the allocation is out of memory.
//!
//! A freed block is reusable at once, because all work is queued on one stream; so *active* bytes
//! are the allocated bytes. Several streams, expandable segments and garbage collection
//! are not modelled.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

mod conf;
mod free_blocks;
mod out_of_memory;
mod replay;
mod segments;
mod settings;
mod statistics;

pub use conf::Conf;
use free_blocks::{FreeBlock, FreeBlocks};
pub use out_of_memory::{DeviceMemory, OutOfMemory};
pub use replay::{
    Failure, IterationPeaks, Mark, Replay, Series, replay, replay_series, state_after,
};
pub use segments::{BlockView, SegmentView};
pub use settings::{
    LARGE_BUFFER, MIN_BLOCK_SIZE, MIN_LARGE_ALLOC, ROUND_LARGE, SMALL_BUFFER, SMALL_SIZE, Settings,
};
pub use statistics::{Stat, Statistics};

/// An allocation, valid from [`Allocator::malloc`] until its [`Allocator::free`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId(usize);

impl BlockId {
    /// The null pointer: what a request of zero bytes gets. Freeing it does nothing.
    pub const NULL: Self = Self(usize::MAX);
}

/// One of the two sets of segments, chosen by the rounded size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Blocks for requests of at most 1 MiB.
    Small,
    /// Blocks for all others.
    Large,
}

impl Pool {
    /// The pool that serves requests of this rounded size.
    pub fn of(rounded: Bytes) -> Self {
        if rounded <= SMALL_SIZE { Self::Small } else { Self::Large }
    }
}

/// The allocator of one device.
///
/// ```
/// use highwater_core::allocator::{Allocator, Settings};
/// use highwater_core::Bytes;
///
/// let mut allocator = Allocator::new(Settings::default(), None);
/// let block = allocator.malloc(Bytes::mib(3)).expect("there is no limit");
/// assert_eq!(allocator.statistics().allocated.current, Bytes::mib(3));
/// assert_eq!(allocator.statistics().reserved.current, Bytes::mib(20));
/// allocator.free(block);
/// assert_eq!(allocator.statistics().reserved.current, Bytes::mib(20));
/// allocator.empty_cache();
/// assert_eq!(allocator.statistics().reserved.current, Bytes::ZERO);
/// ```
#[derive(Clone, Debug)]
pub struct Allocator {
    settings: Settings,
    limit: Option<Bytes>,
    /// Blocks of all live segments, and slots of blocks that are gone; see `vacant`.
    blocks: Vec<Block>,
    /// Slots of `blocks` to use again.
    vacant: Vec<BlockId>,
    /// Segments in the order of their creation, those given back included.
    segments: Vec<Segment>,
    /// Where the next segment begins. Addresses grow and are never used twice, so that the order
    /// of addresses is the order of (creation of the segment, offset in it).
    next_address: Bytes,
    small: FreeBlocks,
    large: FreeBlocks,
    statistics: Statistics,
}

/// A slice of a segment.
///
/// Invariants: the blocks of a segment form a list by `previous` and `next`, in the order of
/// addresses and without gaps; no two neighbours are free; the block at the segment's first byte
/// keeps its slot for the life of the segment; a free block is in the free set of its pool.
#[derive(Clone, Copy, Debug)]
struct Block {
    address: Bytes,
    size: Bytes,
    /// What the tensor asked for; what it last asked for, where the block is free.
    requested: Bytes,
    segment: usize,
    previous: BlockId,
    next: BlockId,
    allocated: bool,
}

impl Block {
    /// Whether the segment holds other blocks besides this one.
    fn is_split(&self) -> bool {
        self.previous != BlockId::NULL || self.next != BlockId::NULL
    }
}

/// One piece of memory from the driver.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: Bytes,
    size: Bytes,
    pool: Pool,
    /// The block at its first byte; [`BlockId::NULL`] once the segment was given back.
    first: BlockId,
}

impl Allocator {
    /// An allocator that holds nothing yet and may reserve up to `limit`: the device's capacity
    /// less the CUDA context.
    pub const fn new(settings: Settings, limit: Option<Bytes>) -> Self {
        Self {
            settings,
            limit,
            blocks: Vec::new(),
            vacant: Vec::new(),
            segments: Vec::new(),
            next_address: Bytes::ZERO,
            small: FreeBlocks::new(),
            large: FreeBlocks::new(),
            statistics: Statistics::ZERO,
        }
    }

    /// What `torch.cuda.memory_stats()` reports.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Lets every peak begin anew at what is alive now: `torch.cuda.reset_peak_memory_stats()`.
    pub const fn reset_peaks(&mut self) {
        self.statistics.reset_peaks();
    }

    /// Allocates.
    ///
    /// # Errors
    /// If the limit on reserved bytes leaves no room, even after cached segments were given back.
    pub fn malloc(&mut self, request: Bytes) -> Result<BlockId, OutOfMemory> {
        if request == Bytes::ZERO {
            return Ok(BlockId::NULL);
        }
        let size = self.settings.round_size(request);
        let pool = Pool::of(size);
        let found = self.take_free_block(pool, size).or_else(|| self.take_new_block(pool, size));
        let Some(id) = found else {
            self.statistics.num_ooms += 1;
            return Err(OutOfMemory {
                request,
                segment: self.settings.allocation_size(size),
                allocated: self.statistics.allocated.current,
                reserved: self.statistics.reserved.current,
            });
        };
        self.hand_out(id, pool, request, size);
        Ok(id)
    }

    /// Takes a block back. An id that is not allocated is ignored.
    pub fn free(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get_mut(id.0) else { return };
        if !block.allocated {
            return;
        }
        block.allocated = false;
        let mut merged = *block;
        self.statistics.requested.decrease(merged.requested);
        self.statistics.allocated.decrease(merged.size);
        let Some(pool) = self.segments.get(merged.segment).map(|segment| segment.pool) else {
            return;
        };

        // The block with the lower address keeps its slot, so that the first one of a segment
        // always does.
        let mut survivor = id;
        let mut subsumed = Bytes::ZERO;
        if let Some(next) = self.free_neighbour(merged.next) {
            self.free_set(pool).remove(next.size, next.address);
            self.vacant.push(merged.next);
            subsumed += next.size;
            merged.size += next.size;
            merged.next = next.next;
        }
        if let Some(previous) = self.free_neighbour(merged.previous) {
            self.free_set(pool).remove(previous.size, previous.address);
            self.vacant.push(id);
            survivor = merged.previous;
            subsumed += previous.size;
            merged.size += previous.size;
            merged.address = previous.address;
            merged.previous = previous.previous;
        }
        if let Some(slot) = self.blocks.get_mut(survivor.0) {
            *slot = merged;
        }
        if subsumed != Bytes::ZERO
            && let Some(next) = self.blocks.get_mut(merged.next.0)
        {
            next.previous = survivor;
        }
        let inactive = if merged.is_split() { merged.size } else { Bytes::ZERO };
        self.statistics.inactive_split.change(inactive, subsumed);
        self.free_set(pool).insert(FreeBlock {
            size: merged.size,
            address: merged.address,
            id: survivor,
        });
    }

    /// Gives every segment that is one free block back to the driver: `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        for pool in [Pool::Large, Pool::Small] {
            let ids: Vec<BlockId> = self.free_set(pool).ids().collect();
            for id in ids {
                self.release(pool, id);
            }
        }
    }

    fn free_set(&mut self, pool: Pool) -> &mut FreeBlocks {
        match pool {
            Pool::Small => &mut self.small,
            Pool::Large => &mut self.large,
        }
    }
}

// The steps of an allocation, in the order in which they are tried.
impl Allocator {
    /// The smallest free block that is large enough, out of the free set.
    fn take_free_block(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        let settings = self.settings;
        let set = self.free_set(pool);
        let found = set.first_at_least(size)?;
        if !settings.may_reuse(size, found.size) {
            return None;
        }
        set.remove(found.size, found.address);
        Some(found.id)
    }

    /// The block of a new segment, after giving segments back if that is what it takes.
    fn take_new_block(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        let segment = self.settings.allocation_size(size);
        if let Some(id) = self.add_segment(pool, segment) {
            return Some(id);
        }
        if self.release_oversize(pool, size)
            && let Some(id) = self.add_segment(pool, segment)
        {
            return Some(id);
        }
        self.empty_cache();
        self.statistics.num_alloc_retries += 1;
        self.add_segment(pool, segment)
    }

    /// `cudaMalloc`; `None` where the limit or the address space ends.
    fn add_segment(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        let address = self.next_address;
        let end = Bytes(address.0.checked_add(size.0)?);
        let reserved = self.statistics.reserved.current + size;
        if self.limit.is_some_and(|limit| reserved > limit) {
            return None;
        }
        self.next_address = end;
        let id = self.add_block(Block {
            address,
            size,
            requested: Bytes::ZERO,
            segment: self.segments.len(),
            previous: BlockId::NULL,
            next: BlockId::NULL,
            allocated: false,
        });
        self.segments.push(Segment { address, size, pool, first: id });
        self.statistics.reserved.increase(size);
        self.statistics.add_segment();
        Some(id)
    }

    /// Gives oversize free blocks back, as many as a request of this size needs. Only with
    /// [`Settings::max_split_size`]; says whether enough was given back.
    fn release_oversize(&mut self, pool: Pool, size: Bytes) -> bool {
        let Some(oversize) = self.settings.max_split_size else { return false };
        let wanted = size.max(oversize);
        if let Some(found) = self.free_set(pool).first_at_least(wanted) {
            return self.release(pool, found.id);
        }
        let mut released = Bytes::ZERO;
        while released < wanted {
            match self.free_set(pool).last() {
                Some(found) if found.size >= oversize && self.release(pool, found.id) => {
                    released += found.size;
                }
                _ => return false,
            }
        }
        true
    }

    /// `cudaFree` of the segment that this free block fills; refuses a block that fills none.
    fn release(&mut self, pool: Pool, id: BlockId) -> bool {
        let Some(block) = self.blocks.get(id.0).copied() else { return false };
        if block.is_split() {
            return false;
        }
        self.free_set(pool).remove(block.size, block.address);
        self.vacant.push(id);
        if let Some(segment) = self.segments.get_mut(block.segment) {
            segment.first = BlockId::NULL;
        }
        self.statistics.reserved.decrease(block.size);
        self.statistics.remove_segment();
        true
    }

    /// Marks a block that is in no free set as allocated, and splits off what is worth keeping.
    fn hand_out(&mut self, id: BlockId, pool: Pool, request: Bytes, size: Bytes) {
        let Some(block) = self.blocks.get_mut(id.0) else { return };
        let was_split = block.is_split();
        let whole = *block;
        block.requested = request;
        block.allocated = true;
        let remaining = whole.size - size;
        let mut kept = Bytes::ZERO;
        let mut handed_out = whole.size;
        if self.settings.should_split(pool, size, remaining) {
            kept = remaining;
            handed_out = size;
            block.size = size;
            let rest = self.add_block(Block {
                address: whole.address + size,
                size: remaining,
                previous: id,
                ..whole
            });
            if let Some(block) = self.blocks.get_mut(id.0) {
                block.next = rest;
            }
            if let Some(next) = self.blocks.get_mut(whole.next.0) {
                next.previous = rest;
            }
            let address = whole.address + size;
            self.free_set(pool).insert(FreeBlock { size: remaining, address, id: rest });
        }
        let reused = if was_split { whole.size } else { Bytes::ZERO };
        self.statistics.requested.increase(request);
        self.statistics.allocated.increase(handed_out);
        self.statistics.inactive_split.change(kept, reused);
    }

    fn add_block(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop()
            && let Some(slot) = self.blocks.get_mut(id.0)
        {
            *slot = block;
            return id;
        }
        self.blocks.push(block);
        BlockId(self.blocks.len().saturating_sub(1))
    }

    /// The block with this id, if it is one and it is free.
    fn free_neighbour(&self, id: BlockId) -> Option<Block> {
        self.blocks.get(id.0).filter(|block| !block.allocated).copied()
    }
}
