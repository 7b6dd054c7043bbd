/** The model of a run as analyzer/cost counts it, as far as its file describes
 *  it. */
#ifndef ES_RUN_MODEL_H
#define ES_RUN_MODEL_H

#include "analyzer/cost/cost.h"
#include "store/reader.h"

/**
 * Reads the model: architecture, L, H, d, T and V of the run; from its
 * configuration m ("mlp_mult"; 4 if absent) and "final_norm".
 *
 *   user  subject of messages: "a figure of FLOPs"
 *
 * Returns ES_OK; V is below 1 if it is unknown. Returns ES_ENOTFOUND if the
 * architecture cannot be parsed, or if d or T is unknown: the message says what
 * is missing, and *out has no size. Otherwise errors of es_reader_run.
 */
es_status es_run_model_read(es_cost_model *out, es_reader *reader, size_t run,
                            const char *user) ES_MUST_USE;

/** Converts the bytes of a forward pass to GB, or its seconds to minutes, as
 *  tables show them. */
double es_cost_shown(es_cost_kind kind, double modelled);

#endif
