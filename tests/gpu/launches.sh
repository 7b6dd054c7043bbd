#!/usr/bin/env bash
# usage: launches.sh FILE...
#
# Prints what nothing checks in sources of the CUDA back-end; exit 1 if
# anything. Kernels are launched by es_launch, which checks, and begin with
# es_begin_kernel(). Calls of the CUDA
# runtime and of cuBLAS have three files, device.cu, gemm.cu and ranks.cu, and
# there something is done with what they return: a call that begins a statement or
# ends a condition is a breach.
set -uo pipefail
call='\b(cuda|cublas(Lt)?)[A-Z]\w*\('
breaches=0
breach() {
    echo "$*"
    breaches=$((breaches + 1))
}

while IFS=: read -r file line text; do
    breach "$file:$line: a launch that nothing checks:$text"
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
    breach "$where: nothing checks what it returns"
done < <(perl -0777 -ne '
    while (/([;{}:]|(?<!\(void)\)|\belse|&&)\s*('"$call"')/g) {
        my $line = 1 + (substr($_, 0, $-[2]) =~ tr/\n//);
        print "$ARGV:$line: $2\n" unless $1 eq ":" && $2 =~ /String/;
    }' "$@")
while read -r where; do
    breach "$where: a kernel that does not begin with es_begin_kernel()"
done < <(perl -0777 -ne '
    while (/^(template[^\n]*\n)?(static |inline )*__global__[^;{]*\{\s*(?!\s|es_begin_kernel\(\);)/mg) {
        my $line = 1 + (substr($_, 0, $-[0]) =~ tr/\n//);
        print "$ARGV:$line\n";
    }' "$@")
[ $breaches -eq 0 ]
