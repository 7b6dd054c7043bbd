/** Sets of runs whose table, JSON and CSV the tests know. */
#ifndef ES_TESTS_SHOWN_H
#define ES_TESTS_SHOWN_H

#include "cli/runs/summary.h"

#define ES_SHOWN_MAX 8

typedef struct es_shown {
    es_run_summary *runs[ES_SHOWN_MAX]; /* (n) */
    size_t n;
    es_max max;
    double observed;
} es_shown;

/** The five published models, T = 128, in folder *state. */
void es_shown_published(es_shown *out, void **state, es_max max);

/** Runs with everything that can be odd: names, NaN, infinities, missing
 *  values, no ctx, no arch, eval alone, every status, two runs in a file. */
void es_shown_troubled(es_shown *out, void **state, es_max max);

void es_shown_free(es_shown *shown);

#endif
