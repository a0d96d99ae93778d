"""Activation checkpointing, block by block, without reentrance.

Models of transformers and diffusers bring their own. For the others a block is an instance of one of the classes
below: what their papers call a block and repeat.
"""

import functools

from torch import nn
from torch.utils.checkpoint import checkpoint

#: Classes of torchvision and timm.
BLOCKS = """
    BasicBlock Bottleneck _DenseLayer Inception InceptionA InceptionB InceptionC InceptionD
    InceptionE InvertedResidual _InvertedResidual MBConv FusedMBConv CNBlock Fire ResBottleneckBlock
    EncoderBlock SwinTransformerBlock SwinTransformerBlockV2 MaxVitLayer Block MixerBlock
""".split()


def checkpoint_blocks(model: nn.Module, which: str, reentrant: bool = False) -> None:
    """Recomputes each block in backward. `which` is `blocks`, or the name of a class."""
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
