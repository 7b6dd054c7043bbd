/** The Python files below a folder, in an order that does not depend on it. */
#ifndef ES_CORPUS_FIND_H
#define ES_CORPUS_FIND_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_paths {
    char **items; /* relative to the folder */
    size_t n, capacity;
    uint64_t n_unreadable; /* directories and files that could not be seen */
} es_paths;

/**
 * Adds the path of every *.py below `folder`, relative to it; then sorts all
 * paths by their bytes.
 *
 * Left out: directories named test, tests, site-packages, dist-packages (what
 * distributions split off or users install) and those whose name begins with
 * a dot; symbolic links below the folder; what is no regular file.
 *
 * ES_OK; ES_EIO (no such folder, not a directory, too many open files);
 * ES_ENOMEM.
 */
es_status es_paths_find(es_paths *paths, const char *folder) ES_MUST_USE;

/** True if an errno is of this process or machine, and says nothing about the
 *  file: to pass such a file over would make another corpus. */
bool es_paths_is_shortage(int reason);

void es_paths_free(es_paths *paths);

#endif
