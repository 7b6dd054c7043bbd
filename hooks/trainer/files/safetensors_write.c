/* Writing safetensors files, float32 alone: header and numbers go to a file
   that appears whole, one tensor in memory at a time. */
#include "hooks/trainer/files/safetensors.h"

#include "analyzer/base/checked.h"
#include "store/outfile.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** Hands `value` over to the object, also if that fails; NULL where there was
 *  no memory for it. */
static es_status add(json_t *object, const char *key, json_t *value,
                     const char *path)
{
    if (json_object_get(object, key)) {
        json_decref(value);
        return es_fail(ES_EARGUMENT, "%s: two entries of the name %s", path,
                       key);
    }
    if (json_object_set_new(object, key, value) != 0)
        return es_fail(ES_EARGUMENT,
                       "%s: %s or its text is not UTF-8, or out of memory",
                       path, key);
    return ES_OK;
}

static es_status add_notes(json_t *header, const es_tensor_note *notes,
                           size_t n_notes, const char *path)
{
    json_t *texts = json_object();
    for (size_t i = 0; i < n_notes; i++) {
        es_status status =
            add(texts, notes[i].key, json_string(notes[i].text), path);
        if (status < 0) {
            json_decref(texts);
            return status;
        }
    }
    return add(header, "__metadata__", texts, path);
}

/** Numbers of a tensor; its extents are checked. */
static es_status count_numbers(size_t *n, const es_tensor_source *tensor,
                               const char *path)
{
    *n = sizeof(float);
    bool fits = tensor->n_dims >= 0 && tensor->n_dims <= ES_TENSOR_MAX_DIMS;
    for (int i = 0; fits && i < tensor->n_dims; i++)
        fits =
            tensor->dims[i] >= 0 && es_size_mul(n, *n, (size_t)tensor->dims[i]);
    if (!fits)
        return es_fail(ES_EARGUMENT, "%s: tensor %s: shape is too large", path,
                       tensor->name);
    *n /= sizeof(float);
    return ES_OK;
}

static json_t *shape_of(const es_tensor_source *tensor)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->n_dims; i++)
        json_array_append_new(shape, json_integer(tensor->dims[i]));
    return shape;
}

static es_status add_tensors(json_t *header, const es_tensor_source *tensors,
                             size_t n_tensors, const char *path)
{
    size_t begin = 0, n = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        es_status status = count_numbers(&n, &tensors[i], path);
        if (status < 0)
            return status;
        size_t end = begin;
        if (!es_size_add(&end, begin, n * sizeof(float)) || end > INT64_MAX)
            return es_fail(ES_EARGUMENT, "%s: too large", path);
        json_t *entry =
            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape",
                      shape_of(&tensors[i]), "data_offsets", (json_int_t)begin,
                      (json_int_t)end);
        status = add(header, tensors[i].name, entry, path);
        if (status < 0)
            return status;
        begin = end;
    }
    return ES_OK;
}

/** The length, then the header with blanks up to a multiple of 8, so that
 *  numbers lie where a program may map them. */
static void write_header(FILE *out, const char *text)
{
    size_t n = strlen(text), padding = (8 - n % 8) % 8;
    uint64_t length = n + padding;
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> 8 * i);
    fwrite(bytes, 1, sizeof bytes, out);
    fwrite(text, 1, n, out);
    fwrite("        ", 1, padding, out);
}

static es_status write_tensors(FILE *out, const es_tensor_source *tensors,
                               size_t n_tensors, const char *path)
{
    size_t n = 0, largest = 0;
    float *values = NULL;
    es_status status = ES_OK;
    /* A full disk is no reason to go on; closing says what it was. */
    for (size_t i = 0; i < n_tensors && !ferror(out); i++) {
        const es_tensor_source *tensor = &tensors[i];
        if ((status = count_numbers(&n, tensor, path)) < 0)
            break;
        if (n >= largest) {
            largest = n + 1;
            if ((status =
                     es_grow(&values, largest, sizeof *values, "a tensor")) < 0)
                break;
        }
        if ((status = tensor->fill(tensor->user, tensor->index, values, n)) < 0)
            break;
        fwrite(values, sizeof *values, n, out);
    }
    free(values);
    return status;
}

static es_status write_file(const char *path, const char *header,
                            const es_tensor_source *tensors, size_t n_tensors)
{
    es_outfile *file;
    FILE *out;
    es_status status = es_outfile_open(&file, &out, path);
    if (status < 0)
        return status;
    write_header(out, header);
    status = write_tensors(out, tensors, n_tensors, path);
    return es_outfile_finish(file, status);
}

es_status es_safetensors_write(const char *path,
                               const es_tensor_source *tensors,
                               size_t n_tensors, const es_tensor_note *notes,
                               size_t n_notes)
{
    json_t *header = json_object();
    char *text = NULL;
    es_status status;
    if ((status = add_notes(header, notes, n_notes, path)) < 0 ||
        (status = add_tensors(header, tensors, n_tensors, path)) < 0)
        goto done;
    text = json_dumps(header, JSON_COMPACT);
    if (!text)
        status = es_fail(ES_ENOMEM, "%s: out of memory for its header", path);
    else if (strlen(text) > ES_SAFETENSORS_HEADER_MAX - 8)
        status = es_fail(ES_EARGUMENT, "%s: header is too large", path);
    else
        status = write_file(path, text, tensors, n_tensors);
done:
    free(text);
    json_decref(header);
    return status;
}
