/* Reads and writes safetensors files. A reader parses the JSON header with
 * jansson and checks all of it before it reads any data: the tensors must fill
 * the file without gaps or overlaps. Numbers of 16 and 64 bits are converted to
 * float32, or the bytes of a tensor are read unchanged. The writer supports
 * float32 only, makes the file appear complete or not at all, and holds one
 * tensor at a time in memory. */
#include "hooks/trainer/files/safetensors.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/outfile.h"
#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the machine must be little-endian, like the file's numbers");

#define DEPTH_MAX 3 /* maximum nesting: the header, a tensor, its shape */
#define PREFIX 8    /* number of bytes that hold the length of the header */

/* --- one tensor of the header -------------------------------------------- */

/** The data types of the format. An unknown type has size 0: its number of
 *  bytes is not checked, and the rest of the file can still be read. */
static const struct {
    const char *name;
    es_tensor_type type;
    size_t size;
} types[] = {
    {"F32", ES_TENSOR_F32, 4},         {"F16", ES_TENSOR_F16, 2},
    {"BF16", ES_TENSOR_BF16, 2},       {"F64", ES_TENSOR_F64, 8},
    {"I32", ES_TENSOR_I32, 4},         {"I64", ES_TENSOR_I64, 8},
    {"BOOL", ES_TENSOR_OTHER, 1},      {"C64", ES_TENSOR_OTHER, 8},
    {"U8", ES_TENSOR_OTHER, 1},        {"I8", ES_TENSOR_OTHER, 1},
    {"I16", ES_TENSOR_OTHER, 2},       {"U16", ES_TENSOR_OTHER, 2},
    {"U32", ES_TENSOR_OTHER, 4},       {"U64", ES_TENSOR_OTHER, 8},
    {"F8_E4M3", ES_TENSOR_F8_E4M3, 1}, {"F8_E5M2", ES_TENSOR_F8_E5M2, 1},
};

static es_status wrong_tensor(const es_safetensors *file, const char *name,
                              const char *problem)
{
    return es_fail(ES_EFORMAT, "%s: tensor %s: %s", file->path, name, problem);
}

/** Reads a non-negative integer; returns false for any other value. */
static bool take_number(int64_t *out, const json_t *from)
{
    *out = json_integer_value(from);
    return json_is_integer(from) && *out >= 0;
}

static es_status take_type(es_tensor *tensor, size_t *size,
                           const es_safetensors *file, const json_t *from)
{
    const char *name = json_string_value(json_object_get(from, "dtype"));
    if (!name)
        return wrong_tensor(file, tensor->name, "no dtype");
    tensor->type = ES_TENSOR_OTHER;
    *size = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) != 0)
            continue;
        tensor->type = types[i].type;
        *size = types[i].size;
    }
    return ES_OK;
}

static es_status take_shape(es_tensor *tensor, const es_safetensors *file,
                            const json_t *from)
{
    const json_t *shape = json_object_get(from, "shape");
    size_t n = json_array_size(shape);
    if (!json_is_array(shape))
        return wrong_tensor(file, tensor->name, "no shape");
    if (n > ES_TENSOR_MAX_DIMS)
        return es_fail(ES_EFORMAT,
                       "%s: tensor %s has %zu dimensions: expected at most %d",
                       file->path, tensor->name, n, ES_TENSOR_MAX_DIMS);
    tensor->n_dims = (int)n;
    tensor->n = 1;
    for (size_t i = 0; i < n; i++) {
        int64_t *dim = &tensor->dims[i];
        if (!take_number(dim, json_array_get(shape, i)))
            return wrong_tensor(file, tensor->name, "malformed shape");
        if (!es_size_mul(&tensor->n, tensor->n, (size_t)*dim))
            return wrong_tensor(file, tensor->name, "shape is too large");
    }
    return ES_OK;
}

/** Reads data_offsets, which are relative to `start`, the first byte of the
 *  data. */
static es_status take_offsets(es_tensor *tensor, const es_safetensors *file,
                              const json_t *from, uint64_t start)
{
    const json_t *offsets = json_object_get(from, "data_offsets");
    int64_t begin, end;
    if (json_array_size(offsets) != 2 ||
        !take_number(&begin, json_array_get(offsets, 0)) ||
        !take_number(&end, json_array_get(offsets, 1)) || begin > end)
        return wrong_tensor(file, tensor->name, "malformed data_offsets");
    if ((uint64_t)end > file->size - start)
        return es_fail(
            ES_EFORMAT,
            "%s: tensor %s ends %" PRIu64
            " bytes beyond the end of the file: the file was cut short",
            file->path, tensor->name, (uint64_t)end - (file->size - start));
    tensor->offset = start + (uint64_t)begin;
    tensor->n_bytes = (size_t)(end - begin);
    return ES_OK;
}

static es_status take_tensor(es_tensor *tensor, const es_safetensors *file,
                             const char *name, const json_t *from,
                             uint64_t start)
{
    size_t size = 0, bytes;
    *tensor = (es_tensor){.name = name};
    if (!json_is_object(from))
        return wrong_tensor(file, name, "its description is not a JSON object");
    es_status status;
    if ((status = take_type(tensor, &size, file, from)) < 0 ||
        (status = take_shape(tensor, file, from)) < 0 ||
        (status = take_offsets(tensor, file, from, start)) < 0 || size == 0)
        return status;
    if (!es_size_mul(&bytes, tensor->n, size))
        return wrong_tensor(file, name, "shape is too large");
    if (bytes != tensor->n_bytes)
        return es_fail(
            ES_EFORMAT,
            "%s: tensor %s: shape needs %zu bytes, but data_offsets give %zu",
            file->path, name, bytes, tensor->n_bytes);
    return ES_OK;
}

/* --- the header ---------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const es_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->n_bytes != y->n_bytes) /* an empty tensor precedes another tensor
                                     with the same offset */
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const es_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/** Checks that the sorted tensors fill the file from `start` to its end. */
static es_status check_layout(const es_safetensors *file, uint64_t start)
{
    for (size_t i = 0; i < file->n; i++) {
        const es_tensor *tensor = &file->tensors[i];
        if (tensor->offset < start)
            return wrong_tensor(file, tensor->name,
                                "overlaps the previous tensor");
        if (tensor->offset > start)
            return wrong_tensor(
                file, tensor->name,
                "the bytes before this tensor belong to no tensor");
        start += tensor->n_bytes;
    }
    if (start < file->size)
        return es_fail(ES_EFORMAT,
                       "%s: %" PRIu64 " unexpected bytes after the tensors",
                       file->path, file->size - start);
    return ES_OK;
}

static es_status check_metadata(const es_safetensors *file)
{
    json_t *notes = json_object_get(file->header, "__metadata__"), *text;
    const char *key;
    if (notes && !json_is_object(notes))
        return es_fail(ES_EFORMAT, "%s: __metadata__ is not an object",
                       file->path);
    json_object_foreach(notes, key, text)
    {
        if (!json_is_string(text))
            return es_fail(ES_EFORMAT, "%s: __metadata__: %s is not a string",
                           file->path, key);
    }
    return ES_OK;
}

es_status es_safetensors_sort(es_safetensors *file)
{
    es_status status = es_alloc(&file->by_name, file->n, sizeof *file->by_name,
                                "a header's tensors");
    if (status < 0 || file->n == 0)
        return status;
    for (size_t i = 0; i < file->n; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->n, sizeof *file->by_name, by_name);
    return ES_OK;
}

static es_status take_tensors(es_safetensors *file, uint64_t start)
{
    size_t n = json_object_size(file->header);
    const char *name;
    json_t *from;
    es_status status;
    if ((status = es_alloc(&file->tensors, n, sizeof *file->tensors,
                           "a header's tensors")) < 0)
        return status;
    json_object_foreach(file->header, name, from)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if ((status = take_tensor(&file->tensors[file->n], file, name, from,
                                  start)) < 0)
            return status;
        file->n++;
    }
    if (file->n > 0)
        qsort(file->tensors, file->n, sizeof *file->tensors, by_offset);
    status = es_safetensors_sort(file);
    return status < 0 ? status : check_layout(file, start);
}

/** Returns true if brackets are nested deeper than the format allows; such a
 *  header is refused before it is parsed. */
static bool is_too_deep(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!quoted && (text[i] == '}' || text[i] == ']'))
            depth--;
        if (depth > DEPTH_MAX)
            return true;
    }
    return false;
}

static es_status parse_header(es_safetensors *file, const char *text, size_t n)
{
    json_error_t error;
    if (n == 0 || text[0] != '{')
        return es_fail(ES_EFORMAT, "%s: not a safetensors file", file->path);
    if (is_too_deep(text, n))
        return es_fail(ES_EFORMAT, "%s: header is nested too deeply",
                       file->path);
    file->header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return es_fail(ES_EFORMAT, "%s: malformed header: %s", file->path,
                       error.text);
    es_status status = check_metadata(file);
    return status == ES_OK ? take_tensors(file, PREFIX + n) : status;
}

static es_status read_header_size(const es_safetensors *file, size_t *out)
{
    uint64_t n = 0;
    if (file->size < PREFIX)
        return es_fail(ES_EFORMAT, "%s: not a safetensors file", file->path);
    es_status status = es_infile_read(file->fd, &n, sizeof n, 0, file->path);
    if (status < 0)
        return status;
    if (n > ES_SAFETENSORS_HEADER_MAX)
        return es_fail(
            ES_EFORMAT,
            "%s: not a safetensors file, or its header is larger than 16 MiB",
            file->path);
    if (n > file->size - PREFIX)
        return es_fail(
            ES_EFORMAT,
            "%s: not a safetensors file, or cut short within its header",
            file->path);
    *out = (size_t)n;
    return ES_OK;
}

static es_status read_header(es_safetensors *file)
{
    size_t n = 0;
    char *text = NULL;
    es_status status;
    if ((status = read_header_size(file, &n)) == ES_OK &&
        (status = es_alloc(&text, n, 1, "a header")) == ES_OK &&
        (status = es_infile_read(file->fd, text, n, PREFIX, file->path)) ==
            ES_OK)
        status = parse_header(file, text, n);
    free(text);
    return status;
}

/* --- the file ------------------------------------------------------------ */

es_status es_safetensors_open(es_safetensors **out, const char *path)
{
    es_safetensors *file;
    es_status status = es_alloc(out, 1, sizeof **out, "a safetensors file");
    if (status < 0)
        return status;
    file = *out;
    file->fd = -1;
    if ((status = es_copy_text(&file->path, path)) < 0 ||
        (status = es_infile_open(&file->fd, &file->size, path)) < 0 ||
        (status = read_header(file)) < 0) {
        es_safetensors_close(file);
        *out = NULL;
    }
    return status;
}

void es_safetensors_close(es_safetensors *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    for (size_t i = 0; i < file->n_shards; i++)
        es_safetensors_close(file->shards[i]);
    free(file->shards);
    free(file->by_name);
    free(file->tensors);
    json_decref(file->header);
    free(file->path);
    free(file);
}

const es_tensor *es_safetensors_find(const es_safetensors *file,
                                     const char *name)
{
    const es_tensor wanted = {.name = name}, *key = &wanted;
    const es_tensor **found = NULL;
    if (file->n > 0)
        found = bsearch(&key, file->by_name, file->n, sizeof *file->by_name,
                        by_name);
    return found ? *found : NULL;
}

const char *es_safetensors_metadata(const es_safetensors *file, const char *key)
{
    const json_t *notes = json_object_get(file->header, "__metadata__");
    return json_string_value(json_object_get(notes, key));
}

/* --- numbers ------------------------------------------------------------- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Converts IEEE 754 binary16; every value is exact in float32. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ffu;
    if (exponent == 31) /* infinity, or NaN with its payload */
        return float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0)
        return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float value = (float)fraction * 0x1p-24f;
    return sign ? -value : value;
}

/** Converts n numbers of 2 or 8 bytes to float32. */
static void widen_numbers(float *out, const void *in, size_t n,
                          es_tensor_type type)
{
    const uint16_t *narrow = in;
    const double *wide = in;
    for (size_t i = 0; i < n; i++) {
        if (type == ES_TENSOR_F16)
            out[i] = float_of_half(narrow[i]);
        else if (type == ES_TENSOR_BF16)
            out[i] = float_of_bits((uint32_t)narrow[i] << 16);
        else
            out[i] = (float)wide[i];
    }
}

es_status es_safetensors_check_type(const es_tensor *tensor, const char *path)
{
    if (tensor->type == ES_TENSOR_F8_E4M3 || tensor->type == ES_TENSOR_F8_E5M2)
        return es_fail(
            ES_EFORMAT,
            "%s: tensor %s has the type %s, which is not supported: load the "
            "model with dtype=torch.bfloat16 and save it again",
            path, tensor->name,
            tensor->type == ES_TENSOR_F8_E4M3 ? "F8_E4M3" : "F8_E5M2");
    if (tensor->type > ES_TENSOR_F64)
        return es_fail(ES_EFORMAT,
                       "%s: tensor %s does not hold floating-point numbers",
                       path, tensor->name);
    return ES_OK;
}

es_status es_safetensors_read(const es_safetensors *file,
                              const es_tensor *tensor, float *out, size_t first,
                              size_t n)
{
    static const size_t sizes[] = {[ES_TENSOR_F16] = 2,
                                   [ES_TENSOR_BF16] = 2,
                                   [ES_TENSOR_F32] = 4,
                                   [ES_TENSOR_F64] = 8};
    es_status status = es_safetensors_check_type(tensor, file->path);
    if (status < 0)
        return status;
    if (first > tensor->n || n > tensor->n - first)
        return es_fail(ES_EARGUMENT,
                       "%s: tensor %s has %zu numbers: expected %zu",
                       file->path, tensor->name, tensor->n, first + n);
    if (tensor->shard)
        file = tensor->shard;
    size_t size = sizes[tensor->type];
    uint64_t offset = tensor->offset + first * size;
    if (tensor->type == ES_TENSOR_F32)
        return es_infile_read(file->fd, out, n * size, offset, file->path);
    double block[512]; /* aligned for all types */
    for (size_t done = 0, some; done < n; done += some) {
        some = sizeof block / size;
        if (some > n - done)
            some = n - done;
        status = es_infile_read(file->fd, block, some * size,
                                offset + done * size, file->path);
        if (status < 0)
            return status;
        widen_numbers(out + done, block, some, tensor->type);
    }
    return ES_OK;
}

es_status es_safetensors_read_bytes(const es_safetensors *file,
                                    const es_tensor *tensor, void *out)
{
    if (tensor->shard)
        file = tensor->shard;
    return es_infile_read(file->fd, out, tensor->n_bytes, tensor->offset,
                          file->path);
}

/* --- writing ------------------------------------------------------------- */

/** Adds `value` to the object and takes ownership of it, even if the call
 *  fails. `value` is NULL if memory ran out. */
static es_status add_member(json_t *object, const char *key, json_t *value,
                            const char *path)
{
    if (json_object_get(object, key)) {
        json_decref(value);
        return es_fail(ES_EARGUMENT, "%s: two entries have the name %s", path,
                       key);
    }
    if (json_object_set_new(object, key, value) != 0)
        return es_fail(ES_EARGUMENT,
                       "%s: entry %s: the name or the value is not UTF-8, or "
                       "memory ran out",
                       path, key);
    return ES_OK;
}

static es_status add_notes(json_t *header, const es_tensor_note *notes,
                           size_t n_notes, const char *path)
{
    json_t *texts = json_object();
    for (size_t i = 0; i < n_notes; i++) {
        es_status status =
            add_member(texts, notes[i].key, json_string(notes[i].text), path);
        if (status < 0) {
            json_decref(texts);
            return status;
        }
    }
    return add_member(header, "__metadata__", texts, path);
}

/** Computes the number of elements of a tensor and checks its shape. */
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
            return es_fail(ES_EARGUMENT, "%s: file is too large", path);
        json_t *shape = json_array();
        for (int k = 0; k < tensors[i].n_dims; k++)
            json_array_append_new(shape, json_integer(tensors[i].dims[k]));
        json_t *entry =
            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape,
                      "data_offsets", (json_int_t)begin, (json_int_t)end);
        if ((status = add_member(header, tensors[i].name, entry, path)) < 0)
            return status;
        begin = end;
    }
    return ES_OK;
}

static es_status write_tensors(FILE *out, const es_tensor_source *tensors,
                               size_t n_tensors, const char *path)
{
    size_t n = 0, largest = 0;
    float *values = NULL;
    es_status status = ES_OK;
    /* After a write error, such as a full disk, skip the rest; es_outfile_close
     * reports the error. */
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
    /* The header is padded with blanks to a multiple of 8 bytes, so that the
     * numbers are aligned if a program maps the file into memory. */
    const size_t n = strlen(header);
    const uint64_t length = (n + 7) / 8 * 8;
    fwrite(&length, 1, sizeof length, out);
    fprintf(out, "%-*s", (int)length, header);
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
