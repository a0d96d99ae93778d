"""Fits three constants to published steps whose sources may choose constants (README.md).

    cargo run --release -p highwater-core --example tools -- steps published > published.txt
    python published.py published.txt

Rows of all other sources are not read here: they judge.
"""

import sys
import tomllib
from pathlib import Path

import numpy as np
from numpy import maximum, minimum, where
from scipy.optimize import least_squares

import networks
from model import Constant
from networks import FITTED, HERE

#: Relative errors beyond this count less and less, and how firmly a constant stays where its search starts.
OUTLIER, FIRMNESS = 0.1, 0.05
CONSTANTS = [
    Constant('winograd', 1.6, '1', 'rate of fp32 units in convolutions of 3x3 without a stride, next to others'),
    Constant('tf32_peak', 0.8, '1', 'rate of products in TF32 next to half of that in half precision, tensor cores of the full rate'),
]
HOST = Constant('host_typical', 1.5, '1', 'time of the host next to the machine that was measured: geometric mean of three machines, that one included')
#: A source whose steps wait for the host, on two machines.
SMALL_BATCHES = 'ryujaehun/pytorch-gpu-benchmark'
FACTS = 'capability multiprocessors threads lanes base_mhz boost_mhz bandwidth_gbs l2_kib l1_kib watts half_flop hbm corrects'


class Kernels(networks.Kernels):
    """The same, on GPUs of all kinds and with TF32."""

    def __init__(self, rows: list[tuple], facts: dict[str, np.ndarray], tf32: np.ndarray, bf16: list[bool], kind: str) -> None:
        self.corrects = facts['corrects'] > 0
        known = {name: column for name, column in facts.items() if name != 'corrects'}
        super().__init__(rows, known | {'hbm': facts['hbm'] > 0})
        self.corrects = self.corrects[self.run]
        self.half = (self.element <= 2) & (self.gpu.capability >= where(bf16, 8, 7))
        self.flop = where(self.half, self.facts['half_flop'], 2 * self.gpu.lanes)
        needed = {'convolution': 1, 'gemm': 2, 'attention': 2}.get(kind, 3)
        self.tf32 = (self.element == 4) & (self.gpu.capability >= 8) & (tf32[self.run] >= needed)
        self.tensor = self.half | self.tf32
        self.short = np.zeros(len(self.run), bool)
        if kind == 'convolution':
            groups, seen, positions, taps = self.sizes[[2, 5, 6, 7]]
            self.short = ~self.tensor & (self.element == 4) & (taps == 9) & (seen == positions) & (groups == 1)

    def single_peak(self, C):
        """With what TF32 and Winograd's transform make of it."""
        return super().single_peak(C) * where(self.tf32, C['tf32_peak'], where(self.short, C['winograd'], 1))

    def dram_us(self, C, size):
        """Memory without error correction is that of GeForce."""
        plain = size / (self.gpu.bandwidth_gbs * networks.MEGA * C['share_geforce'])
        return where(self.corrects, self.gpu.dram_us(C, size), plain)


def gemm_us(C, k):
    """As `networks.py`, with TF32."""
    batch, rows, inner, columns, batched = k.sizes
    flop = where(k.tf32, k.facts['half_flop'] / 2, k.flop)
    peak = where(k.tensor & k.geforce, C['half_peak'], k.single_peak(C))
    write = k.memory_us(C, k.element * batch * rows * columns)
    memory = k.memory_us(C, k.element * batch * (rows * inner + inner * columns + rows * columns))
    shape = (batch, rows, inner, columns)
    shares = k.tensor | (inner > 65536)
    shape = [where(shares, a, b) for a, b in zip(k.shared_out(shape), shape, strict=True)]
    return maximum(k.least_us(C, shape, flop, peak, k.tensor, batched > 0) + C['exposed'] * write, memory)


FORMULAS = networks.FORMULAS | {'gemm': gemm_us}


class Runs:
    """Published steps that may choose constants."""

    def __init__(self, path: str) -> None:
        self.runs, kernels, wanted = [], {}, False
        names = 'id source device form tf32 chooses left_out ms ours'.split()
        for line in Path(path).read_text().splitlines():
            words = line.split(',')
            if words[0] == 'run':
                run = dict(zip(names, words[1:])) | {'facts': list(map(float, words[10].split()))}
                wanted = run['chooses'] == 'true' and run['left_out'] == 'clean'
                self.runs += [run] * wanted
                continue
            if wanted:
                kind, sizes, dtype, shortest, moving, host, count = words[-7:]
                element = int(words[-9])
                row = (len(self.runs) - 1, int(count), element, *map(int, sizes.split()))
                kernels.setdefault(kind, []).append((row, dtype, float(shortest), float(moving), float(host)))
        facts = dict(zip(FACTS.split(), np.array([run['facts'] for run in self.runs]).T, strict=True))
        tf32 = np.array([{'On': 2, 'Convolutions': 1}.get(run['tf32'], 0) for run in self.runs])
        self.ms = np.array([float(run['ms']) for run in self.runs])
        self.kernels, self.host = {}, np.zeros(len(self.runs))
        for kind, rows in kernels.items():
            bf16 = [dtype == 'bfloat16' for _, dtype, *_ in rows]
            k = self.kernels[kind] = Kernels([row for row, *_ in rows], facts, tf32, bf16, kind)
            k.shortest, k.moving, host = np.array([row[2:] for row in rows]).T
            self.host += np.bincount(k.run, host * k.count, len(self.runs)) / 1000

    def predict(self, C) -> np.ndarray:
        """Milliseconds, as the program."""
        device = np.zeros(len(self.runs))
        for kind, k in self.kernels.items():
            us = FORMULAS[kind](C, k)
            us = us + minimum(C['gap'] * (k.sizes[2] if kind == 'foreach' else 1), us)
            us = maximum(maximum(us, C['shortest_kernel'] * k.shortest), k.moving)
            device += np.bincount(k.run, us * k.count, len(self.runs)) / 1000
        return maximum(device, self.host * C['host_typical'])

    def fit(self, constants: list[Constant], known: dict[str, float], mask: np.ndarray) -> dict[str, float]:
        """Least squares of the logarithm of predicted by published time."""

        def values(x):
            return known | {c.name: c.start * np.exp(part) for c, part in zip(constants, x, strict=True)}

        def residuals(x):
            return np.concatenate([np.log(self.predict(values(x)) / self.ms)[mask], FIRMNESS * x])

        found = least_squares(residuals, np.zeros(len(constants)), loss='soft_l1', f_scale=OUTLIER, diff_step=1e-3)
        return values(found.x)


def main(path: str) -> None:
    """Fits and writes."""
    known = {'winograd': 1, 'tf32_peak': 1, 'host_typical': 1}
    for name in ('constants', 'networks', 'host'):
        known |= tomllib.loads((FITTED / f'{name}.toml').read_text())
    runs = Runs(path)
    everything = np.ones(len(runs.runs), bool)
    C = runs.fit([*CONSTANTS, HOST], known, everything)
    small = np.array([run['source'] == SMALL_BATCHES for run in runs.runs])
    devices = np.array([run['device'] for run in runs.runs])
    hosts = [runs.fit([HOST], C, small & (devices == device))['host_typical'] for device in sorted(set(devices[small]))]
    print('hosts of', SMALL_BATCHES, hosts)
    C['host_typical'] = np.prod([1, *hosts]) ** (1 / (1 + len(hosts)))
    lines = ['# Written by published.py, from rows of tests/fixtures/published that may choose constants.', '']
    for constant in [HOST, *CONSTANTS]:
        lines += [f'# {constant.meaning} [{constant.unit}]', f'{constant.name} = {C[constant.name]:.4g}']
    (FITTED / 'published.toml').write_text('\n'.join(lines) + '\n')
    print('\n'.join(lines))


if __name__ == '__main__':
    main(*sys.argv[1:])
