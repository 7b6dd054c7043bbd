/* Reduces statistics of rows to statistics of heads for callers of the library,
   with the reductions of analyzer/heads that the trainer uses for its series.
 */
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy_internal.h"

es_row_arrays es_rows_from(const es_row_arrays *rows, size_t position)
{
    es_row_arrays out = *rows;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (out.floats[i])
            out.floats[i] += position;
    if (out.nonfinite)
        out.nonfinite += position;
    return out;
}

/**
 * Reduces one statistic of the rows. It is inlined, so that each series has a
 * separate loop. If the statistic has no array, the result is the initial
 * value.
 */
static inline double add_rows(const float *entropy, const float *x,
                              const int32_t *counts, size_t n,
                              es_head_series series)
{
    const double absent = es_head_share_start(series);
    double share = absent;
    for (size_t i = 0; i < n; i++)
        if (!es_is_missing(entropy[i]))
            share = es_head_share_add(share, series, isfinite(entropy[i]) != 0,
                                      counts ? (double)counts[i]
                                      : x    ? (double)x[i]
                                             : absent);
    return share;
}

static double share_of(const es_row_arrays *rows, size_t n,
                       es_head_series series)
{
    const float *entropy = rows->floats[ES_ROW_ENTROPY];
    const es_row_statistic row = es_head_row(series);
    const int32_t *counts = row == ES_ROW_NONFINITE ? rows->nonfinite : NULL;
    if (!rows->floats[row] && !counts)
        return es_head_share_start(series);
    switch (series) {
#define SERIES_LOOP(id, name, unit, row, reduction, amount, set, title)        \
    case ES_HEAD_##id:                                                         \
        return add_rows(entropy, rows->floats[ES_ROW_##row], counts, n,        \
                        ES_HEAD_##id);
        ES_HEAD_STATISTICS(SERIES_LOOP)
#undef SERIES_LOOP
    case ES_N_HEAD_SERIES:
        break;
    }
    return 0;
}

es_head_sums es_rows_share(const es_row_arrays *rows, size_t n)
{
    es_head_sums out = {0};
    for (size_t i = 0; i < n; i++)
        out.finite_rows += isfinite(rows->floats[ES_ROW_ENTROPY][i]) ? 1 : 0;
    /* The struct es_heads contains only the core series. */
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (i != ES_HEAD_ENTROPY_MIN && i != ES_HEAD_ENTROPY_MAX &&
            es_head_statistics[i].set == ES_SERIES_CORE)
            out.values[i] = share_of(rows, n, (es_head_series)i);
    /* The smallest and largest mean are determined later, over the sequences.
     * For a single sequence, as here, both equal the mean. */
    out.values[ES_HEAD_ENTROPY_MIN] = out.values[ES_HEAD_ENTROPY];
    out.values[ES_HEAD_ENTROPY_MAX] = out.values[ES_HEAD_ENTROPY];
    return out;
}

void es_heads_add(es_head_sums *sums, const es_head_sums *sequence)
{
    es_head_sums ended = *sequence;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        ended.values[i] = es_head_share_end(ended.values[i], (es_head_series)i,
                                            ended.finite_rows);
    es_head_sums_add(sums, &ended);
}

void es_heads_store(const es_head_arrays *heads, int head,
                    const es_head_sums *sums)
{
    const double odd = sums->values[ES_HEAD_NONFINITE_ROWS];
    const bool unseen = sums->finite_rows + odd == 0;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (heads->floats[i])
            heads->floats[i][head] =
                unseen ? es_missing()
                       : (float)es_head_value(sums, (es_head_series)i);
    if (heads->finite_rows)
        heads->finite_rows[head] = (int64_t)sums->finite_rows;
    if (heads->nonfinite_rows)
        heads->nonfinite_rows[head] = (int64_t)odd;
    if (heads->nonfinite_weights)
        heads->nonfinite_weights[head] =
            (int64_t)sums->values[ES_HEAD_NONFINITE_WEIGHTS];
}

/** Sets the statistics of head h for which `rows` has no array to missing. */
static void store_unknown(const es_head_arrays *heads,
                          const es_row_arrays *rows, int h)
{
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (heads->floats[i] && !rows->floats[es_head_row((es_head_series)i)])
            heads->floats[i][h] = es_missing();
}

void es_heads_reduce(const es_head_arrays *heads, const es_row_arrays *rows,
                     int n_batch, int n_heads, int n_queries)
{
    for (int h = 0; h < n_heads; h++) {
        es_head_sums sums = es_head_sums_start();
        for (int b = 0; b < n_batch; b++) {
            const size_t head = (size_t)b * (size_t)n_heads + (size_t)h;
            const es_row_arrays part =
                es_rows_from(rows, head * (size_t)n_queries);
            const es_head_sums share = es_rows_share(&part, (size_t)n_queries);
            es_heads_add(&sums, &share);
        }
        es_heads_store(heads, h, &sums);
        store_unknown(heads, rows, h);
    }
}
