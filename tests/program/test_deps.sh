#!/usr/bin/env bash
# Checks that `make deps` installs everything that the build and the demo need,
# and that neither the build nor the demo depends on packages that only tests
# need.
. tests/support/tap.sh
plan_dir
unset MAKEFLAGS MAKELEVEL

# --- installed packages -----------------------------------------------------

# Simulates a machine without any package, on which a fake apt-get prints the
# packages that are to be installed.
mkdir "$dir/bare"
printf '#!/bin/sh\nexit 1\n' >"$dir/bare/dpkg-query"
printf '#!/bin/sh\n[ "$1" = update ] || printf "%%s\\n" "$@" >>%s\n' "$dir/wanted" \
    >"$dir/bare/apt-get"
printf '#!/bin/sh\necho 0\n' >"$dir/bare/id"
chmod +x "$dir/bare"/*
for target in deps test-deps; do
    rm -f "$dir/wanted"
    PATH=$dir/bare:$PATH make -s $target >/dev/null 2>&1
    grep -v '^-\|^install$' "$dir/wanted" | sort >"$dir/$target"
done
for package in libsqlite3-dev libcairo2-dev libgsl-dev python3; do
    check "make deps installs $package" grep -qx "$package" "$dir/deps"
done
for package in chromium slurm-wlm libcmocka-dev clang man-db; do
    check "make deps does not install $package" sh -c "! grep -qx $package '$dir/deps'"
    check "make test-deps installs $package" grep -qx "$package" "$dir/test-deps"
done
same_text 'make test-deps includes the packages of the build' '' \
    "$(comm -23 "$dir/deps" "$dir/test-deps")"
same_text 'the demo installs only the packages of the build' tests/tools/deps.sh \
    "$(make -n demo | grep deps.sh)"

# --- dependencies of the flags -----------------------------------------------

# A fake pkg-config finds the packages that `make deps` installs, but not the
# packages that only tests need.
mkdir "$dir/pc"
IFS=: read -ra folders <<<"$(pkg-config --variable pc_path pkg-config)"
for folder in "${folders[@]}"; do
    ln -sf "$folder"/*.pc "$dir/pc/" 2>/dev/null
done
rm -f "$dir/pc/*.pc" "$dir/pc/cmocka.pc"
flags() { # prints how often each compiler and linker flag is used for the programs and libraries
    make -n V=1 BUILD="$dir/none" CUDA=0 programs libraries |
        grep -oE ' -(I|isystem |l|L|D)[^ ]*' | sort | uniq -c
}
all=$(flags)
output 'the build uses the flags of installed packages' cairo echo "$all"
export PKG_CONFIG_LIBDIR=$dir/pc
check 'the build does not need cmocka' sh -c '! pkg-config --exists cmocka && pkg-config --exists cairo'
same_text 'the demo uses the same flags as the build' "$all" "$(flags)"
finish
