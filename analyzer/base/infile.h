/**
 * Opens input files that a user names. No call waits for a FIFO without a
 * writer, and every caller limits the number of bytes that it accepts.
 *
 * A file that is read in parts, or more than once, has to be a regular file. A
 * text file with settings may also be a pipe such as the shell's <(...), a
 * terminal, or a FIFO that some process has open for writing; reading waits for
 * data from these. A FIFO without a writer would block forever, so it is
 * refused at once.
 */
#ifndef ES_INFILE_H
#define ES_INFILE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * Opens a regular file for reading. Never waits.
 *
 *   fd    descriptor, which the caller must close unless it is -1, even on
 *         failure
 *   size  size of the file in bytes
 *
 * Returns ES_OK; ES_EIO if the file cannot be opened or is not a regular file;
 * ES_EFORMAT if the file is a Git LFS pointer.
 */
es_status es_infile_open(int *fd, uint64_t *size, const char *path) ES_MUST_USE;

/**
 * Refuses a Git LFS pointer, a small text file that git leaves in place of a
 * large file. head[0..n) is the beginning of the file. Returns ES_OK, or
 * ES_EFORMAT if the file is a pointer.
 */
es_status es_infile_refuse_pointer(const void *head, size_t n,
                                   const char *path) ES_MUST_USE;

/**
 * Reads exactly n bytes at `offset`; `path` is used in messages. Returns ES_OK,
 * or ES_EIO if the bytes cannot be read or the file ends too early. May be
 * called by any thread.
 */
es_status es_infile_read(int fd, void *out, size_t n, uint64_t offset,
                         const char *path) ES_MUST_USE;

/**
 * Opens a file that will be read once from its beginning to its end: a regular
 * file, a pipe, a device, or a FIFO with a writer.
 *
 *   out   stream, which the caller must close; NULL on failure
 *
 * Returns ES_OK; ES_EIO (no such file, a folder, a FIFO without a writer, ...);
 * ES_ENOMEM.
 */
es_status es_infile_stream(FILE **out, const char *path) ES_MUST_USE;

/**
 * The maximum size of a text file, and the status that is returned for a larger
 * file.
 */
typedef struct es_infile_limit {
    size_t bytes;
    const char *kind; /* "a rules file" */
    es_status code;   /* status returned if the file is larger */
} es_infile_limit;

/**
 * Loads a whole text file into memory.
 *
 *   out   n bytes followed by a NUL, which the caller must free; NULL on
 *         failure
 *
 * Returns ES_OK; the errors of es_infile_stream; ES_EIO if the file cannot be
 * read; limit->code if it is too large.
 */
es_status es_infile_load(char **out, size_t *n, const char *path,
                         const es_infile_limit *limit) ES_MUST_USE;

#endif
