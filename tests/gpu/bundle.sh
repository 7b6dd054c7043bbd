#!/usr/bin/env bash
# usage: tests/gpu/bundle.sh FILE.tar.gz   (make gpu-bundle)
# What `make gpu-check` needs on a machine with a GPU and PyTorch but without
# our Debian packages: programs, tests, the shared libraries that they link (not
# those of C and C++, which have to be Debian 12's or newer, nor CUDA's), the
# reference cases and a token file. There, in a copy of this source:
#
#   mkdir bundle && tar -xzf FILE.tar.gz -C bundle
#   make gpu-check PREBUILT=1 BUILD=bundle ES_SHARED=bundle/shared OUT=FOLDER
#
# (without make: these as variables of tests/gpu/check.sh).
#
#   BUILD      where the programs lie (build)
#   ES_SHARED  the folder with reference/train (../shared)
#   LIMIT      megabytes of the archive (56)
#   DATA       the token file; BUILD/debian.tok if it is there and leaves the
#              archive below LIMIT, else BUILD/corpus.tok, which is made. All of
#              `make corpus-debian` is too large; what is not:
#                  samples/corpus/debian.sh --limit 90000000 -o build/part.tok
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
BUILD=${BUILD:-build}
ES_SHARED=${ES_SHARED:-../shared}
LIMIT=${LIMIT:-56}
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir -p "$to/lib" "$to/tests" "$to/shared/reference"

programs=(entropy-train entropy-recorder entropy-scan entropy-corpus
    gpu-bench-attention libentropytrain_cuda.so)
for program in "${programs[@]}"; do
    strip -o "$to/$program" "$BUILD/$program"
done
for program in "$BUILD"/tests/test_cuda_* "$BUILD"/tests/lib*cuda*.so; do
    strip -o "$to/tests/$(basename "$program")" "$program"
done
for program in "$to"/entropy-* "$to"/gpu-bench-attention "$to"/tests/test_*; do
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/lib(c|m|pthread|dl|rt|stdc\+\+|gcc_s|cuda[a-z]*|cublas[A-Za-z]*)\.so' |
    xargs -I{} cp -L {} "$to/lib/"
[ ! -d "$ES_SHARED/reference/train" ] ||
    cp -r --no-preserve=mode "$ES_SHARED/reference/train" "$to/shared/reference/"

pack() { # TOKEN_FILE: false if that is too large
    cp "$1" "$to/corpus.tok"
    tar -czf "$to.tar.gz" -C "$to" .
    [ "$(stat -c %s "$to.tar.gz")" -le $((LIMIT * 1000000)) ] ||
        { rm "$to.tar.gz"; return 1; }
    echo "tokens of $1, $(stat -c %s "$1") bytes"
}

small=$BUILD/corpus.tok
[ -n "${DATA:-}" ] || [ -f "$small" ] || "$BUILD/entropy-corpus" -q -o "$small"
for data in ${DATA:-"$BUILD/debian.tok" "$small"}; do
    [ -f "$data" ] || continue
    if pack "$data"; then
        mv "$to.tar.gz" "$1"
        du -h "$1"
        exit
    fi
    echo "$data: too large for an archive of $LIMIT MB" >&2
done
exit 1
