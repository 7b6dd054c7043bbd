/**
 * Reads a file by pread in pieces that are larger than requested, so that most
 * further reads need no system call. The file is not mapped, so a file that is
 * truncated during reading only appears shorter and causes no SIGBUS.
 */
#ifndef ES_ESF_PIECES_H
#define ES_ESF_PIECES_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/**
 * A buffered file. The descriptor is borrowed; all other members must initially
 * be zero.
 */
typedef struct es_esf_pieces {
    int fd;
    unsigned char *bytes; /* (size) */
    size_t size, n;       /* size of the buffer, and number of bytes in it;
                             these were read from the file at offset `place` */
    int64_t place;
} es_esf_pieces;

/**
 * Returns n bytes at an offset of the file, which are valid until the next
 * call.
 *
 *   n      number of bytes
 *   ahead  minimum number of bytes to read ahead, unless the file ends earlier
 *
 * Returns ES_OK; ES_DONE if the file ends earlier; ES_EIO without a message,
 * with the reason in errno; ES_ENOMEM.
 */
es_status es_esf_pieces_get(unsigned char **out, es_esf_pieces *pieces,
                            int64_t place, size_t n, size_t ahead) ES_MUST_USE;

/**
 * Discards the buffered bytes, so that another file, or new contents of the
 * same file, can be read.
 */
void es_esf_pieces_restart(es_esf_pieces *pieces, int fd);

/** Frees the buffer. `pieces` can still be used afterwards. */
void es_esf_pieces_free(es_esf_pieces *pieces);

#endif
