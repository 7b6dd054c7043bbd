/** The series of a training run, on their way to the recorder. */
#ifndef ES_TRAIN_RECORD_H
#define ES_TRAIN_RECORD_H

#include "hooks/trainer/trainer.h"
#include "store/run.h"

typedef struct es_train_record es_train_record;

/**
 * Starts the recorder for the run that `trainer` is about to do, and declares
 * its series. Every other function takes a NULL record and does nothing.
 *
 *   path  the run file; a run is added if it has others already, and goes on
 *         if it has the trainer's
 *
 * ES_OK, or what es_recorder_open returns.
 */
es_status es_train_record_open(es_train_record **out, const es_trainer *trainer,
                               const char *path) ES_MUST_USE;

/**
 * Records a step: loss, ce, lr, grad_norm, tokens_per_s, where the loss is
 * scaled loss_scale, and, if it was measured, the heads, layers and parameters
 * in trainer->measure.
 */
void es_train_record_step(es_train_record *record, const es_step *step,
                          es_measure *measure, double tokens_per_s);

/** Records one sample, phase eval, of a series that is in no list. */
void es_train_record_other(es_train_record *record, const char *name,
                           es_shape shape, const char *unit, int64_t step,
                           const float *values, size_t n);

/** Records an evaluation at `step`, by the model as it is before that step;
 *  that of a probe has the parameters' series, too. */
void es_train_record_eval(es_train_record *record, int64_t step,
                          const es_losses *losses, es_measure *measure);

/** Records the attention maps, phase eval: of each layer, and of its heads
 *  where there are some. */
void es_train_record_maps(es_train_record *record, int64_t step,
                          const es_maps *maps);

void es_train_record_event(es_train_record *record, int64_t step,
                           const char *kind, es_severity severity,
                           const char *message);

/** What went wrong first, NULL if nothing did; recording never stops. */
const char *es_train_record_trouble(const es_train_record *record);

bool es_train_record_stop_requested(const es_train_record *record);

/**
 * Ends the run and frees the record. ES_OK if all of it is in the file;
 * otherwise the message says what was lost. NULL is fine.
 */
es_status es_train_record_close(es_train_record *record,
                                es_run_status status) ES_MUST_USE;

#endif
