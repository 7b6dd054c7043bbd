/** Defines the kinds of attention as policies. The kernels are templates with a
 *  parameter KIND, a policy which contains everything in which softmax and
 *  PowerSoftmax differ. */
#ifndef ES_CUDA_ATTENTION_KINDS_H
#define ES_CUDA_ATTENTION_KINDS_H

extern "C" {
#include "analyzer/heads/heads.h"
}
#include "hooks/trainer/cuda/kernel.h"

#include <float.h>
#include <math.h>

#define ES_LOG2_E 1.44269504088896f

/** Lower bound for PowerSoftmax's largest score, so that its inverse is
 *  finite. */
#define ES_TINY_SCORE 1e-30f
/** Base-2 logarithm of the largest unnormalised weight that the tensor-core
 *  kernels accept. Weights are relative to a reference score of the row, its
 *  anchor; for a larger weight the kernels move the anchor and rescale the
 *  row's sums. */
#define ES_SLACK 8.0f
/** Upper bound for `rest`, the part of a row's denominator that is not the sum
 *  of the weights u. If `rest` reaches the bound, all weights become 0, but
 *  `rest`, its inverse and its products with logarithms are still finite. */
#define ES_LARGE_REST 1e30f

/** es_exp2 returns 2^x and es_log2 returns log2 x. The accuracy is that of
 *  float32 or, if FAST is true, that of the device's instruction. */
template <bool FAST>
ES_DEVICE float es_exp2(float x)
{
    return FAST ? es_fast_exp2(x) : exp2f(x);
}
template <bool FAST>
ES_DEVICE float es_log2(float x)
{
    return FAST ? __log2f(x) : log2f(x);
}

/** Returns x^n for even n >= 0. */
ES_DEVICE float es_raise(float x, int n)
{
    float y = 1, square = x * x;
    for (int rest = n / 2; rest > 0; rest /= 2) {
        if (rest % 2)
            y *= square;
        square *= square;
    }
    return y;
}

/** Quantities computed from one score: the unnormalised weight u, log2 u, and
 *  `slope`, the derivative of u with respect to the raw score, without the
 *  factor that is the same for the whole row. */
typedef struct es_weight {
    float u, log, slope;
} es_weight;

/** One thread's state of a row. The row's largest score, m, is valid for the
 *  whole row, but the sums only cover the keys that the thread has
 *  processed. */
typedef struct es_row {
    float m;
    float largest; /* largest score of the row, if m is the largest absolute
                    * score */
    float sums[ES_N_ROW_SUMS]; /* one sum for each es_row_sum; logarithms are to
                                * base 2 */
} es_row;

/** Multiplies the row's sums by `factor` = 2^shift. Also adds `shift` to the
 *  logarithms that ES_SUM_MOMENT contains. */
template <bool MEASURE>
ES_DEVICE void es_row_scale(es_row *row, float shift, float factor)
{
    float *const sums = row->sums;
    if (MEASURE)
        sums[ES_SUM_MOMENT] =
            fmaf(sums[ES_SUM_WEIGHT], shift, sums[ES_SUM_MOMENT]) * factor;
#pragma unroll
    for (int s = ES_SUM_FIRST_MEAN; MEASURE && s < ES_N_ROW_SUMS; s++)
        sums[s] *= factor;
    sums[ES_SUM_WEIGHT] *= factor;
}

/* Each kind has the following members. u is the weight of a score before the
 * division by the row's denominator D, `anchor` is the score to which u is
 * relative, scale2 is the factor that turns raw scores into logarithms to base
 * 2, and m is defined in attention.h:
 *
 *   SUMS_TO_ONE     es_weights_sum_to_one: true if D is exactly the sum of u
 *   BY_SIZE         true if m is the largest absolute score, false if m is the
 *                   largest score
 *   least           returns the m of a row without any score
 *   top             returns the u of the score m
 *   anchor_of       returns the anchor that belongs to m
 *   weigh           returns the weight of a raw score; the anchor has u = 1
 *   rescale         returns the factor by which u must be multiplied if m grows
 *                   to `larger`; sets *shift to the factor's logarithm
 *   rest            returns the part of D that is not a sum of u
 *   factor          returns the factor by which the gradient of scaled scores
 *                   must be multiplied to give the gradient of raw scores
 *   scale2_of       converts a result of `factor` to weigh's parameter scale2
 *
 * On tensor cores, the anchor may be less than m:
 *
 *   lowest_anchor   returns the first anchor of a row; any score above -inf
 *                   exceeds it
 *   has_outgrown    returns true if `largest` must become the anchor
 *   move            moves the anchor; returns the factor by which the caller
 *                   must multiply the row's sums and outputs
 *   settle          at the end of a row, makes the sums relative to the largest
 *                   score; returns the same kind of factor as `move`
 *   weigh_again     recomputes a weight in the backward pass: a = u / D if
 *                   weights sum to one, so that the weight of a row with one
 *                   key is exactly 1; otherwise u
 *   whole           multiplies a result of weigh_again by 1 / D if the result
 *                   is u */

struct es_softmax {
    enum { SUMS_TO_ONE = true, BY_SIZE = false };

    static ES_DEVICE float least(void)
    {
        return -INFINITY;
    }

    static ES_DEVICE float top(float)
    {
        return 1;
    }

    /* If all scores of a row so far are -inf, the anchor is 0, so the weights
     * are 0. */
    static ES_DEVICE float anchor_of(float m)
    {
        return m == -INFINITY ? 0 : m;
    }

    template <bool FAST>
    static ES_DEVICE es_weight weigh(float raw, float anchor, float scale2, int)
    {
        es_weight w;
        w.log = (raw - anchor) * scale2;
        w.slope = w.u = es_exp2<FAST>(w.log);
        return w;
    }

    template <bool MEASURE, bool FAST>
    static ES_DEVICE float rescale(float *shift, float m, float larger,
                                   float scale2, int)
    {
        *shift = m == -INFINITY ? 0 : (m - larger) * scale2;
        return es_exp2<FAST>(*shift);
    }

    static ES_DEVICE float rest(float, float, float, int)
    {
        return 0;
    }

    static ES_DEVICE float factor(float, float scale, int)
    {
        return scale;
    }

    static ES_DEVICE float scale2_of(float factor)
    {
        return factor * ES_LOG2_E;
    }

    static ES_DEVICE float lowest_anchor(void)
    {
        return -FLT_MAX;
    }

    static ES_DEVICE bool has_outgrown(float largest, float anchor,
                                       float scale2)
    {
        return (largest - anchor) * scale2 > ES_SLACK;
    }

    template <bool MEASURE>
    static ES_DEVICE float move(es_row *row, float *anchor, float largest,
                                float scale2, int)
    {
        /* Without the lower bound of -1e30, a shift of -inf times a sum of 0
         * would be NaN. */
        const float shift = fmaxf((*anchor - largest) * scale2, -1e30f);
        const float factor = es_fast_exp2(shift);
        *anchor = largest;
        es_row_scale<MEASURE>(row, shift, factor);
        return factor;
    }

    static ES_DEVICE float settle(es_row *row, float anchor, float scale2)
    {
        const float shift = (anchor - row->largest) * scale2;
        const float factor = exp2f(shift);
        row->m = row->largest;
        es_row_scale<true>(row, shift, factor);
        return factor;
    }

    static ES_DEVICE es_weight weigh_again(float raw, float anchor,
                                           float scale2, float log_inverse, int)
    {
        es_weight w;
        w.log = fmaf(raw - anchor, scale2, log_inverse);
        w.slope = w.u = es_fast_exp2(w.log);
        return w;
    }

    static ES_DEVICE float whole(float x, float)
    {
        return x;
    }
};

struct es_power_softmax {
    enum { SUMS_TO_ONE = false, BY_SIZE = true };

    static ES_DEVICE float least(void)
    {
        return ES_TINY_SCORE;
    }

    /* Returns the weight u of the row's largest score m: 1, or 0 if no score
     * exceeds least(); then all weights of the row are 0. */
    static ES_DEVICE float top(float m)
    {
        return m > ES_TINY_SCORE ? 1 : 0;
    }

    static ES_DEVICE float anchor_of(float m)
    {
        return 1 / fmaxf(m, ES_TINY_SCORE);
    }

    /* If a power underflows to u = 0, a finite number is returned as its
     * logarithm, so that u * log2 u is 0. */
    template <bool FAST>
    static ES_DEVICE es_weight weigh(float raw, float anchor, float, int power)
    {
        es_weight w;
        const float x = raw * anchor;
        w.slope = es_raise(x, power - 2) * x;
        w.u = w.slope * x;
        w.log = es_log2<FAST>(fmaxf(w.u, FLT_MIN));
        return w;
    }

    template <bool MEASURE, bool FAST>
    static ES_DEVICE float rescale(float *shift, float m, float larger, float,
                                   int power)
    {
        const float ratio = m / larger;
        if (MEASURE)
            *shift = (float)power * es_log2<FAST>(fmaxf(ratio, FLT_MIN));
        return es_raise(ratio, power);
    }

    static ES_DEVICE float rest(float m, float scale, float epsilon, int power)
    {
        const float floor = fmaxf(m, ES_TINY_SCORE);
        if (!(epsilon > 0))
            return 0;
        return fminf(
            ES_LARGE_REST,
            epsilon * es_raise((m * scale + 1e-6f) / (floor * scale), power));
    }

    static ES_DEVICE float factor(float m, float, int power)
    {
        return (float)power / m;
    }

    static ES_DEVICE float scale2_of(float)
    {
        return 0;
    }

    static ES_DEVICE float lowest_anchor(void)
    {
        return 1 / ES_TINY_SCORE;
    }

    static ES_DEVICE bool has_outgrown(float largest, float anchor, float)
    {
        return largest * anchor > 1;
    }

    template <bool MEASURE>
    static ES_DEVICE float move(es_row *row, float *anchor, float largest,
                                float scale2, int power)
    {
        const float larger = fmaxf(row->m, largest);
        float shift = 0;
        const float factor =
            rescale<MEASURE, true>(&shift, row->m, larger, scale2, power);
        *anchor = anchor_of(largest);
        es_row_scale<MEASURE>(row, shift, factor);
        row->m = larger;
        return factor;
    }

    static ES_DEVICE float settle(es_row *, float, float)
    {
        return 1;
    }

    static ES_DEVICE es_weight weigh_again(float raw, float anchor, float,
                                           float, int power)
    {
        return weigh<true>(raw, anchor, 0, power);
    }

    static ES_DEVICE float whole(float x, float inverse)
    {
        return x * inverse;
    }
};

#endif
