/** --dry-run: finds what a training would refuse, without training. */
#ifndef ES_DRY_RUN_H
#define ES_DRY_RUN_H

#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/settings/settings.h"

/**
 * Makes the checks that a training makes before its first step: the settings on
 * their back-end; the data and their first micro-batches; the weights of
 * --init; the checkpoint to resume from; the output places. Creates no file or
 * folder. Memory may still run short, and the recorder may still fail to start.
 *
 *   settings   a vocabulary of 0 is replaced by that of the data
 *   from       checkpoint to resume from; NULL: train from the beginning
 *   unchecked  called for each part that cannot be checked because it is not
 *              given or is not on this machine
 *
 * Returns ES_OK, or the status that the training would end with.
 */
es_status es_dry_run(es_settings *settings, const es_checkpoint *from,
                     void (*unchecked)(const char *what)) ES_MUST_USE;

#endif
