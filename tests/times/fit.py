"""Fits the constants of `model.py` to measured kernels: `python fit.py KERNELS.csv STEPS.csv` (README.md).

Writes constants.toml and results.txt. Whole steps are only compared, never fitted to.
"""

import csv
import dataclasses
import sys
import zlib
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import model
import steps

HERE = Path(__file__).resolve().parent
# The core is built with these.
FITTED = HERE.parents[1] / 'core' / 'src' / 'time' / 'fitted'
APART = 'H100 80GB SXM'
#: Operators with an operand that is a tensor, not a scalar, move three tensors; the others move two.
TWO_OPERANDS = {'add', 'mul', 'div', 'pow'}
KINDS = {'linear': 'gemm', 'bmm': 'gemm', 'softmax': 'softmax', 'ln': 'norm'}
#: A fit looks at so many kernels of each operator and device, so that none outweighs the others.
SAMPLE = 300
#: Relative errors beyond this count less and less: clocks wander, and some kernels are odd.
OUTLIER = 0.1
#: How firmly a constant stays where its search starts, against one kernel: it decides only what no kernel shows.
FIRMNESS = 0.3
#: One shape in so many is held out.
HELD_OUT = 3


FUNCTIONS = {
    'elementwise': model.elementwise_us,
    'softmax': model.softmax_us,
    'norm': model.norm_us,
    'gemm': model.gemm_us,
}


class Kernels:
    """Measured kernels in columns."""

    def __init__(self, rows: list[dict[str, str]], devices: dict[str, dict[str, str]]) -> None:
        self.rows, self.devices = rows, devices
        self.op = np.array([row['op'] for row in rows])
        self.device = np.array([row['device'] for row in rows])
        self.column = {key: np.array([float(row[key] or 0) for row in rows]) for key in 'bmnkh'}
        self.us = np.array([1000 * float(row['ms']) for row in rows])
        self.kind = np.array([KINDS.get(op, 'elementwise') for op in self.op])
        shapes = [','.join(row[key] for key in ('op', 'b', 'm', 'n', 'k', 'h')) for row in rows]
        self.hash = np.array([zlib.crc32(shape.encode()) for shape in shapes])

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
        """Microseconds, with the launch."""
        total = np.zeros(len(self.rows))
        for kind in sorted(set(self.kind)):
            mask = self.kind == kind
            gpu = gpu_of([self.devices[name] for name in self.device[mask]])
            total[mask] = FUNCTIONS[kind](C, gpu, *self.shapes(kind, mask)) + C[model.LAUNCH[kind]]
        return total

    def shapes(self, kind: str, mask: np.ndarray) -> list[np.ndarray]:
        """What the function of this kind takes. In the data, `n` is the inner dimension, `k` the result's columns."""
        b, m, n, k, h = (self.column[key][mask] for key in 'bmnkh')
        op = self.op[mask]
        if kind == 'gemm':
            return [b, m, n, k, op == 'bmm']
        if kind == 'elementwise':
            return [b * h, np.where(np.isin(op, list(TWO_OPERANDS)), 3, 2)]
        return [b, h]


def gpu_of(rows: list[dict[str, str]]) -> model.Gpu:
    """The facts of devices, one for each row."""
    names = [field.name for field in dataclasses.fields(model.Gpu) if field.name != 'hbm']
    numbers = {name: np.array([float(row[name]) for row in rows]) for name in names}
    return model.Gpu(hbm=np.array([row['memory'] == 'HBM' for row in rows]), **numbers)


def fit(kernels: Kernels) -> dict[str, float]:
    """All constants: first of memory, then of products, which need it."""
    C = {}
    groups = [
        (model.MEMORY, ['elementwise', 'softmax', 'norm']),
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


def step_ms(C: dict[str, float], gpu: model.Gpu, row: dict[str, str]) -> float:
    """A whole step: kernels follow each other on the device, while the host launches those to come."""
    step = steps.Step(steps.MODELS[row['model']], int(row['batch']), int(row['seq']), row['mode'] == 'train')
    kernels = step.forward + step.backward
    device = sum(FUNCTIONS[kind](C, gpu, *shape).item() for kind, *shape in kernels)
    host = sum(C[model.LAUNCH[kind]] for kind, *_ in kernels)
    return max(device, host) / 1000


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


def judge_devices(kernels: Kernels, without: dict[str, dict[str, float]]) -> list[str]:
    """Kernels of each GPU by constants that are fitted without that GPU: `APART` first."""
    lines = []
    for device in sorted(without, key=lambda name: name != APART):
        lines += error_table(f'Held out: {device}', without[device], kernels.of(kernels.device == device))
    return lines


def judge_shapes(kernels: Kernels) -> list[str]:
    """Kernels with shapes that no kernel of the fit has."""
    mask = kernels.hash % HELD_OUT == 0
    return error_table('Held out: a third of the shapes, on all devices', fit(kernels.of(~mask)), kernels.of(mask))


def judge_steps(title: str, constants: dict[str, dict[str, float]], steps_path: Path) -> list[str]:
    """Whole steps beside NeuSight and a roofline, by the constants of each GPU."""
    devices = {row['step_name']: row for row in read(HERE / 'devices.csv')}
    lines = [title, f'  {"":<44} {"measured ms":>11} {"ours":>7} {"NeuSight":>8} {"roofline":>8}']
    table = {'all': [], 'train': [], 'inf': []}
    for row in read(steps_path):
        if row['option'] or row['device'] not in devices:
            continue
        facts = devices[row['device']]
        measured, ours = float(row['ms']), step_ms(constants[facts['device']], gpu_of([facts]), row)
        numbers = [measured, ours, float(row['neusight_ms']), float(row['roofline_ms'])]
        errors = [number / measured - 1 for number in numbers[1:]]
        name = f'{row["model"]} {row["batch"]}x{row["seq"]} {row["mode"]} {facts["device"]}'
        lines.append(f'  {name:<44} {measured:>11.1f} {errors[0]:>+7.1%} {errors[1]:>+8.1%} {errors[2]:>+8.1%}')
        for label in ('all', row['mode'], facts['device']):
            table.setdefault(label, []).append(numbers)
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
    kernels = Kernels(read(Path(kernels_path)), {row['device']: row for row in read(HERE / 'devices.csv')})
    measured = sorted(set(kernels.device))
    C = fit(kernels)
    without = {device: fit(kernels.of(kernels.device != device)) for device in measured}
    lines = [f'  {"":<44} {"count":>5}   {"median":>6}  {"90th %":>6}  {"signed":>6}', '']
    lines += judge_devices(kernels, without)
    lines += judge_shapes(kernels)
    lines += judge_steps('Whole steps, the GPU held out', without, Path(steps_path))
    lines += judge_steps('Whole steps, all GPUs in the fit', dict.fromkeys(measured, C), Path(steps_path))
    lines += error_table('Kernels that are fitted to', C, kernels)
    (FITTED / 'constants.toml').write_text(constants_text(C))
    (HERE / 'results.txt').write_text('\n'.join(lines))
    print(constants_text(C), *lines, sep='\n')


if __name__ == '__main__':
    main(*sys.argv[1:])
