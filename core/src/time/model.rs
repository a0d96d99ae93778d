//! How long one kernel takes on a GPU: the formulas of `tests/times/model.py`, and those of `tests/times/networks.py`
//! for half precision and networks.
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

/// FLOP of half precision in a clock of a multiprocessor, at most, by which a consumer GPU is known.
const GEFORCE_FLOP: u32 = 512;
/// Compute capability since which that is so.
const GEFORCE_CAPABILITY: (u32, u32) = (7, 5);
/// Compute capability since which steps of networks were measured on consumer GPUs.
const MEASURED_CAPABILITY: (u32, u32) = (8, 6);
/// Columns of a group that its kernel computes at a time.
const GROUP_COLUMNS: f64 = 32.0;
/// COUNT: groups for whose gradients cuDNN 8 has a kernel, channels last.
const FAST_GROUPS: u64 = 32;
/// Channels of a group that double the rate elsewhere.
const GROUP_WIDTH: f64 = 32.0;
/// COUNT: channels of which tensor cores want a multiple.
const ALIGNED: u64 = 8;
/// Queries and keys of attention that a kernel computes at a time.
const ATTENTION_TILE: [f64; 2] = [128.0, 64.0];

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
    /// The part of it that a tile of 128 x 128 reaches.
    peak: f64,
    /// Whether it is tensor cores.
    is_tensor: bool,
    /// Whether it was measured.
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
    /// Whether weights come from DRAM, however small they are.
    has_cold_weights: bool,
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
            has_cold_weights: false,
        }
    }

    /// The same where a weight was last read so long ago that L2 has none of it.
    pub(super) const fn with_cold_weights(self) -> Self {
        Self { has_cold_weights: true, ..self }
    }

    /// The time of a kernel's single run.
    pub(super) fn time(&self, launch: &Launch) -> Time {
        let time = self.work(launch.kernel, launch.dtype);
        let gap = self.constants.gap * launch.kernel.kernels() as f64;
        Time { us: time.us + gap.min(time.us), ..time }
    }

    /// The time apart from its start and its end.
    pub(super) fn work(&self, kernel: Kernel, dtype: DType) -> Time {
        let element = dtype.size();
        let is_single = dtype == DType::Float32;
        let moves = |us: f64, is_fitted| Time { us, bound: Bound::Bandwidth, is_fitted };
        let memory = || self.memory(bytes(kernel.bytes(element)));
        match kernel {
            Kernel::Gemm { batch, rows, inner, columns, batched } => {
                let shape = Shape::new([batch, rows, inner, columns], batched);
                let unit = self.unit(dtype, self.constants.half_peak);
                self.product(shape, unit, element)
            }
            Kernel::Convolution(convolution) => self.convolution(convolution, dtype),
            Kernel::Attention { .. } => self.attention(kernel, dtype),
            Kernel::Softmax { rows, width, inputs } => {
                moves(self.softmax(rows as f64, width as f64, inputs as f64, element), is_single)
            }
            Kernel::Norm { rows, width, inputs } => {
                moves(self.norm(rows as f64, width as f64, inputs as f64, element), is_single)
            }
            Kernel::BatchNorm { channels, width, backward, channels_last } => {
                let is_half = element <= Bytes(2);
                let is_slow = backward && !channels_last;
                let slow = if is_slow { self.batch_norm_gradient(channels, width) } else { 0.0 };
                moves(memory().max(slow), is_half && self.is_measured())
            }
            Kernel::Elementwise { .. } => moves(memory(), true),
            Kernel::Reduction { .. } | Kernel::Embedding { .. } | Kernel::Foreach { .. } => {
                moves(memory(), false)
            }
            // `network` has their time.
            Kernel::Collective(_) | Kernel::Wait(_) => moves(0.0, true),
        }
    }

    /// Microseconds that its products would take at the published peak of the units that compute them.
    pub(super) fn at_peak(&self, launch: &Launch) -> f64 {
        let unit = match launch.kernel {
            Kernel::Convolution(_) => self.unit_of_convolution(launch.dtype, 1.0),
            _ => self.unit(launch.dtype, 1.0),
        };
        2.0 * launch.multiply_adds() as f64 / (unit.flop * self.multiprocessors * self.boost)
    }

    /// Whether its tensor cores are those of a GPU for games, at half the rate.
    fn is_geforce(&self) -> bool {
        self.gpu.rates.half_flop <= GEFORCE_FLOP
            && self.gpu.compute_capability >= GEFORCE_CAPABILITY
    }

    /// Whether steps of networks were measured on such a GPU.
    fn is_measured(&self) -> bool {
        self.is_geforce() && self.gpu.compute_capability >= MEASURED_CAPABILITY
    }

    /// Time to move bytes to or from DRAM.
    fn dram(&self, size: f64) -> f64 {
        let is_fast = self.gpu.rates.memory == MemoryKind::Hbm
            && self.gpu.compute_capability >= FAST_HBM_CAPABILITY;
        // `share_geforce` is of memory without error correction: workstation cards have it off, unless asked.
        let share = match (!self.gpu.rates.corrects, is_fast) {
            (true, _) => self.constants.share_geforce,
            (false, true) => self.constants.share_hbm,
            (false, false) => self.constants.share_other,
        };
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

    /// The gradient of batch norm, channels first: a multiprocessor handles so many elements in a clock, whatever their
    /// size and the bandwidth. It reads and writes five for each of the tensor's.
    fn batch_norm_gradient(&self, channels: u64, width: u64) -> f64 {
        let clock = self.multiprocessors * self.boost;
        5.0 * channels as f64 * width as f64 / (clock * self.constants.batch_norm_rate)
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
        let resident = self.threads / NORM_BLOCK;
        let waves = (rows / (self.multiprocessors * resident)).ceil();
        self.rows([row * rows, row], [inputs + 1.0, inputs], resident)
            .max(waves * self.constants.norm_latency)
    }

    /// What multiplies elements of this type: tensor cores for half precision, where there are any for it, of which
    /// this part of the peak was measured on consumer GPUs.
    fn unit(&self, dtype: DType, measured: f64) -> Unit {
        let since = if dtype == DType::BFloat16 { (8, 0) } else { (7, 0) };
        let has_tensor_cores = dtype.size() <= Bytes(2) && self.gpu.compute_capability >= since;
        if has_tensor_cores {
            let is_fitted = self.is_measured() && dtype == DType::Float16;
            return self.tensor_cores(1.0, measured, is_fitted);
        }
        if dtype == DType::Float32 && self.gpu.has_tf32(false) {
            return self.tf32(measured);
        }
        let is_fitted = dtype == DType::Float32;
        Unit { flop: 2.0 * self.lanes, peak: self.single_peak(), is_tensor: false, is_fitted }
    }

    /// Tensor cores at a part of their rate in half precision.
    fn tensor_cores(&self, rate: f64, measured: f64, is_fitted: bool) -> Unit {
        let flop = f64::from(self.gpu.rates.half_flop) * rate;
        let peak = if self.is_geforce() { measured } else { self.single_peak() };
        Unit { flop, peak, is_tensor: true, is_fitted }
    }

    /// The part of the peak that fp32 units reach, and tensor cores that were not measured.
    fn single_peak(&self) -> f64 {
        let is_narrow = self.gpu.rates.lanes == 64;
        if is_narrow { self.constants.peak_64 } else { self.constants.peak_128 }
    }

    /// The same for convolutions, which PyTorch lets cuDNN compute in TF32, at half the rate of half precision.
    fn unit_of_convolution(&self, dtype: DType, measured: f64) -> Unit {
        if dtype == DType::Float32 && self.gpu.has_tf32(true) {
            return self.tf32(measured);
        }
        let unit = self.unit(dtype, measured);
        Unit { is_fitted: unit.is_fitted && unit.is_tensor, ..unit }
    }

    /// Tensor cores on fp32 numbers, at half the rate of half precision.
    ///
    /// An operand is twice as large, so those with the full rate wait for operands.
    fn tf32(&self, measured: f64) -> Unit {
        let unit = self.tensor_cores(0.5, measured, false);
        let share = if self.is_geforce() { 1.0 } else { self.constants.tf32_peak };
        Unit { peak: unit.peak * share, ..unit }
    }

    /// Products: the tile with the least time.
    fn product(&self, shape: Shape, unit: Unit, element: Bytes) -> Time {
        let Shape { batch, rows, inner, columns, batched } = shape;
        let element = bytes(element);
        let write = self.memory(element * batch * rows * columns);
        let size = element * batch * (rows * inner + inner * columns + rows * columns);
        let is_cold = self.has_cold_weights && !batched;
        let weight = if is_cold { self.dram(element * inner * columns) } else { 0.0 };
        let memory = self.memory(size).max(weight);
        // No sum on fp32 units that was measured was longer; cuBLAS shares such out (split-k).
        let is_shared = inner > MEASURED_INNER || unit.is_tensor;
        let shape = if is_shared { self.shared_out(shape) } else { shape };
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
        let tiles = match (batched && !unit.is_tensor, self.gpu.compute_capability) {
            (true, capability) => batched_tiles(capability),
            (false, NARROW_CAPABILITY) if !unit.is_tensor => narrow.as_slice(),
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
        let efficiency = match (height.max(breadth), height.min(breadth), unit.is_tensor) {
            (128, 128, _) => 1.0,
            (128, 64, false) => constants.tile_128x64,
            (64, 64, false) => constants.tile_64x64,
            (_, _, false) => constants.tile_128x32,
            (128, 64, true) => constants.half_128x64,
            (64, 64, true) => constants.half_64x64,
            (_, _, true) => constants.half_128x32,
        };
        let (height, breadth) = (f64::from(height), f64::from(breadth));
        let tiles = shape.batch * (shape.rows / height).ceil() * (shape.columns / breadth).ceil();
        let work = 2.0 * height * breadth * STEP * (shape.inner / STEP).ceil() / efficiency;
        let waves = (tiles / self.multiprocessors).ceil();
        let clocks = waves * work / (unit.flop * unit.peak);
        let boost = clocks / self.boost;
        if unit.is_tensor {
            return boost + waves * constants.half_latency;
        }
        let latency = waves * constants.tile_latency;
        let is_frugal = self.gpu.compute_capability >= FRUGAL_CAPABILITY;
        let per_joule =
            if is_frugal { constants.work_per_joule_4n } else { constants.work_per_joule };
        let watts = f64::from(self.gpu.rates.watts);
        let excess = (tiles * work / (boost * watts * per_joule * MEGA) - 1.0).max(0.0);
        let slowed = boost * (1.0 + constants.throttle * excess * excess);
        slowed.min(clocks / self.base) + latency
    }

    /// A convolution as the product of its unfolded input (`docs/convolution-workspaces.md`).
    fn convolution(&self, convolution: Convolution, dtype: DType) -> Time {
        let constants = &self.constants;
        let is_filter = convolution.product == Product::Filter;
        let peak = if is_filter { constants.conv_filter } else { constants.conv_peak };
        let unit = self.unit_of_convolution(dtype, peak);
        let size = Kernel::Convolution(convolution).bytes(dtype.size());
        let memory = self.memory(bytes(size));
        let is_turned = unit.is_tensor && !convolution.channels_last && !convolution.is_depthwise();
        let turning = if is_turned { self.turning(convolution, dtype) } else { 0.0 };
        let arithmetic = if convolution.is_depthwise() {
            self.depthwise(convolution)
        } else if convolution.groups > 1 {
            self.grouped(convolution, unit)
        } else {
            let shape = unfolded(convolution);
            let shape = if is_filter { self.shared_out(shape) } else { shape };
            let is_odd = unit.is_tensor && convolution.channels_last && is_odd(convolution);
            let rate = if is_odd { constants.conv_odd } else { 1.0 };
            let is_short = !unit.is_tensor && is_winograd(convolution, dtype);
            let rate = if is_short { rate * constants.winograd } else { rate };
            self.least(shape, Unit { peak: unit.peak * rate, ..unit }, false)
        };
        let bound = if arithmetic > memory { Bound::Arithmetic } else { Bound::Bandwidth };
        // Steps that were held out are wrong by more where groups matter.
        let is_fitted = unit.is_fitted && convolution.groups <= 1;
        Time { us: arithmetic.max(memory) + turning, bound, is_fitted }
    }

    /// Filters of each channel alone, on fp32 units.
    fn depthwise(&self, convolution: Convolution) -> f64 {
        let constants = &self.constants;
        let Convolution { product, positions, channels_last, .. } = convolution;
        let is_filter = product == Product::Filter;
        let rate = match (is_filter, channels_last) {
            (false, false) => constants.depthwise_first,
            (false, true) => constants.depthwise_last,
            (true, false) => constants.depthwise_filter_first,
            (true, true) => constants.depthwise_filter_last,
        };
        // For the weight's gradient the lanes of a warp share the positions of a sample.
        let positions = (positions.max(1)) as f64;
        let lanes = if is_filter { WARP * (positions / WARP).ceil() / positions } else { 1.0 };
        let products = convolution.multiply_adds() as f64;
        products * lanes / (self.multiprocessors * self.boost * rate)
    }

    /// Groups of channels, one after another in the same kernel.
    fn grouped(&self, convolution: Convolution, unit: Unit) -> f64 {
        let constants = &self.constants;
        let Convolution { product, groups, inputs, channels_last, .. } = convolution;
        let is_filter = product == Product::Filter;
        let share = match (is_filter, channels_last) {
            (true, _) => constants.group_filter,
            (false, true) => constants.group_last,
            (false, false) => constants.group_first,
        };
        let clock = self.multiprocessors * self.boost;
        let Shape { batch, rows, inner, columns, .. } = unfolded(convolution);
        let breadth = GROUP_COLUMNS * (columns / GROUP_COLUMNS).ceil();
        let work = 2.0 * batch * rows * breadth * STEP * (inner / STEP).ceil();
        let time = work / (clock * unit.flop * share);
        if !is_filter || !channels_last || groups == FAST_GROUPS {
            return time;
        }
        let width = inputs as f64 / groups as f64;
        let rate = constants.group_filter_last * (1.0 + width / GROUP_WIDTH);
        time.max(convolution.multiply_adds() as f64 / (clock * rate))
    }

    /// Kernels for tensor cores want channels innermost: cuDNN copies input and output of others, or their gradients.
    fn turning(&self, convolution: Convolution, dtype: DType) -> f64 {
        let Convolution { batch, inputs, outputs, input_positions, positions, .. } = convolution;
        let copy = |channels: u64, positions: u64| {
            let elements = batch.saturating_mul(channels).saturating_mul(positions);
            self.memory(bytes(dtype.size().times(elements).times(2)))
        };
        self.constants.turn * (copy(inputs, input_positions) + copy(outputs, positions))
    }

    /// Attention in one kernel: its products one after another, and the operands from memory.
    fn attention(&self, kernel: Kernel, dtype: DType) -> Time {
        let Kernel::Attention { batch, heads, queries, keys, width, causal, backward, .. } = kernel
        else {
            return Time { us: 0.0, bound: Bound::Bandwidth, is_fitted: false };
        };
        let unit = self.unit(dtype, self.constants.attention_peak);
        let [queries, keys] = [(queries, ATTENTION_TILE[0]), (keys, ATTENTION_TILE[1])]
            .map(|(count, side)| side * (count as f64 / side).ceil());
        // The gradients take five products instead of two.
        let share = if backward { 2.5 } else { 1.0 } * if causal { 0.5 } else { 1.0 };
        let [batch, heads, width] = [batch, heads, width].map(|count| count as f64);
        let work = 4.0 * batch * heads * (queries * keys) * width * share;
        let arithmetic = work / (self.multiprocessors * self.boost * unit.flop * unit.peak);
        let memory = self.memory(bytes(kernel.bytes(dtype.size())));
        let bound = if arithmetic > memory { Bound::Arithmetic } else { Bound::Bandwidth };
        let is_fitted = unit.is_fitted && unit.is_tensor && !backward;
        Time { us: arithmetic.max(memory), bound, is_fitted }
    }
}

/// The product of a convolution, for each group. Channels that are summed are padded to a multiple of [`ALIGNED`].
fn unfolded(convolution: Convolution) -> Shape {
    let Convolution { product, batch, groups, inputs, outputs, .. } = convolution;
    let Convolution { input_positions, positions, taps, .. } = convolution;
    let groups = groups.max(1);
    let (inputs, outputs) = (inputs.div_euclid(groups), outputs.div_euclid(groups));
    let (rows, seen) = (batch.saturating_mul(positions), batch.saturating_mul(input_positions));
    let unfolded = padded(inputs).saturating_mul(taps);
    let sizes = match product {
        Product::Forward => [groups, rows, unfolded, outputs],
        Product::Data => {
            // A tap meets only those positions that a stride left.
            let summed = padded(outputs).saturating_mul(taps).saturating_mul(positions);
            [groups, seen, summed.div_ceil(input_positions.max(1)), inputs]
        }
        Product::Filter => [groups, unfolded, rows, outputs],
    };
    Shape::new(sizes, false)
}

/// The next multiple of [`ALIGNED`].
const fn padded(channels: u64) -> u64 {
    channels.div_ceil(ALIGNED).saturating_mul(ALIGNED)
}

/// Whether tensor cores can take its channels only after a copy; a picture's own channels are always copied.
const fn is_odd(convolution: Convolution) -> bool {
    let Convolution { inputs, outputs, .. } = convolution;
    let is_even = inputs.is_multiple_of(ALIGNED) && outputs.is_multiple_of(ALIGNED);
    inputs >= ALIGNED && outputs >= ALIGNED && !is_even
}

/// Whether cuDNN saves multiplications by Winograd's transform on fp32 units: filters of 3 x 3 without a stride.
fn is_winograd(convolution: Convolution, dtype: DType) -> bool {
    let Convolution { taps, input_positions, positions, .. } = convolution;
    dtype == DType::Float32 && taps == 9 && input_positions == positions
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
        let product = |model: &Model| {
            let shape = Shape::new([1, 4096, 1024, 4096], false);
            model.product(shape, model.unit(DType::Float32, 1.0), Bytes(4)).us
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

    /// A convolution of a batch of 64 from 28 x 28 positions to 14 x 14.
    fn convolution(product: Product, [groups, channels]: [u64; 2], channels_last: bool) -> Kernel {
        Kernel::Convolution(Convolution {
            product,
            batch: 64,
            groups,
            inputs: channels,
            outputs: channels,
            input_positions: 784,
            positions: 196,
            taps: 9,
            channels_last,
        })
    }

    /// As `python tests/times/networks.py vectors` prints them.
    #[test]
    fn times_of_networks_are_those_of_the_fitted_model() {
        let (batch, rows) = (2, 197);
        let kernels: [(Kernel, [f64; 3]); 10] = [
            (
                Kernel::Gemm { batch: 1, rows: 8192, inner: 768, columns: 3072, batched: false },
                [600.38, 253.84, 153.93],
            ),
            (convolution(Product::Forward, [1, 256], false), [281.40, 114.22, 75.29]),
            (convolution(Product::Data, [1, 256], true), [209.48, 100.36, 59.85]),
            (convolution(Product::Filter, [1, 250], true), [672.90, 302.34, 116.80]),
            (convolution(Product::Forward, [32, 256], false), [74.22, 19.38, 33.55]),
            (convolution(Product::Filter, [8, 256], true), [2535.84, 1092.68, 2314.52]),
            (convolution(Product::Filter, [256, 256], false), [115.59, 49.81, 105.50]),
            (
                Kernel::Attention {
                    batch,
                    heads: 12,
                    key_heads: 12,
                    queries: rows,
                    keys: rows,
                    width: 64,
                    causal: false,
                    backward: true,
                },
                [7.47, 3.22, 3.32],
            ),
            (
                Kernel::BatchNorm {
                    channels: 64,
                    width: 802_816,
                    backward: true,
                    channels_last: false,
                },
                [1484.61, 639.71, 1355.05],
            ),
            (Kernel::Norm { rows: 200_000, width: 32, inputs: 1 }, [332.93, 213.79, 189.31]),
        ];
        for (kernel, expected) in kernels {
            for (id, expected) in ["rtx-3090", "rtx-4090", "a100-40gb"].into_iter().zip(expected) {
                let gpu = Gpu::of(device::find(id).unwrap()).unwrap();
                let found = Model::new(gpu).work(kernel, DType::Float16).us;
                assert!(
                    (found - expected).abs() < 0.006,
                    "{found}, not {expected}: {kernel:?}, {id}"
                );
            }
        }
    }
}
