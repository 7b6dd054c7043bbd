/** Tests rules on short series whose episodes are known beforehand. */
#include "analyzer/heads/bands.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

#define L 3
#define H 2

static const es_judge_run three_by_two = {
    .n_layers = L, .n_heads = H, .ctx = 128, .planned_steps = 1000};

/* Applies one rule to its series. The values, which may be NaN or missing, are
   at steps 10, 20 and so on. */
static es_ruled *over(const es_rule *rule, const float *values, size_t n)
{
    es_ruled *ruled = es_ruled_new(three_by_two, rule, 1);
    for (size_t i = 0; i < n; i++)
        es_rules_push(ruled->rules, rule->series, rule->eval,
                      10 * (int64_t)(i + 1), &values[i], 1);
    es_rules_finish(ruled->rules);
    return ruled;
}

static void assert_span(const es_ruled *ruled, size_t i, int64_t onset,
                        int64_t last, bool stands)
{
    assert_true(i < ruled->n);
    assert_int_equal(ruled->episodes[i].said.onset, onset);
    assert_int_equal(ruled->episodes[i].said.last, last);
    assert_int_equal(ruled->episodes[i].said.stands, stands);
}

#define OVER(rule, ...)                                                        \
    over(rule, (const float[]){__VA_ARGS__},                                   \
         sizeof(const float[]){__VA_ARGS__} / sizeof(float))

TEST(each_comparison_is_right_at_its_edge)
{
    static const struct {
        es_rule_comparison comparison;
        size_t n; /* expected number of episodes if the values 1, 2, 3 are
                     compared with 2 */
        int64_t onset, last;
    } cases[] = {
        {ES_RULE_ABOVE, 1, 30, 30},
        {ES_RULE_BELOW, 1, 10, 10},
        {ES_RULE_AT_LEAST, 1, 20, 30},
        {ES_RULE_AT_MOST, 1, 10, 20},
    };
    for (size_t i = 0; i < 4; i++) {
        es_rule rule = es_rule_on("loss", ES_RULE_RUN, cases[i].comparison, 2);
        AUTO(es_ruled) ruled = OVER(&rule, 1, 2, 3);
        assert_int_equal(ruled->n, 1);
        assert_span(ruled, 0, cases[i].onset, cases[i].last,
                    cases[i].last == 30);
        assert_true(ruled->episodes[0].said.threshold == 2);
    }
}

TEST(worst_is_in_the_direction_of_the_rule)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_BELOW, 5);
    AUTO(es_ruled) ruled = OVER(&rule, 4, 1, 3);
    assert_true(ruled->episodes[0].said.value == 1);
    es_ruled_free(ruled);
    rule.comparison = ES_RULE_ABOVE;
    ruled = OVER(&rule, 6, 9, 7);
    assert_true(ruled->episodes[0].said.value == 9);
}

/* The rule needs three consecutive samples for which it holds. The alert is
   raised at the third; the episode begins with the first. */
TEST(an_episode_needs_its_samples_in_a_row)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_ABOVE, 2);
    rule.samples = 3;
    AUTO(es_ruled) ruled = OVER(&rule, 3, 3, 1, 3, 4, 3, 3, 1);
    assert_int_equal(ruled->n, 1);
    assert_span(ruled, 0, 40, 70, false);
    assert_int_equal(ruled->n_opened, 1);
    assert_int_equal(ruled->opened[0].said.last, 60);
    assert_true(ruled->opened[0].said.stands);
    es_ruled_free(ruled);
    ruled = OVER(&rule, 3);
    assert_int_equal(ruled->n, 0);
}

TEST(an_episode_ends_at_its_own_threshold)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_ABOVE, 2);
    rule.end = 1.5;
    AUTO(es_ruled) ruled = OVER(&rule, 1.8F, 3, 1.8F, 1.6F, 1.5F, 1.8F, 1.6F);
    assert_int_equal(ruled->n, 1);
    assert_span(ruled, 0, 20, 40, false);
    es_ruled_free(ruled);
    rule.end = NAN;
    ruled = OVER(&rule, 1.8F, 3, 1.8F, 3, 1.5F);
    assert_int_equal(ruled->n, 2);
}

TEST(no_episode_opens_in_a_cool_down)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_ABOVE, 2);
    rule.cool_down = 2;
    /* The first episode ends at step 20. Steps 30 and 40 are in the cool-down.
       At step 50 a new episode opens. */
    AUTO(es_ruled) ruled = OVER(&rule, 3, 1, 3, 1, 3, 1);
    assert_int_equal(ruled->n, 2);
    assert_span(ruled, 0, 10, 10, false);
    assert_span(ruled, 1, 50, 50, false);
    es_ruled_free(ruled);
    /* If the condition still holds when the cool-down ends, a second episode is
       reported at that step. Its onset is the first sample in the cool-down at
       which the condition held. */
    ruled = OVER(&rule, 3, 1, 3, 3, 3);
    assert_int_equal(ruled->n, 2);
    assert_span(ruled, 1, 30, 50, true);
    assert_int_equal(ruled->opened[1].said.last, 50);
}

TEST(nothing_is_judged_in_the_warm_up)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_ABOVE, 2);
    rule.warm_up = 0.03; /* of 1000 steps */
    AUTO(es_ruled) ruled = OVER(&rule, 3, 3, 3, 3);
    assert_span(ruled, 0, 30, 40, true);
    es_ruled_free(ruled);
    rule.warm_up_end = 35; /* later than step 30, where rule.warm_up ends */
    ruled = OVER(&rule, 3, 3, 3, 3);
    assert_span(ruled, 0, 40, 40, true);
    es_ruled_free(ruled);
    rule.warm_up_end = 15; /* earlier than step 30, where rule.warm_up ends */
    ruled = OVER(&rule, 3, 3, 3, 3);
    assert_span(ruled, 0, 30, 40, true);
}

/* NaN, infinite and missing values are not compared with any threshold. They
   leave the state unchanged. */
TEST(unknown_values_neither_open_nor_end_an_episode)
{
    const float unknown[] = {NAN, INFINITY, -INFINITY, es_missing()};
    for (int c = 0; c < ES_N_RULE_COMPARISONS; c++) {
        bool up = c == ES_RULE_ABOVE || c == ES_RULE_AT_LEAST;
        float bad = up ? 3 : 1, good = up ? 1 : 3;
        es_rule rule =
            es_rule_on("loss", ES_RULE_RUN, (es_rule_comparison)c, 2);
        for (size_t i = 0; i < 4; i++) {
            float x = unknown[i];
            AUTO(es_ruled) ruled = OVER(&rule, x, x, good, x);
            assert_int_equal(ruled->n, 0);
            assert_int_equal(es_rules_nonfinite(ruled->rules, 0),
                             i == 3 ? 0 : 3);
            es_ruled_free(ruled);
            ruled = OVER(&rule, bad, x, x, bad, x, good);
            assert_int_equal(ruled->n, 1);
            assert_span(ruled, 0, 10, 40, false);
            es_ruled_free(ruled);
            rule.samples = 2;
            ruled = OVER(&rule, bad, x, bad, x);
            assert_int_equal(ruled->n, 1);
            assert_span(ruled, 0, 10, 30, true);
            rule.samples = 1;
        }
    }
}

/* --- aggregates -----------------------------------------------------------*/

/* Applies a rule to one sample of n values in a run of 3 layers with 2
   heads. */
static es_ruled *once(const es_rule *rule, const float *values, size_t n)
{
    es_ruled *ruled = es_ruled_new(three_by_two, rule, 1);
    es_rules_push(ruled->rules, rule->series, rule->eval, 7, values, n);
    es_rules_finish(ruled->rules);
    return ruled;
}

static void assert_marks(const es_ruled *ruled, const char *layers,
                         const char *heads, double value)
{
    assert_int_equal(ruled->n, 1);
    for (size_t l = 0; l < L; l++)
        assert_int_equal(ruled->episodes[0].layers[l], layers[l] - '0');
    for (size_t i = 0; i < L * H; i++)
        assert_int_equal(ruled->episodes[0].heads[i], heads[i] - '0');
    assert_true(fabs(ruled->episodes[0].said.value - value) < 1e-12);
}

static const float heads[L * H] = {1, 3, 2, 6, 5, 5};

TEST(each_aggregate_judges_its_units)
{
    static const struct {
        es_rule_aggregate aggregate;
        es_rule_comparison comparison;
        double threshold;
        const char *layers, *heads;
        double value;
    } cases[] = {
        {ES_RULE_HEAD, ES_RULE_BELOW, 2.5, "110", "101000", 1},
        {ES_RULE_HEAD, ES_RULE_ABOVE, 5.5, "010", "000100", 6},
        {ES_RULE_LAYER_MEAN, ES_RULE_BELOW, 3, "100", "000000", 2},
        {ES_RULE_LAYER_MEAN, ES_RULE_AT_LEAST, 4, "011", "000000", 5},
        {ES_RULE_LAYER_MIN, ES_RULE_ABOVE, 1.5, "011", "000000", 5},
        {ES_RULE_LAYER_MAX, ES_RULE_BELOW, 5.5, "101", "000000", 3},
        {ES_RULE_SHARE, ES_RULE_AT_LEAST, 5, "011", "000111", 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_rule rule = es_rule_on("entropy", cases[i].aggregate,
                                  cases[i].comparison, cases[i].threshold);
        AUTO(es_ruled) ruled = once(&rule, heads, L * H);
        assert_marks(ruled, cases[i].layers, cases[i].heads, cases[i].value);
    }
}

TEST(a_share_ends_at_its_own_threshold)
{
    const float half[] = {1, 1, 1, 9, 9, 9}, third[] = {9, 1, 1, 9, 9, 9};
    const float sixth[] = {9, 9, 1, 9, 9, 9};
    es_rule rule = es_rule_on("entropy", ES_RULE_SHARE, ES_RULE_BELOW, 2);
    rule.end = 0.3;
    AUTO(es_ruled) ruled = es_ruled_new(three_by_two, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 1, third, 6);
    es_rules_push(ruled->rules, "entropy", false, 2, half, 6);
    es_rules_push(ruled->rules, "entropy", false, 3, third, 6);
    es_rules_push(ruled->rules, "entropy", false, 4, sixth, 6);
    assert_int_equal(ruled->n, 1);
    assert_span(ruled, 0, 2, 3, false);
    assert_marks(ruled, "110", "111000", 0.5);
    assert_true(ruled->episodes[0].said.threshold == 0.5);
}

/* A head that is NaN counts as measured. An episode of a rule on the share of
   heads ends only if the share would be too small even with all NaN heads
   included in it. */
TEST(a_share_with_nan_heads_waits_for_them)
{
    const float bad[] = {1, 1, 1, 9, 9, 9}, doubt[] = {1, NAN, NAN, 9, 9, 9};
    const float missing = es_missing();
    const float clear[] = {9, NAN, NAN, 9, 9, 9};
    const float few[] = {1, missing, missing, missing, missing, 9};
    es_rule rule = es_rule_on("entropy", ES_RULE_SHARE, ES_RULE_BELOW, 2);
    AUTO(es_ruled) ruled = es_ruled_new(three_by_two, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 1, doubt, 6);
    assert_int_equal(ruled->n_opened, 0);
    es_rules_push(ruled->rules, "entropy", false, 2, bad, 6);
    es_rules_push(ruled->rules, "entropy", false, 3, doubt, 6);
    assert_int_equal(ruled->n, 0);
    es_rules_push(ruled->rules, "entropy", false, 4, clear, 6);
    assert_span(ruled, 0, 2, 2, false);
    es_rules_push(ruled->rules, "entropy", false, 5, few, 6);
    assert_int_equal(ruled->n_opened, 2);
    assert_int_equal(es_rules_nonfinite(ruled->rules, 0), 6);
}

/* The finite heads can prove that a layer is bad, but not that it is healthy.
 */
TEST(a_layer_with_a_nan_head_is_judged_by_the_others)
{
    const float bad[] = {1, NAN, 9, 9, 9, 9}, doubt[] = {9, NAN, 9, 9, 9, 9};
    const float clear[] = {9, 9, 9, 9, NAN, NAN};
    es_rule rule = es_rule_on("entropy", ES_RULE_LAYER_MEAN, ES_RULE_BELOW, 2);
    AUTO(es_ruled) ruled = es_ruled_new(three_by_two, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 1, bad, 6);
    assert_int_equal(ruled->n_opened, 1);
    es_rules_push(ruled->rules, "entropy", false, 2, doubt, 6);
    assert_int_equal(ruled->n, 0);
    es_rules_push(ruled->rules, "entropy", false, 3, clear, 6);
    assert_span(ruled, 0, 1, 1, false);
}

TEST(sizes_and_series_that_do_not_fit_are_ignored)
{
    const float layers[L] = {1, 4, 5};
    es_rule rule = es_rule_on("alpha", ES_RULE_LAYER_MEAN, ES_RULE_BELOW, 2);
    AUTO(es_ruled) ruled = once(&rule, layers, L);
    assert_marks(ruled, "100", "000000", 1);
    es_ruled_free(ruled);
    rule.aggregate = ES_RULE_HEAD;
    ruled = once(&rule, layers, L);
    assert_int_equal(ruled->n, 0);
    es_rules_push(ruled->rules, "alpha", true, 8, heads, L * H);
    es_rules_push(ruled->rules, "beta", false, 8, heads, L * H);
    assert_int_equal(ruled->n_opened, 0);
    es_rules_push(ruled->rules, "alpha", false, 8, heads, L * H);
    assert_int_equal(ruled->n_opened, 1);
    assert_false(es_rule_fits(&rule, &three_by_two, 1));
    rule.aggregate = ES_RULE_RUN;
    assert_false(es_rule_fits(&rule, &three_by_two, L));
}

TEST(every_aggregate_judges_a_single_head)
{
    const es_judge_run one = {.n_layers = 1, .n_heads = 1};
    const float value = 1;
    for (int a = 0; a < ES_N_RULE_AGGREGATES; a++) {
        es_rule rule = es_rule_on("x", (es_rule_aggregate)a, ES_RULE_BELOW, 2);
        AUTO(es_ruled) ruled = es_ruled_new(one, &rule, 1);
        es_rules_push(ruled->rules, "x", false, 3, &value, 1);
        es_rules_finish(ruled->rules);
        assert_int_equal(ruled->n, 1);
        assert_span(ruled, 0, 3, 3, true);
        assert_int_equal(ruled->episodes[0].layers[0], a != ES_RULE_RUN);
    }
}

/* --- references -----------------------------------------------------------*/

TEST(a_ceiling_scales_the_threshold)
{
    float x[L * H] = {3, 3, 3, 3, 3, 3};
    es_rule rule = es_rule_on("entropy", ES_RULE_HEAD, ES_RULE_AT_LEAST, 0.5);
    rule.reference = ES_RULE_CEILING;
    AUTO(es_ruled) ruled = once(&rule, x, L * H);
    assert_marks(ruled, "111", "111111", 3);
    assert_true(ruled->episodes[0].said.threshold == 0.5 * es_ceiling(128));
    es_ruled_free(ruled);
    es_judge_run unknown = three_by_two;
    unknown.ctx = 0;
    ruled = es_ruled_new(unknown, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 7, x, L * H);
    es_rules_finish(ruled->rules);
    assert_int_equal(ruled->n, 0);
}

/* Tests rules that compare with the median of past values, also with values far
   from the range of entropies. Values for which the rule holds are not added to
   these past values. */
TEST(a_history_is_the_median_of_its_unit)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_ABOVE, 2);
    rule.reference = ES_RULE_HISTORY;
    for (float scale = 1e-9F; scale < 1e12F; scale *= 1e3F) {
        float a = scale, b = 1.1F * scale, high = 2.3F * scale;
        AUTO(es_ruled)
        ruled = OVER(&rule, a, high, b, high, high, high, high, b);
        /* At step 20 the history has fewer than three values, so the rule is
         * not evaluated; later the median is `b` or `high`. */
        assert_int_equal(ruled->n, 1);
        assert_span(ruled, 0, 40, 70, false);
        assert_true(fabs(ruled->episodes[0].said.value - 2.3 / 1.1) < 0.05);
        assert_true(ruled->episodes[0].said.threshold == 2);
    }
    AUTO(es_ruled) ruled = OVER(&rule, -1, -1, -1, -1, 50);
    /* The rule is not evaluated if the median is not above zero. */
    assert_int_equal(ruled->n, 0);
}

TEST(history_begins_after_warm_up)
{
    es_rule rule = es_rule_on("loss", ES_RULE_RUN, ES_RULE_BELOW, 0.5);
    rule.reference = ES_RULE_HISTORY;
    rule.warm_up = 0.03;
    AUTO(es_ruled) ruled = OVER(&rule, 100, 100, 2, 2, 2, 1.1F, 0.9F);
    assert_int_equal(ruled->n, 1);
    assert_span(ruled, 0, 70, 70, true);
}

TEST(a_baseline_is_compared_at_its_step)
{
    const float own[L * H] = {1, 3, 2, 6, 5, 5};
    const float its[L * H] = {1, 1, 1, 7, NAN, 0};
    es_rule rule = es_rule_on("entropy", ES_RULE_HEAD, ES_RULE_ABOVE, 1.5);
    rule.reference = ES_RULE_BASELINE;
    AUTO(es_ruled) ruled = es_ruled_new(three_by_two, &rule, 1);
    es_rules_push(ruled->rules, "entropy", false, 1, own, L * H);
    es_rules_push_baseline(ruled->rules, "entropy", false, 2, its, L * H);
    es_rules_push(ruled->rules, "entropy", false, 3, own, L * H);
    assert_int_equal(ruled->n_opened, 0);
    es_rules_push_baseline(ruled->rules, "entropy", false, 4, its, L * H);
    es_rules_push(ruled->rules, "entropy", false, 4, own, L * H);
    es_rules_finish(ruled->rules);
    assert_span(ruled, 0, 4, 4, true);
    assert_marks(ruled, "110", "011000", 3);
}

/* --- several rules -------------------------------------------------------- */

TEST(several_rules_do_not_disturb_each_other)
{
    float x[L * H] = {1, 3, 2, 6, 5, 5};
    es_rule rules[ES_N_RULE_AGGREGATES * 2];
    for (int i = 0; i < ES_N_RULE_AGGREGATES * 2; i++) {
        rules[i] = es_rule_on(i % 2 ? "b" : "a", (es_rule_aggregate)(i / 2),
                              ES_RULE_BELOW, 3.5);
        rules[i].reference = i % 3 ? ES_RULE_NUMBER : ES_RULE_HISTORY;
        rules[i].severity = ES_SEVERITY_CRITICAL;
        rules[i].action = ES_RULE_STOP;
    }
    AUTO(es_ruled)
    all = es_ruled_new(three_by_two, rules, ES_N_RULE_AGGREGATES * 2);
    for (int64_t step = 0; step < 9; step++) {
        x[step % 6] = step % 4 ? 0.5F : 4.5F;
        es_rules_push(all->rules, "a", false, step, x, L * H);
        es_rules_push(all->rules, "b", false, step, x, L * H);
    }
    es_rules_finish(all->rules);
    for (size_t i = 0; i < ES_N_RULE_AGGREGATES * 2; i++) {
        const float start[L * H] = {1, 3, 2, 6, 5, 5};
        es_ruled *one = es_ruled_new(three_by_two, &rules[i], 1);
        memcpy(x, start, sizeof x);
        for (int64_t step = 0; step < 9; step++) {
            x[step % 6] = step % 4 ? 0.5F : 4.5F;
            es_rules_push(one->rules, rules[i].series, false, step, x, L * H);
        }
        es_rules_finish(one->rules);
        size_t seen = 0;
        for (size_t e = 0; e < all->n; e++) {
            if (all->episodes[e].rule != i)
                continue;
            assert_true(seen < one->n);
            assert_span(one, seen++, all->episodes[e].said.onset,
                        all->episodes[e].said.last,
                        all->episodes[e].said.stands);
            assert_int_equal(all->episodes[e].said.severity,
                             ES_SEVERITY_CRITICAL);
        }
        assert_int_equal(seen, one->n);
        assert_true(seen > 0 || rules[i].aggregate == ES_RULE_RUN ||
                    rules[i].reference == ES_RULE_HISTORY);
        es_ruled_free(one);
    }
}

TEST(sizes_that_overflow_are_refused)
{
    es_rule rule = es_rule_on("x", ES_RULE_HEAD, ES_RULE_BELOW, 1);
    es_judge_run run = {.n_layers = INT32_MAX, .n_heads = INT32_MAX};
    rule.reference = ES_RULE_HISTORY;
    assert_int_equal(es_rules_size(&rule, 1, &run), 0);
    run.n_layers = 0;
    assert_int_equal(es_rules_size(&rule, 1, &run), 0);
}
