#!/usr/bin/env bash
# Checks that the programs run on old clusters: they must use no function that
# is newer than glibc 2.28. If zig linked the programs for glibc 2.28, they must
# also need no newer symbol version and no SQLite library, and a recording must
# work, also on an old kernel.
. tests/support/tap.sh
plan_dir

none() { skip 'linked for glibc 2.28' "$1"; finish; exit; }
newer() { # FILE: prints the symbols that need a glibc newer than 2.28
    nm -D --undefined-only "$1" | grep -oE '[A-Za-z_0-9]+@+GLIBC_2\.(29|[3-9][0-9])\b'
}
# These functions existed before glibc 2.28, but got a new symbol version in a
# later glibc.
moved='exp2?|log2?|pow|hypot|[fl]?stat|fstatat|mknod|dl[a-z]+|__libc_start_main'
moved+='|pthread_(create|join|detach|once|sigmask|atfork|setname_np|[gs]etaffinity_np)'
moved+='|pthread_(mutex|cond|rwlock|attr|key|setspecific|getspecific)[a-z_]*|sem_[a-z]+'
for file in libentropyrecord.so libentropyscan.so entropy-recorder entropy-scan entropy-train; do
    [ -e "$BUILD/$file" ] || { fail "$file is built" "make all first"; continue; }
    same_text "$file calls no function that glibc 2.28 lacks" '' \
        "$(newer "$BUILD/$file" | grep -vE "^($moved)@")"
done

zig=${ZIG:-python3 -m ziglang}
$zig version >/dev/null 2>&1 ||
    none "no zig: python3 -m pip install ziglang, or ZIG='...'"
target=$(uname -m)-linux-gnu.2.28
portable=build/portable/$target
check 'libraries and programs are built for glibc 2.28' \
    env -u BUILD -u CC -u SAN make -s portable-programs ZIG="$zig" TARGET="$target"
for file in libentropyrecord.so libentropyscan.so entropy-recorder entropy-scan entropy-train; do
    check "$file is built" test -s "$portable/$file"
    same_text "$file needs no newer symbol version" '' "$(newer "$portable/$file")"
    same_text "$file does not link a shared SQLite" '' \
        "$(readelf -d "$portable/$file" | grep -i sqlite)"
done
for file in entropy-scan entropy-train; do
    same_text "$file needs only libc" '' "$(readelf -d "$portable/$file" |
        grep NEEDED | grep -vE 'lib(m|c|dl|pthread|rt)\.so|ld-linux')"
done
own_kernels() { "$1/entropy-train" --version | sed -n 's/^own kernels: //p'; }
same_text 'the portable trainer chooses the same kernels' "$(own_kernels "$BUILD")" \
    "$(own_kernels "$portable")"
draw() { "$1/entropy-scan" samples/runs/sm.db --heatmap="$dir/$2.png" -q; }
check 'the portable program draws a heatmap' draw "$portable" portable
check 'the native program draws a heatmap' draw "$BUILD" own
check 'the portable program draws the same picture' cmp "$dir/portable.png" "$dir/own.png"
same_text 'SQLite is not exported' '' \
    "$(nm -D --defined-only "$portable/libentropyscan.so" | grep -i sqlite)"

check 'a program links the portable library' gcc samples/embed/record.c -o "$dir/record" \
    -I"$portable/include" -L"$portable" -lentropyrecord -lm
check 'the system call filter compiles' gcc -o "$dir/old_kernel" tests/recorder/old_kernel.c
records() { # NAME COMMAND...
    local name=$1
    shift
    output "a program records$name" '^200 frames recorded$' env -u ENTROPY_RECORDER \
        LD_LIBRARY_PATH="$portable" "$@" "$dir/record" "$dir/run.db"
    output "the run recorded$name is complete" '"status":"finished".*"step":199' \
        "$BUILD/entropy-scan" "$dir/run.db" --json
    rm -f "$dir/run.db"
}
records ''
records ' on an old kernel' "$dir/old_kernel" ENOSYS
records ' behind a strict filter' "$dir/old_kernel" EPERM memfd wipe
finish
