"""What cuDNN's plans keep in their workspaces, by kind of kernel; `workspace.rs` in Rust.

A plan's engine and knobs (its JSON representation names them) tell what kind of kernel it is, and
for all kinds but a few the workspace then follows to the byte. As a plan is written here and in
`choices.txt`:

- `0`: nothing. `winograd`: transformed 3x3 weights. `index`: a table of offsets, some KiB.
- `filled`: copies of both operands and of the result, channels innermost and filled up to whole
  groups of 16 bytes; of eight channel groups at a time. `packed`: of all channel groups, each
  filled up to a power of two or, beyond 32, to a multiple of 32. `streamed`: as `packed`, but the
  result leaves in NCHW. `plain`: channels as they are. `fitting`: only of tensors whose order and
  width do not suit, which is so in half precision anyway.
- `KIND+N`: and N partial results of a sum that is split, in single precision.
  `KIND/ROWSxCOLUMNS+N`: of N times all tiles of that size.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

KINDS = ('filled', 'packed', 'streamed', 'plain', 'fitting')
#: Rows and columns of a tile: of positions and channels of the result, for the weight's gradient of
#: taps and channels.
TILES = ((128, 128), (128, 64), (64, 64), (64, 32), (64, 16), (16, 32), (64, 256), (64, 128))
RESULTS = {'fwd': 'y', 'dgrad': 'x', 'wgrad': 'w'}
#: COUNT: channel groups that one launch of a `filled` plan does.
GROUPS_AT_ONCE = 8
#: SIZE: alignment and counters of split sums, apart from those of each tile.
WHOLE_EXTRA, TILES_EXTRA = 128, 159


@dataclass(frozen=True)
class Layers:
    """Calls of one direction, by column."""

    n: Ints
    c: Ints
    h: Ints
    w: Ints
    k: Ints
    g: Ints
    r: Ints
    s: Ints
    p: Ints
    q: Ints
    stride: Ints
    #: SIZE: what cuDNN said.
    sizes: Ints
    #: SIZE: one element.
    element: int
    direction: str
    #: Spacing of a filter's taps.
    dilation: Ints | int = 1
    #: Whether the tensors have their channels innermost already.
    channels_last: bool = False

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, which: NDArray) -> 'Layers':
        """Some of them."""
        columns = {
            name: value[which] if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        return Layers(**columns)

    @property
    def cg(self) -> Ints:
        """Input channels of one group."""
        return self.c // self.g

    @property
    def kg(self) -> Ints:
        """Output channels of one group."""
        return self.k // self.g

    @property
    def positions(self) -> Ints:
        """Of all results in the batch, in blocks of 32."""
        return self.n * self.p * self.q // 32


def ceil(a: Ints, b: int | Ints) -> Ints:
    """Division, rounded up."""
    return -(-a // b)


def fill(layers: Layers, channels: Ints, kind: str) -> Ints:
    """COUNT: channels of a group in a copy."""
    whole = 16 // layers.element
    filled = ceil(channels, whole) * whole
    if kind == 'plain':
        return channels
    if kind in ('packed', 'streamed'):
        powers = 1 << np.ceil(np.log2(np.maximum(channels, 4))).astype(np.int64)
        packed = np.where(channels > 32, ceil(channels, 32) * 32, powers)
        return np.where(layers.g > 1, packed, filled)
    return filled


def copies(layers: Layers, kind: str) -> tuple[Ints, Ints]:
    """SIZE: the copies, and COUNT: the elements of the weight among them."""
    a, result = layers, RESULTS[layers.direction]
    c, k, taps = fill(a, a.cg, kind), fill(a, a.kg, kind), a.r * a.s
    at_once = np.minimum(a.g, GROUPS_AT_ONCE) if kind in ('filled', 'plain', 'fitting') else a.g
    total = np.zeros_like(a.n)
    tensors = (
        ('x', a.n * c * a.h * a.w, a.h * a.w, c == a.cg),
        ('y', a.n * k * a.p * a.q, a.p * a.q, k == a.kg),
        ('w', c * k * taps, taps, (c == a.cg) & (k == a.kg)),
    )
    for name, elements, area, width_suits in tensors:
        order_suits = a.channels_last | ((area == 1) & ((a.g == 1) | (name != 'w')))
        if kind == 'streamed' and name == result:
            order_suits = np.full_like(order_suits, not a.channels_last)
        # In single precision operands are copied in any case, rounded to TF32.
        may_suit = name == result or a.element < 4 or kind == 'fitting'
        total += np.where(order_suits & width_suits & may_suit, 0, at_once * elements)
    header = 16 * np.where(kind in ('packed', 'streamed'), 1, at_once)
    return total * a.element + np.where(total > 0, header, 0), at_once * c * k * taps


def tile_count(layers: Layers, kind: str, tile: tuple[int, int]) -> Ints:
    """COUNT: tiles of a result."""
    a, (rows, columns) = layers, tile
    c, k = fill(a, a.cg, kind), fill(a, a.kg, kind)
    if a.direction == 'fwd':
        return a.g * ceil(a.n * a.p * a.q, rows) * ceil(k, columns)
    if a.direction == 'dgrad':
        return a.g * ceil(a.n * a.h * a.w, rows) * ceil(c, columns)
    taps = a.r * a.s
    alone = ceil(c * taps, rows) * ceil(k, columns)
    # Groups that are narrower than a tile share one.
    together = ceil(a.g * c, rows) * ceil(np.minimum(k, c), columns) * taps
    return np.where(a.g == 1, alone, np.where(c <= rows, together, a.g * alone))


def winograd(layers: Layers) -> Ints:
    """SIZE: 3x3 weights as 5x5 numbers, in part for whole blocks of channels."""
    a = layers
    inner, results = (a.c, a.k) if a.direction == 'fwd' else (a.k, a.c)
    weights = 9 * results * inner + 16 * ceil(results, 32) * 32 * ceil(inner, 8) * 8
    return 4 * (weights + results)


def index(layers: Layers) -> Ints:
    """SIZE: six bytes for each position of the result, and for gradients some more."""
    if layers.direction == 'dgrad':
        return (6 * layers.h * layers.w // 128 + 1) * 128 + 2176
    return (6 * layers.p * layers.q // 128 + 1) * 128


def parse(plan: str) -> tuple[str, tuple[int, int] | None, int]:
    """Kind, tile, and COUNT: partial results."""
    head, _, count = plan.partition('+')
    kind, _, tile = head.partition('/')
    rows, _, columns = tile.partition('x')
    return kind, (int(rows), int(columns)) if tile else None, int(count or 0)


def scratch(layers: Layers, plan: str) -> Ints:
    """SIZE: what a plan needs."""
    kind, tile, count = parse(plan)
    if kind == '0':
        return np.zeros_like(layers.n)
    if kind == 'winograd':
        return winograd(layers)
    if kind == 'index':
        return index(layers)
    base, weight = copies(layers, kind)
    if '+' not in plan:
        return base
    if tile is None:
        return base + partial(layers, weight) * count + WHOLE_EXTRA * launches(layers, kind)
    each = tile_count(layers, kind, tile)
    return base + 4 * each * (count * (tile[0] * tile[1] + 1) + 1) + TILES_EXTRA


def launches(layers: Layers, kind: str) -> Ints:
    """COUNT: channel groups that have counters of their own."""
    at_once = np.minimum(layers.g, GROUPS_AT_ONCE)
    return at_once if kind in ('filled', 'plain') else np.ones_like(layers.g)


def partial(layers: Layers, weight: Ints) -> Ints:
    """SIZE: one whole partial result."""
    a = layers
    if a.direction == 'wgrad':
        return 4 * weight
    return 4 * a.n * (a.k * a.p * a.q if a.direction == 'fwd' else a.c * a.h * a.w)


def explain(layers: Layers) -> list[str]:
    """For each layer the plan whose size is nearest to cuDNN's, the simplest if there are several."""
    best = np.full(len(layers), np.inf)
    answer = np.full(len(layers), '0', dtype=object)

    def offer(names: list[str] | NDArray, sizes: Ints, worse: float) -> None:
        # A split sum explains any size roughly, so it has to do so well.
        off = np.abs(sizes - layers.sizes) + worse * (sizes != layers.sizes)
        better = off < best
        best[better] = off[better]
        answer[better] = np.asarray(names, dtype=object)[better]

    def same(name: str) -> NDArray:
        return np.full(len(layers), name, dtype=object)

    for plan in ('0', 'index', 'winograd', *KINDS):
        allowed = (layers.r == 3) & (layers.s == 3) & (layers.g == 1)
        sizes = scratch(layers, plan)
        if plan == 'winograd':
            sizes = np.where(allowed, sizes, 1 << 60)
        offer(same(plan), sizes, 0)
    for kind in KINDS:
        base, weight = copies(layers, kind)
        rest = layers.sizes - base
        one = partial(layers, weight)
        counts = np.clip((rest - WHOLE_EXTRA * launches(layers, kind)) / one, 0, 1024).round()
        # The data and the output are split into tiles, or not at all that anybody has seen.
        if layers.direction == 'wgrad' or kind == 'fitting':
            counts = counts.astype(np.int64)
            sizes = base + one * counts + WHOLE_EXTRA * launches(layers, kind)
            offer([f'{kind}+{count}' for count in counts], sizes, 2048)
        for tile in TILES:
            each = tile_count(layers, kind, tile)
            area = 4 * each * (tile[0] * tile[1] + 1)
            counts = np.clip((rest - TILES_EXTRA - 4 * each) / area, 1, 1024).round()
            counts = counts.astype(np.int64)
            sizes = base + area * counts + 4 * each + TILES_EXTRA
            rows, columns = tile
            offer([f'{kind}/{rows}x{columns}+{count}' for count in counts], sizes, 4096)
    return list(answer)
