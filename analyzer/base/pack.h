/**
 * Fields one after the other in memory: greetings, frames and records. The same
 * calls measure, write and read, so that one function describes a record and
 * its two directions cannot disagree. After the first failure the rest does
 * nothing.
 */
#ifndef ES_PACK_H
#define ES_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_pack {
    enum { ES_PACK_MEASURE, ES_PACK_WRITE, ES_PACK_READ } mode;
    unsigned char *data; /* (size); NULL when measuring */
    size_t size, at;
    bool failed; /* it does not fit, or is not what was packed */
} es_pack;

void es_pack_integer(es_pack *pack, int64_t *value);

/** NULL stays NULL. Read strings are borrowed from data. */
void es_pack_string(es_pack *pack, const char **text);

#endif
