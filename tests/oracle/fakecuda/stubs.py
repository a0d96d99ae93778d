"""Writes a function that succeeds and does nothing for everything PyTorch asks of CUDA.

    stubs.py SITE_PACKAGES FOLDER

The stubs are weak: where a C file beside this one defines the function, the linker takes that.
FOLDER gets `stubs.c` (CUDA runtime and driver, cuBLAS, cuDNN) and `nvml.c` (the management library).
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: `nm` prints the library that an import is bound to, where the linker knew it.
BOUND = re.compile(r'\s*[Uw] (\S+?)@+lib(?:cudart|cublas|cublasLt|cudnn)\.so')
#: Functions of the driver have no version.
DRIVER = re.compile(r'\s*[Uw] (cu[A-Z]\w+)$')
#: Lists of functions that PyTorch looks up by name when it runs.
LOOKED_UP = re.compile(r'_\(((?:cu|nvml)[A-Z]\w*)[,)]')
#: What Triton's extension calls.
CALLED = re.compile(r'\b(cu[A-Z]\w+)\(')
#: `NVML_ERROR_NOT_SUPPORTED`, for questions about a fabric between devices.
NOT_SUPPORTED = 3


def imports(site: Path) -> Iterator[str]:
    """Names that the libraries of PyTorch and torchvision leave to be found."""
    for library in [*site.glob('torch/lib/*.so'), *site.glob('torchvision/*.so')]:
        command = ['nm', '-D', '--undefined-only', str(library)]
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            if found := BOUND.match(line) or DRIVER.match(line):
                yield found[1]


def function(name: str, result: int = 0) -> str:
    """A stub; it tells its name if the trace is on."""
    return (
        f'__attribute__((weak, visibility("default"))) int {name}(void) '
        f'{{ return tell("{name}", {result}); }}\n'
    )


HEAD = """#include <stdio.h>
#include <stdlib.h>
static int tell(const char *name, int result) {
  const char *trace = getenv("FAKECUDA_TRACE");
  if (trace && atoi(trace) > 1) fprintf(stderr, "fakecuda: stub %s\\n", name);
  return result;
}
"""


def main() -> None:
    site, folder = Path(sys.argv[1]), Path(sys.argv[2])
    header = site / 'torch/include/c10/cuda/driver_api.h'
    looked_up = set(LOOKED_UP.findall(header.read_text()))
    nvml = {name for name in looked_up if name.startswith('nvml')}
    triton = (site / 'triton/backends/nvidia/driver.c').read_text()
    cuda = set(imports(site)) | (looked_up - nvml) | set(CALLED.findall(triton))
    (folder / 'stubs.c').write_text(HEAD + ''.join(map(function, sorted(cuda))))
    answers = (function(name, NOT_SUPPORTED if 'Fabric' in name else 0) for name in sorted(nvml))
    (folder / 'nvml.c').write_text(HEAD + ''.join(answers))


main()
