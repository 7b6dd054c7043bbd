#!/usr/bin/env bash
# usage: tests/gpu/bundle.sh FILE.tar.gz   (make gpu-bundle)
# What `make gpu-check` needs on a machine with a GPU and PyTorch but without
# our Debian packages: programs, tests, the shared libraries that they link (not
# those of C and C++, which have to be Debian 12's or newer, nor CUDA's), the
# reference cases and a token file. tests/gpu/check.sh says what to do with it.
#
#   BUILD      where the programs lie (build)
#   PLUGINS    where the device's libraries lie (BUILD): make has them there for
#              one kind of card
#   LIMIT      megabytes of the archive (56), LEVEL of gzip (6)
#   DATA       the token file; BUILD/debian.tok if it is there and leaves the
#              archive below LIMIT, else BUILD/corpus.tok, which is made. All of
#              `make corpus-debian` is too large; what is not:
#                  samples/corpus/debian.sh --limit 90000000 -o build/part.tok
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
BUILD=${BUILD:-build}
PLUGINS=${PLUGINS:-$BUILD}
LIMIT=${LIMIT:-56}
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
mkdir -p "$to/lib" "$to/tests"

programs=(entropy-train entropy-recorder entropy-scan gpu-bench-attention)
for program in "${programs[@]}"; do
    strip -o "$to/$program" "$BUILD/$program"
done
cp "$BUILD/entropy-corpus" "$to/"
for library in "$BUILD"/libentropyrecord.so.*; do # of the Python package
    [ ! -e "$library" ] || cp "$library" "$to/"
done
for program in "$BUILD"/tests/test_cuda_* "$BUILD"/tests/lib*cuda*.so; do
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

pack() { # TOKEN_FILE: false if that is too large
    cp "$1" "$to/corpus.tok"
    tar -c -C "$to" . | gzip "-${LEVEL:-6}" >"$to.tar.gz"
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
