"""Checks the page of 150 runs (make_tree.py) in the browser: the table can be sorted,
filtered and brushed, a click on a row opens its run, and two runs can be compared."""
import pathlib


def column(browser, title, part=""):
    """Returns the texts of a column, or of a part of its cells, in all visible rows, from
    the top."""
    return browser.js(
        "const i = Array.from(document.querySelectorAll('#runs thead th'),"
        " (c) => c.textContent).indexOf(arguments[0]);"
        "return Array.from(document.querySelectorAll("
        "'#runs tbody tr:not([hidden])'), ({cells: {[i]: cell}}) =>"
        " (arguments[1] === '.firstChild' ? cell.firstChild : arguments[1]"
        "  ? cell.querySelector(arguments[1]) : cell).textContent)",
        title, part)


def scrolled(browser):
    """Scrolls the table from its top to its end; returns the names of all rows in order."""
    return browser.js_async("""
        const done = arguments[0], box = document.querySelector('.tall'), seen = new Map();
        box.scrollTop = 0;
        const look = () => {
            for (const row of document.querySelectorAll('#runs tbody tr'))
                seen.set(Number(row.getAttribute('aria-rowindex')),
                         row.querySelector('.open').textContent);
            if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1)
                done([...seen].sort((a, b) => a[0] - b[0]).map(([, name]) => name));
            else {
                box.scrollTop += 200;
                requestAnimationFrame(() => requestAnimationFrame(look));
            }
        };
        requestAnimationFrame(look);""")


def choose(browser, select, value):
    browser.js("const s = document.querySelector(arguments[0]); s.value = arguments[1];"
               "s.dispatchEvent(new Event('change'))", select, value)


def group_by(browser, setting):
    choose(browser, "#group", setting)


def click_title(browser, title):
    titles = browser.js("return Array.from(document.querySelectorAll('.sort'),"
                        " (b) => b.textContent)")
    browser.click(".sort", titles.index(title))


def is_number(text):
    return text not in ("NaN", "–")


def sorts(browser, check):
    before = column(browser, "eval ppl")
    for direction in ("up", "down"):
        click_title(browser, "eval ppl")
        got = column(browser, "eval ppl")
        numbers = [float(x) for x in got if is_number(x)]
        check(f"a click on a title sorts {direction}", got != before and
              numbers == sorted(numbers, reverse=direction == "down") and
              len(numbers) == 120, got)
        check(f"NaN and then missing come last, sorted {direction}",
              got[120:] == ["NaN"] * 15 + ["–"] * 15, got[115:])


def settings(browser, check):
    got = browser.js(
        "return Data.differing([[['a', 1], ['lr', 1]], [['lr', 2]], [['lr', 1]]]"
        ".map((list) => ({settings: new Map(list)})))")
    check("settings that only some runs have are last", got == ["lr", "a"], got)


def filters(browser, check):
    shown = lambda: column(browser, "run")
    count = lambda: browser.js(
        "return document.getElementById('filter-count').textContent")
    browser.type("#filter", "lr=0.001", " ", "linear")
    check("rows must contain all words of the filter", browser.until(
        lambda: len(shown()) == 25) and
        set(column(browser, "lr")) == {"0.001"} and
        set(column(browser, "schedule")) == {"linear"}, shown())
    check("the filter says how many runs are left", count() == "25 of 150 runs", count())
    browser.click("#clear")
    check("a button clears the filter", len(shown()) == 150 and
          count() == "150 runs", count())
    choose(browser, "#filter-flag", "is nan")
    check("other runs have other flags", browser.js(
        "return Data.runs.filter((r) => Runs.standing(r).length).length") == 30)
    check("a flag filters the table", len(shown()) == 15 and
          all("nan" in x for x in column(browser, "flags")), shown())
    browser.click("#clear")


def grip(browser, title):
    return browser.js(
        "return Array.from(document.querySelectorAll('.axis-title'),"
        " (t) => t.textContent).indexOf(arguments[0])", title)


def brush(browser, index, x, y, by):
    start = browser._origin(".grip", index, x, y)
    browser.mouse(start, {"type": "pointerDown", "button": 0},
                  dict(start, y=y + by, duration=50),
                  {"type": "pointerUp", "button": 0})


def brushes(browser, check):
    lines = lambda css: browser.js(
        "return document.querySelectorAll('.parallel ' + arguments[0]).length",
        css)
    check("each run has a line", lines(".line") == 150, lines(".line"))
    axis = grip(browser, "lr")
    brush(browser, axis, 0, -130, 40)
    check("a drag along an axis selects the runs through it", browser.until(
        lambda: set(column(browser, "lr")) == {"0.01"}) and
        lines(".line.off") == 100, column(browser, "lr"))
    axis = grip(browser, "eval ppl")
    brush(browser, axis, 0, 135, -30)
    check("runs without a number can be selected", browser.until(
        lambda: set(column(browser, "eval ppl")) <= {"NaN", "–"}),
        column(browser, "eval ppl"))
    browser.click("#clear")
    check("all lines are back", lines(".line.off") == 0 and
          len(column(browser, "run")) == 150)


def folds(browser, check):
    lines = lambda css="": browser.js(
        "return document.querySelectorAll('#runs tbody tr' + arguments[0])"
        ".length", css)
    check("a row is as high as one line of text", browser.js(
        "return document.querySelector('#runs tbody tr').offsetHeight") <= 25)
    check("each finite perplexity is a dot, NaN a cross, missing nothing",
          [lines(" .dots .mean"), lines(" .dots .cross")] == [120, 15])
    check("flags are bars over the steps", lines(" .track .episode") == 30 and
          lines(" .track .run") == 150, lines(" .track .episode"))
    groups = browser.js(
        "const all = new Map(); for (const r of Data.runs) {"
        " const key = [r.settings.get('lr'), r.settings.get('schedule'),"
        "              r.summary.n_layer].join();"
        " all.set(key, [...all.get(key) || [], r.summary.eval_ppl ?? null]); }"
        "return [...all]")
    group_by(browser, ".seed")
    check("merged seeds have a row per configuration",
          lines() == len(groups) and lines(".group") == len(groups),
          (lines(), len(groups)))
    click_title(browser, "perplexity")
    finite = [[x for x in values if x is not None] for _, values in groups]
    means = sorted(sum(x) / len(x) for x in finite)
    got = [float(x) for x in column(browser, "eval ppl", ".firstChild")]
    check("merged seeds show their mean and are sorted by it", len(got) == len(means) and all(
        abs(a - b) <= 1e-3 * b for a, b in zip(got, means)), (got, means))
    check("merged seeds show their range", lines(" .range") == len(groups))
    ranges = sorted(float(x) for text in column(browser, "eval ppl", "small")
                    for x in text.split("–"))
    check("merged seeds say their range", len(ranges) == 2 * len(groups) and all(
        abs(a - b) <= 1e-3 * b for a, b in zip(ranges, sorted(
            edge for values in finite for edge in (min(values), max(values))))), ranges)
    check("merged seeds say how many of them have a flag", any(
        " of " in x for x in column(browser, "flags")), column(browser, "flags"))
    browser.click("tr.group")
    n = int(column(browser, "run")[0].split()[0])
    check("a click shows the seeds below the merged row", browser.until(
        lambda: lines() == len(groups) + n), (lines(), n))
    browser.type("#filter", "linear")
    check("filters apply to merged rows", browser.until(
        lambda: set(column(browser, "schedule")) == {"linear"}),
        column(browser, "schedule"))
    browser.click("#clear")
    group_by(browser, "")
    check("all runs are back", lines() == 150 and not lines(".group"), lines())


def figures(browser):
    return browser.js("return Array.from(document.querySelectorAll("
                      "'#heatmaps figure strong'), (e) => e.textContent)")


def opens(browser, check):
    check("no run is open at first", figures(browser) == [] and not browser.js(
        "return document.getElementById('closed').hidden"))
    first = column(browser, "run")[0]
    browser.click(".open")
    check("a click on a row opens its run", browser.until(
        lambda: len(figures(browser)) == 1) and
        first.startswith(figures(browser)[0]), (first, figures(browser)))
    check("an open run has its curves and its loss", browser.js(
        "return document.querySelectorAll('#curves .line').length") >= 8 and
        browser.js("return document.querySelectorAll('#values .line').length"))
    browser.click(".open")
    check("another click closes it", browser.until(
        lambda: figures(browser) == []))


def tick(browser, line):
    """Ticks the box of a row, after scrolling the row out from under the fixed titles."""
    browser.js("document.querySelectorAll('.tick')[arguments[0]]"
               ".scrollIntoView({block: 'center'})", line)
    browser.click(".tick", line)


def compares(browser, check):
    runs = browser.js(
        "return Data.runs.map((r) => [r.title, r.summary.n_layer])")
    order = column(browser, "run")
    at = lambda i: next(k for k, name in enumerate(order)
                        if name.startswith(runs[i][0]) and
                        name[len(runs[i][0]):].strip() in ("", "SM+LN+G"))
    for i in (0, 13):
        check("fewer than two ticks allow no comparison",
              browser.js("return document.getElementById('compare').disabled"))
        tick(browser, at(i))
    browser.click("#compare")
    browser.until(lambda: len(figures(browser)) == 3)
    check("two runs and their difference are shown", figures(browser) == [
        runs[0][0], runs[13][0], f"{runs[13][0]} − {runs[0][0]}"],
        figures(browser))
    cells = browser.js(
        "return Array.from(document.querySelectorAll('#heatmaps figure'),"
        " (f) => Array.from(f.querySelectorAll('.cell'),"
        "  (c) => c.getAttribute('fill')))")
    values = browser.js(
        "return [0, 13].map((i) => Array.from(Data.find(Data.runs[i],"
        " 'entropy').values.floats.slice(-96), (x) => isNaN(x) ? null : x))")
    difference = [None if a is None or b is None else b - a
                  for a, b in zip(*values)]
    most = max(abs(x) for x in difference if x is not None)
    colours = browser.js("return Scale.ofDifference()")
    wanted = ["url(#hatch)" if x is None else
              colours[int((x / most + 1) / 2 * 255 + 0.5)] for x in difference]
    near = sum(a == b for a, b in zip(cells[2], wanted))
    check("each head has the colour of its difference, and NaN is hatched",
          near >= 94 and wanted[5] == cells[2][5] == "url(#hatch)" and
          len(set(wanted)) > 20, (near, cells[2][:8], wanted[:8]))
    tick(browser, at(13))
    tick(browser, at(6))
    browser.click("#compare")
    note = lambda: browser.js(
        "return document.querySelector('#heatmaps > p')?.textContent")
    check("runs of two shapes have no difference, with a reason",
          browser.until(note) and len(figures(browser)) == 2 and
          "8 layers of 12 heads" in note(), note())
    browser.click("#close")
    check("all are closed", browser.until(lambda: figures(browser) == []))


def many_runs(browser, check):
    browser.open(pathlib.Path("tree150.html").resolve().as_uri())
    opens(browser, check)
    sorts(browser, check)
    settings(browser, check)
    filters(browser, check)
    brushes(browser, check)
    folds(browser, check)
    compares(browser, check)
