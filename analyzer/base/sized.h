/**
 * Structs of the public header begin with `size_t size`, the struct's size in
 * the version that the program was compiled with. A library with additional
 * members serves older programs, and an older library notices members that it
 * does not know.
 */
#ifndef ES_SIZED_H
#define ES_SIZED_H

#include "analyzer/base/status.h"

/**
 * Copies a caller's struct into the library's version. Members that the
 * caller's version lacks become 0; members that the library's version lacks
 * must be 0.
 *
 *   out   (size) written completely; out->size = size
 *   from  begins with its size
 *   name  name of the type, for messages
 *
 * Returns ES_OK; ES_EARGUMENT (NULL, an invalid size, or a member is set that
 * this library lacks) with `out` unchanged.
 */
es_status es_sized_take(void *out, size_t size, const void *from,
                        const char *name) ES_MUST_USE;

/**
 * Copies as much of the library's struct as fits a caller's struct, whose size
 * becomes the number of bytes written. Memory beyond that is not touched.
 *
 *   out   begins with its size, set by the caller
 *   from  (size)
 *
 * Returns ES_OK; ES_EARGUMENT (NULL or an invalid size) with `out` unchanged.
 */
es_status es_sized_give(void *out, const void *from, size_t size,
                        const char *name) ES_MUST_USE;

#endif
