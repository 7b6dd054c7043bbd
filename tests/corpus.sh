# Something to train on, for shell tests: . tests/corpus.sh
write_source() { # FOLDER [FILES]: files of Python, the same every time
    local i
    mkdir -p "$1"
    for i in $(seq "${2:-40}"); do
        seq $((i * 7)) $((i * 13)) | sed 's/.*/x = &/' >"$1/m$i.py"
    done
}
