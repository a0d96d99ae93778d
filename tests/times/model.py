"""How long one CUDA kernel takes, in microseconds: the formulas, which use + - * / min max ceil floor alone.

Every function takes a `Gpu` and shapes, as numbers or as arrays of one length. `C` is a dict of constants by name.
Each returns the time on the device; the cost of the launch is apart (`LAUNCH`).
"""

import dataclasses

import numpy as np
from numpy import ceil, clip, floor, maximum, minimum, where

BYTES = 4  # of one float
MEGA = 1000  # GB/s into bytes per microsecond, and GFLOP/s into FLOP per microsecond
KIB = 1024
#: PyTorch: softmax of at most this width is by one warp, in registers; wider rows are read three times.
WARP_WIDTH = 1024
#: PyTorch: rows up to this width have the smaller block.
NARROW_WIDTH, NARROW_BLOCK, WIDE_BLOCK = 2048, 256, 512
#: Floats in one vector load.
VECTOR = 4
#: PyTorch: threads that normalise a row.
NORM_BLOCK = 128
WARP = 32
#: Sides of the output tiles of cuBLAS, rows and columns, and the constant with the tile's efficiency.
TILES = {
    (128, 128): 'tile_128x128',
    (128, 64): 'tile_128x64',
    (64, 128): 'tile_128x64',
    (64, 64): 'tile_64x64',
    (128, 32): 'tile_128x32',
    (32, 128): 'tile_128x32',
}
#: Tiles that cuBLAS has for many small products: from this compute capability on.
BATCHED_TILES = {
    6.0: [(64, 128)],
    7.0: [(64, 128), (64, 64), (32, 128), (128, 32)],
    8.0: [(128, 128)],
    9.0: [(128, 128), (64, 64)],
}
#: For one product all tiles, except on this capability, where cuBLAS takes a narrow one.
NARROW_CAPABILITY, NARROW_TILE = 6.0, (128, 32)
#: Compute capability since which a joule does more work (TSMC 4N).
FRUGAL_CAPABILITY = 8.9
#: Compute capability since which HBM reaches its higher share.
FAST_HBM_CAPABILITY = 7.0
#: The reduction is done in steps of this many.
STEP = 8


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number to fit: where the search starts, its unit, and what it means."""

    name: str
    start: float
    unit: str
    meaning: str


MEMORY = [
    Constant('launch_elementwise', 17, 'us', 'host: one elementwise operator, from Python to the device'),
    Constant('share_hbm', 0.85, '1', 'part of the DRAM bandwidth that is reached, HBM of capability 7.0 and later'),
    Constant('share_other', 0.85, '1', 'part of the DRAM bandwidth that is reached, GDDR and the HBM of Pascal'),
    Constant('l2_free', 0.7, '1', 'bytes of a kernel beside the L2 cache, up to which it needs no DRAM'),
    Constant('l2_span', 1.5, '1', 'further bytes beside the L2 cache, after which all go to DRAM'),
    Constant('l2_rate', 20, 'B', 'bytes from L2 in a clock of a multiprocessor'),
    Constant('launch_softmax', 17, 'us', 'host: one softmax operator'),
    Constant('launch_norm', 17, 'us', 'host: one layer norm operator'),
    Constant('cache_free', 0.15, '1', 'part of the caches (L1 and L2) that rows in flight can fill without a miss'),
    Constant('cache_span', 0.5, '1', 'further part of the caches until every second read of a row misses'),
    Constant('row_latency', 4, 'us', 'softmax: time of a block apart from its loads'),
    Constant('load_latency', 2.5, 'us', 'softmax: time of one round of loads by all threads of a block'),
]
GEMM = [
    Constant('launch_gemm', 17, 'us', 'host: one linear or bmm operator'),
    Constant('peak_64', 0.9, '1', 'part of peak FLOP/s by a 128x128 tile, multiprocessors of 64 lanes'),
    Constant('peak_128', 0.8, '1', 'part of peak FLOP/s by a 128x128 tile, multiprocessors of 128 lanes'),
    Constant('tile_128x64', 0.9, '1', 'efficiency beside a 128x128 tile'),
    Constant('tile_64x64', 0.9, '1', 'efficiency beside a 128x128 tile'),
    Constant('tile_128x32', 0.8, '1', 'efficiency beside a 128x128 tile'),
    Constant('tile_latency', 1, 'us', 'time of a tile before the first and after the last product'),
    Constant('work_per_joule', 60, 'GFLOP/J', 'work for energy at the boost clock, before capability 8.9'),
    Constant('work_per_joule_4n', 120, 'GFLOP/J', 'work for energy at the boost clock, since capability 8.9'),
    Constant('throttle', 0.9, '1', 'slowdown when a kernel needs twice the power that the GPU may take'),
    Constant('exposed', 0.5, '1', 'part of the time to write the result that products do not hide'),
]
ALL = [*MEMORY, *GEMM]
LAUNCH = {
    'elementwise': 'launch_elementwise',
    'softmax': 'launch_softmax',
    'norm': 'launch_norm',
    'gemm': 'launch_gemm',
}


@dataclasses.dataclass(frozen=True)
class Gpu:
    """Public facts of a GPU (devices.csv), or arrays of them."""

    capability: np.ndarray
    multiprocessors: np.ndarray
    lanes: np.ndarray
    base_mhz: np.ndarray
    boost_mhz: np.ndarray
    bandwidth_gbs: np.ndarray
    hbm: np.ndarray
    l2_kib: np.ndarray
    l1_kib: np.ndarray
    threads: np.ndarray
    watts: np.ndarray

    def dram_us(self, C, size):
        """Time to move `size` bytes to or from DRAM."""
        share = where(self.hbm & (self.capability >= FAST_HBM_CAPABILITY), C['share_hbm'], C['share_other'])
        return size / (self.bandwidth_gbs * MEGA * share)

    def memory_us(self, C, size):
        """Time of a kernel that moves `size` bytes, each once: what L2 still holds of them stays there."""
        miss = clip((size / (KIB * self.l2_kib) - C['l2_free']) / C['l2_span'], 0, 1)
        return maximum(self.dram_us(C, size * miss), size / (self.multiprocessors * self.boost_mhz * C['l2_rate']))


def elementwise_us(C, gpu, elements, tensors):
    """`tensors` of `elements` floats are read or written, each once."""
    return gpu.memory_us(C, BYTES * elements * tensors)


def rows_us(C, gpu, rows, width, once, again, resident):
    """Each row is moved `once` times, and read `again` times when it may be in a cache still.

    `resident` rows are in flight on a multiprocessor.
    """
    cache = KIB * (gpu.l2_kib + gpu.multiprocessors * gpu.l1_kib)
    in_flight = BYTES * width * resident * gpu.multiprocessors
    miss = clip((in_flight / cache - C['cache_free']) / C['cache_span'], 0, 1)
    size = BYTES * rows * width
    return gpu.memory_us(C, size * once) + gpu.dram_us(C, size * again * miss)


def softmax_us(C, gpu, rows, width, inputs=1):
    """Softmax over rows; its backward has two inputs."""
    warp = width <= WARP_WIDTH
    block = where(warp, WARP, where(width <= NARROW_WIDTH, NARROW_BLOCK, WIDE_BLOCK))
    resident = gpu.threads / block
    memory = rows_us(C, gpu, rows, width, inputs + 1, where(warp, 0, 2), resident)
    vectors = floor(width / (VECTOR * block))
    rounds = vectors + ceil((width - vectors * VECTOR * block) / block)
    waves = ceil(rows / (gpu.multiprocessors * resident))
    latency = where(warp, 0, waves * (C['row_latency'] + rounds * C['load_latency']))
    return maximum(memory, latency)


def norm_us(C, gpu, rows, width, inputs=1):
    """Layer norm over rows; its backward has two inputs."""
    return rows_us(C, gpu, rows, width, inputs + 1, inputs, gpu.threads / NORM_BLOCK)


def gemm_us(C, gpu, batch, rows, inner, columns, batched):
    """`batch` products of rows x inner with inner x columns: the tile with the least time."""
    write = gpu.memory_us(C, BYTES * batch * rows * columns)
    memory = gpu.memory_us(C, BYTES * batch * (rows * inner + inner * columns + rows * columns))
    best = np.inf
    for tile in TILES:
        arithmetic = tile_us(C, gpu, tile, batch, rows, inner, columns)
        time = maximum(arithmetic + C['exposed'] * write, memory)
        best = minimum(best, where(has_tile(gpu, tile, batched), time, np.inf))
    return best


def tile_us(C, gpu, tile, batch, rows, inner, columns):
    """Arithmetic time in tiles of one size, that of the busiest multiprocessor.

    A GPU that would need too much power lowers its clock, and its voltage with it, but not below the base clock.
    """
    efficiency = C.get(TILES[tile], 1)
    tiles = batch * ceil(rows / tile[0]) * ceil(columns / tile[1])
    work = 2 * tile[0] * tile[1] * STEP * ceil(inner / STEP) / efficiency
    waves = ceil(tiles / gpu.multiprocessors)
    lanes = gpu.lanes * where(gpu.lanes == 64, C['peak_64'], C['peak_128'])
    clocks = waves * work / (2 * lanes)
    per_joule = where(gpu.capability < FRUGAL_CAPABILITY, C['work_per_joule'], C['work_per_joule_4n'])
    boost = clocks / gpu.boost_mhz
    excess = maximum(tiles * work / (boost * gpu.watts * per_joule * MEGA) - 1, 0)
    return minimum(boost * (1 + C['throttle'] * excess * excess), clocks / gpu.base_mhz) + waves * C['tile_latency']


def has_tile(gpu, tile, batched):
    """Whether cuBLAS takes the tile on this GPU."""
    many = np.zeros(np.shape(gpu.capability), bool)
    for since, tiles in BATCHED_TILES.items():
        many = where(gpu.capability >= since, tile in tiles, many)
    one = (gpu.capability != NARROW_CAPABILITY) | (tile == NARROW_TILE)
    return where(batched, many, one)
