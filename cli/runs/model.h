/** The model of a run as analyzer/cost counts it, from what its file says. */
#ifndef ES_RUN_MODEL_H
#define ES_RUN_MODEL_H

#include "analyzer/cost/cost.h"
#include "store/reader.h"

/**
 * Reads it: architecture, L, H, d, T and V of the run; of its configuration m
 * ("mlp_mult"; 4 where it is not said) and "final_norm".
 *
 *   user  what messages say needs it: "a figure of FLOPs"
 *
 * ES_OK, and V is below 1 where it is unknown; ES_ENOTFOUND if the
 * architecture is not ours to read, or d or T is unknown: the message says what
 * is lacking, and *out has no size; es_reader_run's errors.
 */
es_status es_run_model_read(es_cost_model *out, es_reader *reader, size_t run,
                            const char *user) ES_MUST_USE;

/** Bytes of a forward pass in GB, seconds in minutes: as tables have them. */
double es_cost_shown(es_cost_kind kind, double modelled);

#endif
