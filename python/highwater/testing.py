"""For tests: a model that no longer fits fails."""

from __future__ import annotations

from typing import Any

from highwater._asked import estimate
from highwater._estimate import Estimate


def assert_fits(model: Any, inputs: Any = None, device: str = "t4", *, chance: int = 50, **settings: Any) -> Estimate:
    """Fails unless training fits on a GPU with at least so many percent; it takes what `highwater.estimate` takes.

    Returns the estimate, for further assertions.
    """
    __tracebackhide__ = True
    result = estimate(model, inputs, device=device, **settings)
    if not result.fits or result.is_open or (result.chance is not None and result.chance < chance):
        largest = result.verdict.largest_batch
        hint = f" The largest batch that fits is {largest}." if largest else ""
        likely = f" It fits with a chance of {result.chance} %; {chance} % are asked for." if result.fits else ""
        open_ = f" The estimate is open: {'; '.join(result.diagnostics)}" if result.is_open else ""
        raise AssertionError(f"{result}{likely}{hint}{open_}")
    return result
