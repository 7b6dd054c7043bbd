/** The summary of a run, from files. */
#include "tests/support/listed.h"

#include "analyzer/base/value.h"
#include "cli/runs/summary.h"
#include "tests/support/loaded.h"
#include "tests/support/near.h"
#include "tests/support/paper.h"
#include "tests/support/recorded.h"

#include <math.h>
#include <stdio.h>

/* L = 3, H = 2, T = 128. */
static es_run_info known_run(const char *name)
{
    es_run_info info = es_run_of(3, 2);
    info.name = name;
    info.arch = "SM+LN+G";
    info.ctx = 128;
    return info;
}

static es_summary_options options_of(int64_t step)
{
    es_summary_options options;
    es_summary_options_default(&options);
    options.step = step;
    return options;
}

/* Loads run 0 of a file; what it borrows from the reader is gone. */
static es_status try_load(const char *path, const es_summary_options *options)
{
    es_reader *reader;
    es_run_summary *summary = NULL;
    es_assert_ok(es_reader_open(&reader, path));
    es_status status = es_summary_load(&summary, reader, 0, options);
    assert_true(!!summary == !status);
    es_summary_free(summary);
    es_reader_close(reader);
    return status;
}

ES_TEST(test_summary__a_run_is_summed_up_with_its_layers)
{
    char *path = es_folder_file(state, "run.db");
    const float x[6] = {1.0F, 3.0F, NAN, 0.5F, es_missing(), INFINITY};
    es_run_info info = known_run("first");
    info.config = "{\"steps\": 900}";
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 40, x, 6);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_string_equal(summary->path, path);
    assert_string_equal(summary->name, "first");
    assert_string_equal(summary->arch, "SM+LN+G");
    assert_string_equal(summary->status, "finished");
    assert_string_equal(summary->config, "{\"steps\":900}");
    assert_string_equal(summary->series, "entropy");
    assert_int_equal(summary->number, 1);
    assert_int_equal(summary->n_in_file, 1);
    assert_int_equal(summary->planned_steps, 900);
    assert_int_equal(summary->step, 40);
    assert_int_equal(summary->n_rows, 3);
    assert_int_equal(summary->n_columns, 2);
    es_assert_bits(summary->values, x, 6);
    assert_true(near(summary->layers[0].mean, 2, 0));
    assert_true(near(summary->layers[1].mean, 0.5, 0));
    assert_int_equal(summary->layers[1].nonfinite, 1);
    assert_true(isnan(summary->layers[2].mean));
    assert_int_equal(summary->layers[2].missing, 1);
    assert_true(near(summary->peak, 3, 0));
    assert_true(near(summary->m, 3, 0));
    assert_true(near(summary->ceiling, es_ceiling(128), 0));
    assert_int_equal(summary->bands.n_heads, 5);
    assert_int_equal(summary->bands.nonfinite, 2);
    assert_int_equal(summary->bands.counts[0], 1);
    assert_int_equal(summary->bands.counts[1], 1);
    assert_int_equal(summary->bands.counts[3], 1);
    es_summary_free(summary);
}

static char *write_steps(void **state)
{
    char *path = es_folder_file(state, "steps.db");
    es_run_info info = known_run("steps");
    es_recorded to = es_record(path, &info);
    for (int64_t step = 10; step <= 50; step += 20)
        es_record_all(&to, "entropy", step, (float)step / 20);
    es_record_value(&to, "loss", 10, 4.0F);
    es_record_value(&to, "loss", 20, 3.0F);
    es_record_value(&to, "loss", 45, 2.0F);
    es_record_value(&to, "loss", 60, 1.0F);
    es_record_close(&to);
    return path;
}

ES_TEST(test_summary__a_step_is_shown_or_the_one_before_it)
{
    char *path = write_steps(state);
    const int64_t wanted[] = {ES_STEP_FIRST, 30, ES_STEP_LAST};
    const float losses[] = {4.0F, 3.0F, 2.0F}; /* newest at or before */
    for (int i = 0; i < 3; i++) {
        es_summary_options options = options_of(wanted[i]);
        es_run_summary *summary = es_loaded(path, 0, &options);
        assert_int_equal(summary->step, 10 + 20 * i);
        assert_true(near(summary->peak, 0.5 + i, 0));
        assert_true(near(summary->loss, losses[i], 0));
        assert_true(near(summary->ppl, exp(losses[i]), 1e-5));
        assert_true(es_is_missing(summary->eval_loss));
        assert_true(es_is_missing(summary->eval_ppl));
        es_summary_free(summary);
    }
    es_summary_options options = options_of(31);
    es_assert_status(ES_ENOTFOUND, "30", try_load(path, &options));
}

ES_TEST(test_summary__a_loss_that_comes_later_is_missing)
{
    char *path = es_folder_file(state, "late.db");
    es_run_info info = known_run("late");
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_value(&to, "loss", 6, 4.0F);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_true(es_is_missing(summary->loss));
    assert_true(es_is_missing(summary->ppl));
    es_summary_free(summary);
}

/* A regulariser's share of the loss is no perplexity. */
ES_TEST(test_summary__perplexity_is_of_the_cross_entropy)
{
    char *path = es_folder_file(state, "ce.db");
    const float eval[] = {2.5F, 2.25F};
    es_run_info info = known_run("ce");
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_value(&to, "loss", 5, 4.0F);
    es_record_value(&to, "ce", 5, 3.0F);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 4, &eval[0], 1);
    es_record_sample(&to, "ce", ES_PHASE_EVAL, 4, &eval[1], 1);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_true(near(summary->loss, 4, 0));
    assert_true(near(summary->ppl, exp(3), 1e-5));
    assert_true(near(summary->eval_loss, 2.5, 0));
    assert_true(near(summary->eval_ppl, exp(2.25), 1e-5));
    es_summary_free(summary);
}

/* The last evaluation belongs to the model after the last step. */
ES_TEST(test_summary__the_last_evaluation_is_the_result)
{
    char *path = es_folder_file(state, "last-eval.db");
    const float eval[] = {3.0F, 2.25F};
    es_run_info info = known_run("last eval");
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 4, &eval[0], 1);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 6, &eval[1], 1);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_true(near(summary->eval_loss, 2.25, 0));
    es_summary_free(summary);
    options = options_of(5); /* selected by its number */
    summary = es_loaded(path, 0, &options);
    assert_true(near(summary->eval_loss, 3, 0));
    es_summary_free(summary);
}

ES_TEST(test_summary__loss_keeps_nan_and_infinity_apart)
{
    const float losses[] = {NAN, INFINITY, -INFINITY, es_missing(), 1000.0F};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char name[32];
        snprintf(name, sizeof name, "loss%zu.db", i);
        char *path = es_folder_file(state, name);
        es_run_info info = known_run("loss");
        es_recorded to = es_record(path, &info);
        es_record_all(&to, "entropy", 5, 2.0F);
        es_record_value(&to, "loss", 5, losses[i]);
        es_record_close(&to);
        es_summary_options options = options_of(ES_STEP_LAST);
        es_run_summary *summary = es_loaded(path, 0, &options);
        es_assert_bits(&summary->loss, &losses[i], 1);
        assert_int_equal(es_is_missing(summary->ppl), i == 3);
        assert_int_equal(isnan(summary->ppl) && i != 3, i == 0);
        assert_true(i != 2 || near(summary->ppl, 0, 0));
        assert_true(i != 4 || isinf(summary->ppl));
        es_summary_free(summary);
    }
}

ES_TEST(test_summary__eval_is_shown_where_there_is_no_train)
{
    char *path = es_folder_file(state, "eval.db");
    const float x[6] = {1, 1, 1, 1, 1, 2};
    es_run_info info = known_run("eval");
    es_recorded to = es_record(path, &info);
    int64_t empty;
    es_assert_ok(es_writer_series(to.writer, &empty, to.run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN, "nats"));
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 9, x, 6);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 9, x, 1);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_int_equal(summary->phase, ES_PHASE_EVAL);
    assert_true(near(summary->loss, 1, 0));
    es_summary_free(summary);
    options.phase = ES_PHASE_ONLY_TRAIN;
    es_assert_status(ES_ENOTFOUND, "entropy", try_load(path, &options));
    options.phase = ES_PHASE_ONLY_EVAL;
    es_assert_ok(try_load(path, &options));
}

ES_TEST(test_summary__train_comes_first)
{
    char *path = es_folder_file(state, "both.db");
    const float x[6] = {1, 1, 1, 1, 1, 2};
    es_run_info info = known_run("both");
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 3, 2.0F);
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 9, x, 6);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_int_equal(summary->phase, ES_PHASE_TRAIN);
    assert_int_equal(summary->step, 3);
    es_summary_free(summary);
}

ES_TEST(test_summary__what_is_not_there_is_named)
{
    char *path = write_steps(state);
    es_summary_options options = options_of(ES_STEP_LAST);
    options.series = "entropi";
    es_assert_status(ES_ENOTFOUND, "entropy", try_load(path, &options));

    path = es_folder_file(state, "nothing.db");
    es_run_info info = known_run("bare");
    es_recorded to = es_record(path, &info);
    es_record_close(&to);
    options.series = "entropy";
    es_assert_status(ES_ENOTFOUND, "run 1 (bare) has no sample",
                     try_load(path, &options));
}

ES_TEST(test_summary__series_of_every_shape_are_read)
{
    char *path = es_folder_file(state, "shapes.db");
    const float alpha[3] = {1, 2, 4};
    es_run_info info = known_run("shapes");
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "alpha", ES_PHASE_TRAIN, 1, alpha, 3);
    es_record_value(&to, "loss", 1, 2.5F);
    es_record_close(&to);
    es_summary_options options = options_of(ES_STEP_LAST);
    options.series = "alpha";
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_int_equal(summary->n_rows, 3);
    assert_int_equal(summary->n_columns, 1);
    assert_true(near(summary->layers[2].mean, 4, 0));
    assert_int_equal(summary->bands.n_heads, 0);
    es_summary_free(summary);
    options.series = "loss";
    summary = es_loaded(path, 0, &options);
    assert_int_equal(summary->n_rows, 1);
    assert_int_equal(summary->n_columns, 1);
    es_summary_free(summary);
}

ES_TEST(test_summary__running_without_a_writer_is_interrupted)
{
    char *path = es_folder_file(state, "live.db");
    es_run_info info = known_run("live");
    es_summary_options options = options_of(ES_STEP_LAST);
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 5, 2.0F);
    es_run_summary *summary = es_loaded(path, 0, &options);
    assert_string_equal(summary->status, "running");
    es_summary_free(summary);
    es_record_close(&to);
    summary = es_loaded(path, 0, &options);
    assert_string_equal(summary->status, "interrupted");
    es_summary_free(summary);
}

ES_TEST(test_summary__each_policy_gives_its_m)
{
    char *path = write_steps(state);
    es_summary_options options = options_of(ES_STEP_LAST);
    const double expected[] = {4, 2.5, es_ceiling(128), log(128), 1.5};
    for (int i = 0; i <= ES_MAX_NUMBER; i++) {
        options.max = (es_max){.policy = (es_max_policy)i, .number = 1.5};
        es_run_summary *summary = es_loaded(path, 0, &options);
        if (i == ES_MAX_OBSERVED)
            assert_true(near(summary->m, 2.5, 0));
        es_summary_set_max(summary, 4);
        assert_true(near(summary->m, expected[i], 0));
        int band = 2.5 >= 0.75 * expected[i] ? 3 : 2;
        assert_int_equal(summary->bands.counts[band], 6);
        es_summary_free(summary);
    }
    options.max = (es_max){.policy = ES_MAX_LOGT};
    options.series = "loss";
    es_assert_status(ES_EUSAGE, "loss", try_load(path, &options));
}

ES_TEST(test_summary__the_peak_alone_is_that_of_the_summary)
{
    char *path = write_steps(state);
    es_summary_options options = options_of(30);
    es_reader *reader;
    double peak = 0;
    int64_t step = 0;
    es_assert_ok(es_reader_open(&reader, path));
    es_assert_ok(es_summary_peak(&peak, &step, reader, 0, &options));
    assert_true(near(peak, 1.5, 0));
    assert_int_equal(step, 30);
    options.step = 31;
    es_assert_status(ES_ENOTFOUND, "30",
                     es_summary_peak(&peak, &step, reader, 0, &options));
    es_reader_close(reader);
    assert_true(near(es_peak_of(NAN, 2), 2, 0));
    assert_true(near(es_peak_of(3, NAN), 3, 0));
    assert_true(isnan(es_peak_of(NAN, NAN)));
}

int main(void)
{
    return es_test_main(es_folder_make, es_folder_remove, NULL, NULL);
}
