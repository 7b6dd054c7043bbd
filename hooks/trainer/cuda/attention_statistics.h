/**
 * Computes the statistics of rows from their sums. Recomputes rows with
 * non-finite results in double, directly from the formulas. No other file
 * contains the formulas of the statistics that are means over a row's weights;
 * statistics.cu reduces rows to heads.
 */
#ifndef ES_CUDA_ATTENTION_STATISTICS_H
#define ES_CUDA_ATTENTION_STATISTICS_H

#include "hooks/trainer/cuda/attention.h"

/* --- means over the weights ----------------------------------------------- */

/** Adds a visible key with weight u to the sums from which the means over the
 *  weights are computed (ES_SUM_FIRST_MEAN and higher). The key is `away` keys
 *  before the query. */
ES_DEVICE void es_row_add_means(es_row *row, float u, int away)
{
    row->sums[ES_SUM_DISTANCE] =
        fmaf(u, (float)away, row->sums[ES_SUM_DISTANCE]);
}

/** Returns true if a statistic that is a mean over the weights is requested. */
template <class A>
ES_DEVICE bool es_row_wants_means(const es_attention_call<A> *call)
{
    bool wants = false;
#pragma unroll
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        wants = wants || call->rows[es_row_sum_statistic(s)] != NULL;
    return wants;
}

/* Kernels on tensor cores process a tile of N keys at a time, and each lane
 * keeps the sums of a row over its own columns. Distances refer to the first
 * key of the next tile. */

/**
 * Adds the weights of the current tile of N keys to a lane's sums from
 * ES_SUM_FIRST_MEAN on. Sum i is at sums[i * STRIDE]; the sum of the weights
 * must already include this tile. Before the addition, the sum of distances is
 * converted from distances to the first key of this tile to distances to the
 * first key of the next tile. Distances are computed from column numbers, which
 * are constants, because no registers are left for the positions of queries and
 * keys. Columns are counted from this lane's first column.
 */
template <int N, int STRIDE>
ES_DEVICE void es_step_add_means(float *sums, const float s[N / 8][4],
                                 int upper)
{
    float sum = fmaf((float)N, sums[ES_SUM_WEIGHT * STRIDE],
                     sums[ES_SUM_DISTANCE * STRIDE]);
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 2 * upper; i < 2 * upper + 2; i++)
            sum = fmaf(s[n][i], -(float)(8 * n + i % 2), sum);
    sums[ES_SUM_DISTANCE * STRIDE] = sum;
}

/**
 * Completes a lane's sums from ES_SUM_FIRST_MEAN on. On entry, distances refer
 * to the first key after the warp's last tile of keys, which is 16 * M keys
 * after the warp's first query; on return, to the query of the lane's row i.
 */
template <int M>
ES_DEVICE void es_step_end_means(float sums[ES_N_ROW_SUMS], int lane, int i)
{
    const int beyond = 16 * M - es_tile_sum_row(lane, 0) - 8 * i;
    sums[ES_SUM_DISTANCE] = fmaf(-(float)(beyond + es_tile_sum_column(lane, 0)),
                                 sums[ES_SUM_WEIGHT], sums[ES_SUM_DISTANCE]);
}

/* --- rows that are finite ------------------------------------------------- */

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
    const float sum = row->sums[ES_SUM_WEIGHT];
    const float moment = row->sums[ES_SUM_MOMENT];
    float divisor = sum + end->rest, inverse = end->saved.inverse;
    float log_divisor = log2f(divisor);
    float largest = (KIND::top(row->m) > 0 ? row->m : 0) * end->scale;
    float entropy = (sum * log_divisor - moment) * inverse;
    if (!KIND::SUMS_TO_ONE)
        entropy = sum == 0 ? sum * inverse : log2f(sum) - end->saved.center;
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
#pragma unroll
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        es_row_write(call, es_row_sum_statistic(s), at, row->sums[s] * inverse);
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

#endif
