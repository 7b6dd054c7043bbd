#!/usr/bin/env bash
# Tests that entropy-scan serve shows the runs of a database, including runs
# that are added while it serves.
. tests/support/tap.sh
. tests/support/background.sh
. tests/support/postgres.sh
plan_dir
trap 'postgres_stop immediate; rm -rf "$dir"' EXIT
postgres_or_end 'runs of a database are shown'
export PYTHONDONTWRITEBYTECODE=1 BUILD=$bin PYTHONPATH=$root/tests/serve
cd "$dir"
mkdir one && cp "$root"/samples/runs/sm.db one/a.db
"$scan" push -q one --to "$postgres_url" || exit 1
if "$scan" serve --port 0 --until-eof one </dev/null 2>&1 | grep -q libmicrohttpd; then
    skip 'runs of a database are shown' 'libmicrohttpd is not installed'
else
    while IFS= read -r line; do
        case $line in
        'ok - '*) pass "${line#ok - }" ;;
        'not ok - '*) fail "${line#not ok - }" ;;
        *) echo "# $line" ;;
        esac
    done < <(python3 - "$postgres_url" "$root" 2>&1 <<'END' || echo "not ok - the requests fail"
import subprocess
import sys

from server import SCAN, Events, Server, blocks, check, until

url, root = sys.argv[1:]
server = Server(url)
until(lambda: server.listed()["n"] == 1)
run = server.listed()["runs"][0]
check("runs of a database are shown", run["name"] == "SM", run["path"])
(header, parts), = blocks(server.ask(f"api/series?run={run['key']}&name=entropy").body)
check("series are read from the database", header["n"] == 151 and header["columns"] == 12, header)
events = Events(server)
events.next()
subprocess.run([SCAN, "push", "-q", f"{root}/samples/runs/sm-ln-g.db", "--to", url], check=True)
data = events.find(lambda name, data: name == "runs" and data["n"] == 2)
check("a pushed run appears", len(data["changed"]) >= 1 and run["key"] in
      [one["key"] for one in server.listed()["runs"]], data)
events.close()
code, errors = server.end()
check("the server ends without messages", code == 0 and not errors, errors)
END
    )
fi
finish
