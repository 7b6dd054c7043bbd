#!/usr/bin/env bash
# The recording library on aarch64, with plain kernels: built by Debian's cross
# compiler, run by qemu, with the entropies that it has here.
. tests/support/tap.sh
plan_dir

cross=aarch64-linux-gnu
run=(qemu-aarch64 -L /usr/$cross -E "LD_LIBRARY_PATH=build/$cross")
none() { skip 'on aarch64' "$1"; finish; exit; }
[ "$(command -v $cross-gcc qemu-aarch64 | wc -l)" -eq 2 ] ||
    none 'no aarch64 emulator (gcc-aarch64-linux-gnu, qemu-user)'
built=build/$cross
mkdir "$dir/sqlite" # its header alone: what reads and writes is compiled, too
ln -s "$(pkg-config --variable=includedir sqlite3)/sqlite3.h" "$dir/sqlite/"
check 'the recording library is built' env -u BUILD -u SAN make -s CC=$cross-gcc CUDA=0 \
    PACKAGE_CFLAGS="-isystem $dir/sqlite" BUILD=$built "$built/libentropyrecord.so.0" \
    "$built/include/entropyscan.h"
same_text 'and needs nothing but libc' '' "$(readelf -d "$built/libentropyrecord.so.0" |
    grep NEEDED | grep -vE 'lib(m|c|dl|pthread)\.so|ld-linux-aarch64')"
for sample in entropy record; do
    check "$sample.c is compiled with it" $cross-gcc "samples/embed/$sample.c" \
        -o "$dir/$sample" -I"$built/include" -L"$built" -lentropyrecord -lm
done
python3 -c 'import random, struct, sys
random.seed(1)
numbers = [random.uniform(-2, 2) for i in range(2 * 4 * 3 * 8)]
sys.stdout.buffer.write(struct.pack("<192f", *numbers))' >"$dir/q.f32"
gcc samples/embed/entropy.c -o "$dir/here" -I"$built/include" -L"$BUILD" \
    -lentropyrecord -lm
here=$(LD_LIBRARY_PATH=$BUILD "$dir/here" "$dir/q.f32" "$dir/q.f32" 2 4 3 8)
output 'it computes entropies' '^head 2: [0-9.]+ nats' \
    "${run[@]}" "$dir/entropy" "$dir/q.f32" "$dir/q.f32" 2 4 3 8
same_text 'which are those of this machine' "$here" \
    "$("${run[@]}" "$dir/entropy" "$dir/q.f32" "$dir/q.f32" 2 4 3 8)"
# The recorder is this machine's: what they share has one layout on both.
output 'it records, through this machine'\''s recorder' '^200 frames recorded$' \
    env ENTROPY_RECORDER="$BUILD/entropy-recorder" "${run[@]}" "$dir/record" "$dir/run.db"
output 'and the run is whole' '"status":"finished".*"step":199' \
    "$BUILD/entropy-scan" "$dir/run.db" --json
finish
