/* From summaries to figures: the scale, the captions, the layer means. */
#include "analyzer/base/value.h"
#include "cli/figures/drawing.h"
#include "render/figures/curves.h"
#include "render/figures/heatmap.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/drawn.h"
#include "tests/support/loaded.h"
#include "tests/support/run_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { L = 2, H = 3, N = L * H };

/* What es_draw_heatmap reads of a summary. */
typedef struct fixture {
    es_run_summary run;
    es_summary layers[L];
    float values[N];
} fixture;

static void set(fixture *f, const char *arch, const float *values, double m)
{
    *f = (fixture){.run = {.path = (char *)(uintptr_t) "a.db",
                           .number = 1,
                           .n_in_file = 1,
                           .name = (char *)(uintptr_t)arch,
                           .arch = (char *)(uintptr_t)arch,
                           .series = (char *)(uintptr_t) "entropy",
                           .shape = ES_SHAPE_HEAD,
                           .step = 40,
                           .n_rows = L,
                           .n_columns = H,
                           .ceiling = 2,
                           .m = m}};
    memcpy(f->values, values, sizeof f->values);
    f->run.values = f->values;
    f->run.layers = f->layers;
    for (size_t l = 0; l < L; l++)
        es_stats_summary(&f->layers[l], f->values + l * H, H, 1);
}

/* The picture is the one that this scale gives. */
static void assert_scale(fixture *f, size_t n, double low, double high)
{
    const es_run_summary *runs[2];
    es_heatmap_panel panels[2];
    es_picture *drawn = NULL, *wanted = NULL;
    es_drawing drawing = {
        .runs = runs, .n = n, .note = "max = 1", .axis = "entropy (nats)"};
    es_heatmap figure = {.panels = panels,
                         .n_panels = n,
                         .low = low,
                         .high = high,
                         .scale_text = drawing.axis,
                         .note = drawing.note};
    for (size_t i = 0; i < n; i++) {
        runs[i] = &f[i].run;
        panels[i] =
            (es_heatmap_panel){f[i].run.arch, "step 40", f[i].values, L, H};
    }
    assert_int_equal(es_draw_heatmap(&drawn, &drawing), ES_OK);
    assert_int_equal(es_heatmap_draw(&wanted, &figure), ES_OK);
    assert_same_picture(drawn, wanted);
}

static void test_scan__a_heatmap_scale_ends_at_m(void **state)
{
    (void)state;
    fixture f[2];
    const float low[N] = {0.5f, 1, 1.5f, 2, 0.25f, 1};
    const float high[N] = {3, 3.5f, NAN, es_missing(), INFINITY, 1};
    const float below[N] = {-0.5f, 1, 1.5f, 2, -1.5f, 1};
    const float zero[N] = {0, 0, 0, 0, 0, 0};
    const float none[N] = {NAN, NAN, NAN, NAN, NAN, NAN};
    /* One scale for all runs, up to the largest m, whatever the values. */
    set(&f[0], "SM", low, 2);
    assert_scale(f, 1, 0, 2);
    set(&f[1], "SM+R", high, 3.5);
    assert_scale(f, 2, 0, 3.5);
    set(&f[1], "SM+R", high, 9);
    assert_scale(f, 2, 0, 9);
    set(&f[1], "SM+R", below, 2);
    assert_scale(f, 2, -1.5, 2);
    /* All heads collapsed to nothing: up to the ceiling; else up to 1. */
    set(&f[0], "SM", zero, 0);
    assert_scale(f, 1, 0, 2);
    f[0].run.ceiling = NAN;
    assert_scale(f, 1, 0, 1);
    /* Nothing finite: no scale at all. */
    set(&f[0], "SM", none, NAN);
    assert_scale(f, 1, 0, NAN);
    set(&f[1], "SM+R", low, 2);
    assert_scale(f, 2, 0, 2);
}

/* --- curves ---------------------------------------------------------------*/

enum { STEPS = 3 };

/* (STEPS,2,4): layers of 4 heads, M for missing. */
static void write_run(const char *path)
{
    const float M = es_missing();
    const float entropy[STEPS][2 * 4] = {
        {1, 2, 3, 5, NAN, NAN, NAN, NAN},
        {NAN, 2, NAN, INFINITY, M, NAN, M, M},
        {M, M, M, M, 4, 3, 4, M},
    };
    es_writer *w = NULL;
    int64_t run, series[3];
    es_run_info info = es_run_of(2, 4);
    info.name = "a";
    info.ctx = 128;
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &series[0], run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_EVAL, NULL));
    es_assert_ok(es_writer_series(w, &series[1], run, "slope", ES_SHAPE_LAYER,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &series[2], run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    for (int i = 0; i < STEPS; i++) {
        es_assert_ok(es_writer_sample(w, series[0], 10 * i, entropy[i], 8));
        es_assert_ok(es_writer_sample(w, series[1], 10 * i, entropy[i], 2));
        es_assert_ok(es_writer_sample(w, series[2], 10 * i, entropy[i], 1));
    }
    es_assert_ok(es_writer_close(w));
}

/* What the figure of a series is to be. lines (n,STEPS). */
typedef struct wanted {
    const char *series, *subtitle, *labels[2], *line_text;
    size_t n;
    float lines[2][STEPS];
    double reference;
} wanted;

static void assert_curves(const char *path, const wanted *w)
{
    static const int64_t steps[STEPS] = {0, 10, 20};
    es_run_summary *run = es_loaded_series(path, w->series);
    const es_run_summary *runs[] = {run};
    const es_figure_options options = {.title = NULL};
    es_drawing drawing = {
        .options = &options, .runs = runs, .n = 1, .axis = "y"};
    es_curve curves[2];
    for (size_t i = 0; i < w->n; i++)
        curves[i] = (es_curve){.label = w->labels[i],
                               .x = steps,
                               .values = w->lines[i],
                               .n = STEPS};
    es_curves_panel panel = {.title = "a",
                             .subtitle = w->subtitle,
                             .curves = curves,
                             .n_curves = w->n};
    es_curves figure = {.panels = &panel,
                        .n_panels = 1,
                        .y_text = "y",
                        .line_text = w->line_text,
                        .reference = w->reference,
                        .reference_text = "ceiling ln(T!)/T"};
    es_picture *drawn = NULL, *other = NULL;
    assert_int_equal(es_draw_curves(&drawn, &drawing), ES_OK);
    assert_int_equal(es_curves_draw(&other, &figure), ES_OK);
    assert_same_picture(drawn, other);
    es_summary_free(run);
}

static void test_scan__curves_are_means_of_layers(void **state)
{
    const char *path = es_folder_file(state, "a.db");
    const float M = es_missing();
    write_run(path);
    assert_curves(path,
                  &(wanted){.series = "entropy",
                            .subtitle = "mean of each layer, eval",
                            .labels = {"layer 0", "layer 1"},
                            .line_text = "layer",
                            .n = 2,
                            .lines = {{2.75f, 2, M}, {NAN, NAN, 11 / 3.0f}},
                            .reference = es_ceiling(128)});
    assert_curves(path, &(wanted){.series = "slope",
                                  .labels = {"layer 0", "layer 1"},
                                  .line_text = "layer",
                                  .n = 2,
                                  .lines = {{1, NAN, M}, {2, 2, M}},
                                  .reference = NAN});
    assert_curves(path, &(wanted){.series = "loss",
                                  .labels = {"loss"},
                                  .n = 1,
                                  .lines = {{1, NAN, M}},
                                  .reference = NAN});
}

/* --- --all ----------------------------------------------------------------*/

/* Standard error while every figure of the runs is made, to be freed. */
static char *make_all(size_t *n_failed, es_status *status, char *folder,
                      const es_run_summary *const *runs, size_t n)
{
    char *said = NULL, input[] = "a.db", *inputs[] = {input};
    size_t size = 0;
    FILE *stream = tmpfile();
    int before = dup(STDERR_FILENO);
    es_figure_options options = {.title = NULL};
    const es_figure_job job = {.options = &options,
                               .inputs = inputs,
                               .n_inputs = 1,
                               .runs = runs,
                               .n = n,
                               .quiet = true};
    es_figures_want_all(&options, folder);
    assert_true(stream && before >= 0 && dup2(fileno(stream), 2) == 2);
    *status = es_figures_make(n_failed, &job);
    fflush(stderr);
    assert_int_equal(dup2(before, 2), 2);
    close(before);
    rewind(stream);
    assert_true(getdelim(&said, &size, '\0', stream) > 0);
    fclose(stream);
    return said;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

static void test_all__an_unreadable_file_is_reported_once(void **state)
{
    char *folder = es_folder_file(state, "figures");
    const char *paths[2] = {es_folder_file(state, "b.db"),
                            es_folder_file(state, "gone.db")};
    es_run_summary *runs[2];
    for (size_t i = 0; i < 2; i++) {
        write_run(paths[i]);
        runs[i] = es_loaded_run(paths[i], 0);
        es_summary_set_max(runs[i], runs[i]->peak);
    }
    assert_int_equal(unlink(paths[1]), 0);
    for (size_t first = 0; first < 2; first++) { /* beside another; alone */
        size_t n_failed;
        es_status status;
        char *said =
            make_all(&n_failed, &status, folder,
                     (const es_run_summary *const *)runs + first, 2 - first);
        assert_true(status < 0 || n_failed > 0);
        assert_int_equal(count(said, "gone.db: "), 1);
        assert_int_equal(count(said, "\n"), 1);
        free(said);
    }
    es_summary_free(runs[0]);
    es_summary_free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan__a_heatmap_scale_ends_at_m),
        cmocka_unit_test(test_scan__curves_are_means_of_layers),
        cmocka_unit_test(test_all__an_unreadable_file_is_reported_once),
    };
    return cmocka_run_group_tests(tests, es_folder_make, es_folder_remove);
}
