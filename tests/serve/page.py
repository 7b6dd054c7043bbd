"""usage: page.py FOLDER

Opens the page of entropy-scan serve in headless Chromium, and prints TAP lines. FOLDER
contains the runs evil.db and other.db of make_runs.py, and the tokens x.tok."""
import os
import shutil
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree

import make_runs
import make_tree
import tree
import webdriver
from server import SCAN, Server, check, until

os.chdir(sys.argv[1])
TRAIN = os.path.join(os.environ["BUILD"], "entropy-train")
# The options of a training run that collapses within its first hundred steps.
COLLAPSE = ["--n-layer", "2", "--n-head", "3", "--d-model", "24", "--ctx", "16", "--batch", "4",
            "--record-every", "10", "--eval-every", "100000", "--eval-batches", "2",
            "--threads", "1", "--lr", "0.1", "--schedule", "constant", "--warm-up", "0", "--clip", "0"]
NOTE = """window.problems = [];
addEventListener('error', (e) => problems.push(e.message));
addEventListener('unhandledrejection', (e) => problems.push(String(e.reason?.stack)));
addEventListener('securitypolicyviolation', (e) => problems.push(e.violatedDirective));"""


def train(path, *arguments):
    return subprocess.Popen(
        [TRAIN, "--data", "x.tok", "--arch", "SM+LN+G", *COLLAPSE, "--out", path, *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Tab:
    """A browser tab that shows the page of a server."""

    def __init__(self, browser, server):
        self.browser, self.server = browser, server

    def open(self, hash=""):
        """Opens the address that the server has printed, which gives the browser the token.
        Then opens the page's address with `hash` appended, if it is given."""
        self.browser.open(self.server.address)
        if hash:
            self.browser.open("about:blank")
            self.browser.open(self.server.address.split("?")[0] + hash)
        return self

    def js(self, script, *arguments):
        return self.browser.js("return " + script, *arguments)

    def sees(self, script, *arguments):
        """Waits until a JavaScript expression is true; returns its value."""
        return self.browser.until(lambda: self.js(
            "(() => { try { return " + script + "; } catch { return null; } })()", *arguments))

    def text(self, css):
        return self.js("document.querySelector(arguments[0]).innerText", css)

    def runs(self, names):
        """Waits until the table has exactly these rows, in any order."""
        return self.browser.until(lambda: sorted(self.titles()) == sorted(names))

    def titles(self):
        return self.js("Array.from(document.querySelectorAll('#runs .open'),"
                       " (b) => b.textContent)")

    def is_calm(self, name):
        found = self.js("window.problems")
        log = [e["message"] for e in self.browser.log("browser")
               if e["level"] in ("SEVERE", "WARNING") and "net::ERR" not in e["message"]
               and "status of 40" not in e["message"]]
        check(f"{name}: no error and nothing that the policy forbids", not found and not log,
              (found, log))


def a_training_collapses(browser, server):
    """A training run that begins after the page was opened shows its samples, its collapse
    and an alert; a button stops it."""
    tab = Tab(browser, server).open()
    check("a page without runs says so", tab.sees(
        "document.getElementById('empty').innerText.includes('no runs yet')"))
    training = train("live/a.db", "--steps", "1000000")
    check("a run appears when its training begins", tab.sees(
        "typeof State !== 'undefined' && State.now.step > 4"), tab.text("body"))
    step = tab.js("State.now.step")
    check("new samples move the slider at its end", tab.sees(
        "State.now.step > arguments[0]", step))
    check("the curves have every sample up to it", tab.sees(
        "Data.find(Data.runs[0], 'entropy').steps.length * 10 >= State.now.step"))
    check("a collapse is shown in the table", tab.sees(
        "document.querySelector('#runs .chips').innerText.includes('collapse')"),
        tab.text("#runs"))
    check("an alert appears as a banner", tab.sees(
        "document.getElementById('alerts-list').innerText.includes('collapse')"),
        tab.text("#alerts"))
    check("the title of the tab counts the alerts", tab.sees(
        r"/^\([1-9][0-9]*\) /.test(document.title)"), tab.js("document.title"))
    title = tab.js("(document.getElementById('alerts-close').click(), document.title)")
    check("a dismissed alert is counted no more", not title.startswith("("), title)
    browser.js("Steps.choose(50)")
    seen = tab.js("Data.find(Data.runs[0], 'entropy').steps.length")
    tab.sees("Data.find(Data.runs[0], 'entropy').steps.length > arguments[0]", seen)
    check("new samples do not move the slider elsewhere", tab.js("State.now.step") == 50)
    browser.click(".stop")
    check("a stop needs a confirmation", tab.js("document.getElementById('stop').open") and
          training.poll() is None)
    browser.click("#stop-yes")
    check("a button stops the training", training.wait(60) == 0)
    check("the page says that it ended", tab.sees(
        "document.querySelector('#runs .status').innerText === 'stopped'"),
        tab.text("#runs .status"))
    tab.is_calm("a training")


def files_change(browser, server):
    """Run files are added, replaced, damaged and deleted while the page is open."""
    tab = Tab(browser, server).open()
    shutil.copy("other.db", "live/b.db")
    check("a new file appears", tab.sees("Data.runs.length === 2"), tab.titles())
    last = tab.js("Data.runs.find((r) => r.summary.path.endsWith('b.db')).summary.name")
    shutil.copy("evil.db", "new.db")
    os.rename("new.db", "live/b.db")
    check("a replaced file shows its new run", last == "other" and tab.sees(
        "Data.runs.some((r) => r.summary.name === arguments[0])", make_runs.BITE))
    shutil.copy("other.db", "live/c.db")
    tab.sees("Data.runs.length === 3")
    with open("live/bad.db", "w") as file:
        file.write("<img src=x onerror=alert(1)> is not a run")
    check("a file that is no run is named", tab.sees(
        "document.getElementById('failed').textContent.includes('bad.db')"))
    with open("live/c.db", "r+b") as file:
        file.write(b"\0" * 4096)
    os.utime("live/c.db")
    check("a damaged file is named", tab.sees(
        "document.getElementById('failed').textContent.includes('c.db')"),
        tab.text("#failed"))
    os.unlink("live/c.db")
    os.unlink("live/bad.db")
    check("a deleted file disappears", tab.sees(
        "Data.runs.length === 2 && document.getElementById('failed').hidden"), tab.titles())
    check("what is open is still drawn", tab.sees(
        "document.querySelectorAll('#heatmaps figure').length === State.now.open.length"))
    tab.is_calm("files")


def html_and_nan(browser, server):
    """Names that contain HTML are shown as text. A run without any finite value is drawn."""
    with open("nan.csv", "w", encoding="utf-8") as file:
        file.write(f"# name: {make_runs.BITE}\n# ctx: 16\nstep,layer,head,entropy,loss\n")
        for step in range(5):
            file.write(f"{step},,,,NaN\n")
            for head in range(6):
                file.write(f"{step},{head // 3},{head % 3},{'inf' if step == 2 else 'NaN'},\n")
    subprocess.run([SCAN, "import", "-q", "nan.csv", "-o", "live/nan.db"], check=True)
    tab = Tab(browser, server).open()
    check("a run of NaN is listed", tab.sees("Data.runs.length === 3"), tab.titles())
    browser.js("State.set({open: [...Data.runs]})")
    check("all of its heads are hatched", tab.sees(
        "Array.from(document.querySelectorAll('#heatmaps figure'), (f) => f.querySelectorAll("
        "'.cell[fill=\"url(#hatch)\"]').length).includes(6)"))
    check("a name of HTML is text", tab.js(
        "document.querySelectorAll('img, body script:not([type])').length") == 1 and
        any("</script>" in text for text in tab.js(
            "Array.from(document.querySelectorAll('#runs small, #runs th'),"
            " (e) => e.textContent)")))
    browser.js("document.getElementById('figures-card').open = true")
    tab.sees("document.querySelector('#figures details')")
    browser.js("document.querySelector('#figures details').open = true")
    check("the server draws a figure", tab.sees(
        "document.querySelector('#figures img')?.naturalWidth > 100"), tab.text("#figures"))
    tab.is_calm("HTML and NaN")


def the_table_follows(browser, options):
    """In a table of several runs, the sparklines follow a training run as it grows, a table row
    that moves keeps the keyboard focus, and a long title is shortened at one place only."""
    os.mkdir("follow")
    for i in range(4):
        shutil.copy("other.db", f"follow/{i}.db")
    name = "a title that says all about a run, and more, before it says what differs: "
    for end in "ab":
        with open("other.csv", encoding="utf-8") as file:
            text = file.read().replace("# name: other", f"# name: {name}{end}")
        with open("long.csv", "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([SCAN, "import", "-q", "long.csv", "-o", f"follow/{end}.db"], check=True)
    server = Server("follow", *options)
    tab = Tab(browser, server).open()
    tab.sees("Data.runs.length === 6")
    training = train("follow/z.db", "--steps", "1000000")
    row = "Array.from(document.querySelectorAll('#runs tbody tr')).find((row) =>" \
        " row.querySelector('.status').textContent.startsWith('running'))"
    curve = row + ".querySelector('.spark .line').getAttribute('d')"
    check("a training appears in a table of runs", tab.sees(curve + ".length > 1"),
          (training.poll(), tab.text("#runs")))
    browser.js("State.set({sort: {title: 'step', down: false}})")
    browser.js(row + ".querySelector('.open').focus()")
    step, before, place = (tab.js(what) for what in (
        "State.now.runs", curve, row + ".rowIndex"))
    check("the small curves of the table follow a training", tab.sees(
        curve + " !== arguments[0]", before), before)
    check("its row moves with its step", tab.sees(row + ".rowIndex === 7"), place)
    check("and keeps the focus", tab.sees("State.now.runs > arguments[0]", step) and tab.js(
        f"{row}.contains(document.activeElement)"))
    training.kill()
    training.wait()
    for width in (1280, 390):
        browser.cdp("Emulation.setDeviceMetricsOverride", width=width, height=800,
                    deviceScaleFactor=1, mobile=False)
        tab.sees("innerWidth === arguments[0]", width)
        shown = tab.js("""Array.from(document.querySelectorAll('#runs .open'),
            (open) => [open.textContent, Array.from(open.children, (part) =>
                [part.className, part.scrollWidth > part.clientWidth]),
                open.getBoundingClientRect().right <=
                    open.closest('th').getBoundingClientRect().right + 0.5])
            .filter(([text]) => text.includes('a title'))""")
        check(f"a long title at {width} pixels is cut in the middle only", len(shown) == 2 and all(
            parts[0] == ["start", True] and len(parts) == 2 and inside
            for _, parts, inside in shown), shown)
        ends = tab.js("""Array.from(document.querySelectorAll('#runs .end'), (part) =>
            getComputedStyle(part).textOverflow)""")
        check(f"its end has no second gap at {width} pixels", set(ends) == {"clip"}, ends)
    browser.cdp("Emulation.clearDeviceMetricsOverride")
    tab.is_calm("a table that follows")
    server.end()


def the_server_restarts(browser, server, options):
    """Two browser tabs stay open while the server is down, and continue when it runs again."""
    first = browser.window()
    browser.new_window()
    tab = Tab(browser, server).open()
    second = browser.window()
    tab.sees("Data.runs.length === 3 && document.querySelector('.state.on') !== null &&"
             " document.querySelectorAll('#heatmaps figure').length > 0")
    port = server.port
    server.end()
    for window in (first, second):
        browser.to(window)
        check("a tab says that the server is away, and since when", tab.sees(
            "/server is away, last data of [0-9:]{8}/.test("
            "document.getElementById('away').innerText)"), tab.text("body")[:300])
    check("the last data remain", tab.js("Data.runs.length") == 3 and tab.js(
        "document.querySelectorAll('#heatmaps figure').length") > 0)
    shutil.copy("other.db", "live/d.db")
    server = Server("live", *options, port=port)
    for window in (first, second):
        browser.to(window)
        check("a tab connects again by itself", tab.sees(
            "document.getElementById('away').hidden && Data.runs.length === 4"),
            tab.text("body")[:300])
    browser.close_window()
    browser.to(first)
    return server


def a_link_shows_the_view(browser, server):
    tab = Tab(browser, server).open()
    tab.sees("Data.runs.length === 4 && document.querySelectorAll('#heatmaps figure').length")
    browser.js("""const run = Data.runs.find((r) => r.summary.name === 'other');
        State.set({open: [run], series: 'max_logit', head: {run: run.key, row: 1, column: 2}});""")
    tab.sees("document.querySelector('#curves .chosen') !== null")
    check("its attention maps are drawn", tab.sees(
        "document.querySelectorAll('#maps canvas').length === 2 && !/NaN|undefined/.test("
        "document.getElementById('maps').textContent)"), tab.text("#maps-card"))
    browser.js("Steps.choose(20)")
    look = "[State.now.open.map((r) => r.key), State.now.series, State.now.step, " \
        "Array.from(document.querySelectorAll('#heatmaps .cell'), (c) => c.getAttribute('fill'))," \
        "document.querySelector('#curves .chosen')?.getAttribute('d')]"
    tab.sees("location.hash.includes('step=20')")
    before, link = tab.js(look), tab.js("location.hash")
    tab.open(link)
    check("a link shows the same view", browser.until(
        lambda: tab.js("typeof State !== 'undefined'") and tab.js(look) == before),
        (tab.js(look), before))


def a_frame_has_its_token(browser, server):
    """A browser without the token's cookie gets the token in the page's address. The page then
    removes the token from the address."""
    browser.forget_cookies()
    browser.open(server.address.split("?")[0] + "?embed=" + server.token + "#log=1")
    tab = Tab(browser, server)
    check("a frame works with the token in its address", tab.sees(
        "Data.runs.length === 4 && document.querySelectorAll('#heatmaps figure').length > 0"))
    check("the token does not remain in the address", not tab.js("location.search") and
          tab.js("location.hash") == "#log=1", tab.js("location.href"))
    check("its events come with the token too", tab.sees(
        "document.getElementById('state').classList.contains('on')"))


def a_sweep(browser, options):
    """300 runs are listed, filtered and grouped. The document contains only visible rows."""
    os.mkdir("sweep")
    make_tree.main("other.db", 300, "sweep/all.db")
    server = Server("sweep", *options)
    tab = Tab(browser, server).open()
    check("a sweep of 300 runs is listed", tab.sees(
        "typeof Data !== 'undefined' && Data.runs.length === 300 &&"
        " document.querySelectorAll('#runs .spark svg').length > 20"))
    names = tree.scrolled(browser)
    check("every run has a row", len(set(names)) == 300, len(names))
    rows = tab.js("document.querySelectorAll('#runs tbody tr').length")
    check("the document has only the rows in sight", 20 < rows < 80, rows)
    browser.type("#filter", "lr=0.001", " ", "linear")
    check("a sweep is filtered", tab.sees("State.now.selected.length === 50"))
    browser.js("State.set({filter: '', group: 'schedule'})")
    check("a sweep is grouped", tree.column(browser, "run") == [
        "schedule = cosine, 150 runs", "schedule = linear, 150 runs"],
        tree.column(browser, "run"))
    check("groups have curves", tab.sees(
        "document.querySelectorAll('#groups .line').length === 4"))
    browser.js("State.set({group: '.status'})")
    browser.js("document.querySelector('#runs .group .open').focus()")
    focused = "document.activeElement.closest('#runs .group')?.querySelector('.open').textContent"
    before = tab.js(focused)
    shutil.copy("other.db", "sweep/other.db")
    n = int(before.split()[-2])
    check("a group keeps the focus while a run is added to it", tab.sees(
        "Data.runs.length === 301") and tab.js(focused) == before.replace(
            f" {n} ", f" {n + 1} "), (before, tab.js(focused)))
    os.unlink("sweep/other.db")
    check("and while it is removed", tab.sees("Data.runs.length === 300") and
          tab.js(focused) == before, (before, tab.js(focused)))
    browser.js("State.set({open: Data.runs.slice(2, 5), group: ''})")
    check("three runs are drawn side by side", tab.sees(
        "document.querySelectorAll('#heatmaps figure').length === 3"))
    browser.js("State.set({open: Data.runs.slice(5, 6)})")
    tab.sees("document.querySelectorAll('#heatmaps figure').length === 1")
    for start in range(10, 60, 10):
        browser.js("State.set({open: Data.runs.slice(arguments[0], arguments[0] + 10)})", start)
        tab.sees("document.querySelectorAll('#heatmaps figure').length === 10")
    held = tab.js("Data.series.filter((s) => s.steps).length")
    check("samples of closed runs are dropped", held <= 10 * 3 + 12, held)
    for card, form, start in (("heads", "svg", b"<?xml"), ("heads", "png", b"\x89PNG"),
                              ("curves", "csv", b"run,")):
        browser.js("document.getElementById(arguments[0] + '-card').querySelector('.head')"
                   ".scrollIntoView({block: 'center'})", card)
        browser.click(f"#{card}-card .save summary")
        browser.click(f"#{card}-card [data-format={form}]")
        data = browser.downloaded("." + form).read_bytes()
        check(f"a panel is saved as {form}", data.startswith(start), data[:60])
    browser.js("document.getElementById('runs-card').querySelector('.head')"
               ".scrollIntoView({block: 'center'})")
    browser.click("#runs-card .save summary")
    browser.click("#runs-card [data-format=svg]")
    check("a picture of too many runs is refused", tab.sees(
        "document.querySelector('#tip:not([hidden])').innerText.includes('at most 150 runs')"),
        tab.text("#tip"))
    tab.is_calm("a sweep")
    server.end()


def saved(tab, card):
    """Saves a panel as SVG; returns the root of its elements."""
    tab.browser.click(f"#{card}-card .save summary")
    tab.browser.click(f"#{card}-card [data-format=svg]")
    path = tab.browser.downloaded(".svg")
    root = xml.etree.ElementTree.parse(path).getroot()
    path.unlink()
    return root


def texts(root):
    return [e.text for e in root.iter() if e.tag.endswith("text")]


def drawn(figure, runs):
    """Returns the texts of a figure that the program entropy-scan draws."""
    subprocess.run([SCAN, "draw", *figure, *runs, "-o", "drawn.svg"], stderr=subprocess.DEVNULL,
                   check=True)
    return texts(xml.etree.ElementTree.parse("drawn.svg").getroot())


def rated():
    """Writes rated.csv, which is steady.csv with a learning rate, and returns its name."""
    with open("steady.csv", encoding="utf-8") as source, \
            open("rated.csv", "w", encoding="utf-8") as out:
        for line in source.read().replace("name: steady", "name: rated").splitlines():
            step, layer = (line + ",").split(",")[:2]
            out.write(line + ("" if line[0] == "#" else ",lr" if step == "step" else
                              "," if layer else f",{0.01 - 2e-6 * int(step):.4g}") + "\n")
    return "rated.csv"


def the_program_draws(browser, options):
    """A panel of the page is saved as the same figure that the program entropy-scan draws from the
    same data."""
    os.mkdir("drawn")
    runs = ["drawn/spiky.db", "drawn/steady.db"]
    for run in runs:
        subprocess.run([SCAN, "import", "-q", os.path.basename(run)[:-2] + "csv", "-o", run],
                       check=True)
    server = Server("drawn", *options)
    tab = Tab(browser, server).open()
    tab.sees("document.querySelectorAll('#heatmaps figure').length === 2 &&"
             " document.querySelectorAll('#values .line').length === 2")
    heat, loss, curves = "heatmap", "loss", "curves"
    delta = "{delta: [Data.runs[1], Data.runs[0]]}"
    for card, state, figure in (
            ("heads", "{}", [heat]), ("heads", delta, [heat + "+delta"]),
            ("heads", "{step: 1000}", [heat, "--step", "1000"]),
            ("curves", "{}", [curves]), ("curves", "{log: true}", [curves, "--log"]),
            ("values", "{}", [loss]), ("values", "{log: true}", [loss, "--log"]),
            ("values", "{full: true}", [loss, "--full"]),
            ("values", "{span: [0.5, 500.5]}", [loss, "--steps", "1-500"]),
            ("curves", "{span: [1000, 2000]}", [curves, "--steps", "1000-2000"]),
            ("runs", "{}", ["overview"]),
            ("curves", "{head: {run: Data.runs[0].key, row: 1, column: 1}}", None)):
        before = "{delta: null, step: 2990, log: false, full: false, span: null, head: null}"
        browser.js(f"State.set(Object.assign({before}, {state}))")
        root = saved(tab, card)
        if not figure:
            check(f"{card} with {state} are saved as on the page", root.get("font-family"),
                  texts(root))
            continue
        wanted = drawn(figure, runs)
        check(f"{card} with {state} are saved as {' '.join(figure)}", texts(root) == wanted,
              (texts(root), wanted))
    subprocess.run([SCAN, "import", "-q", rated(), "-o", "drawn/rated.db"], check=True)
    tab.sees("Data.runs.length === 3")
    browser.js("State.set({head: null, open: Data.runs.filter(({title}) => title === 'rated')})")
    tab.sees("document.querySelectorAll('#values .line').length === 2")
    wanted, root = drawn(["values"], ["drawn/rated.db"]), saved(tab, "values")
    check("several values are saved as one figure", {"loss", "lr"} <= set(wanted) and
          texts(root) == wanted, (texts(root), wanted))
    tab.is_calm("saved figures")
    server.end()


def main():
    downloads, profile = (os.path.abspath(name) for name in ("downloads", "profile"))
    os.mkdir(downloads)
    os.mkdir("live")
    options = ["--token-file", "token", "--allow-stop"]
    server = Server("live", *options)
    browser = webdriver.Browser(downloads, profile)
    try:
        browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=NOTE)
        a_training_collapses(browser, server)
        files_change(browser, server)
        html_and_nan(browser, server)
        server = the_server_restarts(browser, server, options)
        a_link_shows_the_view(browser, server)
        a_frame_has_its_token(browser, server)
        the_table_follows(browser, options)
        the_program_draws(browser, options)
        a_sweep(browser, options)
    finally:
        browser.close()
        server.end()


main()
