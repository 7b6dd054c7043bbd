"""Checks what every view of the page shares: the address holds the selection, the keyboard
reaches every function, panels can be saved, and labels stay inside their drawing."""
import pathlib
import xml.etree.ElementTree

import tree


def opened(browser):
    return browser.js("return State.now.open.map((run) => run.title)")


def address(browser):
    return browser.js("return location.hash")


def waits_for(browser, text):
    return browser.until(lambda: text in address(browser))


def links(browser, check):
    """A link to a view shows that view again, and the browser's back and forward buttons work."""
    url = browser.js("return location.href.split('#')[0]")
    browser.js("document.querySelectorAll('#runs .open')[3].click()")
    waits_for(browser, "runs=")
    browser.js("document.querySelectorAll('#runs .open')[7].click()")
    browser.until(lambda: address(browser).count("00000000-0000") == 2)
    tree.click_title(browser, "ppl")
    tree.click_title(browser, "ppl")
    waits_for(browser, "sort=-ppl")
    tree.group_by(browser, "lr")
    waits_for(browser, "group=lr")
    browser.js("document.querySelector('#heatmaps svg').dispatchEvent(new MouseEvent("
               "'click', {clientX: 1, clientY: 1})); State.set({head: {run: "
               "State.now.open[0].key, row: 2, column: 5}, filter: 'linear', "
               "span: [50, 150]}); Steps.choose(120)")
    waits_for(browser, "span=50")
    seen = "return [State.now.step, State.now.sort, State.now.group, State.now.filter," \
           "State.now.head, State.now.span, State.now.selected.length," \
           "Array.from(document.querySelectorAll('#runs tbody tr:not([hidden])')," \
           " (r) => r.textContent)," \
           "document.querySelectorAll('#heatmaps figure').length]"
    before, names, link = browser.js(seen), opened(browser), address(browser)
    check("a selection is in the address", all(part in link for part in (
        "runs=", "head=", "filter=linear", "span=50%2C150")), link)
    browser.open("about:blank")
    browser.open(url + link)
    check("a link shows the same view", browser.until(
        lambda: browser.js(seen) == before) and opened(browser) == names,
        (browser.js(seen), before))
    browser.js("Table.clear(); State.set({group: ''})")
    browser.until(lambda: "group" not in address(browser))
    browser.js("history.back()")
    check("back returns to the view before", browser.until(
        lambda: browser.js("return State.now.group") == "lr"), address(browser))
    browser.js("history.forward()")
    check("forward goes to the view after", browser.until(
        lambda: browser.js("return State.now.group") == ""), address(browser))
    for broken in ("#runs=__proto__,%zz&step=x&series=constructor&head=a,b&sort=%ff",
                   "#span=1,2,3&axes=lr:x:y,%E0%A4%A:1:2&flag=toString&group=valueOf"):
        browser.open("about:blank")
        browser.open(url + broken)
        check("an address without sense shows all runs", browser.js(
            "return [State.now.open.length, State.now.series, State.now.step,"
            " State.now.head, State.now.span]") == [0, "entropy", None, None, None] and
            browser.js("return document.querySelectorAll('#runs tbody tr').length") > 0,
            broken)
    browser.open("about:blank")
    browser.open(url)


def keys(browser, check):
    focused = lambda: browser.js("return document.activeElement.textContent")
    press = browser.press
    press("?")
    check("a key shows the list of keys", browser.until(
        lambda: browser.js("return document.getElementById('keys').open")))
    browser.click("#keys-close")
    press("j")
    first = focused()
    press("j")
    check("keys go from run to run", first == "seed 0" and focused() == "seed 1",
          (first, focused()))
    outline = browser.js("return getComputedStyle(document.activeElement).outlineStyle")
    check("the focus is visible", outline == "solid", outline)
    check("one run is in the order of the tab key", browser.js(
        "return document.querySelectorAll('#runs .open[tabindex=\"0\"]').length") == 1)
    browser.js("document.activeElement.click()")
    check("the focused run is opened", opened(browser) == ["seed 1"], opened(browser))
    press("x", "k", "x", "c")
    check("keys compare two runs", browser.until(
        lambda: len(tree.figures(browser)) == 3), tree.figures(browser))
    last = browser.js("return State.now.step")
    press(",")
    step = browser.js("return State.now.step")
    press(">")
    check("keys move the step", step < last == browser.js("return State.now.step"), step)
    press("/")
    check("a key goes to the filter", browser.js("return document.activeElement.id") ==
          "filter")
    browser.type("#filter", "lr", "=", "0.01")
    check("letters in the filter are no keys", browser.js("return State.now.filter") ==
          "lr=0.01")
    browser.js("document.activeElement.blur()")
    press("escape")
    check("escape clears the filter", browser.js("return State.now.filter") == "")
    browser.click("#close")


def saved(browser, card, form):
    browser.js("document.getElementById(arguments[0] + '-card').querySelector('.head')"
               ".scrollIntoView({block: 'center'})", card)
    for _ in range(3):  # Chromium now and then drops one of many downloads
        browser.js("document.querySelectorAll('.save').forEach((menu) => menu.open = false)")
        browser.click(f"#{card}-card .save summary")
        browser.click(f"#{card}-card [data-format={form}]")
        if path := browser.downloaded("." + form, 4):
            break
    else:
        return b""
    data = path.read_bytes()
    path.unlink()
    return data


def saves(browser, check):
    """Every panel of an open comparison can be saved in every format that the panel
    offers."""
    browser.js("State.set({open: Data.runs.slice(2, 4), delta: Data.runs.slice(2, 4),"
               "group: 'lr'})")
    offers = browser.js(
        "return Array.from(document.querySelectorAll('.card:not([hidden]) [data-format]'),"
        " (b) => [b.closest('.card').id.replace('-card', ''), b.dataset.format])")
    cards = {card for card, _ in offers}
    check("every panel can be saved", {"runs", "parallel", "groups", "heads", "curves",
          "values", "timeline", "flags", "config"} <= cards, cards)
    for card, form in offers:
        data = saved(browser, card, form)
        if not data:
            check(f"{card}: a {form} is saved", False, browser.js(
                "return document.getElementById('tip').textContent"))
        elif form == "svg":
            root = xml.etree.ElementTree.fromstring(data)
            drawn = sum(1 for e in root.iter() if e.tag.rsplit("}")[-1] in (
                "path", "rect", "line"))
            styled = b"var(--" not in data and b"class=" not in data
            check(f"{card}: the SVG stands alone", drawn > 3 and styled, data[:300])
        elif form == "png":
            check(f"{card}: the PNG is a picture", data.startswith(b"\x89PNG") and
                  len(data) > 4000, len(data))
        else:
            lines = data.decode().splitlines()
            check(f"{card}: the CSV has a heading and values", len(lines) > 1 and
                  all(line.count(",") >= lines[0].count(",") for line in lines), lines[:3])
    rows = saved(browser, "heads", "csv").decode().splitlines()
    check("the CSV of heads has a row per head, and NaN is not a number", len(rows) ==
          1 + 3 * 96 and rows[0] == "run,step,layer,head,entropy" and
          "seed 3,230,0,5,NaN" in rows, rows[:3])
    browser.js("State.set({open: [], delta: null, group: ''})")


def labels(browser, check):
    """The labels of the parallel axes are inside the drawing and do not overlap."""
    for width in (1280, 390):
        browser.cdp("Emulation.setDeviceMetricsOverride", width=width, height=800,
                    deviceScaleFactor=1, mobile=False)
        browser.until(lambda: browser.js("return innerWidth") == width and browser.js(
            "return document.querySelector('.parallel').clientWidth >= "
            "document.getElementById('parallel').clientWidth"))
        wrong = browser.js("""
            const frame = document.querySelector('.parallel').getBoundingClientRect();
            const all = Array.from(document.querySelectorAll('.parallel text'),
                (t) => [t.textContent, t.getBoundingClientRect()]);
            const outside = all.filter(([, b]) => b.left < frame.left - 1 ||
                b.right > frame.right + 1 || b.top < frame.top - 1);
            const touch = all.filter(([, a], i) => all.some(([, b], k) => k < i &&
                a.left < b.right - 1 && b.left < a.right - 1 && a.top + 4 < b.bottom &&
                b.top + 4 < a.bottom));
            return [outside, touch].map((list) => list.map(([text]) => text));""")
        check(f"labels of parallel axes fit at {width} pixels", wrong == [[], []], wrong)
    browser.cdp("Emulation.clearDeviceMetricsOverride")


def sparks(browser, check):
    count = lambda css: browser.js(
        "return document.querySelectorAll('#runs tbody .spark' + arguments[0]).length", css)
    check("every run has its small curves", browser.until(
        lambda: count(" svg") == 300), count(" svg"))


def groups(browser, check):
    """Runs can be grouped by any setting; each group shows the mean and range of its runs."""
    ways = browser.js("return Array.from(document.querySelectorAll('#group option'),"
                      " (o) => o.value)")
    check("runs are grouped by any setting", {"", ".seed", ".shape", ".status", "lr",
          "schedule", "seed"} <= set(ways), ways)
    tree.group_by(browser, ".shape")
    check("a group names its value and its size", tree.column(browser, "run") ==
          ["shape = 12 × 8, 135 runs", "shape = 8 × 12, 15 runs"],
          tree.column(browser, "run"))
    check("the groups have curves of the mean, with a band", browser.until(
        lambda: browser.js("return document.querySelectorAll('#groups .line').length")
        == 4) and browser.js(
            "return document.querySelectorAll('#groups .band').length") == 4)
    got, wanted = browser.js("""
        const at = Groups.rows().filter((r) => r[0].startsWith('shape = 8') &&
            r[1] === 'loss').pop();
        const last = Data.runs.filter((r) => r.summary.n_layer === 8)
            .map((r) => r.summary.loss);
        return [at.slice(3), [last.reduce((a, b) => a + b) / last.length,
            Math.min(...last), Math.max(...last)]];""")
    check("the mean and range of a group are those of its runs", all(
        abs(a - b) < 1e-5 for a, b in zip(got, wanted)), (got, wanted))
    tree.group_by(browser, "")


def losses(browser, check):
    """The y axis of the losses ends at the largest value in the last two thirds of the
    runs. Larger values are printed next to arrows, and are the same as in the
    program's figure, losses.svg."""
    texts = lambda css: browser.js("return Array.from(document.querySelectorAll("
                                   "arguments[0]), (e) => e.textContent)", css)
    ticks = lambda: [float(t) for t in texts("#values .axis line + text")]
    inside = lambda: browser.js(
        "const c = document.querySelector('#values svg').getBoundingClientRect();"
        "return Array.from(document.querySelectorAll('#values .arrows text'), (t) =>"
        " t.getBoundingClientRect()).every((b) => b.left >= c.left && b.right <= c.right &&"
        " b.top >= c.top)")
    browser.open(pathlib.Path("losses.html").resolve().as_uri())
    drawn = xml.etree.ElementTree.parse("losses.svg").getroot()
    figure = {e.text for e in drawn.iter() if e.tag.endswith("text")}
    arrows = texts("#values .arrows text")
    check("losses above the axis have an arrow with their value, as in the figure",
          len(arrows) == 3 and arrows[1] == "43.4" and set(arrows) <= figure and inside(),
          (arrows, figure))
    check("a run that diverges does not set the axis", max(ticks()) < 5, ticks())
    browser.cdp("Emulation.setDeviceMetricsOverride", width=390, height=800,
                deviceScaleFactor=1, mobile=False)
    check("a narrow timeline is visible", browser.until(lambda: browser.js(
        "return document.querySelector('.timeline').clientWidth") > 200))
    browser.cdp("Emulation.clearDeviceMetricsOverride")
    browser.js("document.querySelector('#values-card .full input').click()")
    check("a box shows all losses", browser.until(lambda: max(ticks()) > 150) and
          not texts("#values .arrows text"), ticks())
    waits_for(browser, "full=1")
    link = browser.js("return location.href")
    browser.open("about:blank")
    browser.open(link)
    check("a link shows all losses", browser.until(lambda: max(ticks()) > 150), ticks())
    browser.press("f")
    check("a key cuts them again", browser.until(
        lambda: texts("#values .arrows text") == arrows), texts("#values .arrows text"))
    browser.press("l")
    check("a logarithmic axis is not cut", browser.until(
        lambda: not texts("#values .arrows text")))


def many_runs(browser, check):
    browser.open(pathlib.Path("tree150.html").resolve().as_uri())
    sparks(browser, check)
    labels(browser, check)
    groups(browser, check)
    keys(browser, check)
    saves(browser, check)
    links(browser, check)
