/**
 * The folder that holds the last checkpoints of a run as
 * DIR/NAME-STEP.safetensors. Only one training at a time writes to a folder.
 */
#ifndef ES_CHECKPOINT_FOLDER_H
#define ES_CHECKPOINT_FOLDER_H

#include "hooks/trainer/files/checkpoint.h"

typedef struct es_checkpoint_folder es_checkpoint_folder;

/**
 * Creates the folder if necessary, locks it, checks that it is writable, and
 * removes half-written files of trainings that were killed.
 *
 *   name        the run's name; file names use it as far as they permit
 *   uuid        the run's uuid
 *   first_step  the step from which the training continues; 0: it is new
 *   keep        number of files to keep; 0: all
 *
 * ES_OK; ES_EIO; ES_ELOCKED (another training is writing there); ES_EUSAGE: the
 * folder has checkpoints of this name by another run, or good later ones of
 * this run, which would be mixed up with the new ones; ES_ENOMEM.
 */
es_status es_checkpoint_folder_open(es_checkpoint_folder **out,
                                    const char *path, const char *name,
                                    const char *uuid, int64_t first_step,
                                    int64_t keep) ES_MUST_USE;
void es_checkpoint_folder_close(
    es_checkpoint_folder *folder); /* NULL is fine */

/**
 * Writes a checkpoint and, once it is safe on disk, removes those beyond the
 * last `keep`. Returns as es_checkpoint_write; ES_EIO also if an old file
 * cannot be removed.
 */
es_status
es_checkpoint_folder_save(es_checkpoint_folder *folder, es_model *model,
                          const es_settings *settings,
                          const es_checkpoint_state *state) ES_MUST_USE;

/**
 * Opens the checkpoint to resume: a file, or the newest good one in a folder.
 *
 *   on_warning  called for each newer file that is damaged; may be NULL
 *
 * ES_OK; as es_checkpoint_open; ES_EUSAGE if the folder has checkpoints of
 * several names; ES_ENOTFOUND if it has none.
 */
es_status es_checkpoint_find(es_checkpoint **out, const char *path,
                             void (*on_warning)(void *user,
                                                const char *message),
                             void *user) ES_MUST_USE;

#endif
