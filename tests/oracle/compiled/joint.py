"""The joint graphs of a model's training step: forward and backward as one list of ATen operators, before it is cut.

    ./oracle python compiled/joint.py OUT MODEL [--batch N …]

Compiles the model with `aot_eager`, which leaves ATen operators whole, runs one step with the options of
`oracle run`, and writes OUT.1.json, OUT.2.json, …, one for each graph: a model with a graph break has several.

A graph has `nodes`, `outputs` (of forward) and `gradients` (of its inputs, in their order), both by name, `null` where
there is none. A node has a `name`, an `operator` (`null`: an input or an incoming gradient), `operands` by name, what
it `makes` (a tensor, a list of them, or `null`), and in a `getitem` the `index` of the part.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
import torch._functorch.partitioners as partitioners

from truth import loop


def main(arguments):
    """Runs one step, and writes each graph that the partitioner is given."""
    out, *options = arguments
    written = []
    outputs = 0
    extract, choose = partitioners._extract_fwd_bwd_outputs, partitioners.choose_saved_values_set

    def counting(module, *rest, num_fwd_outputs, **more):
        nonlocal outputs
        outputs = num_fwd_outputs
        return extract(module, *rest, num_fwd_outputs=num_fwd_outputs, **more)

    def writing(graph, *rest, **more):
        written.append(graph)
        Path(f'{out}.{len(written)}.json').write_text(json.dumps(described(graph, outputs)))
        return choose(graph, *rest, **more)

    partitioners._extract_fwd_bwd_outputs, partitioners.choose_saved_values_set = counting, writing
    with tempfile.NamedTemporaryFile() as answer:
        loop.measure(Path(answer.name), [*options, '--compile', 'aot_eager', '--iters', '1'])


def described(graph, outputs):
    """A graph as JSON."""
    (last,) = (node for node in graph.nodes if node.op == 'output')
    names = [getattr(node, 'name', None) for node in last.args[0]]
    nodes = [node_described(node) for node in graph.nodes if node.op != 'output']
    return dict(nodes=nodes, outputs=names[:outputs], gradients=names[outputs:])


def node_described(node):
    """A node as JSON."""
    operator = None
    if node.op == 'call_function':
        operator = getattr(partitioners.get_aten_target(node), '__name__', None) or str(node.target)
    made = node.meta.get('val')
    answer = dict(name=node.name, operator=operator, operands=[operand.name for operand in node.all_input_nodes])
    answer['makes'] = [tensor(part) for part in made] if isinstance(made, (list, tuple)) else tensor(made)
    return answer | dict(index=node.args[1]) if operator == 'getitem' else answer


def tensor(value):
    """A tensor as JSON."""
    if not isinstance(value, torch.Tensor):
        return None
    sizes = dict(shape=list(map(int, value.shape)), stride=list(map(int, value.stride())))
    return sizes | dict(dtype=str(value.dtype).removeprefix('torch.'), bytes=value.numel() * value.itemsize)


if __name__ == '__main__':
    main(sys.argv[1:])
