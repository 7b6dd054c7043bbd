/**
 * Reads .npy files: format 1.0 and 2.0, C order, little-endian float32, float64
 * and int32. Other files are refused, and so is a file whose size does not
 * match its header. The documentation of numpy.lib.format and NEP 1 describe
 * the format.
 */
#ifndef ES_NPY_H
#define ES_NPY_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum es_npy_type { ES_NPY_F4, ES_NPY_F8, ES_NPY_I4 } es_npy_type;

#define ES_NPY_MAX_DIMS 8

/** One array. A zeroed struct is empty and may be freed. */
typedef struct es_npy {
    es_npy_type type;
    int n_dims;                   /* number of dimensions; 0 for a scalar,
                                     which has n = 1 */
    size_t dims[ES_NPY_MAX_DIMS]; /* extents, in C order; an extent may be 0 */
    size_t n;                     /* number of elements, the product of dims */
    void *data; /* (n) elements of `type`; never NULL after ES_OK; aligned for
                   all three types */
} es_npy;

/**
 * Reads a whole file.
 *
 *   out   written only on ES_OK; the caller frees it with es_npy_free
 *
 * Returns ES_OK; ES_EIO if the file does not exist, is not a regular file or
 * cannot be read; ES_EFORMAT if the file is not .npy, is cut off, or has extra
 * bytes, another type or order, a malformed header or more than
 * ES_NPY_MAX_DIMS dimensions; ES_EVERSION if the version of the format is
 * above 2.0; ES_ENOMEM. Messages begin with the path. May be called from any
 * thread.
 */
es_status es_npy_read(es_npy *out, const char *path) ES_MUST_USE;

/** Frees the data and zeroes *npy. NULL or an empty *npy is allowed. */
void es_npy_free(es_npy *npy);

/**
 * Checks the type and the shape of an array.
 *
 *   path  source of the array, for the message
 *   dims  n_dims extents
 *
 * Returns ES_OK, or ES_EFORMAT with both types or both shapes in the message.
 */
es_status es_npy_expect(const es_npy *npy, const char *path, es_npy_type type,
                        int n_dims, const size_t *dims) ES_MUST_USE;

/** Returns element i (i < n) as a double, which is exact for all three
 *  types. */
double es_npy_at(const es_npy *npy, size_t i);

#endif
