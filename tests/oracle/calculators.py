"""What the authors' own calculators say about models of the catalogue, which ours are compared with.

    ./oracle python calculators.py --eleuther calc_transformer_mem.py --megatron theoretical_memory_usage.py > truth.csv
    ./oracle python calculators.py --ranks --eleuther ... --megatron ... > ranks.csv

DeepSpeed and accelerate are Python packages; the other two are single files of EleutherAI/cookbook (calc) and
NVIDIA/Megatron-LM (megatron/training). DeepSpeed installs without its operators: `DS_BUILD_OPS=0 pip install
--no-deps deepspeed`, and what it imports. All models are made on the meta device, with the sizes of the catalogue.
"""

import argparse
import contextlib
import csv
import dataclasses
import importlib.util
import io
import re
import sys
import types

import torch
import transformers
from catalogue import FILE, entries, network

MODELS = (
    'gpt2',
    'gpt-neo-125m',
    'opt-125m',
    'pythia-160m',
    'bert-base-uncased',
    't5-base',
    'llama-3.2-1b',
    'qwen3-0.6b',
    'phi-3-mini-4k',
    'resnet50',
    'convnext-tiny',
    'efficientnet-b0',
)
#: COUNT: texts of a batch, and their tokens.
BATCH, LENGTH = 4, 512
GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Ranks:
    """How GPUs share a model."""

    #: Flags of highwater.
    settings: str = ''
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    #: COUNT: parts of a batch that a pipeline runs one after the other.
    micro_batches: int = 1
    #: DeepSpeed's stage that is nearest; None with one GPU, where EleutherAI's has its default.
    stage: int | None = None

    @property
    def all(self):
        """COUNT: GPUs."""
        return self.data * self.tensor * self.pipeline


ONE = Ranks()
#: Models that are asked about several GPUs, and how these share them.
SEVERAL = {
    'gpt2': (
        Ranks('--gpus 4 --data-parallel ddp', data=4, stage=0),
        Ranks('--gpus 4 --data-parallel zero-1', data=4, stage=1),
        Ranks('--gpus 8 --data-parallel fsdp', data=8, stage=3),
        Ranks('--mesh replicate=2,dp=3 --data-parallel fsdp', data=6, stage=3),
        Ranks('--mesh pp=4', pipeline=4, micro_batches=4, stage=0),
    ),
    'pythia-160m': (
        Ranks('--gpus 2 --data-parallel ddp', data=2, stage=0),
        Ranks('--gpus 16 --data-parallel zero-1', data=16, stage=1),
        Ranks('--mesh pp=4 --schedule gpipe --micro-batches 2', pipeline=4, micro_batches=2, stage=0),
    ),
    'llama-3.2-1b': (
        Ranks('--gpus 4 --data-parallel ddp', data=4, stage=0),
        Ranks('--gpus 4 --data-parallel zero-1', data=4, stage=1),
        Ranks('--gpus 64 --data-parallel fsdp1', data=64, stage=3),
        Ranks('--mesh tp=4', tensor=4, stage=0),
        Ranks('--mesh dp=4,tp=2 --data-parallel fsdp', data=4, tensor=2, stage=3),
        Ranks('--mesh pp=2 --micro-batches 4', pipeline=2, micro_batches=4, stage=0),
    ),
    'resnet50': (Ranks('--gpus 7 --data-parallel ddp', data=7, stage=0),),
}


def main():
    """Writes a line for each model and calculator."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--eleuther', required=True)
    parser.add_argument('--megatron', required=True)
    parser.add_argument('--ranks', action='store_true', help='about several GPUs')
    files = parser.parse_args()
    known = {name: rest for name, *rest in entries(FILE.read_text())}
    writer = csv.writer(sys.stdout, lineterminator='\n')
    writer.writerow(['model', 'batch', 'seq', 'settings', 'calculator', 'bytes'])
    for name in SEVERAL if files.ranks else MODELS:
        _, model_type, architecture, settings = known[name]
        with torch.device('meta'):
            whole, base, config = models(name, model_type, architecture, settings)
        for ranks in SEVERAL[name] if files.ranks else (ONE,):
            for calculator, settings, size in (
                *(deepspeed(whole, ranks) if ranks.all == ranks.data else ()),
                *(accelerate(base) if ranks == ONE else ()),
                *(eleuther(files.eleuther, config, ranks) if config else ()),
                *(megatron(files.megatron, config, ranks) if config else ()),
            ):
                settings = f'{settings} {ranks.settings}'.strip()
                writer.writerow([name, BATCH, LENGTH if config else '', settings, calculator, size])


def models(name, model_type, architecture, settings):
    """The model, what accelerate makes of its configuration, and this."""
    if model_type.startswith('torchvision.'):
        model = network(name, architecture)
        return model, model, None
    config = transformers.AutoConfig.for_model(model_type, **settings)
    base = transformers.AutoModel.from_config(config, dtype=torch.float32)
    return getattr(transformers, architecture)._from_config(config, dtype=torch.float32), base, config


def deepspeed(model, ranks):
    """Its stages on each GPU."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    parameters = {p.data_ptr() or id(p): p.numel() for p in model.parameters()}
    total = sum(parameters.values())
    largest = max(sum(p.numel() for p in module.parameters(recurse=False)) for module in model.modules())
    gpus = {'num_gpus_per_node': ranks.all, 'num_nodes': 1}
    two, three = stage_1_and_2.estimate_zero2_model_states_mem_needs, stage3.estimate_zero3_model_states_mem_needs
    said = {
        'zero-2': two(total, **gpus, cpu_offload=False)[1],
        'zero-2-offload': two(total, **gpus, cpu_offload=True)[1],
        'zero-3': three(total, largest, **gpus, cpu_offload=False, cpu_offload_params=False, zero_init=True)[1],
        'zero-3-offload-optimizer': three(
            total, largest, **gpus, cpu_offload=True, cpu_offload_params=False, zero_init=True
        )[1],
        'zero-3-offload': three(total, largest, **gpus, cpu_offload=True, cpu_offload_params=True, zero_init=True)[1],
    }
    for calculator, size in said.items():
        yield calculator, '', int(size)


def accelerate(model):
    """Its column `Training using Adam`."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    size, _ = calculate_maximum_sizes(model)
    for word, settings in ('float32', ''), ('float16', '--precision amp-fp16'):
        yield 'accelerate', settings, int(max(estimate_training_usage(size, word).values()))


def eleuther(path, config, ranks):
    """The sum per GPU, to a hundredth of a GiB for each of its parts."""
    program = load(path)
    heads, width = config.num_attention_heads, config.hidden_size
    sizes = {
        'num-layers': config.num_hidden_layers,
        'num-attention-heads': heads,
        'hidden-size': width,
        'vocab-size': config.vocab_size,
        'sequence-length': LENGTH,
        'batch-size-per-gpu': BATCH // ranks.micro_batches,
        'ffn-expansion-factor': inner(config) / width,
    }
    if ranks.stage is not None:
        sizes |= {'num-gpus': ranks.all, 'zero-stage': ranks.stage}
        sizes |= {'tensor-parallel-size': ranks.tensor, 'pipeline-parallel-size': ranks.pipeline}
    flags = [word for key, value in sizes.items() for word in (f'--{key}', str(value))]
    for settings, more in (
        ('', ['--disable-mixed-precision']),
        ('--precision amp-bf16', []),
        (
            '--optimizer sgd-momentum --checkpoint blocks',
            ['--disable-mixed-precision', '--optimizer', 'sgd_momentum', '--checkpoint-activations'],
        ),
    ):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            program.calc_mem(program.config_parser().parse_args(flags + more))
        figure = re.search(r'Required for Training: ([\d.]+) GiB', said.getvalue())[1]
        yield 'eleuther', settings, round(float(figure) * GIB)


class Unset:
    """Arguments that are not given are none."""

    def __getattr__(self, name):
        return None


def megatron(path, config, ranks):
    """With sequence parallelism and selective recomputation, of a model with one stack of blocks."""
    if config.is_encoder_decoder:
        return
    program = load(path, 'megatron.training')
    sizes = Unset()
    vars(sizes).update(
        kv_channels=getattr(config, 'head_dim', None) or config.hidden_size // config.num_attention_heads,
        num_attention_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        group_query_attention=getattr(config, 'num_key_value_heads', None) is not None,
        num_query_groups=getattr(config, 'num_key_value_heads', None),
        swiglu=has_gates(config),
        num_layers=config.num_hidden_layers,
        normalization='RMSNorm' if hasattr(config, 'rms_norm_eps') else 'LayerNorm',
        ffn_hidden_size=inner(config),
        padded_vocab_size=config.vocab_size,
        untie_embeddings_and_output_weights=not config.tie_word_embeddings,
        pipeline_model_parallel_size=ranks.pipeline,
        tensor_model_parallel_size=ranks.tensor,
        expert_tensor_parallel_size=1,
        expert_model_parallel_size=1,
        world_size=ranks.all,
        data_parallel_size=ranks.data,
        use_distributed_optimizer=bool(ranks.stage),
        seq_length=LENGTH,
        micro_batch_size=BATCH // ranks.micro_batches,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        weights = program.compute_weight_and_optimizer_memory(sizes)
        activations = program.compute_activation_memory(sizes, ranks.micro_batches)
    yield 'megatron', '', round(weights + activations)


def load(path, package=''):
    """A program of one file; what it imports of its package is not called."""
    if package:
        sys.modules[f'{package}.utils'] = types.SimpleNamespace(
            print_rank_0=print, is_hybrid_model=lambda _: False
        )
        for name in 'megatron', package:
            sys.modules.setdefault(name, types.ModuleType(name)).__path__ = []
    name = f'{package}.program' if package else 'program'
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_gates(config):
    """Whether the feed-forward layer has a gate, as in Llama."""
    return config.model_type in ('llama', 'qwen3', 'phi3')


def inner(config):
    """COUNT: numbers between the two linear layers of a block."""
    names = 'intermediate_size', 'ffn_dim', 'd_ff', 'n_inner'
    return next((size for name in names if (size := getattr(config, name, None))), 4 * config.hidden_size)


if __name__ == '__main__':
    main()
