"""Compares a real run with its estimate."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, TextIO

from highwater._estimate import Comparison, Estimate

ENTRIES = 1_000_000
"""COUNT: calls to the allocator that PyTorch keeps, of some hundred bytes each."""


class check:
    """Records the memory of what runs in its block, and prints how that differs from an estimate, phase by phase.

        with highwater.check(estimate) as checked:
            for batch in loader: ...

    Begin before the model is moved to the GPU, and run about three steps. Without CUDA it says that it cannot compare.
    """

    comparison: Comparison | None
    """What was found; None where nothing could be compared."""

    def __init__(self, estimate: Estimate, *, file: TextIO | None = None) -> None:
        self.estimate = estimate
        self.comparison = None
        self._file = file
        self._records = False

    def __enter__(self) -> check:
        memory = _memory()
        if memory is None:
            self._print("there is no CUDA device here, so that nothing is compared; what runs is not recorded")
            return self
        memory._record_memory_history(max_entries=ENTRIES)
        self._records = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._records:
            return
        memory = _memory()
        assert memory is not None
        snapshot = memory._snapshot()
        memory._record_memory_history(enabled=None)
        self._records = False
        if kind is not None and "OutOfMemory" not in kind.__name__:
            return
        self.comparison = self.estimate.compare(snapshot)
        self._print(str(self.comparison))

    def _print(self, text: str) -> None:
        print(text, file=self._file or sys.stdout)


def _memory() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.memory if torch.cuda.is_available() else None
