/* Loads, draws and compares figures of run files, for the tests of
 * cli/figures. */
#include "tests/support/figured.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

void es_figure(es_figured *out, const char *series, size_t n,
               const char *const *paths)
{
    *out = (es_figured){.drawing = {.n = n, .note = "max = 1", .axis = "y"}};
    out->drawing.runs = out->runs;
    out->drawing.options = &out->options;
    for (size_t i = 0; i < n; i++)
        out->runs[i] = out->loaded[i] = es_loaded_series(paths[i], series);
    es_assert_ok(es_run_labels_make(&out->drawing.labels, out->runs, n));
}

void es_figure_one(es_figured *out, const char *series, const char *path)
{
    es_figure(out, series, 1, &path);
}

void es_unfigure(es_figured *figured)
{
    for (size_t i = 0; i < 4; i++)
        es_summary_free(figured->loaded[i]);
    es_run_labels_free(&figured->drawing.labels);
}

es_picture *es_figured_picture(es_figured *figured, es_figure_draw *draw)
{
    es_picture *picture = NULL;
    es_drawing *drawing = &figured->drawing;
    /* Make the labels again, because the test may have changed the runs. */
    es_run_labels_free(&drawing->labels);
    es_assert_ok(
        es_run_labels_make(&drawing->labels, drawing->runs, drawing->n));
    sound_picture(draw(&picture, &figured->drawing), &picture);
    es_drawing_clear(&figured->drawing);
    return picture;
}

void es_assert_draws(es_figured *figured, es_figure_draw *draw,
                     es_picture *wanted)
{
    assert_same_picture(es_figured_picture(figured, draw), wanted);
}

void es_assert_undrawn(es_figured *figured, es_figure_draw *draw,
                       const char *words)
{
    es_picture *none = NULL;
    es_assert_status(ES_ENOTFOUND, words, draw(&none, &figured->drawing));
    assert_null(none);
    es_drawing_clear(&figured->drawing);
}

void es_assert_unfit(const es_figured *figured, es_figure_kind kind,
                     const char *words)
{
    es_assert_status(ES_ENOTFOUND, words,
                     es_figure_fit(kind, figured->runs[0]));
}
