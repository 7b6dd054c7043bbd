/** Where a recording goes: into the run file that it was sent to, or into a
 *  fragment beside it. */
#ifndef ES_PLACE_H
#define ES_PLACE_H

#include "store/mount.h"
#include "store/run.h"
#include <limits.h>

typedef struct es_place {
    char path[PATH_MAX];           /* to be written */
    char type[ES_MOUNT_TYPE_SIZE]; /* of a file system that hosts share; "" */
    bool folds; /* a fragment on a local disk: at its end the run goes into the
                   run file, and the fragment is removed */
} es_place;

/**
 * Chooses it.
 *
 *   path   as the user gave it. One that ends in ".esf" is a fragment, and
 *          stays one
 *   store  ES_STORE_AUTO: a fragment on a file system that hosts share, and
 *          where an earlier one lies without its run file
 *   uuid   of the run; NULL: a new one
 *
 * ES_OK; ES_EIO: the run is in the run file already, which a fragment cannot
 * go on with; ES_EARGUMENT (no such store, too long a path).
 */
es_status es_place_choose(es_place *out, const char *path, es_store store,
                          const char *uuid) ES_MUST_USE;

/** The fragment's path beside RUN.db: RUN.esf. False: too long. */
bool es_place_beside(char out[PATH_MAX], const char *path);

/** Copies the runs of a closed fragment into its run file, which is made if it
 *  is not there, and removes the fragment. On failure that stays, and the run
 *  file is as it was or has whole runs. What es_merge says; ES_EFORMAT: parts
 *  of it are damaged; ES_ELOCKED: another process goes on with it. */
es_status es_place_fold(const char *fragment, const char *run_file) ES_MUST_USE;

#endif
