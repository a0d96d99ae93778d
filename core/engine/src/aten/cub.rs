//! Scratch of CUB's algorithms, as PyTorch 2.15 calls them for 64-bit keys and values
//! (`native/cuda/cub.cuh`; policies of compute capability 8.0). Every part is aligned to 256 bytes, and as much
//! is added for the alignment of the first.

use crate::bytes::Bytes;

const ALIGNMENT: Bytes = Bytes(256);
/// SIZE: what aligning the first part may cost.
const SLACK: Bytes = Bytes(255);

/// SIZE: `DeviceRadixSort::SortPairs` of `count` numbers up to `largest` with their positions. Few are sorted by
/// one block of threads. Eight bits are sorted in a pass; after the first, keys and values go back and forth.
pub(super) fn sort(count: u64, largest: u64) -> Bytes {
    const ONE_BLOCK: u64 = 2304;
    const TILE: u64 = 3840;
    const DIGITS: u64 = 256;
    if count <= ONE_BLOCK {
        return Bytes(1);
    }
    let bits = u64::BITS.saturating_sub(largest.leading_zeros()).max(1);
    let passes = u64::from(bits.div_ceil(DIGITS.ilog2()));
    let bins = Bytes(8).times(DIGITS).times(passes);
    let look_back = Bytes(4).times(DIGITS).times(count.div_ceil(TILE));
    let counters = Bytes(4).times(passes).round_up(ALIGNMENT);
    let buffers = Bytes(8).times(count).round_up(ALIGNMENT).times(2);
    let all = bins + look_back + counters + SLACK;
    if passes > 1 { all + buffers } else { all }
}

/// SIZE: `DeviceScan::ExclusiveSum` of 64-bit numbers.
pub(super) fn running_sum(count: u64) -> Bytes {
    const TILE: u64 = 896;
    states(count.div_ceil(TILE))
}

/// SIZE: `DeviceSelect::UniqueByKey` of 64-bit keys and values.
pub(super) fn unique_by_key(count: u64) -> Bytes {
    const TILE: u64 = 1344;
    states(count.div_ceil(TILE))
}

/// The states of tiles that look back at those before them (`ScanTileState`), and as many as a warp has threads.
fn states(tiles: u64) -> Bytes {
    Bytes(16).times(tiles.saturating_add(32)).round_up(ALIGNMENT) + ALIGNMENT + SLACK
}

#[cfg(test)]
mod tests {
    use super::{running_sum, sort, unique_by_key};

    /// What PyTorch allocated.
    #[test]
    fn sizes() {
        for (count, largest, bytes) in [
            (2304, 299, 1),
            (5000, 255, 4607),
            (5000, 256, 87_039),
            (5625, 65_536, 98_815),
            (99_846, 70_000, 1_632_255),
            (400_000, 50_257, 6_512_127),
        ] {
            assert_eq!(sort(count, largest).0, bytes, "{count} up to {largest}");
        }
        for (count, unique, sum) in
            [(4096, 1279, 1279), (16_384, 1279, 1535), (21_505, 1535, 1535), (100_000, 2303, 2047)]
        {
            assert_eq!(unique_by_key(count).0, unique, "{count}");
            assert_eq!(running_sum(count.min(50_257)).0, sum, "{count}");
        }
    }
}
