"""The command `highwater`, which comes with the package."""

import os
import sys
from pathlib import Path

from highwater import _native
from highwater._page import folder


def main() -> int:
    """Runs the command line, and returns its exit status."""
    page = folder()
    if page is not None:
        os.environ.setdefault("HIGHWATER_PAGE", str(page))
    return _native.main([Path(sys.argv[0]).name, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
