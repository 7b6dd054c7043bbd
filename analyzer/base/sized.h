/**
 * Structs of the public header begin with `size_t size`, their size as the
 * program that uses them was compiled: a library that has grown members serves
 * older programs, and an older library notices what it does not know.
 */
#ifndef ES_SIZED_H
#define ES_SIZED_H

#include "analyzer/base/status.h"

/**
 * Copies what a caller gives into a struct of ours. Members that the caller's
 * does not have are 0; what ours does not have must be 0.
 *
 *   out   (size) written whole; out->size = size
 *   from  begins with its size
 *   name  of the type, for messages
 *
 * ES_OK; ES_EARGUMENT (NULL, no size, or a member that this library lacks): out
 * is unchanged.
 */
es_status es_sized_take(void *out, size_t size, const void *from,
                        const char *name) ES_MUST_USE;

/**
 * Copies as much of ours as there is space for in a caller's struct, whose
 * size becomes the number of bytes written; what follows is left alone.
 *
 *   out   begins with its size, set by the caller
 *   from  (size)
 *
 * ES_OK; ES_EARGUMENT (NULL, no size): out is unchanged.
 */
es_status es_sized_give(void *out, const void *from, size_t size,
                        const char *name) ES_MUST_USE;

#endif
