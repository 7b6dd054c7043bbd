/** Loads run files and draws figures of the runs, for tests. */
#ifndef ES_TESTS_FIGURED_H
#define ES_TESTS_FIGURED_H

#include "cli/figures/drawing.h"
#include "tests/support/drawn.h"

/** Runs, and the drawing of a figure of these runs. All members except the runs
 *  may be zero-initialised. */
typedef struct es_figured {
    es_run_summary *loaded[4];
    const es_run_summary *runs[4];
    es_figure_options options;
    es_drawing drawing; /* the drawing, which includes all runs */
} es_figured;

/** Loads the first run of each of n files, with the summary of a series. The
 *  caller frees *out with es_unfigure. */
void es_figure(es_figured *out, const char *series, size_t n,
               const char *const *paths);

/** Loads the first run of one file, like es_figure. */
void es_figure_one(es_figured *out, const char *series, const char *path);

void es_unfigure(es_figured *figured);

/** Draws a figure with `draw` and returns the picture. Fails the test unless
 *  the picture is sound: no texts overlap and all coordinates are finite. */
es_picture *es_figured_picture(es_figured *figured, es_figure_draw *draw);

/** Fails the test unless `draw` creates the same picture as `wanted`. Frees
 *  `wanted`. */
void es_assert_draws(es_figured *figured, es_figure_draw *draw,
                     es_picture *wanted);

/** Fails the test unless `draw` returns ES_ENOTFOUND with a message that
 *  contains `words`. */
void es_assert_undrawn(es_figured *figured, es_figure_draw *draw,
                       const char *words);

/**
 * Fails the test unless the figure cannot show the first run and the message
 * that gives the reason contains `words`.
 */
void es_assert_unfit(const es_figured *figured, es_figure_kind kind,
                     const char *words);

#endif
