"""usage: browser.py SCAN FOLDER

Opens reports in headless Chromium, checks their contents and behaviour, and prints TAP
lines. FOLDER contains the runs of make_runs.py and the reports two.html (evil.db and
other.db) and long.html."""
import json
import os
import pathlib
import socket
import sys

import make_runs
import page
import tree
import views
import webdriver

scan, folder = sys.argv[1:]
os.chdir(folder)
RUNS = ("evil.db", "other.db")
STEPS = [0, 10, 20, 30, 40]


def check(name, passed, why=""):
    print(("ok" if passed else "not ok") + " - " + name, flush=True)
    if not passed:
        print(f"# {why}", flush=True)


def texts(browser, css):
    return browser.js("return Array.from(document.querySelectorAll("
                      "arguments[0]), (e) => e.textContent)", css)


# --- expected contents, from export and --json -------------------------------

class Wanted:
    """The expected values of a series in both runs, and the colours of their cells."""

    def __init__(self, browser, series):
        self.values = [page.samples(scan, path)[series, "train"]
                       for path in RUNS]
        finite = [x for run in self.values for step in run.values()
                  for x in map(page.float_of, step) if abs(x) < 1e38]
        self.low, self.high = min(0, *finite), max(finite)
        about = json.loads(browser.js(
            "return document.getElementById('about').textContent"))
        colours = about["colours"]["values"]
        self.colours = ["#" + colours[i:i + 6]
                        for i in range(0, len(colours), 6)]

    def fill(self, run, step, index):
        bits = self.values[run][step][index]
        value = page.float_of(bits)
        if abs(value) < 1e38:
            x = (value - self.low) / (self.high - self.low)
            return self.colours[int(x * 255 + 0.5)]
        return "none" if bits == page.MISSING else "url(#hatch)"

    def fills(self, step):
        return [self.fill(run, step, i) for run in (0, 1) for i in range(6)]


def step_shown(browser):
    return browser.js("return document.getElementById('step')"
                      ".lastChild.textContent")


def fills(browser):
    return browser.js("return Array.from(document.querySelectorAll("
                      "'#heatmaps .cell'), (c) => c.getAttribute('fill'))")


def exported(path, *series):
    text = page.run(scan, "export", path, *[x for name in series
                                            for x in ("--series", name)])
    return [line for line in text.splitlines() if not line.startswith("#")]


# Each row has a number, its exact text as in `export`, and its short text.
NUMBERS = [
    (0, "0", "0"), (1, "1", "1"), (3000, "3e3", "3000"),
    (123456, "123456", "123456"), (12345678, "12345678", "1.235e7"),
    (0.1, "0.1", "0.1"), (0.0025, "0.0025", "0.0025"),
    (0.001, "1e-3", "0.001"), (1e-5, "1e-5", "1e-5"),
    (1.7087339162826538, "1.7087339", "1.709"), (-0.05, "-0.05", "-0.05"),
    (3.4028234663852886e38, "3.4028235e38", "3.403e38"),
    (1.401298464324817e-45, "1e-45", "1.401e-45"),
    (0.041666666666666664, "0.041666666666666664", "0.04167"),
]


def numbers_are_spelt(browser):
    given = [number for number, _, _ in NUMBERS]
    got = browser.js("return arguments[0].map((x) => [Values.exact(x), "
                     "Values.short(x)])", given)
    wrong = [(row, said) for row, said in zip(NUMBERS, got)
             if list(row[1:]) != said]
    check("numbers are exact as in export, and short for display", not wrong,
          wrong)
    specials = browser.js("return [NaN, Infinity, -Infinity, -0].map("
                          "Values.exact)")
    check("NaN, infinity and -0 have their texts", specials == ["NaN", "inf", "-inf", "-0"],
          specials)


# --- checks ------------------------------------------------------------------

def says_names(browser):
    titles = texts(browser, "#runs tbody th")
    check("names are text", make_runs.BITE in titles[0] and
          titles[1].startswith("SM+LN+G"), titles)
    check("names make no elements", browser.js(
        "return document.querySelectorAll('img, b').length + "
        "document.querySelectorAll('body script:not([type])').length") == 1)


def has_its_cost(browser, run, name, text, full):
    values = [run[name], run[name + "_low"], run[name + "_high"]]
    if run["path"] == "evil.db":
        check(f"{name} of an unknown shape is missing, not 0",
              values == [None] * 3 and text == "–" and
              full.endswith("modelled: missing"), (text, full))
        return
    short, exact = (browser.js(f"return arguments[0].map(Values.{way})",
                               values) for way in ("short", "exact"))
    check(f"{name} of a known shape has its interval",
          values[1] < values[0] < values[2] and
          text == "{}{}–{}".format(*short) and
          full.endswith("modelled: {}, 95% interval: {} to {}".format(*exact)),
          (text, full, values))


def table_is_json(browser):
    printed = json.loads(page.run(scan, *RUNS, "--json"))["runs"]
    cells = browser.js(
        "const titles = Array.from(document.querySelectorAll('#runs thead th'),"
        " (c) => c.textContent); "
        "return Array.from(document.querySelectorAll('#runs tbody tr'), (r) =>"
        " Object.fromEntries(Array.from(r.cells, (c, i) => "
        "  [titles[i], [c.textContent, c.title]])))")
    for run, row in zip(printed, cells):
        for name in ("step", "loss", "ppl"):
            text, full = row[name]
            value = run[name]
            good = text == "NaN" and run[name + "_state"] == "nan" \
                if value is None else \
                float(full) == value and (
                    text == str(value) if isinstance(value, int)
                    else float(text) == float(f"{value:.4g}"))
            check(f"{name} in the table equals that of --json", good, row)
        for title, name in (("GB, modelled", "modelled_gb"),
                            ("min, modelled", "modelled_minutes")):
            has_its_cost(browser, run, name, *row[title])
        check("a column that no run has is left out", "eval ppl" not in row and
              "ppl" in row, row)


def slider_moves(browser, wanted):
    step = lambda: step_shown(browser)
    check("the page begins at the last step", step() == "40" and
          fills(browser) == wanted.fills(40), step())
    browser.type("#slider", "left")
    check("an arrow key moves the slider", browser.until(
        lambda: step() == "30"), step())
    check("the step changes every cell, and infinity is hatched",
          fills(browser) == wanted.fills(30), fills(browser))
    browser.click("#back")
    check("a button moves the slider: NaN is hatched, missing is blank",
          step() == "20" and fills(browser) == wanted.fills(20) and
          {"none", "url(#hatch)"} < set(fills(browser)), fills(browser))
    browser.type("#slider", "home")
    check("the home key moves the slider to the first step", browser.until(
        lambda: fills(browser) == wanted.fills(0)), step())
    browser.click("#play")
    check("play runs to the last step", browser.until(
        lambda: fills(browser) == wanted.fills(40)), step())


def hover_tells(browser, wanted):
    tip = lambda: texts(browser, "#tip:not([hidden]) div")
    browser.hover("#heatmaps .cell", 6 + 5)
    said = browser.until(tip)
    value = page.float_of(wanted.values[1][40][5])
    check("pointing at a head shows layer, head and value",
          len(said) == 3 and said[0] == "layer 1, head 2" and
          said[2].startswith("step 40") and page.bits_of(
              float(said[1].split()[0])) == wanted.values[1][40][5],
          (said, value))
    browser.hover("#heatmaps .cell", 3)
    check("pointing at a NaN says so", browser.until(
        lambda: tip()[:2] == ["layer 1, head 0", "NaN"]), tip())
    browser.hover("#title")
    browser.type("#heatmaps svg", "right", "right", "down")
    check("arrow keys point at heads", browser.until(
        lambda: tip()[:1] == ["layer 1, head 1"]), tip())
    browser.type("#heatmaps svg", "enter")
    check("a chosen head is drawn in the curves", browser.until(
        lambda: len(texts(browser, "#curves .line.chosen")) == 1))
    browser.js("document.activeElement.blur()")
    check("the tooltip disappears", browser.until(
        lambda: browser.js("return document.getElementById('tip').hidden")))


def ticks(browser):
    return texts(browser, "#curves figure:first-child .axis text")


def curves_zoom(browser):
    chart = "#curves .chart"
    path = lambda: browser.js("return document.querySelector('#curves .line')"
                              ".getAttribute('d')")
    all_of_it, line = ticks(browser), path()
    lines = browser.js("return Array.from(document.querySelectorAll("
                       "'#curves .line:not(.chosen)'), (p) => "
                       "/^M[0-9.,L-]+$/.test(p.getAttribute('d')))")
    check("a line is drawn for each layer", lines == [True] * 4, lines)
    ramps = browser.js("return Array.from(document.querySelectorAll('.ramp'),"
                       " (r) => r.style.background)")
    check("scales show their colours", len(ramps) == 3 and
          all("rgb(" in r for r in ramps), ramps)
    check("curves show all steps", {"0", "40"} <= set(all_of_it), all_of_it)
    browser.wheel(chart, -300)
    check("the wheel zooms", browser.until(
        lambda: path() != line and ticks(browser) != all_of_it), ticks(browser))
    near, line = ticks(browser), path()
    other = browser.js("return document.querySelectorAll('#curves .chart')[1]"
                       ".textContent")
    check("the charts of all runs zoom together", all(t in other for t in near), other)
    browser.drag(chart, 60)
    check("a drag moves the chart", browser.until(lambda: path() != line))
    browser.double_click(chart)
    check("a double click shows all steps again", browser.until(
        lambda: ticks(browser) == all_of_it), ticks(browser))
    check("a double click keeps the step", step_shown(browser) == "40")
    browser.type(chart, "+")
    check("a key zooms", browser.until(lambda: ticks(browser) != all_of_it))
    browser.type(chart, "0")
    check("a key shows all steps again", browser.until(
        lambda: ticks(browser) == all_of_it))
    browser.hover(chart)
    check("pointing at a line describes it", browser.until(
        lambda: texts(browser, "#tip:not([hidden]) div")))
    marks = browser.js("return document.querySelectorAll('.broken').length")
    check("a NaN is marked", marks >= 1, marks)


def csv_is_export(browser):
    for i, path in enumerate(RUNS):
        browser.click(".csv", i)
        saved = browser.downloaded(".csv")
        got = saved.read_text(encoding="utf-8")
        rows = [x for x in got.splitlines() if not x.startswith("#")]
        check("the CSV equals that of export",
              rows == exported(path, "entropy", "max_logit", "loss"),
              rows[:9])
        page.run(scan, "import", "-q", str(saved), "-o", "back.db")
        check("the CSV can be imported", exported("back.db") == rows)
        saved.unlink()


def series_change(browser, wanted):
    browser.click("#series input[value=max_logit]")
    check("another series is shown", browser.until(
        lambda: fills(browser) == wanted.fills(40)), fills(browser))
    browser.click("#log")
    check("a series is shown on a logarithmic axis", browser.until(
        lambda: any("10" in t for t in ticks(browser))), ticks(browser))
    browser.click("#log")
    browser.click("#series input[value=entropy]")


def configurations_differ(browser):
    keys = lambda: texts(browser, "#config tbody th")
    check("configurations show settings that differ", keys() == ["lr"], keys())
    browser.click("#config-all")
    check("configurations show all settings on request", browser.until(
        lambda: keys() == ["note", "lr", "steps"]), keys())


def flags_jump(browser):
    rows = texts(browser, "#flags tbody tr")
    printed = json.loads(page.run(scan, *RUNS, "--json"))["runs"]
    flags = [f for run in printed for f in run["flags"]]
    flags.sort(key=lambda f: not f["stands"])
    check("every episode is listed", len(rows) == len(flags) and all(
        f["kind"] in row and f["verdict"] in row
        for f, row in zip(flags, rows)), rows)
    browser.click("#flags .number .link")
    check("an episode leads to its step", browser.until(
        lambda: step_shown(browser) == str(flags[0]["onset"])))
    advice = flags[0]["advice"]
    browser.click("#flags .why")
    check("an episode shows its causes and remedies", browser.until(
        lambda: texts(browser, "#flags .advice") and all(
            text in texts(browser, "#flags .advice")[0]
            for text in [advice["causes"], advice["remedies"], *advice["sources"]])))
    browser.click("#flags .why")
    check("causes and remedies close again", browser.until(
        lambda: not texts(browser, "#flags .advice")))


def themes(browser):
    look = lambda: browser.js(
        "return [document.documentElement.dataset.theme,"
        " getComputedStyle(document.body).backgroundColor]")
    before = look()
    browser.click("#theme")
    after = browser.until(lambda: look() if look() != before else None)
    check("the button switches light and dark",
          after and after[0] != before[0] and after[1] != before[1], after)
    browser.click("#theme")
    browser.js("localStorage.clear()")
    for theme in ("dark", "light"):
        browser.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": theme}])
        check(f"the page follows the system's {theme} theme", browser.until(
            lambda: look()[0] == theme), look())


def narrow(browser, name):
    for width in (1024, 640, 360):
        browser.cdp("Emulation.setDeviceMetricsOverride", width=width,
                    height=800, deviceScaleFactor=1, mobile=False)
        browser.until(lambda: browser.js("return innerWidth") == width)
        wide = browser.until(lambda: browser.js(
            "return document.documentElement.scrollWidth <= innerWidth"))
        check(f"{name}: {width} pixels are wide enough", wide, browser.js(
            "return Array.from(document.querySelectorAll('main *'), (e) =>"
            " [e.tagName, e.id, e.className.baseVal || e.className,"
            "  e.getBoundingClientRect().right]).filter((e) =>"
            " e[3] > innerWidth).slice(0, 5)"))
    browser.cdp("Emulation.clearDeviceMetricsOverride")


def is_quiet(browser, name):
    bad = [entry["message"] for entry in browser.log("browser")
           if entry["level"] in ("SEVERE", "WARNING")]
    check(f"{name}: the console has no errors or warnings", not bad, bad)
    urls = []
    for entry in browser.log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] in ("Network.requestWillBeSent",
                                 "Network.webSocketCreated"):
            urls.append(message["params"].get("request", message["params"])
                        ["url"])
    # Ignore the browser's initial tab, whose URL begins with chrome://.
    outside = list({u[:80] for u in urls if not u.startswith(
        ("data:", "blob:", "chrome://", "about:"))})
    check(f"{name}: the only request is for the file itself",
          len(outside) == 1 and outside[0].endswith(name), outside)


def cannot_ask(browser):
    """Checks that requests made by a script in the page do not reach a server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        said = browser.js_async("""
            const [url, done] = arguments, refused = [];
            document.addEventListener('securitypolicyviolation',
                (e) => { refused.push(e.effectiveDirective);
                         if (refused.length === 3) done(refused.sort()); });
            fetch(url).catch(() => 0);
            new Image().src = url;
            document.head.append(Object.assign(
                document.createElement('script'), {src: url}));""", url)
        server.setblocking(False)
        try:
            server.accept()
            heard = True
        except BlockingIOError:
            heard = False
    check("a request made on purpose is refused", not heard and
          said == ["connect-src", "img-src", "script-src-elem"], said)


def figures_are_shown(browser):
    def images():
        return browser.js("return Array.from(document.querySelectorAll('#figures img'),"
                          " (image) => [image.alt.split(':')[0], image.naturalWidth])")
    check("figures are closed at first", images() == [] and browser.js(
        "return document.querySelectorAll('#figures > *').length") == 0)
    browser.click("#figures-card > summary")
    names = ["overview", "heatmap", "curves", "delta"]
    check("every figure is listed", browser.until(
        lambda: [text.split()[0] for text in texts(browser, "#figures summary")][:4] == names),
        texts(browser, "#figures summary"))
    check("no figure is drawn before it is opened", images() == [])
    browser.js("for (const part of document.querySelectorAll('#figures details')) part.open = true")
    n = browser.js("return document.querySelectorAll('#figures details').length")
    check("every figure is an image", browser.until(
        lambda: len(images()) == n and all(width > 100 for _, width in images())), images())
    browser.js("document.querySelector('#figures a').click()")
    saved = browser.downloaded("overview.svg")
    check("a figure is saved as SVG", saved and "<svg " in saved.read_text())
    browser.js("document.getElementById('figures-card').open = false")


def two_runs(browser):
    browser.open(pathlib.Path("two.html").resolve().as_uri())
    entropy = Wanted(browser, "entropy")
    numbers_are_spelt(browser)
    says_names(browser)
    table_is_json(browser)
    maps_are_drawn(browser)
    slider_moves(browser, entropy)
    hover_tells(browser, entropy)
    curves_zoom(browser)
    series_change(browser, Wanted(browser, "max_logit"))
    csv_is_export(browser)
    figures_are_shown(browser)
    configurations_differ(browser)
    flags_jump(browser)
    themes(browser)
    narrow(browser, "two.html")
    is_quiet(browser, "two.html")


def maps_are_drawn(browser):
    """Checks the attention maps of two layers at the last of two steps. Their colour scale covers
    the maps of both steps."""
    def pixels():
        return browser.js(
            "return Array.from(document.querySelectorAll('#maps canvas'), (c) => "
            "Array.from(c.getContext('2d').getImageData(0, 0, 2, 2).data))")
    colours = [Wanted(browser, "entropy").colours[i] for i in (255, 0)]
    def rgb(text):
        return [int(text[i:i + 2], 16) for i in (1, 3, 5)] + [255]
    got = pixels()
    check("each layer has a map", len(got) == 2 and all(
        p[0:4] == rgb(colours[0]) and p[12:16] == rgb(colours[1]) for p in got), got)
    check("cells that no query sees are blank", all(p[7] == 0 for p in got), got)
    check("a NaN of a map is red", got[0][8] > 120 and got[0][9] < 100 and
          got[1][8:12] != got[0][8:12], got)
    check("maps name their step", texts(browser, "#maps figcaption span") ==
          ["step 40, eval"] * 2, texts(browser, "#maps figcaption span"))
    browser.hover("#maps canvas", 0)
    check("pointing at a cell shows its weight", browser.until(
        lambda: "queries" in texts(browser, "#tip")[0]), texts(browser, "#tip"))


def long_run(browser):
    browser.open(pathlib.Path("long.html").resolve().as_uri())
    note = "".join(texts(browser, "#heads-note"))
    shown = browser.js("return Number(document.getElementById('slider').max)"
                       " + 1")
    check("a page without some of the steps says so",
          f"{shown} of 3\u202f000 steps shown" in note, (shown, note))
    narrow(browser, "long.html")
    is_quiet(browser, "long.html")
    cannot_ask(browser)


def main():
    downloads, profile = (os.path.join(folder, name)
                          for name in ("downloads", "profile"))
    os.mkdir(downloads)
    browser = webdriver.Browser(downloads, profile)
    try:
        two_runs(browser)
        views.losses(browser, check)
        is_quiet(browser, "losses.html")
        tree.many_runs(browser, check)
        views.many_runs(browser, check)
        narrow(browser, "tree150.html")
        is_quiet(browser, "tree150.html")
        browser.open(pathlib.Path("tree500.html").resolve().as_uri())
        rows = tree.scrolled(browser)
        check("500 runs have a row each", [len(rows), len(set(rows))] == [500, 500] and
              rows[499] == "seed 499", (len(rows), rows[-3:]))
        n = browser.js("return document.querySelectorAll('#runs tbody tr').length")
        check("only the rows in sight are in the document", 20 < n < 80, n)
        is_quiet(browser, "tree500.html")
        long_run(browser)
    finally:
        browser.close()


main()
