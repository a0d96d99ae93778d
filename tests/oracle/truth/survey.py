"""Many models: what PyTorch needs to train each, and its exports, kept for the next time.

    oracle survey LIST FORMATS INDEX [--again | --kept]    FORMATS: some of train,eval,dynamo,pt2,print
    oracle construct LIST                                  whether each name makes a model, no more

A line of LIST is a model as `named.py` knows it, then options of `oracle run`. Answers lie in
`$ORACLE_HOME/survey/MODEL-HASH`, where the hash is of the line: `truth.json`, its events, an export
of each format, and `*.failed` for what could not be done. `--again` tries that anew; `--kept` tries
nothing. INDEX gets a line of JSON for each model and format: where the files are, or what went wrong.

Two servers import the libraries once, one on the fake device and one off it, and fork for each
job: a job begins in a clean process, and takes nobody with it if it crashes or takes too long.
"""

import contextlib
import hashlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from truth import cudnn, place

FORMATS = ('train', 'eval', 'dynamo', 'pt2', 'print')
ENDINGS = {'pt2': 'pt2', 'print': 'txt'}
#: COUNT: seconds that one job may take.
PATIENCE = 240
#: As `export.WAYS`, for models that have several.
WAYS = ('', 'eager', 'mask', 'eager,mask')
CACHE = place.HOME / 'survey'


def main(arguments: list[str]) -> None:
    """`oracle survey`."""
    listed, formats, index, *rest = arguments
    chosen = formats.split(',')
    if strange := set(chosen) - set(FORMATS):
        place.fail(f'no format {", ".join(strange)}: there are {", ".join(FORMATS)}')
    lines = read(listed)
    if '--again' in rest:
        for line in lines:
            for failed in folder(line).glob('*.failed'):
                failed.unlink()
    if '--kept' not in rest:
        truths = threading.Thread(target=ask_all, args=(lines,))
        truths.start()
        export_all(lines, chosen)
        truths.join()
        ask_all(lines, of_exports=chosen)
    with open(index, 'w') as file:
        for line in lines:
            for kind in chosen:
                file.write(json.dumps(describe(line, kind)) + '\n')


def read(path: str) -> list[str]:
    """Models and their options, without comments and empty lines."""
    lines = (line.partition('#')[0].split() for line in Path(path).read_text().splitlines())
    return [' '.join(words) for words in lines if words]


def folder(line: str) -> Path:
    """Where a model's files are."""
    name = re.sub(r'\W+', '-', line.split()[0])[:60].strip('-')
    path = CACHE / f'{name}-{hashlib.sha1(line.encode()).hexdigest()[:8]}'
    path.mkdir(parents=True, exist_ok=True)
    return path


def export_path(line: str, kind: str) -> Path:
    """Where an export goes."""
    return folder(line) / f'{kind}.{ENDINGS.get(kind, "onnx")}.gz'


def attention_of(line: str, kind: str) -> str:
    """Which attention an export has, where it had to be another than the model's own."""
    way = folder(line) / f'{kind}.way'
    return 'eager' if way.exists() and 'eager' in way.read_text() else ''


def truth_path(line: str, attention: str = '') -> Path:
    """Where an answer goes."""
    return folder(line) / f'truth{attention and "-" + attention}.json'


def describe(line: str, kind: str) -> dict[str, Any]:
    """A line of the index."""
    export, truth = export_path(line, kind), truth_path(line, attention_of(line, kind))
    row: dict[str, Any] = {'model': line, 'format': kind}
    for key, path in (('truth', truth), ('export', export)):
        failed = path.with_name(path.name + '.failed')
        row[key] = str(path) if path.exists() else None
        if not path.exists():
            row['failed'] = f'{key}: {last_words(failed)}'
    row['events'] = str(truth.with_suffix('.jsonl.gz'))
    return row


def last_words(path: Path) -> str:
    """What a job said at its end; of several ways to export, the first one's."""
    words = path.read_text(errors='replace') if path.exists() else ''
    errors = re.findall(r'^(?:\w+: |ended by ).*', words, re.MULTILINE)
    return errors[0][:300] if errors else 'nothing was said'


def ask_all(lines: list[str], of_exports: list[str] | None = None) -> None:
    """What PyTorch needs for each model; with `of_exports`, for the attention that exports have."""
    wanted = [
        (line, attention)
        for line in lines
        for attention in ({attention_of(line, kind) for kind in of_exports} if of_exports else {''})
    ]
    with contextlib.ExitStack() as stack:
        server = Server(stack, lines, on_fake_device=True)
        for line, attention in wanted:
            truth = truth_path(line, attention)
            if not is_settled(truth):
                ask(server, line, attention, truth)


def ask(server: 'Server', line: str, attention: str, truth: Path) -> None:
    """As `record.run` does: a second time where convolutions were met that the table lacks."""
    unknown = truth.with_suffix('.unknown')
    options = [*line.split(), *(['--attn', attention] if attention else [])]
    options += ['--events', str(truth.with_suffix('.jsonl.gz'))]
    for _ in range(2):
        unknown.write_text('')
        server.perform(truth, job='truth', options=options, unknown=str(unknown))
        calls = unknown.read_text().split()
        if not calls or not truth.exists():
            break
        cudnn.extend(cudnn.table('a100'), calls, 'a100')
    unknown.unlink()


def export_all(lines: list[str], formats: list[str]) -> None:
    """Exports, each in the first way that works."""
    with contextlib.ExitStack() as stack:
        server = Server(stack, lines, on_fake_device=False)
        for kind in formats:
            for line in lines:
                export = export_path(line, kind)
                if is_settled(export):
                    continue
                has_ways = line.startswith('transformers:') and kind != 'print'
                for way in WAYS if has_ways else WAYS[:1]:
                    server.perform(export, job='export', model=line.split()[0], kind=kind, way=way)
                    if export.exists():
                        (folder(line) / f'{kind}.way').write_text(way)
                        break


def is_settled(path: Path) -> bool:
    """Whether an answer is there, or known not to come."""
    return path.exists() or path.with_name(path.name + '.failed').exists()


class Server:
    """A process that forks for each job; started by the first."""

    def __init__(
        self, stack: contextlib.ExitStack, lines: list[str], on_fake_device: bool
    ) -> None:
        self.stack, self.on_fake_device = stack, on_fake_device
        libraries = {line.partition(':')[0] + ':' for line in lines} & set(PRELOADED)
        self.wanted = sorted(libraries if on_fake_device else {*libraries, 'export'})
        self.process: subprocess.Popen[str] | None = None

    def perform(self, path: Path, **job: Any) -> None:
        """Makes the file, or `.failed` beside it."""
        if self.process is None:
            environment = {**os.environ, **place.quiet()}
            if self.on_fake_device:
                environment = place.on_fake_device('a100', cudnn.table('a100'), None)
            pipe = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            command = [sys.executable, '-m', 'truth.survey', *self.wanted]
            self.process = self.stack.enter_context(
                subprocess.Popen(command, env=environment, **pipe)
            )
        log = path.with_name(path.name + '.failed')
        begun = time.monotonic()
        self.process.stdin.write(json.dumps({**job, 'path': str(path), 'log': str(log)}) + '\n')
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        took = time.monotonic() - begun
        if os.WIFSIGNALED(status):
            path.unlink(missing_ok=True)
            ended = signal.Signals(os.WTERMSIG(status)).name
            with log.open('a') as file:
                file.write(f'\nended by {ended} after {took:.0f} s\n')
        if path.exists():
            log.unlink(missing_ok=True)
        said = 'done' if path.exists() else last_words(log)[:100]
        print(f'{path.parent.name} {path.name} {took:.1f} s: {said}', flush=True)


#: What a job would import first, which costs seconds; by a word of the lines that want it.
PRELOADED = {
    '': 'onnx timm torchvision transformers.modeling_utils truth.export truth.loop',
    'transformers:': 'transformers.models.auto.modeling_auto',
    'diffusers:': 'diffusers.models.modeling_utils diffusers.models.unets.unet_2d_condition',
    'export': 'torch.export torch._dynamo torch.onnx._internal.exporter._core onnxscript',
}


def serve(wanted: list[str]) -> None:
    """A fork for each line of standard input; its status is the answer."""
    with device_untouched():
        for word in ['', *wanted]:
            for module in PRELOADED[word].split():
                importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(perform(json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


@contextlib.contextmanager
def device_untouched() -> Iterator[None]:
    """Some modules want to know, when they are imported, whether there is a device; PyTorch refuses
    it to the children of a process that has asked."""
    import torch

    count = torch._C._cuda_getDeviceCount
    torch._C._cuda_getDeviceCount = lambda: int(place.is_fake())
    try:
        yield
    finally:
        torch._C._cuda_getDeviceCount = count


def perform(job: dict[str, Any]) -> int:
    """One job, in a process of its own, whose words go to a file."""
    from truth import export, loop, named

    signal.alarm(PATIENCE)
    kept = os.O_APPEND if job.get('way') else os.O_TRUNC
    log = os.open(job['log'], os.O_WRONLY | os.O_CREAT | kept)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(0)
    path = Path(job['path'])
    with stopping_in_words():
        if job['job'] == 'truth':
            named.register(job['options'][0])
            os.environ['FAKECUDA_UNKNOWN'] = job['unknown']
            loop.measure(path, job['options'])
        elif job['kind'] == 'print':
            named.register(job['model'])
            export.print_one(path, job['model'])
        else:
            named.register(job['model'])
            export.export_one(path, job['kind'], job['model'], job['way'])
        return 0
    return 1


@contextlib.contextmanager
def stopping_in_words() -> Iterator[None]:
    """An exception's words are the last of the log."""
    try:
        yield
    except BaseException as error:
        traceback.print_exc()
        words = ' '.join(str(error).split())
        print(f'{type(error).__name__}: {words}', file=sys.stderr, flush=True)


def main_construct(arguments: list[str]) -> None:
    """`oracle construct`: makes each model of a list, and says how large it is."""
    from truth import named, zoo

    for line in read(arguments[0]):
        model = line.split()[0]
        with stopping_in_words():
            named.register(model)
            made = zoo.build(model)
            count = sum(parameter.numel() for parameter in made.parameters())
            print(f'{model}: {count / 1e6:.1f} million parameters', flush=True)


if __name__ == '__main__':
    serve(sys.argv[1:])
