/**
 * Structs of the public header begin with `size_t size`, the struct's size in
 * the version that the program was compiled with. With this size, a newer
 * library with more members accepts the structs of older programs, and an older
 * library detects members that it does not know.
 */
#ifndef ES_SIZED_H
#define ES_SIZED_H

#include "analyzer/base/status.h"

/**
 * Copies a caller's struct into the library's version of the struct. Members
 * that the caller's version lacks become 0; members that the library's version
 * lacks must be 0.
 *
 *   out   the library's struct of `size` bytes, written completely; out->size
 *         becomes `size`
 *   from  the caller's struct, which begins with its size
 *   name  name of the type, for messages
 *
 * Returns ES_OK, or ES_EARGUMENT if `from` is NULL, its size is invalid, or a
 * member that this library lacks is not 0. After an error, `out` is unchanged.
 */
es_status es_sized_take(void *out, size_t size, const void *from,
                        const char *name) ES_MUST_USE;

/**
 * Copies as much of the library's struct as fits into a caller's struct, and
 * sets the caller's `size` to the number of bytes written. Memory beyond these
 * bytes is not touched.
 *
 *   out   the caller's struct, which begins with its size, set by the caller
 *   from  the library's struct of `size` bytes
 *
 * Returns ES_OK, or ES_EARGUMENT if `out` is NULL or its size is invalid. After
 * an error, `out` is unchanged.
 */
es_status es_sized_give(void *out, const void *from, size_t size,
                        const char *name) ES_MUST_USE;

#endif
