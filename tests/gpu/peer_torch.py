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

SKIPPED = 77
BEGIN = time.monotonic()

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as why:
    print(f"skipped: PyTorch is not installed here, or too old: {why}")
    sys.exit(SKIPPED)


def setting(name, otherwise):
    return os.environ.get("ENTROPY_BENCH_" + name) or otherwise


DEVICE = setting("DEVICE", "cuda")
MODEL = tuple(map(int, setting("MODEL", "12 12 768 50257").split()))
STEPS = [
    tuple(map(int, one.split("x"))) for one in setting("STEPS", "128x64 1024x8").split()
]
CONTEXTS = list(
    map(int, setting("CONTEXTS", "128 256 512 1024 2048 4096 8192").split())
)
N_TOKENS = int(setting("TOKENS", "16384"))
N_ROUNDS = int(setting("ROUNDS", "21"))
SECONDS = float(setting("SECONDS", "220"))


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def device_name():
    return torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU, not a GPU"


def verdict(holds):
    if DEVICE != "cuda":
        return "not judged, no GPU"
    return "holds" if holds else "fails"


def required(what, ratio, least):
    print(f"required: {what} >= {least}x: {ratio:.2f}x: {verdict(ratio >= least)}")


def our_environment():
    path = os.environ.get("ES_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": path} if path else dict(os.environ)


# --- rate --------------------------------------------------------------------


def time_rounds(call, milliseconds=3.0):
    """Median of the milliseconds a call; a round is as many as take 3 ms."""

    def timed(n):
        wait()
        start = time.perf_counter()
        for _ in range(n):
            call()
        wait()
        return 1e3 * (time.perf_counter() - start) / n

    timed(2)
    n = max(1, int(milliseconds / max(timed(2), 1e-3)))
    return statistics.median(timed(n) for _ in range(N_ROUNDS))


def matrix_rate():
    """FLOP/s of a bf16 product of random n x n matrices."""
    n = 8192 if DEVICE == "cuda" else 256
    a, b = (torch.randn(n, n, device=DEVICE).bfloat16() for _ in range(2))
    return 2 * n**3 / (1e-3 * time_rounds(lambda: a @ b, 20)), n


# --- attention ---------------------------------------------------------------


def captured(call):
    """The call as a CUDA graph."""
    if DEVICE != "cuda":
        return call
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError as why:
        print(f"Not captured, so Python's time is in it: {str(why).splitlines()[0]}")
        return call
    return graph.replay


def sdpa_times(n_batch, n_head, n_ctx, width):
    """Milliseconds forward and backward of SDPA, causal, bf16."""
    qkv = torch.randn(n_batch, n_ctx, 3, n_head, width, device=DEVICE).bfloat16()
    q, k, v = (qkv[:, :, i].transpose(1, 2).requires_grad_() for i in range(3))
    dy = torch.randn(n_batch, n_ctx, n_head, width, device=DEVICE).bfloat16()
    dy = dy.transpose(1, 2)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    forward_time = time_rounds(captured(forward))
    # The way back is captured with the way there: it runs on the same stream.
    both_time = time_rounds(
        captured(lambda: torch.autograd.grad(forward(), (q, k, v), dy))
    )
    return forward_time, both_time - forward_time


def sdpa_kernels():
    """Which kernel SDPA takes of its own accord."""
    q = torch.randn(4, 12, 1024, 64, device=DEVICE).bfloat16().requires_grad_()
    try:
        activity = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activity) as profile:
            F.scaled_dot_product_attention(q, q, q, is_causal=True)
            wait()
        names = [event.key for event in profile.key_averages()]
        return max(names, key=len)[:70] if names else "of unknown name"
    except Exception as why:  # the profiler may be missing; the times are not
        return f"of unknown name ({why})"


def back_ends():
    """What SDPA can be told to take: name and a context to take it in."""
    return [
        (name, lambda one=one: sdpa_kernel(one))
        for name, one in (
            ("flash", SDPBackend.FLASH_ATTENTION),
            ("cudnn", SDPBackend.CUDNN_ATTENTION),
        )
    ]


def all_sdpa_times(sizes):
    """Those of its own choice, then those of each back-end: NaN if it cannot."""
    times = [sdpa_times(*sizes)]
    for _, context in back_ends():
        try:
            with context():
                times.append(sdpa_times(*sizes))
        except RuntimeError:
            times.append((math.nan, math.nan))
    return times


def our_attention_times(program, *sizes):
    result = subprocess.run(
        [program, "bf16", *map(str, sizes)],
        capture_output=True,
        text=True,
        env=our_environment(),
    )
    if result.returncode != 0:
        sys.exit(f"{program}: {result.stderr.strip()}")
    return [float(word) for word in result.stdout.split()]


def attention_row(program, width, n_ctx):
    """Prints a line; returns the ratios that were required of it."""
    sizes = (max(1, N_TOKENS // n_ctx), MODEL[2] // width, n_ctx, width)
    sdpa = all_sdpa_times(sizes)
    _, measured, _, backward, cost, low, high = our_attention_times(program, *sizes)
    cells = [f"{width} | {n_ctx} | {measured:.3f}"]
    cells += [f"{100 * (x - 1):+.1f}" for x in (cost, low, high)]
    cells += [f"{forward:.3f}" for forward, _ in sdpa]
    cells += [f"{sdpa[0][0] / measured:.2f} | {backward:.3f}"]
    cells += [f"{way_back:.3f}" for _, way_back in sdpa]
    cells += [f"{sdpa[0][1] / backward:.2f}"]
    print("| " + " | ".join(cells) + " |", flush=True)
    costs = (cost, low, high)
    return sdpa[0][0] / measured, sdpa[0][1] / backward, costs, (width, n_ctx)


def require_attention(rows):
    for i, way in enumerate(("forward with entropy", "backward with dL/dE")):
        worst = min(rows, key=lambda row: row[i])
        required(
            f"fused {way} against SDPA (worst of {len(rows)}: d_k {worst[3][0]},"
            f" T {worst[3][1]})",
            worst[i],
            0.8,
        )
    worst = max(rows, key=lambda row: row[2])
    cost, low, high = (100 * (x - 1) for x in worst[2])
    print(
        f"required: entropy costs <= 2 % of the fused forward (worst of {len(rows)}:"
        f" d_k {worst[3][0]}, T {worst[3][1]}): {cost:+.2f} % [{low:+.2f}, {high:+.2f}]:"
        f" {verdict(cost <= 2)}"
    )


def compare_attention(program):
    print(f"SDPA takes, of its own accord, {sdpa_kernels()}.")
    print(
        "Milliseconds, bf16, causal, B T ="
        f" {N_TOKENS}, H d_k = {MODEL[2]}; cost of the entropy in %, with the"
        " interval that holds it with 95 %.\n"
    )
    names = ["its own choice"] + [name for name, _ in back_ends()]
    heads = ["d_k", "T", "forward, ours, with entropy", "cost", "from", "to"]
    heads += [f"SDPA, {name}" for name in names]
    heads += ["SDPA / ours", "backward, ours, dL/dE too"]
    heads += [f"SDPA, {name}" for name in names] + ["SDPA / ours"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    widths = [width for width in (64, 128) if MODEL[2] % width == 0] or [
        MODEL[2] // MODEL[1]
    ]
    rows = [attention_row(program, w, n_ctx) for w in widths for n_ctx in CONTEXTS]
    print()
    require_attention(rows)


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
    """The loss belongs to it, so that torch.compile sees it too."""

    def __init__(self, n_layer, n_head, width, vocab, n_ctx, keeps):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(n_ctx, width)
        self.blocks = nn.ModuleList(Block(n_head, width, keeps) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def make_optimiser(model):
    decays = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [
            {"params": decays, "weight_decay": 0.1},
            {"params": others, "weight_decay": 0},
        ],
        lr=1e-4,
        fused=True,
    )


def torch_step(mode, vocab, n_ctx, n_batch):
    """A function that takes one training step, in bf16 with f32 parameters, and
    returns the loss, which nobody has to wait for; and the model."""
    n_layer, n_head, width, _ = MODEL
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(n_layer, n_head, width, vocab, n_ctx, mode == "eager").to(DEVICE)
    optimiser = make_optimiser(model)
    forward = model if mode == "eager" else torch.compile(model, mode=mode)
    tokens = torch.randint(MODEL[3], (n_batch, n_ctx + 1), device=DEVICE)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = forward(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if mode == "eager":  # as the papers log it
            torch.stack([block.entropy for block in model.blocks]).cpu()
        return loss.detach()

    return step, model


def serve(mode, vocab, n_ctx, n_batch):
    """In a process of its own: one line of the number of parameters, the MiB
    that PyTorch reserved at most, and a step's milliseconds after "go"."""
    if DEVICE == "cuda":
        torch.cuda.set_per_process_memory_fraction(float(setting("SHARE", "1")))
    step, model = torch_step(mode, vocab, n_ctx, n_batch)
    first = step().item()
    if not abs(first - math.log(vocab)) < 0.5:
        sys.exit(f"the first loss is {first}, far from ln {vocab}")
    for _ in range(6):
        step()
    wait()
    n = sum(p.numel() for p in model.parameters())
    reserved = torch.cuda.max_memory_reserved() >> 20 if DEVICE == "cuda" else 0
    print(n, reserved, flush=True)
    if sys.stdin.readline().strip() == "go":
        print(f"{time_rounds(step, 60):.4f}", flush=True)


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
