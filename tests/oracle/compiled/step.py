"""What a compiled training step allocates, predicted from its joint graphs and compared with the recorded peak.

    ./oracle python compiled/step.py FOLDER [TRUTH.csv]

Prints a row for each NAME.jsonl.gz in FOLDER, the events of a run through Inductor, with its graphs NAME.1.json, …
that `joint.py` wrote: the peaks of the third iteration as it is (eager) and compiled, both from the CSV, then the
prediction.

The cut (`cut.py`) decides what is kept. Then each half is replayed, kernel by kernel: what is fused has no memory.
Taken from the events are the bytes of parameters, buffers, inputs and the optimizer's state, and workspaces of
convolutions.
"""

import collections
import csv
import gzip
import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

import cut
from graph import IN_PLACE, PRODUCTS, Graph

from truth import place, settings

#: SIZE: cuBLAS's workspace.
PRODUCT_WORKSPACE = 8_519_680
#: SIZE: operands that count where Inductor decides whether a value with several readers gets memory.
LARGE = 65_536
#: COUNT: how many operands such a value reads at most without memory, and any value.
READS, READS_OF_ANY = 4, 8
ITERATION = 3


@dataclass
class Workspaces:
    """cuDNN's, as recorded."""

    #: SIZE: by the result's bytes.
    forward: collections.Counter[int] = field(default_factory=collections.Counter)
    backward: collections.Counter[int] = field(default_factory=collections.Counter)
    #: SIZE: of backward's calls that have a gradient of the image, in their order.
    calls: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, events):
        """From a run's events."""
        answer, result = cls(), 0
        for event in events:
            half = event['phase'].removeprefix(f'{ITERATION}:')
            if event['t'] != 'a' or half not in ('forward', 'backward') or 'convolution' not in event['op']:
                continue
            if half == 'backward' and event['op'].endswith('aten::convolution_backward'):
                answer.calls.append(0)
            if event['cat'] != 'workspace':
                result = event['bytes']
                continue
            by_result = getattr(answer, half)
            by_result[result] = max(by_result[result], event['bytes'])
            if half == 'backward' and answer.calls:
                answer.calls[-1] = max(answer.calls[-1], event['bytes'])
        return answer


class Half:
    """Forward or backward as a list of kernels with their buffers."""

    def __init__(self, graph, program, given, keep, constant):
        """`given` is in memory at the beginning, and freed at its last reader unless it is `constant`; what is to
        `keep` stays to the end."""
        self.graph, self.program, self.given = graph, program, given
        self.constant = constant
        self.keep = {graph.root(name) for name in keep}
        self.users = collections.defaultdict(list)
        for name in program:
            for operand in graph.named[name].operands:
                self.users[operand].append(name)
        self.find_buffers()

    def readers(self, name):
        """Users in this half, through views."""
        answer, open_names = [], list(self.users[name])
        while open_names:
            user = open_names.pop()
            if self.graph.kind(user) == 'view':
                open_names += self.users[user]
            else:
                answer.append(user)
        return answer

    def find_buffers(self):
        """Which results have memory, what each kernel reads of it, and who reads it last."""
        inside = set(self.program)
        self.real, self.reads, self.last = set(), {}, {}
        for name in self.program:
            kind = self.graph.kind(name)
            if kind == 'view':
                continue
            read = set()
            for operand in self.graph.named[name].operands:
                root = self.graph.root(operand)
                has_memory = root in self.real or root not in inside
                read |= {root} if has_memory else self.reads.get(root, set())
            self.reads[name] = read
            if kind in ('solid', 'small', 'part') or kind == 'point' and self.is_realized(name, read):
                self.real.add(name)
                self.last.update((source, name) for source in read)

    def is_realized(self, name, read):
        """Whether a fused value gets memory nevertheless."""
        readers = self.readers(name)
        if name in self.keep or any(map(self.graph.must_have, readers)) or len(read) > READS_OF_ANY:
            return True
        large = [source for source in read if self.graph.named[source].bytes >= LARGE]
        return len(readers) > 1 and len(large) > READS

    def peak(self, workspaces, product=PRODUCT_WORKSPACE, in_place=True):
        """SIZE: the most above what is there at the beginning. Without `in_place` no pointwise kernel writes over an
        operand."""
        live = most = 0
        alive = {name: self.graph.named[name].bytes for name in self.given}
        stays = self.keep | self.constant
        calls = iter(workspaces.calls)
        for name in self.program:
            if name not in self.real:
                continue
            node, kind = self.graph.named[name], self.graph.kind(name)
            read_last = (it for it in self.reads[name] if self.last[it] == name)
            dead = [it for it in read_last if it in alive and it not in stays]
            overwrites = in_place and kind in ('point', 'small') or node.operator in IN_PLACE
            fitting = [it for it in dead if alive[it] == node.bytes > 0 and not it.startswith('tangents')]
            if overwrites and fitting:
                alive[name] = alive.pop(fitting[0])
            else:
                made = self.made(node)
                alive |= made
                live += sum(made.values())
            most = max(most, live + self.workspace(node, workspaces, calls, product))
            if name not in self.last and name not in self.keep:
                dead.append(name)
            live -= sum(alive.pop(it, 0) for it in dead)
        return most

    def made(self, node):
        """SIZE: of what a kernel allocates, by name; several results at once."""
        if self.graph.kind(node.name) == 'part':
            return {}
        if not isinstance(node.makes, list):
            return {node.name: node.bytes}
        parts = (user for user in self.users[node.name] if self.graph.kind(user) == 'part')
        return {node.name: 0} | {part: self.graph.named[part].bytes for part in parts}

    def workspace(self, node, workspaces, calls, product):
        """SIZE: of a kernel's workspace."""
        if node.operator in PRODUCTS:
            return product
        if node.operator == 'convolution':
            return workspaces.forward[node.bytes]
        if node.operator == 'convolution_backward':
            results = (self.graph.named[user].bytes for user in self.graph.users[node.name])
            return next(calls, max((workspaces.backward[result] for result in results), default=0))
        return 0


def forward_program(graph, saved):
    """Forward's operators, in order."""
    needed = graph.made_of([*graph.outputs, *saved]) | graph.required
    return [node.name for node in graph.nodes if node.name in needed]


class Backward:
    """Backward's operators in the orders that Inductor compares."""

    def __init__(self, graph, saved):
        self.graph = graph
        self.kept = {name for name in graph.named if graph.root(name) in saved}
        self.live = graph.made_of(graph.gradients, self.kept)
        self.results = {graph.root(name) for name in graph.gradients}
        self.late = {node.name for node in graph.nodes if self.is_addend(node)}

    def is_addend(self, node):
        """Whether a product is added to something: one `addmm`, called where the other term is ready."""
        if node.operator != 'mm':
            return False
        users = [user for user in self.graph.readers(node.name) if user in self.live]
        return len(users) == 1 and self.graph.named[users[0]].operator == 'add'

    def program(self, weights_first):
        """In the traced order; with `weights_first` a weight's gradient comes before that of the layer's input."""
        order, done = [], set(self.kept)
        for node in self.graph.nodes:
            name = node.name
            is_called = node.operator and name in self.live and name not in self.graph.forward
            if not is_called or self.graph.root(name) in self.late:
                continue
            if weights_first and node.operator in PRODUCTS:
                for weight in self.weights_of(node):
                    self.emit(weight, order, done)
            self.emit(name, order, done)
        return order

    def weights_of(self, node):
        """Products that give a parameter's gradient from the same incoming gradient."""
        graph = self.graph
        for operand in node.operands:
            if operand not in graph.forward:
                for user in graph.readers(graph.root(operand)):
                    is_product = graph.named[user].operator in PRODUCTS
                    if is_product and user in self.results and user in self.live and user not in self.late:
                        yield user

    def emit(self, name, order, done):
        """An operator, behind those that it needs."""
        ahead = [(name, False)]
        while ahead:
            here, is_ready = ahead.pop()
            if here in done:
                continue
            if is_ready or not self.graph.named[here].operator:
                done.add(here)
                if is_ready:
                    order.append(here)
                continue
            ahead.append((here, True))
            ahead += [(operand, False) for operand in reversed(self.graph.named[here].operands)]


class Region:
    """A compiled graph, and what it keeps."""

    def __init__(self, graph):
        self.graph = graph
        self.saved = cut.saved(graph)
        self.returned = {graph.root(name) for name in graph.outputs}
        #: SIZE: by name; inputs are there anyway.
        kept = (graph.named[name] for name in self.saved | self.returned)
        self.kept = {node.name: node.bytes for node in kept if node.operator}
        #: SIZE: of outputs that forward makes.
        self.outputs = sum(self.kept.get(name, 0) for name in self.returned)
        #: SIZE: each incoming gradient, each gradient that backward returns.
        self.tangents = [graph.named[name].bytes for name in graph.tangents]
        self.gradients = [graph.named[name].bytes for name in {graph.root(name) for name in graph.gradients}]
        #: Saved, and freed in backward.
        self.freed = [name for name in self.kept if name not in self.returned]

    def forward_peak(self, workspaces):
        """SIZE: above what is there when it begins."""
        graph = self.graph
        program = forward_program(graph, self.saved)
        constant = graph.inputs | set(graph.tangents)
        return Half(graph, program, [], self.saved | self.returned, constant).peak(workspaces)

    def backward_peak(self, workspaces):
        """SIZE: above what is there when it begins, in the order that Inductor estimates to take least."""
        graph, backward = self.graph, Backward(self.graph, self.saved)
        given = [*self.freed, *graph.tangents]
        constant = graph.inputs | self.returned

        def estimate(order):
            half = Half(graph, order, given, graph.gradients, constant | set(graph.tangents))
            return half.peak(workspaces, product=0, in_place=False)

        order = min((backward.program(False), backward.program(True)), key=estimate)
        return Half(graph, order, given, graph.gradients, constant).peak(workspaces)


def predict(graphs, events, optimizer):
    """SIZE: the peak of each half of each graph and of the optimizer; what all graphs keep."""
    workspaces = Workspaces.read(events)
    held = collections.Counter()
    for event in events:
        if event['t'] == 'a' and 'free' not in event:
            held[event['cat']] += event['bytes']
    base = live = sum(held[kind] for kind in ('parameter', 'buffer', 'optimizer_state', 'input'))
    regions = [Region(graph) for graph in graphs]
    # Those of the iteration before stay until forward returns.
    outputs = sum(region.outputs for region in regions)
    peaks = {}
    for number, region in enumerate(regions, 1):
        peaks[f'forward {number}'] = live + outputs + region.forward_peak(workspaces)
        live += sum(region.kept.values())
    returned = []
    for number, region in reversed(list(enumerate(regions, 1))):
        # A later graph returned these gradients already; others are zeros.
        live += sum(length for length in region.tangents if length not in returned)
        peaks[f'backward {number}'] = live + region.backward_peak(workspaces)
        live += sum(region.gradients) - sum(map(region.kept.get, region.freed)) - sum(region.tangents)
        returned = region.gradients
    # The parameters' gradients, and what Adam's kernels over many tensors make of that size.
    copies = 2 if optimizer.lower().startswith('adam') else 1
    peaks['optimizer'] = base + copies * held['parameter'] + outputs
    return peaks, sum(sum(region.kept.values()) for region in regions)


def recorded(events):
    """SIZE: the peak of each phase of the iteration."""
    peaks, live = collections.Counter(), 0
    for event in events:
        if event['t'] == 'a':
            live += event['bytes']
            iteration, _, phase = event['phase'].partition(':')
            if iteration == str(ITERATION):
                peaks[phase] = max(peaks[phase], live)
        elif event['t'] == 'f' and event['alloc'] is not None:
            live -= event['bytes']
    return peaks


def main(arguments):
    """Prints the table."""
    folder = Path(arguments[0])
    truth = Path(arguments[1]) if len(arguments) > 1 else place.FIXTURES / 'compiled/truth.csv'
    with truth.open() as file:
        columns = ('model', 'batch', 'seq', 'settings')
        peaks = {tuple(row[column] for column in columns): int(row['requested_3']) for row in csv.DictReader(file)}
    errors, errors_without = [], []
    print('| run | eager | compiled | change | predicted | error | of forward and backward alone | kept |')
    print('|---|---|---|---|---|---|---|---|')
    for path in sorted(folder.glob('*.jsonl.gz')):
        name = path.name.removesuffix('.jsonl.gz')
        graphs = [Graph.read(graph) for graph in sorted(folder.glob(f'{name}.*.json'))]
        if not graphs:
            print(f'{name}: no graphs', file=sys.stderr)
            continue
        with gzip.open(path, 'rt') as file:
            config, *events = map(json.loads, file)
        config = config['config']
        words = settings.flags(config)
        key = [str(config[column] or '') for column in ('model', 'batch', 'seq')]
        compiled = peaks[*key, ' '.join(words)]
        eager = peaks[*key, ' '.join(words).replace('--compile inductor', '').strip()]
        predicted, kept = predict(graphs, events, config['optimizer'])
        most = max(predicted.values())
        alone = max(peak for phase, peak in predicted.items() if phase != 'optimizer')
        phases = recorded(events)
        alone_recorded = max(phases['forward'], phases['backward'])
        errors.append(most / compiled - 1)
        errors_without.append(alone / alone_recorded - 1)
        cells = [name, f'{eager:,}', f'{compiled:,}', f'{compiled / eager - 1:+.1%}', f'{most:,}']
        cells += [f'{errors[-1]:+.2%}', f'{errors_without[-1]:+.2%}', f'{kept:,}']
        print(f'| {" | ".join(cells)} |')
    for what, found in (('peak', errors), ('forward and backward alone', errors_without)):
        sizes = [abs(error) for error in found]
        if sizes:
            print(f'\n{what}: median {statistics.median(sizes):.2%}, worst {max(sizes):.2%}')


if __name__ == '__main__':
    main(sys.argv[1:])
