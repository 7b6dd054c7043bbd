/**
 * Tests the flag loss_spike with rises that are spikes and with ordinary
 * variation of losses, which is not a spike.
 */
#include "analyzer/flags/flags_internal.h"
#include "tests/support/chance.h"
#include "tests/support/judged.h"
#include "tests/support/test.h"

#include <math.h>

static const es_judge_run small = {.n_layers = 1, .n_heads = 1, .ctx = 128};

static double normal(void)
{
    double unit = chance_unit() + 0x1p-33;
    return sqrt(-2 * log(unit)) * cos(2 * acos(-1.0) * chance_unit());
}

/* Returns the loss of a healthy training run without noise. */
static double falling(int64_t sample)
{
    return 2 + 3.5 * exp(-(double)sample / 100);
}

static void push(es_judged *judged, int64_t step, double loss)
{
    const float value = (float)loss;
    es_judge_push(judged->judge, ES_JUDGE_LOSS, step, &value, 1);
}

/* Searches for spikes in losses with 5 % noise. From sample `first` to `last`
   the losses are raised by `deviations` standard deviations of the noise. */
static es_judged *judge_rise(int64_t n, int64_t every, int64_t first,
                             int64_t last, double deviations)
{
    es_judged *judged = es_judged_new(small, NULL);
    chance_seed(3);
    for (int64_t i = 0; i < n; i++)
        push(judged, i * every,
             falling(i) *
                 exp(0.05 *
                     (normal() + (i >= first && i <= last ? deviations : 0))));
    es_judge_finish(judged->judge);
    return judged;
}

/* Raises the loss by ten standard deviations of the noise, for one or more
   samples. */
TEST(a_rise_of_ten_deviations_is_a_spike)
{
    static const int64_t lengths[] = {1, 2, 5, 40, 400};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t last = 500 + lengths[i] - 1;
        AUTO(es_judged) judged = judge_rise(1000, 1, 500, last, 10);
        const es_judged_episode *spike =
            es_judged_only(judged, ES_FLAG_LOSS_SPIKE);
        es_judged_span(spike, 500, last, false);
        assert_int_equal(spike->said.severity, ES_SEVERITY_WARNING);
        assert_int_equal(spike->said.reported, 500);
        assert_true(spike->said.value > 3 && spike->said.value < 4.2);
        assert_true(spike->said.threshold > 2.5 && spike->said.threshold < 3.2);
        assert_int_equal(judged->n, 1);
    }
}

TEST(a_spike_that_does_not_come_back_stands)
{
    AUTO(es_judged) judged = judge_rise(1000, 1, 500, 1000, 10);
    es_judged_span(es_judged_only(judged, ES_FLAG_LOSS_SPIKE), 500, 999, true);
}

TEST(only_the_number_of_samples_matters_and_not_their_steps)
{
    AUTO(es_judged) judged = judge_rise(600, 50, 400, 403, 10);
    es_judged_span(es_judged_only(judged, ES_FLAG_LOSS_SPIKE), 20000, 20150,
                   false);
}

/* For each of several kinds of noise, adds the noise to a falling loss of
 * 20,000 samples. */
TEST(noise_is_no_spike)
{
    for (int kind = 0; kind < 6; kind++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        double drift = 0;
        chance_seed(5);
        for (int64_t i = 0; i < 20000; i++) {
            const double z = normal(), unit = chance_unit();
            drift = 0.99 * drift + 0.0141 * z;
            const double loss[] = {falling(i) + 0.1 * z,
                                   falling(i) * exp(0.6 * z),
                                   -falling(i) * log(unit + 0x1p-33),
                                   falling(i) * exp(drift),
                                   falling(i) + 1e-4 * z,
                                   falling(i) * 3 - (i % 4 ? 4 : 0)};
            push(judged, i, loss[kind]);
        }
        es_judge_finish(judged->judge);
        assert_int_equal(judged->n, 0);
    }
}

/* One batch in ten contains data with three times the loss. */
TEST(batches_that_are_always_harder_are_no_spikes)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    chance_seed(7);
    for (int64_t i = 0; i < 20000; i++)
        push(judged, i,
             2 * exp(0.05 * normal()) * (chance_below(10) == 0 ? 3 : 1));
    es_judge_finish(judged->judge);
    assert_true(es_judged_count(judged, ES_FLAG_LOSS_SPIKE) < 10);
}

/* If an equally high loss has occurred before, only five consecutive high
   losses are a spike, which then begins with the first of the five. */
TEST(a_rise_seen_before_is_a_spike_only_if_it_lasts)
{
    for (int64_t last = 603; last <= 604; last++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        chance_seed(3);
        for (int64_t i = 0; i < 700; i++)
            push(judged, i,
                 (2 + (i == 550 || (i >= 600 && i <= last))) *
                     (1 + 0.01 * normal()));
        es_judge_finish(judged->judge);
        assert_int_equal(es_judged_count(judged, ES_FLAG_LOSS_SPIKE),
                         last == 604 ? 2 : 1);
        es_judged_span(&judged->episodes[0], 550, 550, false);
        if (last == 604) {
            es_judged_span(&judged->episodes[1], 600, 604, false);
            assert_int_equal(judged->episodes[1].said.reported, 604);
        }
    }
}

TEST(a_fall_or_a_small_rise_is_no_spike)
{
    static const struct {
        float loss;
        bool is_spike;
    } cases[] = {{0.1F, false}, {2, false}, {2.29F, false}, {2.31F, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        for (int64_t step = 0; step < 200; step++)
            push(judged, step, step < 100 ? 2 : cases[i].loss);
        es_judge_finish(judged->judge);
        if (cases[i].is_spike)
            es_judged_span(es_judged_only(judged, ES_FLAG_LOSS_SPIKE), 100, 199,
                           true);
        assert_int_equal(judged->n, cases[i].is_spike);
    }
}

TEST(the_first_losses_and_the_warm_up_are_not_judged)
{
    static const struct {
        int64_t planned, at;
        bool is_spike;
    } cases[] = {
        {0, 31, false}, {0, 32, true}, {2000, 99, false}, {2000, 100, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_judge_run run = small;
        run.planned_steps = cases[i].planned;
        AUTO(es_judged) judged = es_judged_new(run, NULL);
        for (int64_t step = 0; step < 200; step++)
            push(judged, step, step == cases[i].at ? 9 : 2);
        es_judge_finish(judged->judge);
        assert_int_equal(judged->n, cases[i].is_spike);
    }
}

/* NaN and infinities raise the flag nan; losses of 0 or less raise no flag. */
TEST(losses_that_are_not_finite_and_positive_are_skipped)
{
    static const float others[] = {NAN, INFINITY, -INFINITY, 0, -3};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        AUTO(es_judged) judged = es_judged_new(small, NULL);
        for (int64_t step = 0; step < 400; step++) {
            const bool high = step >= 300 && step < 320;
            push(judged, step,
                 (step % 3 == 0 && step < 99) || step == 310 ? (double)others[i]
                 : high                                      ? 5
                                                             : 2);
        }
        es_judge_finish(judged->judge);
        es_judged_span(es_judged_only(judged, ES_FLAG_LOSS_SPIKE), 300, 319,
                       false);
        assert_int_equal(es_judged_count(judged, ES_FLAG_NAN) > 0, i < 3);
    }
}

TEST(a_missing_loss_raises_no_flag)
{
    AUTO(es_judged) judged = es_judged_new(small, NULL);
    for (int64_t step = 0; step < 400; step++)
        push(judged, step, step % 2 ? (double)es_missing() : 2);
    es_judge_finish(judged->judge);
    assert_int_equal(judged->n, 0);
}

/* Searches for spikes with thresholds other than the defaults. */
TEST(thresholds_decide_what_is_a_spike)
{
    static const struct {
        double deviations, rise;
        int samples;
        bool is_spike;
    } cases[] = {{7, 0.15, 5, true},
                 {7, 0.6, 5, false},
                 {70, 0.15, 5, false},
                 {7, 0.15, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_flag_rules rules;
        es_flag_rules_default(&rules);
        rules.spike_deviations = cases[i].deviations;
        rules.spike_rise = cases[i].rise;
        rules.spike_samples = cases[i].samples;
        AUTO(es_judged) judged = es_judged_new(small, &rules);
        chance_seed(11);
        for (int64_t step = 0; step < 300; step++)
            push(judged, step, (step == 200 ? 3 : 2) + 0.02 * normal());
        es_judge_finish(judged->judge);
        assert_int_equal(judged->n, cases[i].is_spike);
    }
}

/* --- the window -----------------------------------------------------------*/

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The losses have few different values, so equal values often enter and leave
   the window at the same time. */
TEST(the_window_is_that_of_the_newest_losses_in_order)
{
    es_flag_rules rules;
    float all[1000], newest[ES_SPIKE_WINDOW];
    es_spike_track track = {.n = 0};
    es_flag_rules_default(&rules);
    chance_seed(13);
    for (size_t i = 0; i < 1000; i++) {
        const size_t n = i < ES_SPIKE_WINDOW ? i + 1 : ES_SPIKE_WINDOW;
        const float loss = (float)(1 + chance_below(i % 2 ? 9 : 900));
        all[i] = logf(loss);
        es_spike_push(&track, &rules, true, (int64_t)i, loss);
        memcpy(newest, all + i + 1 - n, n * sizeof *newest);
        qsort(newest, n, sizeof *newest, ascending);
        assert_int_equal(track.n, n);
        assert_memory_equal(track.sorted, newest, n * sizeof *newest);
    }
}

TEST_EACH(NULL, NULL)
