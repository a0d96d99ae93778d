//! GPUs: what PyTorch may use of each, and what lies outside its allocator.
//!
//! - Only CUDA devices for which PyTorch 2.15 publishes a wheel. The default wheel (CUDA 13.2)
//!   has code for compute capability 7.5 and up; a V100 (7.0) needs one built for CUDA 12.
//!   Older cards (K80, P100, P40) have none and are left out. So are GB10 and Jetson, whose memory is shared with the
//!   operating system, and AMD cards, on which PyTorch runs other kernels.
//! - Capacity is the smallest *total capacity* that PyTorch was seen to report under Linux, not
//!   the figure in the name: the driver keeps some for itself, newer ones more, and ECC takes a sixteenth
//!   of GDDR memory where it is on by default.
//! - Multiprocessors and threads per multiprocessor are the vendor's.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

/// One model of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Stable id, `a100-80gb`.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// SIZE: total memory as PyTorch sees it.
    pub capacity: Bytes,
    /// Memory as the vendor sells it.
    pub nameplate: &'static str,
    /// Compute capability, major and minor; it selects kernels and workspaces.
    pub compute_capability: (u32, u32),
    /// COUNT: multiprocessors.
    pub multiprocessors: u64,
    /// COUNT: threads that can be resident on one multiprocessor.
    pub threads_per_multiprocessor: u64,
}

impl Device {
    /// The CUDA context and the libraries' own memory, for one process with lazy module loading:
    /// 100 MiB and 1.92 KiB for each thread that can be resident.
    ///
    /// A straight line through the medians of 14 models of GPU, each the difference between *this process has … in
    /// use* and what the allocator held in public out-of-memory messages (RMSE 46 MiB).
    pub const fn context(&self) -> Bytes {
        let threads = self.multiprocessors.saturating_mul(self.threads_per_multiprocessor);
        let per_thread = Bytes::kib(192).times(threads).0.div_euclid(100);
        Bytes(Bytes::mib(100).0.saturating_add(per_thread))
    }

    /// What the allocator may reserve: the capacity less the context.
    pub const fn limit(&self) -> Bytes {
        self.capacity.saturating_sub(self.context())
    }

    /// The workspace that PyTorch gives cuBLAS around each matrix product: 32 MiB from Hopper
    /// on, 8.125 MiB before. `getChosenWorkspaceSize`, `aten/src/ATen/cuda/CublasHandlePool.cpp`.
    pub const fn cublas_workspace(&self) -> Bytes {
        match self.compute_capability {
            (9..=12, _) => Bytes::mib(32),
            _ => Bytes::kib(2 * 4096 + 8 * 16),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All devices, by architecture and then by memory.
pub const fn all() -> &'static [Device] {
    TABLE
}

/// The device with this id.
///
/// ```
/// use highwater_core::device;
/// assert_eq!(device::lookup("t4").map(|device| device.multiprocessors), Some(40));
/// assert_eq!(device::lookup("abacus"), None);
/// ```
pub fn lookup(id: &str) -> Option<&'static Device> {
    TABLE.iter().find(|device| device.id == id)
}

/// Whether a device holds the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Process peak at most 95 % of the usable capacity.
    Fits,
    /// Process peak at most 100 %.
    Tight,
    /// The allocator hits the limit, frees cached segments, retries and survives.
    FitsAfterFlush,
    /// The allocator raises out of memory.
    DoesNotFit,
}

impl Verdict {
    /// Percent of the usable capacity up to which a run fits without a word of caution.
    const COMFORTABLE_PERCENT: u64 = 95;

    /// The verdict on a run that never had to give cached segments back.
    ///
    /// ```
    /// use highwater_core::Bytes;
    /// use highwater_core::device::Verdict;
    /// assert_eq!(Verdict::of(Bytes(95), Bytes(100)), Some(Verdict::Fits));
    /// assert_eq!(Verdict::of(Bytes(96), Bytes(100)), Some(Verdict::Tight));
    /// assert_eq!(Verdict::of(Bytes(101), Bytes(100)), None);
    /// ```
    ///
    /// `None` where the peak exceeds the capacity: then the run has to be replayed with the
    /// capacity as its limit.
    pub fn of(process_peak: Bytes, capacity: Bytes) -> Option<Self> {
        let percent = |bytes: Bytes, n: u64| u128::from(bytes.0) * u128::from(n);
        if percent(process_peak, 100) <= percent(capacity, Self::COMFORTABLE_PERCENT) {
            Some(Self::Fits)
        } else if process_peak <= capacity {
            Some(Self::Tight)
        } else {
            None
        }
    }

    /// The name in JSON: `fits-after-flush`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Tight => "tight",
            Self::FitsAfterFlush => "fits-after-flush",
            Self::DoesNotFit => "does-not-fit",
        }
    }

    /// Whether the run survives at all.
    pub const fn survives(self) -> bool {
        !matches!(self, Self::DoesNotFit)
    }
}

/// Hundredths of GiB, as out-of-memory messages print them.
const fn gib(whole: u64, hundredths: u64) -> Bytes {
    let hundredths = whole.saturating_mul(100).saturating_add(hundredths);
    Bytes(Bytes::mib(1024).times(hundredths).0.div_euclid(100))
}

/// Capacities in MiB are from device properties in public logs, those in GiB from
/// out-of-memory messages.
const TABLE: &[Device] = &[
    Device {
        id: "v100-16gb",
        name: "Tesla V100 16 GB",
        capacity: Bytes::mib(16_130),
        nameplate: "16 GB",
        compute_capability: (7, 0),
        multiprocessors: 80,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "v100-32gb",
        name: "Tesla V100 32 GB",
        capacity: Bytes::mib(32_494),
        nameplate: "32 GB",
        compute_capability: (7, 0),
        multiprocessors: 80,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "t4",
        name: "T4",
        capacity: Bytes::mib(14_913),
        nameplate: "16 GB",
        compute_capability: (7, 5),
        multiprocessors: 40,
        threads_per_multiprocessor: 1024,
    },
    Device {
        id: "rtx-2080-ti",
        name: "GeForce RTX 2080 Ti",
        capacity: gib(10, 75),
        nameplate: "11 GB",
        compute_capability: (7, 5),
        multiprocessors: 68,
        threads_per_multiprocessor: 1024,
    },
    Device {
        id: "rtx-8000",
        name: "Quadro RTX 8000",
        capacity: gib(47, 45),
        nameplate: "48 GB",
        compute_capability: (7, 5),
        multiprocessors: 72,
        threads_per_multiprocessor: 1024,
    },
    Device {
        id: "a30",
        name: "A30",
        capacity: gib(23, 53),
        nameplate: "24 GB",
        compute_capability: (8, 0),
        multiprocessors: 56,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "a100-40gb",
        name: "A100 40 GB",
        capacity: gib(39, 38),
        nameplate: "40 GB",
        compute_capability: (8, 0),
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "a100-80gb",
        name: "A100 80 GB",
        capacity: Bytes::mib(81_038),
        nameplate: "80 GB",
        compute_capability: (8, 0),
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "a10",
        name: "A10",
        capacity: gib(22, 5),
        nameplate: "24 GB",
        compute_capability: (8, 6),
        multiprocessors: 72,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "a10g",
        name: "A10G",
        capacity: Bytes::mib(22_587),
        nameplate: "24 GB",
        compute_capability: (8, 6),
        multiprocessors: 80,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-3060",
        name: "GeForce RTX 3060 12 GB",
        capacity: Bytes::mib(11_938),
        nameplate: "12 GB",
        compute_capability: (8, 6),
        multiprocessors: 28,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-3090",
        name: "GeForce RTX 3090",
        capacity: Bytes::mib(24_124),
        nameplate: "24 GB",
        compute_capability: (8, 6),
        multiprocessors: 82,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-a4000",
        name: "RTX A4000",
        capacity: gib(15, 60),
        nameplate: "16 GB",
        compute_capability: (8, 6),
        multiprocessors: 48,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-a5000",
        name: "RTX A5000",
        capacity: Bytes::mib(24_138),
        nameplate: "24 GB",
        compute_capability: (8, 6),
        multiprocessors: 64,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "a40",
        name: "A40",
        capacity: gib(44, 34),
        nameplate: "48 GB",
        compute_capability: (8, 6),
        multiprocessors: 84,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-a6000",
        name: "RTX A6000",
        capacity: gib(47, 40),
        nameplate: "48 GB",
        compute_capability: (8, 6),
        multiprocessors: 84,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "l4",
        name: "L4",
        capacity: Bytes::mib(22_563),
        nameplate: "24 GB",
        compute_capability: (8, 9),
        multiprocessors: 58,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-4090",
        name: "GeForce RTX 4090",
        capacity: Bytes::mib(24_081),
        nameplate: "24 GB",
        compute_capability: (8, 9),
        multiprocessors: 128,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "l20",
        name: "L20",
        capacity: gib(44, 42),
        nameplate: "48 GB",
        compute_capability: (8, 9),
        multiprocessors: 92,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "l40",
        name: "L40",
        capacity: gib(44, 40),
        nameplate: "48 GB",
        compute_capability: (8, 9),
        multiprocessors: 142,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "l40s",
        name: "L40S",
        capacity: gib(44, 42),
        nameplate: "48 GB",
        compute_capability: (8, 9),
        multiprocessors: 142,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-6000-ada",
        name: "RTX 6000 Ada",
        capacity: Bytes::mib(48_520),
        nameplate: "48 GB",
        compute_capability: (8, 9),
        multiprocessors: 142,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "h100-pcie",
        name: "H100 PCIe",
        capacity: Bytes::mib(81_008),
        nameplate: "80 GB",
        compute_capability: (9, 0),
        multiprocessors: 114,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "h100-80gb",
        name: "H100 SXM",
        capacity: gib(79, 10),
        nameplate: "80 GB",
        compute_capability: (9, 0),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "h100-nvl",
        name: "H100 NVL",
        capacity: gib(93, 2),
        nameplate: "94 GB",
        compute_capability: (9, 0),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "h20",
        name: "H20",
        capacity: gib(95, 8),
        nameplate: "96 GB",
        compute_capability: (9, 0),
        multiprocessors: 78,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "gh200-96gb",
        name: "GH200 96 GB",
        capacity: gib(94, 50),
        nameplate: "96 GB",
        compute_capability: (9, 0),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "h200",
        name: "H200",
        capacity: Bytes::mib(143_156),
        nameplate: "141 GB",
        compute_capability: (9, 0),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "b200",
        name: "B200",
        capacity: Bytes::mib(182_631),
        nameplate: "180 GB",
        compute_capability: (10, 0),
        multiprocessors: 148,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "gb200",
        name: "GB200",
        capacity: gib(184, 31),
        nameplate: "186 GB",
        compute_capability: (10, 0),
        multiprocessors: 148,
        threads_per_multiprocessor: 2048,
    },
    Device {
        id: "rtx-5090",
        name: "GeForce RTX 5090",
        capacity: Bytes::mib(32_102),
        nameplate: "32 GB",
        compute_capability: (12, 0),
        multiprocessors: 170,
        threads_per_multiprocessor: 1536,
    },
    Device {
        id: "rtx-pro-6000",
        name: "RTX PRO 6000 Blackwell",
        capacity: gib(94, 96),
        nameplate: "96 GB",
        compute_capability: (12, 0),
        multiprocessors: 188,
        threads_per_multiprocessor: 1536,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn devices_are_distinct_and_leave_room_for_work() {
        let ids: BTreeSet<_> = all().iter().map(|device| device.id).collect();
        let names: BTreeSet<_> = all().iter().map(|device| device.name).collect();
        assert_eq!((ids.len(), names.len()), (all().len(), all().len()));
        for device in all() {
            assert!(device.limit() > Bytes::mib(10 * 1024), "{device}");
            assert_eq!(lookup(device.id), Some(device));
        }
    }

    #[test]
    fn contexts_are_those_that_the_line_predicts() {
        let context = |id: &str| lookup(id).expect("a device").context().to_string();
        assert_eq!(context("t4"), "176.80 MiB");
        assert_eq!(context("a100-80gb"), "514.72 MiB");
        assert_eq!(context("rtx-4090"), "468.64 MiB");
        assert_eq!(context("h200"), "606.88 MiB");
    }

    #[test]
    fn workspace_follows_the_compute_capability() {
        let workspace = |id: &str| lookup(id).expect("a device").cublas_workspace();
        for id in ["t4", "a100-40gb", "rtx-3090", "rtx-4090"] {
            assert_eq!(workspace(id), Bytes(8_519_680));
        }
        for id in ["h100-80gb", "b200", "rtx-5090"] {
            assert_eq!(workspace(id), Bytes::mib(32));
        }
    }
}
