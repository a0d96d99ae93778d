"""Models with random weights, nothing downloaded, and a batch for each.

Kinds: `image` (logits over classes), `clm` and `mlm` (transformers models that compute their own
loss from `labels=input_ids`), `seq2seq` (T5 and BART, likewise), `example` (anything else: the entry
makes the batch, of one tensor or of several by name, and its targets), `denoiser` (likewise, and the
targets are numbers).

ORACLE_ZOO names a file with further models; it calls `add`, `torchvision`, `timm` and
`transformers` as this one does.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Factory = Callable[..., nn.Module]
#: Several tensors are a model's arguments, in this order; `Picked` calls it with their names.
Example = Callable[[int], tuple[Tensor | dict[str, Tensor], Tensor]]


@dataclass(frozen=True)
class Entry:
    """One model, its kind of input, and the input's usual size."""

    make: Factory
    kind: str
    size: int
    seq: int
    #: A batch of so many and its targets, on the host; one tensor may be both.
    example: Example | None = None


ZOO: dict[str, Entry] = {}


def add(
    name: str,
    make: Factory,
    kind: str,
    size: int = 224,
    seq: int = 512,
    example: Example | None = None,
) -> None:
    """Puts a model into the zoo."""
    ZOO[name] = Entry(make, kind, size, seq, example)


class Picked(nn.Module):
    """A model that takes its inputs by position, and one tensor of what it returns."""

    def __init__(
        self, model: nn.Module, names: Iterable[str], pick: Callable[[Any], Tensor]
    ) -> None:
        super().__init__()
        self.m, self.names, self.pick = model, tuple(names), pick

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.pick(self.m(**dict(zip(self.names, inputs))))


def torchvision(name: str, **fixed: Any) -> Factory:
    """A function of `torchvision.models`."""

    def make(**given: Any) -> nn.Module:
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None, **fixed, **given)

    return make


def timm(name: str, **fixed: Any) -> Factory:
    """A name of `timm.create_model`."""

    def make(**given: Any) -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, **fixed, **given)

    return make


def transformers(model: str, config: str, **fixed: Any) -> Factory:
    """A model class of transformers with the configuration class's defaults but these."""

    def make(attn: str | None = None, **given: Any) -> nn.Module:
        import transformers

        settings = getattr(transformers, config)(**fixed, **given)
        if hasattr(settings, 'use_cache'):
            settings.use_cache = False
        if attn:
            settings._attn_implementation = attn
        return getattr(transformers, model)(settings)

    return make


IMAGE_MODELS = """
    alexnet convnext_base convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s maxvit_t
    mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_y_400mf
    resnet18 resnet50 resnet101 resnet152 shufflenet_v2_x1_0 squeezenet1_1 swin_t vgg16 vgg16_bn
    vgg19 vit_b_16
"""


def add_all() -> None:
    """The models whose answers are recorded in `tests/fixtures`."""
    for name in IMAGE_MODELS.split():
        add(name, torchvision(name), 'image')
    # Without the second classifier, which their authors used in training only.
    plain = dict(aux_logits=False, init_weights=False)
    add('inception_v3', torchvision('inception_v3', **plain), 'image', size=299)
    add('googlenet', torchvision('googlenet', **plain), 'image')
    add('deit_small', timm('deit_small_patch16_224'), 'image')

    gpt2 = ('GPT2LMHeadModel', 'GPT2Config')
    add('gpt2', transformers(*gpt2), 'clm')
    add('distilgpt2', transformers(*gpt2, n_layer=6), 'clm')
    cerebras = dict(n_layer=10, n_inner=3072, n_positions=2048, activation_function='gelu')
    add('cerebras_gpt_111m', transformers(*gpt2, **cerebras), 'clm')
    add('opt_125m', transformers('OPTForCausalLM', 'OPTConfig'), 'clm')
    base = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12)
    pythia = dict(**base, intermediate_size=3072, vocab_size=50304)
    add('pythia_160m', transformers('GPTNeoXForCausalLM', 'GPTNeoXConfig', **pythia), 'clm')
    neo = dict(hidden_size=768, num_layers=12, num_heads=12, max_position_embeddings=2048)
    neo['attention_types'] = [[['global', 'local'], 6]]
    add('gpt_neo_125m', transformers('GPTNeoForCausalLM', 'GPTNeoConfig', **neo), 'clm')
    codegen = dict(n_embd=1024, n_layer=20, n_head=16, rotary_dim=32, vocab_size=51200)
    codegen |= dict(n_positions=2048, n_ctx=2048)
    add('codegen_350m', transformers('CodeGenForCausalLM', 'CodeGenConfig', **codegen), 'clm')

    def decoder(family: str, hidden: int, layers: int, heads: int, **rest: Any) -> Factory:
        sizes = dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads)
        sizes |= dict(num_key_value_heads=rest.pop('groups'), tie_word_embeddings=True)
        return transformers(f'{family}ForCausalLM', f'{family}Config', **sizes, **rest)

    qwen2 = dict(groups=2, intermediate_size=4864, vocab_size=151936)
    add('qwen2_0_5b', decoder('Qwen2', 896, 24, 14, **qwen2), 'clm')
    qwen3 = dict(groups=8, head_dim=128, intermediate_size=3072, vocab_size=151936)
    add('qwen3_0_6b', decoder('Qwen3', 1024, 28, 16, **qwen3), 'clm')
    llama = dict(groups=8, head_dim=64, intermediate_size=8192, vocab_size=128256)
    add('llama_1b', decoder('Llama', 2048, 16, 32, **llama), 'clm')

    add('bert_base', transformers('BertForMaskedLM', 'BertConfig'), 'mlm')
    add('distilbert', transformers('DistilBertForMaskedLM', 'DistilBertConfig'), 'mlm')
    roberta = dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    add('roberta_base', transformers('RobertaForMaskedLM', 'RobertaConfig', **roberta), 'mlm')
    t5 = ('T5ForConditionalGeneration', 'T5Config')
    add('t5_small', transformers(*t5, decoder_start_token_id=0), 'seq2seq')
    larger = dict(d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0)
    add('t5_base', transformers(*t5, **larger), 'seq2seq')


@contextlib.contextmanager
def no_initialisation() -> Iterator[None]:
    """Leaves out the drawing of weights, which is slow and whose values nobody sees; transformers'
    tying of weights, which is part of its initialisation, stays."""
    from transformers.modeling_utils import PreTrainedModel

    fillers = {name: f for name, f in vars(nn.init).items() if callable(f) and is_filler(name)}
    init_weights = PreTrainedModel.init_weights
    for name in fillers:
        setattr(nn.init, name, lambda tensor, *_, **__: tensor)
    PreTrainedModel.init_weights = lambda self, *_, **__: self.tie_weights()
    try:
        yield
    finally:
        for name, filler in fillers.items():
            setattr(nn.init, name, filler)
        PreTrainedModel.init_weights = init_weights


def is_filler(name: str) -> bool:
    """`torch.nn.init` calls what fills a tensor `uniform_` and so on."""
    return name.endswith('_') and not name.startswith('_')


def build(name: str, **given: Any) -> nn.Module:
    """A model; the weights hold whatever was in memory."""
    with no_initialisation():
        return ZOO[name].make(**given)


def batch(name: str, count: int, size: int | None, seq: int | None) -> Tensor:
    """A batch of images or of token numbers, on the host."""
    entry = ZOO[name]
    if entry.kind == 'image':
        side = size or entry.size
        return torch.zeros(count, 3, side, side)
    return torch.zeros(count, seq or entry.seq, dtype=torch.long)


add_all()
if further := os.environ.get('ORACLE_ZOO'):
    names = dict(add=add, torchvision=torchvision, timm=timm, transformers=transformers)
    exec(compile(Path(further).read_text(), further, 'exec'), names)
