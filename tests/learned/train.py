"""Trains the learned estimators: `python train.py FEATURES.csv` (README.md).

Whole families are held out: a family is a module of timm, with all modules that have a model of the same structure.
The weights are whole numbers, parts of 65,536, and all accuracies are those of the rounded weights.
"""

import collections
import csv
import functools
import math
import multiprocessing
import random
import sys
import zlib
from pathlib import Path

import torch
from sklearn.ensemble import RandomForestRegressor
from timm.models._registry import _model_to_module
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / 'fixtures'
MEASURED = FIXTURES / 'measured'
WEIGHTS = HERE.parent.parent / 'core/src/estimators/learned'
MIB = 1 << 20
#: Weights are written as parts of this.
ONE = 1 << 16
KINDS, ACTIVATIONS = 8, 12
CONVOLUTION, LINEAR, BATCH_NORM, OTHER_NORM, DROPOUT, ATTENTION = 0, 1, 2, 3, 6, 7
#: COUNT: layers that the transformer ensemble reads; longer models are cut.
LONGEST = 128
#: Families with results that do not grow with the batch; features are those at the batch of `features.rs`.
UNEVEN = {
    'beit', 'efficientformer', 'levit', 'maxxvit', 'nfnet', 'vision_transformer_hybrid', 'vision_transformer_relpos',
}  # fmt: skip
SEEN_AT = 8
#: For each domain: MiB of a class, MiB where the first begins, classes, and features by place in `numbers`.
DOMAINS = {
    'Perceptron': (1000, 1000, 4, [0, 4, 3, 1, 6, 7, 11, 12]),
    'Convolutional': (8000, 0, 5, [0, 1, 2, 3, 4, 5, 6, 7, 11, 12]),
    'Transformer': (8000, 0, 5, [0, 1, 2, 3, 4, 8, 9, 10, 7]),
}


class Run:
    """One measured run and its features."""

    def __init__(self, seen: dict[str, str], batch: int, mib: int, held_out: bool) -> None:
        self.name, self.domain = seen['model'], seen['domain']
        self.batch, self.mib, self.held_out = batch, mib, held_out
        self.parameters, self.activations, self.inputs, self.activation = (
            int(seen[key]) for key in ('parameters', 'activations', 'inputs', 'activation')
        )
        layers = [layer.split(':') for layer in seen['layers'].split()]
        self.layers = [(int(k), int(o), int(p), [int(s) for s in src.split('+') if s]) for k, o, p, src in layers]

    @functools.cached_property
    def numbers(self) -> list[float]:
        """Features as GPUMemNet lists them, large ones as logarithms."""
        count = collections.Counter(layer[0] for layer in self.layers)
        counts = [
            len(self.layers), self.activations, self.activations * self.batch, self.parameters, self.batch,
            *(count[kind] for kind in (CONVOLUTION, BATCH_NORM, DROPOUT, ATTENTION, LINEAR, OTHER_NORM)),
        ]  # fmt: skip
        angle = math.pi * self.activation / ACTIVATIONS
        return [*(math.log2(1 + n) for n in counts), math.sin(angle), math.cos(angle)]

    def megabytes(self) -> list[int]:
        """SchedTune's features in tenths of a MiB: activations and their gradients, parameters, input."""
        activations, inputs = self.activations * self.batch * 8, self.inputs * self.batch * 4
        return [n * 10 // MIB for n in (activations, self.parameters * 4, inputs)]

    def label(self) -> int:
        size, first, classes, _ = DOMAINS[self.domain]
        return min(max(-(-(self.mib - first) // size) - 1, 0), classes - 1)


def read(path: str) -> tuple[list[Run], list[Run]]:
    """Runs to train and to judge with, and the six CNNs of GPUMemNet's own comparison."""
    lines = [line for line in open(path) if not line.startswith('#')]
    seen = {row['model']: row for row in csv.DictReader(lines)}
    timm = [row for row in csv.DictReader(open(MEASURED / 'timm.csv')) if row['model'] in seen]
    family = families(seen)
    runs = []
    for domain in DOMAINS:
        rows = [row for row in timm if seen[row['model']]['domain'] == domain]
        sizes = collections.Counter(family[row['model']] for row in rows)
        held, so_far = set(), 0
        for name in sorted(sizes, key=lambda name: zlib.crc32(name.encode())):
            if so_far < len(rows) / 3 and sizes[name] < len(rows) / 4:
                held.add(name)
                so_far += sizes[name]
        for row in rows:
            is_held = family[row['model']] in held
            runs.append(Run(seen[row['model']], int(row['batch']), int(row['process']) // MIB, is_held))
    for number, row in enumerate(csv.DictReader(open(MEASURED / 'mlp.csv'))):
        is_held = zlib.crc32(str(number).encode()) % 3 == 0
        if (name := str(number)) in seen:
            runs.append(Run(seen[name], int(row['batch']), int(row['device_mib']), is_held))
    own = [row for row in csv.DictReader(open(MEASURED / 'gpumemnet.csv')) if row['model'] in seen]
    return runs, [Run(seen[row['model']], int(row['batch']), int(row['process']) // MIB, True) for row in own]


def structure(seen: dict[str, str]) -> tuple[str, str]:
    """What two models share that are one network: DeiT-tiny and ViT-tiny."""
    return seen['parameters'], seen['layers']


def families(seen: dict[str, dict[str, str]]) -> dict[str, str]:
    """The family of each model of timm: modules are one family as soon as they share a structure."""
    known = {name: _model_to_module[name] for name in seen if name in _model_to_module}
    joined = {module: module for module in known.values()}
    modules = collections.defaultdict(set)
    for name, module in known.items():
        modules[structure(seen[name])].add(module)
    for shared in modules.values():
        names = {joined[module] for module in shared}
        joined = {module: min(names) if to in names else to for module, to in joined.items()}
    return {name: joined[module] for name, module in known.items()}


def rounded(model: nn.Module) -> None:
    """Makes all weights whole parts of `ONE`."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * ONE).round() / ONE)


def ints(tensor: Tensor) -> str:
    return ' '.join(str(int(n)) for n in (tensor.detach().double() * ONE).round().flatten())


def linears(layer: nn.Linear) -> str:
    """A line: inputs, outputs, the weight by rows, the bias."""
    return f'{layer.in_features} {layer.out_features} {ints(layer.weight)} {ints(layer.bias)}'


class Mlp(nn.Module):
    """Linear, batch normalization and ReLU: the first layer `width` wide, each next half of it, at least 4."""

    def __init__(self, inputs: int, outputs: int, depth: int, width: int = 8) -> None:
        super().__init__()
        widths = [inputs, *(max(width >> at, 4) for at in range(depth))]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(b) for b in widths[1:])
        self.last = nn.Linear(widths[-1], outputs)
        self.folded = False

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.hidden, self.norms):
            x = layer(x) if self.folded else norm(layer(x))
            x = torch.relu(x)
        return self.last(x)

    def fold(self) -> None:
        """Puts the norms into the linear layers."""
        with torch.no_grad():
            for layer, norm in zip(self.hidden, self.norms):
                factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
                layer.bias.copy_((layer.bias - norm.running_mean) * factor + norm.bias)
                layer.weight.mul_(factor[:, None])
        self.norms, self.folded = nn.ModuleList(nn.Identity() for _ in self.hidden), True

    def lines(self) -> list[str]:
        layers = [*self.hidden, self.last]
        return [f'mlp {len(layers)}', *(linears(layer) for layer in layers)]


class Encoder(nn.Module):
    """A layer of a transformer with one head: attention, then two linear layers, each added and normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4), nn.Linear(4, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        scores = scores.masked_fill(~mask[:, None, :], -1e9)
        x = self.first(x + self.o(scores.softmax(-1) @ self.v(x)))
        return self.second(x + self.down(torch.relu(self.up(x))))

    def lines(self) -> list[str]:
        parts = (self.q, self.k, self.v, self.o, self.up, self.down)
        norms = (f'{ints(norm.weight)} {ints(norm.bias)}' for norm in (self.first, self.second))
        return [*(linears(part) for part in parts), *norms]


class Sequence(nn.Module):
    """Two encoders over the layers, summed over these, and a head over the sums and the features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.enter = nn.ModuleList(nn.Linear(KINDS + 2, width) for width in (6, 4))
        self.encoders = nn.ModuleList(
            nn.ModuleList(Encoder(width) for _ in range(depth)) for width, depth in ((6, 3), (4, 2))
        )
        self.heads = nn.ModuleList(Mlp(10 + features, classes, depth) for depth in (1, 2, 3, 4))

    def forward(self, tokens: Tensor, mask: Tensor, which: Tensor, x: Tensor) -> Tensor:
        sums = []
        for enter, encoders in zip(self.enter, self.encoders):
            hidden = enter(tokens)
            for encoder in encoders:
                hidden = encoder(hidden, mask)
            sums.append((hidden * mask[:, :, None]).sum(1) / 64)
        x = torch.cat([torch.cat(sums, 1)[which], x], 1)
        return sum(head(x) for head in self.heads) / len(self.heads)

    def lines(self) -> list[str]:
        lines = []
        for enter, encoders in zip(self.enter, self.encoders):
            lines += [f'encoder {len(encoders)}', linears(enter)]
            lines += [line for encoder in encoders for line in encoder.lines()]
        return lines + [line for head in self.heads for line in head.lines()]


class Graph(nn.Module):
    """Rounds of attention over what each layer reads, the mean over the layers, and a head."""

    WIDTH, ROUNDS = 12, 3

    def __init__(self, features: int) -> None:
        super().__init__()
        width = self.WIDTH
        self.enter = nn.Linear(KINDS + 2, width)
        self.own, self.read = (nn.ModuleList(nn.Linear(width, width) for _ in range(self.ROUNDS)) for _ in range(2))
        self.score = nn.ModuleList(nn.Linear(2 * width, 1) for _ in range(self.ROUNDS))
        self.head, self.last = nn.Linear(width + features, 16), nn.Linear(16, 1)

    def forward(self, nodes: Tensor, edges: Tensor, owner: Tensor, x: Tensor) -> Tensor:
        """`edges`: two columns, the reader and the one that is read; each node reads itself as well."""
        hidden = torch.relu(self.enter(nodes))
        reader, source = edges
        for own, read, score in zip(self.own, self.read, self.score):
            # A bounded score needs no maximum subtracted.
            weight = torch.tanh(score(torch.cat([hidden[reader], hidden[source]], 1))).exp()
            total = torch.zeros(len(hidden), 1, dtype=weight.dtype).index_add(0, reader, weight)
            message = torch.zeros_like(hidden).index_add(0, reader, weight * hidden[source]) / total
            hidden = torch.relu(own(hidden) + read(message))
        count = torch.zeros(len(x), 1, dtype=x.dtype).index_add(0, owner, torch.ones(len(owner), 1, dtype=x.dtype))
        mean = torch.zeros(len(x), self.WIDTH, dtype=x.dtype).index_add(0, owner, hidden) / count
        return self.last(torch.relu(self.head(torch.cat([mean, x], 1))))[:, 0]

    def lines(self) -> list[str]:
        rounds = [linears(part[at]) for at in range(self.ROUNDS) for part in (self.own, self.read, self.score)]
        return [linears(self.enter), f'rounds {self.ROUNDS}', *rounds, linears(self.head), linears(self.last)]


class Scale:
    """Features less their mean, by their spread, both whole parts of `ONE`."""

    def __init__(self, runs: list[Run], chosen: list[int]) -> None:
        self.chosen = chosen
        x = torch.tensor([run.numbers for run in runs], dtype=torch.float64)[:, chosen]
        self.mean = (x.mean(0) * ONE).round() / ONE
        self.factor = (ONE / x.std(0).clamp(min=0.05)).round() / ONE

    def __call__(self, runs: list[Run]) -> Tensor:
        x = torch.tensor([run.numbers for run in runs], dtype=torch.float64)[:, self.chosen]
        return (x - self.mean) * self.factor

    def lines(self) -> list[str]:
        return [' '.join(map(str, self.chosen)), ints(self.mean), ints(self.factor)]


def split(runs: list[Run]) -> tuple[list[Run], list[Run]]:
    """To learn from and to stop by: a seventh of the models."""
    is_stop = lambda run: zlib.crc32(f'stop {run.name}'.encode()) % 7 == 0
    return [run for run in runs if not is_stop(run)], [run for run in runs if is_stop(run)]


def fit(model: nn.Module, loss, learn: list[Run], stop: list[Run], rate: float, most: int) -> None:
    """Adam, eight steps a round, until the loss of `stop` has not become better for 20 rounds."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=1e-4)
    best, kept, since = math.inf, None, 0
    learn, batch = list(learn), -(-len(learn) // 8)
    for _ in range(most):
        model.train()
        random.shuffle(learn)
        for at in range(0, len(learn), batch):
            part = learn[at : at + batch]
            if len(part) < 2:
                continue
            optimizer.zero_grad()
            loss(model, part).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            now = float(loss(model, stop))
        if now < best:
            best, since = now, 0
            kept = {key: value.clone() for key, value in model.state_dict().items()}
        else:
            since += 1
            if since > 20:
                break
    model.load_state_dict(kept)
    model.eval()


def labels(runs: list[Run]) -> Tensor:
    return torch.tensor([run.label() for run in runs])


def upper(run: Run, label: int) -> int:
    """MiB: the upper end of a class."""
    size, first, _, _ = DOMAINS[run.domain]
    return first + (label + 1) * size


def mlp_ensemble(train: dict[str, list[Run]]):
    """GPUMemNet's estimator of perceptrons: 16 of depths 1 to 8, the mean of what they say."""
    lines, models = [], {}
    for domain, runs in train.items():
        size, first, classes, chosen = DOMAINS[domain]
        scale, (learn, stop) = Scale(runs, chosen), split(runs)
        members = []
        for at in range(16):
            member = Mlp(len(chosen), classes, at % 8 + 1).double()
            loss = lambda model, part: nn.functional.cross_entropy(model(scale(part)), labels(part))
            fit(member, loss, learn, stop, 0.02, 60)
            member.fold()
            rounded(member)
            members.append(member)
        lines += [f'domain {domain} {size} {first} {classes}', *scale.lines()]
        lines += [line for member in members for line in member.lines()]
        models[domain] = (scale, members)

    def predict(run: Run) -> int:
        scale, members = models[run.domain]
        with torch.no_grad():
            return upper(run, int(sum(member(scale([run])) for member in members).argmax()))

    return lines, predict


def tokens(run: Run, batch: int = 1) -> Tensor:
    """A row for each layer: its kind, and logarithms of its outputs and parameters."""
    rows = torch.zeros(len(run.layers), KINDS + 2, dtype=torch.float64)
    for row, (kind, outputs, parameters, _) in zip(rows, run.layers):
        row[kind] = 1
        row[KINDS] = math.log2(1 + outputs * batch) / 16
        row[KINDS + 1] = math.log2(1 + parameters) / 16
    return rows


def sequence_batch(runs: list[Run], kept: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The different models of some runs, padded, which layers are there, and the model of each run."""
    names = list(dict.fromkeys(run.name for run in runs))
    by_name = {run.name: run for run in runs}
    rows = []
    for name in names:
        if name not in kept:
            kept[name] = tokens(by_name[name])[:LONGEST]
        rows.append(kept[name])
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(padded.shape[1])[None] < torch.tensor([len(row) for row in rows])[:, None]
    return padded, mask, torch.tensor([names.index(run.name) for run in runs])


def transformer_ensemble(train: dict[str, list[Run]]):
    """GPUMemNet's estimator of transformers."""
    lines, models, kept = [], {}, {}
    for domain, runs in train.items():
        size, first, classes, chosen = DOMAINS[domain]
        scale, (learn, stop) = Scale(runs, chosen), split(runs)
        model = Sequence(len(chosen), classes).double()
        loss = lambda model, part: nn.functional.cross_entropy(
            model(*sequence_batch(part, kept), scale(part)), labels(part)
        )
        fit(model, loss, learn, stop, 0.01, 50)
        for head in model.heads:
            head.fold()
        rounded(model)
        lines += [f'domain {domain} {size} {first} {classes}', *scale.lines(), *model.lines()]
        models[domain] = (scale, model)

    def predict(run: Run) -> int:
        scale, model = models[run.domain]
        with torch.no_grad():
            return upper(run, int(model(*sequence_batch([run], kept), scale([run])).argmax()))

    return lines, predict


def graphs(runs: list[Run], kept: dict) -> tuple[Tensor, Tensor, Tensor]:
    """The graphs of some runs as one."""
    nodes, edges, owner, so_far = [], [], [], 0
    for at, run in enumerate(runs):
        if (run.name, run.batch) not in kept:
            pairs = [(i, j) for i, layer in enumerate(run.layers) for j in [*layer[3], i]]
            kept[run.name, run.batch] = tokens(run, run.batch), torch.tensor(pairs).T
        rows, pairs = kept[run.name, run.batch]
        nodes.append(rows)
        edges.append(pairs + so_far)
        owner.append(torch.full((len(rows),), at))
        so_far += len(rows)
    return torch.cat(nodes), torch.cat(edges, 1), torch.cat(owner)


def graph_network(train: list[Run]):
    """DNNPerf, small: the logarithm of the memory."""
    kept: dict = {}
    scale, (learn, stop) = Scale(train, [0, 1, 2, 3, 4]), split(train)
    middle = 11.5
    model = Graph(5).double()

    def loss(model: nn.Module, part: list[Run]) -> Tensor:
        truth = torch.tensor([math.log2(run.mib) - middle for run in part], dtype=torch.float64)
        return nn.functional.smooth_l1_loss(model(*graphs(part, kept), scale(part)), truth, beta=0.1)

    fit(model, loss, learn, stop, 0.005, 100)
    rounded(model)

    def predict(run: Run) -> int:
        with torch.no_grad():
            return round(2 ** (float(model(*graphs([run], kept), scale([run]))[0]) + middle))

    return [f'middle {int(middle * ONE)}', *scale.lines(), *model.lines()], predict


def forest(train: list[Run]):
    """SchedTune: a random forest. A line is a tree in preorder: `a12` asks whether a feature is at most 12."""
    model = RandomForestRegressor(40, min_samples_leaf=2, random_state=0, max_features=2)
    model.fit([run.megabytes() for run in train], [run.mib for run in train])
    lines = []
    for tree in (one.tree_ for one in model.estimators_):
        words, todo = [], [0]
        while todo:
            node = todo.pop()
            if tree.children_left[node] < 0:
                words.append(f'={round(tree.value[node].item())}')
            else:
                words.append(f'{"abc"[tree.feature[node]]}{math.floor(tree.threshold[node])}')
                todo += [tree.children_right[node], tree.children_left[node]]
        lines.append(' '.join(words))

    def leaf(words: list[str], features: list[int]) -> int:
        at = 0
        while not words[at].startswith('='):
            is_left = features['abc'.index(words[at][0])] <= int(words[at][1:])
            at += 1
            missing = 0 if is_left else 1
            while missing:
                missing += -1 if words[at].startswith('=') else 1
                at += 1
        return int(words[at][1:])

    split_lines = [line.split() for line in lines]

    def predict(run: Run) -> int:
        return sum(leaf(words, run.megabytes()) for words in split_lines) // len(split_lines)

    return lines, predict


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def judged(name: str, predict, groups: dict[str, list[Run]], is_class: bool) -> list[str]:
    """Lines about an estimator: errors, and accuracy and confusion of classes."""
    lines = [f'{name}']
    for group, runs in groups.items():
        said = [predict(run) for run in runs]
        errors = [abs(mib - run.mib) / run.mib for mib, run in zip(said, runs)]
        under = sum(mib < run.mib for mib, run in zip(said, runs)) / len(runs)
        text = f'  {group:32} {len(runs):5} runs  median {median(errors):6.1%}  under {under:6.1%}'
        if is_class:
            label = lambda run, mib: (mib - DOMAINS[run.domain][1]) // DOMAINS[run.domain][0] - 1
            pairs = collections.Counter((run.label(), label(run, mib)) for run, mib in zip(runs, said))
            right = sum(count for (a, b), count in pairs.items() if a == b) / len(runs)
            lines.append(f'{text}  accuracy {right:6.1%}')
            if 'held out' in group or 'own' in group:
                classes = DOMAINS[runs[0].domain][2]
                lines += [
                    f'    true class {a}: ' + ' '.join(f'{pairs[a, b]:4}' for b in range(classes))
                    for a in range(classes)
                    if any(pairs[a, b] for b in range(classes))
                ]
        else:
            lines.append(text)
    return lines


MAKERS = {
    'schedtune': lambda by_domain, fewer: forest(fewer),
    'gpumemnet-mlp': lambda by_domain, fewer: mlp_ensemble(by_domain),
    'gpumemnet-transformer': lambda by_domain, fewer: transformer_ensemble(by_domain),
    'dnnperf': lambda by_domain, fewer: graph_network(fewer),
}


def made(path: str, name: str) -> tuple[list[str], list[str]]:
    """Trains one and writes its weights; what is to report, and predictions for the sample."""
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    runs, own = read(path)
    train = [run for run in runs if not run.held_out]
    by_domain = {domain: [run for run in train if run.domain == domain] for domain in DOMAINS}
    # A quarter of the perceptrons is enough for what answers for all domains.
    fewer = [run for at, run in enumerate(train) if run.domain != 'Perceptron' or at % 4 == 0]
    groups = {}
    for domain in DOMAINS:
        groups[f'{domain}, held out'] = [run for run in runs if run.domain == domain and run.held_out]
        groups[f'{domain}, learned'] = by_domain[domain]
    groups['own six CNNs'] = own
    lines, predict = MAKERS[name](by_domain, fewer)
    head = '// Written by tests/learned/train.py; its README describes the format.'
    (WEIGHTS / f'{name}.txt').write_text('\n'.join([head, *lines]) + '\n')
    report = judged(name, predict, groups, name.startswith('gpumemnet'))
    print('\n'.join(report), flush=True)
    return report, [str(predict(run)) for run in sample(runs, own)]


def sample(runs: list[Run], own: list[Run]) -> list[Run]:
    """Runs that a test predicts again: one each of some models."""
    chosen = [run for run in runs if run.domain != 'Perceptron'][::11] + own[::3]
    is_even = lambda run: run.batch == SEEN_AT or _model_to_module.get(run.name) not in UNEVEN
    return list({run.name: run for run in chosen if is_even(run)}.values())


def main() -> None:
    path, *wanted = sys.argv[1:]
    names = wanted or list(MAKERS)
    with multiprocessing.Pool(len(names)) as pool:
        answers = pool.starmap(made, [(path, name) for name in names])
    if wanted:
        return
    runs, own = read(path)
    families = sorted({_model_to_module[run.name] for run in runs if run.held_out and run.domain != 'Perceptron'})
    text = [f'Held out: a third of the perceptrons, and these families of timm: {", ".join(families)}.']
    text += [line for report, _ in answers for line in ['', *report]]
    (HERE / 'results.txt').write_text('\n'.join(text) + '\n')
    rows = zip(sample(runs, own), *(said for _, said in answers))
    table = [','.join(['model', 'batch', *names])]
    table += [','.join([run.name, str(run.batch), *said]) for run, *said in rows]
    (FIXTURES / 'learned/predictions.csv').write_text('\n'.join(table) + '\n')


if __name__ == '__main__':
    main()
