/**
 * Tests the flag collapse: detection by the share of low heads, by comparison
 * with earlier samples, and over consecutive samples.
 */
#include "analyzer/heads/bands.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

/* Two layers of five heads with T = 128: the ceiling is 3.878. */
static const es_judge_run small = {.n_layers = 2, .n_heads = 5, .ctx = 128};
#define N_VALUES 10
#define HEALTHY 2.0F
#define LOW 0.1F /* below 0.05 ceiling = 0.194 */

static void fill(float *x, float value)
{
    for (size_t i = 0; i < N_VALUES; i++)
        x[i] = value;
}

/* Pushes an entropy sample in which `n` heads of layer 1 have `value`. */
static void push_some(es_judged *judged, int64_t step, size_t n, float value)
{
    float x[N_VALUES];
    fill(x, HEALTHY);
    for (size_t h = 0; h < n; h++)
        x[5 + h] = value;
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, step, x, N_VALUES);
}

/* Passes samples to a flag detector, 10 steps apart, one per letter: 'x'
   collapsed, '.' healthy, 'm' missing, 'n' NaN. */
static es_judged *judge_pattern(const char *pattern)
{
    es_judged *judged = es_judged_new(small, NULL);
    for (int i = 0; pattern[i]; i++) {
        float value = pattern[i] == 'x'   ? LOW
                      : pattern[i] == 'm' ? es_missing()
                      : pattern[i] == 'n' ? NAN
                                          : HEALTHY;
        push_some(judged, i * 10, 5, value);
    }
    es_judge_finish(judged->judge);
    return judged;
}

TEST(a_collapse_takes_three_samples_in_a_row)
{
    static const struct {
        const char *pattern;
        int64_t onset, last; /* -1: no collapse */
        bool stands;
    } cases[] = {
        {"x", 0, 0, true},        {".", -1, 0, false},
        {"xx", 0, 10, true},      {".x", -1, 0, false},
        {"x.", -1, 0, false},     {"xxx", 0, 20, true},
        {".xx", -1, 0, false},    {"xx.xx", -1, 0, false},
        {".xxx", 10, 30, true},   {".xxxx.", 10, 40, false},
        {"xxx.xx", 0, 20, false}, {"..xxx..xx", 20, 40, false},
        {"xxmx", 0, 30, true},    {"xxnx", 0, 10, false},
        {".xn", 10, 10, false},   {"xn", 0, 0, false},
        {"x.n", -1, 0, false},    {"nx", -1, 0, false},
        {"xmnx.", 0, 0, false},   {"xxxmmm", 0, 20, true},
        {"mx", -1, 0, false},     {"nnn", -1, 0, false},
        {"xxxn", 0, 20, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO(es_judged) judged = judge_pattern(cases[i].pattern);
        const es_judged_episode *collapse =
            es_judged_only(judged, ES_FLAG_COLLAPSE);
        if (cases[i].onset < 0)
            assert_null(collapse);
        else
            es_judged_span(collapse, cases[i].onset, cases[i].last,
                           cases[i].stands);
    }
}

/* At samples 4 and 5, n of the five layers are low; layer 0 is also low at
   samples 6 and 7. */
TEST(many_layers_low_twice_are_a_collapse)
{
    const es_judge_run run = {.n_layers = 5, .n_heads = 2, .ctx = 128};
    for (size_t n = 0; n <= 5; n++) {
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int i = 0; i < 10; i++) {
            float x[N_VALUES];
            fill(x, HEALTHY);
            for (size_t l = 0; l < 5; l++)
                if (l < n && i >= 4 && i < (l == 0 ? 8 : 6))
                    x[2 * l] = LOW;
            es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, x, N_VALUES);
            assert_int_equal(judged->n, n > 0 && i >= 8);
        }
        es_judge_finish(judged->judge);
        const es_judged_episode *collapse =
            es_judged_only(judged, ES_FLAG_COLLAPSE);
        if (n > 0) {
            es_judged_span(collapse, 4, 7, false);
            assert_string_equal(es_judged_list(collapse->layers, 5),
                                n < 3    ? "0"
                                : n == 3 ? "0 1 2"
                                : n == 4 ? "0 1 2 3"
                                         : "0 1 2 3 4");
        }
    }
}

/* A single sample with low entropies may come from one unusual batch and is not
 * a collapse, even if all layers are low in it. */
TEST(many_layers_low_once_are_no_collapse)
{
    const es_judge_run run = {.n_layers = 5, .n_heads = 2, .ctx = 128};
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    for (int i = 0; i < 10; i++)
        es_judged_push_all(judged, ES_JUDGE_ENTROPY, i, i % 3 ? HEALTHY : LOW);
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, 10, LOW);
    es_judge_finish(judged->judge);
    es_judged_span(es_judged_only(judged, ES_FLAG_COLLAPSE), 9, 10, true);
}

/* The heads are measured alternately. A head that is not measured keeps its
   last value. */
TEST(missing_heads_keep_their_last_value)
{
    const es_judge_run run = {.n_layers = 1, .n_heads = 3, .ctx = 128};
    const float absent = es_missing();
    for (int n_low = 0; n_low <= 3; n_low++) {
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int i = 0; i < 12; i++) {
            float x[3] = {HEALTHY, HEALTHY, HEALTHY};
            for (int h = 0; h < 3; h++)
                if (i > 2)
                    x[h] = h != i % 3 ? absent : h < n_low ? LOW : HEALTHY;
            es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, x, 3);
        }
        es_judge_finish(judged->judge);
        const es_judged_episode *collapse =
            es_judged_only(judged, ES_FLAG_COLLAPSE);
        if (n_low < 2)
            assert_null(collapse);
        else
            es_judged_span(collapse, 4, 11, true);
    }
}

TEST(a_collapse_names_layer_heads_and_share)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    push_some(judged, 7, 3, LOW);
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 7, 7, true);
    assert_int_equal(collapse->said.severity, ES_SEVERITY_CRITICAL);
    assert_string_equal(es_judged_list(collapse->layers, 2), "1");
    assert_string_equal(es_judged_list(collapse->heads, 10), "5 6 7");
    assert_true(fabs(collapse->said.value - 0.6) <= 1e-15);
    assert_true(collapse->said.threshold == 0.5);
}

/* Two of four heads are exactly half, which is enough for a collapse. */
TEST(a_share_at_its_edge_collapses)
{
    const es_judge_run run = {.n_layers = 1, .n_heads = 4, .ctx = 128};
    const float at = (float)(0.05 * es_ceiling(128));
    const float below = nextafterf(at, 0), above = nextafterf(at, 1);
    const struct {
        float x[4];
        bool collapses;
    } cases[] = {
        {{below, below, 2, 2}, true},
        {{below, above, 2, 2}, false},
        {{0.0F, -0.0F, 2, 2}, true},
        /* a head with NaN counts as a head of the layer, but not as a low
         * head */
        {{below, 2, NAN, NAN}, false},
        {{below, below, NAN, NAN}, true},
        {{below, 2, es_missing(), es_missing()}, true},
        {{NAN, NAN, NAN, NAN}, false},
        {{-INFINITY, -INFINITY, -INFINITY, 2}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, 1, cases[i].x, 4);
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_COLLAPSE),
                         cases[i].collapses);
    }
}

/* Layers collapse one after the other, which gives one episode from the first
   to the last collapse. */
TEST(a_collapse_spreads_over_layers)
{
    const es_judge_run run = {.n_layers = 3, .n_heads = 1, .ctx = 128};
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    for (int i = 0; i < 20; i++) {
        const float x[3] = {HEALTHY, i >= 9 && i < 15 ? LOW : HEALTHY,
                            i >= 4 && i < 12 ? LOW : HEALTHY};
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, x, 3);
    }
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 4, 14, false);
    assert_string_equal(es_judged_list(collapse->layers, 3), "1 2");
}

/* Layer 1 collapses first, but is measured so rarely that another layer is
   reported first. */
TEST(a_collapse_begins_with_the_first_layer)
{
    const es_judge_run run = {.n_layers = 2, .n_heads = 1, .ctx = 128};
    const float absent = es_missing();
    const float x[6][2] = {{HEALTHY, LOW}, {LOW, absent}, {LOW, absent},
                           {LOW, absent},  {LOW, LOW},    {LOW, LOW}};
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    for (int i = 0; i < 6; i++)
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, x[i], 2);
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 0, 5, true);
    assert_string_equal(es_judged_list(collapse->layers, 2), "0 1");
}

/* Heads that were low only before an episode began are not part of the
   episode. */
TEST(a_collapse_forgets_earlier_streaks)
{
    const es_judge_run run = {.n_layers = 1, .n_heads = 2, .ctx = 128};
    const float x[5][2] = {{LOW, HEALTHY},
                           {HEALTHY, HEALTHY},
                           {HEALTHY, LOW},
                           {HEALTHY, LOW},
                           {HEALTHY, LOW}};
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    for (int i = 0; i < 5; i++)
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, x[i], 2);
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 2, 4, true);
    assert_string_equal(es_judged_list(collapse->heads, 2), "1");
}

static void push_mean(es_judged *judged, int64_t step, float value)
{
    float x[N_VALUES];
    fill(x, HEALTHY);
    for (size_t h = 0; h < 5; h++)
        x[h] = value;
    es_judge_push(judged->judge, ES_JUDGE_ENTROPY, step, x, N_VALUES);
}

/* Without ctx the ceiling is unknown, so only the layer's own past can reveal
   the collapse. */
TEST(a_mean_below_its_median_collapses)
{
    es_judge_run run = small;
    run.ctx = 0;
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    for (int i = 0; i < 5; i++)
        push_mean(judged, i, 3.0F);
    /* The layer gets many more low samples than it had healthy samples
     * before. */
    for (int i = 5; i < 100; i++)
        push_mean(judged, i, 0.25F);
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 5, 99, true);
    assert_string_equal(es_judged_list(collapse->layers, 2), "0");
    assert_string_equal(es_judged_list(collapse->heads, 10), "0 1 2 3 4");
    assert_true(fabs(collapse->said.value - 0.25 / 3) <= 0.25 / 3 / 64);
    assert_true(collapse->said.threshold == 0.1);
    assert_int_equal(judged->n, 1);
}

TEST(history_begins_after_the_warm_up)
{
    for (int64_t planned = 0; planned <= 200; planned += 200) {
        es_judge_run run = small;
        run.planned_steps = planned;
        run.ctx = 0;
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int i = 0; i < 10; i++) /* 5 % of 200 */
            push_mean(judged, i, 3.8F);
        for (int i = 10; i < 20; i++)
            push_mean(judged, i, 0.3F);
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_COLLAPSE),
                         planned == 0);
    }
}

/* Compared with its past, a layer has collapsed if its mean entropy is below a
 * tenth of the median of at least three earlier means, or below a twentieth of
 * the highest earlier mean. */
TEST(history_needs_three_means)
{
    for (int n_before = 0; n_before <= 4; n_before++)
        for (int deep = 0; deep <= 1; deep++) {
            es_judge_run run = small;
            run.ctx = 0;
            AUTO(es_judged) judged = es_judged_new(run, NULL);
            for (int i = 0; i < n_before; i++)
                push_mean(judged, i, 3.0F);
            for (int i = 0; i < 3; i++)
                push_mean(judged, n_before + i, deep ? 0.14F : 0.2F);
            es_judge_finish(judged->judge);
            assert_int_equal(es_judged_count(judged, ES_FLAG_COLLAPSE),
                             n_before >= (deep ? 1 : 3));
        }
}

/* Detects the collapse from samples that contain only layer means, as in
   training logs that record no heads. */
TEST(means_of_layers_are_judged_by_history)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    for (int i = 0; i < 9; i++) {
        const float means[2] = {3.8F, i < 4 ? 2.0F : 0.01F};
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i, means, 2);
    }
    es_judge_finish(judged->judge);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    es_judged_span(collapse, 4, 8, true);
    assert_string_equal(es_judged_list(collapse->layers, 2), "1");
    assert_string_equal(es_judged_list(collapse->heads, 10), "");
    assert_int_equal(judged->n, 1); /* layer means alone cannot raise the flag
                                       overload, so collapse is the only flag */
}
