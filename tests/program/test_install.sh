#!/usr/bin/env bash
# Checks that the files of `make install` suffice to build and run a program
# outside this repository.
. tests/support/tap.sh
plan_dir

export PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig LD_LIBRARY_PATH=$dir/prefix/lib
check 'make install succeeds' make -s install BUILD="$BUILD" CC="$CC" PREFIX="$dir/prefix" CUDA="${CUDA:-0}"
check 'CC may start the compiler through another program' make -s CC='ccache gcc -m64' help
check 'a C program compiles with the installed files' \
    $CC samples/embed/record.c -o "$dir/record" \
    $(pkg-config --cflags --libs entropyrecord) -lm
check 'the C program records with the installed recorder' \
    env PATH="$dir/prefix/bin:$PATH" "$dir/record" "$dir/run.db"
check 'the installed program shows the run' "$dir/prefix/bin/entropy-scan" "$dir/run.db"
output 'the run is finished' '"status":"finished"' \
    "$dir/prefix/bin/entropy-scan" "$dir/run.db" --json
check 'a C program that computes attention entropy compiles' \
    $CC samples/embed/entropy.c -o "$dir/entropy" \
    $(pkg-config --cflags --libs entropyrecord)
head -c $((2 * 4 * 3 * 8 * 4)) /dev/zero >"$dir/zeros.f32"
output 'rows of equal scores have the entropy of their lengths' \
    '^head 2: 0.7945 nats, 0.7945 to 0.7945$' \
    "$dir/entropy" "$dir/zeros.f32" "$dir/zeros.f32" 2 4 3 8
exits 'files that are too short are refused' 3 'zeros.f32: expected 216 float32' \
    "$dir/entropy" "$dir/zeros.f32" "$dir/zeros.f32" 2 4 3 9
same_text 'sqlite3 loads the installed extension' 'entropy' "$(sqlite3 -readonly \
    -cmd ".load $dir/prefix/lib/entropyscan/entropyscan_sqlite" "$dir/run.db" \
    "SELECT DISTINCT series FROM es_values('entropy')")"
output 'sqlite3 reads the installed views' '^entropy ' sqlite3 -readonly -separator ' ' \
    -init "$dir/prefix/share/entropyscan/views.sql" "$dir/run.db" \
    "SELECT series, n_samples FROM run_series WHERE series = 'entropy'"
check 'each verb has a manual page' test "$(ls "$dir/prefix/share/man/man1" | wc -l)" -ge 16
for page in "$dir/prefix/share/man"/man?/*; do
    check "the manual page $(basename "$page") is well-formed" \
        sh -c 'test -z "$(man --warnings -E UTF-8 -l "$1" 2>&1 >/dev/null)"' sh "$page"
done
for program in entropy-scan entropy-train; do
    check "$program's completions are bash" \
        bash -n "$dir/prefix/share/bash-completion/completions/$program"
    check "$program's zsh completions are valid" zsh -n "$dir/prefix/share/zsh/site-functions/_$program"
    check "$program's fish completions are valid" \
        fish -n "$dir/prefix/share/fish/vendor_completions.d/$program.fish"
done
check 'make uninstall succeeds' make -s uninstall BUILD="$BUILD" PREFIX="$dir/prefix"
output 'make uninstall leaves no file' '^0$' sh -c "find '$dir/prefix' ! -type d | wc -l"

needs() { readelf -d "$1" | grep NEEDED; }
check 'the trainer does not link SQLite' sh -c '! echo "$1" | grep -q sqlite' sh \
    "$(needs "$BUILD/entropy-train")"
finish
