/* The figures made of cells: their values, scales and messages, as they come
 * from run files. */
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "cli/figures/steps.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/drawn.h"
#include "tests/support/loaded.h"
#include "tests/support/run_files.h"

#include <math.h>

enum { L = 2, H = 3, N = L * H };

/* A run of one sample of each of two head series. */
static const char *write_run(void **state, const char *file, int64_t n_head,
                             const char *series, const float *values)
{
    const char *path = es_folder_file(state, file);
    es_writer *w = NULL;
    int64_t run, id;
    es_run_info info = es_run_of(L, n_head);
    info.name = file;
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &id, run, series, ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_sample(w, id, 40, values, (size_t)(L * n_head)));
    es_assert_ok(es_writer_close(w));
    return path;
}

static es_drawing drawing_of(const es_run_summary **runs, size_t n)
{
    return (es_drawing){.runs = runs, .n = n, .note = "max = 1", .axis = "y"};
}

static es_picture *drawn(es_figure_draw *draw, const es_drawing *drawing)
{
    es_picture *picture = NULL;
    return sound_picture(draw(&picture, drawing), &picture);
}

/* --- heatmap --------------------------------------------------------------*/

/* The colour bar of a heatmap of `values` has `labels`, and no `other`. */
static void assert_bar(void **state, const char *file, const char *series,
                       const float *values, const char *labels[2],
                       const char *other)
{
    const es_run_summary *runs[1] = {
        es_loaded_series(write_run(state, file, H, series, values), series)};
    es_drawing drawing = drawing_of(runs, 1);
    es_picture *picture = drawn(es_draw_heatmap, &drawing);
    for (size_t i = 0; i < 2; i++)
        assert_true(picture_says(picture, labels[i]));
    if (other)
        assert_false(picture_says(picture, other));
    es_picture_free(picture);
    es_summary_free((es_run_summary *)(uintptr_t)runs[0]);
}

static void test_cells__a_heatmap_scale_suits_any_series(void **state)
{
    const float about_two[N] = {2.01f, 2.02f, 2.03f, 2.04f, 2.05f, 2.09f};
    const float sink[N] = {0.52f, 0.54f, 0.56f, 0.57f, 0.59f, 0.61f};
    const float below[N] = {-1.13f, -0.57f, -0.24f, 0.63f, 1.17f, 2.26f};
    const float wide[N] = {0, 1.5f, 20, 300, 4000, 50000};
    /* Thresholds: the differences of heads count. Shares begin at 0. */
    assert_bar(state, "a.db", "theta", about_two,
               (const char *[]){"2.04", "2.08"}, "0.0");
    assert_bar(state, "b.db", "sink", sink, (const char *[]){"0.0", "0.4"},
               NULL);
    assert_bar(state, "c.db", "theta", below, (const char *[]){"-1", "2"},
               "-2");
    assert_bar(state, "d.db", "max_logit", wide, (const char *[]){"1", "10000"},
               "0.1"); /* the smallest positive value is 1.5 */
}

/* --- delta ----------------------------------------------------------------*/

static void test_cells__a_delta_is_each_run_minus_the_base(void **state)
{
    const float a[N] = {1, 2, NAN, es_missing(), 3, INFINITY};
    const float b[N] = {1.5f, 0.75f, 1, 1, es_missing(), INFINITY};
    const es_run_summary *runs[2] = {
        es_loaded_series(write_run(state, "base.db", H, "entropy", a),
                         "entropy"),
        es_loaded_series(write_run(state, "other.db", H, "entropy", b),
                         "entropy")};
    es_drawing drawing = drawing_of(runs, 2);
    es_picture *picture = drawn(es_draw_delta, &drawing);
    ASSERT_SAYS(picture, "0.50", "-1.25");
    assert_false(picture_says(picture, "1.50"));
    ASSERT_SAYS(picture, "NaN or infinite", "missing", "each minus base.db",
                "other.db");
    /* The scale is as long below zero as above it. */
    ASSERT_SAYS(picture, "1.0", "-1.0");
    es_picture_free(picture);
    /* The other way round, where the second is the baseline. */
    drawing.baseline = runs[1]->path;
    picture = drawn(es_draw_delta, &drawing);
    ASSERT_SAYS(picture, "each minus other.db", "1.25", "-0.50");
    es_picture_free(picture);
    for (size_t i = 0; i < 2; i++)
        es_summary_free((es_run_summary *)(uintptr_t)runs[i]);
}

static void test_cells__a_delta_of_two_shapes_is_refused(void **state)
{
    const float values[L * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
    const es_run_summary *runs[2] = {
        es_loaded_series(write_run(state, "a3.db", 3, "entropy", values),
                         "entropy"),
        es_loaded_series(write_run(state, "a4.db", 4, "entropy", values),
                         "entropy")};
    es_drawing drawing = drawing_of(runs, 2);
    es_picture *picture = NULL;
    es_assert_status(ES_ENOTFOUND, "has 2 layers of 4 heads",
                     es_draw_delta(&picture, &drawing));
    assert_non_null(strstr(es_message(), "a3.db has 2 of 3"));
    drawing.n = 1;
    es_assert_status(ES_ENOTFOUND, "needs two runs",
                     es_draw_delta(&picture, &drawing));
    assert_null(picture);
    for (size_t i = 0; i < 2; i++)
        es_summary_free((es_run_summary *)(uintptr_t)runs[i]);
}

/* --- thresholds -----------------------------------------------------------*/

static void test_cells__thresholds_show_theta_and_its_layers(void **state)
{
    /* Means 0.2 and 0.5; variances 0 and 0.09. */
    const float theta[N] = {0.2f, 0.2f, 0.2f, 0.5f, 0.8f, 0.2f};
    const es_run_summary *runs[1] = {es_loaded_series(
        write_run(state, "ereg.db", H, "theta", theta), "theta")};
    es_drawing drawing = drawing_of(runs, 1);
    double dots[2 * L][2];
    es_assert_ok(es_figure_fit(ES_FIGURE_THRESHOLDS, runs[0]));
    es_picture *picture = drawn(es_draw_thresholds, &drawing);
    ASSERT_SAYS(picture, "0.80", "step 40", "mean", "variance");
    assert_int_equal(picture_dots(dots, 2 * L, picture), 2 * L);
    assert_true(dots[0][1] == dots[2][1] && dots[1][1] == dots[3][1]);
    assert_true(dots[0][1] < dots[1][1]); /* layer 0 is on top */
    assert_true(dots[0][0] < dots[1][0]);
    assert_true(dots[2][0] < dots[3][0]);
    es_picture_free(picture);
    es_summary_free((es_run_summary *)(uintptr_t)runs[0]);
}

static void test_cells__thresholds_need_theta(void **state)
{
    const float values[N] = {1, 2, 3, 4, 5, 6};
    es_run_summary *run = es_loaded_series(
        write_run(state, "plain.db", H, "entropy", values), "entropy");
    es_assert_status(ES_ENOTFOUND, "needs the series theta",
                     es_figure_fit(ES_FIGURE_THRESHOLDS, run));
    assert_non_null(strstr(es_message(), "the run has entropy"));
    es_summary_free(run);
}

/* --- raster ---------------------------------------------------------------*/

enum { SAMPLES = 3000 };

/* Samples at 0, 5, 10, ... of head h of layer l: 2 + l, but for a dip and a
 * NaN of one sample each; a hole of 100 samples. */
static const char *write_long_run(void **state, const char *file)
{
    const char *path = es_folder_file(state, file);
    es_writer *w = NULL;
    int64_t run, id;
    es_run_info info = es_run_of(L, H);
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &id, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    for (int i = 0; i < SAMPLES; i++) {
        float values[N] = {2, 2, 2, 3, 3, 3};
        if (i == 1001)
            values[4] = 0.25f;
        if (i == 2002)
            values[1] = NAN;
        if (i < 500 || i >= 600)
            es_assert_ok(es_writer_sample(w, id, 5 * i, values, N));
    }
    es_assert_ok(es_writer_close(w));
    return path;
}

static size_t count(const es_steps *steps, size_t row, float value)
{
    size_t n = 0;
    for (size_t i = 0; i < steps->n_columns; i++) {
        float x = steps->values[row * steps->n_columns + i];
        n += es_is_missing(value) ? es_is_missing(x)
             : isnan(value)       ? isnan(x) && !es_is_missing(x)
                                  : x == value;
    }
    return n;
}

static void test_cells__steps_keep_dips_and_nan(void **state)
{
    es_run_summary *run =
        es_loaded_series(write_long_run(state, "long.db"), "entropy");
    es_steps steps;
    es_assert_ok(es_steps_read(&steps, run));
    assert_int_equal(steps.n_rows, L + N);
    assert_in_range(steps.n_columns, 1000, ES_STEPS_MOST);
    assert_true(fabs(steps.left + 2.5) < 1e-9);
    assert_true(steps.right >= 5 * (SAMPLES - 0.5));
    assert_true(steps.first == 0 && steps.last == 5 * (SAMPLES - 1));
    /* Rows: layers 0 and 1, then the heads of each. */
    assert_int_equal(count(&steps, 0, NAN), 1);
    assert_int_equal(count(&steps, L + 1, NAN), 1);
    assert_int_equal(count(&steps, L + 2, NAN), 0);
    assert_int_equal(count(&steps, L + 4, 0.25f), 1);
    assert_int_equal(count(&steps, 1, (0.25f + 3 + 3) / 3), 1);
    /* The hole, of two samples a column, and nothing else. */
    for (size_t row = 0; row < steps.n_rows; row++)
        assert_in_range(count(&steps, row, es_missing()), 49, 50);
    es_steps_clear(&steps);
    es_summary_free(run);
}

/* Evaluations at uneven steps are no holes; one step is a column. */
static void test_cells__steps_hold(void **state)
{
    static const int64_t at[] = {0, 10, 20, 30, 130, 230, 330, 630};
    const char *path = es_folder_file(state, "uneven.db");
    es_writer *w = NULL;
    int64_t run_id, id;
    es_run_info info = es_run_of(L, H);
    const float values[L] = {1, 2};
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_run(w, &run_id, &info, 0));
    es_assert_ok(es_writer_series(w, &id, run_id, "slope", ES_SHAPE_LAYER,
                                  ES_PHASE_TRAIN, NULL));
    es_steps steps;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        es_assert_ok(es_writer_sample(w, id, at[i], values, L));
        if (i > 0)
            continue;
        es_run_summary *run = es_loaded_series(path, "slope");
        es_assert_ok(es_steps_read(&steps, run));
        assert_int_equal(steps.n_columns, 1);
        es_steps_clear(&steps);
        es_summary_free(run);
    }
    es_assert_ok(es_writer_close(w));
    es_run_summary *run = es_loaded_series(path, "slope");
    es_assert_ok(es_steps_read(&steps, run));
    assert_int_equal(steps.n_heads, 0);
    assert_int_equal(steps.n_columns, 64); /* of 10 steps, the last is 630 */
    const float *row = steps.values + steps.n_columns;
    /* Until 330 every sample holds; then a lone gap of 300 steps is one. */
    double width = (steps.right - steps.left) / (double)steps.n_columns;
    for (size_t i = 0; i < steps.n_columns; i++) {
        double step = steps.left + ((double)i + 0.5) * width;
        if (step <= 330)
            assert_true(row[i] == 2);
        else if (step > 330 + width && step < 630 - width)
            assert_true(es_is_missing(row[i]));
    }
    es_steps_clear(&steps);
    es_summary_free(run);
}

static void test_cells__a_raster_shows_layers_and_heads(void **state)
{
    es_run_summary *run =
        es_loaded_series(write_long_run(state, "drawn.db"), "entropy");
    const es_run_summary *runs[1] = {run};
    es_drawing drawing = drawing_of(runs, 1);
    es_assert_ok(es_figure_fit(ES_FIGURE_RASTER, run));
    es_picture *picture = drawn(es_draw_raster, &drawing);
    ASSERT_SAYS(picture, "heads", "10K", "NaN or infinite", "missing");
    es_picture_free(picture);
    run->shape = ES_SHAPE_RUN;
    es_assert_status(ES_ENOTFOUND, "one value a run",
                     es_figure_fit(ES_FIGURE_RASTER, run));
    es_summary_free(run);
}

/* --- timeline -------------------------------------------------------------*/

/* Two layers of three heads: the second collapses at 30, its logits grow at
 * 40, the loss is NaN at 50. */
static const char *write_failing_run(void **state)
{
    const char *path = es_folder_file(state, "failing.db");
    const char *names[] = {"entropy", "max_logit", "loss"};
    const es_shape shapes[] = {ES_SHAPE_HEAD, ES_SHAPE_HEAD, ES_SHAPE_RUN};
    es_writer *w = NULL;
    int64_t run, ids[3];
    es_run_info info = es_run_of(L, H);
    info.ctx = 128;
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    for (size_t i = 0; i < 3; i++)
        es_assert_ok(es_writer_series(w, &ids[i], run, names[i], shapes[i],
                                      ES_PHASE_TRAIN, NULL));
    for (int64_t step = 0; step <= 60; step += 10) {
        float low = step < 30 ? 2 : 0.01f, logit = step < 40 ? 5 : 5000;
        const float entropy[N] = {2, 2.1f, 2.2f, low, low, 2};
        const float logits[N] = {1, 2, 3, 4, 4, logit};
        const float loss = step < 50 ? 3 : NAN;
        es_assert_ok(es_writer_sample(w, ids[0], step, entropy, N));
        es_assert_ok(es_writer_sample(w, ids[1], step, logits, N));
        es_assert_ok(es_writer_sample(w, ids[2], step, &loss, 1));
    }
    es_event event = {.step = 55,
                      .kind = "stop",
                      .severity = ES_SEVERITY_INFO,
                      .layer = ES_UNKNOWN,
                      .head = ES_UNKNOWN,
                      .message = "stop requested"};
    es_assert_ok(es_writer_event(w, run, &event));
    es_assert_ok(es_writer_close(w));
    return path;
}

static void test_cells__a_timeline_shows_flags_and_events(void **state)
{
    es_run_summary *run = es_loaded_series(write_failing_run(state), "entropy");
    const es_run_summary *runs[1] = {run};
    es_drawing drawing = drawing_of(runs, 1);
    for (int theme = ES_THEME_LIGHT; theme <= ES_THEME_DARK; theme++) {
        drawing.style.theme = (es_theme)theme;
        es_picture *picture = drawn(es_draw_timeline, &drawing);
        ASSERT_SAYS(picture, "collapse 30 \u2192 logits 40 \u2192 nan 50",
                    "lowest layer mean of entropy", "largest logit");
        assert_false(picture_says(picture, "NaN activations of a layer"));
        ASSERT_SAYS(picture, "stop", "L1");
        es_picture_free(picture);
    }
    es_summary_free(run);
}

static void test_cells__a_timeline_of_one_step_is_drawn(void **state)
{
    const float values[N] = {2, 2.5f, 3, 2, 2.5f, 3};
    es_run_summary *run = es_loaded_series(
        write_run(state, "one.db", H, "entropy", values), "entropy");
    const es_run_summary *runs[1] = {run};
    es_drawing drawing = drawing_of(runs, 1);
    double dots[1][2];
    es_picture *picture = drawn(es_draw_timeline, &drawing);
    assert_int_equal(picture_dots(dots, 1, picture), 1);
    ASSERT_SAYS(picture, "no flags", "40");
    es_picture_free(picture);
    es_summary_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells__a_heatmap_scale_suits_any_series),
        cmocka_unit_test(test_cells__a_delta_is_each_run_minus_the_base),
        cmocka_unit_test(test_cells__a_delta_of_two_shapes_is_refused),
        cmocka_unit_test(test_cells__thresholds_show_theta_and_its_layers),
        cmocka_unit_test(test_cells__thresholds_need_theta),
        cmocka_unit_test(test_cells__steps_keep_dips_and_nan),
        cmocka_unit_test(test_cells__steps_hold),
        cmocka_unit_test(test_cells__a_raster_shows_layers_and_heads),
        cmocka_unit_test(test_cells__a_timeline_shows_flags_and_events),
        cmocka_unit_test(test_cells__a_timeline_of_one_step_is_drawn),
    };
    return cmocka_run_group_tests(tests, es_folder_make, es_folder_remove);
}
