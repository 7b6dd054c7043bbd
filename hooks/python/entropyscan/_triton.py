"""Launches the Triton kernels that compute statistics of attention heads from queries
and keys, and the entropy of rows with its gradient, without T x S memory. They run on
CUDA devices and, with Triton's interpreter (TRITON_INTERPRET=1), on the CPU, as in the
tests. analyzer/entropy/entropy.h describes the statistics.

1  _extents      finds the largest keys, from which step 2 bounds the rounding error
2  _rows         reads blocks of rows, keys tile by tile; with m the largest score so
                 far and x_j = (s_j - m) * log2(e) <= 0, p_j = 2^x_j:
                     weight = sum p_j,  spread = sum p_j * x_j
                     entropy = ln(2) * (log2(weight) - spread / weight)
3  _rows, EXACT  computes again, in double, the rows whose error may exceed LIMITS
4  _sequences    reduces rows to sequences; _heads reduces sequences to heads. Both sum
                 in double, in a fixed order, without atomics

The gradient of an entropy e with respect to the scores is de/ds_j = -p_j * (ln p_j + e),
computed from recomputed scores: _query_gradients sums over the keys of each query,
_key_gradients over the queries of each key.

The kernels are in `_triton_kernels`. Nothing here waits for the device. Letters: B
batch, H heads of queries, KV heads of keys, T queries, S keys, D width of a head, N
sequences (B, or the number of packed ones)."""

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
    N_HEAD_FLOATS,
    N_ROW_FLOATS,
    N_SUMS,
    _extents,
    _first_keys,
    _heads,
    _key_gradients,
    _query_gradients,
    _rows,
    _sequences,
)

PARTS = 64  # number of programs that share the sequences of a head


# The largest error of an entropy, in nats, that the first pass may leave, by the type
# of queries and keys. A row whose error may be larger is computed again in double.
LIMITS = {torch.float32: 2.5e-6, torch.bfloat16: 1e-4, torch.float16: 1e-4}


def _passes(width: int, number: torch.dtype) -> list[dict[str, Any]]:
    """Returns the launch options of _rows for the first pass and the exact pass."""
    exact = {
        "EXACT": True,
        "NUMBER": tl.float64,
        "PRODUCTS": tl.float64,
        "N_ROWS": 16,
        "N_KEYS": 16,
        "COLUMNS": width if IS_INTERPRETED else 8,
        "num_warps": 4,
        "enable_fp_fusion": True,  # no longer the default in Triton 3.10
    }
    # Larger tiles or more warps would need more instructions per score.
    first = {
        "EXACT": False,
        "NUMBER": tl.float32,
        "N_ROWS": 64,
        "N_KEYS": 64 if number != torch.float32 and width <= 128 else 32,
        "COLUMNS": 8,
        "num_warps": 4 if number != torch.float32 and width <= 128 else 8,
        "enable_fp_fusion": True,
    }
    if number == torch.float32 or IS_INTERPRETED:  # the interpreter lacks bfloat16
        first["PRODUCTS"] = tl.float32
    else:
        first["PRODUCTS"] = tl.bfloat16 if number == torch.bfloat16 else tl.float16
    return [first, exact]


def _described(query: Tensor, key: Tensor, call: Call) -> tuple[tuple, dict[str, Any]]:
    """Returns the kernels' arguments from `key_mask` to `lowest`, and the kernels'
    flags."""
    b, h, t, d = query.shape
    kv, s = key.shape[1], key.shape[2]
    is_packed = call.query_starts is not None
    starts = call.query_starts
    key_starts = starts if call.key_starts is None else call.key_starts
    n = starts.numel() - 1 if is_packed else b
    first_keys, first = call.first_key, 2
    if first_keys is None:
        first = 0
        if call.key_mask is not None:
            first = 1
            first_keys = torch.empty(n, dtype=torch.int32, device=query.device)
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
        "WIDTH": max(16, triton.next_power_of_2(d)),
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
    return numbers, flags


def row_statistics(
    query: Tensor, key: Tensor, call: Call, heads: bool = True
) -> tuple[Tensor, Tensor]:
    """Computes the statistics of each row of query (B,H,T,D), key (B,KV,S,D). Returns
    float32 (N_ROW_FLOATS,B,H,T) in the order of _store_rows, and int32 (B,H,T): the number
    of non-finite weights, or EXACT_ROW for a row that was computed again in double. NaN
    and missing values follow the rules of es_rows. With heads=False the first result is
    float32 (2,B,H,T), only entropy and lse."""
    b, h, t, d = query.shape
    kv, s = key.shape[1], key.shape[2]
    device = query.device
    floats = torch.empty(N_ROW_FLOATS if heads else 2, b, h, t, device=device)
    nonfinite = torch.empty(b, h, t, dtype=torch.int32, device=device)
    extents = torch.empty(b * kv, CHUNKS.value, 2, device=device)
    numbers, flags = _described(query, key, call)
    _extents[(b * kv * CHUNKS.value,)](
        extents, key, call.key_mask, *key.stride()[:3], kv, s, d,
        WIDTH=flags["WIDTH"], N_KEYS=32, HAS_KEY_MASK=call.key_mask is not None,
    )  # fmt: skip
    # Assume larger errors for 16-bit types: tensor cores truncate, whereas float32
    # arithmetic rounds.
    blur = 1.0 if query.dtype == torch.float32 else 4.0
    most_blur = (LIMITS[query.dtype] * 2**24) ** 2
    for tiles in _passes(flags["WIDTH"], query.dtype):
        _rows[(b * h * triton.cdiv(t, tiles["N_ROWS"]),)](
            floats, nonfinite, query, key, extents, *numbers, blur, most_blur,
            **flags, HEADS=heads, **tiles,
        )  # fmt: skip
    return floats, nonfinite


def head_statistics(query: Tensor, key: Tensor, call: Call) -> Tensor:
    """Returns float32 (N_HEAD_FLOATS,H) on the device: one row for each entry of SERIES,
    then the number of rows that the exact pass computed."""
    b, h, t, _ = query.shape
    is_packed = call.query_starts is not None
    n = call.query_starts.numel() - 1 if is_packed else b
    floats, nonfinite = row_statistics(query, key, call)
    sums = torch.empty(N_SUMS, max(1, n), h, dtype=torch.float64, device=query.device)
    out = torch.empty(N_HEAD_FLOATS, h, device=query.device)
    n_halvings = max(1, n).bit_length()
    if n > 0:
        parts = min(n, PARTS)
        _sequences[(parts * h,)](
            sums, floats, nonfinite, call.query_starts, b, h, t, n, n_halvings,
            N_ROWS=256, PACKED=is_packed, PARTS=parts,
        )  # fmt: skip
    _heads[(h,)](
        out, sums, call.query_starts, h, t, n, n_halvings,
        N_SEQUENCES=64, PACKED=is_packed and n > 0,
    )  # fmt: skip
    return out


def _gradient_tiles(width: int, number: torch.dtype) -> dict[str, Any]:
    is_small = number == torch.float32 or width > 128
    return {
        "N_ROWS": 32 if is_small else 64,
        "N_KEYS": 32 if is_small else 64,
        "PRODUCTS": _passes(width, number)[0]["PRODUCTS"],
        "num_warps": 4 if width <= 64 else 8,
        "enable_fp_fusion": True,
    }


def row_entropy(query: Tensor, key: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Returns the entropy in nats and the log-sum-exp (lse) of the rows of query
    (B,H,T,D), key (B,KV,S,D): float32 (B,H,T) each. NaN and missing values are the same
    as in row_statistics, except that the lse of a row without keys is -inf."""
    entropy, lse = row_statistics(query, key, call, heads=False)[0]
    return entropy, lse.clone()  # results of an operator must not share memory


def row_entropy_gradients(
    query: Tensor, key: Tensor, call: Call, entropy: Tensor, lse: Tensor, de: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Computes gradients from de (B,H,T), the gradient of the entropy. Returns the
    gradients of query and key, in the types of query and key, summed in float32 in a
    fixed order, and the gradient of each row's temperature, (B,H,T) float32, or None
    without a temperature."""
    b, h, t, _ = query.shape
    kv, s = key.shape[1], key.shape[2]
    entropy, lse, de = entropy.contiguous(), lse.contiguous(), de.float().contiguous()
    dq, dk = query.new_empty(query.shape), key.new_empty(key.shape)
    has_temperature = call.temperature is not None
    dt = torch.empty_like(lse) if has_temperature else None
    # Leave non-finite values of de out of the maximum, so that they make only
    # their own gradients non-finite.
    largest = de.abs().nan_to_num(0, 0, 0).amax()
    largest = torch.where(largest > 0, largest, 1.0)
    numbers, flags = _described(query, key, call)
    flags = {name: flags[name] for name in flags if name not in ("FIRST", "HAS_SINKS")}
    flags |= _gradient_tiles(flags["WIDTH"], query.dtype)
    _query_gradients[(b * h * triton.cdiv(t, flags["N_ROWS"]),)](
        dq, dt, query, key, entropy, lse, de, *numbers, *dq.stride()[:3], **flags
    )
    _key_gradients[(b * kv * triton.cdiv(s, flags["N_KEYS"]),)](
        dk, query, key, entropy, lse, de, largest, *numbers, *dk.stride()[:3], **flags
    )
    if has_temperature:
        dt = -dt / call.temperature.clamp(min=1e-4)
    return dq, dk, dt
