#!/usr/bin/env bash
# Tests run files with damaged samples. The samples must be shown as missing and
# reported in one line, with exit code 3 (4 if other files are readable) unless
# --salvage is given. Damage must never cause a false alert.
. tests/support/tap.sh
. tests/support/schema.sh
plan_dir
runs=$PWD/samples/runs
cd "$dir"

# A healthy run: entropies and losses decrease slightly over 60 steps.
awk 'BEGIN { print "step,layer,head,entropy,loss"
    for (step = 0; step < 60; step++) {
        print step ",,,," 3 - step / 100
        for (l = 0; l < 3; l++) for (h = 0; h < 2; h++)
            print step "," l "," h "," 1 + l / 4 + h / 8 - step / 200 ","
    } }' >run.csv
"$scan" import -q run.csv --ctx 64 -o sound.db || exit 1

spoil() { # FILE SERIES STEP: sets the sample's first value to a NaN
    cp sound.db "$1"
    sqlite3 "$1" "UPDATE sample SET value = (SELECT CAST(x'0000c07f' ||
        substr(value, 5) AS BLOB)) WHERE step = $3 AND series_id =
        (SELECT series_id FROM series WHERE name = '$2')"
}
spoil middle.db entropy 30
spoil last.db entropy 59
spoil loss.db loss 30
line='1 damaged sample \((entropy|loss) \(train\), step (30|59) first\): shown as missing'

# says NAME CODE COMMAND...: checks that the command exits with CODE, and that one line
# of its output matches $line, which reports the damage
says() {
    local name=$1 want=$2 text code
    shift 2
    text=$("$@" 2>&1 >/dev/null </dev/null)
    code=$?
    if [ $code -eq "$want" ] && [ "$(grep -cE "$line" <<<"$text")" = 1 ]; then
        pass "$name"
    else
        fail "$name" "exit $code, not $want: $text"
    fi
}

printf '[rule loss]\nseries = loss\naggregate = run\nabove = 100\n[rule heads]\nseries = entropy\naggregate = layer_max\nabove = 100\n' >rules.ini

json() { "$scan" --json "$@" 2>/dev/null; }
member() { grep -o "\"$1\":\[[^]]*\]" <<<"$2" | head -1; }

check 'a file without damage is accepted' "$scan" sound.db
for file in middle last loss; do
    says "$file: the table reports the damage" 3 "$scan" $file.db
    says "$file: --salvage changes the exit code to 0" 0 "$scan" --salvage $file.db
    says "$file: --json reports the damage" 3 "$scan" --json $file.db
    says "$file: one damaged file of several gives exit code 4" 4 "$scan" sound.db $file.db
    says "$file: --compare reports the damage" 4 "$scan" --compare sound.db $file.db
    says "$file: export reports the damage" 3 "$scan" export $file.db
    says "$file: export --salvage exits with 0" 0 "$scan" export --salvage $file.db
    says "$file: report reports the damage" 3 "$scan" report -q $file.db -o $file.html
    says "$file: --figure reports the damage" 3 "$scan" -q --figure timeline,loss $file.db -o "$dir"
    same_text "$file: damage raises no flag" '"flags":[]' "$(member flags "$(json $file.db)")"
    same_text "$file: watch raises no alert" '' "$("$scan" watch --once \
        --state $file.state $file.db 2>/dev/null)"
    says "$file: watch reports the damage" 3 "$scan" watch --once --check \
        --state $file.state $file.db
    says "$file: --rules reports the damage" 3 "$scan" --check --rules rules.ini $file.db
    same_text "$file: rules are not applied to a NaN" '' "$("$scan" -q --check --rules \
        rules.ini $file.db 2>&1 | grep -v 'damaged sample')"
done
says 'a figure reports damage in a series that the table does not read' 3 \
    "$scan" -q --step 0 --curves=curves.png last.db
same_text 'JSON lists the damaged sample' \
    '"damaged":[{"series":"entropy","phase":"train","step":30}]' \
    "$(member damaged "$(json middle.db)")"
shows() { "$scan" --salvage "$@" 2>/dev/null | sed -n 2p; } # the run's line of the table
for file in middle loss; do
    output "$file: a run with an intact end is ok" ' ok$' shows $file.db
done
output 'a run that ends damaged is not called ok' ' unknown \(damaged\)$' shows last.db
output 'JSON gives the reason for unknown flags' '"flags":\[\],"flags_state":"damaged"' \
    "$scan" --salvage --json last.db
same_text '--where flag=ok excludes a run that ends damaged' '' "$(shows --where flag=ok last.db)"
output '--where flag=unknown finds a run that ends damaged' ' unknown \(damaged\)$' shows --where flag=unknown last.db
same_text 'if the last step is damaged, no head is in a band' \
    '"counts":[0,0,0,0]' "$(grep -o '"counts":\[[^]]*\]' <<<"$(json last.db)")"

# Export must write NA for the damaged sample and leave all other bytes
# unchanged.
"$scan" export sound.db >sound.csv
"$scan" export --salvage loss.db >loss.csv 2>/dev/null
same_text 'export writes NA for a damaged sample' '30,,,,NA' \
    "$(diff <(grep -v '^#' sound.csv) <(grep -v '^#' loss.csv) | sed -n 's/^> //p')"

# --- edited rows are shown and reported
edit() { # FILE SQL
    cp sound.db "$1"
    sqlite3 "$1" "$2"
}
edit renamed.db "UPDATE run SET name = 'better'"
edit config.db "UPDATE run SET config = '{\"layers\": ['"
edit lost.db "INSERT INTO event(run_id, step, kind, severity, data, at) VALUES(1, 29, 'log', 3, '{\"lost\":30}', '')"
line='renamed.db: 1 row \(run 1\) is not as recorded: edited by hand, or damaged'
says 'an edited row: the table reports it' 3 "$scan" renamed.db
says 'an edited row: --salvage changes the exit code to 0' 0 "$scan" --salvage renamed.db
says 'an edited row: in one file of several it gives exit code 4' 4 "$scan" sound.db renamed.db
says 'an edited row: export reports it' 3 "$scan" export renamed.db
says 'an edited row: report reports it' 3 "$scan" report -q renamed.db -o renamed.html
says 'an edited row: merge reports it' 3 "$scan" merge -q renamed.db -o renamed-all.db
output 'an edited row is shown with its new values' better "$scan" --salvage renamed.db
same_text 'JSON lists the edited row' '"damaged":[{"row":"run","id":1,"step":null,"step_state":"missing"}]' \
    "$(member damaged "$(json renamed.db)")"
sqlite3 renamed.db 'DELETE FROM row_checksum'
check 'the command in the message accepts the edit' "$scan" renamed.db
line='config.db: run 1: config is not a JSON object: its settings, layers and planned steps are unknown'
says 'an invalid configuration is reported' 3 "$scan" config.db
line='lost.db: 30 recorded frames up to step 29 are lost: the file or its log was removed'
says 'lost frames: the table reports them' 3 "$scan" lost.db
says 'lost frames: --salvage changes the exit code to 0' 0 "$scan" --salvage lost.db
says 'lost frames: --check reports them' 3 "$scan" --check lost.db
says 'lost frames: report reports them' 3 "$scan" report -q lost.db -o lost.html
says 'lost frames: export reports them' 3 "$scan" export lost.db
says 'lost frames: watch reports them' 3 "$scan" watch --once --check --state lost.state lost.db
same_text 'JSON has the number of lost frames' '"damaged":[{"lost":30,"step":29}]' \
    "$(member damaged "$(json lost.db)")"
line='1 damaged sample \((entropy|loss) \(train\), step (30|59) first\): shown as missing'

# For a damaged sample merge must write missing values and an event. It must not
# write the damaged value with a valid checksum.
says 'merge reports the damage' 3 "$scan" merge -q middle.db -o all.db
"$scan" import -q run.csv --ctx 64 -o other.db # another run
says 'merge of several files reports the damage' 4 "$scan" merge -q other.db middle.db -o several.db
says 'merge --salvage exits with 0' 0 "$scan" merge -q --salvage middle.db -o all.db
check 'the merged file is intact' "$scan" all.db
same_text 'the merged file has an event for the damaged sample' 'damaged|30' \
    "$(sqlite3 all.db "SELECT kind, step FROM event WHERE kind = 'damaged'")"
same_text 'the merged file has missing values for the damaged sample' a207c07fa207c07fa207c07fa207c07fa207c07fa207c07f \
    "$(sqlite3 all.db "SELECT lower(hex(value)) FROM sample WHERE step = 30
        AND length(value) = 24")"

# --- a flipped bit changes the exit code, or nothing
flip() { # FILE BYTE BIT
    printf "\\$(printf %o $(($(od -An -tu1 -j "$2" -N1 "$1") ^ 1 << $3)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
values() { # FILE: prints its samples without comments
    "$scan" export "$1" 2>/dev/null | grep -v '^#'
    return "${PIPESTATUS[0]}"
}
values sound.db >want
size=$(stat -c %s sound.db) n=0 seen=0 silent=
for ((byte = 4096; byte < size; byte += 211)); do
    cp sound.db flipped.db
    flip flipped.db $byte $((byte % 8))
    n=$((n + 1))
    if ! values flipped.db >got; then
        seen=$((seen + 1))
    elif ! cmp -s want got; then
        silent="$silent $byte"
    fi
done
if [ -z "$silent" ] && [ $seen -gt $((n / 20)) ]; then
    pass "$n flips: $seen reported, none changed the values silently"
else
    fail "of $n flips $seen were reported" "unreported changes at bytes$silent"
fi

# --- schema 1
cp "$runs/sm.db" old.db
to_schema_1 old.db
output 'JSON says that schema 1 has no checksums' '"checksums":false' \
    "$scan" --json old.db
check 'a file of schema 1 is accepted' "$scan" old.db "$runs/sm-ln-g.db"
output 'JSON says that schema 2 has checksums' '"checksums":true' "$scan" --json "$runs/sm.db"
"$scan" merge -q old.db -o two.db
same_text 'a file of schema 1 is merged into schema 2' 2 "$(sqlite3 two.db 'PRAGMA user_version')"
same_text 'the merged file has the values of the file of schema 1' "$("$scan" export old.db | md5sum)" \
    "$("$scan" export two.db | md5sum)"
same_text 'the values equal those of the original run' "$("$scan" export "$runs/sm.db" | md5sum)" \
    "$("$scan" export two.db | md5sum)"
finish
