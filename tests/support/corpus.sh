# Makes training data for shell tests: . tests/support/corpus.sh
write_source() { # FOLDER [FILES]: writes Python files, always the same
    local i
    mkdir -p "$1"
    for i in $(seq "${2:-40}"); do
        seq $((i * 7)) $((i * 13)) | sed 's/.*/x = &/' >"$1/m$i.py"
    done
}

own_corpus() { # FILE: writes tokens of this project's C files, which are copied to files *.py
    local source file code=0
    source=$(mktemp -d)
    for file in analyzer/*/*.c store/*.c store/*/*.c; do
        cp "$file" "$source/$(basename "$file" .c).py"
    done
    "$BUILD/entropy-corpus" -q -o "$1" "$source" || code=$?
    rm -r "$source"
    return $code
}
