#!/usr/bin/python3
"""usage: bench_torch.py BENCH_TRAIN N_THREADS   (tests/bench/run.sh)

A training step of entropy-train beside one of PyTorch: the same model, batch
and optimiser, float32, the same number of threads. The model is written as
people write it: nn.Linear, softmax with a mask, F.cross_entropy, AdamW. Steps
are taken in turns in one run, ours by BENCH_TRAIN --serve, and each side is
idle while the other works. Medians of the rounds; one thread is measured in
processor time, which others on the machine do not stretch, more by the clock.
"""
import math
import os
import statistics
import subprocess
import sys
import time

N_THREADS = int(sys.argv[2])
NOW = time.process_time if N_THREADS == 1 else time.perf_counter
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(N_THREADS)

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed here (package python3-torch): skipped")
    sys.exit(0)

ARCH = "SM+LN+GT"
# name of bench_train, L, H, d, T, B, V, rounds, to be reached
PROBLEMS = [
    ("L6 H8 d256", 6, 8, 256, 128, 8, 256, 21, 1.7),
    ("GPT-2 small", 12, 12, 768, 128, 8, 50257, 5, 1.15),
]


class Block(nn.Module):
    def __init__(self, n_head, width, n_ctx):
        super().__init__()
        self.n_head = n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.tril(torch.ones(n_ctx, n_ctx)).bool()
        self.register_buffer("mask", mask.view(1, 1, n_ctx, n_ctx))

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.n_head, d // self.n_head).transpose(1, 2)
            for part in self.qkv(x).split(d, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.n_head)
        scores = scores.masked_fill(~self.mask[:, :, :t, :t], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, n_layer, n_head, width, n_ctx, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(n_ctx, width)
        self.blocks = nn.ModuleList(
            Block(n_head, width, n_ctx) for _ in range(n_layer)
        )
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def torch_side(n_layer, n_head, width, n_ctx, batch, vocab):
    """A function that takes a step and returns its seconds and its loss."""
    model = Model(n_layer, n_head, width, n_ctx, vocab)
    decays = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decays, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=1e-4)
    tokens = (torch.arange(batch * n_ctx) * 7919 % vocab).view(batch, n_ctx)

    def step():
        start = NOW()
        optimiser.zero_grad(set_to_none=True)
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, vocab), tokens.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return NOW() - start, loss.item()

    return step


def our_side(program, name):
    """The same of BENCH_TRAIN --serve, and its process."""
    process = subprocess.Popen(
        [program, "--serve", name, ARCH, str(N_THREADS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def step():
        process.stdin.write("step\n")
        process.stdin.flush()
        seconds, loss = process.stdout.readline().split()
        return float(seconds), float(loss)

    return step, process


def expect_same_problem(loss, vocab):
    """Small weights say little: the first loss is close to ln V."""
    if not abs(loss - math.log(vocab)) < 0.5:
        sys.exit(f"the first loss is {loss}, far from ln {vocab}")


def run(program, name, *sizes, n_rounds, reach):
    n_ctx, batch, vocab = sizes[3:]
    theirs = torch_side(*sizes)
    ours, process = our_side(program, name)
    for step in (ours, theirs):  # the first touches new memory
        expect_same_problem(step()[1], vocab)
    rounds = [(ours()[0], theirs()[0]) for _ in range(n_rounds)]
    process.stdin.close()
    process.wait()
    our_time, their_time = (statistics.median(side) for side in zip(*rounds))
    n = batch * n_ctx
    print(
        f"{name:11}  {N_THREADS} thread{'s' * (N_THREADS > 1):1} {n / our_time:6.0f} tokens/s, PyTorch {n / their_time:6.0f}: "
        f"{their_time / our_time:.2f}x (reach {reach}x)",
        flush=True,
    )


def main():
    torch.set_num_threads(N_THREADS)
    torch.manual_seed(1)
    print(f"{ARCH}, a training step beside PyTorch {torch.__version__}")
    for name, *sizes, n_rounds, reach in PROBLEMS:
        run(sys.argv[1], name, *sizes, n_rounds=n_rounds, reach=reach)


main()
