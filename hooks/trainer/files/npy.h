/**
 * Reads .npy files: format 1.0 and 2.0, C order, little-endian float32,
 * float64 and int32. Everything else is refused, and so is a file whose size
 * is not exactly what its header says.
 * The format: numpy.lib.format, NEP 1.
 */
#ifndef ES_NPY_H
#define ES_NPY_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum es_npy_type { ES_NPY_F4, ES_NPY_F8, ES_NPY_I4 } es_npy_type;

#define ES_NPY_MAX_DIMS 8

/** One array. Zeroed ({0}) it is empty and may be freed. */
typedef struct es_npy {
    es_npy_type type;
    int n_dims;                   /* 0 for a scalar, which has n = 1 */
    size_t dims[ES_NPY_MAX_DIMS]; /* C order; an extent may be 0 */
    size_t n;                     /* elements: the product of dims */
    void *data;                   /* n elements of `type`; never NULL after
                                     ES_OK; aligned for any of the types */
} es_npy;

/**
 * Reads a whole file.
 *
 *   out   written on ES_OK alone; the caller frees it with es_npy_free
 *
 * ES_OK; ES_EIO (no such file, not a regular file, unreadable); ES_EFORMAT
 * (not .npy, cut off, bytes too many, another type or order, malformed
 * header, more than ES_NPY_MAX_DIMS dimensions); ES_EVERSION (format above
 * 2.0); ES_ENOMEM. Messages begin with the path. Any thread.
 */
es_status es_npy_read(es_npy *out, const char *path) ES_MUST_USE;

/** Frees the data and empties *npy; NULL and empty ones are fine. */
void es_npy_free(es_npy *npy);

/**
 * Checks that an array is what its reader needs.
 *
 *   npy, path  what was read, and from where (for the message)
 *   dims       n_dims extents
 *
 * ES_OK, or ES_EFORMAT saying both types or both shapes.
 */
es_status es_npy_expect(const es_npy *npy, const char *path, es_npy_type type,
                        int n_dims, const size_t *dims) ES_MUST_USE;

/** Element i (i < n) of any type as a double; exact for all three. */
double es_npy_at(const es_npy *npy, size_t i);

#endif
