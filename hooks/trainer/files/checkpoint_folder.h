/**
 * Where the checkpoints of a run lie: DIR/NAME-STEP.safetensors, the last few
 * of them. One training at a time writes into a folder.
 */
#ifndef ES_CHECKPOINT_FOLDER_H
#define ES_CHECKPOINT_FOLDER_H

#include "hooks/trainer/files/checkpoint.h"

typedef struct es_checkpoint_folder es_checkpoint_folder;

/**
 * Makes the folder if it is not there, locks it, finds out whether it can be
 * written, removes what killed trainings left half-written.
 *
 *   name        of the run; becomes the files' where a file's name permits
 *   uuid        of the run
 *   first_step  the training goes on after so many steps; 0: it begins
 *   keep        files kept; 0: all
 *
 * ES_OK; ES_EIO; ES_ELOCKED (another training writes there); ES_EUSAGE: it
 * holds checkpoints of this name by another run, or good later ones of this
 * run, which would be mixed up with the new ones; ES_ENOMEM.
 */
es_status es_checkpoint_folder_open(es_checkpoint_folder **out,
                                    const char *path, const char *name,
                                    const char *uuid, int64_t first_step,
                                    int64_t keep) ES_MUST_USE;
void es_checkpoint_folder_close(
    es_checkpoint_folder *folder); /* NULL is fine */

/**
 * Writes a checkpoint; once it is safe, removes those beyond the last `keep`.
 * As es_checkpoint_write; ES_EIO also if an old one cannot be removed.
 */
es_status
es_checkpoint_folder_save(es_checkpoint_folder *folder, es_model *model,
                          const es_settings *settings,
                          const es_checkpoint_state *state) ES_MUST_USE;

/**
 * Opens the checkpoint to resume: a file, or the newest good one of a folder.
 *
 *   on_warning  called for each newer one that is damaged; or NULL
 *
 * ES_OK; as es_checkpoint_open; ES_EUSAGE if the folder holds checkpoints of
 * several names; ES_ENOTFOUND if it holds none.
 */
es_status es_checkpoint_find(es_checkpoint **out, const char *path,
                             void (*on_warning)(void *user,
                                                const char *message),
                             void *user) ES_MUST_USE;

#endif
