/** Tests the summaries of runs that are read from files: their contents, their
 *  flags, and their descriptions as text. */
#include "cli/runs/summary.h"
#include "tests/support/paper.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

/* path of the run file that the current test uses */
static char *path;
static es_summary_options options;
static es_run_summary *summary; /* the loaded summary; NULL if none is loaded */

static int make(void **state)
{
    int failed = es_folder_make(state);
    path = es_folder_file(state, "run.db");
    es_summary_options_default(&options);
    summary = NULL;
    return failed;
}

static int clean(void **state)
{
    es_summary_free(summary);
    return es_folder_remove(state);
}

/* A run with L = 3, H = 2, T = 128. */
static es_run_info known_run(void)
{
    es_run_info info = es_run_of(3, 2);
    info.name = "first";
    info.arch = "SM+LN+G";
    info.ctx = 128;
    return info;
}

/* Replaces the file by a new one that contains only this run. */
static es_recorded begin_run(const es_run_info *info)
{
    remove(path);
    return es_record(path, info);
}

static es_recorded begin(void)
{
    const es_run_info info = known_run();
    return begin_run(&info);
}

static void show(void)
{
    es_summary_free(summary);
    summary = NULL;
    summary = es_loaded(path, 0, &options);
}

static void end(es_recorded *to)
{
    es_record_close(to);
    show();
}

/* Loads the summary of run 0 and frees it. Returns the status of loading it. */
static es_status try_load(void)
{
    es_run_summary *loaded = NULL;
    es_reader *reader = es_open_reader(path);
    es_status status = es_summary_load(&loaded, reader, 0, &options);
    assert_true(!!loaded == !status);
    es_summary_free(loaded);
    es_reader_close(reader);
    return status;
}

TEST(a_configured_ceiling_is_used)
{
    const float x[6] = {1, 3, 2, 0.5F, 0, 4};
    es_run_info info = known_run();
    for (int own = 0; own < 2; own++) {
        info.config = own ? "{\"ceiling\":4.25}" : "{\"steps\":900}";
        es_recorded to = begin_run(&info);
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 40, x, 6);
        end(&to);
        assert_true(
            near(summary->ceiling, own ? 4.25 : es_ceiling((int)info.ctx), 0));
    }
}

TEST(a_summary_has_the_statistics_of_each_layer)
{
    const float x[6] = {1.0F, 3.0F, NAN, 0.5F, es_missing(), INFINITY};
    es_run_info info = known_run();
    info.config = "{\"steps\": 900}";
    es_recorded to = begin_run(&info);
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 40, x, 6);
    es_record_end(&to, ES_RUN_FINISHED);
    end(&to);
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
}

static void write_steps(void)
{
    es_recorded to = begin();
    for (int64_t step = 10; step <= 50; step += 20)
        es_record_all(&to, "entropy", step, (float)step / 20);
    es_record_value(&to, "loss", 10, 4.0F);
    es_record_value(&to, "loss", 20, 3.0F);
    es_record_value(&to, "loss", 45, 2.0F);
    es_record_value(&to, "loss", 60, 1.0F);
    es_record_close(&to);
}

TEST(a_step_is_shown_with_the_newest_loss_at_or_before_it)
{
    write_steps();
    const int64_t wanted[] = {ES_STEP_FIRST, 30, ES_STEP_LAST};
    const float losses[] = {4.0F, 3.0F, 2.0F}; /* the newest value at or before
                                                  the shown step is expected */
    for (int i = 0; i < 3; i++) {
        options.step = wanted[i];
        show();
        assert_int_equal(summary->step, 10 + 20 * i);
        assert_true(near(summary->peak, 0.5 + i, 0));
        assert_true(near(summary->loss, losses[i], 0));
        assert_true(near(summary->ppl, exp(losses[i]), 1e-5));
        assert_true(es_is_missing(summary->eval_loss));
        assert_true(es_is_missing(summary->eval_ppl));
    }
    options.step = 31;
    es_assert_status(ES_ENOTFOUND, "30", try_load());
}

TEST(a_loss_that_comes_later_is_missing)
{
    es_recorded to = begin();
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_value(&to, "loss", 6, 4.0F);
    end(&to);
    assert_true(es_is_missing(summary->loss));
    assert_true(es_is_missing(summary->ppl));
}

/* The loss may include a regulariser, which must not affect perplexity. */
TEST(perplexity_is_computed_from_the_cross_entropy)
{
    const float eval[] = {2.5F, 2.25F};
    es_recorded to = begin();
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_value(&to, "loss", 5, 4.0F);
    es_record_value(&to, "ce", 5, 3.0F);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 4, &eval[0], 1);
    es_record_sample(&to, "ce", ES_PHASE_EVAL, 4, &eval[1], 1);
    end(&to);
    assert_true(near(summary->loss, 4, 0));
    assert_true(near(summary->ppl, exp(3), 1e-5));
    assert_true(near(summary->eval_loss, 2.5, 0));
    assert_true(near(summary->eval_ppl, exp(2.25), 1e-5));
}

/* The last evaluation measures the model after the last step. */
TEST(the_last_evaluation_is_the_result)
{
    const float eval[] = {3.0F, 2.25F};
    es_recorded to = begin();
    es_record_all(&to, "entropy", 5, 2.0F);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 4, &eval[0], 1);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 6, &eval[1], 1);
    end(&to);
    assert_true(near(summary->eval_loss, 2.25, 0));
    options.step = 5; /* the last evaluation before step 5 is then shown */
    show();
    assert_true(near(summary->eval_loss, 3, 0));
}

TEST(nan_and_infinite_losses_are_distinct)
{
    const float losses[] = {NAN, INFINITY, -INFINITY, es_missing(), 1000.0F};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        es_recorded to = begin();
        es_record_all(&to, "entropy", 5, 2.0F);
        es_record_value(&to, "loss", 5, losses[i]);
        end(&to);
        es_assert_bits(&summary->loss, &losses[i], 1);
        assert_int_equal(es_is_missing(summary->ppl), i == 3);
        assert_int_equal(isnan(summary->ppl) && i != 3, i == 0);
        assert_true(i != 2 || near(summary->ppl, 0, 0));
        assert_true(i != 4 || isinf(summary->ppl));
    }
}

TEST(eval_is_shown_where_there_is_no_train)
{
    const float x[6] = {1, 1, 1, 1, 1, 2};
    es_recorded to = begin();
    int64_t empty;
    es_assert_ok(es_writer_series(to.writer, &empty, to.run, "entropy",
                                  ES_SHAPE_HEAD, ES_PHASE_TRAIN, "nats"));
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 9, x, 6);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 9, x, 1);
    end(&to);
    assert_int_equal(summary->phase, ES_PHASE_EVAL);
    assert_true(near(summary->loss, 1, 0));
    options.phase = ES_PHASE_ONLY_TRAIN;
    es_assert_status(ES_ENOTFOUND, "entropy", try_load());
    options.phase = ES_PHASE_ONLY_EVAL;
    es_assert_ok(try_load());
}

TEST(train_is_shown_if_both_phases_have_samples)
{
    const float x[6] = {1, 1, 1, 1, 1, 2};
    es_recorded to = begin();
    es_record_all(&to, "entropy", 3, 2.0F);
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 9, x, 6);
    end(&to);
    assert_int_equal(summary->phase, ES_PHASE_TRAIN);
    assert_int_equal(summary->step, 3);
}

TEST(a_missing_series_or_step_is_named)
{
    write_steps();
    options.series = "entropi";
    es_assert_status(ES_ENOTFOUND, "entropy", try_load());

    es_recorded to = begin();
    es_record_close(&to);
    options.series = "entropy";
    es_assert_status(ES_ENOTFOUND, "run 1 (first) has no sample", try_load());
}

TEST(series_of_every_shape_are_read)
{
    const float alpha[3] = {1, 2, 4};
    es_recorded to = begin();
    es_record_sample(&to, "alpha", ES_PHASE_TRAIN, 1, alpha, 3);
    es_record_value(&to, "loss", 1, 2.5F);
    es_record_close(&to);
    options.series = "alpha";
    show();
    assert_int_equal(summary->n_rows, 3);
    assert_int_equal(summary->n_columns, 1);
    assert_true(near(summary->layers[2].mean, 4, 0));
    assert_int_equal(summary->bands.n_heads, 0);
    options.series = "loss";
    show();
    assert_int_equal(summary->n_rows, 1);
    assert_int_equal(summary->n_columns, 1);
}

TEST(running_without_a_writer_is_interrupted)
{
    es_run_info info = known_run();
    es_recorded to = begin_run(&info);
    es_record_all(&to, "entropy", 5, 2.0F);
    show();
    assert_string_equal(summary->status, "running");
    es_record_close(&to);
    show();
    assert_string_equal(summary->status, "interrupted");
}

TEST(each_policy_gives_its_own_m)
{
    write_steps();
    const double expected[] = {4, 2.5, es_ceiling(128), log(128), 1.5};
    for (int i = 0; i <= ES_MAX_NUMBER; i++) {
        options.max = (es_max){.policy = (es_max_policy)i, .number = 1.5};
        show();
        if (i == ES_MAX_OBSERVED)
            assert_true(near(summary->m, 2.5, 0));
        es_summary_set_max(summary, 4);
        assert_true(near(summary->m, expected[i], 0));
        int band = 2.5 >= 0.75 * expected[i] ? 3 : 2;
        assert_int_equal(summary->bands.counts[band], 6);
    }
    options.max = (es_max){.policy = ES_MAX_LOGT};
    options.series = "loss";
    es_assert_status(ES_EUSAGE, "loss", try_load());
}

TEST(the_larger_of_two_peaks_counts)
{
    assert_true(near(es_peak_of(NAN, 2), 2, 0));
    assert_true(near(es_peak_of(3, NAN), 3, 0));
    assert_true(isnan(es_peak_of(NAN, NAN)));
}

/* --- flags ----------------------------------------------------------------*/

static void assert_says(const char *expected)
{
    char said[256];
    size_t length = es_summary_print_flags(said, sizeof said, summary);
    assert_string_equal(said, expected);
    assert_int_equal(length, strlen(expected));
}

static void assert_flag(size_t index, const char *title, int64_t onset,
                        int64_t last, size_t n_heads)
{
    const es_flag *flag = &summary->flags[index];
    assert_true(index < summary->n_flags);
    assert_string_equal(es_flag_title(flag), title);
    assert_int_equal(flag->onset, onset);
    assert_int_equal(flag->last, last);
    assert_int_equal(flag->n_heads, n_heads);
}

TEST(published_models_have_the_expected_flags)
{
    static const struct {
        const char *arch, *said;
    } published[] = {
        {"SM+LN+G", "ok"},
        {"SM+LN+R", "ok"},
        {"SM+G", "overload L0-7 (error)"},
        {"SM+R", "overload L0-5 (warning)"},
        {"SM", "collapse L9-11 (critical); overload L0-5 (error)"},
    };
    for (size_t i = 0; i < 5; i++) {
        float x[ES_PAPER_VALUES];
        es_run_info info = es_run_of(12, 12);
        info.ctx = ES_PAPER_CTX;
        es_paper_heatmap(x, published[i].arch);
        es_recorded to = begin_run(&info);
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 32000, x,
                         ES_PAPER_VALUES);
        es_record_end(&to, ES_RUN_FINISHED);
        end(&to);
        assert_says(published[i].said);
        assert_int_equal(es_summary_alarms(summary), i == 2 || i == 4);
    }
}

/* Samples of different series must be evaluated in the order of steps. */
TEST(series_with_different_steps_are_judged_together)
{
    es_recorded to = begin();
    for (int64_t step = 0; step < 100; step++) {
        es_record_value(&to, "loss", step, step == 73 ? NAN : 2.0F);
        if (step % 10 == 0)
            es_record_all(&to, "entropy", step,
                          step >= 20 && step < 60 ? 0.01F : 1.0F);
        if (step % 25 == 0)
            es_record_all(&to, "max_logit", step, step == 75 ? 200.0F : 3.0F);
    }
    end(&to);
    assert_int_equal(summary->n_flags, 3);
    assert_flag(0, "collapse", 20, 50, 6);
    assert_flag(1, "nan", 73, 73, 0);
    assert_flag(2, "logits", 75, 75, 6);
    assert_false(summary->flags[0].stands);
    assert_int_equal(summary->flags[0].n_layers, 3);
    assert_int_equal(summary->flags[0].heads[5], 5);
    assert_says("nan (critical); logits L0-2 (warning)");
    assert_int_equal(es_summary_severity(summary), ES_SEVERITY_CRITICAL);
    assert_true(es_summary_alarms(summary));
}

/* Flags are evaluated on the samples of all series in step order, so a flag
 * that a NaN in one series raised stays active through a NaN in another
 * series. */
TEST(a_nan_may_continue_in_another_series)
{
    es_recorded to = begin();
    es_record_all(&to, "entropy", 0, 1.0F);
    es_record_all(&to, "nonfinite_rows", 0, 1.0F);
    es_record_all(&to, "nonfinite_rows", 20, 0.0F);
    es_record_value(&to, "loss", 10, NAN);
    es_record_value(&to, "loss", 30, 2.0F);
    end(&to);
    assert_int_equal(summary->n_flags, 1);
    assert_int_equal(summary->flags[0].onset, 0);
    assert_int_equal(summary->flags[0].last, 10);
}

TEST(eval_is_judged_if_it_is_shown)
{
    const float x[6] = {3.5F, 3.5F, 3.5F, 3.5F, 1, 1};
    es_recorded to = begin();
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 1, x, 6);
    end(&to);
    assert_says("overload L0-1 (error)");
}

TEST(a_flag_that_has_ended_raises_no_alarm)
{
    es_recorded to = begin();
    for (int64_t i = 0; i < 30; i++)
        es_record_all(&to, "entropy", 100 * i, i / 10 == 1 ? 3.8F : 1.0F);
    end(&to);
    assert_int_equal(summary->n_flags, 1);
    assert_int_equal(summary->flags[0].severity, ES_SEVERITY_ERROR);
    assert_says("ok");
    assert_false(es_summary_alarms(summary));
}

/* Writes and loads a run that has a NaN at `nan_step` and collapses at step 40.
   The collapse can be reported only at its third sample. */
static void load_fallen(int64_t nan_step)
{
    es_recorded to = begin();
    for (int64_t step = 0; step < 120; step += 10) {
        bool is_nan = step >= nan_step;
        es_record_all(&to, "entropy", step,
                      is_nan       ? NAN
                      : step >= 40 ? 0.01F + 0.001F * (float)step
                                   : 1.5F);
        es_record_value(&to, "loss", step, is_nan ? NAN : 3.5F);
    }
    end(&to);
}

TEST(a_collapse_before_a_nan_is_named)
{
    static const struct {
        int64_t nan_step, lead;
        const char *said;
    } cases[] = {
        {90, 40, "nan L0-2 (critical, 40 steps after collapse)"},
        /* here the NaN comes before the collapse can be reported */
        {50, ES_UNKNOWN, "nan L0-2 (critical)"},
        {40, ES_UNKNOWN, "nan L0-2 (critical)"},
        {1000, ES_UNKNOWN, "collapse L0-2 (critical)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load_fallen(cases[i].nan_step);
        assert_says(cases[i].said);
        assert_int_equal(es_summary_collapse_before_nan(summary),
                         cases[i].lead);
        if (i > 0)
            continue;
        assert_int_equal(summary->flags[0].kind, ES_FLAG_COLLAPSE);
        assert_int_equal(summary->flags[0].onset, 40);
        assert_int_equal(summary->flags[0].reported, 50);
    }
}

TEST(the_first_twentieth_is_a_warm_up)
{
    es_run_info info = known_run();
    info.config = "{\"steps\": 1000}";
    es_recorded to = begin_run(&info);
    for (int64_t step = 0; step < 50; step += 10)
        es_record_all(&to, "entropy", step, 3.8F);
    end(&to);
    assert_int_equal(summary->n_flags, 0);
}

TEST(a_run_without_ctx_is_marked)
{
    es_run_info info = es_run_of(3, 2);
    es_recorded to = begin_run(&info);
    es_record_all(&to, "entropy", 1, 9.0F);
    end(&to);
    assert_says("ok (no ctx)");
    assert_true(isnan(summary->ceiling));
}

TEST(layers_are_printed_as_ranges)
{
    es_run_info info = es_run_of(9, 1);
    const float rows[9] = {1, 0, 1, 1, 1, 0, 0, 1, 1};
    es_recorded to = begin_run(&info);
    es_record_all(&to, "entropy", 1, 1.0F);
    es_record_sample(&to, "nonfinite_rows", ES_PHASE_TRAIN, 1, rows, 9);
    end(&to);
    assert_says("nan L0,2-4,7-8 (critical)");
    char cut[8];
    assert_int_equal(es_summary_print_flags(cut, sizeof cut, summary), 25);
    assert_string_equal(cut, "nan L0,");
    assert_int_equal(es_summary_print_flags(NULL, 0, summary), 25);
}

/* The flag is raised and cleared again every two samples, so it has more
   episodes than are kept. */
TEST(the_number_of_kept_flags_is_limited)
{
    enum { N = 2 * (ES_FLAGS_KEPT + 500) };
    es_recorded to = begin();
    es_assert_ok(es_writer_begin(to.writer));
    for (int64_t step = 0; step < N; step++) {
        float x[6] = {1, 1, 1, 1, 1, 1};
        if (step % 2)
            x[step > N - 3 ? 4 : 0] = NAN;
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, 6);
    }
    es_assert_ok(es_writer_commit(to.writer));
    end(&to);
    assert_int_equal(summary->n_flags, ES_FLAGS_KEPT);
    const es_flag *last = &summary->flags[ES_FLAGS_KEPT - 1];
    assert_int_equal(last->onset, 2 * ES_FLAGS_KEPT - 1);
    assert_int_equal(last->last, N - 1);
    assert_int_equal(last->n_heads, 2);
    assert_int_equal(last->heads[1], 4);
    assert_int_equal(last->layers[1], 2);
    assert_says("nan L0,2 (critical)");
}

TEST(a_summary_without_flags_gets_those_of_an_earlier_one)
{
    load_fallen(80);
    es_run_summary *const earlier = summary;
    const size_t n = earlier->n_flags;
    summary = NULL;
    options.without_flags = true;
    show();
    assert_false(summary->judged);
    es_summary_move_flags(summary, earlier);
    assert_true(summary->judged);
    assert_int_equal(summary->n_flags, n);
    assert_string_equal(es_flag_title(&summary->flags[0]), "collapse");
    assert_int_equal(earlier->n_flags, 0);
    assert_false(earlier->judged);
    es_summary_free(earlier);
}

TEST(a_damaged_run_costs_only_itself)
{
    const es_run_info info = known_run();
    es_recorded to = begin_run(&info);
    for (int64_t step = 0; step < 5; step++)
        es_record_all(&to, "entropy", step, 1.0F);
    es_record_run(&to, &info);
    es_record_all(&to, "entropy", 0, 1.0F);
    es_record_close(&to);
    es_make_schema_1(path); /* removes the checksums; with checksums, only the
                               damaged sample would be missing */
    es_sqlite(path, "UPDATE sample SET value = x'0011' "
                    "WHERE step = 2 AND series_id = 1;");
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_status(ES_EFORMAT, "run.db",
                     es_summary_load(&summary, reader, 0, &options));
    assert_null(summary);
    es_assert_ok(es_summary_load(&summary, reader, 1, &options));
    assert_int_equal(summary->number, 2);
    assert_int_equal(summary->n_in_file, 2);
    /* The last sample is intact. If no flags are evaluated, no other sample is
       read. */
    es_summary_free(summary);
    options.without_flags = true;
    es_assert_ok(es_summary_load(&summary, reader, 0, &options));
    assert_says("-");
}

TEST_EACH(make, clean)
