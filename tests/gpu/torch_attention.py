"""Compares the back-end's fused attention with scaled_dot_product_attention; see peer_torch.py."""

import math
import subprocess
import sys

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_common import (
    DEVICE,
    MODEL,
    attention_kernel,
    our_environment,
    required,
    seconds_left,
    setting,
    stretch,
    time_rounds,
    verdict,
)

CONTEXTS = list(map(int, setting("CONTEXTS", "1024 4096").split()))
N_TOKENS = int(setting("TOKENS", "16384"))


def captured(call):
    """Captures call() as a CUDA graph. Returns a function that replays the graph."""
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
        print(f"Not captured, so Python's time is included: {str(why).splitlines()[0]}")
        return call
    return graph.replay


def sdpa_times(n_batch, n_head, n_ctx, width):
    """Returns the milliseconds of the forward and of the backward pass of causal SDPA in bf16."""
    qkv = torch.randn(n_batch, n_ctx, 3, n_head, width, device=DEVICE).bfloat16()
    q, k, v = (qkv[:, :, i].transpose(1, 2).requires_grad_() for i in range(3))
    dy = torch.randn(n_batch, n_ctx, n_head, width, device=DEVICE).bfloat16()
    dy = dy.transpose(1, 2)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    forward_time = time_rounds(captured(forward))
    # The backward pass is captured together with the forward pass, because both
    # must run on the same stream.
    both_time = time_rounds(
        captured(lambda: torch.autograd.grad(forward(), (q, k, v), dy))
    )
    return forward_time, both_time - forward_time


def sdpa_takes():
    """Returns the kind and the name of the kernel that SDPA chooses by default."""
    q = torch.randn(4, 12, 1024, 64, device=DEVICE).bfloat16().requires_grad_()
    return attention_kernel(
        lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)
    )


def back_ends():
    """Returns the two kernels of SDPA that are compared. The required speed of the fused
    attention is relative to the first kernel, the stretch goal to the second."""
    return ("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)


def all_sdpa_times(sizes):
    """Returns sdpa_times for each kernel of back_ends; NaN if a kernel does not support the
    call."""
    times = []
    for _, back_end in back_ends():
        try:
            with sdpa_kernel(back_end):
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


def percent(cost, low, high):
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*(100 * (x - 1) for x in (cost, low, high)))


def attention_row(program, width, n_ctx):
    """Measures attention of one size and prints a line of the table. Returns the times
    of SDPA's kernels relative to the fused attention (forward, then backward), the
    costs of statistics, and the sizes."""
    sizes = (max(1, N_TOKENS // n_ctx), MODEL[2] // width, n_ctx, width)
    sdpa = all_sdpa_times(sizes)
    _, _, forward, _, backward, *costs = our_attention_times(program, *sizes)
    costs = {"the entropy alone": costs[:3], "all statistics": costs[3:]}
    cells = [f"{width} | {n_ctx} | {forward:.3f}"]
    cells += [percent(*cost) for cost in costs.values()]
    ratios = []
    for i, ours in enumerate((forward, backward)):
        cells += [f"{backward:.3f}"] if i else []
        cells += [f"{times[i]:.3f} | {times[i] / ours:.2f}" for times in sdpa]
        ratios.append([times[i] / ours for times in sdpa])
    print("| " + " | ".join(cells) + " |", flush=True)
    return ratios, costs, (width, n_ctx)


def worst_of(rows, i, back_end):
    """Returns the smallest ratio among the rows, and a text that names the sizes of its
    row. NaN counts as smaller than any number."""
    row = min(rows, key=lambda row: (not math.isnan(row[0][i][back_end]), row[0][i][back_end]))
    where = f"worst of {len(rows)}: d_k {row[2][0]}, T {row[2][1]}"
    return row[0][i][back_end], where


def require_attention(rows):
    for i, way in enumerate(("forward with statistics", "backward with dL/dE")):
        ratio, where = worst_of(rows, i, 0)
        required(f"fused {way} against flash attention ({where})", ratio, 0.8)
        ratio, where = worst_of(rows, i, 1)
        stretch(f"fused {way} against cuDNN ({where})", ratio)
    for what in rows[0][1]:
        _, costs, (width, n_ctx) = max(rows, key=lambda row: row[1][what])
        print(
            f"required: {what} costs <= 20 % of the fused forward (worst of {len(rows)}:"
            f" d_k {width}, T {n_ctx}): {percent(*costs[what])} %:"
            f" {verdict(costs[what][0] <= 1.2)}"
        )


def compare_attention(program):
    print(f"SDPA chooses {sdpa_takes()} by default.")
    print(
        "Milliseconds, bf16, causal, B T ="
        f" {N_TOKENS}, H d_k = {MODEL[2]}; costs of statistics in % of the plain"
        " forward pass, with their 95 % intervals; / ours: how many times as long.\n"
    )
    peers = [part for name, _ in back_ends() for part in (f"SDPA, {name}", "/ ours")]
    heads = ["d_k", "T", "forward, ours, with all statistics", "entropy alone", "all"]
    heads += peers + ["backward, ours, dL/dE too"] + peers
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    widths = [width for width in (64, 128) if MODEL[2] % width == 0] or [
        MODEL[2] // MODEL[1]
    ]
    rows = []
    for width, n_ctx in [(width, n_ctx) for width in widths for n_ctx in CONTEXTS]:
        if rows and seconds_left() < 15:
            sys.exit(f"no time left for d_k {width}, T {n_ctx}")
        rows.append(attention_row(program, width, n_ctx))
    print()
    require_attention(rows)
