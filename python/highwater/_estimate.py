"""The answer: peaks, chances, verdicts, the timeline, and what else can be asked of the same run."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from highwater import _html
from highwater._model import Opened
from highwater._native import Error
from highwater._page import Page
from highwater._settings import USUAL, Settings, flags

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

PICOSECONDS = 1e12
"""COUNT: picoseconds in a second."""


@dataclass(frozen=True)
class Peak:
    """The highest moment of a run. All sizes are bytes."""

    requested: int
    """SIZE: of the tensors at that moment."""
    allocated: int
    """SIZE: `torch.cuda.max_memory_allocated()`."""
    reserved: int
    """SIZE: `torch.cuda.max_memory_reserved()`."""
    process: int
    """SIZE: reserved memory and the CUDA context, about what `nvidia-smi` shows."""
    phase: str
    """Phase of the iteration: `forward`, `loss`, `backward`, `optimizer`, …"""
    iteration: int
    """COUNT: which iteration, from 1."""
    operator: str
    """The operator that reached it."""
    module: str
    """The module that it belongs to; may be empty."""


@dataclass(frozen=True)
class Verdict:
    """How a run ends on one GPU. All sizes are bytes."""

    id: str
    """What `device=` takes."""
    name: str
    verdict: str
    """`fits`, `likely-fits`, `fits-after-flush`, `likely-does-not-fit`, `does-not-fit` or `not-known`."""
    need: int
    """SIZE: what the process needs, context included."""
    capacity: int
    """SIZE: what PyTorch reports as the GPU's memory."""
    chance: int | None
    """Percent: how often such a run fits."""
    interval: tuple[int, int] | None
    """SIZE: the least and the most that nine of ten such runs need."""
    largest_batch: int | None
    """COUNT: the largest batch that fits with a chance of 90 %; None where the batch cannot vary or none fits."""
    largest_batch_at_best: int | None
    """COUNT: the largest batch that the estimate says fits."""
    largest_batch_with_flushes: int | None
    """COUNT: the same where PyTorch flushes its cache to make room."""

    @property
    def fits(self) -> bool:
        """Whether the run is expected to live, perhaps with flushes of the cache."""
        return self.verdict in ("fits", "likely-fits", "fits-after-flush")

    @property
    def margin(self) -> int:
        """SIZE: what is left on the GPU; negative where it lacks."""
        return self.capacity - self.need


@dataclass(frozen=True)
class Timeline:
    """Memory over the run: an entry for each moment at which it changes. Sizes are bytes."""

    event: NDArray[numpy.int64]
    """COUNT: which call to the allocator."""
    iteration: NDArray[numpy.int64]
    """COUNT: from 1; 0 while the model is loaded."""
    phase: NDArray[numpy.str_]
    operator: NDArray[numpy.str_]
    module: NDArray[numpy.str_]
    allocated: NDArray[numpy.int64]
    """SIZE: `torch.cuda.memory_allocated()`."""
    reserved: NDArray[numpy.int64]
    """SIZE: `torch.cuda.memory_reserved()`."""
    categories: dict[str, NDArray[numpy.int64]]
    """SIZE: requested bytes of each category, such as `parameter`, `gradient`, `optimizer_state` and `activation`."""

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True)
class Suggestion:
    """A change, and what the run needs with it."""

    id: str
    title: str
    cost: str
    saved: int
    """SIZE: bytes less on the GPU; negative where it needs more."""
    need: int
    """SIZE: what is then needed."""
    verdict: str
    code: str
    """What to change in the training script."""


@dataclass(frozen=True)
class Advice:
    """What would lower the need, and the smallest change that fits."""

    suggestions: list[Suggestion]
    """Those that save most first."""
    remedy: list[Suggestion]
    """The smallest change that makes the run fit, in steps; empty where it fits already."""
    fits: bool
    """Whether it fits with the remedy."""
    text: str = field(repr=False)
    """All of it, as the command line prints it."""

    def frame(self) -> pandas.DataFrame:
        """The suggestions as a table; needs pandas."""
        columns = ("title", "saved", "need", "verdict", "cost", "code")
        rows = [{column: getattr(suggestion, column) for column in columns} for suggestion in self.suggestions]
        return _pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Phase:
    """The highest moment of one phase of one iteration, estimated and recorded. Sizes are bytes."""

    iteration: int
    phase: str
    estimate: int
    recorded: int


@dataclass(frozen=True)
class Comparison:
    """An estimate, and a recording of the same training."""

    name: str
    estimated: Peak
    recorded: Peak
    phases: list[Phase]
    text: str = field(repr=False)
    """The table that the command line prints."""

    @property
    def error(self) -> float:
        """How far the estimated peak of allocated memory is above the recorded one: 0.01 is 1 % too high."""
        return self.estimated.allocated / max(self.recorded.allocated, 1) - 1

    def frame(self) -> pandas.DataFrame:
        """The phases as a table; needs pandas."""
        return _pandas().DataFrame([vars(phase) for phase in self.phases])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Time:
    """How long one step takes on one GPU, in seconds."""

    device: str
    form: str
    """Form of the board where there are several, such as `PCIe`."""
    step: float
    interval: tuple[float, float]
    """The least and the most in nine of ten runs."""
    samples_per_second: float
    bound: str
    """What most of the step waits for."""
    phases: dict[str, float]
    """Seconds in which the GPU computes, by phase."""


@dataclass(frozen=True)
class Times:
    """How long a step takes: on the chosen GPU, and on all."""

    chosen: Time
    all: list[Time]
    text: str = field(repr=False)

    @property
    def step(self) -> float:
        """Seconds of a step on the chosen GPU."""
        return self.chosen.step

    @property
    def interval(self) -> tuple[float, float]:
        """Seconds: the least and the most in nine of ten runs."""
        return self.chosen.interval

    @property
    def samples_per_second(self) -> float:
        """COUNT: samples of the batch in a second."""
        return self.chosen.samples_per_second

    def frame(self) -> pandas.DataFrame:
        """A row for each GPU, the fastest first; needs pandas."""
        columns = ("device", "form", "step", "samples_per_second", "bound")
        rows = [{column: getattr(time, column) for column in columns} for time in self.all]
        return _pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        return self.text


class Estimate:
    """How much GPU memory a training takes, and on which GPUs it fits.

    Made by `highwater.estimate`. Everything else about the same run is asked when it is read, and kept.
    """

    def __init__(
        self,
        model: Opened,
        name: str,
        settings: Settings,
        *,
        content: bytes | Path | None = None,
        notes: Sequence[str] = (),
        only_batch: int | None = None,
    ) -> None:
        self._model = model
        self._name = name.lstrip("-") or "model"
        self._settings = {key: value for key, value in settings.items() if value is not None}
        self._content = content
        self._notes = list(notes)
        self.only_batch = only_batch
        """COUNT: the one batch that the module works for; None where any may be asked for."""
        self._answers: dict[tuple[str, ...], str] = {}
        if only_batch is not None and self._settings.get("batch", only_batch) != only_batch:
            raise Error(
                f"the module works for {only_batch} samples only, as its code has sizes of it: give the module and the "
                "other batch to `highwater.estimate`"
            )
        # What cannot be estimated is refused here, not where the answer is read.
        self._answer: dict[str, Any] = json.loads(self._ask("estimate", *self._one_device(), "--json"))

    def _ask(self, command: str, *arguments: str) -> str:
        asked = (command, *arguments)
        if asked not in self._answers:
            self._answers[asked] = self._model.ask([command, self._name, *flags(self._settings), *arguments])
        return self._answers[asked]

    def _one_device(self) -> list[str]:
        return [f"--devices={self._settings.get('device') or USUAL['device']}", *self._batches()]

    def _alone(self) -> list[str]:
        """The run itself, without other GPUs and other batches."""
        return [self._one_device()[0], "--no-max-batch"]

    def _batches(self) -> list[str]:
        """Other batches are looked for only where there can be any."""
        return [] if self.only_batch is None else ["--no-max-batch"]

    def __str__(self) -> str:
        return str(self._answer["headline"])

    def __repr__(self) -> str:
        return f"<highwater.Estimate: {self}>"

    def _repr_html_(self) -> str:
        return _html.render(self)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._name

    @property
    def verdict(self) -> Verdict:
        """How the run ends on the chosen GPU."""
        chosen = self.config["device"]
        return next(_verdict(device) for device in self._answer["devices"] if device["id"] == chosen)

    @property
    def verdicts(self) -> list[Verdict]:
        """How the run ends on every GPU."""
        return [_verdict(device) for device in self.json()["devices"]]

    @property
    def fits(self) -> bool:
        """Whether the run is expected to live on the chosen GPU."""
        return self.verdict.fits

    @property
    def chance(self) -> int | None:
        """Percent: how often such a run fits on the chosen GPU."""
        return self.verdict.chance

    @property
    def peak(self) -> Peak:
        """The highest moment, in bytes."""
        return _peak(self._answer["peak"])

    @property
    def at_peak(self) -> dict[str, int]:
        """SIZE: requested bytes at the peak by category, the largest first."""
        rows: dict[str, int] = self._answer["at_peak"]
        return dict(sorted(rows.items(), key=lambda row: -row[1]))

    @property
    def parameters(self) -> int:
        """COUNT: elements of all parameters."""
        return int(self._answer["model"]["parameters"])

    @property
    def config(self) -> dict[str, Any]:
        """Every setting that was used, and the sizes of all dimensions under `dims`."""
        return dict(self._answer["config"])

    @property
    def batch(self) -> int | None:
        """COUNT: samples in a batch; None where the model has no batch."""
        size = self._answer["config"]["dims"].get("batch", self._settings.get("batch"))
        return None if size is None else int(size)

    @property
    def diagnostics(self) -> list[str]:
        """What was assumed, recovered or is missing."""
        return self._notes + [str(note["message"]) for note in self._answer["diagnostics"]]

    @property
    def is_open(self) -> bool:
        """Whether the truth may be far away: parts are not counted, or an assumption decides."""
        return bool(self._answer["lower_bound"] or self._answer["uncertain"])

    @property
    def timeline(self) -> Timeline:
        """Memory over the run, as arrays."""
        rows = _table(self._ask("estimate", *self._alone(), "--csv=timeline=-"))
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
        texts = {name: numpy.array(columns.pop(name), dtype=numpy.str_) for name in ("phase", "operator", "module")}
        numbers = {name: numpy.array(values, dtype=numpy.int64) for name, values in columns.items()}
        return Timeline(
            event=numbers.pop("event"),
            iteration=numbers.pop("iteration"),
            phase=texts["phase"],
            operator=texts["operator"],
            module=texts["module"],
            allocated=numbers.pop("allocated"),
            reserved=numbers.pop("reserved"),
            categories=numbers,
        )

    @property
    def tensors(self) -> list[dict[str, str]]:
        """What is alive at the peak, the largest first: a row for each tensor."""
        return _table(self._ask("estimate", *self._alone(), "--csv=tensors=-"))

    def frame(self, what: str = "timeline") -> pandas.DataFrame:
        """A table: the `timeline`, the `tensors` at the peak, or all `devices`; needs pandas."""
        tables = ("timeline", "tensors", "devices")
        if what not in tables:
            raise Error(f"there is no table `{what}`; choose {', '.join(tables)}")
        devices = self._batches() if what == "devices" else self._alone()
        text = self._ask("estimate", *devices, f"--csv={what}=-")
        return _pandas().read_csv(io.StringIO(text))

    def advise(self) -> Advice:
        """What sets the peak, what would lower it, and the smallest change that fits."""
        answer = json.loads(self._ask("advise", "--json"))
        plan = answer["plan"]
        return Advice(
            suggestions=[_suggestion(row) for row in answer["levers"]],
            remedy=[_suggestion(row) for row in plan["steps"]],
            fits=bool(plan["fits"]),
            text=self._ask("advise"),
        )

    def time(self) -> Times:
        """How long a step takes, on the chosen GPU and on all."""
        answer = json.loads(self._ask("time", "--json"))
        return Times(
            chosen=_time(answer["step"]), all=[_time(row) for row in answer["devices"]], text=self._ask("time")
        )

    def compare(self, snapshot: str | os.PathLike[str] | Mapping[str, Any] | bytes) -> Comparison:
        """Compares with a recording of the same training, phase by phase.

        A recording is a file, the bytes of one, or what `torch.cuda.memory._snapshot()` returns.
        """
        with _file(snapshot) as path:
            # A file may be written anew: what it holds is not kept.
            common = ["estimate", self._name, *flags(self._settings), *self._alone()]
            answer = json.loads(self._model.ask([*common, "--json", f"--compare={path}"]))
        compared = answer["compared"]
        result = Comparison(
            name=Path(path).name,
            estimated=_peak(answer["peak"]),
            recorded=_peak(compared["peak"]),
            phases=[Phase(**row) for row in compared["phases"]],
            text="",
        )
        return Comparison(**{**vars(result), "text": _html.comparison(result)})

    def change(self, **settings: Any) -> Estimate:
        """The same model with other settings; it is not exported anew."""
        return Estimate(
            self._model,
            self._name,
            {**self._settings, **settings},
            content=self._content,
            notes=self._notes,
            only_batch=self.only_batch,
        )

    def svg(self, *, dark: bool = False) -> str:
        """The timeline as a picture."""
        return self._ask("estimate", *self._one_device(), "--picture=-", *(["--dark"] if dark else []))

    def markdown(self) -> str:
        """A report for an issue or a pull request."""
        return self._ask("estimate", *self._batches(), "--markdown=-")

    def json(self) -> dict[str, Any]:
        """The answer for all GPUs, as `highwater estimate --json` prints it. Bytes are integers."""
        answer: dict[str, Any] = json.loads(self._ask("estimate", *self._batches(), "--json"))
        return answer

    def write_model(self, path: str | os.PathLike[str]) -> Path:
        """Writes the model, without weights, as a file that the command line and the page open."""
        target = Path(path)
        if self._content is None:
            raise Error("a model that was given by its name has no file; give the name to the command line instead")
        target.write_bytes(self._content if isinstance(self._content, bytes) else self._content.read_bytes())
        return target

    def open(self, *, browser: bool = True) -> Page:
        """Opens the page with this model and these settings, served from this machine until it is closed."""
        settings = flags(self._settings)
        if self._content is None:
            return Page(self._name, settings, browser=browser)
        if isinstance(self._content, Path):
            return Page(str(self._content), settings, browser=browser)
        folder = tempfile.TemporaryDirectory(prefix="highwater-")
        file = self.write_model(Path(folder.name) / f"{self._name}.pt2")
        return Page(str(file), settings, browser=browser, folder=folder)


def _verdict(row: dict[str, Any]) -> Verdict:
    interval = row["interval"]
    return Verdict(
        id=row["id"],
        name=row["name"],
        verdict=row["verdict"],
        need=row["need"],
        capacity=row["capacity"],
        chance=row["chance"],
        interval=(interval["low"], interval["high"]) if interval else None,
        largest_batch=row["max_batch_likely"],
        largest_batch_at_best=row["max_batch"],
        largest_batch_with_flushes=row["max_batch_with_flush"],
    )


def _peak(row: dict[str, Any]) -> Peak:
    sizes = {name: row[name] for name in ("requested", "allocated", "reserved", "process", "phase", "iteration")}
    return Peak(**sizes, operator=row["operator"], module=row["module"])


def _suggestion(row: dict[str, Any]) -> Suggestion:
    return Suggestion(**{name: row[name] for name in ("id", "title", "cost", "saved", "need", "verdict", "code")})


def _time(row: dict[str, Any]) -> Time:
    seconds = row["picoseconds"] / PICOSECONDS
    least, most = row["interval_picoseconds"]
    phases = {name: part["device_picoseconds"] / PICOSECONDS for name, part in row["phases"].items()}
    return Time(
        device=row["device"],
        form=row["form"],
        step=seconds,
        interval=(least / PICOSECONDS, most / PICOSECONDS),
        samples_per_second=row["samples"] / seconds if seconds else 0.0,
        bound=row["bound"],
        phases=phases,
    )


def _table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@contextmanager
def _file(snapshot: str | os.PathLike[str] | Mapping[str, Any] | bytes) -> Iterator[Path]:
    if isinstance(snapshot, (str, os.PathLike)):
        yield Path(snapshot)
        return
    content = snapshot if isinstance(snapshot, bytes) else pickle.dumps(dict(snapshot))
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(content)
        yield path


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise Error("tables need pandas, which is not installed: `pip install pandas`") from error
    return pandas
