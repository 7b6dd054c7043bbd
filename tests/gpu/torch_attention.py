"""Our fused attention beside scaled_dot_product_attention: peer_torch.py says
how."""

import math
import subprocess
import sys

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_common import (
    DEVICE,
    MODEL,
    our_environment,
    required,
    setting,
    time_rounds,
    verdict,
    wait,
)

CONTEXTS = list(
    map(int, setting("CONTEXTS", "128 256 512 1024 2048 4096 8192").split())
)
N_TOKENS = int(setting("TOKENS", "16384"))


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
