"""Convolutions of published networks.

    oracle layers OUT.jsonl.gz

runs all networks of torchvision and timm on tensors without elements, and writes the shape of each convolution. A
layer that only networks of the survey's `held-out.txt` have is held out.
"""

import gzip
import json
import re
from collections.abc import Iterator

from truth import place

#: The list that `fit-workspaces` reads.
RECORDED = place.FIXTURES / 'workspaces/networks.jsonl.gz'
#: Frames and sides of videos, where the network does not take any.
VIDEO, LONG_VIDEO = (8, 112, 112), (16, 224, 224)


def known(split: str) -> Iterator['kinds.Sample']:
    """The recorded layers, `fit` or `held`, of one image each."""
    from truth import kinds

    with gzip.open(RECORDED, 'rt') as file:
        for of, *fields in map(json.loads, file):
            if of == split:
                yield kinds.Sample(*fields)


def main(arguments: list[str]) -> None:
    """`oracle layers`"""
    held = surveyed('held-out')
    splits = {'fit': [name for name in published() if name not in held], 'held': sorted(held)}
    seen: set[str] = set()
    with gzip.open(arguments[0], 'wt') as file:
        for split, names in splits.items():
            found = {json.dumps(layer) for name in names for layer in layers(name)} - seen
            seen |= found
            file.writelines(f'{json.dumps([split, *json.loads(layer)])}\n' for layer in sorted(found))


def surveyed(name: str) -> set[str]:
    """Networks of two libraries in a list of the survey."""
    text = (place.HERE / f'survey/{name}.txt').read_text()
    return set(re.findall(r'^(?:timm|torchvision):[\w.]+', text, re.MULTILINE))


def published() -> Iterator[str]:
    """All networks."""
    import timm
    import torchvision.models as vision

    yield from (f'timm:{name}' for name in timm.list_models())
    for module in (vision, vision.segmentation, vision.video):
        yield from (f'torchvision:{name}' for name in vision.list_models(module=module))


def layers(name: str) -> list['kinds.Sample']:
    """A network's convolutions."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from truth import named

    found = []

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.convolution.default:
                found.append(sample(*args))
            return function(*args, **(kwargs or {}))

    library, _, short = name.partition(':')
    entry = named.LIBRARIES[library](short, {})
    try:
        with torch.device('meta'):
            network = entry.make().train()
            batch = torch.empty(2, 3, *sides(short, entry.size))
        with Listening(), torch.no_grad():
            network(batch)
    # What reads its tensors cannot run without elements.
    except (NotImplementedError, RuntimeError, AssertionError, TypeError) as error:
        print(f'{name}: {error}', flush=True)
    return [layer for layer in found if layer]


def sides(name: str, size: int) -> tuple[int, ...]:
    """Of a network's input."""
    if name.startswith(('s3d', 'mvit_v')):
        return LONG_VIDEO
    if name.startswith(('swin3d', 'mc3', 'r2plus1d', 'r3d')):
        return VIDEO
    return (299, 299) if name == 'inception_v3' else (size, size)


def sample(x, weight, bias, stride, padding, dilation, transposed, extra, groups):
    """A call of `aten::convolution`; of a transposed one what it is the gradient of, or nothing if it
    does not go to cuDNN."""
    from truth import kinds

    c, side, k, taps = x.shape[1], list(x.shape[2:]), weight.shape[0], list(weight.shape[2:])
    if transposed:
        if any(more >= step for more, step in zip(extra, stride)):
            return None
        every = zip(side, taps, padding, stride, dilation, extra)
        grown = [
            (n - 1) * by - 2 * pad + gap * (r - 1) + more + 1 for n, r, pad, by, gap, more in every
        ]
        c, side, k = weight.shape[1] * groups, grown, c
    if len(side) == 1:
        side, taps, padding = [1, *side], [1, *taps], [0, *padding]
        stride, dilation = [1, *stride], [1, *dilation]
    return kinds.Sample(1, c, side, k, groups, taps, list(padding), list(stride), list(dilation))
