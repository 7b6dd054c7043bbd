/* Parses a matrix, which has one text line per layer with one number per head.
   The matrix contains the values of one series at one step. */
#include "analyzer/base/checked.h"
#include "cli/exchange/import_internal.h"

#include <string.h>

typedef struct matrix {
    float *values; /* numbers of the complete rows (n_rows, n_columns), followed
                      by those of the current row */
    size_t n, capacity, n_rows, n_columns;
    char separator;
} matrix;

static es_status append_value(matrix *m, const es_cells *cells, float value)
{
    if (m->n == ES_MAX_VALUES || cells->column > ES_MAX_HEADS)
        return es_cells_fail(cells, "more than %d heads, or %d values in total",
                             ES_MAX_HEADS, ES_MAX_VALUES);
    if (m->n == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 256;
        es_status status =
            es_grow(&m->values, capacity, sizeof *m->values, "a matrix");
        if (status < 0)
            return status;
        m->capacity = capacity;
    }
    m->values[m->n++] = value;
    return ES_OK;
}

static es_status read_row(matrix *m, const char *file, const es_line *line)
{
    es_cells cells;
    char *text;
    es_status status = es_cells_begin(&cells, file, line, m->separator);
    while (status == ES_OK &&
           (status = es_cells_next(&cells, &text)) == ES_OK) {
        float value;
        if (m->n_rows && cells.column > m->n_columns)
            return es_cells_fail(
                &cells, "the row is too long: the rows above have %zu numbers",
                m->n_columns);
        if (!m->n && !*text)
            return es_cells_fail(
                &cells, "the first cell is empty: a matrix has no header and "
                        "no index (write NA for a missing number)");
        status = es_import_number(&value, &cells, text);
        if (status == ES_OK)
            status = append_value(m, &cells, value);
    }
    if (status != ES_DONE)
        return status;
    if (m->n_rows && cells.column < m->n_columns) {
        cells.column++;
        return es_cells_fail(&cells,
                             "a number is missing: the rows above have %zu",
                             m->n_columns);
    }
    m->n_columns = cells.column;
    m->n_rows++;
    return ES_OK;
}

/* Returns true if the first row is 0,1,2,..., which table libraries write as a
   header. */
static bool has_header(const matrix *m)
{
    if (m->n_rows < 2 || m->n_columns < 3)
        return false;
    for (size_t i = 0; i < m->n_columns; i++)
        if (!(m->values[i] == (float)i))
            return false;
    return true;
}

static es_status read_all(es_import *import, matrix *m)
{
    es_line line;
    es_status status;
    const char *file = es_line_reader_name(import->lines);
    while ((status = es_import_next(import, &line)) == ES_OK) {
        if (!m->n_rows)
            m->separator = es_cells_separator(&line);
        if (m->n_rows == ES_MAX_LAYERS)
            return es_fail(ES_EFORMAT, "%s: line %zu: more than %d layers",
                           file, line.number, ES_MAX_LAYERS);
        status = read_row(m, file, &line);
        if (status != ES_OK)
            return status;
    }
    if (status < 0)
        return status;
    if (!m->n_rows)
        return es_fail(ES_EFORMAT, "%s: empty", file);
    if (has_header(m))
        return es_fail(ES_EFORMAT,
                       "%s: the first line is 0, 1, 2, ...: remove the header, "
                       "which a matrix must not have",
                       file);
    return ES_OK;
}

static es_status hand_on(es_import *import, const matrix *m)
{
    const es_import_options *options = import->options;
    const es_run_info *info = &import->about.info;
    es_text_series series = {.phase = options->phase, .shape = ES_SHAPE_HEAD};
    es_status status = es_copy_text(&series.name, options->series);
    if (status == ES_OK)
        status = es_import_begin(import, (int64_t)m->n_rows,
                                 (int64_t)m->n_columns, &series, 1);
    free(series.name);
    if (status != ES_OK)
        return status;
    if (info->n_layer != (int64_t)m->n_rows ||
        info->n_head != (int64_t)m->n_columns)
        return es_fail(ES_EFORMAT,
                       "%s: %zu lines of %zu numbers, but L = %lld, H = %lld "
                       "were declared",
                       es_line_reader_name(import->lines), m->n_rows,
                       m->n_columns, (long long)info->n_layer,
                       (long long)info->n_head);
    return es_import_sample(import, 0, options->step, m->values, m->n);
}

es_status es_import_matrix(es_import *import)
{
    matrix m = {0};
    es_status status = read_all(import, &m);
    if (status == ES_OK)
        status = hand_on(import, &m);
    free(m.values);
    return status;
}
