#!/usr/bin/env bash
# usage: launches.sh FILE...
#
# Checks sources of the CUDA back-end against three rules, and prints the lines
# that break a rule. Exit code 1 if there are any.
#
# Kernels must be launched with es_launch, which checks the result, and must
# begin with es_begin_kernel(). Only device.cu, gemm.cu and ranks.cu may call the
# CUDA runtime and cuBLAS. They must use the result of every call, so no call may
# be a complete statement, or the statement after a condition.
set -uo pipefail
call='\b(cuda|cublas(Lt)?)[A-Z]\w*\('
breaches=0
breach() {
    echo "$*"
    breaches=$((breaches + 1))
}

while IFS=: read -r file line text; do
    breach "$file:$line: a launch whose result is not checked:$text"
done < <(grep -nE '<<<' /dev/null "$@" | grep -vE '^[^:]*:[0-9]+: \* ')
for file in "$@"; do
    case $file in
    */device.cu | */gemm.cu | */ranks.cu) continue ;;
    esac
    while IFS=: read -r line text; do
        breach "$file:$line: belongs in device.cu, gemm.cu or ranks.cu:$text"
    done < <(grep -nE "$call" "$file")
done
while read -r where; do
    breach "$where: its result is not checked"
done < <(perl -0777 -ne '
    while (/([;{}:]|(?<!\(void)\)|\belse|&&)\s*('"$call"')/g) {
        my $line = 1 + (substr($_, 0, $-[2]) =~ tr/\n//);
        print "$ARGV:$line: $2\n" unless $1 eq ":" && $2 =~ /String/;
    }' "$@")
while read -r where; do
    breach "$where: a kernel without es_begin_kernel() at its beginning"
done < <(perl -0777 -ne '
    while (/^(template[^\n]*\n)?(static |inline )*__global__[^;{]*\{\s*(?!\s|es_begin_kernel\(\);)/mg) {
        my $line = 1 + (substr($_, 0, $-[0]) =~ tr/\n//);
        print "$ARGV:$line\n";
    }' "$@")
[ $breaches -eq 0 ]
