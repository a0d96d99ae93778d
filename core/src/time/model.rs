//! How long one kernel takes on a GPU: the formulas of `tests/times/model.py`, in the same order.
//!
//! `+ - * /`, min, max, ceil and floor alone, so that every machine gets the same result.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "times are estimates in floats; no sum of bytes is"
)]

use super::constants::Constants;
use super::{Bound, Gpu};
use crate::bytes::Bytes;
use crate::device::MemoryKind;
use crate::eager::launch::{Convolution, Kernel, Launch, Product};
use crate::tensor::DType;

/// GB/s into bytes per microsecond, and GFLOP/s into FLOP per microsecond.
const MEGA: f64 = 1000.0;
const KIB: f64 = 1024.0;
/// PyTorch: softmax of at most this width is by one warp, in registers; wider rows are read three times.
const WARP_WIDTH: f64 = 1024.0;
/// PyTorch: rows up to this width have the smaller block.
const NARROW_WIDTH: f64 = 2048.0;
const NARROW_BLOCK: f64 = 256.0;
const WIDE_BLOCK: f64 = 512.0;
/// Floats in one vector load.
const VECTOR: f64 = 4.0;
/// PyTorch: threads that normalise a row.
const NORM_BLOCK: f64 = 128.0;
const WARP: f64 = 32.0;
/// Compute capability since which a joule does more work (TSMC 4N).
const FRUGAL_CAPABILITY: (u32, u32) = (8, 9);
/// Compute capability since which HBM reaches its higher share.
const FAST_HBM_CAPABILITY: (u32, u32) = (7, 0);
/// For one product cuBLAS has all tiles, except on this capability, where it takes a narrow one.
const NARROW_CAPABILITY: (u32, u32) = (6, 0);
/// The reduction is done in steps of this many.
const STEP: f64 = 8.0;

/// Sides of an output tile of cuBLAS, rows and columns.
type Tile = (u32, u32);

const TILES: [Tile; 6] = [(128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128)];
const NARROW_TILE: Tile = (128, 32);

/// COUNT: products in the longest sum that was measured.
const MEASURED_INNER: f64 = 65_536.0;

/// Tiles that cuBLAS has for many small products.
const fn batched_tiles(capability: (u32, u32)) -> &'static [Tile] {
    match capability.0 {
        ..=6 => &[(64, 128)],
        7 => &[(64, 128), (64, 64), (32, 128), (128, 32)],
        8 => &[(128, 128)],
        _ => &[(128, 128), (64, 64)],
    }
}

/// The time of one kernel on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time {
    /// Microseconds.
    pub(super) us: f64,
    /// What it waits for.
    pub(super) bound: Bound,
    /// Whether the formula was fitted to measured kernels of this kind and type.
    pub(super) is_fitted: bool,
}

/// A matrix product's sizes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: f64,
    rows: f64,
    inner: f64,
    columns: f64,
    batched: bool,
}

impl Shape {
    fn new([batch, rows, inner, columns]: [u64; 4], batched: bool) -> Self {
        let [batch, rows, inner, columns] = [batch, rows, inner, columns].map(|n| n as f64);
        Self { batch, rows, inner, columns, batched }
    }
}

/// What does the arithmetic of products.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// FLOP in a clock of a multiprocessor, at the peak that is published.
    flop: f64,
    /// Whether it is the fp32 units, which the constants were fitted to.
    is_fitted: bool,
}

/// The formulas for one GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    constants: Constants,
    gpu: Gpu,
    multiprocessors: f64,
    threads: f64,
    boost: f64,
    base: f64,
    lanes: f64,
}

impl Model {
    pub(super) fn new(gpu: Gpu) -> Self {
        Self {
            constants: Constants::read(),
            gpu,
            multiprocessors: gpu.multiprocessors as f64,
            threads: gpu.threads_per_multiprocessor as f64,
            boost: f64::from(gpu.rates.boost_mhz),
            base: f64::from(gpu.rates.base_mhz),
            lanes: f64::from(gpu.rates.lanes),
        }
    }

    /// The time of a kernel's single run.
    pub(super) fn time(&self, launch: &Launch) -> Time {
        let element = launch.dtype.size();
        let is_single = launch.dtype == DType::Float32;
        let moves = |us: f64, is_fitted| Time { us, bound: Bound::Bandwidth, is_fitted };
        match launch.kernel {
            Kernel::Gemm { batch, rows, inner, columns, batched } => {
                let shape = Shape::new([batch, rows, inner, columns], batched);
                self.product(shape, self.unit(launch.dtype), element)
            }
            Kernel::Convolution(convolution) => self.convolution(convolution, launch),
            Kernel::Attention { .. } => self.attention(launch),
            Kernel::Softmax { rows, width, inputs } => {
                moves(self.softmax(rows as f64, width as f64, inputs as f64, element), is_single)
            }
            Kernel::Norm { rows, width, inputs } => {
                moves(self.norm(rows as f64, width as f64, inputs as f64, element), is_single)
            }
            Kernel::Elementwise { .. } => moves(self.memory(bytes(launch.bytes())), true),
            Kernel::Reduction { .. } | Kernel::Embedding { .. } | Kernel::Foreach { .. } => {
                moves(self.memory(bytes(launch.bytes())), false)
            }
        }
    }

    /// Time to move bytes to or from DRAM.
    fn dram(&self, size: f64) -> f64 {
        let is_fast = self.gpu.rates.memory == MemoryKind::Hbm
            && self.gpu.compute_capability >= FAST_HBM_CAPABILITY;
        let share = if is_fast { self.constants.share_hbm } else { self.constants.share_other };
        size / (f64::from(self.gpu.rates.bandwidth) * MEGA * share)
    }

    /// Time of a kernel that moves this many bytes, each once: what L2 still holds of them stays there.
    fn memory(&self, size: f64) -> f64 {
        let l2 = KIB * f64::from(self.gpu.rates.l2_kib);
        let miss = part((size / l2 - self.constants.l2_free) / self.constants.l2_span);
        let by_l2 = size / (self.multiprocessors * self.boost * self.constants.l2_rate);
        self.dram(size * miss).max(by_l2)
    }

    /// Each row is moved `once` times, and read `again` times when it may be in a cache still; `resident` rows are in
    /// flight on a multiprocessor.
    fn rows(&self, [size, row]: [f64; 2], [once, again]: [f64; 2], resident: f64) -> f64 {
        let l1 = self.multiprocessors * f64::from(self.gpu.rates.l1_kib);
        let cache = KIB * (f64::from(self.gpu.rates.l2_kib) + l1);
        let in_flight = row * resident * self.multiprocessors;
        let miss =
            part((in_flight / cache - self.constants.cache_free) / self.constants.cache_span);
        self.memory(size * once) + self.dram(size * again * miss)
    }

    /// Softmax over rows; its backward has two inputs.
    fn softmax(&self, rows: f64, width: f64, inputs: f64, element: Bytes) -> f64 {
        let is_warp = width <= WARP_WIDTH;
        let block = match (is_warp, width <= NARROW_WIDTH) {
            (true, _) => WARP,
            (false, true) => NARROW_BLOCK,
            (false, false) => WIDE_BLOCK,
        };
        let resident = self.threads / block;
        let row = bytes(element) * width;
        let again = if is_warp { 0.0 } else { 2.0 };
        let memory = self.rows([row * rows, row], [inputs + 1.0, again], resident);
        if is_warp {
            return memory;
        }
        let vectors = (width / (VECTOR * block)).floor();
        let rounds = vectors + ((width - vectors * VECTOR * block) / block).ceil();
        let waves = (rows / (self.multiprocessors * resident)).ceil();
        memory.max(waves * (self.constants.row_latency + rounds * self.constants.load_latency))
    }

    /// Layer norm over rows; its backward has two inputs.
    fn norm(&self, rows: f64, width: f64, inputs: f64, element: Bytes) -> f64 {
        let row = bytes(element) * width;
        self.rows([row * rows, row], [inputs + 1.0, inputs], self.threads / NORM_BLOCK)
    }

    /// What multiplies elements of this type: tensor cores for half precision, where there are any for it.
    fn unit(&self, dtype: DType) -> Unit {
        let since = if dtype == DType::BFloat16 { (8, 0) } else { (7, 0) };
        let has_tensor_cores = dtype.size() <= Bytes(2) && self.gpu.compute_capability >= since;
        if has_tensor_cores {
            return Unit { flop: f64::from(self.gpu.rates.half_flop), is_fitted: false };
        }
        Unit { flop: 2.0 * self.lanes, is_fitted: dtype == DType::Float32 }
    }

    /// The same for convolutions, which PyTorch lets cuDNN compute in TF32, at half the rate of half precision.
    fn unit_of_convolution(&self, dtype: DType) -> Unit {
        let has_tf32 = self.gpu.compute_capability >= (8, 0);
        if dtype == DType::Float32 && has_tf32 {
            let flop = f64::from(self.gpu.rates.half_flop) / 2.0;
            return Unit { flop, is_fitted: false };
        }
        Unit { is_fitted: false, ..self.unit(dtype) }
    }

    /// Products: the tile with the least time.
    fn product(&self, shape: Shape, unit: Unit, element: Bytes) -> Time {
        let Shape { batch, rows, inner, columns, batched } = shape;
        let element = bytes(element);
        let write = self.memory(element * batch * rows * columns);
        let size = element * batch * (rows * inner + inner * columns + rows * columns);
        let memory = self.memory(size);
        // No measured sum was longer; cuBLAS shares such out (split-k).
        let is_long = inner > MEASURED_INNER;
        let shape = if is_long { self.shared_out(shape) } else { shape };
        let arithmetic = self.least(shape, unit, batched) + self.constants.exposed * write;
        let bound = if arithmetic > memory { Bound::Arithmetic } else { Bound::Bandwidth };
        Time { us: arithmetic.max(memory), bound, is_fitted: unit.is_fitted }
    }

    /// Products whose sums are shared out over multiprocessors that would be idle, where there are few tiles.
    fn shared_out(&self, shape: Shape) -> Shape {
        let (height, breadth) = (128.0, 128.0);
        let tiles = (shape.rows / height).ceil() * (shape.columns / breadth).ceil();
        let parts = (self.multiprocessors / (tiles * shape.batch)).floor().max(1.0);
        Shape { inner: (shape.inner / parts).ceil(), batch: shape.batch * parts, ..shape }
    }

    /// Arithmetic time of the best tile that cuBLAS has.
    fn least(&self, shape: Shape, unit: Unit, batched: bool) -> f64 {
        let narrow = [NARROW_TILE];
        let tiles = match (batched, self.gpu.compute_capability) {
            (true, capability) => batched_tiles(capability),
            (false, NARROW_CAPABILITY) => narrow.as_slice(),
            (false, _) => TILES.as_slice(),
        };
        tiles.iter().map(|&tile| self.tile(tile, shape, unit)).fold(f64::INFINITY, f64::min)
    }

    /// Arithmetic time in tiles of one size, that of the busiest multiprocessor.
    ///
    /// A GPU that would need too much power lowers its clock, and its voltage with it, but not below the base clock.
    /// How much power tensor cores take was not fitted, and they have no such limit here.
    fn tile(&self, (height, breadth): Tile, shape: Shape, unit: Unit) -> f64 {
        let constants = &self.constants;
        let efficiency = match (height.max(breadth), height.min(breadth)) {
            (128, 128) => 1.0,
            (128, 64) => constants.tile_128x64,
            (64, 64) => constants.tile_64x64,
            _ => constants.tile_128x32,
        };
        let (height, breadth) = (f64::from(height), f64::from(breadth));
        let tiles = shape.batch * (shape.rows / height).ceil() * (shape.columns / breadth).ceil();
        let work = 2.0 * height * breadth * STEP * (shape.inner / STEP).ceil() / efficiency;
        let waves = (tiles / self.multiprocessors).ceil();
        let is_narrow = self.gpu.rates.lanes == 64;
        let peak = if is_narrow { constants.peak_64 } else { constants.peak_128 };
        let clocks = waves * work / (unit.flop * peak);
        let boost = clocks / self.boost;
        let latency = waves * constants.tile_latency;
        if unit.flop > 2.0 * self.lanes {
            return boost + latency;
        }
        let is_frugal = self.gpu.compute_capability >= FRUGAL_CAPABILITY;
        let per_joule =
            if is_frugal { constants.work_per_joule_4n } else { constants.work_per_joule };
        let watts = f64::from(self.gpu.rates.watts);
        let excess = (tiles * work / (boost * watts * per_joule * MEGA) - 1.0).max(0.0);
        let slowed = boost * (1.0 + constants.throttle * excess * excess);
        slowed.min(clocks / self.base) + latency
    }

    /// A convolution as the product of its unfolded input; a depthwise one moves its tensors
    /// (`docs/convolution-workspaces.md`).
    fn convolution(&self, convolution: Convolution, launch: &Launch) -> Time {
        let Convolution { product, batch, groups, inputs, outputs, .. } = convolution;
        let Convolution { input_positions, positions, taps, .. } = convolution;
        if convolution.is_depthwise() {
            let us = self.memory(bytes(launch.bytes()));
            return Time { us, bound: Bound::Bandwidth, is_fitted: false };
        }
        let groups = groups.max(1);
        let (inputs, outputs) = (inputs.div_euclid(groups), outputs.div_euclid(groups));
        let (rows, seen) = (batch.saturating_mul(positions), batch.saturating_mul(input_positions));
        let unfolded = inputs.saturating_mul(taps);
        let sizes = match product {
            Product::Forward => [groups, rows, unfolded, outputs],
            Product::Data => {
                // A tap meets only those positions that a stride left.
                let summed = outputs.saturating_mul(taps).saturating_mul(positions);
                [groups, seen, summed.div_ceil(input_positions.max(1)), inputs]
            }
            Product::Filter => [groups, unfolded, rows, outputs],
        };
        let unit = self.unit_of_convolution(launch.dtype);
        let mut shape = Shape::new(sizes, false);
        if product == Product::Filter {
            // As cuDNN does.
            shape = self.shared_out(shape);
        }
        let memory = self.memory(bytes(launch.bytes()));
        let arithmetic = self.least(shape, unit, false);
        let bound = if arithmetic > memory { Bound::Arithmetic } else { Bound::Bandwidth };
        let is_turned = unit.flop > 2.0 * self.lanes && !convolution.channels_last;
        let turning = if is_turned { self.turning(convolution, launch.dtype) } else { 0.0 };
        Time { us: arithmetic.max(memory) + turning, bound, is_fitted: false }
    }

    /// Kernels for tensor cores want channels innermost: cuDNN copies input and output of others, or their gradients.
    fn turning(&self, convolution: Convolution, dtype: DType) -> f64 {
        let Convolution { batch, inputs, outputs, input_positions, positions, .. } = convolution;
        let copy = |channels: u64, positions: u64| {
            let elements = batch.saturating_mul(channels).saturating_mul(positions);
            self.memory(bytes(dtype.size().times(elements).times(2)))
        };
        copy(inputs, input_positions) + copy(outputs, positions)
    }

    /// Attention in one kernel: its products one after another, and the operands from memory.
    fn attention(&self, launch: &Launch) -> Time {
        let Kernel::Attention { batch, heads, queries, keys, width, causal, backward } =
            launch.kernel
        else {
            return Time { us: 0.0, bound: Bound::Bandwidth, is_fitted: false };
        };
        let unit = self.unit(launch.dtype);
        let many = batch.saturating_mul(heads);
        let scores = Shape::new([many, queries, width, keys], true);
        let result = Shape::new([many, queries, keys, width], true);
        let both = self.least(scores, unit, true) + self.least(result, unit, true);
        // The gradients take five products.
        let share = if backward { 2.5 } else { 1.0 } * if causal { 0.5 } else { 1.0 };
        let arithmetic = both * share;
        let memory = self.memory(bytes(launch.bytes()));
        let bound = if arithmetic > memory { Bound::Arithmetic } else { Bound::Bandwidth };
        Time { us: arithmetic.max(memory), bound, is_fitted: false }
    }
}

/// Bytes as a number.
const fn bytes(size: Bytes) -> f64 {
    size.0 as f64
}

/// A part of one.
const fn part(share: f64) -> f64 {
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{self, Rates};

    /// A100 40 GB as a card, H100 SXM and T4.
    fn gpus() -> [Gpu; 3] {
        let of = |id| Gpu::of(device::find(id).unwrap()).unwrap();
        let a100 = of("a100-40gb");
        let rates = Rates { form: "PCIe", base_mhz: 765, watts: 250, ..a100.rates };
        [Gpu { rates, ..a100 }, of("h100-80gb"), of("t4")]
    }

    /// As `tests/times/model.py` gives them.
    #[test]
    fn times_are_those_of_the_fitted_model() {
        type Time<'a> = &'a dyn Fn(&Model) -> f64;
        let single = Unit { flop: 0.0, is_fitted: true };
        let product = |model: &Model| {
            let shape = Shape::new([1, 4096, 1024, 4096], false);
            model.product(shape, Unit { flop: 2.0 * model.lanes, ..single }, Bytes(4)).us
        };
        let elementwise = |model: &Model| model.memory(4.0 * 3.0 * 16_777_216.0);
        let softmax = |model: &Model| model.softmax(65_536.0, 1024.0, 1.0, Bytes(4));
        let norm = |model: &Model| model.norm(8192.0, 4096.0, 1.0, Bytes(4));
        let kernels: [(Time<'_>, [f64; 3]); 4] = [
            (&product, [2147.74, 710.73, 8675.78]),
            (&elementwise, [143.25, 66.45, 839.08]),
            (&softmax, [382.00, 177.21, 2237.56]),
            (&norm, [268.28, 118.05, 1551.08]),
        ];
        for (time, expected) in kernels {
            for (gpu, expected) in gpus().into_iter().zip(expected) {
                let found = time(&Model::new(gpu));
                assert!((found - expected).abs() < 0.006, "{found} instead of {expected}: {gpu:?}");
            }
        }
    }
}
