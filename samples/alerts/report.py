#!/usr/bin/env python3
"""usage: report.py DIR RESULTS

Writes the report of `make alerts`: RESULTS/alerts.md compares the true state
of each run with the alerts of entropy-scan; alerts-trainings.csv has one line for each
training run, and alerts-histories.csv one line for each kind of history.

The true state of a training run is computed here from its run file by rules that share
nothing with the flags under test: the rules see the whole run, in hindsight, and use
medians where the flags count samples. Exits with 1 if a collapse or a NaN was missed,
or if too many alarms are false."""
import collections
import csv
import json
import math
import os
import sqlite3
import statistics
import struct
import sys

ALARMS = ("error", "critical")
KINDS = ("nan", "collapse", "overload", "logits")
folder, results = sys.argv[1:]
failures, page = [], []


def lines(name):
    with open(os.path.join(folder, name), encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def reported_by_watch(name):
    """Returns the alerts of severity error and above that `watch` has reported, by path
    of the run file."""
    reported = collections.defaultdict(list)
    for alert in lines(name + ".watch"):
        reported[os.path.realpath(alert["path"])].append(alert)
    return reported


def stands_at_end(run):
    return {flag["kind"] for flag in run["flags"]
            if flag["stands"] and flag["severity"] in ALARMS}


def text(lines):
    page.append(lines.strip("\n") + "\n")


def table(head, rows):
    text("\n".join("| " + " | ".join(map(str, row)) + " |"
                   for row in (head, ["---"] * len(head), *rows)))


def write_csv(name, head, rows):
    with open(os.path.join(results, name), "w", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([head, *rows])


# --- the truth of a training -------------------------------------------------

class Training:
    def __init__(self, path):
        self.path = path
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.name, self.layers, self.heads, ctx = db.execute(
            "SELECT name, n_layer, n_head, ctx FROM run").fetchone()
        self.ceiling = math.lgamma(ctx + 1) / ctx
        self.loss = self.series(db, "loss")
        self.entropy = self.series(db, "entropy")
        self.logits = self.series(db, "max_logit")
        db.close()
        self.finite = [(step, row) for step, row in self.entropy
                       if all(map(math.isfinite, row))]
        self.judge()

    @staticmethod
    def series(db, name):
        return [(step, struct.unpack(f"<{len(blob) // 4}f", blob))
                for step, blob in db.execute(
                    "SELECT step, value FROM sample JOIN series"
                    " USING (series_id) WHERE name = ? AND phase = 'train'"
                    " ORDER BY step", (name,))]

    def layers_low(self, row):
        """Returns the layers in which at least half of the heads are near zero."""
        low = [value < 0.05 * self.ceiling for value in row]
        return [layer for layer in range(self.layers)
                if sum(low[layer * self.heads:(layer + 1) * self.heads])
                >= self.heads / 2]

    def died_for_long(self):
        """Returns true if a layer is near zero for a long time: in some window of a
        twentieth of the run, the medians of at least half of the layer's heads are
        near zero."""
        width = max(len(self.entropy) // 20, 3)
        rows = [row for _, row in self.finite]
        for start in range(0, len(rows) - width + 1, max(width // 3, 1)):
            window = rows[start:start + width]
            if self.layers_low([statistics.median(head)
                                for head in zip(*window)]):
                return True
        return False

    def share_high(self, row):
        return sum(value >= 0.75 * self.ceiling for value in row) / len(row)

    def is_too_short(self):
        """Returns true if the run has fewer than a thousand steps, its heads begin at
        the ceiling, and in every tenth of the run many heads are still near the
        ceiling."""
        width = max(len(self.finite) // 10, 1)
        rows = [row for _, row in self.finite]
        return (len(self.entropy) < 1000 and bool(rows)
                and statistics.mean(rows[0]) >= 0.98 * self.ceiling
                and all(statistics.median(map(self.share_high,
                                              rows[i:i + width])) >= 0.4
                        for i in range(0, len(rows) - width + 1, width)))

    def judge(self):
        self.nan_step = next((step for step, (value,) in self.loss
                              if not math.isfinite(value)), None)
        self.fell_first = (self.nan_step is not None and bool(self.finite)
                           and bool(self.layers_low(self.finite[-1][1])))
        self.collapsed = self.died_for_long() or self.fell_first
        self.low_once = any(self.layers_low(row) for _, row in self.finite)
        self.too_short = self.is_too_short()
        last = self.finite[-max(len(self.finite) // 10, 1):]
        self.high = statistics.median(
            self.share_high(row) for _, row in last)
        self.large = max(value for _, row in self.logits for value in row
                         if math.isfinite(value)) > 1000

    def truth(self):
        """Returns {kind of flag: True, False, or None if the truth is unclear}."""
        brief = self.low_once and not self.collapsed
        edge = self.nan_step is not None or 0.35 <= self.high < 0.45
        return {"nan": self.nan_step is not None,
                "collapse": None if brief else self.collapsed,
                "overload": (None if edge else self.high >= 0.45
                             and not self.too_short),
                "logits": self.large}

    def label(self):
        if self.nan_step is not None:
            return ("NaN, entropy fell first" if self.fell_first
                    else "NaN, without a collapse before")
        if self.collapsed:
            return "collapse"
        if self.too_short:
            return "too short to judge"
        if self.high >= 0.45:
            return "overload"
        return "borderline" if self.high >= 0.35 else "healthy"


def compare(truth, reported):
    """Returns two lists: the true kinds of flags that were not reported, and the kinds
    that were reported but are not true."""
    return ([kind for kind in KINDS if truth[kind] and kind not in reported],
            [kind for kind in KINDS
             if truth[kind] is False and kind in reported])


# --- sections ----------------------------------------------------------------

def report_heatmaps():
    text("## The published heatmaps")
    published = {"SM+LN+G": "healthy", "SM+LN+R": "healthy",
                 "SM+G": "overload", "SM+R": "overload, mild",
                 "SM": "collapse of the last layers, overload"}
    right = {"SM+LN+G": "", "SM+LN+R": "", "SM+G": "overload (error)",
             "SM+R": "overload (warning)",
             "SM": "collapse (critical), overload (error)"}
    reported = reported_by_watch("heatmaps")
    rows = []
    for run in lines("heatmaps.scan"):
        arch = run["arch"]
        said = ", ".join(f"{flag['kind']} ({flag['severity']})"
                         for flag in run["flags"] if flag["stands"])
        alerts = {alert["kind"]
                  for alert in reported[os.path.realpath(run["path"])]}
        if said != right[arch] or alerts != stands_at_end(run):
            failures.append(f"heatmap {arch}")
        rows.append((arch, published[arch], said or "none",
                     ", ".join(sorted(alerts)) or "none"))
    table(("model", "published as", "flags", "alerts of `watch`"), rows)


def lead_of(training, alerts):
    """Returns the step of the last collapse alert before the loss became NaN."""
    steps = [alert["step"] for alert in alerts if alert["kind"] == "collapse"
             and alert["onset"] < training.nan_step]
    return max(steps, default=None)


def report_trainings():
    reported = reported_by_watch("runs")
    with open(os.path.join(folder, "runs.check"), encoding="utf-8") as stream:
        codes = dict(line.rstrip("\n").split("\t") for line in stream)
    counts = collections.defaultdict(collections.Counter)
    rows, leads = [], []
    for run in lines("runs.scan"):
        training = Training(run["path"])
        alerts = reported[os.path.realpath(run["path"])]
        missed, wrong = compare(training.truth(), {a["kind"] for a in alerts})
        count = counts[training.label()]
        count["runs"] += 1
        count["missed"] += bool(missed)
        count["false"] += bool(wrong)
        if {"nan", "collapse"} & set(missed) or wrong:
            failures.append(f"training {training.name}: {missed} {wrong}")
        rows.append((
            training.name, training.label(), f"{training.high:.2f}",
            "; ".join(f"{a['kind']} at {a['step']}" for a in alerts),
            "; ".join(sorted(stands_at_end(run))), codes[run["path"]],
            "; ".join(missed), "; ".join(wrong)))
        if training.fell_first:
            leads.append((training, lead_of(training, alerts)))
    write_csv("alerts-trainings.csv",
              ("run", "label", "high heads at the end", "alerts",
               "stands at the end", "exit code of --check", "missed", "false"),
              rows)
    text(f"## {len(rows)} trainings")
    table(("label", "runs", "missed", "false alarms"),
          [(label, count["runs"], count["missed"], count["false"])
           for label, count in sorted(counts.items())])
    report_leads(leads)
    text("""
`entropy-train` trained the runs of [runs.txt](../alerts/runs.txt) and recorded
every step. [report.py](../alerts/report.py) computes the labels from the run
files without using our flags. A run has the label *collapse* if, over a twentieth
of the run, the medians of at least half of the heads of some layer are below 5 %
of the ceiling. It has the label *entropy fell first* if the heads of some layer
are below that limit in the last sample before the loss became non-finite. It has the label
*overload* if, over the last tenth of the run, the median share of heads above 3/4
of the ceiling is at least 45 % (*borderline* from 35 %), unless all heads began at
the ceiling and never left it (*too short to judge*).
[alerts-trainings.csv](alerts-trainings.csv) has one line per run.
""")
    return len(rows)


def report_leads(leads):
    known = []
    for training, step in leads:
        if step is None or step >= training.nan_step:
            failures.append(f"{training.name}: not reported before NaN")
        else:
            known.append(training.nan_step - step)
    if known:
        text(f"`watch` reported the collapse before the loss was NaN in "
             f"{len(known)} of {len(leads)} runs, {min(known)} to {max(known)} "
             f"steps earlier (median {statistics.median(known):.0f}).")


def count_histories():
    """Returns the counts for each kind of history, and their sum over all kinds."""
    reported = reported_by_watch("histories")
    runs = {run["name"]: run for run in lines("histories.scan")}
    with open(os.path.join(folder, "histories.tsv"),
              encoding="utf-8") as stream:
        head, *rest = [line.rstrip("\n").split("\t") for line in stream]
    kinds, total = {}, collections.Counter()
    for line in rest:
        row = dict(zip(head, line))
        truth = {kind: row[kind] == "1" for kind in KINDS}
        lasting = dict(truth, collapse=row["collapse_stands"] == "1")
        run = runs[row["history"]]
        alerts = {a["kind"] for a in reported[os.path.realpath(run["path"])]}
        missed, wrong = compare(truth, alerts)
        end = stands_at_end(run)
        count = kinds.setdefault(row["kind"], collections.Counter())
        healthy = not any(truth.values())
        for counter in (count, total):
            counter["n"] += 1
            counter["healthy"] += healthy
            counter["missed"] += bool(missed)
            counter["missed nan or collapse"] += bool(
                {"nan", "collapse"} & set(missed))
            counter["false"] += bool(wrong) and healthy
            counter["wrong"] += bool(wrong) and not healthy
            counter["end"] += any(lasting[k] != (k in end) for k in KINDS)
    return kinds, total


def report_histories():
    kinds, total = count_histories()
    head = ("kind", "histories", "missed", "false alarms", "wrong kind",
            "wrong at the end")
    rows = [(kind, c["n"], c["missed"], c["false"], c["wrong"], c["end"])
            for kind, c in kinds.items()]
    write_csv("alerts-histories.csv", head, rows)
    text(f"## {total['n']} synthetic histories")
    table(head, [row for row in rows if any(row[2:])] +
          [(f"**all {len(rows)} kinds**", total["n"], total["missed"],
            total["false"], total["wrong"], total["end"])])
    text("""
The code that [synthetic.h](../alerts/synthetic.h) declares generates synthetic
training histories whose true state is known, and writes them as run files. The
columns count these errors. *Missed*: a failure of the history raised no alert of
severity error. *False alarm*: a healthy history raised such an alert. *Wrong
kind*: a history with a failure raised an alert for a failure that it does not
have. *Wrong at the end*: the flags at the end of the run, and the exit code of
`--check`, differ from the truth. The rules were designed with histories from
seed 20, which our tests also use; this page uses histories from seed 7. The
table lists only the kinds of histories with an error;
[alerts-histories.csv](alerts-histories.csv) lists all kinds.
""")
    rate = 100 * total["false"] / max(total["healthy"], 1)
    if total["missed nan or collapse"] or rate > 0.5:
        failures.append("histories")
    return total, rate


report_heatmaps()
n_trainings = report_trainings()
histories, false_rate = report_histories()
text("""
## To repeat it

    make alerts          # samples/alerts/alerts.sh, which runs the programs as users do:
    entropy-scan --recursive DIR --jsonl
    entropy-scan watch DIR --once --json --severity error --state state.db
    entropy-scan RUN.db --check --quiet
""")
verdict = (f"Failed: {'; '.join(failures)}." if failures else
           f"No collapse and no NaN was missed in {n_trainings} training runs and "
           f"{histories['n']} synthetic\nhistories.")
page.insert(0, f"""# Alerts compared with the truth

{verdict} {histories['false']} of {histories['healthy']} healthy histories raised a
false alarm ({false_rate:.2f} %; the limit is 0.5 %).
""")
path = os.path.join(results, "alerts.md")
with open(path + ".new", "w", encoding="utf-8") as out:
    out.write("\n".join(page))
os.replace(path + ".new", path)
sys.exit(1 if failures else 0)
