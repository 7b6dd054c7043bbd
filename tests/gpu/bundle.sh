#!/usr/bin/env bash
# usage: tests/gpu/bundle.sh FILE.tar.gz   (make gpu-bundle)
# Packs everything that `make gpu-check` needs on a machine that has a GPU and
# PyTorch, but not the Debian packages that this project uses. The bundle
# contains the programs, the tests and the shared libraries that they use, except
# the libraries of CUDA, and of C and C++ (the machine must have those of Debian
# 12 or newer). It also contains the reference cases, a token file, the losses of the
# first training steps on this file, computed on a CPU, cffi for Python 3.12, and the name
# of the commit. tests/gpu/check.sh explains how to use the bundle.
#
# Variables, with default values in parentheses:
#
#   BUILD      folder of the programs (build)
#   PLUGINS    folder of the libraries for the device (BUILD); `make gpu-bundle`
#              builds them in a separate folder, for one kind of card
#   WHEELS     folder with wheels of cffi and pycparser (BUILD/wheels, to which
#              pip downloads them)
#   LIMIT      maximum size of the archive in MiB (45)
#   LEVEL      compression level of gzip (9)
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
BUILD=${BUILD:-build}
PLUGINS=${PLUGINS:-$BUILD}
WHEELS=${WHEELS:-$BUILD/wheels}
LIMIT=${LIMIT:-45}
to=$(mktemp -d)
trap 'rm -rf "$to" "$to.tar.gz"' EXIT
mkdir -p "$to/lib" "$to/tests" "$to/python"
ours() { "$@"; }
. tests/gpu/stages.sh

programs=(entropy-train entropy-recorder entropy-scan gpu-bench-attention)
for program in "${programs[@]}"; do
    strip -o "$to/$program" "$BUILD/$program"
done
for library in "$BUILD"/libentropyrecord.so.*; do # libraries of the Python package
    [ ! -e "$library" ] || cp "$library" "$to/"
done
for program in "$BUILD"/tests/{test_cuda_*,lib*cuda*.so}; do
    strip -o "$to/tests/$(basename "$program")" "$program"
done
strip -o "$to/libentropytrain_cuda.so" "$PLUGINS/libentropytrain_cuda.so"
probe=tests/libcuda_probe.so
[ ! -e "$PLUGINS/$probe" ] || strip -o "$to/$probe" "$PLUGINS/$probe"
for program in "$to"/entropy-{train,recorder,scan} "$to"/gpu-bench-attention "$to"/tests/test_*; do
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/lib(c|m|pthread|dl|rt|stdc\+\+|gcc_s|cuda[a-z]*|cublas[A-Za-z]*)\.so' |
    xargs -I{} cp -L {} "$to/lib/"
cp -r --no-preserve=mode tests/trainer/cases "$to/"

prepare_training
cp "$BUILD/corpus.tok" "$BUILD/cpu-losses.txt" "$to/"

if [ ! -d "$WHEELS" ]; then
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
        --implementation cp --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 -d "$WHEELS.part" cffi pycparser
    mv "$WHEELS.part" "$WHEELS"
fi
for wheel in "$WHEELS"/*.whl; do
    python3 -m zipfile -e "$wheel" "$to/python"
done

commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit+=' and changes'
echo "$commit" >"$to/commit"

tar -c -C "$to" . | gzip "-${LEVEL:-9}" >"$to.tar.gz"
size=$(stat -c %s "$to.tar.gz")
[ "$size" -le $((LIMIT << 20)) ] ||
    { echo "$1: the bundle is too large: $size bytes, but LIMIT is $LIMIT MiB" >&2; exit 1; }
mv "$to.tar.gz" "$1"
du -h "$1"
