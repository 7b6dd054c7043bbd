/** Variables that release what they hold where their block ends, as GLib's
 *  g_autoptr does: AUTO(es_reader) r = es_open_reader(path); */
#ifndef ES_TESTS_AUTO_H
#define ES_TESTS_AUTO_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A pointer to a type of which AUTO_OF has said how it is released. */
#define AUTO(type) AUTO_BY(type##_auto) type *
#define AUTO_OF(type, release)                                                 \
    static inline void type##_auto(type **thing)                               \
    {                                                                          \
        release(*thing);                                                       \
    }

AUTO_OF(FILE, fclose)

/** Before a declaration: release(&variable). It may have no other use. */
#define AUTO_BY(release) __attribute__((cleanup(release), unused))

/** Before the declaration of a pointer: free. */
#define AUTO_FREE AUTO_BY(es_auto_free)
static inline void es_auto_free(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

#endif
