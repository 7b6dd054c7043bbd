#!/usr/bin/env python3
"""usage: peer_torch.py rate
       peer_torch.py flash BENCH_ATTENTION ENTROPY_TRAIN
       peer_torch.py eager ENTROPY_TRAIN
       peer_torch.py compile ENTROPY_TRAIN

Compares the CUDA back-end with common ways to use PyTorch 2 ("peers"), on the same device and
in the same run. tests/gpu/check.sh runs this program.

rate     measures the device's FLOP/s in a large bf16 matrix product
flash    compares the back-end's fused attention, which returns the statistics of every row,
         with PyTorch's scaled_dot_product_attention (SDPA), which returns no statistics. The
         verdict refers to SDPA's flash attention; cuDNN, the default on newer devices, is
         measured, too. PyTorch's calls are captured in a CUDA graph, so that the time of
         Python is not included. q, k and v have the layout of a projection's output, and
         copying them is not included. Then compares a training step of GPT-2 small, which
         records entropy in a run file at every step, with a step of eager PyTorch with flash
         attention; the two alternate
eager    compares the training step with eager PyTorch that stores the attention matrices and
         computes the papers' formula from them
compile  compares the training step with torch.compile, where the loss is compiled as well,
         AdamW is fused, no step waits for the device, and no entropy is computed. The verdict
         refers to the fastest of several settings with flash attention; cuDNN is measured,
         too. All settings are compiled first, at the same time

The printed times are medians. Memory is the growth of the device's memory in use, as nvidia-smi
reports it. A line that begins with "required: " states a requirement and whether it is met; a
line that begins with "stretch: " states a goal without a verdict.

Variables, with default values in parentheses:

  ENTROPY_BENCH_DEVICE    cpu, to test this file without measuring on a GPU (cuda)
  ENTROPY_BENCH_MODEL     layers, heads, width and vocabulary ("12 12 768 50257")
  ENTROPY_BENCH_STEPS     sizes of training steps, as T x B ("1024x32 128x64" for flash,
                          otherwise "1024x8", so that several peers fit in the memory)
  ENTROPY_BENCH_CONTEXTS  context lengths T of the measured attention ("1024 4096")
  ENTROPY_BENCH_TOKENS    tokens B T of the measured attention (16384)
  ENTROPY_BENCH_ROUNDS    number of rounds (21)
  ENTROPY_BENCH_SHARE     share of the device's memory that a peer may use (1)
  ENTROPY_BENCH_SECONDS   time in seconds after which no further peer starts (220)
  ES_LIBRARY_PATH         LD_LIBRARY_PATH of this project's programs

Exit code 1 if PyTorch or a device is missing.
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

# This import must be the first one, because it reports a missing PyTorch.
from torch_common import (
    DEVICE,
    MODEL,
    N_ROUNDS,
    SECONDS,
    device_name,
    matrix_rate,
    our_environment,
    required,
    seconds_left,
    setting,
    stretch,
)

import torch
from torch_attention import compare_attention
from torch_model import serve

VERB = (sys.argv[1:2] or ["help"])[0]
STEPS = [
    tuple(map(int, one.split("x")))
    for one in setting("STEPS", "1024x32 128x64" if VERB == "flash" else "1024x8").split()
]

# --- a step compared with ours ------------------------------------------------------


def device_mib():
    """Returns the MiB of the device's memory that all processes use together."""
    if DEVICE != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info()
    return (total - free) >> 20


class LargestMemory(threading.Thread):
    """Measures the maximum growth of the device's memory in use until end() is called."""

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
    """Raised if a peer fails or takes too long; contains the peer's last output."""


class Peer:
    """A separate process that runs training steps in PyTorch. attention is "flash" or "cudnn", or
    "" if the model does not use SDPA."""

    def __init__(self, mode, attention, vocab, n_ctx, n_batch):
        self.attention = attention
        environment = dict(os.environ)
        if attention == "flash":
            environment["TORCH_CUDNN_SDPA_DEPRIORITIZED"] = "1"
        self.errors = tempfile.TemporaryFile("w+")
        command = [sys.executable, __file__, "serve", mode]
        command += [str(number) for number in (vocab, n_ctx, n_batch)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )

    def has_line(self):
        return select.select([self.process.stdout], [], [], 1)[0]

    def line(self, seconds):
        """Returns the next line of output. Also checks whether the peer's process has
        ended, because compiler processes that it has started may keep the pipe open."""
        end = time.monotonic() + seconds
        while not self.has_line() and self.process.poll() is None:
            if time.monotonic() > end:
                raise Unfinished(f"not within {seconds:.0f} s")
        line = self.process.stdout.readline() if self.has_line() else ""
        if line:
            return line
        self.errors.seek(0)
        said = [text.strip() for text in self.errors if text.strip()]
        raise Unfinished((said or ["no message"])[-1][:200])

    def ready(self, seconds):
        """Returns the number of parameters and the MiB that PyTorch has reserved. Fails if PyTorch
        uses another attention kernel than the requested one."""
        n, reserved, took = self.line(seconds).strip().split(maxsplit=2)
        if self.attention and DEVICE == "cuda" and not took.startswith(self.attention):
            raise Unfinished(f"it uses {took}, not {self.attention}")
        return int(n), int(reserved)

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def peer_step(kind, n_ctx, n_batch, seconds):
    """Runs a peer. Returns the milliseconds of a step, the growth of the device's memory in MiB,
    the MiB that PyTorch has reserved, and the number of parameters."""
    memory = LargestMemory()
    memory.start()
    peer = Peer(*kind, n_ctx, n_batch)
    try:
        try:
            n, reserved = peer.ready(seconds)
        finally:
            mib = memory.end()
        peer.go()
        took = float(peer.line(60))
    finally:
        peer.end()
    return took, mib, reserved, n


def our_step(program, n_ctx, n_batch):
    """Runs `entropy-train bench`. Returns the milliseconds of a plain and of a recorded step, the
    growth of the device's memory in MiB, the parameters in millions, and the text that states
    the cost of recording with its interval."""
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
    """Returns the vocabulary size, padded as in nanoGPT so that matrix products are
    faster."""
    return 128 * math.ceil(vocab / 128) if vocab > 128 else vocab


def compiled():
    """Returns the compiled variants as (mode, attention, vocabulary). The first variant is probably
    the fastest."""
    more = padded(MODEL[3])
    return [
        ("default", "flash", more),
        ("default", "cudnn", more),
        ("reduce-overhead", "flash", more),
    ]


def model_flops(n_ctx, n_batch):
    """Returns the FLOPs of a step's matrix products: 6 per parameter and token, where the
    tied token matrix counts once, plus 12 times the model's width per layer and visible
    pair of positions."""
    n_layer, _, width, vocab = MODEL
    weights = n_layer * 12 * width**2 + vocab * width
    pairs = n_layer * n_ctx * (n_ctx + 1) / 2
    return n_batch * (6 * weights * n_ctx + 12 * width * pairs)


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
        sys.exit(f"the peer has {n} parameters, but our model has {millions} million")


class Turns:
    """Measures training steps of one size, alternately with the back-end and with a peer."""

    def __init__(self, program, sizes):
        self.program, self.sizes = program, sizes
        self.ours = []
        self.our_turn()

    def our_turn(self):
        self.ours.append(our_step(self.program, *self.sizes))

    def peer(self, side, kind, seconds):
        """Measures a peer, which is PyTorch with the options of `kind`. Returns its time divided
        by the times of the back-end measured just before and just after, and its memory in MiB.
        Returns None if the peer does not finish."""
        try:
            took, mib, reserved, n = peer_step(kind, *self.sizes, seconds)
        except Unfinished as why:
            print(f"| {self.sizes[0]} | {self.sizes[1]} | {side} | {why} | | | | |")
            return None
        check_parameters(n, self.ours[0][3], kind[2])
        self.our_turn()
        ratio = took / statistics.mean(one[1] for one in self.ours[-2:])
        print_row(self.sizes, side, took, mib, reserved, f"{ratio:.2f}x")
        return ratio, mib

    def recorded(self):
        return statistics.median(one[1] for one in self.ours)


def require_papers(turns, papers):
    n_ctx = turns.sizes[0]
    what = "eager PyTorch with the papers' logging"
    if not papers:
        print(f"\nrequired: {what} compared with ours at T {n_ctx}: not measured")
        return
    print()
    required(f"step, recorded, T {n_ctx}, against {what}", papers[0], 3.0)
    mib = max(1, max(one[2] for one in turns.ours))
    if n_ctx == max(size[0] for size in STEPS) and DEVICE == "cuda":
        required(f"memory of {what} over ours, T {n_ctx}", papers[1] / mib, 2.0)


def compare_papers(turns, _rate, _until):
    kind = ("papers", "", MODEL[3])
    require_papers(turns, turns.peer("eager, papers' formula", kind, min(60, seconds_left())))


def compare_flash(turns, _rate, _until):
    kind = ("eager", "flash", MODEL[3])
    peer = turns.peer("eager, flash, no entropy", kind, min(60, seconds_left()))
    if peer:
        print()
        stretch(f"step, recorded, T {turns.sizes[0]}, against eager PyTorch, flash", peer[0])


def require_compiled(turns, found, rate):
    """Prints whether the back-end is as fast as required. `found` contains a list of
    results for each kind of attention."""
    n_ctx = turns.sizes[0]
    share = model_flops(*turns.sizes) / (1e-3 * turns.recorded()) / rate
    print(f"\nT = {n_ctx}: recording costs {', '.join(one[4] for one in turns.ours)}")
    print(f"of a step, for each of our turns. Share of the matrix rate: {100 * share:.0f} %\n")
    what = "the fastest torch.compile without entropy"
    if found["flash"]:
        text = f"step, recorded, T {n_ctx}, against {what}, flash"
        required(text, min(found["flash"])[0], 1.0)
    else:
        print(f"required: torch.compile compared with ours at T {n_ctx}: not measured")
    if found["cudnn"]:
        text = f"step, recorded, T {n_ctx}, against torch.compile, cuDNN"
        stretch(text, min(found["cudnn"])[0])


def compare_compiled(turns, rate, until):
    found = {"flash": [], "cudnn": []}
    for kind in compiled():
        if seconds_left() < (until + 25 if found["flash"] else 15):
            break
        mode, attention, vocab = kind
        side = f"torch.compile, {mode}, {attention}, V {vocab}"
        one = turns.peer(side, kind, min(100, seconds_left()))
        found[attention] += [one] if one else []
    require_compiled(turns, found, rate)


HEADS = "T | B | side | ms a step | tokens/s | MiB of the device | MiB reserved | peer / ours"


def compare_steps(program, compare):
    rate, n = matrix_rate()
    print(f"A product of {n} x {n} bf16 matrices: {rate / 1e12:.3g} TFLOP/s")
    names = "L {}, H {}, d {}, V {}".format(*MODEL)
    print(f"{names}, AdamW, clipped; ours in bf16, its peers by autocast.")
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    begun = seconds_left()
    for i, sizes in enumerate(STEPS):
        if i and seconds_left() < 15:
            sys.exit(f"no time left for T x B = {sizes}")
        print(f"\n| {HEADS} |\n|" + " --- |" * 8, flush=True)
        turns = Turns(program, sizes)
        plain, recorded, mib, *_ = turns.ours[0]
        print_row(sizes, "ours, no entropy recorded", plain, mib, "", "")
        print_row(sizes, "ours, recorded every step", recorded, mib, "", "1")
        # Reserve a part of the time for the sizes that are not measured yet.
        until = 0.5 * begun * (len(STEPS) - 1 - i) / max(1, len(STEPS) - 1)
        compare(turns, rate, until)


def warm():
    """Fills the cache of torch.compile. Starts all variants at once, each of them with a few
    compiler processes and an equal share of 85 % of the device's memory."""
    wanted = [(*kind, *sizes) for sizes in STEPS for kind in compiled()]
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "4"
    os.environ["ENTROPY_BENCH_SHARE"] = str(0.85 / len(wanted))
    running = [Peer(*one) for one in wanted]
    for one, peer in zip(wanted, running):
        try:
            peer.line(max(1, seconds_left() - 0.6 * SECONDS))
        except Unfinished as why:
            print(f"Compiling {one} beforehand: {why}")
        peer.end()
    del os.environ["ENTROPY_BENCH_SHARE"], os.environ["TORCHINDUCTOR_COMPILE_THREADS"]


def main():
    rest = sys.argv[2:]
    if VERB not in ("rate", "flash", "eager", "compile", "serve"):
        sys.exit(__doc__)
    if DEVICE == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    if VERB != "serve":
        print(f"PyTorch {torch.__version__} on {device_name()}")
    if VERB == "rate":
        print("{:.3g} FLOP/s".format(matrix_rate()[0]))
    elif VERB == "flash":
        compare_attention(rest[0])
        compare_steps(rest[1], compare_flash)
    elif VERB == "eager":
        compare_steps(rest[0], compare_papers)
    elif VERB == "compile":
        warm()
        compare_steps(rest[0], compare_compiled)
    else:
        mode, vocab, n_ctx, n_batch = rest
        serve(mode, int(vocab), int(n_ctx), int(n_batch))


if __name__ == "__main__":
    main()
