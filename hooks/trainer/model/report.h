/** Begins and ends the report of a step; model.h declares its public
 *  functions. */
#ifndef ES_MODEL_REPORT_H
#define ES_MODEL_REPORT_H

#include "hooks/trainer/model/model.h"

/** Allocates the report, which receives the losses and statistics of a step.
 *  Returns ES_OK or ES_ENOMEM. */
es_status es_model_plan_report(es_model *model) ES_MUST_USE;

/** es_model_fetches returns true if the host can fetch a step's report without
 *  waiting for later operations. es_model_fetch_report starts the transfer
 *  after a step has been launched; es_model_end_fetched waits for the
 *  transfer. */
bool es_model_fetches(const es_model *model);
void es_model_fetch_report(es_model *model);
es_status es_model_end_fetched(es_model *model, es_outcome *out) ES_MUST_USE;

/** Same as es_model_begin, but does not store the values of the parameters. If
 *  another step is in progress, the flag es_control.skips in the back-end's
 *  memory is not reset. This flag makes AdamW skip the update. */
void es_model_begin_report(es_model *model, bool measure,
                           const es_train_config *train, double lr);

/** es_model_begin_step and es_model_end_step are the same as es_model_begin and
 *  es_model_end, but for a step after passes that have completed. The report
 *  keeps the sums of these passes. */
void es_model_begin_step(es_model *model, const es_train_config *train,
                         double lr);
es_status es_model_end_step(es_model *model, es_outcome *out) ES_MUST_USE;

#endif
