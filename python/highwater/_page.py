"""The page, which a wheel carries, and how it is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def folder() -> Path | None:
    """The folder of the page in this package; None in a package that was built without it."""
    page = Path(__file__).parent / "page"
    return page if (page / "index.html").is_file() else None


def opened(model: str, arguments: list[str], *, browser: bool = True) -> subprocess.Popen[str]:
    """Serves the page on this machine with a model, and returns the process, which serves until it is stopped.

    Its first line of output is the page's address.
    """
    command = [sys.executable, "-m", "highwater", "open", model, *arguments]
    if not browser:
        command.append("--no-browser")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
