"""Workspaces of convolutions, from the real cuDNN, without a device.

Since 9.8 cuDNN documents a deviceless mode: heuristics run and execution plans are built against a
description of a device (`devices/*.json`). PyTorch with `cudnn.benchmark` off asks for the
configurations of HEUR_MODE_INSTANT, then those of HEUR_MODE_FALLBACK, leaves out those that convert
their inputs down, and takes the first whose plan can be built; so do we. (`Conv_v8.cpp`; the filter
was read in the source, not observed.)

A call is named as `fakecuda/dnn.c` writes it:
`DIRECTION|TYPE|x|its strides|w|its strides|y|its strides|padding|stride|dilation`.
"""

import csv
import ctypes
import gzip
import json
import sysconfig
from collections.abc import Iterator, Sequence
from ctypes import byref, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import NamedTuple

from truth import place

#: `cudnnBackendDescriptorType_t`
CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTICS, PLAN = 1, 2, 3, 4, 5
OPERATION_GRAPH, TENSOR, DEVICE = 15, 17, 38
#: `cudnnBackendAttributeType_t`
DATA_TYPE, INT64, FLOAT, CONVOLUTION_MODE, HEURISTIC_MODE, NOTE, DESCRIPTOR, CHAR = (
    *(1, 3, 4, 7, 8, 11, 15),
    24,
)
#: `cudnnDataType_t`
FLOAT32, FLOAT16, BFLOAT16 = 0, 2, 9
CROSS_CORRELATION = 1
INSTANT, FALLBACK = 0, 2
DOWN_CONVERTS_INPUTS = 1
#: Per direction: the operation's descriptor type, and the first of its six attributes, which are
#: alpha, beta, convolution, w, x, y.
OPERATIONS = {'fwd': (10, 700), 'dgrad': (12, 706), 'wgrad': (11, 712)}
#: COUNT: configurations that are looked at.
CONFIGURATIONS = 64

#: Columns of `tests/fixtures/workspaces` after `split` and `direction`.
COLUMNS = (
    'n c h w k c_per_group r s pad_h pad_w stride_h stride_w dilation_h dilation_w'.split()
)


class Refused(Exception):
    """cuDNN returned an error."""


class Call(NamedTuple):
    """One convolution call."""

    direction: str
    dtype: int
    x: list[int]
    x_strides: list[int]
    w: list[int]
    w_strides: list[int]
    y: list[int]
    y_strides: list[int]
    padding: list[int]
    stride: list[int]
    dilation: list[int]

    @classmethod
    def parse(cls, text: str) -> 'Call':
        """From its name."""
        direction, dtype, *lists = text.split('|')
        return cls(direction, int(dtype), *([int(n) for n in part.split('x')] for part in lists))

    def name(self) -> str:
        """As `dnn.c` writes it."""
        lists = ('x'.join(map(str, part)) for part in self[2:])
        return '|'.join([self.direction, str(self.dtype), *lists])


def contiguous(sizes: Sequence[int]) -> list[int]:
    """Strides of a dense tensor, last dimension innermost."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def fixture_call(row: dict[str, str]) -> Call:
    """A row of `tests/fixtures/workspaces`: single precision, NCHW."""
    n, c, h, w, k, group, r, s, *rest = (int(row[column]) for column in COLUMNS)
    padding, stride, dilation = rest[0:2], rest[2:4], rest[4:6]
    spatial = [
        (size + 2 * pad - spacing * (taps - 1) - 1) // step + 1
        for size, taps, pad, step, spacing in zip((h, w), (r, s), padding, stride, dilation)
    ]
    tensors = ([n, c, h, w], [k, group, r, s], [n, k, *spatial])
    parts = [part for sizes in tensors for part in (sizes, contiguous(sizes))]
    return Call(row['direction'], FLOAT32, *parts, padding, stride, dilation)


def table(device: str) -> Path:
    """The device's table, `CALL BYTES` a line; begun with the recorded answers, where there are."""
    path = place.HOME / f'workspaces/{device}.txt'
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(''.join(f'{call} {size}\n' for call, size in recorded(device)))
    return path


def recorded(device: str) -> Iterator[tuple[str, str]]:
    """What `tests/fixtures/workspaces` has of a device."""
    fixture = place.FIXTURES / f'workspaces/{device}.csv.gz'
    if fixture.exists():
        with gzip.open(fixture, 'rt') as file:
            for row in csv.DictReader(file):
                yield fixture_call(row).name(), row['bytes']


def extend(path: Path, calls: list[str], device: str) -> None:
    """Asks for calls that a table lacks, and adds them; 0 where no plan can be built."""
    known = {line.split()[0] for line in path.read_text().splitlines()}
    cudnn = Cudnn(device)
    with path.open('a') as file:
        for call in dict.fromkeys(calls):
            if call not in known:
                file.write(f'{call} {cudnn.workspace(Call.parse(call)) or 0}\n')


class Cudnn:
    """The library, and a device described to it.

    cuDNN frees a descriptor only when told to, so whatever a call creates is destroyed with it.
    """

    def __init__(self, device: str) -> None:
        wheels = Path(sysconfig.get_paths()['purelib']) / 'nvidia'
        needed = ('libnvrtc-builtins.so.13*', 'libnvrtc.so.13', 'libcublasLt.so.13')
        for pattern in needed:
            for library in wheels.glob(f'cu13/lib/{pattern}'):
                ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(wheels / 'cudnn/lib/libcudnn.so.9'), ctypes.RTLD_GLOBAL)
        self.created: list[c_void_p] = []
        text = json.dumps(place.device(device)).encode() + b'\0'
        self.device = self.create(DEVICE)
        # CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
        self.set(self.device, 2702, CHAR, ctypes.create_string_buffer(text, len(text)))
        self.finalize(self.device)
        self.created.remove(self.device)

    def workspace(self, call: Call) -> int | None:
        """SIZE: what the plan that PyTorch takes needs."""
        try:
            return self.first_plan(call)
        finally:
            while self.created:
                self.destroy(self.created.pop())

    def first_plan(self, call: Call) -> int | None:
        """SIZE: the workspace of the first plan that can be built."""
        try:
            graph = self.graph(call)
        except Refused:
            return None
        for mode in (INSTANT, FALLBACK):
            for configuration in self.configurations(graph, mode):
                try:
                    if DOWN_CONVERTS_INPUTS not in self.notes(configuration):
                        return self.plan(configuration)
                except Refused:
                    continue
        return None

    def check(self, status: int) -> None:
        """Raises what cuDNN says of an error."""
        if status:
            text = ctypes.create_string_buffer(512)
            self.library.cudnnGetLastErrorString(text, 512)
            raise Refused(text.value.decode())

    def create(self, kind: int) -> c_void_p:
        descriptor = c_void_p()
        self.check(self.library.cudnnBackendCreateDescriptor(kind, byref(descriptor)))
        self.created.append(descriptor)
        return descriptor

    def destroy(self, descriptor: c_void_p) -> None:
        self.check(self.library.cudnnBackendDestroyDescriptor(descriptor))

    def set(self, descriptor: c_void_p, attribute: int, kind: int, values: ctypes.Array) -> None:
        count = c_int64(len(values))
        setter = self.library.cudnnBackendSetAttribute
        self.check(setter(descriptor, attribute, kind, count, values))

    def set_int(self, descriptor: c_void_p, attribute: int, kind: int, value: int) -> None:
        self.set(descriptor, attribute, kind, (c_int32 * 1)(value))

    def set_ints(self, descriptor: c_void_p, attribute: int, values: Sequence[int]) -> None:
        self.set(descriptor, attribute, INT64, (c_int64 * len(values))(*values))

    def set_part(self, descriptor: c_void_p, attribute: int, part: c_void_p) -> None:
        self.set(descriptor, attribute, DESCRIPTOR, (c_void_p * 1)(part.value))

    def get(
        self, descriptor: c_void_p, attribute: int, kind: int, into: ctypes.Array | None
    ) -> int:
        """Fills an array, or none; COUNT of what there is."""
        count = c_int64(0)
        getter = self.library.cudnnBackendGetAttribute
        size = c_int64(len(into) if into is not None else 0)
        self.check(getter(descriptor, attribute, kind, size, byref(count), into))
        return count.value

    def finalize(self, descriptor: c_void_p) -> c_void_p:
        self.check(self.library.cudnnBackendFinalize(descriptor))
        return descriptor

    def tensor(self, sizes: list[int], strides: list[int], dtype: int, name: str) -> c_void_p:
        tensor = self.create(TENSOR)
        self.set_ints(tensor, 900, [16])  # byte alignment
        self.set_int(tensor, 901, DATA_TYPE, dtype)
        self.set_ints(tensor, 902, sizes)
        self.set_ints(tensor, 903, strides)
        self.set_ints(tensor, 906, [ord(name)])
        return self.finalize(tensor)

    def convolution(self, call: Call) -> c_void_p:
        halves = (FLOAT16, BFLOAT16)
        convolution = self.create(CONVOLUTION)
        # Sums are in single precision for half-precision operands as well.
        compute = FLOAT32 if call.dtype in halves else call.dtype
        self.set_int(convolution, 100, DATA_TYPE, compute)
        self.set_int(convolution, 101, CONVOLUTION_MODE, CROSS_CORRELATION)
        self.set_ints(convolution, 102, call.dilation)
        self.set_ints(convolution, 103, call.stride)
        self.set_ints(convolution, 104, call.padding)
        self.set_ints(convolution, 105, call.padding)
        self.set_ints(convolution, 106, [len(call.padding)])
        return self.finalize(convolution)

    def graph(self, call: Call) -> c_void_p:
        """A graph of one operation."""
        kind, first = OPERATIONS[call.direction]
        parts = [
            self.convolution(call),
            self.tensor(call.w, call.w_strides, call.dtype, 'w'),
            self.tensor(call.x, call.x_strides, call.dtype, 'x'),
            self.tensor(call.y, call.y_strides, call.dtype, 'y'),
        ]
        operation = self.create(kind)
        self.set(operation, first, FLOAT, (ctypes.c_float * 1)(1))
        self.set(operation, first + 1, FLOAT, (ctypes.c_float * 1)(0))
        for attribute, part in enumerate(parts, first + 2):
            self.set_part(operation, attribute, part)
        self.finalize(operation)
        graph = self.create(OPERATION_GRAPH)
        self.set_part(graph, 801, operation)
        return self.finalize(graph)

    def configurations(self, graph: c_void_p, mode: int) -> list[c_void_p]:
        """What the heuristics propose, best first."""
        try:
            heuristics = self.create(HEURISTICS)
            self.set_int(heuristics, 200, HEURISTIC_MODE, mode)
            self.set_part(heuristics, 201, graph)
            self.set_part(heuristics, 204, self.device)
            self.finalize(heuristics)
            count = min(self.get(heuristics, 202, DESCRIPTOR, None), CONFIGURATIONS)
            made = [self.create(ENGINE_CONFIG).value for _ in range(count)]
            into = (c_void_p * count)(*made)
            filled = self.get(heuristics, 202, DESCRIPTOR, into)
        except Refused:
            return []
        return [c_void_p(pointer) for pointer in into[:filled]]

    def notes(self, configuration: c_void_p) -> list[int]:
        """Numerical notes of a configuration's engine."""
        engine = (c_void_p * 1)(self.create(ENGINE).value)
        self.get(configuration, 300, DESCRIPTOR, engine)
        into = (c_int32 * 10)()
        return list(into[: self.get(c_void_p(engine[0]), 1303, NOTE, into)])

    def plan(self, configuration: c_void_p) -> int:
        """SIZE: the workspace of a configuration's plan."""
        plan = self.create(PLAN)
        self.set_part(plan, 401, configuration)
        self.set_part(plan, 407, self.device)
        self.finalize(plan)
        size = (c_int64 * 1)()
        self.get(plan, 402, INT64, size)
        return size[0]
