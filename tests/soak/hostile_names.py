"""Tests runs, keys, series, layers, events and files with hostile names in
every output of entropy-scan: a terminal gets no control bytes, JSON and CSV
are valid and return the name, pictures and pages have the same elements as
with a harmless name, and an exported run is the same after import.

usage: tests/soak/hostile_names.py BIN [--count N] [--seed S]
"""
import argparse
import collections
import csv
import html.parser
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

PATIENCE = 60  # seconds
HARMLESS = b"a name"
NAMES = [
    b"a\nb", b"a\r\nb\tc", b"\x1b[31mred\x1b[0m", b"\x1b]0;title\x07",
    b"\x1b[2J\x1b[H", "\u009b31mred".encode(), b"a\x7fb\x08\x08c", b"\x01\x02",
    b"<script>alert(1)</script>", b"</script><script>alert(1)</script>",
    b"<!--<script>", b"]]></text><image href='x'/>", b"&lt;&amp;&#x41;&nbsp;",
    b"\"", b"'", b"\\", b"\\\"", b"a\"b'c`d$e;f|g", b"%s%n%d%1000000d", b"{0}",
    b"../../etc/passwd", b"/etc/passwd", b"-", b"--help", b"-o", b"=1+1",
    b"+1", b"@SUM(A1)", b"-1+1", b"=cmd|' /C calc'!A0", b"\t=1+1",
    b"a,b;c", b"a\",\"b", b"x" * 10000, "é".encode() * 5000,
    "\u202egnp.exe".encode(), "\u2066a\u2069".encode(), "\u200f".encode(),
    "\ufeffa".encode(), "a\u2028b\u2029c".encode(), b"\xff\xfe", b"a\xc3",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", "\U0001f468".encode(),
    "a\u0301\u0301".encode() * 50, b" ", b"  a  ", b"null", b"NaN", b"1e999",
    b"name\\u0000end", b"| a | b |", b"[a](javascript:alert(1))", b"`a`", b"# a",
    b"::error file=a::b", b"%0A::error::b", b"lr", b"loss", b"steps",
]
PIECES = [b"\x1b[", b"\n", b"<b>", b"</", b"&", b"\"", b"'", b"%s", b"%n",
          b"../", b"\xff", b"\xe2\x80\xae", b"=", b",", b";", b"\\", b"{", b"}",
          b"$(a)", b"`", b"\x00"[:0], b"a", b"0", b"-", b"]]>", b"\x9b", b"\xc2\x85"]
# Characters that the name of a file cannot contain.
FORBIDDEN = re.compile(rb"[/\0]")

Ended = collections.namedtuple("Ended", "code out err")


def drawn(random_values):
    return b"".join(random_values.choice(PIECES)
                    for _ in range(random_values.randint(1, 12))) or b"a"


class Broken(Exception):
    pass


def need(good, why):
    if not good:
        raise Broken(why)


class Attack:
    """Tests one hostile name in a folder."""

    def __init__(self, bin, folder, name):
        self.bin, self.folder, self.name = bin, folder, name
        self.text = self.in_json = name.decode(errors="replace")

    def run(self, program, *arguments, codes=(0,)):
        ended = subprocess.run(
            [os.path.join(self.bin, program), *arguments], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        what = " ".join(str(a)[:60] for a in (program, *arguments))
        need(ended.returncode in codes, "%s: exit %d: %s" % (
            what, ended.returncode, ended.stderr[-300:]))
        self.is_plain(ended.stderr, what + ": standard error")
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def scan(self, *arguments, codes=(0,)):
        return self.run("entropy-scan", *arguments, codes=codes)

    def is_plain(self, text, what):
        """Checks for valid UTF-8 without control characters except line ends.
        """
        try:
            lines = text.decode()
        except UnicodeDecodeError as error:
            raise Broken("%s: %s: %r" % (what, error, text[:300]))
        found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", lines)
        need(not found, "%s: has %r: %r" % (
            what, found and found[0],
            lines[max(found.start() - 50, 0):][:100] if found else ""))
        return lines

    # --- the outputs ---------------------------------------------------------

    def tables(self):
        for options in ([], ["--compare"], ["--trends"],
                        ["--check", "--check-format=github"]):
            out = self.scan("run.db", "other.db", *options, codes=(0, 1)).out
            text = self.is_plain(out, "table %s" % options)
            if options[-1:] == ["--check-format=github"]:
                wrong = [line for line in text.split("\n")[:-1]
                         if not re.match("::(error|warning|notice) ", line)]
                need(not wrong, "github: %r" % wrong[:2])

    def table_has_as_many_lines(self, harmless):
        lines = self.scan("run.db").out.count(b"\n")
        need(lines == harmless, "table: %d lines, not %d" % (lines, harmless))

    def json(self):
        whole = json.loads(self.scan("run.db", "other.db", "--json").out)
        run = whole["runs"][0]
        need(run["run"] == self.stored or run["name"] == self.stored,
             "--json: name %r" % run.get("name"))
        for line in self.scan("run.db", "other.db",
                              "--jsonl").out.splitlines():
            json.loads(line)
        json.loads(self.scan("run.db", "other.db", "--compare", "--json").out)

    def csv(self, out, what):
        text = self.is_plain(out, what)
        lines = list(csv.reader(io.StringIO(
            "".join(line for line in text.splitlines(True)
                    if not line.startswith("#")), newline="")))
        need(len({len(line) for line in lines}) == 1, what + ": ragged: %r" % (
            [line for line in lines if len(line) != len(lines[0])][:1]))
        wrong = [cell for line in lines for cell in line
                 if re.match("[=+@\t-]", cell) and
                 not re.fullmatch(r"[-+]?([0-9.e+-]+|inf)", cell)]
        need(not wrong, "%s: a formula: %r" % (what, wrong[:1]))
        return lines

    def csvs(self):
        self.csv(self.scan("run.db", "other.db", "--csv").out, "--csv")
        self.scan("export", "run.db", "-o", "e.csv")

    def pictures(self, harmless):
        self.scan("run.db", "other.db", "--all=all", "--format=svg", "-q")
        shapes = {}
        for name in sorted(os.listdir(os.path.join(self.folder, "all"))):
            path = os.path.join(self.folder, "all", name)
            root = xml.etree.ElementTree.parse(path).getroot()
            tags = {element.tag.split("}")[-1] for element in root.iter()}
            shapes[name] = tags
            need(not tags - {"svg", "g", "path", "text", "defs", "rect", "use",
                             "symbol", "clipPath", "image", "mask", "title",
                             "desc", "line", "circle", "polyline", "polygon",
                             "linearGradient", "stop", "metadata", "style",
                             "tspan"},
                 "%s: %s" % (name, tags))
        need(not harmless or set(harmless) == set(shapes),
             "other figures: %s" % sorted(shapes))
        self.scan("run.db", "--heatmap=h.png", "--curves=c.pdf", "-q")
        with open(os.path.join(self.folder, "h.png"), "rb") as file:
            need(is_png(file.read()), "h.png")
        return shapes

    def report(self, harmless):
        self.scan("report", "run.db", "other.db", "-o", "r.html", "-q")
        with open(os.path.join(self.folder, "r.html"), "rb") as file:
            page = Page(file.read().decode())
        need(not harmless or page.elements == harmless,
             "report: %s" % (page.elements - (harmless or page.elements)))
        return page.elements

    def watch(self):
        hook = os.path.join(self.folder, "hook")
        with open(hook, "w") as file:
            file.write("#!/bin/sh\n{ cat; echo; } >>alerts\n")
        os.chmod(hook, 0o755)
        self.scan("watch", "--once", "run.db", "other.db", "--state=s.state",
                  "--textfile=t.prom", "--exec=./hook")
        with open(os.path.join(self.folder, "t.prom"), "rb") as file:
            text = self.is_plain(file.read(), "the text file")
        for line in text.splitlines():
            need(re.match(r'#|[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? [-+0-9.e]+$',
                          line), "the text file: %r" % line)
        with open(os.path.join(self.folder, "alerts"), "rb") as file:
            alerts = [json.loads(line) for line in file if line.strip()]
        need(len(alerts) >= 2, "%d alerts" % len(alerts))
        self.is_plain(self.scan("watch", "--once", "run.db", "--state=t.state",
                                "--json").out, "watch --json")

    def exchange(self):
        """Checks that the run survives a round trip through CSV, and that
        other formats are valid.
        """
        before = json.loads(self.scan("run.db", "--json").out)["runs"][0]
        self.scan("export", "run.db", "-o", "e.csv")
        self.scan("import", "e.csv", "-o", "back.db", "-q")
        after = json.loads(self.scan("back.db", "--json").out)["runs"][0]
        for key in ("name", "arch", "loss", "bands", "layers"):
            need(before.get(key) == after.get(key), "export: %s: %r, not %r" % (
                key, after.get(key), before.get(key)))
        self.scan("export", "run.db", "-o", "e.npz")
        for line in self.scan("export", "run.db", "--format=jsonl",
                              "-o", "-").out.splitlines():
            json.loads(line)

    def sql(self):
        for line in (["sql", "run.db", "SELECT name, config FROM run"],
                     ["sql", "run.db", "SELECT name, config FROM run", "--json"],
                     ["sql", "run.db", "SELECT name, config FROM run", "--csv"]):
            ended = self.scan(*line, codes=(0, 2, 3))
            self.is_plain(ended.out, " ".join(line))

    def terminal(self):
        out = self.scan("run.db", "other.db", "--tui", "--color=never",
                        codes=(0, 2, 3)).out
        self.is_plain(out, "--tui")

    def file_name(self):
        """Tests a run file whose name contains the hostile text. The program gets the name of the
        file's folder, and then the file's path.
        """
        name = b"a" + FORBIDDEN.sub(b"_", self.name)[:200] + b".db"
        folder = os.path.join(self.folder, "named").encode()
        os.mkdir(folder)
        path = os.path.join(folder, name)
        with open(os.path.join(self.folder, "other.db"), "rb") as from_file, \
                open(path, "wb") as to_file:
            to_file.write(from_file.read())
        self.is_plain(self.scan("-r", "named").out, "table of a folder")
        self.is_plain(self.scan(path).out, "table of a file")
        self.csv(self.scan(path, "other.db", "--csv").out, "--csv of a file")
        json.loads(self.scan(path, "other.db", "--json").out)
        self.is_plain(self.scan(path + b".none", codes=(3,)).err, "no file")
        self.scan(path, "--heatmap=n.svg", "-q")
        xml.etree.ElementTree.parse(os.path.join(self.folder, "n.svg"))

    # --- running all tests --------------------------------------------------------

    def make(self):
        """Writes a run with the name; returns False if the name is refused."""
        self.run("tests/named_run", "other.db", HARMLESS)
        ended = self.run("tests/named_run", "run.db", self.name, codes=(0, 3))
        if ended.code == 0:
            self.stored = json.loads(
                self.scan("run.db", "--json").out)["runs"][0]["name"]
        return ended.code == 0

    def all(self, harmless):
        if not self.make():
            self.file_name()
            return None
        found = {"lines": self.scan("run.db").out.count(b"\n")}
        if harmless:
            self.table_has_as_many_lines(harmless["lines"])
        for part in (self.tables, self.json, self.csvs, self.sql, self.watch,
                     self.terminal, self.exchange, self.file_name):
            part()
        found["pictures"] = self.pictures(harmless and harmless["pictures"])
        found["report"] = self.report(harmless and harmless["report"])
        return found


def is_png(bytes):
    return (bytes[:8] == b"\x89PNG\r\n\x1a\n" and bytes[-8:-4] == b"IEND")


class Page(html.parser.HTMLParser):
    """Counts the elements of a page, each with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements = collections.Counter()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements[tag, tuple(sorted(name for name, _ in attributes))] += 1


def attacked(bin, name, harmless):
    """Attacks the programs with one name. Returns two values: the numbers of lines and
    elements in their outputs, or None after a defect, and a description of the defect,
    or None without one."""
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(bin, folder, name)
        try:
            return attack.all(harmless), None
        except (Broken, ValueError, subprocess.TimeoutExpired,
                xml.etree.ElementTree.ParseError, OSError) as error:
            return None, "%s: %s" % (type(error).__name__, str(error)[:600])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--count", type=int, default=len(NAMES))
    parser.add_argument("--seed", default="1")
    given = parser.parse_args()
    os.environ.update(LC_ALL="C.UTF-8", ASAN_OPTIONS="detect_leaks=0")
    random_values = random.Random(given.seed)
    names = random_values.sample(NAMES, min(given.count, len(NAMES)))
    while len(names) < given.count:
        names.append(drawn(random_values))
    bin = os.path.abspath(given.bin)
    harmless, why = attacked(bin, HARMLESS, None)
    if why:
        sys.exit("a harmless name: " + why)
    broken = 0
    for name in names:
        _, why = attacked(bin, name, harmless)
        if why:
            broken += 1
            print("%r: %s" % (name[:60], why))
            sys.stdout.flush()
    print("soak: %d names, %d broken" % (len(names), broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
