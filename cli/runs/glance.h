/** Computes values that summarise a run, for figures and terminals that display
 *  many runs with one line each. */
#ifndef ES_GLANCE_H
#define ES_GLANCE_H

#include "cli/runs/summary.h"

/** The metric by which runs are compared. */
typedef struct es_yardstick {
    size_t member;           /* offset of the metric's float member in
                                es_run_summary */
    const char *text, *name; /* title and name of the metric, such as
                                "perplexity (held-out)" and "eval_ppl" */
} es_yardstick;

/** Chooses the metric that most of the n runs have recorded, among perplexity
 *  on held-out data, perplexity, and loss. */
const es_yardstick *es_yardstick_choose(const es_run_summary *const *runs,
                                        size_t n);

float es_yardstick_of(const es_yardstick *measure, const es_run_summary *run);

/** Returns the active flag with the highest severity. If several have this
 *  severity, returns the earliest. Returns NULL if no flag is active. */
const es_flag *es_glance_worst(const es_run_summary *run);

/** Returns the mean entropy of a layer's heads; NaN if the entropy of a head is
 *  not finite; es_missing() if no head has an entropy. */
float es_glance_layer(const es_run_summary *run, size_t layer);

#endif
