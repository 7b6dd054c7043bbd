/**
 * Reads a file by pread in pieces larger than requested, so that reading on
 * costs no system call. Nothing is mapped: a file that is truncated in the
 * meantime is just short.
 */
#ifndef ES_ESF_PIECES_H
#define ES_ESF_PIECES_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** A buffered file. Initially zero except for the descriptor, which is
 *  borrowed. */
typedef struct es_esf_pieces {
    int fd;
    unsigned char *bytes; /* (size) */
    size_t size, n;       /* n: number of valid bytes, read at `place` */
    int64_t place;
} es_esf_pieces;

/**
 * Returns bytes at a place of the file, borrowed until the next call.
 *
 *   n      number of bytes
 *   ahead  read at least so many, if the file has them
 *
 * ES_OK; ES_DONE: the file ends before; ES_EIO without a message: errno has the
 * reason; ES_ENOMEM.
 */
es_status es_esf_pieces_get(unsigned char **out, es_esf_pieces *pieces,
                            int64_t place, size_t n, size_t ahead) ES_MUST_USE;

/** Discards the buffer, for another file or to read the same file again. */
void es_esf_pieces_restart(es_esf_pieces *pieces, int fd);

/** Frees the buffer; the object can still be used. */
void es_esf_pieces_free(es_esf_pieces *pieces);

#endif
