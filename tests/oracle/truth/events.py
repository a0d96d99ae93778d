"""The allocator's history as allocations and frees, each with its phase, its operators, and what
the memory was for.

A line is one event: `t` is `a` for an allocation, `f` for a free (`alloc`: which), `S` and `s` for a
segment obtained and given back; `bytes` as requested; `addr` from the lowest one; `phase`
`ITERATION:NAME` (iteration 0 is `model` and `input`; the loss is part of `forward`); `op` the running
operators, outermost first, `>` between them; `cat` what it was for.
"""

import collections
import ctypes
import gzip
import json
import os
from pathlib import Path
from typing import Any

import torch

Event = dict[str, Any]

PHASES = ('zero_grad', 'forward', 'prefill', 'decode', 'backward', 'optimizer', 'end')
#: Products whose workspace PyTorch allocates for one call.
PRODUCTS = ('mm', 'addmm', 'bmm', 'baddbmm', 'linear', '_addmm_activation')
#: SIZE: workspaces of cuBLAS (by capability) and of cuBLASLt.
PRODUCT_WORKSPACES = {8_519_680, 32 << 20, 33_685_504, 1 << 20, 4 << 20}
#: COUNT: events between a workspace's allocation and its free, at most.
CALL = 3


class Tagger:
    """Lets the allocator keep its history, tagged by `fakecuda/tagger.cpp`."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ['FAKECUDA_TAGGER'])
        torch.cuda.memory._record_memory_history(max_entries=10_000_000, context=None)

    def __enter__(self) -> None:
        self.library.tagger_on()

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, name: str) -> None:
        """What happens from now on belongs to this phase."""
        self.library.tagger_phase(name.encode())


def read(owners: dict[int, dict[int, str]]) -> list[Event]:
    """All events of this process."""
    history = torch.cuda.memory._snapshot()['device_traces'][0]
    events = untagged_inherit(list(parse(history)))
    name_owned(events, owners)
    workspaces = convolution_workspaces()
    for event in events:
        if event['t'] == 'a':
            event['cat'] = category(event, events, workspaces)
    lowest = min((event['addr'] for event in events), default=0)
    return [{**event, 'addr': event['addr'] - lowest} for event in events]


def parse(history: list[dict[str, Any]]):
    """Events in the order of the history; frees know their allocation and the reverse."""
    live: dict[int, Event] = {}
    kinds = {'alloc': 'a', 'free_completed': 'f', 'segment_alloc': 'S', 'segment_free': 's'}
    index = 0
    for entry in history:
        kind = kinds.get(entry['action'])
        if kind is None:
            continue
        phase, _, operators = (entry.get('user_metadata') or '').partition('|')
        event: Event = {'i': index, 't': kind, 'addr': entry['addr'], 'bytes': entry['size']}
        event['phase'] = phase
        if kind in 'af':
            event['op'] = operators
        if entry.get('stream'):
            event['stream'] = entry['stream']
        if kind == 'a':
            live[entry['addr']] = event
        elif kind == 'f':
            allocation = live.pop(entry['addr'], None)
            event['alloc'] = allocation and allocation['i']
            if allocation:
                allocation['free'] = index
        yield event
        index += 1


def untagged_inherit(events: list[Event]) -> list[Event]:
    """A thread that has run no operator yet has no tag: its events belong to the phase before."""
    last = '0:model'
    for event in events:
        last = event['phase'] = event['phase'] or last
    return events


def moment(phase: str) -> tuple[int, int]:
    """Phases in their order."""
    iteration, _, name = phase.partition(':')
    return int(iteration), PHASES.index(name) if name in PHASES else -1


def name_owned(events: list[Event], owners: dict[int, dict[int, str]]) -> None:
    """What somebody holds at an iteration's end is theirs, from its allocation on."""
    for iteration, of in owners.items():
        end = (iteration, PHASES.index('optimizer'))
        for event in events:
            if event['t'] == 'a' and event['addr'] in of and moment(event['phase']) <= end:
                if death(event, events) > end:
                    event['cat'] = of[event['addr']]


def death(event: Event, events: list[Event]) -> tuple[int, int]:
    """When an allocation is freed, or later than all."""
    return moment(events[event['free']]['phase']) if 'free' in event else (1 << 30, 0)


def convolution_workspaces() -> set[int]:
    """SIZE: all that cuDNN asks for in the table in use."""
    table = os.environ.get('FAKECUDA_WORKSPACES')
    lines = Path(table).read_text().splitlines() if table else []
    return {int(line.split()[1]) for line in lines}


def category(event: Event, events: list[Event], workspaces: set[int]) -> str:
    """What an allocation is for: its owner's, a workspace, or by its lifetime."""
    if 'cat' in event:
        return event['cat']
    brief = 'free' in event and event['free'] - event['i'] <= CALL
    innermost = event['op'].rpartition('>')[2].removeprefix('aten::')
    if brief and innermost in PRODUCTS and event['bytes'] in PRODUCT_WORKSPACES:
        return 'workspace'
    convolves = 'aten::cudnn_convolution' in event['op'] or 'convolution_backward' in event['op']
    if brief and convolves and event['bytes'] in workspaces:
        return 'workspace'
    phase = event['phase'].partition(':')[2]
    if phase not in PHASES:
        return phase
    outlives = death(event, events) > moment(event['phase'])
    return 'activation' if phase == 'forward' and outlives else 'temporary'


def summary(events: list[Event]) -> dict[str, Event]:
    """The most that is alive in each iteration, where that is, and what it consists of."""
    live, most = 0, {}
    categories: collections.Counter[str] = collections.Counter()
    for event in events:
        if event['t'] == 'a':
            live += event['bytes']
            categories[event['cat']] += event['bytes']
            iteration, _, phase = event['phase'].partition(':')
            if live > most.get(iteration, {'bytes': -1})['bytes']:
                at = {'phase': phase, 'op': event['op'], 'event': event['i']}
                most[iteration] = {'bytes': live, **at, 'cats': dict(categories)}
        elif event['t'] == 'f' and event['alloc'] is not None:
            live -= event['bytes']
            categories[events[event['alloc']]['cat']] -= event['bytes']
    return most


def write(path: Path, row: dict[str, Any], events: list[Event]) -> None:
    """The run's description, then its events, a line each."""
    with gzip.open(path, 'wt') as file:
        for line in [{'config': row}, *events]:
            file.write(json.dumps(line) + '\n')
