/** Comparisons of runs that know little, or lie. */
#include "tests/support/listed.h"

#include "analyzer/base/value.h"
#include "tests/support/compared.h"
#include "tests/support/golden_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N_FILES(files) (sizeof(files) / sizeof *(files))

static void assert_golden(char *text, const char *name)
{
    assert_true(es_text_is_golden(text, name));
    free(text);
}

ES_TEST(test_compare_odd__one_run_has_nothing_to_compare_with)
{
    static const char *const one[] = {"a1.db"};
    static const es_compared_written run = {.file = "a1.db",
                                            .name = "a, seed 1",
                                            .arch = "SM+LN+G",
                                            .n_layer = 3,
                                            .n_head = 5,
                                            .seed = 1,
                                            .low = 1,
                                            .evals = {5, 2, 1.5F, 1.75F},
                                            .logit = 150};
    es_compared_files of;
    es_compare_write(state, &run);
    es_compare_files(&of, state, one, 1, NULL, ES_STEP_LAST);
    assert_golden(es_compared_text(&of, (es_table_options){0}),
                  "compare_one.txt");
    json_t *root = es_compared_parsed(&of);
    assert_int_equal(json_array_size(es_json_at(root, "differing")), 0);
    es_json_assert_near(root, "runs.0.distance.ks", 0);
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare_odd__no_run_prints_nothing)
{
    es_compared_files of;
    es_compare_files(&of, state, NULL, 0, NULL, ES_STEP_LAST);
    char *text = es_compared_text(&of, (es_table_options){0});
    assert_string_equal(text, "");
    free(text);
    json_t *root = es_compared_parsed(&of);
    assert_int_equal(json_array_size(es_json_at(root, "runs")), 0);
    json_decref(root);
    es_compared_free(&of);
}

/* A run that is NaN before its next evaluation, or is stopped then, has one
   that is finite, and ended NaN all the same. */
ES_TEST(test_compare_odd__a_run_that_ended_nan_has_no_best)
{
    static const char *const files[] = {"well.db", "nan.db"};
    static const float losses[] = {2.5F, NAN};
    es_compared_files of;
    es_run_info info = es_run_of(2, 3);
    for (size_t i = 0; i < N_FILES(files); i++) {
        info.name = files[i];
        info.seed = (int64_t)i;
        es_recorded to = es_record(es_folder_file(state, files[i]), &info);
        es_compare_record_heads(&to, 9, 1);
        es_compare_record_eval(&to, "loss", 0, 3);
        es_record_value(&to, "loss", 9, losses[i]);
        es_record_close(&to);
    }
    es_compare_files(&of, state, files, N_FILES(files), NULL, ES_STEP_LAST);
    json_t *root = es_compared_parsed(&of);
    assert_int_equal(json_array_size(es_json_at(root, "configurations")), 1);
    es_json_assert_near(root, "configurations.0.final.n", 1);
    es_json_assert_near(root, "configurations.0.final.nonfinite", 1);
    es_json_assert_near(root, "configurations.0.best.nonfinite", 1);
    es_json_assert_near(root, "runs.1.eval.final_ppl", exp(3));
    json_decref(root);
    es_compared_free(&of);
}

/* No configuration, no evaluation, no context, one head, all NaN, all missing,
   one name twice: none of it is zero. */
ES_TEST(test_compare_odd__runs_that_know_little_are_compared)
{
    static const char *const files[] = {"bare.db", "nan.db", "none.db"};
    es_compared_files of;
    es_run_info info = es_run_of(1, 1);
    info.name = "bare";
    es_recorded to = es_record(es_folder_file(state, "bare.db"), &info);
    es_record_all(&to, "entropy", 3, 0.75F);
    es_record_value(&to, "loss", 3, 2.5F);
    es_record_close(&to);
    info = es_run_of(2, 7);
    info.name = "bare";
    info.config = "[1]";
    to = es_record(es_folder_file(state, "nan.db"), &info);
    es_record_all(&to, "entropy", 3, NAN);
    es_record_value(&to, "loss", 3, NAN);
    es_record_end(&to, ES_RUN_FAILED);
    es_record_close(&to);
    info = es_run_of(3, 2);
    info.name = "";
    info.config = "{\"lr\":null,\"list\":[1,{\"a\":\"\\u001b\"}]}";
    to = es_record(es_folder_file(state, "none.db"), &info);
    es_record_all(&to, "entropy", 3, es_missing());
    es_record_close(&to);
    es_compare_files(&of, state, files, N_FILES(files), "nan.db", ES_STEP_LAST);
    assert_golden(es_compared_text(&of, (es_table_options){0}),
                  "compare_bare.txt");
    assert_golden(es_compared_json(&of), "compare_bare.json");
    json_decref(es_compared_parsed(&of));
    es_compared_free(&of);
}

/* Keys and values of a file steer no terminal, and any number of keys is
   reported, not shown. */
ES_TEST(test_compare_odd__hostile_configurations_do_no_harm)
{
    static const char *const files[] = {"many.db", "evil.db"};
    es_compared_files of;
    size_t size = 400000, at = 1;
    char *config = malloc(size);
    assert_non_null(config);
    config[0] = '{';
    for (int i = 0; i < 5000; i++)
        at += (size_t)snprintf(config + at, size - at, "\"k%d\":%d,", i, i);
    snprintf(config + at, size - at, "\"last\":1}");
    es_compared_written many = {.file = "many.db",
                                .name = "many",
                                .config = config,
                                .n_layer = 2,
                                .n_head = 3,
                                .seed = ES_UNKNOWN,
                                .low = 1,
                                .evals = {1, 2, 3, 4},
                                .logit = es_missing()};
    es_compare_write(state, &many);
    es_compared_written evil = many;
    evil.file = "evil.db";
    evil.name = "evil\033[2J";
    evil.config = "{\"\\u001b[31m\\u009b\\n\":\"\\u001b]0;x\\u0007\",\"k1\":"
                  "1e999,\"k2\":123456789012345678901234567890,"
                  "\"n\":{\"\\u001b\":\"\\u009b\x7f\"}}";
    es_compare_write(state, &evil);
    es_compare_files(&of, state, files, N_FILES(files), NULL, ES_STEP_LAST);
    char *text = es_compared_text(&of, (es_table_options){.width = 90});
    char *json = es_compared_json(&of);
    for (const char *c = "\033\007\x7f\r"; *c; c++) {
        assert_null(strchr(text, *c));
        assert_null(strchr(json, *c));
    }
    assert_null(strstr(text, "\xc2\x9b"));
    assert_null(strstr(json, "\xc2\x9b"));
    assert_non_null(strstr(text, "more settings differ: --json has them"));
    assert_non_null(strstr(text, "many.db: more than 4096 settings"));
    json_decref(es_compared_parsed(&of));
    free(text);
    free(json);
    free(config);
    es_compared_free(&of);
}

/* Large whole numbers differ in their last digit; 1e-2 is 0.01; a text is no
   number; other data is another configuration where no checksum says what it
   is. */
ES_TEST(test_compare_odd__values_written_otherwise_are_the_same)
{
    static const char *const files[] = {"x.db", "y.db"};
    static const char *const configs[] = {
        "{\"a\":9007199254740993,\"b\":1e-2,\"c\":1,\"d\":true,\"e\":1,"
        "\"f\":2,\"f\":3,\"data\":\"x\"}",
        "{\"a\":9007199254740992,\"b\":0.01,\"c\":\"1\",\"d\":1,\"e\":1.0,"
        "\"f\":3,\"data\":\"y\"}"};
    es_compared_files of;
    for (size_t i = 0; i < 2; i++) {
        es_compared_written run = {.file = files[i],
                                   .name = "x",
                                   .config = configs[i],
                                   .n_layer = 2,
                                   .n_head = 3,
                                   .seed = ES_UNKNOWN,
                                   .low = 1,
                                   .evals = {1, 1, 1, 1},
                                   .logit = es_missing()};
        es_compare_write(state, &run);
    }
    es_compare_files(&of, state, files, 2, NULL, ES_STEP_LAST);
    json_t *root = es_compared_parsed(&of);
    assert_string_equal(es_json_list_at(root, "differing"), "a c d data");
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare_odd__a_baseline_is_one_run)
{
    es_summary_options options;
    es_run_summary *summary;
    es_comparison *comparison;
    es_reader *reader;
    const char *path = es_folder_file(state, "two-runs.db");
    es_write_run(path, "first", 3);
    es_write_run(path, "second", 3);
    es_summary_options_default(&options);
    es_assert_ok(es_comparison_new(&comparison, &options));
    es_assert_ok(es_reader_open(&reader, path));
    es_assert_ok(es_summary_load(&summary, reader, 1, &options));
    es_assert_status(ES_EUSAGE, "a baseline is one run, and this file has 2",
                     es_comparison_add(comparison, reader, 1, summary, true));
    es_assert_status(ES_ENOTFOUND, "no baseline was read",
                     es_comparison_finish(comparison, NULL, path));
    es_comparison_free(comparison);
    es_summary_free(summary);
    es_reader_close(reader);
}

int main(void)
{
    return es_test_main(NULL, NULL, es_folder_make, es_folder_remove);
}
