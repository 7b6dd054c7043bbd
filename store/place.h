/** The place of a recording: the run file that the user named, or a fragment
 * next to it. */
#ifndef ES_PLACE_H
#define ES_PLACE_H

#include "store/mount.h"
#include "store/run.h"
#include <limits.h>

typedef struct es_place {
    char path[PATH_MAX];           /* path of the file to be written */
    char type[ES_MOUNT_TYPE_SIZE]; /* type of a file system that hosts share; ""
                                      for a local one */
    bool folds; /* true for a fragment on a local disk: when the run ends, it is
                   copied into the run file and the fragment is removed */
} es_place;

/**
 * Chooses the place.
 *
 *   path   the user's; a path that ends in ".esf" always means a fragment
 *   store  ES_STORE_AUTO chooses a fragment on a file system that hosts share,
 *          or if an earlier fragment exists without a run file
 *   uuid   uuid of the run; NULL for a new run
 *
 * Returns ES_OK; ES_EIO: the run is already in the run file, and a fragment
 * cannot continue it; ES_EARGUMENT (unknown store, path too long).
 */
es_status es_place_choose(es_place *out, const char *path, es_store store,
                          const char *uuid) ES_MUST_USE;

/** Writes the path of the fragment that belongs to RUN.db: RUN.esf. Returns
 * false if it is too long. */
bool es_place_beside(char out[PATH_MAX], const char *path);

/**
 * Copies the runs of a closed fragment into its run file, which is created if
 * it does not exist, and removes the fragment. On failure the fragment stays,
 * and the run file is unchanged or has additional whole runs. Same statuses as
 * es_merge; ES_EFORMAT: parts of the fragment are damaged; ES_ELOCKED: another
 * process continues the fragment.
 */
es_status es_place_fold(const char *fragment, const char *run_file) ES_MUST_USE;

#endif
