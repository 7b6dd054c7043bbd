/** Figures of runs in files, for tests. */
#ifndef ES_TESTS_FIGURED_H
#define ES_TESTS_FIGURED_H

#include "cli/figures/drawing.h"
#include "tests/support/drawn.h"

/** Runs and how they are drawn. Zero is the default of all but the runs. */
typedef struct es_figured {
    es_run_summary *loaded[4];
    const es_run_summary *runs[4];
    es_figure_options options;
    es_drawing drawing; /* of all runs */
} es_figured;

/** The first run of each of n files, as it is of this series; es_unfigure it.
 */
void es_figure(es_figured *out, const char *series, size_t n,
               const char *const *paths);

/** The same of one file. */
void es_figure_one(es_figured *out, const char *series, const char *path);

void es_unfigure(es_figured *figured);

/** What it draws; fails the test unless that is sound. */
es_picture *es_figured_picture(es_figured *figured, es_figure_draw *draw);

/** Fails the test unless it draws what `wanted`, which it frees, shows. */
void es_assert_draws(es_figured *figured, es_figure_draw *draw,
                     es_picture *wanted);

/** Fails the test unless it is refused with a message that has `words`. */
void es_assert_undrawn(es_figured *figured, es_figure_draw *draw,
                       const char *words);

/** Fails the test unless the first run does not fit, with these words. */
void es_assert_unfit(const es_figured *figured, es_figure_kind kind,
                     const char *words);

#endif
