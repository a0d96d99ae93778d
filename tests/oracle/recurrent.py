"""What cuDNN asks for beside the tensors of a recurrent layer, without a device.

    ~/.cache/highwater-oracle/venv/bin/python recurrent.py

prints cell, type, sizes, scratch and reserve of `cudnnGetRNNTempSpaceSizes`, as the test in
`core/engine/src/aten/recurrent.rs` has them. The call is given a handle of zeros: it writes both sums, and
then fails where it asks for the device. The standard algorithm alone answers so.
"""

import ctypes
import itertools
import sysconfig
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from pathlib import Path

PLAIN, LSTM, GRU = 1, 2, 3
FLOAT32, FLOAT16 = 0, 2
DOUBLE_BIAS, TRAINING, STANDARD = 2, 1, 0
#: SIZE: more than a handle has.
HANDLE = 1 << 20

folder = Path(sysconfig.get_paths()['purelib']) / 'nvidia/cudnn/lib'
cudnn = ctypes.CDLL(str(folder / 'libcudnn.so.9'), mode=ctypes.RTLD_GLOBAL)
zeros = ctypes.create_string_buffer(HANDLE)


def spaces(cell, dtype, time, batch, width, hidden, layers, directions):
    """Scratch and reserve of one call."""
    handle, rnn, dropout, data = c_void_p(ctypes.addressof(zeros)), *(c_void_p() for _ in range(3))
    cudnn.cudnnCreateRNNDescriptor(byref(rnn))
    cudnn.cudnnCreateDropoutDescriptor(byref(dropout))
    cudnn.cudnnCreateRNNDataDescriptor(byref(data))
    lengths = (c_int * batch)(*[time] * batch)
    status = cudnn.cudnnSetRNNDescriptor_v8(
        *(rnn, STANDARD, cell, DOUBLE_BIAS, directions - 1, 0, dtype, FLOAT32, 0),
        *(width, hidden, hidden, layers, dropout, 0),
    )
    padding = byref(c_float(0))
    status |= cudnn.cudnnSetRNNDataDescriptor(data, dtype, 0, time, batch, width, lengths, padding)
    assert status == 0
    scratch, reserve = c_size_t(), c_size_t()
    cudnn.cudnnGetRNNTempSpaceSizes(handle, rnn, TRAINING, data, byref(scratch), byref(reserve))
    return scratch.value, reserve.value


def main():
    sizes = [(10, 4, 16, 32), (20, 4, 16, 32), (10, 4, 64, 32), (100, 64, 300, 512)]
    shapes = itertools.product((1, 2), (1, 2))
    for size, shape in itertools.product(sizes, list(shapes)):
        for cell, dtype in itertools.product((PLAIN, LSTM, GRU), (FLOAT32, FLOAT16)):
            print(cell, dtype, *size, *shape, *spaces(cell, dtype, *size, *shape))


main()
