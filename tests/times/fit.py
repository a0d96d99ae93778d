"""Fits the constants of `model.py` to measured kernels: `python fit.py KERNELS.csv STEPS.csv` (README.md).

Writes constants.toml and results.txt. Whole steps are only compared, never fitted to.
"""

import csv
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import model
import numpy as np
import steps
from scipy.optimize import least_squares

HERE = Path(__file__).resolve().parent
APART = 'H100 80GB SXM'
#: Operators with an operand that is a tensor, not a scalar, move three tensors; the others move two.
TWO_OPERANDS = {'add', 'mul', 'div', 'pow'}
KINDS = {'linear': 'gemm', 'bmm': 'gemm', 'softmax': 'softmax', 'ln': 'norm'}
#: A fit looks at so many kernels of each operator and device, so that none outweighs the others.
SAMPLE = 300
#: Relative errors beyond this count less and less: clocks wander, and some kernels are odd.
OUTLIER = 0.1
#: How firmly a constant stays where its search starts, beside one kernel: decides what no kernel shows.
FIRMNESS = 0.3
#: One shape in so many is held out.
HELD_OUT = 3
QUICK = len(sys.argv) > 3


class Kernels:
    """Measured kernels in columns."""

    def __init__(self, rows: list[dict[str, str]], devices: dict[str, dict[str, str]]) -> None:
        self.rows, self.devices = rows, devices
        self.op = np.array([row['op'] for row in rows])
        self.device = np.array([row['device'] for row in rows])
        self.us = 1000 * self.numbers('ms')
        self.gpu = gpu_of([devices[name] for name in self.device])
        self.kind = np.array([KINDS.get(op, 'elementwise') for op in self.op])
        shapes = [','.join(row[key] for key in ('op', 'b', 'm', 'n', 'k', 'h')) for row in rows]
        self.hash = np.array([zlib.crc32(shape.encode()) for shape in shapes])

    def numbers(self, key: str) -> np.ndarray:
        """A column; empty cells are zero."""
        return np.array([float(row[key] or 0) for row in self.rows])

    def of(self, mask: np.ndarray) -> 'Kernels':
        """Some of them."""
        return Kernels([row for row, wanted in zip(self.rows, mask, strict=True) if wanted], self.devices)

    def sample(self) -> 'Kernels':
        """`SAMPLE` of each operator and device, those with the least hash."""
        keep = np.zeros(len(self.rows), bool)
        for op, device in sorted(set(zip(self.op, self.device, strict=True))):
            places = np.flatnonzero((self.op == op) & (self.device == device))
            keep[places[np.argsort(self.hash[places], kind='stable')[:SAMPLE]]] = True
        return self.of(keep)

    def predict(self, C: dict[str, float]) -> np.ndarray:
        """Microseconds, with the launch. In the data, `n` is the inner dimension and `k` the columns of the result."""
        b, m, n, k, h = (self.numbers(key) for key in 'bmnkh')
        tensors = np.where(np.isin(self.op, list(TWO_OPERANDS)), 3, 2)
        times = {
            'elementwise': lambda: model.elementwise_us(C, self.gpu, b * h, tensors),
            'softmax': lambda: model.softmax_us(C, self.gpu, b, h),
            'norm': lambda: model.norm_us(C, self.gpu, b, h),
            'gemm': lambda: model.gemm_us(C, self.gpu, b, m, n, k, self.op == 'bmm'),
        }
        total = np.zeros(len(self.rows))
        for kind in sorted(set(self.kind)):
            total = np.where(self.kind == kind, times[kind]() + C[model.LAUNCH[kind]], total)
        return total


def gpu_of(rows: list[dict[str, str]]) -> model.Gpu:
    """The facts of devices, one for each row."""
    numbers = {
        key: np.array([float(row[key]) for row in rows]) for key in model.Gpu.__annotations__ if key != 'hbm'
    }
    return model.Gpu(hbm=np.array([row['memory'] == 'HBM' for row in rows]), **numbers)


def fit(kernels: Kernels) -> dict[str, float]:
    """All constants: first the bandwidth, then what needs it."""
    C = {}
    groups = [
        (model.ELEMENTWISE, ['elementwise']),
        (model.ROWS, ['softmax', 'norm']),
        (model.GEMM, ['gemm']),
    ]
    for constants, kinds in groups:
        C |= fit_group(kernels.of(np.isin(kernels.kind, kinds)).sample(), constants, C)
    return {name: float(f'{value:.4g}') for name, value in C.items()}


def fit_group(kernels: Kernels, constants: list[model.Constant], known: dict[str, float]) -> dict[str, float]:
    """Least squares of the logarithm of predicted by measured time."""

    def values(x: np.ndarray) -> dict[str, float]:
        return {c.name: c.start * np.exp(part) for c, part in zip(constants, x, strict=True)}

    def residuals(x: np.ndarray) -> np.ndarray:
        ratio = kernels.predict(known | values(x)) / kernels.us
        return np.concatenate([np.log(ratio), FIRMNESS * x])

    start = np.zeros(len(constants))
    found = least_squares(residuals, start, loss='soft_l1', f_scale=OUTLIER, diff_step=1e-3)
    return values(found.x)


def step_us(C: dict[str, float], gpu: model.Gpu, kernels: list[tuple]) -> tuple[float, float]:
    """Time of a list of kernels on the device, and time in which the host launches them."""
    functions = {
        'elementwise': model.elementwise_us,
        'softmax': model.softmax_us,
        'norm': model.norm_us,
        'gemm': model.gemm_us,
    }
    device = sum(functions[kind](C, gpu, *shape).item() for kind, *shape in kernels)
    return device, sum(C[model.LAUNCH[kind]] for kind, *_ in kernels)


def error_line(label: str, predicted: np.ndarray, measured: np.ndarray) -> str:
    """Median and 90th percentile of the absolute relative error, and the median of the signed one."""
    error = predicted / measured - 1
    median, most = np.percentile(abs(error), [50, 90])
    return f'  {label:<44} {len(error):>5}   {median:>6.1%}  {most:>6.1%}  {np.median(error):>+6.1%}'


def error_table(title: str, C: dict[str, float], kernels: Kernels) -> list[str]:
    """Errors by operator and device; elementwise operators are taken together."""
    predicted = kernels.predict(C)
    op = np.where(kernels.kind == 'elementwise', 'elementwise', kernels.op)
    lines = [title]
    for one in ('linear', 'bmm', 'elementwise', 'softmax', 'ln'):
        for device in [name for name in kernels.devices if name in kernels.device]:
            mask = (op == one) & (kernels.device == device)
            if mask.any():
                lines.append(error_line(f'{one:<12} {device}', predicted[mask], kernels.us[mask]))
        if (op == one).any():
            lines.append(error_line(f'{one:<12} all', predicted[op == one], kernels.us[op == one]))
    return [*lines, '']


def judge(kernels: Kernels) -> list[str]:
    """The tables of what was not fitted to."""
    lines = []
    apart = kernels.device == APART
    lines += error_table(f'Held out: {APART}', fit(kernels.of(~apart)), kernels.of(apart))
    for device in [name for name in kernels.devices if name in kernels.device and name != APART]:
        mask = kernels.device == device
        lines += error_table(f'Held out: {device}', fit(kernels.of(~mask)), kernels.of(mask))
    mask = kernels.hash % HELD_OUT == 0
    lines += error_table('Held out: a third of the shapes, on all devices', fit(kernels.of(~mask)), kernels.of(mask))
    return lines


def judge_steps(title: str, C: dict[str, float], rows: list[dict[str, str]], devices: list[dict[str, str]]) -> list[str]:
    """Whole steps beside NeuSight and a roofline."""
    known = {row['step_name']: gpu_of([row]) for row in devices}
    rows = [row for row in rows if not row['option'] and row['device'] in known]
    lines = [title]
    table = {}
    for row in rows:
        train = row['mode'] == 'train'
        step = steps.Step(steps.MODELS[row['model']], int(row['batch']), int(row['seq']), train)
        device, host = step_us(C, known[row['device']], step.forward + step.backward)
        numbers = [float(row['ms']), max(device, host) / 1000, float(row['neusight_ms']), float(row['roofline_ms'])]
        parts = ''
        if train:
            forward, _ = step_us(C, known[row['device']], step.forward)
            parts = f'   forward {forward / 1000 / float(row["forward_ms"]) - 1:+.1%}'
        name = f'{row["model"]} {row["batch"]} x {row["seq"]} {row["mode"]} {row["device"]}'
        errors = ' '.join(f'{number / numbers[0] - 1:>+7.1%}' for number in numbers[1:])
        lines.append(f'  {name:<44} {numbers[0]:>8.1f} {errors}   host {host / 1000:>6.1f}{parts}')
        table.setdefault(row['mode'], []).append(numbers)
        table.setdefault(row['device'], []).append(numbers)
        table.setdefault('all', []).append(numbers)
    for label, numbers in table.items():
        columns = np.array(numbers).T
        for name, column in zip(('ours', 'NeuSight', 'roofline'), columns[1:], strict=True):
            lines.append(error_line(f'{label}: {name}', column, columns[0]))
    return [*lines, '']


def constants_text(C: dict[str, float]) -> str:
    """constants.toml."""
    lines = ['# Written by fit.py. The formulas are in model.py.', '']
    for constant in model.ALL:
        lines += [f'# {constant.meaning} [{constant.unit}]', f'{constant.name} = {C[constant.name]}']
    return '\n'.join(lines) + '\n'


def read(path: Path) -> list[dict[str, str]]:
    """A table."""
    with path.open(newline='') as file:
        return list(csv.DictReader(file))


def main(kernels_path: str, steps_path: str) -> None:
    """Fits, judges and writes."""
    devices = read(HERE / 'devices.csv')
    kernels = Kernels(read(Path(kernels_path)), {row['device']: row for row in devices})
    C = fit(kernels)
    (HERE / 'constants.toml').write_text(constants_text(C))
    lines = [f'  {"":<44} {"count":>5}   {"median":>6}  {"90th %":>6}  {"signed":>6}', '']
    lines += error_table('Fitted to all', C, kernels)
    lines += judge_steps('Whole steps', C, read(Path(steps_path)), devices)
    lines += [] if QUICK else judge(kernels)
    (HERE / 'results.txt').write_text('\n'.join(lines))
    print(constants_text(C) + '\n' + '\n'.join(lines))


if __name__ == '__main__':
    main(*sys.argv[1:3])
