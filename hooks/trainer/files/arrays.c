/* Reads arrays by name from a folder of .npy files or from one safetensors
 * file, for the verb verify and for tests. In a folder, the file of an array is
 * FOLDER/NAME.npy. A safetensors file is opened once, and its tensors are read
 * one at a time. */
#include "hooks/trainer/files/arrays.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "hooks/trainer/files/safetensors.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(ES_NPY_MAX_DIMS >= ES_TENSOR_MAX_DIMS,
              "an array must have space for a tensor's shape");
static_assert(ES_ARRAY_LABEL_MAX >= PATH_MAX,
              "a label must have space for a path");

es_status es_arrays_open(es_arrays *out, const char *path)
{
    struct stat about;
    *out = (es_arrays){.path = path};
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return ES_OK;
    return es_safetensors_open(&out->file, path);
}

void es_arrays_close(es_arrays *arrays)
{
    if (!arrays)
        return;
    es_safetensors_close(arrays->file);
    *arrays = (es_arrays){0};
}

const char *es_arrays_label(char out[ES_ARRAY_LABEL_MAX],
                            const es_arrays *arrays, const char *name)
{
    snprintf(out, ES_ARRAY_LABEL_MAX,
             arrays->file ? "%s: tensor %s" : "%s/%s.npy", arrays->path, name);
    return out;
}

/** Writes the path FOLDER/NAME followed by the given ending. */
static es_status path_of(char out[PATH_MAX], const char *folder,
                         const char *name, const char *ending)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s%s", folder, name, ending);
    if (n < 0 || n >= PATH_MAX)
        return es_fail(ES_EIO, "%s: the path is too long", folder);
    return ES_OK;
}

/* --- texts ---------------------------------------------------------------- */

static es_status load_text(char **out, const char *path)
{
    const es_infile_limit limit = {1u << 20, "a text", ES_EFORMAT};
    size_t n;
    es_status status = es_infile_load(out, &n, path, &limit);
    if (status < 0 || strlen(*out) == n)
        return status;
    free(*out);
    *out = NULL;
    return es_fail(ES_EFORMAT, "%s: the text contains a NUL byte", path);
}

es_status es_arrays_text(char **out, char label[ES_ARRAY_LABEL_MAX],
                         const es_arrays *arrays, const char *name)
{
    *out = NULL;
    if (!arrays->file) {
        es_status status = path_of(label, arrays->path, name, ".json");
        return status < 0 ? status : load_text(out, label);
    }
    snprintf(label, ES_ARRAY_LABEL_MAX, "%s: metadata %s", arrays->path, name);
    const char *text = es_safetensors_metadata(arrays->file, name);
    return text ? es_copy_text(out, text)
                : es_fail(ES_EFORMAT, "%s: no metadata %s", arrays->path, name);
}

/* --- arrays --------------------------------------------------------------- */

bool es_arrays_has(const es_arrays *arrays, const char *name)
{
    char path[PATH_MAX];
    if (arrays->file)
        return es_safetensors_find(arrays->file, name) != NULL;
    return path_of(path, arrays->path, name, ".npy") == ES_OK &&
           access(path, F_OK) == 0;
}

static bool take_type(es_npy_type *out, es_tensor_type type)
{
    switch (type) {
    case ES_TENSOR_F32:
        *out = ES_NPY_F4;
        return true;
    case ES_TENSOR_F64:
        *out = ES_NPY_F8;
        return true;
    case ES_TENSOR_I32:
        *out = ES_NPY_I4;
        return true;
    default:
        return false;
    }
}

static es_status read_tensor(es_npy *out, const es_arrays *arrays,
                             const char *name)
{
    const es_tensor *tensor = es_safetensors_find(arrays->file, name);
    if (!tensor)
        return es_fail(ES_EFORMAT, "%s: no tensor %s", arrays->path, name);
    es_npy array = {.n_dims = tensor->n_dims, .n = tensor->n};
    if (!take_type(&array.type, tensor->type))
        return es_fail(ES_EFORMAT,
                       "%s: tensor %s: dtype is not F32, F64 or I32",
                       arrays->path, name);
    for (int i = 0; i < tensor->n_dims; i++)
        array.dims[i] = (size_t)tensor->dims[i];
    es_status status = es_alloc(&array.data, tensor->n_bytes, 1, arrays->path);
    if (status == ES_OK)
        status = es_safetensors_read_bytes(arrays->file, tensor, array.data);
    if (status == ES_OK)
        *out = array;
    else
        es_npy_free(&array);
    return status;
}

es_status es_arrays_read(es_npy *out, const es_arrays *arrays, const char *name)
{
    char path[PATH_MAX];
    if (arrays->file)
        return read_tensor(out, arrays, name);
    es_status status = path_of(path, arrays->path, name, ".npy");
    return status < 0 ? status : es_npy_read(out, path);
}

es_status es_arrays_read_as(es_npy *out, const es_arrays *arrays,
                            const char *name, es_npy_type type, int n_dims,
                            const size_t *dims)
{
    char label[ES_ARRAY_LABEL_MAX];
    es_npy array = {0};
    es_status status = es_arrays_read(&array, arrays, name);
    if (status == ES_OK)
        status = es_npy_expect(&array, es_arrays_label(label, arrays, name),
                               type, n_dims, dims);
    if (status == ES_OK)
        *out = array;
    else
        es_npy_free(&array);
    return status;
}
