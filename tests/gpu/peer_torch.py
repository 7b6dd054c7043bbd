#!/usr/bin/env python3
"""usage: peer_torch.py rate
       peer_torch.py attention BENCH_ATTENTION
       peer_torch.py step ENTROPY_TRAIN
       peer_torch.py warm

What the CUDA back-end is measured against, on one device in one run
(tests/gpu/check.sh): PyTorch 2, as people use it.

rate       the device's rate for a large bf16 matrix product
attention  our fused attention, which returns the entropy of every row, beside
           scaled_dot_product_attention, which does not: what it takes of its
           own accord, and each of its back-ends. Its calls are captured in a
           CUDA graph, so that Python is not what is timed; q, k and v lie as a
           projection leaves them, and no copy of theirs is counted
step       a training step of GPT-2 small, entropy recorded at every step into a
           run file, beside torch.compile (loss inside, fused AdamW, nothing
           waited for within a step, no entropy at all), of several settings the
           fastest; and beside eager PyTorch that keeps the attention matrices
           and takes the papers' formula of them. The sides take turns
warm       fills the cache of torch.compile, so that step need not wait

Medians. Memory is what the device holds more than before, as nvidia-smi has it.
Lines that begin with "required: " say what was asked for and whether it holds.

  ENTROPY_BENCH_DEVICE    cpu: to try this file out; nothing is a GPU's then
  ENTROPY_BENCH_MODEL     "12 12 768 50257": L, H, d, V
  ENTROPY_BENCH_STEPS     "128x64 1024x8": T x B of the steps
  ENTROPY_BENCH_CONTEXTS  "128 256 512 1024 2048 4096 8192", of the attention
  ENTROPY_BENCH_TOKENS    16384: B T of the attention
  ENTROPY_BENCH_ROUNDS    21
  ENTROPY_BENCH_SHARE     of the device's memory, for a peer (1)
  ENTROPY_BENCH_SECONDS   after which no further peer of a step is begun (220)
  ES_LIBRARY_PATH         LD_LIBRARY_PATH of our programs

Exit code: 77 where there is no PyTorch or no device.
"""

import math
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# First: it says so where there is no PyTorch.
from torch_common import (
    BEGIN,
    DEVICE,
    MODEL,
    N_ROUNDS,
    SKIPPED,
    device_name,
    matrix_rate,
    our_environment,
    required,
    setting,
)

import torch
from torch_attention import compare_attention
from torch_model import serve

STEPS = [
    tuple(map(int, one.split("x"))) for one in setting("STEPS", "128x64 1024x8").split()
]
SECONDS = float(setting("SECONDS", "220"))

# --- a step beside ours ------------------------------------------------------


def device_mib():
    """What the device holds, of all processes."""
    if DEVICE != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info()
    return (total - free) >> 20


class LargestMemory(threading.Thread):
    """The device's memory in use for a while, less that before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.largest = device_mib()
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.03):
            self.largest = max(self.largest, device_mib())

    def end(self):
        self.over.set()
        self.join()
        return self.largest - self.before


class Unfinished(Exception):
    """A peer that failed or took too long: what it said last."""


class Peer:
    """PyTorch in a process of its own."""

    def __init__(self, mode, vocab, n_ctx, n_batch):
        self.errors = tempfile.TemporaryFile("w+")
        command = [sys.executable, __file__, "serve", mode]
        command += [str(number) for number in (vocab, n_ctx, n_batch)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def has_line(self):
        return select.select([self.process.stdout], [], [], 1)[0]

    def line(self, seconds):
        """The next; the compiler's processes may hold the pipe of a dead peer."""
        end = time.monotonic() + seconds
        while not self.has_line() and self.process.poll() is None:
            if time.monotonic() > end:
                raise Unfinished(f"not within {seconds:.0f} s")
        line = self.process.stdout.readline() if self.has_line() else ""
        if line:
            return line
        self.errors.seek(0)
        said = [text.strip() for text in self.errors if text.strip()]
        raise Unfinished((said or ["it said nothing"])[-1][:200])

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def peer_step(mode, vocab, n_ctx, n_batch, seconds):
    """Milliseconds, MiB of the device, MiB that PyTorch reserved, parameters."""
    memory = LargestMemory()
    memory.start()
    peer = Peer(mode, vocab, n_ctx, n_batch)
    try:
        try:
            n, reserved = map(int, peer.line(seconds).split())
        finally:
            mib = memory.end()
        peer.go()
        took = float(peer.line(60))
    finally:
        peer.end()
    return took, mib, reserved, n


def our_step(program, n_ctx, n_batch):
    """Milliseconds plain and recorded, MiB, millions of parameters, and what
    recording costs with its interval, as bench says it."""
    n_layer, n_head, width, vocab = MODEL
    command = [program, "bench", "--backend", "cuda", "--precision", "bf16"]
    command += ["--arch", "SM+LN+GT", "--bias", "all"]
    command += ["--n-layer", str(n_layer), "--n-head", str(n_head)]
    command += ["--d-model", str(width), "--vocab", str(vocab), "--ctx", str(n_ctx)]
    command += ["--batch", str(n_batch), "--pairs", str(max(5, 2 * N_ROUNDS - 1))]
    memory = LargestMemory()
    memory.start()
    result = subprocess.run(
        command, capture_output=True, text=True, env=our_environment()
    )
    mib = memory.end()
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()[-2000:]}")
    said = result.stdout
    plain, recorded = (
        float(re.search(rf"wall\s+{name}\s+([0-9.]+) ms", said).group(1))
        for name in ("plain", "recorded")
    )
    share = re.search(r"wall\s+recorded.* ms\s+(\S+ % \[.*?\])", said).group(1)
    millions = float(re.search(r"([0-9.]+) M parameters", said).group(1))
    return plain, recorded, mib, millions, share


def padded(vocab):
    """As nanoGPT has it, for the speed of the products."""
    return 128 * math.ceil(vocab / 128) if vocab > 128 else vocab


def peers():
    """Settings of torch.compile and vocabularies, the likely fastest first;
    those that are tried."""
    more = padded(MODEL[3])
    return [("default", more), ("reduce-overhead", more)] + (
        [("default", MODEL[3])] if more != MODEL[3] else []
    )


def model_flops(n_ctx, n_batch):
    """Of a step's matrix products: 6 per parameter and token, tied wte once,
    and 12 d per visible pair of positions and layer."""
    n_layer, _, width, vocab = MODEL
    weights = n_layer * 12 * width**2 + vocab * width
    pairs = n_layer * n_ctx * (n_ctx + 1) / 2
    return n_batch * (6 * weights * n_ctx + 12 * width * pairs)


def seconds_left():
    return SECONDS - (time.monotonic() - BEGIN)


def print_row(sizes, side, took, mib, reserved, ratio):
    n_ctx, n_batch = sizes
    print(
        f"| {n_ctx} | {n_batch} | {side} | {took:.2f} |"
        f" {1e3 * n_ctx * n_batch / took:.0f} | {mib} | {reserved} | {ratio} |",
        flush=True,
    )


def check_parameters(n, millions, vocab):
    n -= (vocab - MODEL[3]) * MODEL[2]
    if abs(n / 1e6 - millions) > 0.006:
        sys.exit(f"the peer has {n} parameters, ours {millions} million")


class Turns:
    """The sides of one size, by turns: ours, a peer, ours, a peer, ..."""

    def __init__(self, program, sizes):
        self.program, self.sizes = program, sizes
        self.ours = []
        self.our_turn()

    def our_turn(self):
        self.ours.append(our_step(self.program, *self.sizes))

    def peer(self, side, mode, vocab, seconds):
        """Ratio to ours, of the turns before and after, and MiB; or None."""
        try:
            took, mib, reserved, n = peer_step(mode, vocab, *self.sizes, seconds)
        except Unfinished as why:
            print(f"| {self.sizes[0]} | {self.sizes[1]} | {side} | {why} | | | | |")
            return None
        check_parameters(n, self.ours[0][3], vocab)
        self.our_turn()
        ratio = took / statistics.mean(one[1] for one in self.ours[-2:])
        print_row(self.sizes, side, took, mib, reserved, f"{ratio:.2f}x")
        return ratio, mib

    def recorded(self):
        return statistics.median(one[1] for one in self.ours)


def require_steps(sizes, turns, fast, eager, rate):
    n_ctx = sizes[0]
    shares = ", ".join(one[4] for one in turns.ours)
    ours = turns.recorded()
    print(f"\nT = {n_ctx}: recording costs {shares} of a step, turn by turn.")
    share = model_flops(*sizes) / (1e-3 * ours) / rate
    print(f"Share of the matrix rate, T = {n_ctx}: {100 * share:.0f} %\n")
    if fast:
        what = "the fastest torch.compile without entropy"
        required(f"step, recorded, T {n_ctx}, against {what}", min(fast)[0], 1.0)
    else:
        print(f"required: torch.compile beside ours at T {n_ctx}: not measured")
    if not eager:
        print(f"required: eager beside ours at T {n_ctx}: not measured")
        return
    what = "eager PyTorch with the papers' logging"
    required(f"step, recorded, T {n_ctx}, against {what}", eager[0], 3.0)
    mib = max(1, max(one[2] for one in turns.ours))
    if n_ctx == max(size[0] for size in STEPS) and DEVICE == "cuda":
        required(f"memory of {what} over ours, T {n_ctx}", eager[1] / mib, 2.0)


def compare_one(program, sizes, rate, until):
    turns = Turns(program, sizes)
    plain, recorded, mib, millions, _ = turns.ours[0]
    print_row(sizes, "ours, no entropy recorded", plain, mib, "", "")
    print_row(sizes, "ours, recorded every step", recorded, mib, "", "1")
    eager = turns.peer(
        "eager, papers' formula", "eager", MODEL[3], min(60, seconds_left())
    )
    fast = []
    for mode, vocab in peers():
        if fast and seconds_left() < until + 25:
            break
        side = f"torch.compile, {mode}, V {vocab}"
        fast.append(turns.peer(side, mode, vocab, min(100, seconds_left())))
    require_steps(sizes, turns, [one for one in fast if one], eager, rate)


HEADS = "T | B | side | ms a step | tokens/s | MiB of the device | MiB reserved | peer / ours"


def compare_steps(program):
    rate, n = matrix_rate()
    print(f"A product of {n} x {n} bf16 matrices: {rate / 1e12:.3g} TFLOP/s")
    names = "L {}, H {}, d {}, V {}".format(*MODEL)
    print(f"{names}, AdamW, clipped; ours in bf16, its peers by autocast.")
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    for i, sizes in enumerate(STEPS):
        print(f"\n| {HEADS} |\n|" + " --- |" * 8, flush=True)
        # What is left for the sizes to come.
        until = 0.5 * SECONDS * (len(STEPS) - 1 - i) / max(1, len(STEPS) - 1)
        compare_one(program, sizes, rate, until)


def warm():
    """All at once, each with a few processes of the compiler and its share of
    most of the device's memory."""
    wanted = [(mode, vocab, *sizes) for sizes in STEPS for mode, vocab in peers()]
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "4"
    os.environ["ENTROPY_BENCH_SHARE"] = str(0.85 / len(wanted))
    running = [Peer(*one) for one in wanted]
    for peer in running:
        try:
            peer.line(seconds_left())
        except Unfinished as why:
            print(why)
        peer.end()


def main():
    verb, rest = (sys.argv[1:2] or ["help"])[0], sys.argv[2:]
    if verb not in ("rate", "attention", "step", "warm", "serve"):
        sys.exit(__doc__)
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch finds no CUDA device")
        sys.exit(SKIPPED)
    if verb in ("rate", "attention", "step"):
        print(f"PyTorch {torch.__version__} on {device_name()}")
    if verb == "rate":
        print("{:.3g} FLOP/s".format(matrix_rate()[0]))
    elif verb == "attention":
        compare_attention(rest[0])
    elif verb == "step":
        compare_steps(rest[0])
    elif verb == "warm":
        warm()
    else:
        serve(rest[0], *map(int, rest[1:]))


if __name__ == "__main__":
    main()
