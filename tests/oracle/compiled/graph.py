"""A joint graph as a planner of memory sees it: each operator has a class, operators of several classes are split.

| class | meaning |
|---|---|
| `input` | a parameter, a tensor of the batch, or an incoming gradient |
| `view` | no memory of its own: its operand's stays |
| `part` | one of several results |
| `point` | fused into its readers; it has memory only where a solid operator reads it, or it is kept |
| `small` | a reduction: it has memory, and reads fused operands |
| `solid` | a kernel of its own: its result and all operands have memory; never recomputed |

What no incoming gradient reaches is `forward`, which backward may compute again; of this, what forward's outputs are
made of is `required`.
"""

import collections
import functools
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

#: Products of matrices: each call has a workspace of cuBLAS.
PRODUCTS = {'mm', 'bmm', 'addmm', 'baddbmm'}
VIEWS = set(
    """
    view _unsafe_view reshape permute t transpose expand slice select split split_with_sizes squeeze unsqueeze
    as_strided alias detach unbind
    """.split()
)
SMALL = set(
    """
    sum mean amax amin var var_mean any argmax
    avg_pool2d_backward _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward
    """.split()
)
#: These write into an operand that nobody reads later.
IN_PLACE = {'scatter', 'scatter_add', 'index_put', '_unsafe_index_put', '_unsafe_masked_index_put_accumulate'}
SOLID = PRODUCTS | IN_PLACE | set(
    """
    convolution convolution_backward embedding_dense_backward cumsum cat sort topk
    avg_pool2d _adaptive_avg_pool2d max_pool2d_with_offsets
    """.split()
)
#: Random numbers, gathers and copies in another layout are computed once, and not fused by the cut.
ONCE = {'random', 'embedding', 'channels_last'}
#: Further random numbers: computed once.
RANDOM = {'rand', 'randint', 'bernoulli'}


@dataclass(eq=False)
class Node:
    """A call, or an input where `operator` is missing."""

    name: str
    operator: str | None
    operands: list[str]
    #: A tensor, a list of tensors, or nothing.
    makes: dict | list | None
    #: Which part of the operand's results, in a `getitem`.
    index: int | None = None

    @property
    def bytes(self):
        """SIZE: of all that it makes."""
        return size(self.makes)


def size(made):
    """SIZE: of a tensor, of several, or of none."""
    if isinstance(made, list):
        return sum(map(size, made))
    return made['bytes'] if made else 0


def statistic(length):
    """A tensor of so many bytes whose shape does not matter."""
    return dict(shape=[max(1, length // 4)], stride=[1], dtype='float32', bytes=length)


def is_norm(operator):
    """Layer, batch, group or RMS norm, forward."""
    return bool(re.search(r'_(layer|batch|group|rms)_norm', operator)) and 'backward' not in operator


def is_norm_backward(operator):
    """The gradients of such a norm."""
    return 'norm_backward' in operator


def split(nodes):
    """The nodes with those split that are of several classes: a statistic and what is computed with it, a mask and
    what it selects."""
    named = {node.name: node for node in nodes}
    masks = set()
    for node in nodes:
        operator = node.operator or ''
        if operator == 'getitem':
            yield from part(node, named[node.operands[0]], masks)
        elif is_norm(operator) or is_norm_backward(operator) or operator == 'nll_loss_forward':
            pass  # Its parts are nodes.
        elif operator == 'native_dropout':
            yield Node(f'{node.name}_random', 'random', [], statistic(size(node.makes[0])))
        elif operator in ('_softmax', '_log_softmax'):
            # The largest of each row, and the sum.
            rows = statistic(2 * (node.bytes // max(1, node.makes['shape'][-1])))
            yield Node(f'{node.name}_rows', 'amax', node.operands, rows)
            yield replace(node, operator='point', operands=[*node.operands, f'{node.name}_rows'])
        elif operator in ('threshold_backward', 'hardtanh_backward'):
            # The mask of where the gradient passes, from the input or the result.
            *gradient, saved = node.operands
            mask = named[saved].makes
            mask = dict(mask, dtype='bool', bytes=mask['bytes'] // (4 if mask['dtype'] == 'float32' else 2))
            yield Node(f'{node.name}_mask', 'le', [saved], mask)
            yield replace(node, operator='point', operands=[*gradient, f'{node.name}_mask'])
        elif operator == 'max_pool2d_with_indices':
            yield replace(node, operator='max_pool2d_with_offsets', makes=[node.makes[0], offsets(node.makes[1])])
        elif operator == 'max_pool2d_with_indices_backward':
            zeros, filled = f'{node.name}_zeros', f'{node.name}_filled'
            yield Node(zeros, 'full', [], node.makes)
            yield Node(filled, 'scatter_add', [zeros, node.operands[0], node.operands[-1]], node.makes)
            yield replace(node, operator='point', operands=[filled])
        elif operator == 'embedding_dense_backward' and node.makes['dtype'] != 'float32':
            # Added up in single precision, then cast.
            single = dict(node.makes, dtype='float32', bytes=2 * node.bytes)
            yield replace(node, name=f'{node.name}_sum', makes=single)
            yield replace(node, operator='point', operands=[f'{node.name}_sum'])
        else:
            yield node


def part(node, parent, masks):
    """What stands for one result of an operator with several."""
    operator = parent.operator
    first = node.index == 0
    if is_norm(operator) and first:
        rows = max([size(made) for made in parent.makes[1:] if made] or [4])
        yield Node(f'{node.name}_rows', 'mean', parent.operands[:1], statistic(rows))
        yield replace(node, operator='point', operands=[*parent.operands, f'{node.name}_rows'])
    elif is_norm(operator):
        # A statistic; without a size there is none.
        made = ('mean', parent.operands[:1]) if node.bytes else ('none', [])
        yield replace(node, operator=made[0], operands=made[1])
    elif operator == 'nll_loss_forward':
        yield replace(node, operator='sum', operands=parent.operands)
    elif is_norm_backward(operator):
        yield replace(node, operator='point' if first else 'sum', operands=parent.operands)
    elif operator == 'native_dropout':
        mask = f'{parent.name}_mask'
        if mask not in masks:
            masks.add(mask)
            yield Node(mask, 'gt', [f'{parent.name}_random'], next(made for made in parent.makes[1:] if made))
        operands = [*parent.operands, mask] if first else [mask]
        yield replace(node, operator='point' if first else 'alias', operands=operands)
    elif operator == 'max_pool2d_with_indices' and node.index == 1:
        yield replace(node, makes=offsets(node.makes))
    else:
        yield node


def offsets(indices):
    """Inductor's small offsets in a window instead of indices of eight bytes."""
    return dict(indices, dtype='int8', bytes=indices['bytes'] // 8)


def in_channels_last(nodes):
    """The nodes with copies of images and weights for convolutions, which Inductor runs in channels last."""
    named = {node.name: node for node in nodes}
    convolutions = [node for node in nodes if node.operator == 'convolution']
    calls = [node for node in nodes if node.operator in ('convolution', 'convolution_backward')]
    # A joint graph has both halves.
    if not calls or len(nodes) >= 2 * 300 * len(calls):
        return nodes
    shapes = [[named[operand].makes['shape'] for operand in node.operands[:2]] for node in convolutions]
    for image, (out, channels, *window) in shapes:
        if channels > 1 and image[1] != channels or out * 2 <= channels and window[0] > 1:
            return nodes
    if all(out <= 64 and channels <= 64 for _, (out, channels, *_) in shapes):
        return nodes
    copies = {}
    for node in convolutions:
        for operand in node.operands[:2]:
            tensor = named[operand].makes
            shape = tensor['shape']
            is_image = len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1
            if not named[operand].operator and is_image and tensor['stride'][1] != 1:
                copies[operand] = f'{operand}_channels_last'
    answer = []
    for node in nodes:
        if node in calls:
            node = replace(node, operands=[copies.get(operand, operand) for operand in node.operands])
        answer.append(node)
        if node.name in copies:
            answer.append(Node(copies[node.name], 'channels_last', [node.name], node.makes))
    return answer


@dataclass(eq=False)
class Graph:
    """A joint graph with what follows from the classes."""

    nodes: list[Node]
    #: By name: what forward returns, and the gradients that backward returns.
    outputs: list[str]
    gradients: list[str]
    named: dict[str, Node] = field(init=False)
    users: dict[str, list[str]] = field(init=False)
    #: What no incoming gradient reaches; of this, what forward's outputs are made of.
    forward: set[str] = field(init=False)
    required: set[str] = field(init=False)

    def __post_init__(self):
        self.nodes = in_channels_last(list(split(self.nodes)))
        self.named = {node.name: node for node in self.nodes}
        self.users = collections.defaultdict(list)
        for node in self.nodes:
            for operand in node.operands:
                self.users[operand].append(node.name)
        reached = set()
        for node in self.nodes:
            if node.name.startswith('tangents') or any(operand in reached for operand in node.operands):
                reached.add(node.name)
        self.forward = set(self.named) - reached
        copies = {node.name for node in self.nodes if node.operator == 'channels_last'}
        self.required = self.made_of(self.outputs) | copies

    @classmethod
    def read(cls, path):
        """A graph that `joint.py` wrote."""
        graph = json.loads(Path(path).read_text())
        nodes = [Node(**node) for node in graph['nodes']]
        return cls(nodes, *([name for name in graph[key] if name] for key in ('outputs', 'gradients')))

    def made_of(self, names, known=()):
        """Names, and all that they are made of; what is known is not followed."""
        answer, open_names = set(), list(names)
        while open_names:
            name = open_names.pop()
            if name not in answer:
                answer.add(name)
                if name not in known:
                    open_names += self.named[name].operands
        return answer

    @functools.cached_property
    def tangents(self):
        """Incoming gradients."""
        return [node.name for node in self.nodes if node.name.startswith('tangents')]

    @functools.cached_property
    def inputs(self):
        """Parameters, and tensors of the batch."""
        return {node.name for node in self.nodes if not node.operator} - set(self.tangents)

    def bytes(self, name):
        """SIZE: of the memory behind a name."""
        return self.named[self.root(name)].bytes

    def root(self, name):
        """Whose memory it is."""
        while self.kind(name) == 'view':
            name = self.named[name].operands[0]
        return name

    def is_view(self, node):
        """Whether it makes no memory; a copy that changes nothing is left out."""
        if node.operator == 'clone':
            before = self.named[node.operands[0]].makes
            return all(before[key] == node.makes[key] for key in ('stride', 'dtype'))
        whole = self.named[node.operands[0]] if node.operator == 'getitem' else node
        return whole.operator in VIEWS

    @functools.cache
    def kind(self, name):
        """Its class."""
        node = self.named[name]
        if not node.operator:
            return 'input'
        if self.is_view(node):
            return 'view'
        if node.operator == 'getitem':
            return 'part'
        if node.operator in SMALL:
            return 'small'
        is_solid = node.operator in SOLID or 'attention' in node.operator or isinstance(node.makes, list)
        return 'solid' if is_solid or self.is_sum_of_products(node) else 'point'

    def is_sum_of_products(self, node):
        """A product that is added to another gradient of the same parameter is one `addmm`."""
        made = (self.named[self.root(operand)].operator for operand in node.operands)
        return node.operator == 'add' and node.name in self.gradients and 'mm' in made

    def readers(self, name):
        """Users, through views."""
        answer, open_names = [], list(self.users[name])
        while open_names:
            user = open_names.pop()
            if self.kind(user) == 'view':
                open_names += self.users[user]
            else:
                answer.append(user)
        return answer

    def must_have(self, name):
        """Whether an operator needs its operands in memory; a concatenation is written by its operands' kernels."""
        return self.kind(name) == 'solid' and self.named[name].operator != 'cat'

    def is_banned(self, name):
        """Whether backward must not compute it again."""
        node = self.named[name]
        kind = self.kind(name)
        if kind == 'part':
            return self.is_banned(node.operands[0])
        if kind == 'input' or name not in self.required:
            return kind == 'input'
        if kind == 'solid' or node.operator in ONCE | RANDOM:
            return True
        if kind != 'view' and 4 * node.bytes < sum(self.named[operand].bytes for operand in node.operands):
            return True
        return any(user not in self.forward and self.must_have(user) for user in self.readers(name))
