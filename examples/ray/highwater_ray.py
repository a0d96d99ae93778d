"""How much of a GPU a Ray task asks for: Highwater's estimate as `num_gpus`.

    @ray.remote
    def train(job): ...

    job = {'model': 'resnet50', 'batch': 32, 'settings': {'optimizer': 'adamw'}}
    train.options(num_gpus=num_gpus(job, 't4')).remote(job)

Python's standard library is enough, and one of the two: `highwater serve` at HIGHWATER_SERVER (`unix:PATH` or
`HOST:PORT`), or the command `highwater` at HIGHWATER, which by default is found on PATH. The second takes a process
for each question.
"""

import http.client
import json
import os
import socket
import subprocess

#: Seconds that an answer may take.
TIMEOUT = 30


class DoesNotFit(ValueError):
    """The job fits on no such GPU. The message is Highwater's sentence."""


class NotSure(Warning):
    """The job may fit. The message is Highwater's sentence."""


class NoAnswer(RuntimeError):
    """The server or the command gave no answer, or the job has an error."""


def num_gpus(job: dict, gpu: str, *, if_unsure: float | None = None) -> float:
    """The part of one GPU that a job needs, rounded up to 2 decimals.

    `gpu` is an id of `highwater devices`. Where the estimate is not sure, the answer is `if_unsure`, such as 1.0 for a
    whole GPU.

    Raises:
        DoesNotFit: the job is expected to run out of memory.
        NotSure: it may, and there is no `if_unsure`.
        NoAnswer: the job has an error, or nobody answers.
    """
    answer = estimate(job | {'devices': [gpu]})
    if error := answer.get('error'):
        raise NoAnswer(error['message'])
    [device] = answer['devices']
    if device['verdict'] == 'does-not-fit':
        raise DoesNotFit(device['sentence'])
    requests = device.get('requests')
    if requests and requests['is_sure']:
        return requests['gpu_fraction']
    if if_unsure is None:
        raise NotSure(device['sentence'])
    return if_unsure


def estimate(job: dict) -> dict:
    """The answer to a job; docs/schedulers.md has the format of both."""
    server = os.environ.get('HIGHWATER_SERVER')
    try:
        text = _of_server(server, json.dumps(job)) if server else _of_command(json.dumps(job))
        return json.loads(text)
    except (OSError, http.client.HTTPException, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise NoAnswer(f'no answer from Highwater: {error}') from error


def _of_command(job: str) -> bytes:
    command = [os.environ.get('HIGHWATER', 'highwater'), 'estimate', '--jsonl']
    return subprocess.run(command, input=job.encode(), stdout=subprocess.PIPE, check=True, timeout=TIMEOUT).stdout


def _of_server(server: str, job: str) -> bytes:
    path = server.removeprefix('unix:')
    connection = http.client.HTTPConnection('localhost' if path != server else server, timeout=TIMEOUT)
    if path != server:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(TIMEOUT)
        connection.sock.connect(path)
    try:
        connection.request('POST', '/v1/estimate', job, {'Content-Type': 'application/json'})
        return connection.getresponse().read()
    finally:
        connection.close()
