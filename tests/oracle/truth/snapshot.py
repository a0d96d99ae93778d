"""Memory snapshots: true ones of a run, and what PyTorch's own tools make of ours."""

import collections
import contextlib
import difflib
import io
import json
import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

from truth import place

Snapshot = dict[str, Any]

#: All that the viewer reads (`torch/utils/viz/MemoryViz.js`).
OPCODES = set(
    'APPEND APPENDS LIST TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_TUPLE EMPTY_LIST EMPTY_DICT DICT SETITEM SETITEMS '
    'NEWTRUE NEWFALSE NONE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE MEMOIZE BINPUT '
    'LONG_BINPUT BINGET LONG_BINGET MARK FRAME STOP PROTO'.split()
)


def begin(entries: int) -> None:
    """Lets the allocator keep its history with Python's stacks."""
    import torch

    torch.cuda.memory._record_memory_history(max_entries=entries, context='all', stacks='python')


def write(file: Path) -> None:
    """What `_dump_snapshot` writes, with the names of files from their package on."""
    import torch

    snapshot = torch.cuda.memory._snapshot()
    packages = str(Path(torch.__file__).parent.parent), str(place.HERE)
    # Frames are shared: each is met many times.
    for holder in [*every_block(snapshot), *snapshot['segments'], *every_event(snapshot)]:
        for frame in holder['frames']:
            for package in packages:
                frame['filename'] = frame['filename'].removeprefix(package + '/')
    with file.open('wb') as out:
        pickle.dump(snapshot, out)


def every_block(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Blocks of all segments."""
    return [block for segment in snapshot['segments'] for block in segment['blocks']]


def every_event(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Entries of all devices."""
    return [event for trace in snapshot['device_traces'] for event in trace]


def main_open(arguments: list[str]) -> None:
    """`oracle open FILE [ESTIMATE.json]`: every command of `torch.cuda._memory_viz` on a snapshot; its
    sums must be those of the estimate that `highwater estimate --json` printed."""
    from torch.cuda import _memory_viz as viz

    content = Path(arguments[0]).read_bytes()
    unknown = {opcode.name for opcode, _, _ in pickletools.genops(content)} - OPCODES
    if unknown:
        place.fail(f'the viewer does not know {", ".join(sorted(unknown))}')
    # Each command gets a snapshot of its own, since some change it.
    load = lambda: pickle.loads(content)  # noqa: E731
    as_it_is = lambda lines: lines  # noqa: E731
    with contextlib.redirect_stdout(io.StringIO()):
        made = {
            'stats': viz.segsum(load()),
            'trace': viz.trace(load()),
            'segments': viz.segments(load(), as_it_is),
            'memory': viz.memory(load(), as_it_is),
            'compare': viz.compare([], load()['segments'], as_it_is),
            'trace_plot': viz.trace_plot(load()),
            'trace_plot --segments': viz.trace_plot(load(), plot_segments=True),
            'trace_plot --filter_freed': viz.trace_plot(load(), filter_freed=True),
            'segment_plot': viz.segment_plot(load()),
        }
    for command, text in made.items():
        print(f'{command:26} {len(text):>9} characters')
    sums = totals(load())
    print(json.dumps(sums))
    if len(arguments) > 1:
        peak = json.loads(Path(arguments[1]).read_text())['peak']
        if sums['reserved_peak'] != peak['reserved'] or sums['requested_peak'] < peak['requested']:
            place.fail('other peaks than the estimate has')
        print('the peaks are those of the estimate')


def totals(snapshot: Snapshot) -> dict[str, int]:
    """Peaks over the history and sums at its end, which must agree with the segments."""
    size: dict[int, int] = {}
    requested = reserved = 0
    peaks: dict[str, int] = collections.defaultdict(int)
    for event in every_event(snapshot):
        # Sizes of blocks are not told by events, so that there is no peak of allocated bytes.
        match event['action']:
            case 'alloc':
                size[event['addr']] = event['size']
                requested += event['size']
            case 'free_completed':
                requested -= size.pop(event['addr'])
            case 'segment_alloc' | 'segment_map':
                reserved += event['size']
            case 'segment_free' | 'segment_unmap':
                reserved -= event['size']
        peaks['requested'] = max(peaks['requested'], requested)
        peaks['reserved'] = max(peaks['reserved'], reserved)
    blocks = [block for block in every_block(snapshot) if block['state'] != 'inactive']
    allocated = sum(block['size'] for block in blocks)
    ends = {
        'requested': (requested, sum(block['requested_size'] for block in blocks)),
        'reserved': (reserved, sum(segment['total_size'] for segment in snapshot['segments'])),
        'allocated': (allocated, sum(segment['allocated_size'] for segment in snapshot['segments'])),
    }
    for name, (by_events, by_state) in ends.items():
        if by_events != by_state:
            place.fail(f'{name}: {by_events} by the events, {by_state} by the segments')
    return {
        'entries': len(every_event(snapshot)),
        'requested_peak': peaks['requested'],
        'reserved_peak': peaks['reserved'],
        **{f'{name}_end': end for name, (end, _) in ends.items()},
    }


def main_same(arguments: list[str]) -> None:
    """`oracle same TRUE OURS`: compares actions and sizes in their order."""
    true, ours = (pickle.loads(Path(file).read_bytes()) for file in arguments)
    theirs, own = actions(true), actions(ours)
    print(f'{len(theirs)} and {len(own)} entries')
    matcher = difflib.SequenceMatcher(None, theirs, own, autojunk=False)
    differences = [code for code in matcher.get_opcodes() if code[0] != 'equal']
    for _, a, b, c, d in differences[:40]:
        print(f'{a}: {theirs[a:b][:4]} but ours, {c}: {own[c:d][:4]}')
    if differences:
        sys.exit(f'{len(differences)} differences')
    print('the same actions and sizes in the same order')


def actions(snapshot: Snapshot) -> list[tuple[str, int]]:
    """What happened, and to how many bytes."""
    events = every_event(snapshot)
    return [(event['action'], event['size']) for event in events if event['action'] != 'snapshot']
