#!/usr/bin/env bash
# Checks `entropy-scan serve`: the command line, the requests of the page, live
# runs, and attacks.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
here=$PWD/tests/serve
export PYTHONDONTWRITEBYTECODE=1 BUILD=$bin PATH=$PATH
. tests/support/watching.sh

# --- the command line
mkdir runs
collapsing a && mv a.db runs || exit 1
exits 'serve without runs is refused' 2 'nothing to show' "$scan" serve
exits 'a missing folder is refused' 3 'nowhere: ' "$scan" serve --port 0 nowhere
exits 'another address needs a token file' 2 'give --token-file' "$scan" serve --bind 0.0.0.0 runs
exits 'an address must exist' 2 'bind: 300.1.2.3' "$scan" serve --bind 300.1.2.3 runs
exits 'a port must be a port' 2 'port' "$scan" serve --port 70000 runs
exits 'a base path begins with a slash' 2 'base-path' "$scan" serve --base-path x runs
echo 0123456789abcdef0123 >readable && chmod 644 readable
exits 'a token that others can read is refused' 2 'chmod 600 readable' "$scan" serve --token-file readable runs
echo short >short && chmod 600 short
exits 'a short token is refused' 2 'not a token' "$scan" serve --token-file short runs
python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
sys.stdin.read()' >port < <(sleep 100) &
holder=$!
until_true test -s port
exits 'a port in use is named' 3 "127.0.0.1:$(cat port): cannot listen: .*--port 0" "$scan" serve --port "$(cat port)" runs
kill $holder

if "$scan" serve --port 0 --until-eof runs </dev/null 2>&1 | grep -q libmicrohttpd; then
    skip 'serve needs libmicrohttpd' 'libmicrohttpd is not installed'
    finish
    exit
fi
relay requests python3 "$here/requests.py"
relay attacks python3 "$here/attacks.py"

# --- the sample for a login node
first=$(PATH=$bin:$PATH PORT=0 "$root/samples/cluster/serve.sh" runs)
same_text 'a second call prints the address of the page that is served' "$first" \
    "$(PATH=$bin:$PATH PORT=0 "$root/samples/cluster/serve.sh" runs)"
output 'the sample forwards the port of the page' '^ssh -N -L ([0-9]+):localhost:\1 ' echo "$first"
check 'the page of the sample can be opened' python3 -c 'import sys, urllib.request
urllib.request.urlopen(sys.argv[1].replace("?token=", "?embed="))' "${first##*$'\n'}"
kill "$(cat "$XDG_STATE_HOME/entropy-scan/serve.pid")"

# --- the sample for systemd
unit=$root/samples/cluster/entropy-scan-serve.service
if command -v systemd-analyze >/dev/null; then
    same_text 'systemd accepts the unit' '' "$(PATH=$bin:$PATH systemd-analyze verify "$unit" 2>&1)"
else
    skip 'systemd accepts the unit' 'systemd-analyze is not installed'
fi
mkdir home && ln -s ../runs home/runs
# systemd creates the folder for state files before it starts the service.
mkdir -p -m 700 state/entropy-scan
command=$(sed -n 's/^ExecStart=//p' "$unit" | sed "s|%h|$PWD/home|; s|%S|$PWD/state|; s|--port 6007|--port 0 --until-eof|")
output 'the command of the unit serves the runs' '^http://127.0.0.1:[0-9]+/\?token=' env PATH="$bin:$PATH" $command

corpus
relay live python3 "$here/live.py"
finish
