/* Tables put together cell by cell, for the tables of a comparison. */
#include "cli/compare/sheet.h"

#include "analyzer/base/checked.h"
#include "cli/output/display.h"
#include "store/run.h"
#include <inttypes.h>
#include <stdarg.h>
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

void es_sheet_begin_row(es_sheet *sheet)
{
    sheet->n_rows++;
}

static es_status add_column(es_sheet *sheet, const char *title, bool right)
{
    es_status status = es_grow(&sheet->columns, sheet->n_columns + 1,
                               sizeof *sheet->columns, "a table");
    char *safe =
        status < 0 ? NULL : es_display_escape(title, ES_ESCAPE_TERMINAL);
    if (!safe)
        return ES_ENOMEM;
    sheet->columns[sheet->n_columns++] =
        (es_grid_column){.title = safe, .right = right, .shortened = !right};
    return ES_OK;
}

/* Where the next cell goes; NULL once something failed. */
static char **next_cell(es_sheet *sheet, const char *title, bool right)
{
    if (sheet->status == ES_OK && sheet->n_rows == 1)
        sheet->status = add_column(sheet, title, right);
    if (sheet->status == ES_OK && sheet->n_cells == sheet->capacity) {
        size_t capacity = sheet->capacity ? 2 * sheet->capacity : 256;
        sheet->status =
            es_grow(&sheet->cells, capacity, sizeof *sheet->cells, "a table");
        if (sheet->status == ES_OK)
            sheet->capacity = capacity;
    }
    return sheet->status == ES_OK ? &sheet->cells[sheet->n_cells] : NULL;
}

/* Counts the cell, once it was made. */
static void end_cell(es_sheet *sheet, es_status status)
{
    sheet->status = status;
    sheet->n_cells += status == ES_OK;
}

static void put(es_sheet *sheet, const char *title, bool right, const char *fmt,
                va_list args)
{
    char **cell = next_cell(sheet, title, right);
    if (cell)
        end_cell(sheet, vasprintf(cell, fmt, args) >= 0
                            ? ES_OK
                            : es_fail(ES_ENOMEM, "out of memory for a table"));
}

void es_sheet_put(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put(sheet, title, true, fmt, args);
    va_end(args);
}

void es_sheet_put_text(es_sheet *sheet, const char *title, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put(sheet, title, false, fmt, args);
    va_end(args);
}

void es_sheet_put_name(es_sheet *sheet, const char *title, const char *name)
{
    char **cell = next_cell(sheet, title, false);
    if (cell)
        end_cell(sheet, es_cell_name(cell, name));
}

void es_sheet_put_measured(es_sheet *sheet, const char *title, float value)
{
    char **cell = next_cell(sheet, title, true);
    if (cell)
        end_cell(sheet, es_cell_measured(cell, value));
}

void es_sheet_put_share(es_sheet *sheet, const char *title, size_t n,
                        size_t n_all)
{
    char **cell = next_cell(sheet, title, true);
    if (cell)
        end_cell(sheet, es_cell_share(cell, n, n_all));
}

void es_sheet_put_step(es_sheet *sheet, const char *title, int64_t step)
{
    if (step == ES_UNKNOWN)
        es_sheet_put(sheet, title, "-");
    else
        es_sheet_put(sheet, title, "%" PRId64, step);
}

/* The rows, to be freed; NULL after a failure. */
static es_grid_row *rows_of(es_sheet *sheet)
{
    es_grid_row *rows = NULL;
    if (sheet->status == ES_OK)
        sheet->status = es_alloc(&rows, sheet->n_rows, sizeof *rows, "a table");
    for (size_t i = 0; rows && i < sheet->n_rows; i++)
        rows[i].cells = sheet->cells + i * sheet->n_columns;
    return rows;
}

size_t es_sheet_width(es_sheet *sheet, size_t shortest)
{
    es_grid_row *rows = rows_of(sheet);
    size_t width = rows ? es_grid_width(sheet->columns, sheet->n_columns, rows,
                                        sheet->n_rows, shortest)
                        : 0;
    free(rows);
    return width;
}

es_status es_sheet_print(es_sheet *sheet, FILE *stream,
                         const es_table_options *options)
{
    es_grid_row *rows = rows_of(sheet);
    if (rows)
        es_grid_print(stream, sheet->columns, sheet->n_columns, rows,
                      sheet->n_rows, options);
    free(rows);
    return sheet->status;
}
