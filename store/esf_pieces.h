/** Reading a file by pread in pieces larger than what is wanted of it: what is
 *  read on from there costs no system call. Nothing is mapped: a file that is
 *  cut off meanwhile is short, and no more. */
#ifndef ES_ESF_PIECES_H
#define ES_ESF_PIECES_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Zero, but for the descriptor, which is borrowed: nothing is read yet. */
typedef struct es_esf_pieces {
    int fd;
    unsigned char *bytes; /* (size) */
    size_t size, n;       /* n: of them, what the file has at `place` */
    int64_t place;
} es_esf_pieces;

/**
 * Bytes at a place of the file, borrowed until the next call.
 *
 *   n      wanted
 *   ahead  read at least so many, if the file has them
 *
 * ES_OK; ES_DONE: the file ends before; ES_EIO without a message: errno says
 * why; ES_ENOMEM.
 */
es_status es_esf_pieces_get(unsigned char **out, es_esf_pieces *pieces,
                            int64_t place, size_t n, size_t ahead) ES_MUST_USE;

/** Of another file, or of the same one anew. */
void es_esf_pieces_restart(es_esf_pieces *pieces, int fd);

/** Frees what is kept; it may be used on. */
void es_esf_pieces_free(es_esf_pieces *pieces);

#endif
