"""What people give as a model, and that the answer is that of the command line for the same export."""

import contextlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
import transformers
from torch import nn

import highwater

IMAGES = torch.zeros(2, 3, 224, 224)
TEXTS = torch.zeros(2, 64, dtype=torch.long)
ACCURACY = Path(__file__).resolve().parents[2] / "tests" / "accuracy.txt"


def gpt2(layers: int = 2, **settings: Any) -> Any:
    return transformers.GPT2Config(n_layer=layers, architectures=["GPT2LMHeadModel"], **settings)


def equals_the_command_line(estimate: highwater.Estimate, command_line: Any, folder: Path, *flags: str) -> None:
    """But for what the model is called."""
    file = estimate.write_model(folder / "model.pt2")
    ours, theirs = estimate.json(), command_line(file, *flags)
    for answer in (ours, theirs):
        answer.pop("headline")
        answer["model"].pop("name")
    assert ours == theirs


def test_resnet50_is_answered_as_the_command_line_does(command_line: Any, tmp_path: Path) -> None:
    model = torchvision.models.resnet50()
    estimate = highwater.estimate(model, IMAGES, batch=32, optimizer="adamw", device="t4")
    assert str(estimate) == "ResNet at batch 32 fits on a T4: it needs 3.44 of 14.6 GiB."
    equals_the_command_line(estimate, command_line, tmp_path, "--batch=32", "--optimizer=adamw", "--device=t4")


def test_a_model_of_transformers_is_answered_as_the_command_line_does(command_line: Any, tmp_path: Path) -> None:
    model = transformers.GPT2LMHeadModel(gpt2())
    inputs = {"input_ids": TEXTS, "labels": TEXTS.clone()}
    estimate = highwater.estimate(model, inputs, batch=4, optimizer="adamw", device="t4")
    equals_the_command_line(estimate, command_line, tmp_path, "--batch=4", "--optimizer=adamw", "--device=t4")
    assert estimate.parameters == sum(parameter.numel() for parameter in model.parameters()), "the head is tied"


def recorded() -> dict[str, list[tuple[int, str, str]]]:
    """Peaks in MiB that PyTorch itself reached with models of torchvision: the table `pt2` of tests/accuracy.txt."""
    lines = ACCURACY.read_text().split("\npt2\n")[1].split("\n\n")[0].splitlines()[1:]
    found: dict[str, list[tuple[int, str, str]]] = {}
    for name, batch, _, *row in map(str.split, filter(None, lines)):
        if hasattr(torchvision.models, name):
            optimizer = "sgd-momentum" if "sgd-momentum" in row else "adamw"
            sizes = [cell for cell in row if cell.replace(".", "").isdigit()]
            found.setdefault(name, []).append((int(batch), optimizer, sizes[1]))
    return found


@pytest.mark.parametrize(("name", "runs"), recorded().items())
def test_peaks_are_those_of_pytorch(name: str, runs: list[tuple[int, str, str]]) -> None:
    estimate = highwater.estimate(getattr(torchvision.models, name)(), IMAGES, device="a100-80gb")
    for batch, optimizer, peak in runs:
        changed = estimate.change(batch=batch, optimizer=optimizer)
        assert f"{changed.peak.allocated / 2**20:.1f}" == peak, f"batch {batch}, {optimizer}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (torchvision.models.resnet18(), IMAGES),
        lambda: (transformers.GPT2LMHeadModel(gpt2()), {"input_ids": TEXTS, "labels": TEXTS}),
    ],
)
def test_on_the_meta_device_a_model_needs_the_same(make: Any) -> None:
    model, inputs = make()
    with torch.device("meta"):
        bare, _ = make()
    there, here = (highwater.estimate(each, inputs, batch=4, device="t4") for each in (bare, model))
    assert there.peak == here.peak
    assert there.json()["devices"] == here.json()["devices"]


def test_seventy_billion_parameters_need_no_memory() -> None:
    config = transformers.LlamaConfig(
        num_hidden_layers=80,
        hidden_size=8192,
        intermediate_size=28672,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
        architectures=["LlamaForCausalLM"],
    )
    by_name = highwater.estimate("llama-3-70b", batch=1, seq=64, device="h200", precision="bf16")
    estimate = highwater.estimate(config, batch=1, seq=64, device="h200", precision="bf16")
    assert estimate.parameters == by_name.parameters == 70_553_706_496
    assert not estimate.fits


def test_a_configuration_may_come_with_inputs() -> None:
    # The labels of a model by its configuration are its texts.
    inputs = {"input_ids": TEXTS, "labels": TEXTS}
    estimate = highwater.estimate(gpt2(), inputs, batch=4, device="t4")
    assert estimate.peak == highwater.estimate(gpt2(), batch=4, seq=64, device="t4").peak


def test_a_length_of_texts_may_be_asked_for() -> None:
    model = transformers.GPT2LMHeadModel(gpt2())
    inputs = {"input_ids": TEXTS, "labels": TEXTS.clone()}
    longer = {name: torch.zeros(2, 128, dtype=torch.long) for name in inputs}
    asked = highwater.estimate(model, inputs, batch=4, seq=128, device="t4")
    assert asked.peak == highwater.estimate(model, longer, batch=4, device="t4").peak


def test_files_names_bytes_and_programs() -> None:
    model = torchvision.models.resnet18()
    peak = highwater.estimate(model, IMAGES, batch=2).peak
    program = torch.export.export(model, (IMAGES,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert highwater.estimate(program, batch=2).peak == peak
    assert highwater.estimate("resnet18", batch=2, optimizer="adamw").peak == peak
    assert highwater.estimate("resnet18", batch=2).config["optimizer"] == "sgd-momentum", "what its authors used"


def test_a_file_is_opened(tmp_path: Path) -> None:
    file = highwater.estimate(torchvision.models.resnet18(), IMAGES).write_model(tmp_path / "net.pt2")
    for given in (file, str(file), file.read_bytes()):
        assert highwater.estimate(given, batch=2).parameters == 11_689_512


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.drop = nn.Dropout()
        self.second = nn.Linear(64, 8)

    def forward(self, x: Any, scale: Any = None) -> Any:
        y = self.second(self.drop(self.first(x)))
        return y if scale is None else y * scale


@pytest.mark.parametrize(
    "inputs",
    [torch.zeros(1, 64), (torch.zeros(5, 64),), [torch.zeros(2, 64)], {"x": torch.zeros(3, 64)}, torch.zeros(4096, 64)],
)
def test_example_inputs_of_any_batch_and_form_answer_the_same(inputs: Any) -> None:
    expected = highwater.estimate(Net(), torch.zeros(2, 64), batch=7).peak
    assert highwater.estimate(Net(), inputs, batch=7).peak == expected


def test_the_batch_is_that_of_the_inputs() -> None:
    assert highwater.estimate(Net(), torch.zeros(5, 64)).batch == 5
    assert highwater.estimate(Net(), torch.zeros(1, 64)).batch == 1


def test_the_run_is_that_of_the_installed_pytorch() -> None:
    installed = highwater.estimate(Net(), torch.zeros(2, 64))
    assert torch.__version__.startswith(installed.config["pytorch"] + ".")
    assert highwater.estimate(Net(), torch.zeros(2, 64), pytorch="2.8").config["pytorch"] == "2.8"


def test_a_module_is_as_it_was() -> None:
    model = Net().eval()
    model.first.train()
    highwater.estimate(model, torch.zeros(2, 64))
    assert [module.training for module in model.modules()] == [False, True, False, False]
    config = gpt2()
    highwater.estimate(transformers.GPT2LMHeadModel(config), {"input_ids": TEXTS})
    assert config.use_cache


def test_a_module_in_evaluation_mode_is_trained() -> None:
    training, evaluation = (highwater.estimate(net, torch.zeros(2, 64)) for net in (Net(), Net().eval()))
    assert training.peak == evaluation.peak


def test_frozen_parameters_have_no_gradient() -> None:
    net = Net()
    net.first.requires_grad_(requires_grad=False)
    assert highwater.estimate(net, torch.zeros(2, 64)).at_peak["optimizer_state"] == 2 * 4 * (64 * 8 + 8)


class OneBatch(Net):
    def forward(self, x: Any, scale: Any = None) -> Any:
        return super().forward(x.view(3, 64))


def test_a_module_may_work_for_one_batch() -> None:
    estimate = highwater.estimate(OneBatch(), torch.zeros(3, 64), device="t4")
    assert estimate.only_batch == 3
    assert estimate.verdict.largest_batch is None
    with pytest.raises(highwater.Error, match="works for 3 samples only"):
        highwater.fit(estimate)
    with pytest.raises(highwater.Error, match="works for 3 samples only"):
        estimate.change(batch=6)


@pytest.mark.parametrize(
    ("make", "name", "settings"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), "sgd", {"weight_decay": False}),
        (lambda p: torch.optim.SGD, "sgd", {"weight_decay": False}),
        (lambda p: torch.optim.AdamW, "adamw", {"weight_decay": True}),
        (lambda p: torch.optim.AdamW(p, weight_decay=0), "adamw", {"weight_decay": False}),
        (lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=1e-4), "sgd-momentum", {"weight_decay": True}),
        (lambda p: torch.optim.SGD(p, momentum=0.9, nesterov=True), "sgd-nesterov", {}),
        (lambda p: torch.optim.Adam(p, fused=True), "adam", {"optimizer_impl": "fused"}),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "adam-amsgrad", {}),
        (lambda p: torch.optim.AdamW(p, foreach=False), "adamw", {"optimizer_impl": "for-loop"}),
        (lambda p: torch.optim.AdamW(p, foreach=True), "adamw", {"optimizer_impl": "foreach"}),
        (lambda p: torch.optim.RMSprop(p, momentum=0.9), "rmsprop-momentum", {}),
        (lambda p: torch.optim.RMSprop(p, centered=True), "rmsprop-centered", {}),
        (lambda p: torch.optim.Adafactor(p), "adafactor", {}),
        (lambda p: torch.optim.NAdam, "nadam", {}),
        (lambda p: "adam-8bit", "adam-8bit", {}),
    ],
)
def test_optimizers_are_read(make: Any, name: str, settings: dict[str, Any]) -> None:
    net = Net()
    config = highwater.estimate(net, torch.zeros(2, 64), optimizer=make(net.parameters())).config
    assert config["optimizer"] == name
    assert {key: config[key] for key in settings} == settings


def test_what_an_optimizer_leaves_out_is_told() -> None:
    net = Net()
    optimizer = torch.optim.AdamW([{"params": [net.first.weight]}, {"params": [net.second.weight]}])
    with pytest.warns(UserWarning, match="in no group of the optimizer"):
        estimate = highwater.estimate(net, torch.zeros(2, 64), optimizer=optimizer)
    assert any("2 groups" in note for note in estimate.diagnostics)


def trainer(folder: Path, **arguments: Any) -> Any:
    data = [{"input_ids": TEXTS[0], "labels": TEXTS[0]}] * 16
    arguments = {"per_device_train_batch_size": 4, "use_cpu": True, "report_to": "none", **arguments}
    training = transformers.TrainingArguments(output_dir=str(folder), **arguments)
    return transformers.Trainer(transformers.GPT2LMHeadModel(gpt2()), training, train_dataset=data)


def test_a_trainer_is_read(tmp_path: Path) -> None:
    config = highwater.estimate(trainer(tmp_path, gradient_accumulation_steps=2, optim="adafactor"), device="t4").config
    assert config["dims"]["batch"] == 4
    assert config["accumulate"] == 2
    assert config["optimizer"] == "adafactor"


@pytest.mark.parametrize(
    ("dtype", "casts", "precision"),
    [
        (torch.float32, False, "fp32"),
        (torch.float32, True, "amp-bf16"),
        (torch.bfloat16, False, "bf16"),
        (torch.bfloat16, True, "bf16-amp"),
    ],
)
def test_the_model_of_a_trainer_has_the_type_that_it_has(
    tmp_path: Path, dtype: torch.dtype, casts: bool, precision: str
) -> None:
    begun = trainer(tmp_path)
    begun.args.bf16 = casts
    begun.model.to(dtype)
    inputs = {"input_ids": TEXTS, "labels": TEXTS}
    for estimate in (
        highwater.estimate(begun, device="t4"),
        highwater.estimate(begun.model, inputs, arguments=begun.args, device="t4"),
    ):
        assert estimate.config["precision"] == precision
        parameters = sum(parameter.numel() for parameter in begun.model.parameters())
        assert estimate.at_peak["parameter"] == dtype.itemsize * parameters
    assert highwater.estimate(begun, device="t4", precision="amp-fp16").config["precision"] == "amp-fp16"


def test_a_trainer_of_an_fp32_model_needs_what_the_model_does(tmp_path: Path) -> None:
    begun = trainer(tmp_path, optim="adamw_torch", max_grad_norm=0)
    parameters = 4 * sum(parameter.numel() for parameter in begun.model.parameters())
    at_peak = highwater.estimate(begun, device="t4", optimizer_impl="foreach").at_peak
    assert at_peak["parameter"] == parameters
    assert at_peak["optimizer_state"] == 2 * parameters


def test_a_trainer_that_compiles_is_no_guess(tmp_path: Path) -> None:
    estimate = highwater.estimate(trainer(tmp_path, torch_compile=True), device="t4")
    assert estimate.config["compile"] == "inductor"
    assert not [note for note in estimate.diagnostics if "torch_compile" in note]


def test_weight_decay_can_be_switched_off() -> None:
    by_name = highwater.estimate("resnet18", batch=8)
    assert by_name.config["weight_decay"]
    assert not highwater.estimate("resnet18", batch=8, weight_decay=False).config["weight_decay"]
    assert not by_name.change(weight_decay=False).config["weight_decay"]
    for decay in (0, 1e-4):
        optimizer = torch.optim.SGD(Net().parameters(), momentum=0.9, weight_decay=decay)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = highwater.estimate("resnet18", batch=8, optimizer=optimizer).config
        assert config["weight_decay"] == bool(decay)


def gpt2_module() -> Any:
    return transformers.GPT2LMHeadModel(gpt2(4))


def checkpointed(entered: bool) -> Any:
    module = gpt2_module()
    module.gradient_checkpointing_enable({"use_reentrant": entered})
    return module


def compiled_in_place() -> Any:
    module = gpt2_module()
    module.compile()
    return module


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (gpt2_module, {"checkpoint": "none", "compile": "none"}),
        (lambda: checkpointed(False), {"checkpoint": "blocks", "checkpoint_reentry": "off"}),
        (lambda: checkpointed(True), {"checkpoint": "blocks", "checkpoint_reentry": "on"}),
        (lambda: torch.compile(gpt2_module()), {"compile": "inductor"}),
        (compiled_in_place, {"compile": "inductor"}),
    ],
)
def test_a_module_runs_as_it_would_without_us(make: Any, settings: dict[str, Any]) -> None:
    module, inputs = make(), {"input_ids": TEXTS, "labels": TEXTS}
    estimate = highwater.estimate(module, inputs, batch=4, device="t4")
    assert {key: estimate.config[key] for key in settings} == settings
    expected = highwater.estimate(gpt2_module(), inputs, batch=4, device="t4", **settings)
    assert estimate.peak == expected.peak
    assert estimate.name == "GPT2LMHeadModel"
    # What is stated goes before, and the module is as it was.
    off = {"checkpoint": "none", "compile": "none"}
    plain = highwater.estimate(module, inputs, batch=4, device="t4", **off)
    assert plain.peak == highwater.estimate(gpt2_module(), inputs, batch=4, device="t4").peak
    again = highwater.estimate(module, inputs, batch=4, device="t4")
    assert again.config == estimate.config


def test_a_module_that_runs_in_a_way_that_is_not_known_is_refused() -> None:
    module, inputs = torch.compile(checkpointed(False)), {"input_ids": TEXTS, "labels": TEXTS}
    with pytest.raises(highwater.Error, match="not known with checkpointing"):
        highwater.estimate(module, inputs, device="t4")
    estimate = highwater.estimate(module, inputs, device="t4", compile="none")
    assert (estimate.config["compile"], estimate.config["checkpoint"]) == ("none", "blocks")


def test_parts_of_a_module_that_run_otherwise_are_told() -> None:
    net = Net()
    net.first.compile()
    with pytest.warns(UserWarning, match="`first` is compiled, and the module is not"):
        estimate = highwater.estimate(net, X)
    assert estimate.config["compile"] == "none"
    module = checkpointed(False)
    module.transformer.h[0].gradient_checkpointing = False
    with pytest.warns(UserWarning, match="3 of 4 blocks run again in backward"):
        highwater.estimate(module, {"input_ids": TEXTS, "labels": TEXTS})


def test_an_encoder_and_a_decoder_are_exported() -> None:
    config = transformers.T5Config(
        num_layers=2, d_model=64, d_ff=128, d_kv=16, num_heads=4, vocab_size=1000, decoder_start_token_id=0
    )
    module = transformers.T5ForConditionalGeneration(config)
    estimate = highwater.estimate(module, {"input_ids": TEXTS, "labels": TEXTS}, batch=4, device="t4")
    assert estimate.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert (module.config.use_cache, module.decoder.config.use_cache) == (True, True)


def test_modules_are_estimated_in_threads() -> None:
    def ask(size: int) -> int:
        return highwater.estimate(Net(), torch.zeros(2, 64), batch=size).peak.allocated

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, [64, 128, 256, 512]))
    assert found == [ask(size) for size in (64, 128, 256, 512)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precison": "fp32"}, "there is no setting `precison`"),
        ({"precision": "fp3"}, "invalid value 'fp3'"),
        ({"device": "t5"}, "unknown device `t5`"),
        ({"gpus": 0}, "no whole number from 1"),
        ({"ema": 3}, "`ema` is True or False"),
        ({"optimizer": "adom"}, "invalid value 'adom'"),
        ({"optimizer": 3}, "int is no optimizer"),
        ({"arguments": 3}, "int has no arguments of a trainer"),
        ({"arguments": "x = 1"}, "this is no training recipe"),
    ],
)
def test_settings_are_checked_before_a_module_is_exported(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], message: str
) -> None:
    def export(*_: Any, **__: Any) -> Any:
        raise AssertionError("exported")

    monkeypatch.setattr(torch.export, "export", export)
    with pytest.raises(highwater.Error, match=message):
        highwater.estimate(Net(), X, **settings)


def test_arguments_of_a_trainer_are_read(tmp_path: Path) -> None:
    training = transformers.TrainingArguments(output_dir=str(tmp_path), per_device_train_batch_size=3, use_cpu=True)
    model = transformers.GPT2LMHeadModel(gpt2())
    for arguments in (training, training.to_dict()):
        estimate = highwater.estimate(model, {"input_ids": TEXTS, "labels": TEXTS}, arguments=arguments, device="t4")
        assert estimate.batch == 3


class ByValue(Net):
    def forward(self, x: Any, scale: Any = None) -> Any:
        return super().forward(x) if x.sum() > 0 else x


class Elsewhere(Net):
    def forward(self, x: Any, scale: Any = None) -> Any:
        return super().forward(x) + torch.zeros(8, device="cpu")


class Result(Net):
    def forward(self, x: Any, scale: Any = None) -> Any:
        return contextlib.nullcontext(super().forward(x))


class Odd(Net):
    def forward(self, x: Any, scale: Any = None) -> Any:
        raise NotImplementedError("only on Tuesdays")


def half_moved() -> Net:
    net = Net()
    net.second.to("meta")
    return net


X = torch.zeros(2, 64)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: highwater.estimate(Net()), r"a module needs example inputs, of any batch"),
        (lambda: highwater.estimate(Net(), 3), r"inputs are a tensor, a tuple .* not int"),
        (lambda: highwater.estimate(Net(), torch.zeros(2, 63)), r"inputs do not have the shapes that Net works on"),
        (lambda: highwater.estimate(Net(), torch.zeros(0, 64)), r"the batch of the example inputs is 0"),
        (lambda: highwater.estimate(Net(), {"y": X}), r"inputs are not what Net\.forward takes"),
        (lambda: highwater.estimate(Net(), (X, X, X)), r"inputs are not what Net\.forward takes"),
        (lambda: highwater.estimate(Net(), (), batch=2), r"inputs has a batch|inputs are not what"),
        (lambda: highwater.estimate(ByValue(), X), r"decides by the values of a tensor in line \d+ .*choose by shapes"),
        (lambda: highwater.estimate(Elsewhere().to("meta"), X), r"tensor on another device than its inputs"),
        (
            lambda: highwater.estimate(half_moved(), X),
            r"on several devices \(`first.weight` on cpu, `second.weight` on",
        ),
        (lambda: highwater.estimate(Result(), X), r"returns a nullcontext, which cannot be exported"),
        (lambda: highwater.estimate(Odd(), X), r"Odd cannot be exported in line .*only on Tuesdays.* export .* ONNX"),
        (lambda: highwater.estimate(Net(), X, precison="fp32"), r"there is no setting `precison`; near are precision"),
        (lambda: highwater.estimate(Net(), X, precision="fp3"), r"invalid value 'fp3' .*possible values: fp32"),
        (lambda: highwater.estimate(Net(), X, ema=3), r"`ema` is True or False, not 3"),
        (lambda: highwater.estimate(Net(), X, device="t5"), r"unknown device `t5`; near are t4"),
        (lambda: highwater.estimate("nosuch"), r"there is no file and no model of this name"),
        (lambda: highwater.estimate("resnet18", X), r"has its own inputs: give sizes instead"),
        (lambda: highwater.estimate(3), r"int is no model"),
        (lambda: highwater.estimate(b"no model"), r"."),
        (lambda: highwater.estimate(Net(), X, optimizer=3), r"int is no optimizer of PyTorch"),
        (lambda: highwater.estimate(Net(), X, optimizer=torch.optim.LBFGS), r"LBFGS is not simulated; these are: SGD"),
        (lambda: highwater.estimate(Net(), X, arguments=3), r"int has no arguments of a trainer"),
        (lambda: highwater.estimate(Net(), X, arguments="x = 1"), r"this is no training recipe"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_advice(ask: Any, message: str) -> None:
    with pytest.raises(highwater.Error, match=message) as refused:
        ask()
    assert "\n" not in str(refused.value)


def test_errors_are_those_of_the_command_line(tmp_path: Path) -> None:
    import subprocess
    import sys

    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"PK\x03\x04 damaged")
    done = subprocess.run(
        [sys.executable, "-m", "highwater", "estimate", str(damaged)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    with pytest.raises(highwater.Error) as refused:
        highwater.estimate(damaged)
    assert done.stderr == f"error: {refused.value}\n"
