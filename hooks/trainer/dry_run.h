/** Implements --dry-run: without training, reports the errors with which a
 *  training run would end before its first step. */
#ifndef ES_DRY_RUN_H
#define ES_DRY_RUN_H

#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/settings/settings.h"

/**
 * Makes the checks that a training run makes before its first step: the
 * back-end must support the settings, the outputs must be writable, and the
 * data, the first micro-batches, the weights of --init and the checkpoint to
 * resume from must be valid. Creates no file or folder. Does not check memory
 * or the start of the recorder.
 *
 *   settings   a vocabulary of 0 is replaced by the data's vocabulary
 *   from       checkpoint to resume from; NULL: train from the beginning
 *   unchecked  called for each item that is not checked, because it is not
 *              given or is not available on this machine
 *
 * Returns ES_OK, or the status with which the training run would end.
 */
es_status es_dry_run(es_settings *settings, const es_checkpoint *from,
                     void (*unchecked)(const char *what)) ES_MUST_USE;

#endif
