/* Reads numpy's .npy files, for arrays.c and tests. The header is a dictionary
 * literal of Python; the parser accepts each of the three keys that numpy
 * writes exactly once. The size of the file is compared with the shape before
 * memory is allocated. */
#include "hooks/trainer/files/npy.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the machine must be little-endian, like the file's numbers");

/* Maximum size of the header in bytes. Headers of plain types have 64 to 128
 * bytes; numpy itself refuses more than 10000. */
#define HEADER_MAX 16384
#define SHAPE_TEXT_MAX 256

static const struct {
    const char *descr, *name;
    size_t size;
} types[] = {[ES_NPY_F4] = {"<f4", "float32", 4},
             [ES_NPY_F8] = {"<f8", "float64", 8},
             [ES_NPY_I4] = {"<i4", "int32", 4}};

#define N_TYPES (sizeof types / sizeof types[0])

/** The unread part of the header. The header is a dictionary literal of Python,
 *  followed by blanks. */
typedef struct text_cursor {
    const char *at, *end;
} text_cursor;

static void skip_blanks(text_cursor *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n'))
        text->at++;
}

/** Skips blanks. If `c` is the next character, consumes it and returns true. */
static bool take_character(text_cursor *text, char c)
{
    skip_blanks(text);
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static bool take_word(text_cursor *text, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(text);
    if ((size_t)(text->end - text->at) < n || memcmp(text->at, word, n) != 0)
        return false;
    text->at += n;
    return true;
}

/** Reads a quoted string without escapes into out (size), NUL-terminated. */
static bool take_string(text_cursor *text, char *out, size_t size)
{
    const char quote = take_character(text, '\'') ? '\'' : '"';
    if (quote == '"' && !take_character(text, '"'))
        return false;
    const char *start = text->at;
    const char *end = memchr(start, quote, (size_t)(text->end - start));
    if (!end || (size_t)(end - start) >= size)
        return false;
    memcpy(out, start, (size_t)(end - start));
    out[end - start] = '\0';
    text->at = end + 1;
    return true;
}

static bool take_extent(text_cursor *text, size_t *out)
{
    size_t value = 0;
    skip_blanks(text);
    const char *start = text->at;
    for (; text->at < text->end; text->at++) {
        if (*text->at < '0' || *text->at > '9')
            break;
        size_t digit = (size_t)(*text->at - '0');
        if (!es_size_mul(&value, value, 10) ||
            !es_size_add(&value, value, digit))
            return false;
    }
    *out = value;
    return text->at > start;
}

/** Reads a tuple of extents: "()", "(3,)", "(2, 3)", "(2, 3,)". */
static bool take_shape(text_cursor *text, es_npy *out)
{
    if (!take_character(text, '('))
        return false;
    bool comma = true;
    while (!take_character(text, ')')) {
        if (!comma || out->n_dims == ES_NPY_MAX_DIMS ||
            !take_extent(text, &out->dims[out->n_dims]))
            return false;
        out->n_dims++;
        comma = take_character(text, ',');
    }
    return out->n_dims != 1 || comma;
}

static es_status malformed(const char *path)
{
    return es_fail(ES_EFORMAT, "%s: malformed .npy header", path);
}

static es_status take_type(text_cursor *text, es_npy *out, const char *path)
{
    char descr[32];
    if (!take_string(text, descr, sizeof descr))
        return es_fail(ES_EFORMAT, "%s: element type is not a number type",
                       path);
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(descr, types[i].descr) == 0) {
            out->type = (es_npy_type)i;
            return ES_OK;
        }
    return es_fail(ES_EFORMAT, "%s: element type %s: expected <f4, <f8 or <i4",
                   path, descr);
}

/** Bits for the keys of the header, each of which must appear once. */
enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };

static es_status take_entry(text_cursor *text, es_npy *out, int *seen,
                            const char *path)
{
    char key[32];
    if (!take_string(text, key, sizeof key) || !take_character(text, ':'))
        return malformed(path);
    const int this = strcmp(key, "descr") == 0           ? DESCR
                     : strcmp(key, "fortran_order") == 0 ? ORDER
                     : strcmp(key, "shape") == 0         ? SHAPE
                                                         : 0;
    if (!this || (*seen & this))
        return malformed(path);
    *seen |= this;
    if (this == DESCR)
        return take_type(text, out, path);
    if (this == ORDER && take_word(text, "True"))
        return es_fail(ES_EFORMAT,
                       "%s: array is in Fortran order: save "
                       "numpy.ascontiguousarray(array) instead",
                       path);
    return (this == ORDER ? take_word(text, "False") : take_shape(text, out))
               ? ES_OK
               : malformed(path);
}

static es_status parse_header(es_npy *out, text_cursor text, const char *path)
{
    int seen = 0;
    if (!take_character(&text, '{'))
        return malformed(path);
    bool comma = true;
    while (!take_character(&text, '}')) {
        if (!comma)
            return malformed(path);
        es_status status = take_entry(&text, out, &seen, path);
        if (status < 0)
            return status;
        comma = take_character(&text, ',');
    }
    skip_blanks(&text);
    return text.at != text.end || seen != ALL ? malformed(path) : ES_OK;
}

/** An open file of known size; reads beyond this size fail. */
typedef struct source {
    const char *path;
    int fd;
    uint64_t size;
    size_t left; /* number of bytes not read yet */
} source;

static es_status read_exactly(source *from, void *out, size_t n)
{
    if (n > from->left)
        return es_fail(ES_EFORMAT, "%s: cut off; %zu bytes are missing",
                       from->path, n - from->left);
    uint64_t offset = from->size - from->left;
    from->left -= n;
    return es_infile_read(from->fd, out, n, offset, from->path);
}

static es_status read_header(source *from, es_npy *out)
{
    char text[HEADER_MAX];
    unsigned char start[8], size[4] = {0};
    if (from->left < sizeof start)
        return es_fail(ES_EFORMAT, "%s: not a .npy file", from->path);
    es_status status = read_exactly(from, start, sizeof start);
    if (status < 0)
        return status;
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return es_fail(ES_EFORMAT, "%s: not a .npy file", from->path);
    if (start[6] < 1 || start[6] > 2 || start[7] != 0)
        return es_fail(ES_EVERSION,
                       "%s: .npy format %d.%d: expected 1.0 or 2.0", from->path,
                       start[6], start[7]);
    if ((status = read_exactly(from, size, start[6] == 1 ? 2 : 4)) < 0)
        return status;
    size_t n = (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 |
               (size_t)size[3] << 24;
    if (n > sizeof text)
        return es_fail(ES_EFORMAT, "%s: .npy header of %zu bytes is too long",
                       from->path, n);
    if ((status = read_exactly(from, text, n)) < 0)
        return status;
    return parse_header(out, (text_cursor){text, text + n}, from->path);
}

static es_status read_data(source *from, es_npy *out)
{
    size_t bytes = types[out->type].size;
    out->n = 1;
    bool fits = true;
    for (int i = 0; i < out->n_dims; i++)
        fits = fits && es_size_mul(&out->n, out->n, out->dims[i]);
    if (!fits || !es_size_mul(&bytes, bytes, out->n))
        return es_fail(ES_EFORMAT, "%s: shape is too large", from->path);
    if (bytes < from->left)
        return es_fail(ES_EFORMAT, "%s: %zu unexpected bytes after the array",
                       from->path, from->left - bytes);
    if (bytes > from->left) /* a wrong shape must not cause a huge allocation */
        return es_fail(ES_EFORMAT, "%s: cut off; %zu bytes are missing",
                       from->path, bytes - from->left);
    es_status status = es_alloc(&out->data, bytes, 1, from->path);
    return status < 0 ? status : read_exactly(from, out->data, bytes);
}

es_status es_npy_read(es_npy *out, const char *path)
{
    source from = {.path = path, .fd = -1};
    es_npy array = {0};
    es_status status = es_infile_open(&from.fd, &from.size, path);
    from.left = (size_t)from.size;
    if (status < 0 || (status = read_header(&from, &array)) < 0 ||
        (status = read_data(&from, &array)) < 0)
        es_npy_free(&array);
    else
        *out = array;
    if (from.fd >= 0)
        close(from.fd);
    return status;
}

void es_npy_free(es_npy *npy)
{
    if (!npy)
        return;
    free(npy->data);
    *npy = (es_npy){0};
}

/** Prints a shape for messages: "(2, 3)". */
static const char *print_shape(char text[SHAPE_TEXT_MAX], int n_dims,
                               const size_t *dims)
{
    es_text to = es_text_begin(text, SHAPE_TEXT_MAX);
    es_text_append(&to, "(");
    for (int i = 0; i < n_dims; i++)
        es_text_append(&to, "%s%zu", i ? ", " : "", dims[i]);
    es_text_append(&to, ")");
    return text;
}

es_status es_npy_expect(const es_npy *npy, const char *path, es_npy_type type,
                        int n_dims, const size_t *dims)
{
    char found[SHAPE_TEXT_MAX], wanted[SHAPE_TEXT_MAX];
    if (npy->type != type)
        return es_fail(ES_EFORMAT, "%s: element type %s, expected %s", path,
                       types[npy->type].name, types[type].name);
    bool same = npy->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = npy->dims[i] == dims[i];
    if (!same)
        return es_fail(ES_EFORMAT, "%s: shape %s, expected %s", path,
                       print_shape(found, npy->n_dims, npy->dims),
                       print_shape(wanted, n_dims, dims));
    return ES_OK;
}

double es_npy_at(const es_npy *npy, size_t i)
{
    assert(i < npy->n);
    if (npy->type == ES_NPY_F4)
        return (double)((const float *)npy->data)[i];
    if (npy->type == ES_NPY_F8)
        return ((const double *)npy->data)[i];
    return ((const int32_t *)npy->data)[i];
}
