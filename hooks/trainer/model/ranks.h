/** Declares how a model adds up gradients and losses over the ranks of a
 *  training run. es_model_set_ranks (model.h) sets the ranks. */
#ifndef ES_MODEL_RANKS_H
#define ES_MODEL_RANKS_H

#include "hooks/trainer/model/model.h"

void es_model_free_ranks(es_model *model);

/** n_shared returns the total number of micro-batches of all ranks in a step
 *  that has n_batches micro-batches per rank. pass_number returns the number
 *  that this rank's micro-batch i has within the training run. */
int es_model_n_shared(const es_model *model, int n_batches);
uint64_t es_model_pass_number(const es_model *model, const es_step_plan *plan,
                              int i);

/** The model calls begin_shared in es_model_begin, begin_sums at the start of a
 *  step, add_batch after each backward pass, and reduce before the update.
 *  add_batch and reduce return the errors of es_transport_add, or ES_OK for a
 *  model without ranks. */
void es_model_begin_shared(es_model *model);
void es_model_begin_sums(es_model *model);
es_status es_model_add_batch(es_model *model) ES_MUST_USE;
es_status es_model_reduce(es_model *model) ES_MUST_USE;

/** reduces_by_device returns true if the back-end computes the sums over ranks.
 *  The backward pass calls reduce_layer when a layer's gradients are complete;
 *  if model->reduces is true, the function starts their reduction. wait_ranks
 *  waits for the reductions before the host loads results, and returns the
 *  statuses of es_transport_check. */
bool es_model_reduces_by_device(const es_model *model);
void es_model_reduce_layer(const es_model *model, int layer);
es_status es_model_wait_ranks(es_model *model) ES_MUST_USE;

/** If the passes that are measured are divided among the ranks, adds the first
 *  n_bytes of every other rank's report to this rank's report, which the caller
 *  has just loaded to the host. Returns the errors of es_transport_gather. */
es_status es_model_join_reports(es_model *model, size_t n_bytes) ES_MUST_USE;

#endif
