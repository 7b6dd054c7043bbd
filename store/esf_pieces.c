/* Reads a file in large pieces. Used by the replay of a fragment, which reads
 * the whole file, and by scans, which read one sample after the other. */
#include "store/esf_pieces.h"

#include "analyzer/base/checked.h"

#include <errno.h>
#include <unistd.h>

/** Reads n bytes at offset `place`, or fewer if the file ends earlier. */
static es_status read_piece(es_esf_pieces *pieces, int64_t place, size_t n)
{
    pieces->place = place;
    pieces->n = 0;
    while (pieces->n < n) {
        ssize_t done = pread(pieces->fd, pieces->bytes + pieces->n,
                             n - pieces->n, place + (int64_t)pieces->n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            pieces->n = 0;
            return ES_EIO;
        }
        if (done == 0)
            break;
        pieces->n += (size_t)done;
    }
    return ES_OK;
}

static bool has_bytes(const es_esf_pieces *pieces, int64_t place, size_t n)
{
    return place >= pieces->place &&
           place - pieces->place <= (int64_t)pieces->n &&
           n <= pieces->n - (size_t)(place - pieces->place);
}

es_status es_esf_pieces_get(unsigned char **out, es_esf_pieces *pieces,
                            int64_t place, size_t n, size_t ahead)
{
    const size_t wanted = n > ahead ? n : ahead;
    es_status status;
    if (!has_bytes(pieces, place, n)) {
        if (wanted > pieces->size) {
            pieces->n = 0;
            if ((status = es_grow(&pieces->bytes, wanted, 1, "a fragment")) < 0)
                return status;
            pieces->size = wanted;
        }
        if ((status = read_piece(pieces, place, wanted)) < 0)
            return status;
        if (pieces->n < n)
            return ES_DONE;
    }
    *out = pieces->bytes + (place - pieces->place);
    return ES_OK;
}

void es_esf_pieces_restart(es_esf_pieces *pieces, int fd)
{
    pieces->fd = fd;
    pieces->n = 0;
}

void es_esf_pieces_free(es_esf_pieces *pieces)
{
    free(pieces->bytes);
    pieces->bytes = NULL;
    pieces->size = pieces->n = 0;
}
