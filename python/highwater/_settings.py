"""Settings of a training: keywords and optimizers as flags of the command line."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from highwater._native import Error, settings

Settings = dict[str, Any]

FLAGS = {name: is_flag for name, is_flag, _ in settings()}
"""Names of all settings, with underscores, and whether each is a flag without a value."""

USUAL = {name: value for name, _, value in settings()}
"""What each setting is where nothing is said."""

SIZES = ("batch", "seq", "image_size")
"""Sizes that have flags of their own."""


def flags(given: Settings) -> list[str]:
    """Settings as flags; what is None is left out. A flag that is False switches off what a name or a recipe brings."""
    result: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        flag = "--" + name.replace("_", "-")
        if name == "dims":
            result += [f"--dim={dim}={size}" for dim, size in value.items()]
        elif FLAGS.get(name):
            if not isinstance(value, bool):
                raise Error(f"`{name}` is True or False, not {value!r}")
            result.append(f"{flag}={str(value).lower()}")
        elif name in SIZES or name in FLAGS:
            values = value if isinstance(value, (list, tuple)) else [value]
            result += [f"{flag}={_text(value)}" for value in values]
        else:
            known = [*FLAGS, *SIZES, "dims"]
            near = difflib.get_close_matches(name, known, 3) or difflib.get_close_matches(name, known, 3, 0.4)
            hint = f"; near are {', '.join(near)}" if near else ""
            raise Error(f"there is no setting `{name}`{hint}")
    return result


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


_SIMPLE = {
    "NAdam": "nadam",
    "RAdam": "radam",
    "Adamax": "adamax",
    "Adagrad": "adagrad",
    "Adadelta": "adadelta",
    "Rprop": "rprop",
    "ASGD": "asgd",
    "Adafactor": "adafactor",
    "Muon": "muon",
    "Lion": "lion",
    "Adam8bit": "adam-8bit",
    "AdamW8bit": "adamw-8bit",
    "PagedAdamW8bit": "paged-adamw-8bit",
    "PagedAdamW32bit": "paged-adamw-32bit",
    "PagedAdamW": "paged-adamw-32bit",
}


def of_optimizer(optimizer: Any) -> Settings:
    """The settings that an optimizer of PyTorch or bitsandbytes has: its class, its groups, its hyper-parameters.

    A class, such as `torch.optim.AdamW`, stands for itself with its defaults.
    """
    if isinstance(optimizer, str):
        return {"optimizer": optimizer}
    if isinstance(optimizer, type):
        return {"optimizer": _name(optimizer.__name__, [{}]), **_decay([{"weight_decay": _usual_decay(optimizer)}])}
    # accelerate wraps optimizers.
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list) or not groups:
        raise Error(
            f"{type(optimizer).__name__} is no optimizer of PyTorch; give one, its class, or a name such as `adamw`"
        )
    result: Settings = {"optimizer": _name(type(optimizer).__name__, groups)}
    result["optimizer_impl"] = _implementation(groups)
    result.update(_decay(groups))
    return result


def _decay(groups: list[dict[str, Any]]) -> Settings:
    """Whether any group decays its weights, where they can."""
    known = [group["weight_decay"] for group in groups if group.get("weight_decay") is not None]
    return {"weight_decay": any(known)} if known else {}


def _usual_decay(kind: type) -> float | None:
    """How much a class of optimizers decays weights unless it is told."""
    try:
        parameter = inspect.signature(kind).parameters.get("weight_decay")
    except (TypeError, ValueError):
        return None
    return parameter.default if parameter is not None and isinstance(parameter.default, (int, float)) else None


def _name(kind: str, groups: list[dict[str, Any]]) -> str:
    def has(key: str) -> bool:
        return any(group.get(key) for group in groups)

    if kind == "SGD":
        return "sgd-nesterov" if has("nesterov") else "sgd-momentum" if has("momentum") else "sgd"
    if kind in ("Adam", "AdamW"):
        return kind.lower() + ("-amsgrad" if has("amsgrad") else "")
    if kind == "RMSprop":
        if has("momentum") and has("centered"):
            raise Error("RMSprop with both `momentum` and `centered` is not simulated; choose one of them")
        return "rmsprop-momentum" if has("momentum") else "rmsprop-centered" if has("centered") else "rmsprop"
    name = _SIMPLE.get(kind)
    if name is None:
        known = ", ".join(["SGD", "Adam", "AdamW", "RMSprop", *_SIMPLE])
        raise Error(
            f"the optimizer {kind} is not simulated; these are: {known}. Give the name of the one that is nearest"
        )
    return name


def _implementation(groups: list[dict[str, Any]]) -> str:
    chosen = {
        "fused" if group.get("fused") else {None: "auto", True: "foreach", False: "for-loop"}[group.get("foreach")]
        for group in groups
    }
    if len(chosen) > 1:
        raise Error("groups of the optimizer differ in `foreach` or `fused`; give all the same")
    return chosen.pop()


def notes_on(optimizer: Any, parameters: Iterable[Any]) -> list[str]:
    """What an optimizer does that the estimate does not have, as sentences."""
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list):
        return []
    notes = []
    known = {id(parameter) for group in groups for parameter in group["params"]}
    missing = [parameter for parameter in parameters if parameter.requires_grad and id(parameter) not in known]
    if missing:
        count = sum(parameter.numel() for parameter in missing)
        notes.append(
            f"{count:,} trained parameters are in no group of the optimizer; the estimate counts state for them, too"
        )
    if len(groups) > 1:
        notes.append(
            f"the optimizer's {len(groups)} groups are updated as one, so its temporaries may be counted too high"
        )
    return notes


CASTS = {
    "fp32": "",
    "fp16": "",
    "bf16": "",
    "amp-fp16": "fp16",
    "amp-bf16": "bf16",
    "fp16-amp": "fp16",
    "bf16-amp": "bf16",
}
"""What autocast casts to, by precision; those with weights of the optimizer's own are not there."""


def precision(weights: str, usual: str | None) -> str | None:
    """The precision of a module whose weights have a type, where a recipe suggests one; None leaves that as it is."""
    cast = CASTS.get(usual or "")
    if cast is None:
        return None
    if not cast:
        return weights
    if weights == "fp32":
        return f"amp-{cast}"
    return f"{weights}-amp" if weights == cast else None


def of_arguments(arguments: Any) -> str:
    """The arguments of a trainer as text that is read as a recipe."""
    if isinstance(arguments, str):
        return arguments
    fields: Any = arguments
    if not isinstance(arguments, Mapping):
        as_dict = getattr(arguments, "to_dict", None)
        if as_dict is None:
            raise Error(
                f"{type(arguments).__name__} has no arguments of a trainer; give transformers' TrainingArguments, "
                "a dict of them, or the text of a script or YAML"
            )
        fields = as_dict()
    return json.dumps(dict(fields), default=str)
