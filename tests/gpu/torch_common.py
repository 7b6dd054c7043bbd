"""Settings, verdicts and time measurements shared by the Python programs of this folder."""

import math
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "hooks/python"))
BEGIN = time.monotonic()

# With this setting, PyTorch's check for a device does not initialise CUDA, so
# that the process can still fork afterwards.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
try:
    import torch
    import torch.nn.attention
except ImportError as why:
    sys.exit(f"PyTorch is not installed here, or too old: {why}")


def setting(name, otherwise):
    return os.environ.get("ENTROPY_BENCH_" + name) or otherwise


DEVICE = setting("DEVICE", "cuda")
MODEL = tuple(map(int, setting("MODEL", "12 12 768 50257").split()))
N_ROUNDS = int(setting("ROUNDS", "21"))
SECONDS = float(setting("SECONDS", "220"))


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def device_name():
    return torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU, not a GPU"


def verdict(holds, needs_gpu=True):
    """Returns the verdict as text. Without a GPU, requirements that need one get no
    verdict."""
    if needs_gpu and DEVICE != "cuda":
        return "not judged, no GPU"
    return "holds" if holds else "fails"


def required(what, ratio, least):
    print(f"required: {what} >= {least}x: {ratio:.2f}x: {verdict(ratio >= least)}")


def stretch(what, ratio):
    """Prints the measured ratio for a goal that need not be met, without a
    verdict."""
    print(f"stretch: {what}: {ratio:.2f}x")


def require(what, holds):
    """Prints the verdict on a requirement that can also be checked without a GPU."""
    print(f"required: {what}: {verdict(holds, needs_gpu=False)}", flush=True)


def middle(values):
    """Returns the median of the values, and the lower and upper limit of its 95 % confidence
    interval. Both limits are elements of `values`. With fewer than six values, the limits are the
    smallest and the largest value."""
    ordered, n = sorted(values), len(values)
    below, outside = 0.0, 0  # P(at most `outside` values are below the median)
    while outside < n // 2:
        below += math.comb(n, outside) / 2**n
        if below > 0.025:
            break
        outside += 1
    low = max(0, outside - 1)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


def seconds_left():
    return SECONDS - (time.monotonic() - BEGIN)


def attention_kernel(call):
    """Returns which attention kernel call() runs, according to the profiler: "cudnn (NAME)",
    "flash (NAME)", "efficient (NAME)", "math", or "unknown (REASON)"."""
    try:
        activity = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activity) as profile:
            call()
            wait()
        names = [event.key for event in profile.key_averages()]
    except Exception as why:  # the profiler may be missing; the times are not affected
        return f"unknown ({why})"
    for kind, part in (("cudnn", "cudnn"), ("flash", "flash_"), ("efficient", "fmha")):
        for name in names:
            if part in name.lower():
                return f"{kind} ({name[:70]})"
    return "math" if names else "unknown (no kernel was seen)"


def our_environment():
    path = os.environ.get("ES_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": path} if path else dict(os.environ)


def time_rounds(call, milliseconds=3.0):
    """Returns the median time of call() in milliseconds over N_ROUNDS rounds. A round has as many
    calls as take about `milliseconds`."""

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
    """Returns the FLOP/s of a bf16 product of random n x n matrices, and n."""
    n = 8192 if DEVICE == "cuda" else 256
    a, b = (torch.randn(n, n, device=DEVICE).bfloat16() for _ in range(2))
    return 2 * n**3 / (1e-3 * time_rounds(lambda: a @ b, 20)), n
