# Prints TAP in shell tests.
# Usage: . tests/support/tap.sh; plan_dir; check ...; finish
# $root is the repository, $bin the folder of the programs.
set -uo pipefail
count=0
root=$PWD
export BUILD=${BUILD:-build}
case $BUILD in /*) bin=$BUILD ;; *) bin=$root/$BUILD ;; esac
scan=$bin/entropy-scan train=$bin/entropy-train corpus=$bin/entropy-corpus

sanitizer_runtime() { # prints the path of the runtime that $CC links
    case $CC in
    *clang*) $CC -print-file-name=libclang_rt.asan-x86_64.so ;;
    *) $CC -print-file-name=libasan.so ;;
    esac
}

# Makes sqlite3 load the sanitizer's runtime first, which is necessary if it loads a
# library that is built with a sanitizer. Call after plan_dir.
sanitized_sqlite3() {
    [ -n "${SAN-}" ] || return 0
    mkdir "$dir/sanitized"
    printf '#!/bin/sh\nLD_PRELOAD=%s ASAN_OPTIONS=detect_leaks=0 exec %s "$@"\n' \
        "$(sanitizer_runtime)" "$(type -P sqlite3)" >"$dir/sanitized/sqlite3"
    chmod +x "$dir/sanitized/sqlite3"
    PATH=$dir/sanitized:$PATH
}

# Runs sqlite3 with a timeout for locks, because a recorder locks its file
# exclusively for a moment when it closes the file.
sqlite3() { command sqlite3 -cmd '.timeout 10000' "$@"; }

plan_dir() { # sets $dir to a new folder, which is removed at the end
    dir=$(mktemp -d)
    export XDG_STATE_HOME=$dir/.state # keeps the state of watchers out of HOME
    trap 'rm -rf "$dir"' EXIT
}

pass() {
    count=$((count + 1))
    echo "ok $count - $1"
}

fail() { # NAME [WHY]
    count=$((count + 1))
    echo "not ok $count - $1"
    [ $# -lt 2 ] || sed 's/^/# /' <<<"$2"
}

skip() { # NAME WHY
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# Runs a program that prints "ok - name" or "not ok - name", and passes on its results.
relay() { # NAME COMMAND...
    local line name=$1
    shift
    while IFS= read -r line; do
        case $line in
        'ok - '*' # SKIP '*) line=${line#ok - } && skip "${line%% # SKIP *}" "${line#* # SKIP }" ;;
        'ok - '*) pass "${line#ok - }" ;;
        'not ok - '*) fail "${line#not ok - }" ;;
        *) echo "# $line" ;;
        esac
    done < <("$@" 2>&1 || echo "not ok - $name: ended with exit code $?")
}

check() { # NAME COMMAND...: passes if the command succeeds
    local name=$1 text code
    shift
    text=$("$@" 2>&1 </dev/null)
    code=$?
    if [ $code -eq 0 ]; then pass "$name"; else fail "$name" "exit $code: $text"; fi
}

same_text() { # NAME WANT GOT
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "$3"; fi
}

exits() { # NAME CODE REGEX COMMAND...: checks the exit code and the errors; sets $errors
    local name=$1 want=$2 regex=$3 code
    shift 3
    errors=$("$@" 2>&1 >/dev/null </dev/null)
    code=$?
    if [ $code -ne "$want" ]; then
        fail "$name" "exit $code, not $want: $errors"
    elif ! grep -qE -- "$regex" <<<"$errors"; then
        fail "$name" "no /$regex/ in: $errors"
    else
        pass "$name"
    fi
}

output() { # NAME REGEX COMMAND...: passes if COMMAND succeeds and its output matches
    local name=$1 regex=$2 text code
    shift 2
    text=$("$@" 2>/dev/null </dev/null)
    code=$?
    if [ $code -eq 0 ] && grep -qE -- "$regex" <<<"$text"; then
        pass "$name"
    else
        fail "$name" "exit $code, no /$regex/ in: $text"
    fi
}

file_has() { # NAME FILE REGEX...: passes if each REGEX matches a line
    local name=$1 file=$2 word
    shift 2
    for word; do
        grep -qE -- "$word" "$file" || {
            fail "$name" "no /$word/ in $file:
$(tail -n 5 "$file")"
            return
        }
    done
    pass "$name"
}

# Waits until COMMAND succeeds, by running it every 25 ms, with at most 60 s of sleep
# in total. The limit does not include the time that COMMAND takes, so a busy
# machine has more time.
until_true() { # COMMAND...: fails if COMMAND does not succeed in time
    local i
    for ((i = 0; i < 2400; i++)); do
        "$@" && return 0
        sleep 0.025
    done
    return 1
}

await() { # WHAT COMMAND...: fails, naming WHAT, if COMMAND does not succeed in time
    local what=$1
    shift
    until_true "$@" >/dev/null 2>&1 || fail "within 60 s: $what" "$("$@" 2>&1)"
}

ended() { ! kill -0 "$1" 2>/dev/null; } # PID
has_used() { # TICKS PID: the process has used TICKS/100 s of CPU time, or has ended
    local fields
    ended "$2" || { read -ra fields <"/proc/$2/stat" && [ "${fields[13]}" -ge "$1" ]; } 2>/dev/null
}

# Prefix that runs a command as a user who owns no files, without root's
# capabilities.
other_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
other_user_can_run() { "${other_user[@]}" sh -c '"$0" --version' "$1" >/dev/null 2>&1; } # PROGRAM

finish() { echo "1..$count"; }
