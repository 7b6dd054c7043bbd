/**
 * Tests comparisons of runs, including runs with little information or hostile
 * contents.
 */
#include "analyzer/statistics/inference.h"
#include "tests/support/compared.h"
#include "tests/support/golden_text.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

#define N_FILES(files) (sizeof(files) / sizeof *(files))

/* The compared files of the current test. */
static es_compared_files of;
static json_t *root; /* JSON of the comparison; NULL before a comparison */

static void release(void)
{
    if (root)
        es_compared_free(&of);
    json_decref(root);
    root = NULL;
}

static int clean(void **state)
{
    release();
    return es_folder_remove(state);
}

static void compare_at(void **state, const char *const *files, size_t n,
                       const char *baseline, int64_t step)
{
    release();
    es_compare_files(&of, state, files, n, baseline, step);
    root = es_compared_parsed(&of);
}

static void compare(void **state, const char *const *files, size_t n,
                    const char *baseline)
{
    compare_at(state, files, n, baseline, ES_STEP_LAST);
}

static json_t *at(const char *place)
{
    return es_json_at(root, place);
}

static void near_at(const char *place, double expected)
{
    es_json_assert_near(root, place, expected);
}

static const char *text_at(const char *place)
{
    return es_json_text_at(root, place);
}

/* Checks the JSON member whose name is `place` followed by "_state". It says
 * why a number is missing. */
static void state_at(const char *place, const char *expected)
{
    char member[128];
    snprintf(member, sizeof member, "%s_state", place);
    assert_string_equal(text_at(member), expected);
}

static const char *list_at(const char *place)
{
    return es_json_list_at(root, place);
}

/* Skips the test without GSL, because the golden files contain statistics that
 * need it. */
static void need_gsl(void)
{
    if (es_stats_gsl())
        return;
    es_skip("built without GSL");
}

static void assert_table(es_table_options how, const char *name)
{
    need_gsl();
    AUTO_FREE char *text = es_compared_text(&of, how);
    assert_true(es_text_is_golden(text, name));
}

static void assert_json(const char *name)
{
    need_gsl();
    AUTO_FREE char *text = es_compared_json(&of);
    assert_true(es_text_is_golden(text, name));
}

#define CHECKED ",\"tokens_checksum\":\"c0ffee\"}"

static const char *const seeds[] = {"a1.db", "a2.db", "a3.db", "b1.db"};

/* Writes two configurations, one with three seeds and one with a single seed.
 * One run ends in NaN, the best evaluation of another is not its last, and the
 * runs have different thread counts and paths. */
static void write_seeds(void **state)
{
    const char *const configs[] = {
        "{\"lr\":1e-3,\"threads\":1,\"data\":\"x.tok\",\"seed\":7" CHECKED,
        "{\"lr\":0.001,\"threads\":4,\"data\":\"y.tok\"" CHECKED,
        "{\"data\":\"x.tok\",\"threads\":1,\"lr\":1E-3" CHECKED,
        "{\"lr\":1.25e-3,\"note\":\"x\",\"threads\":1,\"data\":\"x."
        "tok\"" CHECKED};
    const float evals[][4] = {{5, 2, 1.5F, 1.75F},
                              {5, 2, 2, 1.25F},
                              {5, 3, NAN, NAN},
                              {5, 2.5F, 2.25F, 2}};
    const char *const names[] = {"a, seed 1", "a, seed 2", "a, seed 3", "b"};
    const float lows[] = {1, 1.25F, NAN, 0.5F};
    const float logits[] = {150, 50, 2000, 50};
    for (size_t i = 0; i < N_FILES(seeds); i++) {
        const bool b = i == 3;
        const es_compared_written run = {
            .file = seeds[i],
            .name = names[i],
            .arch = b ? "SM" : "SM+LN+G",
            .config = configs[i],
            .n_layer = b ? 4 : 3,
            .n_head = b ? 3 : 5,
            .seed = b ? 1 : (int64_t)i + 1,
            .low = lows[i],
            .evals = {evals[i][0], evals[i][1], evals[i][2], evals[i][3]},
            .logit = logits[i]};
        es_compare_write(state, &run);
    }
}

static void compare_seeds(void **state, const char *baseline)
{
    write_seeds(state);
    compare(state, seeds, N_FILES(seeds), baseline);
}

/* --- tables ---------------------------------------------------------------*/

TEST(seeds_of_a_configuration_are_taken_together)
{
    compare_seeds(state, NULL);
    assert_table((es_table_options){0}, "compare_seeds.txt");
    assert_json("compare_seeds.json");
}

TEST(runs_are_compared_with_a_baseline)
{
    compare_seeds(state, "b1.db");
    assert_table((es_table_options){0}, "compare_baseline.txt");
    assert_json("compare_baseline.json");
}

TEST(a_narrow_terminal_gets_two_tables)
{
    compare_seeds(state, NULL);
    assert_table((es_table_options){.width = 70, .colour = true},
                 "compare_narrow.txt");
}

/* --- numbers -------------------------------------------------------------- */

TEST(settings_that_differ_are_listed)
{
    compare_seeds(state, NULL);
    assert_string_equal(list_at("differing"),
                        "arch n_layer n_head lr note seed");
    assert_string_equal(list_at("incidental"), "threads data");
    /* the run's own seed takes precedence over the seed in its configuration */
    near_at("runs.0.settings.seed", 1);
    near_at("runs.3.settings.lr", 1.25e-3);
    assert_string_equal(text_at("runs.3.settings.note"), "x");
    assert_null(json_object_get(at("runs.0.settings"), "note"));
    assert_null(json_object_get(at("runs.0.settings"), "ctx"));
    assert_null(json_object_get(at("configurations.0.settings"), "seed"));
}

TEST(a_nan_seed_is_counted)
{
    compare_seeds(state, NULL);
    const double a = exp(1.75), b = exp(1.25), best = exp(1.5);
    assert_int_equal(json_array_size(at("configurations")), 2);
    assert_int_equal(json_array_size(at("configurations.0.runs")), 3);
    near_at("configurations.0.final.n", 2);
    near_at("configurations.0.final.nonfinite", 1);
    near_at("configurations.0.final.mean", (a + b) / 2);
    near_at("configurations.0.final.std", fabs(a - b) / sqrt(2));
    near_at("configurations.0.final.min", b);
    near_at("configurations.0.final.max", a);
    near_at("configurations.0.best.mean", (best + b) / 2);
    near_at("configurations.0.best.nonfinite", 1);
    near_at("configurations.0.bands.heads", 45);
    near_at("configurations.0.bands.nonfinite", 15);
    near_at("configurations.1.final.n", 1);
    state_at("configurations.1.final.std", "missing");
}

TEST(the_best_evaluation_may_not_be_the_last)
{
    compare_seeds(state, NULL);
    near_at("runs.0.eval.final_ppl", exp(1.75));
    near_at("runs.0.eval.final_step", 30);
    near_at("runs.0.eval.best_ppl", exp(1.5));
    near_at("runs.0.eval.best_step", 20);
    near_at("runs.2.eval.n", 4);
    near_at("runs.2.eval.nonfinite", 2);
    state_at("runs.2.eval.final_ppl", "nan");
    near_at("runs.2.eval.best_step", 10);
}

/* Perplexity is computed from cross-entropy. The first of equal evaluations is
 * the best. A missing value does not count as an evaluation, and infinity is
 * never the best. */
TEST(evaluations_of_every_kind_are_counted)
{
    static const char *const file[] = {"odd.db"};
    static const float ce[] = {3, 2, 2, INFINITY, -1000, 2.5F};
    es_run_info info = es_run_of(2, 3);
    es_recorded to = es_record(es_folder_file(state, "odd.db"), &info);
    es_compare_record_heads(&to, 9, 1);
    for (int64_t step = 0; step < 6; step++) {
        es_compare_record_eval(&to, "loss", step, 0.5F);
        es_compare_record_eval(&to, "ce", step,
                               step == 4 ? es_missing() : ce[step]);
    }
    es_record_close(&to);
    compare(state, file, 1, NULL);
    near_at("runs.0.eval.n", 5);
    near_at("runs.0.eval.nonfinite", 1);
    near_at("runs.0.eval.best_step", 1);
    near_at("runs.0.eval.best_ppl", exp(2));
    near_at("runs.0.eval.final_ppl", exp(2.5));
}

/* If the comparison shows an earlier step than the last, evaluations after that
 * step are ignored. */
TEST(evaluations_end_at_the_step_shown)
{
    write_seeds(state);
    compare_at(state, seeds, N_FILES(seeds), NULL, 10);
    near_at("runs.0.eval.best_step", 10);
    near_at("runs.0.eval.final_step", 10);
    near_at("runs.0.eval.final_ppl", exp(2));
    near_at("runs.0.eval.n", 2);
}

TEST(onsets_are_those_of_the_flags)
{
    compare_seeds(state, NULL);
    near_at("runs.0.onsets.logits.any", 10);
    near_at("runs.0.onsets.logits.episodes", 1);
    assert_true(json_is_true(at("runs.0.onsets.logits.stands")));
    state_at("runs.0.onsets.logits.error", "missing");
    near_at("runs.2.onsets.logits.error", 10);
    near_at("runs.2.onsets.nan.error", 0);
    near_at("runs.1.onsets.logits.episodes", 0);
    state_at("runs.1.onsets.nan.any", "missing");
}

/* Each entropy of a2 is a quarter of a nat above that of a1. */
TEST(distances_are_those_of_the_samples)
{
    compare_seeds(state, NULL);
    near_at("runs.0.distance.ks", 0);
    state_at("runs.0.distance.p", "missing"); /* a run is not tested against
                                                 itself */
    if (es_stats_gsl()) {                     /* the entropies of all 3 layers
                                                 are higher, so p is as small as
                                                 possible */
        near_at("runs.1.distance.p", 1.0 / 4);
        near_at("runs.1.distance.p_holm", 1.0 / 4); /* adjusted for the two runs
                                                       that are tested */
    }
    state_at("runs.2.distance.p_holm", "missing");
    near_at("runs.1.distance.wasserstein", 0.25);
    near_at("runs.1.distance.ks", 4.0 / 15);
    near_at("distances.ks.1.0", 4.0 / 15);
    near_at("distances.ks.0.1", 4.0 / 15);
    near_at("distances.wasserstein.1.0", 0.25);
    near_at("distances.wasserstein.3.3", 0);
    assert_true(json_is_null(at("distances.ks.2.1")));
    state_at("runs.2.distance.ks", "missing");
    near_at("runs.2.entropy.nonfinite", 15);
    state_at("runs.2.entropy.median", "nan");
    near_at("runs.0.entropy.median", 1.375 + 7.0 / 15);
}

TEST(numbers_are_relative_to_the_baseline)
{
    compare_seeds(state, "a1.db");
    near_at("baseline", 0);
    near_at("runs.1.relative.final_percent", 100 * (exp(-0.5) - 1));
    near_at("runs.1.relative.best_percent", 100 * (exp(-0.25) - 1));
    state_at("runs.2.relative.final_percent", "nan");
    near_at("runs.0.relative.final_percent", 0);
    for (int band = 0; band < 4; band++) {
        char path[64];
        double a = es_bands_fraction(&of.runs[1]->bands, band);
        double b = es_bands_fraction(&of.runs[0]->bands, band);
        snprintf(path, sizeof path, "runs.1.relative.bands_points.%d", band);
        near_at(path, 100 * (a - b));
    }
    near_at("runs.2.relative.logits_later", 0);
    state_at("runs.1.relative.logits_later", "missing");
    AUTO_FREE char *text = es_compared_text(&of, (es_table_options){0});
    assert_non_null(strstr(text, " +0w ")); /* +0: no delay; w: at least one
                                               of the two runs has only a
                                               warning */
    near_at("configurations.1.relative.to", 0);
    near_at("configurations.1.relative.final_percent",
            100 * (exp(2) / ((exp(1.75) + exp(1.25)) / 2) - 1));
}

/* --- every printed number is in the JSON
 * ------------------------------------ */

static void gather_numbers(json_t *value, double *numbers, size_t *n)
{
    const char *key;
    size_t index;
    json_t *member;
    if (json_is_number(value)) {
        assert_true(*n < 4096);
        numbers[(*n)++] = json_number_value(value);
    }
    json_object_foreach(value, key, member) gather_numbers(member, numbers, n);
    json_array_foreach(value, index, member) gather_numbers(member, numbers, n);
}

/* Returns half a unit of the last printed digit. */
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
        if (end == word || !isfinite(printed) || strcmp(word, "95%") == 0 ||
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

TEST(printed_numbers_are_in_the_json)
{
    static const char *const baselines[] = {NULL, "b1.db", "a2.db"};
    for (size_t i = 0; i < N_FILES(baselines); i++) {
        static double numbers[4096];
        size_t n = 0;
        compare_seeds(state, baselines[i]);
        gather_numbers(root, numbers, &n);
        for (size_t run = 0; run < of.n; run++) { /* values that only the JSON
                                                     member "runs" contains */
            for (int band = 0; band < ES_N_BANDS; band++)
                numbers[n++] = es_bands_fraction(&of.runs[run]->bands, band);
            numbers[n++] = of.runs[run]->m;
        }
        numbers[n++] = 2; /* the matrix names the runs by numbers */
        numbers[n++] = 3;
        AUTO_FREE char *text = es_compared_text(&of, (es_table_options){0});
        assert_true(assert_all_printed(text, numbers, n) > 60);
    }
}

/* --- incomplete and hostile runs --- */

TEST(one_run_has_nothing_to_compare_with)
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
    es_compare_write(state, &run);
    compare(state, one, 1, NULL);
    assert_table((es_table_options){0}, "compare_one.txt");
    assert_int_equal(json_array_size(at("differing")), 0);
    near_at("runs.0.distance.ks", 0);
}

TEST(no_run_prints_nothing)
{
    compare(state, NULL, 0, NULL);
    AUTO_FREE char *text = es_compared_text(&of, (es_table_options){0});
    assert_string_equal(text, "");
    assert_int_equal(json_array_size(at("runs")), 0);
}

/* A run whose loss becomes NaN after its last evaluation counts as ended in
 * NaN, although that evaluation is finite. */
TEST(a_run_that_ended_nan_has_no_best_evaluation)
{
    static const char *const files[] = {"well.db", "nan.db"};
    static const float losses[] = {2.5F, NAN};
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
    compare(state, files, N_FILES(files), NULL);
    assert_int_equal(json_array_size(at("configurations")), 1);
    near_at("configurations.0.final.n", 1);
    near_at("configurations.0.final.nonfinite", 1);
    near_at("configurations.0.best.nonfinite", 1);
    near_at("runs.1.eval.final_ppl", exp(3));
}

/* The runs lack a configuration, evaluations or a context, have one head,
 * contain only NaN or only missing values, or share a name. No unknown value
 * may be shown as zero. */
TEST(runs_with_little_information_are_compared)
{
    static const char *const files[] = {"bare.db", "nan.db", "none.db"};
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
    compare(state, files, N_FILES(files), "nan.db");
    assert_table((es_table_options){0}, "compare_bare.txt");
    assert_json("compare_bare.json");
}

/* Keys and values of a run's configuration must not control the terminal. If
 * there are too many of them, the text says so instead of listing all. */
TEST(hostile_configurations_do_no_harm)
{
    static const char *const files[] = {"many.db", "evil.db"};
    size_t size = 400000, at = 1;
    AUTO_FREE char *config = malloc(size);
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
    compare(state, files, N_FILES(files), NULL);
    AUTO_FREE char *text =
        es_compared_text(&of, (es_table_options){.width = 90});
    AUTO_FREE char *json = es_compared_json(&of);
    for (const char *c = "\033\007\x7f\r"; *c; c++) {
        assert_null(strchr(text, *c));
        assert_null(strchr(json, *c));
    }
    assert_null(strstr(text, "\xc2\x9b"));
    assert_null(strstr(json, "\xc2\x9b"));
    assert_non_null(strstr(text, "more settings differ: --json lists them"));
    assert_non_null(strstr(text, "many.db: more than 4096 settings"));
}

/* Large whole numbers that differ in their last digit are different; 1e-2
 * equals 0.01; a string does not equal a number. Runs with different data paths
 * have different configurations, unless a checksum shows that the data is the
 * same. */
TEST(equal_values_in_another_notation_are_the_same)
{
    static const char *const files[] = {"x.db", "y.db"};
    static const char *const configs[] = {
        "{\"a\":9007199254740993,\"b\":1e-2,\"c\":1,\"d\":true,\"e\":1,"
        "\"f\":2,\"f\":3,\"data\":\"x\"}",
        "{\"a\":9007199254740992,\"b\":0.01,\"c\":\"1\",\"d\":1,\"e\":1.0,"
        "\"f\":3,\"data\":\"y\"}"};
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
    compare(state, files, 2, NULL);
    assert_string_equal(list_at("differing"), "a c d data");
}

TEST(a_baseline_is_one_run)
{
    es_summary_options options;
    AUTO(es_run_summary) summary;
    es_comparison *comparison;
    const char *path = es_folder_file(state, "two-runs.db");
    es_write_run(path, "first", 3);
    es_write_run(path, "second", 3);
    es_summary_options_default(&options);
    es_assert_ok(es_comparison_new(&comparison, &options));
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_ok(es_summary_load(&summary, reader, 1, &options));
    es_assert_status(ES_EUSAGE,
                     "a baseline is a single run, but this file has 2 runs",
                     es_comparison_add(comparison, reader, 1, summary, true));
    es_assert_status(ES_ENOTFOUND, "no baseline was read",
                     es_comparison_finish(comparison, NULL, path));
    es_comparison_free(comparison);
}

TEST_EACH(es_folder_make, clean)
