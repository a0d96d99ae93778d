//! [`Requests`]: what a process asks a scheduler for, so that others may share its GPU.

use crate::bytes::Bytes;
use crate::report::DeviceVerdict;

/// SIZE: what one shard of Slurm stands for.
const SHARD: Bytes = Bytes::mib(1024);

/// What a process asks a scheduler for on one GPU. No request is larger than the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// COUNT: MiB of the process, its CUDA context included: what `HAMi`'s `nvidia.com/gpumem` and memory limits of MPS
    /// count.
    pub memory_mib: u64,
    /// Hundredths of the GPU: `num_gpus` of Ray, times 100.
    pub gpu_hundredths: u64,
    /// COUNT: shards of Slurm, one of which stands for 1 GiB.
    pub shards: u64,
    /// Millionths of the GPU's memory that the allocator may reserve: the argument of
    /// `torch.cuda.set_per_process_memory_fraction`, times 1,000,000.
    pub allocator_millionths: u64,
    /// Whether the requests cover the upper end of the interval. Where there is no interval they cover what could be
    /// counted, and where the upper end is above what other processes leave they are all of that.
    pub is_sure: bool,
}

impl Requests {
    /// The requests of a run; `None` where it is expected to fail.
    pub fn of(verdict: &DeviceVerdict) -> Option<Self> {
        if verdict.verdict.fails() || verdict.capacity == Bytes::ZERO {
            return None;
        }
        let wanted = verdict.interval.map_or(verdict.need, |interval| interval.high);
        let free = verdict.capacity - verdict.other_processes;
        let memory = wanted.min(free);
        let reserved = memory - verdict.context;
        Some(Self {
            memory_mib: ceil(memory, Bytes::mib(1)).min(free.0.div_euclid(Bytes::mib(1).0)),
            gpu_hundredths: share(memory, verdict.capacity, 100),
            shards: ceil(memory, SHARD).min(verdict.capacity.0.div_euclid(SHARD.0)).max(1),
            allocator_millionths: share(reserved, verdict.capacity, 1_000_000),
            is_sure: verdict.interval.is_some() && wanted <= free,
        })
    }
}

/// COUNT: units that hold a size.
const fn ceil(size: Bytes, unit: Bytes) -> u64 {
    size.0.div_ceil(unit.0)
}

/// The share of a whole in parts of it, rounded up.
fn share(size: Bytes, whole: Bytes, parts: u64) -> u64 {
    let share =
        u128::from(size.0).saturating_mul(u128::from(parts)).div_ceil(whole.0.max(1).into());
    u64::try_from(share).unwrap_or(u64::MAX).min(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Interval, Provenance, Verdict};

    const GIB: Bytes = Bytes::mib(1024);

    fn verdict(need: Bytes, high: Option<Bytes>, verdict: Verdict) -> DeviceVerdict {
        DeviceVerdict {
            id: "t4".to_owned(),
            name: "T4".to_owned(),
            capacity: Bytes::mib(15_000),
            need,
            capacity_from: Provenance::Reported,
            context: Bytes::mib(150),
            context_high: None,
            context_from: Provenance::Fitted,
            other_processes: Bytes::ZERO,
            allowed: None,
            interval: high.map(|high| Interval { low: need, high }),
            chance: None,
            verdict,
            out_of_memory: None,
        }
    }

    #[test]
    fn a_process_asks_for_the_upper_end_of_its_interval() {
        let high = Bytes(GIB.times(3).0 + 1);
        let requests = Requests::of(&verdict(GIB, Some(high), Verdict::Fits));
        // (3072 MiB + 1 byte − 150 MiB) / 15,000 MiB = 0.1948000001
        let expected = Requests {
            memory_mib: 3073,
            gpu_hundredths: 21,
            shards: 4,
            allocator_millionths: 194_801,
            is_sure: true,
        };
        assert_eq!(requests, Some(expected));
    }

    #[test]
    fn without_an_interval_it_asks_for_its_need_and_is_not_sure() {
        let requests = Requests::of(&verdict(Bytes::mib(1500), None, Verdict::NotKnown));
        let expected = Requests {
            memory_mib: 1500,
            gpu_hundredths: 10,
            shards: 2,
            allocator_millionths: 90_000,
            is_sure: false,
        };
        assert_eq!(requests, Some(expected));
    }

    #[test]
    fn no_request_is_larger_than_the_gpu() {
        let near = verdict(Bytes::mib(14_900), Some(Bytes::mib(16_000)), Verdict::LikelyFits);
        let expected = Requests {
            memory_mib: 15_000,
            gpu_hundredths: 100,
            // The GPU has 14 whole GiB.
            shards: 14,
            allocator_millionths: 990_000,
            is_sure: false,
        };
        assert_eq!(Requests::of(&near), Some(expected));
        let shared = DeviceVerdict { other_processes: Bytes::mib(5000), ..near };
        assert_eq!(Requests::of(&shared).map(|requests| requests.memory_mib), Some(10_000));
    }

    #[test]
    fn a_run_that_fails_asks_for_nothing() {
        for fails in [Verdict::LikelyDoesNotFit, Verdict::DoesNotFit] {
            assert_eq!(Requests::of(&verdict(GIB.times(20), None, fails)), None);
        }
    }
}
