"""A module as a program of `torch.export`, in memory and without its weights."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import re
import threading
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwater import _running
from highwater._native import Error

if TYPE_CHECKING:
    import torch

OLDEST = (2, 7)
"""The first PyTorch whose archives list parameters that are tied."""


@dataclass(frozen=True)
class Program:
    """A program, and what is known of its batch."""

    content: bytes
    """An archive of `torch.export` whose weights are left out."""
    batch: int | None
    """COUNT: samples in the example inputs; None where no input has a batch."""
    is_open: bool
    """Whether any other batch may be asked for."""


ALONE = threading.RLock()
"""Held while a module is exported: PyTorch's tracing, its output and the module's mode belong to the whole process."""


def is_module(value: Any) -> bool:
    """Whether something is an `nn.Module`; PyTorch is not imported to tell."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)


def is_program(value: Any) -> bool:
    """Whether something is a program of `torch.export`."""
    return type(value).__name__ == "ExportedProgram" and type(value).__module__.startswith("torch.")


def program(
    module: torch.nn.Module, inputs: Any, *, batch: int | None = None, open_seq: bool = False, trains: bool = True
) -> Program:
    """Exports a module for a batch, with example inputs of any batch.

    The batch is the first dimension of the first tensor, and of all others that have the same size there. It is left
    open where the module allows it. A module in evaluation mode is exported in training mode if it `trains`.
    """
    _check_release()
    with ALONE:
        return _program(module, inputs, batch, open_seq, trains)


def _program(module: torch.nn.Module, inputs: Any, batch: int | None, open_seq: bool, trains: bool) -> Program:
    args, kwargs = _arguments(inputs)
    device = _device_of(module)
    args, kwargs = _moved((args, kwargs), device)
    example = _batch_of((args, kwargs))
    if example is None and batch is not None:
        raise Error("none of the inputs has a batch: give tensors whose first dimension is the batch")
    with _as_trained(module, trains), _running.plainly(module):
        if example is None:
            exported = _exported(module, args, kwargs, None)
            return Program(_archive(module, exported), None, False)
        if example == 1:
            # A size of 1 is taken for a constant.
            args, kwargs = _with_batch((args, kwargs), 1, 2)
        rows = max(example, 2)
        exported = None
        for named in (True, False):
            try:
                found = _exported(module, args, kwargs, _open((args, kwargs), rows, open_seq, named))
            except Error:
                # Some modules need relations between sizes, or work for one batch only.
                continue
            if _has_open_batch(found, rows):
                return Program(_archive(module, found), example, True)
            exported = found
        if exported is None or (batch or example) != rows:
            # Then the batch is the one that is asked for.
            args, kwargs = _with_batch((args, kwargs), rows, batch or example)
            exported = _exported(module, args, kwargs, None)
        return Program(_archive(module, exported), example, False)


def archive(exported: Any) -> bytes:
    """A program that was exported elsewhere, without its weights."""
    with ALONE:
        return _archive(None, exported)


def release() -> str:
    """The release of PyTorch that is installed, such as `2.15`."""
    import torch

    return ".".join(torch.__version__.split(".")[:2])


def _check_release() -> None:
    try:
        import torch
    except ImportError as error:
        raise Error("a module needs PyTorch, which is not installed: `pip install torch`") from error
    if tuple(int(part) for part in release().split(".")) < OLDEST:
        raise Error(
            f"PyTorch {torch.__version__} is too old to export modules in memory: use 2.7 or later, or export to ONNX "
            "and give the file"
        )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    if inputs is None:
        raise Error(
            "a module needs example inputs, of any batch: `highwater.estimate(model, torch.zeros(2, 3, 224, 224))`, or "
            "a dict of keyword arguments"
        )
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    raise Error(
        "inputs are a tensor, a tuple of what `forward` takes, or a dict of its keyword arguments, not "
        f"{type(inputs).__name__}"
    )


def _device_of(module: torch.nn.Module) -> torch.device | None:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    devices: dict[str, str] = {}
    for name, tensor in tensors:
        devices.setdefault(str(tensor.device), name)
    if len(devices) > 1:
        places = ", ".join(f"`{name}` on {device}" for device, name in devices.items())
        raise Error(f"the module is on several devices ({places}); move all of it to one, such as `model.to('cpu')`")
    return tensors[0][1].device if tensors else None


def _moved(values: Any, device: torch.device | None) -> Any:
    """The inputs where the module is: only their shapes and types matter."""
    import torch

    def move(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or device is None or tensor.device == device:
            return tensor
        if device.type == "meta":
            return torch.empty_like(tensor, device="meta")
        if tensor.device.type == "meta":
            return torch.zeros_like(tensor, device=device)
        return tensor.to(device)

    return _mapped(move, values)


def _mapped(change: Callable[[Any], Any], values: Any) -> Any:
    """Inputs, each changed once: what is one tensor under two names stays one."""
    from torch.utils import _pytree as pytree

    changed: dict[int, Any] = {}

    def once(leaf: Any) -> Any:
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf)
        return changed[id(leaf)]

    return pytree.tree_map(once, values)


def _batch_of(values: Any) -> int | None:
    import torch
    from torch.utils import _pytree as pytree

    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0]
    if not tensors:
        return None
    if tensors[0].shape[0] == 0:
        raise Error("the batch of the example inputs is 0; give at least one sample")
    return int(tensors[0].shape[0])


def _has_batch(leaf: Any, rows: int) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == rows


def _with_batch(values: Any, rows: int, wanted: int) -> Any:
    """The inputs with another batch: rows are repeated or left out."""

    def resize(leaf: Any) -> Any:
        if not _has_batch(leaf, rows) or rows == wanted:
            return leaf
        times = -(-wanted // rows)
        return leaf.repeat(times, *[1] * (leaf.dim() - 1))[:wanted].contiguous()

    return _mapped(resize, values)


def _open(values: tuple[Any, Any], rows: int, open_seq: bool, named: bool) -> Any:
    """Which sizes stay open, in the structure of the inputs; those that are `named` are the same in all of them."""
    from torch.export import Dim
    from torch.utils import _pytree as pytree

    batch, seq = (Dim("batch"), Dim("seq")) if named else (Dim.AUTO, Dim.AUTO)

    def sizes(leaf: Any) -> Any:
        if not _has_batch(leaf, rows):
            return None
        free: dict[int, Any] = {0: batch}
        if open_seq and leaf.dim() == 2 and not leaf.dtype.is_floating_point:
            free[1] = seq
        return free

    args, kwargs = values
    return pytree.tree_map(sizes, args), {name: pytree.tree_map(sizes, value) for name, value in kwargs.items()}


def _exported(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], sizes: Any) -> Any:
    import torch

    shapes: Any = None
    if sizes is not None:
        positional, named = sizes
        # Names of what stands first are those of `forward`; a tuple has them by position.
        shapes = positional if not named else named if not positional else None
        if shapes is None:
            raise Error("inputs are given by position or by name, not both")
    try:
        with _quiet():
            return torch.export.export(module, args, kwargs or None, dynamic_shapes=shapes)
    except Exception as error:  # whatever the module's own code raises comes out here
        raise Error(advice(module, error)) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch prints about the way to an error, which the error says again."""
    nowhere = io.StringIO()
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _has_open_batch(exported: Any, rows: int) -> bool:
    """Whether the batch of the first input that had one is still a symbol."""
    import torch

    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in exported.graph_signature.user_inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                size: Any = value.shape[0]
                return not isinstance(size, int) and size.node.maybe_as_int() is None
    return False


@contextlib.contextmanager
def _as_trained(module: torch.nn.Module, trains: bool) -> Iterator[None]:
    """The module as a training loop runs it; afterwards it is as it was."""
    modes = {child: child.training for child in module.modules()}
    # Parts have configurations of their own, such as T5's decoder.
    configs = {id(config): config for child in modes for config in [getattr(child, "config", None)]}
    caching: list[Any] = [config for config in configs.values() if getattr(config, "use_cache", None) is True]
    try:
        if trains and not module.training:
            module.train()
        if not trains and module.training:
            module.eval()
        for config in caching:
            # Trainers switch it off; its classes are no results that can be exported.
            config.use_cache = False
        yield
    finally:
        for child, mode in modes.items():
            child.training = mode
        for config in caching:
            config.use_cache = True


def _archive(module: Any, exported: Any) -> bytes:
    """An archive without weights; which of them are the same tensor is read off the module."""
    import torch

    shared = _tied(module) if module is not None else {}
    light = copy.copy(exported)
    light._state_dict = {name: _on_meta(tensor) for name, tensor in exported.state_dict.items()}
    light._constants = dict(exported.constants)
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(light, buffer)
    return _without_weights(buffer, shared, _places(exported))


def _on_meta(tensor: Any) -> Any:
    import torch

    bare = tensor.detach().to("meta")
    return (
        torch.nn.Parameter(bare, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else bare
    )


def _tied(module: torch.nn.Module) -> dict[str, str]:
    """By name of a parameter or buffer, the first name of the same tensor."""
    first: dict[int, str] = {}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: first.setdefault(id(tensor), name) for name, tensor in named}


def _places(exported: Any) -> dict[str, str]:
    """The same of a program whose module is not known: by where the tensors lie, unless they lie nowhere."""
    first: dict[Any, str] = {}
    places = {}
    for name, tensor in exported.state_dict.items():
        where = (tensor.data_ptr(), tuple(tensor.shape)) if tensor.device.type != "meta" and tensor.numel() else name
        places[name] = first.setdefault(where, name)
    return places


def _without_weights(archive: io.BytesIO, tied: dict[str, str], places: dict[str, str]) -> bytes:
    result = io.BytesIO()
    with zipfile.ZipFile(archive) as given, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as kept:
        for entry in given.infolist():
            name = entry.filename
            if name.endswith("_weights_config.json"):
                weights = json.loads(given.read(entry))
                ties = {weight: tied.get(weight) or places.get(weight, weight) for weight in weights["config"]}
                for weight, about in weights["config"].items():
                    about["path_name"] = ties[weight]
                    # What lies on the meta device is not tied by the file that it is in.
                    about["tensor_meta"]["device"] = {"type": "cpu", "index": None}
                kept.writestr(name, json.dumps(weights))
            elif "/data/" not in name:
                kept.writestr(name, given.read(entry))
    return result.getvalue()


INSTEAD = "or export the model to ONNX (`torch.onnx.export(..., dynamo=False)`) and give the file"

ADVICE = (
    (
        r"missing (\d+|a) required|unexpected keyword|got multiple values|takes .* positional|many positional",
        "the inputs are not what {name}.forward takes: {first}",
    ),
    (
        r"data-dependent|GuardOnDataDependent|Could not (guard|extract)|unbacked|\.item\(\)",
        "{name} decides by the values of a tensor{where}, and there are none before it runs: choose by shapes or by "
        "settings instead (`torch.where` and `torch.cond` work, too), " + INSTEAD,
    ),
    (
        r"on different devices|Expected all tensors|different devices|on cpu, but|device .* meta",
        "{name} makes a tensor on another device than its inputs{where}: give `device=x.device` where it makes one. "
        "PyTorch says: {first}",
    ),
    (
        r"pytree|not a known type|known type",
        "{name} takes or returns {what}, which cannot be exported: return tensors, tuples or dicts (for transformers, "
        "give `use_cache=False` among the inputs), " + INSTEAD,
    ),
    (
        r"cannot be multiplied|reduction dim|size mismatch|must match the size|Expected .*dimensional|expected input",
        "the inputs do not have the shapes that {name} works on{where}: {first}",
    ),
    (
        r"out of memory|can't allocate memory|DefaultCPUAllocator",
        "{name} does not fit into this machine's memory: build it on the meta device, `with torch.device('meta'):`",
    ),
    ("", "{name} cannot be exported{where}: {first}. Change that, " + INSTEAD),
)
"""What is found in an error of PyTorch, and what to do about it; the first that is found counts."""


def advice(module: Any, error: BaseException) -> str:
    """What to change in a module that cannot be exported."""
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    first = first.rstrip(".") if len(first) <= 200 else first[:197] + "..."
    kind = re.search(r"<class '([^']+)'>", text)
    what = f"a {kind[1].rsplit('.', 1)[-1]}" if kind else "an object"
    searched = f"{type(error).__name__}: {text}"
    template = next(template for pattern, template in ADVICE if re.search(pattern, searched))
    return template.format(name=type(module).__name__, where=_where(error), first=first, what=what)


def _where(error: BaseException) -> str:
    """The line of the model's own code that an error is from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if not re.search(r"[/\\](torch|highwater)[/\\]|contextlib\.py$|^<", frame.filename)
    ]
    if not own or not own[-1].line:
        return ""
    frame = own[-1]
    return f" in line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]} (`{frame.line}`)"
