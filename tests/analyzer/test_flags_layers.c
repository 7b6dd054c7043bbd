/**
 * Tests ceilings of single heads and runs of unknown length. Heads that see
 * fewer keys than others are judged by their own ceilings. A training run of
 * unknown length is too short to judge before 1000 steps.
 */
#include "analyzer/base/value.h"
#include "analyzer/flags/flags.h"
#include "analyzer/heads/bands.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

enum { L = 3, H = 2, N = L * H };

/* The ceilings of a run in which layers 0 and 1 see only a window of keys (2
   nats) and layer 2 sees all keys (4.5 nats). */
static const double of_windows[N] = {2, 2, 2, 2, 4.5, 4.5};
static const es_judge_run windows = {
    .n_layers = L, .n_heads = H, .ctx = 256, .ceilings = of_windows};

/* Judges n_samples samples that are `apart` steps apart. The entropy of each
   head is the given share of the head's own ceiling. */
static es_judged *judge(es_judge_run run, const float *shares, int n_samples,
                        int64_t apart)
{
    const size_t n = (size_t)run.n_layers * (size_t)run.n_heads;
    float x[N];
    es_judged *judged = es_judged_new(run, NULL);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(shares[i] * es_judge_run_ceiling_of(&run, i));
    for (int i = 0; i < n_samples; i++)
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i * apart, x, n);
    es_judge_finish(judged->judge);
    return judged;
}

TEST(windows_full_of_uniform_heads_are_an_overload)
{
    const float shares[N] = {1, 1, 1, 1, 0.5F, 0.5F};
    AUTO(es_judged) judged = judge(windows, shares, 20, 100);
    const es_judged_episode *overload =
        es_judged_only(judged, ES_FLAG_OVERLOAD);
    assert_non_null(overload);
    assert_int_equal(overload->said.severity, ES_SEVERITY_ERROR);
    assert_true(near(overload->said.value, 4 / 6.0, 1e-12));
    assert_string_equal(es_judged_list(overload->layers, L), "0 1");
    assert_string_equal(es_judged_list(overload->heads, N), "0 1 2 3");
    /* Compared with a single ceiling for the whole run, the same heads are
     * healthy. */
    es_judge_run one = windows;
    one.ceilings = NULL;
    one.ceiling = 4.5;
    const float low[N] = {2 / 4.5F, 2 / 4.5F, 2 / 4.5F, 2 / 4.5F, 0.5F, 0.5F};
    AUTO(es_judged) before = judge(one, low, 20, 100);
    assert_int_equal(before->n, 0);
}

/* The heads of layer 0 have an entropy of 0.08 times their ceiling of 2 nats.
 * This is healthy, although it is less than 0.05 times 4.5 nats, the ceiling of
 * layer 2. */
TEST(healthy_windows_are_no_collapse)
{
    const float shares[N] = {0.08F, 0.08F, 0.3F, 0.5F, 0.5F, 0.5F};
    AUTO(es_judged) judged = judge(windows, shares, 20, 100);
    assert_int_equal(judged->n, 0);
}

TEST(a_window_collapses_by_its_own_ceiling)
{
    const float shares[N] = {0.5F, 0.5F, 0.04F, 0.5F, 0.5F, 0.5F};
    AUTO(es_judged) judged = judge(windows, shares, 5, 100);
    const es_judged_episode *collapse =
        es_judged_only(judged, ES_FLAG_COLLAPSE);
    assert_non_null(collapse);
    assert_string_equal(es_judged_list(collapse->layers, L), "1");
    assert_string_equal(es_judged_list(collapse->heads, N), "2");
}

TEST(heads_of_a_layer_may_differ)
{
    static const double ceilings[] = {1, 4};
    const es_judge_run run = {
        .n_layers = 1, .n_heads = 2, .ctx = 256, .ceilings = ceilings};
    const float shares[] = {0.9F, 0.3F};
    AUTO(es_judged) judged = judge(run, shares, 20, 100);
    const es_judged_episode *overload =
        es_judged_only(judged, ES_FLAG_OVERLOAD);
    assert_non_null(overload);
    assert_string_equal(es_judged_list(overload->heads, 2), "0");
}

/* In a layer with a single head, the mean equals the head's entropy. */
TEST(one_head_has_a_ceiling_too)
{
    static const double ceilings[] = {1, 4};
    const es_judge_run run = {
        .n_layers = 2, .n_heads = 1, .ctx = 256, .ceilings = ceilings};
    const float shares[] = {0.9F, 0.3F};
    AUTO(es_judged) judged = judge(run, shares, 20, 100);
    const es_judged_episode *overload =
        es_judged_only(judged, ES_FLAG_OVERLOAD);
    assert_non_null(overload);
    assert_string_equal(es_judged_list(overload->layers, 2), "0");
}

/* If all heads have the same ceiling, the results have the same bits as with a
 * single ceiling for the run. */
TEST(equal_ceilings_change_nothing)
{
    const double all = es_ceiling(128);
    const double ceilings[N] = {all, NAN, all, all, NAN, all};
    const es_judge_run without = {.n_layers = L, .n_heads = H, .ctx = 128};
    es_judge_run with = without;
    with.ceilings = ceilings;
    const float x[N] = {0.1F, NAN, 3.87F, es_missing(), -1, INFINITY};
    float out[N];
    es_judge_run_scale(out, &with, x, N);
    assert_memory_equal(out, x, sizeof x);
    es_judge_run_scale(out, &without, x, N);
    assert_memory_equal(out, x, sizeof x);
    assert_true(es_judge_run_ceiling(&with) == all);
}

TEST(a_head_of_unknown_ceiling_has_that_of_the_run)
{
    const double ceilings[N] = {1, 1, NAN, 0, 2, 3};
    es_judge_run run = {.n_layers = L,
                        .n_heads = H,
                        .ctx = 128,
                        .ceiling = 6,
                        .ceilings = ceilings};
    const float x[N] = {0.5F, NAN, 3, 0, es_missing(), 1.5F};
    float out[N], means[L] = {0.5F, 3, 1.25F};
    assert_true(es_judge_run_ceiling(&run) == 3);
    assert_true(es_judge_run_ceiling_of(&run, 2) == 6);
    assert_true(es_judge_run_layer_ceiling(&run, 2) == 2.5);
    es_judge_run_scale(out, &run, x, N);
    assert_true(out[0] == 1.5F && isnan(out[1]) && !es_is_missing(out[1]));
    assert_true(out[2] == 1.5F && es_is_missing(out[3]));
    assert_true(es_is_missing(out[4]) && out[5] == 1.5F);
    es_judge_run_scale(means, &run, means, L);
    assert_true(means[0] == 1.5F && means[1] == 3 && means[2] == 1.5F);
    run.ceiling = NAN;
    run.ctx = 0; /* without ctx, the largest known ceiling is used */
    assert_true(es_judge_run_ceiling_of(&run, 2) == 3);
}

/* A head that sees only one key has the ceiling 0, and counts as neither low
   nor high. */
TEST(a_ceiling_of_zero_is_not_judged)
{
    static const double ceilings[N] = {0, 0, 2, 2, 4, 4};
    es_judge_run run = windows;
    run.ceilings = ceilings;
    const float shares[N] = {0, 0, 0.5F, 0.5F, 0.5F, 0.5F};
    AUTO(es_judged) judged = judge(run, shares, 20, 100);
    assert_int_equal(judged->n, 0);
}

TEST(a_rule_knows_the_ceilings)
{
    es_rule rule = es_rule_on("entropy", ES_RULE_HEAD, ES_RULE_AT_LEAST, 0.9);
    rule.reference = ES_RULE_CEILING;
    const float x[N] = {1.9F, 1, 1, 1, 1.9F, 3};
    es_ruled *ruled = es_ruled_new(windows, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 0, x, N);
    es_rules_finish(ruled->rules);
    assert_int_equal(ruled->n, 1);
    assert_string_equal(es_judged_list(ruled->episodes[0].heads, N), "0");
    es_ruled_free(ruled);
}

/* --- runs of unknown length -----------------------------------------------*/

TEST(an_unknown_length_is_judged_by_the_steps_taken)
{
    static const struct {
        int64_t planned;
        bool is_open_ended;
        int64_t last;
        es_severity severity;
    } cases[] = {
        {0, true, 19, ES_SEVERITY_INFO},   {0, true, 998, ES_SEVERITY_INFO},
        {0, true, 999, ES_SEVERITY_ERROR}, {0, false, 19, ES_SEVERITY_ERROR},
        {20, true, 19, ES_SEVERITY_ERROR}, /* the first sample is not near the
                                              ceiling */
    };
    const float shares[N] = {0.9F, 0.9F, 0.9F, 0.9F, 0.9F, 0.9F};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_judge_run run = windows;
        run.planned_steps = cases[i].planned;
        run.is_open_ended = cases[i].is_open_ended;
        AUTO(es_judged) judged = judge(run, shares, (int)cases[i].last + 1, 1);
        const es_judged_episode *overload =
            es_judged_only(judged, ES_FLAG_OVERLOAD);
        assert_non_null(overload);
        assert_int_equal(overload->said.severity, cases[i].severity);
    }
}

/* Samples of the loss also count for the number of steps that the run has
   taken, because heads may be recorded rarely. */
TEST(the_newest_step_of_any_series_counts)
{
    es_judge_run run = windows;
    run.is_open_ended = true;
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    const float loss = 3;
    for (int64_t step = 0; step < 950; step += 50) {
        const float x[N] = {2, 2, 2, 2, 4.5F, 4.5F};
        es_judge_push(judged->judge, ES_JUDGE_ENTROPY, step, x, N);
    }
    es_judge_push(judged->judge, ES_JUDGE_LOSS, 999, &loss, 1);
    es_judge_finish(judged->judge);
    assert_int_equal(es_judged_only(judged, ES_FLAG_OVERLOAD)->said.severity,
                     ES_SEVERITY_ERROR);
}

/* Heads fall below a tenth of their layer's median, but stay high relative to
   the ceiling. This is no collapse, because heads come down fast early in
   training, and the length of the warm-up is unknown. */
TEST(a_run_of_unknown_length_is_not_judged_by_history_early)
{
    for (int64_t apart = 1; apart <= 100; apart *= 100) {
        es_judge_run run = {
            .n_layers = 1, .n_heads = 1, .ctx = 256, .is_open_ended = true};
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int64_t i = 0; i < 20; i++) {
            const float x = i < 10 ? 3.2F : 0.3F;
            es_judge_push(judged->judge, ES_JUDGE_ENTROPY, i * apart, &x, 1);
        }
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_COLLAPSE),
                         apart == 100);
    }
}

TEST(nan_and_logits_are_judged_from_the_start)
{
    es_judge_run run = windows;
    run.is_open_ended = true;
    AUTO(es_judged) judged = es_judged_new(run, NULL);
    es_judged_push_all(judged, ES_JUDGE_MAX_LOGIT, 0, 2000);
    es_judged_push_all(judged, ES_JUDGE_ENTROPY, 0, NAN);
    es_judge_finish(judged->judge);
    assert_int_equal(es_judged_count(judged, ES_FLAG_NAN), 1);
    assert_int_equal(es_judged_count(judged, ES_FLAG_LOGITS), 1);
}
