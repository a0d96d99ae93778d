"""Runs the loop on the fake device.

The first run of a model may meet convolutions whose workspaces are not in the device's table: the
fake cuDNN writes them down, the real one is asked, and the loop is run again.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from truth import cudnn, place, settings


def run(arguments: list[str]) -> dict[str, Any]:
    """The answer for one configuration, given as on the command line of `run`."""
    chosen = settings.parser().parse_args(arguments)
    if chosen.snapshot and chosen.events:
        place.fail('--snapshot and --events want histories of their own: choose one')
    if chosen.real and chosen.events:
        place.fail('--events needs the fake device')
    with tempfile.TemporaryDirectory() as folder:
        answer, unknown = Path(folder) / 'answer', Path(folder) / 'unknown'
        command = [sys.executable, '-m', 'truth.loop', str(answer), *arguments]
        if chosen.real:
            launch(command, {**os.environ, **place.quiet()})
            return json.loads(answer.read_text())
        table = cudnn.table(chosen.device)
        environment = place.on_fake_device(chosen.device, table, unknown)
        if chosen.gpus > 1:
            environment['FAKECUDA_REMEMBER'] = '1'
        for _ in range(2):
            unknown.write_text('')
            launch(command, environment)
            calls = unknown.read_text().split()
            if not calls:
                break
            cudnn.extend(table, calls, chosen.device)
        return json.loads(answer.read_text())


def launch(command: list[str], environment: dict[str, str]) -> None:
    """Runs a process to its end; if it fails, so do we, with its last words."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        place.fail((done.stderr or done.stdout)[-2000:])


def main(arguments: list[str]) -> None:
    """`oracle run`: prints the answer, and appends it where `--out` says."""
    row = run(arguments)
    print(json.dumps({key: value for key, value in row.items() if key != 'summary'}, indent=1))
    if out := settings.parser().parse_args(arguments).out:
        with open(out, 'a') as file:
            file.write(json.dumps(row) + '\n')


def main_many(arguments: list[str]) -> None:
    """`oracle many FILE OUT`: runs each line of a file, one after the other; lines that OUT has
    answers for already are left out."""
    lines, out = Path(arguments[0]).read_text().splitlines(), Path(arguments[1])
    rows = out.read_text().splitlines() if out.exists() else []
    done = {json.loads(row)['arguments'] for row in rows}
    for line in lines:
        if not line.strip() or line.startswith('#') or line in done:
            continue
        try:
            row = run(line.split())
        except SystemExit as error:
            print(f'{line}: {error}', file=sys.stderr, flush=True)
            continue
        with out.open('a') as file:
            file.write(json.dumps({**row, 'arguments': line}) + '\n')
        print(f'{line}: {row["allocated"]} allocated, {row["reserved"]} reserved', flush=True)


def main_script(arguments: list[str]) -> None:
    """`oracle python SCRIPT …`: a script of your own on the fake A100."""
    environment = place.on_fake_device('a100', cudnn.table('a100'), None)
    os.execve(sys.executable, [sys.executable, *arguments], environment)
