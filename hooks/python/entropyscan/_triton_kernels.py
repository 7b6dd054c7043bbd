"""Triton kernels of `_triton`, which launches them and is the manual of what they
do in which order: rows of attention, and from rows to heads."""

from __future__ import annotations

import os

import triton
import triton.language as tl

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CHUNKS = tl.constexpr(2 if IS_INTERPRETED else 16)  # parts of the keys in _extents
MISSING = tl.constexpr(0x7FC007A2)
LOG2_E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# In squares, with 2^-24 left out: as MOST_BLUR in entropy_exact.inc.h.
MOST_BLUR = tl.constexpr(1759.2)
BLURRED = tl.constexpr(-1)  # in place of a count of weights
LOWEST = tl.constexpr(-126.0)  # smaller weights count as 1e-38


# --- rows ---------------------------------------------------------------------


@triton.jit
def _places(
    rows, batch, T, S, N, n_halvings, offset, window,
    query_mask, key_lengths, offsets, query_starts, key_starts,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    HAS_QUERY_MASK: tl.constexpr, HAS_LENGTHS: tl.constexpr,
    HAS_OFFSETS: tl.constexpr,
):  # fmt: skip
    """Of rows: sequence, position among all keys, first key and end of keys;
    nothing between the two where a row is none or sees none."""
    wanted = rows < T
    sequence = rows * 0 + batch
    first = rows * 0
    end = first + S
    own = rows
    if PACKED:
        sequence = rows * 0
        behind = sequence + N
        for _ in range(n_halvings):
            middle = (sequence + behind) // 2
            is_right = tl.load(query_starts + middle) <= rows
            sequence = tl.where(is_right, middle, sequence)
            behind = tl.where(is_right, behind, middle)
        start = tl.load(query_starts + sequence)
        wanted &= (rows >= start) & (rows < tl.load(query_starts + sequence + 1))
        own = rows - start
        first = tl.maximum(tl.load(key_starts + sequence), 0)
        end = tl.minimum(tl.load(key_starts + sequence + 1), S)
    if HAS_LENGTHS:
        length = tl.minimum(tl.maximum(tl.load(key_lengths + sequence), 0), S)
        end = tl.minimum(end, first + length)
    place = first + own + offset
    if HAS_OFFSETS:
        place = first + own + tl.load(offsets + sequence)
    begin = first
    if CAUSAL:
        end = tl.minimum(end, place + 1)
    if WINDOW:
        begin = tl.maximum(begin, place - window + 1)
        end = tl.minimum(end, place + window)
    if HAS_QUERY_MASK:
        wanted &= tl.load(query_mask + batch.to(tl.int64) * T + rows, rows < T, 0) != 0
    begin = tl.where(wanted, begin, 0)
    end = tl.where(wanted, tl.maximum(end, begin), 0)
    return sequence, place, begin, end


@triton.jit
def _capped(s, inner, cap, EXACT: tl.constexpr):
    """cap tanh(s inner); what is not finite stays so. As vec_tanh of
    entropy_qk.inc.h."""
    x = s * inner
    size = tl.abs(x)
    if EXACT:
        e = tl.exp(-2 * size)
        # A cap that is large beside the scores multiplies what is small.
        square = size * size
        near = size - size * square * (1.0 / 3 - square * (2.0 / 15))
        value = tl.where(size < 1e-3, near, (1 - e) / (1 + e))
    else:
        square = x * x
        large = 1 - 2 / (tl.exp2(tl.minimum(size * (2 * LOG2_E), 60.0)) + 1)
        near = square * -0.0062742134 + 0.0210716591
        near = near * square - 0.0538523046
        near = near * square + 0.133325861
        near = near * square - 0.333333176
        near = near * square * size + size
        value = tl.where(size < 0.55, near, large)
    return cap * tl.where(x < 0, -value, value) + s * 0


@triton.jit
def _row_scale(scale, temperature, head, rows, T, HAS_TEMPERATURE: tl.constexpr):
    """By what products are multiplied; NaN where a temperature is."""
    out = tl.zeros_like(rows).to(tl.float32) + scale
    if HAS_TEMPERATURE:
        t = tl.load(temperature + head.to(tl.int64) * T + rows, rows < T, 1.0)
        out = scale / tl.where(t < 1e-4, 1e-4, t)
        # Never 0, as an infinite t would make it.
        out = tl.where(out < 1.1754943508222875e-38, 1.1754943508222875e-38, out)
    return out


@triton.jit
def _store_rows(
    floats, nonfinite, at, step, inside, n_seen, is_bad, is_blurred,
    entropy, lse, max_logit, sink, missing, distance, top,
):  # fmt: skip
    absent = tl.full(at.shape, MISSING, tl.int32).to(tl.float32, bitcast=True)
    is_seen = n_seen > 0
    other = tl.where(is_seen, float("nan"), absent)
    good = is_seen & ~is_bad
    tl.store(floats + at, tl.where(good, entropy, other), inside)
    tl.store(floats + at + step, tl.where(good, lse, other), inside)
    tl.store(floats + at + 2 * step, tl.where(good, max_logit, other), inside)
    tl.store(floats + at + 3 * step, tl.where(good, sink, other), inside)
    tl.store(floats + at + 4 * step, tl.where(good, missing, other), inside)
    tl.store(floats + at + 5 * step, tl.where(good, distance, other), inside)
    tl.store(floats + at + 6 * step, tl.where(good, top, other), inside)
    count = tl.where(is_blurred, BLURRED, 0)
    count = tl.where(good, count, tl.where(is_seen, n_seen, 0))
    tl.store(nonfinite + at, count, inside)


@triton.jit
def _extents(
    out, k, key_mask, k_batch, k_head, k_row, KV, S, D,
    WIDTH: tl.constexpr, N_KEYS: tl.constexpr, HAS_KEY_MASK: tl.constexpr,
):  # fmt: skip
    """out (B KV,CHUNKS,2): the largest sum of squares, and the largest square,
    of the keys of a chunk."""
    pid = tl.program_id(0)
    chunk = pid % CHUNKS
    head = pid // CHUNKS
    b = (head // KV).to(tl.int64)
    k += b * k_batch + (head % KV).to(tl.int64) * k_head
    length = (S + CHUNKS - 1) // CHUNKS
    c = tl.arange(0, WIDTH)
    longest = tl.zeros([N_KEYS], tl.float32)
    highest = tl.zeros([N_KEYS], tl.float32)
    for j0 in range(chunk * length, tl.minimum(chunk * length + length, S), N_KEYS):
        j = j0 + tl.arange(0, N_KEYS)
        seen = j < S
        if HAS_KEY_MASK:
            seen &= tl.load(key_mask + b * S + j, seen, 0) != 0
        at = j.to(tl.int64)[:, None] * k_row + c[None, :]
        x = tl.load(k + at, seen[:, None] & (c < D)[None, :], 0.0).to(tl.float32)
        longest = tl.maximum(longest, tl.sum(x * x, 1))
        highest = tl.maximum(highest, tl.max(x * x, 1))
    tl.store(out + pid * 2, tl.max(longest, 0))
    tl.store(out + pid * 2 + 1, tl.max(highest, 0))


@triton.jit
def _first_keys(
    out, key_mask, key_starts, S, N_KEYS: tl.constexpr, PACKED: tl.constexpr
):
    """out (N): the first key of each sequence that its mask does not hide."""
    n = tl.program_id(0)
    begin = n * 0
    end = begin + S
    key_mask += (n * 0).to(tl.int64)
    if PACKED:
        begin = tl.maximum(tl.load(key_starts + n), 0)
        end = tl.minimum(tl.load(key_starts + n + 1), S)
    else:
        key_mask += n.to(tl.int64) * S
    found = end
    for j0 in range(begin, end, N_KEYS):
        j = j0 + tl.arange(0, N_KEYS)
        seen = tl.load(key_mask + j, j < end, 0) != 0
        found = tl.minimum(found, tl.min(tl.where(seen, j, end), 0))
    tl.store(out + n, found)


@triton.jit
def _first_of(
    rows, sequence, b, h, H, first_keys, key_starts, S,
    PACKED: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """The key whose weight is the row's `sink`. FIRST: 0 the sequence's first,
    1 as first_keys (N) says, 2 as first_keys (B,H) says."""
    first = rows * 0
    if FIRST == 2:
        first += tl.load(first_keys + b * H + h)
    elif FIRST == 1:
        first = tl.load(first_keys + sequence)
    elif PACKED:
        first = tl.maximum(tl.load(key_starts + sequence), 0)
    return first


@triton.jit
def _rows(
    floats, nonfinite, q, k, extents,
    key_mask, query_mask, key_lengths, offsets, query_starts, key_starts,
    first_keys, sinks, temperature, dense,
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    dense_batch, dense_head, dense_row, dense_column,
    B, H, KV, T, S, D, N, n_halvings, offset, window, scale, softcap, lowest, blur,
    WIDTH: tl.constexpr, N_ROWS: tl.constexpr, N_KEYS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    SOFTCAP: tl.constexpr, DENSE: tl.constexpr, FIRST: tl.constexpr,
    HAS_KEY_MASK: tl.constexpr, HAS_QUERY_MASK: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_OFFSETS: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_TEMPERATURE: tl.constexpr,
    EXACT: tl.constexpr, NUMBER: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """A block of rows of one head. floats (7,B,H,T), nonfinite (B,H,T). DENSE: 0
    none, 1 bool, 2 added to scores. EXACT: only rows that were marked as
    blurred, NUMBER being double. PRODUCTS: the type that operands of products
    have. blur: by how much, in squares, products are worse than float32's."""
    n_blocks = tl.cdiv(T, N_ROWS)
    pid = tl.program_id(0)
    head = pid // n_blocks
    block = n_blocks - 1 - pid % n_blocks  # what takes longest goes first
    b = head // H
    h = head % H
    rows = block * N_ROWS + tl.arange(0, N_ROWS)
    to = tl.cast(head, tl.int64) * T + rows
    inside = rows < T
    if EXACT:
        inside &= tl.load(nonfinite + to, inside, 0) == BLURRED
        if tl.max(inside.to(tl.int32), 0) == 0:
            return
    sequence, place, begin, end = _places(
        rows, b, T, S, N, n_halvings, offset, window,
        query_mask, key_lengths, offsets, query_starts, key_starts,
        CAUSAL, WINDOW, PACKED, HAS_QUERY_MASK, HAS_LENGTHS, HAS_OFFSETS,
    )  # fmt: skip
    first_key = _first_of(
        rows, sequence, b, h, H, first_keys, key_starts, S, PACKED, FIRST
    )
    c = tl.arange(0, WIDTH)
    q += tl.cast(b, tl.int64) * q_batch + tl.cast(h, tl.int64) * q_head
    kv = h // (H // KV)
    k += tl.cast(b, tl.int64) * k_batch + tl.cast(kv, tl.int64) * k_head
    at = tl.cast(rows, tl.int64)[:, None] * q_row + c[None, :]
    x = tl.load(q + at, (rows < T)[:, None] & (c < D)[None, :], 0.0)
    wide = x.to(tl.float32)
    length = tl.sum(wide * wide, 1)
    height = tl.max(wide * wide, 1)
    x = x.to(PRODUCTS)
    of_row = _row_scale(scale, temperature, h, rows, T, HAS_TEMPERATURE).to(NUMBER)
    # What scores are multiplied with after the subtraction.
    outer = of_row
    if SOFTCAP or DENSE == 2:
        outer = tl.full([N_ROWS], 1, NUMBER)
    peak = tl.full([N_ROWS], float("-inf"), NUMBER)
    at_first = tl.full([N_ROWS], float("-inf"), NUMBER)
    weight = tl.zeros([N_ROWS], NUMBER)
    spread = tl.zeros([N_ROWS], NUMBER)
    far = tl.zeros([N_ROWS], NUMBER)
    n_seen = end - begin
    if HAS_KEY_MASK or DENSE:
        n_seen = tl.zeros_like(end)
    from_key = tl.min(tl.where(end > begin, begin, S), 0) // N_KEYS * N_KEYS
    for j0 in range(from_key, tl.max(end, 0), N_KEYS):
        j = j0 + tl.arange(0, N_KEYS)
        seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
        if HAS_KEY_MASK:
            mask = tl.load(key_mask + tl.cast(b, tl.int64) * S + j, j < S, 0)
            seen &= (mask != 0)[None, :]
        at_key = tl.cast(j, tl.int64)[:, None] * k_row + c[None, :]
        y = tl.load(k + at_key, (j < S)[:, None] & (c < D)[None, :], 0.0)
        s = tl.dot(
            x, tl.trans(y.to(PRODUCTS)), input_precision="ieee", out_dtype=NUMBER
        )
        if SOFTCAP:
            s = _capped(s, (of_row / softcap)[:, None], softcap, EXACT)
        elif DENSE == 2:
            s = s * of_row[:, None]
        if DENSE:
            pairs = tl.cast(rows, tl.int64)[:, None] * dense_row
            pairs += tl.cast(j, tl.int64)[None, :] * dense_column
            pairs += tl.cast(b, tl.int64) * dense_batch
            pairs += tl.cast(h, tl.int64) * dense_head
            is_there = (rows < T)[:, None] & (j < S)[None, :]
            if DENSE == 1:
                seen &= tl.load(dense + pairs, is_there, 0) != 0
            else:
                more = tl.load(dense + pairs, is_there, 0.0).to(tl.float32)
                seen &= ~(more <= lowest)
                s += more
        if HAS_KEY_MASK or DENSE:
            n_seen += tl.sum(seen.to(tl.int32), 1)
        if (j0 <= tl.max(first_key, 0)) & (j0 + N_KEYS > tl.min(first_key, 0)):
            is_first = seen & (j[None, :] == first_key[:, None])
            found = tl.max(tl.where(is_first, s, float("-inf")), 1)
            at_first = tl.maximum(at_first, found)
        new = tl.maximum(peak, tl.max(tl.where(seen, s, float("-inf")), 1))
        e = (s - new[:, None]) * (outer * LOG2_E)[:, None]
        e = tl.where(e < LOWEST, LOWEST, e)
        p = tl.where(seen, tl.exp2(e), 0.0)
        # s 0: a score of -inf, too, makes its row NaN.
        e = tl.where(seen, p * e + s * 0, 0.0)
        shift = (peak - new) * (outer * LOG2_E)
        shift = tl.where(peak == float("-inf"), 0.0, shift)
        shift = tl.where(shift < LOWEST, LOWEST, shift)
        factor = tl.exp2(shift)
        spread = (spread + weight * shift) * factor + tl.sum(e, 1)
        weight = weight * factor + tl.sum(p, 1)
        away = tl.abs(place[:, None] - j[None, :]).to(tl.float32)
        far = far * factor + tl.sum(p * away, 1)
        peak = new
    log = tl.log2(weight)
    entropy = tl.maximum((log - spread / weight) * LN2, 0.0)
    max_logit = peak * outer
    lse = max_logit + log * LN2
    top = 1 / weight
    sink = tl.exp2(tl.maximum((at_first - peak) * (outer * LOG2_E), -150.0)) / weight
    sink = tl.where(at_first == float("-inf"), 0.0, sink)
    is_bad = ~((tl.abs(spread) < float("inf")) & (tl.abs(lse) < float("inf")))
    missing = tl.zeros([N_ROWS], NUMBER)
    if HAS_SINKS:
        logit = tl.load(sinks + h + tl.zeros_like(rows))
        missing = 1 / (1 + tl.exp2(tl.minimum((lse - logit) * LOG2_E, 120.0)))
        missing = tl.where(logit == float("-inf"), 0.0, missing)
        is_bad |= ~(logit < float("inf"))
    is_blurred = inside & (rows < 0)
    if not EXACT:
        known = extents + tl.cast(b * KV + kv, tl.int64) * (2 * CHUNKS)
        part = tl.arange(0, CHUNKS)
        longest = tl.max(tl.load(known + 2 * part), 0)
        highest = tl.max(tl.load(known + 2 * part + 1), 0)
        reach = height * highest * (0.2 * D) + length * longest * (1.0 / 3)
        reach = reach * of_row * of_row * blur
        if SOFTCAP:
            reach = 2 * (reach + tl.minimum(softcap * softcap, reach))
        if DENSE == 2:
            reach += max_logit * max_logit
        most = tl.minimum(2.25 * entropy * entropy, top * (1 + entropy) * (1 + entropy))
        is_blurred = ~(reach * most < MOST_BLUR)
    _store_rows(
        floats, nonfinite, to, tl.cast(B, tl.int64) * H * T, inside, n_seen, is_bad,
        is_blurred, entropy.to(tl.float32), lse.to(tl.float32),
        max_logit.to(tl.float32), sink.to(tl.float32), missing.to(tl.float32),
        (far / weight).to(tl.float32), top.to(tl.float32),
    )  # fmt: skip


# --- heads --------------------------------------------------------------------


@triton.jit
def _sequences(
    sums, floats, nonfinite, query_starts, B, H, T, N,
    N_ROWS: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """sums (9,N,H) double: rows, finite ones, weights of others, largest logit;
    entropy, sink, missing, distance and top of the finite rows added up."""
    pid = tl.program_id(0)
    n = pid // H
    h = pid % H
    start = n * 0
    end = start + T
    base = (n.to(tl.int64) * H + h) * T
    if PACKED:
        start = tl.maximum(tl.load(query_starts + n), 0)
        end = tl.minimum(tl.load(query_starts + n + 1), T)
        base = h.to(tl.int64) * T
    step = tl.cast(B, tl.int64) * H * T
    n_rows = tl.zeros([N_ROWS], tl.float64)
    n_finite = tl.zeros([N_ROWS], tl.float64)
    weights = tl.zeros([N_ROWS], tl.float64)
    largest = tl.full([N_ROWS], float("-inf"), tl.float64)
    entropies = tl.zeros([N_ROWS], tl.float64)
    sinks = tl.zeros([N_ROWS], tl.float64)
    missing = tl.zeros([N_ROWS], tl.float64)
    distances = tl.zeros([N_ROWS], tl.float64)
    tops = tl.zeros([N_ROWS], tl.float64)
    for i0 in range(start, end, N_ROWS):
        i = i0 + tl.arange(0, N_ROWS)
        inside = i < end
        at = floats + base + i
        entropy = tl.load(at, inside, 0.0)
        bits = entropy.to(tl.int32, bitcast=True)
        is_row = inside & (bits != MISSING)
        finite = is_row & (tl.abs(entropy) < float("inf"))
        n_rows += is_row.to(tl.float64)
        n_finite += finite.to(tl.float64)
        count = tl.load(nonfinite + base + i, inside, 0)
        weights += tl.where(is_row, count, 0).to(tl.float64)
        logit = tl.load(at + 2 * step, finite, float("-inf"))
        largest = tl.maximum(largest, logit.to(tl.float64))
        entropies += tl.where(finite, entropy, 0.0).to(tl.float64)
        sinks += tl.load(at + 3 * step, finite, 0.0).to(tl.float64)
        missing += tl.load(at + 4 * step, finite, 0.0).to(tl.float64)
        distances += tl.load(at + 5 * step, finite, 0.0).to(tl.float64)
        tops += tl.load(at + 6 * step, finite, 0.0).to(tl.float64)
    sums += pid
    step = tl.cast(N, tl.int64) * H
    tl.store(sums, tl.sum(n_rows, 0))
    tl.store(sums + step, tl.sum(n_finite, 0))
    tl.store(sums + 2 * step, tl.sum(weights, 0))
    tl.store(sums + 3 * step, tl.max(largest, 0))
    tl.store(sums + 4 * step, tl.sum(entropies, 0))
    tl.store(sums + 5 * step, tl.sum(sinks, 0))
    tl.store(sums + 6 * step, tl.sum(missing, 0))
    tl.store(sums + 7 * step, tl.sum(distances, 0))
    tl.store(sums + 8 * step, tl.sum(tops, 0))


@triton.jit
def _heads(out, sums, H, N, N_SEQUENCES: tl.constexpr):
    """out (11,H), rows as SERIES of _statistics."""
    h = tl.program_id(0)
    step = tl.cast(N, tl.int64) * H
    n_rows = tl.zeros([N_SEQUENCES], tl.float64)
    n_finite = tl.zeros([N_SEQUENCES], tl.float64)
    weights = tl.zeros([N_SEQUENCES], tl.float64)
    largest = tl.full([N_SEQUENCES], float("-inf"), tl.float64)
    low = tl.full([N_SEQUENCES], float("inf"), tl.float64)
    high = tl.full([N_SEQUENCES], float("-inf"), tl.float64)
    entropy = tl.zeros([N_SEQUENCES], tl.float64)
    sink = tl.zeros([N_SEQUENCES], tl.float64)
    missing = tl.zeros([N_SEQUENCES], tl.float64)
    distance = tl.zeros([N_SEQUENCES], tl.float64)
    top = tl.zeros([N_SEQUENCES], tl.float64)
    for n0 in range(0, N, N_SEQUENCES):
        n = n0 + tl.arange(0, N_SEQUENCES)
        inside = n < N
        at = sums + n.to(tl.int64) * H + h
        finite = tl.load(at + step, inside, 0.0)
        total = tl.load(at + 4 * step, inside, 0.0)
        mean = total / tl.maximum(finite, 1.0)
        low = tl.minimum(low, tl.where(finite > 0, mean, float("inf")))
        high = tl.maximum(high, tl.where(finite > 0, mean, float("-inf")))
        largest = tl.maximum(largest, tl.load(at + 3 * step, inside, float("-inf")))
        n_rows += tl.load(at, inside, 0.0)
        n_finite += finite
        weights += tl.load(at + 2 * step, inside, 0.0)
        entropy += total
        sink += tl.load(at + 5 * step, inside, 0.0)
        missing += tl.load(at + 6 * step, inside, 0.0)
        distance += tl.load(at + 7 * step, inside, 0.0)
        top += tl.load(at + 8 * step, inside, 0.0)
    rows = tl.sum(n_rows, 0)
    finite = tl.sum(n_finite, 0)
    divisor = tl.maximum(finite, 1.0)
    absent = tl.full([1], MISSING, tl.int32).to(tl.float32, bitcast=True)
    other = tl.where(rows > 0, float("nan"), absent)
    known = finite > 0
    at = out + h + tl.arange(0, 1)
    tl.store(at, tl.where(known, (tl.sum(entropy, 0) / divisor).to(tl.float32), other))
    tl.store(at + H, tl.where(known, tl.min(low, 0).to(tl.float32), other))
    tl.store(at + 2 * H, tl.where(known, tl.max(high, 0).to(tl.float32), other))
    tl.store(out + 3 * H + h, (rows - finite).to(tl.float32))
    tl.store(out + 4 * H + h, tl.sum(weights, 0).to(tl.float32))
    tl.store(at + 5 * H, tl.where(known, tl.max(largest, 0).to(tl.float32), other))
    tl.store(at + 6 * H, tl.where(known, (tl.sum(sink, 0) / divisor).to(tl.float32), other))
    tl.store(at + 7 * H, tl.where(known, (tl.sum(missing, 0) / divisor).to(tl.float32), other))
    tl.store(at + 8 * H, tl.where(known, (tl.sum(distance, 0) / divisor).to(tl.float32), other))
    tl.store(at + 9 * H, tl.where(known, (tl.sum(top, 0) / divisor).to(tl.float32), other))
    tl.store(out + 10 * H + h, finite.to(tl.float32))
