#!/usr/bin/env bash
# make install / uninstall: the folders come from the Makefile.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=(entropy-scan entropy-recorder entropy-train entropy-corpus)
soname=$(cd "$BUILD" && ls libentropyscan.so.* | head -1)

plugin=libentropytrain_cuda.so

manual_page() { # NAME SUMMARY PROGRAM [ARGUMENT...]
    local name=$1 summary=$2
    shift 2
    printf '.TH %s 1 "" "entropy-scan %s"\n' "${name^^}" "$VERSION"
    printf '.SH NAME\n%s \\- %s\n.SH USAGE\n' "$name" "$summary"
    "$@"
}

pkg_config() {
    cat <<END
prefix=$PREFIX
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: entropyscan
Description: per-head attention entropy of training runs, recorded and read
Version: $VERSION
Requires.private: sqlite3
Libs: -L\${libdir} -lentropyscan
Cflags: -I\${includedir} -I\${includedir}/entropyscan
END
}

install_all() {
    install -d "$BIN" "$LIB/pkgconfig" "$INCLUDE" "$MAN" "$COMPLETIONS"
    for program in "${programs[@]}"; do
        install -m 755 "$BUILD/$program" "$BIN/"
    done
    install -m 755 "$BUILD/$soname" "$LIB/"
    ln -sf "$soname" "$LIB/libentropyscan.so"
    # Loaded by entropy-train, which looks for it there.
    if [ -e "$BUILD/$plugin" ]; then
        install -D -m 755 "$BUILD/$plugin" "$LIB/entropyscan/$plugin"
    fi
    pkg_config >"$LIB/pkgconfig/entropyscan.pc"
    for header in $HEADERS; do
        install -D -m 644 "$header" "$INCLUDE/$header"
    done
    install -m 644 hooks/entropyscan.h "$INCLUDE/../"
    manual_page entropy-scan 'look at attention entropy' \
        "$BUILD/entropy-scan" help --man >"$MAN/entropy-scan.1"
    manual_page entropy-train 'train transformers, attention entropy recorded' \
        "$BUILD/entropy-train" help --man >"$MAN/entropy-train.1"
    for program in entropy-scan entropy-train; do
        "$BUILD/$program" help --completion >"$COMPLETIONS/$program"
    done
}

uninstall_all() {
    for program in "${programs[@]}"; do
        rm -f "$BIN/$program"
    done
    rm -f "$LIB/$soname" "$LIB/libentropyscan.so" \
        "$LIB/pkgconfig/entropyscan.pc" "$MAN"/entropy-{scan,train}.1 \
        "$COMPLETIONS"/entropy-{scan,train} "$INCLUDE/../entropyscan.h"
    rm -rf "$INCLUDE" "$LIB/entropyscan"
}

"$1_all"
