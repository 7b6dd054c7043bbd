# Reads SVG files of entropy-scan; prints every text that leaves the page or
# overlaps another, judged by its width and the height of capitals; exits with 1
# if there is one. Each text in these files is on a separate line with its width.
function number(name,    rest) {
    if (!match($0, " " name "=\"[^\"]*")) return 0
    rest = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
    return rest + 0
}

function complain(what) {
    print FILENAME ": " what
    bad = 1
}

FNR == 1 { n = 0 }
/<svg/ { page_width = number("width"); page_height = number("height") }

/<text/ {
    width = number("textLength"); high = 0.73 * number("font-size")
    x = number("x"); y = number("y")
    before = /text-anchor="end"/ ? width : /text-anchor="middle"/ ? width / 2 : 0
    if (/rotate\(-90 /) {
        left[n] = x - high; right[n] = x
        top[n] = y + before - width; bottom[n] = y + before
    } else {
        left[n] = x - before; right[n] = x - before + width
        top[n] = y - high; bottom[n] = y
    }
    words = $0; gsub(/<[^>]*>/, "", words); text[n] = words
    # The file has rounded numbers.
    if (left[n] < -0.02 || top[n] < -0.02 || right[n] > page_width + 0.02 ||
        bottom[n] > page_height + 0.02)
        complain("off the page: " words)
    for (i = 0; i < n; i++)
        if (left[i] < right[n] - 0.02 && left[n] < right[i] - 0.02 &&
            top[i] < bottom[n] - 0.02 && top[n] < bottom[i] - 0.02)
            complain("overlap: " text[i] ", " words)
    n++; texts++
}

END {
    if (!texts) complain("no text at all")
    exit bad
}
