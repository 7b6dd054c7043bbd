/* Copies structs across the public interface, between programs and libraries
   of different versions. */
#include "analyzer/base/sized.h"

#include <string.h>

/* Largest plausible size of a struct in bytes; a larger `size` is refused,
   because it is probably uninitialised memory. */
#define MOST 4096

/* Reads the `size` member with memcpy, because a language binding may pass an
 * unaligned address. */
static es_status read_size(size_t *size, const void *from, const char *name)
{
    if (!from)
        return es_fail(ES_EARGUMENT, "%s: pointer is NULL: pass a struct",
                       name);
    memcpy(size, from, sizeof *size);
    if (*size >= sizeof *size && *size <= MOST)
        return ES_OK;
    return es_fail(ES_EARGUMENT, "%s: size is %zu: set it to sizeof (%s)", name,
                   *size, name);
}

es_status es_sized_take(void *out, size_t size, const void *from,
                        const char *name)
{
    size_t given = 0;
    const unsigned char *bytes = from;
    es_status status = read_size(&given, from, name);
    if (status < 0)
        return status;
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return es_fail(ES_EARGUMENT,
                           "%s: a member beyond the %zu bytes that this "
                           "library knows is set: install a newer library",
                           name, size);
    memset(out, 0, size);
    memcpy(out, from, given < size ? given : size);
    memcpy(out, &size, sizeof size);
    return ES_OK;
}

es_status es_sized_give(void *out, const void *from, size_t size,
                        const char *name)
{
    size_t space = 0;
    es_status status = read_size(&space, out, name);
    if (status < 0)
        return status;
    if (size > space)
        size = space;
    memcpy(out, from, size);
    memcpy(out, &size, sizeof size);
    return ES_OK;
}
