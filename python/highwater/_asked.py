"""What people give as a model, and the questions that are asked first."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater import _export, _running, _settings
from highwater._estimate import Estimate, Verdict
from highwater._model import Opened
from highwater._native import Error, check_flags, check_recipe
from highwater._settings import Settings


def estimate(
    model: Any,
    inputs: Any = None,
    *,
    batch: int | None = None,
    seq: int | None = None,
    optimizer: Any = None,
    device: str | None = None,
    arguments: Any = None,
    name: str | None = None,
    **settings: Any,
) -> Estimate:
    """Estimates how much GPU memory training a model takes.

    `model` is one of
    - an `nn.Module`, on the CPU, a GPU or the meta device, with example `inputs` of any batch: a tensor, a tuple of
      what `forward` takes, or a dict of its keyword arguments. It is exported in memory; no weight is copied;
    - a program of `torch.export`;
    - a file: ONNX, `.pt2`, safetensors, a configuration, a training recipe, and whatever else the command line opens;
    - the name of a published model, such as `llama-3.1-8b`;
    - a configuration of transformers;
    - a Trainer of transformers, whose model, arguments and optimizer are read.

    `batch` is the number of samples (default: that of the inputs), `seq` the length of texts. `optimizer` is an
    optimizer of PyTorch or bitsandbytes, its class, or a name. `device` is a GPU such as `t4`; `highwater.devices()`
    lists them. `arguments` are those of a trainer: TrainingArguments, a dict of them, or the text of a script. All
    other settings are those of the command line with underscores: `precision="amp-bf16"`, `checkpoint="blocks"`,
    `dims={"height": 384}`.

    Raises `highwater.Error` where something cannot be estimated; the text says what to do.
    """
    settings = {key: value for key, value in settings.items() if value is not None}
    if _is_trainer(model):
        # Its arguments say how the optimizer's groups are made.
        optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        arguments = model.args if arguments is None else arguments
    # Whatever is wrong here is found before a module is exported, which takes seconds.
    of_optimizer = _settings.of_optimizer(optimizer) if optimizer is not None else {}
    recipe = _settings.of_arguments(arguments) if arguments is not None else None
    check_flags(_settings.flags({**of_optimizer, "batch": batch, "seq": seq, "device": device, **settings}))
    if recipe is not None:
        check_recipe(recipe, settings.get("pytorch"))
    given = _given(model, inputs, batch, seq, settings)
    notes = [*given.notes, *_settings.notes_on(optimizer, given.parameters)]
    opened, called = given.model, name or given.name
    chosen: Settings = {"pytorch": given.pytorch, **given.settings, **of_optimizer, **settings}
    if given.only_batch is not None:
        batch = None
    chosen.update({"batch": batch if batch is not None else given.batch, "seq": seq, "device": device})
    if recipe is not None:
        opened = opened.trained_by(recipe, chosen.get("pytorch"))
        if batch is None:
            # The arguments say how many samples a step has.
            chosen.pop("batch", None)
        if given.weights is not None and "precision" not in chosen:
            # They do not say in which type a model is that is there already.
            chosen["precision"] = _settings.precision(given.weights, opened.usual("precision"))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Estimate(opened, called, chosen, content=given.content, notes=notes, only_batch=given.only_batch)


@dataclass(frozen=True)
class Fit:
    """The largest batch of a training on a GPU."""

    batch: int
    """COUNT: samples that fit with a chance of 90 %; 0 where not even one does."""
    chance: int | None
    """Percent: how often a run with that batch fits."""
    at_best: int | None
    """COUNT: the largest batch that the estimate says fits."""
    with_flushes: int | None
    """COUNT: the same where PyTorch flushes its cache to make room."""
    device: str
    estimate: Estimate = field(repr=False)
    """The estimate with that batch."""

    def __int__(self) -> int:
        return self.batch

    def __index__(self) -> int:
        return self.batch

    def __str__(self) -> str:
        chance = f" with a chance of {self.chance} %" if self.chance is not None else ""
        return f"{self.estimate.name} on {self.device}: the largest batch is {self.batch}{chance}"


def fit(model: Any, inputs: Any = None, device: str | None = None, **settings: Any) -> Fit:
    """The largest batch with which a training fits on a GPU, nine times out of ten.

    It takes what `highwater.estimate` takes, or an estimate.
    """
    if isinstance(model, Estimate):
        start = model.change(device=device, **settings) if device or settings else model
    else:
        start = estimate(model, inputs, device=device, **settings)
    if start.only_batch is not None:
        raise Error(
            f"the batch cannot vary: the module works for {start.only_batch} samples only, as its code has sizes of it"
        )
    verdict: Verdict = start.verdict
    if verdict.largest_batch is None and start.is_open:
        raise Error(f"the largest batch is not known, because the estimate is open: {'; '.join(start.diagnostics)}")
    batch = verdict.largest_batch or 0
    at_batch = start.change(batch=max(batch, 1))
    return Fit(
        batch=batch,
        chance=at_batch.chance,
        at_best=verdict.largest_batch_at_best,
        with_flushes=verdict.largest_batch_with_flushes,
        device=verdict.name,
        estimate=at_batch,
    )


@dataclass(frozen=True)
class _Given:
    """A model that was opened, and what else was given with it."""

    model: Opened
    name: str
    content: bytes | Path | None = None
    batch: int | None = None
    only_batch: int | None = None
    """COUNT: the one batch that a module works for."""
    pytorch: str | None = None
    """The release that will run it: the one that exported it here."""
    weights: str | None = None
    """The type of a module's weights: `fp32`, `fp16` or `bf16`."""
    settings: Settings = field(default_factory=dict)
    """How a module runs by itself: checkpointed, compiled."""
    notes: Sequence[str] = ()
    parameters: Iterable[Any] = ()


def _given(model: Any, inputs: Any, batch: int | None, seq: int | None, settings: Settings) -> _Given:
    if isinstance(model, (str, os.PathLike)):
        _no_inputs(inputs, "a file or a name")
        return _named(model)
    if isinstance(model, bytes):
        _no_inputs(inputs, "the bytes of a file")
        return _Given(Opened(model, "model"), "model", model)
    if _export.is_program(model):
        _no_inputs(inputs, "a program")
        content = _export.archive(model)
        return _Given(Opened(content, "model"), "model", content)
    if _is_trainer(model):
        return _of_trainer(model, inputs, batch, seq, settings)
    if _export.is_module(model):
        return _of_module(model, inputs, batch, seq, settings)
    if hasattr(model, "to_json_string") and hasattr(model, "model_type"):
        return _of_configuration(model, inputs, batch, seq, settings)
    raise Error(
        f"{type(model).__name__} is no model: give an nn.Module with example inputs, a file, the name of a published "
        "model, a configuration or a Trainer of transformers"
    )


def _no_inputs(inputs: Any, what: str) -> None:
    if inputs is not None:
        raise Error(
            f"{what} has its own inputs: give sizes instead, such as `batch=32`, `seq=512` or `dims={{'height': 384}}`"
        )


def _named(model: str | os.PathLike[str]) -> _Given:
    path = Path(model)
    opened = Opened(os.fspath(model))
    return _Given(opened, path.name or str(model), path if path.is_file() else None)


def _of_module(module: Any, inputs: Any, batch: int | None, seq: int | None, settings: Settings) -> _Given:
    trains = settings.get("workload", "training") == "training"
    module, ways, notes = _running.of(module)
    program = _export.program(module, inputs, batch=batch, open_seq=seq is not None, trains=trains)
    name = type(module).__name__
    # An open batch is always set: that of the inputs is what the user means.
    size, only = (program.batch, None) if program.is_open else (None, batch or program.batch)
    return _Given(
        Opened(program.content, name),
        name,
        program.content,
        size,
        only,
        _export.release(),
        weights=_running.weights(module),
        settings=ways if trains else {},
        notes=notes if trains else (),
        parameters=module.parameters(),
    )


def _of_trainer(trainer: Any, inputs: Any, batch: int | None, seq: int | None, settings: Settings) -> _Given:
    if inputs is None:
        try:
            inputs = next(iter(trainer.get_train_dataloader()))
        except Exception as error:  # a data set can raise anything
            raise Error(
                f"the Trainer gave no batch to look at ({type(error).__name__}: {error}); give example inputs as well"
            ) from error
    return _of_module(trainer.model, inputs, batch, seq, settings)


def _of_configuration(config: Any, inputs: Any, batch: int | None, seq: int | None, settings: Settings) -> _Given:
    text = config.to_json_string(use_diff=False).encode()
    name = str(config.model_type)
    if inputs is None:
        return _Given(Opened(text, name), name, text)
    return _of_module(_from_configuration(config), inputs, batch, seq, settings)


def _from_configuration(config: Any) -> Any:
    """A model of a configuration, on the meta device, where it needs no memory."""
    import torch
    import transformers

    classes = [getattr(transformers, each, None) for each in getattr(config, "architectures", None) or ()]
    with torch.device("meta"):
        for found in classes:
            if found is not None:
                return found(config)
        auto: Any = transformers.AutoModel
        return auto.from_config(config)


def _is_trainer(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("get_train_dataloader", "model", "args"))
