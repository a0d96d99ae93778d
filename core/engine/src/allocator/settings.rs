//! [`Settings`], and what they decide: how sizes are rounded, and which blocks are split.
//!
//! Constants and names are those of `c10/core/AllocatorConfig.h` and
//! `c10/cuda/CUDACachingAllocator.cpp`, PyTorch 2.15.

use serde::{Deserialize, Serialize};

use super::Pool;
use crate::bytes::Bytes;

/// `kMinBlockSize`: SIZE of the smallest block; every block is a multiple of it.
pub const MIN_BLOCK_SIZE: Bytes = Bytes(512);
/// `kSmallSize`: SIZE of the largest rounded request that the small pool serves.
pub const SMALL_SIZE: Bytes = Bytes::mib(1);
/// `kSmallBuffer`: SIZE of a segment of the small pool.
pub const SMALL_BUFFER: Bytes = Bytes::mib(2);
/// `kLargeBuffer`: SIZE of a segment for requests between [`SMALL_SIZE`] and [`MIN_LARGE_ALLOC`].
pub const LARGE_BUFFER: Bytes = Bytes::mib(20);
/// `kMinLargeAlloc`: SIZE from which a request gets a segment of its own size.
pub const MIN_LARGE_ALLOC: Bytes = Bytes::mib(10);
/// `kRoundLarge`: SIZE of which such a segment is a multiple.
pub const ROUND_LARGE: Bytes = Bytes::mib(2);
/// `kRoundUpPowerOfTwoIntervals`: COUNT of the octaves, from 1 MiB on, that can each have their
/// own number of divisions.
const POWER2_INTERVALS: usize = 16;

const _: () = assert!(SMALL_SIZE.0 < SMALL_BUFFER.0);
const _: () = assert!(MIN_LARGE_ALLOC.0 < LARGE_BUFFER.0);
const _: () = assert!(LARGE_BUFFER.0.is_multiple_of(ROUND_LARGE.0));
const _: () = assert!(SMALL_SIZE.0.is_multiple_of(MIN_BLOCK_SIZE.0));

/// The settings of `PYTORCH_CUDA_ALLOC_CONF` that are modelled. The default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `max_split_size_mb`: blocks of at least this size are never split, and serve only requests
    /// that are as large. `None`: no block is that large.
    pub max_split_size: Option<Bytes>,
    /// `max_non_split_rounding_mb`: how much larger than the request such a block may be.
    pub max_non_split_rounding: Bytes,
    /// `roundup_power2_divisions`: into how many steps the octave from 1 MiB, 2 MiB, … is divided;
    /// requests are rounded up to the next step. At most 1: not at all.
    pub roundup_power2_divisions: [u64; POWER2_INTERVALS],
    /// `large_segment_size_mb`: see [`LARGE_BUFFER`].
    pub large_segment_size: Bytes,
    /// `expandable_segments`: memory is mapped piece by piece into wide ranges of addresses.
    pub expandable_segments: bool,
    /// SIZE: of such a range. `None`: no request comes near its end.
    pub address_space: Option<Bytes>,
    /// SIZE: what the process may reserve, where it is limited to a fraction of the device.
    pub allowed: Option<Bytes>,
    /// SIZE: cached segments that went unused for long are given back where more than this is
    /// reserved: `garbage_collection_threshold` of what is allowed.
    pub collect_above: Option<Bytes>,
    /// SIZE: a segment that would exceed this is not even asked for: `throw_on_cudamalloc_oom`.
    pub reject_above: Option<Bytes>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_split_size: None,
            max_non_split_rounding: LARGE_BUFFER,
            roundup_power2_divisions: [0; POWER2_INTERVALS],
            large_segment_size: LARGE_BUFFER,
            expandable_segments: false,
            address_space: None,
            allowed: None,
            collect_above: None,
            reject_above: None,
        }
    }
}

impl Settings {
    /// The same on a device without an end, for a process that may reserve all of it.
    #[must_use]
    pub const fn without_limits(&self) -> Self {
        Self { allowed: None, reject_above: None, address_space: None, ..*self }
    }

    /// `round_size`: the size of the block that a request needs.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// use highwater_engine::allocator::Settings;
    /// let settings = Settings::default();
    /// assert_eq!(settings.round_size(Bytes(1)), Bytes(512));
    /// assert_eq!(settings.round_size(Bytes(1_048_577)), Bytes(1_049_088));
    /// ```
    pub fn round_size(&self, request: Bytes) -> Bytes {
        if request < MIN_BLOCK_SIZE {
            return MIN_BLOCK_SIZE;
        }
        let divisions = self.divisions(request);
        if divisions > 1 && request > MIN_BLOCK_SIZE.times(divisions) {
            round_to_division(request, divisions)
        } else {
            request.round_up(MIN_BLOCK_SIZE)
        }
    }

    /// `get_allocation_size`: the size of the segment that is obtained for a rounded request.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// use highwater_engine::allocator::Settings;
    /// let settings = Settings::default();
    /// assert_eq!(settings.allocation_size(Bytes::mib(9)), Bytes::mib(20));
    /// assert_eq!(settings.allocation_size(Bytes::mib(10)), Bytes::mib(10));
    /// ```
    pub fn allocation_size(&self, size: Bytes) -> Bytes {
        if size <= SMALL_SIZE {
            SMALL_BUFFER
        } else if size < MIN_LARGE_ALLOC {
            self.large_segment_size
        } else {
            size.round_up(ROUND_LARGE)
        }
    }

    /// `should_split`: whether `remaining` bytes behind an allocation become a free block.
    pub fn should_split(&self, pool: Pool, size: Bytes, remaining: Bytes) -> bool {
        if pool == Pool::Small || self.expandable_segments {
            remaining >= MIN_BLOCK_SIZE
        } else {
            !self.is_oversize(size) && remaining > SMALL_SIZE
        }
    }

    /// `segment_size` of an expandable segment: SIZE of the pieces in which it is mapped.
    pub(super) const fn piece(&self, pool: Pool) -> Bytes {
        match pool {
            Pool::Small => SMALL_BUFFER,
            Pool::Large => self.large_segment_size,
        }
    }

    /// Whether a request may take a free block that is large enough. Otherwise the search ends:
    /// larger blocks fit no better.
    pub(super) fn may_reuse(&self, size: Bytes, block: Bytes) -> bool {
        if self.is_oversize(size) {
            block < size + self.max_non_split_rounding
        } else {
            !self.is_oversize(block)
        }
    }

    pub(super) fn is_oversize(&self, size: Bytes) -> bool {
        self.max_split_size.is_some_and(|limit| size >= limit)
    }

    /// Number of steps in the octave of this size.
    fn divisions(&self, size: Bytes) -> u64 {
        let octave = size.0.checked_ilog2().unwrap_or(0).saturating_sub(20);
        let last = self.roundup_power2_divisions.len().saturating_sub(1);
        let interval = usize::try_from(octave).unwrap_or(last).min(last);
        self.roundup_power2_divisions.get(interval).copied().unwrap_or(0)
    }
}

/// `roundup_power2_next_division`: the next step, where each octave has so many.
fn round_to_division(size: Bytes, divisions: u64) -> Bytes {
    if size.0.is_power_of_two() {
        return size;
    }
    let octave = size.0.checked_ilog2().unwrap_or(0);
    let step = (1_u64 << octave) >> divisions.checked_ilog2().unwrap_or(0);
    if step == 0 { Bytes(1 << octave).times(2) } else { size.round_up(Bytes(step)) }
}
