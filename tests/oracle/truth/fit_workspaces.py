"""Decision trees for the choices of cuDNN, learnt from its answers.

    oracle fit-workspaces [OUT.txt [DEVICE…]]

For each device and direction: the layers of `tests/fixtures/workspaces/*.csv.gz` (split `fit`), and
layers like them with sizes altered at random, about which cuDNN is asked now (some minutes; kept
for the next time). What each layer's plan is follows from its size (`plans.py`); a tree learns to
tell which plan it is from the layer's plain sizes, because that is what cuDNN's own heuristics
seem to look at: derived measures (tiles, work, alignment) made the answers no better.

A tree is grown to tell the plans apart, and then pruned from the leaves up wherever two leaves cost
hardly more as one. The cost of an answer is how far off its bytes are.

Prints how the trees in the repository and these answer the split `held`, layers of networks whose
shapes were left out. OUT is written as `core/src/aten/conv/workspace/choices.txt`, whose format
`choice.rs` beside it describes; DEVICEs that are not named keep their trees.
"""

import collections
import csv
import gzip
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from truth import cudnn, place, plans
from truth.plans import Layers

Floats = NDArray[np.float64]

CHOICES = place.HERE.parent.parent / 'core/src/aten/conv/workspace/choices.txt'
DIRECTIONS = {'fwd': 'forward', 'dgrad': 'data', 'wgrad': 'filter'}
#: SIZE: one element, and what the heading of a tree and the name of a fixture say of it.
PRECISIONS = {4: '', 2: ' half'}
#: What a tree may ask for, in the order of `choice.rs`.
MEASURES = (
    *('n', 'c', 'h', 'w', 'k', 'g', 'r', 's', 'p', 'q', 'stride', 'cg', 'kg', 'dilation'),
    'positions',
)
#: What a limit fits into.
LARGEST_LIMIT = (1 << 16) - 1
#: SIZE: differences are relative to the larger of both, and to at least this.
SMALL = 256 << 10
#: What being off at all costs, where being off by everything costs 1.
INEXACT = 0.1
#: COUNT: layers whose plan it has to be, to be an answer.
SUPPORT = 5
#: COUNT: altered layers to ask about.
ALTERED = {('a100', 4): 100_000, ('a100', 2): 80_000}
ALTERED_OTHERWISE = 40_000
#: How much layers count: altered ones, recorded ones, and recorded ones that are a network's own,
#: which were asked about at this many batches or more.
WEIGHTS, BATCHES_OF_OWN = (0.2, 1.0, 3.0), 6
#: What a leaf must save to be kept, in layers that would be all wrong. The page carries the trees,
#: so what few will ask for is bought dearly.
PRICE = {('a100', 4): 0.5, ('a100', 2): 1.0, ('h100', 4): 1.5, ('rtx4090', 4): 2.0}
PRICE_OTHERWISE = 3.0
#: SIZE: layers with larger tensors are not asked about, in elements.
LARGEST = 1 << 31
WIDEST = 8192
#: Batches of altered layers, and how often.
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 3, 6, 12, 24, 48, 96, 192, 10, 20, 5, 40, 80, 160, 512)
BATCH_WEIGHTS = (6, 8, 8, 12, 12, 12, 8, 6, 3, 1, 2, 3, 3, 2, 2, *[1] * 8)

Row = tuple[int, ...]


def fixture(device: str, element: int) -> Path:
    """Recorded answers."""
    return place.FIXTURES / f'workspaces/{device}{PRECISIONS[element].replace(" ", "-")}.csv.gz'


def recorded(device: str, element: int, split: str, direction: str) -> Iterator[Row]:
    """Layers of networks: the columns of `cudnn.COLUMNS`, then the size."""
    with gzip.open(fixture(device, element), 'rt') as file:
        for row in csv.DictReader(file):
            if (row['split'], row['direction']) == (split, direction):
                yield tuple(int(row[name]) for name in (*cudnn.COLUMNS, 'bytes'))


def altered(device: str, element: int, direction: str) -> list[Row]:
    """Layers like those of networks, asked about once and kept."""
    count = ALTERED.get((device, element), ALTERED_OTHERWISE)
    name = f'altered-{device}{PRECISIONS[element].replace(" ", "-")}-{direction}-{count}.csv.gz'
    path = place.HOME / 'workspaces' / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        library = cudnn.Cudnn(device)
        with gzip.open(path, 'wt') as file:
            for row in alterations(count):
                columns = dict(zip(cudnn.COLUMNS, map(str, row)))
                call = cudnn.fixture_call({**columns, 'direction': direction})
                if element == 2:
                    call = call._replace(dtype=cudnn.FLOAT16)
                file.write(','.join(map(str, (*row, library.workspace(call) or 0))) + '\n')
    with gzip.open(path, 'rt') as file:
        return [tuple(map(int, line.split(','))) for line in file]


def alterations(count: int) -> Iterator[Row]:
    """COUNT different layers, the same ones every time."""
    chance = random.Random(1)
    known = sorted({row[1:-1] for row in recorded('a100', 4, 'fit', 'fwd')})
    seen: set[Row] = set()
    while len(seen) < count:
        row = alteration(chance, known)
        if row is not None and row not in seen:
            seen.add(row)
            yield row


def alteration(chance: random.Random, known: list[Row]) -> Row | None:
    """A layer of a network with other sizes, or nothing where they do not fit together."""

    def near(size: int, least: int = 1) -> int:
        kind = chance.random()
        if kind < 0.5:
            return size
        if kind < 0.75:
            factor = chance.choice([0.5, 0.75, 1.25, 1.5, 2, 1 / 3, 4 / 3, 0.625, 0.875])
            return max(least, round(size * factor))
        step = chance.choice([1, 2, 4, 8, 16, 32])
        return max(least, round(size * chance.uniform(0.6, 1.6) / step) * step)

    c, h, w, k, cg, r, s, pad_h, pad_w, stride_h, stride_w, *dilation = chance.choice(known)
    n = chance.choices(BATCHES, BATCH_WEIGHTS)[0]
    groups, kg = c // cg, k // (c // cg)
    if cg > 1:
        cg, kg = near(cg), near(kg)
    if c == 3 and groups == 1:
        cg = 3
    if groups > 1:
        groups = near(groups, 2)
    square, h = h == w, near(h)
    w = h if square else near(w)
    if h + 2 * pad_h < dilation[0] * (r - 1) + 1 or w + 2 * pad_w < dilation[1] * (s - 1) + 1:
        return None
    if chance.random() < 0.08 and r == s and r in (1, 3) and stride_h in (1, 2):
        stride_h = stride_w = 3 - stride_h
    c, k = cg * groups, kg * groups
    depthwise = cg == 1 and c > 1
    if depthwise or c > WIDEST or k > WIDEST or n * max(c, k) * h * w > LARGEST:
        return None
    return n, c, h, w, k, cg, r, s, pad_h, pad_w, stride_h, stride_w, *dilation


def layers(rows: list[Row], element: int, direction: str) -> Layers:
    """Rows by column."""
    table = np.array(rows, dtype=np.int64).T
    raw, sizes = dict(zip(cudnn.COLUMNS, table)), table[-1]

    def outputs(side: str, taps: str) -> plans.Ints:
        span = raw[f'dilation_{side}'] * (raw[taps] - 1) + 1
        return (raw[side] + 2 * raw[f'pad_{side}'] - span) // raw[f'stride_{side}'] + 1

    g = raw['c'] // raw['c_per_group']
    p, q = outputs('h', 'r'), outputs('w', 's')
    names = ('n', 'c', 'h', 'w', 'k')
    same = {name: raw[name] for name in (*names, 'r', 's')}
    return Layers(
        **same, g=g, p=p, q=q, stride=raw['stride_w'], dilation=raw['dilation_h'], sizes=sizes,
        element=element, direction=direction,
    )


def off(predicted: plans.Ints, truth: plans.Ints) -> Floats:
    """How far off, from 0 to 1."""
    return np.abs(predicted - truth) / np.maximum(np.maximum(predicted, truth), SMALL)


@dataclass
class Node:
    """A question, or an answer where there is no measure."""

    answer: str
    cost: float
    measure: str = ''
    limit: int = 0
    below: 'Node | None' = None
    above: 'Node | None' = None


class Grown:
    """A tree before it is pruned."""

    def __init__(self, known: Layers, weights: Floats) -> None:
        label = np.array(plans.explain(known), dtype=object)
        found, counts = np.unique(label.astype(str), return_counts=True)
        self.said = list(found[counts >= SUPPORT])
        sizes = [plans.scratch(known, plan) for plan in self.said]
        cost = np.stack([off(size, known.sizes) for size in sizes], axis=1).astype(np.float32)
        cost += INEXACT * np.stack([size != known.sizes for size in sizes], axis=1)
        # Plans that are too rare are answered by the best of the others.
        rare = ~np.isin(label.astype(str), self.said)
        label[rare] = np.array(self.said, dtype=object)[cost[rare].argmin(axis=1)]
        asked = np.stack([getattr(known, name) for name in MEASURES], axis=1)
        self.questions = np.minimum(asked, LARGEST_LIMIT)
        grower = DecisionTreeClassifier(random_state=0, min_samples_leaf=1)
        grower.fit(self.questions, label.astype(str), sample_weight=weights)
        self.tree = grower.tree_
        paths = grower.decision_path(self.questions)
        #: Of each answer in each node.
        self.costs = paths.T @ (cost * weights[:, None])
        #: Layers in each node.
        self.inside = paths.T.tocsr()

    def pruned(self, price: float) -> Node:
        """The tree whose leaves each save the price."""
        return self.prune(0, price)[0]

    def prune(self, at: int, price: float) -> tuple[Node, int]:
        """A subtree, and its leaves."""
        choice = int(self.costs[at].argmin())
        leaf = Node(self.said[choice], float(self.costs[at][choice]))
        if self.tree.children_left[at] < 0:
            return leaf, 1
        below, leaves_below = self.prune(self.tree.children_left[at], price)
        above, leaves_above = self.prune(self.tree.children_right[at], price)
        cost, leaves = below.cost + above.cost, leaves_below + leaves_above
        if leaf.cost <= cost + price * (leaves - 1):
            return leaf, 1
        measure = MEASURES[self.tree.feature[at]]
        return Node('', cost, measure, self.limit(at), below, above), leaves

    def limit(self, at: int) -> int:
        """Of all limits that part a node's layers as well, the roundest: fewer different ones
        pack better."""
        rows = self.inside.indices[self.inside.indptr[at] : self.inside.indptr[at + 1]]
        values = self.questions[rows, self.tree.feature[at]]
        threshold = self.tree.threshold[at]
        low, high = int(values[values <= threshold].max()), int(values[values > threshold].min())
        step = 1 << (high.bit_length() + 1)
        while (high - 1) // step * step < low:
            step >>= 1
        return (high - 1) // step * step


def predict(tree: Node, known: Layers) -> plans.Ints:
    """SIZE: the workspaces that a tree means."""
    result = np.zeros(len(known), dtype=np.int64)

    def walk(node: Node, which: NDArray) -> None:
        if not len(which):
            return
        if node.below is None or node.above is None:
            result[which] = plans.scratch(known.of(which), node.answer)
            return
        small = getattr(known, node.measure)[which] <= node.limit
        walk(node.below, which[small])
        walk(node.above, which[~small])

    walk(tree, np.arange(len(known)))
    return result


def write(node: Node) -> list[str]:
    """The lines of a tree: a question, what follows if it holds, then what follows if not."""
    if node.below is None or node.above is None:
        return [f'={node.answer}']
    return [f'{node.measure} {node.limit}', *write(node.below), *write(node.above)]


def parse(text: str) -> dict[str, Node]:
    """The trees of `choices.txt`, by what stands after `for`."""
    lines = (line for line in text.splitlines() if not line.startswith('#'))

    def node() -> Node:
        line = next(lines)
        if line.startswith('='):
            return Node(line[1:], 0)
        measure, limit = line.split()
        return Node('', 0, measure, int(limit), node(), node())

    return {line.removeprefix('for '): node() for line in lines}


def quality(tree: Node, held: Layers) -> str:
    """The columns of the table in `docs/convolution-workspaces.md`."""
    predicted = predict(tree, held)
    error = off(predicted, held.sizes)
    sum_error = predicted.sum() / max(held.sizes.sum(), 1) - 1
    shares = [predicted == held.sizes, np.abs(predicted - held.sizes) <= 1024, error <= 0.05]
    cells = [f'{share.mean():.0%}' for share in shares]
    cells += [f'{np.median(error):.1%}', f'{np.quantile(error, 0.9):.0%}', f'{sum_error:+.0%}']
    return ' | '.join([*cells, f'{error.mean():.2%}'])


def learn(device: str, element: int, direction: str) -> Node:
    """A tree from recorded and altered layers."""
    known = list(recorded(device, element, 'fit', direction))
    more = altered(device, element, direction)
    batches = collections.Counter(row[1:-1] for row in known)
    of_altered, of_recorded, of_own = WEIGHTS
    weights = [
        of_own if batches[row[1:-1]] >= BATCHES_OF_OWN else of_recorded for row in known
    ]
    weights += [of_altered] * len(more)
    grown = Grown(layers(known + more, element, direction), np.array(weights))
    return grown.pruned(PRICE.get((device, element), PRICE_OTHERWISE))


def main(arguments: list[str]) -> None:
    """`oracle fit-workspaces`"""
    sys.setrecursionlimit(10_000)
    out, *chosen = arguments or ['']
    old = parse(CHOICES.read_text())
    lines = [CHOICES.read_text().splitlines()[0]]
    plain = (*DIRECTIONS.values(), 'half')
    kinds = {key: tree for key, tree in old.items() if key.split()[-1] not in plain}
    of_kinds = [line for key, tree in kinds.items() for line in (f'for {key}', *write(tree))]
    devices = {place.device(name)['deviceVer']: name for name in place.devices()}
    for version, name in sorted(devices.items()):
        for element, suffix in PRECISIONS.items():
            if not fixture(name, element).exists():
                continue
            for direction, word in DIRECTIONS.items():
                key = f'{version // 100}.{version // 10 % 10} {word}{suffix}'
                trees = {'old': old[key]} if key in old else {}
                if key not in old or not chosen or name in chosen:
                    trees['new'] = learn(name, element, direction)
                held = layers(
                    list(recorded(name, element, 'held', direction)), element, direction
                )
                for which, tree in trees.items():
                    told = f'{which}, {len(write(tree))} lines | {quality(tree, held)}'
                    print(f'| {key} | {told} |', flush=True)
                lines += [f'for {key}', *write(list(trees.values())[-1])]
                if out:
                    Path(out).write_text('\n'.join([*lines, *of_kinds]) + '\n')
