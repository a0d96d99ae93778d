"""Models of four libraries, and of `survey/*nets.py`, by a line of text.

    timm:resnest14d
    torchvision:deeplabv3_resnet50
    transformers:AlbertForMaskedLM:hidden_size=768,num_attention_heads=12
    diffusers:UNet2DModel:sample_size=32
    own:dcgan_generator

After the name come arguments: of the model, or of its configuration. What a model is called with
follows from the library, from the class's main input and from its configuration; a language model
computes its own loss, anything else gives one tensor.
"""

import ast
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from truth import place, zoo

#: COUNT: tokens beside an image or a sound, and samples of a sound.
TOKENS, SAMPLES = 32, 16_000
#: COUNT: frames of a video, and their side.
FRAMES, SIDE = 8, 112

Maker = Callable[[str, dict[str, Any]], zoo.Entry]


def register(text: str) -> None:
    """Puts the model into the zoo, under this text."""
    library, _, rest = text.partition(':')
    name, _, arguments = rest.partition(':')
    if library not in LIBRARIES:
        place.fail(f'{text}: a library of {", ".join(LIBRARIES)} comes first')
    zoo.ZOO[text] = LIBRARIES[library](name, keywords(arguments))


def keywords(text: str) -> dict[str, Any]:
    """`a=1,b=[2,3]`, as a call's."""
    call = ast.parse(f'f({text})', mode='eval').body
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}


def labels(count: int, *sizes: int) -> Tensor:
    """Of classes or of tokens."""
    return torch.zeros(count, *sizes, dtype=torch.long)


def timm(name: str, given: dict[str, Any]) -> zoo.Entry:
    """A classifier of images."""
    from timm.models import get_pretrained_cfg

    known = get_pretrained_cfg(name)
    size = given.get('img_size') or (known.input_size[-1] if known else 224)
    return zoo.Entry(zoo.timm(name, **given), 'image', size, 512)


def torchvision(name: str, given: dict[str, Any]) -> zoo.Entry:
    """A classifier of images or of videos, or a network for segmentation, without second classifiers."""
    import torchvision.models

    size = given.pop('size', 224)
    builder = torchvision.models.get_model_builder(name)

    def make() -> nn.Module:
        backbone = {'weights_backbone': None} if 'segmentation' in builder.__module__ else {}
        return builder(weights=None, **backbone, **given)

    if 'segmentation' in builder.__module__:
        called = 'input' if name.startswith('lraspp') else 'x'
        return zoo.Entry(
            lambda: zoo.Picked(make(), [called], lambda out: out['out']),
            *('example', size, 512),
            lambda count: ({called: torch.zeros(count, 3, size, size)}, labels(count, size, size)),
        )
    if 'video' in builder.__module__:
        frames, side = given.pop('frames', FRAMES), given.pop('side', SIDE)
        return zoo.Entry(
            *(make, 'example', size, 512),
            lambda count: (torch.zeros(count, 3, frames, side, side), labels(count)),
        )
    return zoo.Entry(make, 'image', size, 512)


def transformers(name: str, given: dict[str, Any]) -> zoo.Entry:
    """A class of models; language models as in the zoo, others by their main input."""
    import transformers

    model = getattr(transformers, name)
    factory = zoo.transformers(name, model.config_class.__name__, **given)
    encodes = getattr(model.config_class(**given), 'is_encoder_decoder', False)
    if model.main_input_name == 'input_ids':
        if name.endswith(('ForCausalLM', 'LMHeadModel')):
            return zoo.Entry(factory, 'clm', 224, 512)
        if name.endswith('ForMaskedLM'):
            return zoo.Entry(factory, 'mlm', 224, 512)
        if name.endswith(('ForConditionalGeneration', 'MTModel')) and encodes:
            return zoo.Entry(factory, 'seq2seq', 224, 512)
    config = model.config_class(**given)
    inputs = functools.partial(inputs_of, name, model, config)

    def make(**how: Any) -> nn.Module:
        return zoo.Picked(factory(**how), inputs(1), first)

    return zoo.Entry(make, 'example', 224, 512, lambda count: (inputs(count), target(name, count)))


def target(name: str, count: int) -> Tensor:
    """Labels: of each token, or of each sample."""
    each = name.endswith(('ForTokenClassification', 'ForConditionalGeneration'))
    return labels(count, TOKENS) if each else labels(count)


def inputs_of(name: str, model: type, config: Any, count: int) -> dict[str, Tensor]:
    """A batch for a model of transformers that is no plain language model."""
    tokens = labels(count, TOKENS)
    vision = getattr(config, 'vision_config', config)
    side = getattr(vision, 'image_size', None) or 224
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    channels = getattr(vision, 'num_channels', 3)
    pixels = torch.zeros(count, channels, height, width)
    match model.main_input_name:
        case 'pixel_values' if name.startswith(('VideoMAE', 'TimeSformer', 'Timesformer', 'Vivit')):
            frames = getattr(config, 'num_frames', FRAMES)
            return {'pixel_values': pixels[:, None].repeat(1, frames, 1, 1, 1)}
        case 'pixel_values':
            return {'pixel_values': pixels}
        case 'input_values' if name.startswith('AST'):
            return {'input_values': torch.zeros(count, config.max_length, config.num_mel_bins)}
        case 'input_values':
            return {'input_values': torch.zeros(count, SAMPLES)}
        case 'input_features':
            length = 2 * getattr(config, 'max_source_positions', 500)
            features = torch.zeros(count, config.num_mel_bins, length)
            return {'input_features': features, 'decoder_input_ids': tokens}
    if hasattr(config, 'vision_config') or name.startswith('Vilt'):
        both = {'input_ids': tokens, 'pixel_values': pixels}
        return {**both, 'attention_mask': torch.ones_like(tokens)} if name.startswith('Vilt') else both
    return {'input_ids': tokens}


def first(out: Any) -> Tensor:
    """The scores, or whatever comes first."""
    for name in ('logits', 'logits_per_image', 'predicted_depth', 'reconstruction', 'sample'):
        if getattr(out, name, None) is not None:
            return getattr(out, name)
    return out[0] if isinstance(out, tuple) or hasattr(out, 'to_tuple') else out


def diffusers(name: str, given: dict[str, Any]) -> zoo.Entry:
    """A network that denoises, or an autoencoder; its output is compared with `--loss mse`."""
    import diffusers

    model = getattr(diffusers, name)

    def config() -> Any:
        with torch.device('meta'):
            return model(**given).config

    def batch(count: int) -> tuple[dict[str, Tensor], Tensor]:
        known = config()
        side = known.get('sample_size') or 32
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        image = torch.zeros(count, known.in_channels, height, width)
        time, context = labels(count), known.get('cross_attention_dim') or 32
        if isinstance(context, (list, tuple)):
            context = context[0]
        words = torch.zeros(count, TOKENS, context)
        match name:
            case 'AutoencoderKL' | 'VQModel' | 'AutoencoderTiny' | 'AsymmetricAutoencoderKL':
                return {'sample': image}, time
            case 'UNet2DModel':
                return {'sample': image, 'timestep': time}, time
            case 'UNet2DConditionModel':
                return {'sample': image, 'timestep': time, 'encoder_hidden_states': words}, time
            case 'DiTTransformer2DModel':
                return {'hidden_states': image, 'timestep': time, 'class_labels': time}, time
            case 'PixArtTransformer2DModel':
                words = torch.zeros(count, TOKENS, known.caption_channels or context)
                said = {'encoder_hidden_states': words, 'timestep': time}
                return {'hidden_states': image, **said}, time
            case 'SD3Transformer2DModel':
                words = torch.zeros(count, TOKENS, known.joint_attention_dim)
                pooled = torch.zeros(count, known.pooled_projection_dim)
                said = {'encoder_hidden_states': words, 'pooled_projections': pooled}
                return {'hidden_states': image, **said, 'timestep': time}, time
        return {'sample': image}, time

    def make() -> nn.Module:
        return zoo.Picked(model(**given), batch(1)[0], first)

    return zoo.Entry(make, 'example', 224, 512, batch)


def own(name: str, given: dict[str, Any]) -> zoo.Entry:
    """One of `survey/*nets.py`."""
    found: dict[str, zoo.Entry] = {}

    def add(known: str, make: zoo.Factory, example: zoo.Example) -> None:
        found[known] = zoo.Entry(lambda: make(**given), 'example', 224, 512, example)

    for path in sorted((place.HERE / 'survey').glob('*nets.py')):
        exec(compile(path.read_text(), str(path), 'exec'), {**INPUTS, 'add': add, '__name__': 'nets'})
    if name not in found:
        place.fail(f'own:{name}: there are {", ".join(found)}')
    return found[name]


def images(channels: int, side: int, *labelled: int) -> zoo.Example:
    """Pictures with a class each, or with one for each place of `labelled`."""
    return lambda count: (torch.zeros(count, channels, side, side), labels(count, *labelled))


def numbers(*sizes: int) -> zoo.Example:
    """Rows of numbers, with a class each."""
    return lambda count: (torch.zeros(count, *sizes), labels(count))


def tokens(length: int, *labelled: int) -> zoo.Example:
    """Token numbers, with a class each, or with one for each place of `labelled`."""
    return lambda count: (labels(count, length), labels(count, *labelled))


def pairs(make: Callable[[int], dict[str, Tensor]]) -> zoo.Example:
    """Several inputs by name, and no labels that matter."""
    return lambda count: (make(count), labels(count))


#: What makes the inputs of `own` networks, by the names they use.
INPUTS = {made.__name__: made for made in (images, numbers, tokens, pairs)}

LIBRARIES: dict[str, Maker] = {
    'timm': timm,
    'torchvision': torchvision,
    'transformers': transformers,
    'diffusers': diffusers,
    'own': own,
}
