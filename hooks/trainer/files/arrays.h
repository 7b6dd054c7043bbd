/**
 * Reads arrays, one at a time, and texts by name from a folder of .npy files or
 * from one safetensors file; verify and tests treat both alike. Both are
 * untrusted and checked as npy.h and safetensors.h describe.
 *
 *   folder  array "grads/wte" is PATH/grads/wte.npy, text "case" PATH/case.json
 *   file    array "grads/wte" is the tensor of that name, of type F32, F64 or
 *           I32; text "case" is the metadata entry of that name
 */
#ifndef ES_ARRAYS_H
#define ES_ARRAYS_H

#include "hooks/trainer/files/npy.h"
#include <stdbool.h>

/** An open folder or file; all members are read-only. {0} is closed. */
typedef struct es_arrays {
    const char *path;            /* borrowed from the caller of open */
    struct es_safetensors *file; /* NULL for a folder */
} es_arrays;

#define ES_ARRAY_LABEL_MAX 4608

/**
 * Opens a folder or a file; call es_arrays_close in every case. The files of a
 * folder are only opened when they are read. ES_OK; as es_safetensors_open.
 */
es_status es_arrays_open(es_arrays *out, const char *path) ES_MUST_USE;

/** Closes and zeroes *arrays; NULL and closed ones are fine. */
void es_arrays_close(es_arrays *arrays);

/** Writes the name of an array for messages, whether or not the array exists:
 *  "DIR/grads/wte.npy", "FILE: tensor grads/wte". Returns out, truncated if it
 *  does not fit. */
const char *es_arrays_label(char out[ES_ARRAY_LABEL_MAX],
                            const es_arrays *arrays, const char *name);

/**
 * Reads a text.
 *
 *   out    NUL-terminated, the caller frees it; NULL on failure
 *   label  written: the text's name for messages
 *
 * ES_OK; ES_EIO; ES_EFORMAT (no such metadata, more than 1 MiB); ES_ENOMEM.
 */
es_status es_arrays_text(char **out, char label[ES_ARRAY_LABEL_MAX],
                         const es_arrays *arrays, const char *name) ES_MUST_USE;

bool es_arrays_has(const es_arrays *arrays, const char *name);

/**
 * Reads an array of any supported type, without conversion.
 *
 *   out  written only on ES_OK; the caller frees it with es_npy_free
 *
 * ES_OK; ES_EIO; ES_EFORMAT (no such tensor, another type, damaged);
 * ES_EVERSION; ES_ENOMEM. Messages begin with the label.
 */
es_status es_arrays_read(es_npy *out, const es_arrays *arrays,
                         const char *name) ES_MUST_USE;

/** Reads an array that must have this type and shape (n_dims). Returns as
 *  es_arrays_read, and ES_EFORMAT with both types or both shapes in the
 *  message. */
es_status es_arrays_read_as(es_npy *out, const es_arrays *arrays,
                            const char *name, es_npy_type type, int n_dims,
                            const size_t *dims) ES_MUST_USE;

#endif
