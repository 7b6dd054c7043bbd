#!/usr/bin/env bash
# Implements `make install` and `make uninstall`; the Makefile sets the
# folders.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=(entropy-scan entropy-recorder entropy-train entropy-corpus)
libraries=(libentropyrecord libentropyscan)

plugin=libentropytrain_cuda.so
SHARE=${MAN%/man/man1}
ZSH=$SHARE/zsh/site-functions FISH=$SHARE/fish/vendor_completions.d

verbs_of() { # PROGRAM
    "$BUILD/$1" help --completion | sed -n "s/^ *local verbs='\(.*\)'$/\1/p"
}

pkg_config() { # NAME DESCRIPTION LINE...: the lines name its requirements
    local name=$1 description=$2
    shift 2
    cat <<END
prefix=$PREFIX
libdir=${LIBDIR/#$PREFIX/\$\{prefix\}}
includedir=\${prefix}/include

Name: $name
Description: $description
Version: $VERSION
Libs: -L\${libdir} -l$name
Cflags: -I\${includedir}
END
    printf '%s\n' "$@"
}

help_page() { # PROGRAM SUMMARY: a manual page from the output of --help
    printf '.TH %s 1 "" "entropy\\-scan %s"\n' "${1^^}" "$VERSION"
    printf '.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "$1" "$2"
    "$BUILD/$1" --help | sed "s/\\\\/\\\\e/g; s/-/\\\\-/g; s/^[.']/\\\\\&&/"
    echo .fi
}

# Writes all manual pages into MAN (section 1), except the page about run files, which
# belongs in section 5.
pages_all() {
    install -d "$MAN" "$SHARE/man/man5"
    "$BUILD/entropy-scan" help run-file --man >"$SHARE/man/man5/entropy-scan-run.5"
    help_page entropy-recorder 'writes the run file of a training' >"$MAN/entropy-recorder.1"
    help_page entropy-corpus 'makes training data from source files' >"$MAN/entropy-corpus.1"
    for program in entropy-scan entropy-train; do
        "$BUILD/$program" help --man >"$MAN/$program.1"
        for verb in $(verbs_of "$program"); do
            "$BUILD/$program" help "$verb" --man >"$MAN/$program-$verb.1"
        done
    done
}

install_all() {
    install -d "$BIN" "$LIB/pkgconfig" "$INCLUDE" "$COMPLETIONS" "$ZSH" "$FISH"
    for program in "${programs[@]}"; do
        install -m 755 "$BUILD/$program" "$BIN/"
    done
    for library in "${libraries[@]}"; do
        soname=$(basename "$BUILD/$library".so.*)
        install -m 755 "$BUILD/$soname" "$LIB/"
        ln -sf "$soname" "$LIB/$library.so"
        install -m 644 "$BUILD/$library.a" "$LIB/"
    done
    # entropy-train loads the CUDA library from this folder.
    if [ -e "$BUILD/$plugin" ]; then
        install -D -m 755 "$BUILD/$plugin" "$LIB/entropyscan/$plugin"
    fi
    # Install the extension for sqlite3's .load command, and the SQL views that
    # need no extension.
    install -D -m 755 "$BUILD/entropyscan_sqlite.so" \
        "$LIB/entropyscan/entropyscan_sqlite.so"
    install -d "$SHARE/entropyscan"
    "$BUILD/entropy-scan" sql --views >"$SHARE/entropyscan/views.sql"
    pkg_config entropyrecord 'attention entropy, recorded from a training' \
        'Libs.private: -lm -ldl -pthread' >"$LIB/pkgconfig/entropyrecord.pc"
    pkg_config entropyscan 'recorded attention entropy, read' \
        'Requires: entropyrecord' 'Requires.private: sqlite3' \
        >"$LIB/pkgconfig/entropyscan.pc"
    install -m 644 "$BUILD/include/entropyscan.h" "$INCLUDE/"
    pages_all
    for program in entropy-scan entropy-train; do
        "$BUILD/$program" help --completion >"$COMPLETIONS/$program"
        "$BUILD/$program" help --completion=zsh >"$ZSH/_$program"
        "$BUILD/$program" help --completion=fish >"$FISH/$program.fish"
    done
}

uninstall_all() {
    for program in "${programs[@]}"; do
        rm -f "$BIN/$program"
    done
    for library in "${libraries[@]}"; do
        rm -f "$LIB/$library".{a,so,so.*} "$LIB/pkgconfig/${library#lib}.pc"
    done
    rm -f "$MAN"/entropy-{scan,train}{,-*}.1 "$MAN"/entropy-{recorder,corpus}.1 "$COMPLETIONS"/entropy-{scan,train} \
        "$ZSH"/_entropy-{scan,train} "$FISH"/entropy-{scan,train}.fish \
        "$INCLUDE/entropyscan.h" "$SHARE/man/man5/entropy-scan-run.5"
    rm -rf "$LIB/entropyscan" "$SHARE/entropyscan"
}

"$1_all"
