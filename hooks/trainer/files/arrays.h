/**
 * A place that arrays are read from by name, one at a time, and texts: a
 * folder of .npy files, or one safetensors file. verify and tests read both
 * alike. Both are untrusted: what is read is checked as npy.h and
 * safetensors.h say.
 *
 *   folder  array "grads/wte" is PATH/grads/wte.npy, text "case" PATH/case.json
 *   file    array "grads/wte" is the tensor of that name, of type F32, F64 or
 *           I32; text "case" is the metadata of that name
 */
#ifndef ES_ARRAYS_H
#define ES_ARRAYS_H

#include "hooks/trainer/files/npy.h"
#include <stdbool.h>

/** Zeroed ({0}) it is closed. To be read alone. */
typedef struct es_arrays {
    const char *path;            /* borrowed, as it was given to open */
    struct es_safetensors *file; /* NULL: a folder */
} es_arrays;

#define ES_ARRAY_LABEL_MAX 4608

/**
 * Opens a folder or a file; close it in every case. What a folder holds is
 * found when it is read. ES_OK; as es_safetensors_open.
 */
es_status es_arrays_open(es_arrays *out, const char *path) ES_MUST_USE;

/** Closes and empties it; NULL and closed ones are fine. */
void es_arrays_close(es_arrays *arrays);

/** What messages call an array, which need not be there: "DIR/grads/wte.npy",
 *  "FILE: tensor grads/wte". Returns out; cut if it does not fit. */
const char *es_arrays_label(char out[ES_ARRAY_LABEL_MAX],
                            const es_arrays *arrays, const char *name);

/**
 * Reads a text.
 *
 *   out    NUL-terminated, to be freed; NULL on failure
 *   label  written: what messages call the text
 *
 * ES_OK; ES_EIO; ES_EFORMAT (no such metadata, more than 1 MiB); ES_ENOMEM.
 */
es_status es_arrays_text(char **out, char label[ES_ARRAY_LABEL_MAX],
                         const es_arrays *arrays, const char *name) ES_MUST_USE;

bool es_arrays_has(const es_arrays *arrays, const char *name);

/**
 * Reads an array of any of the types, exactly.
 *
 *   out  written on ES_OK alone; the caller frees it with es_npy_free
 *
 * ES_OK; ES_EIO; ES_EFORMAT (no such tensor, another type, damaged);
 * ES_EVERSION; ES_ENOMEM. Messages begin with the label.
 */
es_status es_arrays_read(es_npy *out, const es_arrays *arrays,
                         const char *name) ES_MUST_USE;

/** Reads an array that has to have this type and shape (n_dims). Otherwise as
 *  es_arrays_read, and ES_EFORMAT saying both types or both shapes. */
es_status es_arrays_read_as(es_npy *out, const es_arrays *arrays,
                            const char *name, es_npy_type type, int n_dims,
                            const size_t *dims) ES_MUST_USE;

#endif
