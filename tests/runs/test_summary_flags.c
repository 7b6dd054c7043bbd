/** The flags of runs in files, and what is said of them. */
#include "tests/support/listed.h"

#include "analyzer/base/value.h"
#include "cli/runs/summary.h"
#include "tests/support/loaded.h"
#include "tests/support/paper.h"
#include "tests/support/recorded.h"

#include <math.h>

static es_run_info known_run(void)
{
    es_run_info info = es_run_of(3, 2);
    info.ctx = 128;
    return info;
}

static void assert_says(const es_run_summary *summary, const char *expected)
{
    char said[256];
    size_t length = es_summary_print_flags(said, sizeof said, summary);
    assert_string_equal(said, expected);
    assert_int_equal(length, strlen(expected));
}

ES_TEST(test_summary_flags__published_models_have_their_flags)
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
        char *path = es_folder_file(state, published[i].arch);
        es_run_info info = es_run_of(12, 12);
        info.ctx = ES_PAPER_CTX;
        if (!es_paper_heatmap(x, published[i].arch))
            skip();
        es_recorded to = es_record(path, &info);
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 32000, x,
                         ES_PAPER_VALUES);
        es_record_end(&to, ES_RUN_FINISHED);
        es_record_close(&to);
        es_run_summary *summary = es_loaded_run(path, 0);
        assert_says(summary, published[i].said);
        assert_int_equal(es_summary_alarms(summary), i == 2 || i == 4);
        es_summary_free(summary);
    }
}

/* Series of different rhythms: the judge sees them in the order of steps. */
ES_TEST(test_summary_flags__series_of_other_rhythms_are_judged_together)
{
    char *path = es_folder_file(state, "episodes.db");
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 100; step++) {
        es_record_value(&to, "loss", step, step == 73 ? NAN : 2.0F);
        if (step % 10 == 0)
            es_record_all(&to, "entropy", step,
                          step >= 20 && step < 60 ? 0.01F : 1.0F);
        if (step % 25 == 0)
            es_record_all(&to, "max_logit", step, step == 75 ? 200.0F : 3.0F);
    }
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_int_equal(summary->n_flags, 3);
    const es_flag *flag = summary->flags;
    assert_int_equal(flag[0].kind, ES_FLAG_COLLAPSE);
    assert_int_equal(flag[0].onset, 20);
    assert_int_equal(flag[0].last, 50);
    assert_false(flag[0].stands);
    assert_int_equal(flag[0].n_layers, 3);
    assert_int_equal(flag[0].n_heads, 6);
    assert_int_equal(flag[0].heads[5], 5);
    assert_int_equal(flag[1].kind, ES_FLAG_NAN);
    assert_int_equal(flag[1].onset, 73);
    assert_int_equal(flag[1].n_heads, 0);
    assert_int_equal(flag[2].kind, ES_FLAG_LOGITS);
    assert_int_equal(flag[2].onset, 75);
    assert_says(summary, "nan (critical); logits L0-2 (warning)");
    assert_int_equal(es_summary_severity(summary), ES_SEVERITY_CRITICAL);
    assert_true(es_summary_alarms(summary));
    es_summary_free(summary);
}

/* Series are merged by step: this nan goes from one to the other. */
ES_TEST(test_summary_flags__a_nan_goes_on_in_another_series)
{
    char *path = es_folder_file(state, "merged.db");
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 0, 1.0F);
    es_record_all(&to, "nonfinite_rows", 0, 1.0F);
    es_record_all(&to, "nonfinite_rows", 20, 0.0F);
    es_record_value(&to, "loss", 10, NAN);
    es_record_value(&to, "loss", 30, 2.0F);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_int_equal(summary->n_flags, 1);
    assert_int_equal(summary->flags[0].onset, 0);
    assert_int_equal(summary->flags[0].last, 10);
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__eval_is_judged_where_it_is_shown)
{
    char *path = es_folder_file(state, "judged.db");
    const float x[6] = {3.5F, 3.5F, 3.5F, 3.5F, 1, 1};
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 1, x, 6);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_says(summary, "overload L0-1 (error)");
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__what_is_over_raises_no_alarm)
{
    char *path = es_folder_file(state, "over.db");
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 30; step++)
        es_record_all(&to, "entropy", step, step / 10 == 1 ? 3.8F : 1.0F);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_int_equal(summary->n_flags, 1);
    assert_int_equal(summary->flags[0].severity, ES_SEVERITY_ERROR);
    assert_says(summary, "ok");
    assert_false(es_summary_alarms(summary));
    es_summary_free(summary);
}

/* Collapsed from step 40 on, reported at the third sample of it, NaN at `nan`.
 */
static es_run_summary *load_fallen(void **state, int64_t nan_step)
{
    char name[32];
    snprintf(name, sizeof name, "nan-at-%d.db", (int)nan_step);
    char *path = es_folder_file(state, name);
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 120; step += 10) {
        bool is_nan = step >= nan_step;
        es_record_all(&to, "entropy", step,
                      is_nan       ? NAN
                      : step >= 40 ? 0.01F + 0.001F * (float)step
                                   : 1.5F);
        es_record_value(&to, "loss", step, is_nan ? NAN : 3.5F);
    }
    es_record_close(&to);
    return es_loaded_run(path, 0);
}

ES_TEST(test_summary_flags__a_collapse_before_a_nan_is_named)
{
    es_run_summary *summary = load_fallen(state, 90);
    assert_says(summary, "nan L0-2 (critical, 40 steps after collapse)");
    assert_int_equal(es_summary_collapse_before_nan(summary), 40);
    assert_int_equal(summary->flags[0].kind, ES_FLAG_COLLAPSE);
    assert_int_equal(summary->flags[0].onset, 40);
    assert_int_equal(summary->flags[0].reported, 50);
    es_summary_free(summary);
    summary = load_fallen(state, 50); /* the collapse shows by its end alone */
    assert_says(summary, "nan L0-2 (critical)");
    assert_int_equal(es_summary_collapse_before_nan(summary), ES_UNKNOWN);
    es_summary_free(summary);
    summary = load_fallen(state, 40);
    assert_int_equal(es_summary_collapse_before_nan(summary), ES_UNKNOWN);
    es_summary_free(summary);
    summary = load_fallen(state, 1000);
    assert_says(summary, "collapse L0-2 (critical)");
    assert_int_equal(es_summary_collapse_before_nan(summary), ES_UNKNOWN);
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__the_first_twentieth_is_a_warm_up)
{
    char *path = es_folder_file(state, "warm.db");
    es_run_info info = known_run();
    info.config = "{\"steps\": 1000}";
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 50; step += 10)
        es_record_all(&to, "entropy", step, 3.8F);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_int_equal(summary->n_flags, 0);
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__without_ctx_it_says_so)
{
    char *path = es_folder_file(state, "noctx.db");
    es_run_info info = es_run_of(3, 2);
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 1, 9.0F);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_says(summary, "ok (no ctx)");
    assert_true(isnan(summary->ceiling));
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__layers_are_ranges)
{
    char *path = es_folder_file(state, "ranges.db");
    es_run_info info = es_run_of(9, 1);
    const float rows[9] = {1, 0, 1, 1, 1, 0, 0, 1, 1};
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 1, 1.0F);
    es_record_sample(&to, "nonfinite_rows", ES_PHASE_TRAIN, 1, rows, 9);
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_says(summary, "nan L0,2-4,7-8 (critical)");
    char cut[8];
    assert_int_equal(es_summary_print_flags(cut, sizeof cut, summary), 25);
    assert_string_equal(cut, "nan L0,");
    assert_int_equal(es_summary_print_flags(NULL, 0, summary), 25);
    es_summary_free(summary);
}

/* On and off at every other sample, more often than flags are kept. */
ES_TEST(test_summary_flags__memory_is_bounded)
{
    enum { N = 2 * (ES_FLAGS_KEPT + 500) };
    char *path = es_folder_file(state, "many.db");
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    es_assert_ok(es_writer_begin(to.writer));
    for (int64_t step = 0; step < N; step++) {
        float x[6] = {1, 1, 1, 1, 1, 1};
        if (step % 2)
            x[step > N - 3 ? 4 : 0] = NAN;
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, 6);
    }
    es_assert_ok(es_writer_commit(to.writer));
    es_record_close(&to);
    es_run_summary *summary = es_loaded_run(path, 0);
    assert_int_equal(summary->n_flags, ES_FLAGS_KEPT);
    const es_flag *last = &summary->flags[ES_FLAGS_KEPT - 1];
    assert_int_equal(last->onset, 2 * ES_FLAGS_KEPT - 1);
    assert_int_equal(last->last, N - 1);
    assert_int_equal(last->n_heads, 2);
    assert_int_equal(last->heads[1], 4);
    assert_int_equal(last->layers[1], 2);
    assert_says(summary, "nan L0,2 (critical)");
    es_summary_free(summary);
}

ES_TEST(test_summary_flags__a_damaged_run_costs_only_itself)
{
    char *path = es_folder_file(state, "damaged.db");
    es_run_info info = known_run();
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 5; step++)
        es_record_all(&to, "entropy", step, 1.0F);
    es_record_run(&to, &info);
    es_record_all(&to, "entropy", 0, 1.0F);
    es_record_close(&to);
    es_make_schema_1(path); /* with checksums it costs the sample alone */
    es_sqlite(path, "UPDATE sample SET value = x'0011' "
                    "WHERE step = 2 AND series_id = 1;");
    es_reader *reader;
    es_run_summary *summary = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    es_assert_ok(es_reader_open(&reader, path));
    es_assert_status(ES_EFORMAT, "damaged.db",
                     es_summary_load(&summary, reader, 0, &options));
    assert_null(summary);
    es_assert_ok(es_summary_load(&summary, reader, 1, &options));
    assert_int_equal(summary->number, 2);
    assert_int_equal(summary->n_in_file, 2);
    es_summary_free(summary);
    /* its last sample is whole, and not judging it reads nothing else */
    options.without_flags = true;
    es_assert_ok(es_summary_load(&summary, reader, 0, &options));
    assert_says(summary, "-");
    es_summary_free(summary);
    es_reader_close(reader);
}

ES_TEST(test_summary_flags__a_run_is_called_by_arch_or_name)
{
    es_run_summary a = {.name = (char[]){"a"}, .arch = (char[]){"SM"}};
    es_run_summary b = {.name = (char[]){"b"}, .arch = (char[]){"SM"}};
    es_run_summary c = {.name = (char[]){"c"}, .arch = (char[]){"SM+G"}};
    es_run_summary d = {.name = (char[]){"d"}};
    const es_run_summary *const all[] = {&a, &b, &c, &d};
    assert_string_equal(es_summary_title(&a, all, 4), "a");
    assert_string_equal(es_summary_title(&b, all, 4), "b");
    assert_string_equal(es_summary_title(&c, all, 4), "SM+G");
    assert_string_equal(es_summary_title(&d, all, 4), "d");
    assert_string_equal(es_summary_title(&a, all, 1), "SM");
}

int main(void)
{
    return es_test_main(es_folder_make, es_folder_remove, NULL, NULL);
}
