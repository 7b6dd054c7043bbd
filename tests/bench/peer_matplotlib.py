"""Draws the figures of entropy-scan with numpy and matplotlib, for comparison.

usage: peer_matplotlib.py heatmap|curves|table|report RUN.db...

Reads the same run files with Python's sqlite3 and writes the same kind of
result into the current folder; bench_cli times the whole process.
"""

import sqlite3
import sys

import numpy

REPORT_FRAMES = 20  # a sample, as all frames take minutes


def read(path, name="entropy"):
    """Returns steps (n) and values (n, L, H) or (n, 1, 1) of a series, and the
    architecture.
    """
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    arch, layers, heads = db.execute(
        "SELECT arch, n_layer, n_head FROM run").fetchone()
    rows = db.execute(
        "SELECT step, value FROM sample JOIN series USING (series_id) "
        "WHERE name = ? AND phase = 'train' ORDER BY step", (name,)).fetchall()
    db.close()
    values = numpy.frombuffer(b"".join(row[1] for row in rows), "<f4")
    shape = (len(rows), layers, heads) if name == "entropy" else (-1, 1, 1)
    return [row[0] for row in rows], values.reshape(shape), arch


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def draw_heads(axes, heads, top):
    image = axes.imshow(heads, cmap="viridis", vmin=0, vmax=top)
    for layer, row in enumerate(heads):
        for head, value in enumerate(row):
            axes.text(head, layer, "%.2f" % value, ha="center", va="center",
                      fontsize=7, color="w" if value < top / 2 else "k")
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    return image


def heatmap(path):
    plt = pyplot()
    steps, values, arch = read(path)
    figure, axes = plt.subplots()
    image = draw_heads(axes, values[-1], values[-1].max())
    axes.set_title("%s, step %d" % (arch, steps[-1]))
    figure.colorbar(image, label="entropy (nats)")
    figure.savefig("peer-heatmap.png", dpi=144)


def curves(path):
    plt = pyplot()
    steps, values, arch = read(path)
    figure, axes = plt.subplots()
    for layer in range(values.shape[1]):
        axes.plot(steps, values[:, layer].mean(axis=1), label=str(layer),
                  color=plt.cm.viridis(layer / values.shape[1]))
    axes.set_title(arch)
    axes.set_xlabel("step")
    axes.set_ylabel("entropy (nats)")
    axes.legend(title="layer")
    figure.savefig("peer-curves.png", dpi=144)


def table(*paths):
    runs = []
    for path in paths:
        steps, values, arch = read(path)
        loss = read(path, "loss")[1]
        bad = not (numpy.isfinite(values).all() and numpy.isfinite(loss).all())
        runs.append((path, arch, steps[-1], loss[-1, 0, 0], values[-1], bad))
    top = max(run[4].max() for run in runs)
    for path, arch, step, loss, last, bad in runs:
        shares = numpy.histogram(last, 4, (0, top))[0] / last.size
        print(path, arch, step, loss, *shares, "nan" if bad else "ok")


def report(path):
    plt = pyplot()
    from matplotlib.animation import FuncAnimation

    steps, values, arch = read(path)
    figure, axes = plt.subplots()
    shown = range(0, len(steps), max(1, len(steps) // REPORT_FRAMES))

    def frame(i):
        axes.clear()
        draw_heads(axes, values[i], values.max())
        axes.set_title("%s, step %d" % (arch, steps[i]))

    page = FuncAnimation(figure, frame, shown).to_jshtml()
    with open("peer-report.html", "w", encoding="utf-8") as out:
        out.write(page)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
