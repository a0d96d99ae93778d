"""Fits the constants of networks in half precision to whole steps of timm's benchmark (README.md).

    python networks.py rows TRAIN.csv INFER.csv [PUBLISHED.csv …] > rows.csv
    python networks.py fit LAUNCHES TRAIN.csv INFER.csv [PUBLISHED.csv …]
    python networks.py language LLM_STEPS.csv
    python networks.py vectors

The first prints what `tools steps dump` needs, the second reads what it printed and writes networks.toml and networks.txt.
The third judges language models, and the last prints what a test of the program has.
"""

import csv
import re
import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
from numpy import ceil, clip, floor, maximum, minimum, where
from scipy.optimize import least_squares

import fit as kernel_fit
import model
import steps
from model import KIB, MEGA, STEP, TILES, Constant

HERE = Path(__file__).resolve().parent
# The core is built with these.
FITTED = HERE.parents[1] / 'core' / 'src' / 'time' / 'fitted'
#: Constants that stay where they start. Without the bound by a kernel's own work the fit gives this gap; with it, the
#: gap cannot be separated from other constants.
HELD = {'gap'}
#: Relative errors beyond this count less and less.
OUTLIER = 0.1
#: How firmly a constant stays where its search starts, against one step.
FIRMNESS = 0.1
#: GeForce: FLOP of half precision in a clock of a multiprocessor at most. Their memory has no error correction.
GEFORCE_FLOP, GEFORCE_CAPABILITY = 512, 7.5
#: Columns of a group that its kernel computes at a time.
GROUP_COLUMNS = 32
#: cuDNN 8 has a kernel for the gradients of so many groups, channels last. A wider group has a faster one elsewhere.
FAST_GROUPS, GROUP_WIDTH = 32, 32
#: Tensor cores want a multiple of so many channels.
ALIGNED = 8
WARP = 32
#: Positions of attention that a kernel computes at a time: queries and keys.
ATTENTION_TILE = (128, 64)
#: Operators that need a copy of their input for the gradient where they work in place: a forward pass has none.
CLONED = {'aten::silu', 'aten::hardswish', 'aten::mish', 'aten::gelu', 'aten::hardsigmoid', 'aten::celu'}
#: timm's layers of this model changed since: 2.7 GMAC were measured, the graph has 4.4.
MISNAMED = {'ecaresnext50t_32x4d'}

CONSTANTS = [
    Constant('share_geforce', 0.9, '1', 'part of the DRAM bandwidth that is reached by GeForce'),
    Constant('gap', 11.3, 'us', 'time of a kernel in a network apart from its work, at most as long as that'),
    Constant('half_peak', 0.9, '1', 'part of the peak of half precision by a 128x128 tile, GeForce'),
    Constant('half_128x64', 0.8, '1', 'efficiency on tensor cores next to a 128x128 tile'),
    Constant('half_64x64', 0.8, '1', 'efficiency on tensor cores next to a 128x128 tile'),
    Constant('half_128x32', 0.5, '1', 'efficiency on tensor cores next to a 128x128 tile'),
    Constant('half_latency', 1, 'us', 'tensor cores: time of a tile before the first and after the last product'),
    Constant('conv_peak', 0.9, '1', 'part of the peak of half precision by convolutions and gradients of their input'),
    Constant('conv_filter', 0.8, '1', 'the same by gradients of the weight'),
    Constant('conv_odd', 0.4, '1', 'rate, channels last, where channels are no multiple of 8, next to others'),
    Constant('turn', 0.5, '1', 'copies to channels last, next to input and output copied once'),
    Constant('group_first', 0.5, '1', 'part of the peak of half precision by groups of channels, channels first'),
    Constant('group_last', 0.5, '1', 'the same, channels last'),
    Constant('group_filter', 0.3, '1', 'the same by gradients of the weight'),
    Constant('group_filter_last', 1.4, '1', 'products in a clock of a multiprocessor, where no such kernel suits'),
    Constant('depthwise_first', 30, '1', 'products in a clock of a multiprocessor by depthwise kernels'),
    Constant('depthwise_last', 30, '1', 'the same, channels last'),
    Constant('depthwise_filter_first', 2.5, '1', 'the same by gradients of the weight, channels first'),
    Constant('depthwise_filter_last', 2.5, '1', 'the same by gradients of the weight, channels last'),
    Constant('attention_peak', 0.9, '1', 'part of the peak of half precision by attention in one kernel'),
    Constant('norm_latency', 1, 'us', 'layer norm: time of the rows in flight apart from their loads'),
    Constant('batch_norm_rate', 1.5, '1', 'elements of the gradient of batch norm in a clock of a multiprocessor, channels first, each read and written'),
]


#: Of the held-out steps, the part that lies between the time divided and multiplied by the factor of the interval.
COVERAGE = 0.9
INTERVAL = [
    Constant('interval', 0, '1', 'part by which nine of ten steps are off at most, all formulas measured'),
    Constant('interval_unfitted', 0, '1', 'what is added where all of the time has formulas that are not measured'),
]


class Kernels:
    """Kernels of one kind from many runs, in columns."""

    def __init__(self, rows: list[tuple], facts: dict[str, np.ndarray]) -> None:
        columns = np.array(rows, dtype=float).T
        self.run = columns[0].astype(int)
        self.count, self.element = columns[1:3]
        self.sizes = columns[3:]
        self.facts = {name: column[self.run] for name, column in facts.items()}
        names = [name for name in self.facts if name != 'half_flop']
        self.gpu = model.Gpu(**{name: self.facts[name] for name in names})
        self.clock = self.gpu.multiprocessors * self.gpu.boost_mhz
        self.geforce = (self.facts['half_flop'] <= GEFORCE_FLOP) & (self.gpu.capability >= GEFORCE_CAPABILITY)
        self.half = (self.element <= 2) & (self.gpu.capability >= 7)
        self.flop = where(self.half, self.facts['half_flop'], 2 * self.gpu.lanes)

    def single_peak(self, C):
        """What fp32 units reach, and tensor cores that no step of a network was measured on."""
        return where(self.gpu.lanes == 64, C['peak_64'], C['peak_128'])

    def dram_us(self, C, size):
        """As `model.py`, with what GeForce reaches."""
        geforce = size / (self.gpu.bandwidth_gbs * MEGA * C['share_geforce'])
        return where(self.geforce, geforce, self.gpu.dram_us(C, size))

    def memory_us(self, C, size):
        """As `model.py`."""
        gpu = self.gpu
        miss = clip((size / (KIB * gpu.l2_kib) - C['l2_free']) / C['l2_span'], 0, 1)
        return maximum(self.dram_us(C, size * miss), size / (self.clock * C['l2_rate']))

    def rows_us(self, C, shape, once, again, resident):
        """As `model.py`."""
        rows, width = shape
        gpu, row = self.gpu, self.element * width
        cache = KIB * (gpu.l2_kib + gpu.multiprocessors * gpu.l1_kib)
        in_flight = row * resident * gpu.multiprocessors
        miss = clip((in_flight / cache - C['cache_free']) / C['cache_span'], 0, 1)
        return self.memory_us(C, row * rows * once) + self.dram_us(C, row * rows * again * miss)

    def tile_us(self, C, tile, shape, flop, peak, tensor):
        """Tiles on tensor cores; without them as `model.py`."""
        batch, rows, inner, columns = shape
        name = TILES[tile]
        efficiency = where(tensor, C.get(name.replace('tile', 'half'), 1), C.get(name, 1))
        tiles = batch * ceil(rows / tile[0]) * ceil(columns / tile[1])
        work = 2 * tile[0] * tile[1] * STEP * ceil(inner / STEP) / efficiency
        waves = ceil(tiles / self.gpu.multiprocessors)
        clocks = waves * work / (flop * peak)
        fast = clocks / self.gpu.boost_mhz
        frugal = self.gpu.capability >= model.FRUGAL_CAPABILITY
        joule = where(frugal, C['work_per_joule_4n'], C['work_per_joule'])
        excess = maximum(tiles * work / (fast * self.gpu.watts * joule * MEGA) - 1, 0)
        slow = minimum(fast * (1 + C['throttle'] * excess * excess), clocks / self.gpu.base_mhz)
        latency = where(tensor, C['half_latency'], C['tile_latency'])
        return where(tensor, fast, slow) + waves * latency

    def least_us(self, C, shape, flop, peak, tensor, batched):
        """The best tile. Tensor cores have all, also for many products."""
        best = np.full(len(self.run), np.inf)
        for tile in TILES:
            time = self.tile_us(C, tile, shape, flop, peak, tensor)
            best = minimum(best, where(tensor | model.has_tile(self.gpu, tile, batched), time, np.inf))
        return best

    def shared_out(self, shape):
        """Sums of few tiles are shared out over idle multiprocessors."""
        batch, rows, inner, columns = shape
        tiles = ceil(rows / 128) * ceil(columns / 128)
        parts = maximum(floor(self.gpu.multiprocessors / (tiles * batch)), 1)
        return batch * parts, rows, ceil(inner / parts), columns


def padded(channels):
    """The next multiple of `ALIGNED`."""
    return ceil(channels / ALIGNED) * ALIGNED


def gemm_us(C, k):
    """A product: on tensor cores cuBLAS shares out sums."""
    batch, rows, inner, columns, batched = k.sizes
    peak = where(k.half & k.geforce, C['half_peak'], k.single_peak(C))
    write = k.memory_us(C, k.element * batch * rows * columns)
    memory = k.memory_us(C, k.element * batch * (rows * inner + inner * columns + rows * columns))
    shape = (batch, rows, inner, columns)
    shares = k.half | (inner > 65536)
    shape = [where(shares, a, b) for a, b in zip(k.shared_out(shape), shape, strict=True)]
    arithmetic = k.least_us(C, shape, k.flop, peak, k.half, batched > 0)
    return maximum(arithmetic + C['exposed'] * write, memory)


def convolution_us(C, k):
    """One product of a convolution."""
    product, batch, groups, inputs, outputs, seen, positions, taps, last = k.sizes
    last = last > 0
    forward, filtered = product == 0, product == 2
    each_in, each_out = inputs / groups, outputs / groups
    before, after = batch * inputs * seen, batch * outputs * positions
    memory = k.memory_us(C, k.element * (before + after + outputs * each_in * taps))
    products = after * each_in * taps
    single = (k.element == 4) & (k.gpu.capability >= 8)
    tensor = k.half | single
    flop = where(single, k.facts['half_flop'] / 2, k.flop)
    fitted = tensor & k.geforce
    unfolded = padded(each_in) * taps
    rows = where(filtered, unfolded, batch * where(forward, positions, seen))
    met = ceil(padded(each_out) * taps * positions / maximum(seen, 1))
    inner = where(filtered, batch * positions, where(forward, unfolded, met))
    columns = where(product == 1, each_in, each_out)
    dense = (groups, rows, inner, columns)
    shape = [where(filtered, a, b) for a, b in zip(k.shared_out(dense), dense, strict=True)]
    peak = where(fitted, where(filtered, C['conv_filter'], C['conv_peak']), k.single_peak(C))
    odd = last & tensor & ((each_in % ALIGNED > 0) | (each_out % ALIGNED > 0)) & (minimum(each_in, each_out) >= ALIGNED)
    peak = peak * where(odd, C['conv_odd'], 1)
    arithmetic = k.least_us(C, shape, flop, peak, tensor, np.zeros(len(k.run), bool))
    turned = C['turn'] * (k.memory_us(C, 2 * k.element * before) + k.memory_us(C, 2 * k.element * after))
    turned = where(tensor & ~last, turned, 0)
    share = where(filtered, C['group_filter'], where(last, C['group_last'], C['group_first']))
    wide = GROUP_COLUMNS * ceil(columns / GROUP_COLUMNS)
    by_group = 2 * groups * rows * wide * STEP * ceil(inner / STEP) / (k.clock * flop * share)
    plain = products / (k.clock * C['group_filter_last'] * (1 + each_in / GROUP_WIDTH))
    by_group = where(filtered & last & (groups != FAST_GROUPS), maximum(by_group, plain), by_group)
    rate = where(last, C['depthwise_last'], C['depthwise_first'])
    rate = where(filtered, where(last, C['depthwise_filter_last'], C['depthwise_filter_first']), rate)
    lanes = where(filtered, WARP * ceil(positions / WARP) / positions, 1)
    depthwise = (groups > 1) & (groups == inputs)
    arithmetic = where(groups > 1, by_group, arithmetic)
    return where(depthwise, maximum(products * lanes / (k.clock * rate), memory), maximum(arithmetic, memory) + turned)


def attention_us(C, k):
    """Attention in one kernel."""
    batch, heads, queries, keys, width, causal, backward = k.sizes
    peak = where(k.half & k.geforce, C['attention_peak'], k.single_peak(C))
    scores = ATTENTION_TILE[0] * ceil(queries / ATTENTION_TILE[0]) * ATTENTION_TILE[1] * ceil(keys / ATTENTION_TILE[1])
    work = 4 * batch * heads * scores * width * where(backward > 0, 2.5, 1) * where(causal > 0, 0.5, 1)
    size = k.element * batch * heads * (2 * queries + 2 * keys) * width * where(backward > 0, 2, 1)
    return maximum(work / (k.clock * k.flop * peak), k.memory_us(C, size))


def softmax_us(C, k):
    """As `model.py`."""
    rows, width, inputs = k.sizes
    warp = width <= model.WARP_WIDTH
    block = where(warp, WARP, where(width <= model.NARROW_WIDTH, model.NARROW_BLOCK, model.WIDE_BLOCK))
    resident = k.gpu.threads / block
    memory = k.rows_us(C, (rows, width), inputs + 1, where(warp, 0, 2), resident)
    vectors = floor(width / (model.VECTOR * block))
    rounds = vectors + ceil((width - vectors * model.VECTOR * block) / block)
    waves = ceil(rows / (k.gpu.multiprocessors * resident))
    return maximum(memory, where(warp, 0, waves * (C['row_latency'] + rounds * C['load_latency'])))


def norm_us(C, k):
    """As `model.py`, but narrow rows wait."""
    rows, width, inputs = k.sizes
    resident = k.gpu.threads / model.NORM_BLOCK
    waves = ceil(rows / (k.gpu.multiprocessors * resident))
    return maximum(k.rows_us(C, (rows, width), inputs + 1, inputs, resident), waves * C['norm_latency'])


def batch_norm_us(C, k):
    """Statistics first, then the result. Gradients of channels first are as slow as a multiprocessor handles them."""
    channels, width, backward, last = k.sizes
    size = channels * width * where(backward > 0, 5, 3)
    slow = where((backward > 0) & (last == 0), size / (k.clock * C['batch_norm_rate']), 0)
    return maximum(k.memory_us(C, k.element * size), slow)


def moved_us(C, k):
    """Bytes that are read and written."""
    return k.memory_us(C, k.sizes[0] + k.sizes[1])


def embedding_us(C, k):
    """Rows of a table."""
    rows, width, backward = k.sizes
    return k.memory_us(C, k.element * rows * width * where(backward > 0, 3, 2))


FORMULAS = {
    'gemm': gemm_us,
    'convolution': convolution_us,
    'attention': attention_us,
    'softmax': softmax_us,
    'norm': norm_us,
    'batch_norm': batch_norm_us,
    'embedding': embedding_us,
    'elementwise': moved_us,
    'reduction': moved_us,
    'foreach': moved_us,
}
LAUNCH = {'gemm': 'gemm', 'convolution': 'gemm', 'attention': 'gemm', 'softmax': 'softmax', 'norm': 'norm'}


class Runs:
    """Measured steps and their kernels."""

    def __init__(self, runs: list[dict]) -> None:
        self.runs = runs
        self.ms = np.array([run['ms'] for run in runs])
        self.half = np.array([zlib.crc32(family(run['model']).encode()) % 2 for run in runs])
        facts = {name: np.array([run['facts'][name] for run in runs]) for name in runs[0]['facts']}
        rows = {}
        for place, run in enumerate(runs):
            for kind, element, sizes, count in run['kernels']:
                rows.setdefault(kind, []).append((place, count, element, *sizes))
        self.kernels = {kind: Kernels(list_of, facts) for kind, list_of in rows.items()}

    def of(self, mask) -> 'Runs':
        """Some of them."""
        return Runs([run for run, wanted in zip(self.runs, mask, strict=True) if wanted])

    def column(self, name: str) -> np.ndarray:
        """One fact of each."""
        return np.array([run[name] for run in self.runs])

    def parts_ms(self, C) -> dict[str, np.ndarray]:
        """By kind of kernel."""
        parts = {}
        for kind, k in self.kernels.items():
            count = k.count * (k.sizes[2] if kind == 'foreach' else 1)
            time = with_gap(FORMULAS[kind](C, k) * k.count, C['gap'] * count)
            parts[kind] = np.bincount(k.run, time, len(self.runs)) / 1000
        return parts

    def unfitted(self, C) -> np.ndarray:
        """Part of the time by kernels that the program counts as not fitted."""
        parts, off = self.parts_ms(C), np.zeros(len(self.runs))
        for kind, k in self.kernels.items():
            if kind in {'foreach', 'reduction', 'embedding'}:
                off += parts[kind]
                continue
            other = ~k.half | ~k.geforce
            if kind == 'gemm':
                mask = k.half & ~k.geforce
            elif kind == 'convolution':
                mask = other | (k.sizes[2] > 1)
            elif kind == 'attention':
                mask = other | (k.sizes[6] > 0)
            elif kind == 'batch_norm':
                mask = other
            else:
                mask = (k.element != 4) & (kind != 'elementwise')
            time = with_gap(FORMULAS[kind](C, k), C['gap']) * k.count * mask / 1000
            off += np.bincount(k.run, time, len(self.runs))
        return off / sum(parts.values())

    def unmeasured(self) -> 'Runs':
        """The same runs, predicted as if their GPU were one whose tensor cores were not measured."""
        runs = Runs(self.runs)
        for k in runs.kernels.values():
            k.geforce = np.zeros(len(k.run), bool)
        return runs

    def predict(self, C) -> np.ndarray:
        """Milliseconds: the longer of device and host."""
        host = np.zeros(len(self.runs))
        for kind, k in self.kernels.items():
            count = k.count * (k.sizes[2] if kind == 'foreach' else 1)
            name = 'norm' if kind == 'batch_norm' else LAUNCH.get(kind, 'elementwise')
            host += np.bincount(k.run, count, len(self.runs)) * C[f'launch_{name}'] / 1000
        return maximum(sum(self.parts_ms(C).values()), host)


def family(name: str) -> str:
    """The first word of a model's name without what libraries put in front."""
    return re.split(r'[_\d]', re.sub('^(legacy|tf|test|eca|se)_?', '', name))[0]


def fit(runs: Runs, known: dict[str, float]) -> dict[str, float]:
    """Least squares of the logarithm of predicted by measured time; training and inference weigh the same."""
    is_step = runs.column('training')
    weight = where(is_step, 1, np.sqrt(is_step.sum() / maximum((~is_step).sum(), 1)))

    def values(x):
        return known | {c.name: c.start * np.exp(part) for c, part in zip(CONSTANTS, x, strict=True)}

    def residuals(x):
        return np.concatenate([weight * np.log(runs.predict(values(x)) / runs.ms), FIRMNESS * x])

    start = np.zeros(len(CONSTANTS))
    held = np.array([constant.name in HELD for constant in CONSTANTS])
    limits = (where(held, -1e-6, -np.inf), where(held, 1e-6, np.inf))
    found = least_squares(residuals, start, bounds=limits, loss='soft_l1', f_scale=OUTLIER, diff_step=1e-3, max_nfev=60)
    return {name: float(f'{value:.4g}') for name, value in values(found.x).items()}


def forward_only(lines: list[tuple]) -> list[tuple]:
    """The kernels of a forward pass without gradients: no dropout, statistics of batch norm known, no copies."""
    count = {}
    for phase, operator, *_, kind, _, times in lines:
        if kind == 'elementwise':
            key = (phase == 'forward', operator)
            count[key] = count.get(key, 0) + times
    kernels = []
    for phase, operator, element, kind, sizes, times in lines:
        if phase != 'forward' or 'dropout' in operator or 'nll' in operator:
            continue
        if kind == 'batch_norm':
            size = element * sizes[0] * sizes[1]
            kind, sizes = 'elementwise', (size, size)
        copied = operator in CLONED and count.get((True, operator)) == 2 * count.get((False, operator), 0)
        kernels.append((kind, element, sizes, times / 2 if copied and kind == 'elementwise' else times))
    return kernels


def multiply_adds(lines: list[tuple]) -> float:
    """Of a forward pass."""
    total = 0
    for phase, _, _, kind, s, times in lines:
        if phase == 'forward' and kind == 'gemm':
            total += times * s[0] * s[1] * s[2] * s[3]
        elif phase == 'forward' and kind == 'convolution':
            total += times * s[1] * s[6] * s[4] * s[3] // s[2] * s[7]
        elif phase == 'forward' and kind == 'attention':
            total += 2 * times * s[0] * s[1] * s[2] * s[3] * s[4]
    return total


def read_launches(path: str) -> dict[tuple, list[tuple]]:
    """What `tools steps dump` printed: phase, operator, element, kind, sizes and count, by run."""
    runs, lines = {}, []
    for line in Path(path).read_text().splitlines():
        words = line.split(',')
        if words[0] == 'run':
            lines = runs.setdefault(tuple(words[1:]), [])
            continue
        phase, operator, element, _, kind, sizes, count = words
        lines.append((phase, operator, int(element), kind, tuple(map(int, sizes.split())), int(count)))
    return runs


def read_tables(train: str, infer: str, *published: str) -> list[dict]:
    """Measured runs. The tables of the publisher have layout, PyTorch and device in their names."""
    rows = []
    for row in read(train):
        keys = {key: row[key] for key in ('model', 'layout', 'batch', 'step_ms')}
        rows.append(keys | {'pytorch': '1.12', 'device': 'rtx-3090', 'training': True})
    for row in read(infer):
        rows.append(row | {'layout': 'nchw', 'training': False})
    for path in published:
        layout, major, minor, device = re.search(r'-(nchw|nhwc)-pt(\d)(\d)\d-.*?(\d{4})\.csv', path).groups()
        for row in read(path):
            names = {'batch': 'batch_size', 'step_ms': 'step_time', 'gmacs': 'gmacs', 'million_activations': 'macts'}
            keys = {key: row[f'infer_{name}'] for key, name in names.items()} | {'image': row['infer_img_size']}
            where_from = {'layout': layout, 'pytorch': f'{major}.{minor}', 'device': f'rtx-{device}'}
            rows.append(keys | where_from | {'model': row['model'], 'training': False})
    return rows


def fused(rows: list[dict]) -> set[str]:
    """Models that a later timm measured with their branches fused: they have fewer activations there."""
    seen = {}
    for row in rows:
        if not row['training'] and row['million_activations']:
            key = (row['model'], row['image'])
            seen.setdefault(key, {})[row['pytorch']] = float(row['million_activations'])
    differ = {key[0] for key, by in seen.items() if len(by) == 2 and abs(by['2.9'] / by['2.4'] - 1) > 0.03}
    return differ


def load(launches: str, *tables: str) -> Runs:
    """Runs whose graph is the one that was measured.

    Inference with group norm is left out: the tables disagree by a factor of two about what it computes.
    """
    known, rows = read_launches(launches), read_tables(*tables)
    devices = {row['device'].lower().replace(' ', '-'): row for row in read(HERE / 'devices.csv')}
    without, runs, other = fused(rows), [], set()
    for row in rows:
        lines = known.get((row['model'], row['layout'], row['batch'], row['pytorch']))
        if lines is None or row['training']:
            continue
        gmacs = float(row['gmacs'] or 0)
        # Published to two places.
        if abs(multiply_adds(lines) / int(row['batch']) / 1e9 - gmacs) > 0.03 * gmacs + 0.006:
            other.add((row['model'], row['image'], row['pytorch']))
    for row in rows:
        lines = known.get((row['model'], row['layout'], row['batch'], row['pytorch']))
        if lines is None or row['model'] in MISNAMED:
            continue
        if not row['training']:
            is_fused = row['model'] in without and row['pytorch'] == '2.9'
            has_groups = any('group_norm' in line[1] for line in lines)
            if is_fused or has_groups or (row['model'], row['image'], row['pytorch']) in other:
                continue
        kernels = [(kind, element, sizes, count) for _, _, element, kind, sizes, count in lines]
        run = {key: row[key] for key in ('model', 'layout', 'device', 'pytorch', 'training')}
        run |= {'ms': float(row['step_ms']), 'facts': facts_of(devices[row['device']])}
        runs.append(run | {'kernels': kernels if row['training'] else forward_only(lines)})
    return Runs(runs)


def facts_of(row: dict[str, str]) -> dict[str, float]:
    """Of a GPU."""
    names = ('capability multiprocessors lanes base_mhz boost_mhz bandwidth_gbs l2_kib l1_kib threads watts half_flop')
    return {name: float(row[name]) for name in names.split()} | {'hbm': row['memory'] == 'HBM'}


def ranks(values: np.ndarray) -> np.ndarray:
    """Places in order."""
    return np.argsort(np.argsort(values, kind='stable'), kind='stable')


def error_line(label: str, predicted: np.ndarray, measured: np.ndarray) -> str:
    """Median and 90th percentile of the absolute error, the median of the signed one, Spearman's correlation."""
    error = predicted / measured - 1
    median, most = np.percentile(abs(error), [50, 90])
    together = np.corrcoef(ranks(predicted), ranks(measured))[0, 1]
    return (
        f'  {label:<44} {len(error):>5}   {median:>6.1%}  {most:>6.1%}  {np.median(error):>+6.1%}  {together:>6.3f}'
    )


def error_table(title: str, runs: Runs, predicted: np.ndarray) -> list[str]:
    """Errors by what was measured."""
    lines = [title]
    training = runs.column('training')
    keys = np.array([f'{run["device"]} {run["pytorch"]} {run["layout"]}' for run in runs.runs])
    for label, mask in (('training', training), ('inference', ~training)):
        if mask.any():
            lines.append(error_line(label, predicted[mask], runs.ms[mask]))
        for key in sorted(set(keys[mask])):
            part = mask & (keys == key)
            lines.append(error_line(f'{label} {key}', predicted[part], runs.ms[part]))
    return [*lines, '']


def worst(runs: Runs, predicted: np.ndarray) -> list[str]:
    """The training steps with the largest errors."""
    lines = ['Training, family held out: the largest errors']
    error = np.log(predicted / runs.ms) * runs.column('training')
    for place in np.argsort(-abs(error))[:20]:
        run = runs.runs[place]
        lines.append(f'  {run["model"]:<38} {run["layout"]} {run["ms"]:>8.1f} ms  x{predicted[place] / run["ms"]:.2f}')
    return [*lines, '']


def off(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """How far a prediction is off, up or down, as a factor less one."""
    return maximum(predicted / measured, measured / predicted) - 1


def language_steps() -> np.ndarray:
    """How far whole steps of language models are off that fit.py predicted without their GPU."""
    text = (HERE / 'results.txt').read_text().split('Whole steps, the GPU held out')[1].split('\n\n')[0]
    errors = [float(found) / 100 for found in re.findall(r' (?:inf|train) .*?([+-]\d+\.\d)%', text)]
    return off(1 + np.array(errors), np.ones(len(errors)))


def spread(language: np.ndarray, *pairs: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """The factor of the interval, less one: where little is unfitted, and what more of it adds.

    The first covers steps of networks and of language models to the same part. The second covers networks with more
    that is unfitted, and all of them by a GPU whose tensor cores were not measured. Pairs: unfitted share, error.
    """
    share, wrong = pairs[0]
    few = share <= np.median(share)
    base = max(np.quantile(some, COVERAGE) for some in (wrong[few], language))
    several = [(share[~few], wrong[~few]), *pairs[1:]]
    more = max(np.quantile((wrong - base) / share, COVERAGE) for share, wrong in several)
    return [float(f'{value:.3g}') for value in (base, more)]


def judge_interval(runs: Runs, share: np.ndarray, predicted: np.ndarray, C) -> tuple[list[float], list[str]]:
    """Factors from steps that were held out from the fit, and how many of further ones they cover."""
    training, wrong, language = runs.column('training'), off(predicted, runs.ms), language_steps()
    other = runs.unmeasured()
    vendor, part = off(other.predict(C), runs.ms), other.unfitted(C)
    lines, inside = ['Interval, held out from the fit and from the interval'], np.zeros(len(wrong), bool)
    vendor_inside = inside.copy()
    for half in (0, 1):
        fitted, judged = training & (runs.half != half), runs.half == half
        base, more = spread(language, (share[fitted], wrong[fitted]), (part[fitted], vendor[fitted]))
        inside[judged] = wrong[judged] <= base + more * share[judged]
        vendor_inside[judged] = vendor[judged] <= base + more * part[judged]
    bounds = ((0, 0.05), (0.05, 0.15), (0.15, 1))
    shares = [(f'training, {low:.0%} to {high:.0%} not fitted', low, high) for low, high in bounds]

    def line(label, within):
        return f'  {label:<44} {len(within):>5}   {within.mean():>6.1%} inside'

    for label, low, high in [('training', 0, 1), *shares]:
        lines.append(line(label, inside[training & (share >= low) & (share < high)]))
    lines.append(line("training, by vendor's rates", vendor_inside[training]))
    lines.append(line('inference', inside[~training]))
    base, _ = spread(np.zeros(1), (share[training], wrong[training]))
    lines.append(line('language models, by training alone', language <= base))
    together = spread(language, (share[training], wrong[training]), (part[training], vendor[training]))
    return together, [*lines, '']


def constants_text(C: dict[str, float]) -> str:
    """networks.toml."""
    lines = ['# Written by networks.py. The formulas are there.', '']
    for constant in CONSTANTS + INTERVAL:
        lines += [f'# {constant.meaning} [{constant.unit}]', f'{constant.name} = {C[constant.name]}']
    return '\n'.join(lines) + '\n'


def read(path: str | Path) -> list[dict[str, str]]:
    """A table."""
    with Path(path).open(newline='') as file:
        return list(csv.DictReader(file))


def print_rows(*tables: str) -> None:
    """What `tools steps dump` reads."""
    keys = ('model', 'layout', 'batch', 'pytorch')
    rows = sorted({tuple(row[key] for key in keys) for row in read_tables(*tables)})
    csv.writer(sys.stdout, lineterminator='\n').writerows([keys, *rows])


def main(launches: str, *tables: str) -> None:
    """Fits, judges and writes."""
    known = tomllib.loads((FITTED / 'constants.toml').read_text())
    runs = load(launches, *tables)
    lines = [f'  {"":<44} {"count":>5}   {"median":>6}  {"90th %":>6}  {"signed":>6}  {"rank":>6}', '']
    predicted, share = np.zeros(len(runs.runs)), np.zeros(len(runs.runs))
    for half in (0, 1):
        mask = runs.half == half
        C = fit(runs.of(~mask), known)
        predicted[mask], share[mask] = runs.of(mask).predict(C), runs.of(mask).unfitted(C)
    lines += error_table('Held out: half of the families, each half once', runs, predicted)
    lines += worst(runs, predicted)
    factors, found = judge_interval(runs, share, predicted, fit(runs, known))
    lines += found
    device, training = runs.column('device'), runs.column('training')
    for one in sorted(set(device)):
        # Training was measured on one GPU alone: without it nothing is fitted to gradients.
        held, rest = ~training & (device == one), device != one
        lines += error_table(f'Held out: {one}', runs.of(held), runs.of(held).predict(fit(runs.of(rest), known)))
        held, rest = held & (runs.half == 0), rest & (runs.half == 1)
        title = f'Held out: {one}, and half of the families'
        lines += error_table(title, runs.of(held), runs.of(held).predict(fit(runs.of(rest), known)))
    C = fit(runs, known)
    lines += error_table('Runs that are fitted to', runs, runs.predict(C))
    C |= dict(zip([c.name for c in INTERVAL], factors, strict=True))
    (FITTED / 'networks.toml').write_text(constants_text(C))
    (HERE / 'networks.txt').write_text('\n'.join(lines))
    print(constants_text(C), *lines, sep='\n')


def print_language(path: str) -> None:
    """Whole steps of language models in fp32, to which nothing is fitted, without the gap of networks and with it."""
    known = tomllib.loads((FITTED / 'constants.toml').read_text())
    gap = tomllib.loads((FITTED / 'networks.toml').read_text())['gap']
    devices = {row['step_name']: row for row in read(HERE / 'devices.csv')}
    rows = [row for row in read(path) if not row['option'] and row['device'] in devices]
    measured, mode = (np.array([row[key] for row in rows]) for key in ('ms', 'mode'))
    for label, one in (('without the gap', 0), ('with the gap', gap)):
        predicted = np.array([language_ms(known, one, devices[row['device']], row) for row in rows])
        for part in ('inf', 'train'):
            mask = mode == part
            print(error_line(f'{part} {label}', predicted[mask], measured[mask].astype(float)))


def with_gap(us, gap):
    """The time of kernels with their slow first and last moments, which small ones have less of."""
    return us + np.minimum(us, gap)


def language_ms(C, gap: float, facts: dict[str, str], row: dict[str, str]) -> float:
    """One of them: the longer of device and host."""
    step = steps.Step(steps.MODELS[row['model']], int(row['batch']), int(row['seq']), row['mode'] == 'train')
    kernels, gpu = step.forward + step.backward, kernel_fit.gpu_of([facts])
    work = [kernel_fit.FUNCTIONS[kind](C, gpu, *shape).item() for kind, *shape in kernels]
    device = sum(with_gap(us, gap) for us in work)
    return max(device, sum(C[model.LAUNCH[kind]] for kind, *_ in kernels)) / 1000


def print_vectors() -> None:
    """Times of kernels on three GPUs without the gap, for the program's tests."""
    C = {}
    for name in ('constants.toml', 'networks.toml'):
        C |= tomllib.loads((FITTED / name).read_text())
    devices = {row['device']: facts_of(row) for row in read(HERE / 'devices.csv')}
    positions = (784, 196, 9)
    kernels = [
        ('gemm', (1, 8192, 768, 3072, 0)),
        ('convolution', (0, 64, 1, 256, 256, *positions, 0)),
        ('convolution', (1, 64, 1, 256, 256, *positions, 1)),
        ('convolution', (2, 64, 1, 250, 250, *positions, 1)),
        ('convolution', (0, 64, 32, 256, 256, *positions, 0)),
        ('convolution', (2, 64, 8, 256, 256, *positions, 1)),
        ('convolution', (2, 64, 256, 256, 256, *positions, 0)),
        ('attention', (2, 12, 197, 197, 64, 0, 1)),
        ('batch_norm', (64, 802816, 1, 0)),
        ('norm', (200000, 32, 1)),
    ]
    for kind, sizes in kernels:
        times = []
        for name in ('RTX 3090', 'RTX 4090', 'A100 40GB SXM'):
            facts = {key: np.array([value]) for key, value in devices[name].items()}
            times.append(f'{FORMULAS[kind](C, Kernels([(0, 1, 2, *sizes)], facts)).item():.2f}')
        print(f'[{", ".join(times)}],')


if __name__ == '__main__':
    COMMANDS = {'rows': print_rows, 'fit': main, 'language': print_language, 'vectors': print_vectors}
    COMMANDS[sys.argv[1]](*sys.argv[2:])
