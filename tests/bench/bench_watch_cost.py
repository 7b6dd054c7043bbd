#!/usr/bin/env python3
"""usage: bench_watch_cost.py [N_THREADS [ROUNDS [N_LAYERS]]]
(tests/bench/run.sh)

Measures how much time es.watch adds to a training step on the CPU. The model has
the width of GPT-2 small (d = 768, H = 12), T = 512 and B = 1. If transformers is
installed, the model is its GPT-2, otherwise a model with scaled_dot_product_attention.
A round consists of three training steps in random order: one without the hook, one with
the hook that is not recorded, and one that is recorded. For each of the last two, the
differences from the step without the hook are computed; the program prints the mean of
their middle half with a 95 % bootstrap interval. The cost at every=50 is the mean of 49
steps that are not recorded and one recorded step.

The hook works in the forward pass and in rec.step(). The differences of the time
in these two, relative to a whole step, have a narrower interval than the
differences of whole steps, because the rest of a step varies by more than the
measured cost. Both are printed.

With one thread, the CPU time of this process is measured, which depends less on other
load; with several threads, wall time. The CPU time of the recorder, a separate process,
is also printed. malloc keeps freed memory, because pages that the system must zero
again would be the main source of variation. Also prints memory, relative to the
attention matrices of the model: the largest use while one layer is measured, and the
results of all layers.
"""

import copy
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

N_THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
N_LAYERS = int(sys.argv[3]) if len(sys.argv) > 3 else 12
NOW = time.process_time if N_THREADS == 1 else time.perf_counter
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(N_THREADS)
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
if not KEPT.items() <= os.environ.items() and len(sys.argv) <= 4:
    os.environ.update(KEPT)
    os.execv(sys.executable, [sys.executable, *sys.argv])
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hooks/python"))
BUILD = os.path.abspath(os.environ.get("BUILD", ROOT / "build"))
os.environ.setdefault("ENTROPYSCAN_HOME", BUILD)

try:
    import cffi  # noqa: F401
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"{error.name} is not installed here: skipped")
    sys.exit(0)

import entropyscan as es  # noqa: E402

T, D, H, VOCAB = 512, 768, 12, 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.fc, self.out = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        parts = self.qkv(self.ln_1(x)).split(D, dim=2)
        q, k, v = (y.unflatten(2, (H, D // H)).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))
        self.ln = nn.LayerNorm(D)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return self.ln(x) @ self.wte.weight.T


def make():
    """Returns a model and its description."""
    try:
        import transformers
    except ImportError:
        return Model(), "a model with scaled_dot_product_attention"
    # Dropout of attention weights would store T x T weights and slow down the unwatched step.
    none = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
    config = transformers.GPT2Config(n_layer=N_LAYERS, use_cache=False, **none)
    model = transformers.GPT2LMHeadModel(config)
    return model, f"transformers {transformers.__version__}, sdpa"


def resident(name):
    """Returns VmRSS or VmHWM of this process in bytes."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(1024 * int(l.split()[1]) for l in status if l.startswith(name))


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def recorder_seconds():
    """Returns the CPU time of the running children of this process."""
    total, own = 0, str(os.getpid())
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[1] == own:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Training:
    """Two models with the same weights, one of which is recorded by es.watch."""

    def __init__(self):
        self.watched, self.title = make()
        self.watched.train()
        shared = {id(p): p for p in self.watched.parameters()}
        self.plain = copy.deepcopy(self.watched, shared)
        self.optimizer = torch.optim.AdamW(self.plain.parameters(), 1e-4)
        self.tokens = (torch.arange(T) * 7919 % VOCAB)[None]
        self.number = 0

    def step(self, rec=None):
        """Returns the seconds that a step takes, and the seconds of its forward pass
        plus the watch's work at the end of the step."""
        model = self.watched if rec is not None else self.plain
        start = NOW()
        self.optimizer.zero_grad(set_to_none=True)
        begin = NOW()
        logits = model(self.tokens)
        seconds = NOW() - begin
        logits = getattr(logits, "logits", logits)
        loss = F.cross_entropy(logits.flatten(0, 1), self.tokens.flatten())
        loss.backward()
        self.optimizer.step()
        begin = NOW()
        if rec is not None:
            rec.step(loss=loss.detach())
        end = NOW()
        return end - start, seconds + end - begin


def rounds(training, rec, n):
    """Returns the results of step() in n rounds as a list of tuples (without, with,
    recorded). Step numbers continue from round to round, and steps with even numbers
    are recorded.
    """
    out = []
    for _ in range(n):
        found = {}
        for kind in random.sample(("without", "with", "recorded"), 3):
            if kind != "without":
                is_next = (training.number % 2 == 0) == (kind == "with")
                training.number += 1 if is_next else 2
                rec.number(training.number)
            found[kind] = training.step(None if kind == "without" else rec)
        out.append((found["without"], found["with"], found["recorded"]))
    return out


def middle(values):
    """Returns the mean of the middle half of the values."""
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def interval(values):
    """Returns the mean of the middle half of the values, and its 95 % bootstrap interval."""
    found = sorted(middle(random.choices(values, k=len(values))) for _ in range(2000))
    return middle(values), found[50], found[-51]


def show_memory():
    """Prints the largest number of bytes that the measurement of one layer
    takes, in a process whose heap has no free memory to reuse.
    """
    torch.set_num_threads(N_THREADS)
    from entropyscan._statistics import Attention, measure

    q, k = torch.randn(2, 1, H, T, D // H)
    causal = Attention(causal=True)
    measure(q[:, :, :16], k[:, :, :16], causal)  # loads its libraries
    before = resident("VmRSS")
    reset_peak()
    kept = measure(q, k, causal)
    peak = resident("VmHWM") - before
    print(peak + N_LAYERS * kept.numel() * 4)


def memory():
    """Returns the memory that the hook uses: for the measurement of one layer plus the
    results of all layers."""
    command = [sys.executable, __file__, *map(str, (N_THREADS, ROUNDS, N_LAYERS))]
    done = subprocess.run(
        [*command, "memory"], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout)


def main():
    torch.set_num_threads(N_THREADS)
    torch.manual_seed(1)
    random.seed(1)
    training = Training()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.db")
        with es.watch(training.watched, path, every=2) as rec:
            rounds(training, rec, 1)  # touches new memory, starts the recorder
            before = recorder_seconds()
            found = rounds(training, rec, ROUNDS)
            recorder = (recorder_seconds() - before) / ROUNDS
        if rec.trouble is not None:
            sys.exit(f"it was not recorded: {rec.trouble}")
        assert es.open(path).entropy().shape == (ROUNDS + 1, N_LAYERS, H)
    step = statistics.median(plain[0] for plain, _, _ in found)
    clock = "processor time" if N_THREADS == 1 else "clock"
    print(f"{training.title}: L {N_LAYERS}, d {D}, H {H}, T {T}, {N_THREADS} thread(s)")
    print(f"{ROUNDS} rounds, {clock}; a step without: {1e3 * step:.0f} ms")
    for part, title in enumerate(("step", "forward and rec.step")):
        every_1 = [(c[part] - a[part]) / step for a, _, c in found]
        quiet = [(b[part] - a[part]) / step for a, b, _ in found]
        every_50 = [one / 50 + 49 * other / 50 for one, other in zip(every_1, quiet)]
        for name, values, reach in (
            ("every=1", every_1, "<= 0.05"),
            ("every=50", every_50, "0 within the interval"),
        ):
            value, low, high = interval(values)
            print(f"{name:9} {value:+.4f} ({low:+.4f} to {high:+.4f})   {reach}, {title}")
    print(f"recorder  {recorder / step:.4f} of a step for each recorded one")
    used = memory()
    matrices = N_LAYERS * H * T * T * 4
    print(
        f"memory    {used / 2**20:.2f} MiB, attention matrices "
        f"{matrices / 2**20:.0f} MiB: {used / matrices:.4f}   < 0.01"
    )


show_memory() if len(sys.argv) > 4 else main()
