/** Reads the model of a run in the form that analyzer/cost needs, as far as the
 *  run's file describes the model. */
#ifndef ES_RUN_MODEL_H
#define ES_RUN_MODEL_H

#include "analyzer/cost/cost.h"
#include "store/reader.h"

/**
 * Prefix of the architecture of a model that consists of He and Hofmann's
 * simplified blocks (SAS, simplified attention sub-block), as in SAS:SM+ScFFN.
 */
#define ES_SAS_PREFIX "SAS:"

/** Makes `model` consist of simplified blocks, with their LayerNorms before the
 *  first and after the last layer. */
void es_model_simplify(es_cost_model *model);

/**
 * Prints the name of a run's model, which is its architecture, with
 * ES_SAS_PREFIX for simplified blocks. `family` may be NULL. Returns `out`.
 */
char *es_model_name(char out[ES_ARCH_TEXT_MAX], const char *arch,
                    const char *family);

/**
 * Reads the model of a run. The architecture and the sizes L, H, d, T and V
 * come from the run's columns, and so does the family, which determines whether
 * blocks are simplified; the MLP multiplier m ("mlp_mult"; 4 if absent) and
 * "final_norm" come from its configuration.
 *
 *   user  subject of messages, such as "a figure of FLOPs"
 *
 * Returns ES_OK; V is below 1 if the vocabulary size is unknown. Returns
 * ES_ENOTFOUND if the architecture cannot be parsed, or if d or T is unknown:
 * the message reports the missing value, and the sizes in *out are not set.
 * Otherwise returns the errors of es_reader_run.
 */
es_status es_run_model_read(es_cost_model *out, es_reader *reader, size_t run,
                            const char *user) ES_MUST_USE;

/** Converts the modelled cost of a forward pass to the unit of tables: bytes to
 *  GB, or seconds to minutes. */
double es_cost_shown(es_cost_kind kind, double modelled);

#endif
