#!/usr/bin/env python3
"""The hook for pre-commit: each model file must fit on the GPUs that its flags require.

    each.py FLAGS -- FILES

The flags are those of `highwater estimate`, with `--require` for each GPU. The variable HIGHWATER names another program
than `highwater`. The exit status is that of the worst file: 1 does not fit, 2 cannot be estimated.
"""

import os
import subprocess
import sys


def main(given):
    if "--" not in given:
        print("each.py: write `--` between the flags and the files, as the last of `args`", file=sys.stderr)
        return 2
    at = given.index("--")
    flags, files = given[:at], given[at + 1 :]
    program = os.environ.get("HIGHWATER", "highwater")
    worst = 0
    for file in files:
        # Without the report: an error names its file.
        command = [program, "estimate", file, *flags, "--no-max-batch", "--json"]
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            print(f"{program}: {error}; install it, or name it in the variable HIGHWATER", file=sys.stderr)
            return 2
        if done.returncode != 0:
            print(f"{file}: {done.stderr.removeprefix('error: ').strip()}", file=sys.stderr)
        worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
