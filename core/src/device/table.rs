//! The table of devices: one row has all facts about a GPU.
//!
//! Capacities in MiB are from device properties in public logs. Those in GiB are from out-of-memory messages. The
//! totals have the same sources.

use super::{Device, Provenance, Seen, Totals};
use crate::bytes::Bytes;

/// Compute capability, and threads that can be resident on one multiprocessor.
const fn architecture(compute_capability: (u32, u32), threads_per_multiprocessor: u64) -> Device {
    Device {
        id: "",
        name: "",
        words: &[],
        nameplate: "",
        capacity: Bytes::ZERO,
        capacity_from: Provenance::Reported,
        totals: linux(&[]),
        smi_totals: &[],
        context_seen: None,
        compute_capability,
        multiprocessors: 0,
        threads_per_multiprocessor,
        slice: None,
    }
}

const VOLTA: Device = architecture((7, 0), 2048);
const TURING: Device = architecture((7, 5), 1024);
pub(super) const AMPERE: Device = architecture((8, 0), 2048);
const AMPERE_86: Device = architecture((8, 6), 1536);
const ADA: Device = architecture((8, 9), 1536);
pub(super) const HOPPER: Device = architecture((9, 0), 2048);
pub(super) const BLACKWELL: Device = architecture((10, 0), 2048);
const BLACKWELL_120: Device = architecture((12, 0), 1536);

/// Hundredths of GiB, as out-of-memory messages print them.
const fn gib(whole: u64, hundredths: u64) -> Bytes {
    Totals::bytes(whole.saturating_mul(100).saturating_add(hundredths))
}

/// Totals under Linux alone.
const fn linux(linux: &'static [u64]) -> Totals {
    Totals { linux, windows: None, other_ecc: None }
}

/// The total under Windows alone.
const fn windows(total: u64) -> Totals {
    Totals { windows: Some(total), ..linux(&[]) }
}

/// MiB of contexts that messages tell: the least, the median and the most, and how many messages.
const fn seen(least: u64, median: u64, most: u64, messages: u64) -> Seen {
    let (least, median, most) = (Bytes::mib(least), Bytes::mib(median), Bytes::mib(most));
    Seen { least, median, most, messages }
}

pub(super) const DEVICES: &[Device] = &[
    Device {
        id: "v100-16gb",
        name: "Tesla V100 16 GB",
        words: &["v100"],
        nameplate: "16 GB",
        capacity: Bytes::mib(16_130),
        totals: linux(&[1578, 1575]),
        smi_totals: &[16_130, 16_160, 16_384],
        multiprocessors: 80,
        ..VOLTA
    },
    Device {
        id: "v100-32gb",
        name: "Tesla V100 32 GB",
        words: &["v100"],
        nameplate: "32 GB",
        capacity: Bytes::mib(32_494),
        totals: linux(&[3175, 3174, 3173]),
        smi_totals: &[32_510, 32_768],
        context_seen: Some(seen(379, 387, 399, 4)),
        multiprocessors: 80,
        ..VOLTA
    },
    Device {
        id: "t4",
        name: "T4",
        words: &["t4"],
        nameplate: "16 GB",
        capacity: Bytes::mib(14_913),
        totals: Totals { windows: Some(1583), ..linux(&[1476, 1475, 1474, 1473, 1458, 1456]) },
        smi_totals: &[15_109, 15_360, 16_384],
        context_seen: Some(seen(104, 128, 147, 6)),
        multiprocessors: 40,
        ..TURING
    },
    Device {
        id: "rtx-2080-ti",
        name: "GeForce RTX 2080 Ti",
        words: &["2080", "ti"],
        nameplate: "11 GB",
        capacity: gib(10, 75),
        capacity_from: Provenance::Assumed,
        totals: linux(&[1076, 1073]),
        smi_totals: &[11_019, 11_264],
        multiprocessors: 68,
        ..TURING
    },
    Device {
        id: "rtx-8000",
        name: "Quadro RTX 8000",
        words: &["8000"],
        nameplate: "48 GB",
        capacity: gib(47, 45),
        totals: linux(&[4745]),
        smi_totals: &[48_601, 49_152],
        context_seen: Some(seen(336, 336, 336, 1)),
        multiprocessors: 72,
        ..TURING
    },
    Device {
        id: "a30",
        name: "A30",
        words: &["a30"],
        nameplate: "24 GB",
        capacity: gib(23, 53),
        totals: linux(&[2360, 2353]),
        smi_totals: &[24_576],
        multiprocessors: 56,
        ..AMPERE
    },
    Device {
        id: "a100-40gb",
        name: "A100 40 GB",
        words: &["a100"],
        nameplate: "40 GB",
        capacity: gib(39, 38),
        totals: linux(&[3959, 3956, 3950, 3949, 3939, 3938]),
        smi_totals: &[40_536, 40_960],
        context_seen: Some(seen(501, 503, 512, 3)),
        multiprocessors: 108,
        ..AMPERE
    },
    Device {
        id: "a100-80gb",
        name: "A100 80 GB",
        words: &["a100"],
        nameplate: "80 GB",
        capacity: Bytes::mib(81_038),
        totals: linux(&[7935, 7925, 7915, 7914]),
        smi_totals: &[81_251, 81_920],
        context_seen: Some(seen(501, 503, 512, 3)),
        multiprocessors: 108,
        ..AMPERE
    },
    Device {
        id: "a10",
        name: "A10",
        words: &["a10"],
        nameplate: "24 GB",
        capacity: gib(22, 5),
        capacity_from: Provenance::Assumed,
        totals: Totals { other_ecc: Some(2370), ..linux(&[2205]) },
        smi_totals: &[23_028, 24_564],
        multiprocessors: 72,
        ..AMPERE_86
    },
    Device {
        id: "a10g",
        name: "A10G",
        words: &["a10g"],
        nameplate: "24 GB",
        capacity: Bytes::mib(22_587),
        totals: linux(&[2219, 2206]),
        smi_totals: &[23_028],
        multiprocessors: 80,
        ..AMPERE_86
    },
    Device {
        id: "rtx-3060",
        name: "GeForce RTX 3060 12 GB",
        words: &["3060"],
        nameplate: "12 GB",
        capacity: Bytes::mib(11_938),
        totals: Totals { windows: Some(1200), ..linux(&[1173, 1166]) },
        smi_totals: &[12_288],
        multiprocessors: 28,
        ..AMPERE_86
    },
    Device {
        id: "rtx-3090",
        name: "GeForce RTX 3090",
        words: &["3090"],
        nameplate: "24 GB",
        capacity: Bytes::mib(24_124),
        totals: Totals { windows: Some(2400), ..linux(&[2370, 2369, 2368, 2359, 2356]) },
        smi_totals: &[24_268, 24_576],
        multiprocessors: 82,
        ..AMPERE_86
    },
    Device {
        id: "rtx-a4000",
        name: "RTX A4000",
        words: &["a4000"],
        nameplate: "16 GB",
        capacity: gib(15, 60),
        totals: linux(&[1561, 1560]),
        smi_totals: &[16_376],
        context_seen: Some(seen(210, 210, 210, 1)),
        multiprocessors: 48,
        ..AMPERE_86
    },
    Device {
        id: "rtx-a5000",
        name: "RTX A5000",
        words: &["a5000"],
        nameplate: "24 GB",
        capacity: Bytes::mib(24_138),
        totals: linux(&[2357]),
        smi_totals: &[24_564],
        multiprocessors: 64,
        ..AMPERE_86
    },
    Device {
        id: "a40",
        name: "A40",
        words: &["a40"],
        nameplate: "48 GB",
        capacity: gib(44, 34),
        totals: Totals { other_ecc: Some(4755), ..linux(&[4435, 4434]) },
        smi_totals: &[46_068, 48_688],
        multiprocessors: 84,
        ..AMPERE_86
    },
    Device {
        id: "rtx-a6000",
        name: "RTX A6000",
        words: &["a6000"],
        nameplate: "48 GB",
        capacity: gib(47, 40),
        totals: Totals { other_ecc: Some(4455), ..linux(&[4754, 4740]) },
        smi_totals: &[49_140],
        multiprocessors: 84,
        ..AMPERE_86
    },
    Device {
        id: "l4",
        name: "L4",
        words: &["l4"],
        nameplate: "24 GB",
        capacity: Bytes::mib(22_563),
        totals: linux(&[2216, 2203]),
        smi_totals: &[23_034],
        context_seen: Some(seen(211, 267, 323, 2)),
        multiprocessors: 58,
        ..ADA
    },
    Device {
        id: "rtx-4090",
        name: "GeForce RTX 4090",
        words: &["4090"],
        nameplate: "24 GB",
        capacity: Bytes::mib(24_081),
        totals: Totals { windows: Some(2399), ..linux(&[2365, 2364, 2361, 2352]) },
        smi_totals: &[24_564],
        context_seen: Some(seen(450, 477, 504, 2)),
        multiprocessors: 128,
        ..ADA
    },
    Device {
        id: "l20",
        name: "L20",
        words: &["l20"],
        nameplate: "48 GB",
        capacity: gib(44, 42),
        totals: linux(&[4453]),
        smi_totals: &[46_068],
        multiprocessors: 92,
        ..ADA
    },
    Device {
        id: "l40",
        name: "L40",
        words: &["l40"],
        nameplate: "48 GB",
        capacity: gib(44, 40),
        totals: linux(&[4440]),
        smi_totals: &[46_068, 49_140],
        context_seen: Some(seen(419, 463, 507, 2)),
        multiprocessors: 142,
        ..ADA
    },
    Device {
        id: "l40s",
        name: "L40S",
        words: &["l40s"],
        nameplate: "48 GB",
        capacity: gib(44, 42),
        totals: linux(&[4453, 4452, 4443, 4442]),
        smi_totals: &[46_068],
        context_seen: Some(seen(419, 463, 507, 2)),
        multiprocessors: 142,
        ..ADA
    },
    Device {
        id: "rtx-6000-ada",
        name: "RTX 6000 Ada",
        words: &["6000", "ada"],
        nameplate: "48 GB",
        capacity: Bytes::mib(48_520),
        totals: linux(&[4753, 4750, 4740, 4738]),
        smi_totals: &[49_140],
        multiprocessors: 142,
        ..ADA
    },
    Device {
        id: "h100-pcie",
        name: "H100 PCIe",
        words: &["h100", "pcie"],
        nameplate: "80 GB",
        capacity: Bytes::mib(81_008),
        totals: linux(&[7911]),
        smi_totals: &[81_559],
        multiprocessors: 114,
        ..HOPPER
    },
    Device {
        id: "h100-80gb",
        name: "H100 SXM",
        words: &["h100"],
        nameplate: "80 GB",
        capacity: gib(79, 10),
        totals: linux(&[7922, 7919, 7918, 7911, 7910]),
        smi_totals: &[81_559],
        context_seen: Some(seen(520, 522, 666, 3)),
        multiprocessors: 132,
        ..HOPPER
    },
    Device {
        id: "h100-nvl",
        name: "H100 NVL",
        words: &["h100", "nvl"],
        nameplate: "94 GB",
        capacity: gib(93, 2),
        totals: linux(&[9309, 9302]),
        smi_totals: &[95_830],
        multiprocessors: 132,
        ..HOPPER
    },
    Device {
        id: "h20",
        name: "H20",
        words: &["h20"],
        nameplate: "96 GB",
        capacity: gib(95, 8),
        totals: linux(&[9508]),
        smi_totals: &[97_871],
        context_seen: Some(seen(445, 445, 445, 1)),
        multiprocessors: 78,
        ..HOPPER
    },
    Device {
        id: "gh200-96gb",
        name: "GH200 96 GB",
        words: &["gh200"],
        nameplate: "96 GB",
        capacity: gib(94, 50),
        totals: linux(&[9450]),
        smi_totals: &[97_871],
        multiprocessors: 132,
        ..HOPPER
    },
    Device {
        id: "h200",
        name: "H200",
        words: &["h200"],
        nameplate: "141 GB",
        capacity: Bytes::mib(143_156),
        totals: linux(&[13981, 13980, 13972]),
        smi_totals: &[143_771],
        multiprocessors: 132,
        ..HOPPER
    },
    Device {
        id: "b200",
        name: "B200",
        words: &["b200"],
        nameplate: "180 GB",
        capacity: Bytes::mib(182_631),
        totals: linux(&[17836, 17835]),
        smi_totals: &[183_359],
        context_seen: Some(seen(712, 712, 712, 1)),
        multiprocessors: 148,
        ..BLACKWELL
    },
    Device {
        id: "gb200",
        name: "GB200",
        words: &["gb200"],
        nameplate: "186 GB",
        capacity: gib(184, 31),
        capacity_from: Provenance::Assumed,
        totals: linux(&[18431]),
        smi_totals: &[189_471],
        multiprocessors: 148,
        ..BLACKWELL
    },
    Device {
        id: "rtx-5090",
        name: "GeForce RTX 5090",
        words: &["5090"],
        nameplate: "32 GB",
        capacity: Bytes::mib(32_102),
        totals: linux(&[3137, 3135]),
        smi_totals: &[32_607],
        context_seen: Some(seen(507, 595, 614, 3)),
        multiprocessors: 170,
        ..BLACKWELL_120
    },
    Device {
        id: "rtx-pro-6000",
        name: "RTX PRO 6000 Blackwell",
        words: &["pro", "6000"],
        nameplate: "96 GB",
        capacity: gib(94, 96),
        totals: linux(&[9498, 9497, 9496]),
        smi_totals: &[97_887],
        context_seen: Some(seen(692, 692, 692, 1)),
        multiprocessors: 188,
        ..BLACKWELL_120
    },
];

/// GPUs that cannot be estimated: they are named, so that they are not mistaken for others.
pub(super) const OTHERS: &[(&str, Totals)] = &[
    ("Tesla K80", linux(&[1117])),
    ("Tesla P100 16 GB", linux(&[1590, 1589])),
    ("Tesla P40", linux(&[2238])),
    ("GeForce GTX 1060 6 GB", Totals { windows: Some(600), ..linux(&[593]) }),
    ("GeForce GTX 1080 Ti", linux(&[1092])),
    ("GeForce RTX 2060", Totals { windows: Some(600), ..linux(&[579]) }),
    ("GeForce RTX 3070", linux(&[778])),
    ("GeForce RTX 3080 Ti", windows(1200)),
    ("GeForce RTX 4060 Ti 16 GB", windows(1600)),
    ("GeForce RTX 4080", windows(1599)),
    ("TITAN RTX", windows(2400)),
    ("AMD Instinct MI250X (one die)", linux(&[6398])),
    ("AMD Instinct MI300X", linux(&[19198, 19169])),
    ("AMD Instinct MI325X", linux(&[25598, 25569])),
];
