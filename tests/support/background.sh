# A training in the background of a shell test: . tests/support/background.sh
# $train is the program; `start` it with options, then wait for its progress.
as=() # who: a command that becomes the one that follows it
start() { # OPTION...: $trainer, its progress in $dir/progress
    : >"$dir/progress"
    "${as[@]}" "$train" "$@" >"$dir/result" 2>"$dir/progress" &
    trainer=$!
}

done_steps() { grep -c '^step ' "$dir/progress"; }
reached() { [ "$(done_steps)" -ge "$1" ] || ended "$trainer"; }
# The training stands still after step N and SECONDS more, until it is to finish. On a
# busy machine it may have ended by itself before it was looked at: that is $late.
late=75
await_step() { # N [SECONDS]; $steps are its last
    until_true reached "$1"
    [ -z "${2-}" ] || sleep "$2"
    kill -STOP "$trainer" 2>/dev/null && [ "$(done_steps)" -lt "$steps" ] && return
    finish_training
    [ "$outcome" = 0 ] || { echo "ended with $outcome:"; cat "$dir/progress"; return 1; }
    echo "all $steps steps are done"
    return $late
}
in_time() { # FUNCTION PATH...: again while it is late, without what begins with PATH
    local code try
    for ((try = 0; try < 20; try++)); do
        rm -rf "${2:?}"*
        "$@"
        code=$?
        [ $code = $late ] || break
    done
    return $code
}

finish_training() { # also one that has ended: its exit code in $outcome
    kill -CONT "$trainer" 2>/dev/null
    until_true ended "$trainer" || { kill -9 "$trainer"; return 1; }
    wait "$trainer" 2>/dev/null
    outcome=$?
}

exited() { # CODE
    [ "$outcome" = "$1" ] ||
        { echo "exit code $outcome"; grep -v '^step ' "$dir/progress"; return 1; }
}
said() { # REGEX on standard error
    grep -qE -- "$1" "$dir/progress" ||
        { echo "no /$1/ in:"; grep -v '^step ' "$dir/progress"; return 1; }
}

# Everything that the last line says, except for the speed.
result() { sed -E 's/, [0-9]+ tokens.*//' "$dir/result"; }
same_result() { # as $reference
    [ "$(result)" = "$reference" ] || { echo "result: $(result)"; return 1; }
}
