"""What one run is: the command line of `run`, and Highwater's words for the same."""

import argparse
import ast
from typing import Any

from truth import place

#: Short names; anything else is a class of `torch.optim`, with arguments: `SGD:momentum=0.9`.
OPTIMIZERS = {
    'sgd': 'SGD:momentum=0.9',
    'sgd0': 'SGD',
    'adam': 'Adam',
    'adamw': 'AdamW',
}
LOSSES = (
    'cross-entropy',
    'label-smoothing',
    'soft-targets',
    'causal-lm',
    'masked-lm',
    'mse',
    'bce-with-logits',
    'sum',
)


#: Of `torch.compile`; aot_eager plans as Inductor does and runs PyTorch's kernels.
BACKENDS = ('eager', 'aot_eager', 'inductor')
MODES = ('default', 'reduce-overhead', 'max-autotune')
LOSS_KERNELS = ('chunked', 'fused', 'liger', 'cce', 'output-chunks')


def parser() -> argparse.ArgumentParser:
    """Options of one run; the defaults are a plain fp32 loop."""
    parser = argparse.ArgumentParser(
        prog='oracle run', description='Peaks of a training loop, from PyTorch itself.'
    )
    add = parser.add_argument
    add('model', help='a name of zoo.py, or of the file that ORACLE_ZOO names')
    add('--batch', type=int, default=8)
    add('--size', type=int, help="image height and width, if not the model's own")
    add('--seq', type=int, help='tokens per sequence (default 512)')
    add('--opt', default='adamw', help=f'{", ".join(OPTIMIZERS)}, or CLASS[:NAME=VALUE,…]')
    add('--foreach', type=int, choices=(0, 1), help="the optimizer's foreach argument")
    add('--fused', action='store_true', help="the optimizer's fused argument")
    add('--amp', choices=('float16', 'bfloat16'), help='autocast; float16 with a gradient scaler')
    add('--dtype', default='float32', help='of parameters and inputs')
    add(
        '--masters',
        action='store_true',
        help='the optimizer owns fp32 copies of the parameters, and their gradients',
    )
    add('--channels-last', action='store_true')
    add('--in-place', choices=('on', 'off'), help='the flag of every activation that has one')
    add('--attn', choices=('eager', 'sdpa'), help="transformers' attention implementation")
    add('--zero-grad', choices=('start', 'backward', 'end'), default='start')
    add(
        '--style',
        choices=('inline', 'function', 'trainer'),
        default='inline',
        help="function: loss and outputs die at the end of each iteration; trainer: transformers' own Trainer",
    )
    add(
        '--checkpoint',
        nargs='?',
        const='blocks',
        metavar='CLASS',
        help='recompute each block in backward; of torchvision and timm models, each CLASS',
    )
    add('--reentrant', action='store_true', help='checkpointing with use_reentrant=True')
    add('--offload', action='store_true', help='what a checkpointed block is given waits on the host')
    add('--objective', choices=('dpo', 'dpo-precomputed'), help='pairs of texts, as TRL trains on them')
    add('--in-backward', action='store_true', help='an optimizer for each parameter, which steps in backward')
    add('--compile', choices=BACKENDS, help='the model goes through torch.compile with this backend')
    add('--compile-mode', choices=MODES, help="torch.compile's mode, of inductor")
    add('--accumulate', type=int, default=1, metavar='N', help='batches per optimizer step')
    add('--evaluation', action='store_true', help='a validation pass after each step')
    add('--inference', action='store_true', help='forward passes without gradients and labels, in evaluation mode')
    add('--new-tokens', type=int, default=0, metavar='N', help="with --inference: transformers' generate, for N tokens")
    add('--cache', choices=('dynamic', 'static'), default='dynamic', help='of generate')
    add('--beams', type=int, default=1, metavar='N', help='of generate')
    add('--freeze', action='append', default=[], metavar='PATTERN', help='parameters not trained')
    add(
        '--lora',
        action='append',
        default=[],
        metavar='NAME',
        help="adapters of peft's in linear layers of this name, nothing else being trained",
    )
    add('--lora-rank', type=int, default=8, metavar='N', help='of these adapters')
    add('--lora-dropout', action='store_true', help='in front of these adapters')
    add('--lora-model-type', action='store_true', help="in the model's type: autocast_adapter_dtype=False")
    add('--dora', action='store_true', help='use_dora=True')
    add(
        '--modules-to-save',
        action='append',
        default=[],
        metavar='NAME',
        help='modules that are trained as a whole besides adapters',
    )
    add('--input-require-grads', action='store_true', help='enable_input_require_grads()')
    add('--quantize', choices=('nf4', 'fp4', 'int8'), help="bitsandbytes' linear layers")
    add('--double-quantize', action='store_true', help='their statistics once more')
    add('--quant-storage', choices=('fp32', 'fp16', 'bf16'), help='bnb_4bit_quant_storage; default: bytes')
    add('--compute-type', help="bnb_4bit_compute_dtype; default: autocast's type, else the model's")
    add('--clip', type=float, metavar='NORM', help='clip_grad_norm_ before the step')
    add('--loss', choices=LOSSES, help="computed on the logits; default: the model's own")
    add('--loss-kernel', choices=LOSS_KERNELS, help='a loss that never makes all logits')
    add('--kernels', choices=('liger',), help="Liger's norms, gates and rotary positions")
    add('--gpus', type=int, default=1, metavar='N', help='processes of one job; this is one of them')
    add('--rank', type=int, default=0, metavar='N', help='which of them')
    add('--mesh', default='', metavar='AXIS=N,…', help='how they are divided: dp, replicate, tp, pp')
    add('--data-parallel', choices=('ddp', 'zero-1', 'fsdp', 'fsdp1'), help='how they share the model')
    add('--schedule', choices=('gpipe', '1f1b'), help='of a pipeline; default: 1f1b')
    add('--micro-batches', type=int, metavar='N', help='that a pipeline divides a batch into; default: stages')
    add('--bucket-cap', type=int, metavar='MIB', help='of DDP')
    add('--gradient-as-bucket-view', action='store_true', help='of DDP')
    add('--static-graph', action='store_true', help='of DDP')
    add('--find-unused-parameters', action='store_true', help='of DDP')
    add('--no-sync', action='store_true', help='gradients that are accumulated are not reduced before the last batch')
    add('--reshard', choices=('on', 'off'), help="FSDP's reshard_after_forward")
    add('--param-type', choices=('fp32', 'fp16', 'bf16'), help="param_dtype of FSDP's mixed precision")
    add('--reduce-type', choices=('fp32', 'fp16', 'bf16'), help="reduce_dtype of FSDP's mixed precision")
    add('--cpu-offload', action='store_true', help="FSDP's shards wait on the host")
    add('--use-orig-params', action='store_true', help='of the first FSDP')
    add('--iters', type=int, default=3)
    add('--device', choices=place.devices(), default='a100')
    add('--real', action='store_true', help='on the CUDA device of this machine')
    add('--events', metavar='FILE.jsonl.gz', help='keep every allocation and free')
    add('--snapshot', metavar='FILE.pickle', help='the run as a memory snapshot')
    add('--entries', type=int, default=10_000_000, help='COUNT: what its history holds at most')
    add('--out', metavar='FILE.jsonl', help='append the answer to this file')
    return parser


def optimizer(text: str) -> tuple[str, dict[str, Any]]:
    """Class name and arguments."""
    name, _, arguments = OPTIMIZERS.get(text, text).partition(':')
    pairs = [pair.partition('=') for pair in arguments.split(',') if pair]
    return name, {key: literal(value) for key, _, value in pairs}


def literal(text: str) -> Any:
    """A Python number or boolean, or the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


#: Highwater's names of `bnb_4bit_compute_dtype`.
COMPUTE = {None: 'auto', 'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16'}
#: Highwater's names of bitsandbytes' optimizers.
OF_BITSANDBYTES = {
    'Adam8bit': 'adam-8bit',
    'AdamW8bit': 'adamw-8bit',
    'PagedAdamW8bit': 'paged-adamw-8bit',
    'PagedAdamW32bit': 'paged-adamw-32bit',
}
#: Highwater's names where they are not the lower-case class name.
DEVICE_IDS = {
    'a100': 'a100-80gb',
    'h100': 'h100-80gb',
    'rtx3090': 'rtx-3090',
    'rtx4090': 'rtx-4090',
}
PRECISIONS = {
    ('float16', 'float32'): 'amp-fp16',
    ('bfloat16', 'float32'): 'amp-bf16',
    ('float16', 'float16'): 'fp16-amp',
    ('bfloat16', 'bfloat16'): 'bf16-amp',
    (None, 'float16'): 'fp16',
    (None, 'bfloat16'): 'bf16',
    (None, 'float32'): 'fp32',
}


def flags(row: dict[str, Any]) -> list[str] | None:
    """A recorded run in the words of `highwater estimate`, defaults left out; `None` where it has
    no words for it."""
    if row.get('alloc_conf'):
        return None
    said: list[str] = []
    if row.get('new_tokens'):
        said = ['--workload', 'generation', '--new-tokens', str(row['new_tokens'])]
        said += ['--cache', 'static'] if row['cache'] == 'static' else []
    elif row.get('inference'):
        said = ['--workload', 'inference']

    def say(name: str, value: Any, default: Any) -> None:
        if value != default:
            said.extend([f'--{name}', str(value)])

    precision = PRECISIONS[row.get('amp'), row['dtype']]
    say('precision', precision + '-master' * bool(row.get('masters')), 'fp32')
    say('memory-format', 'channels-last' if row.get('channels_last') else 'contiguous', 'contiguous')
    say('attention', row.get('attn') or 'auto', 'auto')
    say('optimizer', optimizer_word(row['optimizer']), 'adamw')
    implementation = {None: 'auto', 0: 'for-loop', 1: 'foreach'}[row.get('foreach')]
    say('optimizer-impl', 'fused' if row.get('fused') else implementation, 'auto')
    where = {'backward': 'before-backward'}
    zero_grad = row.get('zero_grad') or 'start'
    say('zero-grad', where.get(zero_grad, zero_grad), 'start')
    say('loop', row.get('style') or 'inline', 'inline')
    say('compile', row.get('compile') or 'none', 'none')
    say('compile-mode', row.get('compile_mode') or 'default', 'default')
    say('objective', row.get('objective') or 'supervised', 'supervised')
    say('checkpoint', 'blocks' if row.get('checkpoint') else 'none', 'none')
    say('checkpoint-reentry', 'on' if row.get('reentrant') else 'auto', 'auto')
    for key, name in (('offload', 'checkpoint-offload'), ('in_backward', 'optimizer-in-backward')):
        if row.get(key):
            said.append(f'--{name}')
    say('accumulate', row.get('accumulate') or 1, 1)
    if row.get('evaluation'):
        said.append('--evaluation')
    for pattern in row.get('freeze') or []:
        say('freeze', pattern, None)
    for name in row.get('lora') or []:
        say('lora', name, None)
    say('lora-rank', row.get('lora_rank') or 8, 8)
    for name in row.get('modules_to_save') or []:
        say('modules-to-save', name, None)
    for name in ('lora-dropout', 'lora-model-type', 'dora', 'input-require-grads', 'double-quantize'):
        if row.get(name.replace('-', '_')):
            said.append(f'--{name}')
    say('quantize', row.get('quantize') or 'none', 'none')
    say('compute-type', COMPUTE[row.get('compute_type')], 'auto')
    # How strongly does not matter to memory.
    if optimizer(row['optimizer'])[1].get('weight_decay'):
        said.append('--weight-decay')
    if row.get('clip'):
        said.append('--clip-grad-norm')
    if (row.get('gpus') or 1) > 1:
        said += ranks(row)
    say('loss', row.get('loss') or 'auto', 'auto')
    say('loss-kernel', row.get('loss_kernel') or 'torch', 'torch')
    say('kernels', row.get('kernels') or 'torch', 'torch')
    say('in-place', row.get('in_place') or 'auto', 'auto')
    say('pytorch', pytorch(row['torch']), '2.15')
    device = row.get('oracle_device') or 'a100'
    say('device', DEVICE_IDS.get(device, device), 'a100-80gb')
    return said


def ranks(row: dict[str, Any]) -> list[str]:
    """How several GPUs share a run."""
    said = ['--gpus', str(row['gpus'])]
    # By itself the rank of a pipeline is the fullest.
    is_stage = 'pp=' in row['mesh']
    said += ['--rank', str(row['rank'])] if row['rank'] or is_stage else []
    keys = 'mesh data_parallel schedule micro_batches bucket_cap reshard param_type reduce_type'
    for key in keys.split():
        said += [f'--{key.replace("_", "-")}', str(row[key])] if row.get(key) else []
    names = {'gradient_as_bucket_view': 'bucket-view', 'find_unused_parameters': 'find-unused'}
    flags = ('gradient_as_bucket_view', 'find_unused_parameters', 'no_sync', 'cpu_offload', 'use_orig_params')
    for key in flags:
        said += [f'--{names.get(key, key.replace("_", "-"))}'] if row[key] else []
    return said


#: Arguments of optimizers that are part of Highwater's names; the last one said names it.
VARIANTS = ('momentum', 'nesterov', 'amsgrad', 'centered')


def optimizer_word(text: str) -> str:
    """`sgd-momentum` for SGD with momentum, and so on; anything else said stays visible."""
    name, arguments = optimizer(text)
    arguments.pop('weight_decay', None)
    name = OF_BITSANDBYTES.get(name, name)
    said = [variant for variant in VARIANTS if arguments.pop(variant, 0)]
    word = '-'.join([name.lower(), *said[-1:]])
    return ':'.join([word, *(f'{key}={value}' for key, value in arguments.items())])


def pytorch(version: str) -> str:
    """Highwater knows three PyTorches."""
    minor = int(version.split('.')[1])
    return '2.15' if minor >= 15 else '2.9' if minor >= 9 else '2.8'
