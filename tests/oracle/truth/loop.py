"""The training loop that is measured.

    zero_grad(); out = model(x); loss = criterion(out, y); loss.backward(); optimizer.step()

in training mode, with the batch on the device before the loop begins, and with `loss` and `out`
bound until they are assigned again. Models of transformers are called with `labels=input_ids`, no
attention mask and no cache. One run per process: the allocator's cache is empty at the start.
"""

import contextlib
import ctypes
import fnmatch
import gc
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from truth import blocks, compiled, events, kernels, place, settings, snapshot, zoo

#: Ours to the allocator's names.
STATISTICS = {
    'allocated': 'allocated_bytes',
    'requested': 'requested_bytes',
    'active': 'active_bytes',
    'reserved': 'reserved_bytes',
}


#: Types by the names that runs have for them; packed weights are bytes otherwise.
STORAGE = {None: torch.uint8, 'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}

#: Losses whose target is as large as the logits.
DENSE = ('mse', 'bce-with-logits')


class Loop:
    """A model, its optimizer and a batch on the device, and what was seen of them."""

    def __init__(self, chosen: Namespace) -> None:
        self.chosen = chosen
        self.tagger = events.Tagger() if chosen.events else None
        #: Peaks of the phases of each iteration.
        self.peaks: list[dict[str, dict[str, int]]] = []
        #: The plain script's two names, which nothing else here may hold.
        self.out: Any = None
        self.loss: Any = None
        #: Addresses that outlive each iteration, and whose they are.
        self.owners: dict[int, dict[int, str]] = {}
        #: The target of a loss that compares with numbers, on the host.
        self.dense: Tensor | None = None
        self.model = self.prepare_model()
        self.batch, self.target = self.prepare_batch()
        name, arguments = settings.optimizer(chosen.opt)
        if chosen.foreach is not None:
            arguments['foreach'] = bool(chosen.foreach)
        if chosen.fused:
            arguments['fused'] = True
        parameters = list(self.model.parameters())
        #: Trained parameters, and the copies of them that the optimizer owns.
        self.masters: list[tuple[Tensor, Tensor]] = []
        if chosen.masters:
            for parameter in (parameter for parameter in parameters if parameter.requires_grad):
                self.masters.append((parameter, parameter.detach().float().requires_grad_()))
            parameters = [master for _, master in self.masters]
        home = torch.optim
        if name.endswith('bit'):
            import bitsandbytes

            home = bitsandbytes.optim
        self.optimizer = getattr(home, name)(self.grouped(parameters), lr=1e-3, **arguments)
        #: Those of `--in-backward`, by parameter.
        self.apart: dict[Tensor, torch.optim.Optimizer] = {}
        if chosen.in_backward:
            for parameter in (parameter for parameter in parameters if parameter.requires_grad):
                self.apart[parameter] = getattr(home, name)([parameter], lr=1e-3, **arguments)
                parameter.register_post_accumulate_grad_hook(self.step_at_gradient)
        self.scaler = torch.amp.GradScaler('cuda') if chosen.amp == 'float16' else None
        torch.cuda.synchronize()

    def grouped(self, parameters: list[Tensor]) -> list[Any]:
        """What the optimizer is given."""
        return parameters

    def prepare_model(self) -> nn.Module:
        """On the device, in training mode."""
        chosen = self.chosen
        given = dict(attn=chosen.attn) if chosen.attn else {}
        model = zoo.build(chosen.model, **given).train(not chosen.inference)
        kernels.patch(model, chosen)
        if chosen.checkpoint:
            blocks.checkpoint_blocks(model, chosen.checkpoint, chosen.reentrant, chosen.offload)
        for name, parameter in model.named_parameters():
            if any(is_meant(name, pattern) for pattern in chosen.freeze):
                parameter.requires_grad_(False)
        for module in model.modules():
            if chosen.in_place and hasattr(module, 'inplace') and not is_dropout(module):
                module.inplace = chosen.in_place == 'on'
        model.to(getattr(torch, chosen.dtype))
        if chosen.lora and not chosen.quantize:
            adapt(model, chosen)
        if chosen.loss in DENSE:
            self.dense = target_of_numbers(chosen, model)
        if chosen.quantize:
            quantize(model, chosen)
        self.mark(0, 'model')
        self.place(model)
        if chosen.lora and chosen.quantize:
            adapt(model, chosen)
        if chosen.channels_last:
            model.to(memory_format=torch.channels_last)
        if chosen.compile:
            compiled.compile(model, chosen.compile, chosen.compile_mode)
        return model

    def place(self, model: nn.Module) -> None:
        """To the device."""
        model.cuda()

    def accumulating(self, is_last: bool) -> contextlib.AbstractContextManager[Any]:
        """What stands around the forward and backward of a batch."""
        return contextlib.nullcontext()

    def prepare_batch(self) -> tuple[Tensor | tuple[Tensor, ...], Tensor | None]:
        """Inputs and targets, which stay on the device; in inference there are no targets."""
        batch, target = self.prepare_inputs()
        if self.chosen.inference:
            return batch, None
        return batch, target if self.dense is None else self.dense.cuda()

    def prepare_inputs(self) -> tuple[Tensor | tuple[Tensor, ...], Tensor]:
        """Inputs and labels; for token numbers they are one tensor."""
        chosen = self.chosen
        if example := zoo.ZOO[chosen.model].example:
            batch, target = example(chosen.batch)
            self.mark(0, 'input')
            if isinstance(batch, dict):
                given = (tensor.to(type_of(chosen, tensor)) for tensor in batch.values())
                return tuple(tensor.cuda() for tensor in given), target.to(type_of(chosen, target)).cuda()
            batch_on_device = batch.cuda()
            return batch_on_device, batch_on_device if target is batch else target.cuda()
        batch = zoo.batch(chosen.model, chosen.batch, chosen.size, chosen.seq)
        self.mark(0, 'input')
        if not batch.is_floating_point():
            batch = batch.cuda()
            return batch, batch
        batch = batch.to(getattr(torch, chosen.dtype))
        if chosen.channels_last:
            batch = batch.to(memory_format=torch.channels_last)
        return batch.cuda(), torch.zeros(chosen.batch, dtype=torch.long).cuda()

    def run(self) -> None:
        """All iterations."""
        with self.tagger or contextlib.nullcontext():
            for iteration in range(1, self.chosen.iters + 1):
                self.peaks.append({})
                self.iterate(iteration)
                self.mark(iteration, 'end')
        torch.cuda.synchronize()

    def iterate(self, iteration: int) -> None:
        """One optimizer step and what leads to it."""
        chosen = self.chosen
        if chosen.inference:
            with self.phase(iteration, 'forward'), torch.inference_mode(), self.autocast():
                self.out = infer(chosen, self.model, self.batch)
            return
        if chosen.compile:
            # Behind a graph break the compiler's garbage has the first iteration's loss and logits.
            gc.collect()
        with self.phase(iteration, 'zero_grad'):
            if chosen.zero_grad == 'start':
                self.zero_grad()
        for micro in range(chosen.accumulate):
            with self.accumulating(micro + 1 == chosen.accumulate):
                with self.phase(iteration, 'forward'):
                    with self.autocast():
                        self.loss, self.out = self.forward()
                with self.phase(iteration, 'backward'):
                    if chosen.zero_grad == 'backward' and micro == 0:
                        self.zero_grad()
                    if chosen.accumulate > 1:
                        self.loss = self.loss / chosen.accumulate
                    self.scaled(self.loss).backward()
        with self.phase(iteration, 'optimizer'):
            self.step()
            if chosen.zero_grad == 'end':
                self.zero_grad()
            if chosen.style == 'function':
                self.loss = self.out = None
        if chosen.evaluation:
            with self.phase(iteration, 'forward'):
                self.validate()
        if self.tagger:
            self.owners[iteration] = self.find_owners()

    def validate(self) -> None:
        """The forward and the loss in evaluation mode, without gradients; nothing of it is kept."""
        self.model.eval()
        with torch.no_grad(), self.autocast():
            loss, out = self.forward()
        del loss, out
        self.model.train()

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Mixed precision, if it was chosen."""
        amp = self.chosen.amp
        return torch.autocast('cuda', dtype=getattr(torch, amp)) if amp else contextlib.nullcontext()

    def zero_grad(self) -> None:
        """Of the model, then of the masters, if there are any."""
        if self.masters:
            self.model.zero_grad()
        self.optimizer.zero_grad()

    def scaled(self, loss: Tensor) -> Tensor:
        """By the scaler, if there is one."""
        return self.scaler.scale(loss) if self.scaler else loss

    def forward(self) -> tuple[Tensor, Any]:
        """The loss, and what the model returned."""
        return forward(self.chosen, self.model, self.batch, self.target)

    def step_at_gradient(self, parameter: Tensor) -> None:
        """The step of one parameter, as soon as it has its gradient."""
        self.apart[parameter].step()
        self.apart[parameter].zero_grad()

    def step(self) -> None:
        """Clipping and the optimizer, through the scaler if there is one."""
        chosen = self.chosen
        for parameter, master in self.masters:
            if parameter.grad is not None:
                master.grad = parameter.grad.float()
        if chosen.clip:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            owned = [master for _, master in self.masters] or self.model.parameters()
            self.clip(owned, chosen.clip)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        with torch.no_grad():
            for parameter, master in self.masters:
                parameter.copy_(master)

    def clip(self, parameters: Iterable[Tensor], norm: float) -> None:
        """The gradients' norm."""
        torch.nn.utils.clip_grad_norm_(parameters, norm)

    @contextlib.contextmanager
    def phase(self, iteration: int, name: str):
        """Measures the peaks of a phase; one that comes again counts with its largest."""
        self.mark(iteration, name)
        torch.cuda.reset_peak_memory_stats()
        yield
        now = statistics()
        before = self.peaks[-1].get(name, now)
        self.peaks[-1][name] = {key: max(now[key], before[key]) for key in now}

    def mark(self, iteration: int, phase: str) -> None:
        """Tells the tagger."""
        if self.tagger:
            self.tagger.phase(f'{iteration}:{phase}')

    def find_owners(self) -> dict[int, str]:
        """Addresses of storages that somebody holds at the end of an iteration."""
        owners: dict[int, str] = {}

        def own(tensors: Any, name: str) -> None:
            for tensor in tensors:
                tensor = tensor.to_local() if hasattr(tensor, 'to_local') else tensor
                if torch.is_tensor(tensor) and tensor.is_cuda and tensor.untyped_storage().size():
                    owners[tensor.untyped_storage().data_ptr()] = name

        own(self.model.parameters(), 'parameter')
        own(self.model.buffers(), 'buffer')
        own((parameter.grad for parameter in self.model.parameters()), 'gradient')
        own((master for _, master in self.masters), 'optimizer_state')
        own((master.grad for _, master in self.masters), 'gradient')
        for state in (state for one in (self.optimizer, *self.apart.values()) for state in one.state.values()):
            own(state.values(), 'optimizer_state')
        own([*several(self.batch), self.target], 'input')
        return owners


def is_dropout(module: nn.Module) -> bool:
    """Whether `inplace` is not about an activation."""
    return isinstance(module, nn.modules.dropout._DropoutNd)


def adapt(model: nn.Module, chosen: Namespace) -> None:
    """Puts peft's adapters in, as `get_peft_model` does; all else is frozen."""
    import peft

    names = chosen.lora
    config = peft.LoraConfig(
        r=chosen.lora_rank,
        lora_alpha=2 * chosen.lora_rank,
        lora_dropout=0.05 * chosen.lora_dropout,
        target_modules='all-linear' if names == ['all-linear'] else names,
        modules_to_save=chosen.modules_to_save or None,
        use_dora=chosen.dora,
    )
    peft.get_peft_model(model, config, autocast_adapter_dtype=not chosen.lora_model_type)
    # Gradient checkpointing makes peft do so by itself, which checkpoints without reentry do not need.
    if chosen.input_require_grads:
        model.enable_input_require_grads()
    elif hasattr(model, '_require_grads_hooks'):
        model.disable_input_require_grads()


def quantize(model: nn.Module, chosen: Namespace) -> None:
    """Puts bitsandbytes' layers in place of linear ones, as `from_pretrained` does with a
    `BitsAndBytesConfig`; the weights, which are quantised on their way to the device, come in the
    type that the model was converted to, else in the type of computation."""
    import transformers
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    from transformers.quantizers.base import get_keys_to_not_convert

    own = getattr(torch, chosen.dtype)
    compute = getattr(torch, chosen.compute_type or chosen.amp or chosen.dtype)
    bits = dict(load_in_8bit=True) if chosen.quantize == 'int8' else dict(load_in_4bit=True)
    config = transformers.BitsAndBytesConfig(
        bnb_4bit_quant_type='nf4' if chosen.quantize == 'int8' else chosen.quantize,
        bnb_4bit_use_double_quant=chosen.double_quantize,
        bnb_4bit_compute_dtype=compute,
        bnb_4bit_quant_storage=STORAGE[chosen.quant_storage],
        **bits,
    )
    skipped = get_keys_to_not_convert(model)
    # What `from_pretrained` notes, and peft asks for.
    setattr(model, f'is_loaded_in_{8 if chosen.quantize == "int8" else 4}bit', True)
    state = dict(model.named_parameters())
    replace_with_bnb_linear(model, skipped, config)
    for name, module in model.named_modules():
        if not hasattr(module, 'source_cls'):
            continue
        weight = state[f'{name}.weight'].data.to(compute if own == torch.float32 else own)
        weight = weight.T if module.source_cls.__name__ == 'Conv1D' else weight
        given = module.weight.__dict__
        module.weight = type(module.weight)(weight.contiguous(), requires_grad=False, **given)
        if module.bias is not None:
            module.bias = state[f'{name}.bias']


def is_meant(name: str, pattern: str) -> bool:
    """Whether a pattern is the parameter's name or begins it, `*` being any text."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + '.*')


def type_of(chosen: Namespace, tensor: Tensor) -> torch.dtype:
    """The type of an input: numbers are in the model's."""
    return getattr(torch, chosen.dtype) if tensor.is_floating_point() else tensor.dtype


def several(batch: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a model is called with."""
    return batch if isinstance(batch, tuple) else (batch,)


def target_of_numbers(chosen: Namespace, model: nn.Module) -> Tensor:
    """A target as large as the logits, found on the host before anything is on the device."""
    if example := zoo.ZOO[chosen.model].example:
        batch, _ = example(chosen.batch)
    else:
        batch = zoo.batch(chosen.model, chosen.batch, chosen.size, chosen.seq)
    given = tuple(batch.values()) if isinstance(batch, dict) else several(batch)
    lower = [x.to(getattr(torch, chosen.dtype)) if x.is_floating_point() else x for x in given]
    with torch.no_grad():
        out = model(*lower)
    return torch.zeros_like(getattr(out, 'logits', out))


def forward(
    chosen: Namespace, model: nn.Module, batch: Tensor | tuple[Tensor, ...], target: Tensor
) -> tuple[Tensor, Any]:
    """The loss, and what the model returned."""
    kind = zoo.ZOO[chosen.model].kind
    if kind == 'example':
        out = model(*several(batch))
        if out.dim() > 3 and not chosen.loss:
            return functional.cross_entropy(out, target), out
        return criterion(chosen.loss or 'cross-entropy', out, target), out
    if kind == 'denoiser':
        out = model(*several(batch))
        return functional.mse_loss(out.float(), target.float(), reduction='mean'), out
    if kind == 'image':
        out = model(batch)
        return criterion(chosen.loss or 'cross-entropy', out, target), out
    if chosen.loss:
        out = model(input_ids=batch).logits
        return criterion(chosen.loss, out, target), out
    out = model(input_ids=batch, labels=target)
    return out.loss, out


def infer(chosen: Namespace, model: nn.Module, batch: Tensor | tuple[Tensor, ...]) -> Any:
    """What the model returns without labels."""
    if zoo.ZOO[chosen.model].kind in ('example', 'denoiser', 'image'):
        return model(*several(batch))
    given = dict(decoder_input_ids=batch) if model.config.is_encoder_decoder else {}
    return model(input_ids=batch, **given)


def criterion(name: str, logits: Tensor, target: Tensor) -> Tensor:
    """A loss on the logits."""
    flat = logits.flatten(0, -2) if logits.dim() > 2 else logits
    match name:
        case 'cross-entropy' | 'masked-lm':
            return functional.cross_entropy(flat, target.flatten())
        case 'label-smoothing':
            return functional.cross_entropy(flat, target.flatten(), label_smoothing=0.1)
        case 'causal-lm':
            from transformers.loss.loss_utils import ForCausalLMLoss

            return ForCausalLMLoss(logits, target, logits.shape[-1])
        case 'sum':
            return logits.sum()
    match name:
        case 'soft-targets':
            # Made anew in each iteration, as a mixup would.
            dense = torch.zeros_like(logits, requires_grad=False)
            return functional.cross_entropy(flat, dense.view(flat.shape))
        case 'mse':
            return functional.mse_loss(logits, target)
        case _:
            return functional.binary_cross_entropy_with_logits(logits, target)


def statistics() -> dict[str, int]:
    """Peaks since the last reset, in bytes; segments are a count."""
    now = torch.cuda.memory_stats()
    peaks = {ours: now[f'{theirs}.all.peak'] for ours, theirs in STATISTICS.items()}
    return {**peaks, 'segments': now['segment.all.peak']}


def peaks(iterations: list[dict[str, dict[str, int]]]) -> dict[str, Any]:
    """Peaks of each iteration and the phase that sets them, and of all iterations."""
    answer: dict[str, Any] = {}
    for number, phases in enumerate(iterations, 1):
        for key in STATISTICS:
            phase = max(phases, key=lambda name: phases[name][key])
            answer[f'it{number}_{key}'] = phases[phase][key]
            answer[f'it{number}_{key}_phase'] = phase
    for key in [*STATISTICS, 'segments']:
        answer[key] = max(phase[key] for phases in iterations for phase in phases.values())
    return answer


def describe(loop: Loop) -> dict[str, Any]:
    """What was run, so that the answer can be understood by itself."""
    chosen, entry = loop.chosen, zoo.ZOO[loop.chosen.model]
    image = entry.kind == 'image'
    answer = {
        'model': chosen.model,
        'batch': chosen.batch,
        'size': (chosen.size or entry.size) if image else None,
        'seq': None if image else (chosen.seq or entry.seq),
        'optimizer': chosen.opt,
        'params': sum(parameter.numel() for parameter in loop.model.parameters()),
        'buffer_bytes': sum(buffer.nbytes for buffer in loop.model.buffers()),
    }
    same = 'foreach fused amp dtype masters channels_last in_place attn zero_grad style accumulate'
    same += ' evaluation freeze lora lora_rank lora_dropout lora_model_type dora modules_to_save'
    same += ' input_require_grads quantize double_quantize quant_storage compute_type clip loss loss_kernel kernels reentrant'
    same += ' offload in_backward objective compile compile_mode inference new_tokens cache beams'
    same += ' gpus rank mesh data_parallel bucket_cap gradient_as_bucket_view static_graph find_unused_parameters'
    same += ' reshard param_type reduce_type cpu_offload no_sync use_orig_params schedule micro_batches'
    answer |= {key: getattr(chosen, key) for key in same.split()}
    answer |= {
        'checkpoint': bool(chosen.checkpoint),
        'torch': torch.__version__,
        'device': torch.cuda.get_device_name(0),
        'oracle_device': None if chosen.real else chosen.device,
        'conv_table': None if chosen.real else f'{chosen.device}.txt',
        'alloc_conf': os.environ.get('PYTORCH_CUDA_ALLOC_CONF'),
    }
    if place.is_fake():
        library = ctypes.CDLL(None)
        library.fakecuda_count.restype = ctypes.c_size_t
        # Whether the run asked the device for a value that it does not have.
        counts = ('bools_read', 'others_read', 'unknown')
        answer |= {name: library.fakecuda_count(name.encode()) for name in counts}
    return answer


def allow_bfloat16_convolutions() -> None:
    """Undoes what `TORCH_CUDNN_V8_API_DISABLED` does besides choosing the older interface.

    With it, `use_cudnn` of `native/Convolution.cpp` hands bfloat16 to the slow kernels that no card
    would run. The setting is asked for twice, by two libraries, and each remembers: by libtorch_cuda
    at the first call to cuDNN, and by libtorch_cpu only for a bfloat16 tensor. So the former is made
    to ask, and then the setting goes.
    """
    image, weight = (torch.empty(sizes, device='cuda') for sizes in ((1, 8, 8, 8), (8, 8, 3, 3)))
    functional.conv2d(image, weight)
    del image, weight
    torch.cuda.empty_cache()
    os.environ.pop('TORCH_CUDNN_V8_API_DISABLED', None)


def main() -> None:
    """Runs the loop in this process: `loop.py ANSWER_FILE` and the options of `run`."""
    measure(Path(sys.argv[1]), sys.argv[2:])


def measure(answer: Path, options: list[str]) -> None:
    """Runs the loop, once per process."""
    chosen = settings.parser().parse_args(options)
    if place.is_fake():
        # It would be tried first on some devices, and the fake one cannot answer it.
        torch.backends.cuda.enable_cudnn_sdp(False)
        if 'bfloat16' in (chosen.amp, chosen.dtype):
            allow_bfloat16_convolutions()
    if chosen.model not in zoo.ZOO:
        place.fail(f'no model {chosen.model}; there are {", ".join(sorted(zoo.ZOO))}')
    if chosen.snapshot:
        snapshot.begin(chosen.entries)
    if chosen.style == 'trainer':
        from truth.trainer import TrainerLoop

        loop: Loop = TrainerLoop(chosen)
    elif chosen.new_tokens:
        from truth.generation import GenerationLoop

        loop = GenerationLoop(chosen)
    elif chosen.gpus > 1 and 'pp=' in chosen.mesh:
        from truth.pipeline import PipelineLoop

        loop = PipelineLoop(chosen)
    elif chosen.gpus > 1:
        from truth.ranks import RankLoop

        loop = RankLoop(chosen)
    elif chosen.objective:
        from truth.preferences import PairLoop

        loop = PairLoop(chosen)
    else:
        loop = Loop(chosen)
    loop.run()
    if chosen.snapshot:
        snapshot.write(Path(chosen.snapshot))
    row = describe(loop) | peaks(loop.peaks)
    if loop.tagger:
        recorded = events.read(loop.owners)
        row['summary'] = events.summary(recorded)
        events.write(Path(chosen.events), row, recorded)
    answer.write_text(json.dumps(row))


if __name__ == '__main__':
    main()
