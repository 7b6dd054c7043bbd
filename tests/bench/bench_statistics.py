#!/usr/bin/python3
"""usage: bench_statistics.py LIBRARY [N_THREADS [OTHER_LIBRARY]]   (run.sh)

Compares the statistics of heads from Q and K (es_qk_statistics) with the
forward pass of PyTorch's scaled_dot_product_attention on the same Q and K: B=2
H=12 T=512 d=64, causal, with the same number of threads. The two alternate. Prints the
median of the ratios of their times and its 95 % confidence interval. One thread is
measured in CPU time, which other load does not increase, several threads in wall time.
With OTHER_LIBRARY, also measures a second version of the library.
"""
import ctypes
import os
import statistics
import sys
import time

N_THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
NOW = time.process_time if N_THREADS == 1 else time.perf_counter
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(N_THREADS)

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed here (package python3-torch): skipped")
    sys.exit(0)

B, H, T, D = 2, 12, 512, 64
PAIRS, TARGET, MOST_MEMORY = 41, 0.22, 2 << 20
F32, BF16 = 0, 1


def struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p
INT, DOUBLE = ctypes.c_int, ctypes.c_double
# The structs of analyzer/entropy/entropy.h, with their members in order.
Shape = struct(
    "Shape", ("size", SIZE),
    *((name, INT) for name in "n_batch n_heads n_queries n_keys width".split()),
    ("causal", ctypes.c_bool), ("n_kv_heads", INT), ("query_offset", INT),
    *((name, POINTER) for name in
      "key_mask query_mask key_lengths query_offsets query_starts "
      "key_starts".split()),
    ("window", INT), ("scale", DOUBLE), ("softcap", DOUBLE),
    ("temperature", POINTER), ("sink_logits", POINTER), ("time_limit", DOUBLE))
Input = struct("Input", ("data", POINTER), ("type", INT),
               *((name, ctypes.c_ssize_t) for name in "batch head row".split()))
HEADS = ("entropy entropy_min entropy_max max_logit sink missing distance top "
         "finite_rows nonfinite_rows nonfinite_weights").split()
Heads = struct("Heads", ("size", SIZE), *((name, POINTER) for name in HEADS))


class Ours:
    """A callable that calls the library on q and k (B,H,T,D)."""

    def __init__(self, library, q, k, wanted, **options):
        self.kept = q, k, torch.zeros(len(HEADS), H, dtype=torch.float64)
        self.call = library.es_qk_statistics
        self.heads = Heads(ctypes.sizeof(Heads))
        for i, name in enumerate(HEADS):
            if name in wanted:
                setattr(self.heads, name, self.kept[2][i].data_ptr())
        self.shape = Shape(ctypes.sizeof(Shape), B, H, T, T, D, True, **options)
        self.inputs = [Input(x.data_ptr(), F32 if x.dtype == torch.float32 else
                             BF16, *x.stride()[:3]) for x in (q, k)]

    def __call__(self):
        status = self.call(None, *map(ctypes.byref, (
            self.heads, *self.inputs, self.shape)), N_THREADS)
        assert status == 0, status


def seconds(work):
    start = NOW()
    for _ in range(3):
        work()
    return (NOW() - start) / 3


def report(name, ours, other, target=None):
    """Measures two callables alternately and prints the ratio of their times."""
    ours(), other()
    pairs = [(seconds(ours), seconds(other)) for _ in range(PAIRS)]
    ratios = sorted(a / b for a, b in pairs)
    low, high = ratios[PAIRS // 2 - 6], ratios[PAIRS // 2 + 6]
    ratio = statistics.median(ratios)
    verdict = ""
    if target:
        verdict = f"   <= {target:.2f}: {'reached' if ratio <= target else 'MISSED'}"
    print(f"{name:34} {1e3 * statistics.median(a for a, _ in pairs):7.2f} ms "
          f"{1e3 * statistics.median(b for _, b in pairs):7.2f} ms "
          f"{ratio:7.3f} ({low:.3f} to {high:.3f}){verdict}")


def peak_memory():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status
                    if line.startswith("VmHWM"))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(N_THREADS)
    library = ctypes.CDLL(os.path.abspath(sys.argv[1]))
    q, k, v = torch.randn(3, B, H, T, D).unbind()

    def attend(q=q, k=k, v=v):
        F.scaled_dot_product_attention(q, k, v, is_causal=True)

    few = "entropy max_logit".split()
    main_call = Ours(library, q, k, HEADS[:6])
    before = peak_memory()
    main_call()
    used = peak_memory() - before
    print(f"{N_THREADS} thread(s), {'processor time' if N_THREADS == 1 else 'clock'}"
          f", B={B} H={H} T={T} d={D}: ours, scaled_dot_product_attention, ratio")
    report("entropy, max_logit, sink, missing", main_call, attend, TARGET)
    report("all, distance and top too", Ours(library, q, k, HEADS), attend)
    report("bfloat16, float32 forward",
           Ours(library, q.bfloat16(), k.bfloat16(), few), attend)
    report("window of 128", Ours(library, q, k, few, window=128), attend)
    report("softcap of 50", Ours(library, q, k, few, softcap=50), attend)
    report("scores 30 times as large, exact", Ours(library, 30 * q, k, few), attend)
    if len(sys.argv) > 3:
        other = ctypes.CDLL(os.path.abspath(sys.argv[3]))
        report("the other library", main_call, Ours(other, q, k, HEADS[:6]))
    print(f"memory: {used / 2**20:.2f} MiB   <= {MOST_MEMORY >> 20}: "
          f"{'reached' if used <= MOST_MEMORY else 'MISSED'}")


main()
