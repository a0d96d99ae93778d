"""Losses without logits and kernels of Liger's, as they are put into a model of transformers.

Triton's launches do nothing here; what their Python allocates is the truth. The libraries stay apart from the
environment: `pip install --no-deps --target FOLDER liger-kernel trl cut-cross-entropy`, and `PYTHONPATH=FOLDER`.
"""

import types
from argparse import Namespace

import torch
from torch import nn
from torch.nn import functional

#: COUNT: tokens of a chunk in TRL 1.4 to 1.14.
CHUNK = 256


def patch(model: nn.Module, chosen: Namespace) -> None:
    """Changes the model's forward as the library does."""
    if not chosen.loss_kernel and not chosen.kernels:
        return
    launch_nothing()
    if chosen.kernels == 'liger' or chosen.loss_kernel == 'liger':
        from liger_kernel.transformers.monkey_patch import _apply_liger_kernel_to_instance

        layers = chosen.kernels == 'liger'
        fused = chosen.loss_kernel == 'liger'
        switches = dict(fused_linear_cross_entropy=fused, rms_norm=layers, rope=layers)
        gate = 'geglu' if 'gemma' in model.config.model_type else 'swiglu'
        _apply_liger_kernel_to_instance(model, **switches, **{gate: layers})
    losses = dict(chunked=chunked, fused=fused_head, cce=cut)
    losses['output-chunks'] = output_chunks
    if loss := losses.get(chosen.loss_kernel):
        model.forward = types.MethodType(with_loss(loss), model)


def launch_nothing() -> None:
    """Kernels of Triton are not launched."""
    from triton.runtime.jit import KernelInterface

    KernelInterface.__getitem__ = lambda self, grid: lambda *given, **named: None


def with_loss(loss):
    """A forward that hands hidden states, the head and labels to a loss."""

    def forward(self, input_ids, labels=None, num_items_in_batch=None, **_):
        hidden = self.model(input_ids=input_ids, use_cache=False).last_hidden_state
        value = loss(hidden, self.lm_head, labels)
        if num_items_in_batch is not None:
            value = value / num_items_in_batch
        return types.SimpleNamespace(loss=value, logits=None)

    return forward


def chunked(hidden, head, labels):
    """`_chunked_cross_entropy_loss` of TRL, with the numbers that it reads from the device given."""
    flat = hidden[..., :-1, :].reshape(-1, hidden.size(-1))
    labels = labels[..., 1:].reshape(-1)
    valid = labels != -100
    count = valid.sum()
    order = valid.to(torch.int8).argsort(descending=True, stable=True)
    flat, labels = flat[order], labels[order]
    loss = flat.new_zeros((), dtype=torch.float32)
    correct = flat.new_zeros((), dtype=torch.float32)
    entropy = flat.new_zeros((), dtype=torch.float32)
    for start in range(0, len(labels), CHUNK):
        part = torch.utils.checkpoint.checkpoint(
            chunk, flat[start : start + CHUNK], head.weight, labels[start : start + CHUNK], use_reentrant=False
        )
        loss, correct, entropy = loss + part[0], correct + part[1], entropy + part[2]
    return loss / count


def chunk(hidden, weight, labels):
    logits = hidden.float() @ weight.float().t()
    scores = functional.log_softmax(logits, dim=-1)
    loss = functional.nll_loss(scores, labels, ignore_index=-100, reduction='sum')
    valid = labels != -100
    correct = ((logits.argmax(dim=-1) == labels) & valid).sum().float()
    return loss, correct, (-(scores.exp() * scores).sum(dim=-1) * valid).sum()


def fused_head(hidden, head, labels):
    """The loss of TRL's SFTTrainer."""
    scores, mask = log_probabilities(hidden, head, labels)
    return (-scores).sum() / mask.sum()


def log_probabilities(hidden, head, labels):
    """What `add_fused_lm_head` of TRL 1.16 does where all labels count: log-probabilities, and which are counted."""
    from trl.kernels.chunked_logprob import ChunkedLogProbFunction

    hidden, labels = hidden[:, :-1], labels[:, 1:]
    mask = labels != -100
    rows, columns = (torch.zeros(mask.numel(), dtype=torch.long, device='cuda') for _ in range(2))
    scores, entropy, _, _, top = ChunkedLogProbFunction.apply(
        hidden[rows, columns],
        head.weight,
        head.bias,
        labels[rows, columns],
        1.0,
        32768,
        None,
        1.0,
        ('log_probs', 'entropy', 'is_top1'),
    )
    scores, entropy, top = (x.new_zeros(mask.shape).masked_scatter(mask, x) for x in (scores, entropy, top))
    return scores, mask


def cut(hidden, head, labels):
    """`linear_cross_entropy(…, shift=True)`."""
    import cut_cross_entropy.cce as cce

    cce.sort_logit_avg = lambda average: torch.argsort(average).to(torch.int32)
    count = labels[..., 1:].numel()
    rows = torch.zeros(count, 2, dtype=torch.long, device='cuda')
    cce._build_flat_valids = lambda *_: rows.to(torch.int32).sum(1)
    return cce.cce_linear_cross_entropy(hidden, head.weight, labels, shift=True)


def output_chunks(hidden, head, labels):
    """torchtune's `CEWithChunkedOutputLoss`, eager."""
    logits = [head(part) for part in hidden.chunk(8, dim=1)]
    labels = functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    count = (labels != -100).sum()
    parts = [part.reshape(-1) for part in labels.chunk(8, dim=1)]
    logits = [part.reshape(-1, part.size(-1)) for part in logits]
    loss = 0.0
    for part, label in zip(logits, parts):
        loss += functional.cross_entropy(part.float(), label, ignore_index=-100, reduction='sum')
    return loss / count
