/* Parses long CSV, whose header is step,layer,head,SERIES... Reads the file
   twice, first for the number of layers and heads and the shapes of the series,
   then for the values. Keeps one step in memory at a time. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/exchange/import_internal.h"

#include <string.h>
#include <strings.h>

enum {
    N_KEYS = 3, /* number of key columns, which are step, layer and head */
    MAX_COLUMNS = ES_MAX_TEXT_SERIES,
    MAX_STEP_VALUES = 1 << 24 /* maximum number of values per step, summed over
                                 all series (64 MiB) */
};

/* Value of column.shape_line if a comment declared the shape. */
#define ANNOUNCED SIZE_MAX

typedef struct column {
    es_text_series series;
    size_t shape_line; /* number of the line that determined the shape; 0 if the
                          shape is unknown */
    size_t index;      /* index of the series in the list passed to the sink */
    size_t offset, n;  /* index of the first value of this series in
                          table.values, and number of values */
    bool present;      /* true if the current step has a value */
} column;

typedef struct table {
    es_import *import;
    const char *file;
    char separator;
    size_t n_columns, n_rows;
    int64_t n_layer, n_head; /* number of layers and of heads: in the first
                                pass, the largest found so far; afterwards,
                                those of the run */

    int64_t step;
    bool open;
    float *values; /* values of all series at the current step, one series after
                      another */
    /* 1 if the value at the same index of `values` was read. */
    unsigned char *seen;
    column columns[MAX_COLUMNS];
} table;

/* Step, layer and head of a row, and the shape of series that these keys
   imply. */
typedef struct place {
    int64_t step, layer, head;
    es_shape shape;
} place;

/* Callbacks that one pass over the file applies to rows and cells. */
typedef struct pass {
    es_status (*row)(table *t, const es_cells *cells, const place *position);
    /* called for each cell that is not empty */
    es_status (*cell)(table *t, const es_cells *cells, const place *position,
                      column *target, const char *text);
} pass;

/* --- header ---------------------------------------------------------------*/

static es_status check_keys(es_cells *cells)
{
    static const char *const keys[N_KEYS] = {"step", "layer", "head"};
    for (int i = 0; i < N_KEYS; i++) {
        char *text;
        es_status status = es_cells_next(cells, &text);
        if (status < 0)
            return status;
        if (status == ES_DONE || strcasecmp(text, keys[i]) != 0)
            return es_cells_fail(
                cells,
                "the header of a long CSV must begin with step,layer,head");
    }
    return ES_OK;
}

static bool is_same(const es_text_series *a, const es_text_series *b)
{
    return a->phase == b->phase && strcmp(a->name, b->name) == 0;
}

/* Sets the shape and unit of a column if a comment before the header declares
   them. */
static void describe_column(column *target, es_about *about)
{
    for (size_t i = 0; i < about->n_series; i++) {
        es_text_series *said = &about->series[i];
        if (!is_same(said, &target->series))
            continue;
        target->series.shape = said->shape;
        target->shape_line = ANNOUNCED;
        free(target->series.unit);
        target->series.unit = said->unit;
        said->unit = NULL;
    }
}

static es_status add_column(table *t, const es_cells *cells, const char *text)
{
    if (t->n_columns == MAX_COLUMNS)
        return es_cells_fail(cells, "more than %d series", MAX_COLUMNS);
    column *target = &t->columns[t->n_columns];
    target->series.phase = t->import->options->phase;
    if (es_column_parse(&target->series.name, &target->series.phase, text) !=
        ES_OK)
        return es_cells_fail(cells, "%s", es_message());
    t->n_columns++; /* The table now owns the column. */
    for (size_t i = 0; i + 1 < t->n_columns; i++)
        if (is_same(&t->columns[i].series, &target->series))
            return es_cells_fail(cells, "'%.80s' is already column %zu", text,
                                 i + 1 + N_KEYS);
    describe_column(target, &t->import->about);
    return ES_OK;
}

static es_status read_header(table *t)
{
    es_line line;
    es_cells cells;
    char *text;
    es_status status = es_import_next(t->import, &line);
    if (status == ES_DONE)
        return es_fail(ES_EFORMAT, "%s: empty", t->file);
    if (status != ES_OK)
        return status;
    t->separator = es_cells_separator(&line);
    status = es_cells_begin(&cells, t->file, &line, t->separator);
    if (status == ES_OK)
        status = check_keys(&cells);
    while (status == ES_OK && (status = es_cells_next(&cells, &text)) == ES_OK)
        status = add_column(t, &cells, text);
    if (status != ES_DONE)
        return status;
    if (!t->n_columns)
        return es_fail(ES_EFORMAT,
                       "%s: line %zu: no series after step,layer,head", t->file,
                       line.number);
    return ES_OK;
}

/* --- rows -----------------------------------------------------------------*/

static es_status read_key(int64_t *out, es_cells *cells, int64_t high)
{
    char *text;
    es_status status = es_cells_next(cells, &text);
    if (status == ES_DONE)
        return es_cells_fail(
            cells,
            "the line ends before the columns step,layer,head are complete");
    *out = -1;
    if (status != ES_OK || (!*text && cells->column > 1))
        return status;
    return es_import_whole(out, cells, text, 0, high);
}

static es_status read_place(place *out, es_cells *cells)
{
    es_status status = read_key(&out->step, cells, INT64_MAX - 1);
    if (status == ES_OK)
        status = read_key(&out->layer, cells, ES_MAX_LAYERS - 1);
    if (status == ES_OK)
        status = read_key(&out->head, cells, ES_MAX_HEADS - 1);
    if (status == ES_OK && out->layer < 0 && out->head >= 0)
        return es_cells_fail(cells, "the row has a head but no layer");
    out->shape = out->head >= 0    ? ES_SHAPE_HEAD
                 : out->layer >= 0 ? ES_SHAPE_LAYER
                                   : ES_SHAPE_RUN;
    return status;
}

static es_status read_row(table *t, const es_line *line, const pass *doing)
{
    es_cells cells;
    place position = {0};
    char *text;
    es_status status = es_cells_begin(&cells, t->file, line, t->separator);
    if (status == ES_OK)
        status = read_place(&position, &cells);
    if (status == ES_OK)
        status = doing->row(t, &cells, &position);
    for (size_t i = 0; status == ES_OK && i < t->n_columns; i++) {
        status = es_cells_next(&cells, &text);
        if (status == ES_DONE)
            return es_cells_fail(
                &cells, "the line is too short: the header has %zu columns",
                t->n_columns + N_KEYS);
        if (status == ES_OK && *text)
            status = doing->cell(t, &cells, &position, &t->columns[i], text);
    }
    if (status != ES_OK)
        return status;
    status = es_cells_next(&cells, &text);
    if (status == ES_OK)
        return es_cells_fail(&cells,
                             "the line is too long: the header has %zu columns",
                             t->n_columns + N_KEYS);
    return status == ES_DONE ? ES_OK : status;
}

static es_status read_rows(table *t, const pass *doing)
{
    es_line line;
    es_status status;
    while ((status = es_import_next(t->import, &line)) == ES_OK) {
        status = read_row(t, &line, doing);
        if (status != ES_OK)
            return status;
    }
    return status == ES_DONE ? ES_OK : status;
}

/* --- first pass: L, H, shapes ---------------------------------------------*/

static es_status survey_row(table *t, const es_cells *cells,
                            const place *position)
{
    t->n_rows++;
    if (t->n_layer <= position->layer || t->n_head <= position->head)
        t->import->largest_line = cells->line;
    if (t->n_layer <= position->layer)
        t->n_layer = position->layer + 1;
    if (t->n_head <= position->head)
        t->n_head = position->head + 1;
    return ES_OK;
}

static es_status survey_cell(table *t, const es_cells *cells,
                             const place *position, column *target,
                             const char *text)
{
    (void)t;
    (void)text;
    if (!target->shape_line) {
        target->series.shape = position->shape;
        target->shape_line = cells->line;
    }
    if (target->series.shape == position->shape)
        return ES_OK;
    const char *name = target->series.name,
               *here = es_shape_name(position->shape);
    const char *there = es_shape_name(target->series.shape);
    if (target->shape_line == ANNOUNCED)
        return es_cells_fail(
            cells, "%.80s: has a value for a %s, but was declared for a %s",
            name, here, there);
    return es_cells_fail(
        cells, "%.80s: has a value for a %s, but line %zu has a value for a %s",
        name, here, target->shape_line, there);
}

/* Begins the run. A series without any value has no shape, and is skipped. */
static es_status begin_run(table *t)
{
    es_text_series list[MAX_COLUMNS];
    size_t n = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].shape_line) {
            t->columns[i].index = n;
            list[n++] = t->columns[i].series;
        }
    if (!n)
        return es_fail(ES_EFORMAT, "%s: no value below the header", t->file);
    es_status status = es_import_begin(t->import, t->n_layer ? t->n_layer : 1,
                                       t->n_head ? t->n_head : 1, list, n);
    t->n_layer = t->import->about.info.n_layer;
    t->n_head = t->import->about.info.n_head;
    return status;
}

static es_status lay_out(table *t)
{
    size_t total = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        column *c = &t->columns[i];
        c->offset = total;
        if (c->shape_line)
            c->n = es_shape_values(c->series.shape, t->n_layer, t->n_head);
        total += c->n;
        if (total > MAX_STEP_VALUES)
            return es_fail(ES_EFORMAT, "%s: more than %d values per step",
                           t->file, MAX_STEP_VALUES);
    }
    es_status status;
    if ((status = es_alloc(&t->values, total, sizeof *t->values, "a step")) <
            0 ||
        (status = es_alloc(&t->seen, total, 1, "a step")) < 0)
        return status;
    for (size_t i = 0; i < total; i++)
        t->values[i] = es_missing();
    return ES_OK;
}

/* --- second pass: values --------------------------------------------------*/

static es_status flush_step(table *t)
{
    es_status status = ES_OK;
    for (size_t i = 0; t->open && status == ES_OK && i < t->n_columns; i++) {
        column *c = &t->columns[i];
        if (!c->present)
            continue;
        float *values = t->values + c->offset;
        status = es_import_sample(t->import, c->index, t->step, values, c->n);
        c->present = false;
        memset(t->seen + c->offset, 0, c->n);
        for (size_t k = 0; k < c->n; k++)
            values[k] = es_missing();
    }
    return status;
}

static es_status value_row(table *t, const es_cells *cells,
                           const place *position)
{
    es_status status = ES_OK;
    if (t->open && position->step < t->step)
        return es_cells_fail(cells,
                             "step %lld comes after step %lld: sort the rows "
                             "by step",
                             (long long)position->step, (long long)t->step);
    if (t->open && position->step != t->step)
        status = flush_step(t);
    t->step = position->step;
    t->open = true;
    return status;
}

static es_status value_cell(table *t, const es_cells *cells,
                            const place *position, column *target,
                            const char *text)
{
    size_t index = 0;
    if (position->shape != ES_SHAPE_RUN)
        index = (size_t)position->layer;
    if (position->shape == ES_SHAPE_HEAD)
        index = index * (size_t)t->n_head + (size_t)position->head;
    /* The first pass checked the shape, layer and head of every cell, so the
       file has changed since then if one does not fit. */
    if (position->shape != target->series.shape || !target->n ||
        position->layer >= t->n_layer || position->head >= t->n_head)
        return es_cells_fail(cells, "the file was changed while it was read");
    index += target->offset;
    if (t->seen[index])
        return es_cells_fail(cells,
                             "%.80s already has a value here at step %lld",
                             target->series.name, (long long)position->step);
    t->seen[index] = 1;
    target->present = true;
    return es_import_number(&t->values[index], cells, text);
}

static es_status read_table(table *t)
{
    static const pass survey = {survey_row, survey_cell};
    static const pass values = {value_row, value_cell};
    es_line header;
    es_status status;
    if ((status = read_header(t)) < 0 || (status = read_rows(t, &survey)) < 0 ||
        (status = begin_run(t)) < 0 || (status = lay_out(t)) < 0 ||
        (status = es_line_reader_rewind(t->import->lines)) < 0 ||
        (status = es_import_next(t->import, &header)) != ES_OK ||
        (status = read_rows(t, &values)) < 0)
        return status;
    return flush_step(t);
}

es_status es_import_long(es_import *import)
{
    table *t;
    es_status status = es_alloc(&t, 1, sizeof *t, "a table");
    if (status < 0)
        return status;
    t->import = import;
    t->file = es_line_reader_name(import->lines);
    status = read_table(t);
    for (size_t i = 0; i < t->n_columns; i++) {
        free(t->columns[i].series.name);
        free(t->columns[i].series.unit);
    }
    free(t->values);
    free(t->seen);
    free(t);
    return status;
}
