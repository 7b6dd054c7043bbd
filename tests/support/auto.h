/**
 * Defines variables that release their object at the end of their block, like
 * GLib's g_autoptr: AUTO(es_reader) r = es_open_reader(path);
 */
#ifndef ES_TESTS_AUTO_H
#define ES_TESTS_AUTO_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/**
 * Declares a pointer to a type whose object is released automatically. AUTO_OF
 * must have been used to define how to release the type.
 */
#define AUTO(type) AUTO_BY(type##_auto) type *
#define AUTO_OF(type, release)                                                 \
    static inline void type##_auto(type **thing)                               \
    {                                                                          \
        release(*thing);                                                       \
    }

AUTO_OF(FILE, fclose)

/**
 * Attribute of a variable: calls release(&variable) at the end of the block.
 * The compiler does not warn if the variable is otherwise unused.
 */
#define AUTO_BY(release) __attribute__((cleanup(release), unused))

/** Attribute of a pointer: calls free at the end of the block. */
#define AUTO_FREE AUTO_BY(es_auto_free)
static inline void es_auto_free(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

#endif
