"""Layers of all kinds, and what cuDNN says of them.

cuDNN's heuristics choose otherwise for layers of one or three dimensions, with taps apart, with filters that are no
small squares, in channel groups, and with channels innermost. `fit_workspaces.py` learns a tree for each of these
kinds, from the layers here: of published networks (`networks.py` recorded their shapes), altered ones, and ones of
families whose sizes are as networks have them. cuDNN is asked about each once; answers are kept in
`$ORACLE_HOME/workspaces`.
"""

import csv
import functools
import gzip
import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from truth import cudnn, networks, place, plans
from truth.plans import Layers

#: Kinds that have trees of their own, and the plain one, which has no name.
KINDS = ('', 'line', 'volume', 'dilated', 'odd', 'grouped', 'depthwise', 'innermost')
#: Those whose tensors have their channels innermost.
CHANNELS_LAST = ('depthwise', 'innermost')
#: COUNT: images at which layers of networks are asked about.
NETWORK_BATCHES = {('a100', 4): (1, 2, 4, 8, 16, 32, 64, 128, 3, 6, 12, 24), ('a100', 2): (1, 2, 4, 8, 16, 32, 64, 128)}
NETWORK_BATCHES_OTHERWISE = (1, 2, 4, 8, 16, 32, 64)
INNERMOST_BATCHES = (1, 4, 8, 16, 32, 64)
#: The devices and precisions whose layers with channels innermost are asked about, but for depthwise ones.
INNERMOST = (('a100', 4), ('a100', 2))
#: COUNT: altered layers to ask about.
ALTERED = {('a100', 4): 150_000, ('a100', 2): 60_000}
ALTERED_OTHERWISE = 40_000
#: COUNT: layers of each family to ask about.
SAMPLES = {('a100', 4): 4000, ('a100', 2): 4000}
SAMPLES_OTHERWISE = 1200
#: SIZE: layers with larger tensors are not asked about, in elements.
LARGEST, LARGEST_WEIGHT = 1 << 29, 1 << 27
#: COUNT: channels of the widest altered layer.
WIDEST = 8192
#: One shape of a family in so many is held out.
HELD = 4

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
#: COUNT: layers of each family to ask about.
SAMPLES = {('a100', 4): 4000, ('a100', 2): 4000}
SAMPLES_OTHERWISE = 1200
#: What a leaf must save to be kept, as in `fit_workspaces`; for depthwise layers, which are the most
#: and whose workspaces are small, so many times as much.
PRICE = {('a100', 4): 3.0, ('a100', 2): 4.0}
PRICE_OTHERWISE = 6.0
DEPTHWISE_TIMES = 2
#: Where the plain trees, which know more networks' layers, answer those that were held out better.
WITHOUT = {(device, 'dilated') for device in ('a100', 'rtx3090', 'rtx4090', 'h100')}
#: SIZE: layers with larger tensors are not asked about, in elements.
LARGEST, LARGEST_WEIGHT = 1 << 29, 1 << 27
#: One shape in so many is held out.
HELD = 4

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 3, 6, 10, 12, 20, 24)
BATCH_WEIGHTS = (8, 10, 12, 12, 10, 8, 6, 3, *[1] * 6)
WIDTHS = (
    *(16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 144, 160, 184, 192, 224, 240, 256),
    *(288, 320, 336, 384, 416, 448, 480, 512, 576, 640, 672, 720, 728, 768, 832, 896, 960, 1024),
    *(1152, 1280, 1536, 2048),
)
#: Channels of pictures, sounds and masks.
FEW = (1, 2, 3, 3, 4)
SIDES = (
    *(7, 8, 10, 12, 14, 16, 19, 20, 24, 28, 32, 33, 38, 40, 48, 56, 64, 65, 80, 96, 112, 128),
    *(129, 160, 192, 224, 256, 288, 320, 384, 448, 512),
)
LENGTHS = (
    *(16, 25, 32, 49, 50, 64, 96, 100, 128, 200, 249, 256, 300, 384, 499, 500, 512, 750, 768),
    *(1000, 1024, 1500, 1600, 2000, 2048, 3000, 4000, 4096, 5000, 7680, 8000, 8192, 9600),
    *(12_000, 16_000, 16_384, 22_050, 24_000, 32_000, 48_000),
)


class Sample(NamedTuple):
    """A convolution; of a line, one of height 1."""

    n: int
    c: int
    sides: list[int]
    k: int
    groups: int
    taps: list[int]
    padding: list[int]
    stride: list[int]
    dilation: list[int]

    def outputs(self) -> list[int]:
        """Sides of the result."""
        each = zip(self.sides, self.taps, self.padding, self.stride, self.dilation)
        return [(side + 2 * pad - gap * (r - 1) - 1) // by + 1 for side, r, pad, by, gap in each]

    def is_sensible(self) -> bool:
        """Whether it exists and is not absurdly large."""
        if self.c % self.groups or self.k % self.groups or min(self.outputs()) < 1:
            return False
        widest = max(self.c * math.prod(self.sides), self.k * math.prod(self.outputs()))
        weight = self.k * self.c // self.groups * math.prod(self.taps)
        return self.n * widest <= LARGEST and weight <= LARGEST_WEIGHT

    def kind(self, channels_last: bool) -> str:
        """By which trees it is answered: `Kind::of` in `workspace.rs`."""
        square = self.taps[-1] if len(set(self.taps)) == 1 else 0
        group = self.c // self.groups
        if channels_last and self.groups > 1 and group == 1:
            return 'depthwise'
        if len(self.sides) == 3:
            return 'volume'
        if channels_last:
            return 'innermost'
        if self.sides[0] == 1 and self.taps[0] == 1 and self.sides[1] > 1:
            return 'line'
        if square not in (1, 3, 5) and not (square == 7 and min(self.c, self.k) <= 4):
            return 'odd'
        if self.groups > 1 and group > 1:
            return 'grouped'
        return 'dilated' if max(self.dilation) > 1 else ''

    def is_held(self) -> bool:
        """Whether its shape is kept from learning."""
        name = json.dumps([self.c, self.k, self.groups, self.taps])
        return int(hashlib.md5(name.encode()).hexdigest(), 16) % HELD == 0

    def call(self, direction: str, element: int, channels_last: bool) -> cudnn.Call:
        """As cuDNN is asked about it."""

        def strides(sizes: list[int]) -> list[int]:
            if not channels_last:
                return cudnn.contiguous(sizes)
            batch, *others, channel = cudnn.contiguous([sizes[0], *sizes[2:], sizes[1]])
            return [batch, channel, *others]

        x, y = [self.n, self.c, *self.sides], [self.n, self.k, *self.outputs()]
        w = [self.k, self.c // self.groups, *self.taps]
        parts = [part for sizes in (x, w, y) for part in (sizes, strides(sizes))]
        dtype = cudnn.FLOAT32 if element == 4 else cudnn.FLOAT16
        return cudnn.Call(direction, dtype, *parts, self.padding, self.stride, self.dilation)


Chance = random.Random


def batch(chance: Chance) -> int:
    return chance.choices(BATCHES, BATCH_WEIGHTS)[0]


def width(chance: Chance, low: int = 16, high: int = 2048) -> int:
    return chance.choice([width for width in WIDTHS if low <= width <= high])


def widths(chance: Chance, few: float, low: int = 16, high: int = 2048) -> tuple[int, int]:
    """Channels before and after: often the same, sometimes those of a picture."""
    c = chance.choice(FEW) if chance.random() < few else width(chance, low, high)
    k = c if c > 4 and chance.random() < 0.5 else width(chance, low, high)
    return c, chance.choice((1, 2, 3, 4, 19, 21, 150)) if chance.random() < 0.04 else k


def side(chance: Chance, low: int = 7, high: int = 128) -> int:
    return chance.choice([side for side in SIDES if low <= side <= high])


def square(
    n: int, c: int, side: int, k: int, groups: int, taps: int, pad: int, by: int = 1, gap: int = 1
) -> Sample:
    twice = ([value] * 2 for value in (taps, pad, by, gap))
    return Sample(n, c, [side] * 2, k, groups, *twice)


def line(chance: Chance) -> Sample:
    """Sound, text, series."""
    c, k = widths(chance, 0.1, high=1536)
    taps = chance.choice((1, 1, 2, 2, *[3] * 5, 4, 5, 5, 7, 7, 8, 9, 10, 11, 15, 16, 21, 25, 31, 41, 64, 80, 128))
    by = chance.choice((1, 1, 1, 1, 1, 2, 2, 4, 5, 8))
    spaced = by == 1 and 1 < taps <= 11
    gap = chance.choice((1, 1, 1, 2, 3, 4, 5, 8, 9, 16, 27, 32, 64, 128, 256, 512)) if spaced else 1
    groups = chance.choice((2, 4, 8, 16, 32)) if chance.random() < 0.15 else 1
    span = gap * (taps - 1)
    pad = chance.choice((span // 2, span // 2, 0, span))
    if c % groups or k % groups:
        groups = 1
    length = chance.choice(LENGTHS)
    rest = ([1, taps], [0, pad], [1, by], [1, gap])
    return Sample(batch(chance), c, [1, length], k, groups, *rest)


#: Filter, padding and the strides that go with it, of volumes.
BLOCKS = (
    *[([3, 3, 3], [1, 1, 1], ([1, 1, 1], [1, 1, 1], [2, 2, 2], [1, 2, 2]))] * 4,
    *[([1, 3, 3], [0, 1, 1], ([1, 1, 1], [1, 2, 2]))] * 2,
    *[([3, 1, 1], [1, 0, 0], ([1, 1, 1], [2, 1, 1]))] * 2,
    *[([1, 1, 1], [0, 0, 0], ([1, 1, 1], [1, 1, 1], [2, 2, 2], [1, 2, 2]))] * 2,
    ([2, 2, 2], [0, 0, 0], ([2, 2, 2],)),
    ([4, 4, 4], [1, 1, 1], ([2, 2, 2],)),
    ([5, 5, 5], [2, 2, 2], ([1, 1, 1],)),
)
STEMS = (
    *(([time, 7, 7], [time // 2, 3, 3], ([1, 2, 2],)) for time in (1, 3, 5, 7)),
    *(([time, patch, patch], [0, 0, 0], ([time, patch, patch],)) for time, patch in ((1, 4), (2, 4), (2, 16))),
)


def volume(chance: Chance) -> Sample:
    """Videos and scans."""
    is_stem = chance.random() < 0.08
    taps, padding, strides = chance.choice(STEMS if is_stem else BLOCKS)
    c, k = widths(chance, 0.12, high=1024)
    if is_stem:
        c, k = chance.choice(FEW), width(chance, high=768)
    time, high = chance.choice((1, 2, 4, 4, 8, 8, 16, 16, 32, 64)), 224 if is_stem else 112
    across = chance.choice([4, *[side for side in SIDES if side <= high]])
    groups = chance.choice((2, 4, 8, 32)) if chance.random() < 0.08 else 1
    if c % groups or k % groups:
        groups = 1
    rest = (taps, padding, chance.choice(strides), [1, 1, 1])
    n = chance.choice((1, 1, 2, 2, 4, 8, 16))
    return Sample(n, c, [time, across, across], k, groups, *rest)


def dilated(chance: Chance) -> Sample:
    """Segmentation."""
    c, k = widths(chance, 0.03)
    taps = chance.choice((3, 3, 3, 3, 5, 7))
    gap = chance.choice((2, 2, 2, 3, 4, 4, 5, 6, 8, 12, 16, 18, 24, 36))
    groups = chance.choice((1, 1, 1, 1, 1, 1, 2, 32))
    pad = gap * (taps // 2) if chance.random() < 0.9 else 0
    by = chance.choice((1, 1, 1, 1, 1, 2))
    return square(batch(chance), c, side(chance, 7, 129), k, groups, taps, pad, by, gap)


def grouped(chance: Chance) -> Sample:
    """ResNeXt's and RegNet's."""
    group = chance.choice((2, 4, 8, 16, 24, 32, 48, 56, 64, 112))
    result = group if chance.random() < 0.7 else chance.choice((2, 4, 8, 16, 32, 64))
    groups = chance.choice((2, 3, 4, 6, 8, 12, 16, 32, 64))
    taps = chance.choice((1, 3, 3, 3, 3, 5))
    by = chance.choice((1, 1, 2))
    sizes = (batch(chance), group * groups, side(chance), result * groups)
    return square(*sizes, groups, taps, taps // 2, by)


def patch(chance: Chance) -> Sample:
    """Filters that do not overlap: patches and what merges them."""
    taps = chance.choice((2, 2, 4, 4, 7, 8, 8, 14, 16, 16, 32))
    if taps > 4 or chance.random() < 0.4:
        c, across = chance.choice(FEW), side(chance, 112, 512)
    else:
        c, across = width(chance, 24, 1024), taps * chance.choice((3, 7, 8, 12, 14, 16, 28, 32, 48, 56))
    across = max(across // taps, 1) * taps
    return square(batch(chance), c, across, width(chance, 32, 1536), 1, taps, 0, taps)


#: Taps, padding and stride of decoders.
UPWARDS = (
    *[(2, 0, 2)] * 2,
    *[(4, 1, 2)] * 3,
    *((4, 0, 1), (6, 2, 2), (8, 2, 4), (16, 4, 8), (8, 0, 8), (4, 0, 4)),
)


def upward(chance: Chance) -> Sample:
    """What a transposed convolution is the gradient of, and discriminators."""
    c, k = widths(chance, 0.1, high=1024)
    taps, pad, by = chance.choice(UPWARDS)
    return square(batch(chance), c, side(chance, 8, 256), k, 1, taps, pad, by)


def large(chance: Chance) -> Sample:
    """Filters of seven and more taps a side."""
    c, k = widths(chance, 0.5, high=512)
    taps = chance.choice((6, 7, 7, 7, 9, 9, 11, 11, 13, 15, 17, 21, 31))
    pad = chance.choice((taps // 2, taps // 2, 0, taps // 2 - 1))
    by = chance.choice((1, 1, 2, 2, 4))
    return square(chance.choice((1, 2, 4, 8, 16, 32)), c, side(chance, 14, 256), k, 1, taps, pad, by)


def oblong(chance: Chance) -> Sample:
    """Inception's 1x7 and the like."""
    c, k = widths(chance, 0.06, high=1024)
    taps = [chance.choice((2, 3, 3, 3, 5, 7, 7, 7, 9, 11, 13, 15, 21, 31)), chance.choice((1, 1, 1, 1, 1, 2, 3, 5))]
    chance.shuffle(taps)
    high = side(chance)
    sides = [high, high if chance.random() < 0.6 else side(chance, 7, 256)]
    by = chance.choice((1, 1, 1, 1, 2))
    rest = (taps, [count // 2 for count in taps], [by] * 2, [1] * 2)
    return Sample(batch(chance), c, sides, k, 1, *rest)


def depthwise(chance: Chance) -> Sample:
    """Mobile networks and ConvNeXt, with channels innermost."""
    c, times = width(chance), chance.choice((1, 1, 1, 1, 1, 1, 2, 4))
    taps = chance.choice((3, 3, 3, 5, 5, 7, 7, 7, 9, 11, 13, 31))
    by, gap = chance.choice((1, 1, 2)), chance.choice((1, 1, 1, 1, 1, 1, 2, 3))
    sizes = (batch(chance), c, side(chance, 7, 160), c * times)
    return square(*sizes, c, taps, gap * (taps // 2), by, gap)


def tiny(chance: Chance) -> Sample:
    """A handful of channels, of lines, pictures and volumes: exercises, heads, and what tests try."""
    few, dimensions = (1, 1, 2, 3, 3, 4, 5, 6, 8, 9, 10, 12), chance.choice((1, 1, 2, 2, 3))

    def each(*choices: int) -> list[int]:
        return [chance.choice(choices) for _ in range(dimensions)]

    groups = chance.choice((1, 1, 1, 2, 3))
    c, k = (chance.choice(few) * groups for _ in range(2))
    sides = each(1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 20, 28, 32)
    taps, stride, gap = each(1, 2, 3, 3, 3, 4, 5), each(1, 1, 1, 2, 2, 3), each(1, 1, 1, 1, 2, 3, 4)
    padding = [chance.choice((0, 1, 1, 2, span * (r - 1) // 2)) for r, span in zip(taps, gap)]
    if dimensions == 1:
        sides, taps, padding, stride, gap = ([first, *one] for first, one in zip((1, 1, 0, 1, 1), (sides, taps, padding, stride, gap)))
    n = chance.choice((1, 2, 3, 8, 16, 32, 64, 90, 128, 200, 256, 300, 400, 500, 600, 900))
    return Sample(n, c, sides, k, groups, taps, padding, stride, gap)


FAMILIES: tuple[Callable[[Chance], Sample], ...] = (
    *(line, volume, dilated, grouped, patch, upward, large, oblong, depthwise, tiny),
)


def samples(family: Callable[[Chance], Sample], count: int) -> Iterator[Sample]:
    """COUNT different layers, the same ones every time."""
    return different(count, random.Random(family.__name__), family)


def altered(shapes: list[Sample], count: int) -> Iterator[Sample]:
    """COUNT different layers like some, the same ones every time."""
    return different(count, random.Random(11), lambda chance: alteration(chance, shapes))


def different(count: int, chance: Chance, draw: Callable[[Chance], Sample | None]) -> Iterator[Sample]:
    """COUNT different layers that make sense, of those that are drawn."""
    seen: set[str] = set()
    while len(seen) < count:
        sample = draw(chance)
        if sample and sample.is_sensible() and json.dumps(sample) not in seen:
            seen.add(json.dumps(sample))
            yield sample


#: Batches of altered layers, and how often.
ALTERED_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 3, 6, 12, 24, 48, 96, 192, 10, 20, 5, 40, 80, 160, 512)
ALTERED_WEIGHTS = (6, 8, 8, 12, 12, 12, 8, 6, 3, 1, 2, 3, 3, 2, 2, *[1] * 8)


def alteration(chance: Chance, shapes: list[Sample]) -> Sample | None:
    """A layer of a network with other sizes, which may not fit together; nothing where it is too wide."""
    one = chance.choice(shapes)
    n = chance.choices(ALTERED_BATCHES, ALTERED_WEIGHTS)[0]
    groups, group, result = one.groups, one.c // one.groups, one.k // one.groups
    if chance.random() >= 0.35:
        group = near(chance, group) if group > 4 else group
        result = near(chance, result)
        groups = near(chance, groups, 2) if groups > 1 else 1
    sides = [near(chance, side) if side > 1 else side for side in one.sides]
    if one.sides[0] == one.sides[1]:
        sides[1] = sides[0]
    c, k = group * groups, result * groups
    return one._replace(n=n, c=c, sides=sides, k=k, groups=groups) if max(c, k) <= WIDEST else None


def near(chance: Chance, size: int, least: int = 1) -> int:
    """Often the same size, else one not far from it."""
    kind = chance.random()
    if kind < 0.5:
        return size
    if kind < 0.75:
        factor = chance.choice([0.5, 0.75, 1.25, 1.5, 2, 1 / 3, 4 / 3, 0.625, 0.875])
        return max(least, round(size * factor))
    step = chance.choice([1, 2, 4, 8, 16, 32])
    return max(least, round(size * chance.uniform(0.6, 1.6) / step) * step)


class Answer(NamedTuple):
    """What cuDNN said of a layer."""

    direction: str
    sample: Sample
    size: int
    channels_last: bool

    def kind(self) -> str:
        """By which trees it is answered."""
        return self.sample.kind(self.channels_last)


def answers(name: str, device: str, element: int, samples: Iterator[tuple[Sample, bool]]) -> list[Answer]:
    """About layers, with their channels innermost or not: asked for once and kept."""
    path = place.HOME / f'workspaces/{name}-{device}-{element}.jsonl.gz'
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        library, begun = cudnn.Cudnn(device), path.with_suffix('.begun')
        with gzip.open(begun, 'wt') as file:
            for sample, last in samples:
                for direction in cudnn.OPERATIONS:
                    size = library.workspace(sample.call(direction, element, last)) or 0
                    file.write(json.dumps([direction, sample, size, last]) + '\n')
        begun.rename(path)
    with gzip.open(path, 'rt') as file:
        rows = map(json.loads, file)
        return [Answer(direction, Sample(*sample), size, last) for direction, sample, size, last in rows]


def of_families(device: str, element: int) -> list[Answer]:
    """Layers of families."""
    count = SAMPLES.get((device, element), SAMPLES_OTHERWISE)
    each = ((one, family is depthwise) for family in FAMILIES for one in samples(family, count))
    return answers('families', device, element, each)


def of_networks(device: str, element: int) -> Iterator[Answer]:
    """Layers of published networks."""
    counts = NETWORK_BATCHES.get((device, element), NETWORK_BATCHES_OTHERWISE)
    plain, apart = shapes()
    yield from answers('networks', device, element, at(counts, plain, False))
    yield from answers('depthwise', device, element, at(counts, apart, True))
    if (device, element) in INNERMOST:
        yield from answers('networks-innermost', device, element, at(INNERMOST_BATCHES, plain, True))


def held_out(device: str, element: int) -> list[Answer]:
    """Layers that only networks of `survey/held-out.txt` have."""
    known = list(networks.known('held'))
    plain, apart = ([one for one in known if is_depthwise(one) == wanted] for wanted in (False, True))
    each = [*at(INNERMOST_BATCHES, plain, False), *at(INNERMOST_BATCHES, apart, True)]
    if (device, element) in INNERMOST:
        each += at(INNERMOST_BATCHES, plain, True)
    return answers('held', device, element, iter(each))


def of_altered(device: str, element: int) -> Iterator[Answer]:
    """Layers like those of published networks."""
    count = ALTERED.get((device, element), ALTERED_OTHERWISE)
    plain = [one for one in shapes()[0] if len(one.sides) == 2]
    held = held_shapes()

    def each(count: int, last: bool) -> Iterator[tuple[Sample, bool]]:
        found = (one for one in altered(plain, count) if shape(one) not in held)
        return ((one, last) for one in found)

    yield from answers('altered', device, element, each(count, False))
    if (device, element) in INNERMOST:
        yield from answers('altered-innermost', device, element, each(ALTERED_OTHERWISE, True))


def at(counts: tuple[int, ...], shapes: list[Sample], last: bool) -> Iterator[tuple[Sample, bool]]:
    """Layers of several batches."""
    each = (one._replace(n=count) for one in shapes for count in counts)
    return ((one, last) for one in each if one.is_sensible())


@functools.cache
def shapes() -> tuple[list[Sample], list[Sample]]:
    """Layers of networks, of one image each: those that are not depthwise, and those that are."""
    held = held_shapes()
    known = [*networks.known('fit'), *(answer.sample._replace(n=1) for answer in recorded('a100', 4))]
    unique = {shape(one): one for one in known}
    kept = [one for name, one in unique.items() if name not in held]
    return [one for one in kept if not is_depthwise(one)], [one for one in kept if is_depthwise(one)]


def held_shapes() -> set[str]:
    """Those that are kept from learning."""
    return {shape(one) for one in networks.known('held')}


def shape(sample: Sample) -> str:
    """A layer at whatever batch."""
    return json.dumps(sample[1:])


def is_depthwise(sample: Sample) -> bool:
    """Whether each channel has its own filter."""
    return sample.groups > 1 and sample.c == sample.groups


def fixture(device: str, element: int) -> Path:
    """Recorded answers."""
    return place.FIXTURES / f'workspaces/{device}{"-half" if element == 2 else ""}.csv.gz'


def recorded(device: str, element: int) -> Iterator[Answer]:
    """Recorded answers about layers of networks, with their channels outermost."""
    with gzip.open(fixture(device, element), 'rt') as file:
        for row in csv.DictReader(file):
            if row['split'] == 'fit':
                n, c, h, w, k, group, *rest = (int(row[name]) for name in cudnn.COLUMNS)
                pairs = (rest[at : at + 2] for at in range(0, 8, 2))
                sample = Sample(n, c, [h, w], k, c // group, *pairs)
                yield Answer(row['direction'], sample, int(row['bytes']), False)


def layers(answers: list[Answer], element: int, direction: str, channels_last: bool) -> Layers:
    """Answers by column; all sides but the last count as height."""

    def column(values: Iterator[int]) -> plans.Ints:
        return np.array(list(values), dtype=np.int64)

    rows = [answer.sample for answer in answers]
    outputs = [row.outputs() for row in rows]
    return Layers(
        n=column(row.n for row in rows),
        c=column(row.c for row in rows),
        h=column(math.prod(row.sides[:-1]) for row in rows),
        w=column(row.sides[-1] for row in rows),
        k=column(row.k for row in rows),
        g=column(row.groups for row in rows),
        r=column(math.prod(row.taps[:-1]) for row in rows),
        s=column(row.taps[-1] for row in rows),
        p=column(math.prod(sides[:-1]) for sides in outputs),
        q=column(sides[-1] for sides in outputs),
        stride=column(row.stride[-1] for row in rows),
        dilation=column(max(row.dilation) for row in rows),
        sizes=column(answer.size for answer in answers),
        element=element,
        direction=direction,
        channels_last=channels_last,
    )
