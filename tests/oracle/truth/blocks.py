"""Activation checkpointing, block by block, without reentrance.

Models of transformers and diffusers bring their own. For the others a block is an instance of one of the classes
below: what their papers call a block and repeat.
"""

import functools

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

#: Classes of torchvision and timm.
BLOCKS = """
    BasicBlock Bottleneck _DenseLayer Inception InceptionA InceptionB InceptionC InceptionD
    InceptionE InvertedResidual _InvertedResidual MBConv FusedMBConv CNBlock Fire ResBottleneckBlock
    EncoderBlock SwinTransformerBlock SwinTransformerBlockV2 MaxVitLayer Block MixerBlock
""".split()


class OnHost(torch.autograd.Function):
    """Checkpointing with reentry that keeps the hidden state in the host's memory, as axolotl and unsloth have it."""

    @staticmethod
    def forward(ctx, block, hidden_states, *others):
        on_host = hidden_states.to('cpu', non_blocking=True)
        with torch.no_grad():
            result = block(hidden_states, *others)
        ctx.save_for_backward(on_host)
        ctx.block, ctx.others = block, others
        return result

    @staticmethod
    def backward(ctx, gradient):
        (hidden_states,) = ctx.saved_tensors
        hidden_states = hidden_states.to('cuda', non_blocking=True).detach()
        hidden_states.requires_grad = True
        with torch.enable_grad():
            result = ctx.block(hidden_states, *ctx.others)
        torch.autograd.backward(result, gradient)
        return (None, hidden_states.grad) + (None,) * len(ctx.others)


def offloaded(block, *given, use_reentrant: bool | None = None, **_) -> Tensor:
    """What takes the place of `torch.utils.checkpoint.checkpoint`."""
    return OnHost.apply(block, *given)


def checkpoint_blocks(model: nn.Module, which: str, reentrant: bool = False, offload: bool = False) -> None:
    """Recomputes each block in backward. `which` is `blocks`, or the name of a class."""
    if offload:
        model.gradient_checkpointing_enable()
        for module in model.modules():
            if hasattr(module, '_gradient_checkpointing_func'):
                module._gradient_checkpointing_func = offloaded
        return
    if which == 'blocks' and hasattr(model, 'gradient_checkpointing_enable'):
        arguments = dict(use_reentrant=reentrant)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=arguments)
        return
    if which == 'blocks' and hasattr(model, 'enable_gradient_checkpointing'):
        model.enable_gradient_checkpointing()
        return
    names = BLOCKS if which == 'blocks' else [which]
    blocks = [module for module in model.modules() if type(module).__name__ in names]
    if not blocks:
        raise ValueError(f'no block of this model is known: give --checkpoint one of its classes')
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=reentrant)
