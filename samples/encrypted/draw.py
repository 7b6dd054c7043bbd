#!/usr/bin/env python3
"""Draws profiles of attention.py as SVG. Needs only Python.

    draw.py time profile.json -o time.svg                 seconds by step of the computation
                                                          and by operation
    draw.py error [LABEL=]profile.json... -o error.svg    error by number of factors, a line
                                                          for each profile or folder of
                                                          profiles
"""
import argparse
import glob
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from picture import COLOURS, GRID, MUTED, Picture  # noqa: E402

OPERATIONS = ("rotation", "relinearise", "product", "plain product", "rescale", "sum", "encode",
              "encrypt")
STAGES = ("encrypt", "projections", "scores", "power", "row sums", "values", "inverse", "output")


def load(path):
    try:
        with open(path) as file:
            found = json.load(file)
        return found if found["profile"] and found["by_factors"] else None
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{path}: not a profile of attention.py")
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")


def draw_time(paths, path):
    profile = load(paths[0])
    seconds = {(e["stage"], e["operation"]): e["seconds"] for e in profile["profile"]}
    of_stage = {s: sum(v for (t, _), v in seconds.items() if t == s) for s in STAGES}
    total, most = sum(of_stage.values()), max(of_stage.values())
    left, width, row = 92, 440, 26
    picture = Picture(660, 78 + row * len(STAGES) + 44)
    picture.text(left, 20, f"One layer, encrypted: {total:.1f} s of processor time, N = 2",
                 more='font-size="14"')
    picture.parts[-1] = picture.parts[-1].replace(
        "N = 2", f'N = 2<tspan dy="-5" font-size="10">{profile["log_n"]}</tspan>')
    for i, operation in enumerate(OPERATIONS):
        x, y = left + i % 4 * 130, 34 + i // 4 * 17
        share = sum(v for (_, o), v in seconds.items() if o == operation) / total
        picture.box(x, y, 11, 11, COLOURS[i])
        picture.text(x + 16, y + 10, f"{operation} {100 * share:.0f} %")
    for i, stage in enumerate(STAGES):
        x, y = left, 78 + row * i
        picture.text(left - 8, y + 14, stage, "end")
        for operation, colour in zip(OPERATIONS, COLOURS):
            size = seconds.get((stage, operation), 0) / most * width
            picture.box(x, y, size, row - 7, colour)
            x += size
        picture.text(x + 6, y + 14, f"{of_stage[stage]:.2f} s, {100 * of_stage[stage] / total:.0f} %")
    bottom = 78 + row * len(STAGES)
    picture.line([(left, bottom), (left + width, bottom)], MUTED)
    step = 10**math.floor(math.log10(most))
    step = step if most / step >= 3 else step / 2
    for i in range(int(most / step) + 1):
        x = left + i * step / most * width
        picture.line([(x, bottom), (x, bottom + 4)], MUTED)
        picture.text(x, bottom + 18, f"{i * step:g}", "middle")
    picture.text(left + width / 2, bottom + 36, "seconds of processor time", "middle")
    picture.write(path)


def curve(argument):
    """Returns a label and the points (number of factors whose product is the inverse,
    largest error) of one profile. For a folder, the points are those of the last entry of
    each profile in the folder."""
    label, _, path = argument.rpartition("=")
    if os.path.isdir(path):
        ends = [load(name) for name in sorted(glob.glob(os.path.join(glob.escape(path), "*.json")))]
        points = [(p["factors"], p["by_factors"][-1]["encrypted"]["max"]) for p in ends]
    else:
        points = [(r["factors"], r["encrypted"]["max"]) for r in load(path)["by_factors"]]
    if not points:
        sys.exit(f"{path}: contains no profile of attention.py")
    return label or path, sorted(points)


def exact(argument):
    """Returns a label and the points (number of factors, largest error) of the polynomial,
    computed in float64 without encryption, for the profile with the most factors."""
    path = argument.rpartition("=")[2]
    paths = glob.glob(os.path.join(glob.escape(path), "*.json")) if os.path.isdir(path) else [path]
    rows = max((load(p)["by_factors"] for p in paths), key=len)
    return "polynomial in float64", [(r["factors"], r["polynomial"]["max"]) for r in rows]


def clipped(points, low, high):
    """Returns the points of a line that lie between `low` and `high`, and the points at
    which the line enters or leaves this range."""
    line = [point for point in points if low < point[1] <= high]
    for (x, y), (after, value) in zip(points, points[1:]):
        line += [(x + (after - x) * math.log(y / end) / math.log(y / value), end)
                 for end in (low, high) if 0 < min(y, value) <= end < max(y, value)]
    return sorted(line)


def draw_error(arguments, path, floor=1e-9, ceiling=10.0):
    lines = [exact(arguments[0])] + [curve(a) for a in arguments]
    last = max(x for _, points in lines for x, _ in points)
    decades = round(math.log10(ceiling)), round(math.log10(floor))
    left, width, head, height = 62, 420, 20, 260

    def place(x, y):
        share = (decades[0] - math.log10(y)) / (decades[0] - decades[1])
        return left + (x - 1) / max(1, last - 1) * width, head + share * height

    picture = Picture(690, head + height + 48)
    for decade in range(decades[1], decades[0] + 1, 2):
        x, y = place(1, 10.0**decade)
        picture.line([(left, y), (left + width, y)], GRID)
        picture.parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">10'
                             f'<tspan dy="-5" font-size="9">{decade}</tspan></text>')
    for x in range(1, last + 1) if last < 16 else range(2, last + 1, 2):
        picture.text(place(x, 1)[0], head + height + 18, str(x), "middle")
    picture.text(left + width / 2, head + height + 38, "factors of the inverse", "middle")
    picture.text(0, 0, "largest error of a head's output", "middle",
                 f'transform="translate(14 {head + height / 2}) rotate(-90)"')
    for i, (label, points) in reversed(list(enumerate(lines))):
        colour, dash = (MUTED, 'stroke-dasharray="5 4"') if i == 0 else (COLOURS[i - 1], "")
        picture.line([place(x, y) for x, y in clipped(points, floor, ceiling)], colour,
                     f'stroke-width="1.8" {dash}')
        for x, y in points if i else ():
            if floor < y <= ceiling:
                picture.mark(*place(x, y), i - 1)
        picture.key(left + width + 14, head + 10 + 22 * i, colour, label, dash,
                    i - 1 if i else None)
    picture.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("time", "error"))
    parser.add_argument("profiles", nargs="+")
    parser.add_argument("-o", dest="output", metavar="FILE", required=True)
    given = parser.parse_args()
    (draw_time if given.kind == "time" else draw_error)(given.profiles, given.output)


if __name__ == "__main__":
    main()
