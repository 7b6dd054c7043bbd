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
 * log2 u, e = ln 2 ((sum a) log2 D - <l>), and in the backward pass, u' =
 * du/draw, w = dL/de, g = dy . v, <x> = sum a x:
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

#include "hooks/trainer/cuda/attention_kinds.h"
#include "hooks/trainer/cuda/attention_tiles.h"
#include "hooks/trainer/cuda/cuda.h"

#define ES_LN_2 0.693147180559945f

/** A temperature below this counts as this. */
#define ES_MIN_TEMPERATURE 1e-4f
/** An operation's arguments, for a kernel. Shapes as in ops.h. */
template <class A>
struct es_attention_call {
    int n_batch, n_ctx, n_head, d_model, width;
    es_attention_kind kind;
    int power; /* of PowerSoftmax */
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

/* --- a row forward -------------------------------------------------------- */

template <class KIND>
__device__ __forceinline__ void es_row_open(es_row *row)
{
    row->m = KIND::least();
    row->largest = -INFINITY;
    row->sum = row->moment = row->distance = 0;
}

/** The row's m grows to that of a tile. Returns what sums and outputs so far
 *  have been multiplied with, or are to be. */
template <class KIND, bool MEASURE, bool FAST>
__device__ __forceinline__ float es_row_grow(es_row *row, float m, float scale2,
                                             int power)
{
    const float larger = fmaxf(row->m, m);
    float shift = 0;
    const float factor = KIND::template rescale<MEASURE, FAST>(
        &shift, row->m, larger, scale2, power);
    es_row_scale<MEASURE>(row, shift, factor);
    row->m = larger;
    return factor;
}

/** What is written of a row. */
typedef struct es_row_end {
    es_saved_row saved;
    float rest, scale;
} es_row_end;

/** From a row whose sums are whole. */
template <class KIND>
__device__ __forceinline__ es_row_end es_row_close(const es_row *row,
                                                   float scale, float epsilon,
                                                   int power)
{
    es_row_end end;
    float divisor;
    end.rest = KIND::rest(row->m, scale, epsilon, power);
    divisor = row->sum + end.rest;
    end.scale = scale;
    end.saved.m = row->m;
    end.saved.inverse = 1 / divisor;
    end.saved.center = row->moment * end.saved.inverse;
    end.saved.factor = KIND::factor(row->m, scale, power);
    if (!KIND::SUMS_TO_ONE)
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
template <class A, class KIND>
__device__ __forceinline__ void
es_row_measure(const es_attention_call<A> *call, size_t at, const es_row *row,
               const es_row_end *end, float first)
{
    float divisor = row->sum + end->rest, inverse = end->saved.inverse;
    float log_divisor = log2f(divisor);
    float largest = (KIND::BY_SIZE ? row->largest : row->m) * end->scale;
    es_row_write(call, ES_ROW_ENTROPY, at,
                 ES_LN_2 * (row->sum * log_divisor - row->moment) * inverse);
    es_row_write(call, ES_ROW_LSE, at, largest + ES_LN_2 * log_divisor);
    es_row_write(call, ES_ROW_MAX_LOGIT, at, largest);
    if (call->rows[ES_ROW_SINK])
        call->rows[ES_ROW_SINK][at] =
            inverse *
            KIND::template weigh<false>(first, KIND::anchor_of(row->m),
                                        end->scale * ES_LOG2_E, call->power)
                .u;
    es_row_write(call, ES_ROW_NONFINITE, at, 0);
    es_row_write(call, ES_ROW_MISSING, at, end->rest / divisor);
    es_row_write(call, ES_ROW_DISTANCE, at, row->distance * inverse);
    es_row_write(call, ES_ROW_TOP, at, KIND::top(row->m) * inverse);
}

/* --- a row in the backward pass
 * ------------------------------------------------ */

/** A query's part in the gradient of a score. */
typedef struct es_row_gradient {
    float anchor, scale2; /* of es_weigh */
    float inverse;        /* 1 / D */
    float weight;         /* w ln 2 */
    float mean;           /* what g - w l is compared with */
    float factor;         /* of the result */
} es_row_gradient;

/** Without `mean`. */
template <class A, class KIND>
__device__ __forceinline__ es_row_gradient es_row_gradient_open(
    const es_attention_call<A> *call, int head, int row, es_saved_row *saved)
{
    es_row_gradient gradient;
    size_t at = (size_t)head * (size_t)call->n_ctx + (size_t)row;
    *saved = ((const es_saved_row *)(const void *)call->saved)[at];
    gradient.anchor = KIND::anchor_of(saved->m);
    gradient.scale2 = KIND::scale2_of(saved->factor);
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
