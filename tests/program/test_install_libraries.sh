#!/usr/bin/env bash
# Uses both libraries from a program outside this repository. Checks that one header suffices, that
# the libraries export only the functions that it declares, that SQLite is absent from the training
# process, and that shared and static libraries give the same error messages.
. tests/support/tap.sh
plan_dir
export PKG_CONFIG_PATH=$dir/lib/pkgconfig LD_LIBRARY_PATH=$dir/lib
check 'the libraries are installed' make -s install BUILD="$BUILD" CC="$CC" PREFIX="$dir" CUDA="${CUDA:-0}"
header=$dir/include/entropyscan.h

# --- exported symbols ---------------------------------------------------------

exports() { # LIBRARY: prints the symbols that it exports
    nm -D --defined-only --without-symbol-versions "$1" | awk '$2 != "A" { print $3 }' |
        grep -vE '^(_init|_fini)$' | sort
}
declared() { # the functions that the header declares with ES_API
    gcc -E -P "$1" | tr '\n' ' ' |
        grep -oE 'visibility\("default"\)\)\) [^;{}]*' |
        grep -oE '\bes_[a-z0-9_]+\)?\(' | grep -oE 'es_[a-z0-9_]+' | sort
}
record=$(exports "$dir/lib/libentropyrecord.so")
scan=$(exports "$dir/lib/libentropyscan.so")
same_text 'the libraries export what the header declares, each name once' \
    "$(declared "$header")" "$(printf '%s\n' "$record" "$scan" | sort)"
check 'error functions are in the recording library' grep -qx es_message <(echo "$record")
check 'reader functions are in the reading library' grep -qx es_reader_open <(echo "$scan")
names() { nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' | grep '^es_' | sort; }
for library in record scan; do
    same_text "libentropy$library.a defines the names of the shared one" \
        "${!library}" "$(names "$dir/lib/libentropy$library.a")"
    output "libentropy$library.so has a soname and versions" \
        "soname: .libentropy$library.so.0.*ENTROPY${library^^}_0" \
        sh -c "readelf -dV '$dir/lib/libentropy$library.so' | tr '\n' ' '"
done
needs() { readelf -d "$1" | grep NEEDED; }
check 'the recording library needs neither SQLite, BLAS nor OpenMP' \
    sh -c '! echo "$1" | grep -qE "sqlite|blas|omp"' sh "$(needs "$dir/lib/libentropyrecord.so")"

# --- the header --------------------------------------------------------------

output 'pkg-config names one folder for headers' "^-I$dir/include *$" \
    pkg-config --cflags entropyrecord
same_text 'the folder contains one header' entropyscan.h "$(ls "$dir/include")"
check 'the header includes no other header of this repository' sh -c "! grep '#include \"' '$header'"
echo '#include <entropyscan.h>
int main(void) { return es_message()[0]; }' | tee "$dir/main.c" >"$dir/main.cc"
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'
for compiler in 'gcc -std=c99' 'gcc -std=c17' 'clang -std=c99' 'clang -std=c17'; do
    check "$compiler compiles the header" $compiler $strict -I"$dir/include" "$dir/main.c"
done
for compiler in 'g++ -std=c++11' 'g++ -std=c++20' 'clang++ -std=c++11' 'clang++ -std=c++20'; do
    check "$compiler compiles the header" $compiler $strict -I"$dir/include" "$dir/main.cc"
done

# --- both in one process -----------------------------------------------------

cat >"$dir/both.c" <<'END'
#include <entropyscan.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    es_reader *reader = NULL;
    es_recorder *recorder = NULL;
    es_status read = es_reader_open(&reader, argv[argc - 1]);
    printf("%d %s\n", (int)read, es_message());
    es_status recorded = es_recorder_open(&recorder, NULL);
    printf("%d %s\n", (int)recorded, es_message());
    return 0;
}
END
want="-3 $dir/none.db: no such file
-2 recording needs a path and a run"
build_both() { # FLAG...
    $CC -o "$dir/both" "$dir/both.c" "$@"
}
check 'a program links the shared libraries' \
    build_both $(pkg-config --cflags --libs entropyscan)
same_text 'shared libraries share the error message' "$want" "$("$dir/both" "$dir/none.db" 2>&1)"
rm "$dir"/lib/*.so*
check 'a program links the static libraries' \
    build_both $(pkg-config --static --cflags --libs entropyscan)
same_text 'static libraries share the error message' "$want" "$("$dir/both" "$dir/none.db" 2>&1)"
finish
