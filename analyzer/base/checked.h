/** Sizes that cannot wrap around, and allocation by count. */
#ifndef ES_CHECKED_H
#define ES_CHECKED_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/** *out = a * b; false, and *out untouched, if that overflows size_t. */
static inline bool es_size_mul(size_t *out, size_t a, size_t b)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/** *out = a + b; false, and *out untouched, if that overflows size_t. */
static inline bool es_size_add(size_t *out, size_t a, size_t b)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/**
 * realloc(pointer, n * size) that returns NULL when the product overflows;
 * the old block is then still valid.
 */
static inline void *es_resize(void *pointer, size_t n, size_t size)
{
    size_t bytes;
    if (!es_size_mul(&bytes, n, size))
        return NULL;
    return realloc(pointer, bytes ? bytes : 1);
}

/**
 * Zeroed memory for n objects of `size` bytes, freed with free().
 *
 *   pointer  address of a pointer to any object type; receives the memory, or
 *            NULL on failure
 *   n        0 gives a block too, so that NULL always means failure
 *   name     what it is for, for the message: "the series"
 *
 * ES_OK; ES_ENOMEM, also where n * size overflows.
 */
es_status es_alloc(void *pointer, size_t n, size_t size,
                   const char *name) ES_MUST_USE;

/**
 * Makes a block that es_alloc or NULL began hold n objects; what is new is not
 * zeroed. Parameters as es_alloc's. On failure the old block stays valid.
 *
 * ES_OK; ES_ENOMEM.
 */
es_status es_grow(void *pointer, size_t n, size_t size,
                  const char *name) ES_MUST_USE;

/** A copy of `text`, owned by the caller; NULL for NULL. ES_OK; ES_ENOMEM. */
es_status es_copy_text(char **out, const char *text) ES_MUST_USE;

#endif
