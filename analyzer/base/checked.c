/* Allocates arrays by count, for all modules. Sizes cannot wrap around. On
   failure the message names the object for which memory was missing. */
#include "analyzer/base/checked.h"
#include <string.h>

static es_status fail_memory(size_t n, size_t size, const char *name)
{
    return es_fail(ES_ENOMEM, "out of memory: %zu x %zu bytes for %s", n, size,
                   name);
}

es_status es_alloc(void *pointer, size_t n, size_t size, const char *name)
{
    void *memory = calloc(n ? n : 1, size ? size : 1);
    memcpy(pointer, &memory, sizeof memory);
    return memory ? ES_OK : fail_memory(n, size, name);
}

es_status es_grow(void *pointer, size_t n, size_t size, const char *name)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    memory = es_resize(memory, n, size);
    if (!memory)
        return fail_memory(n, size, name);
    memcpy(pointer, &memory, sizeof memory);
    return ES_OK;
}

es_status es_copy_text(char **out, const char *text)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? fail_memory(strlen(text) + 1, 1, "a text") : ES_OK;
}
