"""Models through `torch.compile`, on the fake device.

Inductor really compiles, with Triton and ptxas; kernels are launched, and do nothing. What it asks of
the driver is in `fakecuda/driver.c`.
"""

import atexit
import os
import shutil
import tempfile

from torch import nn

from truth import place


def compile(model: nn.Module, backend: str, mode: str | None) -> None:
    """The model's own call is compiled; loss and optimizer stay as they are."""
    import torch._inductor.config

    # A compiler's process of its own would not meet the device.
    torch._inductor.config.compile_threads = 1
    # Empty, because a kernel that is found there is not tuned, and what the tuning allocates is part
    # of a first run.
    cache = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ['TORCHINDUCTOR_CACHE_DIR'] = cache
    os.environ['TRITON_CACHE_DIR'] = str(place.HOME / 'triton')
    model.compile(backend=backend, **dict(mode=mode) if mode else {})
