/**
 * Reads arrays, one at a time, and strings by name from a folder of .npy files
 * or from one safetensors file, through the same functions; for the verb verify
 * and for tests. Both sources are untrusted and checked as npy.h and
 * safetensors.h describe.
 *
 *   folder  array "grads/wte" is PATH/grads/wte.npy, string "case" is
 *           PATH/case.json
 *   file    array "grads/wte" is the tensor of that name, of type F32, F64 or
 *           I32; string "case" is the metadata entry of that name
 */
#ifndef ES_ARRAYS_H
#define ES_ARRAYS_H

#include "hooks/trainer/files/npy.h"
#include <stdbool.h>

/** An open folder or file; all members are read-only. A zeroed struct is
 *  closed. */
typedef struct es_arrays {
    /* borrowed from the caller of es_arrays_open */
    const char *path;
    struct es_safetensors *file; /* the safetensors file; NULL for a folder */
} es_arrays;

#define ES_ARRAY_LABEL_MAX 4608

/**
 * Opens a folder or a file; call es_arrays_close in every case. The files of a
 * folder are only opened when they are read. Returns ES_OK or the errors of
 * es_safetensors_open.
 */
es_status es_arrays_open(es_arrays *out, const char *path) ES_MUST_USE;

/** Closes and zeroes *arrays. NULL or a closed *arrays is allowed. */
void es_arrays_close(es_arrays *arrays);

/** Writes the name of an array as it appears in messages, such as
 *  "DIR/grads/wte.npy" or "FILE: tensor grads/wte", whether or not the array
 *  exists. Returns out; the name is truncated if it does not fit. */
const char *es_arrays_label(char out[ES_ARRAY_LABEL_MAX],
                            const es_arrays *arrays, const char *name);

/**
 * Reads a string.
 *
 *   out    NUL-terminated, the caller frees it; NULL on failure
 *   label  output: name of the string for messages
 *
 * Returns ES_OK, ES_EIO, ES_ENOMEM, or ES_EFORMAT if there is no such string or
 * it is longer than 1 MiB.
 */
es_status es_arrays_text(char **out, char label[ES_ARRAY_LABEL_MAX],
                         const es_arrays *arrays, const char *name) ES_MUST_USE;

bool es_arrays_has(const es_arrays *arrays, const char *name);

/**
 * Reads an array of any supported type, without conversion.
 *
 *   out  written only on ES_OK; the caller frees it with es_npy_free
 *
 * Returns ES_OK, ES_EIO, ES_EVERSION, ES_ENOMEM, or ES_EFORMAT if there is no
 * such array, its type is not supported, or the file is damaged. Messages begin
 * with the label.
 */
es_status es_arrays_read(es_npy *out, const es_arrays *arrays,
                         const char *name) ES_MUST_USE;

/** Reads an array that must have this type and shape (n_dims). Returns the
 *  statuses of es_arrays_read, and ES_EFORMAT if the type or shape differs; the
 *  message then contains both. */
es_status es_arrays_read_as(es_npy *out, const es_arrays *arrays,
                            const char *name, es_npy_type type, int n_dims,
                            const size_t *dims) ES_MUST_USE;

#endif
