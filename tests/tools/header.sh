#!/usr/bin/env bash
# Prints the public header in its installed form: hooks/entropyscan.h, in which
# the text of this project's headers replaces the #include lines, with the
# includes of system headers at the top.
set -euo pipefail
cd "$(dirname "$0")/../.."

awk -v top=hooks/entropyscan.h '
    function read(file,   line, name, status) {
        if (file in seen)
            return
        seen[file] = 1
        while ((status = (getline line < file)) > 0)
            if (line ~ /^#include "/) {
                split(line, name, "\"")
                read(name[2])
            } else if (line ~ /^#include </) {
                if (!(line in system_headers))
                    system_headers[line] = ++n_system
            } else
                text = text line "\n"
        close(file)
        if (status < 0) {
            print file ": cannot be read" >"/dev/stderr"
            exit_code = 1
        }
    }
    BEGIN {
        read(top)
        guard = "#define ENTROPYSCAN_H\n"
        place = index(text, guard) + length(guard)
        printf "%s\n", substr(text, 1, place - 1)
        for (line in system_headers)
            print line | "sort"
        close("sort")
        printf "%s", substr(text, place)
        exit exit_code
    }' | cat -s
