/**
 * Rows of attention whose sums were not finite, done again in double, by their
 * definition: the words of es_rows hold. By all lanes of a warp together.
 */
#ifndef ES_CUDA_ATTENTION_MEND_H
#define ES_CUDA_ATTENTION_MEND_H

#include "hooks/trainer/cuda/attention.h"

/* Sums over a row, by its definition. */
typedef struct es_mend_sums {
    double largest, sum, moment, first, distance;
    bool finite;
} es_mend_sums;

__device__ __forceinline__ double es_mend_sum_lanes(double x)
{
    for (int across = 32 / 2; across > 0; across /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, across);
    return x;
}

/* NaN beats all, as it is not less. */
__device__ __forceinline__ double es_mend_largest_lane(double x)
{
    for (int across = 32 / 2; across > 0; across /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, x, across);
        x = other > x || isnan(other) ? other : x;
    }
    return x;
}

template <class A>
__device__ __forceinline__ double
es_mend_score(const es_attention_call<A> *call, int head, int row, int key)
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

/* By all lanes together, each its keys. */
template <class A>
__device__ __forceinline__ es_mend_sums
es_mend_sum_row(const es_attention_call<A> *call, int head, int row, int lane)
{
    es_mend_sums sums = {-(double)INFINITY, 0, 0, 0, 0, true};
    for (int j = lane; j <= row; j += 32) {
        double s = es_mend_score(call, head, row, j);
        sums.finite = sums.finite && isfinite(s);
        if (s > sums.largest || isnan(s))
            sums.largest = s;
    }
    sums.largest = es_mend_largest_lane(sums.largest);
    sums.finite = __all_sync(0xffffffffu, sums.finite) != 0;
    for (int j = lane; j <= row; j += 32) {
        double x = es_mend_score(call, head, row, j) - sums.largest, p = exp(x);
        sums.sum += p;
        sums.moment += p > 0 ? p * x : 0;
        sums.distance += p * (row - j);
        if (j == 0)
            sums.first = p;
    }
    sums.sum = es_mend_sum_lanes(sums.sum);
    sums.moment = es_mend_sum_lanes(sums.moment);
    sums.distance = es_mend_sum_lanes(sums.distance);
    return sums;
}

/* By all lanes together: weights of the row that are not finite. */
template <class A>
__device__ __forceinline__ int es_mend_count(const es_attention_call<A> *call,
                                             int head, int row,
                                             const es_mend_sums *sums, int lane)
{
    int n = 0;
    for (int j = lane; !sums->finite && j <= row; j += 32)
        if (!isfinite(exp(es_mend_score(call, head, row, j) - sums->largest) /
                      sums->sum))
            n++;
    for (int across = 32 / 2; across > 0; across /= 2)
        n += __shfl_xor_sync(0xffffffffu, n, across);
    return n;
}

/* Lane 0 writes what es_row_measure would have, NaN where nothing is finite. */
template <class A>
__device__ __forceinline__ void es_mend_write(const es_attention_call<A> *call,
                                              size_t at, int n_nonfinite,
                                              const es_mend_sums *sums)
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

/** Does the row want it? */
__device__ __forceinline__ bool es_mend_wanted(const es_saved_row *saved)
{
    return !(isfinite(saved->inverse) && isfinite(saved->center));
}

/** Statistics of row `at` of (B,H,T). */
template <class A>
__device__ __forceinline__ void es_mend_row(const es_attention_call<A> *call,
                                            size_t at, int lane)
{
    const int row = (int)(at % (size_t)call->n_ctx);
    const int head = (int)(at / (size_t)call->n_ctx);
    /* Each weight of PowerSoftmax holds the largest score and the sum of all:
     * where one is not finite none is. */
    es_mend_sums sums = {0, 1, 0, 0, 0, false};
    int n = row + 1;
    if (call->kind == ES_SOFTMAX) {
        sums = es_mend_sum_row(call, head, row, lane);
        n = es_mend_count(call, head, row, &sums, lane);
    }
    if (lane == 0)
        es_mend_write(call, at, n, &sums);
}

#endif
