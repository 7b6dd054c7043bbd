#!/usr/bin/env bash
# Checks that figures use the fonts in the folder `fonts` next to the program
# instead of the system's fonts. The Python package contains this folder for
# systems without fonts.
set -uo pipefail
. tests/support/tap.sh
plan_dir
system=/usr/share/fonts/truetype/dejavu
draw() { # NAME PROGRAM
    "$2" samples/runs/sm.db --heatmap="$dir/$1.pdf" -q 2>"$dir/said" ||
        { cat "$dir/said"; return 1; }
    pdffonts "$dir/$1.pdf" | grep -o '+DejaVu[A-Za-z-]*' | sort -u | tr '\n' ' '
}
mkdir "$dir/bin"
cp "$BUILD/entropy-scan" "$dir/bin/"
own=$dir/bin/entropy-scan
want='+DejaVuSans +DejaVuSans-Bold '
same_text "without the folder, the system's fonts are used" "$want" "$(draw without "$own")"

mkdir "$dir/bin/fonts"
ln -s $system/DejaVuSans-Bold.ttf "$dir/bin/fonts/DejaVuSans.ttf"
same_text "a font that the folder lacks is taken from the system" \
    '+DejaVuSans-Bold ' "$(draw one "$own")"
ln -s $system/DejaVuSans.ttf "$dir/bin/fonts/DejaVuSans-Bold.ttf"
same_text 'both fonts are taken from the folder' "$want" "$(draw both "$own")"
check 'the folder changes the picture' sh -c "! cmp -s '$dir/without.pdf' '$dir/both.pdf'"

echo 'no font' >"$dir/bin/fonts/DejaVuSans.ttf.new"
mv "$dir/bin/fonts/DejaVuSans.ttf.new" "$dir/bin/fonts/DejaVuSans.ttf"
rm "$dir/bin/fonts/DejaVuSans-Bold.ttf"
same_text 'a file that is not a font is skipped' "$want" "$(draw broken "$own")"
finish
