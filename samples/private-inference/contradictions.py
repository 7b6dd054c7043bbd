#!/usr/bin/env python3
"""Writes contradictions.md, a page with the contradictions in AERO's tables 4 to 7.

    contradictions.py SCAN > contradictions.md

SCAN is the program entropy-scan. All numbers on the page come from aero_tables.csv or
from the program, or are computed from these numbers here.
"""
import csv
import json
import os
import subprocess
import sys
import textwrap

here = os.path.dirname(os.path.abspath(__file__))
scan = sys.argv[1]
with open(os.path.join(here, "aero_tables.csv"), newline="") as file:
    ROWS = list(csv.DictReader(file))


def row(table, arch, group="AERO"):
    return next(r for r in ROWS if (r["table"], r["arch"], r["group"]) == (table, arch, group))


def gigabytes(r):
    return float(r["communication_GB"])


def minutes(r):
    return float(r["latency_min"])


def cost(r, simplified=None):
    """Returns the costs that entropy-scan computes for the model in a row of the
    table."""
    command = [scan, "cost", r["arch"], "--json", "--n-layer", r["n_layer"], "--ctx", r["ctx"],
               "--vocab", "16384" if r["table"] == "T7" else "50257"]
    if r["group"] == "SOTA":
        command += ["--final-norm", "on"]
    if r["group"] == "SOTA" if simplified is None else simplified:
        command += ["--simplified"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)["models"][0]


def link():
    most = max(ROWS, key=lambda r: gigabytes(r) / minutes(r))
    slowest = {id(r): gigabytes(r) * 8e9 / 100e6 / 60 for r in ROWS}
    late = [r for r in ROWS if slowest[id(r)] > minutes(r)]
    base = row("T4", "SM+LN+G", "Base")
    gelu = cost(base)
    rate = gelu["communication_bytes"]["parts"]["GELU"] / gelu["latency_seconds"]["parts"]["GELU"]
    yield ("The link of 100 Mbit/s",
           f"In {len(late)} of {len(ROWS)} rows the latency is shorter than the time in which a link of 100 Mbit/s transfers "
           f"the bytes. For example, {base['communication_GB']} GB need {slowest[id(base)]:.1f} minutes, but the latency is "
           f"{base['latency_min']} minutes. In table {most['table'][1]}, {most['arch']} implies an average of "
           f"{gigabytes(most) * 8 / minutes(most) / 60:.2f} Gbit/s over its latency; our fit implies "
           f"{rate * 8 / 1e9:.2f} Gbit/s for the additional bytes of GELU.")


def headline():
    saved = max((r for r in ROWS if r["saving_communication"]),
                key=lambda r: float(r["saving_communication"]))
    faster = max((r for r in ROWS if r["saving_latency"]), key=lambda r: float(r["saving_latency"]))
    yield ("Two models in one headline",
           f"\"{saved['saving_communication']}x\" less communication is the result of one model (table {saved['table'][1]}, {saved['arch']}, L = "
           f"{saved['n_layer']}), whose latency decreases by a factor of {saved['saving_latency']}; \"{faster['saving_latency']}x\" less "
           f"latency is the result of another model (table {faster['table'][1]}, {faster['arch']}, L = {faster['n_layer']}), whose "
           f"communication decreases by a factor of {faster['saving_communication']}.")


def pruning():
    whole, pruned = row("T4", "SM+ScFuFFN"), row("T4", "SM+ScFuFFNi6")
    a, b = cost(whole)["flops"], cost(pruned)["flops"]
    yield ("\"6x fewer FLOPs\" by removing six FFNs",
           f"The FLOPs of the FFNs decrease from {whole['flops_ffn_1e9']} to {pruned['flops_ffn_1e9']} billion, by a factor of "
           f"{a['ffn'] / b['ffn']:.2f}; the FLOPs of the whole model decrease by a factor of {sum(a.values()) / sum(b.values()):.2f}.")


def savings():
    wrong = []
    for r in ROWS:
        base = next(x for x in ROWS if x["table"] == r["table"])
        for name, value, key in (("GB", gigabytes, "saving_communication"),
                                 ("minutes", minutes, "saving_latency")):
            if not r[key] or r is base:
                continue
            found = value(base) / value(r)
            if abs(found - float(r[key])) > 0.005 + 1e-9:
                wrong.append(f"In table {r['table'][1]}, for {r['group']} {r['arch']}, the saving in {name} is printed as {r[key]}, "
                             f"but the costs give {found:.3f}")
    yield (f"{len(wrong)} printed savings differ from the quotients of the printed costs", ". ".join(wrong) + ".")


def outlier():
    def step(table):
        return row(table, "SM+ScFuFFN"), row(table, "SM+ScFuFFNi6")
    (a, b), (c, d) = step("T4"), step("T5")
    said = cost(b)["latency_seconds"]
    furthest = max(ROWS, key=lambda r: abs(
        cost(r, False if r["table"] == "T7" else None)["latency_seconds"]["modelled"] / 60 / minutes(r) - 1))
    assert furthest is b, furthest
    yield ("Table 4's best latency",
           f"Removing six fused FFNs saves {minutes(a) - minutes(b):.2f} minutes at T = {a['ctx']}, but only "
           f"{minutes(c) - minutes(d):.2f} minutes at T = {c['ctx']}, although these FFNs then compute twice as much. Of all latencies in the "
           f"tables, {b['latency_min']} minutes differs most from our fit, which gives {said['modelled'] / 60:.2f} minutes ({said['low'] / 60:.2f} to "
           f"{said['high'] / 60:.2f}).")


def flops():
    odd = []
    for r in ROWS:
        found = cost(r)["flops"]["ffn"] / 1e9
        if f"{found:.1f}" != r["flops_ffn_1e9"]:
            odd.append(f"In table {r['table'][1]}, {r['group']} {r['arch']} has {r['flops_ffn_1e9']} billion, but the formula gives {found:.3f}")
    yield ("FLOPs of FFNs", f"{len(odd)} cells of {len(ROWS)} differ from the formula. " + ". ".join(odd) + ".")


def attention():
    cells = []
    for r in ROWS:
        if r["group"] != "SOTA" or r["arch"] != "SM+ScFFN":
            continue
        layers, t, d = int(r["n_layer"]), int(r["ctx"]), int(r["d_model"])
        as_others = layers * t * (4 * d * d + 2 * t * d + d * (t + 1)) / 1e9
        cells.append(f"table {r['table'][1]} has {r['flops_attention_1e9']} billion instead of {as_others:.1f}")
    yield ("FLOPs of attention",
           "For the simplified block, the tables count the two products with the attention matrix without the zeros of the causal "
           "mask: 4 d² + 2 d (T + 1) per layer and token. For all other models they count one of the two products in full: "
           "8 d² + 2 T d + d (T + 1). Therefore, for the simplified block, " + "; ".join(cells) + ".")


def seventh():
    sota, aero = row("T7", "SM+ScFFN", "SOTA"), row("T7", "SM+ScFFN")
    two, four = cost(sota, True), cost(sota, False)
    yield ("Table 7's simplified block",
           f"The simplified block has only half of the attention's weight matrices, but communicates more than the full block: {sota['communication_GB']} "
           f"GB instead of {aero['communication_GB']} GB. In tables 4 to 6 the simplified block communicates less. Our model gives "
           f"{two['communication_bytes']['modelled'] / 1e9:.1f} GB for two matrices and "
           f"{four['communication_bytes']['modelled'] / 1e9:.1f} GB for four, so the cell seems to contain the cost of four matrices.")


def untouched():
    parts = cost(row("T4", "SM+ScFuFFNi6"))["latency_seconds"]["parts"]
    yield ("The remaining cost",
           f"In the softmax-only model with six fused FFNs, {100 * parts['output'] / sum(parts.values()):.0f} % of the modelled "
           "latency is due to the embedding and the output matrix, whose cost AERO does not reduce.")


def main():
    print("# Contradictions in AERO's tables\n")
    print("`contradictions.py` writes this page, and tests/cost/test_cost_fit.sh checks it. The tables' cells are in [aero_tables.csv]"
          "(aero_tables.csv);\nmodelled and counted values are from `entropy-scan cost` "
          "([analyzer/cost](../../analyzer/cost/README.md)).\n")
    for source in (link, headline, pruning, savings, outlier, flops, attention, seventh, untouched):
        for title, text in source():
            print(textwrap.fill(f"- **{title}.** {text}", 128, subsequent_indent="  ",
                                break_on_hyphens=False, break_long_words=False))


main()
