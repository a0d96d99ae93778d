"""The page, which a wheel carries, and how it is opened."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from highwater._native import Error


def folder() -> Path | None:
    """The folder of the page in this package; None in a package that was built without it."""
    page = Path(__file__).parent / "page"
    return page if (page / "index.html").is_file() else None


class Page:
    """The page with a model, served on this machine until it is closed or this process ends."""

    address: str
    """Where a browser finds it."""

    def __init__(
        self,
        model: str,
        arguments: list[str],
        *,
        browser: bool,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        # What was written for the page is gone with it.
        self._folder = folder
        command = [sys.executable, "-m", "highwater", "open", model, *arguments]
        if not browser:
            command.append("--no-browser")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        found = re.search(r"http://\S+", self._process.stdout.readline())
        if found is None:
            assert self._process.stderr is not None
            raise Error(self._process.stderr.read().strip().removeprefix("error: "))
        self.address = found[0]

    def close(self) -> None:
        """Stops serving it."""
        self._process.terminate()
        self._process.communicate()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.terminate()

    def __repr__(self) -> str:
        return f"<highwater.Page: {self.address}>"


def use() -> None:
    """Lets the command line find the page that this package carries."""
    page = folder()
    if page is not None:
        os.environ.setdefault("HIGHWATER_PAGE", str(page))
