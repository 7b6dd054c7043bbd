#include "cli/exchange/export.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/about.h"
#include "cli/output/print.h"

#include <string.h>

typedef struct column {
    es_series series; /* strings are the reader's */
    float *values;    /* (series.n_values) of the step at hand; NULL before
                         the first sample */
    bool present;     /* it has a sample there */
} column;

typedef struct export
{
    FILE *out;
    es_run_info info;
    column *columns; /* (n_columns) what is wanted */
    size_t n_columns;
}
export;

/* --- what is wanted -------------------------------------------------------*/

static bool is_wanted(const es_export_options *options, const es_series *series)
{
    if (options->phase != ES_PHASE_ANY &&
        (options->phase == ES_PHASE_ONLY_EVAL) !=
            (series->phase == ES_PHASE_EVAL))
        return false;
    for (size_t i = 0; i < options->n_names; i++)
        if (strcmp(options->names[i], series->name) == 0)
            return true;
    return options->n_names == 0;
}

/* The message of a name that no series has is the reader's. */
static es_status check_names(es_reader *reader, size_t run,
                             const es_export_options *options)
{
    es_series found;
    for (size_t i = 0; i < options->n_names; i++) {
        const char *name = options->names[i];
        bool eval = options->phase == ES_PHASE_ONLY_EVAL;
        es_status status = es_reader_find(
            reader, run, name, eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN, &found);
        if (status == ES_ENOTFOUND && options->phase == ES_PHASE_ANY)
            status = es_reader_find(reader, run, name, ES_PHASE_EVAL, &found);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

static void finish(export *e)
{
    for (size_t i = 0; i < e->n_columns; i++)
        free(e->columns[i].values);
    free(e->columns);
}

static es_status start(export *e, FILE *out, es_reader *reader, size_t run,
                       const es_export_options *options)
{
    *e = (export){.out = out};
    es_status status = check_names(reader, run, options);
    if (status == ES_OK)
        status = es_reader_run(reader, run, &e->info);
    if (status != ES_OK)
        return status;
    size_t n = es_reader_n_series(reader, run);
    e->columns = es_resize(NULL, n, sizeof *e->columns);
    if (!e->columns)
        return es_fail(ES_ENOMEM, "out of memory for %zu series", n);
    for (size_t i = 0; status == ES_OK && i < n; i++) {
        es_series series;
        status = es_reader_series(reader, run, i, &series);
        if (status == ES_OK && is_wanted(options, &series))
            e->columns[e->n_columns++] = (column){.series = series};
    }
    return status;
}

static column *find(export *e, const es_series *series)
{
    for (size_t i = 0; i < e->n_columns; i++)
        if (e->columns[i].series.id == series->id)
            return &e->columns[i];
    return NULL;
}

/* --- long CSV -------------------------------------------------------------*/

static void print_head(const export *e)
{
    fputs("# entropy-scan " ES_VERSION " export. Empty cell, no sample. "
          "NA, missing.\n",
          e->out);
    es_about_print(e->out, &e->info);
    for (size_t i = 0; i < e->n_columns; i++)
        es_about_print_series(e->out, &e->columns[i].series);
    fputs("step,layer,head", e->out);
    for (size_t i = 0; i < e->n_columns; i++) {
        fputc(',', e->out);
        es_column_print(e->out, e->columns[i].series.name,
                        e->columns[i].series.phase);
    }
    fputc('\n', e->out);
}

static void print_cell(FILE *out, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    fputs(es_is_missing(value) ? "NA" : es_float_print(text, value), out);
}

/* One row: the values at `index` of all series of a shape. */
static void print_row(const export *e, int64_t step, es_shape shape,
                      size_t index)
{
    size_t n_head = (size_t)e->info.n_head;
    fprintf(e->out, "%lld,", (long long)step);
    if (shape == ES_SHAPE_LAYER)
        fprintf(e->out, "%zu", index);
    else if (shape == ES_SHAPE_HEAD)
        fprintf(e->out, "%zu", index / n_head);
    fputc(',', e->out);
    if (shape == ES_SHAPE_HEAD)
        fprintf(e->out, "%zu", index % n_head);
    for (size_t i = 0; i < e->n_columns; i++) {
        const column *c = &e->columns[i];
        fputc(',', e->out);
        if (c->present && c->series.shape == shape)
            print_cell(e->out, c->values[index]);
    }
    fputc('\n', e->out);
}

static void print_step(export *e, int64_t step)
{
    for (int shape = ES_SHAPE_RUN; shape <= ES_SHAPE_HEAD; shape++) {
        size_t n = 0;
        for (size_t i = 0; i < e->n_columns; i++)
            if (e->columns[i].present &&
                (int)e->columns[i].series.shape == shape)
                n = e->columns[i].series.n_values;
        for (size_t i = 0; i < n; i++)
            print_row(e, step, (es_shape)shape, i);
    }
    for (size_t i = 0; i < e->n_columns; i++)
        e->columns[i].present = false;
}

static es_status keep(column *to, const float *values)
{
    size_t n = to->series.n_values;
    if (!to->values)
        to->values = es_resize(NULL, n, sizeof *values);
    if (!to->values)
        return es_fail(ES_ENOMEM, "out of memory for series %s",
                       to->series.name);
    memcpy(to->values, values, n * sizeof *values);
    to->present = true;
    return ES_OK;
}

static es_status print_samples(export *e, es_cursor *cursor)
{
    es_status status;
    int64_t step, open_step = 0;
    const float *values;
    es_series series;
    bool open = false;
    while ((status = es_cursor_next_of_run(cursor, &step, &values, &series)) ==
           ES_OK) {
        column *to = find(e, &series);
        if (!to)
            continue;
        if (open && step != open_step)
            print_step(e, open_step);
        open = true;
        open_step = step;
        status = keep(to, values);
        if (status != ES_OK || ferror(e->out))
            return status;
    }
    if (open)
        print_step(e, open_step);
    return status < 0 ? status : ES_OK;
}

es_status es_export_csv(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options)
{
    export e;
    es_cursor *cursor = NULL;
    es_status status = start(&e, out, reader, run, options);
    if (status == ES_OK)
        status = es_cursor_open_run(&cursor, reader, run);
    if (status == ES_OK) {
        print_head(&e);
        status = print_samples(&e, cursor);
    }
    es_cursor_close(cursor);
    finish(&e);
    return status;
}

/* --- JSON lines -----------------------------------------------------------*/

static void print_number(FILE *out, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (es_is_missing(value))
        fputs("null", out);
    else
        fprintf(out, isfinite(value) ? "%s" : "\"%s\"",
                es_float_print(text, value));
}

/* values (n_rows,n_columns); dimensions: how many brackets deep. */
static void print_values(FILE *out, const float *values,
                         const es_series *series, size_t n_head)
{
    size_t row = series->shape == ES_SHAPE_HEAD ? n_head : series->n_values;
    const char *open = series->shape == ES_SHAPE_HEAD    ? "[["
                       : series->shape == ES_SHAPE_LAYER ? "["
                                                         : "";
    fputs(open, out);
    for (size_t i = 0; i < series->n_values; i++) {
        if (i)
            fputs(i % row ? "," : "],[", out);
        print_number(out, values[i]);
    }
    fputs(*open ? open[1] ? "]]" : "]" : "", out);
}

static void print_about(const export *e)
{
    fputs("{\"run\":{", e->out);
    es_about_print_json(e->out, &e->info);
    fputs("},\"series\":[", e->out);
    for (size_t i = 0; i < e->n_columns; i++) {
        const es_series *series = &e->columns[i].series;
        fputs(i ? ",{\"name\":" : "{\"name\":", e->out);
        es_print_json(e->out, series->name);
        fprintf(e->out, ",\"phase\":\"%s\",\"shape\":\"%s\",\"unit\":",
                es_phase_name(series->phase), es_shape_name(series->shape));
        es_print_json(e->out, series->unit);
        fputc('}', e->out);
    }
    fputs("]}\n", e->out);
}

static void print_sample(const export *e, int64_t step, const float *values,
                         const es_series *series)
{
    fputs("{\"uuid\":", e->out);
    es_print_json(e->out, e->info.uuid);
    fprintf(e->out, ",\"step\":%lld,\"series\":", (long long)step);
    es_print_json(e->out, series->name);
    fprintf(e->out,
            ",\"phase\":\"%s\",\"value\":", es_phase_name(series->phase));
    print_values(e->out, values, series, (size_t)e->info.n_head);
    fputs("}\n", e->out);
}

es_status es_export_jsonl(FILE *out, es_reader *reader, size_t run,
                          const es_export_options *options)
{
    export e;
    es_cursor *cursor = NULL;
    int64_t step;
    const float *values;
    es_series series;
    es_status status = start(&e, out, reader, run, options);
    if (status == ES_OK)
        status = es_cursor_open_run(&cursor, reader, run);
    if (status == ES_OK)
        print_about(&e);
    while (status == ES_OK && !ferror(out)) {
        status = es_cursor_next_of_run(cursor, &step, &values, &series);
        if (status == ES_OK && find(&e, &series))
            print_sample(&e, step, values, &series);
    }
    es_cursor_close(cursor);
    finish(&e);
    return status < 0 ? status : ES_OK;
}
