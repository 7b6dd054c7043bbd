/** Finds what a training would refuse, without training: --dry-run. */
#ifndef ES_DRY_RUN_H
#define ES_DRY_RUN_H

#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/settings/settings.h"

/**
 * Checks what a training checks before its first step: the settings, on their
 * back-end; the data and their first micro-batches; the weights of --init; the
 * checkpoint that it resumes; where it would write. It makes no file and no
 * folder. Memory may still be short, and the recorder may not start.
 *
 *   settings   a vocabulary of 0 becomes the data's
 *   from       NULL: from the beginning
 *   unchecked  called for each part that cannot be checked: it is not named,
 *              or is not on this machine
 *
 * ES_OK; what the training would end with.
 */
es_status es_dry_run(es_settings *settings, const es_checkpoint *from,
                     void (*unchecked)(const char *what)) ES_MUST_USE;

#endif
