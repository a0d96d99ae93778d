//! How much of a GPU a step uses, as NVIDIA's DCGM measures it, averaged over the step.
//!
//! Each kernel occupies some multiprocessors with some warps, and moves some bytes to or from DRAM. A step's average
//! is the sum over its kernels, over the time of the step: what the GPU waits for the host or a data loader counts as
//! idle.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "times are estimates in floats; no sum of bytes is"
)]

use std::fmt;

use super::constants::Constants;
use super::{Gpu, Picoseconds};
use crate::bytes::Bytes;
use crate::eager::launch::{Convolution, Kernel, Product};
use crate::tensor::DType;

/// COUNT: ten-thousandths of the utilisation with a loader as fast as needed that the idlest of 21 measured loops had
/// (`tests/times/utilisation.txt`).
const IDLEST_LOOP: u32 = 4500;

/// Parts of a whole: [`Share::ALL`] is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(
    /// COUNT: ten-thousandths.
    pub u32,
);

impl Share {
    /// COUNT: ten-thousandths of the whole.
    pub const ALL: u32 = 10_000;

    /// A part of a time, rounded to the nearest.
    pub(super) fn of(Picoseconds(part): Picoseconds, Picoseconds(all): Picoseconds) -> Self {
        let all = u128::from(all.max(1));
        let parts = u128::from(part).saturating_mul(u128::from(Self::ALL));
        let parts = parts.saturating_add(all.div_euclid(2)).div_euclid(all);
        Self(u32::try_from(parts).unwrap_or(Self::ALL).min(Self::ALL))
    }

    /// The part of it that the idlest measured loop left.
    const fn in_idlest_loop(self) -> Self {
        Self(self.0.saturating_mul(IDLEST_LOOP).div_euclid(Self::ALL))
    }

    /// COUNT: percent, rounded down.
    pub const fn percent(self) -> u32 {
        self.0.div_euclid(100)
    }
}

/// `12 %`, `3.4 %`, `0.05 %`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.div_euclid(100), self.0 % 100);
        match whole {
            0 => write!(f, "0.{part:02}\u{a0}%"),
            1..10 => write!(f, "{whole}.{}\u{a0}%", part.div_euclid(10)),
            _ => write!(f, "{whole}\u{a0}%"),
        }
    }
}

/// Averages over a step, as DCGM's fields define them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilisation {
    /// Time in which any kernel runs: GPU utilisation.
    pub gpu: Share,
    /// Multiprocessors with a resident warp: `SM_ACTIVE`.
    pub sm_active: Share,
    /// Resident warps over the most that can be: `SM_OCCUPANCY`.
    pub sm_occupancy: Share,
    /// Cycles in which tensor cores multiply: `PIPE_TENSOR_ACTIVE`.
    pub tensor_active: Share,
    /// Cycles in which DRAM moves data: `DRAM_ACTIVE`.
    pub dram_active: Share,
}

impl Utilisation {
    /// What the idlest measured loop leaves of it.
    pub(super) const fn in_idlest_loop(self) -> Self {
        Self {
            gpu: self.gpu.in_idlest_loop(),
            sm_active: self.sm_active.in_idlest_loop(),
            sm_occupancy: self.sm_occupancy.in_idlest_loop(),
            tensor_active: self.tensor_active.in_idlest_loop(),
            dram_active: self.dram_active.in_idlest_loop(),
        }
    }

    /// Names in JSON and values, in the order of tables.
    pub const fn named(&self) -> [(&'static str, Share); 5] {
        [
            ("gpu", self.gpu),
            ("sm_active", self.sm_active),
            ("sm_occupancy", self.sm_occupancy),
            ("tensor_active", self.tensor_active),
            ("dram_active", self.dram_active),
        ]
    }
}

/// Sums over kernels: the time of each, times the share of the GPU that it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Of multiprocessors.
    pub sm_active: Picoseconds,
    /// Of warps.
    pub sm_occupancy: Picoseconds,
    /// Of tensor cores: the time that their products take at the published peak.
    pub tensor_active: Picoseconds,
    /// Of DRAM: the time that the bytes take at the published bandwidth.
    pub dram_active: Picoseconds,
}

impl Busy {
    /// Adds a kernel that runs this long, as often as that.
    pub(super) fn add(&mut self, use_of: &Use, us: f64, times: u64) {
        let of = |us: f64| Picoseconds::of(us).times(times);
        self.sm_active += of(us * use_of.share);
        self.sm_occupancy += of(us * use_of.occupancy);
        self.tensor_active += of(use_of.tensor_us.min(us * use_of.share));
        self.dram_active += of(use_of.dram_us.min(us));
    }
}

/// What a kernel uses of a GPU while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// COUNT: kernels that it consists of.
    pub kernels: u64,
    /// Multiprocessors with a resident warp, over all.
    pub share: f64,
    /// Resident warps, over the most that can be.
    pub occupancy: f64,
    /// Microseconds at least, in which the busy multiprocessors move its bytes from L2; 0 for products.
    pub moving_us: f64,
    /// Microseconds of tensor cores at their peak.
    pub tensor_us: f64,
    /// Microseconds of DRAM at its bandwidth.
    pub dram_us: f64,
}

/// Blocks of threads that a kernel launches.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    /// COUNT: blocks.
    blocks: f64,
    /// COUNT: threads of a block.
    threads: f64,
    /// Whether it multiplies: its registers leave place for [`FEW_THREADS`], and its last wave takes as long as others.
    multiplies: bool,
}

/// COUNT: threads of products that a multiprocessor holds: an 8 x 8 tile for each thread takes 128 registers.
const FEW_THREADS: f64 = 512.0;
/// PyTorch: elements of a block of 128 threads, four each.
const ELEMENTS_OF_BLOCK: f64 = 512.0;
/// PyTorch: elements of a block of 512 threads that sum them.
const SUMMANDS_OF_BLOCK: f64 = 4096.0;
/// cuBLAS: rows and columns of a tile, threads of its block, and how efficient it is beside the largest.
const TILES: [(f64, f64, f64, f64); 6] = [
    (128.0, 128.0, 256.0, 1.0),
    (128.0, 64.0, 128.0, 0.94),
    (64.0, 128.0, 128.0, 0.94),
    (64.0, 64.0, 64.0, 0.87),
    (128.0, 32.0, 256.0, 0.74),
    (32.0, 128.0, 256.0, 0.74),
];
/// GB/s into bytes per microsecond.
const MEGA: f64 = 1000.0;
const KIB: f64 = 1024.0;

impl Use {
    /// Nothing is used.
    pub(super) const NONE: Self = Self {
        kernels: 0,
        share: 0.0,
        occupancy: 0.0,
        moving_us: 0.0,
        tensor_us: 0.0,
        dram_us: 0.0,
    };

    /// What a kernel of elements of this type uses.
    pub(super) fn of(kernel: &Kernel, dtype: DType, gpu: Gpu, constants: &Constants) -> Self {
        let grid = Grid::of(kernel, dtype, gpu);
        let multiprocessors = gpu.multiprocessors as f64;
        let threads = gpu.threads_per_multiprocessor as f64;
        let waves = (grid.blocks / multiprocessors).ceil();
        let last = if grid.multiplies { waves } else { 1.0 };
        let share = (grid.blocks / (multiprocessors * last)).min(1.0);
        let most = if grid.multiplies { FEW_THREADS.min(threads) } else { threads };
        let resident = (grid.threads * waves).min(most);
        let kernels = kernel.kernels().saturating_add(turned(kernel, dtype, gpu).0);
        Self {
            kernels,
            share,
            occupancy: share * resident / threads,
            moving_us: if grid.multiplies {
                0.0
            } else {
                moving_us(kernel, dtype, gpu, constants) / share
            },
            tensor_us: tensor_us(kernel, dtype, gpu),
            dram_us: dram_us(kernel, dtype, gpu, constants),
        }
    }
}

impl Grid {
    fn of(kernel: &Kernel, dtype: DType, gpu: Gpu) -> Self {
        let element = dtype.size().0.max(1) as f64;
        let light = |blocks: f64, threads: f64| Self {
            blocks: blocks.ceil().max(1.0),
            threads,
            multiplies: false,
        };
        let elements = |count: f64| light(count / ELEMENTS_OF_BLOCK, 128.0);
        match *kernel {
            Kernel::Gemm { batch, rows, columns, .. } => {
                Self::of_product([batch, rows, columns].map(|n| n as f64), gpu)
            }
            Kernel::Convolution(convolution) if convolution.is_depthwise() => {
                let Convolution { batch, outputs, positions, .. } = convolution;
                elements(batch as f64 * outputs as f64 * positions as f64)
            }
            Kernel::Convolution(convolution) => Self::of_convolution(convolution, gpu),
            Kernel::Elementwise { read, written } => {
                let touched = if written == Bytes(0) { read } else { written };
                elements(touched.0 as f64 / element)
            }
            Kernel::Reduction { read, .. } => {
                light(read.0 as f64 / element / SUMMANDS_OF_BLOCK, 512.0)
            }
            Kernel::Softmax { rows, width, .. } => match width {
                // Four rows to a block, each by one warp.
                0..=1024 => light(rows as f64 / 4.0, 128.0),
                1025..=2048 => light(rows as f64, 256.0),
                _ => light(rows as f64, 512.0),
            },
            Kernel::Norm { rows: many, .. } | Kernel::BatchNorm { channels: many, .. } => {
                light(many as f64, 512.0)
            }
            Kernel::Embedding { rows, width, .. } => elements(rows as f64 * width as f64),
            Kernel::Attention { batch, heads, queries, .. } => {
                let blocks = batch as f64 * heads as f64 * (queries as f64 / 64.0).ceil();
                Self { blocks: blocks.max(1.0), threads: 128.0, multiplies: true }
            }
            Kernel::Foreach { blocks, .. } => light(blocks as f64, 512.0),
            Kernel::Collective(_) | Kernel::Wait(_) => light(0.0, 0.0),
        }
    }

    /// Products in the tiles that take the least time.
    fn of_product([batch, rows, columns]: [f64; 3], gpu: Gpu) -> Self {
        let multiprocessors = gpu.multiprocessors as f64;
        let mut best = Self { blocks: 1.0, threads: 256.0, multiplies: true };
        let mut least = f64::INFINITY;
        for (height, breadth, threads, efficiency) in TILES {
            let tiles = batch * (rows / height).ceil() * (columns / breadth).ceil();
            let time = (tiles / multiprocessors).ceil() * height * breadth / efficiency;
            if time < least {
                least = time;
                best = Self { blocks: tiles.max(1.0), threads, multiplies: true };
            }
        }
        best
    }

    /// As the product of its unfolded input; the sums of a weight's gradient are shared out.
    fn of_convolution(convolution: Convolution, gpu: Gpu) -> Self {
        let Convolution { product, batch, groups, inputs, outputs, .. } = convolution;
        let Convolution { input_positions, positions, taps, .. } = convolution;
        let groups = groups.max(1);
        let (inputs, outputs) = (inputs.div_euclid(groups), outputs.div_euclid(groups));
        let number = |n: u64| n as f64;
        let (rows, columns) = match product {
            Product::Forward => (number(batch) * number(positions), number(outputs)),
            Product::Data => (number(batch) * number(input_positions), number(inputs)),
            Product::Filter => (number(inputs) * number(taps), number(outputs)),
        };
        let tiles = number(groups) * (rows / 128.0).ceil() * (columns / 128.0).ceil();
        let parts = (number(gpu.multiprocessors) / tiles.max(1.0)).floor().max(1.0);
        let parts = if product == Product::Filter { parts } else { 1.0 };
        Self { threads: 256.0, ..Self::of_product([number(groups) * parts, rows, columns], gpu) }
    }
}

/// Microseconds in which all multiprocessors move the bytes of a kernel from L2.
fn moving_us(kernel: &Kernel, dtype: DType, gpu: Gpu, constants: &Constants) -> f64 {
    let clock = gpu.multiprocessors as f64 * f64::from(gpu.rates.boost_mhz);
    kernel.bytes(dtype.size()).0 as f64 / (clock.max(1.0) * constants.l2_rate)
}

/// FLOP of tensor cores in a clock of a multiprocessor; 0 where a kernel does not use them.
fn tensor_flop(kernel: &Kernel, dtype: DType, gpu: Gpu) -> f64 {
    let half = f64::from(gpu.rates.half_flop);
    let since = if dtype == DType::BFloat16 { (8, 0) } else { (7, 0) };
    let is_half = dtype.size() <= Bytes(2) && gpu.compute_capability >= since;
    let is_single = dtype == DType::Float32;
    match *kernel {
        Kernel::Convolution(convolution) if convolution.is_depthwise() => 0.0,
        Kernel::Convolution(_) if is_single && gpu.has_tf32(true) => half / 2.0,
        Kernel::Gemm { .. } if is_single && gpu.has_tf32(false) => half / 2.0,
        _ if is_half => half,
        _ => 0.0,
    }
}

fn tensor_us(kernel: &Kernel, dtype: DType, gpu: Gpu) -> f64 {
    let flop = tensor_flop(kernel, dtype, gpu);
    if flop <= 0.0 {
        return 0.0;
    }
    let clock = gpu.multiprocessors as f64 * f64::from(gpu.rates.boost_mhz);
    2.0 * kernel.multiply_adds() as f64 / (flop * clock.max(1.0))
}

/// COUNT: copies to channels innermost and back, where tensor cores want that; and the bytes of each.
fn turned(kernel: &Kernel, dtype: DType, gpu: Gpu) -> (u64, [f64; 2]) {
    let Kernel::Convolution(convolution) = *kernel else { return (0, [0.0; 2]) };
    if convolution.channels_last || tensor_flop(kernel, dtype, gpu) <= 0.0 {
        return (0, [0.0; 2]);
    }
    let Convolution { batch, inputs, outputs, input_positions, positions, .. } = convolution;
    let copy = |channels: u64, positions: u64| {
        2.0 * dtype.size().0 as f64 * batch as f64 * channels as f64 * positions as f64
    };
    (2, [copy(inputs, input_positions), copy(outputs, positions)])
}

/// Bytes that L2 does not still hold, at the bandwidth of DRAM.
fn dram_us(kernel: &Kernel, dtype: DType, gpu: Gpu, constants: &Constants) -> f64 {
    let l2 = (KIB * f64::from(gpu.rates.l2_kib)).max(1.0);
    let missed =
        |size: f64| size * ((size / l2 - constants.l2_free) / constants.l2_span).clamp(0.0, 1.0);
    let (_, [input, output]) = turned(kernel, dtype, gpu);
    let own = kernel.bytes(dtype.size()).0 as f64;
    let all = missed(own) + missed(input) + missed(output);
    all / (f64::from(gpu.rates.bandwidth).max(1.0) * MEGA)
}
