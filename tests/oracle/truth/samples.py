"""A few samples of every module and operator in PyTorch's own test suite, made larger.

`module_db` and `op_db` of `torch.testing._internal` list what PyTorch ships, with arguments that are valid. Of an
entry's samples those are taken that differ most in their arguments, tensors' values left aside. A size that
occurs in several places is enlarged in all of them, because it usually means one thing; where that is not valid,
a single size is enlarged, and where nothing is, the sample stays as it is.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils import _pytree as pytree

from truth import export

#: COUNT: samples of an entry that are looked at, and those of a module and of an operator that are taken.
LOOKED_AT, TAKEN = 300, (4, 3)
#: COUNT: elements of the largest tensor, about, and of any result at most.
ELEMENTS, MOST = 100_000, 4_000_000
FORMATS = ('train', 'eval', 'dynamo', 'pt2')
#: Largest and smallest factor of a size; odd, so that few tensors are whole blocks of 512 bytes.
FACTORS = (301, 3)


@dataclass(frozen=True)
class Entry:
    """A module or an operator."""

    name: str
    info: Any
    is_module: bool


@dataclass
class Sample:
    """One call of an entry: what is called, and its arguments as leaves of a tree."""

    entry: Entry
    call: Any
    leaves: list[Any]
    tree: pytree.TreeSpec
    #: Leaves that are tensors with a gradient, and all that are tensors.
    trained: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    #: Whether the operator overwrites its first argument.
    in_place: bool = False
    #: Formats that can tell what it does.
    formats: tuple[str, ...] = FORMATS
    scaled: bool = False
    about: str = ''
    #: Which leaves of the result have a gradient.
    outputs: list[int] = field(default_factory=list)


class Unusable(Exception):
    """No sample, or none that runs on the CPU."""


def entries() -> list[Entry]:
    """All that can be differentiated, by name."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    found = [Entry(info.name, info, True) for info in module_db]
    for info in op_db:
        if info.supports_autograd and torch.float32 in info.supported_dtypes('cuda'):
            name = f'{info.name}.{info.variant_test_name}' if info.variant_test_name else info.name
            found.append(Entry(name, info, False))
    found += [Entry(info.name, info, False) for info in functions()]
    unique: dict[str, Entry] = {}
    for entry in sorted(found, key=lambda entry: (not entry.is_module, entry.name)):
        unique.setdefault(entry.name, entry)
    return list(unique.values())


@dataclass(frozen=True)
class Function:
    """A function that the lists lack: its name, itself, and what it is called with."""

    name: str
    op: Callable[..., Any]
    calls: Sequence[tuple[tuple, dict[str, Any]]]
    inplace_variant = None

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool) -> Iterator[SampleInput]:
        """Its calls; tensors of floats have a gradient unless they say otherwise."""
        for args, kwargs in self.calls:
            yield SampleInput(args[0], args=args[1:], kwargs=kwargs)


def functions() -> list[Function]:
    """What exporters write as one operator of ONNX."""
    from torchvision import ops

    def given(*sizes: int) -> Tensor:
        return torch.rand(sizes, requires_grad=True)

    boxes = torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0], [1.0, 2.0, 1.0, 9.0, 8.0], [0.0, 3.0, 3.0, 6.0, 9.0]])
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
    kernel = nn.functional
    offsets = (given(2, 4, 8, 8), given(2, 18, 6, 6), given(6, 4, 3, 3))
    return [
        Function('nn.functional.affine_grid', kernel.affine_grid, [
            ((given(2, 2, 3), [2, 3, 14, 15]), {'align_corners': False}),
            ((given(2, 2, 3), [2, 3, 14, 15]), {'align_corners': True}),
            ((given(2, 3, 4), [2, 3, 7, 8, 9]), {'align_corners': False}),
        ]),
        Function('nn.functional.fold', kernel.fold, [
            ((given(2, 12, 30), (6, 7)), {'kernel_size': (2, 2)}),
            ((given(2, 12, 6), (8, 10)), {'kernel_size': (2, 2), 'stride': 4}),
            ((given(12, 30), (6, 7)), {'kernel_size': (2, 2)}),
        ]),
        Function('fake_quantize_per_tensor_affine', torch.fake_quantize_per_tensor_affine, [
            ((given(3, 4, 5), 0.1, 3, -128, 127), {}),
            ((given(4, 5), torch.tensor(0.1), torch.tensor(3, dtype=torch.int32), 0, 255), {}),
        ]),
        Function('fake_quantize_per_channel_affine', torch.fake_quantize_per_channel_affine, [
            ((given(4, 3, 5), scales, zeros, 1, -128, 127), {}),
        ]),
        Function('_weight_norm', torch._weight_norm, [
            ((given(6, 4, 3, 3), given(6, 1, 1, 1)), {}),
            ((given(4, 6, 3), given(1, 1, 3), 2), {}),
            ((given(4, 6, 3, 2), given(1, 6, 1, 1), 1), {}),
            ((given(5, 4), given(), -1), {}),
        ]),
        Function('torchvision.roi_align', ops.roi_align, [
            ((given(2, 3, 12, 12), boxes), {'output_size': (5, 6), 'sampling_ratio': 2}),
            ((given(2, 3, 12, 12), boxes), {'output_size': 4, 'spatial_scale': 0.5, 'aligned': True}),
        ]),
        Function('torchvision.deform_conv2d', ops.deform_conv2d, [
            ((*offsets, given(6)), {'mask': given(2, 9, 6, 6)}),
            ((given(2, 4, 8, 8), given(2, 36, 6, 6), given(6, 2, 3, 3)), {}),
            (offsets, {}),
        ]),
    ]


def of(entry: Entry) -> Iterator[Sample]:
    """The samples of an entry that are taken, larger if that is valid, then one that is in place."""
    torch.manual_seed(0)
    taken = choose(list(itertools.islice(candidates(entry), LOOKED_AT)))
    base = None
    for sample in taken:
        larger = enlarge(sample)
        if larger is None:
            continue
        larger.about = describe(larger)
        base = base or larger
        yield larger
    if base is None:
        raise Unusable('no sample runs')
    if (overwriting := in_place(base)) is not None:
        yield overwriting


def candidates(entry: Entry) -> Iterator[Sample]:
    """All samples, as trees."""
    if entry.is_module:
        inputs = entry.info.module_inputs_func(
            entry.info, device='cpu', dtype=torch.float32, requires_grad=True, training=True
        )
        for given in inputs:
            if given.forward_input is None:
                continue
            made = given.constructor_input
            torch.manual_seed(0)
            module = entry.info.module_cls(*made.args, **made.kwargs)
            # The constructor's arguments tell samples apart as the operator's do.
            words = [repr(value) for value in made.args if not torch.is_tensor(value)]
            words += [f'{key}={value!r}' for key, value in made.kwargs.items()]
            arguments = (given.forward_input.args, given.forward_input.kwargs)
            yield sample_of(entry, module, arguments, ', '.join(words))
        return
    for given in entry.info.sample_inputs('cpu', torch.float32, requires_grad=True):
        yield sample_of(entry, entry.info.op, ((given.input, *given.args), given.kwargs), '')


def sample_of(entry: Entry, call: Any, arguments: tuple, about: str) -> Sample:
    """The arguments as leaves; tensors are plain ones from here on."""
    leaves, tree = pytree.tree_flatten(arguments)
    sample = Sample(entry, call, leaves, tree, about=about)
    for index, leaf in enumerate(leaves):
        if torch.is_tensor(leaf):
            sample.tensors.append(index)
            # A number by itself is no parameter of models, and exporters take one for a constant.
            if leaf.requires_grad and leaf.is_floating_point() and leaf.dim() > 0:
                sample.trained.append(index)
            leaves[index] = leaf.detach().clone().contiguous()
    return sample


def is_plain(sample: Sample) -> bool:
    """Whether tensors are dense, real and not empty, and one has a gradient or the module has parameters."""
    dense = all(
        sample.leaves[index].layout == torch.strided
        and not sample.leaves[index].is_complex()
        and sample.leaves[index].numel() > 0
        for index in sample.tensors
    )
    trains = bool(sample.trained)
    if isinstance(sample.call, nn.Module):
        trains |= any(True for _ in sample.call.parameters())
    return dense and trains


def features(sample: Sample) -> set[str]:
    """What tells samples apart: argument by argument, and the tensors' ranks."""
    found = {f'call {sample.about}'}
    for path, leaf in zip(paths(sample), sample.leaves):
        if torch.is_tensor(leaf):
            found.add(f'{path} {leaf.dtype} {leaf.dim()}')
        else:
            found.add(f'{path} {leaf!r}')
    return found


def paths(sample: Sample) -> list[str]:
    """Of each leaf, where it stands in the arguments."""
    whole = pytree.tree_unflatten(list(range(len(sample.leaves))), sample.tree)
    return [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(whole)[0]]


def choose(found: list[Sample]) -> list[Sample]:
    """Those that show the most features that none before has; among equals the largest tensors."""
    found = [sample for sample in found if is_plain(sample)]
    chosen: list[Sample] = []
    seen: set[str] = set()
    told = [(features(sample), sample) for sample in found]
    while told and len(chosen) < TAKEN[not told[0][1].entry.is_module]:
        best = max(
            range(len(told)),
            key=lambda at: (len(told[at][0] - seen), rank(told[at][1]), -at),
        )
        shown, sample = told.pop(best)
        if chosen and not shown - seen:
            break
        seen |= shown
        chosen.append(sample)
    return chosen


def rank(sample: Sample) -> int:
    """The most dimensions, and no more than four: those are what models have."""
    return max((min(sample.leaves[index].dim(), 4) for index in sample.tensors), default=0)


def enlarge(sample: Sample) -> Sample | None:
    """The largest that runs, forward and backward; `None` where not even the sample itself does."""
    for picks in ways(sample):
        for limit in (ELEMENTS, ELEMENTS // 8):
            larger = apply(sample, picks, limit)
            if larger is not None and runs(larger):
                return larger
    return sample if runs(sample) else None


#: Which dimensions are enlarged: leaf, dimension and size.
Picks = Callable[[int, int, int], bool]


def ways(sample: Sample) -> Iterator[Picks]:
    """Every size; the batch; one size after the other."""
    shapes = [(index, tuple(sample.leaves[index].shape)) for index in sample.tensors]
    sizes = [size for _, shape in shapes for size in shape if size > 1]
    if not sizes:
        return
    first = shapes[0][0]
    if sample.entry.name in ('nn.RNN', 'nn.GRU', 'nn.LSTM'):
        # The batch; `torch.export` unrolls the steps of a sequence.
        yield lambda leaf, dim, size: dim == 1 and sample.leaves[leaf].dim() == 3
        return
    if 'onv' in sample.entry.name:
        # A large kernel is no convolution that anybody has, and slow.
        yield lambda leaf, dim, size: leaf == first and dim == 0
        return
    spatial = any(word in sample.entry.name for word in ('ool', 'old', 'interp', 'Upsam', 'ad', 'grid'))
    batch: list[Picks] = [lambda leaf, dim, size: leaf == first and dim == 0]
    everything: list[Picks] = [lambda leaf, dim, size: size > 1]
    yield from batch + everything if spatial else everything + batch
    yield lambda leaf, dim, size: dim == 0
    for one in dict.fromkeys(sizes):
        yield lambda leaf, dim, size, one=one: size == one


def apply(sample: Sample, picks: Picks, limit: int) -> Sample | None:
    """The picked dimensions, all by one factor, so that sums and multiples of sizes stay what they are."""
    most, factor = 0, FACTORS[0]
    for index in sample.tensors:
        shape = sample.leaves[index].shape
        count = sum(picks(index, dim, size) for dim, size in enumerate(shape))
        most = max(most, count)
        if count:
            while factor > 1 and sample.leaves[index].numel() * factor**count > limit:
                factor -= 2
    if not most or factor < FACTORS[1]:
        return None
    larger = Sample(**{**vars(sample), 'leaves': list(sample.leaves), 'scaled': True})
    for index in sample.tensors:
        tensor = sample.leaves[index]
        times = [factor if picks(index, dim, size) else 1 for dim, size in enumerate(tensor.shape)]
        larger.leaves[index] = tensor.repeat(times) if times else tensor
    return larger


def runs(sample: Sample) -> bool:
    """Whether forward and backward run on the CPU, with a gradient for at least one tensor."""
    try:
        model = One(sample)
        results = pytree.tree_leaves(model.run(batch(sample)))
        sample.outputs = [at for at, result in enumerate(results) if has_gradient(result)]
        if not sample.outputs or any(results[at].numel() > MOST for at in sample.outputs):
            return False
        model = One(sample)
        model(*batch(sample)).sum().backward()
    except Exception:  # Whatever an operator throws: this sample is not valid.
        return False
    return any(parameter.grad is not None for parameter in model.parameters())


def in_place(sample: Sample) -> Sample | None:
    """The same with the result in the place of the input, by a flag or as a method."""
    call, name = sample.call, sample.entry.name
    formats = FORMATS
    if sample.entry.is_module:
        if getattr(call, 'inplace', None) is not False:
            return None
        overwriting = deepcopy(call)
        overwriting.inplace = True
    elif name.startswith('nn.functional.'):
        function = getattr(nn.functional, name.split('.')[2], None)
        if function is None or 'inplace' not in getattr(function, '__code__', RUN_CODE).co_varnames:
            return None
        overwriting = Flagged(function)
    else:
        overwriting = sample.entry.info.inplace_variant
        if overwriting is None:
            return None
        # ONNX has no operators in place, and the setting is for activations.
        formats = ('pt2',)
    changed = Sample(**{**vars(sample), 'call': overwriting, 'in_place': True, 'formats': formats})
    changed.about = f'{sample.about}, in place'
    return changed if 0 in sample.trained and runs(changed) else None


RUN_CODE = runs.__code__


class Flagged:
    """A function of `nn.functional` with `inplace=True`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.function(*given, **{**named, 'inplace': True})


def describe(sample: Sample) -> str:
    """Arguments in short, a star at those with a gradient."""
    words = [f'[{sample.about}]'] if sample.about else []
    args, kwargs = pytree.tree_unflatten(
        [Word(word(sample, index)) for index in range(len(sample.leaves))], sample.tree
    )
    words += [str(value) for value in args]
    words += [f'{key}={value}' for key, value in kwargs.items()]
    return ', '.join(words)[:200]


class Word(str):
    """Printed without quotation marks, in lists too."""

    __repr__ = str.__str__


def word(sample: Sample, index: int) -> str:
    """A leaf."""
    leaf = sample.leaves[index]
    if not torch.is_tensor(leaf):
        text = repr(leaf)
        return text if ' at 0x' not in text else type(leaf).__name__
    kind = {torch.float32: 'f32', torch.int64: 'i64', torch.bool: 'bool'}.get(leaf.dtype, str(leaf.dtype))
    return f'{kind}{"x".join(map(str, leaf.shape)) or "()"}{"*" * (index in sample.trained)}'


def batch(sample: Sample) -> list[Tensor]:
    """The model's inputs."""
    return [sample.leaves[index] for index in sample.tensors]


class One(nn.Module):
    """A model of one operator.

    What has a gradient is the input plus a parameter: addition saves nothing, and so the operator's input is no
    leaf, and nobody else holds it. The result is scaled, for the same reason.
    """

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        torch.manual_seed(1)
        if isinstance(sample.call, nn.Module):
            self.op = deepcopy(sample.call)
            export.fill(self.op)
        else:
            self.call = [sample.call]
        self.leaves = [None if torch.is_tensor(leaf) else leaf for leaf in sample.leaves]
        self.tree, self.tensors, self.outputs = sample.tree, sample.tensors, sample.outputs
        #: Of each input, which parameter is added.
        self.added = {at: number for number, at in enumerate(sample.trained)}
        # Small, for functions of a narrow domain, and different, because exporters merge what is the same.
        self.p = nn.ParameterList(
            [torch.rand_like(sample.leaves[index]) * 1e-6 for index in sample.trained]
        )

    def forward(self, *inputs: Tensor) -> Any:
        results = pytree.tree_leaves(self.run(inputs))
        outputs = [results[at] for at in self.outputs]
        del results, inputs
        if len(outputs) == 1:
            return real(outputs.pop()) * 2
        # All of them take part in the loss.
        total = (real(outputs.pop(0)) * 2).sum()
        while outputs:
            total = total + (real(outputs.pop(0)) * 2).sum()
        return total

    def run(self, inputs: Sequence[Tensor]) -> Any:
        """The operator."""
        leaves = list(self.leaves)
        for index, given in zip(self.tensors, inputs):
            number = self.added.get(index)
            leaves[index] = given if number is None else given + self.p[number]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        del leaves, inputs
        return (self.op if hasattr(self, 'op') else self.call[0])(*args, **kwargs)


def has_gradient(result: Any) -> bool:
    """Whether the loss can be computed of it."""
    return torch.is_tensor(result) and result.requires_grad


def real(output: Tensor) -> Tensor:
    """Complex numbers as pairs."""
    return torch.view_as_real(output) if output.is_complex() else output
