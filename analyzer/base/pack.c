/* Converts records to and from bytes. The same function measures, writes and
   reads a record, so that writer and reader cannot differ. */
#include "analyzer/base/pack.h"

#include <string.h>

/* Advances by n bytes and returns the address of these bytes; returns NULL when
   measuring. If fewer than n bytes remain, sets `failed` and returns NULL. */
static unsigned char *take_bytes(es_pack *pack, size_t n)
{
    if (pack->failed)
        return NULL;
    if (pack->mode == ES_PACK_MEASURE) {
        pack->at += n;
        return NULL;
    }
    if (n > pack->size - pack->at) {
        pack->failed = true;
        return NULL;
    }
    unsigned char *place = pack->data + pack->at;
    pack->at += n;
    return place;
}

void es_pack_integer(es_pack *pack, int64_t *value)
{
    if (pack->mode == ES_PACK_READ)
        *value = 0;
    unsigned char *place = take_bytes(pack, sizeof *value);
    if (!place)
        return;
    if (pack->mode == ES_PACK_WRITE)
        memcpy(place, value, sizeof *value);
    else
        memcpy(value, place, sizeof *value);
}

static void read_string(es_pack *pack, const char **text)
{
    int64_t length;
    *text = NULL;
    es_pack_integer(pack, &length);
    if (pack->failed || length == -1)
        return;
    if (length < 0 || (uint64_t)length >= pack->size) {
        pack->failed = true;
        return;
    }
    const char *place = (const char *)take_bytes(pack, (size_t)length + 1);
    if (place && (place[length] != '\0' || strlen(place) != (size_t)length))
        pack->failed = true;
    else
        *text = place;
}

void es_pack_string(es_pack *pack, const char **text)
{
    if (pack->mode == ES_PACK_READ) {
        read_string(pack, text);
        return;
    }
    int64_t length = *text ? (int64_t)strlen(*text) : -1;
    es_pack_integer(pack, &length);
    unsigned char *place = *text ? take_bytes(pack, (size_t)length + 1) : NULL;
    if (place)
        memcpy(place, *text, (size_t)length + 1);
}
