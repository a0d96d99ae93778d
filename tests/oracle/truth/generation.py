"""transformers' own `generate`, measured: a prefill, then a forward pass for each token.

A fake device has no values, so the test whether every sequence has ended would end the loop after one token: it gives
way to a count. Everything else is transformers' code.
"""

from argparse import Namespace
from typing import Any

import torch

from truth.loop import Loop, statistics


class GenerationLoop(Loop):
    """A model that writes, in evaluation mode."""

    def __init__(self, chosen: Namespace) -> None:
        super().__init__(chosen)
        model: Any = self.model
        model.config.use_cache = model.generation_config.use_cache = True
        #: COUNT: tokens that are still to come.
        self.left = 0
        self.iteration = 0
        self.phase_name = ''
        model._has_unfinished_sequences = self.is_unfinished
        forward = model.forward

        def watched(*given: Any, **named: Any) -> Any:
            self.enter('decode' if self.phase_name else 'prefill')
            return forward(*given, **named)

        # `generate` asks the signature for what it may pass.
        watched.__signature__ = __import__('inspect').signature(forward)
        model.forward = watched

    def is_unfinished(self, *_: Any, **__: Any) -> bool:
        """Instead of the model's own test."""
        self.left -= 1
        return self.left >= 0

    def enter(self, name: str) -> None:
        """A phase begins where another ends."""
        if name == self.phase_name:
            return
        self.leave()
        self.phase_name = name
        self.mark(self.iteration, name)
        torch.cuda.reset_peak_memory_stats()

    def leave(self) -> None:
        """The peaks of the phase that ends."""
        if self.phase_name:
            self.peaks[-1][self.phase_name] = statistics()

    def iterate(self, iteration: int) -> None:
        """One call of `generate`."""
        chosen = self.chosen
        self.iteration, self.phase_name, self.left = iteration, '', chosen.new_tokens
        more: dict[str, Any] = {}
        if chosen.cache == 'static':
            more = {'cache_implementation': 'static', 'disable_compile': True}
        if chosen.beams > 1:
            more['num_beams'] = chosen.beams
        with torch.no_grad():
            self.model.generate(
                self.batch, max_new_tokens=chosen.new_tokens, do_sample=False, pad_token_id=0, **more
            )
        self.leave()
