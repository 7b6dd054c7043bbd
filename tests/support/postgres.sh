# Starts a private PostgreSQL 15 server for a test. Use:
# . tests/support/postgres.sh
#
#     postgres_missing      prints the reason why this machine cannot run a server,
#                           or nothing
#     postgres_or_end NAME  starts a server in $dir/server, or ends the script with
#                           the test NAME skipped if this machine cannot run one
#     postgres_start DIR    starts a server on a free port of 127.0.0.1 with its
#                           data in DIR/data; returns false on failure: see DIR/log
#     postgres_stop [MODE]  stops the server: fast, smart, or immediate, which is a
#                           crash
#     postgres_again        starts the same server after postgres_stop
#
# After postgres_start, libpq's variables (PGHOST, PGPORT, PGUSER, PGPASSWORD,
# PGDATABASE) and $postgres_url, which has no password, name the server. The
# server runs as an unprivileged user and ends with the shell that started it,
# even if the shell is killed. Other PostgreSQL servers on this machine are not
# used.

postgres_find() { # prints the folder of the server's programs
    local folder
    for folder in /usr/lib/postgresql/15/bin /usr/lib/postgresql/*/bin; do
        [ -x "$folder/postgres" ] && { echo "$folder"; return; }
    done
    return 1
}

postgres_missing() {
    postgres_find >/dev/null || { echo 'postgresql is not installed'; return; }
    [ "$(id -u)" != 0 ] || id -u postgres >/dev/null 2>&1 ||
        echo 'there is no user postgres'
}

# Replaces this process by COMMAND, run as the unprivileged user. When this
# shell ends, COMMAND gets SIGQUIT, which ends a server at once.
postgres_as() {
    local rights=()
    [ "$(id -u)" != 0 ] ||
        rights=(--reuid postgres --regid "$(id -g postgres)" --clear-groups)
    exec setpriv "${rights[@]}" --pdeathsig QUIT "$@"
}

postgres_port() { # prints a free port, below the ephemeral ports
    python3 - <<'END'
import random, socket
while True:
    port = random.randrange(20000, 32000)
    with socket.socket() as end:
        try:
            end.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
END
}

postgres_is_up() { psql -qAtc 'SELECT 1' -d postgres >/dev/null 2>&1 || ended "$postgres_pid"; }
postgres_again() {
    (cd "$postgres_dir" && postgres_as "$(postgres_find)/postgres" -D "$postgres_dir/data" \
        -h 127.0.0.1 -p "$PGPORT" -k '' </dev/null >>"$postgres_dir/log" 2>&1) &
    postgres_pid=$!
    until_true postgres_is_up && ! ended "$postgres_pid"
}

postgres_start() { # DIR
    postgres_dir=$1
    export PGHOST=127.0.0.1 PGPORT PGUSER=es PGPASSWORD=open-sesame PGDATABASE=runs
    unset PGSERVICE PGSERVICEFILE PGPASSFILE PGOPTIONS PGHOSTADDR
    PGPORT=$(postgres_port)
    postgres_url=postgresql://es@127.0.0.1:$PGPORT/runs
    mkdir -p "$postgres_dir"
    echo "$PGPASSWORD" >"$postgres_dir/password"
    if [ "$(id -u)" = 0 ]; then
        chmod a+x "$(dirname "$postgres_dir")" "$postgres_dir"
        chown -R postgres: "$postgres_dir"
    fi
    (cd "$postgres_dir" && postgres_as "$(postgres_find)/initdb" -D "$postgres_dir/data" -U es \
        --pwfile="$postgres_dir/password" -A scram-sha-256 -E UTF8 --locale=C.UTF-8 \
        --no-sync --no-instructions >"$postgres_dir/log" 2>&1) || return
    postgres_again && psql -qc "CREATE DATABASE $PGDATABASE" -d postgres
}

postgres_stop() { # [MODE]
    local signal
    case ${1:-fast} in
    smart) signal=TERM ;;
    fast) signal=INT ;;
    immediate) signal=QUIT ;;
    esac
    kill -s "$signal" "${postgres_pid-}" 2>/dev/null
    wait "${postgres_pid-}" 2>/dev/null
    return 0
}

postgres_or_end() { # NAME
    local missing
    missing=$(postgres_missing)
    if [ -n "$missing" ]; then
        skip "$1" "$missing"
    else
        postgres_start "$dir/server" && return
        fail 'a server starts' "$(cat "$dir/server/log")"
    fi
    finish
    exit
}
