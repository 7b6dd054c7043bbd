#!/usr/bin/env bash
# Makes Debian packages in $BUILD/deb, reusing the object files of $BUILD; for `make deb`.
#   deb.sh                makes the packages
#   deb.sh assemble DIR   only makes the folder debian/ in DIR; in the root of a source tree
#                         dpkg-buildpackage does the rest
set -euo pipefail
cd "$(dirname "$0")/../.."

assemble() { # DIR
    local maintainer date needed
    maintainer=$(sed -n 's/^Maintainer: //p' samples/packaging/debian/control)
    date=$(date -Ru -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")
    rm -rf "$1/debian"
    mkdir -p "$1"
    cp -r samples/packaging/debian "$1/"
    needed=$(printf ', %s' $(tests/tools/deps.sh list))
    sed -i "s/@BUILD_DEPENDS@/debhelper-compat (= 13)$needed/" "$1/debian/control"
    printf 'entropy-scan (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
        "$VERSION" "$maintainer" "$date" >"$1/debian/changelog"
}

if [ "${1:-}" = assemble ]; then
    assemble "$2"
    exit
fi
for tool in dpkg-buildpackage dh; do
    command -v $tool >/dev/null ||
        { echo "$tool: missing: install debhelper and dpkg-dev" >&2; exit 1; }
done
out=$(realpath -m "$BUILD")/deb
rm -rf "$out"
assemble "$out/entropy-scan-$VERSION"
mkdir "$out/build"
# Copy the object files, so that only outdated files are compiled again; all programs
# are linked again.
for folder in obj page; do
    [ ! -d "$BUILD/$folder" ] || cp -a "$BUILD/$folder" "$out/build/"
done
rm -rf "$out/build/obj/tests"
cd "$out/entropy-scan-$VERSION"
export ES_SOURCE=$OLDPWD ES_BUILD=$out/build
env -u MAKEFLAGS -u MAKELEVEL -u BUILD -u CC -u SAN DEB_BUILD_OPTIONS=noautodbgsym \
    dpkg-buildpackage -b -us -uc -d >"$out/log" 2>&1 || { tail -n 30 "$out/log" >&2; exit 1; }
ls "$out"/*.deb
