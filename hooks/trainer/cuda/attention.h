/**
 * Between the kernels of attention: what a call has, what is done to a row,
 * and what is saved of it.
 *
 * "raw" is q . k as the product gives it, before any scale. Weights are a =
 * u / D, D = rest + sum u, with
 *
 *     softmax        u = exp(z - max z)  z = raw / (t sqrt(d_k))   rest = 0
 *     PowerSoftmax   u = (z / m)^p       m = max |z|   rest = eps (c / m)^p
 *
 * where c = m + 1e-6 is the specification's; z / m is raw / max |raw|. With l =
 * log2 u, e = ln 2 ((sum a) log2 D - <l>), and on the way back, u' = du/draw,
 * w = dL/de, g = dy . v, <x> = sum a x:
 *
 *     dL/draw = u' / D [g - <g> - w ln 2 (l - center)]
 *     center  = <l> - (1 - sum a) (1 / ln 2 - log2 D)
 *
 * Logarithms are to base 2 since that is what the device has.
 *
 * A row is gone through tile by tile, its sums belonging to the largest score
 * so far. When that grows by what makes every u 2^shift times what it was,
 *
 *     sum u   becomes  2^shift sum u
 *     sum u l becomes  2^shift (sum u l + shift sum u)
 *
 * which is all that the entropy costs: one more product and sum an element.
 */
#ifndef ES_CUDA_ATTENTION_H
#define ES_CUDA_ATTENTION_H

extern "C" {
#include "analyzer/base/value.h"
}
#include "hooks/trainer/cuda/attention_tiles.h"
#include "hooks/trainer/cuda/cuda.h"

#include <float.h>

#define ES_LN_2 0.693147180559945f
#define ES_LOG2_E 1.44269504088896f

/** A temperature below this counts as this. */
#define ES_MIN_TEMPERATURE 1e-4f
/** Below this the largest score of PowerSoftmax counts as this: its inverse is
 *  finite. */
#define ES_TINY_SCORE 1e-30f
/** On tensor cores the scores of a row may exceed what its weights are relative
 *  to by this, to base 2, before all that was summed is brought down. */
#define ES_SLACK 8.0f
/** Beside a rest above this nothing has weight; it and its inverse are
 *  finite. */
#define ES_LARGE_REST 1e37f

/** An operation's arguments, for a kernel. Shapes as in ops.h. */
template <class A>
struct es_attention_call {
    int n_batch, n_ctx, n_head, d_model, width;
    int power; /* 0: softmax */
    float epsilon;
    float scale; /* 1 / sqrt(width) */
    const float *temperature;
    const A *qkv;
    A *y;
    float *saved;
    /* forward */
    bool measures;
    float *rows[ES_N_ROW_STATISTICS]; /* (B,H,T) each; NULL: not wanted */
    /* backward */
    const A *dy;
    const float *dentropy;
    A *dqkv;
    float *dt;
    float *means; /* (B,H,T) scratch: what g is compared with */
    float *dots;  /* (B,H,T) scratch: sum of dz z; NULL without dt */
};

/** What is saved of a row. */
typedef struct __align__(16) es_saved_row
{
    float m;       /* largest raw score; PowerSoftmax: the largest absolute */
    float inverse; /* 1 / D */
    float center;
    float factor; /* of dL/draw: scale / t; PowerSoftmax: p / m */
}
es_saved_row;

/** q of the first position of head `head` = b H + h; k and v are d_model and
 *  2 d_model further on; a position is 3 d_model. */
template <class A>
__device__ __forceinline__ size_t
es_attention_qkv_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * 3 * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** Likewise y and dy; a position is d_model. */
template <class A>
__device__ __forceinline__ size_t
es_attention_y_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** What raw scores of query `row` are multiplied with. */
template <class A>
__device__ __forceinline__ float
es_attention_scale(const es_attention_call<A> *call, int head, int row)
{
    float t;
    if (!call->temperature)
        return call->scale;
    t = call->temperature[head % call->n_head * call->n_ctx + row];
    return call->scale / (t < ES_MIN_TEMPERATURE ? ES_MIN_TEMPERATURE : t);
}

/* --- a weight ------------------------------------------------------------- */

/** To base 2: as good as float32 is, or by the device's own instruction. */
template <bool FAST>
__device__ __forceinline__ float es_exp2(float x)
{
    return FAST ? es_fast_exp2(x) : exp2f(x);
}
template <bool FAST>
__device__ __forceinline__ float es_log2(float x)
{
    return FAST ? __log2f(x) : log2f(x);
}

/** x^n, n even and 0 or more. */
__device__ __forceinline__ float es_raise(float x, int n)
{
    float y = 1, square = x * x;
    for (int rest = n / 2; rest > 0; rest /= 2) {
        if (rest % 2)
            y *= square;
        square *= square;
    }
    return y;
}

/** Of one score: u, log2 u, and du/draw up to the row's factor. */
typedef struct es_weight {
    float u, log, slope;
} es_weight;

/**
 * POWER     PowerSoftmax with this power, else softmax
 * FAST      es_exp2
 * anchor    es_row_anchor
 * scale2    of raw to base 2; softmax
 *
 * The logarithm of a power that has vanished is finite, and its product with u
 * is 0. The anchor of softmax has exactly u = 1, log = 0.
 */
template <bool POWER, bool FAST>
__device__ __forceinline__ es_weight es_weigh(float raw, float anchor,
                                              float scale2, int power)
{
    es_weight w;
    if (POWER) {
        float x = raw * anchor;
        w.slope = es_raise(x, power - 2) * x;
        w.u = w.slope * x;
        w.log = es_log2<FAST>(fmaxf(w.u, FLT_MIN));
    } else {
        w.log = (raw - anchor) * scale2;
        w.slope = w.u = es_exp2<FAST>(w.log);
    }
    return w;
}

/* --- a row on the way forward --------------------------------------------- */

/** What a thread knows of a row: m is the row's, the sums are over its own
 *  columns. */
typedef struct es_row {
    float m;
    float largest; /* score; PowerSoftmax, where m is another */
    float sum, moment;
} es_row;

template <bool POWER>
__device__ __forceinline__ void es_row_open(es_row *row)
{
    row->m = POWER ? ES_TINY_SCORE : -INFINITY;
    row->largest = -INFINITY;
    row->sum = row->moment = 0;
}

/** What es_weigh wants of m. A row of -inf so far has weights of 0. */
template <bool POWER>
__device__ __forceinline__ float es_row_anchor(float m)
{
    if (POWER)
        return 1 / fmaxf(m, ES_TINY_SCORE);
    return m == -INFINITY ? 0 : m;
}

/** The row's m grows to that of a tile. Returns what sums and outputs so far
 *  have been multiplied with, or are to be. */
template <bool POWER, bool MEASURE, bool FAST>
__device__ __forceinline__ float es_row_grow(es_row *row, float m, float scale2,
                                             int power)
{
    float larger = fmaxf(row->m, m), shift = 0, factor;
    if (POWER) {
        float ratio = row->m / larger;
        factor = es_raise(ratio, power);
        if (MEASURE)
            shift = (float)power * es_log2<FAST>(fmaxf(ratio, FLT_MIN));
    } else {
        shift = row->m == -INFINITY ? 0 : (row->m - larger) * scale2;
        factor = es_exp2<FAST>(shift);
    }
    if (MEASURE)
        row->moment = (row->moment + row->sum * shift) * factor;
    row->sum *= factor;
    row->m = larger;
    return factor;
}

/** The part of D that is not a sum of u. */
template <bool POWER>
__device__ __forceinline__ float es_row_rest(float m, float scale,
                                             float epsilon, int power)
{
    float floor = fmaxf(m, ES_TINY_SCORE);
    if (!POWER || !(epsilon > 0))
        return 0;
    return fminf(ES_LARGE_REST,
                 epsilon *
                     es_raise((m * scale + 1e-6f) / (floor * scale), power));
}

/** What is written of a row. */
typedef struct es_row_end {
    es_saved_row saved;
    float rest, scale;
} es_row_end;

/** From a row whose sums are whole. */
template <bool POWER>
__device__ __forceinline__ es_row_end es_row_close(const es_row *row,
                                                   float scale, float epsilon,
                                                   int power)
{
    es_row_end end;
    float divisor;
    end.rest = es_row_rest<POWER>(row->m, scale, epsilon, power);
    divisor = row->sum + end.rest;
    end.scale = scale;
    end.saved.m = row->m;
    end.saved.inverse = 1 / divisor;
    end.saved.center = row->moment * end.saved.inverse;
    end.saved.factor = POWER ? (float)power / row->m : scale;
    if (POWER)
        end.saved.center -=
            end.rest * end.saved.inverse * (ES_LOG2_E - log2f(divisor));
    return end;
}

/** Writes a statistic of row `at` of (B,H,T), if it is wanted. */
template <class A>
__device__ __forceinline__ void es_row_write(const es_attention_call<A> *call,
                                             es_row_statistic statistic,
                                             size_t at, float value)
{
    if (call->rows[statistic])
        call->rows[statistic][at] = value;
}

/** Keeps the raw score of key 0 where the thread that ends the row, which has
 *  to be the same, can look for it. */
template <class A>
__device__ __forceinline__ void
es_row_keep_first(const es_attention_call<A> *call, int head, int row,
                  float raw)
{
    if (row < call->n_ctx)
        es_row_write(call, ES_ROW_SINK,
                     (size_t)head * (size_t)call->n_ctx + (size_t)row, raw);
}

/** Statistics of a row whose sums are whole, the raw score of key 0 being
 *  `first`. Rows that are not finite are done again in attention.cu. */
template <class A, bool POWER>
__device__ __forceinline__ void
es_row_measure(const es_attention_call<A> *call, size_t at, const es_row *row,
               const es_row_end *end, float first)
{
    float divisor = row->sum + end->rest, inverse = end->saved.inverse;
    float log_divisor = log2f(divisor);
    float largest = (POWER ? row->largest : row->m) * end->scale;
    es_row_write(call, ES_ROW_ENTROPY, at,
                 ES_LN_2 * (row->sum * log_divisor - row->moment) * inverse);
    es_row_write(call, ES_ROW_LSE, at, largest + ES_LN_2 * log_divisor);
    es_row_write(call, ES_ROW_MAX_LOGIT, at, largest);
    if (call->rows[ES_ROW_SINK])
        call->rows[ES_ROW_SINK][at] =
            inverse *
            es_weigh<POWER, false>(first, es_row_anchor<POWER>(row->m),
                                   end->scale * ES_LOG2_E, call->power)
                .u;
    es_row_write(call, ES_ROW_NONFINITE, at, 0);
    es_row_write(call, ES_ROW_MISSING, at, end->rest / divisor);
}

/* --- a row on the way back ------------------------------------------------ */

/** A query's part in the gradient of a score. */
typedef struct es_row_gradient {
    float anchor, scale2; /* of es_weigh */
    float inverse;        /* 1 / D */
    float weight;         /* w ln 2 */
    float mean;           /* what g - w l is compared with */
    float factor;         /* of the result */
} es_row_gradient;

/** Without `mean`. */
template <class A, bool POWER>
__device__ __forceinline__ es_row_gradient es_row_gradient_open(
    const es_attention_call<A> *call, int head, int row, es_saved_row *saved)
{
    es_row_gradient gradient;
    size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    *saved = ((const es_saved_row *)(const void *)call->saved)[at];
    gradient.anchor = es_row_anchor<POWER>(saved->m);
    gradient.scale2 = POWER ? 0 : saved->factor * ES_LOG2_E;
    gradient.inverse = saved->inverse;
    gradient.weight = call->dentropy ? call->dentropy[at] * ES_LN_2 : 0;
    gradient.mean = 0;
    gradient.factor = saved->factor;
    return gradient;
}

/* --- the kernels ---------------------------------------------------------- */

/** For every width and type. attention_fma.cu, attention_fma_backward.cu. */
template <class A>
void es_cuda_attention_fma(es_device *device, const es_attention_call<A> *call);
template <class A>
void es_cuda_attention_fma_backward(es_device *device,
                                    const es_attention_call<A> *call);

/** On tensor cores: false, and nothing is done, where they cannot.
 *  attention_mma.cu, attention_mma_backward.cu. */
template <class A>
bool es_cuda_attention_mma(es_device *device, const es_attention_call<A> *call);
template <class A>
bool es_cuda_attention_mma_backward(es_device *device,
                                    const es_attention_call<A> *call);

#endif
