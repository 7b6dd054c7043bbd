/** Runs compared with each other. */
#include "tests/support/listed.h"

#include "analyzer/base/value.h"
#include "tests/support/compared.h"
#include "tests/support/golden_text.h"
#include "tests/support/near.h"
#include "tests/support/recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N_FILES(files) (sizeof(files) / sizeof *(files))

#define CHECKED ",\"tokens_checksum\":\"c0ffee\"}"

/* Two configurations of three and one seeds; a seed that ended NaN, and one
   whose best evaluation is not the last; other threads and paths. */
static void write_seeds(void **state)
{
    const es_compared_written runs[] = {
        {"a1.db",
         "a, seed 1",
         "SM+LN+G",
         "{\"lr\":1e-3,\"threads\":1,\"data\":\"x.tok\",\"seed\":7" CHECKED,
         3,
         5,
         1,
         1,
         {5, 2, 1.5F, 1.75F},
         150},
        {"a2.db",
         "a, seed 2",
         "SM+LN+G",
         "{\"lr\":0.001,\"threads\":4,\"data\":\"y.tok\"" CHECKED,
         3,
         5,
         2,
         1.25F,
         {5, 2, 2, 1.25F},
         50},
        {"a3.db",
         "a, seed 3",
         "SM+LN+G",
         "{\"data\":\"x.tok\",\"threads\":1,\"lr\":1E-3" CHECKED,
         3,
         5,
         3,
         NAN,
         {5, 3, NAN, NAN},
         2000},
        {"b1.db",
         "b",
         "SM",
         "{\"lr\":1.25e-3,\"note\":\"x\",\"threads\":1,\"data\":\"x."
         "tok\"" CHECKED,
         4,
         3,
         1,
         0.5F,
         {5, 2.5F, 2.25F, 2},
         50},
    };
    for (size_t i = 0; i < N_FILES(runs); i++)
        es_compare_write(state, &runs[i]);
}

static const char *const seeds[] = {"a1.db", "a2.db", "a3.db", "b1.db"};

static void compare_seeds(es_compared_files *out, void **state,
                          const char *baseline)
{
    write_seeds(state);
    es_compare_files(out, state, seeds, N_FILES(seeds), baseline, ES_STEP_LAST);
}

static void assert_golden(char *text, const char *name)
{
    assert_true(es_text_is_golden(text, name));
    free(text);
}

/* --- tables ---------------------------------------------------------------*/

ES_TEST(test_compare__seeds_of_a_configuration_are_taken_together)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    assert_golden(es_compared_text(&of, (es_table_options){0}),
                  "compare_seeds.txt");
    assert_golden(es_compared_json(&of), "compare_seeds.json");
    es_compared_free(&of);
}

ES_TEST(test_compare__runs_are_compared_with_a_baseline)
{
    es_compared_files of;
    compare_seeds(&of, state, "b1.db");
    assert_golden(es_compared_text(&of, (es_table_options){0}),
                  "compare_baseline.txt");
    assert_golden(es_compared_json(&of), "compare_baseline.json");
    es_compared_free(&of);
}

ES_TEST(test_compare__a_narrow_terminal_gets_two_tables)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    assert_golden(
        es_compared_text(&of, (es_table_options){.width = 70, .colour = true}),
        "compare_narrow.txt");
    es_compared_free(&of);
}

/* --- the numbers themselves -----------------------------------------------*/

ES_TEST(test_compare__settings_that_differ_are_listed)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    json_t *root = es_compared_parsed(&of);
    assert_string_equal(es_json_list_at(root, "differing"),
                        "arch n_layer n_head lr note seed");
    assert_string_equal(es_json_list_at(root, "incidental"), "threads data");
    /* the run's own seed wins over its configuration's */
    es_json_assert_near(root, "runs.0.settings.seed", 1);
    es_json_assert_near(root, "runs.3.settings.lr", 1.25e-3);
    assert_string_equal(es_json_text_at(root, "runs.3.settings.note"), "x");
    assert_null(json_object_get(es_json_at(root, "runs.0.settings"), "note"));
    assert_null(json_object_get(es_json_at(root, "runs.0.settings"), "ctx"));
    assert_null(
        json_object_get(es_json_at(root, "configurations.0.settings"), "seed"));
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare__a_nan_seed_is_counted)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    json_t *root = es_compared_parsed(&of);
    const double a = exp(1.75), b = exp(1.25), best = exp(1.5);
    assert_int_equal(json_array_size(es_json_at(root, "configurations")), 2);
    assert_int_equal(json_array_size(es_json_at(root, "configurations.0.runs")),
                     3);
    es_json_assert_near(root, "configurations.0.final.n", 2);
    es_json_assert_near(root, "configurations.0.final.nonfinite", 1);
    es_json_assert_near(root, "configurations.0.final.mean", (a + b) / 2);
    es_json_assert_near(root, "configurations.0.final.std",
                        fabs(a - b) / sqrt(2));
    es_json_assert_near(root, "configurations.0.final.min", b);
    es_json_assert_near(root, "configurations.0.final.max", a);
    es_json_assert_near(root, "configurations.0.best.mean", (best + b) / 2);
    es_json_assert_near(root, "configurations.0.best.nonfinite", 1);
    es_json_assert_near(root, "configurations.0.bands.heads", 45);
    es_json_assert_near(root, "configurations.0.bands.nonfinite", 15);
    es_json_assert_near(root, "configurations.1.final.n", 1);
    assert_string_equal(
        es_json_text_at(root, "configurations.1.final.std_state"), "missing");
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare__the_best_evaluation_may_not_be_the_last)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "runs.0.eval.final_ppl", exp(1.75));
    es_json_assert_near(root, "runs.0.eval.final_step", 30);
    es_json_assert_near(root, "runs.0.eval.best_ppl", exp(1.5));
    es_json_assert_near(root, "runs.0.eval.best_step", 20);
    es_json_assert_near(root, "runs.2.eval.n", 4);
    es_json_assert_near(root, "runs.2.eval.nonfinite", 2);
    assert_string_equal(es_json_text_at(root, "runs.2.eval.final_ppl_state"),
                        "nan");
    es_json_assert_near(root, "runs.2.eval.best_step", 10);
    json_decref(root);
    es_compared_free(&of);
}

/* Cross-entropy is what perplexity is made of; the first of equals is best; a
   missing value is no evaluation; infinity is never best. */
ES_TEST(test_compare__evaluations_of_every_kind_are_counted)
{
    static const char *const file[] = {"odd.db"};
    static const float ce[] = {3, 2, 2, INFINITY, -1000, 2.5F};
    es_compared_files of;
    es_run_info info = es_run_of(2, 3);
    es_recorded to = es_record(es_folder_file(state, "odd.db"), &info);
    es_compare_record_heads(&to, 9, 1);
    for (int64_t step = 0; step < 6; step++) {
        es_compare_record_eval(&to, "loss", step, 0.5F);
        es_compare_record_eval(&to, "ce", step,
                               step == 4 ? es_missing() : ce[step]);
    }
    es_record_close(&to);
    es_compare_files(&of, state, file, 1, NULL, ES_STEP_LAST);
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "runs.0.eval.n", 5);
    es_json_assert_near(root, "runs.0.eval.nonfinite", 1);
    es_json_assert_near(root, "runs.0.eval.best_step", 1);
    es_json_assert_near(root, "runs.0.eval.best_ppl", exp(2));
    es_json_assert_near(root, "runs.0.eval.final_ppl", exp(2.5));
    json_decref(root);
    es_compared_free(&of);
}

/* At an earlier step later evaluations are not known yet. */
ES_TEST(test_compare__evaluations_end_at_the_step_shown)
{
    es_compared_files of;
    write_seeds(state);
    es_compare_files(&of, state, seeds, N_FILES(seeds), NULL, 10);
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "runs.0.eval.best_step", 10);
    es_json_assert_near(root, "runs.0.eval.final_step", 10);
    es_json_assert_near(root, "runs.0.eval.final_ppl", exp(2));
    es_json_assert_near(root, "runs.0.eval.n", 2);
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare__onsets_are_those_of_the_flags)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "runs.0.onsets.logits.any", 10);
    es_json_assert_near(root, "runs.0.onsets.logits.episodes", 1);
    assert_true(json_is_true(es_json_at(root, "runs.0.onsets.logits.stands")));
    assert_string_equal(
        es_json_text_at(root, "runs.0.onsets.logits.error_state"), "missing");
    es_json_assert_near(root, "runs.2.onsets.logits.error", 10);
    es_json_assert_near(root, "runs.2.onsets.nan.error", 0);
    es_json_assert_near(root, "runs.1.onsets.logits.episodes", 0);
    assert_string_equal(es_json_text_at(root, "runs.1.onsets.nan.any_state"),
                        "missing");
    json_decref(root);
    es_compared_free(&of);
}

/* Entropies of a2 are those of a1, a quarter of a nat higher. */
ES_TEST(test_compare__distances_are_those_of_the_samples)
{
    es_compared_files of;
    compare_seeds(&of, state, NULL);
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "runs.0.distance.ks", 0);
    es_json_assert_near(root, "runs.0.distance.p", 1);
    es_json_assert_near(root, "runs.1.distance.wasserstein", 0.25);
    es_json_assert_near(root, "runs.1.distance.ks", 4.0 / 15);
    es_json_assert_near(root, "distances.ks.1.0", 4.0 / 15);
    es_json_assert_near(root, "distances.ks.0.1", 4.0 / 15);
    es_json_assert_near(root, "distances.wasserstein.1.0", 0.25);
    es_json_assert_near(root, "distances.wasserstein.3.3", 0);
    assert_true(json_is_null(es_json_at(root, "distances.ks.2.1")));
    assert_string_equal(es_json_text_at(root, "runs.2.distance.ks_state"),
                        "missing");
    es_json_assert_near(root, "runs.2.entropy.nonfinite", 15);
    assert_string_equal(es_json_text_at(root, "runs.2.entropy.median_state"),
                        "nan");
    es_json_assert_near(root, "runs.0.entropy.median", 1.375 + 7.0 / 15);
    json_decref(root);
    es_compared_free(&of);
}

ES_TEST(test_compare__numbers_are_relative_to_the_baseline)
{
    es_compared_files of;
    compare_seeds(&of, state, "a1.db");
    json_t *root = es_compared_parsed(&of);
    es_json_assert_near(root, "baseline", 0);
    es_json_assert_near(root, "runs.1.relative.final_percent",
                        100 * (exp(-0.5) - 1));
    es_json_assert_near(root, "runs.1.relative.best_percent",
                        100 * (exp(-0.25) - 1));
    assert_string_equal(
        es_json_text_at(root, "runs.2.relative.final_percent_state"), "nan");
    es_json_assert_near(root, "runs.0.relative.final_percent", 0);
    for (int band = 0; band < 4; band++) {
        char path[64];
        double a = es_bands_fraction(&of.runs[1]->bands, band);
        double b = es_bands_fraction(&of.runs[0]->bands, band);
        snprintf(path, sizeof path, "runs.1.relative.bands_points.%d", band);
        es_json_assert_near(root, path, 100 * (a - b));
    }
    es_json_assert_near(root, "runs.2.relative.logits_later", 0);
    assert_string_equal(
        es_json_text_at(root, "runs.1.relative.logits_later_state"), "missing");
    char *text = es_compared_text(&of, (es_table_options){0});
    assert_non_null(strstr(text, " +0w ")); /* an error against a warning */
    free(text);
    es_json_assert_near(root, "configurations.1.relative.to", 0);
    es_json_assert_near(root, "configurations.1.relative.final_percent",
                        100 * (exp(2) / ((exp(1.75) + exp(1.25)) / 2) - 1));
    json_decref(root);
    es_compared_free(&of);
}

/* --- a printed number is a number of the JSON -----------------------------*/

static void gather_numbers(json_t *of, double *numbers, size_t *n)
{
    const char *key;
    size_t index;
    json_t *member;
    if (json_is_number(of)) {
        assert_true(*n < 4096);
        numbers[(*n)++] = json_number_value(of);
    }
    json_object_foreach(of, key, member) gather_numbers(member, numbers, n);
    json_array_foreach(of, index, member) gather_numbers(member, numbers, n);
}

/* Half of the last digit's worth of a printed number. */
static double half_digit(const char *text)
{
    const char *point = strchr(text, '.'), *e = strchr(text, 'e');
    size_t length = e ? (size_t)(e - text) : strlen(text);
    double worth = point ? pow(10, -(double)(text + length - point - 1)) : 1;
    return worth / 2 * (e ? pow(10, strtod(e + 1, NULL)) : 1);
}

static bool is_printed(const char *text, double printed, const double *numbers,
                       size_t n)
{
    double tolerance = half_digit(text) * (1 + 1e-9) + 1e-12;
    for (size_t i = 0; i < n; i++)
        if (near(numbers[i], printed, tolerance) ||
            near(100 * numbers[i], printed, tolerance))
            return true;
    return false;
}

static size_t assert_all_printed(const char *text, const double *numbers,
                                 size_t n)
{
    size_t n_checked = 0;
    char *copy = strdup(text), *save = NULL;
    assert_non_null(copy);
    for (char *word = strtok_r(copy, " \n", &save); word;
         word = strtok_r(NULL, " \n", &save)) {
        char *end, number[64];
        word += strspn(word, "(");
        double printed = strtod(word, &end);
        if (end == word || !isfinite(printed) ||
            strspn(end, "%*w)") != strlen(end))
            continue;
        snprintf(number, sizeof number, "%.*s", (int)(end - word), word);
        if (!is_printed(number, printed, numbers, n))
            print_error("%s is not in the JSON\n", word);
        assert_true(is_printed(number, printed, numbers, n));
        n_checked++;
    }
    free(copy);
    return n_checked;
}

ES_TEST(test_compare__printed_numbers_are_in_the_json)
{
    static const char *const baselines[] = {NULL, "b1.db", "a2.db"};
    for (size_t i = 0; i < N_FILES(baselines); i++) {
        static double numbers[4096];
        size_t n = 0;
        es_compared_files of;
        compare_seeds(&of, state, baselines[i]);
        json_t *root = es_compared_parsed(&of);
        gather_numbers(root, numbers, &n);
        for (size_t run = 0; run < of.n; run++) { /* of "runs" beside it */
            for (int band = 0; band < ES_N_BANDS; band++)
                numbers[n++] = es_bands_fraction(&of.runs[run]->bands, band);
            numbers[n++] = of.runs[run]->m;
        }
        numbers[n++] = 2; /* the matrix counts its runs */
        numbers[n++] = 3;
        char *text = es_compared_text(&of, (es_table_options){0});
        assert_true(assert_all_printed(text, numbers, n) > 60);
        free(text);
        json_decref(root);
        es_compared_free(&of);
    }
}

int main(void)
{
    return es_test_main(NULL, NULL, es_folder_make, es_folder_remove);
}
