"""Where things lie, and what the devices are."""

import json
import os
import sys
from pathlib import Path
from typing import Any

#: This tool's folder.
HERE = Path(__file__).resolve().parent.parent
#: Recorded answers that are committed.
FIXTURES = HERE.parent / 'fixtures'
#: What is too large to commit: the environment, the fake device, tables, exports.
HOME = Path(os.environ.get('ORACLE_HOME') or Path.home() / '.cache/highwater-oracle')
#: The fake device's libraries.
LIBRARIES = HOME / 'fake'
#: SIZE: one GiB.
GIB = 1 << 30
#: Exported models.
MODELS = HOME / 'zoo'


def devices() -> list[str]:
    """Names of the devices that can be described to PyTorch and cuDNN."""
    return sorted(path.stem for path in (HERE / 'devices').glob('*.json'))


def device(name: str) -> dict[str, Any]:
    """A device as cuDNN's deviceless mode wants it described; from public specifications."""
    return json.loads((HERE / f'devices/{name}.json').read_text())


def on_fake_device(name: str, workspaces: Path | None, unknown: Path | None) -> dict[str, str]:
    """The environment in which PyTorch meets the fake device."""
    properties = device(name)
    reserved = properties['reservedSharedMemoryPerBlock']
    answer = {
        # Whole GiB, as cards are sold: no recorded run comes near it.
        'FAKECUDA_MEMORY': str(-(-properties['totalGlobalMem'] // GIB) * GIB),
        'FAKECUDA_CAPABILITY': str(properties['deviceVer'] // 10),
        'FAKECUDA_PROCESSORS': str(properties['multiProcessorCount']),
        'FAKECUDA_THREADS': str(properties['maxThreadsPerSM']),
        'FAKECUDA_BLOCKS': str(properties['maxCtasPerSM']),
        'FAKECUDA_SHARED': str(properties['maxSharedMemoryPerBlockOptin'] + reserved),
        # The newer interface to cuDNN is hard to stand in for; both take the same memory.
        'TORCH_CUDNN_V8_API_DISABLED': '1',
        'LD_PRELOAD': str(LIBRARIES / 'libcuda.so.1'),
        'LD_LIBRARY_PATH': str(LIBRARIES),
        'FAKECUDA_TAGGER': str(LIBRARIES / 'tagger.so'),
    }
    if workspaces is not None:
        answer['FAKECUDA_WORKSPACES'] = str(workspaces)
    if unknown is not None:
        answer['FAKECUDA_UNKNOWN'] = str(unknown)
    # What the caller set (a smaller memory, a trace) stands.
    given = {key: value for key, value in os.environ.items() if key.startswith('FAKECUDA_')}
    return {**os.environ, **quiet(), **answer, **given}


def quiet() -> dict[str, str]:
    """One thread, and no request to anybody."""
    return {
        'OMP_NUM_THREADS': '1',
        'MKL_NUM_THREADS': '1',
        'HF_HUB_OFFLINE': '1',
        'TRANSFORMERS_OFFLINE': '1',
        'PYTHONPATH': os.pathsep.join(filter(None, [str(HERE), os.environ.get('PYTHONPATH')])),
    }


def is_fake() -> bool:
    """Whether this process runs on the fake device."""
    return 'FAKECUDA_TAGGER' in os.environ


def fail(message: str) -> None:
    """Ends the program with a sentence."""
    sys.exit(f'error: {message}')
