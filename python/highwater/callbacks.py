"""For trainers: the largest batch that fits is set before training begins, and a run that cannot fit does not begin.

    # transformers
    callback = highwater.callbacks.LargestBatch("t4")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[callback])
    callback.set_batch(trainer)
    trainer.train()

    # Lightning
    lightning.Trainer(callbacks=[highwater.callbacks.LargestBatchOfModule(inputs, "t4")]).fit(module)

Both classes are made when they are first asked for, because their bases are transformers' and Lightning's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from highwater._asked import Fit, estimate, fit
from highwater._native import Error, device_called

if TYPE_CHECKING:
    LargestBatch: Any
    LargestBatchOfModule: Any

__all__ = ["LargestBatch", "LargestBatchOfModule"]


def here() -> str | None:
    """The GPU of this machine as `device=` takes it; None where there is no CUDA, or a GPU that is not known."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return device_called(properties.name, properties.total_memory)


def _chosen(device: str | None) -> str:
    chosen = device or here()
    if chosen is None:
        raise Error("there is no GPU here that Highwater knows: give one, such as `LargestBatch('t4')`")
    return chosen


def _largest(found: Fit) -> int:
    if found.batch == 0:
        raise Error(f"not even a batch of 1 fits: {found.estimate}")
    return found.batch


def _for_transformers() -> Any:
    from transformers import TrainerCallback

    class LargestBatch(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Sets the largest batch that fits on a GPU (default: that of this machine) for a Trainer of transformers."""

        def __init__(self, device: str | None = None, *, most: int | None = None, **settings: Any) -> None:
            self.device = device
            self.most = most
            self.settings = settings
            self.fit: Fit | None = None

        def set_batch(self, trainer: Any, inputs: Any = None) -> Fit:
            """Sets it, at most `most`; call it between the making of a Trainer and `train()`."""
            found = fit(estimate(trainer, inputs, device=_chosen(self.device), **self.settings))
            batch = _largest(found) if self.most is None else min(_largest(found), self.most)
            trainer.args.per_device_train_batch_size = batch
            # It was copied when the Trainer was made.
            trainer._train_batch_size = batch
            self.fit = found
            return found

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Refuses a training whose batch was raised since."""
            if self.fit is None:
                raise Error("the batch was not set: call `callback.set_batch(trainer)` before `trainer.train()`")
            if args.per_device_train_batch_size > self.fit.batch:
                raise Error(
                    f"the batch was raised to {args.per_device_train_batch_size}, and the largest that fits on "
                    f"{self.fit.device} is {self.fit.batch}"
                )

    return LargestBatch


def _for_lightning() -> Any:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[no-redef, assignment, unused-ignore]

    class LargestBatchOfModule(Callback):  # type: ignore[misc, unused-ignore]
        """Sets `batch_size` of the data module, or of the module, before Lightning makes its data loaders."""

        def __init__(self, inputs: Any, device: str | None = None, *, most: int | None = None, **settings: Any) -> None:
            self.inputs = inputs
            self.device = device
            self.most = most
            self.settings = settings
            self.fit: Fit | None = None

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            """Called by Lightning before anything else."""
            if stage != "fit":
                return
            found = fit(pl_module, self.inputs, _chosen(self.device), **self.settings)
            batch = _largest(found) if self.most is None else min(_largest(found), self.most)
            holders = [getattr(trainer, "datamodule", None), pl_module]
            holder = next((each for each in holders if hasattr(each, "batch_size")), None)
            if holder is None:
                raise Error(
                    "neither the data module nor the module has `batch_size`; add it, and make the loaders with it"
                )
            holder.batch_size = batch
            self.fit = found

    return LargestBatchOfModule


_MADE = {"LargestBatch": _for_transformers, "LargestBatchOfModule": _for_lightning}


def __getattr__(name: str) -> Any:
    if name not in _MADE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _MADE[name]()
    globals()[name] = made
    return made
