/** Sends the series of a training run to the recorder. */
#ifndef ES_TRAIN_RECORD_H
#define ES_TRAIN_RECORD_H

#include "hooks/entropyscan.h"
#include "hooks/trainer/trainer.h"

typedef struct es_train_record es_train_record;

/**
 * Starts the recorder for the run of `trainer`, and declares the run's series.
 * Every other function accepts a NULL record and then does nothing.
 *
 *   path  the run file. If the file already contains the trainer's run, this
 *         run is continued; otherwise a new run is added to the file
 *
 * Returns ES_OK, or a status of es_recorder_open.
 */
es_status es_train_record_open(es_train_record **out, const es_trainer *trainer,
                               const char *path) ES_MUST_USE;

/**
 * Records a step: loss, ce, lr, grad_norm, tokens_per_s; also loss_scale if the
 * loss is scaled, and the values of heads, layers and parameters in
 * trainer->measure if the step was measured.
 */
void es_train_record_step(es_train_record *record, const es_step *step,
                          es_measure *measure, double tokens_per_s);

/** Records one sample of an additional series called `name`, in the phase
 *  eval. */
void es_train_record_other(es_train_record *record, const char *name,
                           es_shape shape, const char *unit, int64_t step,
                           const float *values, size_t n);

/** Records an evaluation of the model before step `step`. In a probe, also
 *  records the series of parameters. */
void es_train_record_eval(es_train_record *record, int64_t step,
                          const es_losses *losses, es_measure *measure);

/** Records attention maps, in the phase eval: the maps of each layer and, if
 *  they were computed, of each head. */
void es_train_record_maps(es_train_record *record, int64_t step,
                          const es_maps *maps);

void es_train_record_event(es_train_record *record, int64_t step,
                           const char *kind, es_severity severity,
                           const char *message);

/** Returns the message of the recorder's first failure, or NULL. Failures of
 *  the recorder never stop training. */
const char *es_train_record_trouble(const es_train_record *record);

bool es_train_record_stop_requested(const es_train_record *record);

/**
 * Ends the run and frees the record. Returns ES_OK if the file contains the
 * complete run; otherwise the message states which data were lost. `record` may
 * be NULL.
 */
es_status es_train_record_close(es_train_record *record,
                                es_run_status status) ES_MUST_USE;

#endif
