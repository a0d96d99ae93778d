//! [`Statistics`]: what `torch.cuda.memory_stats()` counts.

use crate::bytes::Bytes;

/// A number of bytes now, and the largest it has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// SUM: now.
    pub current: Bytes,
    /// SUM: at most, since the peaks were last reset.
    pub peak: Bytes,
}

impl Stat {
    const ZERO: Self = Self { current: Bytes::ZERO, peak: Bytes::ZERO };

    pub(super) fn increase(&mut self, size: Bytes) {
        self.current += size;
        self.peak = self.peak.max(self.current);
    }

    pub(super) fn decrease(&mut self, size: Bytes) {
        self.current -= size;
    }

    /// One step that adds and takes away: only its result counts for the peak.
    pub(super) fn change(&mut self, more: Bytes, less: Bytes) {
        self.current = self.current + more - less;
        self.peak = self.peak.max(self.current);
    }

    pub(super) const fn reset_peak(&mut self) {
        self.peak = self.current;
    }
}

/// What the allocator holds. Always `requested ≤ allocated ≤ reserved`; *active* is `allocated`,
/// because no block waits for another stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// `requested_bytes`: SUM of what tensors asked for.
    pub requested: Stat,
    /// `allocated_bytes`, and `active_bytes`: SUM of the blocks handed out.
    pub allocated: Stat,
    /// `reserved_bytes`: SUM of the segments.
    pub reserved: Stat,
    /// `inactive_split_bytes`: SUM of the free blocks whose segment is partly in use. They
    /// cannot be given back.
    pub inactive_split: Stat,
    /// `segment`: COUNT of segments now.
    pub segments: usize,
    /// `segment`: COUNT of segments at most.
    pub segments_peak: usize,
    /// COUNT of the times all cached segments were given back because memory ran out.
    pub num_alloc_retries: u64,
    /// COUNT of the allocations that failed.
    pub num_ooms: u64,
}

impl Statistics {
    pub(super) const ZERO: Self = Self {
        requested: Stat::ZERO,
        allocated: Stat::ZERO,
        reserved: Stat::ZERO,
        inactive_split: Stat::ZERO,
        segments: 0,
        segments_peak: 0,
        num_alloc_retries: 0,
        num_ooms: 0,
    };

    /// `active_bytes`: allocated, and freed but awaiting another stream. One stream: the same.
    pub const fn active(&self) -> Stat {
        self.allocated
    }

    pub(super) fn add_segment(&mut self) {
        self.segments = self.segments.saturating_add(1);
        self.segments_peak = self.segments_peak.max(self.segments);
    }

    pub(super) const fn remove_segment(&mut self) {
        self.segments = self.segments.saturating_sub(1);
    }

    pub(super) const fn reset_peaks(&mut self) {
        self.requested.reset_peak();
        self.allocated.reset_peak();
        self.reserved.reset_peak();
        self.inactive_split.reset_peak();
        self.segments_peak = self.segments;
    }
}
