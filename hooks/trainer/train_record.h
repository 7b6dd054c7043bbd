/** Sends the series of a training run to the recorder. */
#ifndef ES_TRAIN_RECORD_H
#define ES_TRAIN_RECORD_H

#include "hooks/trainer/trainer.h"
#include "store/run.h"

typedef struct es_train_record es_train_record;

/**
 * Starts the recorder for the run that `trainer` is about to do, and declares
 * its series. Every other function accepts a NULL record and then does nothing.
 *
 *   path  the run file; if it has other runs, a run is added; if it has the
 *         trainer's run, that run is continued
 *
 * Returns ES_OK, or a status of es_recorder_open.
 */
es_status es_train_record_open(es_train_record **out, const es_trainer *trainer,
                               const char *path) ES_MUST_USE;

/**
 * Records a step: loss, ce, lr, grad_norm, tokens_per_s; loss_scale if the loss
 * is scaled; and, if the step was measured, the heads, layers and parameters in
 * trainer->measure.
 */
void es_train_record_step(es_train_record *record, const es_step *step,
                          es_measure *measure, double tokens_per_s);

/** Records one sample, phase eval, of an additional series called `name`. */
void es_train_record_other(es_train_record *record, const char *name,
                           es_shape shape, const char *unit, int64_t step,
                           const float *values, size_t n);

/** Records an evaluation at `step`, of the model before that step; in a probe
 *  also the parameters' series. */
void es_train_record_eval(es_train_record *record, int64_t step,
                          const es_losses *losses, es_measure *measure);

/** Records the attention maps, phase eval: those of each layer, and of its
 *  heads if they were taken. */
void es_train_record_maps(es_train_record *record, int64_t step,
                          const es_maps *maps);

void es_train_record_event(es_train_record *record, int64_t step,
                           const char *kind, es_severity severity,
                           const char *message);

/** Returns the message of the first failure, or NULL; recording never stops the
 *  training. */
const char *es_train_record_trouble(const es_train_record *record);

bool es_train_record_stop_requested(const es_train_record *record);

/**
 * Ends the run and frees the record. Returns ES_OK if the file holds all of it;
 * otherwise the message says what was lost. NULL is accepted.
 */
es_status es_train_record_close(es_train_record *record,
                                es_run_status status) ES_MUST_USE;

#endif
