#!/usr/bin/env bash
# usage: deps.sh [tests]
# Installs the Debian packages that the build needs, or the build and the tests;
# does nothing where they are all there. Without root and sudo it prints the
# line to run.
set -euo pipefail

packages=(
    gcc make pkg-config
    libsqlite3-dev libpng-dev libcairo2-dev libfribidi-dev
    libopenblas-dev libdnnl-dev libjansson-dev libinih-dev libcurl4-openssl-dev
    fonts-dejavu-core libjs-d3 python3 libpython3-stdlib
)
[ "${1:-}" != tests ] || packages+=(
    clang libclang-rt-14-dev libomp-14-dev clang-format g++ sqlite3 libcmocka-dev
    python3-optuna python3-sentencepiece librsvg2-bin poppler-utils
    chromium chromium-driver universal-ctags locales man-db strace
    slurm-wlm munge openssl zsh fish
)

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
    run=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    run=(sudo)
else
    echo "these packages are missing; run as root:" >&2
    echo "    $install" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing: ${missing[*]}" >&2
if ! { "${run[@]}" apt-get update && "${run[@]}" $install; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
