"""Sequences of allocations and frees through PyTorch's own caching allocator.

A program is a list of numbers: n > 0 allocates n bytes (allocations are counted from 0), -k frees
allocation k - 1, and 0 empties the cache. Recorded events, replayed, must give every address again;
random programs ask the allocator about cases that no training run has.
"""

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from truth import place

#: Statistics that a random program's answer has, and PyTorch's names of them.
STATISTICS = {
    'allocated': 'allocated_bytes',
    'requested': 'requested_bytes',
    'reserved': 'reserved_bytes',
    'segments': 'segment',
    'inactive_split': 'inactive_split_bytes',
}
#: SIZE: where the allocator's rules change.
BOUNDARIES = (512, 1 << 20, 2 << 20, 9 << 20, 10 << 20, 19 << 20, 20 << 20)
KINDS = ('small', 'mixed', 'large', 'boundary', 'training')


def main(arguments: list[str]) -> None:
    """`oracle replay EVENTS.jsonl.gz`"""
    on_fake_device('events', arguments)


def main_programs(arguments: list[str]) -> None:
    """`oracle programs SEED COUNT OUT.jsonl.gz`"""
    on_fake_device('programs', arguments)


def on_fake_device(what: str, arguments: list[str]) -> None:
    """Runs this module again, where there is a device."""
    command = [sys.executable, '-m', 'truth.replay', what, *arguments]
    raise SystemExit(subprocess.run(command, env=place.on_fake_device('a100', None, None)).returncode)


def statistics() -> dict[str, Any]:
    """Now and at the peak."""
    import torch

    now = torch.cuda.memory_stats()
    ends = {
        ours: (now[f'{theirs}.all.current'], now[f'{theirs}.all.peak'])
        for ours, theirs in STATISTICS.items()
    }
    return {**ends, 'retries': now['num_alloc_retries'], 'ooms': now['num_ooms']}


def replay_events(path: Path) -> dict[str, Any]:
    """How many of the recorded addresses came out otherwise, and the peaks of both."""
    import torch

    with gzip.open(path, 'rt') as file:
        head, *events = [json.loads(line) for line in file]
    live, lowest, count, others = {}, None, 0, 0
    for event in events:
        if event['t'] == 'a':
            live[event['i']] = torch.empty(event['bytes'], dtype=torch.uint8, device='cuda')
            address = live[event['i']].data_ptr()
            lowest = address - event['addr'] if lowest is None else lowest
            count += 1
            others += address - lowest != event['addr']
        elif event['t'] == 'f' and event['alloc'] is not None:
            live.pop(event['alloc'], None)
    now = statistics()
    answer: dict[str, Any] = {'allocations': count, 'other_addresses': others}
    for key in ('allocated', 'reserved'):
        answer |= {key: now[key][1], f'recorded_{key}': head['config'][key]}
    return answer


def program(rng: random.Random) -> tuple[str, list[int]]:
    """A kind of sizes, and a program of it."""
    kind = rng.choice(KINDS)
    steps: list[int] = []
    live: list[int] = []
    count = 0
    for _ in range(rng.randint(20, 400)):
        chance = rng.random()
        if chance < 0.58 or not live:
            steps.append(size(rng, kind))
            live.append(count)
            count += 1
        elif chance < 0.995:
            # The newest, as a stack would, or any.
            index = rng.choice([len(live) - 1, rng.randrange(len(live))])
            steps.append(-(live.pop(index) + 1))
        else:
            steps.append(0)
    return kind, steps


def size(rng: random.Random, kind: str) -> int:
    """SIZE: one allocation of a program."""
    if kind == 'mixed':
        kind = rng.choice([other for other in KINDS if other != 'mixed'])
    match kind:
        case 'small':
            return rng.randint(1, 1 << 20)
        case 'large':
            return rng.randint(1 << 20, 64 << 20)
        case 'boundary':
            off = rng.choice([-513, -512, -1, 0, 1, 511, 512, 513])
            return max(1, rng.choice(BOUNDARIES) + off)
        case _:
            return int(2 ** rng.uniform(5, 27))


def run_program(steps: list[int]) -> dict[str, Any]:
    """The allocator's answers to a program."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    live: dict[int, Any] = {}
    failed, reserved, count = [], [], 0
    for step in steps:
        if step > 0:
            try:
                live[count] = torch.empty(step, dtype=torch.uint8, device='cuda')
            except torch.OutOfMemoryError:
                failed.append(count)
            count += 1
        elif step == 0:
            torch.cuda.empty_cache()
        else:
            live.pop(-step - 1, None)
        reserved.append(torch.cuda.memory_reserved())
    answer = {'reserved_after_each': reserved, 'stats': statistics(), 'oom': failed}
    snapshot = sorted(torch.cuda.memory_snapshot(), key=lambda segment: segment['address'])
    answer['segments'] = [
        {
            'size': segment['total_size'],
            'type': segment['segment_type'],
            'blocks': [
                (block['size'], block.get('requested_size'), block['state'])
                for block in segment['blocks']
            ],
        }
        for segment in snapshot
    ]
    return answer


def write_programs(seed: int, count: int, path: Path) -> None:
    """Appends random programs and the answers, a line each."""
    rng = random.Random(seed)
    setting = os.environ.get('PYTORCH_CUDA_ALLOC_CONF')
    memory = int(os.environ['FAKECUDA_MEMORY'])
    with gzip.open(path, 'at') as file:
        for index in range(count):
            kind, steps = program(rng)
            row = {'seed': seed, 'case': index, 'kind': kind, 'conf': setting, 'memory': memory}
            file.write(json.dumps({**row, 'ops': steps, **run_program(steps)}) + '\n')


if __name__ == '__main__':
    what, *rest = sys.argv[1:]
    if what == 'programs':
        write_programs(int(rest[0]), int(rest[1]), Path(rest[2]))
    else:
        for name in rest:
            print(json.dumps({'file': name, **replay_events(Path(name))}))
