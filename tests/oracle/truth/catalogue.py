"""Every module and operator of PyTorch by itself: what it allocates, and how it is exported.

    oracle catalogue FOLDER [NAME…]

A worker takes entry after entry: chooses samples (`samples`), trains a model of that one operator on the fake
device under several settings, keeps the events of the second iteration, and exports the model in each format. A
worker that crashes or hangs is replaced, and what it was at is left out. Entries that FOLDER has already are not
visited again.

A line of its files is a sample: its `name`, `args`, the exported `files` by format (bytes as Latin-1 text), and `cases`:
the settings as flags of `highwater estimate`, and the events. `f b o` begin forward, backward and optimizer;
`+BYTES:OPERATOR` allocates, `-BYTES` frees.
"""

import collections
import functools
import gc
import gzip
import io
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from truth import cudnn, place

#: COUNT: seconds without a sign of life, and workers at a time.
PATIENCE, WORKERS = 300, 2
#: COUNT: entries for one worker; exporters keep memory.
CHUNK = 60
#: Convolutions whose workspaces nobody has asked for yet.
UNKNOWN: set[str] = set()
#: Entries and steps at which a worker has ended.
SKIPPED: list[list[str]] = []
#: COUNT: samples of a module, and of an operator, that the slow exporter gets.
SLOW = (2, 1)


def main(arguments: list[str]) -> None:
    """`oracle catalogue`."""
    out, *chosen = arguments
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = gather(Path(folder), chosen, Path(out))
    write(Path(out), rows)
    print(f'{summary(rows)}\n{time.monotonic() - began:.0f} s', flush=True)


def gather(folder: Path, chosen: list[str], out: Path) -> list[dict[str, Any]]:
    """Runs workers until every entry was visited; rows in the order of entries."""
    from truth import samples

    order = {entry.name: at for at, entry in enumerate(samples.entries())}
    rows = read(out)
    known = {row['name'] for row in rows}
    names = [name for name in order if name not in known and (not chosen or name in chosen)]
    queue = collections.deque(names[at : at + CHUNK] for at in range(0, len(names), CHUNK))
    running: list[Worker] = []
    number = 0
    while queue or running:
        while queue and len(running) < WORKERS:
            running.append(Worker(folder / str(number), queue.popleft()))
            number += 1
        time.sleep(0.2)
        for worker in [worker for worker in running if worker.is_over()]:
            running.remove(worker)
            found, rest = worker.results()
            rows += found
            write(out, rows)
            print(f'{len(rows)} rows', file=sys.stderr, flush=True)
            if rest:
                queue.appendleft(rest)
        if not queue and not running and UNKNOWN:
            # The real cuDNN is asked, and what met its convolutions is visited again.
            calls, again = sorted(UNKNOWN), {row['name'] for row in rows if 'unknown' in row}
            UNKNOWN.clear()
            cudnn.extend(cudnn.table('a100'), calls, 'a100')
            rows = [row for row in rows if row['name'] not in again]
            queue.append([name for name in order if name in again])
    return sorted(rows, key=lambda row: (order[row['name']], row.get('sample', 0)))


class Worker:
    """A process that visits entries, and says before each step what it is about to do."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.path, self.names = path, names
        path.touch()
        environment = place.on_fake_device('a100', cudnn.table('a100'), path.with_suffix('.unknown'))
        path.with_suffix('.unknown').touch()
        command = [sys.executable, '-m', 'truth.catalogue', str(path), json.dumps(SKIPPED), *names]
        log = path.with_suffix('.log').open('w')
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def is_over(self) -> bool:
        """Whether it has ended, by itself or because it was silent for too long."""
        if self.process.poll() is not None:
            return True
        if time.time() - self.path.stat().st_mtime > PATIENCE:
            self.process.kill()
            self.process.wait()
            return True
        return False

    def results(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows, and the names that were not reached."""
        rows: dict[Any, dict[str, Any]] = {}
        at, done = None, set()
        for line in self.path.read_text().splitlines():
            try:
                told = json.loads(line)
            except json.JSONDecodeError:
                continue  # The last words of a process that was killed.
            if 'at' in told:
                at = told['at']
            elif 'done' in told:
                done.add(told['done'])
            else:
                row = rows.setdefault((told['name'], told['sample']), told)
                row['files'].update(told['files'])
        for call in set(self.path.with_suffix('.unknown').read_text().split()):
            UNKNOWN.add(call)
        found = list(rows.values())
        rest = [name for name in self.names if name not in done]
        if rest and at and at[0] == rest[0]:
            # It ended there: the entry is visited again without that step.
            SKIPPED.append(at)
            found = [row for row in found if row['name'] != at[0]]
        elif rest and not at:
            tail = self.path.with_suffix('.log').read_text()[-2000:]
            place.fail(f'a worker did not begin:\n{tail}')
        return found, rest


def work(path: Path, skipped: list[list[str]], names: list[str]) -> None:
    """In a process of its own, on the fake device."""
    import torch

    from truth import events, loop, samples

    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    torch.backends.cuda.enable_cudnn_sdp(False)
    loop.allow_bfloat16_convolutions()
    remember_what_exporters_know()
    tagger = events.Tagger()
    tagger.__enter__()
    unknown = Path(os.environ['FAKECUDA_UNKNOWN'])
    by_name = {entry.name: entry for entry in samples.entries()}
    with path.open('a') as file:

        def tell(told: dict[str, Any]) -> None:
            file.write(json.dumps(told) + '\n')
            file.flush()

        for name in names:
            try:
                visit(by_name[name], skipped, tell, tagger, unknown)
            except Exception as error:  # An entry without samples: told, and left.
                tell({'name': name, 'sample': 98, 'lost': short(error), 'files': {}, 'cases': []})
            tell({'done': name})
            gc.collect()


def visit(entry, skipped: list[list[str]], tell, tagger, unknown: Path) -> None:
    """All samples of an entry: recorded, then exported."""
    from truth import samples

    def begin(step: str) -> bool:
        if [entry.name, step] in skipped:
            return False
        tell({'at': [entry.name, step]})
        return True

    if not begin('samples'):
        raise samples.Unusable('the process ends while samples are made')
    for number, sample in enumerate(samples.of(entry)):
        if not begin(f'recording {number}'):
            continue
        row: dict[str, Any] = {'name': entry.name, 'sample': number, 'args': sample.about}
        row |= {'scaled': sample.scaled, 'in_place': sample.in_place}
        known = unknown.stat().st_size
        row |= {'cases': list(cases(sample, tagger)), 'files': {}}
        if unknown.stat().st_size > known:
            tell({**row, 'unknown': True})
            continue
        tell(row)
        if not any('events' in case for case in row['cases']):
            continue
        for kind in sample.formats:
            if kind == 'dynamo' and number >= SLOW[not entry.is_module] and not sample.in_place:
                continue
            told = {'error': 'the process ends'}
            if begin(f'export {number} {kind}'):
                told = export(sample, kind)
            tell({**row, 'cases': [], 'files': {kind: told}})
        begin('samples')


def remember_what_exporters_know() -> None:
    """Once for a process instead of once for a file: most of the time that the dynamo exporter takes."""
    from torch._export import utils
    from torch.onnx._internal.exporter import _registration

    registry = _registration.ONNXRegistry
    registry.from_torchlib = staticmethod(functools.cache(registry.from_torchlib))
    collect = functools.cache(utils._collect_all_valid_cia_ops_for_namespace)
    utils._collect_all_valid_cia_ops_for_namespace = lambda namespace: set(collect(namespace))


def cases(sample, tagger):
    """The sample under each setting that bears on it."""
    import torch

    settings = [('', {})]
    settings += [('--precision bf16', {'dtype': 'bfloat16'}), ('--precision amp-bf16', {'amp': 'bfloat16'})]
    if any(sample.leaves[index].dim() == 4 for index in sample.tensors):
        settings.append(('--memory-format channels-last', {'channels_last': True}))
    # Without a gradient for one of the inputs, if there are others or parameters of the module's.
    has_parameters = sample.entry.is_module and any(True for _ in sample.call.parameters())
    several = len(sample.trained) > 1 or has_parameters
    for number in range(min(len(sample.trained), 3) if several else 0):
        settings.append((f'--freeze p.{number}', {'freeze': [f'p.{number}']}))
    flags = ['--optimizer sgd'] + ['--in-place on'] * sample.in_place
    for words, chosen in settings:
        told = {'flags': ' '.join([words, *flags]).strip()}
        try:
            yield told | record(sample, tagger, chosen)
        except Exception as error:
            # bfloat16 and frozen inputs are not for every operator; nobody asks for the impossible.
            yield told | {'error': short(error)}
            torch.cuda.empty_cache()


def record(sample, tagger, given: dict[str, Any]) -> dict[str, Any]:
    """The events of the second iteration, and which loss it was."""
    import ctypes

    import torch

    from truth import events, loop, samples, settings

    library = ctypes.CDLL(None)
    library.fakecuda_count.restype = ctypes.c_size_t
    read_before = library.fakecuda_count(b'others_read') + library.fakecuda_count(b'bools_read')
    chosen = settings.parser().parse_args(['one', '--opt', 'sgd0', '--iters', '2'])
    vars(chosen).update(given)

    class Case(loop.Loop):
        """The loop with a model of one operator."""

        own = False

        def prepare_model(self):
            model = samples.One(sample).train()
            for name, parameter in model.named_parameters():
                if any(loop.is_meant(name, pattern) for pattern in self.chosen.freeze):
                    parameter.requires_grad_(False)
            model.to(getattr(torch, self.chosen.dtype)).cuda()
            return model.to(memory_format=torch.channels_last) if self.chosen.channels_last else model

        def prepare_batch(self):
            return [self.placed(tensor) for tensor in samples.batch(sample)], None

        def placed(self, tensor):
            if tensor.is_floating_point():
                tensor = tensor.to(getattr(torch, self.chosen.dtype))
            if self.chosen.channels_last and tensor.dim() == 4:
                tensor = tensor.to(memory_format=torch.channels_last)
            return tensor.cuda()

        def forward(self):
            out = self.model(*self.batch)
            self.own = out.numel() == 1
            return (out if self.own and out.dim() == 0 else out.sum()), out

        def find_owners(self):
            return {}

    torch.cuda.memory._record_memory_history(
        max_entries=1_000_000, context=None, clear_history=True
    )
    case = Case(chosen)
    case.tagger = tagger
    for iteration in (1, 2):
        case.peaks.append({})
        case.iterate(iteration)
    case.mark(3, 'end')
    torch.cuda.synchronize()
    own = case.out.dim() == 0
    history = events.untagged_inherit(
        list(events.parse(torch.cuda.memory._snapshot()['device_traces'][0]))
    )
    if all(parameter.grad is None for parameter in case.model.parameters()):
        raise ValueError('no gradient')
    case.out = case.loss = None
    told = {'loss': 'own' if own else 'sum', 'events': compact(history)}
    reads = library.fakecuda_count(b'others_read') + library.fakecuda_count(b'bools_read') - read_before
    return told | ({'reads': reads} if reads else {})


def compact(history: list[dict[str, Any]]) -> str:
    """The second iteration in a line."""
    words: list[str] = []
    phase = ''
    begins = {'zero_grad': 'z', 'forward': 'f', 'backward': 'b', 'optimizer': 'o'}
    for event in history:
        iteration, _, name = event['phase'].partition(':')
        if iteration != '2' or event['t'] not in 'af':
            continue
        if name != phase:
            phase = name
            words.append(begins.get(name, name))
        if event['t'] == 'a':
            words.append(f'+{event["bytes"]}:{operator(event["op"])}')
        else:
            words.append(f'-{event["bytes"]}')
    return ' '.join(words)


def operator(path: str) -> str:
    """Autograd's node and the innermost operator."""
    parts = [part.replace('autograd::engine::evaluate_function: ', '') for part in path.split('>')]
    node = next((part for part in parts if part.endswith('Backward0') or 'Accumulate' in part), '')
    inner = parts[-1].removeprefix('aten::')
    return '/'.join(filter(None, dict.fromkeys([node, inner]))).replace(' ', '')


def export(sample, kind: str) -> dict[str, str]:
    """The file, or why there is none."""
    from truth import samples
    from truth.export import write

    model = samples.One(sample)
    # Parameters in the model, and nothing that takes a gradient in the trace of what goes in.
    values = tuple(tensor.clone() for tensor in samples.batch(sample))
    model.train(kind in ('train', 'pt2'))
    names = [f'x{number}' for number in range(len(values))]
    try:
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, 'w') as nowhere:
            raw = f'{folder}/model'
            said, sys.stdout = sys.stdout, nowhere
            try:
                write(model, values, raw, kind, names, 'out')
            finally:
                sys.stdout = said
            content = packed(raw, kind)
    except Exception as error:
        return {'error': short(error)}
    return {'bytes': content.decode('latin-1')}


def packed(raw: str, kind: str) -> bytes:
    """Without weights and stack traces."""
    import onnx

    from truth.export import strip, strip_archive

    if kind == 'pt2':
        return strip_archive(raw)
    model = onnx.load_from_string(strip(raw))
    forget_stacks(model)
    return model.SerializeToString(deterministic=True)


def forget_stacks(message) -> None:
    """Leaves out where in a program something was written, at any depth."""
    for field, value in message.ListFields():
        if field.name == 'metadata_props':
            kept = [entry for entry in value if 'stack_trace' not in entry.key]
            del value[:]
            value.extend(kept)
        elif field.name == 'doc_string':
            message.ClearField('doc_string')
        elif field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                forget_stacks(inner)


def short(error: BaseException) -> str:
    """Class and first line, without addresses or paths."""
    line = (str(error).strip().splitlines() or [''])[0]
    line = re.sub(r'(/[\w.-]+){2,}|0x[0-9a-f]+|\x1b\[\d+m', '…', line)
    return f'{type(error).__name__}: {line}'[:160]


def part(name: str) -> str:
    """Which of the two files of a folder has an entry."""
    return 'modules.jsonl.gz' if name.startswith('nn.') else 'functions.jsonl.gz'


def read(folder: Path) -> list[dict[str, Any]]:
    """What a folder has of an earlier run; empty if there is none."""
    rows = []
    for path in sorted(folder.glob('*.jsonl.gz')):
        with gzip.open(path, 'rt') as file:
            rows.extend(json.loads(line) for line in file)
    return rows


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """As fixtures, the same bytes for the same rows."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for row in rows:
        line = json.dumps(row, ensure_ascii=False, separators=(',', ':')) + '\n'
        lines.setdefault(part(row['name']), []).append(line)
    for name, of_part in lines.items():
        content = io.BytesIO()
        with gzip.GzipFile(fileobj=content, mode='wb', compresslevel=9, mtime=0, filename='') as file:
            file.write(''.join(of_part).encode())
        (folder / name).write_bytes(content.getvalue())


def summary(rows: list[dict[str, Any]]) -> str:
    """How much there is."""
    count: collections.Counter[str] = collections.Counter()
    for row in rows:
        count['lost'] += 'lost' in row
        count['samples'] += 'lost' not in row
        count['scaled'] += row.get('scaled', False)
        count['recorded'] += sum('events' in case for case in row['cases'])
        count['not run'] += sum('error' in case for case in row['cases'])
        count['values read'] += sum('reads' in case for case in row['cases'])
        for kind, file in row['files'].items():
            count[f'{kind} {"exported" if "bytes" in file else "not exported"}'] += 1
    return ', '.join(f'{key} {number}' for key, number in sorted(count.items()))


if __name__ == '__main__':
    work(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
