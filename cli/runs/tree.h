/** Finds run files below a folder, and detects changes of a file without
 *  opening it. */
#ifndef ES_TREE_H
#define ES_TREE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/** A list of paths; owns them. */
typedef struct es_paths {
    char **paths; /* (n) */
    size_t n;
} es_paths;

/**
 * Appends the run files below `folder`, sorted by name: every regular file
 * named *.db or *.esf whose name does not begin with a dot.
 *
 *   out       receives the files; freed by es_paths_free, also after a failure
 *   folders   receives all folders, `folder` first; may be NULL
 *   n_failed  increased by the number of unreadable folders, which are skipped
 *   quiet     if false, prints a line on standard error for each unreadable
 *             folder
 *
 * Symbolic links are not followed, so no file is found twice and the walk
 * always ends; other file systems are entered. Returns ES_OK; ES_EIO if
 * `folder` itself cannot be read; ES_ENOMEM.
 */
es_status es_paths_walk_all(es_paths *out, es_paths *folders, size_t *n_failed,
                            const char *folder, bool quiet) ES_MUST_USE;

/**
 * Appends the paths in `inputs` (n), replacing each folder by the run files
 * below the folder.
 *
 *   n_failed  increased by the number of unreadable folders
 *
 * Returns ES_OK; ES_ENOTFOUND if there is no run file; errors of
 * es_paths_walk_all.
 */
es_status es_paths_expand(es_paths *out, size_t *n_failed, char *const *inputs,
                          size_t n) ES_MUST_USE;

/**
 * Replaces the folders among *inputs by the run files below them. *inputs is an
 * array of *n paths from a command line, allocated with malloc. If an input is
 * a folder, frees the array, and sets *inputs to the paths in `found`. The
 * caller frees both with es_inputs_free in every case.
 */
es_status es_inputs_expand(char ***inputs, size_t *n, es_paths *found,
                           size_t *n_failed) ES_MUST_USE;
void es_inputs_free(char **inputs, es_paths *found);

/** Returns true if `name` ends in .db, like a run file, or in .esf, like a
 *  fragment. */
bool es_path_is_run(const char *name);

/** Returns true if the path is a folder, or a symbolic link to a folder. */
bool es_path_is_folder(const char *path);

/** Appends a copy of a path. Returns ES_OK or ES_ENOMEM. */
es_status es_paths_add(es_paths *to, const char *path) ES_MUST_USE;

/** Sorts the paths by strcmp. */
void es_paths_sort(es_paths *paths);

void es_paths_free(es_paths *paths);

/** State of a file or database, for detecting changes. If two stamps are equal,
 *  nothing was written between them. All members are zero if the file does not
 *  exist. */
typedef struct es_stamp {
    dev_t device;
    ino_t inode;
    off_t size, log_size; /* sizes of the file and of its write-ahead log in
                             bytes; 0 without a log */
    struct timespec changed, log_changed;
    struct timespec marked, log_marked; /* st_ctime of the file and of its
                                           write-ahead log, which users cannot
                                           set */
} es_stamp;

es_stamp es_stamp_of(const char *path);

bool es_stamp_same(const es_stamp *a, const es_stamp *b);

/** Returns true if the file was written less than `seconds` ago. The file may
 *  then still be growing. It may also have been written again without a change
 *  of its stamp, since the file system's clock is coarse. */
bool es_stamp_is_fresh(const es_stamp *stamp, double seconds);

#endif
