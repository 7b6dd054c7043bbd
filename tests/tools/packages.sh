#!/usr/bin/env bash
# Links to the headers and static archives of this machine's packages, in one
# folder: the headers beside them in /usr/include, libc's, stay out of sight of a
# compiler for another libc. licenses/ has what the packages say of themselves, and
# fonts/ those that figures are drawn with.
#   tests/tools/packages.sh FOLDER ARCHIVE...    ARCHIVE: z for libz.a
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$1
shift
libdir=$(pkg-config --variable=libdir sqlite3)
include=$(pkg-config --variable=includedir sqlite3)
fonts=/usr/share/fonts/truetype/dejavu

rm -rf "$folder"
mkdir -p "$folder/fonts" "$folder/licenses"
terms() { # FILE: those of the package that it is of
    local package
    package=$(dpkg-query -S "$1" | sed 's/[:,].*//')
    ln -sf "/usr/share/doc/$package/copyright" "$folder/licenses/$package"
}
for name; do
    archive=$libdir/lib$name.a
    # One of several that a system chooses from, in a folder of its own.
    [ "$name" != openblas ] ||
        archive=$(realpath "$(pkg-config --variable=libdir openblas)/lib$name.a")
    if [ ! -e "$archive" ]; then
        echo "$archive: missing: install the package that has it (make deps)" >&2
        exit 1
    fi
    ln -sf "$archive" "$folder/lib$name.a"
    terms "$archive"
done
ln -sf $fonts/DejaVuSans{,-Bold}.ttf "$folder/fonts/"
terms $fonts/DejaVuSans.ttf
ln -sf "$PWD/LICENSE" "$folder/licenses/entropy-scan"
ln -sf "$include"/{cairo,freetype2,fribidi,libpng16}/* "$include"/{ini,jansson,yaml,zlib,zconf}.h \
    "$(pkg-config --variable=includedir openblas)"/{cblas,openblas_config}.h \
    "$include/fontconfig" "$(find "$include" -name jansson_config.h)" \
    "$(dirname "$(find "$include" -path '*/curl/curl.h')")" "$folder/"
# Last, and a copy: make takes its age for that of all of them.
cp "$include/sqlite3.h" "$folder/"
