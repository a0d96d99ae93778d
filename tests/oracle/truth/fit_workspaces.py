"""Decision trees for the choices of cuDNN, learnt from its answers.

    oracle fit-workspaces [DEVICE…]

For each device, precision and direction: layers of published networks (`networks.py` recorded their shapes, and
`tests/fixtures/workspaces/*.csv.gz` answers about some) at several batches, layers like them with sizes altered at
random, and layers of families that few networks have (`kinds.py`). cuDNN is asked about all of them, a quarter of an
hour for each device and precision, once: the answers are kept. What each layer's plan is follows from its size
(`plans.py`); a tree learns to tell which plan it is from the layer's plain sizes, because that is what cuDNN's own
heuristics seem to look at: derived measures (tiles, work, alignment) made the answers no better. Kinds of layers have
trees of their own.

A tree is grown to tell the plans apart, and then pruned from the leaves up wherever two leaves cost hardly more as
one. The cost of an answer is how far off its bytes are.

Prints how the trees in the repository and the new ones answer layers that were held out: those that only networks of
`survey/held-out.txt` have, and a quarter of the families' shapes. Writes `core/engine/src/aten/conv/workspace/choices`,
whose format `choice.rs` beside it describes; DEVICEs that are not named keep their trees.
"""

import collections
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from truth import kinds, place, plans
from truth.kinds import Answer
from truth.plans import Layers

Floats = NDArray[np.float64]

CHOICES = place.HERE.parent.parent / 'core/engine/src/aten/conv/workspace/choices'
DIRECTIONS = {'fwd': 'forward', 'dgrad': 'data', 'wgrad': 'filter'}
#: SIZE: one element, and what a file's name says of it.
PRECISIONS = {4: '', 2: '-half'}
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
#: How much layers count, by where they come from.
WEIGHTS = {'networks': 1.0, 'recorded': 1.0, 'altered': 0.3, 'families': 0.3}
#: What a leaf must save to be kept, in layers that would be all wrong. The page fetches the trees.
PRICE = {('a100', 4): 0.25}
PRICE_OTHERWISE = 0.5


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
    """The trees of a file, by what stands after `for`."""
    lines = iter(text.splitlines())

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


def title(device: str, element: int) -> str:
    """Of the file of a device's trees."""
    version = place.device(device)['deviceVer']
    return f'{version // 100}.{version // 10 % 10}{PRECISIONS[element]}'


def sources(device: str, element: int) -> Iterator[tuple[str, Answer]]:
    """What to learn from, by where it comes from, with the kind of tree that answers it."""
    for where, answers in (
        ('recorded', kinds.recorded(device, element)),
        ('networks', kinds.of_networks(device, element)),
        ('altered', kinds.of_altered(device, element)),
        ('families', kinds.of_families(device, element)),
    ):
        yield from ((where, answer) for answer in answers)


def trees(device: str, element: int, old: dict[str, Node]) -> dict[str, Node]:
    """A device's trees; prints how these and those before answer."""
    learnt: dict[tuple[str, str], list[tuple[str, Answer]]] = collections.defaultdict(list)
    held: dict[tuple[str, str, str], list[Answer]] = collections.defaultdict(list)
    for where, answer in sources(device, element):
        key = answer.direction, answer.kind()
        if where == 'families' and answer.sample.is_held():
            held[*key, where].append(answer)
        else:
            learnt[key].append((where, answer))
    for answer in kinds.held_out(device, element):
        held[answer.direction, answer.kind(), 'networks'].append(answer)
    found = {}
    price = PRICE.get((device, element), PRICE_OTHERWISE)
    for direction, word in DIRECTIONS.items():
        for kind in kinds.KINDS:
            rows = learnt[direction, kind]
            if not rows:
                continue
            heading = f'{word} {kind}'.strip()
            weights = np.array([WEIGHTS[where] for where, _ in rows])
            grown = Grown(table([answer for _, answer in rows], element, direction, kind), weights)
            found[heading] = grown.pruned(price)
            for where in ('networks', 'families'):
                if few := held[direction, kind, where]:
                    layers = table(few, element, direction, kind)
                    before = old.get(heading, old.get(word))
                    for name, tree in (('before', before), ('now', found[heading])):
                        if tree:
                            told = f'{name} {len(write(tree))} | {quality(tree, layers)}'
                            line = f'| {title(device, element)} {heading} | {where} {len(few)}'
                            print(f'{line} | {told} |', flush=True)
    return found


def table(answers: list[Answer], element: int, direction: str, kind: str) -> Layers:
    """Answers of a kind by column."""
    return kinds.layers(answers, element, direction, kind in kinds.CHANNELS_LAST)


def main(arguments: list[str]) -> None:
    """`oracle fit-workspaces`"""
    sys.setrecursionlimit(10_000)
    for device in arguments or place.devices():
        for element in PRECISIONS:
            if not kinds.fixture(device, element).exists():
                continue
            path = CHOICES / f'{title(device, element)}.txt'
            old = parse(path.read_text()) if path.exists() else {}
            found = trees(device, element, old)
            lines = [line for key, tree in found.items() for line in (f'for {key}', *write(tree))]
            path.write_text('\n'.join(lines) + '\n')
