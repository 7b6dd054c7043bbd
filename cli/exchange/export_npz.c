/* Writes a run as a numpy NPZ file: a zip archive of arrays (PKWARE
   APPNOTE.TXT; numpy.lib.format, version 1.0). Members are stored uncompressed
   and followed by a data descriptor, so the output may be a pipe. Sizes stay
   below 4 GiB, so Zip64 is not needed. */
#include "cli/exchange/export_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "analyzer/base/value.h"
#include "cli/exchange/about.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 3 * ES_MAX_NAME + 32, UTF8_AND_DESCRIPTOR = 0x808 };

#define MEMBER_BYTES UINT64_C(0xfffffffe)

/* Entry of a member in the zip directory at the end of the archive. */
typedef struct member {
    char name[NAME_BYTES];
    uint32_t crc, size, offset;
} member;

typedef struct archive {
    FILE *out;
    uint64_t offset;
    member *members; /* n finished members, followed by the member that is being
                        written */
    size_t n;
} archive;

/* Computes the CRC-32 of zip, four bits at a time. */
static uint32_t crc_32(uint32_t crc, const void *bytes, size_t n)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc = table[(crc ^ at[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ (uint32_t)at[i] >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

static void put_raw(archive *a, const void *bytes, size_t n)
{
    fwrite(bytes, 1, n, a->out);
    a->offset += n;
}

/* Writes numbers in little-endian order; each digit of `sizes` is the size of
   one number in bytes, 2 or 4. */
static void put_numbers(archive *a, const char *sizes, const uint32_t *numbers)
{
    for (size_t i = 0; sizes[i]; i++) {
        unsigned char bytes[4];
        for (int k = 0; k < sizes[i] - '0'; k++)
            bytes[k] = (unsigned char)(numbers[i] >> 8 * k);
        put_raw(a, bytes, (size_t)(sizes[i] - '0'));
    }
}

static es_status begin_member(archive *a, const char *name)
{
    es_status status =
        es_grow(&a->members, a->n + 1, sizeof *a->members, "a zip archive");
    if (status < 0)
        return status;
    if (a->offset > MEMBER_BYTES || a->n == 0xfffe)
        return es_fail(ES_EUSAGE,
                       "NPZ is limited to 4 GiB: choose series with --series");
    member *m = &a->members[a->n++];
    *m = (member){.offset = (uint32_t)a->offset};
    snprintf(m->name, sizeof m->name, "%s", name);
    uint32_t head[] = {0x04034b50, 20, UTF8_AND_DESCRIPTOR,       0, 0, 0x21, 0,
                       0,          0,  (uint32_t)strlen(m->name), 0};
    put_numbers(a, "42222244422", head);
    put_raw(a, m->name, strlen(m->name));
    return ES_OK;
}

static void put_data(archive *a, const void *bytes, size_t n)
{
    member *m = &a->members[a->n - 1];
    m->crc = crc_32(m->crc, bytes, n);
    m->size += (uint32_t)n;
    put_raw(a, bytes, n);
}

static void end_member(archive *a)
{
    const member *m = &a->members[a->n - 1];
    const uint32_t descriptor[] = {0x08074b50, m->crc, m->size, m->size};
    put_numbers(a, "4444", descriptor);
}

static es_status end_archive(archive *a)
{
    uint64_t start = a->offset;
    for (size_t i = 0; i < a->n; i++) {
        const member *m = &a->members[i];
        const uint32_t entry[] = {0x02014b50,
                                  20,
                                  20,
                                  UTF8_AND_DESCRIPTOR,
                                  0,
                                  0,
                                  0x21,
                                  m->crc,
                                  m->size,
                                  m->size,
                                  (uint32_t)strlen(m->name),
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  m->offset};
        put_numbers(a, "42222224442222244", entry);
        put_raw(a, m->name, strlen(m->name));
    }
    if (a->offset > MEMBER_BYTES)
        return es_fail(ES_EUSAGE,
                       "NPZ is limited to 4 GiB: choose series with --series");
    const uint32_t end[] = {0x06054b50,
                            0,
                            0,
                            (uint32_t)a->n,
                            (uint32_t)a->n,
                            (uint32_t)(a->offset - start),
                            (uint32_t)start,
                            0};
    put_numbers(a, "42222442", end);
    return ES_OK;
}

/* --- arrays ----------------------------------------------------------------*/

/* Prints `before` and the name of the archive's member for a series, such as
   eval/loss.npy. If the series' name is not valid UTF-8, its bytes above 127
   are written as %XX. */
static void name_of(char *out, const es_series *series, const char *before)
{
    bool utf8 = es_text_is_utf8(series->name, strlen(series->name));
    bool eval = series->phase == ES_PHASE_EVAL;
    int n = snprintf(out, NAME_BYTES, "%s%s", before, eval ? "eval/" : "");
    for (const char *c = series->name; *c; c++)
        n += snprintf(out + n, NAME_BYTES - (size_t)n,
                      utf8 || (unsigned char)*c < 0x80 ? "%c" : "%%%02X",
                      (unsigned char)*c);
    snprintf(out + n, NAME_BYTES - (size_t)n, ".npy");
}

/* Writes the header of an array, padded to 64 bytes. */
static void put_header(archive *a, const char *type, const char *shape)
{
    char head[256] = "\x93NUMPY\x01";
    char text[192];
    int n = snprintf(text, sizeof text,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     type, shape);
    size_t total = ((size_t)n + 11 + 63) / 64 * 64;
    head[7] = 0;
    head[8] = (char)(total - 10);
    head[9] = (char)((total - 10) >> 8);
    memset(head + 10, ' ', total - 10);
    memcpy(head + 10, text, (size_t)n);
    head[total - 1] = '\n';
    put_data(a, head, total);
}

static es_status put_values(archive *a, es_reader *reader,
                            const es_series *series, size_t n_head,
                            int64_t *steps, size_t n)
{
    char name[NAME_BYTES], shape[96];
    es_cursor *cursor = NULL;
    const float *values;
    size_t per_step = series->n_values;
    name_of(name, series, "");
    if (n > MEMBER_BYTES / sizeof *values / per_step - 64)
        return es_fail(ES_EUSAGE, "%.80s: NPZ is limited to 4 GiB", name);
    if (series->shape == ES_SHAPE_HEAD)
        snprintf(shape, sizeof shape, "%zu, %zu, %zu", n, per_step / n_head,
                 n_head);
    else if (series->shape == ES_SHAPE_LAYER)
        snprintf(shape, sizeof shape, "%zu, %zu", n, per_step);
    else
        snprintf(shape, sizeof shape, "%zu,", n);
    es_status status = begin_member(a, name);
    if (status == ES_OK) {
        put_header(a, "<f4", shape);
        status = es_cursor_open(&cursor, reader, series, ES_STEP_FIRST,
                                ES_STEP_LAST);
    }
    for (size_t i = 0; status == ES_OK && i < n && !ferror(a->out); i++) {
        status = es_cursor_next(cursor, &steps[i], &values);
        if (status == ES_OK)
            put_data(a, values, per_step * sizeof *values);
    }
    es_cursor_close(cursor);
    if (status == ES_DONE)
        status = es_fail(ES_EIO, "%s: %s: changed during the export: try again",
                         es_reader_path(reader), series->name);
    if (status == ES_OK)
        end_member(a);
    return status;
}

static es_status put_series(archive *a, es_reader *reader,
                            const es_series *series, size_t n_head)
{
    char name[NAME_BYTES], shape[32];
    int64_t count, *steps = NULL;
    es_status status = es_reader_count(reader, series, &count);
    if (status < 0 || count == 0)
        return status;
    size_t n = (size_t)count;
    if ((status = es_alloc(&steps, n, sizeof *steps, "the steps")) == ES_OK &&
        (status = put_values(a, reader, series, n_head, steps, n)) == ES_OK) {
        name_of(name, series, "steps/");
        snprintf(shape, sizeof shape, "%zu,", n);
        if ((status = begin_member(a, name)) == ES_OK) {
            put_header(a, "<i8", shape);
            put_data(a, steps, n * sizeof *steps);
            end_member(a);
        }
    }
    free(steps);
    return status;
}

/* --- attention maps --------------------------------------------------------*/

/* An array of attention maps of the same phase and size. Either all maps belong
   to heads, or all are means over the heads of a layer. */
typedef struct map_array {
    es_phase phase;
    bool of_heads;
    int64_t size;
    int64_t *steps; /* (n) */
    size_t n;
} map_array;

typedef struct map_arrays {
    const es_export_options *options;
    const es_run_info *info;
    map_array *list; /* (n) */
    size_t n;
    archive *to;
    size_t at;     /* index of the array being written */
    float *values; /* values of the current step in this array */
    int64_t step;  /* current step; ES_UNKNOWN before the first map */
} map_arrays;

static bool is_of(const map_array *array, const es_map *map)
{
    return array->phase == map->phase && array->size == map->size &&
           array->of_heads == (map->head != ES_MAP_MEAN);
}

static es_status survey_map(void *user, const es_map *map, const float *values)
{
    map_arrays *m = user;
    size_t i = 0;
    (void)values;
    if (!es_export_wants_map(m->options, map))
        return ES_OK;
    while (i < m->n && !is_of(&m->list[i], map))
        i++;
    es_status status;
    if (i == m->n) {
        if ((status = es_grow(&m->list, m->n + 1, sizeof *m->list,
                              "attention maps")) < 0)
            return status;
        m->list[m->n++] = (map_array){.phase = map->phase,
                                      .of_heads = map->head != ES_MAP_MEAN,
                                      .size = map->size};
    }
    map_array *array = &m->list[i];
    if (array->n && array->steps[array->n - 1] == map->step)
        return ES_OK;
    if ((status = es_grow(&array->steps, array->n + 1, sizeof *array->steps,
                          "attention maps")) == ES_OK)
        array->steps[array->n++] = map->step;
    return status;
}

/* Returns the number of values per step in the current array. */
static size_t n_of_step(const map_arrays *m)
{
    const map_array *array = &m->list[m->at];
    return (size_t)(m->info->n_layer * (array->of_heads ? m->info->n_head : 1) *
                    array->size * array->size);
}

static void end_step(map_arrays *m)
{
    const size_t n = n_of_step(m);
    if (m->step != ES_UNKNOWN)
        put_data(m->to, m->values, n * sizeof *m->values);
    for (size_t i = 0; i < n; i++)
        m->values[i] = es_missing();
}

static es_status put_map(void *user, const es_map *map, const float *values)
{
    map_arrays *m = user;
    const map_array *array = &m->list[m->at];
    const int64_t cells = map->size * map->size;
    if (!es_export_wants_map(m->options, map) || !is_of(array, map))
        return ES_OK;
    if (map->step != m->step)
        end_step(m);
    m->step = map->step;
    const int64_t at =
        array->of_heads ? map->layer * m->info->n_head + map->head : map->layer;
    if (values)
        memcpy(m->values + at * cells, values, (size_t)cells * sizeof *values);
    return ES_OK;
}

static es_status put_map_array(map_arrays *m, es_reader *reader, size_t run)
{
    const map_array *array = &m->list[m->at];
    const size_t n = n_of_step(m);
    char name[NAME_BYTES], heads[24] = "", shape[96];
    es_status status;
    snprintf(name, sizeof name, "%s" ES_EXPORT_MAPS "/%s_%lld.npy",
             array->phase == ES_PHASE_EVAL ? "eval/" : "",
             array->of_heads ? "head" : "layer", (long long)array->size);
    if (array->of_heads)
        snprintf(heads, sizeof heads, "%lld, ", (long long)m->info->n_head);
    snprintf(shape, sizeof shape, "%zu, %lld, %s%lld, %lld", array->n,
             (long long)m->info->n_layer, heads, (long long)array->size,
             (long long)array->size);
    if (n > MEMBER_BYTES / sizeof *m->values / array->n - 64)
        return es_fail(ES_EUSAGE, "%.80s: NPZ is limited to 4 GiB", name);
    if ((status = es_alloc(&m->values, n, sizeof *m->values,
                           "attention maps")) < 0 ||
        (status = begin_member(m->to, name)) < 0)
        return status;
    put_header(m->to, "<f4", shape);
    m->step = ES_UNKNOWN;
    /* As no map has been read yet, this only sets all values to missing. */
    end_step(m);
    if ((status = es_reader_maps(reader, run, put_map, m)) < 0)
        return status;
    end_step(m);
    end_member(m->to);
    char steps[NAME_BYTES + 8];
    snprintf(steps, sizeof steps, "steps/%s", name);
    snprintf(shape, sizeof shape, "%zu,", array->n);
    if ((status = begin_member(m->to, steps)) < 0)
        return status;
    put_header(m->to, "<i8", shape);
    put_data(m->to, array->steps, array->n * sizeof *array->steps);
    end_member(m->to);
    return ES_OK;
}

static es_status put_maps(archive *a, es_reader *reader, size_t run,
                          const es_export *e, const es_export_options *options)
{
    map_arrays m = {.options = options, .info = &e->info, .to = a};
    es_status status = es_reader_maps(reader, run, survey_map, &m);
    for (; status == ES_OK && m.at < m.n; m.at++) {
        status = put_map_array(&m, reader, run);
        free(m.values);
        m.values = NULL;
    }
    for (size_t i = 0; i < m.n; i++)
        free(m.list[i].steps);
    free(m.list);
    return status;
}

static es_status put_about(archive *a, const es_export *e)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory");
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_about_put(&json, &e->info);
    es_json_write_end(&json, "}\n");
    es_status status = fclose(stream) == 0
                           ? begin_member(a, "run.json")
                           : es_fail(ES_ENOMEM, "out of memory");
    if (status == ES_OK) {
        put_data(a, text, n);
        end_member(a);
    }
    free(text);
    return status;
}

es_status es_export_npz(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options)
{
    es_export e;
    archive a = {.out = out};
    es_status status = es_export_begin(&e, out, reader, run, options);
    if (status == ES_OK)
        status = put_about(&a, &e);
    for (size_t i = 0; status == ES_OK && i < e.n_columns && !ferror(out); i++)
        status =
            put_series(&a, reader, &e.columns[i].series, (size_t)e.info.n_head);
    if (status == ES_OK)
        status = put_maps(&a, reader, run, &e, options);
    if (status == ES_OK)
        status = end_archive(&a);
    free(a.members);
    es_export_end(&e);
    return status;
}
