#!/usr/bin/env bash
# Checks the commands of `make wheel ARCH=aarch64`. If that wheel was built
# here, also checks that it runs under qemu with the libc that the build
# downloaded.
. tests/support/tap.sh
plan_dir

# This fake zig, which replaces the compiler, only prints its target.
cat >"$dir/zig" <<'END'
#!/bin/sh
case "$*" in *-dumpmachine*) echo "${3%%-*}-unknown-linux-gnu" ;; esac
END
chmod +x "$dir/zig"
rules() { # NAME [ARCH=...]
    env -u BUILD -u CC -u SAN -u MAKEFLAGS make -n -j1 wheel ZIG="$dir/zig" \
        PORTABLE="$dir/portable" "${@:2}" >"$dir/$1" 2>&1
}
check 'make wheel prints its commands' rules x86_64
check 'make wheel ARCH=aarch64 prints its commands' rules aarch64 ARCH=aarch64
for machine in x86_64 aarch64; do
    check "$machine: the wheel is built with packages of this machine" grep -q "packages.sh .* $machine sqlite3 " "$dir/$machine"
    check "$machine: the wheel names this machine" \
        grep -q "ENTROPYSCAN_PLATFORM=manylinux_2_28_$machine " "$dir/$machine"
    same_text "$machine: everything is compiled for this machine" "zig cc -target $machine-linux-gnu.2.28" \
        "$(grep -o "zig cc -target [^ ']*" "$dir/$machine" | sort -u)"
done
check 'the x86-64 wheel has vector instructions of x86-64' grep -q -- -mavx512f "$dir/x86_64"
same_text 'the aarch64 wheel has no vector instructions of x86-64' '' "$(grep -o -m1 -- '-mavx[0-9a-z]*' "$dir/aarch64")"
exits 'an unknown machine is refused' 1 "^riscv64: Debian's name .* aarch64 or x86_64$" \
    tests/tools/packages.sh "$dir/packages" riscv64 z

made=build/portable/aarch64-linux-gnu.2.28
emulator=$(type -P qemu-aarch64-static || true)
not_run() { skip 'the aarch64 programs run' "$1"; finish; exit; }
[ -e "$made/entropy-train" ] || not_run 'nothing was made for it: make wheel ARCH=aarch64'
[ -n "$emulator" ] || not_run 'no qemu-aarch64-static: apt install qemu-user-static'
. tests/support/corpus.sh
own_corpus "$dir/corpus.tok"
# The kernel cannot start programs for aarch64. Each program is therefore
# replaced by a script that starts the program in qemu.
for program in entropy-scan entropy-train entropy-recorder; do
    printf '#!/bin/sh\nexec "%s" -L "%s" "%s" "$@"\n' "$emulator" "$made/packages/root" \
        "$root/$made/$program" >"$dir/$program"
    chmod +x "$dir/$program"
done
train() { # NAME PROGRAM
    "$2" --arch SM+LN+G --data "$dir/corpus.tok" --out "$dir/$1.db" --n-layer 2 --n-head 3 \
        --d-model 24 --ctx 16 --steps 3 --record-every 1
}
check 'the emulated program trains and records' env ENTROPY_RECORDER="$dir/entropy-recorder" \
    bash -c "$(declare -f train); dir=$dir; train emulated $dir/entropy-train"
check 'the program of this machine trains and records' train own "$bin/entropy-train"
mean() { "$1" "$dir/$2.db" --json | grep -oE '"mean":[0-9]\.[0-9]{4}'; }
same_text 'the emulated program records the same entropies' "$(mean "$scan" own)" "$(mean "$dir/entropy-scan" emulated)"
draw() { "$1" samples/runs/sm.db --heatmap="$dir/$2.png" -q; }
check 'the emulated program draws a heatmap' draw "$dir/entropy-scan" emulated
check 'the program of this machine draws a heatmap' draw "$scan" own
check 'the emulated program draws the same picture' cmp "$dir/emulated.png" "$dir/own.png"
finish
