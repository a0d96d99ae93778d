#!/bin/sh
# Sets the oracle up under $ORACLE_HOME (default ~/.cache/highwater-oracle): an environment with the
# pinned PyTorch and what its models need (8 GB, some minutes), and the fake device (gcc, seconds).
# What is there already stays; run it again after a change in fakecuda/ or requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${ORACLE_HOME:-$HOME/.cache/highwater-oracle}
python=$home/venv/bin/python

for tool in gcc g++ nm awk; do
  command -v "$tool" >/dev/null || { echo "error: $tool is needed to build the fake device" >&2; exit 1; }
done
mkdir -p "$home"
if [ ! -x "$python" ]; then
  "${PYTHON:-python3}" -c 'import sys; sys.exit("Python 3.11 or later is needed" if sys.version_info < (3, 11) else 0)'
  "${PYTHON:-python3}" -m venv "$home/venv"
fi
if ! cmp -s "$here/requirements.txt" "$home/requirements.txt"; then
  "$python" -m pip install --quiet --requirement "$here/requirements.txt"
  cp "$here/requirements.txt" "$home/requirements.txt"
fi
"$here/fakecuda/build.sh" "$python" "$home/fake"
echo "ready: $here/oracle run resnet18 --batch 8 --opt adamw"
