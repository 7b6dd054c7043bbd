"""Writes CSV files for entropy-scan import to the current folder.

evil.csv   2 layers, 3 heads, 5 steps: malicious names, NaN, infinity, missing values
other.csv  the same values with a plain name, another learning rate, a shape with
           a known cost, and attention maps of its layers
big.csv    16 layers, 9 heads, 1000 steps: fits into a page completely
long.csv   9 layers, 16 heads, 3000 steps: must be thinned; a dip of one head and a NaN
           of another, each at a single step, and one dip of the loss
steady.csv, spiky.csv, diverging.csv
           300 losses: that fall; with one outlier; that rise from the middle on, and
           end in NaN
"""
import math

DIP, BROKEN = 1234, 2345


def write(path, about, header, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        for key, value in about.items():
            out.write(f"# {key}: {value}\n")
        out.write(header + "\n")
        out.writelines(row + "\n" for row in rows)


def value(step, layer, head):
    return 2 + math.sin(0.01 * step + layer) * math.cos(0.3 * head)


def heads(step, n_layers, n_heads, number):
    for layer in range(n_layers):
        for head in range(n_heads):
            yield f"{step},{layer},{head},{number(step, layer, head)}"


def evil():
    odd = {(20, 0, 1): "NaN", (20, 1, 2): "NA", (30, 0, 0): "inf",
           (30, 1, 1): "-inf", (40, 1, 0): "NaN", (40, 0, 2): "1e-20"}
    for step in range(0, 50, 10):
        yield f"{step},,,,,{'NaN' if step == 40 else 6 - 0.1 * step:}"
        for row in heads(step, 2, 3, lambda s, l, h: odd.get(
                (s, l, h), f"{value(s, l, h):.7g}")):
            yield row + f",{step + 0.5},"


def plain(n_steps, n_layers, n_heads, number):
    for step in range(n_steps):
        loss = 0.25 if step == 777 else 5 - step / n_steps
        yield f"{step},,,,,{loss:.6g}"
        for row in heads(step, n_layers, n_heads, number):
            yield row + f",{step % 97}.5,"


def loss_of(kind, i):
    if kind == "spiky" and i == 200:
        return 43.4
    if kind == "diverging" and i > 150:
        return 3 + 1.4 * (i - 150) if i < 280 else math.nan
    return (3.4 if kind == "spiky" else 3) + 6 * math.exp(-i / 40)


def losses(kind):
    for i in range(300):
        yield f"{10 * i},,,,,{loss_of(kind, i):.6g}"
        yield from (f"{row},1," for row in heads(10 * i, 2, 3, lambda s, l, h: 1 + 0.1 * h))


def troubled(step, layer, head):
    if (step, layer, head) == (DIP, 4, 7):
        return "-3.5"
    if (step, layer, head) == (BROKEN, 8, 2):
        return "NaN"
    return f"{value(step, layer, head):.5f}"


COLUMNS = "step,layer,head,entropy,max_logit,loss"
BITE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
write("evil.csv",
      {"name": BITE, "arch": "\"'&<b>{{series}}", "ctx": 16,
       "config": '{"note":"<!--<script>","lr":0.001,"steps":50}'},
      COLUMNS, evil())
write("other.csv",
      {"name": "other", "arch": "SM+LN+G", "d_model": 48, "ctx": 16,
       "vocab": 500, "config": '{"note":"<!--<script>","lr":3e-4,"steps":50}'},
      COLUMNS, evil())
with open("other.csv", "a", encoding="utf-8", newline="\n") as out:
    for step in (0, 40):
        for layer in (0, 1):
            out.write(f"# attention_map: eval {step} {layer} - 2 16: "
                      f"{0.5 if step else 0.25} NA {0.125 if layer else 'NaN'} 0.001\n")
write("big.csv", {"name": "big", "ctx": 128}, COLUMNS,
      plain(1000, 16, 9, lambda s, l, h: f"{value(s, l, h):.5f}"))
write("long.csv", {"name": "long", "ctx": 128}, COLUMNS,
      plain(3000, 9, 16, troubled))
for kind in ("steady", "spiky", "diverging"):
    write(f"{kind}.csv", {"name": kind, "ctx": 32}, COLUMNS, losses(kind))
