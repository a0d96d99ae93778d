"""The command `highwater`, which comes with the package."""

import sys
from pathlib import Path

from highwater import _native, _page


def main() -> int:
    """Runs the command line, and returns its exit status."""
    _page.use()
    return _native.main([Path(sys.argv[0]).name, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
