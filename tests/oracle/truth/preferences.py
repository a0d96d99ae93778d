"""Training on pairs of texts, statement by statement as TRL's `DPOTrainer` has it; no value is read from the device.

TRL 1.10 computes logits, 1.15 and later fuse the head with the loss. It stays apart from the environment:
`pip install --no-deps --target FOLDER trl`, and `PYTHONPATH=FOLDER`.
"""

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from truth import kernels
from truth.loop import Loop


class PairLoop(Loop):
    """A model, and a frozen copy of it unless it has adapters, which read pairs of texts."""

    def prepare_model(self):
        """The copy comes behind the model."""
        reference = None
        if self.chosen.objective == 'dpo' and not self.chosen.lora:
            import truth.zoo as zoo

            given = dict(attn=self.chosen.attn) if self.chosen.attn else {}
            reference = zoo.build(self.chosen.model, **given).to(getattr(torch, self.chosen.dtype)).eval()
            reference.requires_grad_(False)
        kernels.launch_nothing()
        model = super().prepare_model()
        self.reference = reference.cuda() if reference else None
        return model

    def prepare_inputs(self):
        """Twice as many texts as pairs."""
        self.chosen.batch *= 2
        try:
            return super().prepare_inputs()
        finally:
            self.chosen.batch //= 2

    def forward(self) -> tuple[Tensor, Any]:
        """The loss; what the models returned goes with the function."""
        logps, outputs = self.read(self.model)
        if self.chosen.objective == 'dpo':
            with torch.no_grad(), self.without_adapters():
                of_reference, of_outputs = self.read(self.reference or self.model)
        else:
            of_reference = torch.zeros(len(logps), device='cuda')
        chosen, rejected = (logps - of_reference).chunk(2)
        loss = -functional.logsigmoid(0.1 * (chosen - rejected)).mean()
        if outputs is not None:
            report(outputs)
        return loss, None

    def without_adapters(self):
        """The model itself, if it has adapters."""
        layers = [module for module in self.model.modules() if hasattr(module, 'disable_adapters')]

        @contextlib.contextmanager
        def off():
            for layer in layers:
                layer._disable_adapters = True
            yield
            for layer in layers:
                layer._disable_adapters = False

        return off() if self.reference is None else contextlib.nullcontext()

    def read(self, model) -> tuple[Tensor, Tensor | None]:
        """The log-probability of each text, and logits if there are any."""
        ids = self.batch
        if self.chosen.loss_kernel == 'fused':
            hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
            return kernels.log_probabilities(hidden, model.lm_head, ids)[0].sum(dim=1), None
        from trl.trainer.utils import selective_log_softmax

        logits = model(input_ids=ids, use_cache=False).logits[..., :-1, :]
        return selective_log_softmax(logits, ids[..., 1:]).sum(dim=1), logits


def report(logits: Tensor) -> None:
    """Entropy, and the mean logit of chosen and rejected texts."""
    from trl.trainer.utils import entropy_from_logits

    logits = logits.detach()
    entropy_from_logits(logits).sum()
    for half in logits.chunk(2):
        places = (torch.zeros(half.shape[0] * half.shape[1], dtype=torch.long, device='cuda') for _ in range(2))
        half[tuple(places)].mean(-1).sum()
