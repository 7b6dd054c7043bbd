"""The Triton kernels for rows of attention, their gradients, and the reduction of rows
to heads. `_triton` launches them and describes their order and formulas."""

from __future__ import annotations

import os

import triton
import triton.language as tl

from ._series import SERIES

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CHUNKS = tl.constexpr(2 if IS_INTERPRETED else 16)  # number of parts of the keys
MISSING = tl.constexpr(0x7FC007A2)
LOG2_E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# For these arguments Triton must not compile separate kernels for 1 and for
# multiples of 16, because such kernels would not be faster.
PLAIN_NUMBERS = ["B", "N", "n_halvings", "offset", "window"]
FLOAT_MAX = tl.constexpr(3.4028234663852886e38)
# Negative values that replace a row's number of non-finite weights and mark the
# row.
BLURRED = tl.constexpr(-1)  # the first pass was too inexact for this row
EXACT_ROW = tl.constexpr(-2)  # the exact pass computed this row
# Numbers of arrays that the kernels write: statistics of rows (in the order of
# _store_rows), sums of sequences (in the order of _sequences), and results of _heads.
N_ROW_FLOATS = 7
N_SUMS = 10
N_HEAD_FLOATS = len(SERIES) + 1


# --- rows ---------------------------------------------------------------------


@triton.jit
def _places(
    rows, batch, T, S, N, n_halvings, offset, window,
    query_mask, key_lengths, offsets, query_starts, key_starts,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    HAS_QUERY_MASK: tl.constexpr, HAS_LENGTHS: tl.constexpr,
    HAS_OFFSETS: tl.constexpr,
):  # fmt: skip
    """Returns four values for each row: its sequence, its position among all keys, its
    first visible key, and the end of its visible keys (last + 1). Start and end are
    equal if the row does not exist, is masked or sees no key."""
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
    """Returns cap * tanh(s * inner), computed like vec_tanh in entropy_qk.inc.h;
    non-finite inputs give non-finite results."""
    x = s * inner
    size = tl.abs(x)
    if EXACT:
        e = tl.exp(-2 * size)
        # Use a power series for a small `size`, which occurs if the cap is much larger
        # than the scores.
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
    """Returns the factor that turns each row's dot products of q and k into
    scores: scale divided by the temperature; NaN if the temperature is NaN."""
    out = tl.zeros_like(rows).to(tl.float32) + scale
    if HAS_TEMPERATURE:
        t = tl.load(temperature + head.to(tl.int64) * T + rows, rows < T, 1.0)
        out = scale / tl.where(t < 1e-4, 1e-4, t)
        # An infinite temperature t makes the factor 0; raise the factor to the
        # smallest normal number.
        out = tl.where(out < 1.1754943508222875e-38, 1.1754943508222875e-38, out)
    return out


@triton.jit
def _store_rows(
    floats, nonfinite, at, step, inside, n_seen, is_bad, mark,
    entropy, lse, max_logit, sink, missing, distance, top,
    HEADS: tl.constexpr,
):  # fmt: skip
    """Stores the results of the rows `at` into several arrays, each `step` elements
    after the previous one. mark: the value that is stored in nonfinite for a finite
    row. Without HEADS only the first two arrays exist, for row_entropy."""
    absent = tl.full(at.shape, MISSING, tl.int32).to(tl.float32, bitcast=True)
    is_seen = n_seen > 0
    other = tl.where(is_seen, float("nan"), absent)
    good = is_seen & ~is_bad
    tl.store(floats + at, tl.where(good, entropy, other), inside)
    if not HEADS:  # row_entropy expects -inf for a row without keys
        other = tl.where(is_seen, float("nan"), float("-inf"))
    tl.store(floats + at + step, tl.where(good, lse, other), inside)
    if HEADS:
        tl.store(floats + at + 2 * step, tl.where(good, max_logit, other), inside)
        tl.store(floats + at + 3 * step, tl.where(good, sink, other), inside)
        tl.store(floats + at + 4 * step, tl.where(good, missing, other), inside)
        tl.store(floats + at + 5 * step, tl.where(good, distance, other), inside)
        tl.store(floats + at + 6 * step, tl.where(good, top, other), inside)
    count = tl.where(good, mark, tl.where(is_seen, n_seen, 0))
    tl.store(nonfinite + at, count, inside)


@triton.jit
def _extents(
    out, k, key_mask, k_batch, k_head, k_row, KV, S, D,
    WIDTH: tl.constexpr, N_KEYS: tl.constexpr, HAS_KEY_MASK: tl.constexpr,
):  # fmt: skip
    """Writes to out (B*KV,CHUNKS,2), for the keys of each chunk, the largest
    squared norm of a key and the largest squared element. KV is the number of
    key heads."""
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
    """Writes to out (N), for each sequence, the first key that the mask does
    not hide."""
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
    """Returns the key whose weight is the row's `sink`. FIRST selects this key: 0 for
    the sequence's first key, 1 for an entry of first_keys (N), 2 for an entry of
    first_keys (B,H)."""
    first = rows * 0
    if FIRST == 2:
        first += tl.load(first_keys + b * H + h)
    elif FIRST == 1:
        first = tl.load(first_keys + sequence)
    elif PACKED:
        first = tl.maximum(tl.load(key_starts + sequence), 0)
    return first


@triton.jit
def _keys(k, k_row, j, S, D, c):
    """Loads keys j as (keys,WIDTH), in the type of k; elements beyond S and D are 0."""
    at = tl.cast(j, tl.int64)[:, None] * k_row + c[None, :]
    return tl.load(k + at, (j < S)[:, None] & (c < D)[None, :], 0.0)


@triton.jit
def _exact_products(
    q, q_row, k, k_row, rows, j, T, S, D,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """Returns the dot products of the rows' queries and the keys j in double,
    computed a few columns at a time, because Triton before 3.9 cannot multiply
    16-bit matrices in double. Values beyond the range of float32 become
    infinite."""
    s = tl.zeros([rows.shape[0], j.shape[0]], NUMBER)
    for c0 in range(0, WIDTH, COLUMNS):
        c = c0 + tl.arange(0, COLUMNS)
        x = _keys(q, q_row, rows, T, D, c).to(NUMBER)
        y = _keys(k, k_row, j, S, D, c).to(NUMBER)
        s += tl.sum(x[:, None, :] * y[None, :, :], 2)
    return tl.where(tl.abs(s) > FLOAT_MAX, s * float("inf"), s)


@triton.jit
def _shown(
    s, rows, j, b, h, begin, end, key_mask, dense, dense_batch, dense_head, dense_row,
    dense_column, T, S, softcap, lowest, of_row,
    SOFTCAP: tl.constexpr, DENSE: tl.constexpr, HAS_KEY_MASK: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """Converts the products s of rows and keys j to scores. Returns three arrays: the
    scores, a mask that is true for visible keys, and the scores before a mask was
    added. If there is neither a softcap nor an added mask, the scores still have to be
    multiplied by the factor of_row."""
    seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
    if HAS_KEY_MASK:
        mask = tl.load(key_mask + tl.cast(b, tl.int64) * S + j, j < S, 0)
        seen &= (mask != 0)[None, :]
    if SOFTCAP:
        s = _capped(s, (of_row / softcap)[:, None], softcap, EXACT)
    elif DENSE == 2:
        s = s * of_row[:, None]
    capped = s
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
    return s, seen, capped


@triton.jit
def _weights(s, factor, peak, center):
    """Adds scores s (rows,keys) to a running softmax of base 2. Returns the
    largest score of each row so far (peak); the new center, which is subtracted
    from the exponents; the exponents of s; and the shift of earlier exponents.
    A row that has had no scores has peak -inf and center 0."""
    new = tl.maximum(peak, tl.max(s, 1))
    after = tl.where(new == float("-inf"), 0.0, new * factor)
    shift = tl.where(peak == float("-inf"), 0.0, center - after)
    return new, after, s * factor[:, None] - after[:, None], shift


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def _rows(
    floats, nonfinite, q, k, extents,
    key_mask, query_mask, key_lengths, offsets, query_starts, key_starts,
    first_keys, sinks, temperature, dense,
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    dense_batch, dense_head, dense_row, dense_column,
    B, H, KV, T, S, D, N, n_halvings, offset, window, scale, softcap, lowest,
    blur, most_blur,
    WIDTH: tl.constexpr, N_ROWS: tl.constexpr, N_KEYS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    SOFTCAP: tl.constexpr, DENSE: tl.constexpr, FIRST: tl.constexpr,
    HAS_KEY_MASK: tl.constexpr, HAS_QUERY_MASK: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_OFFSETS: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_TEMPERATURE: tl.constexpr,
    HEADS: tl.constexpr,
    EXACT: tl.constexpr, NUMBER: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Computes the statistics of a block of rows of one head. Writes floats
    (N_ROW_FLOATS,B,H,T) and nonfinite (B,H,T); without HEADS only floats (2,B,H,T), entropy
    and log-sum-exp. DENSE: 0 without a dense mask, 1 for a bool mask, 2 for a mask that is
    added to scores. EXACT: computes only the rows that are marked as BLURRED; NUMBER is
    then double. PRODUCTS: type of the operands of matrix products. blur: squared error of
    products, relative to that of float32. most_blur: square of the largest error that the
    first pass may leave, in units of 2^-24 nats."""
    n_blocks = tl.cdiv(T, N_ROWS)
    pid = tl.program_id(0)
    head = pid // n_blocks
    block = n_blocks - 1 - pid % n_blocks  # start the longest blocks first
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
    x = _keys(q, q_row, rows, T, D, c)
    wide = x.to(tl.float32)
    length = tl.sum(wide * wide, 1)
    height = tl.max(wide * wide, 1)
    is_number = tl.sum(wide * 0, 1) == 0
    x = x.to(PRODUCTS)
    of_row = _row_scale(scale, temperature, h, rows, T, HAS_TEMPERATURE).to(NUMBER)
    # The scores that _shown() returns are not yet multiplied by `outer`; it is applied
    # after the maximum of each row is known.
    outer = of_row
    if SOFTCAP or DENSE == 2:
        outer = tl.full([N_ROWS], 1, NUMBER)
    factor = outer * LOG2_E
    peak = tl.full([N_ROWS], float("-inf"), NUMBER)
    at_first = tl.full([N_ROWS], float("-inf"), NUMBER)
    center = tl.zeros([N_ROWS], NUMBER)
    weight = tl.zeros([N_ROWS], NUMBER)
    spread = tl.zeros([N_ROWS], NUMBER)
    far = tl.zeros([N_ROWS], NUMBER)
    n_seen = end - begin
    if HAS_KEY_MASK or DENSE:
        n_seen = tl.zeros_like(end)
    ALL_BORDER: tl.constexpr = EXACT or (HAS_KEY_MASK or DENSE > 0)
    # The keys in the tiles from `inner` to `outmost` are visible to all rows of the
    # block that see any key. The tiles before and after these tiles need masks.
    wanted = end > begin
    start = tl.min(tl.where(wanted, begin, S), 0) // N_KEYS * N_KEYS
    stop = tl.max(end, 0)
    inner = stop
    outmost = stop
    if not ALL_BORDER:
        latest = tl.maximum(
            tl.max(begin, 0), tl.max(tl.where(wanted, first_key + 1, 0), 0)
        )
        inner = tl.maximum(tl.cdiv(latest, N_KEYS) * N_KEYS, start)
        outmost = tl.min(tl.where(wanted, end, stop), 0) // N_KEYS * N_KEYS
        inner = tl.minimum(inner, stop)
        outmost = tl.maximum(outmost, inner)
    n_before = tl.cdiv(tl.maximum(inner - start, 0), N_KEYS)
    n_after = tl.cdiv(tl.maximum(stop - outmost, 0), N_KEYS)
    for tile in range(0, n_before + n_after):
        j0 = tl.where(
            tile < n_before, start + tile * N_KEYS, outmost + (tile - n_before) * N_KEYS
        )
        j = j0 + tl.arange(0, N_KEYS)
        if EXACT:
            s = _exact_products(
                q, q_row, k, k_row, rows, j, T, S, D, WIDTH, COLUMNS, NUMBER
            )
        else:
            y = _keys(k, k_row, j, S, D, c).to(PRODUCTS)
            s = tl.dot(x, tl.trans(y), input_precision="ieee")
        s, seen, _ = _shown(
            s, rows, j, b, h, begin, end, key_mask, dense, dense_batch, dense_head,
            dense_row, dense_column, T, S, softcap, lowest, of_row,
            SOFTCAP, DENSE, HAS_KEY_MASK, EXACT,
        )  # fmt: skip
        s = tl.where(seen, s, float("-inf"))
        if HAS_KEY_MASK or DENSE:
            n_seen += tl.sum(seen.to(tl.int32), 1)
        if (j0 <= tl.max(first_key, 0)) & (j0 + N_KEYS > tl.min(first_key, 0)):
            is_first = j[None, :] == first_key[:, None]
            found = tl.max(tl.where(is_first, s, float("-inf")), 1)
            at_first = tl.maximum(at_first, found)
        peak, center, e, shift = _weights(s, factor, peak, center)
        e = tl.where(seen, e, -2000.0)  # finite, and its weight 2^e is 0
        p = tl.exp2(e)
        moved = tl.exp2(shift)
        spread = (spread + weight * shift) * moved + tl.sum(p * e, 1)
        weight = weight * moved + tl.sum(p, 1)
        if HEADS:
            away = tl.abs(place[:, None] - j[None, :]).to(tl.float32)
            far = far * moved + tl.sum(p * away, 1)
    if not ALL_BORDER:
        for j0 in range(inner, outmost, N_KEYS):
            j = j0 + tl.arange(0, N_KEYS)
            y = _keys(k, k_row, j, S, D, c).to(PRODUCTS)
            s = tl.dot(x, tl.trans(y), input_precision="ieee").to(NUMBER)
            if SOFTCAP:
                s = _capped(s, (of_row / softcap)[:, None], softcap, EXACT)
            peak, center, e, shift = _weights(s, factor, peak, center)
            p = tl.exp2(e)
            moved = tl.exp2(shift)
            spread = (spread + weight * shift) * moved + tl.sum(p * e, 1)
            more = tl.sum(p, 1)
            weight = weight * moved + more
            if HEADS:
                if CAUSAL:  # no key is after the query, so abs() is not needed
                    steps = tl.arange(0, N_KEYS).to(tl.float32)[None, :]
                    away = more * (place - j0).to(tl.float32) - tl.sum(p * steps, 1)
                else:
                    away = tl.abs(place[:, None] - j[None, :]).to(tl.float32)
                    away = tl.sum(p * away, 1)
                far = far * moved + away
    log = tl.log2(weight)
    entropy = tl.maximum((log - spread / weight) * LN2, 0.0)
    max_logit = peak * outer
    lse = (center + log) * LN2
    top = tl.exp2(peak * factor - center) / weight
    sink = tl.exp2(tl.maximum(at_first * factor - center, -150.0)) / weight
    sink = tl.where(at_first == float("-inf"), 0.0, sink)
    is_bad = ~((tl.abs(spread) < float("inf")) & (tl.abs(lse) <= FLOAT_MAX))
    missing = tl.zeros([N_ROWS], NUMBER)
    if HAS_SINKS:
        logit = tl.load(sinks + h + tl.zeros_like(rows))
        missing = 1 / (1 + tl.exp2(tl.minimum((lse - logit) * LOG2_E, 120.0)))
        missing = tl.where(logit == float("-inf"), 0.0, missing)
    mark = rows * 0
    if EXACT:
        mark += EXACT_ROW
    else:
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
        is_blurred = ~(reach * most < most_blur)
        # A row that overflows in float32 may be finite in double, unless its query is
        # not finite.
        is_blurred = (is_blurred | is_bad) & is_number
        is_bad &= ~is_blurred
        mark = tl.where(is_blurred, BLURRED, 0)
    if HAS_SINKS:
        is_bad |= ~(logit < float("inf"))
    _store_rows(
        floats, nonfinite, to, tl.cast(B, tl.int64) * H * T, inside, n_seen, is_bad,
        mark, entropy.to(tl.float32), lse.to(tl.float32),
        max_logit.to(tl.float32), sink.to(tl.float32), missing.to(tl.float32),
        (far / weight).to(tl.float32), top.to(tl.float32), HEADS,
    )  # fmt: skip


# --- gradients of the entropy of rows -------------------------------------------


@triton.jit
def _entropy_slopes(
    s, seen, capped, lse, entropy, outer, softcap, SOFTCAP: tl.constexpr
):  # fmt: skip
    """Returns the derivative of each row's entropy with respect to the products
    from which `_shown` made s, without the factor of_row: -p * (ln p + e), with
    the shape (rows,keys)."""
    log = s * outer[:, None] - lse[:, None]
    slopes = -tl.exp2(log * LOG2_E) * (log + entropy[:, None])
    if SOFTCAP:
        share = capped / softcap
        slopes = slopes * (1 - share * share)
    return tl.where(seen, slopes, 0.0)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def _query_gradients(
    dq, dt, q, k, entropy, lse, de,
    key_mask, query_mask, key_lengths, offsets, query_starts, key_starts,
    first_keys, sinks, temperature, dense,
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    dense_batch, dense_head, dense_row, dense_column,
    B, H, KV, T, S, D, N, n_halvings, offset, window, scale, softcap, lowest,
    dq_batch, dq_head, dq_row,
    WIDTH: tl.constexpr, N_ROWS: tl.constexpr, N_KEYS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    SOFTCAP: tl.constexpr, DENSE: tl.constexpr,
    HAS_KEY_MASK: tl.constexpr, HAS_QUERY_MASK: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_OFFSETS: tl.constexpr,
    HAS_TEMPERATURE: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Computes dq (B,H,T,D) of a block of rows from de (B,H,T), the gradient of the
    rows' entropies. With temperatures also computes dt (B,H,T), each row's dot product
    of dq and q, from which the caller computes the gradient of the temperature."""
    n_blocks = tl.cdiv(T, N_ROWS)
    pid = tl.program_id(0)
    head = pid // n_blocks
    b = head // H
    h = head % H
    rows = (n_blocks - 1 - pid % n_blocks) * N_ROWS + tl.arange(0, N_ROWS)
    at = tl.cast(head, tl.int64) * T + rows
    sequence, place, begin, end = _places(
        rows, b, T, S, N, n_halvings, offset, window,
        query_mask, key_lengths, offsets, query_starts, key_starts,
        CAUSAL, WINDOW, PACKED, HAS_QUERY_MASK, HAS_LENGTHS, HAS_OFFSETS,
    )  # fmt: skip
    c = tl.arange(0, WIDTH)
    q += tl.cast(b, tl.int64) * q_batch + tl.cast(h, tl.int64) * q_head
    k += tl.cast(b, tl.int64) * k_batch + tl.cast(h // (H // KV), tl.int64) * k_head
    x = _keys(q, q_row, rows, T, D, c).to(PRODUCTS)
    of_row = _row_scale(scale, temperature, h, rows, T, HAS_TEMPERATURE)
    outer = of_row
    if SOFTCAP or DENSE == 2:
        outer = tl.full([N_ROWS], 1, tl.float32)
    own_lse = tl.load(lse + at, rows < T, 0.0)
    own_entropy = tl.load(entropy + at, rows < T, 0.0)
    sums = tl.zeros([N_ROWS, WIDTH], tl.float32)
    start = tl.min(tl.where(end > begin, begin, S), 0) // N_KEYS * N_KEYS
    for j0 in range(start, tl.max(end, 0), N_KEYS):
        j = j0 + tl.arange(0, N_KEYS)
        y = _keys(k, k_row, j, S, D, c).to(PRODUCTS)
        s = tl.dot(x, tl.trans(y), input_precision="ieee")
        s, seen, capped = _shown(
            s, rows, j, b, h, begin, end, key_mask, dense, dense_batch, dense_head,
            dense_row, dense_column, T, S, softcap, lowest, of_row,
            SOFTCAP, DENSE, HAS_KEY_MASK, False,
        )  # fmt: skip
        slopes = _entropy_slopes(
            s, seen, capped, own_lse, own_entropy, outer, softcap, SOFTCAP
        )
        sums += tl.dot(slopes.to(PRODUCTS), y, input_precision="ieee")
    # A row without keys has no entropy and no gradient.
    share = tl.load(de + at, (rows < T) & (end > begin), 0.0) * of_row
    sums = sums * share[:, None]
    dq += tl.cast(b, tl.int64) * dq_batch + tl.cast(h, tl.int64) * dq_head
    to = tl.cast(rows, tl.int64)[:, None] * dq_row + c[None, :]
    tl.store(dq + to, sums, (rows < T)[:, None] & (c < D)[None, :])
    if HAS_TEMPERATURE:
        tl.store(dt + at, tl.sum(sums * x.to(tl.float32), 1), rows < T)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def _key_gradients(
    dk, q, k, entropy, lse, de, largest,
    key_mask, query_mask, key_lengths, offsets, query_starts, key_starts,
    first_keys, sinks, temperature, dense,
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    dense_batch, dense_head, dense_row, dense_column,
    B, H, KV, T, S, D, N, n_halvings, offset, window, scale, softcap, lowest,
    dk_batch, dk_head, dk_row,
    WIDTH: tl.constexpr, N_ROWS: tl.constexpr, N_KEYS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PACKED: tl.constexpr,
    SOFTCAP: tl.constexpr, DENSE: tl.constexpr,
    HAS_KEY_MASK: tl.constexpr, HAS_QUERY_MASK: tl.constexpr,
    HAS_LENGTHS: tl.constexpr, HAS_OFFSETS: tl.constexpr,
    HAS_TEMPERATURE: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Computes dk (B,KV,S,D) of a block of keys, summed over all query heads of the group in a
    fixed order. largest: the largest |de|, by which de is divided before matrix products, so that
    it stays in the range of 16-bit types."""
    n_blocks = tl.cdiv(S, N_KEYS)
    pid = tl.program_id(0)
    b = pid // n_blocks // KV
    kv = pid // n_blocks % KV
    j0 = pid % n_blocks * N_KEYS
    j = j0 + tl.arange(0, N_KEYS)
    c = tl.arange(0, WIDTH)
    k += tl.cast(b, tl.int64) * k_batch + tl.cast(kv, tl.int64) * k_head
    y = _keys(k, k_row, j, S, D, c).to(PRODUCTS)
    unit = tl.load(largest)
    sums = tl.zeros([N_KEYS, WIDTH], tl.float32)
    # Range of the rows that may see one of these keys. With packed sequences or offsets
    # these are all rows, because the positions of rows are not known here.
    start = T * 0
    stop = T
    if not (PACKED or HAS_OFFSETS):
        if CAUSAL:
            start = tl.maximum(start, j0 - offset)
        if WINDOW:
            start = tl.maximum(start, j0 - offset - window + 1)
            stop = tl.minimum(stop, j0 + N_KEYS - 1 - offset + window)
    start = start // N_ROWS * N_ROWS
    for member in range(0, H // KV):
        h = kv * (H // KV) + member
        q_own = q + tl.cast(b, tl.int64) * q_batch + tl.cast(h, tl.int64) * q_head
        for i0 in range(start, stop, N_ROWS):
            rows = i0 + tl.arange(0, N_ROWS)
            sequence, place, begin, end = _places(
                rows, b, T, S, N, n_halvings, offset, window,
                query_mask, key_lengths, offsets, query_starts, key_starts,
                CAUSAL, WINDOW, PACKED, HAS_QUERY_MASK, HAS_LENGTHS, HAS_OFFSETS,
            )  # fmt: skip
            earliest = tl.min(tl.where(end > begin, begin, S), 0)
            if (earliest < j0 + N_KEYS) & (tl.max(end, 0) > j0):
                at = (tl.cast(b, tl.int64) * H + h) * T + rows
                x = _keys(q_own, q_row, rows, T, D, c).to(PRODUCTS)
                of_row = _row_scale(scale, temperature, h, rows, T, HAS_TEMPERATURE)
                outer = of_row
                if SOFTCAP or DENSE == 2:
                    outer = tl.full([N_ROWS], 1, tl.float32)
                s = tl.dot(x, tl.trans(y), input_precision="ieee")
                s, seen, capped = _shown(
                    s, rows, j, b, h, begin, end, key_mask, dense, dense_batch,
                    dense_head, dense_row, dense_column, T, S, softcap, lowest, of_row,
                    SOFTCAP, DENSE, HAS_KEY_MASK, False,
                )  # fmt: skip
                slopes = _entropy_slopes(
                    s, seen, capped, tl.load(lse + at, rows < T, 0.0),
                    tl.load(entropy + at, rows < T, 0.0), outer, softcap, SOFTCAP,
                )  # fmt: skip
                share = tl.load(de + at, (rows < T) & (end > begin), 0.0) / unit
                slopes = tl.where(seen, slopes * (share * of_row)[:, None], 0.0)
                turned = tl.trans(slopes.to(PRODUCTS))
                sums += tl.dot(turned, x, input_precision="ieee")
    dk += tl.cast(b, tl.int64) * dk_batch + tl.cast(kv, tl.int64) * dk_head
    to = tl.cast(j, tl.int64)[:, None] * dk_row + c[None, :]
    tl.store(dk + to, sums * unit, (j < S)[:, None] & (c < D)[None, :])


# --- heads --------------------------------------------------------------------


@triton.jit
def _n_sequences(query_starts, T, N, n_halvings, PACKED: tl.constexpr):
    """Returns the number of sequences, not counting the empty sequences at the end."""
    n = N
    if PACKED:
        n = N * 0
        behind = n + N
        for _ in range(n_halvings):
            middle = (n + behind) // 2
            is_before = tl.load(query_starts + middle) < T
            n = tl.where(is_before, tl.minimum(middle + 1, behind), n)
            behind = tl.where(is_before, behind, middle)
    return n


@triton.jit
def _sequences(
    sums, floats, nonfinite, query_starts, B, H, T, N, n_halvings,
    N_ROWS: tl.constexpr, PACKED: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Writes sums (N_SUMS,N,H), double: number of rows; number of finite rows; number of
    non-finite weights; largest logit; sums of entropy, sink, missing, distance and top
    over the finite rows; number of rows that the exact pass computed. One program of the
    kernel handles every PARTS-th sequence of one head."""
    part = tl.program_id(0) // H
    h = tl.program_id(0) % H
    n_sequences = _n_sequences(query_starts, T, N, n_halvings, PACKED)
    for more in range(0, n_sequences - part, PARTS):
        n = part + more
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
        exact = tl.zeros([N_ROWS], tl.float64)
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
            weights += tl.where(is_row & (count > 0), count, 0).to(tl.float64)
            exact += (inside & (count == EXACT_ROW)).to(tl.float64)
            logit = tl.load(at + 2 * step, finite, float("-inf"))
            largest = tl.maximum(largest, logit.to(tl.float64))
            entropies += tl.where(finite, entropy, 0.0).to(tl.float64)
            sinks += tl.load(at + 3 * step, finite, 0.0).to(tl.float64)
            missing += tl.load(at + 4 * step, finite, 0.0).to(tl.float64)
            distances += tl.load(at + 5 * step, finite, 0.0).to(tl.float64)
            tops += tl.load(at + 6 * step, finite, 0.0).to(tl.float64)
        at = sums + n.to(tl.int64) * H + h
        step = tl.cast(N, tl.int64) * H
        tl.store(at, tl.sum(n_rows, 0))
        tl.store(at + step, tl.sum(n_finite, 0))
        tl.store(at + 2 * step, tl.sum(weights, 0))
        tl.store(at + 3 * step, tl.max(largest, 0))
        tl.store(at + 4 * step, tl.sum(entropies, 0))
        tl.store(at + 5 * step, tl.sum(sinks, 0))
        tl.store(at + 6 * step, tl.sum(missing, 0))
        tl.store(at + 7 * step, tl.sum(distances, 0))
        tl.store(at + 8 * step, tl.sum(tops, 0))
        tl.store(at + 9 * step, tl.sum(exact, 0))


@triton.jit
def _heads(
    out, sums, query_starts, H, T, N, n_halvings,
    N_SEQUENCES: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Writes to out (N_HEAD_FLOATS,H) one row for each entry of SERIES, then
    the number of rows that the exact pass computed."""
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
    exact = tl.zeros([N_SEQUENCES], tl.float64)
    n_sequences = _n_sequences(query_starts, T, N, n_halvings, PACKED)
    for n0 in range(0, n_sequences, N_SEQUENCES):
        n = n0 + tl.arange(0, N_SEQUENCES)
        inside = n < n_sequences
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
        exact += tl.load(at + 9 * step, inside, 0.0)
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
    tl.store(out + 11 * H + h, tl.sum(exact, 0).to(tl.float32))
