"""The models as ONNX files and `torch.export` archives, as their users export them, without weights.

    oracle export FOLDER SETS MODEL…    SETS: some of train,eval,dynamo,pt2, with commas

| set | exporter | mode |
|---|---|---|
| `train` | TorchScript, opset 17, `training=TRAINING, do_constant_folding=False` | `model.train()` |
| `eval` | TorchScript, opset 17, defaults | `model.eval()` |
| `dynamo` | `torch.export`, defaults | `model.eval()` |
| `pt2` | `torch.export.save`, no ONNX | `model.train()` |

FOLDER gets `SET/MODEL.onnx.gz`, or `.pt2.gz`. Batch and sequence lengths are free dimensions. A tensor of more
than a few numbers is left out: it points at an external file that does not exist. Of an archive, the JSON is kept,
but for stack traces.
"""

import gzip
import io
import json
import math
import operator
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from truth import place, zoo

SETS = ('train', 'eval', 'dynamo', 'pt2')
#: SIZE: integers beyond this, and floats beyond the next, are left out. Integers may be shapes or
#: indices, which shape arithmetic needs; random floats only make the file larger.
INTEGERS, FLOATS = 1024, 64
OPSET = 17
#: COUNT: seconds that one export may take.
PATIENCE = 1200
#: Ways to export a language model, tried in this order: as it is; with its attention in plain
#: operators; with the mask as a second input, for masks that the exporter cannot trace; both.
WAYS = ('', 'eager', 'mask', 'eager,mask')


def main(arguments: list[str]) -> None:
    """`oracle export`: one process for each file, because exporters keep memory."""
    folder, sets, *names = arguments
    for chosen in sets.split(','):
        if chosen not in SETS:
            place.fail(f'no set {chosen}: there are {", ".join(SETS)}')
        for name in names:
            kind = 'pt2' if chosen == 'pt2' else 'onnx'
            path = Path(folder) / chosen / f'{name}.{kind}.gz'
            if not path.exists():
                print(chosen, name, export(path, chosen, name), flush=True)


def export(path: Path, chosen: str, name: str) -> str:
    """Tries the ways in turn; says which it was, or what went wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    errors = []
    for way in WAYS:
        command = [sys.executable, '-m', 'truth.export', str(path), chosen, name, way]
        environment = {**os.environ, **place.quiet()}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return f'took longer than {PATIENCE} s'
        if done.returncode == 0:
            return f'{path.stat().st_size} bytes {way}'.rstrip()
        errors.append(done.stderr.strip().splitlines()[-1:])
    return f'failed: {errors}'


def export_one(path: Path, chosen: str, name: str, way: str) -> None:
    """In this process."""
    torch.manual_seed(0)
    kind = zoo.ZOO[name].kind
    if way and kind == 'image' or 'mask' in way and kind == 'example':
        sys.exit('there is no such way')
    model = zoo.build(name, **(dict(attn='eager') if 'eager' in way else {}))
    fill(model)
    inputs, axes = example(zoo.ZOO[name], 'mask' in way)
    pick = operator.attrgetter('logits')
    wrapped = model if kind in ('image', 'example') else zoo.Picked(model, inputs, pick)
    wrapped.train(chosen in ('train', 'pt2'))
    with tempfile.TemporaryDirectory() as folder:
        # A string: the older exporter takes no other path for more than 2 GiB.
        raw = f'{folder}/model.onnx'
        write(wrapped, tuple(inputs.values()), raw, chosen, list(inputs), 'logits', axes)
        packed = strip_archive(raw) if chosen == 'pt2' else strip(raw)
    path.write_bytes(gzip.compress(packed, 9, mtime=0))


def print_one(path: Path, name: str) -> None:
    """`print(model)`, of the model itself."""
    model = zoo.build(name)
    while isinstance(model, zoo.Picked):
        model = model.m
    path.write_bytes(gzip.compress(f'{model}\n'.encode(), 9, mtime=0))


def write(
    model: nn.Module,
    values: tuple[Tensor, ...],
    raw: str,
    chosen: str,
    names: list[str],
    output: str,
    axes: dict[str, dict[int, str]] | None = None,
) -> None:
    """A file by one of PyTorch's exporters; `axes` are the free dimensions by input, else all are fixed."""
    common = dict(input_names=names, output_names=[output])
    if chosen == 'pt2':
        torch.export.save(exported(model, values, names, axes), raw)
    elif chosen == 'dynamo' and axes is None:
        # A program that exists needs no further tries at making one.
        program = exported(model, values, names, axes)
        torch.onnx.export(program, values, raw, dynamo=True, external_data=True, verbose=False, **common)
    elif chosen == 'dynamo':
        shapes = tuple(axes[name] for name in names)
        torch.onnx.export(model, values, raw, dynamo=True, dynamic_shapes=shapes, external_data=True, **common)
    else:
        training = dict(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        torch.onnx.export(
            model,
            values,
            raw,
            dynamo=False,
            opset_version=OPSET,
            dynamic_axes=axes,
            **(training if chosen == 'train' else {}),
            **common,
        )


def exported(
    model: nn.Module, values: tuple[Tensor, ...], names: list[str], axes: dict[str, dict[int, str]] | None
) -> torch.export.ExportedProgram:
    if axes is None:
        return torch.export.export(model, values)
    free = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes[name]} for name in names)
    shapes = (free,) if isinstance(model, zoo.Picked) else free
    return torch.export.export(model, values, dynamic_shapes=shapes)


def fill(model: nn.Module) -> None:
    """Different values everywhere: exporters merge tensors of one content."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.05, 0.05)
        for name, buffer in model.named_buffers():
            if buffer.is_floating_point() and 'inv_freq' not in name:
                buffer.uniform_(0.5, 1.5)


def example(
    entry: zoo.Entry, mask: bool
) -> tuple[dict[str, Tensor], dict[str, dict[int, str]]]:
    """Small inputs by name, and the free dimensions of each, and of the logits."""
    if entry.kind == 'image':
        batch = {0: 'batch'}
        image = torch.randn(2, 3, entry.size, entry.size)
        return {'input': image}, {'input': batch, 'logits': batch}
    if entry.kind == 'example':
        given, _ = entry.example(2)
        inputs = given if isinstance(given, dict) else {'input': given}
        return inputs, {name: {0: 'batch'} for name in [*inputs, 'logits']}
    both = {0: 'batch', 1: 'seq'}
    tokens = torch.randint(0, 1000, (2, 16))
    if entry.kind == 'seq2seq':
        inputs = {'input_ids': tokens, 'decoder_input_ids': tokens[:, :12].clone()}
        decoder = {0: 'batch', 1: 'dec_seq'}
        return inputs, {'input_ids': both, 'decoder_input_ids': decoder, 'logits': decoder}
    inputs = {'input_ids': tokens}
    if mask:
        inputs['attention_mask'] = torch.ones_like(tokens)
    return inputs, {**{name: both for name in inputs}, 'logits': both}


def strip(path: str) -> bytes:
    """The file without its large tensors."""
    model = onnx.load(path, load_external_data=False)
    contents = ('raw_data', 'float_data', 'int32_data', 'int64_data', 'double_data', 'uint64_data')
    offset = 0
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.STRING:
            continue
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        size = math.prod(tensor.dims) * dtype.itemsize
        if size <= (INTEGERS if dtype.kind in 'iub' else FLOATS):
            continue
        for field in (*contents, 'external_data'):
            tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (('location', 'weights.stripped'), ('offset', offset), ('length', size)):
            tensor.external_data.add(key=key, value=str(value))
        offset += size
    return model.SerializeToString()


def main_example(arguments: list[str]) -> None:
    """`oracle example FILE.onnx.gz OUT.onnx`: a model without weights as the page's example, which travels light."""
    source, target = arguments
    model = onnx.load_from_string(gzip.decompress(Path(source).read_bytes()))
    graph = model.graph
    public = {value.name for value in [*graph.input, *graph.output, *graph.initializer]}
    short: dict[str, str] = {'': ''}
    for node in graph.node:
        # What a node is called says only its module; numbers tell a name from its neighbours', and compress badly.
        module, _, _ = node.name.rpartition('/')
        node.name = '' if node.op_type == 'Constant' else f'{module}/{node.op_type}'
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                names[at] = name if name in public else short.setdefault(name, f'{len(short) - 1:x}')
    graph.ClearField('value_info')
    for tensor in graph.initializer:
        where = [entry for entry in tensor.external_data if entry.key == 'location']
        tensor.ClearField('external_data')
        tensor.external_data.extend(where)
    Path(target).write_bytes(model.SerializeToString())


def strip_archive(path: str) -> bytes:
    """The archive without its tensors, and its program without stack traces."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(packed, 'w') as stripped:
        for entry in whole.infolist():
            content = whole.read(entry)
            if entry.filename.endswith('/models/model.json'):
                program = json.loads(content)
                program['graph_module']['module_call_graph'] = []
                shorten(program['graph_module']['graph'])
                content = json.dumps(program, separators=(',', ':')).encode()
            elif not entry.filename.endswith(('_config.json', 'version', 'archive_format')):
                continue
            stripped.writestr(zipfile.ZipInfo(entry.filename), content)
    return packed.getvalue()


def shorten(graph: dict) -> None:
    """Keeps of a node's metadata what tells its module and the Python function around it, in inner graphs too."""
    for node in graph['nodes']:
        told = node['metadata']
        node['metadata'] = {'nn_module_stack': told.get('nn_module_stack', '')}
        # `softmin_1;function.softmin`: other kinds are the operator itself.
        if ';function.' in told.get('torch_fn', ''):
            node['metadata']['torch_fn'] = told['torch_fn']
        for given in node['inputs']:
            if 'as_graph' in given['arg']:
                shorten(given['arg']['as_graph']['graph'])


if __name__ == '__main__':
    export_one(Path(sys.argv[1]), *sys.argv[2:5])
