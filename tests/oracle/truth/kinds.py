"""Decision trees for convolutions of kinds that most networks lack.

    oracle fit-kinds OUT.txt [DEVICE…]

cuDNN's heuristics choose otherwise for layers of one or three dimensions, with taps apart, with
filters that are no small squares, in channel groups, and for each channel with channels innermost.
This takes such layers of published networks (`networks.py` recorded them), and others with sizes as
networks have them, asks cuDNN about all of them (some minutes; kept for the next time), learns a tree
for each kind as `fit_workspaces.py` does, and appends the trees to those in
`core/src/aten/conv/workspace/choices.txt`.

Some layers are held out: those of networks in `survey/tuning.txt`, where no other network has them,
and a quarter of the sampled ones by channels, groups and filter, so that of such a shape no layer at
any size or batch is learnt from. Prints how the trees without kinds answer these, and how those with
kinds do. The trees without kinds lose what no other layer reaches.
"""

import collections
import dataclasses
import gzip
import hashlib
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from truth import cudnn, fit_workspaces, networks, place, plans
from truth.plans import Layers

KINDS = ('line', 'volume', 'dilated', 'odd', 'grouped', 'depthwise')
#: How much layers count: sampled ones, those of networks, and those that were recorded for the plain
#: trees, of which some are a network's own at many batches (`fit_workspaces.WEIGHTS`).
OF_SAMPLED, OF_NETWORKS, OF_RECORDED, OF_OWN = 0.5, 1.0, 2.0, 10.0
#: COUNT: images at which layers of networks are asked about.
NETWORK_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
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
        if self.sides[0] == 1 and self.taps[0] == 1 and self.sides[1] > 1:
            return 'line'
        if square not in (1, 3, 5) and not (square == 7 and min(self.c, self.k) <= 4):
            return 'odd'
        if self.groups > 1 and group > 1:
            return 'grouped'
        return 'dilated' if max(self.dilation) > 1 else ''

    def is_held(self) -> bool:
        """Whether its shape is kept from learning."""
        shape = json.dumps([self.c, self.k, self.groups, self.taps])
        return int(hashlib.md5(shape.encode()).hexdigest(), 16) % HELD == 0

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


FAMILIES: tuple[Callable[[Chance], Sample], ...] = (
    *(line, volume, dilated, grouped, patch, upward, large, oblong, depthwise),
)


def samples(family: Callable[[Chance], Sample], count: int) -> Iterator[Sample]:
    """COUNT different layers, the same ones every time."""
    chance = random.Random(family.__name__)
    seen: set[str] = set()
    while len(seen) < count:
        sample = family(chance)
        if sample.is_sensible() and json.dumps(sample) not in seen:
            seen.add(json.dumps(sample))
            yield sample


class Answer(NamedTuple):
    """What cuDNN said of a layer."""

    direction: str
    sample: Sample
    size: int

    def layer(self) -> str:
        """Of whatever batch."""
        return json.dumps([self.direction, *self.sample[1:]])


def asked(device: str, element: int) -> list[Answer]:
    """Answers, asked for once and kept."""
    count = SAMPLES.get((device, element), SAMPLES_OTHERWISE)
    path = place.HOME / f'workspaces/kinds-{device}-{element}-{count}.jsonl.gz'
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        library = cudnn.Cudnn(device)
        with gzip.open(path, 'wt') as file:
            for family in FAMILIES:
                for sample in samples(family, count):
                    for direction in cudnn.OPERATIONS:
                        call = sample.call(direction, element, family is depthwise)
                        size = library.workspace(call) or 0
                        file.write(json.dumps([direction, sample, size]) + '\n')
    return read(path)


def of_networks(device: str, element: int, split: str) -> list[Answer]:
    """Answers about layers of networks, asked for once and kept."""
    path = place.HOME / f'workspaces/networks-{device}-{element}-{split}.jsonl.gz'
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        library = cudnn.Cudnn(device)
        with gzip.open(path, 'wt') as file:
            for one in networks.known(split):
                last = one.kind(True) == 'depthwise'
                for sample in (one._replace(n=count) for count in NETWORK_BATCHES):
                    for direction in cudnn.OPERATIONS if sample.is_sensible() else ():
                        call = sample.call(direction, element, last)
                        size = library.workspace(call) or 0
                        file.write(json.dumps([direction, sample, size]) + '\n')
    return read(path)


def read(path: Path) -> list[Answer]:
    """What was kept."""
    with gzip.open(path, 'rt') as file:
        rows = map(json.loads, file)
        return [Answer(direction, Sample(*sample), size) for direction, sample, size in rows]


def recorded(device: str, element: int, split: str) -> Iterator[Answer]:
    """Layers recorded for the plain trees."""
    for direction in cudnn.OPERATIONS:
        for row in fit_workspaces.recorded(device, element, split, direction):
            yield answer_of(direction, row)


def answer_of(direction: str, row: fit_workspaces.Row) -> Answer:
    """A row of `fit_workspaces`."""
    n, c, h, w, k, group, *rest, size = row
    pairs = ([*rest[at : at + 2]] for at in range(0, 8, 2))
    return Answer(direction, Sample(n, c, [h, w], k, c // group, *pairs), size)


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


def main(arguments: list[str]) -> None:
    """`oracle fit-kinds`"""
    sys.setrecursionlimit(10_000)
    out, *chosen = arguments
    text = fit_workspaces.CHOICES.read_text()
    old = fit_workspaces.parse(text)
    lines = text.splitlines()[:1]
    altered = list(fit_workspaces.alterations(max(fit_workspaces.ALTERED.values())))
    for key, tree in old.items():
        if key.split()[-1] not in KINDS:
            lines += [f'for {key}', *fit_workspaces.write(trimmed(key, tree, altered))]
    for device in chosen or place.devices():
        for element in fit_workspaces.PRECISIONS:
            if fit_workspaces.fixture(device, element).exists():
                lines += trees(device, element, old)
    Path(out).write_text('\n'.join(lines) + '\n')


def trimmed(
    key: str, tree: fit_workspaces.Node, altered: list[fit_workspaces.Row]
) -> fit_workspaces.Node:
    """A plain tree without what only layers of kinds reached of those that it was learnt from."""
    devices = {place.device(name)['deviceVer']: name for name in place.devices()}
    capability, word, *half = key.split()
    major, minor = map(int, capability.split('.'))
    device, element = devices[major * 100 + minor * 10], 2 if half else 4
    direction = next(short for short, long in fit_workspaces.DIRECTIONS.items() if long == word)
    learnt = [row.sample for row in recorded(device, element, 'fit') if row.direction == direction]
    learnt += [answer_of('', (*row, 0)).sample for row in altered]
    without = {kind for of, kind in WITHOUT if of == device}
    plain = [one for one in learnt if one.kind(False) in ('', *without)]
    table = layers([Answer(direction, one, 0) for one in plain], element, direction, False)

    def walk(node: fit_workspaces.Node, table: Layers) -> fit_workspaces.Node:
        if node.below is None or node.above is None:
            return node
        small = getattr(table, node.measure) <= node.limit
        if small.all():
            return walk(node.below, table)
        if not small.any():
            return walk(node.above, table)
        below, above = walk(node.below, table.of(small)), walk(node.above, table.of(~small))
        return dataclasses.replace(node, below=below, above=above)

    return walk(tree, table)


def trees(device: str, element: int, old: dict[str, fit_workspaces.Node]) -> Iterator[str]:
    """The lines of a device's trees; prints how these, those before and plain ones answer."""
    version = place.device(device)['deviceVer']
    sampled = asked(device, element)
    known = list(recorded(device, element, 'fit'))
    batches = collections.Counter(answer.layer() for answer in known)
    own = {layer for layer, count in batches.items() if count >= fit_workspaces.BATCHES_OF_OWN}
    sources = (
        (OF_SAMPLED, [answer for answer in sampled if not answer.sample.is_held()]),
        (OF_NETWORKS, of_networks(device, element, 'fit')),
        (OF_RECORDED, [answer for answer in known if answer.layer() not in own]),
        (OF_OWN, [answer for answer in known if answer.layer() in own]),
    )
    held_out = {
        'sampled': [answer for answer in sampled if answer.sample.is_held()],
        'networks': of_networks(device, element, 'held'),
        'recorded': list(recorded(device, element, 'held')),
    }
    price = PRICE.get((device, element), PRICE_OTHERWISE)
    for kind in KINDS:
        last = kind == 'depthwise'

        def table(rows: list[Answer], direction: str) -> list[Answer]:
            """Those of this kind; all depthwise layers have their channels innermost."""
            found = (row for row in rows if row.direction == direction)
            return [row for row in found if row.sample.kind(True) == kind]

        for direction, word in fit_workspaces.DIRECTIONS.items():
            # Depthwise layers were recorded with channels outermost.
            learnt = [(weight, table(rows, direction)) for weight, rows in sources[: 2 if last else 4]]
            weights = [weight for weight, rows in learnt for _ in rows]
            rows = [row for _, rows in learnt for row in rows]
            grown = fit_workspaces.Grown(layers(rows, element, direction, last), np.array(weights))
            tree = grown.pruned(price * DEPTHWISE_TIMES if last else price)
            plain = f'{version // 100}.{version // 10 % 10} {word}{fit_workspaces.PRECISIONS[element]}'
            key = f'{plain} {kind}'
            answered = {'plain': old[plain], 'before': old.get(key), 'now': tree}
            for which, rows in held_out.items():
                rows = [] if last and which == 'recorded' else table(rows, direction)
                for name, each in answered.items():
                    if rows and each:
                        told = fit_workspaces.quality(each, layers(rows, element, direction, last))
                        size = len(fit_workspaces.write(each))
                        print(f'| {key} | {which} {len(rows)} | {name} {size} | {told} |', flush=True)
            if (device, kind) not in WITHOUT:
                yield from (f'for {key}', *fit_workspaces.write(tree))
