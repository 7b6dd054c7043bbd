/**
 * The file into which a recording is written: the run file that the user named,
 * or a fragment next to it.
 */
#ifndef ES_PLACE_H
#define ES_PLACE_H

#include "store/mount.h"
#include "store/run.h"
#include <limits.h>

typedef struct es_place {
    char path[PATH_MAX];           /* path of the file to be written */
    char type[ES_MOUNT_TYPE_SIZE]; /* type of the file system if several hosts
                                      share it; "" if it is local */
    bool folds; /* true for a fragment on a local disk; when the run ends, such
                   a fragment is copied into the run file and removed */
} es_place;

/**
 * Chooses the file into which a run is recorded.
 *
 *   path   path that the user gave; a path that ends in ".esf" always means a
 *          fragment
 *   store  ES_STORE_AUTO chooses a fragment if several hosts share the file
 *          system, or if an earlier fragment exists without a run file
 *   uuid   uuid of the run; NULL for a new run
 *
 * Returns ES_OK; ES_EIO if the run is already in the run file and a fragment
 * cannot continue it; ES_EARGUMENT (unknown store, path too long).
 */
es_status es_place_choose(es_place *out, const char *path, es_store store,
                          const char *uuid) ES_MUST_USE;

/**
 * Copies the runs of a closed fragment into its run file, which is created if
 * it does not exist, and removes the fragment. On failure the fragment stays,
 * and the run file is either unchanged or has gained some complete runs.
 * Returns the same statuses as es_merge; ES_EFORMAT if parts of the fragment
 * are damaged; ES_ELOCKED if another process is writing to the fragment.
 */
es_status es_place_fold(const char *fragment, const char *run_file) ES_MUST_USE;

#endif
