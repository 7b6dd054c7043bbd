/**
 * Variables that release what they hold at the end of their block, like GLib's
 * g_autoptr: AUTO(es_reader) r = es_open_reader(path);
 */
#ifndef ES_TESTS_AUTO_H
#define ES_TESTS_AUTO_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Declares a pointer to a type; AUTO_OF defines how it is released. */
#define AUTO(type) AUTO_BY(type##_auto) type *
#define AUTO_OF(type, release)                                                 \
    static inline void type##_auto(type **thing)                               \
    {                                                                          \
        release(*thing);                                                       \
    }

AUTO_OF(FILE, fclose)

/**
 * Comes before a declaration and calls release(&variable) at the end. The
 * variable may have no other use.
 */
#define AUTO_BY(release) __attribute__((cleanup(release), unused))

/** Comes before the declaration of a pointer, which free then releases. */
#define AUTO_FREE AUTO_BY(es_auto_free)
static inline void es_auto_free(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

#endif
