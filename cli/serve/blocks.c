/* Reads series, reduces long series as the report page does, and
 * writes the series as binary blocks. */
#include "cli/serve/blocks.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"
#include "cli/report/report.h"
#include "store/crc32c.h"

#include <inttypes.h>
#include <string.h>

/* Maximum number of weights of attention maps in an answer (2 MB). */
enum { MAP_VALUES = 500000, ALIGNED = 8 };

/* The contents of a block that will be written. */
typedef struct block {
    const es_serve_place *run;
    const char *name;
    const es_report_series *series;
    const int64_t *steps; /* (n) */
    const float *values;  /* (n,n_values) */
    size_t n, n_values;
    const es_trace *curve; /* NULL: none */
    const char *mark;      /* NULL: none */
    bool continues;
    const char *error; /* NULL: none */
} block;

static void put_padding(FILE *out, size_t n)
{
    static const char zeros[ALIGNED];
    fwrite(zeros, 1, (ALIGNED - n % ALIGNED) % ALIGNED, out);
}

static void write_header(FILE *stream, const block *b)
{
    const es_report_series *s = b->series;
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_format(&json, "run", "%.*s", ES_SERVE_KEY, b->run->key);
    es_json_write_text(&json, "name", b->name);
    if (b->error)
        es_json_write_text(&json, "error", b->error);
    if (s) {
        es_json_write_text(&json, "phase", es_phase_name(s->series.phase));
        es_json_write_text(&json, "shape", es_shape_name(s->series.shape));
        es_json_write_text(&json, "unit", s->series.unit);
    }
    es_json_write_size(&json, "rows", s ? s->n_rows : 0);
    es_json_write_size(&json, "columns", s ? s->n_columns : 0);
    es_json_write_size(&json, "samples", s ? s->n_samples : 0);
    es_json_write_size(&json, "n", b->n);
    es_json_write_size(&json, "c", b->curve ? es_trace_n_points(b->curve) : 0);
    es_json_write_text(&json, "mark", b->mark);
    es_json_write_bool(&json, "continues", b->continues);
    es_json_write_end(&json, "}");
}

/* Writes the length of a header, the header, and spaces up to a multiple of 8
 * bytes. */
static es_status put_header(FILE *out, void (*write)(FILE *, const void *),
                            const void *about)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (stream)
        write(stream, about);
    if (!stream || fclose(stream) != 0)
        return es_fail(ES_ENOMEM, "out of memory for a series");
    const size_t whole =
        (n + sizeof(uint32_t) + ALIGNED - 1) / ALIGNED * ALIGNED;
    const uint32_t length = (uint32_t)(whole - sizeof length);
    fwrite(&length, sizeof length, 1, out);
    fwrite(text, 1, n, out);
    for (size_t i = n + sizeof length; i < whole; i++)
        fputc(' ', out);
    free(text);
    return ES_OK;
}

static void write_block_header(FILE *stream, const void *about)
{
    write_header(stream, about);
}

static es_status put_curve(FILE *out, const es_trace *trace, size_t n_lines)
{
    const size_t n = es_trace_n_points(trace);
    int64_t *steps = NULL;
    float *values = NULL;
    es_status status;
    if ((status = es_alloc(&steps, n, sizeof *steps, "curves")) < 0 ||
        (status = es_alloc(&values, n, sizeof *values, "curves")) < 0)
        goto done;
    es_trace_steps(trace, steps);
    fwrite(steps, sizeof *steps, n, out);
    for (size_t i = 0; i < n_lines; i++) {
        es_trace_line(trace, i, values);
        fwrite(values, sizeof *values, n, out);
    }
    put_padding(out, n * n_lines * sizeof *values);
done:
    free(steps);
    free(values);
    return status;
}

static es_status put_block(FILE *out, const block *b)
{
    const size_t n = b->n * b->n_values;
    es_status status = put_header(out, write_block_header, b);
    if (status < 0)
        return status;
    if (b->n) {
        fwrite(b->steps, sizeof *b->steps, b->n, out);
        fwrite(b->values, sizeof *b->values, n, out);
        put_padding(out, n * sizeof *b->values);
    }
    return b->curve ? put_curve(out, b->curve, b->series->n_rows) : ES_OK;
}

static es_status put_error(FILE *out, const es_serve_place *run,
                           const char *name)
{
    char reason[ES_MESSAGE_MAX];
    snprintf(reason, sizeof reason, "%s", es_message());
    return put_block(out, &(block){.run = run, .name = name, .error = reason});
}

/* --- series ---------------------------------------------------------------*/

/* Writes a mark, which identifies the sample at `step`: the step and a checksum
   of the values. */
static es_status make_mark(char out[ES_SERVE_MARK_MOST], es_reader *reader,
                           const es_series *series, int64_t step)
{
    float *values;
    int64_t found;
    const size_t n = series->n_values;
    es_status status = es_alloc(&values, n, sizeof *values, "a sample");
    if (status < 0)
        return status;
    status = es_reader_sample(reader, series, step, values, n, &found);
    if (status == ES_OK)
        snprintf(out, ES_SERVE_MARK_MOST, "%" PRId64 ":%08x", found,
                 es_crc32c(0, values, n * sizeof *values));
    free(values);
    return status;
}

/* A mark is text that identifies a sample of a series: its step, and a
 * checksum. Sets *step to the step in `mark`, and *continues to true if the
 * series still contains this sample unchanged. */
static es_status read_mark(bool *continues, int64_t *step, es_reader *reader,
                           const es_series *series, const char *mark)
{
    char now[ES_SERVE_MARK_MOST], *end;
    *continues = false;
    *step = strtoll(mark, &end, 10);
    if (end == mark || *end != ':' || *step < 0)
        return ES_OK;
    es_status status = make_mark(now, reader, series, *step);
    *continues = status == ES_OK && strcmp(now, mark) == 0;
    return status == ES_ENOTFOUND ? ES_OK : status;
}

/* Counts the samples from step `from` on. */
static es_status count_samples(size_t *out, es_reader *reader,
                               const es_series *series, int64_t from)
{
    es_cursor *cursor;
    int64_t step;
    const float *values;
    *out = 0;
    es_status status =
        es_cursor_open(&cursor, reader, series, from, series->last_step);
    if (status < 0)
        return status;
    while ((status = es_cursor_next(cursor, &step, &values)) == ES_OK)
        ++*out;
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status find_rows(es_report_series *s, es_reader *reader, size_t run)
{
    es_run_info info;
    es_status status = es_reader_run(reader, run, &info);
    if (status < 0)
        return status;
    s->n_rows = s->series.shape == ES_SHAPE_RUN ? 1 : (size_t)info.n_layer;
    s->n_columns = s->series.n_values / s->n_rows;
    return ES_OK;
}

/* Writes the samples of a series that follow the sample that `mark` identifies.
   If the mark is empty or its sample was replaced, writes all samples. */
static es_status put_series(FILE *out, es_reader *reader,
                            const es_serve_place *place, const char *name,
                            const es_series *series, const char *mark,
                            size_t n_values)
{
    const size_t run = place->number - 1;
    es_report_series s = {
        .series = *series, .name = (char *)(uintptr_t)name, .share = n_values};
    es_report_samples samples = {0};
    char newest[ES_SERVE_MARK_MOST];
    int64_t from = ES_STEP_FIRST, n_all, step;
    bool continues;
    es_status status = read_mark(&continues, &step, reader, series, mark);
    if (continues)
        from = step + 1;
    if (status < 0 || (status = find_rows(&s, reader, run)) < 0 ||
        (status = make_mark(newest, reader, series, series->last_step)) < 0 ||
        (status = es_reader_count(reader, series, &n_all)) < 0 ||
        (status = count_samples(&s.n_samples, reader, series, from)) < 0 ||
        (status = es_report_samples_read(&samples, reader, run, &s, from)) < 0)
        goto done;
    s.n_samples = (size_t)n_all;
    status = put_block(out, &(block){.run = place,
                                     .name = name,
                                     .series = &s,
                                     .steps = samples.thin->steps,
                                     .values = samples.thin->values,
                                     .n = samples.thin->n,
                                     .n_values = series->n_values,
                                     .curve = samples.trace,
                                     .mark = newest,
                                     .continues = continues});
done:
    es_report_samples_free(&samples);
    return status;
}

/* Finds the series in the phase that the request names. If it names none, finds
 * the series in the phase of the run's summary, else in the other phase; a
 * series with one value per step is found in both phases. */
static es_status find_series(es_series found[2], size_t *n, es_reader *reader,
                             const es_serve_request *request,
                             const es_serve_place *place, const char *name)
{
    const bool any = request->phase < 0;
    int phase = any ? place->phase : request->phase;
    es_status status = ES_OK;
    *n = 0;
    for (int i = 0; i < (any ? 2 : 1); i++) {
        es_series series;
        status = es_reader_find(reader, place->number - 1, name,
                                (es_phase)phase, &series);
        phase = phase == ES_PHASE_TRAIN ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
        if (status < 0 && status != ES_ENOTFOUND)
            return status;
        if (status < 0 || series.last_step == ES_UNKNOWN)
            continue;
        if (*n && series.shape != ES_SHAPE_RUN)
            break;
        found[(*n)++] = series;
    }
    if (*n)
        return ES_OK;
    return status < 0 ? status
                      : es_fail(ES_ENOTFOUND, "%s: no sample of %s yet",
                                es_reader_path(reader), name);
}

/* --- attention maps -------------------------------------------------------*/

typedef struct map_block {
    const es_serve_place *run;
    const es_report_maps *maps;
} map_block;

static void write_map_header(FILE *stream, const void *about)
{
    const map_block *b = about;
    const es_report_maps *maps = b->maps;
    const size_t size = (size_t)maps->first.size;
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_format(&json, "run", "%.*s", ES_SERVE_KEY, b->run->key);
    es_json_write_text(&json, "phase", es_phase_name(maps->first.phase));
    es_json_write_size(&json, "layers", maps->n_layer);
    es_json_write_size(&json, "size", size);
    es_json_write_integer(&json, "ctx", maps->first.n_ctx);
    es_json_write_size(&json, "recorded", maps->n_recorded);
    es_json_write_size(&json, "n", maps->n_steps);
    es_json_write_size(&json, "rows", maps->n_layer * size);
    es_json_write_size(&json, "columns", size);
    es_json_write_size(&json, "c", 0);
    es_json_write_end(&json, "}");
}

static es_status put_maps(FILE *out, es_reader *reader,
                          const es_serve_place *place)
{
    es_report_maps maps = {0};
    es_run_info info;
    const size_t run = place->number - 1;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0 ||
        (status = es_report_maps_read(&maps, reader, run, (size_t)info.n_layer,
                                      MAP_VALUES)) < 0 ||
        (status = put_header(out, write_map_header,
                             &(map_block){.run = place, .maps = &maps})) < 0)
        goto done;
    const size_t n = maps.n_steps * maps.n_layer *
                     (size_t)(maps.first.size * maps.first.size);
    if (maps.n_steps) {
        fwrite(maps.steps, sizeof *maps.steps, maps.n_steps, out);
        fwrite(maps.values, sizeof *maps.values, n, out);
        put_padding(out, n * sizeof *maps.values);
    }
done:
    es_report_maps_free(&maps);
    return status;
}

/* --- a request ------------------------------------------------------------*/

/* Writes the blocks of one series of a run. *turn is the index of the next
   block in the answer. */
static es_status put_name(FILE *out, es_reader *reader,
                          const es_serve_request *request,
                          const es_serve_place *place, const char *name,
                          size_t *turn)
{
    es_series found[2];
    size_t n;
    es_status status = find_series(found, &n, reader, request, place, name);
    if (status < 0) {
        ++*turn;
        return put_error(out, place, name);
    }
    for (size_t i = 0; i < n; i++, ++*turn) {
        const char *mark =
            *turn < request->n_marks ? request->marks[*turn] : "";
        status = put_series(out, reader, place, name, &found[i], mark,
                            request->n_values);
        if (status < 0 && (status = put_error(out, place, name)) < 0)
            return status;
    }
    return ES_OK;
}

es_status es_serve_write_blocks(FILE *out, const es_serve_request *request)
{
    es_status status = ES_OK;
    size_t turn = 0;
    for (size_t i = 0; i < request->n_runs && status == ES_OK; i++) {
        const es_serve_place *place = &request->runs[i];
        es_reader *reader = NULL;
        es_status opened = es_reader_open_held(&reader, place->path);
        if (opened == ES_OK && place->number > es_reader_n_runs(reader))
            opened = es_fail(ES_ENOTFOUND, "%s: has no run %zu any more",
                             place->path, place->number);
        if (request->ask == ES_SERVE_MAPS) {
            status = opened == ES_OK ? put_maps(out, reader, place) : opened;
        } else {
            for (size_t k = 0; k < request->n_names && status == ES_OK; k++)
                status = opened == ES_OK
                             ? put_name(out, reader, request, place,
                                        request->names[k], &turn)
                             : put_error(out, place, request->names[k]);
        }
        es_reader_close(reader);
    }
    return status;
}
