"""What several tests have in common."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures"


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def command_line() -> Any:
    """The answer of the command `highwater` that the wheel has."""

    def ask(*arguments: object) -> Any:
        command = [sys.executable, "-m", "highwater", "estimate", *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask
