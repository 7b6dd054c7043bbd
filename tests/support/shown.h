/** Provides the sets of runs for which there are golden tables, JSON and
 *  CSV. */
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

/**
 * Records the five published models with T = 128 in the folder *state, and
 * loads them. `max` selects the maximum entropy, which determines the bands.
 */
void es_shown_published(es_shown *out, void **state, es_max max);

/**
 * Records runs with unusual properties, and loads them like es_shown_published.
 * The runs have unusual names, NaN, infinity, missing values, no ctx, no arch,
 * only evaluations, or one of all possible statuses; two of them are in one
 * file.
 */
void es_shown_troubled(es_shown *out, void **state, es_max max);

void es_shown_free(es_shown *shown);

#endif
