"""Counts the parameters of every model in the catalogue with the libraries' own classes, on the meta device.

`./oracle python catalogue.py` prints the entries whose number differs; with `--write`, it corrects the file.
"""

import json
import re
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / 'core/formats/src/formats/catalogue/models.txt'
ENTRY = re.compile(r'^([^ /]\S*) \| (\d+|= \S+) \|')


def entries(text):
    """Id, stated number, class and configuration of each entry that has its own."""
    family, found = None, {}
    current = None
    for line in text.splitlines():
        if line.startswith('family '):
            family = (line.split() * 2)[1::2] if line.count(' ') == 1 else line.split()[1:]
        elif line.startswith('  ') and current:
            found[current][3].append(line)
        elif match := ENTRY.match(line):
            current, number = match.groups()
            if number.startswith('= '):
                current = None
            else:
                found[current] = (int(number), *family, [])
    for name, (number, model_type, architecture, lines) in found.items():
        yield name, number, model_type, architecture, json.loads('{' + ' '.join(lines) + '}')


def count(name, model_type, architecture, settings):
    """Parameters of a model, tied ones once."""
    if model_type.startswith('torchvision.'):
        model = network(name, architecture)
        return sum(parameter.numel() for parameter in model.parameters())
    import torch
    import transformers

    settings.pop('dtype', None)
    if model_type == architecture:
        return count_of_diffusers(architecture, settings)
    family = transformers.AutoConfig.for_model(model_type, **settings)
    with torch.device('meta'):
        model = getattr(transformers, architecture)(family)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def network(name, architecture):
    """A network of torchvision, by the name of its function; without second classifiers and random weights."""
    from unittest import mock

    from torch import nn
    from torchvision import models

    given = dict(aux_logits=False, init_weights=False) if architecture in ('GoogLeNet', 'Inception3') else {}
    fillers = [name for name in dir(nn.init) if name.endswith('_') and not name.startswith('_')]
    with mock.patch.multiple(nn.init, **{filler: lambda tensor, *_, **__: tensor for filler in fillers}):
        model = models.get_model(name.replace('-', '_'), weights=None, **given)
    if type(model).__name__ != architecture:
        sys.exit(f'{name}: a {type(model).__name__}, not a {architecture}')
    return model


def count_of_diffusers(architecture, settings):
    """Parameters of a model of diffusers, whose configuration states the class alone."""
    import diffusers
    import torch

    with torch.device('meta'):
        model = getattr(diffusers, architecture).from_config(settings)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    text = FILE.read_text()
    wrong = 0
    for name, stated, *model in entries(text):
        counted = count(name, *model)
        if counted != stated:
            wrong += 1
            print(f'{name}: {stated} is stated, {counted} are counted', flush=True)
            text = text.replace(f'\n{name} | {stated} |', f'\n{name} | {counted} |')
    if '--write' in sys.argv[1:]:
        FILE.write_text(text)
    elif wrong:
        sys.exit(1)


if __name__ == '__main__':
    main()
