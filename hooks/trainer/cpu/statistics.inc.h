/**
 * Computes the statistics of es_row_statistic for the rows of a tile of
 * attention, from the weights in the tile; part of attention.inc.h.
 */

/* Prepares the sums over a row's scores. The first score is subtracted from
 * each score, so that little precision is lost if all scores are far from 0.
 * Scores of PowerSoftmax, which may have any magnitude, are also divided by the
 * largest score. Called by sum_scores for PowerSoftmax, and by open_tile for
 * softmax. */
static inline vec open_scores(row_state *row, vec first, int power)
{
    row->shift = first;
    row->unit = power ? row->m : splat(1);
    row->apart = row->apart_squares = splat(0);
    return splat(1) / row->unit;
}

static void sum_scores(const float *tile, row_state *row, int n_full,
                       int n_keys, int half, int power)
{
    const vec factor = open_scores(row, load(tile + half * LANES), power);
    for (int j = 0; j < n_keys; j++) {
        vec x = (load(tile + j * ROWS + half * LANES) - row->shift) * factor;
        if (j >= n_full)
            x = choose(visible(j - n_full, half), x, splat(0));
        row->apart += x;
        row->apart_squares += x * x;
    }
}

/* Returns the mean score; `each` is the inverse of the number of keys. */
static inline vec logit_mean(const row_state *row, vec each)
{
    return row->shift + row->unit * (row->apart * each);
}

static inline vec logit_variance(const row_state *row, vec each)
{
    const vec mean = row->apart * each, square = row->apart_squares * each;
    return row->unit * (row->unit * larger(splat(0), square - mean * mean));
}

static void store_row(const es_cpu_head *head, es_row_statistic statistic,
                      int first, vec values, int n)
{
    if (head->rows[statistic])
        store_part(head->rows[statistic] + first, values, n);
}

/* --- means over the weights ------------------------------------------------
 */

/* Returns true if a statistic that is a mean over the weights is requested. */
static bool wants_means(const es_cpu_head *head)
{
    bool wants = false;
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        wants = wants || head->rows[es_row_sum_statistic(s)];
    return wants;
}

/* Adds a key of a causal head to the sums from ES_SUM_FIRST_MEAN on. `before`
 * is the sum of the previous keys' unnormalised weights u. Adding it at each
 * key j yields the sum of u * (i - j), where i is the query. */
static KNOWN void add_means(vec sums[ES_N_ROW_SUMS], vec before)
{
    sums[ES_SUM_DISTANCE] += before;
}

/* Computes the sums that add_means accumulates, for all t + 1 keys of a row at
 * once, with one row in each lane. `weight` holds the unnormalised weights u.
 * Returns the largest u of each row. */
static vec sum_lane_means(vec sums[ES_N_ROW_SUMS], const float *weight, int t)
{
    vec top = splat(0), distance = splat(0), away = splat((float)t);
    for (int j = 0; j <= t; j++) {
        const vec u = load(weight + (ptrdiff_t)j * LANES);
        top = larger(top, u);
        distance += u * away;
        away -= splat(1);
    }
    sums[ES_SUM_DISTANCE] = distance;
    return top;
}

/* Computes the sum of u * |i - j| over the keys j for an encoder's head, whose
 * query i sees keys on both sides. */
static vec sum_distances(const es_cpu_head *head, const float *tile, int first,
                         int n_keys, int n)
{
    vec from = splat(0), distance = splat(0);
    for (int i = 0; i < LANES && i < n; i++)
        from[i] = head->place[first + i];
    for (int j = 0; j < n_keys; j++) {
        const vec away = from - splat(head->place[j]);
        distance += load(tile + j * ROWS) * larger(away, -away);
    }
    return distance;
}

/* Returns the largest unnormalised weight u of each row. For softmax, the
 * largest score has u = exp(0) = 1. */
static vec largest_weight(const float *tile, int n_keys, int power)
{
    vec top = splat(power == 0);
    for (int j = 0; power && j < n_keys; j++)
        top = larger(top, load(tile + j * ROWS));
    return top;
}

/* Stores the statistics that need a pass over the individual weights; `inverse`
 * is 1 / D, where D is the divisor of the weights. */
static void measure_keys(const es_cpu_head *head, const float *tile,
                         const row_state *row, vec inverse, int first,
                         int n_keys, int n)
{
    vec sums[ES_N_ROW_SUMS];
    memcpy(sums, row->sums, sizeof sums);
    if (head->rows[ES_ROW_DISTANCE] && head->place)
        sums[ES_SUM_DISTANCE] = sum_distances(head, tile, first, n_keys, n);
    for (int s = ES_SUM_FIRST_MEAN; s < ES_N_ROW_SUMS; s++)
        store_row(head, es_row_sum_statistic(s), first, sums[s] * inverse, n);
    if (head->rows[ES_ROW_TOP])
        store_row(head, ES_ROW_TOP, first,
                  largest_weight(tile, n_keys, head->power) * inverse, n);
}

/* Returns the entropy of each row in nats; `logarithm` is ln D and `inverse` is
 * 1 / D, where D is the divisor of the weights. */
static inline vec row_entropy(const row_state *row, vec logarithm, vec inverse,
                              int power)
{
    const vec sum = row->sums[ES_SUM_WEIGHT];
    const vec moment = row->sums[ES_SUM_MOMENT];
    if (power == 0)
        return logarithm - moment * inverse;
    return choose(sum == splat(0), sum / row->divisor,
                  vec_log(sum) - moment / sum);
}

/* Stores the mean and the variance of each row's scores, and returns the
 * variances. */
static vec measure_scores(const es_cpu_head *head, const row_state *row,
                          int first, int n)
{
    const vec each = splat(1) / count_visible(head, first);
    const vec variance = logit_variance(row, each);
    store_row(head, ES_ROW_LOGIT_MEAN, first, logit_mean(row, each), n);
    store_row(head, ES_ROW_LOGIT_VARIANCE, first, variance, n);
    return variance;
}

static bool is_huge(const es_cpu_head *head, int i)
{
    const float *variance = head->rows[ES_ROW_LOGIT_VARIANCE];
    return variance && !head->power && !isfinite(variance[i]);
}

/* Stores the statistics of up to LANES queries of the tile, first .. end - 1. A
 * row with non-finite results is recomputed directly from the formulas. */
static void measure_rows(const es_cpu_head *head, const float *tile,
                         const row_state *row, int first, int n_keys, int end)
{
    const int n = end - first < LANES ? end - first : LANES;
    const vec logarithm = vec_log(row->divisor);
    const vec inverse = splat(1) / row->divisor;
    const vec entropy = row_entropy(row, logarithm, inverse, head->power);
    if (n <= 0)
        return;
    store_row(head, ES_ROW_ENTROPY, first, entropy, n);
    store_row(head, ES_ROW_LSE, first, row->largest + logarithm, n);
    store_row(head, ES_ROW_MAX_LOGIT, first, row->largest, n);
    store_row(head, ES_ROW_SINK, first, load(tile) * inverse, n);
    store_row(head, ES_ROW_NONFINITE, first, splat(0), n);
    store_row(head, ES_ROW_MISSING, first, row->rest * inverse, n);
    measure_keys(head, tile, row, inverse, first, n_keys, n);
    vec odd = spot_nonfinite(spot_nonfinite(splat(0), entropy), row->largest);
    if (head->rows[ES_ROW_LOGIT_MEAN])
        odd = spot_nonfinite(odd, measure_scores(head, row, first, n));
    for (int i = first; !is_zero(odd) && i < first + n; i++)
        if (!isfinite(entropy[i - first]) ||
            !isfinite(row->largest[i - first]) || is_huge(head, i))
            es_cpu_measure_row(head, i);
}
