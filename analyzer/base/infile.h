/**
 * Opens input files that a user names. No call waits for a FIFO without a
 * writer, and every caller states the number of bytes that it accepts.
 *
 * A file that is read in parts, or more than once, has to be a regular file. A
 * text of settings may also come from a pipe such as the shell's <(...), a
 * terminal, or a FIFO that some process has open for writing; reading waits for
 * their data. A FIFO without a writer would block forever and is refused at
 * once.
 */
#ifndef ES_INFILE_H
#define ES_INFILE_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * Opens a regular file for reading; never waits.
 *
 *   fd    descriptor, to be closed unless it is -1, also on failure
 *   size  size of the file, bytes
 *
 * Returns ES_OK; ES_EIO: the file cannot be opened, or is not a regular file;
 * ES_EFORMAT: the file is a Git LFS pointer.
 */
es_status es_infile_open(int *fd, uint64_t *size, const char *path) ES_MUST_USE;

/**
 * Refuses a Git LFS pointer, the text that git leaves in place of a large file;
 * head[0..n) is the beginning of the file. Returns ES_OK, or ES_EFORMAT if the
 * file is a pointer.
 */
es_status es_infile_refuse_pointer(const void *head, size_t n,
                                   const char *path) ES_MUST_USE;

/** Reads exactly n bytes from `offset` on; `path` is for messages. Returns
 *  ES_OK or ES_EIO, also if the file ends early. Any thread. */
es_status es_infile_read(int fd, void *out, size_t n, uint64_t offset,
                         const char *path) ES_MUST_USE;

/**
 * Opens a file that can be read once from its beginning to its end: a regular
 * file, a pipe, a device, or a FIFO with a writer.
 *
 *   out   stream, to be closed; NULL on failure
 *
 * Returns ES_OK; ES_EIO (no such file, a folder, a FIFO without a writer, ...);
 * ES_ENOMEM.
 */
es_status es_infile_stream(FILE **out, const char *path) ES_MUST_USE;

/** The size of the largest accepted text, and the error for larger texts. */
typedef struct es_infile_limit {
    size_t bytes;
    const char *kind; /* "a rules file" */
    es_status code;   /* status for a larger text */
} es_infile_limit;

/**
 * Loads a whole text.
 *
 *   out   (n) bytes and a NUL, to be freed; NULL on failure
 *
 * Returns ES_OK; the errors of es_infile_stream; ES_EIO if the text cannot be
 * read; limit->code if it is too large.
 */
es_status es_infile_load(char **out, size_t *n, const char *path,
                         const es_infile_limit *limit) ES_MUST_USE;

#endif
