/**
 * Input files that somebody names: nothing here waits for a FIFO that nobody
 * writes, and whoever reads says how many bytes he takes.
 *
 * What is read in parts or more than once has to be a regular file. A text of
 * settings may come from elsewhere, too: a pipe as of the shell's <(...), a
 * terminal, a FIFO that some process has open for writing. That is waited for
 * as anywhere; a FIFO without a writer would be waited for in vain, and is
 * refused at once.
 */
#ifndef ES_INFILE_H
#define ES_INFILE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * Opens a regular file to read; never waits.
 *
 *   fd    to be closed, also on failure, unless it is -1
 *   size  bytes
 *
 * ES_OK; ES_EIO: it cannot be opened, or is not a regular file; ES_EFORMAT: git
 * left a pointer of LFS in its place.
 */
es_status es_infile_open(int *fd, uint64_t *size, const char *path) ES_MUST_USE;

/** Whether a file that begins with head[0..n) is what git leaves in place of a
 *  large one. ES_OK, or ES_EFORMAT: it is. */
es_status es_infile_refuse_pointer(const void *head, size_t n,
                                   const char *path) ES_MUST_USE;

/** n bytes from `offset` on, all of them; the path is for messages. ES_OK or
 *  ES_EIO: an end of the file, too. Any thread. */
es_status es_infile_read(int fd, void *out, size_t n, uint64_t offset,
                         const char *path) ES_MUST_USE;

/**
 * Opens what can be read once from its beginning to its end: a regular file, a
 * pipe, a device, a FIFO with a writer.
 *
 *   out   to be closed; NULL on failure
 *
 * ES_OK; ES_EIO (no such file, a folder, a FIFO that nobody writes, ...);
 * ES_ENOMEM.
 */
es_status es_infile_stream(FILE **out, const char *path) ES_MUST_USE;

/** How large a text may be, and what is said of a larger one. */
typedef struct es_infile_limit {
    size_t bytes;
    const char *kind; /* "a rules file" */
    es_status code;   /* of a larger one */
} es_infile_limit;

/**
 * All of such a file.
 *
 *   out   (n) bytes and a NUL, to be freed; NULL on failure
 *
 * ES_OK; es_infile_stream's; ES_EIO if it cannot be read; limit->code.
 */
es_status es_infile_load(char **out, size_t *n, const char *path,
                         const es_infile_limit *limit) ES_MUST_USE;

#endif
