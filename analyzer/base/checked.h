/**
 * Provides arithmetic on sizes that detects overflow, and allocation by count.
 */
#ifndef ES_CHECKED_H
#define ES_CHECKED_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/**
 * Sets *out = a * b. If the product overflows size_t, returns false and leaves
 * *out unchanged.
 */
static inline bool es_size_mul(size_t *out, size_t a, size_t b)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/**
 * Sets *out = a + b. If the sum overflows size_t, returns false and leaves *out
 * unchanged.
 */
static inline bool es_size_add(size_t *out, size_t a, size_t b)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/**
 * Returns realloc(pointer, n * size), or NULL if the product overflows; the
 * old block then stays valid.
 */
static inline void *es_resize(void *pointer, size_t n, size_t size)
{
    size_t bytes;
    if (!es_size_mul(&bytes, n, size))
        return NULL;
    return realloc(pointer, bytes ? bytes : 1);
}

/**
 * Allocates zeroed memory for n objects of `size` bytes, to be freed with
 * free().
 *
 *   pointer  address of a pointer to any object type; receives the memory, or
 *            NULL on failure
 *   n        number of objects; a block is allocated even for 0 objects, so
 *            that NULL always means failure
 *   name     the object, for the message: "the series"
 *
 * Returns ES_OK; ES_ENOMEM, also if n * size overflows.
 */
es_status es_alloc(void *pointer, size_t n, size_t size,
                   const char *name) ES_MUST_USE;

/**
 * Resizes a block from es_alloc, or NULL, to n objects. Added memory is not
 * zeroed. The parameters are the same as in es_alloc. On failure the old block
 * stays valid.
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_grow(void *pointer, size_t n, size_t size,
                  const char *name) ES_MUST_USE;

/**
 * Copies `text` into memory that the caller owns. If `text` is NULL, *out
 * becomes NULL. Returns ES_OK or ES_ENOMEM.
 */
es_status es_copy_text(char **out, const char *text) ES_MUST_USE;

#endif
