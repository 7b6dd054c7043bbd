#!/usr/bin/env bash
# usage: packages.sh FOLDER MACHINE ARCHIVE...
#        MACHINE: aarch64; ARCHIVE: z for libz.a
#
# Makes a folder with links to the headers and static archives of Debian's
# packages. The folder hides all other headers of /usr/include, in particular
# those of libc, from a compiler for a different libc. For this machine's
# architecture, the links refer to installed files. For another architecture,
# the same packages are downloaded into the folder, with a libc for emulators,
# and nothing is installed. licenses/ in the folder contains the packages'
# copyright files, and fonts/ the fonts of figures.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p "$1"
folder=$(realpath "$1")
machine=$2
shift 2
here=$(uname -m)
libdir=$(pkg-config --variable=libdir sqlite3)
include=$(pkg-config --variable=includedir sqlite3)
fonts=/usr/share/fonts/truetype/dejavu
root=
[ "$machine" = "$here" ] || root=$folder/root

rm -rf "$folder"
mkdir -p "$folder/fonts" "$folder/licenses"

fail() {
    echo "$*" >&2
    exit 1
}
there() { # FILE of this machine: prints the path of the file for MACHINE
    echo "$root${1//$here-linux-gnu/$machine-linux-gnu}"
}
package_of() { # FILE: prints the name of its package
    dpkg-query -S "$1" | sed 's/[:,].*//'
}
terms() { # FILE: links the copyright file of its package
    local package
    package=$(package_of "$1")
    ln -sf "/usr/share/doc/$package/copyright" "$folder/licenses/$package"
}
download() { # PACKAGE...: into $root, by lists of apt's that are this folder's own
    local arch state=$folder/apt
    case $machine in
    aarch64) arch=arm64 ;;
    x86_64) arch=amd64 ;;
    *) fail "$machine: Debian's name of it is not known here: give aarch64 or x86_64" ;;
    esac
    mkdir -p "$state"/{lists,archives}/partial "$root"
    chmod 755 "$state"
    local apt=(apt-get -qq -o APT::Architecture=$arch -o APT::Architectures=$arch
        -o Dir::State="$state" -o Dir::State::status=/dev/null -o Dir::Cache="$state"
        -o Acquire::Languages=none -o APT::Sandbox::User=root)
    { "${apt[@]}" update && (cd "$state" && "${apt[@]}" download "$@"); } >&2 ||
        fail "Debian's packages for $arch cannot be downloaded (above)"
    for file in "$state"/*.deb; do
        dpkg-deb -x "$file" "$root"
    done
    rm -rf "$state"
}

archives=()
for name; do
    archive=$libdir/lib$name.a
    # Debian has several builds of OpenBLAS, each in its own folder; pkg-config names the folder of
    # the selected build.
    [ "$name" != openblas ] ||
        archive=$(realpath "$(pkg-config --variable=libdir openblas)/lib$name.a")
    [ -e "$archive" ] || fail "$archive: missing: install the package that has it (make deps)"
    archives+=("$archive")
done
curl=$(find "$include" -path '*/curl/curl.h')
if [ -n "$root" ]; then
    # shellcheck disable=SC2046
    download libc6 $(for file in "${archives[@]}" "$curl"; do package_of "$file"; done | sort -u)
fi
for archive in "${archives[@]}"; do
    name=$1
    shift
    ln -sf "$(there "$archive")" "$folder/lib$name.a"
    terms "$archive"
done
ln -sf $fonts/DejaVuSans{,-Bold}.ttf "$folder/fonts/"
terms $fonts/DejaVuSans.ttf
ln -sf "$PWD/LICENSE" "$folder/licenses/entropy-scan"
openblas=$(there "$(pkg-config --variable=includedir openblas)")
include=$(there "$include")
ln -sf "$include"/{cairo,freetype2,fribidi,libpng16}/* "$include"/{ini,jansson,microhttpd,yaml,zlib,zconf}.h \
    "$openblas"/{cblas,openblas_config}.h \
    "$include/fontconfig" "$(find "$include" -name jansson_config.h)" \
    "$(dirname "$(there "$curl")")" "$folder/"
# Copy this file last: make uses its age as the age of all files.
cp "$include/sqlite3.h" "$folder/"
touch "$folder/sqlite3.h"
