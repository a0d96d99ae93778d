//! Slices of a card that NVIDIA's MIG divides, each a device of its own.
//!
//! Memory is what `nvidia-smi mig -lgip` prints, the smallest that was seen: PyTorch reports the same as total memory
//! (9.50 GiB of an A100's `1g.10gb`, 16.00 GiB of an H200's `1g.18gb`). The rest is of NVIDIA's MIG guide: parts of
//! memory and of multiprocessors, and where a slice may start. Profiles with media extensions compute as those without.

use super::table::{AMPERE, BLACKWELL, HOPPER};
use super::{Device, Provenance, Totals};
use crate::order::InOrder as _;

/// Which part of a card a slice is; its profile, `3g.40gb`, is the device's nameplate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Id of the card.
    pub card: &'static str,
    /// COUNT: slices of memory, with their L2 and bandwidth.
    pub memory: u64,
    /// COUNT: slices of memory that the card has.
    pub of: u64,
    /// COUNT: slices of multiprocessors.
    pub compute: u64,
    /// The slices of memory at which it may start.
    pub starts: &'static [u64],
}

const SEVEN: Slice = Slice { card: "", memory: 8, of: 8, compute: 7, starts: &[0] };
const FOUR: Slice = Slice { memory: 4, compute: 4, ..SEVEN };
const THREE: Slice = Slice { compute: 3, starts: &[0, 4], ..FOUR };
const TWO: Slice = Slice { memory: 2, compute: 2, starts: &[0, 2, 4], ..SEVEN };
const ONE_DOUBLE: Slice = Slice { compute: 1, starts: &[0, 2, 4, 6], ..TWO };
const ONE: Slice = Slice { memory: 1, compute: 1, starts: &[0, 1, 2, 3, 4, 5, 6], ..SEVEN };
/// An A30 has four slices of each.
const A30_FOUR: Slice = Slice { of: 4, ..FOUR };
const A30_TWO: Slice = Slice { of: 4, starts: &[0, 2], ..TWO };
const A30_ONE: Slice = Slice { of: 4, starts: &[0, 1, 2, 3], ..ONE };

/// Nobody is known to have published what slices of these have.
const ASSUMED_HOPPER: Device = Device { capacity_from: Provenance::Assumed, ..HOPPER };
const ASSUMED_BLACKWELL: Device = Device { capacity_from: Provenance::Assumed, ..BLACKWELL };

/// One slice: the card's id and name, the profile, its part of the card, its memory in hundredths of GiB and its
/// multiprocessors.
macro_rules! slice {
    ($card:literal, $name:literal, $profile:literal, $part:expr, $memory:literal, $processors:literal, $kind:expr) => {
        Device {
            id: concat!($card, "-", $profile),
            name: concat!($name, " ", $profile),
            nameplate: $profile,
            capacity: Totals::bytes($memory),
            multiprocessors: $processors,
            slice: Some(Slice { card: $card, ..$part }),
            ..$kind
        }
    };
}

pub(super) const SLICES: &[Device] = &[
    slice!("a30", "A30", "1g.6gb", A30_ONE, 581, 14, AMPERE),
    slice!("a30", "A30", "2g.12gb", A30_TWO, 1169, 28, AMPERE),
    slice!("a30", "A30", "4g.24gb", A30_FOUR, 2344, 56, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "1g.5gb", ONE, 475, 14, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "1g.10gb", ONE_DOUBLE, 975, 14, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "2g.10gb", TWO, 975, 28, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "3g.20gb", THREE, 1962, 42, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "4g.20gb", FOUR, 1962, 56, AMPERE),
    slice!("a100-40gb", "A100 40 GB", "7g.40gb", SEVEN, 3938, 98, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "1g.10gb", ONE, 950, 14, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "1g.20gb", ONE_DOUBLE, 1950, 14, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "2g.20gb", TWO, 1950, 28, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "3g.40gb", THREE, 3925, 42, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "4g.40gb", FOUR, 3925, 56, AMPERE),
    slice!("a100-80gb", "A100 80 GB", "7g.80gb", SEVEN, 7900, 98, AMPERE),
    slice!("h100-80gb", "H100 SXM", "1g.10gb", ONE, 975, 16, HOPPER),
    slice!("h100-80gb", "H100 SXM", "1g.20gb", ONE_DOUBLE, 1962, 26, HOPPER),
    slice!("h100-80gb", "H100 SXM", "2g.20gb", TWO, 1962, 32, HOPPER),
    slice!("h100-80gb", "H100 SXM", "3g.40gb", THREE, 3950, 60, HOPPER),
    slice!("h100-80gb", "H100 SXM", "4g.40gb", FOUR, 3950, 64, HOPPER),
    slice!("h100-80gb", "H100 SXM", "7g.80gb", SEVEN, 7910, 132, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "1g.10gb", ONE, 975, 14, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "1g.20gb", ONE_DOUBLE, 1962, 14, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "2g.20gb", TWO, 1962, 30, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "3g.40gb", THREE, 3950, 46, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "4g.40gb", FOUR, 3950, 62, HOPPER),
    slice!("h100-pcie", "H100 PCIe", "7g.80gb", SEVEN, 7910, 114, HOPPER),
    slice!("h200", "H200", "1g.18gb", ONE, 1600, 16, HOPPER),
    slice!("h200", "H200", "1g.35gb", ONE_DOUBLE, 3250, 26, HOPPER),
    slice!("h200", "H200", "2g.35gb", TWO, 3250, 32, HOPPER),
    // Two slices of the size below, where no output was found.
    slice!("h200", "H200", "3g.71gb", THREE, 6500, 60, ASSUMED_HOPPER),
    slice!("h200", "H200", "4g.71gb", FOUR, 6500, 64, ASSUMED_HOPPER),
    slice!("h200", "H200", "7g.141gb", SEVEN, 13972, 132, HOPPER),
    // The same parts of the card's memory as on H200.
    slice!("b200", "B200", "1g.23gb", ONE, 2042, 18, ASSUMED_BLACKWELL),
    slice!("b200", "B200", "1g.45gb", ONE_DOUBLE, 4146, 18, ASSUMED_BLACKWELL),
    slice!("b200", "B200", "2g.45gb", TWO, 4146, 36, ASSUMED_BLACKWELL),
    slice!("b200", "B200", "3g.90gb", THREE, 8292, 54, ASSUMED_BLACKWELL),
    slice!("b200", "B200", "4g.90gb", FOUR, 8292, 72, ASSUMED_BLACKWELL),
    slice!("b200", "B200", "7g.180gb", SEVEN, 17835, 126, ASSUMED_BLACKWELL),
];

/// The slices that a card can be divided into, the smallest first; none where MIG does not divide it.
///
/// ```
/// use highwater_core::device;
/// let profiles = |card| device::slices(card).map(|device| device.nameplate).collect::<Vec<_>>();
/// assert_eq!(profiles("a30"), ["1g.6gb", "2g.12gb", "4g.24gb"]);
/// assert!(profiles("t4").is_empty());
/// ```
pub fn slices(card: &str) -> impl Iterator<Item = &'static Device> {
    SLICES.iter().filter(move |device| device.slice.is_some_and(|slice| slice.card == card))
}

/// Whether a card can hold these slices at once, and where: the slice of memory at which each starts.
///
/// Free memory is not enough, because a slice may start at few places only.
pub fn placement(slices: &[Slice]) -> Option<Vec<u64>> {
    // The largest first: they may start at the fewest places.
    let mut order: Vec<usize> = (0..slices.len()).collect();
    order.order_by_key(|&at| std::cmp::Reverse(slices.get(at).map(|slice| slice.memory)));
    let mut starts = vec![0; slices.len()];
    place(slices, &order, 0, &mut starts).then_some(starts)
}

/// Places the slices of this order next to those that are taken: a bit for each slice of memory.
fn place(slices: &[Slice], order: &[usize], taken: u64, starts: &mut [u64]) -> bool {
    let Some((&at, rest)) = order.split_first() else { return true };
    let Some(slice) = slices.get(at) else { return false };
    slice.starts.iter().any(|&start| {
        let own = ((1_u64 << slice.memory.min(63)) - 1) << start.min(56);
        if taken & own != 0 {
            return false;
        }
        if let Some(known) = starts.get_mut(at) {
            *known = start;
        }
        place(slices, rest, taken | own, starts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::device;

    /// A slice is found by its id, is smaller than its card, and as fast as its part of it.
    #[test]
    fn slices_are_devices() {
        for device in SLICES {
            assert_eq!(device::lookup(device.id), Some(device));
            let slice = device.slice.expect("it is one");
            let card = device::find(slice.card).expect("it is in the table");
            assert_eq!(card.compute_capability, device.compute_capability, "{device}");
            assert!(device.multiprocessors <= card.multiprocessors, "{device}");
            assert!(device.capacity <= card.capacity, "{device}");
            let part = Bytes(card.capacity.times(slice.memory).0.div_euclid(slice.of));
            assert!(device.capacity.times(10) > part.times(9), "{device}");
            let (part, all) = (device.rates().expect("rates"), card.rates().expect("rates"));
            let of = u32::try_from(slice.of).expect("small");
            let memory = u32::try_from(slice.memory).expect("small");
            assert_eq!(part.bandwidth, (all.bandwidth * memory).div_euclid(of), "{device}");
        }
    }

    /// Three `2g` leave place for a `1g` and for no other `2g`; two `3g` leave none, though a slice of multiprocessors
    /// is free.
    #[test]
    fn slices_start_at_few_places() {
        let check = |card: &str, profiles: &[&str], expected: Option<&[u64]>| {
            let find = |profile: &&str| {
                let mut slices = slices(card);
                slices.find(|device| device.nameplate == *profile).and_then(|device| device.slice)
            };
            let slices: Vec<Slice> = profiles.iter().filter_map(find).collect();
            assert_eq!(slices.len(), profiles.len());
            assert_eq!(placement(&slices).as_deref(), expected, "{profiles:?}");
        };
        check("a100-80gb", &["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"], Some(&[0, 2, 4, 6]));
        check("a100-80gb", &["2g.20gb"; 4], None);
        check("a100-80gb", &["3g.40gb", "3g.40gb"], Some(&[0, 4]));
        check("a100-80gb", &["3g.40gb", "3g.40gb", "1g.10gb"], None);
        check("a100-80gb", &["1g.10gb", "4g.40gb", "2g.20gb"], Some(&[6, 0, 4]));
        check("a100-80gb", &["1g.10gb"; 7], Some(&[0, 1, 2, 3, 4, 5, 6]));
        check("a100-80gb", &["1g.10gb"; 8], None);
        check("h100-80gb", &["1g.20gb"; 4], Some(&[0, 2, 4, 6]));
        check("a30", &["2g.12gb", "1g.6gb", "1g.6gb"], Some(&[0, 2, 3]));
    }
}
