/**
 * Writes or reads fields one after the other in memory, for the greetings,
 * frames and records of the recorder. The same calls measure, write and read,
 * so that one function describes a record and writer and reader cannot
 * disagree. After the first failure all further calls do nothing.
 */
#ifndef ES_PACK_H
#define ES_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_pack {
    enum { ES_PACK_MEASURE, ES_PACK_WRITE, ES_PACK_READ } mode;
    unsigned char *data; /* `size` bytes; NULL in the mode MEASURE */
    size_t size, at;
    bool failed; /* true if the data does not fit or is malformed */
} es_pack;

void es_pack_integer(es_pack *pack, int64_t *value);

/** Packs a string or NULL. When reading, the string is borrowed from `data`. */
void es_pack_string(es_pack *pack, const char **text);

#endif
