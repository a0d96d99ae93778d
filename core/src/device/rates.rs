//! How fast a GPU is, as its vendor publishes it.
//!
//! The figures were written from memory, and compared with other pages for some GPUs only. Where published figures
//! contradict each other (H100 NVL, H20, B200, GB200), the peak of tensor cores decides. They lie apart from `table.rs`,
//! so that a program that never asks for times does not carry them.

use std::fmt;

use super::{Device, Slice};

/// What the memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Stacks next to the chip.
    Hbm,
    /// Chips on the board.
    Gddr,
}

/// What connects the GPUs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `NVLink`, from each GPU to each other one.
    NvLink,
    /// `PCIe` with 16 lanes. Bridges between pairs of cards, which some boards can have, are not assumed.
    Pcie,
}

/// The link of a GPU to the others of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Which one.
    pub kind: LinkKind,
    /// COUNT: its generation.
    pub generation: u32,
    /// Bandwidth in GB/s as vendors publish it: both directions together.
    pub bandwidth: u32,
}

impl Link {
    const NVLINK_2: Self = Self { kind: LinkKind::NvLink, generation: 2, bandwidth: 300 };
    const NVLINK_3: Self = Self { kind: LinkKind::NvLink, generation: 3, bandwidth: 600 };
    const NVLINK_4: Self = Self { kind: LinkKind::NvLink, generation: 4, bandwidth: 900 };
    const NVLINK_5: Self = Self { kind: LinkKind::NvLink, generation: 5, bandwidth: 1800 };
    const PCIE_3: Self = Self { kind: LinkKind::Pcie, generation: 3, bandwidth: 32 };
    /// `PCIe` 4.0.
    pub const PCIE_4: Self = Self { kind: LinkKind::Pcie, generation: 4, bandwidth: 64 };
    const PCIE_5: Self = Self { kind: LinkKind::Pcie, generation: 5, bandwidth: 128 };
}

/// `NVLink 4`, `PCIe 4.0`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LinkKind::NvLink => write!(f, "NVLink {}", self.generation),
            LinkKind::Pcie => write!(f, "PCIe {}.0", self.generation),
        }
    }
}

/// The vendor's figures for one form of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The form, where there are several: `PCIe`.
    pub form: &'static str,
    /// Clock that it is guaranteed to hold, in MHz.
    pub base_mhz: u32,
    /// Highest clock under load, in MHz.
    pub boost_mhz: u32,
    /// DRAM bandwidth, in GB/s.
    pub bandwidth: u32,
    /// What the memory is made of.
    pub memory: MemoryKind,
    /// Whether its errors are corrected; workstation cards can, but do not unless they are told to.
    pub corrects: bool,
    /// L2 that one half of the chip reaches, in KiB: A100 and H100 keep a copy in each of two halves.
    pub l2_kib: u32,
    /// L1 and shared memory of a multiprocessor, in KiB; 0 where loads bypass it.
    pub l1_kib: u32,
    /// COUNT: fp32 units of a multiprocessor.
    pub lanes: u32,
    /// Power that the board may take, in watts.
    pub watts: u32,
    /// FLOP of dense half-precision products with sums in fp32, in a clock of a multiprocessor.
    pub half_flop: u32,
    /// How the GPUs of a node are connected.
    pub link: Link,
}

impl Device {
    /// How fast it is, where the vendor publishes all of it: in its usual form.
    pub fn rates(&self) -> Option<Rates> {
        self.forms().next()
    }

    /// How fast each form of its board is, the usual one first.
    pub fn forms(&self) -> impl Iterator<Item = Rates> {
        let (card, memory, of) = match self.slice {
            Some(Slice { card, memory, of, .. }) => (card, memory, of),
            None => (self.id, 1, 1),
        };
        RATES
            .iter()
            .filter(move |(id, _)| *id == card)
            .map(move |(_, rates)| rates.part(memory, of))
    }
}

impl Rates {
    /// A slice has its part of L2 and of the bandwidth.
    fn part(&self, memory: u64, of: u64) -> Self {
        let part = |all: u32| {
            let part = u64::from(all).saturating_mul(memory).div_euclid(of.max(1));
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        Self { bandwidth: part(self.bandwidth), l2_kib: part(self.l2_kib), ..*self }
    }
}

/// Memory, KiB of L1 and fp32 units of a multiprocessor.
const fn rates(memory: MemoryKind, l1_kib: u32, lanes: u32) -> Rates {
    Rates {
        form: "",
        base_mhz: 0,
        boost_mhz: 0,
        bandwidth: 0,
        memory,
        corrects: true,
        l2_kib: 0,
        l1_kib,
        lanes,
        watts: 0,
        half_flop: 0,
        link: Link::PCIE_4,
    }
}

const V100: Rates = Rates {
    form: "SXM2",
    base_mhz: 1290,
    boost_mhz: 1530,
    bandwidth: 900,
    l2_kib: 6144,
    watts: 300,
    half_flop: 1024,
    link: Link::NVLINK_2,
    ..rates(MemoryKind::Hbm, 128, 64)
};
const V100_PCIE: Rates =
    Rates { form: "PCIe", base_mhz: 1230, boost_mhz: 1380, watts: 250, link: Link::PCIE_3, ..V100 };
const A100_40GB: Rates = Rates {
    form: "SXM",
    base_mhz: 1095,
    boost_mhz: 1410,
    bandwidth: 1555,
    l2_kib: 20_480,
    watts: 400,
    half_flop: 2048,
    link: Link::NVLINK_3,
    ..AMPERE
};
const A100_80GB: Rates = Rates { base_mhz: 1275, bandwidth: 2039, ..A100_40GB };
const TURING: Rates = Rates { link: Link::PCIE_3, ..rates(MemoryKind::Gddr, 96, 64) };
const AMPERE: Rates = rates(MemoryKind::Hbm, 192, 64);
const AMPERE_86: Rates = rates(MemoryKind::Gddr, 128, 128);
const ADA: Rates = rates(MemoryKind::Gddr, 128, 128);
const HOPPER: Rates = Rates { link: Link::PCIE_5, ..rates(MemoryKind::Hbm, 256, 128) };
const BLACKWELL_120: Rates = Rates { link: Link::PCIE_5, ..rates(MemoryKind::Gddr, 128, 128) };

const H100_SXM: Rates = Rates {
    form: "SXM",
    base_mhz: 1590,
    boost_mhz: 1980,
    bandwidth: 3352,
    l2_kib: 25_600,
    watts: 700,
    half_flop: 4096,
    link: Link::NVLINK_4,
    ..HOPPER
};

/// By the ids of devices.
const RATES: &[(&str, Rates)] = &[
    ("v100-16gb", V100),
    ("v100-16gb", V100_PCIE),
    ("v100-32gb", V100),
    ("v100-32gb", V100_PCIE),
    (
        "t4",
        Rates {
            base_mhz: 585,
            boost_mhz: 1590,
            bandwidth: 320,
            l2_kib: 4096,
            watts: 70,
            half_flop: 1024,
            ..TURING
        },
    ),
    (
        "rtx-2080-ti",
        Rates {
            corrects: false,
            base_mhz: 1350,
            boost_mhz: 1545,
            bandwidth: 616,
            l2_kib: 5632,
            watts: 250,
            half_flop: 512,
            ..TURING
        },
    ),
    (
        "rtx-8000",
        Rates {
            corrects: false,
            base_mhz: 1395,
            boost_mhz: 1770,
            bandwidth: 672,
            l2_kib: 6144,
            watts: 260,
            half_flop: 1024,
            ..TURING
        },
    ),
    (
        "a30",
        Rates {
            base_mhz: 930,
            boost_mhz: 1440,
            bandwidth: 933,
            l2_kib: 12_288,
            watts: 165,
            half_flop: 2048,
            ..AMPERE
        },
    ),
    ("a100-40gb", A100_40GB),
    (
        "a100-40gb",
        Rates { form: "PCIe", base_mhz: 765, watts: 250, link: Link::PCIE_4, ..A100_40GB },
    ),
    ("a100-80gb", A100_80GB),
    (
        "a100-80gb",
        Rates {
            form: "PCIe",
            base_mhz: 1065,
            bandwidth: 1935,
            watts: 300,
            link: Link::PCIE_4,
            ..A100_80GB
        },
    ),
    (
        "a10",
        Rates {
            base_mhz: 885,
            boost_mhz: 1695,
            bandwidth: 600,
            l2_kib: 6144,
            watts: 150,
            half_flop: 1024,
            ..AMPERE_86
        },
    ),
    (
        "a10g",
        Rates {
            base_mhz: 1320,
            boost_mhz: 1710,
            bandwidth: 600,
            l2_kib: 6144,
            watts: 300,
            half_flop: 512,
            ..AMPERE_86
        },
    ),
    (
        "rtx-3060",
        Rates {
            corrects: false,
            base_mhz: 1320,
            boost_mhz: 1777,
            bandwidth: 360,
            l2_kib: 3072,
            watts: 170,
            half_flop: 512,
            ..AMPERE_86
        },
    ),
    (
        "rtx-3090",
        Rates {
            corrects: false,
            base_mhz: 1395,
            boost_mhz: 1695,
            bandwidth: 936,
            l2_kib: 6144,
            watts: 350,
            half_flop: 512,
            ..AMPERE_86
        },
    ),
    (
        "rtx-a4000",
        Rates {
            corrects: false,
            base_mhz: 735,
            boost_mhz: 1560,
            bandwidth: 448,
            l2_kib: 4096,
            watts: 140,
            half_flop: 1024,
            ..AMPERE_86
        },
    ),
    (
        "rtx-a5000",
        Rates {
            corrects: false,
            base_mhz: 1170,
            boost_mhz: 1695,
            bandwidth: 768,
            l2_kib: 6144,
            watts: 230,
            half_flop: 1024,
            ..AMPERE_86
        },
    ),
    (
        "a40",
        Rates {
            base_mhz: 1305,
            boost_mhz: 1740,
            bandwidth: 696,
            l2_kib: 6144,
            watts: 300,
            half_flop: 1024,
            ..AMPERE_86
        },
    ),
    (
        "rtx-a6000",
        Rates {
            corrects: false,
            base_mhz: 1410,
            boost_mhz: 1800,
            bandwidth: 768,
            l2_kib: 6144,
            watts: 300,
            half_flop: 1024,
            ..AMPERE_86
        },
    ),
    (
        "l4",
        Rates {
            base_mhz: 795,
            boost_mhz: 2040,
            bandwidth: 300,
            l2_kib: 49_152,
            watts: 72,
            half_flop: 1024,
            ..ADA
        },
    ),
    (
        "rtx-4090",
        Rates {
            corrects: false,
            base_mhz: 2235,
            boost_mhz: 2520,
            bandwidth: 1008,
            l2_kib: 73_728,
            watts: 450,
            half_flop: 512,
            ..ADA
        },
    ),
    (
        "l20",
        Rates {
            base_mhz: 1440,
            boost_mhz: 2520,
            bandwidth: 864,
            l2_kib: 98_304,
            watts: 275,
            half_flop: 512,
            ..ADA
        },
    ),
    (
        "l40",
        Rates {
            base_mhz: 735,
            boost_mhz: 2490,
            bandwidth: 864,
            l2_kib: 98_304,
            watts: 300,
            half_flop: 512,
            ..ADA
        },
    ),
    (
        "l40s",
        Rates {
            base_mhz: 1110,
            boost_mhz: 2520,
            bandwidth: 864,
            l2_kib: 98_304,
            watts: 350,
            half_flop: 1024,
            ..ADA
        },
    ),
    (
        "rtx-6000-ada",
        Rates {
            corrects: false,
            base_mhz: 915,
            boost_mhz: 2505,
            bandwidth: 960,
            l2_kib: 98_304,
            watts: 300,
            half_flop: 1024,
            ..ADA
        },
    ),
    (
        "h100-pcie",
        Rates {
            form: "PCIe",
            base_mhz: 1095,
            boost_mhz: 1755,
            bandwidth: 2039,
            l2_kib: 25_600,
            watts: 350,
            half_flop: 4096,
            ..HOPPER
        },
    ),
    ("h100-80gb", H100_SXM),
    // Both peaks are published for 1,785 MHz, but that of tensor cores is lower than the other one implies.
    (
        "h100-nvl",
        Rates {
            form: "",
            base_mhz: 1365,
            boost_mhz: 1785,
            bandwidth: 3938,
            watts: 400,
            link: Link::PCIE_5,
            ..H100_SXM
        },
    ),
    // 148 TFLOP/s of tensor cores are published, less than a Hopper's multiprocessors could.
    ("h20", Rates { form: "", bandwidth: 4000, watts: 400, half_flop: 958, ..H100_SXM }),
    ("gh200-96gb", Rates { form: "", bandwidth: 4023, watts: 900, ..H100_SXM }),
    // The same chip with faster memory.
    ("h200", Rates { form: "", bandwidth: 4800, ..H100_SXM }),
    // The clocks are those at which the published peaks of tensor cores are reached.
    (
        "b200",
        Rates {
            base_mhz: 1120,
            boost_mhz: 1856,
            bandwidth: 8000,
            l2_kib: 64_512,
            watts: 1000,
            half_flop: 8192,
            link: Link::NVLINK_5,
            ..HOPPER
        },
    ),
    (
        "gb200",
        Rates {
            base_mhz: 1120,
            boost_mhz: 2062,
            bandwidth: 8000,
            l2_kib: 64_512,
            watts: 1200,
            half_flop: 8192,
            link: Link::NVLINK_5,
            ..HOPPER
        },
    ),
    (
        "rtx-5090",
        Rates {
            corrects: false,
            base_mhz: 2010,
            boost_mhz: 2410,
            bandwidth: 1792,
            l2_kib: 98_304,
            watts: 575,
            half_flop: 512,
            ..BLACKWELL_120
        },
    ),
    (
        "rtx-pro-6000",
        Rates {
            corrects: false,
            base_mhz: 1590,
            boost_mhz: 2617,
            bandwidth: 1792,
            l2_kib: 131_072,
            watts: 600,
            half_flop: 1024,
            ..BLACKWELL_120
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device;

    /// Every row is of a device that there is, no form of a device has two, and every device has one.
    #[test]
    fn rates_are_of_devices() {
        for (position, (id, rates)) in RATES.iter().enumerate() {
            assert!(device::find(id).is_ok(), "{id}");
            let mut later = RATES.iter().skip(position + 1);
            assert!(!later.any(|(other, more)| other == id && more.form == rates.form), "{id}");
        }
        assert!(device::all().iter().all(|device| device.rates().is_some()));
    }
}
