/* Figures of bars and points, from run files: what they print is what --json
   says. */
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "cli/json.h"
#include "tests/cmocka_all.h"
#include "tests/pictures.h"
#include "tests/recorded.h"
#include "tests/shown.h"

#include <math.h>
#include <stdlib.h>

static es_picture *drawn(const es_drawing *drawing, es_figure_kind kind)
{
    es_picture *picture = NULL;
    es_assert_ok(es_figure_entry_of(kind)->draw(&picture, drawing));
    assert_true(picture_is_finite(picture));
    assert_true(picture_texts_are_apart(picture));
    return picture;
}

static es_drawing drawing_of(const es_shown *shown)
{
    return (es_drawing){.runs = (const es_run_summary **)shown->runs,
                        .n = shown->n,
                        .note = "max = 3.87 (observed)",
                        .axis = "entropy (nats)"};
}

/* --json of the runs, to be freed. */
static char *json_of(const es_shown *shown)
{
    char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    es_json json;
    assert_non_null(stream);
    es_json_begin(&json, stream, &shown->max, shown->observed);
    for (size_t i = 0; i < shown->n; i++)
        es_assert_ok(es_json_run(&json, shown->runs[i]));
    es_json_end(&json);
    fclose(stream);
    return text;
}

/* --- bands ----------------------------------------------------------------*/

static void test_bands__numbers_of_json(void **state)
{
    es_shown shown;
    es_shown_published(&shown, state, (es_max){.policy = ES_MAX_OBSERVED});
    es_drawing drawing = drawing_of(&shown);
    es_picture *picture = drawn(&drawing, ES_FIGURE_BANDS);
    char *json = json_of(&shown), *at = json;
    for (size_t i = 0; i < shown.n; i++) {
        double fractions[ES_N_BANDS];
        at = strstr(at, "\"fractions\":[");
        assert_non_null(at);
        at += strlen("\"fractions\":[");
        for (int b = 0; b < ES_N_BANDS; b++) {
            char text[16];
            fractions[b] = 100 * strtod(at, &at);
            at++;
            snprintf(text, sizeof text, "%.1f%%", fractions[b]);
            if (!picture_says(picture, text))
                snprintf(text, sizeof text, "%.0f", fractions[b]);
            if (!picture_says(picture, text))
                fail_msg("run %zu, band %d: no '%s'", i, b, text);
        }
    }
    assert_true(picture_says(picture, "[3m/4,m]"));
    assert_false(picture_says(picture, "NaN or infinite"));
    es_picture_free(picture);
    free(json);
    es_shown_free(&shown);
}

static es_run_summary *load(const char *path, size_t run)
{
    es_reader *reader;
    es_run_summary *summary = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    es_assert_ok(es_reader_open(&reader, path));
    es_assert_ok(es_summary_load(&summary, reader, run, &options));
    es_reader_close(reader);
    return summary;
}

/* L = 3, H = 2; of six heads two in the top band, one NaN, one missing. */
static void test_bands__nonfinite(void **state)
{
    const float values[] = {4, 3.5f, 0, NAN, 1.25f, es_missing()};
    char *path = es_folder_file(state, "bands.db");
    es_run_info info = es_run_of(3, 2);
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 7, values, 6);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    es_run_summary *run = load(path, 0);
    const es_run_summary *runs[] = {run};
    es_drawing drawing = {.runs = runs,
                          .n = 1,
                          .style = {.width = 400},
                          .note = "max = 4 (observed)",
                          .axis = "entropy (nats)"};
    es_picture *picture = drawn(&drawing, ES_FIGURE_BANDS);
    assert_true(picture_says(picture, "NaN or infinite"));
    assert_true(picture_says(picture, "20%")); /* of five heads */
    assert_true(picture_says(picture, "40%"));
    assert_true(picture_says(picture, "0%"));
    assert_true(picture_says(picture, "step 7"));
    assert_true(picture_says(
        picture, "m = 4 (observed): the largest value of all runs shown"));
    es_picture_free(picture);
    es_summary_free(run);
}

static void test_bands__needs_heads(void **state)
{
    char *path = es_folder_file(state, "loss.db");
    es_run_info info = es_run_of(3, 2);
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 1, 2);
    es_record_value(&to, "loss", 1, 5);
    es_record_close(&to);
    es_reader *reader;
    es_run_summary *run = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    options.series = "loss";
    es_assert_ok(es_reader_open(&reader, path));
    es_assert_ok(es_summary_load(&run, reader, 0, &options));
    es_reader_close(reader);
    es_assert_status(ES_ENOTFOUND,
                     "series loss has one value a run: a figure of bands needs "
                     "one of each head: entropy",
                     es_fits_bands(run));
    es_summary_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bands__numbers_of_json),
        cmocka_unit_test(test_bands__nonfinite),
        cmocka_unit_test(test_bands__needs_heads),
    };
    return cmocka_run_group_tests(tests, es_folder_make, es_folder_remove);
}
