"""Parses a report page as a browser would, and runs entropy-scan for comparison."""
import base64
import html.parser
import json
import struct
import subprocess
import zlib

MISSING = 0x7FC007A2


class Page(html.parser.HTMLParser):
    """Parses a page: its elements with their attributes, and the texts of scripts and
    styles."""

    def __init__(self, path):
        """Reads the page from the file `path`; 0 means standard input."""
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.inside = [], [], None
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self.inside = [tag, dict(attrs), ""]

    def handle_data(self, data):
        if self.inside:
            self.inside[2] += data

    def handle_endtag(self, tag):
        if self.inside and self.inside[0] == tag:
            self.texts.append(tuple(self.inside))
            self.inside = None

    def summary(self):
        """Returns the output of --json, which the page contains as a zlib stream in base64."""
        text, size = next((text, int(attrs["data-size"]))
                          for _, attrs, text in self.texts
                          if attrs.get("id") == "summary")
        raw = zlib.decompress(base64.b64decode(text, validate=True))
        assert len(raw) == size
        return json.loads(raw)

    def json(self, **wanted):
        return [json.loads(text) for tag, attrs, text in self.texts
                if tag == "script" and
                attrs.get("type") == "application/json" and
                wanted.items() <= attrs.items()]


def bits(text):
    raw = base64.b64decode(text, validate=True)
    return struct.unpack(f"<{len(raw) // 4}I", raw)


def floats(text):
    raw = base64.b64decode(text, validate=True)
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def float_of(one):
    return struct.unpack("<f", struct.pack("<I", one))[0]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout.decode()


def bits_of(spelt):
    """Returns the float32 bits of a value in the JSON lines that `export` prints."""
    if spelt is None:
        return MISSING
    if isinstance(spelt, str):
        special = {"NaN": 0x7FC00000, "inf": 0x7F800000, "-inf": 0xFF800000}
        return special[spelt] if spelt in special else int(spelt[4:-1], 16)
    return struct.unpack("<I", struct.pack("<f", spelt))[0]


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) \
        else [value]


def samples(scan, path):
    """Parses the output of `export` and returns {(name, phase): {step: bits}}."""
    found = {}
    for line in run(scan, "export", path, "--format", "jsonl").splitlines()[1:]:
        sample = json.loads(line)
        values = tuple(bits_of(x) for x in flat(sample["value"]))
        found.setdefault((sample["series"], sample["phase"]), {})[
            sample["step"]] = values
    return found


if __name__ == "__main__":
    print(json.dumps(Page(0).summary(), separators=(",", ":")))
