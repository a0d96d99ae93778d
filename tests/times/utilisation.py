"""Fits the host's time and judges utilisation: `python utilisation.py MLP.csv JOBS.csv MLP.txt JOBS.txt` (README.md).

The tables are measurements of whole training runs by DCGM; the texts are what `core/examples/tools/launches.rs` prints for
the same runs: what each kernel takes and uses of an A100. Writes host.toml and utilisation.txt.
"""

import csv
import sys
import zlib
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from model import Constant

HERE = Path(__file__).resolve().parent
# The core is built with these.
FITTED = HERE.parents[1] / 'core' / 'src' / 'time' / 'fitted'
#: Fp32 units, and clocks in a microsecond, of an A100 SXM.
LANES, MHZ = 64 * 108, 1410
#: Steps whose fp32 units are busy enough to give the time of the step by their known work.
BUSY_FP32 = 0.05
#: Errors of a share beyond this count less and less.
OUTLIER = 0.03
#: How firmly a constant stays where its search starts, against one share.
FIRMNESS = 0.3
CIFAR_IMAGES = 50_000
#: The size of the jobs' subset of ImageNet is not published. Assumed: all training images of ImageNet-1k.
IMAGENET_IMAGES = 1_281_167

HOST = [
    Constant('forward_operator', 15, 'us', 'host: one operator of forward, with its module and its autograd node'),
    Constant('backward_operator', 10, 'us', 'host: one operator of the backward pass, or one that no module calls'),
    Constant('list_tensor', 2, 'us', 'host: one tensor in one list that an operator of the optimizer takes'),
    Constant('shortest_kernel', 5, 'us', 'device: the shortest time of a kernel'),
    Constant('linger', 5, 'us', 'device: how long the GPU counts as busy after a kernel'),
]
#: The loop of the perceptrons makes each batch in the thread that trains. These are facts about that loop alone.
LOADER = [
    Constant('batch', 500, 'us', 'loop: one batch, apart from the rest: progress bars, loss.item()'),
    Constant('sample', 4, 'us', 'loader: one sample'),
    Constant('kilobyte', 0.3, 'us', 'loader: 1,000 bytes of a sample, stacked and copied to the device'),
]
ALL = [*HOST, *LOADER]
COLUMNS = ['inputs', 'batch', 'gpu_util_percent', 'graphics_active', 'sm_active', 'sm_occupancy', 'fp32_active']


class Runs:
    """The launches of many runs, in columns."""

    def __init__(self, path: Path) -> None:
        self.names, run, words = [], [], []
        for line in path.read_text().splitlines():
            if line.startswith('run '):
                self.names.append(line.split()[1])
            else:
                run.append(len(self.names) - 1)
                words.append(line.split())
        self.run = np.array(run)
        self.phase = np.array([word[0] for word in words])
        self.is_list = np.array([word[1] == 'foreach' for word in words])
        numbers = np.array([[float(number) for number in word[2:]] for word in words]).T
        times, self.tensors, kernels, us, self.share, self.occupancy, moving, tensor, dram = numbers
        self.us = np.maximum(us, moving)
        self.times, self.kernels = times, kernels
        self.dram, self.tensor = self.sum(dram), self.sum(tensor)
        self.count = self.sum(kernels)

    def sum(self, column: np.ndarray) -> np.ndarray:
        """The sum over each run's launches."""
        return np.bincount(self.run, column * self.times, len(self.names))

    def host_us(self, C: dict[str, float]) -> np.ndarray:
        """The host's time of each step."""
        operator = np.where(self.phase == 'forward', C['forward_operator'], C['backward_operator'])
        in_list = np.maximum(C['backward_operator'], C['list_tensor'] * self.tensors)
        return self.sum(np.where(self.is_list, in_list, operator))

    def utilisation(self, C: dict[str, float], loader=0, before=0) -> dict[str, np.ndarray]:
        """Averages over each step. A `loader` works ahead of the step; what is done `before` it adds to its time."""
        us = np.maximum(self.us, C['shortest_kernel'] * self.kernels)
        device, host = self.sum(us), self.host_us(C)
        step = np.maximum(np.maximum(device, host), loader) + before
        lingering = np.minimum(np.maximum(host - device, 0), C['linger'] * self.count)
        return {
            'step': step,
            'gpu': (device + lingering) / step,
            'sm_active': self.sum(us * self.share) / step,
            'sm_occupancy': self.sum(us * self.occupancy) / step,
            'tensor_active': self.tensor / step,
            'dram_active': self.dram / step,
        }


class Perceptrons:
    """2,000 perceptrons, each trained for a minute."""

    def __init__(self, table: Path, launches: Path) -> None:
        self.runs, rows = Runs(launches), read(table)
        self.column = {name: numbers(rows, name) for name in COLUMNS}
        self.batch = self.column['batch']
        self.bytes = 4 * self.column['inputs'] * self.batch
        self.fp32_us = np.array([work(row) for row in rows]) / (LANES * MHZ)
        key = [f'{row["inputs"]},{row["linear_widths"]},{row["batch"]}' for row in rows]
        self.is_fitted = np.array([zlib.crc32(text.encode()) % 2 == 0 for text in key])

    def utilisation(self, C: dict[str, float]) -> dict[str, np.ndarray]:
        """As the loop of these runs has it."""
        before = C['batch'] + C['sample'] * self.batch + C['kilobyte'] * self.bytes / 1000
        return self.runs.utilisation(C, before=before)

    def fit(self) -> dict[str, float]:
        """Least squares of the shares, on one half."""
        start = np.array([constant.start for constant in ALL])
        half, column = self.is_fitted, self.column
        is_busy = half & (column['fp32_active'] > BUSY_FP32)

        def values(x: np.ndarray) -> dict[str, float]:
            return dict(zip([constant.name for constant in ALL], start * np.exp(x), strict=True))

        def residuals(x: np.ndarray) -> np.ndarray:
            found = self.utilisation(values(x))
            gpu = (found['gpu'] - column['graphics_active'])[half]
            active = (found['sm_active'] - column['sm_active'])[half]
            fp32 = (self.fp32_us / found['step'] - column['fp32_active'])[is_busy]
            return np.concatenate([gpu, active, fp32, FIRMNESS * x])

        found = least_squares(residuals, np.zeros(len(ALL)), loss='soft_l1', f_scale=OUTLIER, diff_step=1e-3)
        return {name: float(f'{value:.4g}') for name, value in values(found.x).items()}


def work(row: dict[str, str]) -> float:
    """Multiplications of a step: forward, and two in backward, but the input has no gradient."""
    widths = [int(width) for width in f'{row["inputs"]} {row["linear_widths"]}'.split()]
    layers = [a * b for a, b in zip(widths, widths[1:], strict=False)]
    return float(row['batch']) * (3 * sum(layers) - layers[0])


class Jobs:
    """Whole jobs on an A100, to which nothing is fitted."""

    def __init__(self, table: Path, launches: Path) -> None:
        runs, rows = Runs(launches), read(table)
        self.runs = runs
        self.rows = rows
        self.place = np.array([runs.names.index(f'{row["workload"]},{row["batch"]}') for row in rows])
        is_cifar = np.array(['cifar' in row['workload'] for row in rows])
        self.is_cifar = is_cifar
        images = np.where(is_cifar, CIFAR_IMAGES, IMAGENET_IMAGES) * numbers(rows, 'epochs')
        self.rate = images / numbers(rows, 'training_loop_s')
        self.loader = 1e6 * numbers(rows, 'batch') / self.rate

    def utilisation(self, C: dict[str, float], knows_rate: bool) -> dict[str, np.ndarray]:
        """Of each row, where the loader is as fast as needed or has the rate of the job."""
        found = []
        for place, loader in zip(self.place, self.loader, strict=True):
            one = self.runs.utilisation(C, loader=loader if knows_rate else 0)
            found.append({name: column[place] for name, column in one.items()})
        return {name: np.array([one[name] for one in found]) for name in found[0]}


def read(path: Path) -> list[dict[str, str]]:
    """A table."""
    with path.open(newline='') as file:
        return list(csv.DictReader(file))


def numbers(rows: list[dict[str, str]], name: str) -> np.ndarray:
    """A column; NaN where a cell is empty."""
    return np.array([float(row[name] or 'nan') for row in rows])


def error_line(label: str, predicted: np.ndarray, measured: np.ndarray) -> str:
    """Mean absolute error, mean of the signed one, and the mean of what was measured."""
    error = (predicted - measured)[~np.isnan(measured)]
    numbers_of = f'{abs(error).mean():>6.3f}  {error.mean():>+6.3f}  {np.nanmean(measured):>6.3f}'
    return f'  {label:<52} {len(error):>5}   {numbers_of}'


def judge_perceptrons(title: str, found: dict[str, np.ndarray], runs: Perceptrons, mask: np.ndarray) -> list[str]:
    """Shares of some perceptrons."""
    column = runs.column
    pairs = [
        ('SM active', found['sm_active'], column['sm_active']),
        ('SM occupancy', found['sm_occupancy'], column['sm_occupancy']),
        ('GPU utilisation (NVML)', found['gpu'], column['gpu_util_percent'] / 100),
        ('GPU utilisation (graphics engine active)', found['gpu'], column['graphics_active']),
    ]
    return [title, *(error_line(name, a[mask], b[mask]) for name, a, b in pairs), '']


def judge_jobs(title: str, found: dict[str, np.ndarray], jobs: Jobs) -> list[str]:
    """Shares of jobs: small images, large images, and both."""
    lines = [title]
    groups = {'32 px': jobs.is_cifar, '224 and 299 px': ~jobs.is_cifar, 'all': jobs.is_cifar | True}
    shares = {'sm_active': 'SM active', 'sm_occupancy': 'SM occupancy', 'dram_active': 'DRAM active'}
    for group, mask in groups.items():
        for name, words in shares.items():
            measured = numbers(jobs.rows, f'{name}_mean')
            lines.append(error_line(f'{words}, {group}', found[name][mask], measured[mask]))
    return [*lines, '']


def job_lines(C: dict[str, float], jobs: Jobs) -> list[str]:
    """Each job: milliseconds of a step, SM active and DRAM active."""
    free, given = jobs.utilisation(C, knows_rate=False), jobs.utilisation(C, knows_rate=True)
    lines = [
        'Each job: ms of a step, measured and ours without a rate;',
        'SM active: measured, ours with the loader as fast as needed, ours with its rate; the same of DRAM active',
    ]
    for at, row in enumerate(jobs.rows):
        numbers_of = [jobs.loader[at] / 1000, free['step'][at] / 1000]
        for name in ('sm_active', 'dram_active'):
            numbers_of += [float(row[f'{name}_mean']), free[name][at], given[name][at]]
        name = f'{row["workload"]} {row["batch"]} x {row["epochs"]}'
        text = ' '.join(f'{number:>8.1f}' for number in numbers_of[:2])
        lines.append(f'  {name:<46} {text}  ' + ' '.join(f'{number:>6.3f}' for number in numbers_of[2:]))
    return [*lines, '']


def host_text(C: dict[str, float]) -> str:
    """host.toml."""
    lines = ['# Written by utilisation.py. core/src/time/host.rs has the formulas.', '']
    for constant in HOST:
        lines += [f'# {constant.meaning} [{constant.unit}]', f'{constant.name} = {C[constant.name]}']
    return '\n'.join(lines) + '\n'


def main(table: str, jobs_table: str, launches: str, jobs_launches: str) -> None:
    """Fits, judges and writes."""
    runs = Perceptrons(Path(table), Path(launches))
    jobs = Jobs(Path(jobs_table), Path(jobs_launches))
    C = runs.fit()
    found = runs.utilisation(C)
    lines = [f'  {"":<52} {"count":>5}   {"error":>6}  {"signed":>6}  {"mean":>6}', '']
    lines += judge_perceptrons('Perceptrons, the half that is held out', found, runs, ~runs.is_fitted)
    lines += judge_jobs('Jobs, the loader as fast as needed', jobs.utilisation(C, knows_rate=False), jobs)
    lines += judge_jobs('Jobs, the rate of the loader given', jobs.utilisation(C, knows_rate=True), jobs)
    lines += job_lines(C, jobs)
    lines += judge_perceptrons('Perceptrons, the half that is fitted to', found, runs, runs.is_fitted)
    lines += ['The loop of the perceptrons']
    lines += [f'  {constant.meaning} [{constant.unit}]: {C[constant.name]}' for constant in LOADER]
    lines += ['']
    (FITTED / 'host.toml').write_text(host_text(C))
    (HERE / 'utilisation.txt').write_text('\n'.join(lines))
    print(host_text(C), *lines, sep='\n')


if __name__ == '__main__':
    main(*sys.argv[1:])
