#!/usr/bin/env bash
# The rules of the house that a compiler does not check: who may include whom,
# one folder for each third-party header, the size of files and functions,
# format, and words that must not appear. Prints each breach; exit 1 if any.
set -uo pipefail
cd "$(dirname "$0")/../.."

breaches=0
breach() {
    echo "lint: $*"
    breaches=$((breaches + 1))
}

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }
# C and, in the CUDA back-end, C++ used as C.
code=('*.[ch]' '*.cu' '*.cuh' '*.cc')

# FOLDER REGEX: project headers that files of the folder may include.
layer() {
    local folder=$1 allowed=$2
    while IFS=: read -r file line text; do
        header=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$text")
        [[ $header =~ ^($allowed) ]] ||
            breach "$file:$line: $folder may not include $header"
    done < <(sources "${code[@]/#/$folder/}" | xargs -r grep -nE '^#include "' /dev/null)
}
layer analyzer 'analyzer/'
layer store 'analyzer/|store/'
layer render 'analyzer/|render/'
layer hooks/recorder 'analyzer/|store/|hooks/recorder/'
# The trainer holds no SQLite: of the store it takes plain types and files.
# What the emulation puts in place of CUDA's own headers it has beside itself.
layer hooks/trainer 'analyzer/|store/(run|infile|outfile|leftover)\.h|hooks/|tests/emulation/'
layer cli 'analyzer/|store/|render/|cli/'
layer samples 'analyzer/|store/|hooks/|samples/'

# HEADER-REGEX FOLDER-REGEX: a third-party header and the place it lives in.
third_party() {
    local header=$1 place=$2
    while IFS=: read -r file line _; do
        [[ $file =~ ^($place) ]] ||
            breach "$file:$line: <$header> belongs in $place"
    done < <(sources "${code[@]}" |
        xargs -r grep -nE "^#include <($header)" /dev/null)
}
third_party 'sqlite3.h' 'store/|tests/'
third_party 'png.h|cairo' 'render/|tests/'
third_party 'fribidi' 'render/'
third_party 'gsl/' 'analyzer/statistics/'
third_party 'cblas.h' 'hooks/trainer/|tests/'
third_party 'jansson.h' 'hooks/trainer/|cli/alerts/alert.c|tests/'
third_party 'ini.h' 'cli/alerts/rules/'
third_party 'curl/' 'cli/alerts/delivery/'
third_party 'cmocka.h' 'tests/support/cmocka_all.h'
third_party 'cuda|vector_' 'hooks/trainer/cuda/|tests/gpu/|tests/emulation/'
third_party 'cublas' 'hooks/trainer/cuda/gemm.cu'

for script in tests/*/test_*.sh; do
    [ -x "$script" ] || breach "$script: is not executable"
done

while read -r lines file; do
    [ "$lines" -le 600 ] || breach "$file: $lines lines, 600 at most"
done < <(sources "${code[@]}" '*.sh' | xargs -r wc -l | grep -v ' total$')

long_functions() {
    sources '*.c' '*.cu' '*.cc' | grep -v '^tests/' |
        xargs -r ctags --langmap=C++:+.cu --languages=C,C++ --kinds-C=f \
            --kinds-C++=f --fields=+ne -o - --sort=no |
        awk -F'\t' '{
            line = ""; end = ""
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) line = substr($i, 6)
                if ($i ~ /^end:/) end = substr($i, 5)
            }
            if (end) print end - line + 1, $2, $1
        }' | sort -n
}
while read -r lines file name; do
    breach "$file: $name has $lines lines, 100 at most"
done < <(long_functions | awk '$1 > 100')
long_functions | awk '
    { n++; length_of[n] = $1 }
    END {
        if (!n) exit
        median = length_of[int((n + 1) / 2)]
        high = length_of[int(n * 0.95)]
        printf "functions: %d, median %d lines, 95%% within %d, longest %d\n",
            n, median, high, length_of[n]
        exit median > 20 || high > 60
    }' || breach 'functions: median above 20 lines or 95 % not within 60'

while IFS=: read -r file line _; do
    breach "$file:$line: wider than 80 columns"
done < <(sources "${code[@]}" | xargs -r grep -nE '^.{81,}' /dev/null)

forbidden() {
    while IFS=: read -r file line text; do
        breach "$file:$line: $2:$text"
    done < <(sources "${code[@]}" '*.sh' Makefile |
        grep -vE "^(tests/tools/lint.sh|${3:-})$" |
        xargs -r grep -nE "$1" /dev/null)
}
forbidden 'ffast-math|-Ofast' 'isnan() is dead under these flags'
forbidden '\b(TODO|FIXME|XXX)\b' 'unfinished'
# Compiler macros, attributes and builtins have them; ours have not.
forbidden '^#(define [A-Za-z]*__|ifndef [A-Za-z]+__)' 'double underscore in a name' \
    'tests/emulation/kernel_host.h|tests/gpu/fake_cublas.h'
forbidden '\balloca *\(|\bgets *\(|\bstrtok *\(' 'not here'

# Kernels share what ES_SHARED takes, which the emulation knows; nothing
# launches or calls without a check.
forbidden '\b__shared__\b' 'take ES_SHARED' \
    '(tests/emulation/kernel_host|hooks/trainer/cuda/kernel).h'
while read -r breach; do
    breach "$breach"
done < <(sources '*.cu' '*.cuh' '*.cc' 'hooks/trainer/cuda/*.h' |
    xargs -r tests/gpu/launches.sh)

# One by one only where something is wrong with one of many.
unformatted() { # FILE...
    clang-format --dry-run -Werror "$@" 2>/dev/null && return
    for file in "$@"; do
        clang-format --dry-run -Werror "$file" 2>/dev/null || echo "$file"
    done
}
export -f unformatted
while read -r file; do
    breach "$file: run make format"
done < <(sources "${code[@]}" |
    xargs -n 40 -P "$(nproc)" bash -c 'unformatted "$@"' unformatted)

[ $breaches -eq 0 ] || { echo "lint: $breaches breaches"; exit 1; }
echo "lint: clean"
