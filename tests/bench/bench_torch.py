#!/usr/bin/python3
"""usage: bench_torch.py BENCH_TRAIN N_THREADS [NAME]...   (tests/bench/run.sh)

Compares a training step of entropy-train with PyTorch, for the same model, batch,
optimiser and number of threads. There are several usual ways to write a step in
PyTorch (forms); two of the bfloat16 forms keep float32 weights (autocast), like
entropy-train, and one does not. The two programs alternate after each step or, if steps
are short, after several steps; entropy-train's steps run in BENCH_TRAIN --serve. Each
program is idle while the other works. Prints medians, and the median ratio with its 95
% confidence interval. One thread is measured in CPU time, which other load does not
increase, several threads in wall time. Measures only the problems NAME, if any are
given.
"""
import contextlib
import dataclasses
import math
import os
import statistics
import subprocess
import sys
import time

N_THREADS = int(sys.argv[2])
NOW = time.process_time if N_THREADS == 1 else time.perf_counter
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(N_THREADS)

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed here (package python3-torch): skipped")
    sys.exit(0)

ARCH = "SM+LN+GT"
TURN = 0.3  # seconds, at least one step


@dataclasses.dataclass
class Problem:
    """A model and batch size that bench_train also measures. `reach` maps a form of the
    PyTorch program to the speed that entropy-train must reach, as a multiple of the speed
    of this form.
    """

    name: str
    n_layer: int
    n_head: int
    width: int
    n_ctx: int
    batch: int
    vocab: int
    n_rounds: int
    precision: str = "fp32"
    records: bool = False  # entropy-train measures the entropy of every head
    reach: dict = dataclasses.field(default_factory=dict)


PROBLEMS = [
    Problem("L6 H8 d256", 6, 8, 256, 128, 8, 256, 21, reach={"compiled": 1.15}),
    Problem("GPT-2 small", 12, 12, 768, 128, 8, 50257, 6,
            reach={"compiled": 1.05}),
    Problem("L6 H8 d256", 6, 8, 256, 128, 8, 256, 21, "bf16",
            reach={"eager, autocast": 1.25, "compiled, autocast": 1.25}),
    Problem("GPT-2 small", 12, 12, 768, 128, 8, 50257, 6, "bf16",
            reach={"eager, autocast": 1.05, "compiled, autocast": 1.05}),
    Problem("L12 H12 d48", 12, 12, 48, 32, 16, 256, 41, reach={"compiled": 3}),
    Problem("L6 H8 d256 T512", 6, 8, 256, 512, 2, 256, 11, records=True,
            reach={"compiled": 1.2}),
    Problem("L6 H8 d256 T1024", 6, 8, 256, 1024, 1, 256, 11, records=True,
            reach={"compiled": 1.2}),
]


@dataclasses.dataclass
class Form:
    """One way to write a training step in PyTorch."""

    plain: bool = False  # attention as softmax of a masked product
    fused: bool = True  # AdamW in one pass
    compiled: bool = False
    autocast: bool = False
    weights: torch.dtype = torch.float32


FORMS = {
    "fp32": {
        "plain attention": Form(plain=True, fused=False),
        "eager": Form(),
        "compiled": Form(compiled=True),
    },
    "bf16": {
        "eager, autocast": Form(autocast=True),
        "compiled, autocast": Form(compiled=True, autocast=True),
        "compiled, bf16 weights": Form(compiled=True, weights=torch.bfloat16),
    },
}


class Block(nn.Module):
    def __init__(self, problem, plain):
        super().__init__()
        width = problem.width
        self.n_head, self.plain = problem.n_head, plain
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.tril(torch.ones(problem.n_ctx, problem.n_ctx)).bool()
        self.register_buffer("mask", mask)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.n_head, d // self.n_head).transpose(1, 2)
                   for part in self.qkv(x).split(d, dim=2))
        if self.plain:
            scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.n_head)
            scores = scores.masked_fill(~self.mask, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, problem, plain):
        super().__init__()
        width = problem.width
        self.wte = nn.Embedding(problem.vocab, width)
        self.wpe = nn.Embedding(problem.n_ctx, width)
        self.blocks = nn.ModuleList(
            Block(problem, plain) for _ in range(problem.n_layer))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, problem.vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]),
                               tokens.view(-1))


def torch_side(problem, form):
    """Returns a function that takes a training step in PyTorch and returns the step's
    seconds and loss.
    """
    model = Model(problem, form.plain).to(form.weights)
    groups = [{"params": [p for p in model.parameters() if p.dim() == 2],
               "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2],
               "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-4, fused=form.fused)
    forward = torch.compile(model) if form.compiled else model
    n = problem.batch * problem.n_ctx
    tokens = (torch.arange(n) * 7919 % problem.vocab).view(problem.batch, -1)

    def step():
        start = NOW()
        optimiser.zero_grad(set_to_none=True)
        with (torch.autocast("cpu", torch.bfloat16) if form.autocast
              else contextlib.nullcontext()):
            loss = forward(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return NOW() - start, loss.item()

    return step


def our_side(program, problem):
    """Starts BENCH_TRAIN --serve. Returns a function that makes this process take a step
    and returns the step's seconds and loss. Also returns the process."""
    process = subprocess.Popen(
        [program, "--serve", problem.name, ARCH, str(N_THREADS),
         problem.precision, "entropy" if problem.records else "nothing"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step():
        process.stdin.write("step\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            sys.exit(f"{program} ended with {process.wait()}")
        return tuple(map(float, answer.split()))

    return step, process


def interval(sorted_ratios):
    """Returns the 95 % confidence interval of the median."""
    n = len(sorted_ratios)
    rank = max(0, int(n / 2 - 0.98 * math.sqrt(n)))
    return sorted_ratios[rank], sorted_ratios[n - 1 - rank]


def report(name, theirs, ours, n_tokens, reach):
    ratios = sorted(b / a for a, b in zip(ours, theirs))
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    verdict = ""
    if reach:
        verdict = f"   >= {reach}: {'reached' if middle >= reach else 'MISSED'}"
    print(f"    {name:24} {n_tokens / statistics.median(theirs):7.0f} tokens/s  "
          f"{middle:5.2f}x ({low:.2f} to {high:.2f}){verdict}", flush=True)


def turn(step, n):
    """Runs n consecutive steps, as a training run does, and returns the seconds per
    step.
    """
    if n > 1:
        step()  # refills the caches after the other side, and waits for its spinning threads
    return sum(step()[0] for _ in range(n)) / n


def run(program, problem):
    steps = {name: torch_side(problem, form)
             for name, form in FORMS[problem.precision].items()}
    ours, process = our_side(program, problem)
    for step in (ours, *steps.values()):
        # The first step touches new memory and compiles kernels. Its loss must be near ln V for
        # small weights, which shows that both programs solve the same problem.
        loss = step()[1]
        if not abs(loss - math.log(problem.vocab)) < 0.5:
            sys.exit(f"the first loss is {loss}, far from ln {problem.vocab}")
        step()
    n = max(1, round(TURN / step()[0]))
    rounds = [[turn(step, n) for step in (ours, *steps.values())]
              for _ in range(problem.n_rounds)]
    process.stdin.close()
    process.wait()
    our_times, *their_times = zip(*rounds)
    n_tokens = problem.batch * problem.n_ctx
    print(f"{problem.name}, {problem.precision}"
          f"{', with entropies' * problem.records}, {N_THREADS} thread"
          f"{'s' * (N_THREADS > 1)}: {n_tokens / statistics.median(our_times):.0f}"
          " tokens/s", flush=True)
    for (name, _), times in zip(steps.items(), their_times):
        report(name, times, our_times, n_tokens, problem.reach.get(name))


def main():
    torch.set_num_threads(N_THREADS)
    torch.manual_seed(1)
    print(f"{ARCH}, a training step, and PyTorch {torch.__version__} with its "
          "relative time")
    for problem in PROBLEMS:
        if len(sys.argv) <= 3 or problem.name in sys.argv[3:]:
            run(sys.argv[1], problem)


main()
