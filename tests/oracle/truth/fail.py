"""Runs out of memory on purpose, and says where.

`oracle fail MIB MODEL …` is `oracle run MODEL …` on a device that has so many MiB: PyTorch raises its
own error, whose message is printed with the phase and the operators that were running, and what
the tensor asked for.
"""

import json
import os
import re
import sys
from typing import Any

import torch

from truth import cudnn, events, loop, place, settings

#: The fake device knows no processes: PyTorch lists empty ones, as many as it has room for.
NO_PROCESS = re.compile(r'Process 0 has 0 bytes memory in use\. ')


def main(arguments: list[str]) -> None:
    """Starts again on a device of that size, unless this is it."""
    memory, *options = arguments or place.fail('oracle fail MIB MODEL …')
    if place.is_fake():
        print(json.dumps(fail(int(memory), options)))
        return
    chosen = settings.parser().parse_args(options)
    environment = place.on_fake_device(chosen.device, cudnn.table(chosen.device), None)
    environment['FAKECUDA_MEMORY'] = str(int(memory) << 20)
    command = [sys.executable, '-m', 'truth', 'fail', *arguments]
    os.execve(sys.executable, command, environment)


def fail(memory: int, options: list[str]) -> dict[str, Any]:
    """What PyTorch says, and where it says it."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    chosen = settings.parser().parse_args([*options, '--events', os.devnull])
    training = loop.Loop(chosen)
    try:
        training.run()
    except torch.OutOfMemoryError as error:
        message = NO_PROCESS.sub('', str(error))
    except RuntimeError as error:
        place.fail(f'{memory} MiB: not the allocator, {error}')
    else:
        place.fail(f'{memory} MiB are enough')
    history = torch.cuda.memory._snapshot()['device_traces'][0]
    failed = [entry for entry in history if entry['action'] == 'oom'][-1]
    last = list(events.parse(history))[-1]
    phase, _, operators = (failed.get('user_metadata') or '').partition('|')
    row = loop.describe(training)
    return {
        'model': row['model'],
        'batch': row['batch'],
        'seq': row['seq'],
        'settings': ' '.join(settings.flags(row) or []),
        'memory_mib': memory,
        'phase': phase or last['phase'],
        'operators': operators,
        'bytes': failed['size'],
        'message': message,
    }
