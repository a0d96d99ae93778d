//! [`Statistics`]: the counters of `torch.cuda.memory_stats()`, and the books from which they are computed.

use super::Pool;
use crate::bytes::Bytes;

/// A number of bytes now, and the largest it has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// SUM: now.
    pub current: Bytes,
    /// SUM: at most, since the peaks were last reset.
    pub peak: Bytes,
}

/// How many there are now, and the most there have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// COUNT: now.
    pub current: u64,
    /// COUNT: at most, since the peaks were last reset.
    pub peak: u64,
}

impl Count {
    const ZERO: Self = Self { current: 0, peak: 0 };

    const fn increase(&mut self) {
        self.current = self.current.saturating_add(1);
        if self.current > self.peak {
            self.peak = self.current;
        }
    }

    const fn decrease(&mut self) {
        self.current = self.current.saturating_sub(1);
    }
}

/// What one pool holds, or both. Always `requested ≤ allocated ≤ reserved`.
///
/// `active` and `active_bytes` are `allocations` and `allocated`, because no block waits for another
/// stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// `allocation`: COUNT of the blocks handed out.
    pub allocations: Count,
    /// `segment`: COUNT of segments; those that expand are not counted.
    pub segments: Count,
    /// `inactive_split`: COUNT of the free blocks whose segment is partly in use.
    pub inactive_splits: Count,
    /// `requested_bytes`: SUM of what tensors asked for.
    pub requested: Stat,
    /// `allocated_bytes`: SUM of the blocks handed out.
    pub allocated: Stat,
    /// `reserved_bytes`: SUM of the segments; of those that expand, what is mapped.
    pub reserved: Stat,
    /// `inactive_split_bytes`: SUM of the free blocks whose segment is partly in use. They
    /// cannot be given back. Segments that expand are left out.
    pub inactive_split: Stat,
}

/// What the allocator holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Both pools. A peak of both is not the sum of their peaks.
    pub all: PoolStatistics,
    /// The pool of requests up to 1 MiB.
    pub small: PoolStatistics,
    /// The other pool.
    pub large: PoolStatistics,
    /// `oversize_allocations`: COUNT of blocks handed out that are too large to be split.
    pub oversize_allocations: Count,
    /// `oversize_segments`: COUNT of segments that are too large to be split.
    pub oversize_segments: Count,
    /// COUNT of the times all cached segments were given back because memory ran out.
    pub num_alloc_retries: u64,
    /// COUNT of the allocations that failed.
    pub num_ooms: u64,
    /// COUNT of the allocations that were refused without asking the driver.
    pub num_oom_rejections: u64,
    /// COUNT of the times the driver gave memory: a segment, or a part of one that expands.
    pub num_device_alloc: u64,
    /// COUNT of the times memory was given back to the driver.
    pub num_device_free: u64,
}

/// What is held, as numbers of one kind: now, or at most.
#[derive(Clone, Copy, Debug)]
struct Held {
    requested: Bytes,
    allocated: Bytes,
    reserved: Bytes,
    inactive_split: Bytes,
    allocations: u64,
    segments: u64,
    inactive_splits: u64,
}

impl Held {
    const ZERO: Self = Self {
        requested: Bytes::ZERO,
        allocated: Bytes::ZERO,
        reserved: Bytes::ZERO,
        inactive_split: Bytes::ZERO,
        allocations: 0,
        segments: 0,
        inactive_splits: 0,
    };

    fn plus(&self, other: &Self) -> Self {
        Self {
            requested: self.requested + other.requested,
            allocated: self.allocated + other.allocated,
            reserved: self.reserved + other.reserved,
            inactive_split: self.inactive_split + other.inactive_split,
            allocations: self.allocations.saturating_add(other.allocations),
            segments: self.segments.saturating_add(other.segments),
            inactive_splits: self.inactive_splits.saturating_add(other.inactive_splits),
        }
    }

    /// What only allocations raise and only frees lower.
    fn raise_handed_out(&mut self, requested: Bytes, allocated: Bytes, allocations: u64) {
        self.requested = self.requested.max(requested);
        self.allocated = self.allocated.max(allocated);
        self.allocations = self.allocations.max(allocations);
    }

    fn raise_reserved(&mut self, reserved: Bytes, segments: u64) {
        self.reserved = self.reserved.max(reserved);
        self.segments = self.segments.max(segments);
    }

    fn raise_inactive(&mut self, inactive_split: Bytes, inactive_splits: u64) {
        self.inactive_split = self.inactive_split.max(inactive_split);
        self.inactive_splits = self.inactive_splits.max(inactive_splits);
    }
}

/// The current numbers of each pool, and the peaks.
///
/// Allocations and frees are the hot path, so peaks of what only allocations raise are brought up
/// to date at the first free after allocations, not at each of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Books {
    small: Held,
    large: Held,
    small_peak: Held,
    large_peak: Held,
    all_peak: Held,
    /// Whether something was handed out since the peaks were last brought up to date.
    behind: bool,
    pub(super) oversize_allocations: Oversize,
    pub(super) oversize_segments: Oversize,
    pub(super) num_alloc_retries: u64,
    pub(super) num_ooms: u64,
    pub(super) num_oom_rejections: u64,
    num_device_alloc: u64,
    num_device_free: u64,
}

/// A count that only `max_split_size_mb` makes other than zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oversize(Count);

impl Oversize {
    #[inline]
    pub(super) const fn increase(&mut self, is_oversize: bool) {
        if is_oversize {
            self.0.increase();
        }
    }

    #[inline]
    pub(super) const fn decrease(&mut self, is_oversize: bool) {
        if is_oversize {
            self.0.decrease();
        }
    }
}

impl Books {
    pub(super) const EMPTY: Self = Self {
        small: Held::ZERO,
        large: Held::ZERO,
        small_peak: Held::ZERO,
        large_peak: Held::ZERO,
        all_peak: Held::ZERO,
        behind: false,
        oversize_allocations: Oversize(Count::ZERO),
        oversize_segments: Oversize(Count::ZERO),
        num_alloc_retries: 0,
        num_ooms: 0,
        num_oom_rejections: 0,
        num_device_alloc: 0,
        num_device_free: 0,
    };

    pub(super) fn requested(&self) -> Bytes {
        self.small.requested + self.large.requested
    }

    pub(super) fn allocated(&self) -> Bytes {
        self.small.allocated + self.large.allocated
    }

    pub(super) fn reserved(&self) -> Bytes {
        self.small.reserved + self.large.reserved
    }

    const fn of(&mut self, pool: Pool) -> (&mut Held, &mut Held) {
        match pool {
            Pool::Small => (&mut self.small, &mut self.small_peak),
            Pool::Large => (&mut self.large, &mut self.large_peak),
        }
    }

    pub(super) fn hand_out(&mut self, pool: Pool, requested: Bytes, size: Bytes) {
        let (now, _) = self.of(pool);
        now.requested += requested;
        now.allocated += size;
        now.allocations = now.allocations.saturating_add(1);
        self.behind = true;
    }

    pub(super) fn take_back(&mut self, pool: Pool, requested: Bytes, size: Bytes) {
        self.catch_up();
        let (now, _) = self.of(pool);
        now.requested -= requested;
        now.allocated -= size;
        now.allocations = now.allocations.saturating_sub(1);
    }

    fn catch_up(&mut self) {
        if std::mem::take(&mut self.behind) {
            let (small, large) = (&self.small, &self.large);
            self.small_peak.raise_handed_out(small.requested, small.allocated, small.allocations);
            self.large_peak.raise_handed_out(large.requested, large.allocated, large.allocations);
            self.all_peak.raise_handed_out(
                small.requested + large.requested,
                small.allocated + large.allocated,
                small.allocations.saturating_add(large.allocations),
            );
        }
    }

    /// One step that makes free blocks in segments partly in use and does away with others: only
    /// its result counts for the peaks.
    pub(super) fn change_inactive(
        &mut self,
        pool: Pool,
        (more, blocks_more): (Bytes, u64),
        (less, blocks_less): (Bytes, u64),
    ) {
        let (now, peak) = self.of(pool);
        now.inactive_split = now.inactive_split + more - less;
        now.inactive_splits =
            now.inactive_splits.saturating_add(blocks_more).saturating_sub(blocks_less);
        if more > less || blocks_more > blocks_less {
            peak.raise_inactive(now.inactive_split, now.inactive_splits);
            self.all_peak.raise_inactive(
                self.small.inactive_split + self.large.inactive_split,
                self.small.inactive_splits.saturating_add(self.large.inactive_splits),
            );
        }
    }

    /// The driver gave memory: so many segments, none where one expands.
    pub(super) fn reserve(&mut self, pool: Pool, size: Bytes, segments: u64) {
        let (now, peak) = self.of(pool);
        now.reserved += size;
        now.segments = now.segments.saturating_add(segments);
        peak.raise_reserved(now.reserved, now.segments);
        self.all_peak.raise_reserved(
            self.small.reserved + self.large.reserved,
            self.small.segments.saturating_add(self.large.segments),
        );
        self.num_device_alloc = self.num_device_alloc.saturating_add(1);
    }

    /// Memory was given back to the driver.
    pub(super) fn give_back(&mut self, pool: Pool, size: Bytes, segments: u64) {
        let (now, _) = self.of(pool);
        now.reserved -= size;
        now.segments = now.segments.saturating_sub(segments);
        self.num_device_free = self.num_device_free.saturating_add(1);
    }

    pub(super) fn reset_peaks(&mut self) {
        self.behind = false;
        self.small_peak = self.small;
        self.large_peak = self.large;
        self.all_peak = self.small.plus(&self.large);
        self.oversize_allocations.0.peak = self.oversize_allocations.0.current;
        self.oversize_segments.0.peak = self.oversize_segments.0.current;
    }

    /// Peaks of requested, allocated and reserved bytes of both pools.
    pub(super) fn peaks(&self) -> (Bytes, Bytes, Bytes) {
        let peak = &self.all_peak;
        (peak.requested.max(self.requested()), peak.allocated.max(self.allocated()), peak.reserved)
    }

    pub(super) fn statistics(&self) -> Statistics {
        let mut books = *self;
        books.catch_up();
        Statistics {
            all: pool_statistics(&books.small.plus(&books.large), &books.all_peak),
            small: pool_statistics(&books.small, &books.small_peak),
            large: pool_statistics(&books.large, &books.large_peak),
            oversize_allocations: self.oversize_allocations.0,
            oversize_segments: self.oversize_segments.0,
            num_alloc_retries: self.num_alloc_retries,
            num_ooms: self.num_ooms,
            num_oom_rejections: self.num_oom_rejections,
            num_device_alloc: self.num_device_alloc,
            num_device_free: self.num_device_free,
        }
    }
}

const fn pool_statistics(now: &Held, peak: &Held) -> PoolStatistics {
    const fn count(current: u64, peak: u64) -> Count {
        Count { current, peak }
    }
    const fn stat(current: Bytes, peak: Bytes) -> Stat {
        Stat { current, peak }
    }
    PoolStatistics {
        allocations: count(now.allocations, peak.allocations),
        segments: count(now.segments, peak.segments),
        inactive_splits: count(now.inactive_splits, peak.inactive_splits),
        requested: stat(now.requested, peak.requested),
        allocated: stat(now.allocated, peak.allocated),
        reserved: stat(now.reserved, peak.reserved),
        inactive_split: stat(now.inactive_split, peak.inactive_split),
    }
}
