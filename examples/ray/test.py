"""Runs tasks on a Ray cluster with one logical GPU, with and without a server.

    python -m venv VENV && VENV/bin/pip install -r examples/ray/requirements.txt
    VENV/bin/python examples/ray/test.py PATH_OF_HIGHWATER

No GPU is needed: Ray counts GPUs and looks at none.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ray

from highwater_ray import DoesNotFit, NoAnswer, NotSure, num_gpus

GPU = 't4'
#: Two of these share a T4, three do not.
JOB = {'model': 'resnet50', 'batch': 48}
TOO_LARGE = {'model': 'llama-3.1-8b', 'batch': 1}


@ray.remote
class Running:
    """Counts the tasks that run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def change(self, by: int) -> None:
        self.now += by
        self.most = max(self.most, self.now)

    def state(self) -> tuple[int, int]:
        return self.now, self.most

    def have_met(self) -> bool:
        return self.most > 1


@ray.remote
def train(running, seconds: float) -> None:
    ray.get(running.change.remote(1))
    # On a busy machine the other one begins late.
    for _ in range(600):
        if ray.get(running.have_met.remote()):
            break
        time.sleep(0.1)
    time.sleep(seconds)
    ray.get(running.change.remote(-1))


def check_fractions() -> float:
    """The same of a server and of a command. Returns the fraction of a job."""
    fraction = num_gpus(JOB, GPU)
    assert 1 / 3 < fraction <= 1 / 2, fraction
    for job, error, words in [
        (TOO_LARGE, DoesNotFit, 'Does not fit on a T4: llama-3.1-8b at batch 1'),
        (JOB | {'model': 'resnet5000'}, NoAnswer, 'the nearest names are resnet50'),
        (JOB | {'batch': 153}, NotSure, 'fit'),
    ]:
        try:
            raise AssertionError(f'{job} asks for {num_gpus(job, GPU)}')
        except error as found:
            assert words in str(found), found
            print(f'{error.__name__}: {found}')
    assert num_gpus(JOB | {'batch': 153}, GPU, if_unsure=1.0) == 1.0
    return fraction


def check_tasks(fraction: float) -> None:
    """Two tasks run together, and the third waits."""
    ray.init(num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    running = Running.remote()
    task = train.options(num_gpus=fraction)
    waiting = [task.remote(running, 1.5) for _ in range(3)]
    ray.get(waiting)
    now, most = ray.get(running.state.remote())
    assert (now, most) == (0, 2), (now, most)
    print(f'3 tasks of {fraction} GPUs: at most {most} ran at a time')
    ray.shutdown()


def main(program: str) -> None:
    os.environ['HIGHWATER'] = program
    fraction = check_fractions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'socket')
        server = subprocess.Popen([program, 'serve', '--socket', path])
        try:
            for _ in range(600):
                if path.exists():
                    break
                time.sleep(0.1)
            os.environ['HIGHWATER_SERVER'] = f'unix:{path}'
            # Nothing but the server can answer.
            os.environ['HIGHWATER'] = '/nonexistent'
            assert check_fractions() == fraction
        finally:
            server.terminate()
            assert server.wait(60) == 0
    check_tasks(fraction)
    print('2 passed, 0 failed')


if __name__ == '__main__':
    main(sys.argv[1])
