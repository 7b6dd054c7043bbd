#!/usr/bin/env bash
# Checks that the manual in HTML contains every guide and every command, and
# that its links work. test_readme.sh, test_cli.sh and
# tests/python/test_package.py run its examples.
. tests/support/tap.sh
plan_dir
if ! command -v pandoc >/dev/null || ! command -v mandoc >/dev/null; then
    skip 'the manual' 'no pandoc or no mandoc'
    finish
fi
manual=$dir/manual
check 'the manual is built' samples/packaging/manual/build.sh "$manual"
for verb in $("$scan" help --completion | sed -n "s/^ *local verbs='\(.*\)'$/\1/p"); do
    [ "$verb" = help ] || check "the manual has a page for $verb" grep -q "<h1[^>]*>.*OPTIONS\|id=\"OPTIONS\"" "$manual/entropy-scan-$verb.html"
done
check 'the manual has the training loop' grep -q 'es.watch' "$manual/README.html"
check 'the manual has the picture of its first page' cmp samples/runs/heatmap.png "$manual/images/samples-runs-heatmap.png"
check 'the index has every page' sh -c 'cd "$0" && for page in *.html; do
    [ $page = index.html ] || grep -q "href=\"$page\"" index.html || { echo $page; exit 1; }; done' "$manual"
check 'all links and pictures exist' python3 - "$manual" <<'END'
import html.parser
import os
import sys
from urllib.parse import unquote, urldefrag

folder = sys.argv[1]


class Page(html.parser.HTMLParser):
    def __init__(self, name):
        super().__init__()
        self.ids, self.links = set(), []
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        for key in ("href", "src"):
            if key in attributes and "://" not in attributes[key]:
                self.links.append(attributes[key])


pages = {name: Page(name) for name in os.listdir(folder) if name.endswith(".html")}
broken = []
for name, page in pages.items():
    for link in page.links:
        path, anchor = urldefrag(unquote(link))
        path = path or name
        if not os.path.exists(os.path.join(folder, path)):
            broken.append(f"{name}: {link}")
        elif anchor and path in pages and anchor not in pages[path].ids:
            broken.append(f"{name}: {link}")
print("\n".join(broken))
sys.exit(bool(broken) or len(pages) < 20)
END
check 'a second build replaces the first' samples/packaging/manual/build.sh "$manual"
exits 'without a program nothing is written' 3 'pandoc is missing: make test-deps' \
    env PATH=/nowhere "$BASH" samples/packaging/manual/build.sh "$dir/none"
check 'without a program no folder is created' test ! -e "$dir/none" -a ! -e "$dir/none.new"
finish
