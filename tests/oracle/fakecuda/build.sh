#!/bin/sh
# build.sh PYTHON FOLDER: builds the fake device and what drives PyTorch, for the PyTorch that PYTHON has.
# Headers come with PyTorch's own wheels; gcc and nm must be there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$1
out=$2
mkdir -p "$out"
site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
headers="-I$site/nvidia/cu13/include -I$site/nvidia/cuda_runtime/include -I$site/nvidia/cuda_nvcc/include"
cudnn=$(awk '/define CUDNN_MAJOR/ {a = $3} /define CUDNN_MINOR/ {b = $3} /define CUDNN_PATCHLEVEL/ {c = $3}
  END {print a * 10000 + b * 100 + c}' "$site"/nvidia/cudnn/include/cudnn_version*.h)
library="-O1 -g -fPIC -shared -fvisibility=hidden"

"$python" "$here/stubs.py" "$site" "$out"
# shellcheck disable=SC2086 -- flags are words
gcc $library $headers -DCUDNN_V="$cudnn" -Wl,-soname,libcuda.so.1 -o "$out/libcuda.new" \
  "$here"/memory.c "$here"/runtime.c "$here"/blas.c "$here"/dnn.c "$here"/rnn.c "$here"/driver.c "$out/stubs.c" -ldl -lpthread
mv "$out/libcuda.new" "$out/libcuda.so.1"
# shellcheck disable=SC2086
gcc $library -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" "$out/nvml.c"
for name in tagger drive; do
  # shellcheck disable=SC2086
  g++ -std=c++20 -O1 -fPIC -shared -w $headers -I"$site/torch/include" \
    -I"$site/torch/include/torch/csrc/api/include" -o "$out/$name.so" "$here/$name.cpp" \
    -L"$site/torch/lib" -lc10 -lc10_cuda -ltorch_cpu -Wl,-rpath,"$site/torch/lib"
done
