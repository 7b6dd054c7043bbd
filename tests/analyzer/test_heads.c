/* Compares the fast reduction of rows to heads with a simple reduction that
 * applies the definition in heads.h row by row. Covers sequences of every
 * length, non-finite rows and absent statistics. */
#include "analyzer/heads/heads.h"
#include "tests/support/arrays.h"
#include "tests/support/test.h"

#include <math.h>

enum { B = 3, H = 2 };

/* Reduces rows to heads by the definition in heads.h, one row after the
 * other. */
static es_head_sums reduce(const float *const rows[ES_N_ROW_STATISTICS],
                           size_t first, int n)
{
    const float *entropy = rows[ES_ROW_ENTROPY] + first;
    es_head_sums out = {.finite_rows = 0};
    for (int i = 0; i < n; i++)
        out.finite_rows += isfinite(entropy[i]) ? 1 : 0;
    for (int s = 0; s < ES_N_HEAD_SERIES; s++) {
        const es_head_series series = (es_head_series)s;
        const float *x = rows[es_head_row(series)];
        const double absent = es_head_share_start(series);
        double share = absent;
        for (int i = 0; i < n; i++)
            share =
                es_head_share_add(share, series, isfinite(entropy[i]) != 0,
                                  x ? (double)x[first + (size_t)i] : absent);
        out.values[s] = es_head_share_end(share, series, out.finite_rows);
    }
    return out;
}

static void expect(const float *const rows[ES_N_ROW_STATISTICS], int n)
{
    es_head_sums got[H], want[H];
    for (int h = 0; h < H; h++)
        got[h] = want[h] = es_head_sums_start();
    es_head_sums_add_rows(got, rows, B, H, n);
    for (int i = 0; i < B * H; i++) {
        const es_head_sums more = reduce(rows, (size_t)i * (size_t)n, n);
        es_head_sums_add(&want[i % H], &more);
    }
    for (int h = 0; h < H; h++) {
        assert_true(got[h].finite_rows == want[h].finite_rows);
        for (int s = 0; s < ES_N_HEAD_SERIES; s++)
            /* The two sums add the same numbers, fewer than 300, in different
             * orders, so they may differ by rounding. */
            if (got[h].values[s] != want[h].values[s] &&
                !near(got[h].values[s], want[h].values[s],
                      1e-12 * fmax(1, fabs(want[h].values[s]))))
                fail_msg("%s of head %d, %d rows: %.17g, expected %.17g",
                         es_head_statistics[s].name, h, n, got[h].values[s],
                         want[h].values[s]);
    }
}

static void draw(float *rows[ES_N_ROW_STATISTICS], int n)
{
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        rows[i] = array((size_t)(B * H * n), 3);
}

TEST(rows_of_every_length_agree_with_the_definition)
{
    float *rows[ES_N_ROW_STATISTICS];
    for (int n = 1; n <= 35; n++) {
        draw(rows, n);
        expect((const float *const *)rows, n);
        es_test_release();
    }
}

/* Puts a non-finite row into every statistic, at every position of a SIMD
   vector and of the rows that remain after the last full vector. */
TEST(each_series_reduces_a_non_finite_row_as_defined)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    enum { N = 11 };
    for (int statistic = 0; statistic < ES_N_ROW_STATISTICS; statistic++)
        for (int kind = 0; kind < 3; kind++)
            for (int at = 0; at < N; at++) {
                float *rows[ES_N_ROW_STATISTICS];
                draw(rows, N);
                rows[statistic][N + at] = bad[kind];
                expect((const float *const *)rows, N);
                es_test_release();
            }
}

/* Values that must be skipped are large, so that a test fails if they are used.
 */
TEST(sequences_without_finite_rows_have_no_extremes)
{
    enum { N = 6 };
    float *rows[ES_N_ROW_STATISTICS];
    draw(rows, N);
    for (int i = 0; i < N; i++)
        for (int b = 0; b < B; b++) {
            rows[ES_ROW_ENTROPY][(b * H + 1) * N + i] = NAN;
            rows[ES_ROW_MAX_LOGIT][(b * H + 1) * N + i] = 1e30f;
        }
    expect((const float *const *)rows, N);
    es_head_sums sums[H] = {es_head_sums_start(), es_head_sums_start()};
    es_head_sums_add_rows(sums, (const float *const *)rows, B, H, N);
    assert_true(sums[1].finite_rows == 0);
    assert_true(isnan(es_head_value(&sums[1], ES_HEAD_ENTROPY)));
    assert_true(isnan(es_head_value(&sums[1], ES_HEAD_ENTROPY_MIN)));
    assert_true(isnan(es_head_value(&sums[1], ES_HEAD_MAX_LOGIT)));
    assert_true(sums[1].values[ES_HEAD_NONFINITE_ROWS] == B * N);
    assert_true(isfinite(es_head_value(&sums[0], ES_HEAD_MAX_LOGIT)));
}

TEST(absent_statistics_are_ignored)
{
    float *rows[ES_N_ROW_STATISTICS];
    for (int absent = 0; absent < ES_N_ROW_STATISTICS; absent++) {
        if (absent == ES_ROW_ENTROPY)
            continue;
        draw(rows, 9);
        rows[absent] = NULL;
        expect((const float *const *)rows, 9);
        es_test_release();
    }
}

/* Sums are computed in double. In float32 the small values would be lost. */
TEST(small_rows_are_not_lost_next_to_a_large_one)
{
    enum { N = 40 };
    float *rows[ES_N_ROW_STATISTICS];
    draw(rows, N);
    rows[ES_ROW_SINK][3] = 0x1p28f;
    expect((const float *const *)rows, N);
}
