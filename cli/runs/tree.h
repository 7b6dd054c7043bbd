/** Run files: those below a folder, and how one looks from outside, without
 *  opening it. */
#ifndef ES_TREE_H
#define ES_TREE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/** Paths, each to be freed with the list. */
typedef struct es_paths {
    char **paths; /* (n) */
    size_t n;
} es_paths;

/**
 * Appends the run files below `folder`, in the order of their names: every
 * regular file that ends in .db and whose name does not begin with a dot.
 *
 *   out       added to; es_paths_free it, also on failure
 *   folders   added to as `out` is: the folders met, `folder` first; may be
 *             NULL
 *   n_failed  added to: folders that cannot be read; the others are
 *   quiet     they are counted only; else each has a line on standard error
 *
 * Symbolic links are not followed, so that no file is met twice and no walk
 * is endless; other file systems are entered.
 * ES_OK; ES_EIO if the folder itself cannot be read; ES_ENOMEM.
 */
es_status es_paths_walk_all(es_paths *out, es_paths *folders, size_t *n_failed,
                            const char *folder, bool quiet) ES_MUST_USE;

/**
 * Appends the inputs (n), each folder as the run files below it.
 *
 *   n_failed  as for es_paths_walk_all
 *
 * ES_OK; ES_ENOTFOUND: there is not one file; as es_paths_walk_all.
 */
es_status es_paths_expand(es_paths *out, size_t *n_failed, char *const *inputs,
                          size_t n) ES_MUST_USE;

/**
 * The same of a command line's inputs (*n), an array from malloc, if one of
 * them is a folder: it is freed, and they are those of `found`, to be freed
 * with it. es_inputs_free in every case.
 */
es_status es_inputs_expand(char ***inputs, size_t *n, es_paths *found,
                           size_t *n_failed) ES_MUST_USE;
void es_inputs_free(char **inputs, es_paths *found);

/** The name ends as that of a run file, .db, or of a fragment, .esf. */
bool es_path_is_run(const char *name);

/** A folder, or a link to one. */
bool es_path_is_folder(const char *path);

/** Appends one path, copied. ES_OK or ES_ENOMEM. */
es_status es_paths_add(es_paths *to, const char *path) ES_MUST_USE;

void es_paths_free(es_paths *paths);

/** As long as it does not change nothing was written to the file, or pushed to
 *  the database. Zeros: there is none. */
typedef struct es_stamp {
    dev_t device;
    ino_t inode;
    off_t size, log_size; /* of the file, and of the log beside it, which is
                             not there while it is empty */
    struct timespec changed, log_changed;
    struct timespec marked, log_marked; /* by the system, which lets nobody set
                                           it: st_ctime */
} es_stamp;

es_stamp es_stamp_of(const char *path);

bool es_stamp_same(const es_stamp *a, const es_stamp *b);

/** The file was written to less than so many seconds ago: it may be being
 *  copied, or, within a tick of the system's coarse clock, have been written to
 *  again with the same stamp. */
bool es_stamp_is_fresh(const es_stamp *stamp, double seconds);

#endif
