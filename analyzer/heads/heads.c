/* Provides the table of head statistics as arrays, and reduces a batch of rows
 * to heads on the host. The trainer's statistics.cu does the same on a device.
 */
#include "analyzer/heads/heads.h"

#include "analyzer/base/value.h"

#define LANES 4
#include "analyzer/base/vector.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

const char *const es_row_statistic_names[ES_N_ROW_STATISTICS] = {
#define ES_ROW_NAME(id, name) name,
    ES_ROW_STATISTICS(ES_ROW_NAME)
#undef ES_ROW_NAME
};

const es_head_statistic es_head_statistics[ES_N_HEAD_SERIES] = {
#define ES_HEAD_LINE(id, name, unit, row, reduction, amount, set, title)       \
    {name, unit, title, amount, ES_SERIES_##set},
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

/* --- rows of one sequence ------------------------------------------------- */

/* Four sums in double, one per lane, so that consecutive additions are
 * independent. The order of the additions depends only on the rows. Two vectors
 * of two lanes stay in registers. */
typedef double pair __attribute__((vector_size(16)));
typedef struct sums_of_lanes {
    pair low, high;
} sums_of_lanes;

static inline sums_of_lanes add_lanes(sums_of_lanes sums, vec x)
{
#if defined(__SSE2__)
    const __m128 upper = _mm_movehl_ps((__m128)x, (__m128)x);
    sums.low += (pair)_mm_cvtps_pd((__m128)x);
    sums.high += (pair)_mm_cvtps_pd(upper);
#else
    sums.low += (pair){(double)x[0], (double)x[1]};
    sums.high += (pair){(double)x[2], (double)x[3]};
#endif
    return sums;
}

static inline double sum_of_lanes(sums_of_lanes sums)
{
    return sums.low[0] + sums.low[1] + sums.high[0] + sums.high[1];
}

/* Loads up to LANES of n entropies; the unused lanes are NaN. */
static inline vec load_entropy(const float *entropy, int n)
{
    return n >= LANES ? load(entropy) : load_part(entropy, n, NAN);
}

static inline vec load_rows(const float *x, int n)
{
    return n >= LANES ? load(x) : load_part(x, n, 0);
}

static inline ivec are_finite(vec x)
{
    return (ivec)(x - x == splat(0));
}

/* Returns the number of true comparisons that were counted in `count`. A true
   comparison is -1, so each was counted by subtracting the comparison. */
static inline double total_of(ivec count)
{
    return count[0] + count[1] + count[2] + count[3];
}

static double count_finite(const float *entropy, int n)
{
    ivec count = {0};
    for (int i = 0; i < n; i += LANES)
        count -= are_finite(load_entropy(entropy + i, n - i));
    return total_of(count);
}

/* Returns the sum of x over the rows (n) whose entropy is finite. */
static double add_finite(const float *entropy, const float *x, int n)
{
    sums_of_lanes sums = {{0}, {0}};
    for (int i = 0; i < n; i += LANES) {
        const ivec takes = are_finite(load_entropy(entropy + i, n - i));
        const vec value = choose(takes, load_rows(x + i, n - i), splat(0));
        sums = add_lanes(sums, value);
    }
    return sum_of_lanes(sums);
}

/* Returns the sum of all values of x (n). Odd and even vectors have separate
   sums, so that consecutive additions are independent. */
static double add_all(const float *x, int n)
{
    sums_of_lanes even = {{0}, {0}}, odd = even;
    int i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        even = add_lanes(even, load(x + i));
        odd = add_lanes(odd, load(x + i + LANES));
    }
    for (; i < n; i += LANES)
        even = add_lanes(even, load_rows(x + i, n - i));
    return sum_of_lanes(even) + sum_of_lanes(odd);
}

static double count_sinks(const float *entropy, const float *sink, int n)
{
    const float least = (float)ES_SINK_THRESHOLD; /* the smallest float above
                                                     0.3 */
    ivec count = {0};
    for (int i = 0; i < n; i += LANES)
        count -= are_finite(load_entropy(entropy + i, n - i)) &
                 (ivec)(load_rows(sink + i, n - i) >= splat(least));
    return total_of(count);
}

/* Returns the largest value of x among rows whose entropy is finite, like
   fmax; NaN if there is no such row. */
static double find_largest(const float *entropy, const float *x, int n)
{
    vec largest = splat(NAN);
    for (int i = 0; i < n; i += LANES) {
        const vec value = load_rows(x + i, n - i);
        const ivec takes = are_finite(load_entropy(entropy + i, n - i)) &
                           ((value > largest) | (largest != largest));
        largest = choose(takes, value, largest);
    }
    float found = largest[0];
    for (int lane = 1; lane < LANES; lane++)
        found = fmaxf(found, largest[lane]);
    return (double)found;
}

/* Counts the missing rows, for example rows of padding. */
static double count_missing(const float *entropy, int n, double finite_rows)
{
    double count = 0;
    for (int i = 0; finite_rows < n && i < n; i++)
        count += es_is_missing(entropy[i]);
    return count;
}

/* Returns true for series that are computed from a sum over the finite rows,
   and that differ only in how the sum of one sequence (its share) is converted
   or is merged with other sequences. */
static bool is_sum_of_finite(es_head_series series)
{
    const es_head_reduction by = es_head_reduction_of(series);
    return by == ES_HEADS_MEAN || by == ES_HEADS_LOWEST_MEAN ||
           by == ES_HEADS_HIGHEST_MEAN;
}

/* Computes the partial result (share) of a series for one sequence, with the
 * same result as es_head_share_start and es_head_share_add. `entropy` and `x`
 * have n values; `x` is NULL if the statistic was not measured. */
static double add_sequence(const float *entropy, const float *x, int n,
                           es_head_series series, double finite_rows)
{
    if (is_sum_of_finite(series) && x && finite_rows < n)
        return add_finite(entropy, x, n);
    switch (es_head_reduction_of(series)) {
    case ES_HEADS_NOT_FINITE:
        return n - finite_rows - count_missing(entropy, n, finite_rows);
    case ES_HEADS_SINKS:
        return x ? count_sinks(entropy, x, n) : 0;
    case ES_HEADS_LARGEST:
        return x ? find_largest(entropy, x, n) : (double)NAN;
    default: /* series that sum over all rows, finite or not */
        return x ? add_all(x, n) : 0;
    }
}

void es_head_sums_add_rows(es_head_sums *sums,
                           const float *const rows[ES_N_ROW_STATISTICS],
                           int n_batch, int n_heads, int n_queries)
{
    for (int index = 0; index < n_batch * n_heads; index++) {
        const size_t first = (size_t)index * (size_t)n_queries;
        const float *entropy = rows[ES_ROW_ENTROPY] + first;
        es_head_sums sequence = {.finite_rows =
                                     count_finite(entropy, n_queries)};
        double share = 0;
        for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
            const es_head_series series = (es_head_series)i;
            const es_head_series before = (es_head_series)(i > 0 ? i - 1 : 0);
            const float *x = rows[es_head_row(series)];
            const bool is_known = i > 0 && is_sum_of_finite(series) &&
                                  is_sum_of_finite(before) &&
                                  es_head_row(series) == es_head_row(before);
            if (!is_known)
                share = add_sequence(entropy, x ? x + first : NULL, n_queries,
                                     series, sequence.finite_rows);
            sequence.values[i] =
                es_head_share_end(share, series, sequence.finite_rows);
        }
        es_head_sums_add(&sums[index % n_heads], &sequence);
    }
}
