//! Collection of garbage: `garbage_collection_threshold`.
//!
//! Before a segment is obtained, the allocator checks whether more is reserved than the threshold allows. If so,
//! it releases segments of the large pool that are one free block and have been unused for at least their average
//! time. It repeats this until enough is released. Time is counted in searches of the large pool.

use super::{Allocator, BlockId, Pool};
use crate::bytes::Bytes;

impl Allocator {
    /// `garbage_collect_cached_blocks`.
    pub(super) fn collect_garbage(&mut self) {
        let Some(most) = self.settings.collect_above else { return };
        let reserved = self.reserved();
        if reserved <= most {
            return;
        }
        let mut missing = reserved - most;
        let searches = self.searches;
        let mut cached: Vec<(BlockId, u64, Bytes)> = Vec::new();
        let large = self.shelves().filter(|shelf| shelf.pool == Pool::Large);
        let free = large.flat_map(|shelf| self.free_set(shelf).ids()).filter_map(|id| {
            let block = self.blocks.get(id.0).filter(|block| !block.is_split())?;
            Some((id, searches.saturating_sub(block.requested.0), block.size))
        });
        cached.extend(free);
        while missing > Bytes::ZERO && !cached.is_empty() && !self.settings.expandable_segments {
            let ages: u128 = cached.iter().map(|&(_, age, _)| u128::from(age)).sum();
            let count = u128::try_from(cached.len()).unwrap_or(u128::MAX);
            let is_old = |age: u64| u128::from(age).saturating_mul(count) >= ages;
            for &(id, age, size) in &cached {
                if is_old(age) && self.release(id) {
                    missing -= size;
                }
            }
            cached.retain(|&(_, age, _)| !is_old(age));
        }
    }
}
