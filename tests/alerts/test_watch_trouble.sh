#!/usr/bin/env bash
# Tests entropy-scan watch with unreliable clocks, unreadable files, full disks
# and failing servers.
. tests/support/tap.sh
. tests/support/background.sh
plan_dir
. tests/support/watching.sh
unset CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR

reported() { grep -c 'collapse L1' "$1"; }
each_once() { # NAME FILE N: FILE has N alerts, none twice
    same_text "$1" "$3 $3" "$(reported "$2") $(sort -u "$2" | grep -c 'collapse L1')"
}
appear() { # FOLDER NAME: makes a complete run file at once
    collapsing "$2" && mv "$2.db" "$1/"
}

# --- clocks
mkdir clock
touch -d '2040-01-01' old && collapsing late && touch -r old late.db && mv late.db clock/
start_watching clock --poll 0.2 --textfile clock.prom
check 'a file with a future time is read' until_true grep -q late.db clock.out
collapsing early && touch -d '1980-01-01' early.db && mv early.db clock/
check 'a file with a very old time is read' until_true grep -q early.db clock.out
collapsing same && collapsing quiet 8 9
truncate -s "$(stat -c %s same.db)" quiet.db
touch -d '2001-02-03' quiet.db && cp -p quiet.db clock/changed.db
"$scan" watch --once clock/changed.db --state quiet.db.state >quiet.out 2>&1
look_again clock
cat same.db >clock/changed.db && touch -d '2001-02-03' clock/changed.db
check 'a file that changed without changing size and time is read' until_true grep -q changed.db clock.out
stop_watching
each_once 'each alert is delivered once' clock.out 3
sqlite3 "$(state_of clock)" "UPDATE alert SET at = '2099-01-01T00:00:00Z'; UPDATE delivery SET settled_at = '2099-01-01T00:00:00Z'"
same_text 'a state with future times is used' '' "$("$scan" watch --once clock)"

cat >shift.c <<'END_OF_C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *at)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("SHIFT"), "r") : NULL;
    long shift;
    if (file && fscanf(file, "%ld", &shift) == 1)
        at->tv_sec += shift;
    if (file)
        fclose(file);
    return result;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return at ? (*at = now.tv_sec) : now.tv_sec;
}
END_OF_C
if ldd "$scan" | grep libasan >/dev/null || nm -D "$scan" 2>/dev/null | grep asan >/dev/null ||
    ! gcc -shared -fPIC -o shift.so shift.c -ldl 2>/dev/null; then
    skip 'a clock that jumps' 'no compiler, or a sanitizer'
else
    mkdir jump
    echo 0 >offset
    around=(env LD_PRELOAD="$dir/shift.so" SHIFT="$dir/offset")
    start_watching jump --poll 0.2 --textfile jump.prom --exec 'sh -c "cat >>jump.alerts"'
    around=()
    is_ahead() { [ "$(sed -n 's/^entropy_scan_last_look_seconds \([0-9]*\).*/\1/p' jump.prom)" -gt $(($(date +%s) + 300000000)) ]; }
    appear jump now
    check 'an alert before the clock jumps is delivered' until_true grep -q now.db jump.out
    echo 400000000 >offset
    appear jump ahead
    check 'an alert after a jump years ahead is delivered' until_true grep -q ahead.db jump.out
    check 'the metrics follow the jump' until_true is_ahead
    echo -400000000 >offset
    appear jump back
    check 'an alert after a jump years back is delivered' until_true grep -q back.db jump.out
    check 'commands are run again after the jump too' until_true has_lines jump.alerts 3
    stop_watching
    each_once 'each alert is delivered once' jump.out 3
    same_text 'nothing is delivered again later' '' "$("$scan" watch --once jump)"
fi

# --- files
mkdir files
start_watching files --poll 0.2 --severity info --textfile files.prom
appear files a
check 'the first file is read' until_true grep -q a.db files.out
mv files/a.db aside.db
look_again files
mv aside.db files/a.db
collapsing b && touch -r files/a.db b.db && mv b.db files/a.db
check 'another file with the same time in its place is read' until_true has_lines files.out 2
same_text 'the first alert was delivered once' 2 "$(lines files.out)"
rm -r files
await 'the missing folder is reported' grep -q 'files: no such file' files.err
ended $watcher && fail 'the watcher survives the removal of its folder' || pass 'the watcher survives the removal of its folder'
mkdir files
collapsing c && mv c.db files/
check 'a folder that comes back is watched again' until_true grep -q c.db files.out
same_text 'the removal is reported once' 1 "$(grep -c 'files: no such file' files.err)"
collapsing d
copied_in_part() { # fails if the file is reported in less than 3 s: a copy may be in progress
    local begin=${EPOCHREALTIME/./} reported
    head -c 3000 d.db >files/d.db
    look_again files
    reported=$(grep d.db files.err)
    [ -z "$reported" ] || [ $((${EPOCHREALTIME/./} - begin)) -ge 3000000 ] || { echo "$reported"; return 1; }
}
check 'an incomplete file is not reported for three seconds' copied_in_part
check 'a file that stays incomplete is reported' until_true grep -q 'd.db: damaged' files.err
stop_watching
same_text 'each alert is delivered once' 3 "$(reported files.out)"

# Runs the watcher as a user who may not read the folder, even if root runs the
# test.
mkdir seen locked
appear locked inside
if [ "$(id -u)" = 0 ]; then
    around=(env XDG_STATE_HOME="$dir/seen/.state" "${other_user[@]}")
    chmod 755 . && chown 65534 seen locked
fi
if [ "$(id -u)" = 0 ] && ! other_user_can_run "$scan"; then
    around=()
    skip 'a folder that becomes unreadable' 'another user cannot run the programs here'
else
    start_watching seen locked --poll 0.2
    around=()
    check 'a readable folder is read' until_true grep -q inside.db seen.out
    chmod 0 locked
    check 'an unreadable folder is reported' until_true grep -q 'locked: cannot read: Permission denied' seen.err
    appear seen other
    check 'an unreadable folder does not hide the others' until_true grep -q other.db seen.out
    chmod 755 locked
    appear locked later
    check 'a file is read when it can be read again' until_true grep -q later.db seen.out
    stop_watching
    same_text 'the failure is reported once' 1 "$(grep -c 'cannot read' seen.err)"
    each_once 'each alert is delivered once' seen.out 3
fi

mkdir place
requested_stop() { # makes the alerts delivered so far stop their runs
    sqlite3 "$(state_of place)" "INSERT INTO delivery(alert_id, action) SELECT max(alert_id), 'stop' FROM alert"
    "$scan" watch --once place >/dev/null 2>place.err
}
collapsing one && mv one.db place/run.db
"$scan" watch --once place >/dev/null
requested_stop
check 'a run is requested to stop late' grep -q 'run.db .SM.: collapse' place/run.db.stop
rm place/run.db.stop
sqlite3 "$(state_of place)" "DELETE FROM delivery WHERE action = 'stop'"
collapsing two && mv two.db place/run.db
requested_stop
check 'the run that replaced it is not stopped' test ! -e place/run.db.stop
check 'the failure is reported' grep -q 'stop: .*run.db: now contains another run' place.err

# --- environment of the watcher
ignoring=(python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])')
mkdir ends
around=("${ignoring[@]}")
start_watching ends --poll 0.2 --exec false
around=()
appear ends a
check 'commands end although SIGCHLD was ignored' until_true grep -q 'exec: .*: exit code 1' ends.err
appear ends b
check 'the next line is printed' until_true grep -q b.db ends.out
stop_watching
mkdir pipe
appear pipe a
cat >pipe.py <<'END_OF_PY'
import glob, os, sqlite3, subprocess, sys, time
out, into = os.pipe()
os.set_blocking(into, False)
try:
    while True:
        os.write(into, b"." * 4096)
except BlockingIOError:
    pass
watcher = subprocess.Popen([sys.argv[1], "watch", "--once", "pipe"], stdout=into)
os.close(into)
for _ in range(2400): # until the line is about to be printed
    state = glob.glob(os.environ["XDG_STATE_HOME"] + "/entropy-scan/watch/pipe-*.state")
    try:
        if state and sqlite3.connect(state[0], timeout=60).execute(
                "SELECT * FROM delivery WHERE state = 'claimed'").fetchall():
            break
    except sqlite3.OperationalError: # the file is being created
        pass
    time.sleep(0.025)
text = b""
while piece := os.read(out, 1 << 16):
    text += piece
print(watcher.wait(), text.replace(b".", b"").decode().strip())
END_OF_PY
matches 'a full non-blocking pipe gets the whole line' '^0 .*collapse L1' "$(python3 pipe.py "$scan" 2>&1)"

# --- the state
mkdir state
appear state a
"$scan" watch --once state >state.out 2>&1
kept=$(state_of state)
cp "$kept" sound
damaged() { # NAME REGEX: the damaged state is reported and left alone
    cp "$kept" broken
    exits "$1" 3 "$2" "$scan" watch --once state
    check 'the foreign file is left as it is' cmp broken "$kept"
    cp sound "$kept"
}
dd if=/dev/urandom of="$kept" bs=1024 seek=4 count=12 conv=notrunc status=none
damaged 'a state with pages of noise is reported' 'state-[0-9a-f]+.state: damaged: .*: remove it: every alert is then reported again'
truncate -s 9000 "$kept"
damaged 'a truncated state is reported' 'state-[0-9a-f]+.state: damaged: .*: remove it'
echo noise | dd of="$kept" conv=notrunc status=none
damaged 'another kind of file is not used as a state' "state-[0-9a-f]+.state: not a watcher's state: name another file, or remove it"
start_watching state --poll 0.2 --textfile state.prom
look_again state
dd if=/dev/urandom of="$kept" bs=1024 seek=4 count=12 conv=notrunc status=none
appear state b
check 'a state damaged during the watch is reported' until_true grep -q 'damaged' state.err
look_again state
same_text 'the removal is reported once' 1 "$(grep -c 'damaged' state.err)"
rm "$kept"
check 'a removed state is made again' until_true grep -q b.db state.out
stop_watching
each_once 'delivered alerts are not delivered again' state.out 1

# The watcher has claimed the delivery of a line in its state file, but cannot
# print the line, because the pipe is full. When it can print the line at last,
# it cannot write the state file.
mkdir claimed
mkfifo lines
exec 9<>lines
head -c 65536 /dev/zero >&9
"$scan" watch claimed --poll 0.2 --textfile claimed.prom >&9 2>claimed.err &
watcher=$!
is_claimed() { [ "$(sqlite3 "$(state_of claimed)" "SELECT count(*) FROM delivery WHERE state = 'claimed'" 2>/dev/null)" = 1 ]; }
appear claimed a
check 'a line is claimed' until_true is_claimed
kept=$(state_of claimed)
head -c 30000 /dev/zero >"$kept"
head -c 65536 <&9 >/dev/null
read -r -t 60 line <&9
matches 'the claimed delivery is printed' 'a.db .SM.: collapse' "$line"
check 'a damaged state is reported' until_true grep -q "not a watcher's state\|damaged" claimed.err
look_again claimed
rm "$kept"
appear claimed b
read -r -t 60 line <&9
matches 'the watcher continues' 'b.db .SM.: collapse' "$line"
stop_watching
exec 9<&-

# Another user who may write to a watched folder can create a malicious state
# file in it, with deliveries that run commands and with a journal that names a
# file to be deleted.
mkdir shared
appear shared a
cat >prepare.py <<'END_OF_PY'
import shutil, sqlite3, struct, sys
state, other, victim = sys.argv[1:]
db = sqlite3.connect(other, isolation_level=None)
db.execute("INSERT INTO delivery(alert_id, action) SELECT alert_id, 'exec' FROM alert")
db.execute("INSERT INTO alert SELECT NULL, 'x', hex(zeroblob(99999)), path, uuid, name, arch, title, "
           "severity, onset, step, value, threshold, layers, '' FROM alert")
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE alert SET line = lower(hex(randomblob(99999)))")
shutil.copy(other, state)
shutil.copy(other + "-journal", state + "-journal")
db.execute("ROLLBACK")
name = victim.encode()
with open(state + "-journal", "ab") as journal:
    journal.write(struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)))
    journal.write(bytes.fromhex("d9d505f920a163d7"))
END_OF_PY
"$scan" watch --once shared --state other.db >/dev/null
echo precious >victim
old=shared/.entropy-watch.db
python3 prepare.py $old other.db "$dir/victim"
sum=$(cat $old* | cksum)
"$scan" watch --once shared --exec 'sh -c "cat >>shared.alerts"' >shared.out 2>shared.err
same_text 'a state in a watched folder is left alone' "$sum" "$(cat $old* | cksum)"
same_text 'no file is deleted because of a prepared journal' precious "$(cat victim)"
same_text 'no command is run again' '1 1' "$(lines shared.out) $(lines shared.alerts)"
same_text 'a note explains how to use the old state' \
    "entropy-scan: $dir/$old: this state file of an earlier version is not read, so its alerts are reported again; to continue with it, add --state $dir/$old" \
    "$(cat shared.err)"
same_text 'once' '' "$("$scan" watch --once shared 2>&1)"
exits 'an old state whose journal names another file is refused' 3 "$old: its -journal names another file" "$scan" watch --once shared --state $old
same_text 'a prepared state deletes no file' "precious $sum" "$(cat victim) $(cat $old* | cksum)"
rm $old-journal
mkfifo $old-journal
exits 'a FIFO in place of the state is not waited for' 3 "$old: its -journal is not a regular file" timeout 60 "$scan" watch --once shared --state $old
rm $old-journal
sqlite3 other.db ".backup $old"
sqlite3 $old "DELETE FROM delivery WHERE action = 'exec'; DELETE FROM alert WHERE id = 'x'"
same_text 'a valid old state is used if it is named' '' "$("$scan" watch --once shared --state $old 2>&1)"
sqlite3 $old "CREATE TRIGGER silence BEFORE INSERT ON alert BEGIN SELECT raise(IGNORE); END"
exits 'a state with a trigger is refused' 3 "not a watcher's state" "$scan" watch --once shared --state $old

# --- location of the state
mkdir places home
appear places a
place_of() { # VARIABLE... (as for env): prints the state that a watcher makes
    rm -rf home/* home/.local
    env -u XDG_STATE_HOME "$@" "$scan" watch --once places >/dev/null && find home -type f
}
matches 'without XDG_STATE_HOME the state is in HOME' '^home/.local/state/entropy-scan/watch/places-[0-9a-f]{24}.state$' \
    "$(place_of HOME="$dir/home")"
matches 'a relative XDG_STATE_HOME is ignored' '^home/.local/state/entropy-scan/' "$(place_of HOME="$dir/home" XDG_STATE_HOME=home)"
same_text 'the folders of the state are private' 700 "$(stat -c %a home/.local home/.local/state home/.local/state/entropy-scan{,/watch} | sort -u)"
exits 'without both variables --state is needed' 2 'neither XDG_STATE_HOME nor HOME .*: add --state FILE' env -u XDG_STATE_HOME -u HOME "$scan" watch --once places
exits 'a missing HOME is reported' 3 '/proc/none: .*No such file.*: add --state FILE' \
    env -u XDG_STATE_HOME HOME=/proc/none "$scan" watch --once places
mkdir -p open/entropy-scan && chmod 777 open/entropy-scan
exits 'a folder that others may write to is refused' 3 'open/entropy-scan: other users may write to it: chmod 700' \
    env XDG_STATE_HOME="$dir/open" "$scan" watch --once places
rmdir open/entropy-scan && ln -s "$dir/home" open/entropy-scan
exits 'a link instead of the folder is refused' 3 'open/entropy-scan: not a folder that belongs to this user' env XDG_STATE_HOME="$dir/open" "$scan" watch --once places
"$scan" watch --once places >/dev/null
ln -s places link
same_text 'a folder and its files share one state, by any path' '' \
    "$("$scan" watch --once link; "$scan" watch --once ./places/a.db; cd places && "$scan" watch --once a.db)"
mkdir places/deeper && mv places/a.db places/deeper && rm -r home && mv places home && mkdir places && mv home/deeper/a.db places
same_text 'a recreated folder uses its old state' '' "$("$scan" watch --once places)"
same_text 'another folder has another state' 1 "$("$scan" watch --once home places | wc -l)"

cat >disk.sh <<'END_OF_SH'
mount -t tmpfs -o size=160k none disk || exit 77
mkdir runs3
"$1" watch runs3 --state disk/state.db --poll 0.2 --textfile disk.prom >disk.out 2>disk.err &
watcher=$!
mv first.db runs3/
until_true grep -q first disk.out
dd if=/dev/zero of=disk/filler bs=1k status=none 2>/dev/null
mv second.db third.db runs3/
until_true test -s disk.err
look_again disk
wc -l <disk.err >disk.said
rm disk/filler
all_three() { [ "$(grep -c collapse disk.out)" = 3 ]; }
until_true all_three
kill $watcher; wait $watcher 2>/dev/null
"$1" watch --once runs3 --state disk/state.db >>disk.out
END_OF_SH
mkdir disk
export -f until_true await look_again differs
for name in first second third; do collapsing $name; done
alone() { # COMMAND...: runs it with separate mounts and limits
    unshare -Urm "$@" 2>/dev/null
}
if alone bash disk.sh "$scan"; then
    same_text 'a full disk is reported once' 1 "$(cat disk.said)"
    matches 'the full disk is named as the reason' 'disk/state.db: .*(No space left|full)' "$(cat disk.err)"
    each_once 'all alerts are delivered when the disk has space again' disk.out 3
else
    skip 'a full disk' 'no file system may be mounted here'
fi

# --- servers
mkdir server hooks
serve() { # [CERTIFICATE]: starts a server, on $PORT if set; sets $HOOK and $server
    rm -f server/port
    python3 "$root/tests/support/webhook.py" server "$@" &
    server=$!
    await 'the server listens' test -s server/port
    export HOOK="http${1:+s}://127.0.0.1:$(cat server/port)/hook"
}
stop_serving() {
    kill $server
    wait $server 2>/dev/null
}
serve
port=$(cat server/port)
stop_serving
start_watching hooks --poll 0.2 --webhook-env HOOK --webhook-timeout 5 --textfile hooks.prom
appear hooks a
check 'a missing server is reported' until_true grep -q 'webhook: .*: \(.*connect\)' hooks.err
appear hooks b
appear hooks c
echo 'stall 500 reset' >server/answers
PORT=$port serve
check 'a server that stalls, fails and resets gets all posts in the end' until_true has_lines server/posts 3
check 'a delivery after failures is reported' until_true grep -qE 'webhook: .*: delivered .failed attempts: [2-9]' hooks.err
await 'nothing is owed' grep -qF 'deliveries{state="owed"} 0' hooks.prom
same_text 'each post is made once' '3 3' "$(lines server/posts) $(cut -d' ' -f1 server/posts | sort -u | wc -l)"
same_text 'lines do not wait for the server' 3 "$(reported hooks.out)"
stop_watching
: >server/posts
echo 500 >server/answers
"$scan" watch --once hooks --state first.db --webhook-env HOOK >/dev/null 2>&1
same_text 'a post that fails does not block the others' '3 2' "$? $(lines server/posts)"
stop_serving

rm -f server/answers
: >server/posts
certificate() { # NAME ALTERNATIVE
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
        -addext "subjectAltName=$2" -keyout $1.key -out $1.pem 2>/dev/null && cat $1.key >>$1.pem
}
if command -v openssl >/dev/null && certificate own IP:127.0.0.1 && certificate other DNS:elsewhere.invalid; then
    post() { # STATE [VARIABLE...] (as for env)
        local state=$1
        shift
        env "$@" "$scan" watch --once hooks/a.db --state $state.db --webhook-env HOOK 2>&1 >/dev/null
        echo "exit $?"
    }
    serve own.pem
    matches 'an untrusted certificate is refused' 'webhook: .*ertificate.*still owed: 1.*exit 3' "$(post tls)"
    same_text 'nothing is posted with an untrusted certificate' 0 "$(lines server/posts)"
    matches 'CURL_CA_BUNDLE is used' 'delivered .failed attempts: 1.*exit 0' "$(post tls CURL_CA_BUNDLE="$dir/own.pem")"
    same_text 'SSL_CERT_FILE is used' 'exit 0' "$(post tls-file SSL_CERT_FILE="$dir/own.pem")"
    openssl rehash . 2>/dev/null
    same_text 'SSL_CERT_DIR is used' 'exit 0' "$(post tls-dir SSL_CERT_DIR="$dir")"
    matches 'another certificate does not make the server trusted' 'ertificate.*exit 3' "$(post tls-other CURL_CA_BUNDLE="$dir/other.pem")"
    stop_serving
    serve other.pem
    matches 'a certificate for another name is refused' '(ertificate|name).*exit 3' "$(post tls-name CURL_CA_BUNDLE="$dir/other.pem")"
    same_text 'only trusted servers get posts' 3 "$(lines server/posts)"
    stop_serving
else
    skip 'certificates' 'openssl is not installed'
fi

# --- changes that inotify does not report
cat >bell.sh <<'END_OF_SH'
echo "$2" >/proc/sys/user/$1 || exit 77
shift 2
exec "$@"
END_OF_SH
bell() { # NAME LIMIT NUMBER WORDS
    if ! alone bash bell.sh "$2" "$3" true; then
        skip "$1" 'limits cannot be set here'
        return
    fi
    mkdir -p "$2/deeper"
    around=(unshare -Ur bash bell.sh "$2" "$3")
    start_watching "$2" --poll 0.3 --textfile "$2.prom"
    around=()
    check "$1" until_true test -s "$2.err"
    appear "$2/deeper" a
    check 'a new file is found by polling' until_true grep -q a.db "$2.out"
    look_again "$2"
    matches 'the limit of inotify is reported' "$4: changes are noticed only at the next poll: $5" "$(cat "$2.err")"
    same_text 'the note appears once' 1 "$(lines "$2.err")"
    stop_watching
}
bell 'without inotify files are polled' max_inotify_instances 0 inotify 'too many watchers'
bell 'without a free inotify watch files are polled' max_inotify_watches 1 'max_inotify_watches/?[a-z]*' 'too many'

cat >overlay.sh <<'END_OF_SH'
mount -t tmpfs none layers && mkdir layers/low layers/high layers/work layers/seen &&
    mount -t overlay -o lowerdir=layers/low,upperdir=layers/high,workdir=layers/work none layers/seen || exit 77
cp one.db layers/low/
"$1" watch layers/seen --state seen.db --poll 0.5 >overlay.out 2>overlay.err &
watcher=$!
until_true grep -q one.db overlay.out
cp two.db layers/low/
until_true grep -q two.db overlay.out
kill $watcher
wait $watcher 2>/dev/null
true
END_OF_SH
mkdir layers
collapsing one && collapsing two
if alone bash overlay.sh "$scan"; then
    each_once 'changes that inotify does not report are found by polling' overlay.out 2
else
    skip 'changes that inotify does not report' 'no overlay can be mounted here'
fi
finish
