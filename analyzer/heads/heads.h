/**
 * Lists the statistics of attention rows and of heads, and defines how rows are
 * reduced to heads. No other code repeats the list or the reductions; other
 * modules use the enumerators, names, units, arrays and loops of this header.
 * README.md explains how to add a statistic.
 *
 * C code and device kernels can include this header.
 */
#ifndef ES_HEADS_H
#define ES_HEADS_H

#include "analyzer/arch/arch.h"

#include <math.h>
#include <stdbool.h>

#ifdef __CUDACC__
#define ES_HEADS_FUNCTION static __host__ __device__ __forceinline__
#else
#define ES_HEADS_FUNCTION static inline
#endif

/**
 * Returns true if the weights of a row add up to 1. Softmax divides by the sum
 * of its weights, PowerSoftmax by a larger number (so the sum is below 1), and
 * scaled ReLU by the length of the row.
 */
ES_HEADS_FUNCTION bool es_weights_sum_to_one(es_attention_kind kind)
{
    return kind == ES_SOFTMAX;
}

/** Returns true if the row's scores have a log-sum-exp. */
ES_HEADS_FUNCTION bool es_attention_has_lse(es_attention_kind kind)
{
    return kind == ES_SOFTMAX;
}

/**
 * Statistics of a row, float32 (B,H,T) each. All except NONFINITE are NaN if a
 * score or weight of the row is not finite.
 *
 *   ENTROPY    -sum a ln a over the weights a, nats; if the weights add up to
 *              less than 1, the entropy of a / sum a, so MISSING has no
 *              influence; 0 if all weights are 0
 *   LSE        log-sum-exp of the scores, if the attention has one
 *   MAX_LOGIT  largest score after scaling; PowerSoftmax: largest |score|
 *   SINK       weight on key 0; of an encoder, on the first visible key
 *   NONFINITE  number of weights that are not finite
 *   MISSING    1 - sum of the weights, for kinds where the sum need not be 1;
 *              negative for scaled ReLU if the sum is above 1
 *   DISTANCE   sum a |i - j| over the keys j of query i, in tokens
 *   TOP        largest weight
 *   LOGIT_MEAN      mean of the scores after scaling
 *   LOGIT_VARIANCE  mean squared difference of the scores from LOGIT_MEAN; 0
 *                   for a single key
 *
 * X(identifier, name)
 */
#define ES_ROW_STATISTICS(X)                                                   \
    X(ENTROPY, "entropy")                                                      \
    X(LSE, "lse")                                                              \
    X(MAX_LOGIT, "max_logit")                                                  \
    X(SINK, "sink")                                                            \
    X(NONFINITE, "nonfinite")                                                  \
    X(MISSING, "missing")                                                      \
    X(DISTANCE, "distance")                                                    \
    X(TOP, "top")                                                              \
    X(LOGIT_MEAN, "logit_mean")                                                \
    X(LOGIT_VARIANCE, "logit_variance")

typedef enum es_row_statistic {
#define ES_ROW_ENUMERATOR(id, name) ES_ROW_##id,
    ES_ROW_STATISTICS(ES_ROW_ENUMERATOR)
#undef ES_ROW_ENUMERATOR
        ES_N_ROW_STATISTICS
} es_row_statistic;

extern const char *const es_row_statistic_names[ES_N_ROW_STATISTICS];

/** Returns true if rows of this kind of attention have the statistic. */
ES_HEADS_FUNCTION bool es_row_statistic_exists(es_row_statistic statistic,
                                               es_attention_kind kind)
{
    return statistic == ES_ROW_LSE       ? es_attention_has_lse(kind)
           : statistic == ES_ROW_MISSING ? !es_weights_sum_to_one(kind)
                                         : true;
}

/**
 * Returns true for statistics that are computed from a row's scores instead of
 * its weights. Not every back-end computes these statistics.
 */
ES_HEADS_FUNCTION bool es_row_statistic_is_of_scores(es_row_statistic statistic)
{
    return statistic == ES_ROW_LOGIT_MEAN || statistic == ES_ROW_LOGIT_VARIANCE;
}

/**
 * Sums over the keys of a row, which kernels accumulate while they process the
 * keys; u is a weight before its division by the sum of all weights.
 *
 *   WEIGHT    sum u
 *   MOMENT    sum u ln u; kernels may use another base
 *   DISTANCE  sum u |i - j|
 *
 * Each sum from FIRST_MEAN on, divided by the sum of the weights, is a
 * statistic.
 */
typedef enum es_row_sum {
    ES_SUM_WEIGHT,
    ES_SUM_MOMENT,
    ES_SUM_FIRST_MEAN,
    ES_SUM_DISTANCE = ES_SUM_FIRST_MEAN,
    ES_N_ROW_SUMS
} es_row_sum;

/**
 * Returns the row statistic that results when the sum with number `sum`, which
 * must be ES_SUM_FIRST_MEAN or above, is divided by the sum of the weights.
 */
ES_HEADS_FUNCTION es_row_statistic es_row_sum_statistic(int sum)
{
    return sum == ES_SUM_DISTANCE ? ES_ROW_DISTANCE : ES_N_ROW_STATISTICS;
}

/** Sets of recorded series. Each set includes the sets before it. */
typedef enum es_series_set {
    ES_SERIES_CORE,
    ES_SERIES_STANDARD,
    ES_SERIES_ALL,
    ES_N_SERIES_SETS
} es_series_set;

/** A row has a sink if its weight on key 0 exceeds this threshold. */
#define ES_SINK_THRESHOLD 0.3

/**
 * Ways to reduce the rows of a head to one number. A row is finite if its
 * entropy is finite; the first five reductions skip rows that are not finite.
 */
typedef enum es_head_reduction {
    ES_HEADS_MEAN,
    ES_HEADS_SINKS,        /* share of rows whose weight on key 0 exceeds
                              ES_SINK_THRESHOLD */
    ES_HEADS_LOWEST_MEAN,  /* smallest of the sequences' means over their
                              rows */
    ES_HEADS_HIGHEST_MEAN, /* largest of the sequences' means over their rows */
    ES_HEADS_LARGEST,
    ES_HEADS_SUM,       /* sum over all rows, including non-finite rows */
    ES_HEADS_NOT_FINITE /* number of non-finite rows */
} es_head_reduction;

/**
 * Series of heads, in the order in which they are recorded.
 *
 * X(identifier, name, unit, row statistic, reduction, true if colour scales
 * begin at 0, the smallest set that includes the series, title for display)
 */
#define ES_HEAD_STATISTICS(X)                                                  \
    X(ENTROPY, "entropy", "nats", ENTROPY, MEAN, true, CORE, "entropy")        \
    X(ENTROPY_MIN, "entropy_min", "nats", ENTROPY, LOWEST_MEAN, true, CORE,    \
      "lowest entropy")                                                        \
    X(ENTROPY_MAX, "entropy_max", "nats", ENTROPY, HIGHEST_MEAN, true, CORE,   \
      "highest entropy")                                                       \
    X(NONFINITE_ROWS, "nonfinite_rows", "rows", ENTROPY, NOT_FINITE, true,     \
      CORE, "non-finite rows")                                                 \
    X(NONFINITE_WEIGHTS, "nonfinite_weights", "weights", NONFINITE, SUM, true, \
      CORE, "non-finite weights")                                              \
    X(MAX_LOGIT, "max_logit", "", MAX_LOGIT, LARGEST, false, CORE,             \
      "max logit")                                                             \
    X(SINK, "sink", "", SINK, MEAN, true, CORE, "sink")                        \
    X(MISSING_MASS, "missing_mass", "", MISSING, MEAN, true, CORE,             \
      "missing mass")                                                          \
    X(DISTANCE, "distance", "tokens", DISTANCE, MEAN, true, CORE,              \
      "mean distance")                                                         \
    X(TOP, "top", "", TOP, MEAN, true, CORE, "largest weight")                 \
    X(LSE, "lse", "", LSE, MEAN, false, STANDARD, "log-sum-exp")               \
    X(LOGIT_MEAN, "logit_mean", "", LOGIT_MEAN, MEAN, false, STANDARD,         \
      "mean logit")                                                            \
    X(LOGIT_VARIANCE, "logit_variance", "", LOGIT_VARIANCE, MEAN, true,        \
      STANDARD, "variance of logits")                                          \
    X(SINK_RATE, "sink_rate", "", SINK, SINKS, true, STANDARD, "sink rate")

typedef enum es_head_series {
#define ES_HEAD_ENUMERATOR(id, name, unit, row, reduction, amount, set, title) \
    ES_HEAD_##id,
    ES_HEAD_STATISTICS(ES_HEAD_ENUMERATOR)
#undef ES_HEAD_ENUMERATOR
        ES_N_HEAD_SERIES
} es_head_series;

/** A row of the table of head statistics. */
typedef struct es_head_statistic {
    const char *name, *unit, *title;
    bool is_amount; /* true if 0 means absence, so colour scales begin at 0 */
    es_series_set set;
} es_head_statistic;

extern const es_head_statistic es_head_statistics[ES_N_HEAD_SERIES];

/**
 * Returns the series of heads called `name`; NULL if there is none with this
 * name.
 */
const es_head_statistic *es_head_statistic_find(const char *name);

/* The following functions are switches and not arrays, because a device cannot
 * read arrays of the host. Compilers remove the switches when they unroll loops
 * over the series. */

ES_HEADS_FUNCTION es_row_statistic es_head_row(es_head_series series)
{
    switch (series) {
#define ES_HEAD_ROW(id, name, unit, row, reduction, amount, set, title)        \
    case ES_HEAD_##id:                                                         \
        return ES_ROW_##row;
        ES_HEAD_STATISTICS(ES_HEAD_ROW)
#undef ES_HEAD_ROW
    case ES_N_HEAD_SERIES:
        break;
    }
    return ES_N_ROW_STATISTICS;
}

ES_HEADS_FUNCTION es_head_reduction es_head_reduction_of(es_head_series series)
{
    switch (series) {
#define ES_HEAD_REDUCTION(id, name, unit, row, reduction, amount, set, title)  \
    case ES_HEAD_##id:                                                         \
        return ES_HEADS_##reduction;
        ES_HEAD_STATISTICS(ES_HEAD_REDUCTION)
#undef ES_HEAD_REDUCTION
    case ES_N_HEAD_SERIES:
        break;
    }
    return ES_HEADS_SUM;
}

ES_HEADS_FUNCTION bool es_head_series_exists(es_head_series series,
                                             es_attention_kind kind)
{
    return es_row_statistic_exists(es_head_row(series), kind);
}

/* --- reduction of rows to heads ------------------------------------------- */

/**
 * Sums of one head over the rows of one or more sequences, all in double.
 * Back-ends store them in their own memory as 8-byte words.
 */
typedef struct es_head_sums {
    double finite_rows;
    /* Partial results of the series: sums or, for series of extremes, the
     * extreme so far, which is NaN before the first row. */
    double values[ES_N_HEAD_SERIES];
} es_head_sums;

/** Returns the sums of a head before any row has been added. */
ES_HEADS_FUNCTION es_head_sums es_head_sums_start(void)
{
    es_head_sums sums;
    sums.finite_rows = 0;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
        const es_head_reduction by = es_head_reduction_of((es_head_series)i);
        sums.values[i] = by == ES_HEADS_LARGEST || by == ES_HEADS_LOWEST_MEAN ||
                                 by == ES_HEADS_HIGHEST_MEAN
                             ? (double)NAN
                             : 0;
    }
    return sums;
}

/**
 * The partial result of a series for one sequence, called its share. The
 * functions return the initial share, the share after adding a row whose
 * statistic is x, and the final share at the end of the sequence.
 */
ES_HEADS_FUNCTION double es_head_share_start(es_head_series series)
{
    return es_head_reduction_of(series) == ES_HEADS_LARGEST ? (double)NAN : 0;
}

ES_HEADS_FUNCTION double es_head_share_add(double share, es_head_series series,
                                           bool row_is_finite, double x)
{
    switch (es_head_reduction_of(series)) {
    case ES_HEADS_SUM:
        return share + x;
    case ES_HEADS_NOT_FINITE:
        return share + (row_is_finite ? 0 : 1);
    case ES_HEADS_SINKS:
        return share + (row_is_finite && x > ES_SINK_THRESHOLD ? 1 : 0);
    case ES_HEADS_LARGEST: /* fmax ignores a NaN operand */
        return row_is_finite ? fmax(share, x) : share;
    default:
        return row_is_finite ? share + x : share;
    }
}

/** Merges the shares (see es_head_share_start) of two parts of the same
 *  sequence. */
ES_HEADS_FUNCTION double es_head_share_merge(double a, double b,
                                             es_head_series series)
{
    return es_head_reduction_of(series) == ES_HEADS_LARGEST ? fmax(a, b)
                                                            : a + b;
}

ES_HEADS_FUNCTION double es_head_share_end(double share, es_head_series series,
                                           double finite_rows)
{
    const es_head_reduction by = es_head_reduction_of(series);
    if (by != ES_HEADS_LOWEST_MEAN && by != ES_HEADS_HIGHEST_MEAN)
        return share;
    return finite_rows > 0 ? share / finite_rows : (double)NAN;
}

/**
 * Combines two values of a series that come from different sequences or passes.
 */
ES_HEADS_FUNCTION double es_head_value_add(double a, double b,
                                           es_head_series series)
{
    switch (es_head_reduction_of(series)) {
    case ES_HEADS_LOWEST_MEAN:
        return fmin(a, b);
    case ES_HEADS_HIGHEST_MEAN:
    case ES_HEADS_LARGEST:
        return fmax(a, b);
    default:
        return a + b;
    }
}

ES_HEADS_FUNCTION void es_head_sums_add(es_head_sums *sums,
                                        const es_head_sums *more)
{
    sums->finite_rows += more->finite_rows;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        sums->values[i] = es_head_value_add(sums->values[i], more->values[i],
                                            (es_head_series)i);
}

/**
 * Returns the value of a series over all added rows; NaN if none of the rows
 * was finite.
 */
ES_HEADS_FUNCTION double es_head_value(const es_head_sums *sums,
                                       es_head_series series)
{
    const es_head_reduction by = es_head_reduction_of(series);
    if (by != ES_HEADS_MEAN && by != ES_HEADS_SINKS)
        return sums->values[series];
    return sums->finite_rows > 0 ? sums->values[series] / sums->finite_rows
                                 : (double)NAN;
}

/**
 * Adds the rows of all heads of a batch to the sums.
 *
 *   sums  (H)
 *   rows  indexed by es_row_statistic, (B,H,T) each; entropies are required. If
 *         the pointer to a statistic is NULL, sums treat its values as 0 and
 *         extremes ignore them. A row whose entropy is es_missing() is skipped.
 */
void es_head_sums_add_rows(es_head_sums *sums,
                           const float *const rows[ES_N_ROW_STATISTICS],
                           int n_batch, int n_heads, int n_queries);

#endif
