/**
 * What is known of attention rows, and of the heads that they belong to: the
 * one list of these statistics, and the one place where rows become heads.
 * Enumerators, names, units, arrays and loops of all other modules come from
 * here; README.md says how to add a statistic.
 *
 * For C, and for kernels of a device.
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

/** Softmax divides by the sum of its weights; PowerSoftmax by more than that,
 *  so that mass is missing; scaled ReLU by a length. */
ES_HEADS_FUNCTION bool es_weights_sum_to_one(es_attention_kind kind)
{
    return kind == ES_SOFTMAX;
}

/** Is there a log-sum-exp of the row's scores? */
ES_HEADS_FUNCTION bool es_attention_has_lse(es_attention_kind kind)
{
    return kind == ES_SOFTMAX;
}

/**
 * Statistics of a row, float32 (B,H,T) each; NaN in a row that holds a score
 * or a weight that is not finite, but for NONFINITE.
 *
 *   ENTROPY    -sum a ln a of its weights a, nats; of weights that sum to less
 *              than 1 that of a / sum a, MISSING apart; 0 if all are 0
 *   LSE        log-sum-exp of its scores; where there is one
 *   MAX_LOGIT  largest score after scaling; PowerSoftmax: largest |score|
 *   SINK       weight on key 0
 *   NONFINITE  weights that are not finite, a count
 *   MISSING    1 - sum of the weights; where that need not be 0; of scaled ReLU
 *              below 0 where they sum to more
 *   DISTANCE   sum a (i - j) over its keys j, i its query: tokens
 *   TOP        largest weight
 *   LOGIT_MEAN      mean of the scores of its keys, after scaling
 *   LOGIT_VARIANCE  mean square of their distances to that: 0 of one key
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

/** Do rows of this kind of attention have it? */
ES_HEADS_FUNCTION bool es_row_statistic_exists(es_row_statistic statistic,
                                               es_attention_kind kind)
{
    return statistic == ES_ROW_LSE       ? es_attention_has_lse(kind)
           : statistic == ES_ROW_MISSING ? !es_weights_sum_to_one(kind)
                                         : true;
}

/** Statistics that are taken from the scores before they become weights: not
 *  every back-end does. */
ES_HEADS_FUNCTION bool es_row_statistic_is_of_scores(es_row_statistic statistic)
{
    return statistic == ES_ROW_LOGIT_MEAN || statistic == ES_ROW_LOGIT_VARIANCE;
}

/** How much is recorded: each set has those before it. */
typedef enum es_series_set {
    ES_SERIES_CORE,
    ES_SERIES_STANDARD,
    ES_SERIES_ALL,
    ES_N_SERIES_SETS
} es_series_set;

/** Weight on key 0 from which on a row has a sink. */
#define ES_SINK_THRESHOLD 0.3

/** How rows become one number of their head. A row is finite if its entropy
 *  is; the first five pass over those that are not. */
typedef enum es_head_reduction {
    ES_HEADS_MEAN,
    ES_HEADS_SINKS,        /* share of the rows above ES_SINK_THRESHOLD */
    ES_HEADS_LOWEST_MEAN,  /* of the means of each sequence's rows */
    ES_HEADS_HIGHEST_MEAN, /* likewise */
    ES_HEADS_LARGEST,
    ES_HEADS_SUM,       /* of every row */
    ES_HEADS_NOT_FINITE /* number of rows */
} es_head_reduction;

/**
 * Series of heads, in the order in which they are recorded.
 *
 * X(identifier, name, unit, statistic of rows, reduction, does its scale begin
 *   at 0, the first set that has it, title for people)
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

/** A line of the table. */
typedef struct es_head_statistic {
    const char *name, *unit, *title;
    bool is_amount; /* 0 is nothing: scales begin there */
    es_series_set set;
} es_head_statistic;

extern const es_head_statistic es_head_statistics[ES_N_HEAD_SERIES];

/** By name; NULL: no series of heads that rows are reduced to. */
const es_head_statistic *es_head_statistic_find(const char *name);

/* Switches rather than arrays: a device has no arrays of the host, and loops
 * that are unrolled keep nothing of them. */

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

/* --- from rows to heads -----------------------------------------------------
 */

/** Of one head, over the rows of one sequence or of many. All in double; kept
 *  in memory of a back-end, in words of 8 bytes. */
typedef struct es_head_sums {
    double finite_rows;
    double values[ES_N_HEAD_SERIES]; /* sums; of extremes NaN until the first */
} es_head_sums;

/** What nothing has been added to. */
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

/** One sequence's share of a series: what it begins with, how it goes on with
 *  each row, x being the row's statistic, and how it ends. */
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
    case ES_HEADS_LARGEST: /* fmax passes over a NaN */
        return row_is_finite ? fmax(share, x) : share;
    default:
        return row_is_finite ? share + x : share;
    }
}

/** Two shares of one sequence's rows as one. */
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

/** Two values of a series as one: of sequences, or of passes. */
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

/** The series' value over all that was added; NaN where nothing finite was. */
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
 * Adds the rows of all heads of a batch.
 *
 *   sums  (H)
 *   rows  by es_row_statistic, (B,H,T) each; the entropies are needed, what is
 *         NULL counts as 0, or is passed over by extremes. A row whose
 *         entropy is es_missing() is none.
 */
void es_head_sums_add_rows(es_head_sums *sums,
                           const float *const rows[ES_N_ROW_STATISTICS],
                           int n_batch, int n_heads, int n_queries);

#endif
