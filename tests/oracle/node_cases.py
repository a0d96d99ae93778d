"""The node cases of the package `onnx`, packed for the tests: `python node_cases.py OUT.gz`.

Each case is a model of one operator with example inputs and outputs. Kept are the operators and the shapes of the
examples. Outputs lose their declared shapes, because the tests check ours against those of the examples. Inputs that
say a shape (sizes, axes, lengths, conditions) become constants, as exporters write them: PyTorch knows them before it
runs an operator.

The pack is, for each case, a line of JSON and the model's bytes:
`{"name": …, "operator": …, "size": bytes, "outputs": [[dims] or null]}`.
"""

import gzip
import json
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

# COUNT: elements of a constant that may be a shape.
FEW = 64
# Operators whose first input is a shape too.
MADE_FROM_SIZES = {'ConstantOfShape', 'Range', 'OneHot', 'HannWindow', 'HammingWindow', 'BlackmanWindow'}
# Operators whose further inputs are scales, which may be fractions.
SCALED = {'Resize', 'Upsample', 'AffineGrid'}


def is_size(operator: str, position: int, value: numpy.ndarray) -> bool:
    if not isinstance(value, (numpy.ndarray, numpy.generic)) or numpy.size(value) > FEW:
        return False
    kind = numpy.asarray(value).dtype.kind
    if position == 0:
        return operator in MADE_FROM_SIZES or (operator in {'If', 'Loop'} and numpy.size(value) == 1)
    return kind in 'iub' or operator in MADE_FROM_SIZES | SCALED


def packed(case) -> bytes:
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    graph = model.graph
    inputs, outputs = case.data_sets[0]
    constants = []
    for position, (declared, value) in enumerate(zip(list(graph.input), inputs)):
        if is_size(case_operator(case).removesuffix(' expanded'), position, value):
            constants.append(numpy_helper.from_array(numpy.asarray(value), declared.name))
            graph.input.remove(declared)
    graph.initializer.extend(constants)
    for output in graph.output:
        if output.type.HasField('tensor_type'):
            output.type.tensor_type.ClearField('shape')
    graph.ClearField('value_info')
    shapes = [list(value.shape) if isinstance(value, numpy.ndarray) else None for value in outputs]
    content = model.SerializeToString()
    head = {'name': case.name, 'operator': case_operator(case), 'size': len(content), 'outputs': shapes}
    return json.dumps(head).encode() + b'\n' + content


def case_operator(case) -> str:
    """The operator that a case is of, also where its model has its function's body instead."""
    name = case.name.removeprefix('test_')
    return f'{OPERATORS[name.split("_expanded")[0]]} expanded' if '_expanded' in name else OPERATORS[name]


def main(target: str) -> None:
    cases = sorted(collect_testcases(None), key=lambda case: case.name)
    for case in cases:
        name = case.name.removeprefix('test_')
        if '_expanded' not in name:
            OPERATORS[name] = case.model.graph.node[0].op_type
    content = b''.join(packed(case) for case in cases)
    with open(target, 'wb') as file:
        file.write(gzip.compress(content, 9, mtime=0))
    print(f'{len(cases)} cases of onnx {onnx.__version__}')


OPERATORS: dict[str, str] = {}

if __name__ == '__main__':
    main(sys.argv[1])
