/* From rows to heads, for callers of the library: the reductions are those of
   analyzer/heads, which the trainer's series have, too. */
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy.h"
#include "analyzer/heads/heads.h"

/** The statistic of one row; of an output that there is not, what changes no
 *  reduction. */
static double value_at(const es_rows *rows, es_head_series series,
                       size_t position)
{
    switch (es_head_row(series)) {
    case ES_ROW_ENTROPY:
        return (double)rows->entropy[position];
    case ES_ROW_MAX_LOGIT:
        return rows->max_logit ? (double)rows->max_logit[position]
                               : (double)NAN;
    case ES_ROW_SINK:
        return rows->sink ? (double)rows->sink[position] : 0;
    case ES_ROW_NONFINITE:
        return rows->nonfinite ? rows->nonfinite[position] : 0;
    default:
        return 0;
    }
}

static void add_sequence(es_head_sums *sums, const es_rows *rows, size_t first,
                         int n_queries)
{
    es_head_sums sequence = {.finite_rows = 0};
    for (int s = 0; s < ES_N_HEAD_SERIES; s++)
        sequence.values[s] = es_head_share_start((es_head_series)s);
    for (size_t i = first; i < first + (size_t)n_queries; i++) {
        const bool finite = isfinite(rows->entropy[i]);
        if (es_is_missing(rows->entropy[i]))
            continue;
        sequence.finite_rows += finite;
        for (int s = 0; s < ES_N_HEAD_SERIES; s++) {
            const es_head_series series = (es_head_series)s;
            sequence.values[s] = es_head_share_add(
                sequence.values[s], series, finite, value_at(rows, series, i));
        }
    }
    for (int s = 0; s < ES_N_HEAD_SERIES; s++)
        sequence.values[s] = es_head_share_end(
            sequence.values[s], (es_head_series)s, sequence.finite_rows);
    es_head_sums_add(sums, &sequence);
}

void es_rows_reduce(es_head_stats *out, const es_rows *rows, int n_batch,
                    int n_heads, int n_queries)
{
    for (int h = 0; h < n_heads; h++) {
        es_head_sums sums = es_head_sums_start();
        for (int b = 0; b < n_batch; b++) {
            const size_t head = (size_t)b * (size_t)n_heads + (size_t)h;
            add_sequence(&sums, rows, head * (size_t)n_queries, n_queries);
        }
        out[h] = (es_head_stats){
            .entropy = es_head_value(&sums, ES_HEAD_ENTROPY),
            .entropy_min = es_head_value(&sums, ES_HEAD_ENTROPY_MIN),
            .entropy_max = es_head_value(&sums, ES_HEAD_ENTROPY_MAX),
            .max_logit = es_head_value(&sums, ES_HEAD_MAX_LOGIT),
            .sink = rows->sink ? es_head_value(&sums, ES_HEAD_SINK) : NAN,
            .nonfinite_rows =
                (int64_t)es_head_value(&sums, ES_HEAD_NONFINITE_ROWS),
            .nonfinite_weights =
                (int64_t)es_head_value(&sums, ES_HEAD_NONFINITE_WEIGHTS)};
    }
}
