"""Traces of `torch.profiler` from real training on the CPU: what `highwater replay` reads.

The loop is that of `loop.py` without a device. What a trace cannot know, the model's tensors and the
batch, is told in an annotation, as the snippet of `docs/profiles.md` does.
"""

import bisect
import contextlib
import gzip
import json
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from truth import loop, place, settings, zoo


def told(model: nn.Module, batch: list[Tensor]) -> str:
    """The model's tensors and the batch's, as the annotation has them."""

    def texts(kind: str, tensors: Any) -> list[str]:
        return [f'{kind}:{str(t.dtype)[6:]}{list(t.shape)}'.replace(' ', '') for t in tensors]

    parameters = list(model.parameters())
    names = texts('parameter', (p for p in parameters if p.requires_grad))
    names += texts('frozen', (p for p in parameters if not p.requires_grad))
    return ' '.join(['highwater', *names, *texts('buffer', model.buffers()), *texts('batch', batch)])


def record(chosen: Namespace, out: Path) -> None:
    """Iterations on the CPU, each as `loop.py` has it."""
    model = zoo.build(chosen.model, **(dict(attn=chosen.attn) if chosen.attn else {})).train()
    for name, parameter in model.named_parameters():
        if any(loop.is_meant(name, pattern) for pattern in chosen.freeze):
            parameter.requires_grad_(False)
    entry = zoo.ZOO[chosen.model]
    if entry.example:
        batch, target = entry.example(chosen.batch)
    else:
        batch = zoo.batch(chosen.model, chosen.batch, chosen.size, chosen.seq)
        image = batch.is_floating_point()
        target = torch.zeros(chosen.batch, dtype=torch.long) if image else batch
    if chosen.loss in loop.DENSE:
        target = loop.target_of_numbers(chosen, model)
    name, arguments = settings.optimizer(chosen.opt)
    if chosen.foreach is not None:
        arguments['foreach'] = bool(chosen.foreach)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, **arguments)
    amp = getattr(torch, chosen.amp) if chosen.amp else None
    tensors = [batch] if target is batch else [batch, target]
    options = dict(profile_memory=True, record_shapes=True, with_stack=True)
    options['schedule'] = schedule(wait=0, warmup=0, active=chosen.iters, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        with record_function(told(model, tensors)):
            pass
        for _ in range(chosen.iters):
            if chosen.zero_grad == 'start':
                optimizer.zero_grad()
            for micro in range(chosen.accumulate):
                with torch.autocast('cpu', dtype=amp) if amp else contextlib.nullcontext():
                    loss, outcome = loop.forward(chosen, model, batch, target)
                if chosen.zero_grad == 'backward' and micro == 0:
                    optimizer.zero_grad()
                if chosen.accumulate > 1:
                    loss = loss / chosen.accumulate
                loss.backward()
            if chosen.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), chosen.clip)
            optimizer.step()
            if chosen.zero_grad == 'end':
                optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(out))


#: Events that are read, by category; of the others nothing is.
KEPT = ('cpu_op', 'user_annotation', 'cpu_instant_event', 'python_function')
#: Arguments that are read.
ARGUMENTS = (
    'Addr',
    'Bytes',
    'Device Type',
    'Sequence number',
    *(INPUTS := ('Input Dims', 'Input Strides', 'Input type', 'Concrete Inputs')),
)


#: Operators of which inputs are read: `core/src/profiled/kernels.rs` has a kernel for each.
DESCRIBED = frozenset(
    """
    aten::addmm aten::baddbmm aten::bmm aten::clone aten::contiguous aten::convolution
    aten::convolution_backward aten::dropout aten::embedding_dense_backward aten::mm aten::reshape
    aten::scaled_dot_product_attention aten::sum
    """.split()
)


def strip(path: Path) -> bytes:
    """A trace without what is not read: stacks, Python's frames but for modules, arguments, operators
    within which memory does not change; and times and addresses as small numbers."""
    with gzip.open(path, 'rt') as file:
        trace = json.load(file)
    recorded = trace['traceEvents']
    changes = sorted(event['ts'] for event in recorded if event['name'] == '[memory]')

    def is_read(event: dict[str, Any]) -> bool:
        category, name = event.get('cat'), event['name']
        if category == 'cpu_op' and not name.startswith('autograd::engine::evaluate_function'):
            first = bisect.bisect_left(changes, event['ts'])
            return first < len(changes) and changes[first] <= event['ts'] + event['dur']
        return category in KEPT and (category != 'python_function' or 'nn.Module' in name)

    events = []
    for event in filter(is_read, recorded):
        arguments = {key: value for key, value in event.get('args', {}).items() if key in ARGUMENTS}
        if event['cat'] == 'cpu_op' and event['name'] not in DESCRIBED:
            for key in INPUTS:
                arguments.pop(key, None)
        kept = {key: event[key] for key in ('ph', 'cat', 'name', 'tid', 'ts', 'dur') if key in event}
        events.append({**kept, 'args': arguments})
    rank(events)
    kept = {'schemaVersion': trace.get('schemaVersion'), 'traceEvents': events}
    text = json.dumps(kept, separators=(',', ':')).replace('},{', '},\n{')
    return gzip.compress(text.encode(), 9, mtime=0)


def rank(events: list[dict[str, Any]]) -> None:
    """Times and addresses become small numbers that keep their order and which are equal."""
    times = {event['ts'] for event in events}
    times |= {event['ts'] + event['dur'] for event in events if 'dur' in event}
    ranks = {time: number for number, time in enumerate(sorted(times))}
    addresses: dict[int, int] = {}
    for event in events:
        start = event['ts']
        event['ts'] = ranks[start]
        if 'dur' in event:
            event['dur'] = ranks[start + event['dur']] - ranks[start]
        if address := event['args'].get('Addr'):
            event['args']['Addr'] = addresses.setdefault(address, len(addresses) + 1)
        event['tid'] = 1 if event['tid'] == events[0]['tid'] else 2


def main(arguments: list[str]) -> None:
    """`oracle profile MODEL … --out FILE.json.gz [--strip]`."""
    stripped = '--strip' in arguments
    chosen = settings.parser().parse_args([word for word in arguments if word != '--strip'])
    if not chosen.out:
        place.fail('say where the trace goes: --out FILE.json.gz')
    out = Path(chosen.out)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'trace.json.gz'
        record(chosen, path)
        out.write_bytes(strip(path) if stripped else path.read_bytes())
