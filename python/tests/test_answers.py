"""What can be asked of an estimate."""

import copy
import gzip
import io
import pickle
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch
from test_models import TEXTS, Net, trainer

import highwater
from highwater.callbacks import LargestBatch, LargestBatchOfModule


@pytest.fixture(scope="module")
def estimate() -> highwater.Estimate:
    return highwater.estimate("resnet18", batch=8, optimizer="adamw", device="t4")


def test_the_timeline_has_the_peak(estimate: highwater.Estimate) -> None:
    timeline, peak = estimate.timeline, estimate.peak
    assert timeline.allocated.max() == peak.allocated
    assert timeline.reserved.max() == peak.reserved
    at = timeline.allocated.argmax()
    assert (timeline.iteration[at], timeline.phase[at], timeline.operator[at]) == (
        peak.iteration,
        peak.phase,
        peak.operator,
    )
    assert sum(column[at] for column in timeline.categories.values()) == peak.requested
    assert len(timeline) == len(timeline.phase)


def test_parts_of_the_peak_sum_to_it(estimate: highwater.Estimate) -> None:
    assert sum(estimate.at_peak.values()) == estimate.peak.requested
    assert list(estimate.at_peak.values()) == sorted(estimate.at_peak.values(), reverse=True)
    assert sum(int(row["bytes"]) for row in estimate.tensors) == estimate.peak.requested


def test_tables(estimate: highwater.Estimate) -> None:
    assert estimate.frame()["allocated"].max() == estimate.peak.allocated
    assert estimate.frame("tensors")["bytes"].sum() == estimate.peak.requested
    assert len(estimate.frame("devices")) == len(estimate.verdicts) == len(highwater.devices())
    with pytest.raises(highwater.Error, match="there is no table `peaks`"):
        estimate.frame("peaks")


def test_verdicts(estimate: highwater.Estimate) -> None:
    by_id = {verdict.id: verdict for verdict in estimate.verdicts}
    assert by_id["t4"] == estimate.verdict
    assert estimate.fits
    assert estimate.chance == 100
    assert by_id["h200"].largest_batch > by_id["t4"].largest_batch
    assert estimate.verdict.margin == estimate.verdict.capacity - estimate.verdict.need


def test_advice_makes_it_fit() -> None:
    advice = highwater.estimate("resnet50", batch=512, device="t4").advise()
    assert advice.fits
    assert advice.remedy
    assert advice.suggestions == sorted(advice.suggestions, key=lambda suggestion: suggestion.need)
    assert list(advice.frame()["title"]) == [suggestion.title for suggestion in advice.suggestions]
    assert "T4" in str(advice)


def test_times(estimate: highwater.Estimate) -> None:
    times = estimate.time()
    assert times.chosen.device == "t4"
    assert times.interval[0] < times.step < times.interval[1]
    assert times.samples_per_second == pytest.approx(8 / times.step)
    assert list(times.frame()["step"]) == sorted(times.frame()["step"])
    assert set(times.chosen.phases) >= {"forward", "backward", "optimizer"}


def test_other_settings_need_no_new_export() -> None:
    start = highwater.estimate(Net(), torch.zeros(2, 64))
    changed = start.change(batch=512, optimizer="sgd")
    assert changed.peak == highwater.estimate(Net(), torch.zeros(2, 64), batch=512, optimizer="sgd").peak


@pytest.mark.parametrize("form", ["file", "bytes", "dict"])
def test_a_recorded_run_is_compared(fixtures: Path, tmp_path: Path, form: str) -> None:
    content = gzip.decompress((fixtures / "snapshots" / "resnet18.pickle.gz").read_bytes())
    given: Any = {"bytes": content, "dict": pickle.loads(content) if form == "dict" else None}.get(form)
    if form == "file":
        given = tmp_path / "snapshot.pickle"
        given.write_bytes(content)
    compared = highwater.estimate("resnet18", batch=8, optimizer="adamw").compare(given)
    assert compared.recorded.allocated > 0
    assert {phase.phase for phase in compared.phases} >= {"forward", "backward", "optimizer"}
    assert len(compared.frame()) == len(compared.phases)
    assert str(compared).splitlines()[1].startswith("allocated")
    assert abs(compared.error) < 0.5


def test_a_notebook_shows_what_needs_nothing_else(estimate: highwater.Estimate) -> None:
    html = estimate._repr_html_()
    assert html.count("<svg ") == 2
    assert not re.search(r"<script|<link|<img|@import|url\(|href=|src=", html)
    light, dark = estimate.svg(), estimate.svg(dark=True)
    assert light != dark
    assert re.sub(r"#[0-9A-F]{6}", "", light) == re.sub(r"#[0-9A-F]{6}", "", dark), "they differ in colours only"


def test_texts_have_no_colours(estimate: highwater.Estimate) -> None:
    advice = highwater.estimate("resnet50", batch=512, device="t4").advise()
    for text in (str(estimate), str(advice), str(estimate.time()), estimate.markdown()):
        assert "\x1b" not in text


@pytest.mark.parametrize("form", ["name", "module", "file", "recipe"])
def test_estimates_can_be_pickled_and_copied(tmp_path: Path, form: str) -> None:
    net, inputs = Net(), torch.zeros(2, 64)
    match form:
        case "name":
            original = highwater.estimate("resnet18", batch=8, device="t4")
        case "file":
            file = highwater.estimate(net, inputs).write_model(tmp_path / "net.pt2")
            original = highwater.estimate(file, batch=8, device="t4")
        case "recipe":
            arguments = {"per_device_train_batch_size": 8, "optim": "adafactor"}
            original = highwater.estimate(net, inputs, arguments=arguments, device="t4")
        case _:
            original = highwater.estimate(net, inputs, batch=8, device="t4")
    for twin in (pickle.loads(pickle.dumps(original)), copy.copy(original), copy.deepcopy(original)):
        assert (twin.name, twin.peak, str(twin)) == (original.name, original.peak, str(original))
        assert twin.change(batch=16).peak == original.change(batch=16).peak
        assert twin.json() == original.json()
        assert twin.diagnostics == original.diagnostics


def test_answers_can_be_pickled(estimate: highwater.Estimate) -> None:
    fit = highwater.fit(estimate)
    for answer in (fit, estimate.advise(), estimate.time(), estimate.verdicts, estimate.timeline):
        assert repr(pickle.loads(pickle.dumps(answer))) == repr(answer)
    with pytest.raises(highwater.Error) as refused:
        highwater.estimate("nosuch")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_names_are_no_markup() -> None:
    estimate = highwater.estimate(Net(), torch.zeros(2, 64), name="<b>&net")
    assert "<b>" not in estimate._repr_html_()


def test_the_largest_batch_fits_and_twice_as_many_do_not(estimate: highwater.Estimate) -> None:
    fit = highwater.fit(estimate)
    assert int(fit) == fit.batch == fit.estimate.batch
    assert fit.chance is not None
    assert fit.chance >= 90
    assert highwater.fit(fit.estimate).batch == fit.batch
    assert not fit.estimate.change(batch=fit.batch * 2).fits
    assert str(fit) == f"resnet18 on T4: the largest batch is {fit.batch} with a chance of {fit.chance} %"


def test_nothing_fits_where_the_model_does_not() -> None:
    fit = highwater.fit("llama-3.1-8b", device="t4")
    assert fit.batch == 0
    assert not fit.estimate.fits


def test_a_test_fails_where_a_model_does_not_fit() -> None:
    assert highwater.assert_fits("resnet18", device="t4", batch=8).fits
    with pytest.raises(AssertionError, match=r"Does not fit on a T4: .* The largest batch that fits is \d+"):
        highwater.assert_fits("resnet50", device="t4", batch=1024)
    fit = highwater.fit("resnet18", device="t4")
    with pytest.raises(AssertionError, match=r"100 % are asked for"):
        highwater.assert_fits("resnet18", device="t4", batch=fit.batch, chance=100)


def test_without_cuda_nothing_is_compared(estimate: highwater.Estimate) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    output = io.StringIO()
    with highwater.check(estimate, file=output) as checked:
        pass
    assert checked.comparison is None
    assert "no CUDA device here" in output.getvalue()


def test_a_trainer_gets_the_largest_batch(tmp_path: Path) -> None:
    callback = LargestBatch("t4", most=8)
    begun = trainer(tmp_path, max_steps=1)
    begun.add_callback(callback)
    with pytest.raises(highwater.Error, match=r"call `callback\.set_batch"):
        begun.train()
    fit = callback.set_batch(begun)
    assert fit.batch > 8
    assert begun.args.per_device_train_batch_size == 8
    assert next(iter(begun.get_train_dataloader()))["input_ids"].shape == (8, TEXTS.shape[1])
    begun.train()
    begun.args.per_device_train_batch_size = fit.batch + 1
    with pytest.raises(highwater.Error, match="the batch was raised"):
        begun.train()


def test_lightning_gets_the_largest_batch() -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.batch_size, self.seen = Net(), 1, 0

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> Any:
            self.seen = len(batch[0])
            return self(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(torch.zeros(64, 64)), batch_size=self.batch_size
            )

    module, callback = Module(), LargestBatchOfModule(torch.zeros(2, 64), "t4", most=16)
    lightning.Trainer(
        accelerator="cpu",
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[callback],
    ).fit(module)
    assert callback.fit is not None
    assert (module.batch_size, module.seen) == (16, 16)


def test_the_page_opens_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_text("the page")
    monkeypatch.setenv("HIGHWATER_PAGE", str(tmp_path))
    estimate = highwater.estimate(Net(), torch.zeros(2, 64), batch=4)
    with estimate.open(browser=False) as page:
        root = page.address.split("/?")[0]
        assert urllib.request.urlopen(root + "/").read() == b"the page"
        assert urllib.request.urlopen(root + "/model").read().startswith(b"PK")
    with highwater.estimate("resnet18").open(browser=False) as page:
        assert "#v1." in page.address
    monkeypatch.setenv("HIGHWATER_PAGE", str(tmp_path / "none"))
    with pytest.raises(highwater.Error, match="the files of the page are not in"):
        estimate.open(browser=False)


def test_there_is_one_version() -> None:
    cargo = (Path(__file__).resolve().parents[2] / "Cargo.toml").read_text()
    assert f'version = "{highwater.__version__}"' in cargo
