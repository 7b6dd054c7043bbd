# Runs training in the background of a shell test.
# Usage: . tests/support/background.sh
# $train is the program; `start` starts it with options, and other functions
# wait for its progress.
as=() # prefix of the command line, for example to change the user
start() { # OPTION...: sets $trainer; its progress is in $dir/progress
    : >"$dir/progress"
    "${as[@]}" "$train" "$@" >"$dir/result" 2>"$dir/progress" &
    trainer=$!
}

done_steps() { grep -c '^step ' "$dir/progress"; }
reached() { [ "$(done_steps)" -ge "$1" ] || ended "$trainer"; }
# Waits until step N, waits SECONDS more, and pauses the training run, which finish_training
# resumes. If the run ends before it can be paused, which happens on a busy machine, returns $late.
late=75
await_step() { # N [SECONDS]; $steps is the number of all steps
    until_true reached "$1"
    [ -z "${2-}" ] || sleep "$2"
    kill -STOP "$trainer" 2>/dev/null && [ "$(done_steps)" -lt "$steps" ] && return
    finish_training
    [ "$outcome" = 0 ] || { echo "ended with $outcome:"; cat "$dir/progress"; return 1; }
    echo "all $steps steps are done"
    return $late
}
in_time() { # FUNCTION PATH...: repeats while FUNCTION returns $late; first removes PATH*
    local code try
    for ((try = 0; try < 20; try++)); do
        rm -rf "${2:?}"*
        "$@"
        code=$?
        [ $code = $late ] || break
    done
    return $code
}

finish_training() { # sets $outcome to the exit code; also works if training has ended
    kill -CONT "$trainer" 2>/dev/null
    until_true ended "$trainer" || { kill -9 "$trainer"; return 1; }
    wait "$trainer" 2>/dev/null
    outcome=$?
}

exited() { # CODE
    [ "$outcome" = "$1" ] ||
        { echo "exit code $outcome"; grep -v '^step ' "$dir/progress"; return 1; }
}
said() { # REGEX: matches a line of standard error
    grep -qE -- "$1" "$dir/progress" ||
        { echo "no /$1/ in:"; grep -v '^step ' "$dir/progress"; return 1; }
}

# Prints the result of the training run without its speed.
result() { sed -E 's/, [0-9]+ tokens.*//' "$dir/result"; }
same_result() { # the result equals $reference
    [ "$(result)" = "$reference" ] || { echo "result: $(result)"; return 1; }
}
