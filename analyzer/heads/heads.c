/* The table of head statistics as arrays, and the reduction of a batch of rows
 * on the host; statistics.cu of the trainer does the same on a device. */
#include "analyzer/heads/heads.h"

#include <string.h>

const char *const es_row_statistic_names[ES_N_ROW_STATISTICS] = {
#define ES_ROW_NAME(id, name) name,
    ES_ROW_STATISTICS(ES_ROW_NAME)
#undef ES_ROW_NAME
};

const es_head_statistic es_head_statistics[ES_N_HEAD_SERIES] = {
#define ES_HEAD_LINE(id, name, unit, row, reduction, amount, title)            \
    {name, unit, title, amount},
    ES_HEAD_STATISTICS(ES_HEAD_LINE)
#undef ES_HEAD_LINE
};

const es_head_statistic *es_head_statistic_find(const char *name)
{
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (strcmp(name, es_head_statistics[i].name) == 0)
            return &es_head_statistics[i];
    return NULL;
}

static inline double add_rows(const float *entropy, const float *x, int n,
                              es_head_series series)
{
    const double absent = es_head_share_start(series);
    double share = absent;
    for (int i = 0; i < n; i++)
        share = es_head_share_add(share, series, isfinite(entropy[i]) != 0,
                                  x ? (double)x[i] : absent);
    return share;
}

/* One sequence's share of a series: entropy and x (n), NULL where there is
 * none. A loop for each series, so that nothing is decided row by row. */
static double add_sequence(const float *entropy, const float *x, int n,
                           es_head_series series)
{
    switch (series) {
#define ES_HEAD_LOOP(id, name, unit, row, reduction, amount, title)            \
    case ES_HEAD_##id:                                                         \
        return add_rows(entropy, x, n, ES_HEAD_##id);
        ES_HEAD_STATISTICS(ES_HEAD_LOOP)
#undef ES_HEAD_LOOP
    case ES_N_HEAD_SERIES:
        break;
    }
    return 0;
}

void es_head_sums_add_rows(es_head_sums *sums,
                           const float *const rows[ES_N_ROW_STATISTICS],
                           int n_batch, int n_heads, int n_queries)
{
    for (int index = 0; index < n_batch * n_heads; index++) {
        const size_t first = (size_t)index * (size_t)n_queries;
        const float *entropy = rows[ES_ROW_ENTROPY] + first;
        es_head_sums sequence = {0};
        for (int i = 0; i < n_queries; i++)
            sequence.finite_rows += isfinite(entropy[i]) ? 1 : 0;
        for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
            const es_head_series series = (es_head_series)i;
            const float *x = rows[es_head_row(series)];
            sequence.values[i] = es_head_share_end(
                add_sequence(entropy, x ? x + first : NULL, n_queries, series),
                series, sequence.finite_rows);
        }
        es_head_sums_add(&sums[index % n_heads], &sequence);
    }
}
