/** Values that summarise a run in one line among many, in a picture or on a
 *  terminal. */
#ifndef ES_GLANCE_H
#define ES_GLANCE_H

#include "cli/runs/summary.h"

/** The number by which runs are compared. */
typedef struct es_yardstick {
    size_t member;           /* offset of a float in es_run_summary */
    const char *text, *name; /* "perplexity (held-out)", "eval_ppl" */
} es_yardstick;

/** Chooses the yardstick that most of the n runs have: perplexity on held-out
 *  data, perplexity, or loss. */
const es_yardstick *es_yardstick_choose(const es_run_summary *const *runs,
                                        size_t n);

float es_yardstick_of(const es_yardstick *measure, const es_run_summary *run);

/** Returns the active flag of the highest severity, the earliest if there are
 *  several; NULL if no flag is active. */
const es_flag *es_glance_worst(const es_run_summary *run);

/** Returns the mean of a layer; NaN if a head is not finite, missing if all
 *  heads are missing. */
float es_glance_layer(const es_run_summary *run, size_t layer);

#endif
