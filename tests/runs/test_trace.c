/* Tests that curves over any number of steps are reduced to few points, in
 * constant memory. */
#include "cli/runs/trace.h"
#include "tests/support/test.h"

/* Properties of a curve, computed from its points. */
typedef struct seen {
    float low, high;
    size_t n_finite, n_broken, n;
    int64_t first, last; /* steps */
} seen;

static seen look(const es_trace *trace, size_t line)
{
    const size_t n = es_trace_n_points(trace);
    seen out = {.low = INFINITY, .high = -INFINITY, .n = n};
    int64_t *steps = malloc((n + 1) * sizeof *steps);
    float *values = malloc((n + 1) * sizeof *values);
    assert_true(steps && values);
    steps[n] = -7;
    values[n] = -7;
    es_trace_steps(trace, steps);
    es_trace_line(trace, line, values);
    assert_true(steps[n] == -7 && values[n] == -7);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || steps[i] > steps[i - 1]);
        if (isfinite(values[i])) {
            out.n_finite++;
            out.low = fminf(out.low, values[i]);
            out.high = fmaxf(out.high, values[i]);
        }
        out.n_broken += isnan(values[i]) && !es_is_missing(values[i]);
    }
    out.first = steps[0];
    out.last = steps[n - 1];
    free(steps);
    free(values);
    return out;
}

TEST(a_short_line_is_kept_whole)
{
    es_trace *trace = NULL;
    const float pushed[3][2] = {
        {1, es_missing()}, {NAN, 2.5f}, {-INFINITY, -0.5f}};
    const int64_t steps[3] = {5, 6, 900};
    int64_t got_steps[3];
    float got[3];
    assert_int_equal(es_trace_new(&trace, 2), ES_OK);
    assert_int_equal(es_trace_n_points(trace), 0);
    for (int i = 0; i < 3; i++)
        es_trace_push(trace, steps[i], pushed[i]);
    assert_int_equal(es_trace_n_points(trace), 3);
    es_trace_steps(trace, got_steps);
    assert_memory_equal(got_steps, steps, sizeof steps);
    for (size_t line = 0; line < 2; line++) {
        es_trace_line(trace, line, got);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(&got[i], &pushed[i][line], sizeof got[i]);
    }
    es_trace_free(trace);
}

/* A single dip, peak or NaN among many steps must remain, wherever the run
   ends. */
TEST(a_long_line_keeps_its_extremes)
{
    const int lengths[] = {ES_TRACE_MOST,         ES_TRACE_MOST + 1,
                           ES_TRACE_MOST + 2,     ES_TRACE_MOST + 3,
                           4 * ES_TRACE_MOST + 1, 300001};
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        es_trace *trace = NULL;
        int n = lengths[k];
        assert_int_equal(es_trace_new(&trace, 3), ES_OK);
        for (int i = 0; i < n; i++) {
            float values[3] = {2, i == 77 ? NAN : 3, es_missing()};
            if (i == 4001)
                values[0] = -1;
            if (i == n - 1)
                values[0] = 9;
            es_trace_push(trace, 10 * (int64_t)i, values);
        }
        seen a = look(trace, 0);
        assert_true(a.low == -1 && a.high == 9 && a.n_broken == 0);
        assert_true(a.first == 0 && a.last == 10 * (int64_t)(n - 1));
        assert_true(a.n <= 3 * (size_t)ES_TRACE_MOST && a.n_finite > 4000);
        seen b = look(trace, 1);
        assert_true(b.low == 3 && b.high == 3);
        assert_int_equal(b.n_broken, 1);
        seen c = look(trace, 2);
        assert_true(c.n_finite == 0 && c.n_broken == 0);
        es_trace_free(trace);
    }
}

TEST(many_lines_have_fewer_points)
{
    enum { L = 4096, N = 5000 };
    es_trace *trace = NULL;
    static float values[L];
    assert_int_equal(es_trace_new(&trace, L), ES_OK);
    for (int i = 0; i < N; i++) {
        for (int l = 0; l < L; l++)
            values[l] = (float)(l + i % 2);
        es_trace_push(trace, i, values);
    }
    seen a = look(trace, L - 1);
    assert_true(a.n <= 3 * ES_TRACE_LEAST);
    assert_true(a.low == L - 1 && a.high == L);
    es_trace_free(trace);
}

/* A smaller limit on the number of points must give fewer points, but keep all
 * extremes. */
TEST(a_limit_of_points_is_respected)
{
    for (size_t most = 0; most < 40; most += 7) {
        es_trace *trace = NULL;
        assert_int_equal(es_trace_new_within(&trace, 2, most), ES_OK);
        for (int64_t step = 0; step < 1000; step++) {
            float values[2] = {1 + (float)step / 1000, 2};
            if (step == 617)
                values[0] = -3.5f;
            if (step == 423)
                values[1] = NAN;
            es_trace_push(trace, step, values);
        }
        seen one = look(trace, 0);
        seen two = look(trace, 1);
        assert_true(one.n <= 3 * (most < 8 ? 8 : most));
        assert_true(one.low == -3.5f && one.high == 1 + 999.0f / 1000);
        assert_true(two.n_broken == 1 && two.low == 2 && two.high == 2);
        assert_true(one.first == 0 && one.last == 999);
        es_trace_free(trace);
    }
}
