/* Tests the ends of training runs: after a NaN, after a stop, and after an
 * error. Also tests the median that bench prints. */
#include "hooks/trainer/bench.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

static es_settings exploding(void)
{
    es_settings s = training_small();
    es_assert_ok(es_arch_parse(&s.model.arch, "SM"));
    s.train.lr = 1e12;
    s.train.clip = 0;
    s.train.steps = 100;
    return s;
}

TEST(a_nan_is_recorded_and_ends_the_run)
{
    training_seen out = {0};
    es_train_result result = training_record(&out, exploding());
    assert_int_equal(result.status, ES_RUN_FAILED);
    assert_true(result.nan_step > 0);
    assert_true(!isfinite(out.loss[result.nan_step]));
    assert_true(isfinite(out.loss[result.nan_step - 1]));
    assert_int_equal(result.n_steps, result.nan_step + 1 + 6);
    assert_int_equal(out.n_steps, result.n_steps);
    const es_run_info info = training_info();
    assert_int_equal(info.status, ES_RUN_FAILED);
    float loss, bad[2];
    training_sample(&loss, "loss", ES_PHASE_TRAIN, result.nan_step, 1);
    assert_true(!isfinite(loss));
    training_sample(bad, "nan_activations", ES_PHASE_TRAIN, result.nan_step, 2);
    for (int l = 0; l < 2; l++)
        assert_true((bad[l] > 0) ==
                    (result.nan_layer >= 0 && l >= result.nan_layer));
    const es_event *events;
    size_t n_events;
    es_assert_ok(es_reader_events(training_reader(), 0, &events, &n_events));
    assert_int_equal(n_events, 1);
    assert_string_equal(events[0].kind, "nan");
    assert_int_equal(events[0].step, result.nan_step);
    assert_int_equal(events[0].severity, ES_SEVERITY_CRITICAL);
}

TEST(a_nan_appears_at_the_same_step_without_recording)
{
    es_settings s = exploding();
    s.record_every = 1000;
    training_seen with = {0}, without = {0};
    es_train_result recorded = training_record(&with, s);
    es_train_result result = training_run(&without, &s);
    assert_int_equal(result.nan_step, recorded.nan_step);
    assert_int_equal(result.nan_layer, recorded.nan_layer);
    assert_memory_equal(with.loss, without.loss, sizeof with.loss);
}

TEST(training_ends_at_a_nan_on_request)
{
    es_settings s = exploding();
    s.after_nan = 0;
    training_seen out = {0};
    es_train_result result = training_run(&out, &s);
    assert_int_equal(result.n_steps, result.nan_step + 1);
}

TEST(a_nan_is_described)
{
    char text[256];
    es_train_result r = {.nan_step = -1};
    assert_string_equal(es_train_describe_nan(text, sizeof text, &r), "");
    r = (es_train_result){.nan_step = 57,
                          .nan_layer = 11,
                          .bad_gradient_step = 57,
                          .bad_gradient_layer = -1};
    assert_string_equal(
        es_train_describe_nan(text, sizeof text, &r),
        "loss is not finite from step 57 on, first in the output of layer 11");
    r.nan_layer = -1;
    assert_non_null(strstr(es_train_describe_nan(text, sizeof text, &r),
                           "the logits overflowed"));
    r.nan_layer = 0;
    r.bad_gradient_step = 56;
    r.bad_gradient_layer = 3;
    assert_non_null(strstr(es_train_describe_nan(text, sizeof text, &r),
                           "gradient was already not finite at step 56 in "
                           "layer 3"));
}

TEST(a_training_stops_on_request)
{
    training_seen out = {.stop_after = 9};
    es_train_result result = training_record(&out, training_small());
    assert_int_equal(result.status, ES_RUN_STOPPED);
    assert_int_equal(result.n_steps, 9);
    assert_int_equal(result.recorded, ES_OK);
    const es_run_info info = training_info();
    assert_int_equal(info.status, ES_RUN_STOPPED);
    const int64_t steps[] = {0, 4, 8};
    training_assert_steps("entropy", ES_PHASE_TRAIN, steps, 3);
}

TEST(conflicting_options_are_refused)
{
    es_train_result result;
    es_settings s = training_small();
    s.model.vocab = TRAINING_VOCAB + 1;
    es_assert_status(ES_EUSAGE, "--vocab",
                     es_train(&result, &s, NULL, NULL, NULL));
    s = training_small();
    s.model.ctx = TRAINING_N_HELD_OUT;
    es_assert_status(ES_EUSAGE, "held-out",
                     es_train(&result, &s, NULL, NULL, NULL));
    s.eval_every = 0;
    s.model.ctx = TRAINING_N_TRAIN;
    es_assert_status(ES_EUSAGE, "training",
                     es_train(&result, &s, NULL, NULL, NULL));
    s = training_small();
    s.model.n_head = 5;
    assert_int_equal(es_train(&result, &s, NULL, NULL, NULL), ES_EUSAGE);
    s = training_small();
    snprintf(s.data, sizeof s.data, "%s/absent", training_folder);
    assert_int_equal(es_train(&result, &s, NULL, NULL, NULL), ES_EIO);
    s = training_small();
    snprintf(s.out, sizeof s.out, "%s/absent/run.db", training_folder);
    assert_true(es_train(&result, &s, NULL, NULL, NULL) < 0);
}

/* --- the median of bench ------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(the_median_has_its_interval)
{
    double x[100];
    for (int i = 0; i < 100; i++)
        x[i] = (i * 37) % 100 + 1;
    es_middle m = es_middle_of(x, 100);
    /* The number of samples below the median has the distribution Binomial(100,
     * 1/2), so the interval from rank 40 to rank 61 contains the median with a
     * probability of 96 %. */
    assert_true(m.median == 50.5 && m.low == 40 && m.high == 61);
    double few[] = {3, 1, 2};
    m = es_middle_of(few, 3);
    assert_true(m.median == 2 && m.low == 1 && m.high == 3);
    m = es_middle_of(few, 1);
    assert_true(m.median == 1 && m.low == 1 && m.high == 1);
}

enum { N_DRAWN = 41, N_MEANS = N_DRAWN * (N_DRAWN + 1) / 2 };

/* Draws whole numbers that are distributed symmetrically about `middle` and
 * include equal numbers. */
static void draw(double x[N_DRAWN], double middle, uint32_t *seed)
{
    for (int i = 0; i < N_DRAWN; i++) {
        double sum = 0;
        for (int k = 0; k < 3; k++) {
            *seed = *seed * 1664525 + 1013904223;
            sum += (double)(*seed >> 28) - 7.5;
        }
        x[i] = middle + sum;
    }
}

TEST(the_median_of_means_is_that_of_all_pairs)
{
    uint32_t seed = 5;
    double x[N_DRAWN], means[N_MEANS];
    draw(x, 3, &seed);
    size_t n = 0;
    for (int i = 0; i < N_DRAWN; i++)
        for (int j = 0; j <= i; j++)
            means[n++] = 0.5 * (x[i] + x[j]);
    qsort(means, n, sizeof *means, by_value);
    const es_middle m = es_middle_of_means(x, N_DRAWN);
    assert_float_equal(m.median, means[N_MEANS / 2], 1e-12);
    /* 430.5 - 1.96 sqrt(41 * 42 * 83 / 24) is 279.3. */
    assert_float_equal(m.low, means[279 - 1], 1e-12);
    assert_float_equal(m.high, means[N_MEANS - 279], 1e-12);
    assert_true(m.low < m.median && m.median < m.high);
    double one[] = {7};
    const es_middle of_one = es_middle_of_means(one, 1);
    assert_true(of_one.median == 7 && of_one.low == 7 && of_one.high == 7);
    double two[] = {4, 1};
    const es_middle of_two = es_middle_of_means(two, 2);
    assert_true(of_two.median == 2.5 && of_two.low == 1 && of_two.high == 4);
}

/* On average 95 of 100 intervals contain the median. The test allows a
 * difference of three standard deviations for 1,000 draws. */
TEST(the_interval_contains_the_median_as_often_as_stated)
{
    uint32_t seed = 9;
    int n_held = 0;
    for (int i = 0; i < 1000; i++) {
        double x[N_DRAWN];
        draw(x, 100, &seed);
        const es_middle m = es_middle_of_means(x, N_DRAWN);
        n_held += m.low <= 100 && 100 <= m.high;
    }
    assert_in_range(n_held, 929, 980);
}

TEST_GROUP(training_set_up, training_tear_down)
