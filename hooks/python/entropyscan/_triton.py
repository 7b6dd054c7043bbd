"""Statistics of attention heads from queries and keys, forward only and without
T x S memory, as Triton kernels: for tensors of CUDA devices, and by Triton's
interpreter (TRITON_INTERPRET=1) for tensors of the CPU, as the tests do.
analyzer/entropy/entropy.h is the manual of what is computed.

1  _extents      the largest keys, by which step 2 knows how far rounding goes
2  _rows         blocks of rows, keys tile by tile; with m the largest score so
                 far and x_j = (s_j - m) log2 e <= 0, p_j = 2^x_j:
                     weight = sum p_j,  spread = sum p_j x_j
                     entropy = ln 2 (log2 weight - spread / weight)
3  _rows, EXACT  rows that float32 products blur, again in double
4  _sequences    rows to sequences, _heads sequences to heads: in double, in one
                 order, no atomics

`_triton_kernels` has them. Nothing here waits for the device. Letters: B batch,
H heads of queries, KV heads of keys, T queries, S keys, D width of a head, N
sequences (B, or packed ones)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._device import Call
from ._triton_kernels import (
    CHUNKS,
    IS_INTERPRETED,
    _extents,
    _first_keys,
    _heads,
    _rows,
    _sequences,
)

N_ROW_FLOATS = 7  # entropy, lse, max_logit, sink, missing, distance, top
N_SUMS = 9  # of a sequence: rows, finite, weights, max_logit and five means


def _passes(width: int, number: torch.dtype) -> list[dict[str, Any]]:
    """How _rows runs, the first time for all rows."""
    exact = {
        "EXACT": True,
        "NUMBER": tl.float64,
        "PRODUCTS": tl.float64,
        "N_ROWS": 16,
        "N_KEYS": 16,
        "num_warps": 4,
    }
    # Larger tiles, or fewer warps, have more numbers than registers.
    first = {
        "EXACT": False,
        "NUMBER": tl.float32,
        "N_ROWS": 64,
        "N_KEYS": 64 if number != torch.float32 and width <= 128 else 32,
        "num_warps": 8,
    }
    if number == torch.float32 or IS_INTERPRETED:  # which knows no bfloat16
        first["PRODUCTS"] = tl.float32
    else:
        first["PRODUCTS"] = tl.bfloat16 if number == torch.bfloat16 else tl.float16
    return [first, exact]


def row_statistics(query: Tensor, key: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Of query (B,H,T,D), key (B,KV,S,D), numbers of a row one after the other:
    float32 (7,B,H,T), as N_ROW_FLOATS says, and int32 (B,H,T), non-finite
    weights. NaN and missing are those of es_rows."""
    b, h, t, d = query.shape
    kv, s = key.shape[1], key.shape[2]
    device = query.device
    is_packed = call.query_starts is not None
    starts = call.query_starts
    key_starts = starts if call.key_starts is None else call.key_starts
    n = starts.numel() - 1 if is_packed else b
    width = max(16, triton.next_power_of_2(d))
    floats = torch.empty(N_ROW_FLOATS, b, h, t, device=device)
    nonfinite = torch.empty(b, h, t, dtype=torch.int32, device=device)
    extents = torch.empty(b * kv, CHUNKS.value, 2, device=device)
    _extents[(b * kv * CHUNKS.value,)](
        extents, key, call.key_mask, *key.stride()[:3], kv, s, d,
        WIDTH=width, N_KEYS=32, HAS_KEY_MASK=call.key_mask is not None,
    )  # fmt: skip
    first_keys, first = call.first_key, 2
    if first_keys is None:
        first = 0
        if call.key_mask is not None:
            first = 1
            first_keys = torch.empty(n, dtype=torch.int32, device=device)
            _first_keys[(n,)](
                first_keys, call.key_mask, key_starts, s, N_KEYS=256, PACKED=is_packed
            )
    dense = 0
    if call.dense is not None:
        dense = 1 if call.dense.dtype == torch.uint8 else 2
    numbers = (
        call.key_mask, call.query_mask, call.key_lengths, call.offsets, starts,
        key_starts, first_keys, call.sinks, call.temperature, call.dense,
        *query.stride()[:3], *key.stride()[:3],
        *(call.dense.stride() if dense else (0, 0, 0, 0)),
        b, h, kv, t, s, d, n, max(1, n).bit_length(), call.offset, call.window,
        float(call.scale), float(call.softcap), float(call.lowest),
    )  # fmt: skip
    flags = {
        "WIDTH": width,
        "CAUSAL": call.causal,
        "WINDOW": call.window > 0,
        "PACKED": is_packed,
        "SOFTCAP": call.softcap > 0,
        "DENSE": dense,
        "FIRST": first,
        "HAS_KEY_MASK": call.key_mask is not None,
        "HAS_QUERY_MASK": call.query_mask is not None,
        "HAS_LENGTHS": call.key_lengths is not None,
        "HAS_OFFSETS": call.offsets is not None,
        "HAS_SINKS": call.sinks is not None,
        "HAS_TEMPERATURE": call.temperature is not None,
    }
    # Tensor cores cut off where float32 rounds.
    blur = 1.0 if query.dtype == torch.float32 else 4.0
    for tiles in _passes(width, query.dtype):
        _rows[(b * h * triton.cdiv(t, tiles["N_ROWS"]),)](
            floats, nonfinite, query, key, extents, *numbers, blur, **flags, **tiles
        )
    return floats, nonfinite


def head_statistics(query: Tensor, key: Tensor, call: Call) -> Tensor:
    """Float32 (11,H) on the device, rows as SERIES of _statistics."""
    b, h, t, _ = query.shape
    is_packed = call.query_starts is not None
    n = call.query_starts.numel() - 1 if is_packed else b
    floats, nonfinite = row_statistics(query, key, call)
    sums = torch.empty(N_SUMS, max(1, n), h, dtype=torch.float64, device=query.device)
    out = torch.empty(11, h, device=query.device)
    if n > 0:
        _sequences[(n * h,)](
            sums, floats, nonfinite, call.query_starts, b, h, t, n,
            N_ROWS=256, PACKED=is_packed,
        )  # fmt: skip
    _heads[(h,)](out, sums, h, n, N_SEQUENCES=64)
    return out


def compile_for(capability: int, number: torch.dtype, width: int = 64) -> None:
    """Compiles both passes of _rows with every option for devices of a compute
    capability, 90 for 9.0; none need be there. Raises what the compiler says."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    name = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
    types = dict.fromkeys(("scale", "softcap", "lowest", "blur"), "fp32")
    types |= dict.fromkeys(("key_mask", "query_mask"), "*u8")
    types |= dict.fromkeys(("sinks", "temperature", "extents", "floats"), "*fp32")
    types |= dict.fromkeys(("q", "k", "dense"), f"*{name[number]}")
    types |= dict.fromkeys(
        ("nonfinite", "key_lengths", "offsets", "query_starts", "key_starts"), "*i32"
    )
    types["first_keys"] = "*i32"
    flags = dict.fromkeys(_rows.arg_names[_rows.arg_names.index("CAUSAL") :], True)
    for tiles in _passes(width, number):
        constants = {**flags, "WIDTH": width, "FIRST": 1, "DENSE": 2, **tiles}
        n_warps = constants.pop("num_warps")
        types |= dict.fromkeys(constants, "constexpr")
        signature = {given: types.get(given, "i32") for given in _rows.arg_names}
        source = ASTSource(_rows, signature, constants)
        triton.compile(source, GPUTarget("cuda", capability, 32), {"num_warps": n_warps})
