"""Will this training run fit on that GPU?

    import highwater
    estimate = highwater.estimate(model, inputs, batch=32, optimizer="adamw", device="t4")
    print(estimate)                # the answer in a sentence
    estimate.peak.allocated        # bytes
    estimate.advise().frame()      # what would lower it

It needs neither a GPU nor weights. All sizes are bytes, all times are seconds.
"""

from highwater._asked import Fit, estimate, fit
from highwater._check import check
from highwater._estimate import (
    Advice,
    Comparison,
    Estimate,
    Peak,
    Phase,
    Suggestion,
    Time,
    Timeline,
    Times,
    Verdict,
)
from highwater._native import Error, __version__, devices
from highwater._page import Page
from highwater.testing import assert_fits

__all__ = [
    "Advice",
    "Comparison",
    "Error",
    "Estimate",
    "Fit",
    "Page",
    "Peak",
    "Phase",
    "Suggestion",
    "Time",
    "Timeline",
    "Times",
    "Verdict",
    "__version__",
    "assert_fits",
    "check",
    "devices",
    "estimate",
    "fit",
]
