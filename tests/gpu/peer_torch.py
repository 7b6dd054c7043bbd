#!/usr/bin/env python3
"""usage: peer_torch.py rate
       peer_torch.py attention BENCH_ATTENTION
       peer_torch.py step ENTROPY_TRAIN

What the CUDA back-end is measured against, on one device in one run
(tests/gpu/check.sh): PyTorch 2, as people use it.

rate       the device's rate for a large bf16 matrix product
attention  our fused attention, which returns the entropy of every row, beside
           scaled_dot_product_attention, which does not
step       a training step of GPT-2 small, entropy recorded at every step,
           beside torch.compile with scaled_dot_product_attention and no
           entropy at all, and beside eager PyTorch that keeps the attention
           matrices and takes the papers' formula of them

Medians; the sides take turns. Memory is what nvidia-smi says the device holds
more than before, at its largest.
"""
import math
import os
import re
import statistics
import subprocess
import sys
import threading
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("PyTorch is not installed here: skipped")

# GPT-2 small: L, H, d, V; then T and B of the steps
MODEL = (12, 12, 768, 50257)
STEPS = [(128, 64), (1024, 8)]
CONTEXTS = [128, 256, 512, 1024, 2048, 4096, 8192]
N_TOKENS = 16384  # B T of the attention
N_ROUNDS = int(os.environ.get("ENTROPY_BENCH_ROUNDS", "21"))
N_CALLS = int(os.environ.get("ENTROPY_BENCH_CALLS", "16"))
DEVICE = "cuda"


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(call, n_calls=1):
    """Milliseconds a call, waited for."""
    wait()
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
    wait()
    return 1e3 * (time.perf_counter() - start) / n_calls


def median_time(call, n_calls=1):
    for _ in range(3):
        call()
    return statistics.median(timed(call, n_calls) for _ in range(N_ROUNDS))


# --- rate --------------------------------------------------------------------


def matrix_rate(n=8192):
    """FLOP/s of a bf16 product of random n x n matrices."""
    a, b = (torch.randn(n, n, device=DEVICE).bfloat16() for _ in range(2))
    return 2 * n**3 / (1e-3 * median_time(lambda: a @ b, 4))


# --- attention ---------------------------------------------------------------


def sdpa_times(n_batch, n_head, n_ctx, width):
    """Milliseconds forward and backward of SDPA, causal, bf16. The data are as
    a model has them: q, k, v lie interleaved in one (B,T,3d) projection."""
    qkv = torch.randn(n_batch, n_ctx, 3 * n_head * width, device=DEVICE)
    qkv = qkv.bfloat16().requires_grad_()

    def forward():
        q, k, v = (
            part.view(n_batch, n_ctx, n_head, width).transpose(1, 2)
            for part in qkv.split(n_head * width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n_batch, n_ctx, n_head * width)

    y = forward()
    dy = torch.randn_like(y)

    def both():
        forward().backward(dy)
        qkv.grad = None

    forward_time = median_time(forward, N_CALLS)
    return forward_time, median_time(both, N_CALLS) - forward_time


def our_attention_times(program, *sizes):
    output = subprocess.run(
        [program, "bf16", *map(str, sizes)], check=True, capture_output=True, text=True
    ).stdout
    return [float(word) for word in output.split()]


def compare_attention(program):
    print("| d_k | T | SDPA forward, ms | ours, with entropy | SDPA / ours |"
          " entropy costs | SDPA backward, ms | ours, dL/dE too | SDPA / ours |")
    print("| --- " * 9 + "|")
    for width in (64, 128):
        n_head = MODEL[2] // width
        for n_ctx in CONTEXTS:
            sizes = (max(1, N_TOKENS // n_ctx), n_head, n_ctx, width)
            theirs = sdpa_times(*sizes)
            plain, measured, _, backward = our_attention_times(program, *sizes)
            print(
                f"| {width} | {n_ctx} | {theirs[0]:.3f} | {measured:.3f} |"
                f" {theirs[0] / measured:.2f} | {100 * (measured / plain - 1):+.1f} % |"
                f" {theirs[1]:.3f} | {backward:.3f} | {theirs[1] / backward:.2f} |",
                flush=True,
            )


# --- a model as people write it ----------------------------------------------


class Block(nn.Module):
    def __init__(self, n_head, width, keeps):
        super().__init__()
        self.n_head, self.keeps, self.entropy = n_head, keeps, None
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def weigh(self, q, k, v):
        """With the attention matrix, and the papers' entropy of it."""
        n_ctx = q.shape[2]
        mask = torch.ones(n_ctx, n_ctx, dtype=torch.bool, device=q.device).tril()
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
        att = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        with torch.no_grad():
            rows = -(att * torch.log(att + 1e-9)).sum(dim=-1)
            self.entropy = rows.mean(dim=(0, 2))
        return att.to(v.dtype) @ v

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.n_head, d // self.n_head).transpose(1, 2)
            for part in self.qkv(x).split(d, dim=2)
        )
        if self.keeps:
            y = self.weigh(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, n_layer, n_head, width, vocab, n_ctx, keeps):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(n_ctx, width)
        self.blocks = nn.ModuleList(
            Block(n_head, width, keeps) for _ in range(n_layer)
        )
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def torch_step(side, n_ctx, n_batch):
    """A function that takes one training step, in bf16 with f32 parameters."""
    n_layer, n_head, width, vocab = MODEL
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(n_layer, n_head, width, vocab, n_ctx, side == "eager").to(DEVICE)
    decays = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimiser = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
        lr=1e-4,
        fused=DEVICE == "cuda",
    )
    forward = torch.compile(model) if side == "compile" else model
    tokens = torch.randint(vocab, (n_batch, n_ctx), device=DEVICE)

    def step():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = forward(tokens)
            loss = F.cross_entropy(logits.view(-1, vocab), tokens.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if side == "eager":  # as the papers log it
            torch.stack([block.entropy for block in model.blocks]).cpu()
        return loss.item()

    return step


def serve_step(side, n_ctx, n_batch):
    """In a process of its own: prints the median of a step's milliseconds."""
    step = torch_step(side, n_ctx, n_batch)
    first = step()
    if not abs(first - math.log(MODEL[3])) < 0.5:
        sys.exit(f"the first loss is {first}, far from ln {MODEL[3]}")
    print(f"{median_time(step):.4f}")


# --- a step beside ours ------------------------------------------------------


def device_mib():
    output = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return int(output.split()[0])


class LargestMemory(threading.Thread):
    """The device's memory in use while a process runs, less that before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.largest = device_mib()
        self.over = False

    def run(self):
        while not self.over:
            self.largest = max(self.largest, device_mib())
            time.sleep(0.05)

    def end(self):
        self.over = True
        self.join()
        return self.largest - self.before


def run_process(command):
    """Its output, and the MiB of the device that it took."""
    memory = LargestMemory()
    memory.start()
    result = subprocess.run(command, capture_output=True, text=True)
    mib = memory.end()
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()[-2000:]}")
    return result.stdout, mib


def our_step(program, n_ctx, n_batch):
    n_layer, n_head, width, vocab = MODEL
    output, mib = run_process(
        [program, "bench", "--backend", "cuda", "--precision", "bf16"]
        + ["--arch", "SM+LN+GT", "--bias", "all"]
        + ["--n-layer", str(n_layer), "--n-head", str(n_head)]
        + ["--d-model", str(width), "--vocab", str(vocab), "--ctx", str(n_ctx)]
        + ["--batch", str(n_batch), "--pairs", str(N_ROUNDS)]
    )
    times = [
        float(re.search(rf"wall\s+{name}\s+([0-9.]+) ms", output).group(1))
        for name in ("plain", "recorded")
    ]
    return *times, mib


def peer_step(side, n_ctx, n_batch):
    output, mib = run_process(
        [sys.executable, __file__, "serve", side, str(n_ctx), str(n_batch)]
    )
    return float(output), mib


def model_flops(n_ctx, n_batch):
    """Of a step's matrix products: 6 per parameter and token, tied wte once,
    and 12 d per visible pair of positions and layer."""
    n_layer, _, width, vocab = MODEL
    weights = n_layer * 12 * width**2 + vocab * width
    pairs = n_layer * n_ctx * (n_ctx + 1) / 2
    return n_batch * (6 * weights * n_ctx + 12 * width * pairs)


def compare_steps(program):
    rate = matrix_rate()
    print(f"A product of 8192 x 8192 bf16 matrices: {rate / 1e12:.0f} TFLOP/s\n")
    print("| T | B | ours, recorded, ms | recording | compile, no entropy |"
          " ratio | eager, papers' formula | ratio | MiB: ours, compile, eager |"
          " share of the matrix rate |")
    print("| --- " * 10 + "|")
    for n_ctx, n_batch in STEPS:
        rounds = []
        for _ in range(2):
            rounds.append(
                (
                    our_step(program, n_ctx, n_batch),
                    peer_step("compile", n_ctx, n_batch),
                    peer_step("eager", n_ctx, n_batch),
                )
            )
        ours = min(r[0] for r in rounds)
        fast, eager = (min(r[i] for r in rounds) for i in (1, 2))
        share = model_flops(n_ctx, n_batch) / (1e-3 * ours[1]) / rate
        print(
            f"| {n_ctx} | {n_batch} | {ours[1]:.2f} | {100 * (ours[1] / ours[0] - 1):+.2f} % |"
            f" {fast[0]:.2f} | {fast[0] / ours[1]:.2f}x | {eager[0]:.2f} |"
            f" {eager[0] / ours[1]:.2f}x | {ours[2]}, {fast[1]}, {eager[1]} |"
            f" {100 * share:.0f} % |",
            flush=True,
        )


def main():
    verb, rest = (sys.argv[1:2] or ["help"])[0], sys.argv[2:]
    if verb not in ("rate", "attention", "step", "serve"):
        sys.exit(__doc__)
    if not torch.cuda.is_available():
        sys.exit("skipped: no CUDA device")
    print_device = verb in ("attention", "step", "rate")
    if print_device:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    if verb == "rate":
        print(f"{matrix_rate() / 1e12:.0f} TFLOP/s")
    elif verb == "attention":
        compare_attention(rest[0])
    elif verb == "step":
        compare_steps(rest[0])
    else:
        serve_step(rest[0], int(rest[1]), int(rest[2]))


if __name__ == "__main__":
    main()
