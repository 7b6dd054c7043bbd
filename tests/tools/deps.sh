#!/usr/bin/env bash
# usage: deps.sh [tests|list]
# Installs the Debian packages that the build and the demo need, or also those of tests
# and lint; does nothing if all are installed. Without root and sudo it prints the
# command to run.
set -euo pipefail

packages=(
    gcc make pkg-config
    libsqlite3-dev libpng-dev zlib1g-dev libcairo2-dev libfreetype-dev libfribidi-dev
    libopenblas-dev libdnnl-dev libjansson-dev libinih-dev libyaml-dev libgsl-dev libcurl4-openssl-dev
    libmicrohttpd-dev
    fonts-dejavu-core python3 libpython3-stdlib
)
[ "${1:-}" != tests ] || packages+=(
    clang libclang-rt-14-dev libomp-14-dev clang-format g++ sqlite3 libcmocka-dev
    python3-optuna python3-sentencepiece librsvg2-bin poppler-utils
    chromium chromium-driver universal-ctags locales man-db mandoc pandoc strace
    bindfs slurm-wlm munge openmpi-bin iproute2 postgresql libpq-dev openssl zsh fish debhelper lintian python3-yaml
)

# Print the build dependencies of this project's Debian packages, except those that are
# installed on every machine that builds Debian packages.
if [ "${1:-}" = list ]; then
    printf '%s\n' "${packages[@]}" | grep -vxE 'gcc|make|libpython3-stdlib' | sort
    exit
fi

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
