#!/usr/bin/env bash
# Builds the Debian packages from the existing objects, and checks that lintian
# accepts them and that their programs work after unpacking.
. tests/support/tap.sh
plan_dir
unset MAKEFLAGS MAKELEVEL
case ${CC:-gcc} in *clang*) skip 'packages' 'Debian builds with gcc'; finish; exit ;; esac

# --- the folder debian/ -----------------------------------------------------

check 'the debian folder is created' env VERSION=1.2 samples/packaging/deb.sh assemble "$dir/made"
file_has 'the build dependencies are those of make deps' "$dir/made/debian/control" \
    '^Build-Depends: debhelper-compat \(= 13\), .*, libgsl-dev, .*, zlib1g-dev$'
check 'the build dependencies include no compiler' \
    sh -c "! grep -E '(@[A-Z]|gcc|chromium)' '$dir/made/debian/control'"
file_has 'the changelog has the version' "$dir/made/debian/changelog" '^entropy-scan \(1\.2\) '
file_has 'the copyright file names the linked libraries' samples/packaging/debian/copyright \
    '^License: Expat$' 'GPL-3'
for file in $(sed -n 's/^COPY --from=build [^ ]*\/\([a-z-]*\)_.*/\1/p' \
    samples/packaging/Containerfile); do
    check "the container installs the package $file" \
        grep -qx "Package: $file" samples/packaging/debian/control
done

# --- the step of a GitHub workflow -------------------------------------------

action() { # RUNS SEVERITY: runs the script of the action with these inputs
    python3 - "$1" "$2" "$scan" <<'END'
import os, subprocess, sys, yaml
action = yaml.safe_load(open("samples/github/action.yml"))
given = {"runs": sys.argv[1], "severity": sys.argv[2], "program": sys.argv[3]}
values = {n: given.get(n, i.get("default")) for n, i in action["inputs"].items()}
for step in action["runs"]["steps"]:
    env = {n: values[v.split("inputs.")[1].split(" ")[0]] for n, v in step["env"].items()}
    line = [step["shell"], "-e", "-c", step["run"]]
    sys.exit(subprocess.run(line, env={**os.environ, **env}).returncode)
END
}
if python3 -c 'import yaml' 2>/dev/null; then
    text=$(action 'samples/runs/s*.db' warning 2>&1)
    same_text 'the GitHub action fails if a flag is active' 1 $?
    same_text 'the GitHub action annotates the run with a flag' 1 "$(grep -c '^::warning.*sm.db' <<<"$text")"
    check 'the GitHub action passes without an active flag' action samples/runs/sm-ln-g.db warning
else
    skip 'the GitHub action' 'no python3-yaml'
fi

# --- the packages ------------------------------------------------------------

if ! command -v dpkg-buildpackage dh >/dev/null; then
    skip 'packages' 'no debhelper'
    finish
    exit
fi
check 'make deb creates the packages' make -s deb BUILD="$BUILD" CUDA=0
for package in entropy-scan libentropyrecord0 libentropyscan0 libentropyscan-dev; do
    check "$package can be unpacked" dpkg -x "$bin/deb/$package"_*.deb "$dir/root"
done
files=$(cd "$dir/root" && find usr ! -type d | sed 's|lib/[^/]*-linux-gnu|lib/HERE|')
for file in bin/entropy-scan bin/entropy-train bin/entropy-recorder bin/entropy-corpus \
    share/man/man1/entropy-scan.1.gz share/man/man5/entropy-scan-run.5.gz \
    share/bash-completion/completions/entropy-scan lib/HERE/libentropyscan.so.0 \
    lib/HERE/libentropyrecord.so include/entropyscan.h lib/HERE/pkgconfig/entropyscan.pc \
    share/doc/libentropyscan0/copyright; do
    output "the packages have $file" "^usr/$file$" echo "$files"
done
lib=$(dirname "$dir/root"/usr/lib/*/libentropyscan.so.0)
output 'the packaged program shows a run' '^SM +SM +2999 ' sh -c \
    "cd samples/runs && '$dir/root/usr/bin/entropy-scan' sm.db"
check 'a program compiles with the files of the packages' ${CC:-gcc} samples/embed/record.c \
    -o "$dir/record" -I"$dir/root/usr/include" -L"$lib" -lentropyrecord -lm
check 'a program built from the packages records a run' env LD_LIBRARY_PATH="$lib" PATH="$dir/root/usr/bin:$PATH" \
    "$dir/record" "$dir/run.db"
output 'the packaged libraries have no search path' '^0$' sh -c \
    "readelf -d '$lib'/*.so.0 | grep -cE 'RPATH|RUNPATH' || :"
output 'pkg-config names the folder of the headers' "^libdir=.{prefix}/lib/$(basename "$lib")$" \
    cat "$lib/pkgconfig/entropyscan.pc"
if command -v lintian >/dev/null; then
    same_text 'lintian accepts the packages' '' \
        "$(lintian --fail-on none "$bin/deb"/*.deb 2>&1 | grep -E '^[EW]:')"
else
    skip 'lintian accepts the packages' 'no lintian'
fi
finish
