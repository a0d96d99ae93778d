"""How a module runs by itself: in which type, with gradient checkpointing, compiled."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from highwater._settings import Settings

CHECKPOINTING = ("gradient_checkpointing", "grad_checkpointing")
"""Names that modules of transformers and of timm have for whether their blocks run again in backward."""

NAMED = 3
"""COUNT: parts of a module that a note names."""


def of(module: Any) -> tuple[torch.nn.Module, Settings, list[str]]:
    """A module without what compiles it, the settings that it runs with, and what the estimate does not have of it."""
    settings: Settings = {}
    notes = []
    is_compiled = _is_compiled(module)
    while hasattr(module, "_orig_mod"):
        module = module._orig_mod
        is_compiled = is_compiled or _is_compiled(module)
    if is_compiled:
        settings["compile"] = "inductor"
    parts = [name for name, part in module.named_modules() if part is not module and _is_compiled(part)]
    if parts and not is_compiled:
        names = ", ".join(f"`{name}`" for name in parts[:NAMED])
        more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
        are = "is" if len(parts) == 1 else "are"
        notes.append(f"{names}{more} {are} compiled, and the module is not; the estimate has nothing compiled")
    blocks = _checkpointed(module)
    if any(blocks.values()):
        settings["checkpoint"] = "blocks"
        reentry = _reentry(module)
        if reentry is not None:
            settings["checkpoint_reentry"] = "on" if reentry else "off"
        if not all(blocks.values()):
            count = sum(blocks.values())
            notes.append(
                f"{count} of {len(blocks)} blocks run again in backward; the estimate assumes that all of them do"
            )
    return module, settings, notes


def weights(module: torch.nn.Module) -> str | None:
    """The type that most weights have, as settings call it; None where there is no name for it."""
    elements: Counter[str] = Counter()
    for parameter in module.parameters():
        elements[str(parameter.dtype)] += parameter.numel()
    names = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}
    return names.get(elements.most_common(1)[0][0]) if elements else None


@contextlib.contextmanager
def plainly(module: torch.nn.Module) -> Iterator[None]:
    """The module without checkpointing and without compiled parts, as it is exported; afterwards it is as it was."""
    before: list[tuple[Any, str, Any]] = []

    def change(part: Any, name: str, value: Any) -> None:
        before.append((part, name, getattr(part, name)))
        setattr(part, name, value)

    try:
        for part in list(module.modules()):
            for name in CHECKPOINTING:
                if getattr(part, name, None) is True:
                    change(part, name, False)
            if getattr(part, "_compiled_call_impl", None) is not None:
                change(part, "_compiled_call_impl", None)
        yield
    finally:
        for part, name, value in reversed(before):
            setattr(part, name, value)


def _is_compiled(module: Any) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def _checkpointed(module: torch.nn.Module) -> dict[str, bool]:
    """By name of each block that can run again in backward, whether it does; of models without such blocks, theirs."""
    found = {
        name: bool(getattr(part, attribute))
        for name, part in module.named_modules()
        for attribute in CHECKPOINTING
        if isinstance(getattr(part, attribute, None), bool)
    }
    blocks = {
        name: value
        for name, value in found.items()
        if any(base.__name__ == "GradientCheckpointingLayer" for base in type(module.get_submodule(name)).__mro__)
    }
    return blocks or found


def _reentry(module: torch.nn.Module) -> bool | None:
    """Whether checkpointing enters autograd again, where the module states it."""
    for part in module.modules():
        keywords = getattr(getattr(part, "_gradient_checkpointing_func", None), "keywords", None) or {}
        if "use_reentrant" in keywords:
            return bool(keywords["use_reentrant"])
    return None
