"""usage: structure.py SCAN FOLDER

Checks the contents of reports without a browser, and prints TAP lines ("ok - name").
FOLDER contains the runs of make_runs.py and their reports."""
import base64
import hashlib
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree
import zlib

import make_runs
import page

scan, folder = sys.argv[1:]
os.chdir(folder)


def check(name, passed, why=""):
    print(("ok" if passed else "not ok") + " - " + name)
    if not passed:
        print(f"# {why}")


def is_sealed(name, report):
    """Checks that no element of the page requests anything from outside the page."""
    wrong = [(tag, key, value) for tag, attrs in report.elements
             for key, value in attrs.items()
             if key in ("src", "href", "action", "srcset", "data") and
             not (value or "").startswith(("data:", "#"))]
    check(f"{name}: no source and no link is outside the page", not wrong, wrong)
    policy = next(attrs["content"] for tag, attrs in report.elements
                  if attrs.get("http-equiv") == "Content-Security-Policy")
    check(f"{name}: the policy admits nothing by default",
          policy.startswith("default-src 'none';") and
          "unsafe" not in policy and "http" not in policy, policy)
    inline = [text for tag, attrs, text in report.texts
              if tag == "style" or tag == "script" and "type" not in attrs]
    hashes = ["'sha256-" + base64.b64encode(
        hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in inline]
    check(f"{name}: the policy admits only the script and the style", len(hashes) == 2 and
          all(h in policy for h in hashes) and policy.count("sha256-") == 2,
          hashes)


def says_the_same(name, report):
    printed = json.loads(page.run(scan, name + ".db", "--json"))
    summary = report.summary()
    advice = report.json(id="about")[0]["advice"]
    for flag in (flag for run in summary["runs"] for flag in run["flags"]):
        flag["advice"] = advice[flag["advice"]]
    check(f"{name}: the summary equals that of --json", summary == printed)


def series_of(report):
    return {(s["name"], s["phase"]): s for s in
            report.json(**{"class": "series"})}


def holds_real_samples(name, shown, exported):
    for key, series in shown.items():
        size = series["rows"] * series["columns"]
        values, steps = page.bits(series["values"]), series["steps"]
        good = len(values) == size * len(steps) and all(
            values[k * size:(k + 1) * size] == exported[key][step]
            for k, step in enumerate(steps))
        check(f"{name}: each {key[0]} shown is a sample of the run", good)
        check(f"{name}: {key[0]} is in order from the first to the last sample",
              steps == sorted(set(steps)) and
              (steps[0], steps[-1]) == (min(exported[key]),
                                        max(exported[key])))
        check(f"{name}: {key[0]} has the number of all samples",
              series["samples"] == len(exported[key]))


def evil():
    report = page.Page("evil.html")
    scripts = [t for t in report.texts
               if t[0] == "script" and t[1].get("class") != "figure"]
    check("evil: the page has no foreign script", len(scripts) == 1 + 2 + 3 and
          not any(tag == "img" for tag, _ in report.elements), len(scripts))
    about, = report.json(id="about")
    check("evil: names are data", about["title"] == "\"'&<b>{{series}}" and
          report.summary()["runs"][0]["name"] == make_runs.BITE)
    title = next(text for tag, _, text in report.texts if tag == "title")
    check("evil: the title is text", title == "\"'&<b>{{series}}", title)


def curve_is_whole(series, exported):
    """Checks that the drawn curve of the layer with the dip reaches the dip's value."""
    values = page.floats(series["curve"]["values"])
    n = len(series["curve"]["steps"])
    row = values[4 * n:5 * n]
    lowest = min(sum(page.float_of(b) for b in sample[4 * 16:5 * 16]) / 16
                 for sample in exported.values())
    check("long: the curve of a layer reaches the mean of the dip",
          abs(min(row) - lowest) <= 1e-6, (min(row), lowest))
    check("long: the curve has fewer points than the run has steps",
          100 < n < 3000, n)


def long(shown, exported):
    entropy = shown["entropy", "train"]
    check("long: the series is thinned", 100 < len(entropy["steps"]) < 3000,
          len(entropy["steps"]))
    check("long: the step with a dip of one head is shown",
          make_runs.DIP in entropy["steps"])
    check("long: the step with one NaN is shown",
          make_runs.BROKEN in entropy["steps"])
    check("long: the loss is whole", len(shown["loss", "train"]["steps"])
          == 3000)
    curve_is_whole(entropy, exported["entropy", "train"])


def has_figures(name, report):
    """Checks that every figure equals what entropy-scan draw writes, apart from its metadata."""
    drawn = {}
    for figure in report.json(**{"class": "figure"}):
        raw = zlib.decompress(base64.b64decode(figure["packed"]))
        check(f"{name}: {figure['name']} has its size", len(raw) == figure["size"])
        drawn[figure["name"]] = raw.decode()
        tags = {e.tag.rsplit("}", 1)[-1] for e in xml.etree.ElementTree.fromstring(raw).iter()}
        check(f"{name}: {figure['name']} has only shapes and texts", "svg" in tags and
              tags <= {"svg", "rect", "line", "polyline", "path", "circle", "g", "text",
                       "image", "defs", "clipPath", "pattern", "use", "title", "desc"}, tags)
    page.run(scan, name + ".db", "-q", "--all=" + name + ".figures", "--format", "svg")
    wanted = {}
    for path in sorted(pathlib.Path(name + ".figures").iterdir()):
        text = re.sub("<desc>.*?</desc>\n", "", path.read_text(), flags=re.S)
        wanted[path.stem.split("-", 1)[1]] = text
    check(f"{name}: the page has every figure", sorted(drawn) == sorted(wanted),
          (sorted(drawn), sorted(wanted)))
    check(f"{name}: the figures are those of draw", drawn == wanted,
          [key for key in drawn if drawn[key] != wanted.get(key)])


def leaves_out():
    """Checks that a page of many runs gives the reason for each figure that it lacks."""
    report = page.Page("tree500.html")
    figures = {f["name"]: f for f in report.json(**{"class": "figure"})}
    check("500 runs have an overview and curves",
          all("packed" in figures[name] for name in ("overview", "curves")))
    check("figures with a panel per run are left out",
          "at most 12" in figures["raster"].get("reason", ""), figures["raster"].keys())
    check("figures that read every run are left out",
          "at most 150" in figures["loss"].get("reason", ""), figures["loss"].keys())
    check("a figure that is too large is left out",
          "MB, too large" in figures["heatmap"].get("reason", ""), figures["heatmap"].keys())


def main():
    for name in ("evil", "big", "long"):
        report = page.Page(name + ".html")
        is_sealed(name, report)
        says_the_same(name, report)
        has_figures(name, report)
        shown = series_of(report)
        exported = page.samples(scan, name + ".db")
        holds_real_samples(name, shown, exported)
        size = os.path.getsize(name + ".html")
        check(f"{name}: the page is smaller than 2 MB", size < 2000000, size)
        if name == "long":
            long(shown, exported)
        if name == "big":
            check("big: 1000 steps of 144 heads are whole", all(
                len(s["steps"]) == 1000 and "curve" not in s
                for s in shown.values()) and len(shown) == 3)
    evil()
    leaves_out()


main()
