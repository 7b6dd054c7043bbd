#!/usr/bin/env bash
# Checks rules that a compiler does not check: which folders may include which headers of
# this project and of other projects, the size of files and functions, format, and words
# and phrases that must not appear. Prints each breach; exits with 1 if any.
set -uo pipefail
cd "$(dirname "$0")/../.."

breaches=0
breach() {
    echo "lint: $*"
    breaches=$((breaches + 1))
}

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }
# The sources in C, and the CUDA back-end's sources in C++, which follow the same
# rules.
code=('*.[ch]' '*.cu' '*.cuh' '*.cc')

# layer FOLDER REGEX [FILES]: checks that files of the folder include only project
# headers whose path matches REGEX. Files whose path matches FILES are not checked.
layer() {
    local folder=$1 allowed=$2 exempt=${3:-^$}
    while IFS=: read -r file line text; do
        header=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$text")
        [[ $header =~ ^($allowed) ]] ||
            breach "$file:$line: $folder may not include $header"
    done < <(sources "${code[@]/#/$folder/}" | grep -vE "$exempt" |
        xargs -r grep -nE '^#include "' /dev/null)
}
# The code that repeats the papers' experiments (hooks/trainer, analyzer/cost,
# analyzer/polynomial) records and reads runs like any program, through entropyscan.h. No
# other folder includes its headers, except where entropy-scan estimates the cost of
# private inference. tests/emulation replaces CUDA's headers.
product='analyzer/(base|arch|heads|entropy|flags|statistics)/'
costs='^cli/(cost/|runs/model\.[ch]$)'
layer hooks/trainer 'analyzer/(base|arch|heads|cost|polynomial)/|hooks/(trainer/|entropyscan\.h)|tests/emulation/'
layer analyzer/cost 'analyzer/(base|arch|cost)/'
layer analyzer/polynomial 'analyzer/(base|arch|polynomial)/'
layer analyzer "$product" '^analyzer/(cost|polynomial)/'
layer store "$product|store/"
layer render "$product|render/"
layer hooks/recorder "analyzer/(base|arch|heads|entropy)/|store/|hooks/recorder/"
layer cli "$product|store/|render/|cli/" "$costs"
layer cli 'analyzer/|store/|render/|cli/'
layer samples "$product|store/|hooks/entropyscan\.h|samples/"

# third_party HEADER-REGEX FOLDER-REGEX: checks that only these folders include
# a third-party header.
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
third_party 'dnnl|oneapi' 'hooks/trainer/cpu/products_onednn.c'
third_party 'jansson.h' 'hooks/trainer/|cli/exchange/import_(history|document).c|tests/'
third_party 'ini.h' 'cli/alerts/rules/'
third_party 'libpq' 'tests/'
third_party 'yaml.h' 'cli/sweep/wandb.c'
third_party 'curl/' 'cli/alerts/delivery/'
third_party 'microhttpd.h' 'cli/serve/http/'
third_party 'cmocka.h' 'tests/support/cmocka_all.h'
third_party 'cuda|vector_' 'hooks/trainer/cuda/|tests/gpu/|tests/emulation/'
third_party 'cublas' 'hooks/trainer/cuda/gemm.cu'

# Checks that the sources named in documents exist.
while IFS=: read -r page line name; do
    name=${name//\`/}
    [[ $name == _*.c ]] && continue # the ending of several names
    sources "*/${name##*/}" "${name##*/}" | grep -q . || breach "$page:$line: no such source: $name"
done < <(git ls-files '*.md' ':!CHANGELOG.md' ':!samples/results/*' | xargs grep -noE '`[a-z0-9_/]+\.(c|h|cu|cuh|cc|py|sh)`' /dev/null)

# Checks that the functions named in the section "Three walks" of CONTRIBUTING.md exist.
for name in $(sed -n '/^## Three walks/,/^## Words/p' CONTRIBUTING.md | grep -oE '`es_[a-z_]+`' | tr -d '`'); do
    sources '*.c' | xargs grep -qE "^[a-z_].*\b$name\(" || breach "CONTRIBUTING.md: no such function: $name"
done

for script in tests/*/test_*.sh; do
    [ -x "$script" ] || breach "$script: is not executable"
done

while read -r lines file; do
    [ "$lines" -le 1500 ] || breach "$file: $lines lines, 1500 at most"
done < <(sources "${code[@]}" '*.sh' '*.py' '*.js' '*.mk' Makefile | xargs -r wc -l | grep -v ' total$')

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
    done < <(sources "${code[@]}" '*.sh' '*.mk' Makefile |
        grep -vE "^(tests/tools/lint.sh|${3:-})$" |
        xargs -r grep -nE "$1" /dev/null)
}
forbidden 'ffast-math|-Ofast' 'isnan() is dead under these flags'
forbidden '\b(TODO|FIXME|XXX)\b' 'unfinished'
# C reserves names with double underscores for compilers.
forbidden '^#(define [A-Za-z]*__|ifndef [A-Za-z]+__)' 'double underscore in a name' \
    'tests/emulation/kernel_host.h|tests/gpu/fake_cublas.h'
forbidden '\balloca *\(|\bgets *\(|\bstrtok *\(' 'not here'

# Kernels declare shared memory with ES_DYNAMIC_SHARED, which the emulation
# supports; the result of every kernel launch and runtime call is checked.
forbidden '\b__shared__\b' 'take ES_DYNAMIC_SHARED' \
    '(tests/emulation/kernel_host|hooks/trainer/cuda/kernel).h'
while read -r breach; do
    breach "$breach"
done < <(sources '*.cu' '*.cuh' '*.cc' 'hooks/trainer/cuda/*.h' |
    xargs -r tests/gpu/launches.sh)

# Checks that no file refers to test data outside of the repository.
while IFS=: read -r file line text; do
    breach "$file:$line: data outside of the repository:$text"
done < <(sources '*' | xargs -r grep -nIE '\bES_[S]HARED\b|\.\./[s]hared\b' /dev/null)

# --- a ratchet -----------------------------------------------------------------

# tests/tools/lint.allowed has lines "CHECK N", which allow at most N breaches
# of a check; a check without a line allows no breach. The numbers may only
# decrease.
ratchet() { # CHECK: breaches on standard input
    local check=$1 lines n limit
    lines=$(grep .)
    n=$(grep -c . <<<"$lines")
    limit=$(awk -v check="$check" '$1 == check { print $2 }' tests/tools/lint.allowed)
    if [ "$n" -gt "${limit:-0}" ]; then
        breach "$check: $n, ${limit:-0} at most:"
        sed 's/^/    /' <<<"$lines"
    elif [ "$n" -lt "${limit:-0}" ]; then
        echo "lint: $check: $n are left of $limit: lower it in tests/tools/lint.allowed"
    fi
}

# Every source begins with a comment that says what it does and for whom.
ratchet head-comment < <(sources '*.c' '*.cu' '*.cc' | while read -r file; do
    [[ $(head -c 2 "$file") =~ ^/[*/] ]] || echo "$file"
done)

# No two files may define a type or an external function of the same name.
program() { sources "${code[@]}" | grep -vE '^(tests|samples)/'; }
twice() { # reads ctags' lines, prints names that two files define
    awk -F'\t' '$1 ~ /^es_/ { print $1, $2, $4 }' | sort -u |
        awk '{ key = $1 " (" $3 ")"; n[key]++; files[key] = files[key] " " $2 }
            END { for (key in n) if (n[key] > 1) print key ":" files[key] }' | sort
}
ratchet type-twice < <(program | xargs -r ctags --langmap=C++:+.cu \
    --languages=C,C++ --kinds-C=sgut --kinds-C++=sgutc --fields=k -o - --sort=no |
    twice)
# without_gsl.c is excluded: it replaces the functions of GSL in builds without
# it.
ratchet function-twice < <(program | grep '\.c$' | grep -vE 'without_(gsl|microhttpd).c' | xargs -r ctags --languages=C \
    --kinds-C=f --fields=k --extras=-F -o - --sort=no | twice)

# Includes must not form a cycle between folders or files. FILE.c, FILE.h and
# FILE_internal.h count as one file.
on_circles() { # reads pairs "A B", prints names on a cycle
    tsort 2>&1 >/dev/null | grep -v 'contains a loop' | sed -n 's/^tsort: //p' | sort -u
}
includes() {
    program | xargs -r grep -E '^#include "' /dev/null |
        sed -E 's/^([^:]+):#include "([^"]+)".*/\1 \2/'
}
ratchet folder-circle < <(includes | sed -E 's,/[^/ ]+ , ,; s,/[^/ ]+$,,' |
    awk '$1 != $2' | sort -u | on_circles)
ratchet file-circle < <(includes | sed -E 's/(_internal)?\.[a-z]+ / /; s/(_internal)?\.[a-z]+$//' |
    awk '$1 != $2' | sort -u | on_circles)

# Comments must not refer to documents outside the repository.
ratchet outside-document < <(sources "${code[@]}" '*.sh' '*.py' '*.js' |
    grep -v '^tests/tools/lint.sh$' | xargs -r grep -niE \
    '\bdesign, (section|[0-9])|\bspec/model|/work/|\bdesign\.md|style\.md' /dev/null)

# Words that must not appear in texts and names of this project
# (CONTRIBUTING.md).
words='\b(told|tells?|telling|asked|asks|asking)\b|\brooms?\b|\bway back\b'
words+='|\bwish(es)?\b|_(told|asked|room|wish|wishes)\b|\b(told|asked|room|wish|wishes)_'
# Phrases that must not appear in comments, messages and documents.
phrases='(?<!there )\b(is|are|was|were|be) none\b|\bnone of (a|these|ours)\b|\b(is|are) such\b'
phrases+='|\b(go(es|ne|ing)?|went) on with\b|\b(nobody|somebody|whoever|everybody|whom)\b'
phrases+='|\b(hold|held|holds) (it |them |the [a-z]+ )?against\b|\bis another one\b'
phrases+='|\b(is|are) one of its own\b|\bby turns\b|\bever (fewer|more|less)\b'
phrases+='|\b(is|are|was|were) (looked for|gone on|heard of)\b|\b(is|are|be) had\b'
phrases+='|(/\*+|^ *\*|//|#) *(Of|Whether|Who) [a-z]'
for folder in analyzer store render hooks cli samples tests; do
    ratchet "words-$folder" < <(
        sources "${code[@]/#/$folder/}" "$folder/*.sh" "$folder/*.py" "$folder/*.js" |
            grep -v '^tests/tools/lint.sh$' | xargs -r grep -nE "$words" /dev/null)
    ratchet "phrases-$folder" < <(
        sources "${code[@]/#/$folder/}" "$folder/*".{sh,py,js,md,mk} |
            grep -v '^tests/tools/lint.sh$' | xargs -r grep -nP "$phrases" /dev/null)
done
ratchet phrases < <(sources ':(glob)*.md' Makefile .ci/run | grep -v CONTRIBUTING.md |
    xargs -r grep -nP "$phrases" /dev/null)

# Checks that the subjects of commits after $since have at most 72 characters.
since=b5803a2
if git cat-file -e "$since^{commit}" 2>/dev/null; then
    ratchet commit-subject < <(git log --no-merges --format='%h %s' "$since..HEAD" |
        awk 'length($0) > length($1) + 1 + 72')
fi

# Prints the files that are not formatted. First checks all files together, and
# only if this fails each file separately.
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
