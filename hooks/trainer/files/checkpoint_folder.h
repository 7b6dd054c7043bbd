/**
 * The folder that holds the last checkpoints of a run as
 * DIR/NAME-STEP.safetensors. Only one training run at a time writes to a
 * folder.
 */
#ifndef ES_CHECKPOINT_FOLDER_H
#define ES_CHECKPOINT_FOLDER_H

#include "hooks/trainer/files/checkpoint.h"

typedef struct es_checkpoint_folder es_checkpoint_folder;

/**
 * Creates the folder if necessary, locks it, checks that it is writable, and
 * removes half-written files of killed training runs.
 *
 *   name        the run's name; file names contain it, without characters that
 *               file names cannot have
 *   uuid        the run's uuid
 *   first_step  the step from which training continues; 0: a new run
 *   keep        number of files to keep; 0: all
 *
 * Returns ES_OK, ES_EIO or ES_ENOMEM. Returns ES_ELOCKED if another training
 * run writes to this folder. Returns ES_EUSAGE if the folder has checkpoints of
 * another run with this name, or intact checkpoints of this run from later
 * steps, which would be mixed up with the new ones.
 */
es_status es_checkpoint_folder_open(es_checkpoint_folder **out,
                                    const char *path, const char *name,
                                    const char *uuid, int64_t first_step,
                                    int64_t keep) ES_MUST_USE;
void es_checkpoint_folder_close(
    es_checkpoint_folder *folder); /* `folder` may be NULL */

/**
 * Writes a checkpoint and, once it is safe on disk, removes all but the last
 * `keep` checkpoints. Returns the statuses of es_checkpoint_write, and ES_EIO
 * also if an old file cannot be removed.
 */
es_status
es_checkpoint_folder_save(es_checkpoint_folder *folder, es_model *model,
                          const es_settings *settings,
                          const es_checkpoint_state *state) ES_MUST_USE;

/**
 * Opens the checkpoint to resume: a file, or the newest intact checkpoint in a
 * folder.
 *
 *   on_warning  called for each newer file that is damaged; may be NULL
 *
 * Returns ES_OK, the errors of es_checkpoint_open, ES_EUSAGE if the folder has
 * checkpoints with several run names, or ES_ENOTFOUND if it has no checkpoint.
 */
es_status es_checkpoint_find(es_checkpoint **out, const char *path,
                             void (*on_warning)(void *user,
                                                const char *message),
                             void *user) ES_MUST_USE;

#endif
