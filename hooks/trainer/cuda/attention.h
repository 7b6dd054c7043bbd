/**
 * Declarations shared by the attention kernels: the arguments of a call,
 * operations on a row, and the values of a row that the forward pass saves.
 *
 * "raw" is the product q . k before any scaling. The weights of a row are a = u
 * / D, D = rest + sum u, with
 *
 *     softmax        u = exp(z - max z)  z = raw / (t sqrt(d_k))   rest = 0
 *     PowerSoftmax   u = (z / m)^p       m = max |z|   rest = eps (c / m)^p
 *
 * where c = m + 1e-6 is the specification's divisor; z / m is raw / max |raw|.
 * The entropy e refers to the weights b = u / S, S = sum u, which sum to one.
 * With l = log2 u, the entropy is e = ln 2 (log2 S - sum b l). In the backward
 * pass, with u' = du/draw, w = dL/de, g = dy . v and <x> = sum a x:
 *
 *     dL/draw = u' / D [g - <g> - w D / S ln 2 (l - center)]
 *     center  = sum b l
 *
 * Logarithms are to base 2, because the device has an instruction for base 2.
 *
 * A row is processed tile by tile, and its sums are relative to the largest
 * score so far. If a tile contains a larger score, every u is multiplied by
 * 2^shift, so that
 *
 *     sum u   becomes  2^shift sum u
 *     sum u l becomes  2^shift (sum u l + shift sum u)
 *
 * The entropy therefore costs only one additional multiplication and addition
 * per element.
 */
#ifndef ES_CUDA_ATTENTION_H
#define ES_CUDA_ATTENTION_H

#include "hooks/trainer/cuda/attention_kinds.h"
#include "hooks/trainer/cuda/attention_tiles.h"
#include "hooks/trainer/cuda/reduce.h"

#define ES_LN_2 0.693147180559945f

/** Arguments of an attention operation, as they are passed to a kernel. The
 *  shapes of the arrays are those in ops.h. */
template <class A>
struct es_attention_call {
    int n_batch, n_ctx, n_head, d_model, width;
    es_attention_kind kind;
    int power; /* exponent of PowerSoftmax */
    float epsilon;
    es_row_length length; /* kind of length by which epsilon is multiplied */
    float scale;          /* 1 / sqrt(width) */
    const float *log_t;   /* (H,T) ln of the temperatures, or NULL */
    const A *qkv;
    A *y;
    float *saved;
    /* Forward pass. */
    bool measures;
    float *rows[ES_N_ROW_STATISTICS]; /* (B,H,T) each; NULL if not requested */
    /* Backward pass. */
    const A *dy;
    const float *dentropy;
    A *dqkv;
    float *dlog_t;
    float *means; /* (B,H,T) scratch: mean that is subtracted from the g of a
                   * row */
    float *dots;  /* (B,H,T) scratch: sum of dz z over a row's scores z, or
                   * NULL */
    /* The fields below are for kernels on tensor cores; see
     * es_attention_flag. */
    unsigned *flags; /* (B,H,ceil(T/16)) scratch; not used without tensor
                      * cores */
    bool again;      /* true if only flagged rows are to be processed */
};

/**
 * Number of rows that share a flag. Tensor cores multiply the zero weights of
 * masked positions by the masked values, and 0 times NaN is NaN. A non-finite
 * result of a row may therefore be wrong. The tensor-core kernels set the flag
 * of the row's group, and the exact kernels, which are launched afterwards,
 * recompute the rows of flagged groups.
 */
#define ES_FLAG_ROWS 16

/** Returns the address of the flag of the group that contains row `row`. */
template <class A>
ES_DEVICE unsigned *es_attention_flag(const es_attention_call<A> *call,
                                      int head, int row)
{
    return call->flags + head * es_tile_count(call->n_ctx, ES_FLAG_ROWS) +
           row / ES_FLAG_ROWS;
}

/** Values of a row that the forward pass saves for the backward pass. */
typedef struct __align__(16) es_saved_row
{
    float m;       /* largest raw score; for PowerSoftmax the largest |raw
                    * score| */
    float inverse; /* 1 / D */
    float center;
    float factor; /* scale / t, the factor of dL/draw; for PowerSoftmax D / S */
}
es_saved_row;

/** Returns the offset in qkv of q at the first position of head `head` = b H +
 *  h. k follows d_model elements later, v another d_model elements later, and
 *  the next position 3 d_model elements later. */
template <class A>
ES_DEVICE size_t es_attention_qkv_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * 3 * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** Returns the offset in y and dy of the first position of head `head` = b H +
 *  h. The next position follows d_model elements later. */
template <class A>
ES_DEVICE size_t es_attention_y_at(const es_attention_call<A> *call, int head)
{
    size_t b = (size_t)(head / call->n_head), h = (size_t)(head % call->n_head);
    return b * (size_t)call->n_ctx * (size_t)call->d_model +
           h * (size_t)call->width;
}

/** Returns the factor that turns the raw scores of query `row` into scores. */
template <class A>
ES_DEVICE float es_attention_scale(const es_attention_call<A> *call, int head,
                                   int row)
{
    if (!call->log_t)
        return call->scale;
    return call->scale /
           es_fast_exp2(ES_LOG2_E *
                        call->log_t[head % call->n_head * call->n_ctx + row]);
}

/** Returns the epsilon of query `row`, multiplied by the length that
 *  call->length selects. */
template <class A>
ES_DEVICE float es_attention_epsilon(const es_attention_call<A> *call, int row)
{
    if (call->length == ES_LENGTH_NONE)
        return call->epsilon;
    return call->epsilon *
           (float)(call->length == ES_LENGTH_CONTEXT ? call->n_ctx : row + 1);
}

/* --- a row forward -------------------------------------------------------- */

template <class KIND>
ES_DEVICE void es_row_open(es_row *row)
{
    row->m = KIND::least();
    row->largest = -INFINITY;
    row->sum = row->moment = row->distance = 0;
}

/** Replaces the row's m by the larger of m and the parameter m of a tile, and
 *  rescales the row's sums accordingly. Returns the factor by which the caller
 *  must multiply the row's outputs so far. */
template <class KIND, bool MEASURE, bool FAST>
ES_DEVICE float es_row_grow(es_row *row, float m, float scale2, int power)
{
    const float larger = fmaxf(row->m, m);
    float shift = 0;
    const float factor = KIND::template rescale<MEASURE, FAST>(
        &shift, row->m, larger, scale2, power);
    es_row_scale<MEASURE>(row, shift, factor);
    row->m = larger;
    return factor;
}

/** Results of a row, computed when its sums are complete. */
typedef struct es_row_end {
    es_saved_row saved;
    float rest, scale;
} es_row_end;

/** Computes the results of a row whose sums are complete. */
template <class KIND>
ES_DEVICE es_row_end es_row_close(const es_row *row, float scale, float epsilon,
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
    if (!KIND::SUMS_TO_ONE) {
        const bool is_empty = row->sum == 0; /* true if all weights are 0 */
        end.saved.center =
            is_empty ? row->sum * end.saved.inverse : row->moment / row->sum;
        end.saved.factor = is_empty ? 0 : divisor / row->sum;
    }
    return end;
}

/** Writes a statistic of row `at` of (B,H,T), if the statistic is requested. */
template <class A>
ES_DEVICE void es_row_write(const es_attention_call<A> *call,
                            es_row_statistic statistic, size_t at, float value)
{
    if (call->rows[statistic])
        call->rows[statistic][at] = value;
}

/** Writes the statistics of a row whose sums are complete; `first` is the raw
 *  score of key 0. */
template <class A, class KIND>
ES_DEVICE void es_row_measure(const es_attention_call<A> *call, size_t at,
                              const es_row *row, const es_row_end *end,
                              float first)
{
    float divisor = row->sum + end->rest, inverse = end->saved.inverse;
    float log_divisor = log2f(divisor);
    float largest = (KIND::top(row->m) > 0 ? row->m : 0) * end->scale;
    float entropy = (row->sum * log_divisor - row->moment) * inverse;
    if (!KIND::SUMS_TO_ONE)
        entropy = row->sum == 0 ? row->sum * inverse
                                : log2f(row->sum) - end->saved.center;
    es_row_write(call, ES_ROW_ENTROPY, at, ES_LN_2 * entropy);
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

/* --- rows that are not finite ---------------------------------------------
 *
 * Rows whose sums were not finite are recomputed in double by their definition,
 * as es_rows specifies. All lanes of a warp work together. */

/* Sums over the keys of a row, computed directly from the formulas in
 * double. */
typedef struct es_mend_sums {
    double largest, sum, moment, first, distance;
    bool finite;
} es_mend_sums;

/* Returns the largest x of all lanes, or NaN if the x of any lane is NaN. */
ES_DEVICE double es_mend_largest_lane(double x)
{
    for (int across = 32 / 2; across > 0; across /= 2) {
        double other = __shfl_xor_sync(ES_ALL_LANES, x, across);
        x = other > x || isnan(other) ? other : x;
    }
    return x;
}

template <class A>
ES_DEVICE double es_mend_score(const es_attention_call<A> *call, int head,
                               int row, int key)
{
    const size_t at = es_attention_qkv_at(call, head);
    const size_t stride = 3 * (size_t)call->d_model;
    const A *q = call->qkv + at + (size_t)row * stride;
    const A *k = call->qkv + at + (size_t)key * stride + call->d_model;
    float sum = 0;
    for (int c = 0; c < call->width; c++)
        sum = fmaf(es_float(q[c]), es_float(k[c]), sum);
    return (double)(sum * es_attention_scale(call, head, row));
}

/* Computes the sums over a row. Each lane processes every 32nd key. */
template <class A>
ES_DEVICE es_mend_sums es_mend_sum_row(const es_attention_call<A> *call,
                                       int head, int row, int lane)
{
    es_mend_sums sums = {-(double)INFINITY, 0, 0, 0, 0, true};
    for (int j = lane; j <= row; j += 32) {
        double s = es_mend_score(call, head, row, j);
        sums.finite = sums.finite && isfinite(s);
        if (s > sums.largest || isnan(s))
            sums.largest = s;
    }
    sums.largest = es_mend_largest_lane(sums.largest);
    sums.finite = __all_sync(ES_ALL_LANES, sums.finite) != 0;
    for (int j = lane; j <= row; j += 32) {
        double x = es_mend_score(call, head, row, j) - sums.largest, p = exp(x);
        sums.sum += p;
        sums.moment += p > 0 ? p * x : 0;
        sums.distance += p * (row - j);
        if (j == 0)
            sums.first = p;
    }
    sums.sum = es_warp_sum(sums.sum);
    sums.moment = es_warp_sum(sums.moment);
    sums.distance = es_warp_sum(sums.distance);
    return sums;
}

/* Counts the weights of a row that are not finite. The lanes divide the keys
 * among themselves. */
template <class A>
ES_DEVICE int es_mend_count(const es_attention_call<A> *call, int head, int row,
                            const es_mend_sums *sums, int lane)
{
    int n = 0;
    for (int j = lane; !sums->finite && j <= row; j += 32)
        if (!isfinite(exp(es_mend_score(call, head, row, j) - sums->largest) /
                      sums->sum))
            n++;
    return es_warp_sum(n);
}

/* Writes the same statistics as es_row_measure, or NaN for statistics that are
 * not finite. Called by lane 0. */
template <class A>
ES_DEVICE void es_mend_write(const es_attention_call<A> *call, size_t at,
                             int n_nonfinite, const es_mend_sums *sums)
{
    const double nan = sums->finite ? 0 : NAN, log_sum = log(sums->sum) + nan;
    es_row_write(call, ES_ROW_ENTROPY, at,
                 (float)(log_sum - sums->moment / sums->sum));
    es_row_write(call, ES_ROW_LSE, at, (float)(sums->largest + log_sum));
    es_row_write(call, ES_ROW_MAX_LOGIT, at, (float)(sums->largest + nan));
    es_row_write(call, ES_ROW_SINK, at, (float)(sums->first / sums->sum + nan));
    es_row_write(call, ES_ROW_NONFINITE, at, (float)n_nonfinite);
    es_row_write(call, ES_ROW_MISSING, at, (float)nan);
    es_row_write(call, ES_ROW_DISTANCE, at,
                 (float)(sums->distance / sums->sum + nan));
    es_row_write(call, ES_ROW_TOP, at, (float)(1 / sums->sum + nan));
}

/** Returns true if the row's statistics must be recomputed in double. */
ES_DEVICE bool es_mend_wanted(const es_saved_row *saved)
{
    return !(isfinite(saved->inverse) && isfinite(saved->center));
}

/** Recomputes the statistics of row `at` of (B,H,T) in double. All lanes of a
 *  warp must call this function together. */
template <class A>
ES_DEVICE void es_mend_row(const es_attention_call<A> *call, size_t at,
                           int lane)
{
    const int row = (int)(at % (size_t)call->n_ctx);
    const int head = (int)(at / (size_t)call->n_ctx);
    /* Each weight of PowerSoftmax depends on the largest score and on the sum
     * of the row. If one weight of the row is not finite, no weight is. */
    es_mend_sums sums = {0, 1, 0, 0, 0, false};
    int n = row + 1;
    if (call->kind == ES_SOFTMAX) {
        sums = es_mend_sum_row(call, head, row, lane);
        n = es_mend_count(call, head, row, &sums, lane);
    }
    if (lane == 0)
        es_mend_write(call, at, n, &sums);
}

/* --- a row backward ------------------------------------------------------- */

/** Values of a query's row that are needed to compute the gradients of its
 *  scores. */
typedef struct es_row_gradient {
    float anchor, scale2; /* arguments of the function `weigh` of a kind of
                           * attention */
    float inverse;        /* 1 / D */
    float weight;         /* w ln 2, where w is dL/de, the gradient of the
                           * entropy */
    float mean;           /* subtracted from g - w l */
    float factor;         /* factor of dL/draw */
} es_row_gradient;

/** Returns the values of a row that the gradients need, except `mean`, and the
 *  values that the forward pass saved in *saved. */
template <class A, class KIND>
ES_DEVICE es_row_gradient es_row_gradient_open(const es_attention_call<A> *call,
                                               int head, int row,
                                               es_saved_row *saved)
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
    if (!KIND::SUMS_TO_ONE) {
        gradient.weight *= saved->factor;
        gradient.factor = KIND::factor(saved->m, 0, call->power);
    }
    return gradient;
}

/* --- the kernels ---------------------------------------------------------- */

/** Launch the exact kernels, which support any type of activation and heads up
 *  to 256 wide. In attention_exact.cu. */
template <class A>
void es_cuda_attention_exact(es_device *device,
                             const es_attention_call<A> *call);
template <class A>
void es_cuda_attention_exact_backward(es_device *device,
                                      const es_attention_call<A> *call);

/** Launch the kernels on tensor cores. Return false and launch nothing if these
 *  kernels cannot process the call. In attention_mma.cu and
 *  attention_mma_backward.cu. */
template <class A>
bool es_cuda_attention_mma(es_device *device, const es_attention_call<A> *call);
template <class A>
bool es_cuda_attention_mma_backward(es_device *device,
                                    const es_attention_call<A> *call);

#endif
