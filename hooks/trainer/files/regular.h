/** Regular files that are read in parts, whoever made them. */
#ifndef ES_FILES_REGULAR_H
#define ES_FILES_REGULAR_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/**
 * Opens a file to read; never waits, as for a FIFO.
 *
 *   fd    to be closed, also on failure, unless it is -1
 *   size  bytes
 *
 * ES_OK; ES_EIO: it cannot be opened, or is not a regular file.
 */
es_status es_regular_open(int *fd, uint64_t *size,
                          const char *path) ES_MUST_USE;

/** n bytes from `offset` on, all of them; the path is for messages. ES_OK or
 *  ES_EIO: an end of the file, too. Any thread. */
es_status es_regular_read(int fd, void *out, size_t n, uint64_t offset,
                          const char *path) ES_MUST_USE;

#endif
