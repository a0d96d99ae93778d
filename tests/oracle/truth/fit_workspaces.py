"""Decision trees for the choices of cuDNN, learnt from its recorded answers.

    oracle fit-workspaces [OUT.txt]

Reads `tests/fixtures/workspaces/*.csv.gz`, fits a tree for each device and direction to the rows of
the split `fit`, and reports how the trees in the repository and these answer the split `held`. OUT
is written as `core/src/aten/conv/workspace/choices.txt`, whose format `choice.rs` beside it
describes.

What a workspace consists of is `docs/convolution-workspaces.md`'s rule, here [`scratch`]; a tree
says which of the parts a call takes. Each layer has a cost for each answer (how far off its bytes
are). A tree is grown to tell the best answers apart, and then pruned from the leaves up wherever
two leaves cost hardly more as one.

Layers count by their bytes, because a few large workspaces decide reserved memory. Only the trees
of `REFITTED` and those for half precision are learnt; the others in the repository are of an
earlier fit and stay.
"""

import csv
import gzip
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from truth import place

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CHOICES = place.HERE.parent.parent / 'core/src/aten/conv/workspace/choices.txt'
DIRECTIONS = {'fwd': 'forward', 'dgrad': 'data', 'wgrad': 'filter'}
#: SIZE: differences are relative to the larger of both, and to at least this.
SMALL = 256 << 10
#: SIZE: one element, and what the heading of a tree and the name of a fixture say of it.
PRECISIONS = {4: '', 2: ' half'}
#: COUNT: partial results that splits of the sum were seen to make.
PARTIALS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724)
COPIES = ('', 'x', 'y', 'w', 'xy', 'xw', 'yw', 'xyw', 'raw')
#: Capabilities whose trees are learnt again; the others' are of an earlier fit.
REFITTED = ('8.0',)
#: COUNT: layers that an answer has to be the best for, to be considered.
SUPPORT = 5
#: COUNT: leaves that a tree is grown to before it is pruned.
LEAVES_GROWN = 4000
#: SIZE: a workspace of weight 1; others have a power of the ratio, within a range.
ORDINARY = 8 << 20
WEIGHT_POWER, WEIGHT_RANGE = 0.6, (0.3, 12)
#: Answers are as good as each other if their costs differ by no more.
AS_GOOD = 0.01
#: What a leaf must save to be kept, in ordinary layers that would be all wrong. Higher prices answer
#: the held-out layers alike and well-known networks, which are among the others, worse.
PRICE = {4: 0.4, 2: 0.8}


@dataclass(frozen=True)
class Layers:
    """Columns of a fixture."""

    columns: dict[str, Ints]
    sizes: Ints
    element: int

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, which: NDArray) -> 'Layers':
        """Some of them."""
        chosen = {name: column[which] for name, column in self.columns.items()}
        return Layers(chosen, self.sizes[which], self.element)


def read(path: Path, element: int) -> dict[tuple[str, str], Layers]:
    """By split and direction."""
    with gzip.open(path, 'rt') as file:
        rows = list(csv.DictReader(file))
    answer = {}
    for split in ('fit', 'held'):
        for direction in DIRECTIONS:
            chosen = [row for row in rows if (row['split'], row['direction']) == (split, direction)]
            names = [name for name in rows[0] if name not in ('split', 'direction', 'bytes')]
            numbers = {name: np.array([int(row[name]) for row in chosen]) for name in names}
            sizes = np.array([int(row['bytes']) for row in chosen])
            answer[split, direction] = Layers(measures(numbers), sizes, element)
    return answer


def ceil(a: Ints, b: int | Ints) -> Ints:
    """Division, rounded up."""
    return -(-a // b)


def measures(raw: dict[str, Ints]) -> dict[str, Ints]:
    """What a tree may ask for, by the names of `choice.rs`, in its order."""
    n, c, k, h, r = (raw[name] for name in ('n', 'c', 'k', 'h', 'r'))
    rows, columns = (
        (raw[side] + 2 * raw[f'pad_{side}'] - raw[f'dilation_{side}'] * (raw[taps] - 1) - 1)
        // raw[f'stride_{side}']
        + 1
        for side, taps in (('h', 'r'), ('w', 's'))
    )
    hw, pq, rs = h * raw['w'], rows * columns, r * raw['s']
    cg = raw['c_per_group']
    groups = c // cg
    kg = k // groups
    nhw, npq = n * hw, n * pq

    def alignment(channels: Ints) -> Ints:
        return np.minimum(channels & -channels, 32)

    def tiles(height: Ints, width: Ints) -> Ints:
        return ceil(height, 128) * ceil(width, 128) * groups

    return {
        'n': n,
        'c': c,
        'k': k,
        'h': h,
        'hw': hw,
        'pq': pq,
        'r': r,
        'rs': rs,
        'stride': raw['stride_h'],
        'dilation': raw['dilation_h'],
        'groups': groups,
        'cg': cg,
        'kg': kg,
        'calign': alignment(cg),
        'kalign': alignment(kg),
        'nhw': nhw,
        'npq': npq,
        'crs': cg * rs,
        'krs': kg * rs,
        'x': c * nhw,
        'y': k * npq,
        'w': k * cg * rs,
        'tiles_fwd': tiles(npq, kg),
        'tiles_data': tiles(nhw, cg),
        'tiles_filter': tiles(kg, cg * rs),
        'widening': c * 16 // np.maximum(k, 1),
        'work': npq * cg * rs * kg // 4096 * groups,
    }


def scratch(layers: Layers, direction: str, answer: str) -> Ints:
    """SIZE: what an answer of a tree means, as `Shape::scratch` in `workspace.rs` has it."""
    m, element = layers.columns, layers.element
    copies, _, partials = answer.partition('+')
    if copies == 'winograd':
        results = m['k'] if direction == 'fwd' else m['c']
        return (m['k'] * m['cg'] * 25 + results) * element
    group = 1 if copies == 'raw' else 16 // element
    taken = 'xyw' if copies == 'raw' else copies

    def pad(channels: Ints) -> Ints:
        return ceil(channels, group) * group

    def copy(name: str, is_result: bool, area: Ints, channels: Ints, others: Ints) -> Ints:
        # An operand in single precision is copied in any case, rounded to TF32; others if their
        # order or width differs.
        suits = (is_result | (element < 4)) & (area == 1) & (pad(channels) == channels)
        return np.where(suits | (name not in taken), 0, pad(channels) * area * others)

    images = m['n'] * m['groups']
    copied = (
        copy('x', direction == 'dgrad', m['hw'], m['cg'], images)
        + copy('y', direction == 'fwd', m['pq'], m['kg'], images)
        + copy('w', direction == 'wgrad', m['rs'], m['cg'], m['k'])
    )
    count = int(partials or 0)
    result = {'fwd': m['y'], 'dgrad': m['x'], 'wgrad': pad(m['cg']) * m['k'] * m['rs']}
    extra = np.where(copied > 0, 16, 0) + (128 if count else 0)
    return (copied + count * result[direction]) * element + extra


def answers() -> list[str]:
    """All that a tree may say, the simpler first."""
    every = [f'{copies}+{count}' if count else copies for count in PARTIALS for copies in COPIES]
    return ['0' if answer == '' else answer for answer in every] + ['winograd']


def off(predicted: Ints, truth: Ints) -> Floats:
    """How far off, from 0 to 1."""
    return np.abs(predicted - truth) / np.maximum(np.maximum(predicted, truth), SMALL)


def costs(layers: Layers, direction: str, said: list[str]) -> Floats:
    """Of each answer for each layer."""
    columns = [off(scratch(layers, direction, answer), layers.sizes) for answer in said]
    return np.stack(columns, axis=1)


def weights(layers: Layers, direction: str) -> Floats:
    """How much each layer counts: by the bytes at stake, which are all copies if there are more.
    In half precision all alike, which was found to be better there."""
    if layers.element < 4:
        return np.ones(len(layers))
    at_stake = np.maximum(layers.sizes, scratch(layers, direction, 'xyw'))
    return np.clip((at_stake / ORDINARY) ** WEIGHT_POWER, *WEIGHT_RANGE)


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

    def __init__(self, layers: Layers, direction: str) -> None:
        said = answers()
        cost = costs(layers, direction, said)
        best = np.bincount(cost.argmin(axis=1), minlength=len(said))
        kept = np.flatnonzero(best >= SUPPORT)
        self.names = list(layers.columns)
        self.said = [said[index] for index in kept]
        questions = np.stack([layers.columns[name] for name in self.names], axis=1)
        weight = weights(layers, direction)
        # Where several answers are as good, the one that is good most often.
        good = cost[:, kept] <= cost[:, kept].min(axis=1, keepdims=True) + AS_GOOD
        label = np.where(good, good.sum(axis=0), -1).argmax(axis=1)
        grower = DecisionTreeClassifier(
            max_leaf_nodes=LEAVES_GROWN, random_state=0
        )
        grower.fit(questions, label, sample_weight=weight)
        self.tree = grower.tree_
        #: Of each answer in each node.
        self.costs = grower.decision_path(questions).T @ (cost[:, kept] * weight[:, None])

    def pruned(self, price: float) -> Node:
        """The tree whose leaves each save the price."""
        return self.prune(0, price)[0]

    def prune(self, index: int, price: float) -> tuple[Node, int]:
        """A subtree, and its leaves."""
        choice = int(self.costs[index].argmin())
        leaf = Node(self.said[choice], float(self.costs[index][choice]))
        if self.tree.children_left[index] < 0:
            return leaf, 1
        below, leaves_below = self.prune(self.tree.children_left[index], price)
        above, leaves_above = self.prune(self.tree.children_right[index], price)
        cost, leaves = below.cost + above.cost, leaves_below + leaves_above
        if leaf.cost <= cost + price * (leaves - 1):
            return leaf, 1
        limit = int(self.tree.threshold[index] // 1)
        return Node('', cost, self.names[self.tree.feature[index]], limit, below, above), leaves


def predict(tree: Node, layers: Layers, direction: str) -> Ints:
    """SIZE: the workspaces that a tree means."""
    result = np.zeros(len(layers), dtype=np.int64)

    def walk(node: Node, which: NDArray) -> None:
        if not len(which):
            return
        if node.below is None or node.above is None:
            result[which] = scratch(layers.of(which), direction, node.answer)
            return
        small = layers.columns[node.measure][which] <= node.limit
        walk(node.below, which[small])
        walk(node.above, which[~small])

    walk(tree, np.arange(len(layers)))
    return result


def write(tree: Node) -> list[str]:
    """The lines of a tree: a question, what follows if it holds, then what follows if not."""
    lines: list[str] = []

    def add(node: Node) -> None:
        if node.below is None or node.above is None:
            lines.append(f'= {node.answer}')
            return
        at = len(lines)
        lines.append('')
        add(node.below)
        lines[at] = f'{node.measure} {node.limit} {len(lines)}'
        add(node.above)

    add(tree)
    return lines


def parse(text: str) -> dict[tuple[str, str], Node]:
    """The trees of `choices.txt`, by capability and direction."""
    trees: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if line.startswith('for '):
            _, capability, direction = line.split(' ', 2)
            trees[capability, direction] = lines = []
        elif not line.startswith('#'):
            lines.append(line)

    def node(lines: list[str], at: int) -> Node:
        first, *rest = lines[at].split()
        if first == '=':
            return Node(rest[0], 0)
        limit, otherwise = map(int, rest)
        return Node('', 0, first, limit, node(lines, at + 1), node(lines, otherwise))

    return {key: node(lines, 0) for key, lines in trees.items()}


def quality(tree: Node, layers: Layers, direction: str) -> str:
    """The columns of the table in `docs/convolution-workspaces.md`."""
    predicted = predict(tree, layers, direction)
    error = off(predicted, layers.sizes)
    sum_error = predicted.sum() / max(layers.sizes.sum(), 1) - 1
    shares = [predicted == layers.sizes, np.abs(predicted - layers.sizes) <= 1024, error <= 0.05]
    cells = [f'{share.mean():.0%}' for share in shares]
    cells += [f'{np.median(error):.1%}', f'{np.quantile(error, 0.9):.0%}', f'{sum_error:+.0%}']
    return ' | '.join([*cells, f'{error.mean():.2%}'])


def row(
    capability: str, word: str, which: str, lines: int, tree: Node, held: Layers, direction: str
) -> str:
    """A line of the comparison."""
    told = quality(tree, held, direction)
    return f'| {capability} | {word} | {which}, {lines} lines | {told} |'


def main(arguments: list[str]) -> None:
    """`oracle fit-workspaces`"""
    sys.setrecursionlimit(10_000)
    old = parse(CHOICES.read_text())
    text = [CHOICES.read_text().splitlines()[0]]
    print('| capability | direction | trees | exact | 1 KiB | 5 % | median | 90th | sum | mean |')
    devices = {place.device(name)['deviceVer']: name for name in place.devices()}
    for version, name in sorted(devices.items()):
        for element, suffix in PRECISIONS.items():
            path = place.FIXTURES / f'workspaces/{name}{suffix.replace(" ", "-")}.csv.gz'
            if not path.exists():
                continue
            capability = f'{version // 100}.{version // 10 % 10}'
            layers = read(path, element)
            for direction, word in DIRECTIONS.items():
                held, key = layers['held', direction], (capability, word + suffix)
                tree = Grown(layers['fit', direction], direction).pruned(PRICE[element])
                if capability not in REFITTED and key in old:
                    tree = old[key]
                lines = write(tree)
                text += [f'for {capability} {word}{suffix}', *lines]
                if key in old:
                    print(row(*key, 'old', len(write(old[key])), old[key], held, direction))
                print(row(*key, 'new', len(lines), tree, held, direction), flush=True)
    if arguments:
        Path(arguments[0]).write_text('\n'.join(text) + '\n')
