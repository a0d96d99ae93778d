"""Recorded answers as the files of `tests/fixtures`; the READMEs there say what the columns are."""

import collections
import csv
import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from truth import cudnn, place, settings

ITERATIONS = (1, 2, 3)
PEAKS = ('requested', 'allocated', 'reserved')
#: What an operator calls to get its memory; it says nothing about why.
MAKERS = ('aten::empty', 'aten::empty_like', 'aten::empty_strided', 'aten::resize_')


def lines(path: Path) -> list[Any]:
    """JSON, a value a line, packed or not."""
    opener = gzip.open if path.suffix == '.gz' else open
    with opener(path, 'rt') as file:
        return [json.loads(line) for line in file]


def main_results(arguments: list[str]) -> None:
    """`oracle results ROWS.jsonl…`: a CSV of all rows that Highwater has words for; the others are
    named on stderr."""
    out = csv.writer(sys.stdout, lineterminator='\n')
    head = ['model', 'batch', 'seq', 'settings', 'parameters', 'buffer_bytes']
    out.writerow(head + [f'{peak}_{number}' for number in ITERATIONS for peak in PEAKS])
    found = {}
    for row in (row for path in arguments for row in lines(Path(path))):
        said = settings.flags(row)
        # Exports have free batches and lengths, not free image sizes.
        if said is None or row['size'] not in (None, 224, 299, 300):
            print(f'left out: {row.get("arguments", row["model"])}', file=sys.stderr)
            continue
        cells = [row['model'], row['batch'], row['seq'], ' '.join(said)]
        # `generate` is called twice only.
        peaks = [row.get(f'it{number}_{peak}', '') for number in ITERATIONS for peak in PEAKS]
        key = (row['model'], row['batch'], row['seq'] or 0, cells[3])
        found.setdefault(key, [*cells, row['params'], row['buffer_bytes'], *peaks])
    out.writerows(found[key] for key in sorted(found))


def main_saved(arguments: list[str]) -> None:
    """`oracle saved EVENTS…`: per model and operator, COUNT and SIZE of what the second forward
    makes and keeps for backward."""
    answer = {}
    for path in map(Path, arguments):
        kept: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for event in lines(path)[1:]:
            if event['t'] == 'a' and event['phase'] == '2:forward':
                if event['cat'] == 'activation':
                    parts = [part for part in event['op'].split('>') if part not in MAKERS]
                    operator = '>'.join(dict.fromkeys([*parts[:1], *parts[-1:]]))
                    kept[operator][0] += 1
                    kept[operator][1] += event['bytes']
        answer[path.name] = dict(sorted(kept.items(), key=lambda item: -item[1][1]))
    print(json.dumps(answer, indent=1))


def main_traces(arguments: list[str]) -> None:
    """`oracle traces FOLDER FILE…`: files of events become `training/`, files of programs become
    `random/`."""
    folder, *paths = map(Path, arguments)
    groups: dict[str, list[Any]] = collections.defaultdict(list)
    for path in paths:
        rows = lines(path)
        if 'config' in rows[0]:
            name = path.name.replace('.jsonl.gz', '.txt.gz')
            pack(folder / 'training' / name, training_run(rows))
            continue
        for row in rows:
            setting = (row['conf'] or 'default').partition(':')[0]
            group = f'{setting}_{row["memory"] >> 20}MiB_{row["case"] // 75}'
            groups[group].append(row)
    for name, rows in groups.items():
        text = (line for row in rows for line in random_program(row))
        pack(folder / 'random' / f'{name}.txt.gz', text)


def pack(path: Path, text: Iterable[str]) -> None:
    """Writes lines; the same lines give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(''.join(f'{line}\n' for line in text).encode(), 9, mtime=0))


def training_run(rows: list[Any]) -> Iterator[str]:
    """The events of one run."""
    config, events = rows[0]['config'], rows[1:]
    yield f'model {config["model"]} {config["batch"]} {config["optimizer"]}'
    for number in ITERATIONS:
        yield ' '.join(['peaks', *(str(config[f'it{number}_{peak}']) for peak in PEAKS)])
    yield f'segments {config["segments"]}'
    segments: list[tuple[int, int]] = []
    allocations: dict[int, int] = {}
    iteration = '0'
    for event in events:
        if (now := event['phase'].partition(':')[0]) != iteration:
            iteration = now
            yield 'i'
        match event['t']:
            case 'S':
                segments.append((event['addr'], event['bytes']))
                yield f's {event["bytes"]}'
            case 'a':
                below = (pair for pair in enumerate(segments) if pair[1][0] <= event['addr'])
                index, (base, size) = max(below)
                assert event['addr'] < base + size, 'an allocation lies in a segment'
                allocations[event['i']] = len(allocations)
                yield f'a {event["bytes"]} {index} {event["addr"] - base}'
            case 'f':
                yield f'f {allocations[event["alloc"]]}'
            case other:
                raise ValueError(f'no training run gives segments back: {other}')


def random_program(row: dict[str, Any]) -> Iterator[str]:
    """One program and the allocator's answers."""
    yield f'case {row["seed"]}/{row["case"]} {row["conf"] or "default"} {row["memory"]}'
    yield ' '.join(['ops', *map(str, row['ops'])])
    reserved = row['reserved_after_each']
    pairs = enumerate(zip([0, *reserved], reserved))
    changes = (f'{call}:{now}' for call, (before, now) in pairs if before != now)
    yield ' '.join(['reserved_after', *changes])
    # Of no failures there is the word and a blank.
    yield 'oom ' + ' '.join(map(str, row['oom']))
    stats = row['stats']
    for name in ('requested', 'allocated', 'reserved', 'inactive_split', 'segments'):
        yield f'{name} {stats[name][0]} {stats[name][1]}'
    yield f'retries {stats["retries"]} {stats["ooms"]}'
    for segment in row['segments']:
        blocks = (
            f'{"" if state == "active_allocated" else "-"}{size}'
            for size, _, state in segment['blocks']
        )
        yield ' '.join([f'segment {segment["type"]} {segment["size"]}', *blocks])


def main_workspaces(arguments: list[str]) -> None:
    """`oracle workspaces DEVICE COUNT SPLIT`: the calls in single precision and NCHW that the
    device's table has from runs, with COUNT random changes of each, as rows of a fixture."""
    device, count, split = arguments[0], int(arguments[1]), arguments[2]
    rng = random.Random(0)
    library = cudnn.Cudnn(device)
    out = csv.writer(sys.stdout, lineterminator='\n')
    out.writerow(['split', 'direction', *cudnn.COLUMNS, 'bytes'])
    known = {call for call, _ in cudnn.recorded(device)}
    for line in cudnn.table(device).read_text().splitlines():
        call = cudnn.Call.parse(line.split()[0])
        plain = call.dtype == cudnn.FLOAT32 and call.x_strides == cudnn.contiguous(call.x)
        if not plain or len(call.x) != 4 or call.name() in known:
            continue
        row = dict(zip(cudnn.COLUMNS, columns(call)))
        for changed in [row, *(changes(row, rng) for _ in range(count))]:
            changed['direction'] = call.direction
            changed_call = cudnn.fixture_call(changed)
            size = library.workspace(changed_call) if min(changed_call.y) > 0 else None
            if size is not None:
                values = (changed[column] for column in cudnn.COLUMNS)
                out.writerow([split, call.direction, *values, size])


def columns(call: cudnn.Call) -> list[int]:
    """A call's numbers in the order of the fixture's columns."""
    return [*call.x, *call.w, *call.padding, *call.stride, *call.dilation]


def changes(row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A layer like this one: another batch, another image, other widths of a plain convolution."""
    changed = dict(row)
    changed['n'] = rng.choice([1, 2, 4, 8, 16, 32, 64, 128])
    scale = rng.choice([0.5, 0.75, 1, 1, 1.25, 1.5, 2])
    changed['h'], changed['w'] = (max(1, round(row[side] * scale)) for side in 'hw')
    if row['c'] == row['c_per_group'] and rng.random() < 0.5:
        changed['c'] = changed['c_per_group'] = max(1, round(row['c'] * rng.uniform(0.5, 2)))
        changed['k'] = max(1, round(row['k'] * rng.uniform(0.5, 2)))
    return changed
