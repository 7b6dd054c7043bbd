#include "cli/compare/sheet.h"

#include "analyzer/base/checked.h"
#include "cli/output/display.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

void es_sheet_free(es_sheet *sheet)
{
    for (size_t i = 0; i < sheet->n_columns; i++)
        free((char *)(uintptr_t)sheet->columns[i].title);
    for (size_t i = 0; i < sheet->n_cells; i++)
        free(sheet->cells[i]);
    free(sheet->columns);
    free(sheet->cells);
}

static void fail(es_sheet *sheet)
{
    if (sheet->status == ES_OK)
        sheet->status = es_fail(ES_ENOMEM, "out of memory for a table");
}

static void add_column(es_sheet *sheet, const char *title, bool right)
{
    es_grid_column *columns =
        es_resize(sheet->columns, sheet->n_columns + 1, sizeof *columns);
    char *safe = es_display_escape(title, ES_ESCAPE_TERMINAL);
    if (columns)
        sheet->columns = columns;
    if (!columns || !safe) {
        free(safe);
        fail(sheet);
        return;
    }
    columns[sheet->n_columns++] =
        (es_grid_column){.title = safe, .right = right, .shortened = !right};
}

void es_sheet_number_column(es_sheet *sheet, const char *title)
{
    add_column(sheet, title, true);
}

void es_sheet_text_column(es_sheet *sheet, const char *title)
{
    add_column(sheet, title, false);
}

/* Room for the next cell; NULL once something failed. */
static char **next_cell(es_sheet *sheet)
{
    if (sheet->n_cells == sheet->capacity && sheet->status == ES_OK) {
        size_t capacity = sheet->capacity ? 2 * sheet->capacity : 256;
        char **grown = es_resize(sheet->cells, capacity, sizeof *grown);
        if (grown) {
            sheet->cells = grown;
            sheet->capacity = capacity;
        } else {
            fail(sheet);
        }
    }
    return sheet->status == ES_OK ? &sheet->cells[sheet->n_cells] : NULL;
}

static void take(es_sheet *sheet, es_status status)
{
    if (status == ES_OK)
        sheet->n_cells++;
    else if (sheet->status == ES_OK)
        sheet->status = status;
}

void es_sheet_put(es_sheet *sheet, const char *fmt, ...)
{
    char **cell = next_cell(sheet);
    va_list args;
    if (!cell)
        return;
    va_start(args, fmt);
    int n = vasprintf(cell, fmt, args);
    va_end(args);
    if (n < 0)
        fail(sheet);
    else
        sheet->n_cells++;
}

void es_sheet_put_name(es_sheet *sheet, const char *name)
{
    char **cell = next_cell(sheet);
    if (cell)
        take(sheet, es_cell_name(cell, name));
}

void es_sheet_put_number(es_sheet *sheet, double value)
{
    char **cell = next_cell(sheet);
    if (cell)
        take(sheet, es_cell_number(cell, value));
}

void es_sheet_put_measured(es_sheet *sheet, float value)
{
    char **cell = next_cell(sheet);
    if (cell)
        take(sheet, es_cell_measured(cell, value));
}

void es_sheet_put_share(es_sheet *sheet, const es_bands *bands, int band)
{
    char **cell = next_cell(sheet);
    if (cell)
        take(sheet, es_cell_share(cell, bands->counts[band], bands->n_heads));
}

void es_sheet_put_step(es_sheet *sheet, int64_t step)
{
    if (step == ES_UNKNOWN)
        es_sheet_put(sheet, "-");
    else
        es_sheet_put(sheet, "%" PRId64, step);
}

/* The rows, to be freed; NULL after a failure. */
static es_grid_row *rows_of(es_sheet *sheet, size_t *n)
{
    es_grid_row *rows = NULL;
    *n = sheet->n_columns ? sheet->n_cells / sheet->n_columns : 0;
    if (sheet->status == ES_OK && !(rows = es_resize(NULL, *n, sizeof *rows)))
        fail(sheet);
    for (size_t i = 0; rows && i < *n; i++)
        rows[i] = (es_grid_row){.cells = sheet->cells + i * sheet->n_columns};
    return rows;
}

size_t es_sheet_width(es_sheet *sheet, size_t shortest)
{
    size_t n;
    es_grid_row *rows = rows_of(sheet, &n);
    if (!rows)
        return 0;
    size_t width =
        es_grid_width(sheet->columns, sheet->n_columns, rows, n, shortest);
    free(rows);
    return width;
}

es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options)
{
    size_t n;
    es_grid_row *rows = rows_of(sheet, &n);
    if (!rows)
        return sheet->status;
    es_grid_print(stream, sheet->columns, sheet->n_columns, rows, n, options);
    free(rows);
    return ES_OK;
}
