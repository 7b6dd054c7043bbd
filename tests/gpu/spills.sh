#!/usr/bin/env bash
# usage: spills.sh LOG...
#
# Reads the output of ptxas (-Xptxas -v) and prints one line for each kernel:
# the number of registers, and the bytes of stack, spill stores and spill loads.
# Exit code 1 if a kernel spills registers to memory.
set -euo pipefail

printf '%-6s %9s %7s %7s %7s  %s\n' arch registers stack stores loads kernel
awk '
    /Compiling entry function/ {
        split($0, quoted, "\047")
        name = quoted[2]; arch = quoted[4]
    }
    /bytes stack frame/ {
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^stack/) stack = $(i - 2)
            if ($i ~ /^stores/) stores = $(i - 3)
            if ($i ~ /^loads/) loads = $(i - 3)
        }
    }
    /Used [0-9]+ registers/ {
        for (i = 2; i <= NF; i++)
            if ($i ~ /^registers/) registers = $(i - 1)
        print arch, registers, stack, stores, loads, name
    }' "$@" | c++filt |
    sed -E 's/\(anonymous namespace\):://; s/__nv_bfloat16/bf16/g; s/__half/fp16/g
        s/^([^ ]* [^ ]* [^ ]* [^ ]* [^ ]*) (void )?(.*)\(.*/\1 \3/' |
    LC_ALL=C sort -k6 -k1,1 | awk '
    {
        name = $6
        for (i = 7; i <= NF; i++) name = name " " $i
        printf "%-6s %9d %7d %7d %7d  %s\n", $1, $2, $3, $4, $5, name
        if ($4 + $5 > 0) bad = bad "\n" $1 " " name
        n++
    }
    END {
        if (!n) { print "no kernels" > "/dev/stderr"; exit 1 }
        if (bad) { print "spills:" bad > "/dev/stderr"; exit 1 }
    }'
