/**
 * Reads a file by pread in pieces larger than requested, so that further reads
 * mostly need no system call. Nothing is mapped, so a file that is truncated
 * during reading only appears shorter.
 */
#ifndef ES_ESF_PIECES_H
#define ES_ESF_PIECES_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** A buffered file. All members but the descriptor, which is borrowed, start as
 * zero. */
typedef struct es_esf_pieces {
    int fd;
    unsigned char *bytes; /* (size) */
    size_t size, n;       /* n: valid bytes, read from offset `place` */
    int64_t place;
} es_esf_pieces;

/**
 * Returns n bytes at an offset of the file, borrowed until the next call.
 *
 *   n      number of bytes
 *   ahead  minimum bytes to read, if the file has them
 *
 * Returns ES_OK; ES_DONE: the file ends earlier; ES_EIO without a message:
 * errno has the reason; ES_ENOMEM.
 */
es_status es_esf_pieces_get(unsigned char **out, es_esf_pieces *pieces,
                            int64_t place, size_t n, size_t ahead) ES_MUST_USE;

/** Discards the buffered bytes, to read another file or the same file again. */
void es_esf_pieces_restart(es_esf_pieces *pieces, int fd);

/** Frees the buffer; the object can still be used. */
void es_esf_pieces_free(es_esf_pieces *pieces);

#endif
