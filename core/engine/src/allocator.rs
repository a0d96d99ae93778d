//! PyTorch's CUDA caching allocator: events in, segments, blocks and statistics out.
//!
//! It works on integers only: it knows no tensors, no operators and no device, only sizes and a limit. The rules
//! are those of PyTorch 2.15, `c10/cuda/CUDACachingAllocator.cpp`, for one device:
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
//! - A freed block joins its free neighbours in the segment. The segment stays: *reserved* falls only when whole
//!   segments are released, by [`Allocator::empty_cache`] or under pressure.
//! - If the driver has no more memory, every segment that is one free block is released and the request is
//!   repeated. If that fails too, the allocation is out of memory.
//! - Settings change sizes, what is split and what is released ([`Settings`]), or where segments come from
//!   (`expandable`).
//!
//! - A segment serves requests of one stream. Training without streams of its own runs on the default one.
//!
//! A freed block is reusable at once, because work on its stream is queued; so *active* bytes are the allocated
//! bytes. A block that another stream uses as well (`record_stream`) is freed when that use ends; the trace has
//! this event.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

mod conf;
mod expandable;
mod free_blocks;
mod garbage;
mod out_of_memory;
mod repeats;
mod replay;
mod segments;
mod settings;
mod statistics;

pub use crate::trace::Stream;
pub use conf::Conf;
use free_blocks::{FreeBlock, FreeBlocks, SetPosition};
pub use out_of_memory::{DeviceMemory, OutOfMemory};
pub use repeats::{RECORDED, Repeats, replay_repeated};
pub use replay::iterations;
pub use replay::{
    Failure, IterationPeaks, Mark, Replay, Series, replay, replay_series, reserved_if_emptied,
    state_after,
};
use segments::Segment;
pub use segments::{BlockView, SegmentView};
pub use settings::{
    LARGE_BUFFER, MIN_BLOCK_SIZE, MIN_LARGE_ALLOC, ROUND_LARGE, SMALL_BUFFER, SMALL_SIZE, Settings,
};
use statistics::Books;
pub use statistics::{Count, PoolStatistics, Stat, Statistics};

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

/// What tells segments apart: blocks of one shelf serve requests of no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shelf {
    pool: Pool,
    stream: Stream,
}

/// The blocks of one stream that are not handed out.
#[derive(Clone, Debug)]
struct Sets {
    small: FreeBlocks,
    large: FreeBlocks,
    /// Unmapped blocks of segments that expand.
    unmapped_small: FreeBlocks,
    unmapped_large: FreeBlocks,
}

impl Sets {
    const EMPTY: Self = Self {
        small: FreeBlocks::new(),
        large: FreeBlocks::new(),
        unmapped_small: FreeBlocks::new(),
        unmapped_large: FreeBlocks::new(),
    };
}

/// The allocator of one device.
///
/// ```
/// use highwater_engine::allocator::{Allocator, Settings};
/// use highwater_base::Bytes;
///
/// let mut allocator = Allocator::new(Settings::default(), None);
/// let block = allocator.malloc(Bytes::mib(3)).expect("there is no limit");
/// assert_eq!(allocator.allocated(), Bytes::mib(3));
/// assert_eq!(allocator.reserved(), Bytes::mib(20));
/// allocator.free(block);
/// assert_eq!(allocator.reserved(), Bytes::mib(20));
/// allocator.empty_cache();
/// assert_eq!(allocator.reserved(), Bytes::ZERO);
/// ```
#[derive(Clone, Debug)]
pub struct Allocator {
    settings: Settings,
    limit: Option<Bytes>,
    /// SUM: what the driver gave, in its own granularity.
    held: Bytes,
    /// Blocks of all segments, and slots of blocks that are gone; see `vacant`.
    blocks: Vec<Block>,
    /// Slots of `blocks` to use again.
    vacant: Vec<BlockId>,
    /// Segments in the order of their creation; those given back stay until they are the most.
    segments: Vec<Segment>,
    /// COUNT: segments in `segments` that were given back.
    gone: usize,
    /// Number of the next segment.
    next_segment: usize,
    /// Where the next segment begins. Addresses grow and are never used twice, so that the order
    /// of addresses is the order of (creation of the segment, offset in it).
    next_address: Bytes,
    /// Of the default stream.
    sets: Sets,
    /// Of the streams from 1 on.
    others: Vec<Sets>,
    /// COUNT: searches of the large pool; a clock for the collection of garbage.
    searches: u64,
    books: Books,
}

/// A slice of a segment.
///
/// Invariants: the blocks of a segment form a list by `previous` and `next`, in the order of
/// addresses and without gaps; no two neighbours are both free or both unmapped; the block at the
/// segment's first byte keeps its slot for the life of the segment; a block that is not allocated
/// is in the set of its pool and state.
#[derive(Clone, Copy, Debug)]
struct Block {
    address: Bytes,
    size: Bytes,
    /// What the tensor asked for, where the block is allocated. Of a free block, which has no use
    /// for that, since when it is free, in searches of the large pool.
    requested: Bytes,
    /// The segment's number.
    segment: usize,
    previous: BlockId,
    next: BlockId,
    state: State,
    shelf: Shelf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Allocated,
    Free,
    /// No memory is behind its addresses; only in segments that expand.
    Unmapped,
}

impl Block {
    /// The only block of a segment, with a size yet to be said.
    const fn whole(shelf: Shelf, segment: usize, address: Bytes) -> Self {
        Self {
            address,
            size: Bytes::ZERO,
            requested: Bytes::ZERO,
            segment,
            previous: BlockId::NULL,
            next: BlockId::NULL,
            state: State::Free,
            shelf,
        }
    }

    /// Whether the segment holds blocks other than this one.
    fn is_split(&self) -> bool {
        self.previous != BlockId::NULL || self.next != BlockId::NULL
    }

    /// The block as the set of its state has it: unmapped ones are ordered by address alone.
    fn in_set(&self, id: BlockId) -> FreeBlock {
        let size = if self.state == State::Unmapped { Bytes::ZERO } else { self.size };
        FreeBlock { size, address: self.address, id }
    }
}

/// Why there is no new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The driver has none, or the process may not reserve more.
    NoMemory,
    /// [`Settings::reject_above`].
    Unasked,
}

/// What became of a block that joined its neighbours.
#[derive(Clone, Copy, Debug)]
struct Joined {
    id: BlockId,
    size: Bytes,
    is_split: bool,
    /// SUM and COUNT of the neighbours.
    subsumed: (Bytes, u64),
}

impl Allocator {
    /// An allocator that holds nothing yet and may take up to `limit` from the driver: the device's
    /// capacity less the CUDA context.
    pub const fn new(settings: Settings, limit: Option<Bytes>) -> Self {
        Self {
            settings,
            limit,
            held: Bytes::ZERO,
            blocks: Vec::new(),
            vacant: Vec::new(),
            segments: Vec::new(),
            gone: 0,
            next_segment: 0,
            next_address: Bytes::ZERO,
            sets: Sets::EMPTY,
            others: Vec::new(),
            searches: 0,
            books: Books::EMPTY,
        }
    }

    /// What `torch.cuda.memory_stats()` reports.
    pub fn statistics(&self) -> Statistics {
        self.books.statistics()
    }

    /// SUM: what tensors asked for, now.
    pub fn requested(&self) -> Bytes {
        self.books.requested()
    }

    /// SUM: `torch.cuda.memory_allocated()`.
    pub fn allocated(&self) -> Bytes {
        self.books.allocated()
    }

    /// SUM: `torch.cuda.memory_reserved()`.
    pub fn reserved(&self) -> Bytes {
        self.books.reserved()
    }

    /// The largest that each has been since [`Allocator::reset_peaks`].
    pub fn peaks(&self) -> IterationPeaks {
        let (requested, allocated, reserved) = self.books.peaks();
        IterationPeaks { requested, allocated, reserved }
    }

    /// COUNT: how often cached segments were given back because memory ran out.
    pub const fn num_alloc_retries(&self) -> u64 {
        self.books.num_alloc_retries
    }

    /// Lets every peak begin anew at what is alive now: `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peaks(&mut self) {
        self.books.reset_peaks();
    }

    /// Allocates on the default stream.
    ///
    /// # Errors
    /// As [`Allocator::malloc_on`].
    pub fn malloc(&mut self, request: Bytes) -> Result<BlockId, OutOfMemory> {
        self.malloc_on(Stream::DEFAULT, request)
    }

    /// Allocates.
    ///
    /// # Errors
    /// If the limit leaves no room, even after cached segments were given back; with
    /// [`Settings::reject_above`], before that.
    pub fn malloc_on(&mut self, stream: Stream, request: Bytes) -> Result<BlockId, OutOfMemory> {
        if request == Bytes::ZERO {
            return Ok(BlockId::NULL);
        }
        let size = self.settings.round_size(request);
        let shelf = Shelf { pool: Pool::of(size), stream };
        let found = self.find_free_block(shelf, size);
        let (place, id) = match found {
            Some((place, block)) => (Some(place), block.id),
            None => match self.take_new_block(shelf, size) {
                Ok(id) => (None, id),
                Err(refused) => return Err(self.out_of_memory(request, size, refused)),
            },
        };
        self.hand_out(id, place, request, size);
        Ok(id)
    }

    /// Takes a block back. An id that is not allocated is ignored.
    pub fn free(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get_mut(id.0) else { return };
        if block.state != State::Allocated {
            return;
        }
        let Block { shelf: Shelf { pool, .. }, requested, size, .. } = *block;
        block.state = State::Free;
        block.requested = Bytes(self.searches);
        self.books.take_back(pool, requested, size);
        self.books.oversize_allocations.decrease(self.settings.is_oversize(size));
        let joined = self.join(id);
        if !self.settings.expandable_segments {
            let inactive = if joined.is_split { (joined.size, 1) } else { (Bytes::ZERO, 0) };
            self.books.change_inactive(pool, inactive, joined.subsumed);
        }
    }

    /// Gives every segment that is one free block back to the driver: `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        for shelf in self.shelves() {
            let ids: Vec<BlockId> = self.free_set(shelf).ids().collect();
            for id in ids {
                if self.settings.expandable_segments {
                    self.unmap(id);
                } else {
                    self.release(id);
                }
            }
        }
    }

    /// All that there are.
    fn shelves(&self) -> impl Iterator<Item = Shelf> + use<> {
        let streams = 0..=u32::try_from(self.others.len()).unwrap_or(u32::MAX);
        streams
            .map(Stream)
            .flat_map(|stream| [Pool::Large, Pool::Small].map(|pool| Shelf { pool, stream }))
    }

    fn sets(&self, Stream(stream): Stream) -> &Sets {
        const NONE: &Sets = &Sets::EMPTY;
        match stream.checked_sub(1).map(usize::try_from) {
            None => &self.sets,
            Some(at) => at.ok().and_then(|at| self.others.get(at)).unwrap_or(NONE),
        }
    }

    fn sets_mut(&mut self, Stream(stream): Stream) -> &mut Sets {
        let Some(at) = stream.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
            return &mut self.sets;
        };
        if at >= self.others.len() {
            self.others.resize(at.saturating_add(1), Sets::EMPTY);
        }
        self.others.get_mut(at).unwrap_or(&mut self.sets)
    }

    fn free_set(&self, Shelf { pool, stream }: Shelf) -> &FreeBlocks {
        let sets = self.sets(stream);
        match pool {
            Pool::Small => &sets.small,
            Pool::Large => &sets.large,
        }
    }

    fn unmapped(&self, Shelf { pool, stream }: Shelf) -> &FreeBlocks {
        let sets = self.sets(stream);
        match pool {
            Pool::Small => &sets.unmapped_small,
            Pool::Large => &sets.unmapped_large,
        }
    }

    fn set_mut(&mut self, Shelf { pool, stream }: Shelf, state: State) -> &mut FreeBlocks {
        let sets = self.sets_mut(stream);
        match (pool, state) {
            (Pool::Small, State::Unmapped) => &mut sets.unmapped_small,
            (Pool::Large, State::Unmapped) => &mut sets.unmapped_large,
            (Pool::Small, _) => &mut sets.small,
            (Pool::Large, _) => &mut sets.large,
        }
    }
}

// The steps of an allocation, in the order in which they are tried.
impl Allocator {
    /// The smallest free block that is large enough, and its place in the free set.
    fn find_free_block(&mut self, shelf: Shelf, size: Bytes) -> Option<(SetPosition, FreeBlock)> {
        if shelf.pool == Pool::Large {
            self.searches = self.searches.saturating_add(1);
        }
        let found = if self.settings.expandable_segments {
            self.best_fit_expandable(shelf, size)
        } else {
            self.free_set(shelf).first_at_least(size)
        };
        found.filter(|(_, block)| self.settings.may_reuse(size, block.size))
    }

    /// The block of a new segment, after giving segments back if that is what it takes.
    fn take_new_block(&mut self, shelf: Shelf, size: Bytes) -> Result<BlockId, Refused> {
        self.collect_garbage();
        match self.obtain(shelf, size) {
            Err(Refused::NoMemory) => {}
            done => return done,
        }
        if self.release_oversize(shelf, size) {
            match self.obtain(shelf, size) {
                Err(Refused::NoMemory) => {}
                done => return done,
            }
        }
        self.empty_cache();
        self.books.num_alloc_retries = self.books.num_alloc_retries.saturating_add(1);
        self.obtain(shelf, size)
    }

    /// `alloc_block`: a free block out of new memory, within what the process may reserve.
    fn obtain(&mut self, shelf: Shelf, size: Bytes) -> Result<BlockId, Refused> {
        let segment = self.settings.allocation_size(size);
        let reserved = self.reserved() + segment;
        let over = |most: Option<Bytes>| most.is_some_and(|most| reserved > most);
        if over(self.settings.allowed) {
            return Err(Refused::NoMemory);
        }
        if over(self.settings.reject_above) {
            return Err(Refused::Unasked);
        }
        let found = if self.settings.expandable_segments {
            self.expand(shelf, size)
        } else {
            self.new_segment(shelf, segment)
        };
        found.ok_or(Refused::NoMemory)
    }

    fn out_of_memory(&mut self, request: Bytes, size: Bytes, refused: Refused) -> OutOfMemory {
        let rejected = refused == Refused::Unasked;
        let counter = match refused {
            Refused::NoMemory => &mut self.books.num_ooms,
            Refused::Unasked => &mut self.books.num_oom_rejections,
        };
        *counter = counter.saturating_add(1);
        OutOfMemory {
            request,
            segment: self.settings.allocation_size(size),
            allocated: self.allocated(),
            reserved: self.reserved(),
            held: self.held,
            expandable: self.settings.expandable_segments,
            rejected,
        }
    }

    /// `cudaMalloc`; `None` where the limit or the address space ends.
    fn new_segment(&mut self, shelf: Shelf, size: Bytes) -> Option<BlockId> {
        let granules = size.round_up(ROUND_LARGE);
        // Asked first: addresses that no memory was found for would be lost.
        self.next_address.0.checked_add(granules.0)?;
        if !self.take_from_driver(granules) {
            return None;
        }
        let address = self.take_addresses(granules)?;
        let number = self.next_segment;
        let id = self.add_block(Block { size, ..Block::whole(shelf, number, address) });
        self.add_segment(Segment { number, address, shelf, first: id });
        self.books.reserve(shelf.pool, size, 1);
        self.books.oversize_segments.increase(self.settings.is_oversize(size));
        Some(id)
    }

    /// Gives oversize free blocks back, as many as a request of this size needs. Only with
    /// [`Settings::max_split_size`]; says whether enough was given back.
    fn release_oversize(&mut self, shelf: Shelf, size: Bytes) -> bool {
        let Some(oversize) = self.settings.max_split_size else { return false };
        let wanted = size.max(oversize);
        if let Some((_, found)) = self.free_set(shelf).first_at_least(wanted) {
            return self.release(found.id);
        }
        let mut released = Bytes::ZERO;
        while released < wanted {
            match self.free_set(shelf).last() {
                Some(found) if found.size >= oversize && self.release(found.id) => {
                    released += found.size;
                }
                _ => return false,
            }
        }
        true
    }

    /// `cudaFree` of the segment that this free block fills; refuses a block that fills none.
    fn release(&mut self, id: BlockId) -> bool {
        let Some(block) = self.blocks.get(id.0).copied() else { return false };
        if block.is_split() || self.settings.expandable_segments {
            return false;
        }
        self.set_mut(block.shelf, State::Free).remove(block.size, block.address);
        self.vacant.push(id);
        self.drop_segment(block.segment);
        self.held -= block.size.round_up(ROUND_LARGE);
        self.books.give_back(block.shelf.pool, block.size, 1);
        self.books.oversize_segments.decrease(self.settings.is_oversize(block.size));
        true
    }

    /// Marks a block as allocated, and splits off what is worth keeping: that takes the block's
    /// place in the free set, where it has one.
    fn hand_out(&mut self, id: BlockId, place: Option<SetPosition>, request: Bytes, size: Bytes) {
        let Some(block) = self.blocks.get_mut(id.0) else { return };
        block.requested = request;
        block.state = State::Allocated;
        let whole = *block;
        let Shelf { pool, .. } = whole.shelf;
        let remaining = whole.size - size;
        let (mut kept, mut handed_out) = ((Bytes::ZERO, 0), whole.size);
        let mut rest = None;
        if self.settings.should_split(pool, size, remaining) {
            (kept, handed_out) = ((remaining, 1), size);
            let id = self.split(id, size, State::Free);
            rest = Some(FreeBlock { size: remaining, address: whole.address + size, id });
        }
        let set = self.set_mut(whole.shelf, State::Free);
        match (place, rest) {
            (Some(place), Some(rest)) => set.replace(place, rest),
            (Some(place), None) => set.remove_at(place),
            (None, Some(rest)) => set.insert(rest),
            (None, None) => {}
        }
        self.books.hand_out(pool, request, handed_out);
        self.books.oversize_allocations.increase(self.settings.is_oversize(handed_out));
        if !self.settings.expandable_segments {
            let reused = if whole.is_split() { (whole.size, 1) } else { (Bytes::ZERO, 0) };
            self.books.change_inactive(pool, kept, reused);
        }
    }
}

// Blocks and segments.
impl Allocator {
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

    /// Cuts a block after that number of bytes. The new block behind it, of this state, is in no set; where
    /// nothing would be left for it, there is none, and the answer is the block itself.
    fn split(&mut self, id: BlockId, size: Bytes, state: State) -> BlockId {
        let Some(block) = self.blocks.get_mut(id.0) else { return id };
        let whole = *block;
        if size >= whole.size {
            return id;
        }
        block.size = size;
        let rest = self.add_block(Block {
            address: whole.address + size,
            size: whole.size - size,
            previous: id,
            state,
            ..whole
        });
        if let Some(block) = self.blocks.get_mut(id.0) {
            block.next = rest;
        }
        if let Some(next) = self.blocks.get_mut(whole.next.0) {
            next.previous = rest;
        }
        rest
    }

    /// `try_merge_blocks`: joins a block that is in no set with neighbours of its state, and puts the
    /// result into the set of that state.
    fn join(&mut self, id: BlockId) -> Joined {
        let alone = Joined { id, size: Bytes::ZERO, is_split: false, subsumed: (Bytes::ZERO, 0) };
        let Some(block) = self.blocks.get(id.0) else { return alone };
        // The block with the lower address keeps its slot, so that the first one of a segment
        // always does.
        let (mut merged, mut joined) = (*block, alone);
        let (mut subsumed, mut count) = joined.subsumed;
        // Of the neighbours in the set, the one whose place the result takes.
        let mut replaced = None;
        if let Some(next) = self.neighbour(merged.next, merged.state) {
            replaced = Some(next.in_set(merged.next));
            self.vacant.push(merged.next);
            (subsumed, count) = (next.size, 1);
            merged.size += next.size;
            merged.next = next.next;
        }
        if let Some(previous) = self.neighbour(merged.previous, merged.state) {
            if let Some(next) = replaced.replace(previous.in_set(merged.previous)) {
                self.set_mut(merged.shelf, merged.state).remove(next.size, next.address);
            }
            self.vacant.push(id);
            joined.id = merged.previous;
            subsumed += previous.size;
            count += 1;
            merged.size += previous.size;
            merged.address = previous.address;
            merged.previous = previous.previous;
        }
        if let Some(slot) = self.blocks.get_mut(joined.id.0) {
            *slot = merged;
        }
        if count > 0
            && let Some(next) = self.blocks.get_mut(merged.next.0)
        {
            next.previous = joined.id;
        }
        let set = self.set_mut(merged.shelf, merged.state);
        match replaced.and_then(|block| set.find(block.size, block.address)) {
            Some(place) => set.replace(place, merged.in_set(joined.id)),
            None => set.insert(merged.in_set(joined.id)),
        }
        joined.size = merged.size;
        joined.is_split = merged.is_split();
        joined.subsumed = (subsumed, count);
        joined
    }

    /// The block with this id, if it is one and in this state.
    fn neighbour(&self, id: BlockId, state: State) -> Option<Block> {
        self.blocks.get(id.0).filter(|block| block.state == state).copied()
    }

    /// Whether the driver has so much; then it is held.
    fn take_from_driver(&mut self, size: Bytes) -> bool {
        let held = self.held + size;
        let fits = self.limit.is_none_or(|limit| held <= limit);
        if fits {
            self.held = held;
        }
        fits
    }

    fn take_addresses(&mut self, size: Bytes) -> Option<Bytes> {
        let address = self.next_address;
        self.next_address = Bytes(address.0.checked_add(size.0)?);
        Some(address)
    }
}
