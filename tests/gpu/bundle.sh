#!/usr/bin/env bash
# usage: tests/gpu/bundle.sh FILE.tar.gz   (make gpu-bundle)
# What `make gpu-check` needs on a machine with a GPU and PyTorch but without
# our Debian packages: programs, tests, the shared libraries that they link (not
# the C library, nor those of CUDA), and the reference cases. There, in a copy
# of this source:
#
#   mkdir bundle && tar -xzf FILE.tar.gz -C bundle
#   LD_LIBRARY_PATH=bundle/lib:$LD_LIBRARY_PATH PREBUILT=1 BUILD=bundle \
#       ES_SHARED=bundle/shared make gpu-check
#
# (the driver may be found by LD_LIBRARY_PATH alone)
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
BUILD=${BUILD:-build}
ES_SHARED=${ES_SHARED:-../shared}
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir -p "$to/lib" "$to/tests" "$to/shared/reference"
programs=(entropy-train entropy-recorder entropy-scan entropy-corpus
    gpu-bench-attention)
for program in "${programs[@]}"; do
    strip -o "$to/$program" "$BUILD/$program"
done
strip -o "$to/libentropytrain_cuda.so" "$BUILD/libentropytrain_cuda.so"
for program in "$BUILD"/tests/test_cuda_*; do
    [[ $program == *.so ]] || strip -o "$to/tests/$(basename "$program")" "$program"
done
for library in libcuda_probe.so libcuda_probe_host.so \
    libentropytrain_cuda_host.so; do
    strip -o "$to/tests/$library" "$BUILD/tests/$library"
done
for program in "$to"/entropy-* "$to"/gpu-bench-attention "$to"/tests/test_*; do
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*|libcu[^/]*)\.so' |
    xargs -I{} cp -L {} "$to/lib/"
[ ! -d "$ES_SHARED/reference/train" ] ||
    cp -r "$ES_SHARED/reference/train" "$to/shared/reference/"
[ ! -f "$BUILD/corpus.tok" ] || cp "$BUILD/corpus.tok" "$to/"
tar -czf "$1" -C "$to" .
du -h "$1"
