/**
 * What both kernels of rows from queries and keys do with the scores of a tile:
 * those on tensor cores (qk_mma.cu) and those of float32 (qk_rows.cu). The
 * threads of a row are consecutive lanes; each has some of a tile's columns,
 * as COLUMNS says:
 *
 *   N        rows of a block, and keys of a tile
 *   COUNT    columns of a thread
 *   LANES    threads of a row
 *   at       column i of a thread whose first is `first`
 *   BLUR     how much worse than float32's its products are, in squares
 */
#ifndef ES_CUDA_QK_ROWS_H
#define ES_CUDA_QK_ROWS_H

#include "hooks/trainer/cuda/attention_kinds.h"
#include "hooks/trainer/cuda/attention_tiles.h"
#include "hooks/trainer/cuda/qk_call.h"
#include "hooks/trainer/cuda/reduce.h"

/** Weights below 2^-126 count as that. */
#define ES_QK_LOWEST (-126.0f)
/** (2.5e-6 nats, in units of 2^-24) squared. */
#define ES_QK_MOST_BLUR 1759.2f

/** In shared memory, beside the tiles. */
template <int N>
struct es_qk_block {
    es_qk_row row[N];
    int from, until; /* keys that some row sees; from is a multiple of N */
    int sees[N];     /* keys of the tile that the mask lets through */
};

/** What a thread keeps of a row: sums over its own columns. */
typedef struct es_qk_state {
    float peak;  /* raw; of all columns */
    float first; /* raw score of the first key, if it has it */
    float weight, spread, far;
    int n_seen;
    float inner; /* of products within the softcap */
    float outer; /* of scores, to base 2 */
} es_qk_state;

/** The rows of the block, from `first` of batch b on. Barriers. */
template <int N>
ES_DEVICE void es_qk_find_rows(const es_qk_call *call, es_qk_block<N> *kept,
                               int b, int first)
{
    const int i = (int)threadIdx.x;
    if (i < N)
        kept->row[i] = es_qk_row_of(call, b, first + i);
    __syncthreads();
    if (i == 0) {
        int from = call->n_keys, until = 0;
        for (int r = 0; r < N; r++)
            if (kept->row[r].begin < kept->row[r].end) {
                from = min(from, kept->row[r].begin);
                until = -min(-until, -kept->row[r].end);
            }
        kept->from = from / N * N;
        kept->until = until;
    }
    __syncthreads();
}

/** Which keys of a tile the mask lets through, of all threads' together. */
template <int N>
ES_DEVICE void es_qk_look(const es_qk_call *call, es_qk_block<N> *kept, int b,
                          int key)
{
    const int j = key + (int)threadIdx.x;
    if (threadIdx.x < N)
        kept->sees[threadIdx.x] = j < call->n_keys && es_qk_sees(call, b, j);
}

/** No keys so far. A row beyond the last is like the last. */
ES_DEVICE es_qk_state es_qk_open(const es_qk_call *call, int h, int row)
{
    const float scale =
        (float)es_qk_scale(call, h, min(row, call->n_queries - 1));
    es_qk_state state = {-INFINITY, -INFINITY, 0, 0, 0, 0, 0, 0};
    state.inner = scale / (float)call->softcap;
    /* Never 0, as an infinite temperature would make it; a NaN stays. */
    state.outer =
        ES_LOG2_E * (call->softcap > 0 && scale == scale ? (float)call->softcap
                     : scale < FLT_MIN                   ? FLT_MIN
                                                         : scale);
    return state;
}

template <class COLUMNS>
ES_DEVICE float es_qk_largest(float x)
{
#pragma unroll
    for (int across = COLUMNS::LANES / 2; across > 0; across /= 2)
        x = fmaxf(x, __shfl_xor_sync(ES_ALL_LANES, x, across));
    return x;
}

template <class COLUMNS, class X>
ES_DEVICE X es_qk_sum(X x)
{
#pragma unroll
    for (int across = COLUMNS::LANES / 2; across > 0; across /= 2)
        x += __shfl_xor_sync(ES_ALL_LANES, x, across);
    return x;
}

/** Adds the products s of the tile from `key` on to row r of the block. */
template <class COLUMNS>
ES_DEVICE void es_qk_absorb(es_qk_state *state, float s[COLUMNS::COUNT],
                            const es_qk_block<COLUMNS::N> *kept, int r, int key,
                            int first, bool capped)
{
    const es_qk_row *row = &kept->row[r];
    float m = -INFINITY, peak, shift, factor;
    bool seen[COLUMNS::COUNT];
#pragma unroll
    for (int c = 0; c < COLUMNS::COUNT; c++) {
        const int column = COLUMNS::at(first, c), j = key + column;
        if (capped)
            s[c] = fmaf(s[c], 0.0f, tanhf(s[c] * state->inner));
        seen[c] = j >= row->begin && j < row->end && kept->sees[column];
        if (seen[c]) {
            m = fmaxf(m, s[c]);
            state->n_seen++;
            if (j == row->first)
                state->first = s[c];
        }
    }
    peak = fmaxf(state->peak, es_qk_largest<COLUMNS>(m));
    shift = state->peak == -INFINITY
                ? 0
                : fmaxf(ES_QK_LOWEST, (state->peak - peak) * state->outer);
    factor = exp2f(shift);
    state->spread = fmaf(state->weight, shift, state->spread) * factor;
    state->weight *= factor;
    state->far *= factor;
    state->peak = peak;
#pragma unroll
    for (int c = 0; c < COLUMNS::COUNT; c++)
        if (seen[c]) {
            const float x = fmaxf(ES_QK_LOWEST, (s[c] - peak) * state->outer);
            const float p = exp2f(x);
            const int64_t away = row->place - (key + COLUMNS::at(first, c));
            state->weight += p;
            state->far = fmaf(p, fabsf((float)away), state->far);
            /* A score of -inf, too, makes its row NaN. */
            state->spread += fmaf(p, x, s[c] * 0.0f);
        }
}

/** May the row's entropy be off? As entropy_exact.inc.h has it. */
ES_DEVICE bool es_qk_is_blurred(const es_qk_call *call, int b, int h, int row,
                                float blur, float e, float top)
{
    const int kv = h / (call->n_heads / call->n_kv_heads);
    const float scale = (float)es_qk_scale(call, h, row);
    const float *extents =
        call->extents + 2 * ES_QK_CHUNKS * (b * call->n_kv_heads + kv);
    const ptrdiff_t q = es_qk_at(call->q_strides, b, h, row);
    float length = 0, height = 0, longest = 0, highest = 0, reach;
    for (int c = 0; c < call->width; c++) {
        const float x = es_qk_number(call->q, call->type, q + c);
        length = fmaf(x, x, length);
        height = fmaxf(height, x * x);
    }
    for (int i = 0; i < ES_QK_CHUNKS; i++) {
        longest = fmaxf(longest, extents[2 * i]);
        highest = fmaxf(highest, extents[2 * i + 1]);
    }
    reach = height * highest * 0.2f * (float)call->width +
            length * longest * (1.0f / 3);
    reach *= scale * scale * blur;
    if (call->softcap > 0) {
        const float cap = (float)call->softcap;
        reach = 2 * (reach + fminf(cap * cap, reach));
    }
    return !(reach * fminf(2.25f * e * e, top * (1 + e) * (1 + e)) <
             ES_QK_MOST_BLUR);
}

/** The sums of row r of the block over its threads, and out, by the one of them
 *  that `writes`. */
template <class COLUMNS>
ES_DEVICE void es_qk_end(const es_qk_call *call, const es_qk_state *state,
                         es_tile_place place, int r, bool writes)
{
    const int b = place.head / call->n_heads, h = place.head % call->n_heads;
    const int row = place.first + r;
    const float first = es_qk_largest<COLUMNS>(state->first);
    const float weight = es_qk_sum<COLUMNS>(state->weight);
    es_qk_sums sums;
    sums.spread =
        (double)es_qk_sum<COLUMNS>(state->spread) * 0.693147180559945309;
    sums.far = (double)es_qk_sum<COLUMNS>(state->far);
    sums.n_seen = es_qk_sum<COLUMNS>(state->n_seen);
    if (!writes || row >= call->n_queries)
        return;
    const float outer = call->softcap > 0 ? (float)call->softcap
                                          : (float)es_qk_scale(call, h, row);
    const float e = fmaxf(0, logf(weight) - (float)sums.spread / weight);
    sums.peak = (double)state->peak * (double)outer;
    sums.weight = (double)weight;
    sums.first =
        first == -INFINITY ? 0 : (double)expf((first - state->peak) * outer);
    es_qk_write<float>(
        call, (size_t)place.head * (size_t)call->n_queries + (size_t)row, h,
        &sums,
        es_qk_is_blurred(call, b, h, row, COLUMNS::BLUR, e, 1 / weight)
            ? ES_QK_BLURRED
            : 0);
}

#endif
