/**
 * Tests the forecast: trends, invalid samples, and the probabilities for
 * histories whose outcome is known by construction.
 */
#include "analyzer/base/value.h"
#include "analyzer/flags/forecast_internal.h"
#include "analyzer/heads/bands.h"
#include "tests/support/auto.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CTX 64
#define N_STEPS 300

/* A run of three layers with two heads each. */
static const es_judge_run usual = {
    .n_layers = 3, .n_heads = 2, .ctx = CTX, .planned_steps = N_STEPS};
#define N_VALUES 6

static es_forecast *new_forecast(const es_judge_run *run)
{
    void *workspace = malloc(es_forecast_size(run));
    assert_non_null(workspace);
    return es_forecast_init(workspace, run);
}

static void push_all(es_forecast *forecast, es_forecast_input input,
                     int64_t step, size_t n, double value)
{
    float x[64];
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)value;
    es_forecast_push(forecast, input, step, x, n);
}

/* Returns a variation between -1 and 1 that is the same in every run. */
static double wobble(int64_t step)
{
    return sin(12.9898 * (double)step + 1) * cos(4.1 * (double)step);
}

/* Pushes one step of a training run. From step `begin` on, layer 2's logits
   double every 4 steps, its entropy halves every 8 steps, and the loss becomes
   noisy. If begin < 0, the run stays healthy. */
static void push_step(es_forecast *forecast, int64_t step, int64_t begin)
{
    const double ceiling = es_ceiling(CTX), t = (double)step;
    const double grown =
        begin >= 0 && step > begin ? (double)(step - begin) / 4 : 0;
    float entropy[N_VALUES], logit[N_VALUES], act[3];
    for (int i = 0; i < N_VALUES; i++) {
        const double own = i / 2 == 2 ? grown : 0;
        entropy[i] =
            (float)(ceiling * 0.6 * exp2(-own) * (1 + 0.03 * wobble(step + i)));
        logit[i] = (float)(4 * exp2(own) * (1 + 0.1 * wobble(3 * step + i)));
    }
    for (int l = 0; l < 3; l++)
        act[l] = (float)(1 + 0.5 * log1p(t));
    es_forecast_push(forecast, ES_FORECAST_ENTROPY, step, entropy, N_VALUES);
    es_forecast_push(forecast, ES_FORECAST_MAX_LOGIT, step, logit, N_VALUES);
    es_forecast_push(forecast, ES_FORECAST_ACT_RMS, step, act, 3);
    push_all(forecast, ES_FORECAST_LOSS, step, 1,
             2 + 3 * exp(-t / 30) + 0.05 * wobble(step) +
                 2 * grown * (1 + wobble(step)));
    push_all(forecast, ES_FORECAST_GRAD_NORM, step, 1,
             (1 + grown) * (1 + 0.2 * wobble(7 * step)));
    push_all(forecast, ES_FORECAST_LR, step, 1, 3e-3);
}

/* --- trends ---------------------------------------------------------------*/

static void a_straight_line_is_found(void **state)
{
    es_trend trend = {0};
    (void)state;
    for (int64_t step = 10; step < 200; step += 5)
        es_trend_add(&trend, step, 3 - 0.02 * (double)step);
    assert_true(fabs(es_trend_slope(&trend) + 0.02) < 1e-12);
    assert_true(fabs(es_trend_level(&trend) - (3 - 0.02 * 195)) < 1e-11);
    assert_true(trend.noise < 1e-2); /* a remainder from the second sample */
}

/* Compares the trend with a regression over all samples with their weights. */
static void a_trend_is_the_weighted_regression(void **state)
{
    enum { N = 60 };
    es_trend trend = {0};
    double w[N], sw = 0, sx = 0, sy = 0, xx = 0, xy = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        const double memory = fmax(i / 4.0, 8);
        es_trend_add(&trend, i, 0.1 * i + 0.01 * wobble(i));
        for (int j = 0; j < i; j++)
            w[j] *= 1 - 1 / memory;
        w[i] = 1;
    }
    for (int i = 0; i < N; i++) {
        sw += w[i];
        sx += w[i] * i;
        sy += w[i] * (0.1 * i + 0.01 * wobble(i));
    }
    for (int i = 0; i < N; i++) {
        const double y = 0.1 * i + 0.01 * wobble(i);
        xx += w[i] * (i - sx / sw) * (i - sx / sw);
        xy += w[i] * (i - sx / sw) * (y - sy / sw);
    }
    assert_true(fabs(es_trend_slope(&trend) - xy / xx) < 1e-9);
    assert_true(fabs(trend.y - sy / sw) < 1e-9);
}

static void a_spike_is_no_trend(void **state)
{
    es_trend trend = {0};
    (void)state;
    for (int64_t step = 0; step < 100; step++)
        es_trend_add(&trend, step, step == 80 ? 50 : 0.1 * wobble(step));
    assert_true(fabs(es_trend_level(&trend)) < 0.2);
    assert_true(fabs(es_trend_slope(&trend)) < 0.02);
}

/* --- invalid samples ------------------------------------------------------ */

static void too_few_samples_have_no_probability(void **state)
{
    AUTO_FREE es_forecast *forecast = new_forecast(&usual);
    char text[ES_FORECAST_TEXT_MAX];
    (void)state;
    assert_true(isnan(es_forecast_probability(forecast)));
    es_forecast_explain(text, forecast);
    assert_string_equal(text, "");
    for (int64_t step = 0; step < ES_FORECAST_SAMPLES; step++) {
        assert_true(isnan(es_forecast_probability(forecast)));
        push_step(forecast, step, -1);
    }
    assert_true(es_forecast_probability(forecast) >= 0);
}

/* Pushes NaN, infinite and missing values, samples of a wrong size and samples
   of earlier steps. They must leave the state unchanged. */
static void invalid_samples_change_nothing(void **state)
{
    AUTO_FREE es_forecast *forecast = new_forecast(&usual);
    AUTO_FREE es_forecast *before = new_forecast(&usual);
    const size_t size = es_forecast_size(&usual);
    float x[N_VALUES] = {1, 1, 1, 1, 1, 1};
    (void)state;
    for (int64_t step = 0; step < 50; step++)
        push_step(forecast, step, -1);
    memcpy(before, forecast, size);
    for (int input = 0; input < ES_N_FORECAST_INPUTS; input++) {
        const size_t n = input < ES_FORECAST_ACT_RMS    ? N_VALUES
                         : input == ES_FORECAST_ACT_RMS ? 3
                                                        : 1;
        const es_forecast_input own = (es_forecast_input)input;
        push_all(forecast, own, 50, n, NAN);
        push_all(forecast, own, 50, n, INFINITY);
        push_all(forecast, own, 50, n, -INFINITY);
        push_all(forecast, own, 50, n, es_missing());
        es_forecast_push(forecast, own, 50, x, 5);
        es_forecast_push(forecast, own, 50, x, 0);
        push_all(forecast, own, 49, n, 100);
        push_all(forecast, own, 3, n, 100);
        push_all(forecast, own, -7, n, 100);
    }
    assert_memory_equal(forecast, before, size);
    push_all(forecast, ES_FORECAST_LOSS, 50, 1, 2);
    assert_memory_not_equal(forecast, before, size);
}

/* Only the finite heads of a row are used. */
static void a_missing_head_is_left_out(void **state)
{
    AUTO_FREE es_forecast *forecast = new_forecast(&usual);
    const float nan[N_VALUES] = {es_missing(), 2, NAN, 2, INFINITY, 2};
    (void)state;
    es_forecast_push(forecast, ES_FORECAST_ENTROPY, 0, nan, N_VALUES);
    for (int l = 0; l < 3; l++) {
        double level =
            es_trend_level(es_forecast_trend(forecast, ES_SIGNAL_ENTROPY, l));
        assert_true(fabs(level - log(2 / es_ceiling(CTX))) < 1e-7);
    }
}

static void a_run_without_max_logit_is_judged_by_the_rest(void **state)
{
    AUTO_FREE es_forecast *forecast = new_forecast(&usual);
    double x[ES_N_FORECAST_FEATURES];
    (void)state;
    for (int64_t step = 0; step < 20; step++)
        push_all(forecast, ES_FORECAST_ENTROPY, step, N_VALUES, 1);
    es_forecast_features(x, forecast);
    for (size_t i = 0; i < ES_N_FORECAST_FEATURES; i++)
        if (strncmp(es_forecast_feature_name(i), "logit", 5) == 0)
            assert_true(isnan(x[i]));
    double p = es_forecast_probability(forecast);
    assert_true(p > 0 && p < 1);
}

/* Runs with one layer, one head, only means of layers, no ceiling, or T = 1. */
static void runs_of_every_shape_have_a_probability(void **state)
{
    static const es_judge_run runs[] = {
        {.n_layers = 1, .n_heads = 1, .ctx = CTX},
        {.n_layers = 1, .n_heads = 5, .ctx = 0},
        {.n_layers = 4, .n_heads = 1, .ctx = CTX, .planned_steps = 40},
        {.n_layers = 2, .n_heads = 3, .ctx = 1}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        AUTO_FREE es_forecast *forecast = new_forecast(&runs[i]);
        const size_t n_layers = (size_t)runs[i].n_layers;
        const size_t n = n_layers * (size_t)runs[i].n_heads;
        char text[ES_FORECAST_TEXT_MAX];
        for (int64_t step = 0; step < 40; step++) {
            push_all(forecast, ES_FORECAST_ENTROPY, step, i == 1 ? n_layers : n,
                     exp(-(double)step / 5));
            push_all(forecast, ES_FORECAST_MAX_LOGIT, step, n,
                     exp((double)step / 5));
        }
        double p = es_forecast_probability(forecast);
        assert_true(p > 0 && p < 1);
        es_forecast_explain(text, forecast);
        assert_true(strlen(text) < ES_FORECAST_TEXT_MAX);
    }
}

static void sizes_that_overflow_are_refused(void **state)
{
    const es_judge_run none = {.n_layers = 0, .n_heads = 1};
    (void)state;
    assert_int_equal(es_forecast_size(&none), 0);
}

/* --- known outcomes ------------------------------------------------------- */

/* Returns the first step at which the rule opens an episode, or -1. Writes the
   reason to `text`. */
static int64_t warned_at(char text[ES_FORECAST_TEXT_MAX], int64_t begin)
{
    AUTO_FREE es_forecast *forecast = new_forecast(&usual);
    es_rule rule;
    uint32_t streak = 0;
    es_forecast_rule(&rule, ES_RULE_NO_ACTION);
    text[0] = '\0';
    for (int64_t step = 0; step < N_STEPS; step++) {
        push_step(forecast, step, begin);
        streak = es_forecast_probability(forecast) >= rule.threshold
                     ? streak + 1
                     : 0;
        if (streak < rule.samples)
            continue;
        es_forecast_explain(text, forecast);
        return step;
    }
    return -1;
}

/* The entropy of layer 2 falls below 0.05 of the ceiling 15 steps after
   `begin`. */
static void a_warning_precedes_the_collapse(void **state)
{
    char text[ES_FORECAST_TEXT_MAX];
    (void)state;
    for (int64_t begin = 1; begin <= 5; begin++) {
        int64_t step = warned_at(text, begin);
        assert_true(step > begin && step < begin + 15);
        assert_non_null(strstr(text, "entropy of layer 2 halves every "));
        assert_non_null(strstr(text, "; collapse expected near step "));
    }
}

/* The model was fitted to few runs that fail late, so the probability rises
   without reaching the warning. */
static void a_late_collapse_raises_the_probability(void **state)
{
    double p[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        AUTO_FREE es_forecast *forecast = new_forecast(&usual);
        for (int64_t step = 0; step < 110; step++)
            push_step(forecast, step, i ? 95 : -1);
        p[i] = es_forecast_probability(forecast);
    }
    print_message("# %g %g\n", p[0], p[1]);
    assert_true(p[1] > 10 * p[0]);
}

static void a_healthy_run_gets_no_warning(void **state)
{
    char text[ES_FORECAST_TEXT_MAX];
    (void)state;
    assert_int_equal(warned_at(text, -1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_straight_line_is_found),
        cmocka_unit_test(a_trend_is_the_weighted_regression),
        cmocka_unit_test(a_spike_is_no_trend),
        cmocka_unit_test(too_few_samples_have_no_probability),
        cmocka_unit_test(invalid_samples_change_nothing),
        cmocka_unit_test(a_missing_head_is_left_out),
        cmocka_unit_test(a_run_without_max_logit_is_judged_by_the_rest),
        cmocka_unit_test(runs_of_every_shape_have_a_probability),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(a_warning_precedes_the_collapse),
        cmocka_unit_test(a_late_collapse_raises_the_probability),
        cmocka_unit_test(a_healthy_run_gets_no_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
