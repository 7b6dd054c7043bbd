#!/bin/sh
# Shows the runs of a group on one page, from the login node:
#
#     samples/cluster/serve.sh /shared/runs
#
# Prints the address of the page and the command that forwards its port. If the page
# is already served, prints the same address. Further options are passed to
# entropy-scan serve; PORT is the port (6007). The address contains a token: anyone
# with the token can read the runs, but no other files. To stop the server, run `kill
# $(cat ~/.local/state/entropy-scan/serve.pid)`.
set -eu
folder=$1
shift
port=${PORT:-6007}
state=${XDG_STATE_HOME:-$HOME/.local/state}/entropy-scan
umask 077
mkdir -p "$state"

# The server keeps the lock until it ends.
exec 9>"$state/serve.lock"
if flock --nonblock 9; then
    : >"$state/serve.address"
    setsid entropy-scan serve "$folder" --port "$port" --token-file "$state/serve.token" "$@" \
        >"$state/serve.address" 2>"$state/serve.log" </dev/null &
    echo $! >"$state/serve.pid"
    until [ -s "$state/serve.address" ]; do
        kill -0 $! 2>/dev/null || { cat "$state/serve.log" >&2; exit 3; }
        sleep 0.1
    done
fi
until [ -s "$state/serve.address" ]; do sleep 0.1; done
address=$(cat "$state/serve.address")
port=${address##*:}
port=${port%%/*}
echo "ssh -N -L $port:localhost:$port $(uname -n)"
echo "$address"
