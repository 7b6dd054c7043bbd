# A training in the background of a shell test: . tests/background.sh
# $train is the program; `start` it with options, then wait for its progress.
patience=2400 # times 25 ms: how long anything may take

as=() # who: a command that becomes the one that follows it
start() { # OPTION...: $trainer, its progress in $dir/progress
    : >"$dir/progress"
    "${as[@]}" "$train" "$@" >"$dir/result" 2>"$dir/progress" &
    trainer=$!
}

ended() { ! kill -0 "$1" 2>/dev/null; }

until_true() { # COMMAND...: false if it does not become true
    local i
    for ((i = 0; i < patience; i++)); do
        "$@" && return 0
        sleep 0.025
    done
    return 1
}

done_steps() { grep -c '^step ' "$dir/progress"; }
reached() { [ "$(done_steps)" -ge "$1" ] || ended "$trainer"; }
await_step() { until_true reached "$1" && ! ended "$trainer"; }
